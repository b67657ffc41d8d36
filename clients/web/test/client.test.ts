// The client over real sockets: what the session's scripts leave out.

import { afterEach, beforeEach, expect, it } from "vitest";
import type { Socket } from "../src/config.ts";
import {
  type Client,
  type ClientEvent,
  type Config,
  connect,
  type Message,
  memoryStorage,
  PigeonholeError,
  type TokenNeed,
} from "../src/feed.ts";
import { whyNotOpened } from "../src/socket.ts";
import type { Database } from "../src/store/database.ts";
import { MemoryDatabase } from "../src/store/memory.ts";
import { Store } from "../src/store/store.ts";
import { message, messagesNew, nodeSocket, Server } from "./server.ts";

let server: Server;
const clients: Client[] = [];

beforeEach(async () => {
  server = await Server.start();
});

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
  await server.stop();
});

async function start(config: Partial<Config> = {}): Promise<Client> {
  const timing = { reconnectFirst: 10, reconnectMax: 20, ackEvery: 10 };
  const token = () => "a.b.c";
  const client = await connect({ url: server.url, userId: "alice", token, webSocket: nodeSocket, timing, ...config });
  clients.push(client);
  return client;
}

/** The next event that fits. */
async function until(client: Client, fits: (event: ClientEvent) => boolean): Promise<ClientEvent> {
  for await (const event of client.events) {
    if (fits(event)) {
      return event;
    }
  }
  throw new Error("the client is closed");
}

const isState = (state: string) => (event: ClientEvent) => event.type === "state" && event.state === state;

it("connects with the token as a subprotocol, catches up, sends, receives, acknowledges", async () => {
  const client = await start({ deviceId: "phone" });
  await server.catchUp();
  await until(client, isState("caught_up"));
  expect(server.offers).toEqual([["pigeonhole.v1", "bearer.a.b.c"]]);

  const { clientMsgId, stored } = await client.sendTo("bob", "hi");
  const sent = await server.answer("send", { ...message(1), duplicate: false });
  expect(sent).toEqual({ action: "send", to: "bob", client_msg_id: clientMsgId, kind: "text", body: "hi" });
  expect(await stored).toMatchObject({ conversation_id: "dm_ab", seq: 1 });
  expect(await until(client, ({ type }) => type === "message")).toMatchObject({
    message: { client_msg_id: clientMsgId },
  });

  server.say(messagesNew(2));
  expect(await until(client, ({ type }) => type === "message")).toMatchObject({ message: { seq: 2 }, missed: false });
  client.events.done();
  expect(await server.asked("ack")).toMatchObject({ up_to: [{ conversation_id: "dm_ab", seq: 2 }] });

  const read = client.read("dm_ab", 2);
  await server.answer("read", { unread: 0 });
  expect(await read).toEqual({ unread: 0 });
  const page = client.history("dm_ab", { before_seq: 2 }, 1);
  const history = { messages: [message(1)], more: false, last_seq: 2, members: [] };
  expect(await server.answer("history", history)).toMatchObject({ conversation_id: "dm_ab", before_seq: 2, limit: 1 });
  expect((await page).messages).toHaveLength(1);
  const chats = client.inbox();
  await server.answer("inbox", { conversations: [], next_cursor: null });
  expect(await chats).toEqual({ conversations: [], next_cursor: null });
  expect(client.stats).toMatchObject({ sent: 1, answered: 1, received: 1 });
});

it("keeps what was written without a network, sends it once there is one, and in the same order", async () => {
  const { url } = server;
  await server.stop();
  const storage = memoryStorage();
  const offline = await start({ url, storage });
  await until(offline, isState("offline"));
  const [one] = await Promise.all(["one", "two", "three"].map((body) => offline.sendTo("bob", body)));
  await offline.close();
  // The message is still in the outbox.
  await expect(one?.stored).rejects.toMatchObject({ code: "closed" });
  await expect(offline.sendTo("bob", "four")).rejects.toMatchObject({ code: "closed" });

  server = await Server.start();
  const client = await start({ storage });
  expect(client.outbox).toMatchObject([{ body: "one" }, { body: "two" }, { body: "three" }]);
  const bodies = [];
  for (let seq = 1; seq <= 3; seq += 1) {
    bodies.push((await server.answer("send", { ...message(seq), duplicate: false })).body);
  }
  expect(bodies).toEqual(["one", "two", "three"]);
  await until(client, (event) => event.type === "message" && event.message.seq === 3);
  expect(client.outbox).toEqual([]);
});

