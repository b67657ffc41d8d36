// One chat, as far as this page knows it. No DOM, no network.

import type { Conversation, HistoryResult, Message } from "@pigeonhole/client";

/** An own message that has no number yet. */
export interface Waiting {
  client_msg_id: string;
  body: string;
  at: number;
  /** It will never be stored. */
  why?: string;
}

export type Ticks = "waiting" | "failed" | "stored" | "delivered" | "read";

/** What the chat list shows of the newest message. */
export interface Newest {
  seq: number;
  sender_id: string;
  text: string;
  at: number;
}

export class Chat {
  readonly me: string;
  readonly peer: string;
  /** The conversation's, once there is one. */
  id: string | undefined;
  newest: Newest | undefined;
  waiting: Waiting[] = [];
  /** The server has been asked what is in it. */
  isKnown = false;
  /** Others' messages above `#readTo`, as of `#countedTo`. */
  unread = 0;
  /** The first message that came while this device was not connected. */
  awayFrom: number | undefined;
  /** Older messages have been asked for, and have not come. */
  isLoading = false;
  #messages = new Map<number, Message>();
  #countedTo = 0;
  #readTo = 0;
  #newestOfOthers = 0;
  #peerDelivered = 0;
  #peerRead = 0;

  constructor(me: string, peer: string) {
    this.me = me;
    this.peer = peer;
  }

  /** All that is known without a hole, up to the newest. */
  messages(): Message[] {
    const found: Message[] = [];
    for (let seq = Math.max(0, ...this.#messages.keys()); ; seq -= 1) {
      const message = this.#messages.get(seq);
      if (!message) {
        return found.reverse();
      }
      found.push(message);
    }
  }

  /** When something last happened here, for the order of the list. */
  activeAt(): number {
    return Math.max(this.newest?.at ?? 0, this.waiting.at(-1)?.at ?? 0);
  }

  /** How far the server has not been told that the user has read; `undefined`: it knows all. */
  unreported(): number | undefined {
    return this.#newestOfOthers > this.#readTo ? this.#newestOfOthers : undefined;
  }

  ticks({ seq }: Message): Ticks {
    if (this.peer === this.me) {
      return "stored";
    }
    return seq <= this.#peerRead ? "read" : seq <= this.#peerDelivered ? "delivered" : "stored";
  }

  /** The next message of the conversation, as an event. */
  arrived(message: Message, missed: boolean): void {
    this.#keep(message);
    if (missed) {
      this.awayFrom ??= message.seq;
    }
    if (message.seq > this.#countedTo) {
      this.#countedTo = message.seq;
      this.unread += message.sender_id !== this.me && message.seq > this.#readTo ? 1 : 0;
    }
  }

  /** A row of the server's list. One that knows less than this page changes nothing. */
  listed({ last_message, last_seq, unread, read_seq }: Conversation): void {
    const { seq, sender_id, preview, sent_at } = last_message;
    this.#isNewest({ seq, sender_id, text: preview, at: Date.parse(sent_at) });
    if (last_seq >= this.#countedTo && read_seq >= this.#readTo) {
      this.#countedTo = last_seq;
      this.#readTo = read_seq;
      this.unread = unread;
    }
  }

  /** A page of the conversation. */
  remembered({ messages, members }: HistoryResult): void {
    this.isKnown = true;
    for (const message of messages) {
      this.#keep(message);
    }
    for (const { user_id, delivered_seq, read_seq } of members) {
      if (user_id === this.me) {
        this.#readTo = Math.max(this.#readTo, read_seq);
      }
      if (user_id === this.peer) {
        this.peerHas(delivered_seq, read_seq);
      }
    }
  }

  peerHas(delivered: number, read: number): void {
    this.#peerDelivered = Math.max(this.#peerDelivered, delivered);
    this.#peerRead = Math.max(this.#peerRead, read);
  }

  /** The user has read up to here, on this device or another. Whether it is known what that leaves unread. */
  readTo(seq: number): boolean {
    this.#readTo = Math.max(this.#readTo, seq);
    if (this.#readTo < this.#countedTo) {
      return false;
    }
    this.unread = 0;
    return true;
  }

  #keep(message: Message): void {
    const { seq, sender_id, body, sent_at, client_msg_id } = message;
    this.#messages.set(seq, message);
    this.#isNewest({ seq, sender_id, text: body, at: Date.parse(sent_at) });
    if (sender_id !== this.me) {
      this.#newestOfOthers = Math.max(this.#newestOfOthers, seq);
    }
    this.waiting = this.waiting.filter((waiting) => waiting.client_msg_id !== client_msg_id);
  }

  #isNewest(candidate: Newest): void {
    if (candidate.seq >= (this.newest?.seq ?? 0)) {
      this.newest = candidate;
    }
  }
}
