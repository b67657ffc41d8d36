// The ordered view of one conversation, without I/O and clock: the app passes in the client's events, and draws the
// entries.

import {
  addChange,
  applied,
  type Changes,
  countOf,
  countOwn,
  foreseen,
  keepText,
  markDeleted,
  noChanges,
} from "./changes.ts";
import { type ReactedEvent, type Unreadable, whyUnreadable } from "./events.ts";
import {
  type Channel,
  type Conversation,
  type HistoryResult,
  limits,
  type Message,
  type ReceiptsResult,
  type System,
} from "./frames.ts";
import { type Marks, Members, type Readers } from "./members.ts";
import { Pins } from "./pins.ts";
import {
  carried,
  counts,
  happened,
  isTarget,
  kindOf,
  names,
  type Receipt,
  type ReceiptKind,
  type Side,
  turnOf,
} from "./protocol.ts";
import type { Queued, QueuedMessage, QueuedRequest, Upload } from "./saved.ts";
import { allWithin, covered, joined } from "./spans.ts";
import type { Span, Window } from "./store/types.ts";

export type { Readers } from "./members.ts";

/** How far an own message has come. */
export type Tick = "waiting" | "failed" | StoredTick;

type StoredTick = "stored" | "delivered" | "read";

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
      tick: StoredTick | undefined;
      /** The message that this one replies to, in its current state, if it has been received. */
      quote: Message | undefined;
      /** Own changes of the message have no reply yet. */
      changing: boolean;
      /** The last own change of it that was refused for good, until it is dismissed. */
      refused: Unsent | undefined;
    }
  /** An encrypted message that this device can't read. */
  | { type: "unreadable"; message: Message; why: Unreadable }
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

/** One thing to draw of a part of the timeline. A place has no days. */
export type Place =
  | { type: "gap"; afterSeq: number; beforeSeq: number }
  | { type: "system"; message: Message; system: System }
  /** `unread`: the separator with this number is before it. Only an own one has a tick. */
  | { type: "message"; message: Message; tick: StoredTick | undefined; unread: number | undefined }
  | { type: "unreadable"; message: Message; why: Unreadable; unread: number | undefined }
  /** An entry of an app's own kind. */
  | { type: "unsent"; unsent: Unsent; message: QueuedMessage };

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

/** A user who is typing. */
interface Writing {
  until: number;
  /** The last `seq` of the conversation when the event came. */
  lastSeq: number;
  /** The text so far, of a service. */
  text: string | undefined;
}

/** The place of the unread separator: before the first message of others above this mark. */
interface Opened {
  mark: number;
  count: number;
  /** The server had reported the user's read mark by then. */
  isSure: boolean;
}

