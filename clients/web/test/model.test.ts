// A property test against a small model of the server, with any interleaving, duplication and loss of frames,
// connections, devices and restarts. In the end, every message has come once and in order, and all are acknowledged. The
// views of a client with a store show the same as those of its next start, and as those of a new device.

import * as fc from "fast-check";
import { expect, it } from "vitest";
import type { Act, Shown, ViewId } from "../src/chat/views.ts";
import { defaultTiming } from "../src/config.ts";
import type { ClientEvent, Why } from "../src/events.ts";
import { targetOf } from "../src/protocol.ts";
import type { Target } from "../src/saved.ts";
import { nothingSaved, type Queued, type QueuedRequest, type Saved } from "../src/saved.ts";
import type { Keeper, LinkId, Put, Step } from "../src/session/core.ts";
import { Session } from "../src/session/session.ts";
import { memoryStorage } from "../src/store/memory.ts";
import { Store } from "../src/store/store.ts";
import { conversationWith, type Frame, PEERS, Server } from "./model-server.ts";
import { apply, copy } from "./saved.ts";

const timing = { ...defaultTiming, pingEvery: 20_000, lifetime: 40_000, lifetimeJitter: 10_000 };

const failures: Frame[] = [
  { type: "error", error: { code: "unavailable", message: "", retryable: true } },
  { type: "error", error: { code: "conflict", message: "", retryable: true, retry_after_ms: 700 } },
  { type: "error", error: { code: "rate_limited", message: "", retryable: true, retry_after_ms: 5500 } },
  { type: "error", error: { code: "token_expired", message: "", retryable: false } },
  { message: "Internal server error" },
];
const noDial: Why["reason"][] = ["token_refused", "no_token", "wrong_user", "refused", "unreachable"];

const pick = fc.nat(8);
const frame = fc.record({ pick, again: fc.integer({ min: 0, max: 6 }).map((chance) => chance === 0) });
const peer = fc.constantFrom(...PEERS);
const said = fc.tuple(peer, fc.integer({ min: 1, max: 3 }));

/** The conversations with the peers, and the chat list. */
const VIEWS = [0, 1, 2, 3];
const view = fc.constantFrom(...VIEWS);
const act = fc.constantFrom<Act>("older", "newer");

/** The possible steps, with their weights. */
const step = fc.oneof(
  { weight: 12, arbitrary: frame.map((way) => (world: World) => world.up(way)) },
  { weight: 12, arbitrary: frame.map((way) => (world: World) => world.down(way)) },
  { weight: 1, arbitrary: pick.map((at) => (world: World) => world.lose("up", at)) },
  { weight: 2, arbitrary: pick.map((at) => (world: World) => world.lose("down", at)) },
  { weight: 1, arbitrary: fc.nat(1).map((at) => (world: World) => world.cut(at)) },
  { weight: 1, arbitrary: fc.constant((world: World) => world.endOldest()) },
  {
    weight: 4,
    arbitrary: fc
      .option(fc.nat(100_000), { nil: undefined })
      .map((tokenLeft) => (world: World) => world.open(tokenLeft)),
  },
  { weight: 1, arbitrary: fc.constantFrom(...noDial).map((why) => (world: World) => world.failToOpen(why)) },
  {
    weight: 5,
    arbitrary: said.map(
      ([who, count]) =>
        (world: World) =>
          world.say(who, who, count),
    ),
  },
  {
    weight: 1,
    arbitrary: said.map(
      ([who, count]) =>
        (world: World) =>
          world.say(who, "alice", count),
    ),
  },
  { weight: 1, arbitrary: peer.map((who) => (world: World) => world.server.otherDeviceHolds(conversationWith(who))) },
  {
    weight: 4,
    arbitrary: fc.tuple(peer, fc.boolean()).map(
      ([who, id]) =>
        (world: World) =>
          world.send(who, id),
    ),
  },
  { weight: 2, arbitrary: fc.tuple(peer, fc.boolean()).map((of) => (world: World) => world.sendFile(...of)) },
  { weight: 4, arbitrary: fc.nat(5).map((way) => (world: World) => world.put(way)) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 5 }).map((chance) => (world: World) => world.expire(chance)) },
  { weight: 2, arbitrary: fc.tuple(peer, fc.nat(2)).map((of) => (world: World) => world.change(...of)) },
  { weight: 8, arbitrary: fc.constant((world: World) => world.handle()) },
  { weight: 1, arbitrary: fc.constant((world: World) => world.read()) },
  { weight: 1, arbitrary: fc.constant((world: World) => world.wake()) },
  { weight: 1, arbitrary: fc.boolean().map((archived) => (world: World) => world.archive(archived)) },
  { weight: 4, arbitrary: fc.integer({ min: 1, max: 8000 }).map((ms) => (world: World) => world.wait(ms)) },
  { weight: 1, arbitrary: fc.constantFrom(...failures).map((how) => (world: World) => world.failNext(how)) },
  { weight: 1, arbitrary: fc.constant((world: World) => world.restart()) },
  { weight: 2, arbitrary: view.map((view) => (world: World) => world.show(view)) },
  { weight: 1, arbitrary: view.map((view) => (world: World) => world.hide(view)) },
  { weight: 2, arbitrary: fc.tuple(view, act).map((of) => (world: World) => world.act(...of)) },
  { weight: 1, arbitrary: view.map((view) => (world: World) => world.see(view)) },
);

