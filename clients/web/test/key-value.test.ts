import { expect, it } from "vitest";
import { type Change, type KeyValueStore, keyValueStorage } from "../src/index.ts";

const queued = (clientMsgId: string): Change => ({ queued: { clientMsgId, target: { to: "bob" }, body: "hi" } });

it("keeps everything in one text, or nothing of what could not be written", async () => {
  const kept = new Map<string, string>();
  let full = false;
  const store: KeyValueStore = {
    getItem: async (key) => kept.get(key) ?? null,
    setItem: async (key, text) => {
      if (full) {
        throw new Error("it is full");
      }
      kept.set(key, text);
    },
  };
  const storage = keyValueStorage(store, "alice");
  expect(await storage.load()).toEqual({ outbox: [], held: new Map() });
  await storage.write([queued("a"), queued("b"), { held: { conversation_id: "dm_ab", seq: 4 } }, { caughtUp: "now" }]);
  full = true;
  await expect(storage.write([{ done: "b" }])).rejects.toThrow();
  full = false;
  await storage.write([{ done: "a" }]);
  const { outbox, held, caughtUp } = await keyValueStorage(store, "alice").load();
  expect(outbox.map(({ clientMsgId }) => clientMsgId)).toEqual(["b"]);
  expect([...held, caughtUp]).toEqual([["dm_ab", 4], "now"]);
});