it("keeps changes as it keeps messages, sends them in the same lane, and tells each as the entry that it became", async () => {
  const { url } = server;
  await server.stop();
  const storage = memoryStorage();
  const earlier = await Store.open(storage, "alice");
  await earlier.apply([{ change: { held: { conversation_id: "dm_ab", seq: 4 } } }], false);
  const offline = await start({ url, storage });
  await until(offline, isState("offline"));
  await Promise.all([
    offline.reply("dm_ab", 4, "an answer"),
    offline.edit("dm_ab", 3, "better"),
    offline.react("dm_ab", 4, "👍"),
    offline.react("dm_ab", 4, null),
    offline.delete("dm_ab", 2),
  ]);
  await expect(offline.edit("dm_ab", 3, "x".repeat(17_000))).rejects.toMatchObject({ code: "too_large" });
  await offline.close();

  server = await Server.start();
  const client = await start({ storage });
  const target = { conversation_id: "dm_ab" };
  expect(client.outbox).toMatchObject([
    { target, body: "an answer", replyTo: 4 },
    { request: { action: "edit", ...target, seq: 3, body: "better" } },
    { request: { action: "react", ...target, seq: 4, emoji: "👍" } },
    { request: { action: "react", ...target, seq: 4, emoji: null } },
    { request: { action: "delete", ...target, seq: 2 } },
  ]);
  const asked = [];
  for (const [at, action] of ["send", "edit", "react", "react", "delete"].entries()) {
    const version = action === "edit" ? { version: 2 } : {};
    const { client_msg_id: _, ...request } = await server.answer(action, {
      ...message(5 + at),
      ...version,
      duplicate: false,
    });
    asked.push(request);
  }
  expect(asked).toEqual([
    { action: "send", ...target, kind: "text", body: "an answer", reply_to: 4 },
    { action: "edit", ...target, seq: 3, body: "better" },
    { action: "react", ...target, seq: 4, emoji: "👍" },
    { action: "react", ...target, seq: 4, emoji: null },
    { action: "delete", ...target, seq: 2 },
  ]);
  const told: Message[] = [];
  while (told.length < 5) {
    const event = await until(client, ({ type }) => type === "message");
    told.push(...(event.type === "message" ? [event.message] : []));
  }
  const entries = told.map(({ message_id: _, sent_at: __, client_msg_id: ___, sender_id, ...entry }) => entry);
  expect(entries).toEqual([
    { ...target, seq: 5, kind: "text", body: "an answer", reply_to: 4 },
    { ...target, seq: 6, kind: "edit", body: "better", target_seq: 3, keeps_data: true, version: 2 },
    { ...target, seq: 7, kind: "reaction", body: "", target_seq: 4, emoji: "👍" },
    { ...target, seq: 8, kind: "reaction", body: "", target_seq: 4 },
    { ...target, seq: 9, kind: "delete", body: "", target_seq: 2 },
  ]);
});