const before = fc.array(fc.tuple(fc.nat(5), fc.nat(5)), { minLength: 3, maxLength: 3 });

it("every message once, in order and acknowledged", { timeout: 300_000 }, () => {
  const keeper = fc.constantFrom<Keeper>("app", "store");
  const all = fc.array(step, { maxLength: 250, size: "max" });
  const property = fc.asyncProperty(keeper, before, all, async (keeper, said, steps) => {
    const world = await World.begin(keeper, said);
    for (const take of steps) {
      world.count += 1;
      await take(world);
      await world.collect();
    }
    await world.heal();
    world.check();
    if (keeper === "store") {
      await world.checkViews();
    }
  });
  return fc.assert(property, { numRuns: 300 });
});

/** Frames on their way. */
interface Wire {
  up: string[];
  down: string[];
}

class World {
  readonly server: Server;
  count = 0;
  #session: Session;
  #saved: Saved = nothingSaved();
  #now = 0;
  #dialing: LinkId | undefined;
  #wires = new Map<LinkId, Wire>();
  /** Events that the app has not requested yet. */
  #events: ClientEvent[] = [];
  #got = new Map<string, number[]>();
  #sent: { target: Target; id: string }[] = [];
  #files: { target: Target; id: string }[] = [];
  /** Bytes on their way. */
  #puts: { id: string; put: Put }[] = [];
  #reads = new Map<string, number>();
  /** Settings that the app waits for. */
  #settings = 0;

  #keeper: Keeper;
  #store: Store;
  /** The open views, and what each one shows. */
  #open = new Set<ViewId>();
  #shown = new Map<ViewId, Shown>();

  static async begin(keeper: Keeper, said: [number, number][]): Promise<World> {
    const world = new World(keeper, await Store.open(memoryStorage(), "alice"), said);
    await world.collect();
    return world;
  }

  private constructor(keeper: Keeper, store: Store, said: [number, number][]) {
    this.server = new Server(said);
    this.#keeper = keeper;
    this.#store = store;
    this.#session = this.#start(copy(this.#saved));
  }

