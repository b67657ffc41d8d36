// The rights that a row of the chat list shows.

import { expect, it } from "vitest";
import { mayReact, mayRemove, mayWrite } from "../src/chat/rights.ts";
import { emptyRow } from "../src/chat/row.ts";

const [bob, shop] = [emptyRow({ to: "bob" }), emptyRow({ to: "@shop" })];
const [group, channel] = [emptyRow({ conversation_id: "gr_ab" }), emptyRow({ conversation_id: "ch_ab" })];

it("a conversation without a row has its kind and a key of its own", () => {
  expect([bob, group, channel].map(({ kind }) => kind)).toEqual(["direct", "group", "channel"]);
  expect(new Set([bob, shop, group, channel].map(({ key }) => key)).size).toBe(4);
});

it("all write in a group and in a direct conversation, and admins in a channel, until a rule is known", () => {
  expect([bob, group, channel, { ...channel, role: "admin" as const }].map(mayWrite)).toEqual([
    true,
    true,
    false,
    true,
  ]);
  expect(mayWrite({ ...group, role: "member", rules: { post: "admins" } })).toBe(false);
  expect(mayWrite({ ...group, role: "owner", rules: { post: "admins" } })).toBe(true);
  expect(mayWrite({ ...channel, role: "member", rules: { post: "all" } })).toBe(true);
});

it("a user without the right to write may react, but not to a service, after a block or as no member", () => {
  expect([bob, channel, shop].map(mayReact)).toEqual([true, true, false]);
  expect(mayReact({ ...bob, isBlocked: true })).toBe(false);
  expect(mayReact({ ...group, isClosed: true, role: "admin" })).toBe(false);
  expect(mayWrite({ ...group, isClosed: true, role: "admin" })).toBe(false);
});

it("an admin removes members, and the owner also admins", () => {
  expect([mayRemove("owner", "admin"), mayRemove("admin", "member")]).toEqual([true, true]);
  expect([mayRemove("admin", "admin"), mayRemove("admin", "owner"), mayRemove("member", "member")]).toEqual([
    false,
    false,
    false,
  ]);
});