it("makes a group and changes it, in the order of the calls, and looks it up", async () => {
  const client = await start();
  await server.catchUp();
  await until(client, isState("caught_up"));
  const made = await client.create({ title: "Trip", members: ["bob"] });
  const asked = await server.answer("create", { ...message(1, "gr_ab"), duplicate: false });
  expect(asked).toEqual({ action: "create", client_msg_id: made.clientMsgId, title: "Trip", members: ["bob"] });
  expect(await made.stored).toMatchObject({ conversation_id: "gr_ab", seq: 1 });

  const added = await client.add("gr_ab", ["carol", "bob"]);
  await client.reply("gr_ab", 1, { body: "hi @carol", mentions: ["carol"] });
  const renamed = await client.update("gr_ab", { title: "Sea" });
  await server.answer("add", { ...message(2, "gr_ab"), duplicate: false, added: ["carol"], already: ["bob"] });
  expect(await added.stored).toMatchObject({ seq: 2, added: ["carol"], already: ["bob"] });
  expect(await server.answer("send", { ...message(3, "gr_ab"), duplicate: false })).toMatchObject({
    body: "hi @carol",
    reply_to: 1,
    mentions: ["carol"],
  });
  await server.answer("update", { ...message(4, "gr_ab"), duplicate: false });
  await renamed.stored;
  const told: Message[] = [];
  while (told.length < 4) {
    const event = await until(client, ({ type }) => type === "message");
    told.push(...(event.type === "message" ? [event.message] : []));
  }
  expect(told.map(({ kind, system, mentions }) => system ?? { kind, mentions })).toEqual([
    { event: "created", title: "Trip", members: ["alice", "bob"] },
    { event: "members.added", members: ["carol"] },
    { kind: "text", mentions: ["carol"] },
    { event: "info.changed", title: "Sea" },
  ]);

  const members = client.members("gr_ab", { limit: 1, cursor: "bob" });
  const page = { members: [{ user_id: "carol", role: "member", joined_seq: 2 }], next_cursor: null };
  expect(await server.answer("members", page)).toEqual({
    action: "members",
    conversation_id: "gr_ab",
    limit: 1,
    cursor: "bob",
  });
  expect(await members).toEqual(page);
  const receipts = client.receipts("gr_ab");
  await server.answer("receipts", { delivered_seq: 4, read_seq: 4, members: [], next_cursor: null });
  expect(await receipts).toMatchObject({ delivered_seq: 4 });
  const reactions = client.reactions("gr_ab", 3);
  await server.answer("reactions", { reactions: [{ user_id: "bob", emoji: "👍" }], next_cursor: null });
  expect((await reactions).reactions).toEqual([{ user_id: "bob", emoji: "👍" }]);
  const report = client.report({ conversation_id: "gr_ab", seqs: [3], reason: "spam" });
  const reported = { action: "report", conversation_id: "gr_ab", seqs: [3], reason: "spam" };
  expect(await server.answer("report", { report_id: "r_1" })).toEqual(reported);
  expect(await report).toBe("r_1");
  const profiles = client.profiles(["bob"]);
  const found = { profiles: [{ user_id: "bob", name: "Bob", version: 3 }], left: [] };
  expect(await server.answer("profiles", found)).toEqual({ action: "profiles", user_ids: ["bob"] });
  expect(await profiles).toEqual(found);
  const named = client.setProfile({ name: "Alice", data: null });
  const set = { action: "profile", set: { name: "Alice", data: null } };
  expect(await server.answer("profile", { version: 4 })).toEqual(set);
  expect(await named).toBe(4);
  const read = client.read("gr_ab", 4);
  await server.answer("read", { unread: 0, mentions: 0 });
  expect(await read).toEqual({ unread: 0, mentions: 0 });
});

it("refuses at once what the server would refuse of a group", async () => {
  const client = await start();
  const many = (count: number) => Array.from({ length: count }, (_, at) => `user-${at}`);
  const to = { conversation_id: "gr_ab" };
  const refused: [Promise<unknown>, string][] = [
    [client.create({ title: "", members: [] }), "title"],
    [client.create({ title: "x".repeat(65), members: [] }), "title"],
    [client.create({ title: "語".repeat(64), members: many(51) }), "members"],
    [client.create({ title: "𝄞".repeat(64), members: [] }), "title"],
    [client.create({ title: "Trip", members: ["bob", "bob"] }), "members"],
    [client.create({ title: "Trip", members: ["two words"] }), "members"],
    [client.add("gr_ab", []), "members"],
    [client.add("gr_ab", many(51)), "members"],
    [client.update("gr_ab", {}), "title"],
    [client.send(to, { body: "hi", mentions: many(21) }), "mentions"],
    [client.send(to, "🙂".slice(0, 1)), "body"],
    [client.send(to, { body: "hi", kind: "poll", data: {} }), "kind"],
    [client.send(to, { body: "hi", kind: "x-poll" }), "data"],
    [client.send(to, { body: "hi", kind: "xs-vote", data: {} }), "body"],
    [client.send(to, { body: "hi", data: { a: { b: { c: { d: { e: { f: { g: { h: {} } } } } } } } } }), "data"],
    [client.create({ title: "🙂".slice(0, 1), members: [] }), "title"],
    [client.react("gr_ab", 1, "🙂".slice(1)), "emoji"],
  ];
  for (const [asked, field] of refused) {
    await expect(asked).rejects.toMatchObject({ code: "bad_request", message: expect.stringContaining(`${field}: `) });
  }
  const long = many(20).map((id) => id.padEnd(128, "\\"));
  await expect(client.send(to, { body: "hi", mentions: long })).rejects.toMatchObject({ code: "too_large" });
  for (const asked of [
    client.send(to, { body: "hi", data: { x: "y".repeat(2_041) } }),
    client.edit("gr_ab", 1, "hi", { x: "y".repeat(2_041) }),
  ]) {
    await expect(asked).rejects.toMatchObject({ code: "too_large", message: expect.stringContaining("data: ") });
  }
  expect(client.outbox).toEqual([]);
  await client.create({ title: "語".repeat(64), members: many(50) });
  await client.send(to, { body: "hi", mentions: ["*"] });
  expect(client.outbox).toHaveLength(2);
});