  #start(saved: Saved): Session {
    // Looks random, and is the same each time.
    let number = this.count;
    const random = () => {
      number = (number * 16807 + 11) % 2147483647;
      return number / 2147483647;
    };
    const session = new Session({ me: "alice", timing, keeper: this.#keeper, saved, random, now: this.#now });
    session.tick(this.#now);
    return session;
  }

  async restart(): Promise<void> {
    this.#open.clear();
    this.#shown.clear();
    this.#wires.clear();
    this.#dialing = undefined;
    this.#events = [];
    this.#puts = [];
    this.#reads.clear();
    this.#settings = 0;
    const isStored = this.#keeper === "store";
    this.#session = this.#start(isStored ? await this.#store.saved() : copy(this.#saved));
  }

  async collect(): Promise<void> {
    for (let step = this.#session.takeStep(); isSomething(step); step = this.#session.takeStep()) {
      await this.#carryOut(step);
    }
  }

  async #carryOut({ writes, lasting, outputs }: Step): Promise<void> {
    for (const write of writes) {
      if ("change" in write) {
        apply(this.#saved, write.change);
      } else {
        expect(this.#keeper, "the app keeps its messages").toBe("store");
      }
    }
    await this.#store.apply(this.#keeper === "store" ? writes : [], lasting);
    for (const output of outputs) {
      if (output.do === "dial") {
        expect(this.#dialing, "one at a time").toBeUndefined();
        this.#dialing = output.link;
      } else if (output.do === "send") {
        this.#wires.get(output.link)?.up.push(output.frame);
      } else if (output.do === "close") {
        this.#wires.delete(output.link);
        this.#dialing = this.#dialing === output.link ? undefined : this.#dialing;
      } else if (output.do === "answer") {
        output.settle();
      } else if (output.do === "tell" && this.#keeper === "store") {
        this.#take(output.event);
      } else if (output.do === "tell") {
        this.#events.push(output.event);
      } else if (output.do === "load") {
        this.#session.loaded(output.load, await this.#store.load(output.what), this.#now);
      } else if (output.do === "show" && this.#open.has(output.view)) {
        this.#shown.set(output.view, output.shown);
      } else if (output.do === "put") {
        this.#puts.push(output);
      }
    }
  }

  // The network.

  /** The frame that `pick` means of all that are on their way in this direction. */
  #onTheWay(way: keyof Wire, pick: number, again: boolean): { link: LinkId; text: string } | undefined {
    const all = [...this.#wires].flatMap(([link, wire]) => wire[way].map((text, at) => ({ link, wire, text, at })));
    const found = all[pick % all.length];
    if (found && !again) {
      found.wire[way].splice(found.at, 1);
    }
    return found;
  }

  up({ pick, again }: { pick: number; again: boolean }): void {
    const found = this.#onTheWay("up", pick, again);
    if (found) {
      const answer = JSON.stringify(this.server.answer(JSON.parse(found.text)));
      this.#wires.get(found.link)?.down.push(answer);
    }
  }

  down({ pick, again }: { pick: number; again: boolean }): void {
    const found = this.#onTheWay("down", pick, again);
    if (found) {
      this.#session.received(found.link, found.text, this.#now);
    }
  }

  lose(way: keyof Wire, pick: number): void {
    this.#onTheWay(way, pick, false);
  }

  open(tokenLeft?: number): void {
    const link = this.#dialing;
    if (link !== undefined) {
      this.#dialing = undefined;
      this.#wires.set(link, { up: [], down: [] });
      this.#session.opened(link, this.#now, tokenLeft);
    }
  }

  failToOpen(reason: Why["reason"]): void {
    const link = this.#dialing;
    if (link !== undefined) {
      this.#dialing = undefined;
      this.#session.dialFailed(link, { reason }, this.#now);
    }
  }

  cut(at: number): void {
    const link = [...this.#wires.keys()][at];
    if (link !== undefined) {
      this.#wires.delete(link);
      this.#session.lost(link, { reason: "closed" }, this.#now);
    }
  }

  /** The user has too many connections. */
  endOldest(): void {
    const [link] = this.#wires.keys();
    if (link !== undefined) {
      this.#wires.delete(link);
      this.#session.received(link, JSON.stringify({ type: "connection.replaced" }), this.#now);
      this.#session.lost(link, { reason: "closed" }, this.#now);
    }
  }

  wake(): void {
    this.#session.wake(this.#now);
  }

  wait(ms: number): void {
    this.#now += ms;
    this.#session.tick(this.#now);
  }

  failNext(how: Frame): void {
    this.server.fails = how;
  }

  // The users.

  say(peer: string, sender: string, count: number): void {
    const conversation_id = conversationWith(peer);
    this.server.append(conversation_id, sender, `${sender}-${this.count}`, "hello");
    // With the messages before it: of some frames, a part is known.
    const messages = this.server.said.get(conversation_id)?.messages.slice(-count) ?? [];
    for (const wire of this.#wires.values()) {
      wire.down.push(JSON.stringify({ type: "messages.new", conversation_id, messages }));
    }
  }

  send(peer: string, byConversation: boolean): void {
    const conversation_id = conversationWith(peer);
    const known = this.server.said.has(conversation_id);
    const target: Target = byConversation && known ? { conversation_id } : { to: peer };
    this.#queue({ clientMsgId: `m${this.count}`, target, body: "hi" });
  }

  sendFile(peer: string, byConversation: boolean): void {
    const conversation_id = conversationWith(peer);
    const known = this.server.said.has(conversation_id);
    const target: Target = byConversation && known ? { conversation_id } : { to: peer };
    const file = new Blob();
    const media = { source: { file }, kind: "file", mime: "a/a", bytes: 9, sha256: "x", name: "a" } as const;
    const queued = { clientMsgId: `m${this.count}`, target, body: "", media };
    this.#files.push({ target, id: queued.clientMsgId });
    this.#session.keep(queued, undefined, this.#now);
  }

  /** Ends a PUT: mostly the bytes arrive. */
  put(way: number): void {
    const [next] = this.#puts.splice(0, 1);
    if (next) {
      const { id, put } = next;
      const arrives = way !== 4;
      const status = arrives ? this.server.put(put.url) : 503;
      this.#session.putEnded(id, way === 5 ? "lost" : status, this.#now);
    }
  }

  expire(chance: number): void {
    if (chance === 0) {
      this.server.forgetFiles();
    }
  }

  /** Changes the first message. */
  change(peer: string, way: number): void {
    const conversation_id = conversationWith(peer);
    const clientMsgId = `m${this.count}`;
    const place = { client_msg_id: clientMsgId, conversation_id, seq: 1 };
    const ways: QueuedRequest["request"][] = [
      { action: "edit", ...place, body: "hello" },
      { action: "delete", ...place },
      { action: "react", ...place, emoji: null },
    ];
    const request = ways[way];
    if (request && this.server.said.has(conversation_id)) {
      this.#queue({ clientMsgId, request });
    }
  }

  #queue(queued: Queued): void {
    const target = targetOf(queued);
    if (target) {
      this.#sent.push({ target, id: queued.clientMsgId });
    }
    this.#session.keep(queued, undefined, this.#now);
  }

  handle(): void {
    const event = this.#events.shift();
    if (event) {
      this.#take(event);
    }
  }

  #take(event: ClientEvent): void {
    // The model refuses nothing for good, so no event may report a failure.
    expect(event.type).not.toBe("failed");
    if (event.type !== "message") {
      return;
    }
    const { conversation_id: id, seq } = event.message;
    const got = this.#got.get(id) ?? [];
    const last = got.at(-1);
    if (last === undefined) {
      expect(seq - 1, `${id} begins at ${seq}`).toBeLessThanOrEqual(this.server.said.get(id)?.settled ?? 0);
    } else {
      expect(seq, `${id} in order and once`).toBe(last + 1);
    }
    this.#got.set(id, [...got, seq]);
    if (this.#keeper === "app") {
      this.#session.handled(id, seq, this.#now);
    }
  }

  show(view: ViewId): void {
    if (this.#keeper === "store") {
      const conversation_id = conversationWith(PEERS[view] ?? "");
      const at = this.count % 2 === 0 ? "firstUnread" : "newest";
      const isList = view === PEERS.length;
      this.#open.add(view);
      this.#shown.delete(view);
      this.#session.openView(view, isList ? { chats: {} } : { messages: { with: { conversation_id }, at } }, this.#now);
    }
  }

  hide(view: ViewId): void {
    this.#open.delete(view);
    this.#shown.delete(view);
    this.#session.closeView(view, this.#now);
  }

  act(view: ViewId, act: Act): void {
    if (this.#open.has(view)) {
      this.#session.actView(view, act, this.#now);
    }
  }

  /** All that a view shows was on the screen. */
  see(view: ViewId): void {
    const shown = this.#shown.get(view);
    const last = shown && "messages" in shown ? shown.messages.items.at(-1) : undefined;
    if (last) {
      this.act(view, { seen: last.key });
    }
  }

  read(): void {
    const [id, got] = [...this.#got][0] ?? [];
    const seq = got?.at(-1);
    if (id !== undefined && seq !== undefined) {
      this.#session.read(id, seq, undefined, this.#now);
      this.#reads.set(id, seq);
    }
  }

  archive(archived: boolean): void {
    const [id] = this.#got.keys();
    if (id !== undefined) {
      const answered = () => {
        this.#settings -= 1;
      };
      this.#settings += 1;
      const request = { action: "settings", conversation_id: id, set: { archived } } as const;
      this.#session.call(request, { resolve: answered, reject: () => {} }, this.#now);
    }
  }

  // The end.

  /** Everything works from now on. Returns once nothing is left to be done. */
  async heal(): Promise<void> {
    this.server.fails = undefined;
    // Only a new connection finds an entry that was posted, lost, and acknowledged by another device.
    while (this.#wires.size > 0) {
      this.cut(0);
      await this.collect();
    }
    // The user has the app before them.
    this.wake();
    await this.collect();
    for (let round = 0; round < 2000; round += 1) {
      this.open();
      await this.collect();
      while (this.#events.length > 0 || [...this.#wires.values()].some(({ up, down }) => up.length + down.length > 0)) {
        this.up({ pick: 0, again: false });
        this.down({ pick: 0, again: false });
        this.put(0);
        this.handle();
        await this.collect();
      }
      this.put(0);
      await this.collect();
      const next = this.#session.nextTick();
      // A refusal waits for other tries of what is in the outbox.
      const isStill = next > this.#now + 6000 && this.#saved.outbox.length === 0;
      if (isStill && this.#dialing === undefined && this.#wires.size === 1) {
        return;
      }
      this.#now = next === Number.POSITIVE_INFINITY ? this.#now : Math.max(this.#now, next);
      this.#session.tick(this.#now);
      await this.collect();
    }
    throw new Error("it never comes to rest");
  }

  check(): void {
    expect(this.#settings, "settings without an answer").toBe(0);
    expect(this.#saved.outbox).toEqual([]);
    for (const [id, said] of this.server.said) {
      const last = this.#got.get(id)?.at(-1);
      if (last === undefined) {
        expect(said.settled, `nothing of ${id}`).toBe(said.messages.length);
      } else {
        expect([last, this.#saved.held.get(id)], `all of ${id}`).toEqual([said.messages.length, last]);
      }
      expect(said.delivered, `${id} is acknowledged`).toBe(said.messages.length);
      // Each once, and in the order in which they were sent under one name of the conversation.
      for (const by of ["to", "conversation_id"]) {
        const sent = this.#sent.filter(({ target }) => by in target && this.server.idOf(target) === id);
        const ids = new Set(sent.map((one) => one.id));
        const stored = said.messages.map(({ client_msg_id }) => client_msg_id).filter((one) => ids.has(one));
        expect(stored).toEqual([...ids]);
      }
      // Each message with a file is present once, at any place.
      for (const file of this.#files.filter(({ target }) => this.server.idOf(target) === id)) {
        expect(said.messages.filter(({ client_msg_id }) => client_msg_id === file.id).length, file.id).toBe(1);
      }
      expect(said.read, `${id} is read`).toBeGreaterThanOrEqual(this.#reads.get(id) ?? 0);
    }
  }

  /** The views that were open, those of the next start without a network, and those of a new device are the same. */
  async checkViews(): Promise<void> {
    await this.#showAll();
    await this.heal();
    const running = this.#essence();
    await this.restart();
    await this.#showAll();
    expect(this.#essence(), "the next start").toEqual(running);

    this.#store = await Store.open(memoryStorage(), "alice");
    this.#saved = nothingSaved();
    this.#got.clear();
    await this.restart();
    await this.collect();
    await this.heal();
    await this.#showAll();
    await this.heal();
    expect(this.#essence(), "a new device").toEqual(running);
  }

  async #showAll(): Promise<void> {
    this.count = 1;
    for (const view of VIEWS.filter((view) => !this.#open.has(view))) {
      this.show(view);
      await this.collect();
    }
  }

  /** Returns what the views show, without what depends on the time when they were opened. */
  #essence(): unknown[] {
    return VIEWS.map((view) => {
      const shown = this.#shown.get(view) ?? expect.fail(`the view ${view} shows nothing`);
      if ("chats" in shown) {
        const { rows, unread } = shown.chats;
        // A row can have its key from before its peer was known.
        return { rows: rows.map(({ key: _, ...row }) => row), unread };
      }
      const { items, unread } = "messages" in shown ? shown.messages : expect.fail("no roster is open");
      // The separator ends a run, and this model of the server stores no digest of an attachment.
      const without = items.filter(({ type }) => type !== "unread");
      return { items: without.map((item) => ({ ...item, run: undefined, media: undefined })), unread };
    });
  }
}

function isSomething({ writes, outputs, lasting }: Step): boolean {
  return writes.length > 0 || outputs.length > 0 || lasting;
}
