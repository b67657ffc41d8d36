import type { Conversation, Message, System } from "@pigeonhole/client/events";
import { expect, it } from "vitest";
import { Chat } from "../src/chat.ts";
import { learned, learnedOfRow, mayRemove, UNKNOWN } from "../src/group.ts";
import { mentionsIn, pieces } from "../src/mentions.ts";
import { list, sentence } from "../src/system.ts";
import { userIds } from "../src/view/user-ids.ts";

function entry(seq: number, sender_id: string, system: System): Message {
  const place = { conversation_id: "gr_ab", seq, message_id: "x", sent_at: `2026-11-20T10:00:0${seq}.000Z` };
  return { ...place, sender_id, kind: "system", body: "", system };
}

it("a group is what its entries and rows say, whichever comes first", () => {
  const created = entry(1, "alice", { event: "created", title: "Trip", members: ["alice", "bob"] });
  const renamed = entry(3, "bob", { event: "info.changed", title: "Sea", post: "admins" });
  const handedOver = entry(4, "alice", { event: "role.changed", user_id: "bob", role: "owner" });
  for (const order of [
    [created, renamed, handedOver],
    [handedOver, renamed, created],
  ]) {
    const group = order.reduce((group, message) => learned(group, message, "alice"), UNKNOWN);
    expect(group).toMatchObject({ title: "Sea", role: "admin", post: "admins" });
    const row = { title: "Trip", role: "owner", member_count: 2, last_seq: 2 } as Conversation;
    expect(learnedOfRow(group, row)).toMatchObject({ title: "Sea", role: "admin" });
    expect(learnedOfRow(group, { ...row, role: "none", last_seq: 5 })).toMatchObject({ title: "Trip", role: "none" });
  }
  expect(learned(UNKNOWN, entry(2, "bob", { event: "member.left" }), "alice")).toMatchObject({ role: "member" });
  expect([mayRemove("owner", "admin"), mayRemove("admin", "admin"), mayRemove("member", "member")]).toEqual([
    true,
    false,
    false,
  ]);
});

it("what happened is said to whoever reads it", () => {
  const created: System = { event: "created", title: "Trip", members: ["bob", "alice", "carol"] };
  expect(sentence(created, "bob", "alice")).toBe("bob created the group “Trip” with you and carol");
  expect(sentence(created, "bob", "bob")).toBe("You created the group “Trip” with alice and carol");
  const title = "שלום 3";
  expect(sentence({ event: "created", title, members: ["bob"] }, "bob", "bob")).toBe(
    "You created the group “\u2068שלום 3\u2069”",
  );
  expect(sentence({ event: "created", title: "Me", members: ["bob"] }, "bob", "bob")).toBe(
    "You created the group “Me”",
  );
  expect(sentence({ event: "member.left" }, "bob", "alice")).toBe("bob left");
  expect(sentence({ event: "role.changed", user_id: "alice", role: "admin" }, "bob", "alice")).toBe(
    "bob made you an admin",
  );
  expect(sentence({ event: "info.changed", title: "Sea", post: "admins", history: "all" }, "bob", "alice")).toBe(
    "bob called the group “Sea”, let only admins write and let new members see earlier messages",
  );
  expect([list([]), list(["a"]), list(["a", "b", "c"])]).toEqual(["", "a", "a, b and c"]);
});

it("a channel says that it is one, and only its admins post as long as nothing else is told", () => {
  const chat = Chat.ofGroup("alice", "ch_ab", true);
  chat.addMessage({
    ...entry(1, "bob", { event: "created", title: "News", members: ["bob"] }),
    conversation_id: "ch_ab",
  });
  expect([chat.newest()?.text, chat.isReadOnly, chat.isModerated]).toEqual([
    "bob created the channel “News”",
    true,
    false,
  ]);
  const opened = entry(2, "bob", { event: "info.changed", post: "all", join: "open" });
  chat.addMessage({ ...opened, conversation_id: "ch_ab" });
  expect([chat.newest()?.text, chat.isReadOnly]).toEqual(["bob let all members write and let anyone join", false]);
  const row = { conversation_id: "ch_ab", kind: "channel", title: "News", unread: 3, first_seq: 1 } as const;
  const rules = { history: "joined", post: "admins", add: "admins", join: "open" } as const;
  chat.setChannel({ ...row, ...rules, role: "member", read_seq: 1, last_seq: 4 });
  expect([chat.isReadOnly, chat.group.add]).toEqual([true, "admins"]);
  chat.setChannel({ ...row, ...rules, role: "admin", read_seq: 1, last_seq: 5 });
  expect([chat.isModerated, chat.isReadOnly, chat.timeline.unread(), chat.isListed]).toEqual([true, false, 3, true]);
});

it("the line of a group is its last message or what happened last, and says who", () => {
  const chat = Chat.ofGroup("alice", "gr_ab");
  chat.addMessage(entry(1, "bob", { event: "created", title: "Trip", members: ["bob", "alice"] }));
  expect([chat.name, chat.newest()?.text, chat.newest()?.by]).toEqual([
    "Trip",
    "bob created the group “Trip” with you",
    undefined,
  ]);
  chat.addMessage({
    ...entry(2, "bob", { event: "member.left" }),
    kind: "text",
    body: "hi",
    system: undefined,
  } as never);
  expect(chat.newest()).toMatchObject({ text: "hi", by: "bob" });
  chat.addMessage(entry(3, "bob", { event: "members.removed", members: ["alice"] }));
  expect([chat.isClosed, chat.isReadOnly, chat.group.role]).toEqual([true, true, "none"]);
});

it("mentions are whole names of members, and all are all", () => {
  const named = [
    { id: "bob", name: "bob" },
    { id: "bo", name: "bo" },
    { id: "*", name: "all" },
  ];
  expect(mentionsIn("hi @bob, and @carol, bo", named)).toEqual(["bob"]);
  expect(mentionsIn("@bobby", named)).toEqual([]);
  expect(
    pieces("(@bob?)", new Set(["bob"]))
      .map(({ text }) => text)
      .join("|"),
  ).toBe("(|@bob|?)|");
  // A user has exactly this name.
  expect(mentionsIn("@bob?", [...named, { id: "bob?", name: "bob?" }])).toEqual(["bob?"]);
  expect(mentionsIn("@bo @bob", named)).toEqual(["bob", "bo"]);
  expect(mentionsIn("@all of you, @bob", named)).toEqual(["*"]);
});

it("users are listed as one types them", () => {
  expect(userIds(" bob, carol;dave\nbob, alice ", "alice")).toEqual({ ids: ["bob", "carol", "dave"], problem: "" });
  expect(userIds("bob, zoë", "alice").problem).toContain("“zoë”");
  expect(userIds("bob, Mr Smith", "alice").problem).toContain("“Mr Smith” is no user id");
  expect(userIds("bob, @orders", "alice").problem).toBe("@orders is a service, and those are in no group");
  expect(userIds(Array.from({ length: 51 }, (_, at) => `u${at}`).join(), "alice").problem).toBe("At most 50 at once");
});
