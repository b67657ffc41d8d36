// The connections: when one is opened, which one carries requests, when one is closed.
//
// There is one, usually. Before API Gateway ends it a second one is opened; once that one has drained, the first is
// closed. Frames of both are handled meanwhile.

import type { TokenNeed } from "../config.ts";
import type { Why } from "../events.ts";
import type { LinkId, Session } from "./session.ts";

interface Link {
  lastFrameAt: number;
  replaceAt: number;
}

export class Links {
  toldCaughtUp = false;
  #session: Session;
  /** The oldest first. */
  #open = new Map<LinkId, Link>();
  #dialing: LinkId | undefined;
  #dialAt: number | undefined;
  #need: TokenNeed = "connect";
  /** A token was refused, and another has been asked for. */
  #freshAsked = false;
  /** Tries to connect since the server last sent anything. */
  #attempt = 0;
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

  /** When a connection has owed an answer in silence for too long. */
  nextSilence(): number {
    return Math.min(...[...this.#open].map(([id, link]) => this.#silentAt(id, link)));
  }

  #silentAt(id: LinkId, link: Link): number {
    const owedSince = this.#session.requests.owedSince(id);
    return Math.max(owedSince, link.lastFrameAt) + this.#session.timing.silenceMax;
  }

  opened(id: LinkId): void {
    const session = this.#session;
    if (this.#dialing !== id) {
      session.output({ do: "close", link: id });
      return;
    }
    const { lifetime, lifetimeJitter } = session.timing;
    const age = Math.max(lifetime - lifetimeJitter * session.random(), lifetime / 2);
    const first = this.#open.size === 0;
    this.#open.set(id, { lastFrameAt: session.now, replaceAt: session.now + age });
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

  dialFailed(id: LinkId, why: Why): void {
    if (this.#dialing !== id) {
      return;
    }
    this.#dialing = undefined;
    if (why.reason === "token_refused") {
      this.#need = "refused";
      // The token may just be old: the app is asked for a new one, once, before the failure is reported.
      if (!this.#freshAsked) {
        this.#freshAsked = true;
        this.#dialAt = this.#session.now;
        return;
      }
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

  frameArrived(id: LinkId): void {
    const link = this.#open.get(id);
    if (!link) {
      return;
    }
    link.lastFrameAt = this.#session.now;
    // The back-off starts again only when the server answers on the newest connection: an old one says nothing about whether
    // a new one can be opened.
    if (this.#dialing === undefined && this.#dialAt === undefined) {
      this.#attempt = 0;
    }
  }

  /** Closes all connections but the newest, which has drained. */
  closeReplaced(): void {
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
    this.#lastId += 1;
    this.#dialing = this.#lastId;
    this.#dialAt = undefined;
    if (this.#open.size === 0) {
      this.#session.tellState({ state: "connecting" });
    }
    this.#session.output({ do: "dial", link: this.#lastId, need: this.#need });
  }

  /** If the next try waits, it is made now. */
  dialSoon(): void {
    this.#attempt = 0;
    if (this.#dialAt !== undefined) {
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
    const { reconnectFirst, reconnectMax } = this.#session.timing;
    const retryInMs = this.#session.jitter(reconnectFirst, reconnectMax, this.#attempt);
    this.#attempt += 1;
    this.#dialAt = this.#session.now + retryInMs;
    if (this.#open.size === 0) {
      this.#session.tellState({ state: "offline", why, retryInMs });
    }
  }
}
