// Property tests with random logs of a group of four users, who join, leave, return and use every action. Entries,
// pages, rows and receipts come to alice in any order, repeated, each as it was at any time. Once the app has requested
// what is missing, the view matches a plain fold of the log.

import * as fc from "fast-check";
import { expect, it } from "vitest";
import type { HistoryResult, Message, Reaction, Side, System } from "../src/feed.ts";
import { Timeline } from "../src/timeline.ts";
import { fits } from "./script.ts";

const USERS = ["alice", "bob", "carol", "dave"] as const;
const EMOJI = ["👍", "❤️", "\uFB00"];
const CONVERSATION = "gr_x";
const PAGE_MAX = 4;

const WAYS = ["say", "say", "edit", "delete", "react", "add", "remove", "leave", "role", "title", "history"] as const;
type Way = (typeof WAYS)[number];

/** A user's intention: with whom or which message, and how. */
interface Wish {
  who: number;
  way: Way;
  whom: number;
  which: number;
}

const wish: fc.Arbitrary<Wish> = fc.record({
  who: fc.nat({ max: 3 }),
  way: fc.constantFrom(...WAYS),
  whom: fc.nat({ max: 3 }),
  which: fc.nat({ max: 9 }),
});

/** One entry of the log, as it was made. */
interface Op {
  seq: number;
  who: string;
  way: "say" | "edit" | "delete" | "react" | "system";
  target: number;
  emoji?: string;
  mentions?: string[];
  system?: System;
  /** The first visible entry of a user who joins with this entry. */
  first: number;
}

/** The state of each message after a number of ops. */
interface State {
  body: string;
  version: number;
  edited_at?: string;
  deleted?: { deleted_at: string; deleted_by: string };
  reactions: Map<string, string>;
  reactions_seq?: number;
}

/** An interval of alice's membership, and the first entry that she saw in it. */
interface Interval {
  joined: number;
  first: number;
  left: number | undefined;
}

function timeOf(seq: number): string {
  return new Date(Date.UTC(2026, 10, 20, 10, 0, seq)).toISOString();
}

class Log {
  readonly ops: Op[] = [];
  readonly members = new Set<string>();
  #all = false;

  constructor(creator: string, others: string[], wishes: Wish[]) {
    const members = [creator, ...others.filter((user) => user !== creator)];
    this.#write(creator, { event: "created", title: "Trip", members });
    for (const user of members) {
      this.members.add(user);
    }
    for (const one of wishes) {
      this.#grant(one);
    }
  }

  #write(who: string, what: System | Omit<Op, "seq" | "who" | "first">): void {
    const seq = this.ops.length + 1;
    const place = { seq, who, first: this.#all ? 1 : seq };
    this.ops.push("event" in what ? { ...place, way: "system", target: 0, system: what } : { ...place, ...what });
  }

