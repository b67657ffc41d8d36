// Writes src/frames.ts from the schemas; with --check, says whether it is current.

import { readFile, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";

const schema = JSON.parse(
  await readFile(new URL("../../../docs/contract/frames.schema.json", import.meta.url), "utf8"),
);
const file = new URL("../src/frames.ts", import.meta.url);

const types = await compile(schema, "Frames", {
  additionalProperties: false,
  bannerComment: "// Generated from frames.schema.json by `npm run types`.",
  ignoreMinAndMaxItems: true,
});

if (process.argv.includes("--check")) {
  const found = await readFile(file, "utf8").catch(() => "");
  if (found !== types) {
    console.error("src/frames.ts is not what the schemas say any more: `npm run types`");
    process.exitCode = 1;
  }
} else {
  await writeFile(file, types);
}
