// Reports to the server: the marks that this device has saved, and those that the user has read. A message takes a read
// mark along, if it can: then the mark needs no request of its own.

import type { PigeonholeError } from "../errors.ts";
import { isAckResult, isPingResult, isReadResult, isSendResult, limits, type ReadResult } from "../frames.ts";
import { checkRequest, type Mark } from "../protocol.ts";
import type { Conversations } from "./conversations.ts";
import type { Core, LinkId } from "./core.ts";
import type { Requests } from "./requests.ts";
import type { Waiter } from "./waiter.ts";

/** How far the user has read a conversation. Dropped some time after the server knows. */
interface Read {
  seq: number;
  asked: boolean;
  answered: number;
  /** Not reported before this. */
  from: number;
  /** When it could have been sent first: it waits for a message from then on. */
  since: number;
  waiting: { seq: number; waiter: Waiter<ReadResult> }[];
}

function readOf(seq: number): Read {
  return { seq, asked: false, answered: 0, from: NOW, since: NEVER, waiting: [] };
}

/** The time after a key in which the user is writing. */
const WRITES_FOR = 5_000;

const NEVER = Number.POSITIVE_INFINITY;
const NOW = Number.NEGATIVE_INFINITY;

/** The session, as this part knows it. */
interface Session extends Core {
  readonly requests: Requests;
  readonly conversations: Conversations;
  readonly links: { current(): LinkId | undefined };
}

export class Reports {
  #session: Session;
  /** Saved, and not acknowledged to the server yet: one mark per conversation, however many messages. */
  #unacked = new Map<string, number>();
  #ackFrom = NOW;
  #reads = new Map<string, Read>();
  /** Whether the server takes a read mark with a message, once it has said so on this connection. */
  #fuses: boolean | undefined;
  /** The user's last key in each conversation. */
  #typed = new Map<string, number>();

  /** Begins with the marks that an earlier run could not report. */
  constructor(session: Session, reads: ReadonlyMap<string, number>) {
    this.#session = session;
    for (const [conversation, seq] of reads) {
      this.#reads.set(conversation, readOf(seq));
    }
  }

  flush(): void {
    this.#ackFrom = NOW;
    this.stopWaiting();
    for (const read of this.#reads.values()) {
      read.from = NOW;
    }
  }

