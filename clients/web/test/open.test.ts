// The API of apps over real sockets: views, sending, reading, drafts, and what a restart shows.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { type Config, type Item, memoryStorage, open, type Pigeonhole, type View } from "../src/index.ts";
import { directConversationId } from "../src/made-ids.ts";
import { briefItem, briefRow } from "./brief.ts";
import { nodeSocket, Server } from "./server.ts";

const ID = directConversationId("alice", "bob");
let server: Server;
const clients: Pigeonhole[] = [];

beforeEach(async () => {
  server = await Server.start();
});

afterEach(async () => {
  vi.unstubAllGlobals();
  await Promise.all(clients.splice(0).map((client) => client.close()));
  await server.stop();
});

async function start(config: Partial<Config> = {}): Promise<Pigeonhole> {
  const timing = { reconnectFirst: 10, reconnectMax: 20, ackEvery: 10 };
  const base = { url: server.url, userId: "alice", token: () => "a.b.c", storage: memoryStorage() };
  const client = await open({ ...base, webSocket: nodeSocket, timing, ...config });
  clients.push(client);
  return client;
}

/** Resolves once the view shows what fits. The view stays open until then. */
function until<T>(view: View<T>, fits: (shown: T) => boolean): Promise<T> {
  return new Promise((resolve) => {
    const look = () => {
      const shown = view.getSnapshot();
      if (shown && fits(shown)) {
        unsubscribe();
        resolve(shown);
      }
    };
    const unsubscribe = view.subscribe(look);
    // Not before `unsubscribe` exists.
    queueMicrotask(look);
  });
}

const isShown = (item: string) => (shown: { items: readonly Item[] }) => shown.items.map(briefItem).includes(item);

function message(seq: number, sender_id = "bob") {
  const sent_at = `2026-11-20T10:00:0${seq}.000Z`;
  return {
    conversation_id: ID,
    seq,
    message_id: `m${seq}`,
    sender_id,
    kind: "text",
    body: `${sender_id} ${seq}`,
    sent_at,
  };
}

const members = [
  { user_id: "alice", delivered_seq: 0, read_seq: 0 },
  { user_id: "bob", delivered_seq: 0, read_seq: 0 },
];

/** Answers the requests of the first view of a new device. */
async function catchUp(): Promise<void> {
  await server.catchUp();
  await server.answer("inbox", { conversations: [], next_cursor: null });
  await server.answer("channels", { conversations: [], next_cursor: null });
}

it("shows an own message at once, and each step that it makes", async () => {
  const client = await start();
  const bob = client.direct("bob");
  expect(bob.id).toBe(ID);
  const view = bob.messages();
  const list = client.conversations();
  await catchUp();
  const sent = await bob.send("hi");
  const key = `c${sent.clientMsgId}`;
  await until(view, isShown(`${key} own waiting`));
  await until(list, ({ rows }) => rows.map(briefRow).includes("pbob | own waiting hi"));

  const { client_msg_id } = await server.answer("send", { ...message(1, "alice"), duplicate: false });
  expect(await sent.stored).toMatchObject({ conversation_id: ID, seq: 1 });
  await until(view, isShown(`${key} own stored`));
  expect(client_msg_id).toBe(sent.clientMsgId);
  server.say({ type: "receipt.read", conversation_id: ID, user_id: "bob", seq: 1, at: "2026-11-20T10:00:02.000Z" });
  await until(view, isShown(`${key} own read`));
});

it("reads what was on the screen, and counts the rest", async () => {
  const client = await start();
  const view = client.direct("bob").messages({ at: "firstUnread" });
  await catchUp();
  server.say({ type: "messages.new", conversation_id: ID, messages: [message(1), message(2)] });
  await server.answer("history", { messages: [message(1), message(2)], more: false, last_seq: 2, members });
  await until(view, isShown("s2 bob"));
  expect(view.unread).toBe(2);
  client.direct("bob").seen("s1");
  expect(await server.answer("read", { unread: 1 })).toMatchObject({ conversation_id: ID, seq: 1 });
  await until(view, ({ unread }) => unread === 1);
  client.direct("bob").readAll();
  expect(await server.answer("read", { unread: 0 })).toMatchObject({ seq: 2 });
  await until(view, ({ unread }) => unread === 0);
});

it("marks as read what is on the screen, although its row has not come", async () => {
  const client = await start();
  const view = client.direct("bob").messages();
  await server.catchUp();
  const page = { messages: [message(1), message(2)], more: false, last_seq: 2, members };
  await server.answer("history", page);
  await server.answer("history", page);
  await until(view, ({ unread }) => unread === 2);
  client.direct("bob").readAll();
  expect(await server.answer("read", { unread: 0 })).toMatchObject({ conversation_id: ID, seq: 2 });
  await until(view, ({ unread }) => unread === 0);
});

