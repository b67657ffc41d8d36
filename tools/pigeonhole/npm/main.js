#!/usr/bin/env node
// Starts the local server: the program that the package of this platform has.

import { spawn } from "node:child_process";
import { createRequire } from "node:module";

const name = `@pigeonhole/local-${process.platform}-${process.arch}`;

function program() {
  try {
    return createRequire(import.meta.url).resolve(`${name}/pigeonhole${process.platform === "win32" ? ".exe" : ""}`);
  } catch {
    fail(`the package ${name} is not installed. If it exists, install again without --omit=optional.
Otherwise, build the server for this platform: \`cargo run\` in a clone of Pigeonhole.`);
  }
}

function fail(problem) {
  console.error(`pigeonhole: ${problem}`);
  process.exit(1);
}

const server = spawn(program(), process.argv.slice(2), { stdio: "inherit" });
server.on("error", (error) => fail(`the server cannot start: ${error.message}`));
server.on("exit", (code) => process.exit(code ?? 1));
// The server ends first, so that its last lines come before the prompt.
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.on(signal, () => server.kill(signal));
}
