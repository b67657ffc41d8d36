// One chat, as far as this page knows it. No DOM, no network.

import {
  type Channel,
  type Conversation,
  type GroupMember,
  type HistoryResult,
  isService,
  type Message,
  type Presence,
  type Settings,
  Timeline,
} from "@pigeonhole/client";
import { type Group, learned, learnedOfRow, moderates, UNKNOWN } from "./group.ts";
import { said } from "./said.ts";
import { sentence } from "./system.ts";

/** In the place of what was said. */
export const DELETED = "This message was deleted";

/** What the list shows of a chat. */
export interface Newest {
  text: string;
  at: number;
  /** Who said it; nobody of what happened to a group. */
  by: string | undefined;
}

export class Chat {
  readonly me: string;
  /** Of this page: the peer, or of a group what no user is called. */
  readonly key: string;
  /** The other one; in a group nobody. */
  readonly peer: string | undefined;
  /** A group of which few post, and the others look at it when they like. */
  readonly isChannel: boolean;
  readonly timeline: Timeline;
  /** The conversation's, once there is one. */
  id: string | undefined;
  /** The server has been asked what is in it. */
  isKnown = false;
  mutedUntil: string | null = null;
  /** Until the next message. */
  isArchived = false;
  isBlocked = false;
  /** What waits without being a message: settings, and changes of the group. */
  asked = 0;
  /** Why the last one was refused. */
  refused = "";
  /** Older messages have been asked for, and have not come. */
  isLoading = false;
  /** Whether the peer is there, when that was asked last. */
  presence: Presence | undefined;
  group: Group = UNKNOWN;
  /** Of a group, in the order of their ids. Of a channel there may be more. */
  members: readonly GroupMember[] = [];
  /** Of a channel: what is posted comes. */
  isWatched = false;
  /** Of a channel: the server has listed it. */
  isListed = false;
  /** Of a channel: the user was removed. */
  isGone = false;
  #row: Conversation | Channel | undefined;

  private constructor(me: string, key: string, peer: string | undefined, isChannel = false) {
    this.me = me;
    this.key = key;
    this.peer = peer;
    this.isChannel = isChannel;
    this.timeline = new Timeline(me);
  }

  static with(me: string, peer: string): Chat {
    return new Chat(me, peer, peer);
  }

  /** `name`: of the conversation, or of what will be one. */
  static ofGroup(me: string, name: string, isChannel = false): Chat {
    // No user id has a space in it.
    return new Chat(me, `group ${name}`, undefined, isChannel);
  }

  /** Also of a channel. */
  get isGroup(): boolean {
    return this.peer === undefined;
  }

  get name(): string {
    return this.peer ?? (this.group.title || (this.isChannel ? "Channel" : "Group"));
  }

  /** Whether the user may do what admins do. */
  get isModerated(): boolean {
    return moderates(this.group.role);
  }

  /** What it is to its members. */
  get what(): "group" | "channel" {
    return this.isChannel ? "channel" : "group";
  }

  /** The user was removed from the group, or has left. */
  get isClosed(): boolean {
    return this.isGone || this.timeline.isClosed();
  }

  /** A team's own server writes there, and nobody else. */
  get isOfService(): boolean {
    return this.peer !== undefined && isService(this.peer);
  }

  /** Whether what was said stays as it is: nothing can be edited, or reacted to. */
  get isFixed(): boolean {
    return this.isBlocked || this.isClosed || this.isOfService;
  }

  /** Whether there is nothing that may be written. */
  get isReadOnly(): boolean {
    const { post = this.isChannel ? "admins" : "all" } = this.group;
    return this.isFixed || (post === "admins" && !this.isModerated);
  }

  setRow(row: Conversation): void {
    this.timeline.row(row);
    this.#setRow(row);
    this.isBlocked = row.blocked ?? false;
  }

  setChannel(row: Channel): void {
    this.timeline.channel(row);
    this.#setRow(row);
    this.isListed = true;
    this.isGone = false;
  }

  #setRow(row: Conversation | Channel): void {
    this.#row = row;
    this.group = learnedOfRow(this.group, row);
    this.mutedUntil = row.muted_until ?? null;
    this.isArchived = row.archived ?? false;
  }

  setSettings(settings: Settings): void {
    if ("user_id" in settings) {
      this.isBlocked = settings.set.blocked;
      return;
    }
    const { muted_until = this.mutedUntil, archived = this.isArchived } = settings.set;
    this.mutedUntil = muted_until;
    this.isArchived = archived;
  }

  isMuted(now = Date.now()): boolean {
    return this.mutedUntil === "forever" || (this.mutedUntil !== null && now < Date.parse(this.mutedUntil));
  }

  addMessage(message: Message): void {
    this.timeline.message(message);
    this.group = learned(this.group, message, this.me);
  }

  addPage(page: HistoryResult): void {
    this.timeline.history(page);
    for (const message of page.messages) {
      this.group = learned(this.group, message, this.me);
    }
    this.isKnown = true;
  }

  /** Who of the others writes now. */
  writing(): string[] {
    return this.timeline.writing(performance.now());
  }

  /** The chat list's line is this message, which is not held here. */
  isLineBy(seq: number | undefined): boolean {
    return seq !== undefined && this.#row?.last_message?.seq === seq && !this.#last(seq);
  }

  /** As it is now. */
  message(seq: number): Message | undefined {
    return this.#drawn().find(({ message }) => message.seq === seq)?.message;
  }

  /** What the user said last, and has not deleted. */
  lastOwn(): Message | undefined {
    const own = this.#drawn().filter(({ own, message }) => own && message.deleted_at === undefined);
    return own.at(-1)?.message;
  }

  #drawn() {
    return this.timeline.entries(() => "").flatMap((entry) => (entry.type === "message" ? [entry] : []));
  }

  /** What stands last; what the row says, as long as that is newer. */
  newest(): Newest | undefined {
    const row = this.#row?.last_message;
    const last = this.#last(row?.seq ?? 0);
    switch (last?.type) {
      case "unsent":
        return {
          text: said(last.media?.kind ?? "text", last.body, last.media),
          at: Date.parse(last.unsent.at),
          by: this.me,
        };
      case "system":
        return this.#line(last.message);
      case "message": {
        const { body, sent_at, deleted_at, sender_id, kind, media } = last.message;
        return {
          text: deleted_at === undefined ? said(kind, body, media) : DELETED,
          at: Date.parse(sent_at),
          by: sender_id,
        };
      }
    }
    if (row?.system) {
      return this.#line(row);
    }
    return (
      row && {
        text: row.deleted ? DELETED : said(row.kind, row.preview),
        at: Date.parse(row.sent_at),
        by: row.sender_id,
      }
    );
  }

  #line({ system, sender_id, sent_at }: Pick<Message, "system" | "sender_id" | "sent_at">): Newest {
    return {
      text: system ? sentence(system, sender_id, this.me, this.what) : "",
      at: Date.parse(sent_at),
      by: undefined,
    };
  }

  /** The last one that is drawn, if it is not above this one. */
  #last(seq: number) {
    const last = this.timeline.entries(() => "").at(-1);
    if (last?.type === "message" || last?.type === "system") {
      return last.message.seq >= seq ? last : undefined;
    }
    return last?.type === "unsent" ? last : undefined;
  }
}
