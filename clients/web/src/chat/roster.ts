// The members of a group or a channel, as an interface shows them.

import type { ClientEvent } from "../events.ts";
import type { GroupMember, MembersResult, Message } from "../frames.ts";
import { changedMembers, listedMembers } from "../members.ts";
import type { KnownMember } from "../store/types.ts";
import type { Names, NamesOf } from "./names.ts";
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
  /** The known names of the members, once the app shows names. */
  readonly names: NamesOf | undefined;
}

const RANKS: GroupMember["role"][] = ["owner", "admin", "member", "none"];

/** The members, by the store, the pages of the server and the entries that came since. */
export class Roster {
  readonly conversationId: string;
  #members: KnownMember[] = [];
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
    const isNew = ({ user_id }: KnownMember) => this.#members.every((member) => member.user_id !== user_id);
    this.#members.push(...known.filter((member) => member.joined && isNew(member)));
  }

  /** Takes a page of the server. Returns all members with the last one, for the store. */
  page({ members, next_cursor }: MembersResult): GroupMember[] | undefined {
    this.#pages.push(...members);
    if (next_cursor !== null) {
      return undefined;
    }
    this.#members = listedMembers(this.#members, this.#pages.splice(0));
    this.#isAsking = false;
    this.#isLoaded = true;
    for (const entry of this.#since.splice(0)) {
      this.#members = changedMembers(this.#members, entry);
    }
    return this.#members.flatMap(({ user_id, joined }) => (joined ? { user_id, ...joined } : []));
  }

  /** Takes any event of the client. */
  event(event: ClientEvent): void {
    if (event.type === "message" && event.message.conversation_id === this.conversationId) {
      if (this.#isAsking && event.message.system) {
        this.#since.push(event.message);
      }
      this.#members = changedMembers(this.#members, event.message);
    } else if (event.type === "receipt" && event.conversation_id === this.conversationId) {
      const { user_id, seq, kind } = event;
      this.#members = this.#members.map((member) => {
        const { delivered_seq, read_seq } = member;
        const marks = {
          delivered_seq: Math.max(delivered_seq, seq),
          read_seq: kind === "read" ? Math.max(read_seq, seq) : read_seq,
        };
        return member.user_id === user_id ? { ...member, ...marks } : member;
      });
    }
  }

  /** Returns what an interface draws now, if it has changed. */
  changed(known: Names, now: number): RosterSnapshot | undefined {
    const before = this.#shown?.members ?? [];
    const rows = this.#members
      .flatMap(rowOf)
      .sort(
        (one, other) => RANKS.indexOf(one.role) - RANKS.indexOf(other.role) || (one.userId < other.userId ? -1 : 1),
      );
    const members = kept(before, rows);
    if (!this.#isLoaded) {
      return undefined;
    }
    const users = members.map(({ userId }) => userId);
    const names = known.of(users, now, this.#shown?.names);
    if (this.#shown && members === before && names === this.#shown.names) {
      return undefined;
    }
    this.#shown = { conversationId: this.conversationId, members, names };
    return this.#shown;
  }
}

function rowOf({ user_id: userId, joined, delivered_seq: deliveredSeq, read_seq: readSeq }: KnownMember): MemberRow[] {
  return joined
    ? [{ key: userId, userId, role: joined.role, joinedSeq: joined.joined_seq, deliveredSeq, readSeq }]
    : [];
}
