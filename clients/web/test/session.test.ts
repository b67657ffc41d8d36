// Tests of the session that the scripts in conformance/ can't express, since the random numbers matter.

import { expect, it } from "vitest";
import { defaultTiming } from "../src/config.ts";
import type { PigeonholeError } from "../src/errors.ts";
import type { Why } from "../src/events.ts";
import { readInbox } from "../src/protocol.ts";
import { nothingSaved } from "../src/saved.ts";
import type { Output } from "../src/session/core.ts";
import { Session } from "../src/session/session.ts";
import { message } from "./server.ts";

const { reconnectFirst, lifetime, lifetimeJitter, silenceMax, pingEvery } = defaultTiming;

function start(random: () => number): Session {
  const session = new Session({
    me: "alice",
    timing: defaultTiming,
    keeper: "app",
    saved: nothingSaved(),
    random,
    now: 0,
  });
  session.tick(0);
  return session;
}

/** Connected, with nothing missing. */
function online(random = () => 0): Session {
  const session = start(random);
  session.opened(1, 0);
  reply(session, "1", { messages: [], more: false });
  reply(session, "2", { conversations: [], next_cursor: null });
  session.takeStep();
  return session;
}

function reply(session: Session, id: string, result: unknown, now = session.now): void {
  session.received(1, JSON.stringify({ type: "reply", id, result }), now);
}

function frames(outputs: Output[]): unknown[] {
  return outputs.flatMap((output) => (output.do === "send" ? [JSON.parse(output.frame)] : []));
}

/** Returns the wait after each of `count` failures. */
function waits(count: number, chance: number, fail: (session: Session, link: number) => void): number[] {
  const session = start(() => chance);
  return Array.from({ length: count }, (_, attempt) => {
    fail(session, attempt + 1);
    const wait = session.nextTick() - session.now;
    session.tick(session.nextTick());
    return wait;
  });
}

const notOpened = (why: Why) => (session: Session, link: number) => session.dialFailed(link, why, session.now);