it("shows after a restart what the last run has kept, without a network", async () => {
  const storage = memoryStorage();
  const first = await start({ storage });
  const before = first.direct("bob").messages();
  await catchUp();
  server.say({ type: "messages.new", conversation_id: ID, messages: [message(1)] });
  await until(before, isShown("s1 bob"));
  await first.direct("bob").send("never");
  await server.asked("send");
  first.direct("carol").draft("Dear");
  await first.close();
  clients.length = 0;

  server.status = 503;
  const second = await start({ storage });
  const view = second.direct("bob").messages();
  const { items } = await until(view, ({ items }) => items.length > 2);
  expect(items.map(briefItem)).toEqual([
    "d2026-11-20",
    "s1 bob",
    expect.any(String),
    expect.stringMatching(/^c.* own waiting$/),
  ]);
  await until(second.conversations(), ({ rows }) => rows.map(briefRow).includes("pcarol draft Dear"));
});

it("keeps a refused message until the user tries it again or discards it", async () => {
  const client = await start();
  const view = client.direct("bob").messages();
  await catchUp();
  const { clientMsgId, stored } = await client.direct("bob").send("hi");
  const refuse = async () => {
    const { id, action } = await server.asked("send");
    server.say({ type: "error", action, id, error: { code: "forbidden", message: "not now", retryable: false } });
  };
  await refuse();
  await expect(stored).rejects.toMatchObject({ code: "forbidden" });
  await until(view, isShown(`c${clientMsgId} own failed forbidden again`));
  const again = client.again(clientMsgId);
  await until(view, isShown(`c${clientMsgId} own waiting`));
  await refuse();
  await expect(again).rejects.toMatchObject({ code: "forbidden" });
  client.dismiss(clientMsgId);
  await until(view, ({ items }) => items.length === 0);
  await expect(client.again(clientMsgId)).rejects.toMatchObject({ code: "bad_request" });
});

it("keeps the objects of a snapshot that did not change, for all listeners of one query", async () => {
  const client = await start();
  const view = client.direct("bob").messages();
  expect(client.direct("bob").messages({ at: "newest" })).toBe(view);
  expect(client.direct("bob").messages({ at: { seq: 1 } })).not.toBe(view);
  let calls = 0;
  const unsubscribe = view.subscribe(() => {
    calls += 1;
  });
  await catchUp();
  server.say({ type: "messages.new", conversation_id: ID, messages: [message(1)] });
  const first = await until(view, isShown("s1 bob"));
  expect(view.getSnapshot()).toBe(first);
  unsubscribe();
  const counted = calls;
  server.say({ type: "messages.new", conversation_id: ID, messages: [message(2)] });
  const second = await until(view, isShown("s2 bob"));
  expect(calls).toBe(counted);
  const of = (items: readonly Item[], key: string) => items.find((item) => item.key === key);
  expect(of(second.items, "d2026-11-20")).toBe(of(first.items, "d2026-11-20"));
  expect(second).not.toBe(first);
});

it("shows a message as stored if its entry came before a restart, and its reply after", async () => {
  const storage = memoryStorage();
  const first = await start({ storage });
  const view = first.direct("bob").messages();
  await catchUp();
  const { clientMsgId } = await first.direct("bob").send("hi");
  await server.asked("send");
  const own = { ...message(1, "alice"), client_msg_id: clientMsgId };
  server.say({ type: "messages.new", conversation_id: ID, messages: [own] });
  await until(view, isShown(`c${clientMsgId} own stored`));
  await first.close();
  clients.length = 0;

  const second = await start({ storage });
  const list = second.conversations();
  await until(list, ({ rows }) => rows.map(briefRow).includes("pbob | own waiting hi"));
  await server.catchUp();
  await server.answer("send", { ...message(1, "alice"), duplicate: true });
  await until(list, ({ rows }) => rows.length > 0 && !rows.map(briefRow).includes("pbob | own waiting hi"));
});

it("calls a listener with the first content of a view, although the store was read before", async () => {
  const client = await start();
  await until(client.conversations(), () => true);
  const view = client.conversations({ archived: true });
  expect(view.getSnapshot()).toBeUndefined();
  await new Promise<void>((called) => view.subscribe(called));
  expect(view.getSnapshot()?.rows).toEqual([]);
});

it("ends a view that is closed, and begins it again with its next listener", async () => {
  const client = await start();
  const channel = client.conversation("ch_news");
  const view = channel.messages();
  await catchUp();
  await server.answer("watch", { live: true, last_seq: 0, poll_ms: 60_000 });
  view.close();
  expect(await server.answer("unwatch", {})).toMatchObject({ conversation_id: "ch_news" });
  expect(channel.messages()).not.toBe(view);
  view.subscribe(() => {});
  expect(await server.asked("watch")).toMatchObject({ conversation_id: "ch_news" });
});

