// Property tests with random logs of alice and bob, which have edits, deletes, reactions and replies. Entries, pages,
// rows and unstored own changes come in any order, repeated, each as it was at any time. Once all have come, the view
// matches a plain fold of the log.

import * as fc from "fast-check";
import { expect, it } from "vitest";
import { addChange, applied, noChanges } from "../src/changes.ts";
import type { Message, Queued, Reaction } from "../src/feed.ts";
import { Timeline } from "../src/timeline.ts";
import { fits } from "./script.ts";

const EMOJI = ["👍", "❤️", "\uFB00", "😮"];

/** `@system`: a service that deletes the messages of any user, and is no member. */
interface Did {
  who: "alice" | "bob" | "@system";
  what: "say" | "reply" | "edit" | "delete" | "react";
  /** Which of the messages. */
  to: number;
  emoji: string | undefined;
}

const did: fc.Arbitrary<Did> = fc.record({
  who: fc.constantFrom("alice" as const, "alice" as const, "bob" as const, "bob" as const, "@system" as const),
  what: fc.constantFrom(
    "say" as const,
    "say" as const,
    "reply" as const,
    "edit" as const,
    "delete" as const,
    "react" as const,
  ),
  to: fc.nat({ max: 5 }),
  emoji: fc.constantFrom(...EMOJI, undefined),
});

/** A queued request, without its id. */
type Unnamed<Q> = Q extends unknown ? Omit<Q, "clientMsgId"> : never;

/** One entry of the log, as it was made. */
interface Op extends Omit<Did, "to"> {
  seq: number;
  target: number;
  at: string;
}

/** The state of each message after a number of ops. */
interface State {
  body: string;
  version: number;
  edited_at?: string;
  deleted?: { deleted_at: string; deleted_by: string };
  reactions: Map<string, string>;
  /** The last entry that is in them. */
  reactions_seq?: number;
}

function timeOf(seq: number): string {
  return new Date(Date.UTC(2026, 10, 20, 10, 0, seq)).toISOString();
}

const isMessage = ({ what }: Op) => what === "say" || what === "reply";

/** Returns the ops that the server would store. An op that it would refuse becomes a message. */
function logOf(all: Did[]): Op[] {
  const ops: Op[] = [];
  for (const { who, what, to, emoji } of all) {
    const seq = ops.length + 1;
    const messages = ops.filter(isMessage);
    const target = messages[to % Math.max(messages.length, 1)];
    const isThere = target && !fold(ops).get(target.seq)?.deleted;
    const op = { target: target?.seq ?? 0, emoji, seq, at: timeOf(seq) };
    if (who === "@system") {
      ops.push(isThere ? { who, what: "delete", ...op } : { who: "bob", what: "say", ...op });
      continue;
    }
    const may = what === "reply" ? target : isThere && (what === "react" || target.who === who);
    ops.push({ who, what: may ? what : "say", ...op });
  }
  return ops;
}

function fold(ops: Op[]): Map<number, State> {
  const states = new Map<number, State>();
  for (const op of ops) {
    const state = states.get(op.target);
    if (isMessage(op)) {
      states.set(op.seq, { body: `said ${op.seq}`, version: 1, reactions: new Map() });
    } else if (op.what === "edit" && state) {
      Object.assign(state, { body: `edited ${op.seq}`, version: state.version + 1, edited_at: op.at });
    } else if (op.what === "delete") {
      const deleted = { deleted_at: op.at, deleted_by: op.who };
      states.set(op.target, { body: "", version: 1, deleted, reactions: new Map() });
    } else if (state) {
      state.reactions_seq = op.seq;
      if (op.emoji === undefined) {
        state.reactions.delete(op.who);
      } else {
        state.reactions.set(op.who, op.emoji);
      }
    }
  }
  return states;
}