  /** Carries out a wish, or skips it if the server would refuse it. */
  #grant({ who: at, way, whom, which }: Wish): void {
    const [who, user] = [USERS[at] ?? "", USERS[whom] ?? ""];
    if (!this.members.has(who)) {
      return;
    }
    const target = this.#target(which);
    switch (way) {
      case "say":
        this.#write(who, { way, target: 0, mentions: [[], [user], ["*"]][which % 3] ?? [] });
        break;
      case "edit":
      case "delete":
      case "react":
        if (target) {
          const emoji = way === "react" ? EMOJI[whom] : undefined;
          this.#write(who, { way, target, ...(emoji === undefined ? {} : { emoji }) });
        }
        break;
      case "add":
        if (!this.members.has(user)) {
          this.members.add(user);
          this.#write(who, { event: "members.added", members: [user] });
        }
        break;
      case "remove":
        if (user !== who && this.members.delete(user)) {
          this.#write(who, { event: "members.removed", members: [user] });
        }
        break;
      case "leave":
        if (this.members.size > 1) {
          this.members.delete(who);
          this.#write(who, { event: "member.left" });
        }
        break;
      case "role":
        this.#write(who, { event: "role.changed", user_id: user, role: "admin" });
        break;
      case "title":
        this.#write(who, { event: "info.changed", title: `Trip ${which}` });
        break;
      case "history":
        this.#all = !this.#all;
        this.#write(who, { event: "info.changed", history: this.#all ? "all" : "joined" });
        break;
    }
  }

  /** Returns a message that exists. */
  #target(which: number): number | undefined {
    const states = this.fold(this.ops.length);
    const there = this.ops.filter(({ seq, way }) => way === "say" && !states.get(seq)?.deleted);
    return there[which % Math.max(there.length, 1)]?.seq;
  }

  fold(moment: number): Map<number, State> {
    const states = new Map<number, State>();
    for (const { seq, who, way, target, emoji } of this.ops.slice(0, moment)) {
      const state = states.get(target);
      if (way === "say") {
        states.set(seq, { body: `said ${seq}`, version: 1, reactions: new Map() });
      } else if (way === "edit" && state) {
        Object.assign(state, { body: `edited ${seq}`, version: state.version + 1, edited_at: timeOf(seq) });
      } else if (way === "delete") {
        const deleted = { deleted_at: timeOf(seq), deleted_by: who };
        states.set(target, { body: "", version: 1, deleted, reactions: new Map() });
      } else if (way === "react" && state) {
        state.reactions_seq = seq;
        state.reactions.delete(who);
        if (emoji !== undefined) {
          state.reactions.set(who, emoji);
        }
      }
    }
    return states;
  }

  intervals(user: string): Interval[] {
    const intervals: Interval[] = [];
    for (const { seq, who, system, first } of this.ops) {
      const isJoin = system?.event === "created" || system?.event === "members.added";
      const isLeave = system?.event === "member.left" ? who === user : system?.event === "members.removed";
      const names = system && "members" in system ? system.members.includes(user) : who === user;
      if (isJoin && names) {
        intervals.push({ joined: seq, first, left: undefined });
      } else if (isLeave && names) {
        Object.assign(intervals.at(-1) ?? {}, { left: seq });
      }
    }
    return intervals;
  }

  /**
   * Returns the entry as alice reads it when the log had `moment` entries and she could see entries from `first` on.
   */
  seen(seq: number, first: number, moment: number): Message {
    const op = this.ops[seq - 1];
    if (!op) {
      throw new Error(`there is no ${seq}`);
    }
    const { who, way, target, emoji, mentions = [], system } = op;
    const of = this.fold(moment).get(way === "say" ? seq : target);
    const entry = {
      conversation_id: CONVERSATION,
      seq,
      message_id: `0198b7a0-0000-7000-8000-${String(seq).padStart(12, "0")}`,
      sender_id: who,
      sent_at: timeOf(seq),
      body: "",
      ...(who === "alice" ? { client_msg_id: `m${seq}` } : {}),
    };
    switch (way) {
      case "system":
        return { ...entry, kind: "system", ...(system ? { system } : {}) };
      case "edit": {
        const isTold = target >= first && of && !of.deleted;
        return { ...entry, kind: "edit", target_seq: target, ...(isTold ? textOf(of) : {}) };
      }
      case "delete":
        return { ...entry, kind: "delete", target_seq: target };
      case "react": {
        const before = this.fold(seq - 1)
          .get(target)
          ?.reactions.get(who);
        // The client makes an own entry from the reply, which does not contain the earlier reaction.
        const isTold = before !== undefined && (who !== "alice" || moment % 2 === 0);
        return {
          ...entry,
          kind: "reaction",
          target_seq: target,
          ...(emoji === undefined ? {} : { emoji }),
          ...(isTold ? { emoji_before: before } : {}),
        };
      }
      case "say":
        return { ...entry, kind: "text", ...(of ? shown(of, mentions) : {}) };
    }
  }
}

function textOf({ body, version }: State) {
  return { body, ...(version > 1 ? { version } : {}) };
}

