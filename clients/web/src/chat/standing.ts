// The rules, the role and the members of a group or a channel, by rows and entries that come in any order.

import type { Channel, Conversation, Message, MutedUntil } from "../frames.ts";
import { joiners, leavers, type NewGroup, rolesOf } from "../protocol.ts";
import type { Rules } from "./row.ts";

/** The fields that a row or an entry of a group can set. */
interface Known extends Rules {
  role?: Conversation["role"];
  count?: number;
  /** The end of a restriction of the user. `null`: none. */
  restrictedUntil?: MutedUntil | null;
}

export class Standing {
  /** Each field, by the newest row or entry that sets it. */
  #known: { [Name in keyof Known]?: { asOf: number; value: Known[Name] } } = {};

  /** Takes the rules of a group that the user creates. */
  begins({ kind, history = "joined", post, add, join, rings }: NewGroup): void {
    const others = kind === "channel" ? "admins" : "all";
    const ofChannel = kind === "channel" ? { join: join ?? "admins", rings: rings ?? "off" } : {};
    this.#set(0, { role: "owner", history, post: post ?? others, add: add ?? others, ...ofChannel });
  }

  row(row: Conversation | Channel): void {
    const { role, history, post, add } = row;
    const ofChannel = row.kind === "channel" && "join" in row ? { join: row.join, rings: row.rings ?? "off" } : {};
    const count = "member_count" in row ? row.member_count : undefined;
    const restrictedUntil = row.restricted_until ?? null;
    this.#set(row.last_seq, { role, history, post, add, ...ofChannel, count, restrictedUntil });
  }

  entry({ seq, sender_id, system }: Message, me: string): void {
    if (!system) {
      return;
    }
    const [joined, left] = [joiners({ system }), leavers({ system, sender_id })];
    const count = system.event === "created" ? 0 : this.memberCount;
    const isCounted = this.#known.count?.asOf === seq;
    this.#set(seq, {
      count: count === undefined || isCounted ? undefined : Math.max(count + joined.length - left.length, 0),
      role: rolesOf({ system, sender_id }).find(([userId]) => userId === me)?.[1],
    });
    if (system.event === "member.restricted" && system.user_id === me) {
      this.#set(seq, { restrictedUntil: system.until ?? null });
    }
    // A user who comes back by themselves stays restricted.
    if (sender_id !== me && joined.includes(me)) {
      this.#set(seq, { restrictedUntil: null });
    }
    if (system.event === "info.changed") {
      const { history, post, add, join, rings } = system;
      this.#set(seq, { history, post, add, join, rings });
    }
  }

  /** Sets the fields that no later entry or row has set. */
  #set(asOf: number, news: { [Name in keyof Known]: Known[Name] | undefined }): void {
    const known: Record<string, { asOf: number; value: unknown }> = this.#known;
    for (const [name, value] of Object.entries(news)) {
      if (value !== undefined && asOf >= (known[name]?.asOf ?? 0)) {
        known[name] = { asOf, value };
      }
    }
  }

  get rules(): Rules {
    const { role: _, count: __, restrictedUntil: ___, ...rules } = this.#known;
    return Object.fromEntries(Object.entries(rules).map(([name, { value }]) => [name, value]));
  }

  get role(): Conversation["role"] {
    return this.#known.role?.value;
  }

  get restrictedUntil(): MutedUntil | undefined {
    return this.#known.restrictedUntil?.value ?? undefined;
  }

  get memberCount(): number | undefined {
    return this.#known.count?.value;
  }
}
