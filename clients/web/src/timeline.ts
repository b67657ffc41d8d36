// The ordered view of one conversation, without I/O and clock: the app puts in what the client tells, and draws the entries.

import { Changes } from "./changes.ts";
import { type Conversation, type HistoryResult, limits, type Message } from "./frames.ts";
import { counts, type Receipt, type ReceiptKind, type Side } from "./protocol.ts";
import type { Queued } from "./storage/storage.ts";

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
  /** A stored message, as it is now, own changes that wait included; others' have no tick. */
  | {
      type: "message";
      message: Message;
      own: boolean;
      tick: "stored" | "delivered" | "read" | undefined;
      /** What it answers, as that is now, if that is held. */
      quote: Message | undefined;
      /** Own changes of it wait for the server's answer. */
      changing: boolean;
      /** The last own change of it that was refused for good, until it is dismissed. */
      refused: Unsent | undefined;
    }
  /** An own message that is not stored. */
  | { type: "unsent"; unsent: Unsent; body: string; tick: "waiting" | "failed"; quote: Message | undefined };

/** An own message or change that is not stored. */
export interface Unsent {
  queued: Queued;
  /** When the user made it: RFC 3339, as `sent_at` of a message. */
  at: string;
  /** Why it will never be stored: what `failed` was called with. */
  error?: string;
}

interface Marks {
  delivered: number;
  read: number;
}

/** Somebody writes. */
interface Writing {
  until: number;
  /** Where the conversation ended when that was heard of. */
  lastSeq: number;
}

/** Where the unread separator stands: before the first message of others above this mark. */
interface Opened {
  mark: number;
  count: number;
  /** The server had said by then how far the user has read. */
  isSure: boolean;
}

/**
 * The ordered view of one conversation: what is stored, by `seq`, then what is not stored yet. Entries that say what became of a
 * message are not drawn themselves: the message is, as it is by then.
 *
 * Put in what the client tells of this conversation, in any order and as often as it comes: no message is shown twice, and no
 * tick falls. It does not look at the conversation's id, so the app keeps one for each conversation.
 */
export class Timeline {
  #userId: string;
  /** By `seq`. What became of a message, and so what it says, is in the changes. */
  #log: Message[] = [];
  #changes: Changes;
  /** Oldest first. */
  #unsent: Unsent[] = [];
  /** The `client_msg_id`s of own entries that are stored. */
  #stored = new Set<string>();
  #writing = new Map<string, Writing>();
  #marks = new Map<string, Marks>();
  #lastSeq = 0;
  #row: Conversation | undefined;
  #isKnown = false;
  #opened: Opened | undefined;

  /** The user whose view this is. */
  constructor(userId: string) {
    this.#userId = userId;
    this.#changes = new Changes(userId);
  }

  // Input.

  /** A page of the conversation: any, and pages may overlap. */
  history({ messages, last_seq, members }: Pick<HistoryResult, "messages" | "last_seq" | "members">): void {
    for (const entry of messages) {
      this.#take(entry, last_seq);
    }
    for (const { user_id, delivered_seq, read_seq } of members) {
      this.#raise(user_id, { delivered: delivered_seq, read: read_seq });
    }
    this.#known(last_seq);
  }

  /** The next entry, or any other. An own one takes the place of what was queued with the same `client_msg_id`. */
  message(entry: Message): void {
    this.#take(entry, entry.seq);
  }

  /** An own message or change that is not stored yet: from `send` and the like, or from the client's `outbox` after a start. */
  queued(queued: Queued, at: string): void {
    const { clientMsgId } = queued;
    const isKnown = this.#unsent.some((unsent) => unsent.queued.clientMsgId === clientMsgId);
    if (!isKnown && !this.#stored.has(clientMsgId)) {
      this.#unsent.push({ queued, at });
    }
  }

  /** An own message or change will never be stored. Its mark stays until it is dismissed; a change is taken back. */
  failed(clientMsgId: string, error: string): void {
    const unsent = this.#unsent.find(({ queued }) => queued.clientMsgId === clientMsgId);
    if (unsent) {
      unsent.error = error;
    }
  }

