import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

it.each([
  ["README.md", "browser"],
  ["../../README.md", "quickstart"],
])("%s shows the example %s as it is type-checked", (page, name) => {
  const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8");
  expect(read(page)).toContain(`\`\`\`ts\n${read(`examples/${name}.ts`)}\`\`\``);
});
