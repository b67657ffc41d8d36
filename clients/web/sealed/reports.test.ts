// Encrypted messages where the server takes reports with proof: each has a digest, and its reader can prove it.

import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { directConversationId } from "../src/made-ids.ts";
import { Keys } from "../src/sealed.ts";
import { WebDevice } from "./devices.ts";
import { LocalServer } from "./local-server.ts";

const wasm = readFileSync(new URL("../src/wasm/sealing_bg.wasm", import.meta.url));
let server: LocalServer;

beforeAll(async () => {
  server = await LocalServer.start("--parameter", "SealedReports=on");
}, 540_000);

afterAll(() => server?.stop());

it("two users chat, and one proves what the other wrote", async () => {
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
  await other.report(directConversationId("una", "vic"), "with a digest");
  const month = new Date().toISOString().slice(0, 7);
  const headers = { "content-type": "application/json" };
  const list = { method: "POST", headers, body: JSON.stringify({ op: "reports", month }) };
  const { result } = await (await fetch(`${server.url}/local/admin`, list)).json();
  const [{ sender_id, verified, plaintext }] = result.reports[0].messages;
  expect([sender_id, verified, JSON.parse(atob(plaintext)).body]).toEqual(["una", true, "with a digest"]);
  await Promise.all([one.close(), other.close()]);
});
