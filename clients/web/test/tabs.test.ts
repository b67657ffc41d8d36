// Several tabs are one client: leaders that close, die, stop and come back.

import { once } from "node:events";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import type { ClientEvent } from "../src/events.ts";
import type { Message, SendResult } from "../src/frames.ts";
import { directConversationId } from "../src/made-ids.ts";
import { Events, open as openClient, Pigeonhole } from "../src/pigeonhole.ts";
import { start } from "../src/start.ts";
import type { Shared } from "../src/store/database.ts";
import { MemoryDatabase } from "../src/store/memory.ts";
import { Tabs } from "../src/tabs.ts";
import { Browser, type Page } from "./browser.ts";
import { nodeSocket } from "./server.ts";

const ID = directConversationId("alice", "bob");

// biome-ignore lint/suspicious/noExplicitAny: frames, as they came.
type Frame = any;

/** A server with one conversation, which answers everything. */
class Chat {
  readonly url: string;
  readonly messages: Message[] = [];
  /** The actions that have come. */
  readonly asked: Frame[] = [];
  /** The number of connections so far. */
  dialled = 0;
  /** While this is set, messages get no reply. */
  isDeaf = false;
  /** While this is set, messages are refused. */
  isRefusing = false;
  #sockets: WebSocketServer;

  static async start(): Promise<Chat> {
    const sockets = new WebSocketServer({ port: 0, host: "127.0.0.1", handleProtocols: () => "pigeonhole.v1" });
    await once(sockets, "listening");
    return new Chat(sockets);
  }

  private constructor(sockets: WebSocketServer) {
    this.#sockets = sockets;
    this.url = `ws://127.0.0.1:${(sockets.address() as AddressInfo).port}/v1`;
    sockets.on("connection", (socket) => {
      this.dialled += 1;
      socket.on("message", (text) => this.#answer(socket, JSON.parse(String(text))));
    });
  }

  get connections(): number {
    return [...this.#sockets.clients].filter(({ readyState }) => readyState === 1).length;
  }

  stored(sender_id: string, body: string, client_msg_id?: string): Message {
    const seq = this.messages.length + 1;
    const sent_at = new Date(Date.UTC(2026, 10, 20, 10, 0, seq)).toISOString();
    const known = this.messages.find((message) => message.client_msg_id === client_msg_id);
    if (known && client_msg_id !== undefined) {
      return known;
    }
    const message = { conversation_id: ID, seq, message_id: `m${seq}`, sender_id, kind: "text", body, sent_at };
    this.messages.push({ ...message, ...(client_msg_id === undefined ? {} : { client_msg_id }) });
    return message;
  }

  /** Bob writes. */
  say(body: string): void {
    const message = this.stored("bob", body);
    for (const socket of this.#sockets.clients) {
      socket.send(JSON.stringify({ type: "messages.new", conversation_id: ID, messages: [message] }));
    }
  }

  /** Another device has taken the place of this one. */
  replace(): void {
    for (const socket of this.#sockets.clients) {
      socket.send(JSON.stringify({ type: "connection.replaced" }));
    }
  }

  #answer(socket: WebSocket, { id, action, ...fields }: Frame): void {
    this.asked.push({ action, ...fields });
    if (action === "send" && this.isDeaf) {
      return;
    }
    if (action === "send" && this.isRefusing) {
      const error = { code: "forbidden", message: "not now", retryable: false };
      socket.send(JSON.stringify({ type: "error", action, id, error }));
      return;
    }
    const result = this.#result(action, fields);
    if (id !== undefined) {
      socket.send(JSON.stringify({ type: "reply", action, id, result }));
    }
  }

  #result(action: string, { body, client_msg_id, after_seq = 0, before_seq = 1e9 }: Frame): unknown {
    const last_seq = this.messages.length;
    switch (action) {
      case "send": {
        const { conversation_id, seq, message_id, sent_at } = this.stored("alice", body, client_msg_id);
        return { conversation_id, seq, message_id, sent_at, duplicate: false };
      }
      case "drain":
        return { messages: [], more: false };
      case "inbox": {
        const last = this.messages.at(-1);
        const { seq = 0, sender_id = "", kind = "", sent_at = "", body: preview = "" } = last ?? {};
        const last_message = { seq, sender_id, kind, sent_at, preview };
        const row = { conversation_id: ID, kind: "direct", peer_id: "bob", last_message, last_seq };
        const conversations = last ? [{ ...row, unread: 0, delivered_seq: 0, read_seq: 0 }] : [];
        return { conversations, next_cursor: null };
      }
      case "channels":
        return { conversations: [], next_cursor: null };
      case "history": {
        const messages = this.messages.filter(({ seq }) => seq > after_seq && seq < before_seq);
        const marks = { delivered_seq: 0, read_seq: 0 };
        return { messages, more: false, last_seq, members: [{ user_id: "alice", ...marks }] };
      }
      case "presence":
        return { users: [], watched: [] };
      case "watch":
        return { live: true, last_seq: 0, poll_ms: 60_000 };
      case "read":
        return { unread: 0 };
      case "ping":
        return { pending: false };
      default:
        return {};
    }
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets.clients) {
      socket.terminate();
    }
    await new Promise((stopped) => this.#sockets.close(stopped));
  }
}

