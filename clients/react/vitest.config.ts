import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  // The source, so that nothing has to be built first.
  resolve: { alias: { "@pigeonhole/client": at("../web/src/index.ts"), "@pigeonhole/react": at("src/index.ts") } },
  test: { environment: "happy-dom" },
});
