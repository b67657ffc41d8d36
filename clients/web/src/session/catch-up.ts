// After a connect: first what is pending, page by page; then, by the chat list, what other devices of this user took
// meanwhile. And pings, which find what was posted and did not arrive.

import { type DrainResult, type InboxResult, isPingResult, isTimestamp, limits } from "../frames.ts";
import { type Mark, readDrain, readInbox } from "../protocol.ts";
import type { Conversations } from "./conversations.ts";
import type { Core, LinkId } from "./core.ts";
import type { Outbox } from "./outbox.ts";
import type { Reports } from "./reports.ts";
import type { Requests } from "./requests.ts";

type Drain =
  | { is: "idle" }
  | { is: "asked" }
  /**
   * A page that the app is processing, and not the last. When the app has finished, the client requests the next page
   * with these as its ack.
   */
  | { is: "page"; marks: Map<string, number> };

/** The session, as this part knows it. */
interface Session extends Core {
  readonly requests: Requests;
  readonly outbox: Outbox;
  readonly conversations: Conversations;
  readonly reports: Reports;
  readonly links: { current(): LinkId | undefined; closeOlder(): void };
}

export class CatchUp {
  #session: Session;
  #stage: "done" | "draining" | "listing" | "repairing" = "done";
  #drain: Drain = { is: "idle" };
  /** Something may have become pending after the page that is on its way was read. */
  #again = false;
  #pingAt = Number.POSITIVE_INFINITY;
  #pingAsked = false;
  /** The server's time, as it wrote it, up to which nothing is missing. */
  #since: string | undefined;
  /** What `#since` becomes once all is here. */
  #newest: string | undefined;
  /** How far conversations must have come. */
  #awaited = new Map<string, number>();

  constructor(session: Session, since: string | undefined) {
    this.#session = session;
    // A saved value may be damaged. Without it, the client requests the whole chat list.
    this.#since = isTimestamp(since) ? since : undefined;
  }

  isDrainAsked(): boolean {
    return this.#drain.is === "asked";
  }

  /** Requests the pending messages when a drain is due. */
  drainAgain(): void {
    this.#again = true;
  }

  /** Stops waiting for this conversation: its missing entries will never come. */
  giveUp(conversation: string): void {
    this.#awaited.delete(conversation);
  }

  /** The next drain will carry this as an ack. */
  willAcknowledge(conversation: string, seq: number): boolean {
    return this.#drain.is === "page" && (this.#drain.marks.get(conversation) ?? 0) >= seq;
  }

  /** On each new connection, one that replaces another included: what was posted into the old one may be lost. */
  start(): void {
    this.#stage = "draining";
    this.#again = true;
    this.#pingAt = this.#session.now + this.#session.timing.pingEvery;
    this.#awaited.clear();
  }

  // Pings.

  nextPing(): number {
    return this.#pingAt;
  }

  pingSoon(): void {
    if (!this.#pingAsked) {
      this.#pingAt = Math.min(this.#pingAt, this.#session.now);
    }
  }

  pingDue(): void {
    const { now, timing, requests, links } = this.#session;
    if (this.#pingAt > now || links.current() === undefined) {
      return;
    }
    this.#pingAt = now + timing.pingEvery;
    this.#pingAsked = true;
    const ended = () => {
      this.#pingAsked = false;
    };
    requests.ask(
      { action: "ping" },
      {
        answered: (result) => {
          const readable = isPingResult(result);
          if (readable) {
            ended();
            this.#again ||= result.pending;
          }
          return readable;
        },
        refused: ended,
        // The ping was about that connection only.
        lost: ended,
      },
    );
  }

  // Drains.