let chat: Chat;
let browser: Browser;
let last = 0;
const open: { tab: Tab; close(): Promise<void> }[] = [];

interface Tab {
  page: Page;
  client: Pigeonhole;
  events: ClientEvent[];
}

beforeEach(async () => {
  chat = await Chat.start();
  browser = new Browser();
  last += 1;
});

afterEach(async () => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  await Promise.all(open.splice(0).map(({ tab, close }) => (tab.page.isDead ? undefined : close())));
  await chat.stop();
});

/** Opens the tables as another version does. */
function opened(version: number): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(`pigeonhole:tabs ${last}`, version);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

async function tab(
  userId = "alice",
  page = browser.page(),
  shared: Shared = page.storage(`tabs ${last}`),
): Promise<Tab> {
  const app = new Events();
  const events: ClientEvent[] = [];
  app.listen((event) => events.push(event));
  const timing = { reconnectFirst: 10, reconnectMax: 20, ackEvery: 10 };
  const config = { url: chat.url, userId, token: () => "a.b.c", webSocket: page.webSocket, timing };
  const tabs = await Tabs.open({
    me: userId,
    shared,
    platform: page,
    start: (storage, app) => start(config, storage, "store", app),
    app,
  });
  const opened = { page, client: new Pigeonhole(tabs, app), events };
  open.push({ tab: opened, close: () => opened.client.close() });
  return opened;
}

