// The ordered view of one conversation, without I/O and clock: the app puts in what the client tells, and draws the entries.

import type { Conversation, HistoryResult, Message } from "./frames.ts";
import type { Receipt, ReceiptKind, Side } from "./protocol.ts";

/** How far an own message has come. */
export type Tick = "waiting" | "failed" | "stored" | "delivered" | "read";

/** One thing to draw. */
export type TimelineEntry =
  /** The day of what follows. Stands wherever the day changes, and before the first message. */
  | { type: "day"; day: string }
  /** So many messages were unread when the user opened the conversation; the first of them follows. */
  | { type: "unread"; count: number }
  /** Messages between these two are missing. */
  | { type: "gap"; afterSeq: number; beforeSeq: number }
  /** A stored message; others' have no tick. */
  | { type: "message"; message: Message; own: boolean; tick: "stored" | "delivered" | "read" | undefined }
  /** An own message that is not stored. */
  | ({ type: "unsent"; tick: "waiting" | "failed" } & Unsent);

/** An own message that is not stored. */
export interface Unsent {
  /** What `send` gave. */
  clientMsgId: string;
  body: string;
  /** When the user wrote it: RFC 3339, as `sent_at` of a message. */
  at: string;
  /** Why it will never be stored: what `failed` was called with. */
  error?: string;
}

interface Marks {
  delivered: number;
  read: number;
}

/** Where the unread separator stands: before the first message of others above this mark. */
interface Opened {
  mark: number;
  count: number;
  /** The server had said by then how far the user has read. */
  isSure: boolean;
}

/**
 * The ordered view of one conversation: what is stored, by `seq`, then what is not stored yet.
 *
 * Put in what the client tells of this conversation, in any order and as often as it comes: no message is shown twice, and no
 * tick falls. It does not look at the conversation's id, so the app keeps one for each conversation.
 */
export class Timeline {
  #userId: string;
  /** By `seq`. */
  #messages: Message[] = [];
  #unsent: Unsent[] = [];
  /** The `client_msg_id`s of own messages that are stored. */
  #stored = new Set<string>();
  #marks = new Map<string, Marks>();
  #lastSeq = 0;
  #row: Conversation | undefined;
  #isKnown = false;
  #opened: Opened | undefined;

  /** The user whose view this is. */
  constructor(userId: string) {
    this.#userId = userId;
  }

  // Input.

  /** A page of the conversation: any, and pages may overlap. */
  history({ messages, last_seq, members }: Pick<HistoryResult, "messages" | "last_seq" | "members">): void {
    for (const message of messages) {
      this.message(message);
    }
    for (const { user_id, delivered_seq, read_seq } of members) {
      this.#raise(user_id, { delivered: delivered_seq, read: read_seq });
    }
    this.#known(last_seq);
  }

