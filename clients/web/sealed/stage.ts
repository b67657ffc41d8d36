// A local server, and the devices that a test opens on it.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { type Client, type Device, epochs, type Owner, TerminalDevice, WebDevice } from "./devices.ts";
import { LocalServer } from "./local-server.ts";

/** The time for a server to be built. */
export const START_MS_MAX = 540_000;
/** The steps of a walk. */
export const STEPS = Number(process.env.PIGEONHOLE_STEPS ?? 30);
const SEED = Number(process.env.PIGEONHOLE_SEED ?? 1);
const RATES = ["CommitRate", "BirthRate", "ClaimRate", "KeyDeviceRate", "RequestRate"];

/** Kotlin takes part if its program is built: `just interop` does so. */
export const CLIENTS: readonly Client[] = process.env.PIGEONHOLE_KOTLIN ? ["web", "rust", "kotlin"] : ["web", "rust"];

export const wasm = readFileSync(new URL("../src/wasm/sealing_bg.wasm", import.meta.url));

export class Stage {
  readonly server: LocalServer;
  #folder = mkdtempSync(join(tmpdir(), "pigeonhole-sealed-"));
  #opened: Device[] = [];
  #names = 0;
  /** How often all devices had one authenticator. */
  compared = 0;

  /** Starts the server without these rates, besides those of keys. */
  static async start(...off: string[]): Promise<Stage> {
    return new Stage(await LocalServer.start(...[...RATES, ...off].flatMap((rate) => ["--parameter", `${rate}=off`])));
  }

  private constructor(server: LocalServer) {
    this.server = server;
  }

  async device(client: Client, owner: Owner): Promise<Device> {
    this.#names += 1;
    const name = `${owner.user}-${this.#names}`;
    const made = await (client === "web"
      ? WebDevice.open(this.server, owner, name)
      : TerminalDevice.open(client, this.server, owner, name, this.#folder));
    this.#opened.push(made);
    return made;
  }

  /** One device writes, and all of these read it. Then all are in one epoch. */
  async heard(from: Device, all: readonly Device[]): Promise<void> {
    this.#names += 1;
    const text = `text ${this.#names}`;
    await from.say(text);
    await Promise.all(all.map((device) => device.shows(text)));
    expect(all.flatMap((device) => device.unreadable().map((why) => `${device.name} ${why}`))).toEqual([]);
    for (;;) {
      const found = await epochs(all);
      const numbers = new Set(found.map(([number]) => number));
      const distinct = new Set(found.map(([number, authenticator]) => `${number} ${authenticator}`));
      // Two devices of an epoch have one authenticator, also while a commit is on its way to some of them.
      expect(distinct.size, JSON.stringify(found)).toBe(numbers.size);
      if (numbers.size === 1 && !numbers.has(0)) {
        break;
      }
    }
    this.compared += 1;
  }

  async close(device: Device): Promise<void> {
    this.#opened.splice(this.#opened.indexOf(device), 1);
    await device.close();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#opened.map((device) => device.close()));
    await this.server.stop();
    rmSync(this.#folder, { recursive: true });
  }
}

/** The choices of a walk. */
export function chance(): { random(below: number): number; pick<T>(all: readonly T[]): T } {
  let state = SEED;
  const random = (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((state / 2 ** 31) * below);
  };
  return { random, pick: (all) => all[random(all.length)] as (typeof all)[number] };
}
