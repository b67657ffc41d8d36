// The storage in IndexedDB, over an IndexedDB in memory. A real browser's is in the browser tests.

import "fake-indexeddb/auto";
import { afterEach, expect, it, vi } from "vitest";
import { indexedDbStorage, type StorageChange } from "../src/index.ts";
import { fileOf, nothingSaved } from "../src/saved.ts";

const queued = (clientMsgId: string): StorageChange => ({
  queued: { clientMsgId, target: { to: "bob" }, body: `body of ${clientMsgId}` },
});
const held = (conversation_id: string, seq: number): StorageChange => ({ held: { conversation_id, seq } });

afterEach(() => vi.unstubAllGlobals());

it("gives back what was written, the outbox in the order of sending", async () => {
  const storage = indexedDbStorage("alice");
  expect(await storage.load()).toEqual(nothingSaved());
  await storage.write([queued("b"), queued("a"), held("dm_ab", 4)]);
  await storage.write([queued("c"), { done: "a" }, { done: "unknown" }, held("dm_ab", 5), held("dm_ac", 1)]);
  await storage.write([{ caughtUp: "2026-11-20T10:00:00.123Z" }]);
  await storage.close?.();
  const { outbox, ...marks } = await indexedDbStorage("alice").load();
  expect(outbox.map(({ clientMsgId }) => clientMsgId)).toEqual(["b", "c"]);
  expect(outbox[0]).toEqual({ clientMsgId: "b", target: { to: "bob" }, body: "body of b" });
  const expected = { dm_ab: 5, dm_ac: 1 };
  expect(marks).toEqual({ held: new Map(Object.entries(expected)), caughtUp: "2026-11-20T10:00:00.123Z" });
  expect(await indexedDbStorage("bob").load()).toEqual(nothingSaved());
});

it("drops what no version of the client could have written", async () => {
  const storage = indexedDbStorage("dora");
  await storage.load();
  const unreadable = {
    queued: { clientMsgId: "a", target: { to: "bob" }, edit: { seq: 1 } },
  } as unknown as StorageChange;
  await storage.write([unreadable, queued("b")]);
  await storage.close?.();
  const { outbox } = await indexedDbStorage("dora").load();
  expect(outbox.map(({ clientMsgId }) => clientMsgId)).toEqual(["b"]);
});

it("writes all of the changes or none", async () => {
  const storage = indexedDbStorage("carol");
  await storage.load();
  const impossible = {
    queued: { clientMsgId: "b", target: { to: "bob" }, body: () => {} },
  } as unknown as StorageChange;
  await expect(storage.write([queued("a"), impossible])).rejects.toThrow();
  await storage.write([queued("c")]);
  await storage.close?.();
  const { outbox } = await indexedDbStorage("carol").load();
  expect(outbox.map(({ clientMsgId }) => clientMsgId)).toEqual(["c"]);
});

it("keeps the bytes that a message carries, and what the server calls them, until it is done", async () => {
  const storage = indexedDbStorage("gina");
  await storage.load();
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
  await storage.write([carrying("a"), queued("b"), carrying("c"), carrying("d")]);
  const called = { uploading: { clientMsgId: "c", mediaId: "m_1" } };
  await storage.write([called, { uploading: { clientMsgId: "d", mediaId: "m_2" } }, { done: "a" }]);
  await storage.write([{ uploading: { clientMsgId: "d" } }]);
  await storage.close?.();
  const { outbox } = await indexedDbStorage("gina").load();
  expect(outbox.map(({ clientMsgId }) => clientMsgId)).toEqual(["b", "c", "d"]);
  const [, second, third] = outbox;
  expect(second).toMatchObject({ media: { kind: "image", media_id: "m_1" } });
  expect(third && "body" in third && third.media).not.toHaveProperty("media_id");
  expect(await (second && fileOf(second))?.text()).toBe("bytes");
});

it("never lowers a mark, also where two clients write without locks", async () => {
  const [one, other] = [indexedDbStorage("frank"), indexedDbStorage("frank")];
  await Promise.all([one.load(), other.load()]);
  await one.write([held("dm_ab", 5), held("dm_ac", 1)]);
  await other.write([held("dm_ab", 4), held("dm_ac", 2), held("dm_ad", 0)]);
  const marks = [...(await indexedDbStorage("frank").load()).held];
  expect(marks).toEqual([
    ["dm_ab", 5],
    ["dm_ac", 2],
    ["dm_ad", 0],
  ]);
});

it("belongs to one client at a time, where the platform has locks", async () => {
  vi.stubGlobal("navigator", { locks: new Locks() });
  const first = indexedDbStorage("dave");
  await first.load();
  await expect(indexedDbStorage("dave").load()).rejects.toMatchObject({ code: "storage_busy" });
  await indexedDbStorage("erin").load();
  const next = indexedDbStorage("dave");
  // As in a page that is loaded while the one before it goes.
  const loaded = next.load();
  await first.close?.();
  expect(await loaded).toEqual(nothingSaved());
});

it("is locked also where signals have no timeout of their own", async () => {
  vi.stubGlobal("navigator", { locks: new Locks() });
  // As in Safari 15.4.
  vi.stubGlobal("AbortSignal", {});
  const first = indexedDbStorage("henry");
  await first.load();
  await expect(indexedDbStorage("henry").load()).rejects.toMatchObject({ code: "storage_busy" });
  await first.close?.();
  await indexedDbStorage("henry").load();
});

it("makes way for a later version of the app in another tab", async () => {
  const storage = indexedDbStorage("ida");
  await storage.load();
  await storage.write([queued("a")]);
  const later = await new Promise<IDBDatabase>((resolve, reject) => {
    const request = indexedDB.open("pigeonhole:ida", 99);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  expect([...later.objectStoreNames]).toContain("outbox");
  // The storage refuses this tab's later writes, and none of them waits for ever.
  await expect(storage.write([queued("b")])).rejects.toThrow();
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
