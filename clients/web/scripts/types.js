// Writes src/frames.ts from the schema: types, and guards for the server's frames. The limits are in src/limits.ts, so
// that a bundler writes each as a number where it is used. With --check, fails if a file is not current.

import { readFile, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";
import { guards, results } from "./guards.js";

const schema = JSON.parse(
  await readFile(new URL("../../../docs/contract/frames.schema.json", import.meta.url), "utf8"),
);

// A guard accepts an error code that this version does not know.
const { ErrorCode } = schema.definitions;
const codes = ErrorCode.oneOf.map((code) => JSON.stringify(code.const));
schema.definitions.ErrorCode = {
  description: ErrorCode.description,
  type: "string",
  tsType: [...codes, "(string & {})"].join(" | "),
};

const types = await compile(structuredClone(schema), "Frames", {
  additionalProperties: false,
  bannerComment: "// Generated from frames.schema.json by `npm run types`.",
  ignoreMinAndMaxItems: true,
});
const limits = Object.entries(schema.limits).map(([name, value]) => `export const ${name} = ${value};\n`);
const texts = {
  frames: `${types}
/** What the server allows. */
export * as limits from "./limits.ts";

${guards(schema)}
${results(schema)}`,
  limits: `// Generated from frames.schema.json by \`npm run types\`.\n\n${limits.join("")}`,
};

for (const [name, text] of Object.entries(texts)) {
  const file = new URL(`../src/${name}.ts`, import.meta.url);
  if (!process.argv.includes("--check")) {
    await writeFile(file, text);
  } else if ((await readFile(file, "utf8").catch(() => "")) !== text) {
    console.error(`src/${name}.ts is out of date: \`npm run types\``);
    process.exitCode = 1;
  }
}
