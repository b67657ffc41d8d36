// What `npm publish` would publish: exactly what belongs there, and a program can use it. Publishes nothing.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const run = (cwd, command, ...args) =>
  execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });

const folder = mkdtempSync(join(tmpdir(), "pigeonhole-pack-"));
try {
  // As `prepack` does; what it prints would stand in the way of the JSON.
  run(root, "npm", "run", "--silent", "build");
  checkFiles(JSON.parse(run(root, "npm", "pack", "--dry-run", "--json", "--ignore-scripts"))[0]);
  const [{ filename }] = JSON.parse(
    run(root, "npm", "pack", "--json", "--ignore-scripts", "--pack-destination", folder),
  );
  use(filename);
} finally {
  rmSync(folder, { recursive: true });
}

function checkFiles({ files, name, version, size }) {
  const sources = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(join(root, "src"), join(entry.parentPath, entry.name)));
  const endings = [".js", ".js.map", ".d.ts"];
  // The files that `just wasm` makes are as they are. A package without them works, without encryption.
  const built = sources.flatMap((path) =>
    path.startsWith("wasm/") ? path : endings.map((ending) => path.replace(/\.ts$/, ending)),
  );
  const found = files.map(({ path }) => path).sort();
  assert.deepEqual(found, [...built.map((path) => join("dist", path)), "LICENSE", "README.md", "package.json"].sort());
  assert.equal(readFileSync(join(root, "LICENSE"), "utf8"), readFileSync(join(root, "../../LICENSE"), "utf8"));
  console.log(`${name} ${version}: ${found.length} files, ${Math.round(size / 1024)} KiB`);
}

/** In a program of its own: by Node as it is, and by TypeScript with its types. */
function use(archive) {
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  run(folder, "npm", "install", "--offline", "--no-audit", "--no-fund", `./${archive}`);
  writeFileSync(
    join(folder, "main.js"),
    `import { limits, memoryStorage, open } from "@pigeonhole/client";
     import { connect, Timeline } from "@pigeonhole/client/events";
     const webSocket = () => { throw new Error("no network"); };
     const config = { url: "ws://localhost/v1", userId: "alice", token: () => "a.b.c", webSocket };
     const pigeonhole = await open({ ...config, storage: memoryStorage() });
     const view = pigeonhole.direct("bob").messages();
     await pigeonhole.direct("bob").send("hi");
     await new Promise((resolve) => view.subscribe(() => view.items.length === 2 && resolve()));
     const client = await connect(config);
     await client.sendTo("bob", "hi");
     const timeline = new Timeline("alice");
     timeline.queued(client.outbox[0], "2026-11-20T10:00:00.000Z");
     console.log(view.items[1].body, timeline.entries((at) => at).length, limits.BODY_BYTES_MAX);
     await Promise.all([pigeonhole.close(), client.close()]);`,
  );
  assert.equal(run(folder, process.execPath, "main.js"), "hi 2 16384\n");
  for (const example of ["browser.ts", "quickstart.ts"]) {
    copyFileSync(join(root, "examples", example), join(folder, example));
  }
  const options = {
    target: "es2022",
    module: "nodenext",
    lib: ["es2022", "dom"],
    types: [],
    strict: true,
    noEmit: true,
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["*.ts"] }));
  run(folder, join(root, "node_modules/.bin/tsc"));
}
