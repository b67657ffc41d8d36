import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

it.each(["browser", "timeline"])("the README shows the example %s as it is type-checked", (name) => {
  const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8");
  expect(read("README.md")).toContain(`\`\`\`ts\n${read(`examples/${name}.ts`)}\`\`\``);
});
