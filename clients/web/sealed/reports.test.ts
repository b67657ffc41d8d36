// Encrypted messages where the server takes reports with proof: each has a digest.

import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Keys } from "../src/sealed.ts";
import { WebDevice } from "./devices.ts";
import { LocalServer } from "./local-server.ts";

const wasm = readFileSync(new URL("../src/wasm/sealing_bg.wasm", import.meta.url));
let server: LocalServer;

beforeAll(async () => {
  server = await LocalServer.start("--parameter", "SealedReports=on");
}, 540_000);

afterAll(() => server?.stop());

it("two users chat", async () => {
  const one = await WebDevice.open(server, { user: "una", peer: "vic", keys: await Keys.generate(wasm) }, "una-1");
  const other = await WebDevice.open(server, { user: "vic", peer: "una", keys: await Keys.generate() }, "vic-1");
  for (const [from, text] of [
    [one, "with a digest"],
    [other, "with one too"],
  ] as const) {
    await from.say(text);
    await Promise.all([one.shows(text), other.shows(text)]);
  }
  expect([...one.unreadable(), ...other.unreadable()]).toEqual([]);
  await Promise.all([one.close(), other.close()]);
});
