// Clients of the web and of Rust in one encrypted chat, over the local server. `just interop 1000` walks further.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Keys } from "../src/sealed.ts";
import { type Device, type Owner, TerminalDevice, WebDevice } from "./devices.ts";
import { LocalServer } from "./local-server.ts";

const STEPS = Number(process.env.PIGEONHOLE_STEPS ?? 30);
const SEED = Number(process.env.PIGEONHOLE_SEED ?? 1);
const DEVICES_MAX = 3;
const wasm = readFileSync(new URL("../src/wasm/sealing_bg.wasm", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "pigeonhole-interop-"));
let server: LocalServer;
const opened: Device[] = [];
let names = 0;

type Client = "web" | "rust";

beforeAll(async () => {
  const rates = ["CommitRate", "BirthRate", "ClaimRate", "KeyDeviceRate", "RequestRate"];
  server = await LocalServer.start(...rates.flatMap((rate) => ["--parameter", `${rate}=off`]));
}, 540_000);

afterAll(async () => {
  await Promise.all(opened.map((device) => device.close()));
  await server?.stop();
  rmSync(folder, { recursive: true });
});

async function device(client: Client, owner: Owner): Promise<Device> {
  names += 1;
  const name = `${owner.user}-${names}`;
  const made = await (client === "web"
    ? WebDevice.open(server, owner, name)
    : TerminalDevice.open(server, owner, name, folder));
  opened.push(made);
  return made;
}

async function owners(one: string, other: string): Promise<[Owner, Owner]> {
  const keys = [await Keys.generate(wasm), await Keys.generate(wasm)] as const;
  return [
    { user: one, peer: other, keys: keys[0] },
    { user: other, peer: one, keys: keys[1] },
  ];
}

/** One device writes, and all others read it. */
async function heard(from: Device, all: readonly Device[]): Promise<void> {
  names += 1;
  const text = `text ${names}`;
  await from.say(text);
  await Promise.all(all.map((device) => device.shows(text)));
  expect(all.flatMap((device) => device.unreadable())).toEqual([]);
}

async function closed(device: Device): Promise<void> {
  opened.splice(opened.indexOf(device), 1);
  await device.close();
}

it.each([
  ["web", "rust"],
  ["rust", "web"],
] as const)("%s begins, %s joins; each joins from outside, and removes the other", async (first, second) => {
  const [one, other] = await owners(`${first}-one`, `${first}-other`);
  const creator = await device(first, one);
  const joiner = await device(second, other);
  await heard(creator, [creator, joiner]);
  await heard(joiner, [creator, joiner]);
  // By itself, beside a device that is there.
  const outside = await device(second, one);
  await outside.joined();
  const all = [creator, joiner, outside];
  for (const from of all) {
    await heard(from, all);
  }
  await closed(outside);
  await creator.forget(outside);
  await heard(creator, [creator, joiner]);
  await heard(joiner, [creator, joiner]);
});

it("a file goes from the web to Rust and back", async () => {
  const [one, other] = await owners("sender", "receiver");
  const web = await device("web", one);
  const rust = await device("rust", other);
  await heard(web, [web, rust]);
  // The file has more than one segment.
  const bytes = Buffer.from(Uint8Array.from({ length: 2_500_000 }, (_, place) => place % 251));
  const seq = await web.sendFile(bytes, "from the web");
  await rust.shows("from the web");
  expect((await rust.fileOf(seq, "from the web")).equals(bytes)).toBe(true);
  await rust.sendFile(bytes.subarray(1), "from Rust");
  await web.shows("from Rust");
  expect((await web.fileOf(0, "from Rust")).equals(bytes.subarray(1))).toBe(true);
  // The sender has it too.
  expect((await web.fileOf(0, "from the web")).equals(bytes)).toBe(true);
  expect([...web.unreadable(), ...rust.unreadable()]).toEqual([]);
});

it("a random walk loses nothing", { timeout: 20_000 + STEPS * 5_000 }, async () => {
  let state = SEED;
  const random = (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((state / 2 ** 31) * below);
  };
  const pick = <T>(all: readonly T[]): T => all[random(all.length)] as T;
  const users = await owners("walker", "stroller");
  const devices = [await device("web", users[0]), await device("rust", users[1])];
  await heard(pick(devices), devices);
  for (let step = 0; step < STEPS; step += 1) {
    const owner = pick(users);
    const own = devices.filter(({ user }) => user === owner.user);
    const act = random(10);
    if (act === 0 && own.length < DEVICES_MAX) {
      const made = await device(pick(["web", "rust"] as const), owner);
      await made.joined();
      devices.push(made);
    } else if (act === 1 && own.length > 1) {
      const lost = pick(own);
      devices.splice(devices.indexOf(lost), 1);
      await closed(lost);
      await pick(own.filter((other) => other !== lost)).forget(lost);
    } else if (act === 2 && random(3) === 0) {
      await pick(own).reset();
    }
    await heard(pick(devices), devices);
  }
});
