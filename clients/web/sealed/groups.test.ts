// Clients of the web, of Rust and of Kotlin in one encrypted group, over the local server: at random, members and devices come and
// go. `PIGEONHOLE_STEPS=300` walks further.

import { afterAll, beforeAll, it } from "vitest";
import { Keys } from "../src/sealed.ts";
import { type Device, type Owner, WebDevice } from "./devices.ts";
import { CLIENTS, chance, START_MS_MAX, STEPS, Stage, wasm } from "./stage.ts";

const DEVICES_MAX = 2;
let stage: Stage;

beforeAll(async () => {
  stage = await Stage.start("SendRate");
}, START_MS_MAX);

afterAll(() => stage?.stop());

async function owner(user: string): Promise<Owner> {
  return { user, peer: "", keys: await Keys.generate(wasm) };
}

/** Gives a user keys by which others can add a device. */
async function published(owner: Owner): Promise<void> {
  await stage.close(await stage.device("web", { ...owner, peer: owner.user }));
}

it("members come and go, and read what is sent between", async () => {
  const [ann, ben, cat] = [await owner("ann"), await owner("ben"), await owner("cat")];
  await published(ben);
  const peer = await WebDevice.create(stage.server, ann, "ann-creator", [ben.user]);
  const anns = await stage.device("web", { ...ann, peer });
  const bens = await stage.device("rust", { ...ben, peer });
  await stage.heard(anns, [anns, bens]);
  await stage.heard(bens, [anns, bens]);
  await published(cat);
  await anns.add(cat.user);
  const cats = await stage.device("web", { ...cat, peer });
  await cats.joined();
  for (const from of [anns, bens, cats]) {
    await stage.heard(from, [anns, bens, cats]);
  }
  await bens.leave();
  await stage.heard(cats, [anns, cats]);
  await stage.heard(anns, [anns, cats]);
  await anns.remove(cat.user);
  await stage.heard(anns, [anns]);
  await anns.add(ben.user);
  await stage.heard(anns, [anns, bens]);
  await stage.heard(bens, [anns, bens]);
});

it("a random walk loses nothing", { timeout: 60_000 + STEPS * 10_000 }, async () => {
  const { random, pick } = chance();
  const [founder, ...others] = await Promise.all(["dora", "emil", "fred", "gina"].map(owner));
  if (!founder) {
    throw new Error("there are four");
  }
  await Promise.all(others.map(published));
  const peer = await WebDevice.create(stage.server, founder, "dora-creator", []);
  const owners = [founder, ...others].map((one) => ({ ...one, peer }));
  const members = new Set([founder.user]);
  const devices: Device[] = [await stage.device("web", { ...founder, peer })];
  const left = new Set<string>();
  const there = () => devices.filter(({ user }) => members.has(user));
  await stage.heard(pick(there()), there());
  for (let step = 0; step < STEPS; step += 1) {
    const one = pick(owners);
    const own = devices.filter(({ user }) => user === one.user);
    const isIn = members.has(one.user);
    const act = random(8);
    if (act === 0 && isIn && own.length < DEVICES_MAX) {
      const made = await stage.device(pick(CLIENTS), one);
      await made.joined();
      devices.push(made);
    } else if (act === 1 && isIn && own.length > 1) {
      const lost = pick(own);
      devices.splice(devices.indexOf(lost), 1);
      await stage.close(lost);
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
    await stage.heard(pick(there()), there());
  }
});
