// Requests without a reply yet.

import { PigeonholeError } from "../errors.ts";
import type { Problem, Request } from "../frames.ts";
import { requestFrame } from "../protocol.ts";
import type { Core, LinkId } from "./core.ts";

/** The upper bound on `retry_after_ms`. The server accepts one first message to a stranger in 3 minutes. */
const RETRY_AFTER_MAX = 5 * 60 * 1000;

/** The server carries out no try for longer: API Gateway waits 29 s for a function. */
export const TRY_MAX = 30 * 1000;

/** The sender of a request, with its reactions to the outcome. */
export interface Asker {
  /** `false`: the result can't be read. The request is sent again. */
  answered(result: unknown): boolean;
  /**
   * The server refused the request: for good, or, if only the asker can fix the cause, until `retryAfter` milliseconds
   * have passed.
   */
  refused(error: PigeonholeError, retryAfter?: number): void;
  /**
   * The connection is gone, so no reply will come. The asker repeats the request if it is still needed. The server can
   * carry out a try until `runsUntil`.
   */
  lost(runsUntil: number): void;
}

interface Asked {
  request: Request;
  asker: Asker;
  link: LinkId;
  since: number;
  retryAt: number;
  attempts: number;
  /** Postponed: the server owes no reply until the request is sent again. */
  isPutOff: boolean;
  /** The time of the last try, and the number of tries without a reply. */
  sentAt: number;
  unanswered: number;
  /** The server can carry out a try whose reply is lost until then. */
  lostUntil: number;
}

/** The wait for a reply grows from 5 s to 40 s. */
const ANSWER_WAIT_DOUBLINGS_MAX = 3;

/** The session, as this part knows it. */
interface Session extends Core {
  readonly links: { current(): LinkId | undefined };
  readonly outbox: { conversationOf(request: Request): string | undefined };
  readonly reports: {
    fuse(conversation: string): number | undefined;
    fused(conversation: string, seq: number, result: unknown): void;
    fuseLost(conversation: string): void;
    connectionEnded(): void;
  };
}

export class Requests {
  #session: Session;
  #asked = new Map<number, Asked>();
  #lastId = 0;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Returns since when the server owes a reply on this connection; never, if it owes none. */
  owedSince(link: LinkId): number {
    const owed = this.#on(link).filter(([, { isPutOff }]) => !isPutOff);
    return Math.min(...owed.map(([, { since }]) => since));
  }

