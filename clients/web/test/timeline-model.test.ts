// A property test with any order of inputs, repeated or late, of a conversation between alice and bob. The timeline is
// in order, has no entry twice, and its ticks never fall. Once all inputs have come, the timeline is complete.

import * as fc from "fast-check";
import { expect, it } from "vitest";
import type { Message } from "../src/feed.ts";
import { type Tick, Timeline, type TimelineEntry } from "../src/timeline.ts";

const RANKS: Tick[] = ["waiting", "failed", "stored", "delivered", "read"];

/** The author of each message; alice's have ids. */
const conversations = fc.array(fc.constantFrom("alice", "bob"), { minLength: 1, maxLength: 12 });

type Place = number;
type Input = (world: World) => void;
const place = fc.nat({ max: 1000 });
const kind = fc.constantFrom("delivered" as const, "read" as const);
const inputs: fc.Arbitrary<Input> = fc.oneof(
  { weight: 6, arbitrary: place.map((at) => (world: World) => world.message(at)) },
  { weight: 3, arbitrary: fc.tuple(place, place, place).map((at) => (world: World) => world.history(...at)) },
  { weight: 3, arbitrary: place.map((at) => (world: World) => world.queued(at)) },
  { weight: 1, arbitrary: place.map((at) => (world: World) => world.failed(at)) },
  { weight: 1, arbitrary: place.map((at) => (world: World) => world.dismiss(at)) },
  { weight: 2, arbitrary: fc.tuple(kind, place).map((of) => (world: World) => world.receipt("bob", ...of)) },
  { weight: 1, arbitrary: fc.tuple(kind, place).map((of) => (world: World) => world.receipt("alice", ...of)) },
  { weight: 2, arbitrary: fc.tuple(place, place).map((at) => (world: World) => world.row(...at)) },
  { weight: 1, arbitrary: fc.constant((world: World) => world.timeline.open()) },
  { weight: 1, arbitrary: fc.constant((world: World) => world.timeline.close()) },
);

it("in order, nothing twice, no tick falls, and in the end everything is there", { timeout: 300_000 }, () => {
  const property = fc.property(conversations, fc.array(inputs, { maxLength: 40, size: "max" }), (writers, steps) => {
    const world = new World(writers);
    for (const take of steps) {
      take(world);
      world.check();
    }
    world.finish();
  });
  fc.assert(property, { numRuns: 300 });
});

class World {
  readonly timeline = new Timeline("alice");
  #messages: Message[];
  #ranks = new Map<string, number>();