/** Returns the entry as alice reads it, when the log had `moment` entries. */
function seen(ops: Op[], seq: number, moment: number): Message {
  const states = fold(ops.slice(0, moment));
  const op = ops[seq - 1];
  if (!op) {
    throw new Error(`there is no ${seq}`);
  }
  const { who, what, target, emoji, at: sent_at } = op;
  const place = {
    conversation_id: "dm_ab",
    seq,
    message_id: `0198b7a0-0000-7000-8000-${String(seq).padStart(12, "0")}`,
  };
  const entry = {
    ...place,
    sender_id: who,
    sent_at,
    body: "",
    ...(who === "alice" ? { client_msg_id: `m${seq}` } : {}),
  };
  const of = states.get(isMessage(op) ? seq : target);
  switch (what) {
    case "edit":
      return {
        ...entry,
        kind: "edit",
        target_seq: target,
        ...(of?.deleted ? {} : { body: of?.body ?? "", version: of?.version ?? 1 }),
      };
    case "delete":
      return { ...entry, kind: "delete", target_seq: target };
    case "react": {
      const before = fold(ops.slice(0, seq - 1))
        .get(target)
        ?.reactions.get(who);
      const emoji_before = before === undefined ? {} : { emoji_before: before };
      return {
        ...entry,
        kind: "reaction",
        target_seq: target,
        ...(emoji === undefined ? {} : { emoji }),
        ...emoji_before,
      };
    }
    default:
      return { ...entry, kind: "text", ...(what === "reply" ? { reply_to: target } : {}), ...(of && asShown(of)) };
  }
}

function asShown({ body, version, edited_at, deleted, reactions, reactions_seq }: State) {
  const shown = reactionsOf(reactions);
  return {
    body,
    ...(version > 1 ? { version } : {}),
    ...(edited_at === undefined ? {} : { edited_at }),
    ...deleted,
    ...(shown.length > 0 ? { reactions: shown } : {}),
    ...(reactions_seq === undefined ? {} : { reactions_seq }),
  };
}

/** The most frequent first, then by their bytes. */
function reactionsOf(by: Map<string, string>): Reaction[] {
  const bytes = (emoji: string) => Buffer.from(emoji).toString("hex");
  return [...new Set(by.values())]
    .map((emoji) => ({
      emoji,
      count: [...by.values()].filter((one) => one === emoji).length,
      mine: by.get("alice") === emoji,
    }))
    .sort((one, other) => other.count - one.count || (bytes(one.emoji) < bytes(other.emoji) ? -1 : 1));
}

class World {
  readonly timeline = new Timeline("alice");
  readonly ops: Op[];
  #read = 0;
  #deleted = new Set<number>();
  #versions = new Map<number, number>();
  #held = new Set<number>();
  /** The newest row: how many entries there were, and how far alice had read. */
  #row: { moment: number; read: number } | undefined;

  constructor(all: Did[]) {
    this.ops = logOf(all);
  }

