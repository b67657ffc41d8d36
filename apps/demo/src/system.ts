// Events of a group or a channel, in words.

import type { System } from "@pigeonhole/client";
import { called } from "./names.ts";
import { moment } from "./view/time.ts";

/** `by`: who did it; `me`: who reads it; `what`: to which of the two. */
export function sentence(system: System, by: string, me: string, what: "group" | "channel" = "group"): string {
  const you = (user: string) => (user === me ? "you" : called(user));
  const who = by === me ? "You" : called(by);
  switch (system.event) {
    case "created":
      return `${who} created the ${what} “${isolated(system.title)}” ${withOthers(system.members, by, you)}`.trim();
    case "members.added":
      return system.members.includes(by) ? `${who} came back` : `${who} added ${list(system.members.map(you))}`;
    case "members.removed":
      return `${who} removed ${list(system.members.map(you))}`;
    case "member.left":
      return `${who} left`;
    case "role.changed":
      return system.role === "owner"
        ? `${who} transferred the ${what} to ${you(system.user_id)}`
        : `${who} made ${you(system.user_id)} ${roles[system.role]}`;
    case "member.restricted":
      return system.until === undefined
        ? `${who} let ${you(system.user_id)} write again`
        : `${who} restricted ${you(system.user_id)} to reading${system.until === "forever" ? "" : ` until ${moment(system.until)}`}`;
    case "info.changed":
      return `${who} ${list(changes(system, what))}`;
  }
}

function withOthers(members: readonly string[], by: string, you: (user: string) => string): string {
  const others = members.filter((user) => user !== by);
  return others.length > 0 ? `with ${list(others.map(you))}` : "";
}

const roles = { owner: "the owner", admin: "an admin", member: "a member", none: "no member" };

function changes(
  { title, post, add, history, join, rings }: Extract<System, { event: "info.changed" }>,
  what: "group" | "channel",
): string[] {
  const is = (value: string | undefined, words: Record<string, string>) => (value && words[value]) || "";
  return [
    title === undefined ? "" : `called the ${what} “${isolated(title)}”`,
    is(post, { all: "let all members write", admins: "let only admins write" }),
    is(add, { all: "let all members add others", admins: "let only admins add others" }),
    is(join, { open: "let anyone join", admins: "let only users join whom admins add" }),
    is(rings, { mentions: "let mentions notify members", off: "let mentions notify no one" }),
    is(history, { all: "let new members see earlier messages", joined: "let new members see only new messages" }),
  ].filter(Boolean);
}

/** "a", "a and b", "a, b and c". */
export function list(all: readonly string[]): string {
  const [last = "", before] = [all.at(-1), all.slice(0, -1).join(", ")];
  return before ? `${before} and ${last}` : last;
}

/** A text of another user's within a sentence, whose direction must not reach beyond it. Letters of Europe run as the sentence does. */
export function isolated(text: string): string {
  return /^[\0-\u02ff]*$/.test(text) ? text : `\u2068${text}\u2069`;
}
