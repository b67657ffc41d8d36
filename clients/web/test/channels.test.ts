// Channels: what the session does, played as the scripts of conformance/ are, and what the view of one shows.

import { expect, it } from "vitest";
import type { Channel, Message, Queued, System } from "../src/index.ts";
import { checkQueued } from "../src/protocol.ts";
import { Timeline } from "../src/timeline.ts";
import { play } from "./play.ts";
import { fits, type Step, variants } from "./script.ts";

const news = { conversation_id: "ch_n" };
const watch = { action: "watch", ...news };
const live = { live: true, poll_ms: 60_000 };
const polled = { live: false, poll_ms: 10_000 };
const post = (seq: number, more = "") => `$bob ${seq} in ch_n${more}`;
const posted = (...seqs: number[]) => ({
  server: { type: "messages.new", ...news, messages: seqs.map((seq) => post(seq)) },
});
const asksHistory = (after_seq: number) => ({ action: "history", ...news, after_seq, limit: 100 });
const page = (last_seq: number, ...seqs: number[]) => ({
  messages: seqs.map((seq) => post(seq)),
  more: false,
  last_seq,
  first_seq: 1,
  members: [],
});
const told = (seq: number, more = {}) => ({ told: { message: { ...news, seq }, ...more } });
const drained: Step[] = [
  { asks: { action: "drain" }, result: { messages: [], more: false } },
  { asks: { action: "inbox", limit: 50 }, result: { conversations: [], next_cursor: null } },
  { told: { state: "caught_up" } },
];

function script(name: string, ...steps: Step[]): void {
  it(name, () => {
    const [written = []] = variants({ name, steps });
    play({ name, begin: "caught_up", steps: written });
  });
}

script(
  "a watch begins at the end, and brings each entry once and in order, without acks",
  { app: { watch: news } },
  { asks: watch, result: { ...live, last_seq: 5 } },
  posted(6),
  told(6, { missed: false }),
  posted(6),
  { stats: { duplicates_dropped: 1, received: 1 } },
  posted(8),
  { wait: 200 },
  { asks: asksHistory(6), result: page(9, 7, 8, 9) },
  told(7),
  told(8),
  told(9),
  { saved: {} },
  { app: { unwatch: news } },
  { asks: { action: "unwatch", ...news }, result: {} },
  posted(10),
);

script(
  "what came meanwhile is asked for after the watch of the next connection, and was missed",
  { app: { watch: { ...news, after_seq: 3 } } },
  { asks: watch, result: { ...live, last_seq: 4 } },
  { asks: asksHistory(3), result: page(4, 4) },
  told(4, { missed: true }),
  { end: 1006 },
  { told: { state: "offline" } },
  { dials: { need: "connect" }, within: 1000 },
  { told: { state: "connecting" } },
  { open: {} },
  { told: { state: "online" } },
  { asks: watch, as: "w" },
  ...drained,
  posted(7),
  { answer: "w", result: { ...live, last_seq: 6 } },
  { asks: asksHistory(4), result: page(7, 5, 6, 7) },
  told(5, { missed: true }),
  told(6, { missed: true }),
  told(7, { missed: false }),
);

script(
  "the history is asked for every 10 s where too many watch, and every minute where they don't",
  { app: { watch: news } },
  { asks: watch, result: { ...polled, last_seq: 5 } },
  { wait: 9_999 },
  { wait: 1 },
  { asks: asksHistory(5), result: page(5) },
  { wait: 10_000 },
  { asks: asksHistory(5), result: page(6, 6) },
  told(6),
  { app: { unwatch: news } },
  { asks: { action: "unwatch", ...news }, result: {} },
  { wait: 10_000 },
  { app: { watch: news } },
  { asks: watch, result: { ...live, last_seq: 6 } },
  { wait: 59_999 },
  { wait: 1 },
  { asks: asksHistory(6), result: page(7, 7) },
  told(7),
);

script(
  "who is removed watches no more, and may watch again",
  { app: { watch: news } },
  { asks: watch, result: { ...live, last_seq: 5 } },
  { wait: 60_000 },
  { asks: asksHistory(5), error: { code: "not_member", message: "no", retryable: false } },
  { told: { unwatched: { ...news, code: "not_member" } } },
  { wait: 60_000 },
  { app: { watch: news } },
  { asks: watch, error: { code: "not_member", message: "no", retryable: false } },
  { told: { unwatched: { ...news, code: "not_member" } } },
);

