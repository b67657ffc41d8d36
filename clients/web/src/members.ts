// The members of a conversation, and their marks.

import type { GroupMember, Message } from "./frames.ts";
import { isService, joiners, leavers, rolesOf } from "./protocol.ts";
import type { KnownMember } from "./store/types.ts";

/** How far a member has come. */
export interface Marks {
  delivered: number;
  read: number;
}

/** The members who have a message, each list in the order of their ids. */
export interface Readers {
  read: string[];
  /** Only received. */
  delivered: string[];
}

interface Member extends Marks {
  isThere: boolean;
  /** The last entry before the join: a tick needs no mark of this member up to there. */
  beforeJoin: number;
}

/** The members, by the visible entries and the known marks. */
export class Members {
  #members: Map<string, Member>;

  /** By these entries, in their order. */
  constructor(marks: ReadonlyMap<string, Marks>, entries: readonly Message[]) {
    const known = (marks: Marks = { delivered: 0, read: 0 }) => ({ ...marks, isThere: true, beforeJoin: 0 });
    this.#members = new Map([...marks].map(([userId, marks]) => [userId, known(marks)]));
    for (const entry of entries) {
      for (const user of joiners(entry)) {
        this.#members.set(user, { ...known(marks.get(user)), beforeJoin: entry.seq - 1 });
      }
      for (const user of leavers(entry)) {
        this.#members.set(user, { ...known(marks.get(user)), isThere: false });
      }
    }
  }

  /** Returns how far all other members have come; `undefined`: there are none. */
  allOthers(own: string): Marks | undefined {
    const marks = this.#others(own).map(([, { delivered, read, beforeJoin }]) => ({
      delivered: Math.max(delivered, beforeJoin),
      read: Math.max(read, beforeJoin),
    }));
    if (marks.length === 0) {
      return undefined;
    }
    return {
      delivered: Math.min(...marks.map(({ delivered }) => delivered)),
      read: Math.min(...marks.map(({ read }) => read)),
    };
  }

  /** Returns the other members who have this entry, without its author. */
  readers(own: string, seq: number, writer: string | undefined): Readers {
    const readers: Readers = { read: [], delivered: [] };
    for (const [userId, { delivered, read, beforeJoin }] of this.#others(own)) {
      if (userId !== writer && beforeJoin < seq && delivered >= seq) {
        readers[read >= seq ? "read" : "delivered"].push(userId);
      }
    }
    return { read: readers.read.sort(), delivered: readers.delivered.sort() };
  }

  /** Returns the other members without services: a service reads nothing, so no tick waits for its mark. */
  #others(own: string): [string, Member][] {
    return [...this.#members].filter(([userId, { isThere }]) => userId !== own && !isService(userId) && isThere);
  }
}

/** Returns the members that a list of the server has. Their known marks stay. */
export function listedMembers(known: readonly KnownMember[], came: readonly GroupMember[]): KnownMember[] {
  const before = new Map(known.map((member) => [member.user_id, member]));
  return came.map(({ user_id, role, joined_seq }) => {
    const { delivered_seq = 0, read_seq = 0 } = before.get(user_id) ?? {};
    return { user_id, joined: { role, joined_seq }, delivered_seq, read_seq };
  });
}

/** Returns the members after an entry. An entry from before a join is of an earlier membership. */
export function changedMembers(known: readonly KnownMember[], entry: Message): KnownMember[] {
  const members = new Map(known.map((member) => [member.user_id, member]));
  for (const [user_id, role] of rolesOf(entry)) {
    const { joined, ...member } = members.get(user_id) ?? {};
    const isJoin = joiners(entry).includes(user_id);
    if ((joined?.joined_seq ?? 0) >= entry.seq) {
      continue;
    }
    if (isJoin) {
      members.set(user_id, { user_id, joined: { role, joined_seq: entry.seq }, delivered_seq: 0, read_seq: 0 });
    } else if (role === "none") {
      members.delete(user_id);
    } else if (joined) {
      members.set(user_id, { ...(member as KnownMember), joined: { ...joined, role } });
    }
  }
  return [...members.values()];
}
