// The rules, the role and the settings of a row of the chat list, whichever of its entries and rows comes first.

import { expect, it } from "vitest";
import { Conversations, noRows } from "../src/chat/conversations.ts";
import { Names } from "../src/chat/names.ts";
import { Roster } from "../src/chat/roster.ts";
import { PigeonholeError } from "../src/errors.ts";
import type { Conversation, Message, System } from "../src/frames.ts";

const id = "gr_ab";

function entry(seq: number, sender_id: string, system: System): Message {
  return {
    conversation_id: id,
    seq,
    sender_id,
    system,
    message_id: `m${seq}`,
    kind: "system",
    body: "",
    sent_at: "2026-01-01T00:00:00Z",
  } as Message;
}

function row(fields: Partial<Conversation>): Conversation {
  const marks = { read_seq: 0, delivered_seq: 0, unread: 0, last_seq: 2 };
  return { conversation_id: id, kind: "group", title: "Trip", role: "member", ...marks, ...fields } as Conversation;
}

function shown(list: Conversations) {
  const [first] = list.snapshot(noRows, {}, 0, 0).rows;
  return first && { role: first.role, rules: first.rules, members: first.memberCount };
}

function take(list: Conversations, ...inputs: (Message | Conversation)[]): Conversations {
  for (const input of inputs) {
    if ("message_id" in input) {
      list.event({ type: "message", message: input, missed: false }, 0);
    } else {
      list.row(input);
    }
  }
  return list;
}

it("a rule is that of the newest entry or row", () => {
  const allowed = { history: "joined", post: "all", add: "all" } as const;
  const old = row({ ...allowed, member_count: 3 });
  const changed = entry(3, "bob", { event: "info.changed", post: "admins" });
  const left = entry(4, "bob", { event: "member.left" });
  const now = { role: "member", rules: { ...allowed, post: "admins" }, members: 2 };
  expect(shown(take(new Conversations("alice"), old, changed, left))).toEqual(now);
  // The same row again changes nothing.
  expect(shown(take(new Conversations("alice"), old, changed, left, old))).toEqual(now);
  const newer = row({ ...allowed, last_seq: 5, role: "admin", member_count: 2 });
  expect(shown(take(new Conversations("alice"), old, changed, left, newer))).toMatchObject({
    role: "admin",
    rules: allowed,
  });
});

it("the own role follows the entries", () => {
  const created = entry(1, "alice", { event: "created", title: "Trip", members: ["alice", "bob"] });
  const list = take(new Conversations("alice"), created);
  expect(shown(list)).toMatchObject({ role: "owner", members: 2 });
  take(list, entry(2, "alice", { event: "role.changed", user_id: "bob", role: "owner" }));
  expect(shown(list)?.role).toBe("admin");
  take(list, entry(3, "bob", { event: "members.removed", members: ["alice"] }));
  expect(shown(list)).toMatchObject({ role: "none", members: 1 });
  take(list, entry(4, "bob", { event: "members.added", members: ["alice", "carol"] }));
  expect(shown(list)).toMatchObject({ role: "member", members: 3 });
});

it("a restriction of the user ends with its time, by an entry, and with an addition by another member", () => {
  const restricted = (seq: number, until?: string) =>
    entry(seq, "bob", { event: "member.restricted", user_id: "alice", ...(until === undefined ? {} : { until }) });
  const until = (list: Conversations, at = 0) => list.snapshot(noRows, {}, 0, at).rows[0]?.restrictedUntil;
  const list = take(new Conversations("alice"), row({ restricted_until: "forever" }));
  expect(until(list)).toBe("forever");
  take(list, restricted(3, "1970-01-01T00:01:00.000Z"));
  expect([until(list, 59_999), until(list, 60_000)]).toEqual(["1970-01-01T00:01:00.000Z", undefined]);
  expect(list.changesAt(0, 0)).toBe(60_000);
  expect(until(take(list, restricted(4)))).toBeUndefined();
  take(list, restricted(5, "forever"), entry(6, "alice", { event: "members.added", members: ["alice"] }));
  expect(until(list)).toBe("forever");
  expect(until(take(list, entry(7, "bob", { event: "members.added", members: ["alice"] })))).toBeUndefined();
});

it("a new group has its rules before the server has it, and a refused one goes when it is dismissed", () => {
  const request = { action: "create", client_msg_id: "n", kind: "channel", title: "News", members: [] } as const;
  const queued = { clientMsgId: "n", request, madeAt: "2026-01-01T00:00:00Z" } as never;
  const list = new Conversations("alice");
  list.queued(queued);
  const rules = { history: "joined", post: "admins", add: "admins", join: "admins" };
  expect(shown(list)).toMatchObject({ role: "owner", rules });
  list.dismiss("n");
  expect(shown(list)).toBeDefined();
  list.failed("n", new PigeonholeError("forbidden", "").code);
  list.dismiss("n");
  expect(shown(list)).toBeUndefined();
});

it("a setting of another device is shown", () => {
  const list = take(new Conversations("alice"), row({ muted_until: "forever" }));
  list.event({ type: "settings", settings: { conversation_id: id, set: { mute_mentions: true } } }, 0);
  expect(list.snapshot(noRows, {}, 0, 0).rows[0]).toMatchObject({ mutedUntil: "forever", mutesMentions: true });
});

it("a channel that the server no longer lists leaves the list, until it is listed again", () => {
  const channel = { ...row({}), conversation_id: "ch_ab", kind: "channel" } as never;
  const list = new Conversations("alice");
  list.channel(channel);
  list.gone("ch_ab");
  expect(shown(list)).toBeUndefined();
  expect(list.rowOf("ch_ab", undefined, 0, 0)?.isClosed).toBe(true);
  list.channel(channel);
  expect([shown(list) !== undefined, list.rowOf("ch_ab", undefined, 0, 0)?.isClosed]).toEqual([true, false]);
});

it("the roles and the members of a view follow the entries", () => {
  const roster = new Roster(id);
  const take = (message: Message) => roster.event({ type: "message", message, missed: false });
  roster.ask();
  take(entry(5, "alice", { event: "members.added", members: ["dave"] }));
  const member = (user_id: string, role: "owner" | "member", joined_seq: number) => ({ user_id, role, joined_seq });
  const members = [member("alice", "owner", 1), member("bob", "member", 1), member("carol", "member", 4)];
  // An entry that came during the request is in what the store gets.
  const stored = roster.page({ members, next_cursor: null });
  expect(stored?.map(({ user_id }) => user_id)).toEqual(["alice", "bob", "carol", "dave"]);
  take(entry(6, "alice", { event: "role.changed", user_id: "bob", role: "owner" }));
  // An entry of an earlier membership.
  take(entry(3, "alice", { event: "members.removed", members: ["carol"] }));
  take(entry(7, "dave", { event: "member.left" }));
  expect(roster.changed(new Names(), 0)?.members.map(({ userId, role }) => [userId, role])).toEqual([
    ["bob", "owner"],
    ["alice", "admin"],
    ["carol", "member"],
  ]);
});