script(
  "watching and not watching are asked for one after another, and the last one holds",
  { app: { watch: news } },
  { asks: watch, as: "w" },
  { app: { unwatch: news } },
  { app: { watch: { ...news, after_seq: 5 } } },
  { answer: "w", result: { ...live, last_seq: 6 } },
  { asks: watch, as: "again" },
  { app: { unwatch: news } },
  { answer: "again", result: { ...live, last_seq: 6 } },
  { asks: { action: "unwatch", ...news }, as: "u" },
  { app: { watch: { ...news, after_seq: 6 } } },
  { answer: "u", result: {} },
  { asks: watch, result: { ...live, last_seq: 6 } },
  posted(7),
  told(7),
);

script(
  "an own post has its place among the others, and is told where nobody watches, too",
  { app: { send: { client_msg_id: "m1", ...news, body: "one" } } },
  {
    asks: { action: "send", ...news, client_msg_id: "m1", kind: "text", body: "one" },
    result: "$stored 3 in ch_n",
  },
  { answered: "m1", ok: { seq: 3 } },
  told(3),
  { saved: {} },
  { app: { watch: { ...news, after_seq: 3 } } },
  { asks: watch, result: { ...live, last_seq: 3 } },
  { app: { send: { client_msg_id: "m2", ...news, body: "two" } } },
  {
    asks: { action: "send", ...news, client_msg_id: "m2", kind: "text", body: "two" },
    result: "$stored 5 in ch_n",
  },
  { answered: "m2", ok: { seq: 5 } },
  posted(4),
  told(4),
  { told: { message: { seq: 5, client_msg_id: "m2" }, missed: false } },
  { app: { react: { client_msg_id: "r1", ...news, seq: 4, emoji: "👍" } } },
  {
    asks: { action: "react", ...news, client_msg_id: "r1", seq: 4, emoji: "👍" },
    result: "$stored 4 in ch_n",
  },
  { answered: "r1", ok: { seq: 4 } },
  { told: { message: { kind: "reaction", seq: 4, target_seq: 4, emoji: "👍", client_msg_id: "r1" } } },
);

script(
  "a channel is made, joined, listed and left; typing there is told to nobody",
  { app: { create: { client_msg_id: "c1", kind: "channel", title: "News", members: [], join: "open" } } },
  {
    asks: { action: "create", client_msg_id: "c1", kind: "channel", title: "News", members: [], join: "open" },
    result: "$stored 1 in ch_n",
  },
  { answered: "c1", ok: news },
  { told: { message: { system: { event: "created", title: "News", members: ["alice"] } } } },
  { app: { join: { conversation_id: "ch_o" } }, as: "j" },
  { asks: { action: "join", conversation_id: "ch_o" }, result: { last_seq: 7 } },
  { answered: "j", ok: { last_seq: 7 } },
  { app: { channels: {} }, as: "all" },
  { asks: { action: "channels" }, result: { conversations: [], next_cursor: null } },
  { answered: "all", ok: { conversations: [] } },
  { app: { typing: news } },
  { app: { read: { ...news, seq: 5 } }, as: "r" },
  { asks: { action: "read", ...news, seq: 5 }, result: { unread: 2 } },
  { answered: "r", ok: { unread: 2 } },
  { app: { leave: { client_msg_id: "l1", conversation_id: "ch_o" } } },
  { asks: { action: "leave", client_msg_id: "l1", conversation_id: "ch_o" }, result: {} },
  { answered: "l1", ok: {} },
  { outbox: [] },
);

it("what only channels have is refused elsewhere, and what they have not, there", () => {
  const refused = (queued: Queued) => () => checkQueued(queued);
  const group = { title: "Trip", members: [], join: "open" as const };
  expect(refused({ clientMsgId: "c1", create: group })).toThrow("join: must be left out");
  expect(refused({ clientMsgId: "c1", create: { ...group, kind: "channel" } })).not.toThrow();
  const inGroup = { conversation_id: "gr_a" };
  expect(refused({ clientMsgId: "u1", target: inGroup, update: { join: "open" } })).toThrow("join: must be left out");
  expect(refused({ clientMsgId: "u1", target: news, update: { join: "open" } })).not.toThrow();
  const mentions = { clientMsgId: "m1", body: "hi", mentions: ["bob"] };
  expect(refused({ ...mentions, target: news })).toThrow("mentions: must be left out");
  expect(refused({ ...mentions, target: inGroup })).not.toThrow();
});