  /** Requests the next page when one is due. */
  drainOn(): void {
    const ack = this.#nextAck();
    if (!ack) {
      return;
    }
    this.#again = false;
    this.#drain = { is: "asked" };
    this.#session.requests.ask(ack.length > 0 ? { action: "drain", ack } : { action: "drain" }, {
      answered: (result) => {
        const page = readDrain(result);
        if (page) {
          this.#session.reports.acknowledged(ack);
          this.#drained(page);
        }
        return page !== undefined;
      },
      refused: () => this.#refused(ack),
      lost: () => {
        this.#drain = { is: "idle" };
        this.#session.reports.ackLost(ack);
        this.start();
      },
    });
  }

  /** Returns the ack of the next drain; `undefined` if no drain is due. */
  #nextAck(): Mark[] | undefined {
    if (this.#drain.is === "idle") {
      return this.#again ? this.#session.reports.take() : undefined;
    }
    if (this.#drain.is === "asked") {
      return undefined;
    }
    const { conversations } = this.#session;
    const marks = [...this.#drain.marks];
    if (!marks.every(([conversation, seq]) => conversations.isDone(conversation, seq))) {
      return undefined;
    }
    const news = marks.flatMap(([conversation, seq]) => conversations.toAcknowledge(conversation, seq));
    // The rest comes again on the next page, and the client acknowledges it then.
    const ack = news.slice(0, limits.ACK_ENTRIES_MAX);
    const isOfNoUse = marks.length === 0 || marks.some(([conversation]) => conversations.isStuck(conversation));
    if (ack.length === 0 && isOfNoUse) {
      // The next page would be this one again.
      this.#drainEnded();
      return this.#nextAck();
    }
    return ack;
  }

  #drained({ messages, more }: DrainResult): void {
    const { me, conversations } = this.#session;
    const marks = new Map(messages.map(({ conversation_id, seq }) => [conversation_id, seq]));
    if (more) {
      // An entry of this page that is kept needs no acknowledgement of its own.
      this.#drain = { is: "page", marks };
    }
    for (const message of messages) {
      conversations.arrivedPending(message, !this.#session.toldCaughtUp && message.sender_id !== me);
    }
    if (more) {
      return;
    }
    // The server posts all later entries to this connection, so the drain is complete; with a busy user it would never
    // end. The client acknowledged what the app had finished with, but that ack may have been lost.
    for (const [conversation, seq] of marks) {
      if (conversations.held(conversation) >= seq) {
        conversations.acknowledgeAgain(conversation);
      }
    }
    this.#drainEnded();
  }

  #drainEnded(): void {
    this.#drain = { is: "idle" };
    if (this.#again) {
      return;
    }
    this.#session.conversations.beginGroups();
    this.#session.links.closeOlder();
    if (this.#stage === "draining") {
      this.#stage = "listing";
      this.#newest = undefined;
      this.#askListing();
    }
  }

  /**
   * Handles a refusal of one entry of the drain's ack. The server applied the others, so the client repeats the drain
   * without an ack.
   */
  #refused(ack: Mark[]): void {
    if (ack.length === 0) {
      this.#drainEnded();
    } else {
      this.#session.reports.acknowledged(ack);
      this.#drain = { is: "idle" };
      this.#again = true;
    }
  }

  // The chat list.

  #askListing(cursor?: string): void {
    const since = this.#since === undefined ? {} : { since: aMinuteBefore(this.#since) };
    const from = cursor === undefined ? {} : { cursor };
    this.#session.requests.ask(
      { action: "inbox", limit: limits.INBOX_LIMIT_MAX, ...from, ...since },
      {
        answered: (result) => {
          const page = readInbox(result);
          if (page) {
            this.#listed(page);
          }
          return page !== undefined;
        },
        refused: () => {
          this.#stage = "repairing";
          // The client still has to find the entries of the pages that did not come.
          this.#newest = undefined;
        },
        lost: () => {
          if (this.#stage === "listing") {
            this.start();
          }
        },
      },
    );
  }

  #listed({ conversations: rows, next_cursor }: InboxResult): void {
    if (this.#stage !== "listing") {
      return;
    }
    const { outbox, conversations } = this.#session;
    outbox.rememberRows(rows);
    for (const row of rows) {
      const { conversation_id, last_message, last_seq } = row;
      if (this.#newest === undefined || this.#newest < last_message.sent_at) {
        this.#newest = last_message.sent_at;
      }
      this.#session.store({ row });
      conversations.row(row);
      this.#awaited.set(conversation_id, last_seq);
      this.#session.tell({ type: "conversation", conversation: row });
    }
    // The first list can be long. A conversation that this device does not know yet is not compared with anything.
    const enough = this.#since === undefined && conversations.known().every((id) => this.#awaited.has(id));
    if (next_cursor && !enough) {
      this.#askListing(next_cursor);
    } else {
      this.#stage = "repairing";
    }
  }

  finish(): void {
    if (this.#stage !== "repairing") {
      return;
    }
    const { conversations } = this.#session;
    for (const [conversation, seq] of this.#awaited) {
      if (conversations.held(conversation) >= seq) {
        this.#awaited.delete(conversation);
      }
    }
    const isShown = ([conversation, seq]: [string, number]) =>
      conversations.shown(conversation) >= seq || conversations.isStuck(conversation);
    if ([...this.#awaited].every(isShown) && !this.#session.toldCaughtUp) {
      this.#session.tellState({ state: "caught_up" });
    }
    // After a crash, the client must find the entries again that the app has not finished with.
    if (this.#awaited.size > 0) {
      return;
    }
    this.#stage = "done";
    if (this.#newest !== undefined && (this.#since === undefined || this.#newest > this.#since)) {
      this.#since = this.#newest;
      this.#session.save({ caughtUp: this.#newest });
    }
    this.#newest = undefined;
  }
}

/** Entries that are stored concurrently can become visible in another order than that of their times. */
function aMinuteBefore(utc: string): string {
  return new Date(Date.parse(utc) - 60_000).toISOString();
}
