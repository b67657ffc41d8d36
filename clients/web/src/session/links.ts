// The connections: when the client opens one, which one carries requests, and when the client closes one.
//
// Usually there is one connection. Before API Gateway closes it, the client opens a second one, drains there, and
// closes the first. The client handles the frames of both meanwhile.

import type { TokenNeed } from "../config.ts";
import type { Why } from "../events.ts";
import type { CatchUp } from "./catch-up.ts";
import type { Core, LinkId } from "./core.ts";
import type { Requests } from "./requests.ts";

/** The client replaces a connection this long before its token expires. */
const TOKEN_MARGIN = 60_000;
/** Up to this part of the token's time earlier, at random: many tokens may be made at the same moment. */
const TOKEN_JITTER = 0.1;
/**
 * The client requests the first replacement of an expiring token within this time, each further one within twice the
 * previous time.
 */
const STALE_TOKEN_PAUSE = 30_000;
/** The number of requests to the app that may return the same token. */
const STALE_TOKENS_MAX = 3;
/** After this number of failures in a row without a reason from the platform, the server counts as overloaded. */
const UNKNOWN_FAILURES_MAX = 6;

interface Link {
  lastFrameAt: number;
  replaceAt: number;
  /** The kind of token to request at the replacement. */
  replaceNeed: TokenNeed;
}

/** The session, as this part knows it. */
interface Session extends Core {
  readonly requests: Requests;
  readonly catchUp: CatchUp;
}

export class Links {
  #session: Session;
  /** The oldest first. */
  #open = new Map<LinkId, Link>();
  #dialing: LinkId | undefined;
  #dialAt: number | undefined;
  #need: TokenNeed = "connect";
  /** The server refused a token, and the client has requested another one. */
  #freshAsked = false;
  /** Tries to connect since the server last served. */
  #attempt = 0;
  /** Connections in a row whose token was about to end. */
  #staleTokens = 0;
  #opened = 0;
  #lastId = 0;

  constructor(session: Session) {
    this.#session = session;
    this.#dialAt = session.now;
  }