// The view.

function entry(seq: number, of: Partial<Message> = {}): Message {
  const sent_at = `2026-11-20T10:00:0${seq}.000Z`;
  const message = { ...news, seq, message_id: "x", sender_id: "bob", kind: "text", body: `bob ${seq}`, sent_at, ...of };
  return message;
}

function row(of: Partial<Channel>): Channel {
  const channel = { ...news, kind: "channel", title: "News", role: "member", first_seq: 3 } as const;
  const row = { ...channel, unread: 0, read_seq: 2, last_seq: 2, ...of };
  fits("Channel", row);
  return row;
}

const drawn = (timeline: Timeline) =>
  timeline.entries(() => "").flatMap((entry) => (entry.type === "message" ? [entry] : []));

it("of a channel that is joined at its end nothing is missing, and nothing is a gap below", () => {
  const timeline = new Timeline("alice");
  timeline.row(row({}));
  expect([timeline.missing(), timeline.unread(), timeline.moreBefore()]).toEqual([undefined, 0, undefined]);
  timeline.message(entry(3));
  timeline.row(row({ last_seq: 4, unread: 2 }));
  expect([timeline.missing(), timeline.unread(), timeline.moreBefore()]).toEqual([{ after_seq: 3 }, 2, undefined]);
});

it("a post that is deleted stays unread until it is read, and who posts has read everything", () => {
  const timeline = new Timeline("alice");
  timeline.row(row({}));
  timeline.open();
  for (const message of [entry(3), entry(4), entry(5, { kind: "delete", body: "", target_seq: 4 })]) {
    timeline.message(message);
  }
  expect([timeline.unread(), timeline.readUpTo()]).toEqual([2, 4]);
  timeline.row(row({ last_seq: 5, unread: 2 }));
  expect(timeline.unread()).toBe(2);
  timeline.message(entry(6, { sender_id: "alice" }));
  expect([timeline.unread(), timeline.readUpTo()]).toEqual([0, undefined]);
});

it("an own post has one tick and no readers, whoever has joined and read", () => {
  const timeline = new Timeline("alice");
  const system: System = { event: "created", title: "News", members: ["alice", "bob"] };
  timeline.message(entry(1, { sender_id: "alice", kind: "system", body: "", system }));
  timeline.message(entry(2, { sender_id: "alice" }));
  timeline.message(
    entry(3, { sender_id: "alice", kind: "system", body: "", system: { event: "members.added", members: ["carol"] } }),
  );
  expect(drawn(timeline).map(({ tick }) => tick)).toEqual(["stored"]);
  expect(timeline.readers(2)).toEqual({ read: [], delivered: [] });
});

it("reactions are as the last page counts them, and the own one is shown from its answer on", () => {
  const timeline = new Timeline("alice");
  const page = (reactions: Message["reactions"] = []) =>
    timeline.history({ messages: [entry(1, reactions.length > 0 ? { reactions } : {})], last_seq: 1, members: [] });
  const shown = () => drawn(timeline)[0]?.message.reactions ?? [];
  page([{ emoji: "👍", count: 2, mine: false }]);
  // As it was told when it was written.
  timeline.message(entry(1));
  expect(shown()).toEqual([{ emoji: "👍", count: 2, mine: false }]);
  const target = news;
  timeline.queued({ clientMsgId: "r1", target, react: { seq: 1, emoji: "👍" } }, "2026-11-20T10:00:09.000Z");
  expect(drawn(timeline)[0]).toMatchObject({ changing: true });
  const own = { sender_id: "alice", kind: "reaction", body: "", target_seq: 1 };
  timeline.message(entry(1, { ...own, emoji: "👍", client_msg_id: "r1" }));
  expect(drawn(timeline)[0]).toMatchObject({ changing: false });
  expect(shown()).toEqual([{ emoji: "👍", count: 3, mine: true }]);
  timeline.message(entry(1, { ...own, client_msg_id: "r2" }));
  expect(shown()).toEqual([{ emoji: "👍", count: 2, mine: false }]);
  page([{ emoji: "🎉", count: 5, mine: false }]);
  expect(shown()).toEqual([{ emoji: "🎉", count: 5, mine: false }]);
  page();
  expect(shown()).toEqual([]);
});