/** Waits for a state, which something brings within the time of the test. */
async function until(is: () => boolean): Promise<void> {
  while (!is()) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const bodies = (of: Tab) => {
  const view = of.client.direct("bob").messages();
  view.subscribe(() => {});
  return () => view.items.flatMap((item) => (item.type === "message" ? [item.body] : []));
};

it("has one connection, and shows in each tab what any of them does", async () => {
  const [first, second, third] = [await tab(), await tab(), await tab()];
  const views = [first, second, third].map(bodies);
  await until(() => chat.connections === 1);
  const sent = await second.client.direct("bob").send("from the second");
  expect(await sent.stored).toMatchObject({ seq: 1 });
  chat.say("to all");
  await until(() => views.every((view) => view().join() === "from the second,to all"));
  expect(chat.connections).toBe(1);
  // Each tab gets the events.
  for (const { events } of [first, second, third]) {
    expect(events.filter(({ type }) => type === "message")).toHaveLength(2);
  }
  expect(third.client.connection.getSnapshot()).toMatchObject({ state: "caught_up" });
  expect(await third.client.search("sec")).toMatchObject([{ body: "from the second" }]);
});

it("goes on with the next tab when the leader dies, and sends once what was under way", async () => {
  const [first, second, third] = [await tab(), await tab(), await tab()];
  const view = bodies(third);
  await until(() => chat.connections === 1);
  chat.isDeaf = true;
  const sent = await third.client.direct("bob").send("under way");
  await until(() => chat.asked.some(({ action }) => action === "send"));
  // A message that no leader has heard of.
  first.page.stop();
  const unheard = third.client.direct("bob").send("unheard");
  chat.isDeaf = false;
  browser.kill(first.page);
  expect(await sent.stored).toMatchObject({ seq: 1 });
  expect(await (await unheard).stored).toMatchObject({ seq: 2 });
  await until(() => view().join() === "under way,unheard");
  expect(chat.messages.map(({ body }) => body)).toEqual(["under way", "unheard"]);
  // By the first leader, and by the second, whose outbox had it.
  expect(chat.asked.filter(({ body }) => body === "under way")).toHaveLength(2);
  chat.say("hello");
  await until(() => view().join() === "under way,unheard,hello");
  browser.kill(second.page);
  await until(() => third.client.connection.getSnapshot().state === "caught_up");
  chat.say("again");
  await until(() => view().at(-1) === "again");
});

it("takes the lead from a tab that stopped, which then can write no more", async () => {
  const [first, second] = [await tab(), await tab()];
  const views = [bodies(first), bodies(second)];
  await until(() => chat.connections === 1);
  first.page.stop();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"], now: 0 });
  const sent = second.client.direct("bob").send("without a leader");
  let stored: SendResult | undefined;
  sent
    .then(({ stored }) => stored)
    .then((result) => {
      stored = result;
    });
  while (!stored) {
    await vi.advanceTimersByTimeAsync(50);
    // The store's work has no timers.
    await new Promise((resolve) => setImmediate(resolve));
  }
  vi.useRealTimers();
  expect(stored).toMatchObject({ seq: 1 });
  // The first tab has not heard of that, and its socket brings an entry.
  chat.say("to both");
  await until(() => chat.connections === 1);
  expect(first.events.some(({ type }) => type === "message")).toBe(false);
  first.page.resume();
  await until(() => views.every((view) => view().join() === "without a leader,to both"));
  // Not from each other without end.
  expect(await (await first.client.direct("bob").send("follows")).stored).toMatchObject({ seq: 3 });
  expect(chat.connections).toBe(1);
});

it("does not take the lead from a tab that takes long to open the store", async () => {
  const slow = browser.page();
  let goOn = () => {};
  slow.opens = new Promise((resolve) => {
    goOn = resolve;
  });
  const first = tab("alice", slow);
  await until(() => slow.isAsked);
  const posted = slow.posted;
  const second = tab();
  // An answer, after which the second tab has no timer.
  await until(() => slow.posted > posted);
  goOn();
  const tabs = await Promise.all([first, second]);
  await until(() => tabs.every(({ client }) => client.connection.getSnapshot().state === "caught_up"));
  expect(chat.dialled).toBe(1);
  browser.kill(slow);
  await until(() => chat.dialled === 2);
});

it("carries a request out once that a tab had to repeat", async () => {
  const [first, second] = [await tab(), await tab()];
  await until(() => first.client.connection.getSnapshot().state === "caught_up");
  first.page.stop();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"], now: 0 });
  const blocked = second.client.block("mallory", true);
  await vi.advanceTimersByTimeAsync(2500);
  vi.useRealTimers();
  first.page.resume();
  await blocked;
  await second.client.block("mallory", false);
  expect(chat.asked.filter(({ action }) => action === "settings").map(({ set }) => set.blocked)).toEqual([true, false]);
});

it("takes the proxies of a framework as the plain values that they stand for", async () => {
  const [first, second] = [await tab(), await tab()];
  for (const { client } of [first, second]) {
    const bob = client.direct("bob");
    const data = new Proxy({ at: new Proxy([1], {}) }, {});
    const sent = await bob.send({ body: "hi", mentions: new Proxy(["bob"], {}), kind: "x-place", data });
    await sent.stored;
    bob.draft({ body: "later", mentions: new Proxy(["bob"], {}) });
    expect(await client.presence(new Proxy(["bob"], {}))).toEqual([]);
    const list = client.conversations(new Proxy({ archived: false }, {}));
    list.subscribe(() => {});
    await until(() => list.rows[0]?.draft?.body === "later");
    bob.draft(undefined);
    await until(() => list.rows[0] !== undefined && list.rows[0].draft === undefined);
  }
  expect(chat.asked.find(({ action }) => action === "send")).toMatchObject({ mentions: ["bob"], data: { at: [1] } });
});

it("refuses a request that no other tab can get, and repeats the others to the next leader", async () => {
  const [first, second] = [await tab(), await tab()];
  await until(() => chat.connections === 1);
  const user_ids = new Proxy(["bob"], {});
  const { engine } = second.client;
  await expect(engine.call({ action: "presence", user_ids })).rejects.toMatchObject({ code: "bad_request" });
  browser.kill(first.page);
  expect(await second.client.presence(["bob"])).toEqual([]);
});

it("makes way for a later version of the app, in another tab", async () => {
  const [first, second] = [await tab(), await tab()];
  await until(() => chat.connections === 1);
  const open = async () => {
    (await opened(99)).close();
    return new MemoryDatabase();
  };
  const later = await tab("alice", browser.page(), { name: `pigeonhole:tabs ${last}`, version: 99, open });
  await until(() => [first, second].every(({ events }) => events.some(({ type }) => type === "reload")));
  await until(() => chat.connections === 1);
  await expect(first.client.direct("bob").send("late")).rejects.toMatchObject({ code: "closed" });
  await (await later.client.direct("bob").send("from the later version")).stored;
  // An old page, from a cache, leaves it alone.
  await expect(tab()).rejects.toMatchObject({ code: "newer" });
  await (await later.client.direct("bob").send("again")).stored;
  expect(chat.connections).toBe(1);
});

it("makes way for a later version that needs the database", async () => {
  const [first, second] = [await tab(), await tab()];
  await until(() => chat.connections === 1);
  (await opened(99)).close();
  await until(() => [first, second].every(({ events }) => events.some(({ type }) => type === "reload")));
  await until(() => chat.connections === 0);
});

it("leaves its store, socket and lock to others while the browser keeps the page for a return", async () => {
  const [window, document] = [new EventTarget(), Object.assign(new EventTarget(), { visibilityState: "visible" })];
  vi.stubGlobal("window", window);
  vi.stubGlobal("document", document);
  const first = await tab();
  const view = bodies(first);
  await until(() => chat.connections === 1);
  vi.unstubAllGlobals();
  window.dispatchEvent(new Event("pagehide"));
  await until(() => chat.connections === 0);
  const second = await tab();
  await until(() => chat.connections === 1);
  await (await second.client.direct("bob").send("meanwhile")).stored;
  window.dispatchEvent(Object.assign(new Event("pageshow"), { persisted: true }));
  await until(() => view().join() === "meanwhile");
  expect(chat.connections).toBe(1);
  browser.kill(second.page);
  await (await first.client.direct("bob").send("leads again")).stored;
  await until(() => view().join() === "meanwhile,leads again");
});

it("connects again after another device took its place only for its user", async () => {
  const window = new EventTarget();
  vi.stubGlobal("window", window);
  vi.stubGlobal("document", Object.assign(new EventTarget(), { visibilityState: "visible" }));
  const [first, second] = [await tab(), await tab()];
  const state = () => second.client.connection.getSnapshot().state;
  await until(() => state() === "caught_up");
  chat.replace();
  await until(() => state() === "replaced" && chat.connections === 0);
  window.dispatchEvent(new Event("online"));
  // The leader has heard of the network by now.
  await Promise.all([first, second].map(({ client }) => client.search("nothing")));
  expect(state()).toBe("replaced");
  second.client.wake();
  await until(() => state() === "caught_up");
});

it("ends what only a closed tab showed", async () => {
  const [first, second] = [await tab(), await tab()];
  const channel = second.client.conversation("ch_news").messages();
  channel.subscribe(() => {});
  await until(() => chat.asked.some(({ action }) => action === "watch"));
  browser.kill(second.page);
  await until(() => chat.asked.some(({ action }) => action === "unwatch"));
  await until(() => first.client.connection.getSnapshot().state === "caught_up");
});

it("refuses another user's store, and closes for good", async () => {
  const first = await tab();
  await expect(tab("carol")).rejects.toMatchObject({ code: "wrong_user" });
  await first.client.close();
  await expect(first.client.direct("bob").send("late")).rejects.toMatchObject({ code: "closed" });
  await expect(tab("carol")).rejects.toMatchObject({ code: "wrong_user" });
  const second = await tab();
  await until(() => chat.connections === 1);
  expect(second.events.some(({ type }) => type === "reload")).toBe(false);
});

it("tries a refused request again, although the leader dies before the reply", async () => {
  const [first, second] = [await tab(), await tab()];
  chat.isRefusing = true;
  const { clientMsgId, stored } = await second.client.direct("bob").send("hi");
  await expect(stored).rejects.toMatchObject({ code: "forbidden" });
  chat.isRefusing = false;
  chat.isDeaf = true;
  const again = second.client.again(clientMsgId);
  await until(() => chat.asked.filter(({ action }) => action === "send").length === 2);
  chat.isDeaf = false;
  browser.kill(first.page);
  expect(await again).toMatchObject({ seq: 1 });
});

it("repeats the requests of other tabs to the next leader when the app closes the leader", async () => {
  const [first, second] = [await tab(), await tab()];
  chat.isDeaf = true;
  const sent = await second.client.direct("bob").send("under way");
  await until(() => chat.asked.some(({ action }) => action === "send"));
  chat.isDeaf = false;
  const closed = first.client.close();
  const late = second.client.direct("bob").send("late");
  await closed;
  expect(await sent.stored).toMatchObject({ seq: 1 });
  expect(await (await late).stored).toMatchObject({ seq: 2 });
});

const act = fc.oneof(
  { weight: 4, arbitrary: fc.record({ does: fc.constant("say" as const), tab: fc.nat(9) }) },
  { weight: 2, arbitrary: fc.record({ does: fc.constantFrom("open", "hears"), tab: fc.nat(9) }) },
  { weight: 3, arbitrary: fc.record({ does: fc.constantFrom("kill", "close", "pause", "settle"), tab: fc.nat(9) }) },
);

it("loses nothing and doubles nothing, whichever tabs come, die and close", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 5, maxLength: 25 }), async (acts) => {
      await chat.stop();
      chat = await Chat.start();
      browser = new Browser();
      last += 1;
      const tabs = [await tab()];
      const kept: string[] = [];
      for (const [number, { does, tab: at }] of acts.entries()) {
        const one = tabs[at % tabs.length];
        if (!one || does === "open") {
          tabs.push(await tab());
        } else if (does === "say") {
          const body = `text ${last} ${number}`;
          one.client
            .direct("bob")
            .send(body)
            .then(
              () => kept.push(body),
              () => {},
            );
        } else if (does === "hears") {
          chat.say(`bob ${last} ${number}`);
        } else if (does === "pause") {
          await new Promise((resolve) => setImmediate(resolve));
        } else if (does === "settle") {
          await until(() => one.client.connection.getSnapshot().state === "caught_up");
        } else {
          tabs.splice(tabs.indexOf(one), 1);
          if (does === "kill") {
            browser.kill(one.page);
          } else {
            await one.client.close();
          }
        }
      }
      if (tabs.length === 0) {
        tabs.push(await tab());
      }
      const views = tabs.map(bodies);
      const bobs = () => chat.messages.filter(({ sender_id }) => sender_id === "bob").map(({ body }) => body);
      await until(() => views.every((view) => [...kept, ...bobs()].every((body) => view().includes(body))));
      await until(() => views.every((view) => view().join() === views[0]?.().join()));
      const all = views[0]?.() ?? [];
      expect(all).toEqual([...new Set(all)]);
      expect(chat.messages.map(({ body }) => body)).toEqual([...new Set(chat.messages.map(({ body }) => body))]);
      await Promise.all(tabs.map(({ client }) => client.close()));
    }),
    { numRuns: 30 },
  );
}, 120_000);