it("tells of a change that is refused, with all that it was to be", async () => {
  const client = await start();
  await server.catchUp();
  const { clientMsgId, stored } = await client.edit("dm_ab", 3, "better");
  const { id } = await server.asked("edit");
  server.say({ type: "error", action: "edit", id, error: { code: "gone", message: "deleted", retryable: false } });
  await expect(stored).rejects.toMatchObject({ code: "gone" });
  expect(await until(client, ({ type }) => type === "failed")).toMatchObject({
    clientMsgId,
    request: { action: "edit", conversation_id: "dm_ab", seq: 3, body: "better" },
    error: { code: "gone" },
  });
  expect(client.outbox).toEqual([]);
});

it("asks who is there, tells that its user writes, and hears that others do", async () => {
  const client = await start();
  // Without a connection, the client sends no event.
  client.typing("dm_ab");
  await server.catchUp();
  await until(client, isState("caught_up"));
  client.typing("dm_ab");
  client.typing("dm_ab");
  client.typing("dm_ac");
  expect(await server.asked("typing")).toEqual({ action: "typing", conversation_id: "dm_ab" });
  expect(await server.asked("typing")).toEqual({ action: "typing", conversation_id: "dm_ac" });
  const users = client.presence(["bob"]);
  const found = [{ user_id: "bob", online: false, last_seen_at: "2026-11-20T10:00:05.000Z" }];
  expect(await server.answer("presence", { users: found })).toEqual({ action: "presence", user_ids: ["bob"] });
  expect(await users).toEqual(found);
  const typing = { type: "typing", conversation_id: "dm_ab", user_id: "bob", at: "2026-11-20T10:00:05.000Z" };
  server.say(typing);
  expect(await until(client, ({ type }) => type === "typing")).toEqual(typing);
});

it.each([1000, 1001, 1008, 1009, 1011, 4000])("comes back after the server has closed with %i", async (code) => {
  const client = await start();
  await server.catchUp();
  const { stored } = await client.sendTo("bob", "hi");
  const { client_msg_id } = await server.asked("send");
  server.socket.close(code);
  const offline = await until(client, isState("offline"));
  expect(offline).toMatchObject({ why: { reason: "closed", detail: String(code) } });
  expect(await server.answer("send", { ...message(1), duplicate: true })).toMatchObject({ client_msg_id });
  expect(await stored).toMatchObject({ seq: 1 });
});

it("comes back after the connection has broken", async () => {
  const client = await start();
  await server.catchUp();
  server.socket.terminate();
  expect(await until(client, isState("offline"))).toMatchObject({ why: { reason: "lost" } });
  await server.catchUp();
  await until(client, isState("caught_up"));
  expect(client.stats.reconnects).toBe(1);
});

it("asks for another token where the platform says that it was refused", async () => {
  server.status = 403;
  const needs: TokenNeed[] = [];
  const token = (need: TokenNeed) => {
    needs.push(need);
    return `${need}.b.c`;
  };
  const client = await start({ token });
  expect(await until(client, isState("offline"))).toMatchObject({ why: { reason: "token_refused", status: 403 } });
  expect(needs).toEqual(["connect", "refused"]);
  server.status = 101;
  await server.catchUp();
  await until(client, isState("caught_up"));
  expect(server.offers.at(-1)).toEqual(["pigeonhole.v1", "bearer.refused.b.c"]);
});

it("takes a status for one, and not a port", () => {
  const statusOf = (detail: string) => {
    const why = whyNotOpened(detail);
    return "status" in why ? why.status : why.reason;
  };
  expect(statusOf("Unexpected server response: 401")).toBe(401);
  expect(statusOf("Expected HTTP 101 response but was '503 Service Unavailable'")).toBe(503);
  expect(statusOf("Received bad response code from server: 429.")).toBe(429);
  expect(statusOf("Failed to connect to chat.example.com/203.0.113.9:443")).toBe("unreachable");
  expect(statusOf("connect ECONNREFUSED 2001:db8:401::1:443")).toBe("unreachable");
});

