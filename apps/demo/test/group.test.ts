import type { System } from "@pigeonhole/client";
import { expect, it } from "vitest";
import { mentionsIn, pieces } from "../src/mentions.ts";
import { list, sentence } from "../src/system.ts";
import { userIds } from "../src/view/user-ids.ts";

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
  const restricted = { event: "member.restricted", user_id: "alice" } as const;
  expect(sentence(restricted, "bob", "alice")).toBe("bob let you write again");
  expect(sentence({ ...restricted, until: "forever" }, "bob", "bob")).toBe("You restricted alice to reading");
  expect(sentence({ event: "info.changed", title: "Sea", post: "admins", history: "all" }, "bob", "alice")).toBe(
    "bob called the group “Sea”, let only admins write and let new members see earlier messages",
  );
  expect([list([]), list(["a"]), list(["a", "b", "c"])]).toEqual(["", "a", "a, b and c"]);
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
