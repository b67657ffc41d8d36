import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

it("the README shows the example that is type-checked", () => {
  const read = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), "utf8");
  expect(read("README.md")).toContain(`\`\`\`ts\n${read("examples/browser.ts")}\`\`\``);
});