it("replaces a connection before its token ends, by one with another token", async () => {
  const needs: TokenNeed[] = [];
  const token = (need: TokenNeed) => {
    needs.push(need);
    // The client requests another token a minute before the expiry.
    const claims = Buffer.from(JSON.stringify({ exp: Date.now() / 1000 + 61 })).toString("base64url");
    return need === "connect" ? `e30.${claims}.c2ln` : "a.b.c";
  };
  const client = await start({ token });
  await server.catchUp();
  await until(client, isState("caught_up"));
  const [old] = server.sockets;
  const closed = new Promise((resolve) => old?.once("close", resolve));
  await server.catchUp();
  await closed;
  expect(needs).toEqual(["connect", "expired"]);
  expect(client.stats.reconnects).toBe(1);
});

it("closes when it is one too many, and comes back when it is woken", async () => {
  const client = await start();
  await server.catchUp();
  const { socket } = server;
  const closed = new Promise((resolve) => socket.once("close", resolve));
  server.say({ type: "connection.replaced" });
  await until(client, isState("replaced"));
  await closed;
  client.wake();
  await server.catchUp();
  await until(client, isState("caught_up"));
});

it("sets what the app wants, and tells when it is set", async () => {
  const client = await start();
  await server.catchUp();
  const set = client.settings({ conversation_id: "dm_ab", set: { muted_until: "forever" } });
  expect(await server.answer("settings", {})).toEqual({
    action: "settings",
    conversation_id: "dm_ab",
    set: { muted_until: "forever" },
  });
  expect(await set).toBeUndefined();
  expect(await until(client, ({ type }) => type === "settings")).toEqual({
    type: "settings",
    settings: { conversation_id: "dm_ab", set: { muted_until: "forever" } },
  });
});

it("asks for a token with `unsure` where the platform does not say why a try failed, as in browsers", async () => {
  server.status = 401;
  const webSocket: Config["webSocket"] = (url, protocols) => {
    const socket = nodeSocket(url, protocols);
    return new Proxy(socket, {
      get: (target, name) => {
        const value = Reflect.get(target, name);
        return typeof value === "function" ? value.bind(target) : value;
      },
      // Their error events carry no text.
      set: (target, name, value) =>
        Reflect.set(target, name, name === "onerror" && value ? () => value({} as never) : value),
    });
  };
  const needs: TokenNeed[] = [];
  const token = (need: TokenNeed) => {
    needs.push(need);
    return "a.b.c";
  };
  const client = await start({ webSocket, token });
  expect(await until(client, isState("offline"))).toMatchObject({ why: { reason: "unreachable" } });
  await until(client, isState("offline"));
  expect(needs).toEqual(["connect", "unsure"]);
});

it("knows at once that a try failed where the socket only says so by an error, as in Node", async () => {
  const message = "Received network error or non-101 status code.";
  const needs: TokenNeed[] = [];
  const token = (need: TokenNeed) => {
    needs.push(need);
    return "a.b.c";
  };
  const webSocket = () => {
    const socket: Socket = { onopen: null, onmessage: null, onerror: null, onclose: null, send() {}, close() {} };
    setTimeout(() => socket.onerror?.({ message } as never));
    return socket;
  };
  const client = await start({ webSocket, token });
  const offline = { why: { reason: "unreachable", detail: message } };
  expect(await until(client, isState("offline"))).toMatchObject(offline);
  expect(await until(client, isState("offline"))).toMatchObject(offline);
  expect(needs).toEqual(["connect", "unsure"]);
});

it("tells of a token callback that fails or never answers, and asks it again", async () => {
  let asked = 0;
  const token = async () => {
    asked += 1;
    if (asked === 1) {
      throw new Error("signed out");
    }
    return asked === 2 ? new Promise<string>(() => {}) : "a.b.c";
  };
  const client = await start({ token, timing: { reconnectFirst: 1, dialWait: 50 } });
  const offline = await until(client, isState("offline"));
  expect(offline).toMatchObject({ why: { reason: "no_token", detail: "Error: signed out" } });
  expect(await until(client, isState("offline"))).toMatchObject({ why: { reason: "unreachable" } });
  await server.catchUp();
  await until(client, isState("caught_up"));
});