it("shows the members of a group, what changes them, and after a restart those of the store", async () => {
  const storage = memoryStorage();
  const first = await start({ storage });
  const view = first.conversation("gr_ab").roster();
  const brief = () => view.members.map(({ userId, role, readSeq }) => `${userId} ${role} ${readSeq}`);
  await catchUp();
  const member = (user_id: string, role: string) => ({ user_id, role, joined_seq: 1 });
  await server.answer("members", { members: [member("carol", "member"), member("bob", "owner")], next_cursor: "2" });
  expect(await server.answer("members", { members: [member("alice", "member")], next_cursor: null })).toMatchObject({
    cursor: "2",
  });
  await until(view, ({ members }) => members.length === 3);
  expect(brief()).toEqual(["bob owner 0", "alice member 0", "carol member 0"]);
  const [bob] = view.members;
  const entry = (seq: number, system: unknown) => ({
    ...message(seq),
    conversation_id: "gr_ab",
    kind: "system",
    body: "",
    system,
  });
  server.say({
    type: "messages.new",
    conversation_id: "gr_ab",
    messages: [
      entry(1, { event: "created", title: "Trip", members: ["alice", "bob", "carol"] }),
      entry(2, { event: "members.removed", members: ["carol"] }),
      entry(3, { event: "role.changed", user_id: "alice", role: "admin" }),
      entry(4, { event: "members.added", members: ["dave"] }),
    ],
  });
  server.say({
    type: "receipt.read",
    conversation_id: "gr_ab",
    user_id: "alice",
    seq: 3,
    at: "2026-11-20T10:00:02.000Z",
  });
  await until(view, ({ members }) => members.some(({ readSeq }) => readSeq === 3));
  expect(brief()).toEqual(["bob owner 0", "alice admin 3", "dave member 0"]);
  expect(view.members[0]).toBe(bob);
  await first.close();
  clients.length = 0;

  server.status = 503;
  const second = await start({ storage });
  const later = await until(second.conversation("gr_ab").roster(), ({ members }) => members.length === 3);
  expect(later.members.map(({ userId }) => userId)).toEqual(["bob", "alice", "dave"]);
});

it("tells how the connection is doing, and each event", async () => {
  const client = await start();
  const types: string[] = [];
  const stop = client.onEvent(({ type }) => types.push(type));
  await server.catchUp();
  await new Promise<void>((resolve) => {
    const look = () => {
      if (client.connection.getSnapshot().state === "caught_up") {
        resolve();
      }
    };
    client.connection.subscribe(look);
    look();
  });
  stop();
  expect(types).toContain("state");
});

it("goes on after a listener that throws, and lets its error be seen", async () => {
  const reported = vi.fn();
  vi.stubGlobal("reportError", reported);
  const client = await start();
  const view = client.direct("bob").messages();
  const fail = () => {
    throw new Error("of the app");
  };
  client.onEvent(fail);
  view.subscribe(fail);
  const told = vi.fn();
  client.onEvent(told);
  await catchUp();
  server.say({ type: "messages.new", conversation_id: ID, messages: [message(1)] });
  await until(view, ({ items }) => items.length > 0);
  expect(told).toHaveBeenCalledWith(expect.objectContaining({ type: "message" }));
  expect(reported).toHaveBeenCalledWith(expect.objectContaining({ message: "of the app" }));
  await client.direct("bob").send("on");
  expect(await server.asked("send")).toMatchObject({ body: "on" });
});

it("finds messages that were received", async () => {
  const client = await start();
  await server.catchUp();
  server.say({
    type: "messages.new",
    conversation_id: ID,
    messages: [{ ...message(1), body: "Tickets for the ferry" }],
  });
  await server.asked("ack");
  const found = await client.search("ferry tick");
  expect(found.map(({ seq }) => seq)).toEqual([1]);
  expect(await client.search("boat")).toEqual([]);
});

it("shows names once the app wants them, and requests each once", async () => {
  const client = await start();
  const list = client.conversations();
  const unsubscribe = list.subscribe(() => {});
  await catchUp();
  client.showNames();
  server.say({ type: "messages.new", conversation_id: ID, messages: [message(1)] });
  const features = ["profiles"];
  await server.answer("ping", { pending: false, server_time: "2026-11-20T10:00:00.000Z", features });
  const found = { profiles: [{ user_id: "bob", name: "Bob", version: 1 }], left: [] };
  expect(await server.answer("profiles", found)).toEqual({ action: "profiles", user_ids: ["bob"] });
  const shown = await until(list, ({ names }) => names?.get("bob") === "Bob");
  expect(shown.rows.map(({ peerId }) => peerId)).toEqual(["bob"]);
  // Another message of the same user requests nothing. A change of the own profile requests that.
  server.say({ type: "messages.new", conversation_id: ID, messages: [message(2)] });
  const view = client.direct("bob").messages();
  const opened = until(view, ({ names, items }) => names?.get("alice") === "Alice" && items.length > 0);
  server.say({ type: "profile", version: 2 });
  const own = { profiles: [{ user_id: "alice", name: "Alice", version: 2 }], left: [] };
  await server.answer("history", {
    messages: [message(1), message(2), message(3, "alice")],
    more: false,
    last_seq: 3,
    members,
  });
  expect(await server.answer("profiles", own)).toEqual({ action: "profiles", user_ids: ["alice"] });
  await opened;
  unsubscribe();
});
