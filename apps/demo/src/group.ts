// A group or a channel, as its entries and its rows of the list describe it. No DOM, no network.

import type { Channel, Conversation, GroupInfo, Message } from "@pigeonhole/client/events";

export type OwnRole = NonNullable<Conversation["role"]>;

export interface Group {
  title: string;
  role: OwnRole;
  memberCount: number | undefined;
  /** From the last row or entry that sets one. */
  post?: GroupInfo["post"];
  add?: GroupInfo["add"];
  history?: GroupInfo["history"];
  /** Channels only. */
  join?: GroupInfo["join"];
  /** The last entry or row that set each field, by its `seq`. */
  asOf: Readonly<Record<string, number>>;
}

export const UNKNOWN: Group = { title: "", role: "member", memberCount: undefined, asOf: {} };

export function moderates(role: OwnRole): boolean {
  return role === "owner" || role === "admin";
}

/** Reports whether a member with the role `own` may remove one with the role `other`. */
export function mayRemove(own: OwnRole, other: OwnRole): boolean {
  return own === "owner" || (own === "admin" && !moderates(other));
}

export function learnedOfRow(group: Group, row: Conversation | Channel): Group {
  const { title, role, last_seq, history, post, add } = row;
  const memberCount = "member_count" in row ? row.member_count : undefined;
  const join = "join" in row ? row.join : undefined;
  return withNews(group, last_seq, { title, role, memberCount, history, post, add, join });
}

export function learned(group: Group, { seq, sender_id, system }: Message, me: string): Group {
  switch (system?.event) {
    case "created":
      return withNews(group, seq, {
        title: system.title,
        role: sender_id === me ? "owner" : "member",
        memberCount: system.members.length,
      });
    case "members.added":
      return withNews(group, seq, {
        role: system.members.includes(me) ? "member" : undefined,
        memberCount: changed(group, system.members.length),
      });
    case "members.removed":
      return withNews(group, seq, {
        role: system.members.includes(me) ? "none" : undefined,
        memberCount: changed(group, -system.members.length),
      });
    case "member.left":
      return withNews(group, seq, {
        role: sender_id === me ? "none" : undefined,
        memberCount: changed(group, -1),
      });
    case "role.changed": {
      const handedOver = system.role === "owner" && sender_id === me ? "admin" : undefined;
      return withNews(group, seq, { role: system.user_id === me ? system.role : handedOver });
    }
    case "info.changed": {
      const { title, post, add, history, join } = system;
      return withNews(group, seq, { title, post, add, history, join });
    }
    default:
      return group;
  }
}

function changed({ memberCount }: Group, by: number): number | undefined {
  return memberCount === undefined ? undefined : memberCount + by;
}

/** Sets the fields that no later entry has set already. */
function withNews(group: Group, seq: number, news: Record<string, unknown>): Group {
  const isNews = ([name, value]: [string, unknown]) => value !== undefined && seq > (group.asOf[name] ?? 0);
  const fresh = Object.entries(news).filter(isNews);
  if (fresh.length === 0) {
    return group;
  }
  const asOf = { ...group.asOf, ...Object.fromEntries(fresh.map(([name]) => [name, seq])) };
  return { ...group, ...Object.fromEntries(fresh), asOf };
}
