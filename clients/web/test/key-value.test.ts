import { expect, it } from "vitest";
import { connect, keyValueStorage, type Queued } from "../src/feed.ts";
import { Store } from "../src/store/store.ts";
import { strings } from "./store-writes.ts";

it("keeps messages and all other requests", async () => {
  const store = strings();
  const target = { conversation_id: "dm_ab" };
  const all: Queued[] = [
    { clientMsgId: "a", target: { to: "bob" }, body: "hi" },
    { clientMsgId: "b", target, body: "an answer", replyTo: 4 },
    { clientMsgId: "c", target, body: "hi @bob", mentions: ["bob"] },
    { clientMsgId: "d", request: { action: "edit", client_msg_id: "d", ...target, seq: 4, body: "better" } },
    { clientMsgId: "e", request: { action: "create", client_msg_id: "e", title: "Trip", members: ["bob"] } },
    { clientMsgId: "f", request: { action: "leave", client_msg_id: "f", ...target } },
  ];
  const open = () => Store.open(keyValueStorage(store, "alice"), "alice");
  await (await open()).apply(
    all.map((queued) => ({ change: { queued } })),
    true,
  );
  const next = await open();
  expect((await next.saved()).outbox).toEqual(all);
  expect(next.setAside).toBeUndefined();
});

it.each([
  "",
  "{",
  "null",
  "5",
  "{}",
  '{"outbox":[],"held":[]}',
  '{"version":1,"parts":5}',
  '{"version":"1","parts":[]}',
])("sets aside what can't be read, tells of it and begins anew: %s", async (text) => {
  const store = strings();
  store.setItem("pigeonhole:alice", text);
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
  expect(store.getItem("pigeonhole:alice:unreadable")).toBe(text);
  const next = await start();
  expect((await next.events.next()).value).toMatchObject({ type: "state" });
  expect(next.outbox).toMatchObject([{ body: "hi" }]);
  await next.close();
});
