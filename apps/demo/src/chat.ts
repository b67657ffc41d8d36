// One chat, as far as this page knows it. No DOM, no network.

import {
  type Conversation,
  type HistoryResult,
  type Message,
  type Presence,
  type Settings,
  Timeline,
} from "@pigeonhole/client";

/** In the place of what was said. */
export const DELETED = "This message was deleted";

/** What the list shows of a chat. */
export interface Newest {
  text: string;
  at: number;
  own: boolean;
}

export class Chat {
  readonly me: string;
  readonly peer: string;
  readonly timeline: Timeline;
  /** The conversation's, once there is one. */
  id: string | undefined;
  /** The server has been asked what is in it. */
  isKnown = false;
  mutedUntil: string | null = null;
  /** Until the next message. */
  isArchived = false;
  isBlocked = false;
  /** Settings without an answer. */
  settingsAsked = 0;
  /** Why the last one was not set. */
  refused = "";
  /** Older messages have been asked for, and have not come. */
  isLoading = false;
  /** Whether the peer is there, when that was asked last. */
  presence: Presence | undefined;
  #row: Conversation | undefined;

  constructor(me: string, peer: string) {
    this.me = me;
    this.peer = peer;
    this.timeline = new Timeline(me);
  }

  setRow(row: Conversation): void {
    this.timeline.row(row);
    this.#row = row;
    this.mutedUntil = row.muted_until ?? null;
    this.isArchived = row.archived ?? false;
    this.isBlocked = row.blocked ?? false;
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

  addPage(page: HistoryResult): void {
    this.timeline.history(page);
    this.isKnown = true;
  }

  /** Whether the peer writes now. */
  isWriting(): boolean {
    return this.timeline.writing(performance.now()).length > 0;
  }

  /** The chat list's line is this message, which is not held here. */
  isLineBy(seq: number | undefined): boolean {
    return seq !== undefined && this.#row?.last_message.seq === seq && !this.#last(seq);
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
    if (last?.type === "unsent") {
      return { text: last.body, at: Date.parse(last.unsent.at), own: true };
    }
    if (last) {
      const { body, sent_at, deleted_at } = last.message;
      return { text: deleted_at === undefined ? body : DELETED, at: Date.parse(sent_at), own: last.own };
    }
    return (
      row && { text: row.deleted ? DELETED : row.preview, at: Date.parse(row.sent_at), own: row.sender_id === this.me }
    );
  }

  /** The last one that is drawn, if it is not above this one. */
  #last(seq: number) {
    const last = this.timeline.entries(() => "").at(-1);
    return last?.type === "unsent" || (last?.type === "message" && last.message.seq >= seq) ? last : undefined;
  }
}