  /** The user has seen that this failed, and wants it gone. What waits stays: it is sent all the same. */
  dismiss(clientMsgId: string): void {
    this.#unsent = this.#unsent.filter(
      ({ queued, error }) => queued.clientMsgId !== clientMsgId || error === undefined,
    );
  }

  /** Somebody writes, by a clock of the app's, in milliseconds. */
  typing(userId: string, now: number): void {
    if (userId !== this.#userId) {
      this.#writing.set(userId, { until: now + limits.TYPING_SHOWN_MS, lastSeq: this.#lastSeq });
    }
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
    for (const entry of this.#log) {
      const { seq, reply_to } = entry;
      if (before !== undefined && seq > before + 1) {
        entries.push({ type: "gap", afterSeq: before, beforeSeq: seq });
      }
      before = seq;
      if (!counts(entry)) {
        continue;
      }
      turn(entry.sent_at);
      if (seq === firstUnread) {
        entries.push({ type: "unread", count: this.#opened?.count ?? 0 });
      }
      const own = this.#isOwn(entry);
      const [message, quote] = [this.#shown(entry), this.#quote(reply_to)];
      const mark = own ? tick(seq, all) : undefined;
      entries.push({ type: "message", message, own, tick: mark, quote, ...this.#changing(seq) });
    }
    for (const unsent of this.#unsent) {
      const { queued, at, error } = unsent;
      if ("body" in queued) {
        turn(at);
        const quote = this.#quote(queued.replyTo);
        entries.push({
          type: "unsent",
          unsent,
          body: queued.body,
          tick: error === undefined ? "waiting" : "failed",
          quote,
        });
      }
    }
    return entries;
  }

  /** Who writes now, by the same clock as `typing`, in the order of their ids. */
  writing(now: number): string[] {
    const writing = [...this.#writing].filter(([, { until }]) => now < until);
    return writing.map(([userId]) => userId).sort();
  }

  /** What to ask `history` for next, so that nothing is missing; `undefined`: nothing is. */
  missing(): Side | undefined {
    const newest = this.#log.at(-1)?.seq;
    if (newest === undefined) {
      return this.#lastSeq > 0 ? {} : undefined;
    }
    if (newest < this.#lastSeq) {
      return { after_seq: newest };
    }
    let missing: Side | undefined;
    let before: number | undefined;
    for (const { seq } of this.#log) {
      if (before !== undefined && seq > before + 1) {
        missing = { after_seq: before };
      }
      before = seq;
    }
    return missing;
  }

  /** What to ask `history` for when the user scrolls up; `undefined`: nothing is older than what is held. */
  moreBefore(): { before_seq: number } | undefined {
    const [oldest] = this.#log;
    return oldest && oldest.seq > 1 ? { before_seq: oldest.seq } : undefined;
  }

  /**
   * How many messages of others the user has not read, without deleted ones, as far as known: while some of those are missing,
   * what the row says and what has become of it since.
   */
  unread(): number {
    const mark = this.#ownRead();
    const above = this.#log.filter(({ seq }) => seq > mark);
    const ofOthers = above.filter((entry) => this.#isUnread(entry));
    const missing = Math.max(this.#lastSeq - mark, 0) - above.length;
    const row = this.#row;
    if (!row || missing === 0) {
      return ofOthers.length;
    }
    const since = (seq: number) => seq > row.last_seq;
    const come = ofOthers.filter(({ seq }) => since(seq)).length;
    const gone = above.filter(({ seq, kind, sender_id, target_seq = 0 }) => {
      const ofOther = kind === "delete" && sender_id !== this.#userId;
      return ofOther && since(seq) && !since(target_seq) && target_seq > mark;
    });
    // It can be less than what is held: the row may know of deletes that are among what is missing.
    return Math.min(Math.max(row.unread - gone.length, 0) + come, ofOthers.length + missing);
  }

  /**
   * What to report with `read` when the user has seen all that is shown: the last message of others that has no gap before it,
   * of what is not read yet, nor deleted; `undefined`: there is nothing to report.
   */
  readUpTo(): number | undefined {
    const mark = this.#ownRead();
    let last: number | undefined;
    let before: number | undefined;
    for (const entry of this.#log) {
      const { seq } = entry;
      if (before !== undefined && seq > before + 1 && seq - 1 > mark) {
        break;
      }
      before = seq;
      if (seq > mark && this.#isUnread(entry)) {
        last = seq;
      }
    }
    return last;
  }

  /** An entry, as it was when the conversation had come so far. */
  #take(entry: Message, asOf: number): void {
    const { seq, client_msg_id } = entry;
    this.#changes.take(entry, asOf);
    if (this.#isOwn(entry) && client_msg_id !== undefined) {
      this.#stored.add(client_msg_id);
      this.#unsent = this.#unsent.filter(({ queued }) => queued.clientMsgId !== client_msg_id);
    }
    if (seq > (this.#writing.get(entry.sender_id)?.lastSeq ?? Number.POSITIVE_INFINITY)) {
      this.#writing.delete(entry.sender_id);
    }
    this.#lastSeq = Math.max(this.#lastSeq, seq);
    const place = this.#placeOf(seq);
    if (this.#log[place - 1]?.seq !== seq) {
      this.#log.splice(place, 0, { ...entry, body: "" });
    }
  }

  /** After what is not above this `seq`. */
  #placeOf(seq: number): number {
    let place = this.#log.length;
    while ((this.#log[place - 1]?.seq ?? 0) > seq) {
      place -= 1;
    }
    return place;
  }

  /** The message as it is now, own changes that wait included. */
  #shown(message: Message): Message {
    const waiting = this.#changesOf(message.seq).filter(({ error }) => error === undefined);
    return this.#changes.apply(message, waiting);
  }

  #quote(seq: number | undefined): Message | undefined {
    const held = seq === undefined ? undefined : this.#log[this.#placeOf(seq) - 1];
    return held && held.seq === seq && counts(held) ? this.#shown(held) : undefined;
  }

  #changing(seq: number): { changing: boolean; refused: Unsent | undefined } {
    const changes = this.#changesOf(seq);
    const refused = changes.filter(({ error }) => error !== undefined);
    return { changing: changes.length > refused.length, refused: refused.at(-1) };
  }

  /** Own ones that are not stored, oldest first. */
  #changesOf(seq: number): Unsent[] {
    return this.#unsent.filter(({ queued }) => targetOf(queued) === seq);
  }

  /** Whether it is unread, if it is above the mark. */
  #isUnread(entry: Message): boolean {
    return counts(entry) && !this.#isOwn(entry) && !this.#changes.isDeleted(entry.seq);
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
    const above = this.#log.filter(({ seq }) => seq > mark);
    const at = above.findIndex((entry) => this.#isUnread(entry));
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

/** Of a change: the message that it is about. */
function targetOf(queued: Queued): number | undefined {
  if ("edit" in queued) {
    return queued.edit.seq;
  }
  if ("delete" in queued) {
    return queued.delete.seq;
  }
  return "react" in queued ? queued.react.seq : undefined;
}
