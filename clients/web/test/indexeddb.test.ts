// The storage in IndexedDB, over an IndexedDB in memory. A real browser's is in the browser tests.

import "fake-indexeddb/auto";
import { afterEach, expect, it, vi } from "vitest";
import { indexedDbStorage } from "../src/index.ts";
import { fileOf, nothingSaved, type StorageChange } from "../src/saved.ts";
import { Store } from "../src/store/store.ts";

const queued = (clientMsgId: string): StorageChange => ({
  queued: { clientMsgId, target: { to: "bob" }, body: `body of ${clientMsgId}` },
});
const held = (conversation_id: string, seq: number): StorageChange => ({ held: { conversation_id, seq } });

const open = (name: string) => Store.open(indexedDbStorage(name), name);
const write = (store: Store, ...changes: StorageChange[]) =>
  store.apply(
    changes.map((change) => ({ change })),
    true,
  );
/** Returns what the next client finds. */
async function load(name: string) {
  const store = await open(name);
  const saved = await store.saved();
  await store.close();
  return saved;
}

afterEach(() => vi.unstubAllGlobals());

it("gives back what was written, the outbox in the order of sending", async () => {
  const storage = await open("alice");
  expect(await storage.saved()).toEqual(nothingSaved());
  await write(storage, queued("b"), queued("a"), held("dm_ab", 4));
  await write(storage, queued("c"), { done: "a" }, { done: "unknown" }, held("dm_ab", 5), held("dm_ac", 1));
  await write(storage, { caughtUp: "2026-11-20T10:00:00.123Z" });
  await storage.close();
  const { outbox, ...marks } = await load("alice");
  expect(outbox.map(({ clientMsgId }) => clientMsgId)).toEqual(["b", "c"]);
  expect(outbox[0]).toEqual({ clientMsgId: "b", target: { to: "bob" }, body: "body of b" });
  const expected = { dm_ab: 5, dm_ac: 1 };
  expect(marks).toMatchObject({ held: new Map(Object.entries(expected)), caughtUp: "2026-11-20T10:00:00.123Z" });
  expect(await load("bob")).toEqual(nothingSaved());
});

it("drops what no version of the client could have written", async () => {
  const storage = await open("dora");
  const unreadable = {
    queued: { clientMsgId: "a", target: { to: "bob" }, edit: { seq: 1 } },
  } as unknown as StorageChange;
  await write(storage, unreadable, queued("b"));
  await storage.close();
  const { outbox } = await load("dora");
  expect(outbox.map(({ clientMsgId }) => clientMsgId)).toEqual(["b"]);
});

it("writes all of the changes or none", async () => {
  const storage = await open("carol");
  const impossible = {
    queued: { clientMsgId: "b", target: { to: "bob" }, body: () => {} },
  } as unknown as StorageChange;
  await expect(write(storage, queued("a"), impossible)).rejects.toThrow();
  await write(storage, queued("c"));
  await storage.close();
  const { outbox } = await load("carol");
  expect(outbox.map(({ clientMsgId }) => clientMsgId)).toEqual(["c"]);
});

it("keeps the bytes that a message carries, and what the server calls them, until it is done", async () => {
  const storage = await open("gina");
  const file = new Blob(["bytes"], { type: "image/png" });
  const media = {
    source: { file },
    kind: "image",
    mime: "image/png",
    bytes: 5,
    sha256: "x",
    width: 1,
    height: 1,
  } as const;
  const carrying = (clientMsgId: string): StorageChange => ({
    queued: { clientMsgId, target: { to: "bob" }, body: "", media },
  });
  await write(storage, carrying("a"), queued("b"), carrying("c"), carrying("d"));
  const called = { uploading: { clientMsgId: "c", mediaId: "m_1" } };
  await write(storage, called, { uploading: { clientMsgId: "d", mediaId: "m_2" } }, { done: "a" });
  await write(storage, { uploading: { clientMsgId: "d" } });
  await storage.close();
  const { outbox } = await load("gina");
  expect(outbox.map(({ clientMsgId }) => clientMsgId)).toEqual(["b", "c", "d"]);
  const [, second, third] = outbox;
  expect(second).toMatchObject({ media: { kind: "image", media_id: "m_1" } });
  expect(third && "body" in third && third.media).not.toHaveProperty("media_id");
  expect(await (second && fileOf(second))?.text()).toBe("bytes");
});

it("never lowers a mark, and is written by the client that opened it last, also without locks", async () => {
  const [one, other] = [await open("frank"), await open("frank")];
  await expect(write(one, held("dm_ab", 9))).rejects.toMatchObject({ code: "storage_busy" });
  await write(other, held("dm_ab", 5), held("dm_ac", 1));
  await write(other, held("dm_ab", 4), held("dm_ac", 2), held("dm_ad", 0));
  const marks = [...(await load("frank")).held];
  expect(marks).toEqual([
    ["dm_ab", 5],
    ["dm_ac", 2],
    ["dm_ad", 0],
  ]);
});

it("belongs to one client at a time, where the platform has locks", async () => {
  vi.stubGlobal("navigator", { locks: new Locks() });
  const first = await open("dave");
  await expect(open("dave")).rejects.toMatchObject({ code: "storage_busy" });
  await load("erin");
  // As in a page that is loaded while the one before it goes.
  const loaded = load("dave");
  await first.close();
  expect(await loaded).toEqual(nothingSaved());
});

it("is locked also where signals have no timeout of their own", async () => {
  vi.stubGlobal("navigator", { locks: new Locks() });
  // As in Safari 15.4.
  vi.stubGlobal("AbortSignal", {});
  const first = await open("henry");
  await expect(open("henry")).rejects.toMatchObject({ code: "storage_busy" });
  await first.close();
  await load("henry");
});

it("makes way for a later version of the app in another tab", async () => {
  const storage = await open("ida");
  await write(storage, queued("a"));
  const later = await new Promise<IDBDatabase>((resolve, reject) => {
    const request = indexedDB.open("pigeonhole:ida", 99);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  expect([...later.objectStoreNames]).toContain("outbox");
  // The storage refuses this tab's later writes, and none of them waits for ever.
  await expect(write(storage, queued("b"))).rejects.toThrow();
  later.close();
});

/** As much of a `LockManager` as is used. */
class Locks {
  #held = new Map<string, Promise<void>>();

  async request(name: string, { signal }: { signal: AbortSignal }, use: () => Promise<void>): Promise<void> {
    while (this.#held.has(name)) {
      const aborted = new Promise<never>((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
      });
      await Promise.race([this.#held.get(name), aborted]);
    }
    const held = use();
    this.#held.set(name, held);
    await held;
    this.#held.delete(name);
  }
}