function shown(state: State, mentions: string[]) {
  const { edited_at, deleted, reactions, reactions_seq } = state;
  const list = reactionsOf(reactions);
  return {
    ...textOf(state),
    ...(edited_at === undefined ? {} : { edited_at }),
    ...deleted,
    ...(mentions.length > 0 && !deleted ? { mentions } : {}),
    ...(list.length > 0 ? { reactions: list } : {}),
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
  readonly log: Log;
  #intervals: Interval[];
  /** The marks of the other members at the end, by user id. */
  #marks = new Map<string, { delivered_seq: number; read_seq: number }>();
  #read: number;
  /** The last row is from the end of the log, and has alice's read mark. */
  #isRowOfEnd = false;
  #deleted = new Set<number>();

  constructor(log: Log) {
    this.log = log;
    this.#intervals = log.intervals("alice");
    this.#read = this.#readAtJoin(this.#last);
    for (const user of USERS) {
      const joined = log.intervals(user).at(-1)?.joined;
      if (user !== "alice" && log.members.has(user) && joined !== undefined) {
        const mark = log.ops[joined - 1]?.who === user ? joined : joined - 1;
        this.#marks.set(user, { delivered_seq: mark, read_seq: mark });
      }
    }
  }

  get #last(): Interval {
    const last = this.#intervals.at(-1);
    if (!last) {
      throw new Error("alice was never a member");
    }
    return last;
  }

  /** Where the log ends for alice. */
  get #end(): number {
    return this.#last.left ?? this.log.ops.length;
  }

  #readAtJoin({ joined }: Interval): number {
    return this.log.ops[joined - 1]?.who === "alice" ? joined : joined - 1;
  }

  /** Returns alice's membership at some time, and the last entry that she could see. */
  #at(moment: number): { interval: Interval; end: number; isMember: boolean } | undefined {
    const interval = this.#intervals.filter(({ joined }) => joined <= moment).at(-1);
    if (!interval) {
      return undefined;
    }
    const { left } = interval;
    const hasLeft = left !== undefined && left <= moment;
    return { interval, end: hasLeft ? left : moment, isMember: !hasLeft };
  }

  /** Returns a time since the entry. A former member gets no later changes, so no later state is possible. */
  #since(seq: number, later: number): number {
    return seq + (later % (Math.max(this.#end, seq) - seq + 1));
  }

  /** An entry of the time in which alice was a member. */
  event(place: number, later: number): void {
    const seq = (place % this.log.ops.length) + 1;
    const moment = this.#since(seq, later);
    const at = this.#at(seq);
    if (at && (at.isMember || at.end === seq)) {
      this.#take(this.log.seen(seq, at.interval.first, moment));
    }
  }

  #take(entry: Message): void {
    fits("Message", { ...entry });
    this.timeline.message(entry);
    this.#note(entry);
  }

  #note({ seq, target_seq = seq, kind, deleted_at }: Message): void {
    if (deleted_at !== undefined || kind === "delete") {
      this.#deleted.add(target_seq);
    }
  }

  page(place: number, side: number, moment: number): void {
    const at = (place % this.log.ops.length) + 1;
    this.#answer([{}, { after_seq: at }, { before_seq: at }][side % 3] ?? {}, (moment % this.log.ops.length) + 1);
  }

  /** Replies to `history` as the server does. */
  #answer(side: Side, moment: number): void {
    const at = this.#at(moment);
    if (!at) {
      return;
    }
    const { interval, end } = at;
    const asOf = Math.min(moment, this.#end);
    const seqs = this.log.ops.map(({ seq }) => seq).filter((seq) => seq >= interval.first && seq <= end);
    const found =
      "after_seq" in side
        ? seqs.filter((seq) => seq > side.after_seq).slice(0, PAGE_MAX)
        : seqs.filter((seq) => !("before_seq" in side) || seq < side.before_seq).slice(-PAGE_MAX);
    const messages = found.map((seq) => this.log.seen(seq, interval.first, asOf));
    const page = { messages, more: true, last_seq: end, first_seq: interval.first, members: [] };
    fits("HistoryResult", { ...page });
    this.timeline.history(page satisfies HistoryResult);
    for (const entry of messages) {
      this.#note(entry);
    }
  }

  row(place: number): void {
    const moment = (place % this.log.ops.length) + 1;
    const at = this.#at(moment);
    if (!at) {
      return;
    }
    const { interval, end, isMember } = at;
    const isLast = interval === this.#last;
    const read = isLast ? this.#read : this.#readAtJoin(interval);
    if (read > end) {
      return;
    }
    this.#isRowOfEnd ||= isLast && end === this.#end;
    const row = {
      conversation_id: CONVERSATION,
      kind: "group" as const,
      title: "Trip",
      role: isMember ? ("member" as const) : ("none" as const),
      member_count: 4,
      first_seq: interval.first,
      last_message: { seq: 1, sender_id: "bob", kind: "system", preview: "", sent_at: timeOf(1) },
      unread: this.#unread(read, end).length,
      mentions: this.#mentions(read, end).length,
      delivered_seq: end,
      read_seq: read,
      last_seq: end,
    };
    fits("Conversation", row);
    this.timeline.row(row);
  }

  read(place: number): void {
    const seq = place % (this.#end + 1);
    if (seq > this.#read) {
      this.#read = seq;
      this.#isRowOfEnd = false;
    }
    this.timeline.receipt({ kind: "read", user_id: "alice", seq: this.#read });
  }

  /** Raises a mark of another member. */
  receipt(who: number, place: number, isRead: boolean): void {
    const user = USERS[who % USERS.length] ?? "";
    const marks = this.#marks.get(user);
    if (marks) {
      const seq = Math.max(place % (this.log.ops.length + 1), isRead ? marks.read_seq : marks.delivered_seq);
      marks.delivered_seq = Math.max(marks.delivered_seq, seq);
      marks.read_seq = isRead ? seq : marks.read_seq;
      this.timeline.receipt({ kind: isRead ? "read" : "delivered", user_id: user, seq });
    }
  }

  receipts(): void {
    const members = [...this.#marks].map(([user_id, marks]) => ({ user_id, ...marks }));
    const lowest = (of: (marks: { delivered_seq: number; read_seq: number }) => number) =>
      members.length > 0 ? Math.min(...members.map(of)) : this.log.ops.length;
    const page = {
      delivered_seq: lowest(({ delivered_seq }) => delivered_seq),
      read_seq: lowest(({ read_seq }) => read_seq),
      members,
      next_cursor: null,
    };
    fits("ReceiptsResult", page);
    this.timeline.receipts(page);
  }

  /** As the server counts: the messages of others above the mark that are not deleted by then. */
  #unread(read: number, end: number): Op[] {
    const states = this.log.fold(end);
    return this.log.ops.filter(
      ({ seq, way, who }) => way === "say" && who !== "alice" && seq > read && seq <= end && !states.get(seq)?.deleted,
    );
  }

  #mentions(read: number, end: number): Op[] {
    const isNamed = ({ mentions = [] }: Op) => mentions.includes("alice") || mentions.includes("*");
    return this.#unread(read, end).filter(isNamed);
  }

  #entries() {
    return this.timeline.entries(() => "").filter(({ type }) => type !== "day");
  }

  check(): void {
    const seqs = this.#entries().flatMap((entry) => ("message" in entry ? [entry.message.seq] : []));
    expect(seqs, "in order and once").toEqual([...new Set(seqs)].sort((one, other) => one - other));
    for (const entry of this.#entries()) {
      if (entry.type === "message") {
        const { seq, deleted_at, body } = entry.message;
        expect([deleted_at !== undefined, body === ""], `whether ${seq} is deleted`).toEqual(
          Array(2).fill(this.#deleted.has(seq)),
        );
      }
    }
    if (this.#isRowOfEnd) {
      const { timeline } = this;
      expect([timeline.unread(), timeline.mentions()], "what the row says").toEqual([
        this.#unread(this.#read, this.#end).length,
        this.#mentions(this.#read, this.#end).length,
      ]);
    }
  }

  #wanted(): Side | undefined {
    return this.timeline.missing() ?? this.timeline.moreBefore();
  }

  /** Does what an app does when it shows the conversation. */
  finish(): void {
    const { timeline, log } = this;
    const moment = log.ops.length;
    this.#answer({}, moment);
    let asked = 0;
    for (let side = this.#wanted(); side; side = this.#wanted()) {
      asked += 1;
      expect(asked, `what ${JSON.stringify(side)} asks for comes`).toBeLessThanOrEqual(log.ops.length);
      this.#answer(side, moment);
    }
    timeline.receipt({ kind: "read", user_id: "alice", seq: this.#read });
    const { first, left } = this.#last;
    if (left === undefined) {
      this.receipts();
    }
    const expected = log.ops
      .filter(({ seq, way }) => seq >= first && seq <= this.#end && (way === "say" || way === "system"))
      .map(({ seq, way, who, system }) => {
        const message = log.seen(seq, first, this.#end);
        return way === "system"
          ? { type: "system", message, own: who === "alice", system }
          : { type: "message", message };
      });
    const found = this.#entries().map((entry) =>
      entry.type === "message" ? { type: "message", message: entry.message } : entry,
    );
    expect(found).toEqual(expected);
    expect(timeline.isClosed()).toBe(left !== undefined);
    const unread = this.#unread(this.#read, this.#end);
    expect([timeline.unread(), timeline.mentions()]).toEqual([
      unread.length,
      this.#mentions(this.#read, this.#end).length,
    ]);
    expect(timeline.readUpTo()).toBe(unread.at(-1)?.seq);
    if (left === undefined) {
      this.#checkTicks();
    }
  }

  #checkTicks(): void {
    const others = [...this.#marks];
    const ticks = this.#entries().flatMap((entry) =>
      entry.type === "message" && entry.own ? [[entry.message.seq, entry.tick] as const] : [],
    );
    for (const [seq, tick] of ticks) {
      const have = (of: "delivered_seq" | "read_seq") =>
        others.length > 0 && others.every(([, marks]) => marks[of] >= seq);
      const expected = have("read_seq") ? "read" : have("delivered_seq") ? "delivered" : "stored";
      expect(tick, `the tick of ${seq}`).toBe(expected);
      const joined = (user: string) => this.log.intervals(user).at(-1)?.joined ?? 0;
      const there = others.filter(([user]) => joined(user) < seq);
      const read = there.filter(([, { read_seq }]) => read_seq >= seq).map(([user]) => user);
      const delivered = there
        .filter(([, { read_seq, delivered_seq }]) => read_seq < seq && delivered_seq >= seq)
        .map(([user]) => user);
      expect(this.timeline.readers(seq), `the readers of ${seq}`).toEqual({ read, delivered });
    }
  }
}

const anywhere = fc.nat({ max: 1000 });
const input: fc.Arbitrary<(world: World) => void> = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(anywhere, anywhere).map((at) => (world: World) => world.event(...at)) },
  { weight: 3, arbitrary: fc.tuple(anywhere, anywhere, anywhere).map((at) => (world: World) => world.page(...at)) },
  { weight: 2, arbitrary: anywhere.map((at) => (world: World) => world.row(at)) },
  { weight: 1, arbitrary: anywhere.map((at) => (world: World) => world.read(at)) },
  {
    weight: 2,
    arbitrary: fc.tuple(anywhere, anywhere, fc.boolean()).map((of) => (world: World) => world.receipt(...of)),
  },
  { weight: 1, arbitrary: fc.constant((world: World) => world.receipts()) },
);