it("backs off at random between 0 and a maximum that doubles", () => {
  const lost = notOpened({ reason: "unreachable", detail: "no network" });
  expect(waits(9, 1, lost)).toEqual([500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
  expect(waits(9, 1 / 2, lost)).toEqual([250, 500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
  expect(waits(9, 1, notOpened({ reason: "refused", status: 404 })).at(-1)).toBe(30000);
});

it("waits up to 5 min for a server that is overloaded, or perhaps is, as browsers don't say", () => {
  for (const why of [
    { reason: "refused", status: 429 },
    { reason: "refused", status: 503 },
    { reason: "unreachable" },
    { reason: "unreachable", detail: "Received network error or non-101 status code." },
  ]) {
    expect(waits(12, 1, notOpened(why as Why)).slice(5)).toEqual([16000, 32000, 64000, 128000, 256000, 300000, 300000]);
  }
  const first = 40_000;
  const impatient = { ...defaultTiming, reconnectFirst: first };
  const session = new Session({
    me: "alice",
    timing: impatient,
    keeper: "app",
    saved: nothingSaved(),
    random: () => 1,
    now: 0,
  });
  const capped = Array.from({ length: 7 }, (_, attempt) => {
    session.tick(session.nextTick());
    session.dialFailed(attempt + 1, { reason: "unreachable" }, session.now);
    return session.nextTick() - session.now;
  });
  expect(capped).toEqual([...Array(6).fill(30_000), 300_000]);
});

it.each([
  JSON.stringify({ message: "Internal server error" }),
  JSON.stringify({ type: "error", error: { code: "token_expired", message: "", retryable: false } }),
])("backs off from a server that opens, fails and closes: %s", (said) => {
  const fail = (session: Session, link: number) => {
    session.opened(link, session.now);
    session.received(link, said, session.now);
    session.lost(link, { reason: "closed" }, session.now);
  };
  expect(waits(8, 1, fail)).toEqual([500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
});

it("does not come back because the network has changed, if it was one too many", () => {
  const session = online();
  session.received(1, JSON.stringify({ type: "connection.replaced" }), 0);
  session.takeStep();
  session.networkChanged(1000);
  expect(session.takeStep().outputs).toEqual([]);
  session.wake(2000);
  expect(session.takeStep().outputs).toContainEqual({ do: "dial", link: 2, need: "connect" });
});

it("replaces a connection up to 55 minutes before its time", () => {
  const replacedAt = (chance: number) => {
    const session = online(() => chance);
    for (;;) {
      session.tick(session.nextTick());
      for (const output of session.takeStep().outputs) {
        if (output.do === "dial") {
          return session.now;
        }
        if (output.do === "send") {
          reply(session, JSON.parse(output.frame).id, { pending: false, server_time: "2026-11-20T10:00:00.000Z" });
        }
      }
    }
  };
  expect(replacedAt(0)).toBe(lifetime);
  expect(replacedAt(1)).toBe(lifetime - lifetimeJitter);
});

it("sends a ping at once when it is woken", () => {
  const session = online();
  session.wake(1000);
  session.wake(1001);
  expect(frames(session.takeStep().outputs)).toEqual([{ action: "ping", id: "3" }]);
  reply(session, "3", { pending: false, server_time: "2026-11-20T10:00:00.000Z" }, 1100);
  expect(session.nextTick()).toBe(1000 + pingEvery);
  // Without a reply, the client closes the connection soon.
  session.wake(2000);
  while (session.nextTick() < 2000 + silenceMax) {
    session.tick(session.nextTick());
  }
  session.takeStep();
  session.tick(2000 + silenceMax);
  expect(session.takeStep().outputs).toContainEqual({ do: "close", link: 1 });
});

it("dials at once when it is woken, however often that has failed", () => {
  const session = start(() => 1);
  for (let link = 1; link < 9; link += 1) {
    session.dialFailed(link, { reason: "unreachable" }, session.now);
    session.tick(session.nextTick());
  }
  session.dialFailed(9, { reason: "unreachable" }, session.now);
  session.takeStep();
  session.wake(session.now + 1);
  expect(session.takeStep().outputs).toContainEqual({ do: "dial", link: 10, need: "connect" });
  // While one is on its way, the client sends no other.
  session.wake(session.now + 1);
  expect(session.takeStep().outputs).toEqual([]);
});

it("refuses what is too large for a frame before it is sent, and an answer that can't be read", () => {
  const session = online();
  const codes: string[] = [];
  const waiter = { resolve: () => {}, reject: ({ code }: PigeonholeError) => codes.push(code) };
  session.call({ action: "history", conversation_id: "x".repeat(40_000) }, waiter, 0);
  session.read("x".repeat(40_000), 1, waiter, 0);
  session.call({ action: "history", conversation_id: "dm_ab" }, waiter, 0);
  reply(session, "3", { messages: 5 });
  for (const output of session.takeStep().outputs) {
    if (output.do === "answer") {
      output.settle();
    }
  }
  expect(codes).toEqual(["too_large", "too_large", "unreadable"]);
});

it("reads a page of the chat list without conversations of kinds that it does not know", () => {
  const session = online();
  const pages: unknown[] = [];
  const waiter = { resolve: (page: unknown) => pages.push(page), reject: () => {} };
  const last_message = { seq: 1, sender_id: "bob", kind: "text", preview: "hi", sent_at: "2026-11-20T10:00:01.000Z" };
  const row = { conversation_id: "dm_ab", unread: 0, delivered_seq: 1, read_seq: 1, last_seq: 1, last_message };
  const direct = { ...row, kind: "direct", peer_id: "bob" };
  session.call({ action: "inbox" }, waiter, 0);
  reply(session, "3", { conversations: [{ ...row, kind: "channel" }, direct], next_cursor: null });
  for (const output of session.takeStep().outputs) {
    if (output.do === "answer") {
      output.settle();
    }
  }
  expect(pages).toEqual([{ conversations: [direct], next_cursor: null }]);
});

it("waits before it replaces a connection again whose replacement broke", () => {
  const session = online(() => 1);
  session.wake(lifetime);
  session.opened(2, lifetime);
  session.takeStep();
  session.lost(2, { reason: "lost" }, lifetime);
  expect(session.takeStep().outputs.some((output) => output.do === "dial")).toBe(false);
  session.tick(lifetime + reconnectFirst);
  expect(session.takeStep().outputs).toContainEqual({ do: "dial", link: 3, need: "connect" });
});

it("asks for all of the chat list where what a storage kept of the last one is no time", () => {
  const saved = { ...nothingSaved(), caughtUp: "x" };
  const session = new Session({ me: "alice", timing: defaultTiming, keeper: "app", saved, random: () => 1, now: 0 });
  session.tick(0);
  session.opened(1, 0);
  reply(session, "1", { messages: [], more: false });
  expect(frames(session.takeStep().outputs).at(-1)).toEqual({ action: "inbox", limit: 50, id: "2" });
});

const of = (seq: number, more: object) => ({ ...message(seq), ...more });

it("hands over what can be read of an entry of a later version, and lacks one that says no place or no time", () => {
  const session = online();
  const entries = [
    message(1),
    of(2, { kind: "system", body: "", system: { event: "role.changed", role: 5 } }),
    of(3, { kind: "sealed", body: undefined, media: { media_id: 1 }, mentions: ["bob"], reply_to: 1, later: [] }),
    of(4, { reactions: "many" }),
    of(5, { sent_at: "now" }),
    { kind: "none" },
    null,
  ];
  session.received(1, JSON.stringify({ type: "messages.new", conversation_id: "dm_ab", messages: entries }), 0);
  const told = session
    .takeStep()
    .outputs.flatMap((output) =>
      output.do === "tell" && output.event.type === "message" ? [output.event.message] : [],
    );
  expect(told).toEqual([
    message(1),
    of(2, { kind: "system", body: "" }),
    of(3, { kind: "sealed", body: "", mentions: ["bob"], reply_to: 1, later: [] }),
    message(4),
  ]);
});

it("ends a drain with a page of which it can read nothing: the next one would be the same", () => {
  const session = start(() => 0);
  session.opened(1, 0);
  reply(session, "1", { messages: [{ kind: "none" }], more: true });
  expect(frames(session.takeStep().outputs)).toMatchObject([{ action: "drain" }, { action: "inbox" }]);
});

it("shows a row whose line it can't read all of, and not one without a line", () => {
  const line = { seq: 1, sender_id: "bob", kind: "system", preview: "", sent_at: "2026-11-20T10:00:01.000Z" };
  const row = { kind: "group", unread: 0, delivered_seq: 1, read_seq: 1, last_seq: 1 };
  const later = { ...line, system: { event: "members.added", members: "all" } };
  const page = {
    conversations: [
      { ...row, conversation_id: "gr_a", last_message: later },
      { ...row, conversation_id: "gr_b", last_message: 5 },
    ],
    next_cursor: null,
  };
  expect(readInbox(page)?.conversations).toEqual([{ ...row, conversation_id: "gr_a", last_message: line }]);
});
