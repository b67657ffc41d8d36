// One chat, as far as this page knows it. No DOM, no network.

import { type Conversation, type HistoryResult, type Message, type Settings, Timeline } from "@pigeonhole/client";

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

  /** What stands last; what the row says, as long as that is newer. */
  newest(): Newest | undefined {
    const last = this.timeline.entries(() => "").at(-1);
    if (last?.type === "unsent") {
      return { text: last.body, at: Date.parse(last.at), own: true };
    }
    const row = this.#row?.last_message;
    if (last?.type === "message" && last.message.seq >= (row?.seq ?? 0)) {
      return {
        text: isShown(last.message) ? last.message.body : "",
        at: Date.parse(last.message.sent_at),
        own: last.own,
      };
    }
    return row && { text: row.preview, at: Date.parse(row.sent_at), own: row.sender_id === this.me };
  }
}

/** Of a kind that this page does not know, nothing is shown. */
export function isShown({ kind }: Pick<Message, "kind">): boolean {
  return kind === "text";
}
