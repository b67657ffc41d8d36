// Requests without an answer yet.

import { PigeonholeError } from "../errors.ts";
import type { Problem, Request } from "../frames.ts";
import { requestFrame } from "../protocol.ts";
import type { LinkId, Session } from "./session.ts";

/** The upper bound on `retry_after_ms`. Of first messages to strangers the server lets one through in 3 minutes. */
const RETRY_AFTER_MAX = 5 * 60 * 1000;

/** What to do with the answer to a request. */
export interface Asker {
  /** `false`: the result can't be read. The request is sent again. */
  answered(result: unknown): boolean;
  /** For good; or, of what only the asker can mend, not before so many milliseconds. */
  refused(error: PigeonholeError, retryAfter?: number): void;
  /** The connection is gone, so no answer will come. The asker asks again, if it still wants to. */
  lost(): void;
}

interface Asked {
  request: Request;
  asker: Asker;
  link: LinkId;
  since: number;
  retryAt: number;
  attempts: number;
  /** Refused for now: no answer is owed until it is sent again. */
  isPutOff: boolean;
}

/** The wait for an answer grows from 5 s to 40 s. */
const ANSWER_WAIT_DOUBLINGS_MAX = 3;

export class Requests {
  #session: Session;
  #asked = new Map<number, Asked>();
  #lastId = 0;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Since when an answer is owed on this connection; never, if none is. */
  owedSince(link: LinkId): number {
    const owed = this.#on(link).filter(([, { isPutOff }]) => !isPutOff);
    return Math.min(...owed.map(([, { since }]) => since));
  }

  nextRetry(): number {
    return Math.min(...[...this.#asked.values()].map(({ retryAt }) => retryAt));
  }

  /** Only while there is a connection. */
  ask(request: Request, asker: Asker): void {
    const link = this.#session.links.current();
    if (link === undefined) {
      return;
    }
    const { now, timing } = this.#session;
    this.#lastId += 1;
    this.#session.output({ do: "send", link, frame: requestFrame(request, this.#lastId) });
    const retryAt = now + timing.answerWait;
    this.#asked.set(this.#lastId, { request, asker, link, since: now, retryAt, attempts: 0, isPutOff: false });
  }

  /** Nobody waits for it any more. Put off, it would be sent later, and count. */
  withdraw(request: Request): void {
    for (const [id, asked] of this.#asked) {
      if (asked.request === request) {
        this.#asked.delete(id);
      }
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
    // What is of the outbox waits for its time on the next connection, too. All else is asked anew there.
    const gone = this.#on(link).filter(([, { isPutOff, request }]) => !(isPutOff && isOfOutbox(request)));
    for (const [id] of gone) {
      this.#asked.delete(id);
    }
    // In reverse, because some are put back at the front of a queue.
    for (const [, { asker }] of gone.reverse()) {
      asker.lost();
    }
  }

  answered(id: string | undefined, result: unknown): void {
    const number = Number(id);
    const asked = this.#asked.get(number);
    if (!asked) {
      // A second answer to a request that was sent twice.
      return;
    }
    this.#asked.delete(number);
    if (!asked.asker.answered(result)) {
      asked.retryAt = this.#session.now + this.#answerWait(asked);
      this.#asked.set(number, asked);
    }
  }

  refused(id: string | undefined, problem: Problem): void {
    const number = Number(id);
    const asked = this.#asked.get(number);
    if (!asked) {
      return;
    }
    if (problem.retryable && !isForAsker(asked.request, problem)) {
      const wish = Math.min(problem.retry_after_ms ?? 0, RETRY_AFTER_MAX);
      asked.retryAt = this.#session.now + Math.max(this.#pause(asked), wish);
      asked.isPutOff = true;
      return;
    }
    this.#asked.delete(number);
    asked.asker.refused(new PigeonholeError(problem.code, problem.message), problem.retry_after_ms);
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

/** What is not ready has to be put again, perhaps: to ask again is not enough. */
function isForAsker({ action }: Request, { code }: Problem): boolean {
  return action === "uploaded" && code === "not_ready";
}

function isOfOutbox(request: Request): boolean {
  return "client_msg_id" in request;
}
