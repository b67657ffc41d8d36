// Turns of a client that keeps its messages: the commit comes first.

import { afterEach, beforeEach, expect, it } from "vitest";
import type { Config, Encryption } from "../src/config.ts";
import type { ClientEvent } from "../src/events.ts";
import { Session, type SessionOptions } from "../src/session/session.ts";
import { start as startDriver } from "../src/start.ts";
import type { Database, Mode, Storage } from "../src/store/database.ts";
import { MemoryDatabase } from "../src/store/memory.ts";
import type { Store } from "../src/store/store.ts";
import { message, messagesNew, nodeSocket, Server } from "./server.ts";

let server: Server;
beforeEach(async () => {
  server = await Server.start();
});
afterEach(async () => {
  await server.stop();
});

/** A storage whose commits wait for the test, or fail. */
class Slow implements Storage {
  readonly modes: Mode[] = [];
  #memory = new MemoryDatabase();
  #gate = Promise.resolve();
  release = () => {};
  failures = 0;
  /** The number of messages for which the browser has space. */
  messagesMax = Number.POSITIVE_INFINITY;

  async open(): Promise<Database> {
    return {
      keepsFiles: true,
      close: () => {},
      transaction: (mode, run) =>
        this.#memory.transaction(mode, async (transaction) => {
          const result = await run(transaction);
          if (mode !== "read") {
            this.modes.push(mode);
            await this.#gate;
            if ((await transaction.range("message")).length > this.messagesMax) {
              throw new DOMException("full", "QuotaExceededError");
            }
            if (this.failures > 0) {
              this.failures -= 1;
              throw new Error("the disk is full");
            }
          }
          return result;
        }),
    };
  }

  hold(): void {
    this.#gate = new Promise((resolve) => {
      this.release = resolve;
    });
  }
}

async function start(storage: Storage, config: Partial<Config> = {}) {
  const events: ClientEvent[] = [];
  let told = () => {};
  const timing = { reconnectFirst: 20, ackEvery: 0 };
  const base = { url: server.url, userId: "alice", token: () => "a.b.c", webSocket: nodeSocket, timing };
  const driver = await startDriver({ ...base, ...config }, storage, "store", {
    tell: (event) => {
      events.push(event);
      told();
    },
  });
  const { store } = driver;
  const until = async (is: (event: ClientEvent) => boolean) => {
    while (!events.some(is)) {
      await new Promise<void>((resolve) => {
        told = resolve;
      });
    }
  };
  await server.catchUp();
  await until((event) => event.type === "state" && event.state === "caught_up");
  return { driver, store, events, until };
}

it("commits a turn before anything of it leaves, and an acknowledgement for good", async () => {
  const storage = new Slow();
  const { driver, store, events, until } = await start(storage);
  storage.hold();
  storage.modes.length = 0;
  server.say(messagesNew(1, 2));
  const sent = driver.send({ clientMsgId: "m1", target: { to: "bob" }, body: "hi" });
  let isKept = false;
  sent.then(() => {
    isKept = true;
  });
  while (storage.modes.length === 0) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  // A reply to another frame would come by now.
  server.say({ type: "typing", conversation_id: "dm_ab", user_id: "bob", at: "2026-11-20T10:00:05.000Z" });
  expect([isKept, events.filter(({ type }) => type === "message" || type === "typing")]).toEqual([false, []]);
  storage.release();
  await sent;
  await until(({ type }) => type === "typing");
  expect(await server.asked("ack")).toMatchObject({ up_to: [{ conversation_id: "dm_ab", seq: 2 }] });
  expect(storage.modes).not.toContain("write");
  expect((await store.window("dm_ab", {}, 9)).messages.map(({ seq }) => seq)).toEqual([1, 2]);
  await driver.close();
});

it("tries the same transaction again after a failure, on a connection of its own", async () => {
  const storage = new Slow();
  const { driver, store, events, until } = await start(storage);
  storage.failures = 2;
  server.say(messagesNew(1));
  await until((event) => event.type === "state" && event.state === "offline" && event.why.reason === "storage");
  expect(events.some(({ type }) => type === "message")).toBe(false);
  await until(({ type }) => type === "message");
  // The second connection has the acknowledgement.
  expect(await server.answer("drain", { messages: [], more: false })).toMatchObject({ ack: [{ seq: 1 }] });
  expect(server.sockets).toHaveLength(2);
  expect((await store.window("dm_ab", {}, 9)).messages).toHaveLength(1);
  await driver.close();
});

/** Keeps 600 messages that were read, in a browser that has space for no more. A further one comes. */
async function fill(storage: Slow, store: Store): Promise<void> {
  const { messages } = messagesNew(...Array.from({ length: 600 }, (_, at) => at + 1));
  const [last = message(1)] = messages.slice(-1);
  const last_message = { ...last, preview: "" };
  const row = { conversation_id: "dm_ab", kind: "direct", last_message, last_seq: 600 } as const;
  const marks = { unread: 0, delivered_seq: 600, read_seq: 600 };
  await store.apply([{ row: { ...row, ...marks } }, ...messages.map((entry) => ({ entry }))], false);
  storage.messagesMax = 600;
  server.say({ type: "messages.new", conversation_id: "dm_xy", messages: [message(1, "dm_xy")] });
}

it("removes old messages that were read when the browser has no more space", async () => {
  const storage = new Slow();
  const { driver, store, events, until } = await start(storage);
  await fill(storage, store);
  await until(({ type }) => type === "message");
  expect(events.some((event) => event.type === "state" && event.state === "offline")).toBe(false);
  expect(await store.count()).toBe(301);
  expect((await store.window("dm_ab", {}, 1)).messages[0]?.seq).toBe(600);
  await driver.close();
});

it("removes no message of an encrypted client, which may have the only copy, and says that the store is full", async () => {
  const storage = new Slow();
  const encrypted = { session: (options: SessionOptions) => new Session(options) } as object as Encryption;
  const { driver, store, until } = await start(storage, { encrypted });
  await fill(storage, store);
  await until((event) => event.type === "state" && event.state === "offline" && event.why.reason === "storage");
  expect(await store.count()).toBe(600);
  await driver.close();
});

it("closes while it can't write, and refuses what waits", async () => {
  const storage = new Slow();
  const { driver, until } = await start(storage);
  storage.failures = Number.POSITIVE_INFINITY;
  const sent = driver.send({ clientMsgId: "m1", target: { to: "bob" }, body: "hi" });
  sent.catch(() => {});
  await until((event) => event.type === "state" && event.state === "offline");
  await expect(driver.send({ clientMsgId: "m2", target: { to: "bob" }, body: "hi" })).rejects.toMatchObject({
    code: "storage",
  });
  await driver.close();
  await expect(sent).rejects.toMatchObject({ code: "closed" });
});
