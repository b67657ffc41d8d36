// Channels: what is refused before it is sent, and what the view of one shows.

import { expect, it } from "vitest";
import type { Channel, Message, Queued, System } from "../src/index.ts";
import { checkQueued } from "../src/protocol.ts";
import { Timeline } from "../src/timeline.ts";
import { fits } from "./script.ts";

const news = { conversation_id: "ch_n" };

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
  timeline.reacted("r1");
  expect(drawn(timeline)[0]).toMatchObject({ changing: false });
  expect(shown()).toEqual([{ emoji: "👍", count: 3, mine: true }]);
  timeline.queued({ clientMsgId: "r2", target, react: { seq: 1, emoji: null } }, "2026-11-20T10:00:10.000Z");
  timeline.reacted("r2");
  expect(shown()).toEqual([{ emoji: "👍", count: 2, mine: false }]);
  page([{ emoji: "🎉", count: 5, mine: false }]);
  expect(shown()).toEqual([{ emoji: "🎉", count: 5, mine: false }]);
  page();
  expect(shown()).toEqual([]);
});
