import { expect, it } from "vitest";
import { type Change, type KeyValueStore, keyValueStorage } from "../src/index.ts";

const queued = (client_msg_id: string): Change => ({ queued: { client_msg_id, target: { to: "bob" }, body: "hi" } });

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
  await storage.write([queued("a"), queued("b"), { held: { conversation_id: "dm_ab", seq: 4 } }, { caught_up: "now" }]);
  full = true;
  await expect(storage.write([{ done: "b" }])).rejects.toThrow();
  full = false;
  await storage.write([{ done: "a" }]);
  const { outbox, held, caught_up } = await keyValueStorage(store, "alice").load();
  expect(outbox.map(({ client_msg_id }) => client_msg_id)).toEqual(["b"]);
  expect([...held, caught_up]).toEqual([["dm_ab", 4], "now"]);
});
