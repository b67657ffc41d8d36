import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

export default defineConfig({
  resolve: {
    // An app elsewhere has the client from npm. This one takes its source, so that nothing has to be built first.
    alias: { "@pigeonhole/client": fileURLToPath(new URL("../../clients/web/src/index.ts", import.meta.url)) },
  },
});
