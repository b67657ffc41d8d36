import { type ChatRow, emptyRow } from "@pigeonhole/client";
import { expect, it } from "vitest";
import { reason, whyNotMade } from "../src/refusals.ts";
import { growingIn, lineOf, nameOf, typingIn, whyNot, writersIn } from "../src/rows.ts";

const bob = emptyRow({ to: "bob" });
const group: ChatRow = { ...emptyRow({ conversation_id: "gr_ab" }), title: "Trip", role: "member" };
const channel: ChatRow = { ...emptyRow({ conversation_id: "ch_ab" }), role: "member" };
const line = {
  seq: 1,
  senderId: "bob",
  at: "2026-01-01T00:00:00Z",
  kind: "text",
  text: "hi",
  isDeleted: false,
  event: undefined,
  progress: undefined,
};

it("a row without a title has its kind’s, and the line is the last message with its author", () => {
  expect([bob, group, channel].map(nameOf)).toEqual(["bob", "Trip", "Channel"]);
  expect(lineOf({ ...group, line }, "alice", false)).toBe("bob: hi");
  expect(lineOf({ ...group, line: { ...line, senderId: "alice" } }, "alice", false)).toBe("You: hi");
  expect(lineOf({ ...bob, line }, "alice", false)).toBe("hi");
  expect(lineOf({ ...bob, line: { ...line, text: "", isDeleted: true } }, "alice", false)).toBe(
    "This message was deleted",
  );
  const failed = { state: "failed", code: "forbidden", canHelp: true } as const;
  expect(lineOf({ ...group, line: { ...line, progress: failed } }, "bob", false)).toBe("Not sent: hi");
  const event = { event: "member.left" } as const;
  expect(lineOf({ ...group, line: { ...line, event } }, "alice", false)).toBe("bob left");
  const begun = { ...group, line, draft: { body: "so" } };
  expect([lineOf(begun, "alice", false), lineOf(begun, "alice", true)]).toEqual(["Draft: so", "bob: hi"]);
});

it("says why nothing can be written", () => {
  expect([group, bob, emptyRow({ to: "@shop" })].map(whyNot)).toEqual(["", "", "Only @shop sends messages here."]);
  expect(whyNot({ ...bob, isBlocked: true })).toBe("You have blocked bob.");
  expect(whyNot({ ...group, isClosed: true })).toBe("You are no longer in this group.");
  expect(whyNot({ ...group, restrictedUntil: "forever" })).toBe("You can only read in this group.");
  const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
  expect(whyNot({ ...channel, restrictedUntil: tomorrow })).toMatch(
    /^You can only read in this channel until .+, \d\d:\d\d\.$/,
  );
  expect(whyNot({ ...group, rules: { post: "admins" } })).toBe("Only admins write in this group.");
  expect(whyNot({ ...group, rules: { post: "admins" }, role: "admin" })).toBe("");
  // A channel's rule, as long as nothing else is known.
  expect(whyNot(channel)).toBe("Only admins post in this channel.");
  expect(whyNot({ ...channel, rules: { post: "all" } })).toBe("");
  const made = { ...group, key: "n1", conversationId: undefined };
  expect([whyNot(made), whyNot({ ...made, failed: "forbidden" })]).toEqual([
    "The group is not created yet.",
    "The group was not created.",
  ]);
});

it("names who is typing", () => {
  expect(typingIn({ ...bob, typing: ["bob"] })).toBe("typing …");
  expect(typingIn({ ...group, typing: ["bob"] })).toBe("bob is typing …");
  expect(typingIn({ ...group, typing: ["bob", "carol"] })).toBe("bob and carol are typing …");
  expect(typingIn({ ...group, typing: ["bob", "carol", "dave"] })).toBe("several people are typing …");
});

it("a refusal is in the user’s words, and names a limit", () => {
  const large = (message: string) => reason("too_large", false, true, "group", message);
  expect(large("media.bytes: at most 25 MiB")).toBe("the file is too large: up to 25 MB");
  expect(large("body: at most 16 KiB")).toBe("it is too long: up to 16,000 letters, or 5,000 emoji");
  // After a reload only the code is known.
  expect(large("")).toBe("it is too large");
  expect(reason("forbidden", false, true, "group")).toBe("it can’t be delivered");
  expect(reason("not_member", false, false, "channel")).toBe("you are no longer in this channel");
  const error = { code: "forbidden", message: "" } as never;
  expect(whyNotMade(error, { title: "T", members: ["bob"] })).toBe("bob can’t be added");
  expect(whyNotMade(error, { title: "T", members: ["bob", "carol"] })).toBe("one of bob and carol can’t be added");
});

it("has the texts that services are writing, and one line for all their growth", () => {
  const row = { ...group, texts: { "@shop": "Your par", "@bank": "No", "@idle": "" } };
  expect(growingIn(row)).toEqual([
    { senderId: "@bank", text: "No" },
    { senderId: "@shop", text: "Your par" },
  ]);
  expect([writersIn(row), writersIn({ ...row, texts: { "@bank": "Now", "@shop": "Your parcel" } })]).toEqual([
    "@bank and @shop are writing",
    "@bank and @shop are writing",
  ]);
  expect([writersIn({ ...row, texts: { "@shop": "Y" } }), writersIn(group)]).toEqual(["@shop is writing", ""]);
});