it("what is shown of a group is the fold of its log, whatever order it comes in", { timeout: 60_000 }, () => {
  const all = fc.record({
    creator: fc.constantFrom("alice", "bob"),
    others: fc.subarray([...USERS]),
    wishes: fc.array(wish, { maxLength: 30, size: "max" }),
    inputs: fc.array(input, { maxLength: 40, size: "max" }),
  });
  const property = fc.property(all, ({ creator, others, wishes, inputs }) => {
    const log = new Log(creator, others, wishes);
    fc.pre(log.intervals("alice").length > 0);
    const world = new World(log);
    for (const take of inputs) {
      take(world);
      world.check();
    }
    world.finish();
  });
  fc.assert(property, { numRuns: 500 });
});

const place = (seq: number, sender_id: string) => ({
  conversation_id: CONVERSATION,
  seq,
  message_id: "x",
  sender_id,
  sent_at: timeOf(seq),
  body: "",
});
const text = (seq: number, sender_id: string): Message => ({ ...place(seq, sender_id), kind: "text", body: "hi" });
const rowOf = (last_seq: number, of: object) => ({
  conversation_id: CONVERSATION,
  kind: "group" as const,
  role: "member" as const,
  last_message: { seq: last_seq, sender_id: "bob", kind: "text", preview: "hi", sent_at: timeOf(last_seq) },
  unread: 0,
  mentions: 0,
  delivered_seq: last_seq,
  read_seq: last_seq,
  last_seq,
  ...of,
});