const END = Number.POSITIVE_INFINITY;

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
  /** By `seq`: messages in their current state, and change entries without their content. */
  #held: Message[] = [];
  /** The ranges of `seq` without a gap: all entries that have come here, or to the message store. */
  #spans: Span[] = [];
  /** Change entries, by their target, received or not. */
  #changes = new Map<number, Changes>();
  /** Oldest first. */
  #unsent: Unsent[] = [];
  /** The `client_msg_id`s of own messages and changes that are stored. */
  #stored = new Set<string>();
  #writing = new Map<string, Writing>();
  #marks = new Map<string, Marks>();
  #kind: Conversation["kind"] = "direct";
  /** The marks of this group's members are known, so ticks can be shown. */
  #hasReceipts = false;
  /** The first entry that the user may see, and the last `seq` when the server reported it. */
  #first = { seq: 1, asOf: 0 };
  /** The newest known entry, received or not. */
  #lastSeq = 0;
  #row: Conversation | Channel | undefined;
  /** The server has reported the conversation's last `seq`. */
  #isKnown = false;
  #opened: Opened | undefined;
  #pins = new Pins();

  /** The user whose view this is. */
  constructor(userId: string) {
    this.#userId = userId;
  }

  // Input.

  /** A page of the conversation: any, and pages may overlap. */
  history({ messages, last_seq, first_seq, members, pins = [] }: Omit<HistoryResult, "more">): void {
    this.#begins(first_seq, last_seq);
    this.#pins.page(last_seq, pins);
    for (const entry of messages) {
      this.#take(entry, true);
    }
    for (const { user_id, delivered_seq, read_seq } of members) {
      this.#raise(user_id, delivered_seq, read_seq);
    }
    this.#known(last_seq);
  }

  /** Takes only the pinned messages of a page. @internal */
  pinned({ last_seq, pins = [] }: Pick<HistoryResult, "last_seq" | "pins">): void {
    this.#pins.page(last_seq, pins);
  }

  /** Takes messages of a message store, from this side of the conversation, requested with this limit. */
  stored(window: Window, side: Side, limit: number): void {
    for (const message of window.messages) {
      this.#take(message, true);
    }
    const range = covered(window, side, limit);
    const seen = range ? allWithin(allWithin(window.spans, range), { from: this.#first.seq, to: END }) : [];
    for (const span of seen) {
      this.#lastSeq = Math.max(this.#lastSeq, span.to);
      this.#spans = joined(span, this.#spans);
    }
    this.#separate();
  }

  /** The next entry, or any other. An own one takes the place of what was queued with the same `client_msg_id`. */
  message(entry: Message): void {
    this.#take(entry, false);
  }

  /**
   * Takes an own message or change that is not stored yet: from `send` and the like, or from the client's `outbox`
   * after a start. A change of the group is not shown before it is stored.
   */
  queued(queued: Queued, at = queued.madeAt ?? new Date(0).toISOString()): void {
    const isShown = "body" in queued ? counts(carried(queued)) : targetSeq(queued) !== undefined;
    if (isShown && !this.hasUnsent(queued.clientMsgId) && !this.#stored.has(queued.clientMsgId)) {
      this.#unsent.push({ queued, at });
    }
  }

  /**
   * Marks an own message or change as failed for good. The mark remains until the app dismisses it; the timeline
   * reverts a change.
   */
  failed(clientMsgId: string, error: string): void {
    this.#update(clientMsgId, { error });
  }

  /** Takes a `failed` event. */
  failedFor(queued: Queued, error: string): void {
    this.failed(queued.clientMsgId, error);
    // The user has taken it back, or the message is gone and shows that itself.
    if (error === "cancelled" || (error === "gone" && "request" in queued)) {
      this.dismiss(queued.clientMsgId);
    }
  }

  /** Sets the number of uploaded bytes of an own message's file. */
  uploading({ clientMsgId, done }: { clientMsgId: string; done: number }): void {
    this.#update(clientMsgId, { uploaded: done });
  }

  #update(clientMsgId: string, news: Partial<Unsent>): void {
    const isIt = ({ queued }: Unsent) => queued.clientMsgId === clientMsgId;
    this.#unsent = this.#unsent.map((unsent) => (isIt(unsent) ? { ...unsent, ...news } : unsent));
  }

  /** Applies an own change that has no entry. */
  reacted({ clientMsgId, request }: Omit<ReactedEvent, "type">): void {
    const wanted = this.#unsent.find(({ queued }) => queued.clientMsgId === clientMsgId)?.at;
    this.settled(clientMsgId);
    const message = this.#at(request.seq);
    if (message && isTarget(message)) {
      const changes = this.#changesOf(request.seq);
      if (request.action === "delete") {
        markDeleted(changes, wanted ?? message.sent_at, this.#userId);
      } else {
        countOwn(changes, request.emoji);
      }
      this.#hold(applied(changes, message));
    }
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

  /** Records that a user is typing, or a service a text, by a clock of the app, in milliseconds. */
  typing(userId: string, now: number, text?: string): void {
    if (userId !== this.#userId) {
      this.#writing.set(userId, { until: now + limits.TYPING_SHOWN_MS, lastSeq: this.#lastSeq, text });
    }
  }

  /** A member has everything up to here, or has read it. So has the user, by another device or by this one. */
  receipt({ kind, user_id, seq }: { kind: ReceiptKind } & Pick<Receipt, "user_id" | "seq">): void {
    this.#raise(user_id, seq, kind === "read" ? seq : 0);
  }

  /**
   * Takes a page of the marks of the group's other members. Until the last page has come, an own message shows only
   * that it is stored.
   */
  receipts({ members, next_cursor }: ReceiptsResult): void {
    this.is("group");
    this.#hasReceipts ||= next_cursor === null;
    for (const { user_id, delivered_seq, read_seq } of members) {
      this.#raise(user_id, delivered_seq, read_seq);
    }
  }

  /** Takes a row of the chat list. An older row than the current one changes nothing. */
  row(row: Conversation): void {
    const wasClosed = this.isClosed();
    this.is(row.kind);
    this.#raise(this.#userId, row.delivered_seq, row.read_seq);
    this.#listed(row);
    this.#reopened(wasClosed);
  }

  /** A row of the list of channels, in the same way. */
  channel(row: Channel): void {
    this.is("channel");
    this.#raise(this.#userId, row.read_seq, row.read_seq);
    this.#listed(row);
  }

  /** Opens the conversation: the unread separator does not move until `close`. */
  open(): void {
    this.#opened ??= this.#separator();
  }

  /** Closes the conversation. */
  close(): void {
    this.#opened = undefined;
  }

  /** A channel looks like a group, and a direct conversation like nothing. @internal */
  is(kind: Conversation["kind"]): void {
    if (this.#kind === "direct" || kind === "channel") {
      this.#kind = kind;
    }
  }

  /** Takes what another timeline of the conversation has that is not stored. @internal */
  adopt(other: Timeline): void {
    this.#unsent.push(...other.#unsent.filter(({ queued }) => !this.#stored.has(queued.clientMsgId)));
  }

  /** Forgets what is read, except for the last message and the events of the group. @internal */
  trim(): void {
    const last = this.shown().at(-1) ?? 0;
    const floor = Math.min(this.ownRead(), Math.max(last - 1, 0));
    this.#held = this.#held.filter(({ seq, system }) => seq > floor || system !== undefined);
    this.#forgetChanges(floor);
    this.#spans = allWithin(this.#spans, { from: floor + 1, to: END });
  }

  /** The conversation has entries up to here. The view requests those that have not come. @internal */
  endsAt(lastSeq: number): void {
    this.#lastSeq = Math.max(this.#lastSeq, lastSeq);
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
    for (const place of this.places(0, undefined)) {
      switch (place.type) {
        case "gap":
          entries.push(place);
          break;
        case "system":
          turn(place.message.sent_at);
          entries.push({ ...place, own: this.#isOwn(place.message) });
          break;
        case "message": {
          const { message, tick, unread } = place;
          const { seq, reply_to } = message;
          turn(message.sent_at);
          if (unread !== undefined) {
            entries.push({ type: "unread", count: unread });
          }
          const [own, quote] = [tick !== undefined, this.quote(reply_to)];
          const [changing, refused] = [this.isChanging(seq), this.refused(seq)];
          entries.push({ type: "message", message: this.foreseen(message), own, tick, quote, changing, refused });
          break;
        }
        case "unreadable": {
          const { message, why, unread } = place;
          turn(message.sent_at);
          if (unread !== undefined) {
            entries.push({ type: "unread", count: unread });
          }
          entries.push({ type: "unreadable", message, why });
          break;
        }
        case "unsent": {
          const { unsent, message } = place;
          const { at, error } = unsent;
          turn(at);
          const { body, replyTo, media } = message;
          const tick = error === undefined ? "waiting" : "failed";
          entries.push({ type: "unsent", unsent, body, tick, quote: this.quote(replyTo), media });
        }
      }
    }
    return entries;
  }

  /**
   * Returns all to draw, in order and without days: the stored entries from `from` to `to`. `undefined` stands for the
   * end, where the unsent messages follow.
   *
   * @internal
   */
  places(from: number, to: number | undefined): Place[] {
    const [unread, all] = [this.#firstUnread(), this.#allOthers()];
    const places: Place[] = [];
    let before: Span | undefined;
    for (const span of allWithin(this.#spans, { from, to: to ?? END })) {
      if (before) {
        places.push({ type: "gap", afterSeq: before.to, beforeSeq: span.from });
      }
      before = span;
      for (const message of this.#held.slice(this.#after(span.from - 1), this.#after(span.to))) {
        const [system, why] = [happened(message), whyUnreadable(message)];
        const separator = unread?.seq === message.seq ? unread.count : undefined;
        if (system) {
          places.push({ type: "system", message, system });
        } else if (why && message.deleted_at === undefined) {
          places.push({ type: "unreadable", message, why, unread: separator });
        } else if (counts(message)) {
          const mark = this.#isOwn(message) ? tick(message.seq, all) : undefined;
          places.push({ type: "message", message, tick: mark, unread: separator });
        }
      }
    }
    for (const unsent of to === undefined ? this.#unsent : []) {
      if ("body" in unsent.queued) {
        places.push({ type: "unsent", unsent, message: unsent.queued });
      }
    }
    return places;
  }

  /** Returns the silent entries of own kinds that reply to a message, in order, as far as known. @internal */
  signals(): Message[] {
    return this.#held.filter((message) => {
      const isSignal = !counts(message) && isTarget(message) && message.deleted_at === undefined;
      return isSignal && message.reply_to !== undefined;
    });
  }

  /** Returns the `seq` of each stored entry that `places` has, in order. @internal */
  shown(): number[] {
    const isShown = (message: Message) => counts(message) || happened(message) !== undefined;
    return this.#above(this.#floor)
      .filter(isShown)
      .map(({ seq }) => seq);
  }

  /** The kind of the conversation, as far as known. @internal */
  get kind(): Conversation["kind"] {
    return this.#kind;
  }

  /** Returns how far an own message has come. @internal */
  ownTick(seq: number): StoredTick {
    return tick(seq, this.#allOthers());
  }

  /** Returns whether an own message or change with this id is not stored. @internal */
  hasUnsent(clientMsgId: string): boolean {
    return this.#unsent.some(({ queued }) => queued.clientMsgId === clientMsgId);
  }

  /** The newest known entry, received or not. @internal */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** The first entry that the user may see. @internal */
  get first(): number {
    return this.#first.seq;
  }

  /** The server has reported the last entry and the user's read mark. @internal */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** The number of unread messages is certain. Without a row, only the messages themselves show it. @internal */
  get isCounted(): boolean {
    return this.#isKnown && (this.#row !== undefined || this.#missingAbove(this.ownRead()) === 0);
  }

  /** The ranges without a gap, in order. @internal */
  get spans(): readonly Span[] {
    return this.#spans;
  }

  /** Returns the users who are typing now, by the same clock as `typing`, in the order of their ids. */
  writing(now: number): string[] {
    const writing = [...this.#writing].filter(([, { until }]) => now < until);
    return writing.map(([userId]) => userId).sort();
  }

  /** Returns the texts that services are writing now, as far as they are, by the service's id. */
  texts(now: number): Record<string, string> {
    const texts = this.writing(now).map((userId) => [userId, this.#writing.get(userId)?.text]);
    return Object.fromEntries(texts.filter(([, text]) => text !== undefined));
  }

  /** Returns when the next of them no longer is; infinity if there is none. @internal */
  writingEnds(now: number): number {
    return Math.min(...[...this.#writing.values()].map(({ until }) => until).filter((until) => now < until));
  }

  /**
   * Returns whether the user is no longer a member of the group, and so can neither send nor receive. Always false for
   * a channel.
   */
  isClosed(): boolean {
    if (this.#isChannel) {
      return false;
    }
    const [row, own] = [this.#row, this.#ownTurn()];
    const byRow = { seq: row?.last_seq ?? -1, isClosed: row?.role === "none" };
    const byEntry = { seq: own?.seq ?? -1, isClosed: own?.turn === "leaves" };
    if (byRow.seq === byEntry.seq) {
      return byRow.isClosed || byEntry.isClosed;
    }
    return byRow.seq > byEntry.seq ? byRow.isClosed : byEntry.isClosed;
  }

  /** Returns the other users who have this message, as far as known, of those who were members when it was written. */
  readers(seq: number): Readers {
    return this.#members().readers(this.#userId, seq, this.#at(seq)?.sender_id);
  }

  /** Returns the message that one replies to, in its current state, if it has come. @internal */
  quote(seq: number | undefined): Message | undefined {
    const message = seq !== undefined && seq > this.#floor ? this.#content(seq) : undefined;
    const isRead = message && (message.kind !== "sealed" || message.deleted_at !== undefined);
    return isRead ? this.foreseen(message) : undefined;
  }

  /** Returns the message with the own changes that are not stored yet. @internal */
  foreseen(message: Message): Message {
    return this.#waiting(message.seq).reduce((before, { queued, at }) => {
      return foreseen(before, (queued as QueuedRequest).request, at, this.#userId);
    }, message);
  }

  /** Returns whether own changes of the message have no reply yet. @internal */
  isChanging(seq: number): boolean {
    return this.#waiting(seq).length > 0;
  }

  /** Returns the last own change of the message that was refused for good. @internal */
  refused(seq: number): Unsent | undefined {
    return this.#ownChanges(seq)
      .filter(({ error }) => error !== undefined)
      .at(-1);
  }

  /** Returns the pinned messages that the user sees, the last pinned first. Pages and entries have them, in any order. */
  pins(): number[] {
    return this.#pins.now().filter((seq) => seq > this.#floor);
  }

  /** Whether a page has said which messages are pinned. @internal */
  get knowsPins(): boolean {
    return this.#pins.isKnown;
  }

  /** Returns the next part of the conversation to request with `history`; `undefined` if no entry is missing. */
  missing(): Side | undefined {
    const newest = this.#spans.at(-1);
    if (!newest) {
      return this.#lastSeq > this.#floor ? {} : undefined;
    }
    const last = newest.to >= this.#lastSeq ? this.#spans.at(-2) : newest;
    return last && { after_seq: last.to };
  }

  /** Returns the part to request with `history` when the user scrolls up; `undefined` if no older entry exists. */
  moreBefore(): { before_seq: number } | undefined {
    const [oldest] = this.#spans;
    return oldest && oldest.from > this.#first.seq ? { before_seq: oldest.from } : undefined;
  }

  /**
   * Returns the number of unread messages of others, as far as known. Deleted messages count only in a channel. While
   * entries are missing, the number is the row's count and the changes since then.
   */
  unread(): number {
    return this.#count(
      (row) => row.unread,
      () => true,
      () => true,
    );
  }

  /** How many of those name the user. */
  mentions(): number {
    const naming = this.#count(
      (row) => ("mentions" in row ? row.mentions : "mentioned_seq" in row && row.mentioned_seq ? 1 : undefined),
      (message) => names(message, this.#userId),
      (target) => this.#changes.get(target)?.namedViewer === true,
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
    const mark = this.ownRead();
    // The oldest entries need nothing before them.
    const gap = this.#spans.findIndex(({ from }, at) => at > 0 && from - 1 > mark);
    const whole = this.#spans.slice(0, gap < 0 ? undefined : gap).at(-1);
    return whole && this.#lastUnread(mark, whole.to);
  }

  /**
   * Returns the `seq` to report with `read` when the user has seen the entry at `seen`, and so all that is unread up to
   * there. The mark doesn't pass a gap, and no entry between the mark and the report is missing.
   *
   * @internal
   */
  readBySeeing(seen: number): number | undefined {
    const mark = this.ownRead();
    const whole = this.#spanWith(mark + 1);
    return whole && this.#lastUnread(mark, Math.min(whole.to, seen));
  }

  /** @internal */
  ownRead(): number {
    const read = this.#marks.get(this.#userId)?.read ?? 0;
    const own = this.#ownTurn();
    // The marks of who joins stand just before that.
    return Math.max(read, own?.turn === "joins" ? own.seq - 1 : 0, this.#floor);
  }

  /** Counts the row's messages and the later ones for which `isCounted` is true. */
  #count(
    ofRow: (row: Conversation | Channel) => number | undefined,
    isCounted: (message: Message) => boolean,
    wasCounted: (target: number) => boolean,
  ): number {
    const mark = this.ownRead();
    const ofOthers = (mark: number) =>
      this.#above(mark).filter((message) => this.#isUnread(message) && isCounted(message)).length;
    const [held, missing] = [ofOthers(mark), this.#missingAbove(mark)];
    const known = this.#row && ofRow(this.#row);
    if (!this.#row || known === undefined || missing === 0) {
      return held;
    }
    const { last_seq } = this.#row;
    const gone = this.#deletedSince(last_seq, mark).filter(wasCounted).length;
    // The number can be lower than the received messages: the row may include deletes that are missing here.
    return Math.min(Math.max(known - gone, 0) + ofOthers(Math.max(mark, last_seq)), held + missing);
  }

  /** The messages of others, unread and not above `lastSeq`, that were deleted by entries above it. */
  #deletedSince(lastSeq: number, mark: number): number[] {
    // A channel counts them until they are read.
    const deletes = this.#isChannel ? [] : this.#above(lastSeq).filter(({ kind }) => kind === "delete");
    return deletes.flatMap((entry) => {
      const { target_seq = 0 } = entry;
      // In groups, an admin may delete another user's message. An unknown target counts as the own message of the
      // delete's author.
      const isOthers = !this.#isOwn(this.#at(target_seq) ?? entry);
      return isOthers && target_seq > mark && target_seq <= lastSeq ? [target_seq] : [];
    });
  }

  /** Returns the number of entries above the mark that have not come. */
  #missingAbove(mark: number): number {
    const come = allWithin(this.#spans, { from: mark + 1, to: END });
    return come.reduce((missing, { from, to }) => missing - (to - from + 1), Math.max(this.#lastSeq - mark, 0));
  }

  /** Returns the last unread message of others above the mark, up to `to`. */
  #lastUnread(mark: number, to: number): number | undefined {
    const unread = this.#above(mark).filter((message) => message.seq <= to && this.#isUnread(message));
    return unread.at(-1)?.seq;
  }

  /** An entry, as it was at any time. */
  #take(entry: Message, isOfPage: boolean): void {
    const { seq, client_msg_id, sender_id, conversation_id } = entry;
    if (this.#isOwn(entry) && client_msg_id !== undefined) {
      this.settled(client_msg_id);
    }
    if ((this.#writing.get(sender_id)?.lastSeq ?? END) < seq) {
      this.#writing.delete(sender_id);
    }
    this.endsAt(seq);
    this.is(kindOf(conversation_id));
    if (this.#isChannel && this.#isOwn(entry) && counts(entry)) {
      // The author of a post has read everything up to it.
      this.#raise(sender_id, seq, seq);
    }
    if (seq <= this.#floor) {
      return;
    }
    this.#spans = joined({ from: seq, to: seq }, this.#spans);
    const wasClosed = entry.system !== undefined && this.isClosed();
    if (isTarget(entry)) {
      this.#takeMessage(entry, isOfPage);
    } else {
      this.#change(entry);
    }
    this.#reopened(wasClosed);
  }

  /** The request is stored. @internal */
  settled(clientMsgId: string): void {
    this.#stored.add(clientMsgId);
    this.#unsent = this.#unsent.filter(({ queued }) => queued.clientMsgId !== clientMsgId);
  }

  /** Takes a message as it was when the server read it. The timeline may know a newer state. */
  #takeMessage(came: Message, isOfPage: boolean): void {
    const changes = this.#changesOf(came.seq);
    if (came.deleted_at !== undefined) {
      markDeleted(changes, came.deleted_at, came.deleted_by ?? came.sender_id);
    }
    const held = this.#at(came.seq);
    let message = came;
    if (held) {
      // A page can lack the id.
      const id = came.client_msg_id ?? held.client_msg_id;
      message = keepText(id === undefined ? came : { ...came, client_msg_id: id }, held);
    }
    if (names(message, this.#userId)) {
      changes.namedViewer = true;
    }
    // A channel's event has no reactions. Its pages have them, and the last page counts.
    if (!this.#isChannel || isOfPage || (message.reactions ?? []).length > 0) {
      countOf(changes, message);
    }
    this.#hold(applied(changes, message));
  }

  /** Takes a change entry. Its content is kept with its target, which may come later. */
  #change(entry: Message): void {
    const { target_seq } = entry;
    this.#pins.entry(entry);
    if (target_seq !== undefined) {
      const changes = this.#changesOf(target_seq);
      addChange(changes, entry, this.#userId);
      const target = this.#at(target_seq);
      if (target && isTarget(target)) {
        this.#hold(applied(changes, target));
      }
    }
    this.#hold({ ...entry, body: "" });
  }

  /** Sets the first visible entry. The latest report counts, because a new join can show fewer entries, or more. */
  #begins(seq: number | undefined, asOf: number): void {
    if (seq === undefined) {
      return;
    }
    this.is("group");
    const before = this.#first;
    if (before.asOf <= asOf) {
      this.#first = { seq, asOf };
      if (before.asOf > 0 && seq > before.seq) {
        this.#begunAnew();
      }
      // Should it be shown again, it may have changed meanwhile.
      this.#held = this.#above(seq - 1);
      this.#forgetChanges(seq - 1);
      this.#spans = allWithin(this.#spans, { from: seq, to: END });
    }
  }

  #forgetChanges(upTo: number): void {
    this.#changes = new Map([...this.#changes].filter(([seq]) => seq > upTo));
  }

  #listed(row: Conversation | Channel): void {
    this.#begins(row.first_seq, row.last_seq);
    const held = this.#row;
    if (!held || (row.last_seq >= held.last_seq && row.read_seq >= held.read_seq)) {
      this.#row = row;
    }
    this.#known(row.last_seq);
  }

  #reopened(wasClosed: boolean): void {
    if (wasClosed && !this.isClosed()) {
      this.#begunAnew();
    }
  }

  /** Forgets the members, marks and pins of a group: after a new join, the earlier ones are out of date. */
  #begunAnew(): void {
    this.#pins.forgetPage();
    this.#hasReceipts = false;
    const own = this.#marks.get(this.#userId);
    this.#marks = new Map(own ? [[this.#userId, own]] : []);
  }

  /** A read mark counts as a delivered one. */
  #raise(userId: string, delivered: number, read: number): void {
    const marks = this.#marks.get(userId) ?? { delivered: 0, read: 0 };
    this.#marks.set(userId, {
      delivered: Math.max(marks.delivered, delivered, read),
      read: Math.max(marks.read, read),
    });
  }

  /** Takes the server's last `seq` and read mark of the conversation. */
  #known(lastSeq: number): void {
    this.endsAt(lastSeq);
    this.#isKnown = true;
    this.#separate();
  }

  /** Places the separator again, until it is certain. */
  #separate(): void {
    if (this.#isKnown && this.#opened && !this.#opened.isSure) {
      this.#opened = this.#separator();
    }
  }

  /** The user has seen something. The separator stays where it was until now, although no row has confirmed the mark. */
  keepSeparator(): void {
    if (this.#opened && !this.#opened.isSure) {
      this.#opened = { ...this.#separator(), isSure: true };
    }
  }

  #separator(): Opened {
    return { mark: this.ownRead(), count: this.unread(), isSure: this.isCounted };
  }

  /** Returns the message after the separator, once it is certain which one that is, and how many were unread. */
  #firstUnread(): { seq: number; count: number } | undefined {
    if (!this.#opened?.count) {
      return undefined;
    }
    const { mark, count } = this.#opened;
    const whole = this.#spanWith(mark + 1);
    const first = this.#above(mark).find((message) => this.#isUnread(message));
    return whole && first && first.seq <= whole.to ? { seq: first.seq, count } : undefined;
  }

  #spanWith(seq: number): Span | undefined {
    return this.#spans.find(({ from, to }) => from <= seq && seq <= to);
  }

  /** Up to here nothing is shown. */
  get #floor(): number {
    return this.#first.seq - 1;
  }

  get #isChannel(): boolean {
    return this.#kind === "channel";
  }

  #at(seq: number): Message | undefined {
    const held = this.#held[this.#after(seq) - 1];
    return held?.seq === seq ? held : undefined;
  }

  /** Returns the entry with this `seq`, if it is a message. */
  #content(seq: number): Message | undefined {
    const held = this.#at(seq);
    return held && counts(held) ? held : undefined;
  }

  #above(mark: number): Message[] {
    return this.#held.slice(this.#after(mark));
  }

  /** Returns how many entries are not above this `seq`. */
  #after(seq: number): number {
    let [low, high] = [0, this.#held.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#held[middle]?.seq ?? END) <= seq) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  #hold(message: Message): void {
    const isHeld = this.#at(message.seq) !== undefined;
    const at = this.#after(message.seq);
    this.#held.splice(isHeld ? at - 1 : at, Number(isHeld), message);
  }

  #changesOf(seq: number): Changes {
    const changes = this.#changes.get(seq) ?? noChanges();
    this.#changes.set(seq, changes);
    return changes;
  }

  /** Own changes of this message that are not stored, oldest first. */
  #ownChanges(seq: number): Unsent[] {
    return this.#unsent.filter(({ queued }) => targetSeq(queued) === seq);
  }

  #waiting(seq: number): Unsent[] {
    return this.#ownChanges(seq).filter(({ error }) => error === undefined);
  }

  /** Above the own read mark, it is unread. */
  #isUnread(message: Message): boolean {
    return counts(message) && !this.#isOwn(message) && (message.deleted_at === undefined || this.#isChannel);
  }

  #isOwn({ sender_id }: Message): boolean {
    return sender_id === this.#userId;
  }

  /** The last entry that is shown with which the user joined or left. */
  #ownTurn(): { seq: number; turn: "joins" | "leaves" } | undefined {
    for (let at = this.#held.length - 1; at >= 0; at -= 1) {
      const entry = this.#held[at];
      const turn = entry && entry.seq > this.#floor ? turnOf(entry, this.#userId) : undefined;
      if (entry && turn) {
        return { seq: entry.seq, turn };
      }
    }
    return undefined;
  }

  #members(): Members {
    return new Members(this.#marks, this.#above(this.#floor));
  }

  /** Returns up to where all others have the conversation, and have read it. */
  #allOthers(): Marks | undefined {
    return this.#kind === "direct" || this.#hasReceipts ? this.#members().allOthers(this.#userId) : undefined;
  }
}

function tick(seq: number, all: Marks = { delivered: 0, read: 0 }): StoredTick {
  if (seq > all.delivered) {
    return "stored";
  }
  return seq > all.read ? "delivered" : "read";
}

/** Returns the target of a change: of all stored requests, only a change of a message has a `seq`. */
function targetSeq(queued: Queued): number | undefined {
  return "request" in queued ? (queued.request as { seq?: number }).seq : undefined;
}
