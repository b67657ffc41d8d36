// Clients of the web, of Rust and of Kotlin in one encrypted chat, over the local server. `just interop 1000` walks further.

import { afterAll, beforeAll, expect, it } from "vitest";
import { Keys } from "../src/sealed.ts";
import type { Owner } from "./devices.ts";
import { CLIENTS, chance, START_MS_MAX, STEPS, Stage, wasm } from "./stage.ts";

const DEVICES_MAX = 3;
let stage: Stage;

beforeAll(async () => {
  stage = await Stage.start();
}, START_MS_MAX);

afterAll(() => stage?.stop());

async function owners(one: string, other: string): Promise<[Owner, Owner]> {
  const keys = [await Keys.generate(wasm), await Keys.generate(wasm)] as const;
  return [
    { user: one, peer: other, keys: keys[0] },
    { user: other, peer: one, keys: keys[1] },
  ];
}

const PAIRS = CLIENTS.flatMap((first) =>
  CLIENTS.filter((it) => it !== first).map((second) => [first, second] as const),
);

it.each(PAIRS)("%s begins, %s joins; each joins from outside, and removes the other", async (first, second) => {
  const [one, other] = await owners(`${first}-before-${second}`, `${second}-after-${first}`);
  const creator = await stage.device(first, one);
  const joiner = await stage.device(second, other);
  await stage.heard(creator, [creator, joiner]);
  await stage.heard(joiner, [creator, joiner]);
  // By itself, beside a device that is there.
  const outside = await stage.device(second, one);
  await outside.joined();
  const all = [creator, joiner, outside];
  for (const from of all) {
    await stage.heard(from, all);
  }
  await stage.close(outside);
  await creator.forget(outside);
  await stage.heard(creator, [creator, joiner]);
  await stage.heard(joiner, [creator, joiner]);
});

it.each(CLIENTS.filter((it) => it !== "web"))("a file goes from the web to %s and back", async (client) => {
  const [one, other] = await owners(`${client}-sender`, `${client}-receiver`);
  const web = await stage.device("web", one);
  const terminal = await stage.device(client, other);
  await stage.heard(web, [web, terminal]);
  // The file has more than one segment.
  const bytes = Buffer.from(Uint8Array.from({ length: 2_500_000 }, (_, place) => place % 251));
  const seq = await web.sendFile(bytes, "from the web");
  await terminal.shows("from the web");
  expect((await terminal.fileOf(seq, "from the web")).equals(bytes)).toBe(true);
  await terminal.sendFile(bytes.subarray(1), "from the terminal");
  await web.shows("from the terminal");
  expect((await web.fileOf(0, "from the terminal")).equals(bytes.subarray(1))).toBe(true);
  // The sender has it too.
  expect((await web.fileOf(0, "from the web")).equals(bytes)).toBe(true);
  expect([...web.unreadable(), ...terminal.unreadable()]).toEqual([]);
});

it("a random walk loses nothing", { timeout: 20_000 + STEPS * 5_000 }, async () => {
  const { random, pick } = chance();
  const users = await owners("walker", "stroller");
  const devices = [await stage.device(pick(CLIENTS), users[0]), await stage.device(pick(CLIENTS), users[1])];
  const acts = new Map<string, number>();
  const did = (act: string) => acts.set(act, (acts.get(act) ?? 0) + 1);
  await stage.heard(pick(devices), devices);
  for (let step = 0; step < STEPS; step += 1) {
    const owner = pick(users);
    const own = devices.filter(({ user }) => user === owner.user);
    const act = random(10);
    if (act === 0 && own.length < DEVICES_MAX) {
      const client = pick(CLIENTS);
      const made = await stage.device(client, owner);
      await made.joined();
      devices.push(made);
      did(`${client} joins`);
    } else if (act === 1 && own.length > 1) {
      const lost = pick(own);
      devices.splice(devices.indexOf(lost), 1);
      await stage.close(lost);
      const remover = pick(own.filter((other) => other !== lost));
      await remover.forget(lost);
      did(`${remover.client} removes`);
    } else if (act === 2 && random(3) === 0) {
      const creator = pick(own);
      await creator.reset();
      did(`${creator.client} begins`);
    }
    await stage.heard(pick(devices), devices);
  }
  console.info(`${STEPS} steps, ${stage.compared} comparisons in all:`, Object.fromEntries(acts));
});
