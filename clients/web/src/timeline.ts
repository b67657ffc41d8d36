// The ordered view of one conversation, without I/O and clock: the app passes in the client's events, and draws the
// entries.

import { Changes } from "./changes.ts";
import type { ReactedEvent } from "./events.ts";
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
import type { Queued, Upload } from "./saved.ts";

/** How far an own message has come. */
export type Tick = "waiting" | "failed" | "stored" | "delivered" | "read";

/** One thing to draw. */
export type TimelineEntry =
  /** The day of the next entries. Present at each change of the day, and before the first message. */
  | { type: "day"; day: string }
  /** The number of unread messages when the user opened the conversation; the first of them follows. */
  | { type: "unread"; count: number }
  /** Messages between these two are missing. */
  | { type: "gap"; afterSeq: number; beforeSeq: number }
  /** A stored message, as it is now, own changes that wait included; others' have no tick. */
  | {
      type: "message";
      message: Message;
      own: boolean;
      tick: "stored" | "delivered" | "read" | undefined;
      /** The message that this one replies to, in its current state, if it has been received. */
      quote: Message | undefined;
      /** Own changes of the message have no reply yet. */
      changing: boolean;
      /** The last own change of it that was refused for good, until it is dismissed. */
      refused: Unsent | undefined;
    }
  /** A change of the group, by the entry's `sender_id`. */
  | { type: "system"; message: Message; own: boolean; system: System }
  /** An own message that is not stored. */
  | {
      type: "unsent";
      unsent: Unsent;
      body: string;
      tick: "waiting" | "failed";
      quote: Message | undefined;
      /** The attachment. */
      media: Upload | undefined;
    };

/** An own message or change that is not stored. */
export interface Unsent {
  queued: Queued;
  /** When the user made it: RFC 3339, as `sent_at` of a message. */
  at: string;
  /** Why it will never be stored: what `failed` was called with. */
  error?: string;
  /** For a message whose file is being uploaded, the number of uploaded bytes. */
  uploaded?: number;
}

/** The members who have a message, each list in the order of their ids. */
export interface Readers {
  read: string[];
  /** Only received. */
  delivered: string[];
}

interface Marks {
  delivered: number;
  read: number;
}

/** Whether a user is a member of the group, by the last entry about it. */
interface Membership {
  seq: number;
  isMember: boolean;
}

/** Below this `seq` the user sees nothing. */
interface First {
  seq: number;
  /** The conversation's last `seq` when the server reported it. */
  asOf: number;
}

/** A user who is typing. */
interface Writing {
  until: number;
  /** The last `seq` of the conversation when the event came. */
  lastSeq: number;
}

/** The place of the unread separator: before the first message of others above this mark. */
interface Opened {
  mark: number;
  count: number;
  /** The server had reported the user's read mark by then. */
  isSure: boolean;
}

/**
 * The ordered view of one conversation: the stored messages by `seq`, then those that are not stored yet. Change
 * entries are not drawn themselves: their target is, in its current state.
 *
 * Pass in the client's events and results about this conversation, in any order and any number of times. No message
 * appears twice, and no tick falls. The timeline does not check the conversation's id, so the app keeps one timeline
 * per conversation.
 */
export class Timeline {
  #userId: string;
  /** By `seq`. The changes have each message's current state, and so its text. */
  #log: Message[] = [];
  #changes: Changes;
  /** Oldest first. */
  #unsent: Unsent[] = [];
  /** The `client_msg_id`s of own entries that are stored. */
  #stored = new Set<string>();
  #writing = new Map<string, Writing>();
  #marks = new Map<string, Marks>();
  /** In a group: the lowest marks of all other members, from the server. */
  #floor: Marks = { delivered: 0, read: 0 };
  /** The marks of all other members are known. */
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
   * Takes an own message or change that is not stored yet: from `send` and the like, or from the client's `outbox`
   * after a start. A change of the group is not shown before it is stored.
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

