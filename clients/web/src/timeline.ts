// The ordered view of one conversation, without I/O and clock: the app puts in what the client tells, and draws the entries.

import { Changes } from "./changes.ts";
import {
  type Channel,
  type Conversation,
  type HistoryResult,
  limits,
  type Message,
  type ReceiptsResult,
  type System,
} from "./frames.ts";
import {
  counts,
  happened,
  isChannel,
  isGroup,
  isService,
  joiners,
  leavers,
  names,
  type Receipt,
  type ReceiptKind,
  type Side,
} from "./protocol.ts";
import type { Queued, QueuedReaction, Upload } from "./storage/storage.ts";

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
  /** What happened to the group: `sender_id` of the entry did it. */
  | { type: "system"; message: Message; own: boolean; system: System }
  /** An own message that is not stored. */
  | {
      type: "unsent";
      unsent: Unsent;
      body: string;
      tick: "waiting" | "failed";
      quote: Message | undefined;
      /** What it carries. */
      media: Upload | undefined;
    };

/** An own message or change that is not stored. */
export interface Unsent {
  queued: Queued;
  /** When the user made it: RFC 3339, as `sent_at` of a message. */
  at: string;
  /** Why it will never be stored: what `failed` was called with. */
  error?: string;
  /** Of a message whose file is being uploaded, how many of the bytes are there. */
  uploaded?: number;
}

/** Who has a message, each in the order of their ids. */
export interface Readers {
  read: string[];
  /** Only received. */
  delivered: string[];
}

interface Marks {
  delivered: number;
  read: number;
}

/** Whether a user is a member of the group, by the last entry that says so. */
interface Membership {
  seq: number;
  isMember: boolean;
}

/** Below this `seq` the user sees nothing. */
interface First {
  seq: number;
  /** Told when the conversation had come so far. */
  asOf: number;
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
  /** Of a group: up to where the server says that all others have come. */
  #floor: Marks = { delivered: 0, read: 0 };
  /** The marks of all others have been told. */
  #hasReceipts = false;
  #roster = new Map<string, Membership>();
  #isGroup = false;
  #isChannel = false;
  #first: First = { seq: 1, asOf: 0 };
  #lastSeq = 0;
  #row: Conversation | Channel | undefined;
  #isKnown = false;
  #opened: Opened | undefined;

  /** The user whose view this is. */
  constructor(userId: string) {
    this.#userId = userId;
    this.#changes = new Changes(userId);
  }

  // Input.

  /** A page of the conversation: any, and pages may overlap. */
  history({
    messages,
    last_seq,
    first_seq,
    members,
  }: Pick<HistoryResult, "messages" | "last_seq" | "first_seq" | "members">): void {
    this.#begins(first_seq, last_seq);
    for (const entry of messages) {
      this.#take(entry, true);
    }
    for (const { user_id, delivered_seq, read_seq } of members) {
      this.#raise(user_id, { delivered: delivered_seq, read: read_seq });
    }
    this.#known(last_seq);
  }

  /** The next entry, or any other. An own one takes the place of what was queued with the same `client_msg_id`. */
  message(entry: Message): void {
    this.#take(entry, false);
  }

