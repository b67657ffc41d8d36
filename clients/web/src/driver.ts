// Executes what a session puts out: sends frames over sockets, writes changes to the storage, hands events to the app.

import { PigeonholeError } from "./errors.ts";
import type { ClientEvent, Why } from "./events.ts";
import type { Queued, Storage } from "./saved.ts";
import type { LinkId, Output, Waiter } from "./session/core.ts";
import type { Stored } from "./session/entry.ts";
import type { Session } from "./session/session.ts";
import type { Dialer, Link } from "./socket.ts";
import { StorageWriter } from "./storage/writer.ts";
import { put } from "./transfer.ts";

/** The longest time that `setTimeout` can wait. A longer timer would fire immediately. */
const TIMER_MAX = 2 ** 31 - 1;

/** Milliseconds of a clock that never goes back. */
export function clock(): number {
  return performance.now();
}

export class Driver {
  readonly session: Session;
  #dialer: Dialer;
  #writer: StorageWriter;
  #tell: (event: ClientEvent) => void;
  #links = new Map<LinkId, Link>();
  /** Bytes on their way. */
  #puts = new Map<string, AbortController>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isExecuting = false;
  /** Resolves when all outputs are executed. */
  #executed = Promise.resolve();
  #isClosed = false;
  #closing: Promise<void> | undefined;
  /** Rejects the calls without a reply, when the client is closed. */
  #waiting = new Set<(error: PigeonholeError) => void>();

  constructor(session: Session, dialer: Dialer, storage: Storage, tell: (event: ClientEvent) => void) {
    this.session = session;
    this.#dialer = dialer;
    this.#writer = new StorageWriter(storage);
    this.#tell = tell;
  }

  /** Changes the session, and executes what it puts out. */
  act(change: (session: Session, now: number) => void): void {
    if (this.#isClosed) {
      return;
    }
    change(this.session, clock());
    // If outputs are being executed already, the new ones follow them.
    if (!this.#isExecuting) {
      this.#executed = this.#execute();
    }
  }

  /** Works as `act`, for a change that has a reply. */
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
    // The app may ignore the result.
    answer.catch(() => {});
    return answer;
  }

  /** Resolves once it is in the storage; `stored` resolves once the server has stored it. */
  async send<R extends Stored>(queued: Queued): Promise<{ stored: Promise<R> }> {
    if (this.#isClosed) {
      throw closed();
    }
    await this.#writer.save([{ queued }]);
    // The reply to an addition has the type of an addition.
    const send = (session: Session, waiter: Waiter<R>, now: number) =>
      session.send(queued, waiter as Waiter<Stored>, now);
    return { stored: this.ask<R>(send) };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.act((session, now) => session.closing(now));
    await this.#executed;
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const end of this.#puts.values()) {
      end.abort();
    }
    await Promise.all([...this.#links.values()].map((link) => link.close()));
    for (const refuse of this.#waiting) {
      refuse(closed());
    }
    await this.#writer.close();
  }

  /** Saves first: the client acknowledges an entry, or completes a call, only after the storage has it. */
  async #execute(): Promise<void> {
    this.#isExecuting = true;
    for (let outputs = this.session.takeOutputs(); outputs.length > 0; outputs = this.session.takeOutputs()) {
      const changes = outputs.flatMap((output) => (output.do === "save" ? [output.change] : []));
      if (changes.length > 0) {
        await this.#writer.saveSoon(changes);
      }
      for (const output of outputs) {
        this.#do(output);
      }
    }
    this.#isExecuting = false;
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
      case "put":
        this.#put(output);
        break;
      case "abort":
        this.#puts.get(output.id)?.abort();
        this.#puts.delete(output.id);
        break;
      case "save":
        break;
    }
  }

  #dial({ link, need }: Extract<Output, { do: "dial" }>): void {
    const listener = {
      opened: (tokenLeft?: number) => this.act((session, now) => session.opened(link, now, tokenLeft)),
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

  async #put({ id, put: what }: Extract<Output, { do: "put" }>): Promise<void> {
    const end = new AbortController();
    this.#puts.set(id, end);
    const progress = (sent: number) => this.act((session, now) => session.putProgress(id, sent, now));
    const came = await put({ put: what, signal: end.signal, progress });
    // An upload that was aborted here is out of the map already.
    if (!end.signal.aborted) {
      this.#puts.delete(id);
      this.act((session, now) => session.putEnded(id, came, now));
    }
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