describe("without a storage that tabs share", () => {
  /** Opens a client as an app does, and returns its first event about the storage. */
  async function opened(): Promise<{ client: Pigeonhole; event: ClientEvent }> {
    const config = { url: chat.url, userId: "alice", token: () => "a.b.c", webSocket: nodeSocket };
    const client = await openClient(config);
    const event = new Promise<ClientEvent>((resolve) => {
      client.onEvent((event) => {
        if (event.type === "not_kept" || event.type === "storage") {
          resolve(event);
        }
      });
    });
    return { client, event: await event };
  }

  it("keeps nothing where the platform has no locks", async () => {
    vi.stubGlobal("navigator", {});
    const { client, event } = await opened();
    expect(event).toEqual({ type: "not_kept" });
    await (await client.direct("bob").send("hi")).stored;
    await client.close();
  });

  it("keeps nothing where IndexedDB fails", async () => {
    vi.stubGlobal("navigator", { locks: browser.page().locks });
    vi.stubGlobal("indexedDB", {
      open: () => {
        throw new DOMException("no storage in this window", "InvalidStateError");
      },
    });
    const { client, event } = await opened();
    expect(event).toEqual({ type: "not_kept" });
    await (await client.direct("bob").send("hi")).stored;
    await client.close();
  });
});