it("who was in the group before the user joined again is not waited for", () => {
  const timeline = new Timeline("alice");
  const added: Message = { ...place(2, "carol"), kind: "system", system: { event: "members.added", members: ["bob"] } };
  timeline.history({ messages: [added, text(3, "alice")], last_seq: 3, first_seq: 2, members: [] });
  const of = (user_id: string, seq: number) => ({ user_id, delivered_seq: seq, read_seq: seq });
  const receipts = (...members: ReturnType<typeof of>[]) =>
    timeline.receipts({ delivered_seq: 0, read_seq: 0, members, next_cursor: null });
  receipts(of("bob", 2), of("carol", 3));
  // Removed and added again while this device was away; bob has left meanwhile.
  timeline.row(rowOf(21, { first_seq: 20 }));
  timeline.message(text(21, "alice"));
  receipts(of("carol", 21));
  const ticks = () => timeline.entries(() => "").flatMap((entry) => (entry.type === "message" ? [entry.tick] : []));
  expect(ticks()).toEqual(["read"]);
  // Late, from the time before.
  timeline.message(added);
  expect(ticks()).toEqual(["read"]);
});

it("an own message that an admin deletes was never unread", () => {
  const timeline = new Timeline("alice");
  timeline.row(rowOf(5, { first_seq: 1, unread: 2, delivered_seq: 5, read_seq: 2 }));
  timeline.message(text(4, "alice"));
  timeline.message({ ...place(6, "carol"), kind: "delete", target_seq: 4 });
  expect(timeline.unread()).toBe(2);
  // The author of the delete most likely wrote the unknown target.
  timeline.message({ ...place(7, "carol"), kind: "delete", target_seq: 3 });
  expect(timeline.unread()).toBe(1);
});
