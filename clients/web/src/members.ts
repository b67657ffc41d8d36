// The members of a conversation, and their marks.

import type { Message } from "./frames.ts";
import { isService, joiners, leavers } from "./protocol.ts";

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