it("connects with no token of another user, and says whose it is", async () => {
  const tokens = ["bob", "alice"].map(
    (sub) => `e30.${Buffer.from(JSON.stringify({ sub })).toString("base64url")}.c2ln`,
  );
  const needs: TokenNeed[] = [];
  const token = (need: TokenNeed) => {
    needs.push(need);
    return tokens[needs.length - 1] ?? "";
  };
  const client = await start({ token, timing: { reconnectFirst: 1 } });
  const detail = 'the token is for the user "bob" (its sub), and the client for "alice": get a token for "alice"';
  expect(await until(client, isState("offline"))).toMatchObject({ why: { reason: "wrong_user", detail } });
  await server.catchUp();
  await until(client, isState("caught_up"));
  expect(server.offers).toEqual([["pigeonhole.v1", `bearer.${tokens[1]}`]]);
});

it("shows nobody a token that no connection can be opened with", async () => {
  const client = await start({ token: async () => "a.b.c\n", timing: { reconnectFirst: 1 } });
  const offline = await until(client, isState("offline"));
  expect(offline).toMatchObject({ why: { reason: "no_token" } });
  expect(JSON.stringify(offline)).not.toContain("a.b.c");
});

it("stops waiting for a server that accepts the connection and never answers the upgrade", async () => {
  const { createServer } = await import("node:net");
  const deaf = createServer(() => {});
  await new Promise<void>((listening) => deaf.listen(0, "127.0.0.1", listening));
  const { port } = deaf.address() as { port: number };
  const client = await start({ url: `ws://127.0.0.1:${port}/v1`, timing: { dialWait: 50 } });
  expect(await until(client, isState("offline"))).toMatchObject({ why: { reason: "unreachable" } });
  deaf.close();
});

it("refuses what can't work", async () => {
  await expect(start({ url: "https://example.com" })).rejects.toMatchObject({ code: "config" });
  await expect(start({ deviceId: "my phone" })).rejects.toMatchObject({ code: "config" });
  const broken = { open: () => Promise.reject(new Error("broken")) };
  await expect(start({ storage: broken })).rejects.toMatchObject({ code: "storage" });
  const client = await start();
  await expect(client.sendTo("bob", "x".repeat(16 * 1024 + 1))).rejects.toMatchObject({ code: "too_large" });
  await expect(client.sendTo("bob", "\u0001".repeat(5000))).rejects.toBeInstanceOf(PigeonholeError);
  expect(client.stats.sent).toBe(0);
});

it("has no connection while it can't write, and writes the same then", async () => {
  const database = new MemoryDatabase();
  let isFull = false;
  const full: Database = {
    keepsFiles: true,
    transaction: (mode, run) => {
      if (isFull && mode !== "read") {
        throw new Error("the disk is full");
      }
      return database.transaction(mode, run);
    },
    close: () => {},
  };
  const client = await start({ storage: { open: async () => full }, timing: { reconnectFirst: 20 } });
  await server.catchUp();
  server.say(messagesNew(1));
  await until(client, ({ type }) => type === "message");
  isFull = true;
  client.events.done();
  expect(await until(client, isState("offline"))).toMatchObject({ why: { reason: "storage", detail: /full/ } });
  // Neither acknowledged nor sent.
  await expect(client.sendTo("bob", "hi")).rejects.toMatchObject({ code: "storage" });
  isFull = false;
  await server.catchUp();
  await client.sendTo("bob", "hi");
  await server.asked("send");
});

it("acknowledges nothing that the app has not asked past, and what it has when it is closed", async () => {
  const client = await start({ timing: { ackEvery: 60_000 } });
  await server.catchUp();
  for (const seq of [1, 2, 3]) {
    server.say(messagesNew(seq));
  }
  const seqs = [];
  for await (const event of client.events) {
    if (event.type === "message") {
      seqs.push(event.message.seq);
    }
    if (seqs.length === 3) {
      break;
    }
  }
  expect(await server.asked("ack")).toMatchObject({ up_to: [{ seq: 1 }] });
  const closed = client.close();
  expect(await server.asked("ack")).toMatchObject({ up_to: [{ seq: 2 }] });
  await closed;
  expect(await client.events.next()).toEqual({ done: true, value: undefined });
});
