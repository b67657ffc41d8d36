// Validates asyncapi.yaml with AsyncAPI's own parser, which `asyncapi validate` calls. (The CLI around the parser needs
// a thousand more packages.)

import { fileURLToPath } from "node:url";
import { fromFile, Parser } from "@asyncapi/parser";

const path = fileURLToPath(new URL("../../../docs/contract/asyncapi.yaml", import.meta.url));
const { document, diagnostics } = await fromFile(new Parser(), path).parse();

for (const { code, message, path } of diagnostics) {
  console.error(`${path.join(".")}: ${message} (${code})`);
}
if (!document || diagnostics.length > 0) {
  process.exit(1);
}
const operations = document.allOperations().all().length;
console.log(
  `asyncapi.yaml: ${operations} operations, ${document.allMessages().all().length} messages, all as the specification says`,
);