  /** The next message, or any other. An own one takes the place of the unsent one with the same `client_msg_id`. */
  message(message: Message): void {
    const { seq, client_msg_id } = message;
    if (this.#isOwn(message) && client_msg_id !== undefined) {
      this.#stored.add(client_msg_id);
      this.#unsent = this.#unsent.filter(({ clientMsgId }) => clientMsgId !== client_msg_id);
    }
    this.#lastSeq = Math.max(this.#lastSeq, seq);
    let place = this.#messages.length;
    while ((this.#messages[place - 1]?.seq ?? 0) > seq) {
      place -= 1;
    }
    if (this.#messages[place - 1]?.seq !== seq) {
      this.#messages.splice(place, 0, message);
    }
  }

  /** An own message that is not stored yet: from `send`, or from the client's `outbox` after a start. */
  queued(clientMsgId: string, body: string, at: string): void {
    if (!this.#stored.has(clientMsgId) && !this.#unsent.some((unsent) => unsent.clientMsgId === clientMsgId)) {
      this.#unsent.push({ clientMsgId, body, at });
    }
  }

  /** An own message will never be stored. It stays, marked, until it is dismissed. */
  failed(clientMsgId: string, error: string): void {
    const unsent = this.#unsent.find((candidate) => candidate.clientMsgId === clientMsgId);
    if (unsent) {
      unsent.error = error;
    }
  }

  /** The user has seen that this message failed, and wants it gone. One that waits stays: it is sent all the same. */
  dismiss(clientMsgId: string): void {
    this.#unsent = this.#unsent.filter((unsent) => unsent.clientMsgId !== clientMsgId || unsent.error === undefined);
  }

  /** A member has everything up to here, or has read it. So has the user, by another device or by this one. */
  receipt({ kind, user_id, seq }: { kind: ReceiptKind } & Pick<Receipt, "user_id" | "seq">): void {
    this.#raise(user_id, { delivered: seq, read: kind === "read" ? seq : 0 });
  }

  /** A row of the chat list. One that is older than another changes nothing. */
  row(row: Conversation): void {
    this.#raise(this.#userId, { delivered: row.delivered_seq, read: row.read_seq });
    if (!this.#row || (row.last_seq >= this.#row.last_seq && row.read_seq >= this.#row.read_seq)) {
      this.#row = row;
    }
    this.#known(row.last_seq);
  }

  /** The user looks at it from now on: where the unread separator stands does not change until `close`. */
  open(): void {
    this.#opened ??= this.#separator();
  }

  /** The user looks at something else. */
  close(): void {
    this.#opened = undefined;
  }

  // Output.

  /** Everything to draw, in order. `dayOf` gives the day of a time, in the viewer's time zone and words. */
  entries(dayOf: (at: string) => string): TimelineEntry[] {
    const entries: TimelineEntry[] = [];
    let day: string | undefined;
    const turn = (at: string) => {
      const next = dayOf(at);
      if (next !== day) {
        entries.push({ type: "day", day: next });
      }
      day = next;
    };
    const firstUnread = this.#firstUnread();
    const all = this.#ofOthers();
    let before: number | undefined;
    for (const message of this.#messages) {
      const { seq } = message;
      if (before !== undefined && seq > before + 1) {
        entries.push({ type: "gap", afterSeq: before, beforeSeq: seq });
      }
      before = seq;
      turn(message.sent_at);
      if (seq === firstUnread) {
        entries.push({ type: "unread", count: this.#opened?.count ?? 0 });
      }
      const own = this.#isOwn(message);
      entries.push({ type: "message", message, own, tick: own ? tick(seq, all) : undefined });
    }
    for (const unsent of this.#unsent) {
      turn(unsent.at);
      entries.push({ type: "unsent", tick: unsent.error === undefined ? "waiting" : "failed", ...unsent });
    }
    return entries;
  }

  /** What to ask `history` for next, so that nothing is missing; `undefined`: nothing is. */
  missing(): Side | undefined {
    const newest = this.#messages.at(-1)?.seq;
    if (newest === undefined) {
      return this.#lastSeq > 0 ? {} : undefined;
    }
    if (newest < this.#lastSeq) {
      return { after_seq: newest };
    }
    let missing: Side | undefined;
    let before: number | undefined;
    for (const { seq } of this.#messages) {
      if (before !== undefined && seq > before + 1) {
        missing = { after_seq: before };
      }
      before = seq;
    }
    return missing;
  }

  /** What to ask `history` for when the user scrolls up; `undefined`: nothing is older than what is held. */
  moreBefore(): { before_seq: number } | undefined {
    const [oldest] = this.#messages;
    return oldest && oldest.seq > 1 ? { before_seq: oldest.seq } : undefined;
  }

  /**
   * How many messages of others the user has not read, as far as known: while some of those are missing, what the row says and
   * what has come since.
   */
  unread(): number {
    const mark = this.#ownRead();
    const above = this.#messages.filter(({ seq }) => seq > mark);
    const ofOthers = above.filter((message) => !this.#isOwn(message));
    const count = Math.max(this.#lastSeq - mark, 0);
    const row = this.#row;
    if (!row || above.length === count) {
      return ofOthers.length;
    }
    const since = ofOthers.filter(({ seq }) => seq > row.last_seq);
    return Math.min(row.unread + since.length, count);
  }

  /**
   * What to report with `read` when the user has seen all that is shown: the last message of others that has no gap before it,
   * of what is not read yet; `undefined`: there is nothing to report.
   */
  readUpTo(): number | undefined {
    const mark = this.#ownRead();
    let last: number | undefined;
    let before: number | undefined;
    for (const message of this.#messages) {
      const { seq } = message;
      if (before !== undefined && seq > before + 1 && seq - 1 > mark) {
        break;
      }
      before = seq;
      if (seq > mark && !this.#isOwn(message)) {
        last = seq;
      }
    }
    return last;
  }

  #isOwn({ sender_id }: Message): boolean {
    return sender_id === this.#userId;
  }

  #ownRead(): number {
    return this.#marks.get(this.#userId)?.read ?? 0;
  }

  /** A read mark counts as a delivered one. */
  #raise(userId: string, { delivered, read }: Marks): void {
    const marks = this.#marks.get(userId) ?? { delivered: 0, read: 0 };
    this.#marks.set(userId, {
      delivered: Math.max(marks.delivered, delivered, read),
      read: Math.max(marks.read, read),
    });
  }

  /** The server has said how far the conversation goes, and how far the user has read it. */
  #known(lastSeq: number): void {
    this.#lastSeq = Math.max(this.#lastSeq, lastSeq);
    this.#isKnown = true;
    if (this.#opened && !this.#opened.isSure) {
      this.#opened = this.#separator();
    }
  }

  #separator(): Opened {
    return { mark: this.#ownRead(), count: this.unread(), isSure: this.#isKnown };
  }

  /** The message that the separator stands before, once it is certain which one that is. */
  #firstUnread(): number | undefined {
    if (!this.#opened?.count) {
      return undefined;
    }
    const { mark } = this.#opened;
    const above = this.#messages.filter(({ seq }) => seq > mark);
    const at = above.findIndex((message) => !this.#isOwn(message));
    return above[at]?.seq === mark + 1 + at ? above[at]?.seq : undefined;
  }

  /** How far all others have come. */
  #ofOthers(): Marks | undefined {
    const others = [...this.#marks].filter(([userId]) => userId !== this.#userId).map(([, marks]) => marks);
    return others.length === 0
      ? undefined
      : {
          delivered: Math.min(...others.map(({ delivered }) => delivered)),
          read: Math.min(...others.map(({ read }) => read)),
        };
  }
}

function tick(seq: number, all: Marks | undefined): "stored" | "delivered" | "read" {
  if (!all || seq > all.delivered) {
    return "stored";
  }
  return seq > all.read ? "delivered" : "read";
}
