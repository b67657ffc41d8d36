// Keeps the watch of other users' presence, for the users of the app's last `presence` with `watch`. On the server a watch
// belongs to a connection and ends after ten minutes, so the client renews it: on each connection, and in time.

import { isPresenceResult, limits, type PresenceRequest } from "../frames.ts";
import type { Core, LinkId } from "./core.ts";
import type { Requests } from "./requests.ts";

/** The time from a reply to the renewal. */
const RENEWED_AFTER = limits.PRESENCE_WATCH_MS - 60_000;

/** The session, as this part knows it. */
interface Session extends Core {
  readonly links: { current(): LinkId | undefined };
  readonly requests: Requests;
}

interface Watch {
  request: PresenceRequest;
  /** The connection that watches, or has an unanswered request to watch. */
  link: LinkId | undefined;
  /** When to renew. `undefined`: a renewal is unanswered. */
  at: number | undefined;
}

export class Presences {
  #session: Session;
  #watch: Watch | undefined;

  constructor(session: Session) {
    this.#session = session;
  }

  next(): number {
    return this.#watch?.at ?? Number.POSITIVE_INFINITY;
  }

  /** The server has replied to the app's request. */
  answered({ user_ids, watch }: PresenceRequest): void {
    if (watch) {
      const { now, links } = this.#session;
      const request: PresenceRequest = { action: "presence", user_ids, watch };
      this.#watch = { request, link: links.current(), at: now + RENEWED_AFTER };
    }
  }

  /** The app no longer shows the users whose presence it watched. */
  forget(): void {
    this.#watch = undefined;
  }

  ask(): void {
    const watch = this.#watch;
    const { now, links, requests } = this.#session;
    if (watch === undefined || (watch.link === links.current() && !((watch.at ?? now + 1) <= now))) {
      return;
    }
    watch.link = links.current();
    watch.at = undefined;
    requests.ask(watch.request, {
      answered: (result) => {
        if (!isPresenceResult(result)) {
          return false;
        }
        watch.at = this.#session.now + RENEWED_AFTER;
        for (const presence of result.users) {
          this.#session.tell({ type: "presence", ...presence });
        }
        return true;
      },
      refused: () => {
        if (this.#watch === watch) {
          this.#watch = undefined;
        }
      },
      lost: () => {
        watch.link = undefined;
      },
    });
  }
}
