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
} from "@pigeonhole/client/events";
import { type Group, learned, learnedOfRow, moderates, UNKNOWN } from "./group.ts";
import { said } from "./said.ts";
import { sentence } from "./system.ts";

/** Replaces a deleted text. */
export const DELETED = "This message was deleted";

/** A chat's last message, as the list shows it. */
export interface Newest {
  text: string;
  at: number;
  /** The author; none for an event of a group, or for a message that was not sent. */
  by: string | undefined;
}

export class Chat {
  readonly me: string;
  /** Key within this page: the peer, or for a group a text that is no user id. */
  readonly key: string;
  /** The other user; in a group none. */
  readonly peer: string | undefined;
  /** A channel: few users post, and the others read on demand. */
  readonly isChannel: boolean;
  readonly timeline: Timeline;
  /** The conversation's, once there is one. */
  id: string | undefined;
  /** The page has requested the messages. */
  isKnown = false;
  mutedUntil: string | null = null;
  /** While it is muted, mentions don't notify either. */
  mutesMentions = false;
  /** Until the next message. */
  isArchived = false;
  isBlocked = false;
  /** Requests under way that are no messages: settings, and changes of the group. */
  asked = 0;
  /** Why the last one was refused. */
  refused = "";
  /** For a group: the server refused to create it. */
  isNotMade = false;
  /** Failed messages that would fail again, by `client_msg_id`. */
  readonly final = new Set<string>();
  /** A request for older messages is under way. */
  isLoading = false;
  /** The peer's presence at the last request. */
  presence: Presence | undefined;
  group: Group = UNKNOWN;
  /** Members of a group, in the order of their ids. A channel may have more than these. */
  members: readonly GroupMember[] = [];
  /** For a channel: the page subscribes to its posts. */
  isWatched = false;
  /** For a channel: the server has listed it. */
  isListed = false;
  /** For a channel: the user was removed. */
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

  /** Names the kind for its members. */
  get what(): "group" | "channel" {
    return this.isChannel ? "channel" : "group";
  }

  /** The user was removed from the group, or has left. */
  get isClosed(): boolean {
    return this.isGone || this.timeline.isClosed();
  }

  /** Reports whether only a team's own server writes there. */
  get isOfService(): boolean {
    return this.peer !== undefined && isService(this.peer);
  }

  /** Reports whether messages are final: no edit, no reaction. */
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
    this.mutesMentions = "mute_mentions" in row && row.mute_mentions === true;
    this.isArchived = row.archived ?? false;
  }

  setSettings(settings: Settings): void {
    if ("user_id" in settings) {
      this.isBlocked = settings.set.blocked;
      return;
    }
    const {
      muted_until = this.mutedUntil,
      archived = this.isArchived,
      mute_mentions = this.mutesMentions,
    } = settings.set;
    this.mutedUntil = muted_until;
    this.mutesMentions = mute_mentions;
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

  /** Returns the other users who are typing. */
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

  /** Returns the user's last message that is not deleted. */
  lastOwn(): Message | undefined {
    const own = this.#drawn().filter(({ own, message }) => own && message.deleted_at === undefined);
    return own.at(-1)?.message;
  }

  #drawn() {
    return this.timeline.entries(() => "").flatMap((entry) => (entry.type === "message" ? [entry] : []));
  }

  /** Returns the last message of the timeline, or of the row if that one is newer. */
  newest(): Newest | undefined {
    const row = this.#row?.last_message;
    const last = this.#last(row?.seq ?? 0);
    switch (last?.type) {
      case "unsent": {
        const text = said(last.media?.kind ?? "text", last.body, last.media);
        const isFailed = last.unsent.error !== undefined;
        return {
          text: isFailed ? `Not sent: ${text}` : text,
          at: Date.parse(last.unsent.at),
          by: isFailed ? undefined : this.me,
        };
      }
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