  nextRetry(): number {
    return Math.min(...[...this.#asked.values()].map(({ retryAt }) => retryAt));
  }

  /**
   * Sends a request, only while the client has a connection. The server can carry out an earlier try until `lostUntil`.
   */
  ask(request: Request, asker: Asker, lostUntil = 0): void {
    const link = this.#session.links.current();
    if (link === undefined) {
      return;
    }
    const { now, timing, keeper } = this.#session;
    const asked = this.#withRead(request, asker);
    if (keeper === "store" && letsForget(asked.request)) {
      this.#session.mustLast();
    }
    this.#lastId += 1;
    this.#session.output({ do: "send", link, frame: requestFrame(asked.request, this.#lastId) });
    const retryAt = now + timing.answerWait;
    const sent = { since: now, retryAt, attempts: 0, isPutOff: false, sentAt: now, unanswered: 1, lostUntil };
    this.#asked.set(this.#lastId, { ...asked, link, ...sent });
  }

  /** Adds the read mark to a message that takes it along. */
  #withRead(request: Request, asker: Asker): { request: Request; asker: Asker } {
    const { outbox, reports } = this.#session;
    const conversation = request.action === "send" ? outbox.conversationOf(request) : undefined;
    const read = conversation === undefined ? undefined : reports.fuse(conversation);
    if (request.action !== "send" || conversation === undefined || read === undefined) {
      return { request, asker };
    }
    return {
      request: { ...request, read },
      asker: {
        answered: (result) => {
          const isRead = asker.answered(result);
          if (isRead) {
            reports.fused(conversation, read, result);
          }
          return isRead;
        },
        refused: (error, retryAfter) => {
          reports.fuseLost(conversation);
          asker.refused(error, retryAfter);
        },
        lost: (runsUntil) => {
          reports.fuseLost(conversation);
          asker.lost(runsUntil);
        },
      },
    };
  }

  /** Drops a request whose reply nothing awaits. A postponed one would be sent later, and count. */
  withdraw(request: Request): void {
    for (const [id, asked] of this.#asked) {
      if (asked.request === request) {
        this.#asked.delete(id);
      }
    }
  }

  /** Repeats a request that went over HTTP, and has no reply there. */
  retryNow(id: number): void {
    const asked = this.#asked.get(id);
    if (asked) {
      asked.retryAt = 0;
    }
  }

  resendDue(): void {
    const { now, links, stats } = this.#session;
    const current = links.current();
    if (current === undefined) {
      return;
    }
    for (const [id, asked] of this.#asked) {
      if (asked.retryAt > now) {
        continue;
      }
      asked.attempts += 1;
      asked.retryAt = now + this.#answerWait(asked);
      if (asked.link !== current) {
        asked.lostUntil = runsUntil(asked);
        asked.unanswered = 0;
      }
      asked.unanswered = (now >= asked.sentAt + TRY_MAX ? 0 : asked.unanswered) + 1;
      asked.sentAt = now;
      if (asked.link !== current || asked.isPutOff) {
        asked.link = current;
        asked.since = now;
        asked.isPutOff = false;
      }
      if (isOfOutbox(asked.request)) {
        stats.resent += 1;
      }
      this.#session.output({ do: "send", link: current, frame: requestFrame(asked.request, id) });
    }
  }

  retryAllSoon(link: LinkId): void {
    for (const [, asked] of this.#on(link)) {
      if (!asked.isPutOff) {
        asked.retryAt = Math.min(asked.retryAt, this.#session.now + this.#pause(asked));
      }
    }
  }

  forgetAskedOn(link: LinkId): void {
    // Another server may be behind the next connection, and marks don't wait for it.
    this.#session.reports.connectionEnded();
    // A request of the outbox also waits for its time on the next connection. All other requests are sent again there.
    const gone = this.#on(link).filter(([, { isPutOff, request }]) => !(isPutOff && isOfOutbox(request)));
    for (const [id] of gone) {
      this.#asked.delete(id);
    }
    // In reverse, because some are put back at the front of a queue.
    for (const [, asked] of gone.reverse()) {
      asked.asker.lost(runsUntil(asked));
    }
  }

  answered(id: string | undefined, result: unknown): void {
    const number = Number(id);
    const asked = this.#asked.get(number);
    if (!asked) {
      // A second reply to a request that was sent twice.
      return;
    }
    this.#asked.delete(number);
    if (!asked.asker.answered(result)) {
      asked.retryAt = this.#session.now + this.#answerWait(asked);
      asked.unanswered = Math.max(asked.unanswered - 1, 0);
      this.#asked.set(number, asked);
    }
  }

  refused(id: string | undefined, problem: Problem): void {
    const number = Number(id);
    const asked = this.#asked.get(number);
    if (!asked) {
      return;
    }
    asked.unanswered = Math.max(asked.unanswered - 1, 0);
    const until = runsUntil(asked);
    const isFinal = !problem.retryable && isOfOutbox(asked.request) && !hasEnded(asked.request, problem);
    if (isFinal && until > this.#session.now) {
      // The server may still store another try. The reply counts that comes when no try is left.
      asked.retryAt = until;
      asked.isPutOff = true;
      return;
    }
    if (problem.retryable && !isForAsker(asked.request, problem)) {
      const wish = Math.min(problem.retry_after_ms ?? 0, RETRY_AFTER_MAX);
      asked.retryAt = this.#session.now + Math.max(this.#pause(asked), wish);
      asked.isPutOff = true;
      return;
    }
    this.#asked.delete(number);
    // The filter's reason is for the user.
    asked.asker.refused(new PigeonholeError(problem.code, problem.reason || problem.message), problem.retry_after_ms);
  }

  /** Twice as long each time: at a fixed interval, a slow server would get ever more requests. */
  #answerWait({ attempts }: Asked): number {
    return this.#session.timing.answerWait * 2 ** Math.min(attempts, ANSWER_WAIT_DOUBLINGS_MAX);
  }

  #pause({ attempts }: Asked): number {
    const { retryFirst, answerWait } = this.#session.timing;
    return this.#session.jitter(retryFirst, answerWait, attempts);
  }

  #on(link: LinkId): [number, Asked][] {
    return [...this.#asked].filter(([, asked]) => asked.link === link);
  }
}

/** Returns whether the server may forget entries after the request, which the store must have then. */
function letsForget(request: Request): boolean {
  const { action } = request;
  const hasMarks = action === "send" ? request.read !== undefined : action === "ack" || action === "read";
  return hasMarks || (action === "drain" && (request.ack ?? []).length > 0);
}

/** A file that is not ready may need a new PUT: repeating the request is not enough. */
function isForAsker({ action }: Request, { code }: Problem): boolean {
  return action === "uploaded" && code === "not_ready";
}

/**
 * The announcement of the message's file has expired: no other try can have stored the message, and its asker uploads
 * it again.
 */
function hasEnded(request: Request, { code }: Problem): boolean {
  return "media" in request && code === "gone";
}

/** Returns until when the server can carry out a try without a reply. */
function runsUntil({ unanswered, sentAt, lostUntil }: Asked): number {
  return Math.max(lostUntil, unanswered > 0 ? sentAt + TRY_MAX : 0);
}

function isOfOutbox(request: Request): boolean {
  return "client_msg_id" in request;
}