  constructor(writers: string[]) {
    this.#messages = writers.map((sender_id, at) => ({
      conversation_id: "dm_ab",
      seq: at + 1,
      message_id: `message ${at + 1}`,
      sender_id,
      kind: "text",
      body: `body ${at + 1}`,
      // A day has three messages.
      sent_at: new Date(Date.UTC(2026, 10, 1 + Math.floor(at / 3), 10, 0, at)).toISOString(),
      ...(sender_id === "alice" ? { client_msg_id: `m${at + 1}` } : {}),
    }));
  }

  get #last(): number {
    return this.#messages.length;
  }

  #at(place: Place): Message {
    const message = this.#messages[place % this.#last];
    if (!message) {
      throw new Error("there is always one");
    }
    return message;
  }

  /** Alice's message, by the id that its client gave it; bob's messages have none. */
  #id(place: Place): string | undefined {
    return this.#at(place).client_msg_id;
  }

  message(at: Place): void {
    this.timeline.message(this.#at(at));
  }

  history(first: Place, count: Place, known: Place): void {
    const last_seq = (known % this.#last) + 1;
    const messages = this.#messages.slice(0, last_seq).slice(first % last_seq, (first % last_seq) + (count % 4));
    const mark = (place: Place) => place % (last_seq + 1);
    const bob = { user_id: "bob", delivered_seq: mark(first), read_seq: Math.min(mark(first), mark(count)) };
    const alice = { user_id: "alice", delivered_seq: last_seq, read_seq: mark(count) };
    this.timeline.history({ messages, last_seq, members: [alice, bob] });
  }

  queued(at: Place): void {
    const id = this.#id(at);
    if (id !== undefined) {
      const { body, sent_at } = this.#at(at);
      this.timeline.queued({ clientMsgId: id, target: { to: "bob" }, body }, sent_at);
    }
  }

  failed(at: Place): void {
    this.timeline.failed(this.#id(at) ?? "unknown", "unavailable");
  }

  dismiss(at: Place): void {
    const id = this.#id(at) ?? "unknown";
    this.timeline.dismiss(id);
    if (this.#ranks.get(id) === RANKS.indexOf("failed")) {
      // A later step may queue the message again.
      this.#ranks.delete(id);
    }
  }

  receipt(user_id: string, kind: "delivered" | "read", at: Place): void {
    this.timeline.receipt({ kind, user_id, seq: this.#at(at).seq });
  }

  row(known: Place, read: Place): void {
    const last = this.#at(known);
    const read_seq = read % (last.seq + 1);
    this.timeline.row({
      conversation_id: "dm_ab",
      kind: "direct",
      peer_id: "bob",
      last_message: {
        seq: last.seq,
        sender_id: last.sender_id,
        kind: "text",
        preview: last.body,
        sent_at: last.sent_at,
      },
      unread: this.#unread(read_seq, last.seq),
      delivered_seq: last.seq,
      read_seq,
      last_seq: last.seq,
    });
  }

  #unread(after: number, upTo: number): number {
    return this.#messages.slice(after, upTo).filter(({ sender_id }) => sender_id === "bob").length;
  }

  check(): void {
    const entries = this.timeline.entries(dayOf);
    const stored = entries.flatMap((entry) => (entry.type === "message" ? [entry.message.seq] : []));
    expect(stored).toEqual([...new Set(stored)].sort((one, other) => one - other));
    const ids = entries.flatMap((entry) => idOf(entry) ?? []);
    expect(ids).toEqual([...new Set(ids)]);
    expect(entries.filter(({ type }) => type === "unread").length).toBeLessThanOrEqual(1);
    this.#checkSeparators(entries);
    for (const entry of entries) {
      if (entry.type === "message" && !entry.own) {
        expect(entry.tick).toBeUndefined();
      } else if (entry.type === "message" || entry.type === "unsent") {
        const rank = RANKS.indexOf(entry.tick ?? "waiting");
        const id = idOf(entry) ?? "";
        expect(rank, `the tick of ${id}`).toBeGreaterThanOrEqual(this.#ranks.get(id) ?? 0);
        this.#ranks.set(id, rank);
      }
    }
    const missing = this.timeline.missing();
    const gaps = entries.flatMap((entry) => (entry.type === "gap" ? [entry.afterSeq] : []));
    expect([undefined, stored.at(-1), ...gaps]).toContain(
      missing && "after_seq" in missing ? missing.after_seq : undefined,
    );
    expect(this.timeline.unread()).toBeGreaterThanOrEqual(0);
  }

  /** A day wherever it changes, a gap wherever something is missing, and nowhere else. */
  #checkSeparators(entries: TimelineEntry[]): void {
    const shown = entries.filter((entry) => entry.type !== "unread");
    let day: string | undefined;
    let seq: number | undefined;
    const expected = shown
      .filter((entry) => entry.type === "message" || entry.type === "unsent")
      .flatMap((entry) => {
        const before: unknown[] = [];
        if (entry.type === "message") {
          if (seq !== undefined && entry.message.seq > seq + 1) {
            before.push({ type: "gap", afterSeq: seq, beforeSeq: entry.message.seq });
          }
          seq = entry.message.seq;
        }
        const next = dayOf(entry.type === "message" ? entry.message.sent_at : entry.unsent.at);
        if (next !== day) {
          before.push({ type: "day", day: next });
        }
        day = next;
        return [...before, entry];
      });
    expect(shown).toEqual(expected);
  }

  /** Requests everything that is missing, as an app does, and stores the rest. */
  finish(): void {
    this.timeline.history({ messages: this.#messages.slice(-2), last_seq: this.#last, members: [] });
    for (let round = 0; ; round += 1) {
      expect(round, "it ends").toBeLessThan(100);
      const side = this.timeline.missing() ?? this.timeline.moreBefore();
      if (!side) {
        break;
      }
      const from = "after_seq" in side ? side.after_seq : Math.max((side.before_seq ?? 1) - 3, 0);
      const messages = this.#messages.slice(from, from + 2);
      this.timeline.history({ messages, last_seq: this.#last, members: [] });
      this.check();
    }
    const entries = this.timeline.entries(dayOf);
    const all = entries.flatMap((entry) => (entry.type === "message" ? [entry.message.seq] : []));
    expect(all).toEqual(this.#messages.map(({ seq }) => seq));
    expect(entries.filter(({ type }) => type === "unsent" || type === "gap")).toEqual([]);
    // The count is positive exactly if there is something left to read.
    const readUpTo = this.timeline.readUpTo();
    expect(this.timeline.unread() > 0).toBe(readUpTo !== undefined);
    if (readUpTo !== undefined) {
      this.timeline.receipt({ kind: "read", user_id: "alice", seq: readUpTo });
    }
    expect(this.timeline.unread()).toBe(0);
    expect(this.timeline.readUpTo()).toBeUndefined();
  }
}

function dayOf(at: string): string {
  return at.slice(0, "2026-11-20".length);
}

function idOf(entry: TimelineEntry): string | undefined {
  return entry.type === "message"
    ? entry.message.client_msg_id
    : entry.type === "unsent"
      ? entry.unsent.queued.clientMsgId
      : undefined;
}