  /**
   * An own message or change that is not stored yet: from `send` and the like, or from the client's `outbox` after a start. A
   * change of the group is not shown before it is stored.
   */
  queued(queued: Queued, at: string): void {
    const { clientMsgId } = queued;
    if (!("body" in queued) && targetOf(queued) === undefined) {
      return;
    }
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

  /** So much of what an own message carries is uploaded. */
  uploading({ clientMsgId, done }: { clientMsgId: string; done: number }): void {
    const unsent = this.#unsent.find(({ queued }) => queued.clientMsgId === clientMsgId);
    if (unsent) {
      unsent.uploaded = done;
    }
  }

  /** An own reaction to a message of a channel is counted: there it is no entry. */
  reacted({ clientMsgId, react: { seq, emoji } }: Pick<QueuedReaction, "clientMsgId" | "react">): void {
    this.#changes.takeOwn(seq, emoji);
    this.#isStored(clientMsgId);
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

  /** A page of how far the other members of the group have come. Once the last one is there, own messages have ticks. */
  receipts({ members, delivered_seq, read_seq, next_cursor }: ReceiptsResult): void {
    this.#isGroup = true;
    this.#hasReceipts ||= next_cursor === null;
    for (const { user_id, delivered_seq, read_seq } of members) {
      this.#raise(user_id, { delivered: delivered_seq, read: read_seq });
    }
    // Of nobody it is the end of the log.
    if (members.length > 0) {
      this.#floor = highest(this.#floor, { delivered: delivered_seq, read: read_seq });
    }
  }

  /** A row of the chat list. One that is older than another changes nothing. */
  row(row: Conversation): void {
    this.#takeRow(row, { delivered: row.delivered_seq, read: row.read_seq });
  }

  /** A row of the list of channels, in the same way. */
  channel(row: Channel): void {
    this.#isChannel = true;
    this.#takeRow(row, { delivered: row.read_seq, read: row.read_seq });
  }

  #takeRow(row: Conversation | Channel, marks: Marks): void {
    this.#begins(row.first_seq, row.last_seq);
    if (row.role !== undefined) {
      this.#belongs(this.#userId, { seq: row.last_seq, isMember: row.role !== "none" });
    }
    this.#raise(this.#userId, marks);
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
      const own = this.#isOwn(entry);
      const system = happened(entry);
      if (system) {
        turn(entry.sent_at);
        entries.push({ type: "system", message: entry, own, system });
      }
      if (!counts(entry)) {
        continue;
      }
      turn(entry.sent_at);
      if (seq === firstUnread) {
        entries.push({ type: "unread", count: this.#opened?.count ?? 0 });
      }
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
          media: queued.media,
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
      return this.#lastSeq >= this.#first.seq ? {} : undefined;
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
    return oldest && oldest.seq > this.#first.seq ? { before_seq: oldest.seq } : undefined;
  }

  /** The user is no longer a member of the group, so nothing can be said in it, nor will anything come. Of a channel it is never said. */
  isClosed(): boolean {
    return !this.#isChannel && this.#roster.get(this.#userId)?.isMember === false;
  }

  /** Who of the others has this message, as far as known, of those who were there when it was written. */
  readers(seq: number): Readers {
    const readers: Readers = { read: [], delivered: [] };
    const writer = this.#held(seq)?.sender_id;
    for (const [userId, { delivered, read }] of this.#others()) {
      const hasJoinedLater = (this.#roster.get(userId)?.seq ?? 0) > seq;
      if (delivered >= seq && userId !== writer && !hasJoinedLater) {
        readers[read >= seq ? "read" : "delivered"].push(userId);
      }
    }
    return { read: readers.read.sort(), delivered: readers.delivered.sort() };
  }

  /**
   * How many messages of others the user has not read, without deleted ones, as far as known: while some of those are missing,
   * what the row says and what has become of it since.
   */
  unread(): number {
    return this.#count(
      (row) => row.unread,
      () => true,
    );
  }

  /** How many of those name the user. */
  mentions(): number {
    return this.#count(
      (row) => ("mentions" in row ? (row.mentions ?? 0) : 0),
      (message) => names(message, this.#userId),
    );
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

  /** What the row has, and what came since, of those messages that `isCounted`. */
  #count(ofRow: (row: Conversation | Channel) => number, isCounted: (message: Message) => boolean): number {
    const mark = this.#ownRead();
    const above = this.#log.filter(({ seq }) => seq > mark);
    const ofOthers = above.filter((entry) => this.#isUnread(entry) && isCounted(entry));
    const missing = Math.max(this.#lastSeq - mark, 0) - above.length;
    const row = this.#row;
    if (!row || missing === 0) {
      return ofOthers.length;
    }
    const since = (seq: number) => seq > row.last_seq;
    const come = ofOthers.filter(({ seq }) => since(seq)).length;
    const gone = above.filter((entry) => {
      const { seq, kind, target_seq = 0 } = entry;
      const wasUnread = kind === "delete" && since(seq) && !since(target_seq) && target_seq > mark && !this.#isChannel;
      const target = this.#held(target_seq);
      // Whoever deletes what is not held has most likely written it, and it names nobody.
      const ofOther = target ? !this.#isOwn(target) : !this.#isOwn(entry);
      return wasUnread && ofOther && isCounted(target ?? entry);
    });
    // It can be less than what is held: the row may know of deletes that are among what is missing.
    return Math.min(Math.max(ofRow(row) - gone.length, 0) + come, ofOthers.length + missing);
  }

  /** An entry, as it was at any time. `isOfPage`: as the history has it. */
  #take(entry: Message, isOfPage: boolean): void {
    const { seq, client_msg_id, sender_id } = entry;
    if (this.#isOwn(entry) && client_msg_id !== undefined) {
      this.#isStored(client_msg_id);
    }
    this.#takeSystem(entry);
    // Whoever is told of an entry of a channel as it is written is told of no reactions.
    this.#changes.take(entry, isOfPage || !this.#isChannel);
    if (this.#isChannel && this.#isOwn(entry) && counts(entry)) {
      // Who posts there has read what is before.
      this.#raise(sender_id, { delivered: seq, read: seq });
    }
    if (seq > (this.#writing.get(sender_id)?.lastSeq ?? Number.POSITIVE_INFINITY)) {
      this.#writing.delete(sender_id);
    }
    this.#lastSeq = Math.max(this.#lastSeq, seq);
    if (seq >= this.#first.seq && !this.#held(seq)) {
      this.#log.splice(this.#placeOf(seq), 0, { ...entry, body: "" });
    }
  }

  #isStored(clientMsgId: string): void {
    this.#stored.add(clientMsgId);
    this.#unsent = this.#unsent.filter(({ queued }) => queued.clientMsgId !== clientMsgId);
  }

  /** Who joins begins just before that, whoever they were before. */
  #takeSystem(entry: Message): void {
    const { seq, sender_id, conversation_id } = entry;
    this.#isGroup ||= isGroup(conversation_id);
    this.#isChannel ||= isChannel(conversation_id);
    if (seq < this.#first.seq) {
      return;
    }
    for (const user of joiners(entry)) {
      if (this.#isChannel && user !== this.#userId) {
        // How far others have come is told to nobody.
        continue;
      }
      const mark = user === sender_id ? seq : seq - 1;
      this.#raise(user, { delivered: mark, read: mark });
      this.#belongs(user, { seq, isMember: true });
    }
    for (const user of leavers(entry)) {
      this.#belongs(user, { seq, isMember: false });
    }
  }

  /** The server has said where the user's view of the group begins. What was said last holds: who joins again begins anew. */
  #begins(seq: number | undefined, asOf: number): void {
    if (seq === undefined) {
      return;
    }
    this.#isGroup = true;
    const before = this.#first;
    if (asOf >= before.asOf) {
      this.#first = { seq, asOf };
    }
    if (this.#first.seq > before.seq) {
      this.#forget(seq, before.asOf > 0);
    }
  }

  /** What is below is of another time as a member: nobody knows who has left since. */
  #forget(below: number, isAnew: boolean): void {
    this.#log = this.#log.filter(({ seq }) => seq >= below);
    for (const [userId] of this.#others()) {
      if (isAnew || (this.#roster.get(userId)?.seq ?? below) < below) {
        this.#roster.delete(userId);
        this.#marks.delete(userId);
        this.#hasReceipts = false;
      }
    }
    if (isAnew) {
      this.#floor = { delivered: 0, read: 0 };
    }
  }

  #belongs(userId: string, membership: Membership): void {
    if (membership.seq >= (this.#roster.get(userId)?.seq ?? 0)) {
      this.#roster.set(userId, membership);
    }
  }

  #held(seq: number): Message | undefined {
    const held = this.#log[this.#placeOf(seq) - 1];
    return held?.seq === seq ? held : undefined;
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
    const held = seq === undefined ? undefined : this.#held(seq);
    return held && counts(held) ? this.#shown(held) : undefined;
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

  /** Whether it is unread, if it is above the mark. In a channel, one that was deleted is, too. */
  #isUnread(entry: Message): boolean {
    return counts(entry) && !this.#isOwn(entry) && (this.#isChannel || !this.#changes.isDeleted(entry.seq));
  }

  #isOwn({ sender_id }: Message): boolean {
    return sender_id === this.#userId;
  }