  next(): number {
    const waiting = [...this.#reads].filter(([, { asked }]) => !asked);
    const reads = waiting.map(([id, read]) => this.#dueAt(id, read));
    return Math.min(this.#unacked.size > 0 ? this.#ackFrom : NEVER, ...reads);
  }

  report(): void {
    this.#reportReads();
    while (this.#isAckDue()) {
      const up_to = this.take();
      this.#ackFrom = this.#session.now + this.#session.timing.ackEvery;
      this.#session.requests.ask(
        { action: "ack", up_to },
        {
          answered: (result) => {
            const readable = isAckResult(result);
            if (readable) {
              this.acknowledged(up_to);
            }
            return readable;
          },
          // The server would refuse it again. The valid entries are applied.
          refused: () => this.acknowledged(up_to),
          lost: () => this.ackLost(up_to),
        },
      );
    }
  }

  // Acknowledgements.

  acknowledge(conversation: string, seq: number): void {
    const read = this.#reads.get(conversation);
    // A read mark counts as a delivered one.
    if (read && read.seq >= seq && read.answered < seq) {
      return;
    }
    this.#unacked.set(conversation, Math.max(seq, this.#unacked.get(conversation) ?? 0));
  }

  /** As many marks as one request may carry. */
  take(): Mark[] {
    const marks = [...this.#unacked].slice(0, limits.ACK_ENTRIES_MAX);
    for (const [conversation] of marks) {
      this.#unacked.delete(conversation);
    }
    return marks.map(([conversation_id, seq]) => ({ conversation_id, seq }));
  }

  acknowledged(marks: Mark[]): void {
    for (const { conversation_id, seq } of marks) {
      this.#session.conversations.raiseAcked(conversation_id, seq);
    }
  }

  ackLost(marks: Mark[]): void {
    for (const { conversation_id } of marks) {
      this.#session.conversations.acknowledgeAgain(conversation_id);
    }
  }

  #isAckDue(): boolean {
    const { size } = this.#unacked;
    return size >= limits.ACK_ENTRIES_MAX || (size > 0 && this.#ackFrom <= this.#session.now);
  }

  // Reading.

  read(conversation: string, seq: number, waiter: Waiter<ReadResult> | undefined): void {
    try {
      checkRequest({ action: "read", conversation_id: conversation, seq });
    } catch (error) {
      this.#session.refuse(waiter, error as PigeonholeError);
      return;
    }
    this.#session.views.read(conversation, seq);
    const read = this.#reads.get(conversation) ?? readOf(0);
    const rises = read.seq < seq;
    read.seq = Math.max(read.seq, seq);
    if (waiter) {
      read.waiting.push({ seq, waiter });
    }
    if (rises && read.since === NEVER) {
      read.since = this.#session.now;
    }
    this.#reads.set(conversation, read);
    if (rises && this.#session.keeper === "store") {
      this.#session.save({ read: { conversation_id: conversation, seq } });
    }
  }

  /** A restart need not report the mark again. */
  #told(conversation: string, seq: number): void {
    if (this.#session.keeper === "store") {
      this.#session.save({ readTold: { conversation_id: conversation, seq } });
    }
  }

  #reportReads(): void {
    const { now } = this.#session;
    for (const [conversation, read] of [...this.#reads]) {
      if (read.asked || this.#dueAt(conversation, read) > now) {
        continue;
      }
      if (read.waiting.length === 0 && read.seq <= read.answered) {
        this.#reads.delete(conversation);
        continue;
      }
      this.#isAsked(conversation, read);
      this.#ask(conversation, read, read.seq);
    }
  }

  /** The mark is on its way, by itself or with a message, and counts as an acknowledgement too. */
  #isAsked(conversation: string, read: Read): void {
    read.asked = true;
    read.since = NEVER;
    read.from = this.#session.now + this.#session.timing.ackEvery;
    if ((this.#unacked.get(conversation) ?? NEVER) <= read.seq) {
      this.#unacked.delete(conversation);
    }
  }

  /** Returns when the mark is to be sent: it waits for a message of its user, who is writing there. */
  #dueAt(conversation: string, { from, since }: Read): number {
    const typed = this.#typed.get(conversation);
    if (typed === undefined || this.#fuses !== true || since === NEVER) {
      return from;
    }
    return Math.max(from, Math.min(typed + WRITES_FOR, since + limits.READ_WAIT_MS));
  }

  /** The marks that wait for a message are sent with this turn. */
  stopWaiting(): void {
    this.#typed.clear();
  }

  connectionEnded(): void {
    this.#fuses = undefined;
    this.#session.views.names.setHasProfiles(undefined);
    this.stopWaiting();
  }

  /** A key in this conversation. While the user is writing, a read mark waits for the message. */
  typed(conversation: string): void {
    const { links, now, views } = this.#session;
    if (!views.isOpen(conversation)) {
      return;
    }
    this.#typed.set(conversation, now);
    if (this.#fuses === undefined && links.current() !== undefined) {
      this.askFeatures();
    }
  }

  /** Requests the server's list of features. */
  askFeatures(): void {
    const { requests, views } = this.#session;
    this.#fuses = false;
    requests.ask(
      { action: "ping", features: true },
      {
        answered: (result) => {
          const isRead = isPingResult(result);
          const features = (isRead ? result.features : undefined) ?? [];
          this.#fuses = features.includes("fuse");
          views.names.setHasProfiles(features.includes("profiles"));
          return isRead;
        },
        refused: () => {},
        lost: () => {},
      },
    );
  }

  /** Returns the read mark that the next message of this conversation takes along, and counts it as sent. */
  fuse(conversation: string): number | undefined {
    const read = this.#reads.get(conversation);
    const { conversations, views } = this.#session;
    if (!read || read.asked || read.seq <= read.answered || this.#fuses !== true || !views.isOpen(conversation)) {
      return undefined;
    }
    // No gap lies below, and the app is done with all of it.
    if (conversations.shown(conversation) < read.seq || conversations.held(conversation) < read.seq) {
      return undefined;
    }
    this.#isAsked(conversation, read);
    return read.seq;
  }

  /**
   * The message with this read mark is stored. If the mark is not where it was to be, a `read` follows: so it does with a
   * server that does not know the field.
   */
  fused(conversation: string, seq: number, result: unknown): void {
    const read = this.#reads.get(conversation);
    const { conversations } = this.#session;
    if (!read || !isSendResult(result)) {
      return;
    }
    const mark = result.read_seq ?? 0;
    if (mark >= result.seq) {
      conversations.raiseAcked(conversation, Math.min(seq, conversations.shown(conversation)));
      this.#answered(conversation, read, seq, { unread: 0, mentions: 0 });
      return;
    }
    read.asked = false;
    if (mark >= seq && read.waiting.length === 0) {
      read.answered = Math.max(read.answered, seq);
      this.#told(conversation, seq);
    } else {
      read.from = NOW;
    }
  }

  /** The mark that a message took along is to be sent again, with the message or alone. */
  fuseLost(conversation: string): void {
    const read = this.#reads.get(conversation);
    if (read) {
      read.asked = false;
      read.from = NOW;
    }
  }

  #ask(conversation: string, read: Read, seq: number): void {
    const { conversations, requests } = this.#session;
    // Shown entries exist, so the server can't have reduced the mark below them.
    const covers = Math.min(seq, conversations.shown(conversation));
    requests.ask(
      { action: "read", conversation_id: conversation, seq },
      {
        answered: (result) => {
          const readable = isReadResult(result);
          if (readable) {
            conversations.raiseAcked(conversation, covers);
            this.#answered(conversation, read, seq, result);
          }
          return readable;
        },
        refused: (error) => {
          this.#reads.delete(conversation);
          for (const { waiter } of read.waiting) {
            this.#session.refuse(waiter, error);
          }
          this.#told(conversation, read.seq);
          conversations.acknowledgeAgain(conversation);
        },
        lost: () => {
          read.asked = false;
          read.from = NOW;
        },
      },
    );
  }

  #answered(conversation: string, read: Read, seq: number, left: ReadResult): void {
    read.asked = false;
    read.answered = Math.max(read.answered, seq);
    for (const { waiter } of read.waiting.filter((waiting) => waiting.seq <= seq)) {
      this.#session.answer(waiter, left);
    }
    read.waiting = read.waiting.filter((waiting) => waiting.seq > seq);
    const { unread, mentions } = left;
    this.#session.store({ read: { conversation_id: conversation, seq, unread, mentions } });
    this.#told(conversation, seq);
    this.#session.conversations.acknowledgeAgain(conversation);
  }
}
