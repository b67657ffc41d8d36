// Drives a session: carries its frames over sockets, its changes to the storage, its events to the app.

import { PigeonholeError } from "./errors.ts";
import type { ClientEvent, Why } from "./events.ts";
import type { SendResult } from "./frames.ts";
import type { LinkId, Output, Session, Waiter } from "./session/session.ts";
import type { Dialer, Link } from "./socket.ts";
import { Keeper } from "./storage/keeper.ts";
import type { Queued, Storage } from "./storage/storage.ts";

/** A longer timer would not wait at all. */
const TIMER_MAX = 2 ** 31 - 1;

/** Milliseconds, of a clock that never goes back. */
export function clock(): number {
  return performance.now();
}

export class Driver {
  readonly session: Session;
  #dialer: Dialer;
  #keeper: Keeper;
  #tell: (event: ClientEvent) => void;
  #links = new Map<LinkId, Link>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isCarrying = false;
  /** Done when everything is carried out. */
  #carried = Promise.resolve();
  #isClosed = false;
  #closing: Promise<void> | undefined;
  /** What those who wait for an answer are told once the client is closed. */
  #waiting = new Set<(error: PigeonholeError) => void>();

  constructor(session: Session, dialer: Dialer, storage: Storage, tell: (event: ClientEvent) => void) {
    this.session = session;
    this.#dialer = dialer;
    this.#keeper = new Keeper(storage);
    this.#tell = tell;
  }

  /** Lets something happen in the session, and does what comes of it. */
  act(change: (session: Session, now: number) => void): void {
    if (this.#isClosed) {
      return;
    }
    change(this.session, clock());
    // If that is being done already, this comes after it.
    if (!this.#isCarrying) {
      this.#carried = this.#carryOut();
    }
  }

  /** As `act`, with an answer to come. */
  ask<T>(change: (session: Session, waiter: Waiter<T>, now: number) => void): Promise<T> {
    const answer = new Promise<T>((resolve, reject) => {
      const refuse = (error: PigeonholeError) => {
        this.#waiting.delete(refuse);
        reject(error);
      };
      const accept = (value: T) => {
        this.#waiting.delete(refuse);
        resolve(value);
      };
      if (this.#isClosed) {
        refuse(closed());
        return;
      }
      this.#waiting.add(refuse);
      this.act((session, now) => change(session, { resolve: accept, reject: refuse }, now));
    });
    // An app need not wait for it.
    answer.catch(() => {});
    return answer;
  }

  /** Done once the message is safe; what it gives is done once the server has stored it. */
  async send(queued: Queued): Promise<{ stored: Promise<SendResult> }> {
    if (this.#isClosed) {
      throw closed();
    }
    await this.#keeper.save([{ queued }]);
    return { stored: this.ask<SendResult>((session, waiter, now) => session.send(queued, waiter, now)) };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.act((session, now) => session.leaving(now));
    await this.#carried;
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await Promise.all([...this.#links.values()].map((link) => link.close()));
    for (const refuse of this.#waiting) {
      refuse(closed());
    }
    await this.#keeper.close();
  }

  /** What is to be remembered comes first: a message is not acknowledged, and no answer told, before that is. */
  async #carryOut(): Promise<void> {
    this.#isCarrying = true;
    for (let outputs = this.session.takeOutputs(); outputs.length > 0; outputs = this.session.takeOutputs()) {
      const changes = outputs.flatMap((output) => (output.do === "save" ? [output.change] : []));
      if (changes.length > 0) {
        await this.#keeper.saveSoon(changes);
      }
      for (const output of outputs) {
        this.#do(output);
      }
    }
    this.#isCarrying = false;
    this.#setTimer();
  }

  #do(output: Output): void {
    switch (output.do) {
      case "dial":
        this.#dial(output);
        break;
      case "send":
        this.#links.get(output.link)?.send(output.frame);
        break;
      case "close":
        this.#links.get(output.link)?.close();
        this.#links.delete(output.link);
        break;
      case "tell":
        this.#tell(output.event);
        break;
      case "answer":
        output.settle();
        break;
      case "save":
        break;
    }
  }

  #dial({ link, need }: Extract<Output, { do: "dial" }>): void {
    const listener = {
      opened: () => this.act((session, now) => session.opened(link, now)),
      frame: (text: string) => this.act((session, now) => session.received(link, text, now)),
      failed: (why: Why) => {
        this.#links.delete(link);
        this.act((session, now) => session.dialFailed(link, why, now));
      },
      ended: (why: Why) => {
        this.#links.delete(link);
        this.act((session, now) => session.lost(link, why, now));
      },
    };
    this.#links.set(link, this.#dialer.dial(need, listener));
  }

  #setTimer(): void {
    clearTimeout(this.#timer);
    const wait = this.session.nextTick() - clock();
    if (!this.#isClosed && wait < Number.POSITIVE_INFINITY) {
      const tick = () => this.act((session, now) => session.tick(now));
      this.#timer = setTimeout(tick, Math.min(Math.max(Math.ceil(wait), 0), TIMER_MAX));
    }
  }
}

function closed(): PigeonholeError {
  return new PigeonholeError("closed", "the client is closed");
}