  /**
   * Marks an own message or change as failed for good. The mark remains until the app dismisses it; the timeline
   * reverts a change.
   */
  failed(clientMsgId: string, error: string): void {
    const unsent = this.#unsent.find(({ queued }) => queued.clientMsgId === clientMsgId);
    if (unsent) {
      unsent.error = error;
    }
  }

  /** Sets the number of uploaded bytes of an own message's file. */
  uploading({ clientMsgId, done }: { clientMsgId: string; done: number }): void {
    const unsent = this.#unsent.find(({ queued }) => queued.clientMsgId === clientMsgId);
    if (unsent) {
      unsent.uploaded = done;
    }
  }

  /** Applies an own change that has no entry. */
  reacted({ clientMsgId, request }: Omit<ReactedEvent, "type">): void {
    if (request.action === "delete") {
      const wanted = this.#unsent.find(({ queued }) => queued.clientMsgId === clientMsgId);
      this.#changes.takeDelete(request.seq, wanted?.at ?? new Date().toISOString());
    } else {
      this.#changes.takeOwn(request.seq, request.emoji);
    }
    this.#isStored(clientMsgId);
  }

  /**
   * Removes a failed request that the user has seen. A request that is still in the outbox stays, because the client
   * will send it.
   */
  dismiss(clientMsgId: string): void {
    this.#unsent = this.#unsent.filter(
      ({ queued, error }) => queued.clientMsgId !== clientMsgId || error === undefined,
    );
  }

  /** Records that a user is typing, by a clock of the app, in milliseconds. */
  typing(userId: string, now: number): void {
    if (userId !== this.#userId) {
      this.#writing.set(userId, { until: now + limits.TYPING_SHOWN_MS, lastSeq: this.#lastSeq });
    }
  }

  /** A member has everything up to here, or has read it. So has the user, by another device or by this one. */
  receipt({ kind, user_id, seq }: { kind: ReceiptKind } & Pick<Receipt, "user_id" | "seq">): void {
    this.#raise(user_id, { delivered: seq, read: kind === "read" ? seq : 0 });
  }

  /** Takes a page of the marks of the group's other members. When the last page has come, own messages have ticks. */
  receipts({ members, delivered_seq, read_seq, next_cursor }: ReceiptsResult): void {
    this.#isGroup = true;
    this.#hasReceipts ||= next_cursor === null;
    for (const { user_id, delivered_seq, read_seq } of members) {
      this.#raise(user_id, { delivered: delivered_seq, read: read_seq });
    }
    // Without members, the server's marks are the end of the log.
    if (members.length > 0) {
      this.#floor = highest(this.#floor, { delivered: delivered_seq, read: read_seq });
    }
  }

  /** Takes a row of the chat list. An older row than the current one changes nothing. */
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

  /** Opens the conversation: the unread separator does not move until `close`. */
  open(): void {
    this.#opened ??= this.#separator();
  }

  /** Closes the conversation. */
  close(): void {
    this.#opened = undefined;
  }

  // Output.

  /** Returns everything to draw, in order. `dayOf` returns the day of a time, in the viewer's time zone and words. */
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

  /** Returns the users who are typing now, by the same clock as `typing`, in the order of their ids. */
  writing(now: number): string[] {
    const writing = [...this.#writing].filter(([, { until }]) => now < until);
    return writing.map(([userId]) => userId).sort();
  }

  /** Returns the next part of the conversation to request with `history`; `undefined` if no entry is missing. */
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

  /** Returns the part to request with `history` when the user scrolls up; `undefined` if no older entry exists. */
  moreBefore(): { before_seq: number } | undefined {
    const [oldest] = this.#log;
    return oldest && oldest.seq > this.#first.seq ? { before_seq: oldest.seq } : undefined;
  }

  /**
   * Returns whether the user is no longer a member of the group, and so can neither send nor receive. Always false for
   * a channel.
   */
  isClosed(): boolean {
    return !this.#isChannel && this.#roster.get(this.#userId)?.isMember === false;
  }

  /** Returns the other users who have this message, as far as known, of those who were members when it was written. */
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
   * Returns the number of unread messages of others without deleted ones, as far as known. While entries are missing,
   * the number is the row's count and the changes since then.
   */
  unread(): number {
    return this.#count(
      (row) => row.unread,
      () => true,
    );
  }

  /** How many of those name the user. */
  mentions(): number {
    const naming = this.#count(
      (row) => ("mentions" in row ? (row.mentions ?? 0) : 0),
      (message) => names(message, this.#userId),
    );
    // A delete of an unknown message does not contain the mentions. The mentions can't be more than the unread
    // messages.
    return Math.min(naming, this.unread());
  }

  /**
   * Returns the `seq` to report with `read` when the user has seen everything shown. The message there is the last
   * unread one of others that is not deleted and has no gap before it. `undefined` if there is nothing to report.
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

  /** Counts the row's messages and the later ones for which `isCounted` is true. */
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
      // The author of a delete most likely wrote its unknown target, and a delete mentions no user.
      const ofOther = target ? !this.#isOwn(target) : !this.#isOwn(entry);
      return wasUnread && ofOther && isCounted(target ?? entry);
    });
    // The number can be lower than the received messages: the row may include deletes that are missing here.
    return Math.min(Math.max(ofRow(row) - gone.length, 0) + come, ofOthers.length + missing);
  }

  /** An entry, as it was at any time. `isOfPage`: as the history has it. */
  #take(entry: Message, isOfPage: boolean): void {
    const { seq, client_msg_id, sender_id } = entry;
    if (this.#isOwn(entry) && client_msg_id !== undefined) {
      this.#isStored(client_msg_id);
    }
    this.#takeSystem(entry);
    // A channel's event has no reactions; only its pages have them.
    this.#changes.take(entry, isOfPage || !this.#isChannel);
    if (this.#isChannel && this.#isOwn(entry) && counts(entry)) {
      // The author of a post has read everything before it.
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

  /** A new member starts just before the join, even after an earlier membership. */
  #takeSystem(entry: Message): void {
    const { seq, sender_id, conversation_id } = entry;
    this.#isGroup ||= isGroup(conversation_id);
    this.#isChannel ||= isChannel(conversation_id);
    if (seq < this.#first.seq) {
      return;
    }
    for (const user of joiners(entry)) {
      if (this.#isChannel && user !== this.#userId) {
        // The other members' marks are not sent in a channel.
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

  /** Sets the first entry that the user may see in the group. The latest report counts: a new join starts again. */
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

  /** Forgets what is below: it belongs to an earlier membership, and who has left since is unknown. */
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
    const wanted = waiting.flatMap(({ queued, at }) => ("request" in queued ? [{ request: queued.request, at }] : []));
    return this.#changes.apply(message, wanted);
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

  /** Takes the server's last `seq` and read mark of the conversation. */
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

  /** Returns the message after the separator, once it is certain which one that is. */
  #firstUnread(): number | undefined {
    if (!this.#opened?.count) {
      return undefined;
    }
    const { mark } = this.#opened;
    const above = this.#log.filter(({ seq }) => seq > mark);
    const at = above.findIndex((entry) => this.#isUnread(entry));
    return above[at]?.seq === mark + 1 + at ? above[at]?.seq : undefined;
  }

  /** Returns the lowest marks of all others. In a group, the received receipts alone are not enough. */
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

  /** Returns the other members without services: a service reads nothing, so no tick waits for its mark. */
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

/** Returns the target of a change: of all stored requests, only a change of a message has a `seq`. */
function targetOf(queued: Queued): number | undefined {
  return "request" in queued ? (queued.request as { seq?: number }).seq : undefined;
}
