import { OptionDefaults } from "typedoc";

export default {
  entryPoints: ["../src/index.ts", "../src/feed.ts"],
  tsconfig: "../tsconfig.build.json",
  out: "../../../target/reference/typescript",
  name: "@pigeonhole/client",
  readme: "none",
  // The frames have tags of the contract's JSON Schema.
  blockTags: [...OptionDefaults.blockTags, "@minItems", "@maxItems"],
  disableSources: true,
  excludeInternal: true,
  excludePrivate: true,
  treatWarningsAsErrors: true,
  validation: { notExported: false },
};