  get #last(): number {
    return this.ops.length;
  }

  /** Some moment since there was this entry. */
  #since(seq: number, later: number): number {
    return seq + (later % (this.#last - seq + 1));
  }

  event(place: number, later: number): void {
    const seq = (place % this.#last) + 1;
    const entry = seen(this.ops, seq, this.#since(seq, later));
    fits("Message", { ...entry });
    if (entry.sender_id === "alice" && later % 2 === 0) {
      // As the client makes the entry from the reply.
      delete entry.emoji_before;
    }
    this.timeline.message(entry);
    this.#note(entry);
  }

  page(place: number, count: number, later: number): void {
    const first = (place % this.#last) + 1;
    const moment = this.#since(first, later);
    const seqs = this.ops.map(({ seq }) => seq).filter((seq) => seq >= first && seq < first + count && seq <= moment);
    const messages = seqs.map((seq) => seen(this.ops, seq, moment));
    this.timeline.history({ messages, last_seq: moment, members: [] });
    messages.forEach((entry) => {
      this.#note(entry);
    });
  }

  /** Records facts that the timeline must not forget. */
  #note({ seq, target_seq = seq, kind, version = 1, deleted_at }: Message): void {
    this.#held.add(seq);
    if (deleted_at !== undefined || kind === "delete") {
      this.#deleted.add(target_seq);
    }
    this.#versions.set(target_seq, Math.max(this.#versions.get(target_seq) ?? 1, version));
  }

  row(place: number): void {
    const moment = (place % this.#last) + 1;
    if (moment < this.#read) {
      return;
    }
    if (moment >= (this.#row?.moment ?? 0)) {
      this.#row = { moment, read: this.#read };
    }
    const line = this.ops.slice(0, moment).filter(isMessage).at(-1);
    this.timeline.row({
      conversation_id: "dm_ab",
      kind: "direct",
      peer_id: "bob",
      last_message: {
        seq: line?.seq ?? 1,
        sender_id: line?.who ?? "bob",
        kind: "text",
        preview: "",
        sent_at: timeOf(1),
      },
      unread: this.#unread(moment),
      delivered_seq: moment,
      read_seq: this.#read,
      last_seq: moment,
    });
  }

  read(place: number): void {
    this.#read = Math.max(this.#read, place % (this.#last + 1));
    this.timeline.receipt({ kind: "read", user_id: "alice", seq: this.#read });
  }

  /** As the server counts. */
  #unread(moment: number): number {
    const states = fold(this.ops.slice(0, moment));
    const isUnread = (op: Op) =>
      isMessage(op) && op.who === "bob" && op.seq > this.#read && !states.get(op.seq)?.deleted;
    return this.ops.slice(0, moment).filter(isUnread).length;
  }

  /** An own change or message, before it is stored, or at the start from an outbox that has it still. */
  queued(place: number): void {
    const op = this.ops[place % this.#last];
    if (op?.who === "alice") {
      this.#queue(`m${op.seq}`, op);
    }
  }

  /** Queues an op and lets the server refuse it. */
  refused(place: number, isDismissed: boolean): void {
    const op = this.ops[place % this.#last];
    if (op && !isMessage(op)) {
      this.#queue(`refused ${op.seq}`, op);
      this.timeline.failed(`refused ${op.seq}`, "gone");
      if (isDismissed) {
        this.timeline.dismiss(`refused ${op.seq}`);
      }
    }
  }

  #queue(clientMsgId: string, { what, target: seq, emoji, at }: Op): void {
    const target = { conversation_id: "dm_ab" };
    const place = { client_msg_id: clientMsgId, ...target, seq };
    const whats: Record<Op["what"], Unnamed<Queued>> = {
      say: { target, body: "waits" },
      reply: { target, body: "waits", replyTo: seq },
      edit: { request: { action: "edit", ...place, body: "waits" } },
      delete: { request: { action: "delete", ...place } },
      react: { request: { action: "react", ...place, emoji: emoji ?? null } },
    };
    this.timeline.queued({ clientMsgId, ...whats[what] }, at);
  }

  #messages() {
    return this.timeline.entries(() => "").filter((entry) => entry.type === "message");
  }

  /** Nothing is forgotten: no deleted text comes back, and no older one. */
  check(): void {
    for (const { message, changing } of this.#messages()) {
      const { seq, body, deleted_at, version = 1 } = message;
      // An unstored change shows as if it were stored.
      if (!changing) {
        expect(deleted_at !== undefined, `whether ${seq} is deleted`).toBe(this.#deleted.has(seq));
      }
      if (deleted_at === undefined && !changing) {
        expect([version, body.length > 0], `the text of ${seq}`).toEqual([this.#versions.get(seq), true]);
      } else if (deleted_at !== undefined) {
        expect([body, message.reactions, message.version]).toEqual(["", undefined, undefined]);
      }
    }
    expect(this.timeline.unread()).toBeGreaterThanOrEqual(0);
    const row = this.#row;
    const isSince = (seq: number) => row && seq > row.moment;
    // The author of a message that the service deleted is unknown while the message is missing.
    const isTold = ({ seq, who, target }: Op) => this.#held.has(seq) && (who !== "@system" || this.#held.has(target));
    if (row?.read === this.#read && this.ops.every((op) => !isSince(op.seq) || isTold(op))) {
      expect(this.timeline.unread(), "the row's, and what has become of it since").toBe(this.#unread(this.#last));
    }
  }

  finish(): void {
    const entries = this.timeline.entries(() => "");
    expect(entries.filter(({ type }) => type === "gap" || type === "unsent")).toEqual([]);
    expect([this.timeline.missing(), this.timeline.moreBefore()]).toEqual([undefined, undefined]);
    const expected = this.ops.filter(isMessage).map(({ seq, what, target }) => {
      const shown = (seq: number) => seen(this.ops, seq, this.#last);
      return { message: shown(seq), quote: what === "reply" ? shown(target) : undefined };
    });
    expect(this.#messages().map(({ message, quote }) => ({ message, quote }))).toEqual(expected);
    expect(this.#messages().filter(({ changing }) => changing)).toEqual([]);
    expect(this.timeline.unread()).toBe(this.#unread(this.#last));
    const unread = this.#messages().filter(({ own, message }) => !own && message.deleted_at === undefined);
    const last = unread.filter(({ message }) => message.seq > this.#read).at(-1);
    expect(this.timeline.readUpTo()).toBe(last?.message.seq);
  }
}

const place = fc.nat({ max: 1000 });
const input: fc.Arbitrary<(world: World) => void> = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(place, place).map((at) => (world: World) => world.event(...at)) },
  { weight: 3, arbitrary: fc.tuple(place, fc.nat({ max: 5 }), place).map((at) => (world: World) => world.page(...at)) },
  { weight: 1, arbitrary: place.map((at) => (world: World) => world.row(at)) },
  { weight: 1, arbitrary: place.map((at) => (world: World) => world.read(at)) },
  { weight: 2, arbitrary: place.map((at) => (world: World) => world.queued(at)) },
  { weight: 1, arbitrary: fc.tuple(place, fc.boolean()).map((of) => (world: World) => world.refused(...of)) },
);

it("what is shown is the fold of the log, whatever order it comes in", { timeout: 300_000 }, () => {
  const some = fc.array(input, { maxLength: 30, size: "max" });
  const all = fc.array(did, { minLength: 1, maxLength: 14, size: "max" }).chain((log) => {
    const seqs = log.map((_, at) => at);
    return fc.record({
      log: fc.constant(log),
      // Each once, in any order, at any moment, with other things between them.
      order: fc.shuffledSubarray(seqs, { minLength: seqs.length }),
      between: fc.array(fc.tuple(place, some), { minLength: seqs.length, maxLength: seqs.length }),
    });
  });
  const property = fc.property(all, ({ log, order, between }) => {
    const world = new World(log);
    for (const [at, seq] of order.entries()) {
      const [later, others] = between[at] ?? [0, []];
      for (const take of others.slice(0, 6)) {
        take(world);
        world.check();
      }
      world.event(seq, later);
      world.check();
    }
    world.finish();
  });
  fc.assert(property, { numRuns: 500 });
});

it("counts an encrypted reaction of a user in place of the one before", () => {
  const entry = (seq: number, sender_id: string, more: Partial<Message>): Message => ({
    conversation_id: "dm_ab",
    seq,
    message_id: `${seq}`,
    sender_id,
    kind: "reaction",
    body: "",
    sent_at: timeOf(seq),
    ...more,
  });
  const entries = [
    entry(2, "bob", { emoji: "👍", epoch: 1 }),
    entry(3, "carol", { emoji: "👍", epoch: 1 }),
    entry(4, "bob", { emoji: "😮", epoch: 1 }),
    // The removal of a reaction can be in the clear.
    entry(5, "carol", {}),
  ];
  const counts = (some: Message[]) => {
    const changes = noChanges();
    for (const reaction of [...some].reverse()) {
      addChange(changes, reaction, "alice");
    }
    return applied(changes, entry(1, "alice", { kind: "text" })).reactions?.map(({ emoji, count }) => emoji + count);
  };
  expect(counts(entries.slice(0, 2))).toEqual(["👍2"]);
  expect(counts(entries.slice(0, 3))).toEqual(["👍1", "😮1"]);
  expect(counts(entries)).toEqual(["😮1"]);
});