  /** The one for new requests: the newest. */
  current(): LinkId | undefined {
    return [...this.#open.keys()].at(-1);
  }

  /** When the next connection is to be opened. */
  nextDial(): number {
    if (this.#dialing !== undefined) {
      return Number.POSITIVE_INFINITY;
    }
    return this.#dialAt ?? [...this.#open.values()].at(-1)?.replaceAt ?? Number.POSITIVE_INFINITY;
  }

  /** None is open, being opened or planned: this device is one too many, and waits for its user. */
  isReplaced(): boolean {
    return this.#open.size === 0 && this.#dialing === undefined && this.#dialAt === undefined;
  }

  /** Returns when a silent connection has owed a reply for too long. */
  nextSilence(): number {
    return Math.min(...[...this.#open].map(([id, link]) => this.#silentAt(id, link)));
  }

  #silentAt(id: LinkId, link: Link): number {
    const owedSince = this.#session.requests.owedSince(id);
    return Math.max(owedSince, link.lastFrameAt) + this.#session.timing.silenceMax;
  }

  opened(id: LinkId, tokenLeft: number | undefined): void {
    const session = this.#session;
    if (this.#dialing !== id) {
      session.output({ do: "close", link: id });
      return;
    }
    const { age, replaceNeed } = this.#replacement(tokenLeft);
    const first = this.#open.size === 0;
    this.#open.set(id, { lastFrameAt: session.now, replaceAt: session.now + age, replaceNeed });
    this.#dialing = undefined;
    this.#dialAt = undefined;
    this.#need = "connect";
    this.#freshAsked = false;
    this.#opened += 1;
    if (this.#opened > 1) {
      session.stats.reconnects += 1;
    }
    if (first) {
      session.tellState({ state: "online" });
    }
    session.catchUp.start();
  }

  /** At which age a connection is replaced, and by one with which token. */
  #replacement(tokenLeft: number | undefined): { age: number; replaceNeed: TokenNeed } {
    const { timing, random } = this.#session;
    const lifetime = Math.max(timing.lifetime - timing.lifetimeJitter * random(), timing.lifetime / 2);
    let age = lifetime;
    if (tokenLeft !== undefined && tokenLeft > TOKEN_MARGIN) {
      this.#staleTokens = 0;
      age = (tokenLeft - TOKEN_MARGIN) * (1 - TOKEN_JITTER * random());
    } else if (tokenLeft !== undefined && this.#staleTokens < STALE_TOKENS_MAX) {
      // The app may have no newer token: the client requests one a few more times, and then the server closes the
      // connection.
      age = this.#session.jitter(STALE_TOKEN_PAUSE, Number.POSITIVE_INFINITY, this.#staleTokens);
      this.#staleTokens += 1;
    }
    return age < lifetime ? { age, replaceNeed: "expired" } : { age: lifetime, replaceNeed: "connect" };
  }

  dialFailed(id: LinkId, why: Why): void {
    if (this.#dialing !== id) {
      return;
    }
    this.#dialing = undefined;
    if (why.reason === "token_refused") {
      this.#need = "refused";
      // The token may only be old: the client requests a new one once before it reports the failure.
      if (!this.#freshAsked) {
        this.#freshAsked = true;
        this.#dialAt = this.#session.now;
        return;
      }
    } else if (why.reason !== "no_token" && why.reason !== "wrong_user") {
      // The client has a token, and nothing is wrong with it.
      this.#need = "connect";
    }
    this.#dialLater(why);
  }

  lost(id: LinkId, why: Why): void {
    if (!this.#open.delete(id)) {
      return;
    }
    this.#session.requests.forgetAskedOn(id);
    if (this.#dialing !== undefined) {
      if (this.#open.size === 0) {
        this.#session.tellState({ state: "connecting" });
      }
    } else if (this.#open.size === 0 || this.#isDialDue()) {
      this.#dialLater(why);
    }
  }

  tokenExpired(id: LinkId): void {
    if (this.#open.has(id)) {
      this.#need = "expired";
      this.#session.output({ do: "close", link: id });
    }
    this.lost(id, { reason: "token_expired" });
  }

  /** The user has opened too many connections since, and the server closes this one. */
  replaced(id: LinkId): void {
    const session = this.#session;
    if (this.current() === id) {
      this.closeOlder();
      this.#dialAt = undefined;
      if (this.#dialing !== undefined) {
        session.output({ do: "close", link: this.#dialing });
        this.#dialing = undefined;
      }
    }
    if (!this.#open.delete(id)) {
      return;
    }
    session.output({ do: "close", link: id });
    session.requests.forgetAskedOn(id);
    if (this.isReplaced()) {
      session.tellState({ state: "replaced" });
    }
  }

  frameArrived(id: LinkId, isService: boolean): void {
    const link = this.#open.get(id);
    if (!link) {
      return;
    }
    link.lastFrameAt = this.#session.now;
    // Only a reply on the newest connection resets the back-off: an old connection does not show that a new one can be
    // opened.
    if (isService && this.#dialing === undefined && this.#dialAt === undefined) {
      this.#attempt = 0;
    }
  }

  /** Closes all connections but the newest. */
  closeOlder(): void {
    for (const id of [...this.#open.keys()].slice(0, -1)) {
      this.#open.delete(id);
      this.#session.output({ do: "close", link: id });
      this.#session.requests.forgetAskedOn(id);
    }
  }

  dialDue(): void {
    if (!this.#isDialDue()) {
      return;
    }
    if (this.#dialAt === undefined) {
      this.#need = [...this.#open.values()].at(-1)?.replaceNeed ?? this.#need;
    }
    this.#lastId += 1;
    this.#dialing = this.#lastId;
    this.#dialAt = undefined;
    if (this.#open.size === 0) {
      this.#session.tellState({ state: "connecting" });
    }
    this.#session.output({ do: "dial", link: this.#lastId, need: this.#need });
  }

  /** If the next try waits, for its time or for the user, it is made now. */
  dialSoon(): void {
    this.#attempt = 0;
    if (this.isReplaced()) {
      this.#dialAt = this.#session.now;
    } else if (this.#dialAt !== undefined) {
      this.#dialAt = Math.min(this.#dialAt, this.#session.now);
    }
  }

  closeSilent(): void {
    for (const [id, link] of [...this.#open]) {
      if (this.#open.has(id) && this.#silentAt(id, link) <= this.#session.now) {
        this.#session.output({ do: "close", link: id });
        this.lost(id, { reason: "silent" });
      }
    }
  }

  #isDialDue(): boolean {
    return this.nextDial() <= this.#session.now;
  }

  #dialLater(why: Why): void {
    const { reconnectFirst, reconnectMax, reconnectBusyMax } = this.#session.timing;
    const max = this.#isOverloaded(why) ? reconnectBusyMax : reconnectMax;
    const retryInMs = this.#session.jitter(reconnectFirst, max, this.#attempt);
    this.#attempt += 1;
    this.#dialAt = this.#session.now + retryInMs;
    if (this.#open.size === 0) {
      this.#session.tellState({ state: "offline", why, retryInMs });
    }
  }

  #isOverloaded({ reason, status = 0, detail = "" }: Why): boolean {
    // Browsers give no reason. Other platforms report that the response was not 101, whether for its status or for the
    // network.
    const isUnknown = reason === "unreachable" && (detail === "" || /\b101 (status|response)/.test(detail));
    return status === 429 || status >= 500 || (isUnknown && this.#attempt >= UNKNOWN_FAILURES_MAX);
  }
}