  #ownRead(): number {
    return Math.max(this.#marks.get(this.#userId)?.read ?? 0, this.#first.seq - 1);
  }

  /** A read mark counts as a delivered one. */
  #raise(userId: string, { delivered, read }: Marks): void {
    const marks = this.#marks.get(userId) ?? { delivered: 0, read: 0 };
    this.#marks.set(userId, highest(marks, { delivered: Math.max(delivered, read), read }));
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

  /** How far all others have come. Of a group that takes more than the receipts that were heard. */
  #ofOthers(): Marks {
    const others = this.#others().map(([, marks]) => marks);
    if (others.length === 0) {
      return this.#floor;
    }
    const lowest = {
      delivered: Math.min(...others.map(({ delivered }) => delivered)),
      read: Math.min(...others.map(({ read }) => read)),
    };
    return this.#isGroup && !this.#hasReceipts ? this.#floor : highest(this.#floor, lowest);
  }

  /** Without services: they read nothing, so nobody waits for them. */
  #others(): [string, Marks][] {
    const isThere = (userId: string) => this.#roster.get(userId)?.isMember !== false;
    return [...this.#marks].filter(([userId]) => userId !== this.#userId && !isService(userId) && isThere(userId));
  }
}

function highest(one: Marks, other: Marks): Marks {
  return { delivered: Math.max(one.delivered, other.delivered), read: Math.max(one.read, other.read) };
}

function tick(seq: number, all: Marks): "stored" | "delivered" | "read" {
  if (seq > all.delivered) {
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
