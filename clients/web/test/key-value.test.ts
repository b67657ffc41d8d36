import { expect, it } from "vitest";
import {
  connect,
  type KeyValueStore,
  keyValueStorage,
  nothingSaved,
  type Queued,
  type StorageChange,
} from "../src/index.ts";

const queued = (clientMsgId: string): StorageChange => ({ queued: { clientMsgId, target: { to: "bob" }, body: "hi" } });

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
  expect(await storage.load()).toEqual(nothingSaved());
  await storage.write([queued("a"), queued("b"), { held: { conversation_id: "dm_ab", seq: 4 } }, { caughtUp: "now" }]);
  full = true;
  await expect(storage.write([{ done: "b" }])).rejects.toThrow();
  full = false;
  await storage.write([{ done: "a" }]);
  const { outbox, held, caughtUp } = await keyValueStorage(store, "alice").load();
  expect(outbox.map(({ clientMsgId }) => clientMsgId)).toEqual(["b"]);
  expect([...held, caughtUp]).toEqual([["dm_ab", 4], "now"]);
});

it("keeps messages and all other requests", async () => {
  const kept = new Map<string, string>();
  const store: KeyValueStore = {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => void kept.set(key, value),
  };
  const target = { conversation_id: "dm_ab" };
  const all: Queued[] = [
    { clientMsgId: "a", target: { to: "bob" }, body: "hi" },
    { clientMsgId: "b", target, body: "an answer", replyTo: 4 },
    { clientMsgId: "c", target, body: "hi @bob", mentions: ["bob"] },
    { clientMsgId: "d", request: { action: "edit", client_msg_id: "d", ...target, seq: 4, body: "better" } },
    { clientMsgId: "e", request: { action: "create", client_msg_id: "e", title: "Trip", members: ["bob"] } },
    { clientMsgId: "f", request: { action: "leave", client_msg_id: "f", ...target } },
  ];
  const storage = keyValueStorage(store, "alice");
  await storage.load();
  await storage.write(all.map((queued) => ({ queued })));
  const next = keyValueStorage(store, "alice");
  expect((await next.load()).outbox).toEqual(all);
  expect(next.setAside?.()).toBeUndefined();
});

it.each([
  "",
  "{",
  "null",
  "5",
  "{}",
  '{"outbox":[],"held":5}',
  '{"outbox":[null],"held":[]}',
  '{"outbox":[{"target":{"to":"bob"},"body":"hi"}],"held":[]}',
  '{"outbox":[{"clientMsgId":"a"}],"held":[]}',
  '{"outbox":[{"clientMsgId":"a","body":"hi"}],"held":[]}',
  '{"outbox":[{"clientMsgId":"a","target":{"to":"bob"}}],"held":[]}',
  '{"outbox":[{"clientMsgId":"a","target":{"to":"bob"},"body":"hi","replyTo":"4"}],"held":[]}',
  '{"outbox":[{"clientMsgId":"a","target":{"to":"bob"},"body":"hi","mentions":[4]}],"held":[]}',
  '{"outbox":[{"clientMsgId":"a","request":{"seq":4}}],"held":[]}',
  '{"outbox":[{"clientMsgId":"a","request":"edit"}],"held":[]}',
  '{"outbox":[],"held":[["dm_ab","4"]]}',
  '{"outbox":[],"held":[],"caughtUp":5}',
])("sets aside what can't be read, tells of it and begins anew: %s", async (text) => {
  const kept = new Map([["pigeonhole:alice", text]]);
  const store: KeyValueStore = {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => void kept.set(key, value),
  };
  const webSocket = () => {
    throw new Error("no network");
  };
  const storage = () => keyValueStorage(store, "alice");
  const start = async () =>
    connect({ url: "ws://localhost/v1", userId: "alice", token: () => "a.b.c", webSocket, storage: storage() });
  const client = await start();
  expect((await client.events.next()).value).toEqual({ type: "storage", setAside: "pigeonhole:alice:unreadable" });
  await client.sendTo("bob", "hi");
  await client.close();
  expect(kept.get("pigeonhole:alice:unreadable")).toBe(text);
  const next = await start();
  expect((await next.events.next()).value).toMatchObject({ type: "state" });
  expect(next.outbox).toMatchObject([{ body: "hi" }]);
  await next.close();
});
