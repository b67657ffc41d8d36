// The members of a group or a channel, as an interface shows them.

import type { ClientEvent } from "../events.ts";
import type { GroupMember, MembersResult, Message } from "../frames.ts";
import { joiners, leavers } from "../protocol.ts";
import type { KnownMember } from "../store/types.ts";
import { kept } from "./same.ts";

/** A member of a group or a channel. */
export interface MemberRow {
  /** The id of the user. */
  key: string;
  userId: string;
  role: GroupMember["role"];
  /** The entry with which the member joined. */
  joinedSeq: number;
  /** A device of the member has received every entry up to this one. */
  deliveredSeq: number;
  /** The member has read every entry up to this one. */
  readSeq: number;
}

/** The content of the view of a conversation's members. */
export interface RosterSnapshot {
  readonly conversationId: string;
  /**
   * The owner, the admins and then the others, each in the order of their ids. A row that did not change is the same
   * object as in the snapshot before.
   */
  readonly members: readonly MemberRow[];
}

const RANKS: GroupMember["role"][] = ["owner", "admin", "member", "none"];

/** The members, by the store, the pages of the server and the entries that came since. */
export class Roster {
  readonly conversationId: string;
  #members = new Map<string, MemberRow>();
  /** The pages so far. */
  #pages: GroupMember[] = [];
  /** Entries that came during the request. The pages can be older. */
  #since: Message[] = [];
  #isAsking = false;
  /** The store or the server has been read once. */
  #isLoaded = false;
  #shown: RosterSnapshot | undefined;

  constructor(conversationId: string) {
    this.conversationId = conversationId;
  }

  /** Begins to ask the server. Returns `false` if the answer is under way. */
  ask(): boolean {
    const isNew = !this.#isAsking;
    this.#isAsking = true;
    this.#pages = isNew ? [] : this.#pages;
    return isNew;
  }

  /** The server has not answered. */
  lost(): void {
    this.#isAsking = false;
    this.#since = [];
  }

  /** Takes the members of the store. An answer of the server is newer. */
  loaded(known: readonly KnownMember[]): void {
    this.#isLoaded = true;
    for (const { user_id, joined, delivered_seq, read_seq } of known) {
      if (joined && !this.#members.has(user_id)) {
        this.#join(user_id, joined.role, joined.joined_seq, { deliveredSeq: delivered_seq, readSeq: read_seq });
      }
    }
  }

  /** Takes a page of the server. Returns all members with the last one, for the store. */
  page({ members, next_cursor }: MembersResult): GroupMember[] | undefined {
    this.#pages.push(...members);
    if (next_cursor !== null) {
      return undefined;
    }
    const [all, before] = [this.#pages, this.#members];
    this.#pages = [];
    this.#members = new Map();
    for (const { user_id, role, joined_seq } of all) {
      this.#join(user_id, role, joined_seq, before.get(user_id));
    }
    this.#isAsking = false;
    this.#isLoaded = true;
    for (const entry of this.#since.splice(0)) {
      this.#entry(entry);
    }
    return all;
  }

  /** Takes any event of the client. */
  event(event: ClientEvent): void {
    if (event.type === "message" && event.message.conversation_id === this.conversationId) {
      if (this.#isAsking && event.message.system) {
        this.#since.push(event.message);
      }
      this.#entry(event.message);
    } else if (event.type === "receipt" && event.conversation_id === this.conversationId) {
      const { user_id, seq, kind } = event;
      this.#set(user_id, ({ deliveredSeq, readSeq }) => ({
        deliveredSeq: Math.max(deliveredSeq, seq),
        readSeq: kind === "read" ? Math.max(readSeq, seq) : readSeq,
      }));
    }
  }

  #entry(entry: Message): void {
    const { system, sender_id, seq } = entry;
    for (const user of joiners(entry)) {
      this.#join(user, system?.event === "created" && user === sender_id ? "owner" : "member", seq);
    }
    for (const user of leavers(entry)) {
      // An older entry than the join is of an earlier membership.
      if ((this.#members.get(user)?.joinedSeq ?? seq) < seq) {
        this.#members.delete(user);
      }
    }
    if (system?.event === "role.changed") {
      const { role } = system;
      this.#set(system.user_id, () => ({ role }));
    }
  }

  #set(userId: string, change: (row: MemberRow) => Partial<MemberRow>): void {
    const row = this.#members.get(userId);
    if (row) {
      this.#members.set(userId, { ...row, ...change(row) });
    }
  }

  #join(
    userId: string,
    role: GroupMember["role"],
    joinedSeq: number,
    marks?: Pick<MemberRow, "deliveredSeq" | "readSeq">,
  ): void {
    if ((this.#members.get(userId)?.joinedSeq ?? -1) < joinedSeq) {
      const { deliveredSeq = 0, readSeq = 0 } = marks ?? {};
      this.#members.set(userId, { key: userId, userId, role, joinedSeq, deliveredSeq, readSeq });
    }
  }

  /** Returns what an interface draws now, if it has changed. */
  changed(): RosterSnapshot | undefined {
    const before = this.#shown?.members ?? [];
    const rows = [...this.#members.values()].sort(
      (one, other) => RANKS.indexOf(one.role) - RANKS.indexOf(other.role) || (one.userId < other.userId ? -1 : 1),
    );
    const members = kept(before, rows);
    if (!this.#isLoaded || (this.#shown && members === before)) {
      return undefined;
    }
    this.#shown = { conversationId: this.conversationId, members };
    return this.#shown;
  }
}
