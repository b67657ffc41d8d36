// Clients of the web and of Rust in one encrypted group, over the local server: at random, members and devices come and
// go. `PIGEONHOLE_STEPS=300` walks further.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Keys } from "../src/sealed.ts";
import { type Device, type Owner, TerminalDevice, WebDevice } from "./devices.ts";
import { LocalServer } from "./local-server.ts";

const STEPS = Number(process.env.PIGEONHOLE_STEPS ?? 30);
const SEED = Number(process.env.PIGEONHOLE_SEED ?? 1);
const DEVICES_MAX = 2;
const wasm = readFileSync(new URL("../src/wasm/sealing_bg.wasm", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "pigeonhole-groups-"));
let server: LocalServer;
const opened: Device[] = [];
let names = 0;

type Client = "web" | "rust";

beforeAll(async () => {
  const rates = ["CommitRate", "BirthRate", "ClaimRate", "KeyDeviceRate", "RequestRate", "SendRate"];
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

async function owner(user: string): Promise<Owner> {
  return { user, peer: "", keys: await Keys.generate(wasm) };
}

/** One device writes, and all others read it. */
async function heard(from: Device, all: readonly Device[]): Promise<void> {
  names += 1;
  const text = `text ${names}`;
  await from.say(text);
  await Promise.all(all.map((device) => device.shows(text)));
  expect(all.flatMap((device) => device.unreadable().map((why) => `${device.name} ${why}`))).toEqual([]);
}

async function closed(device: Device): Promise<void> {
  opened.splice(opened.indexOf(device), 1);
  await device.close();
}

/** Gives a user keys by which others can add a device. */
async function published(owner: Owner): Promise<void> {
  await closed(await device("web", { ...owner, peer: owner.user }));
}

it("members come and go, and read what is sent between", async () => {
  const [ann, ben, cat] = [await owner("ann"), await owner("ben"), await owner("cat")];
  await published(ben);
  const peer = await WebDevice.create(server, ann, "ann-creator", [ben.user]);
  const anns = await device("web", { ...ann, peer });
  const bens = await device("rust", { ...ben, peer });
  await heard(anns, [anns, bens]);
  await heard(bens, [anns, bens]);
  await published(cat);
  await anns.add(cat.user);
  const cats = await device("web", { ...cat, peer });
  await cats.joined();
  for (const from of [anns, bens, cats]) {
    await heard(from, [anns, bens, cats]);
  }
  await bens.leave();
  await heard(cats, [anns, cats]);
  await heard(anns, [anns, cats]);
  await anns.remove(cat.user);
  await heard(anns, [anns]);
  await anns.add(ben.user);
  await heard(anns, [anns, bens]);
  await heard(bens, [anns, bens]);
});

it("a random walk loses nothing", { timeout: 60_000 + STEPS * 10_000 }, async () => {
  let state = SEED;
  const random = (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((state / 2 ** 31) * below);
  };
  const pick = <T>(all: readonly T[]): T => all[random(all.length)] as T;
  const [founder, ...others] = await Promise.all(["dora", "emil", "fred", "gina"].map(owner));
  if (!founder) {
    throw new Error("there are four");
  }
  await Promise.all(others.map(published));
  const peer = await WebDevice.create(server, founder, "dora-creator", []);
  const owners = [founder, ...others].map((one) => ({ ...one, peer }));
  const members = new Set([founder.user]);
  const devices: Device[] = [await device("web", { ...founder, peer })];
  const left = new Set<string>();
  const there = () => devices.filter(({ user }) => members.has(user));
  await heard(pick(there()), there());
  for (let step = 0; step < STEPS; step += 1) {
    const one = pick(owners);
    const own = devices.filter(({ user }) => user === one.user);
    const isIn = members.has(one.user);
    const act = random(8);
    if (act === 0 && isIn && own.length < DEVICES_MAX) {
      const made = await device(pick(["web", "rust"] as const), one);
      await made.joined();
      devices.push(made);
    } else if (act === 1 && isIn && own.length > 1) {
      const lost = pick(own);
      devices.splice(devices.indexOf(lost), 1);
      await closed(lost);
      await pick(own.filter((other) => other !== lost)).forget(lost);
    } else if (act < 4 && !isIn) {
      // The owner alone can add a user who left, once.
      await pick(there().filter(({ user }) => user === founder.user)).add(one.user);
      members.add(one.user);
      await Promise.all(own.map((device) => device.joined()));
    } else if (act === 4 && isIn && one !== owners[0]) {
      members.delete(one.user);
      if (own[0] && !left.has(one.user)) {
        left.add(one.user);
        await own[0].leave();
      } else {
        await devices.find(({ user }) => user === founder.user)?.remove(one.user);
      }
      await Promise.all(own.map((device) => device.out()));
    } else if (act === 5) {
      await there()
        .find((device) => device instanceof WebDevice)
        ?.reset();
    }
    await heard(pick(there()), there());
  }
});
