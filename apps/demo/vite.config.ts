import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const CLIENT = "../../clients/web/src";
const NO_WASM = "\0no-wasm";

/** Builds the page without the encryption too, which `just wasm` builds: the page works, and can't make keys. */
const withoutWasm: Plugin = {
  name: "without-wasm",
  enforce: "pre",
  resolveId: (id) =>
    id.endsWith("/wasm/sealing.js") && !existsSync(path(`${CLIENT}/wasm/sealing.js`)) ? NO_WASM : null,
  load: (id) => (id === NO_WASM ? 'throw new Error("the encryption is not built: run `just wasm`");' : null),
};

export default defineConfig({
  plugins: [withoutWasm],
  build: { rollupOptions: { input: ["index.html", "server.html", "console.html"].map(path) } },
  resolve: {
    // An app elsewhere has the client from npm. This one takes its source, so that nothing has to be built first.
    alias: {
      "@pigeonhole/client/sealed": path(`${CLIENT}/sealed.ts`),
      "@pigeonhole/client/events": path(`${CLIENT}/feed.ts`),
      "@pigeonhole/client": path(`${CLIENT}/index.ts`),
      "@pigeonhole/server": path("../../clients/server-node/src/index.ts"),
    },
  },
});
