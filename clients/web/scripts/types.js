// Writes src/frames.ts from the schema: types, limits, and guards for the server's frames. With --check, fails if the
// file is not current.

import { readFile, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";
import { guards, results } from "./guards.js";

const schema = JSON.parse(
  await readFile(new URL("../../../docs/contract/frames.schema.json", import.meta.url), "utf8"),
);
const file = new URL("../src/frames.ts", import.meta.url);

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
const limits = Object.entries(schema.limits).map(([name, value]) => `  ${name}: ${value},\n`);
const text = `${types}
/** What the server allows. */
export const limits = {\n${limits.join("")}} as const;

${guards(schema)}
${results(schema)}`;

if (process.argv.includes("--check")) {
  const found = await readFile(file, "utf8").catch(() => "");
  if (found !== text) {
    console.error("src/frames.ts is out of date: `npm run types`");
    process.exitCode = 1;
  }
} else {
  await writeFile(file, text);
}
