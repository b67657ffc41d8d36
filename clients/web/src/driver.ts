// Runs the turns of a session: commits the writes, and then carries out the outputs.

import type { Shown, ViewId } from "./chat/views.ts";
import { guarded, PigeonholeError } from "./errors.ts";
import type { ClientEvent, Why } from "./events.ts";
import type { Queued } from "./saved.ts";
import type { LinkId, Output, Step } from "./session/core.ts";
import type { Stored } from "./session/entry.ts";
import type { Session } from "./session/session.ts";
import type { Waiter } from "./session/waiter.ts";
import type { Dialer, Link, TakePosted } from "./socket.ts";
import { MESSAGES_MAX, type Store } from "./store/store.ts";
import type { Found } from "./store/types.ts";
import { carried, put } from "./transfer.ts";

/** The longest time that `setTimeout` can wait. A longer timer would fire immediately. */
const TIMER_MAX = 2 ** 31 - 1;

/** A client tidies its store when nothing has happened for this time. */
const TIDY_AFTER = 2000;

/** Milliseconds of a clock that never goes back. */
export function clock(): number {
  return performance.now();
}

/** The app, as the driver knows it. */
export interface App {
  tell(event: ClientEvent): void;
  /** Draws a view. */
  show?(view: ViewId, shown: Shown): void;
  /** Removes the file of an attachment, which the store no longer needs. */
  removeFile?(path: string): Promise<void>;
  /** Another client has taken the store over, and this one can write no more. */
  taken?(): void;
}

export class Driver {
  readonly session: Session;
  readonly store: Store;
  #dialer: Dialer;
  #app: App;
  /** `Infinity` with encryption: no server can send an opened message again. */
  #messagesMax: number;
  #links = new Map<LinkId, Link>();
  /** Bytes on their way. */
  #puts = new Map<string, AbortController>();
  /** Ends the transfers of files of the encryption. */
  #carries = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #tidyTimer: ReturnType<typeof setTimeout> | undefined;
  #isExecuting = false;
  /** Resolves when all outputs are executed. */
  #executed = Promise.resolve();
  #isClosed = false;
  #closing: Promise<void> | undefined;
  /** Rejects the calls without a reply, when the client is closed. */
  #waiting = new Set<(error: PigeonholeError) => void>();
  /** The requests for the outbox in the next commit. */
  #kept: (() => void)[] = [];
  /** The last commit has failed for this reason, and is tried again. `end` ends that. */
  #stuck: { cause: unknown; end: () => void } | undefined;

  constructor(session: Session, dialer: Dialer, store: Store, app: App, messagesMax = MESSAGES_MAX) {
    this.session = session;
    this.store = store;
    this.#dialer = dialer;
    this.#app = app;
    this.#messagesMax = messagesMax;
  }

  /** Changes the session, and executes what it puts out. */
  act(change: (session: Session, now: number) => void): void {
    if (this.#isClosed) {
      return;
    }
    this.session.wall = new Date().toISOString();
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
    if (this.#stuck) {
      const { cause } = this.#stuck;
      throw new PigeonholeError("storage", "the outbox can't be written", { cause });
    }
    let stored: Promise<R> | undefined;
    await new Promise<void>((resolve, reject) => {
      const refuse = (error: PigeonholeError) => reject(error);
      if (this.#isClosed) {
        refuse(closed());
        return;
      }
      this.#waiting.add(refuse);
      this.#kept.push(() => {
        this.#waiting.delete(refuse);
        resolve();
      });
      // The reply to an addition has the type of an addition.
      stored = this.ask<R>((session, waiter, now) => session.keep(queued, waiter as Waiter<Stored>, now));
    });
    return { stored: stored as Promise<R> };
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Ends now, without a word to the server. Requests without a reply wait on, for the client that follows. */
  async stop(): Promise<void> {
    this.#closing ??= Promise.resolve();
    this.#isClosed = true;
    this.#stuck?.end();
    this.#end();
    await this.store.close();
  }

  #end(): Promise<unknown> {
    clearTimeout(this.#timer);
    clearTimeout(this.#tidyTimer);
    this.#carries.abort();
    for (const end of this.#puts.values()) {
      end.abort();
    }
    return Promise.all([...this.#links.values()].map((link) => link.close()));
  }

  async #close(): Promise<void> {
    this.#dialer.isClosing = true;
    if (!this.#stuck) {
      this.act((session, now) => session.closing(now));
    }
    this.#stuck?.end();
    await this.#executed;
    this.#isClosed = true;
    await this.#end();
    for (const refuse of this.#waiting) {
      refuse(closed());
    }
    await this.store.close();
  }

  /** Commits first: the client sends, acknowledges and reports nothing that the store does not have. */
  async #execute(): Promise<void> {
    this.#isExecuting = true;
    const hasMore = (step: Step) => isSomething(step) || this.#kept.length > 0;
    for (let step = this.session.takeStep(); hasMore(step); step = this.session.takeStep()) {
      const kept = this.#kept.splice(0);
      if (step.writes.length > 0 || step.lasting) {
        clearTimeout(this.#tidyTimer);
        if (!(await this.#commit(step)) || this.#isClosed) {
          return;
        }
        this.#tidySoon();
      }
      for (const resolve of kept) {
        resolve();
      }
      // Only the newest content of a view is drawn.
      const shown = new Map<ViewId, Shown>();
      for (const output of step.outputs) {
        if (output.do === "show") {
          shown.set(output.view, output.shown);
        } else {
          guarded(() => this.#do(output));
        }
      }
      for (const [view, content] of shown) {
        guarded(() => this.#app.show?.(view, content));
      }
    }
    this.#isExecuting = false;
    this.#setTimer();
  }

  /**
   * Commits a turn, and tries the same transaction again until it succeeds. Meanwhile the client has no connection.
   * Returns `false` if the client was closed before.
   */
  async #commit({ writes, lasting }: Step): Promise<boolean> {
    const links: LinkId[] = [];
    const { reconnectFirst, reconnectMax } = this.session.timing;
    for (let retryInMs = reconnectFirst; ; retryInMs = Math.min(retryInMs * 2, reconnectMax)) {
      try {
        await this.store.apply(writes, lasting);
        break;
      } catch (cause) {
        if (this.#isClosed) {
          return false;
        }
        if (cause instanceof PigeonholeError && this.#app.taken) {
          this.#app.taken();
          return false;
        }
        if (isFull(cause) && (await this.#makeRoom())) {
          continue;
        }
        for (const [id, link] of this.#links) {
          void link.close();
          links.push(id);
        }
        this.#links.clear();
        const why: Why = { reason: "storage", detail: String(cause) };
        guarded(() => this.#app.tell({ type: "state", state: "offline", why, retryInMs }));
        if (!(await this.#waitStuck(cause, retryInMs))) {
          return false;
        }
      }
    }
    const why: Why = { reason: "lost", detail: "the storage failed" };
    for (const id of links) {
      this.act((session, now) => session.dialFailed(id, why, now));
      this.act((session, now) => session.lost(id, why, now));
    }
    return true;
  }

  /** Removes half of the messages, as far as they may go. Returns whether there were any. */
  async #makeRoom(): Promise<boolean> {
    let hasRemoved = false;
    try {
      const half = Math.floor((await this.store.count()) / 2);
      while (await this.store.tidy(this.#messagesMax < Number.POSITIVE_INFINITY ? half : this.#messagesMax)) {
        hasRemoved = true;
      }
    } catch {
      // The messages that were removed have made room all the same.
    }
    return hasRemoved;
  }

  /** Waits until the next try. Returns `false` if the client is closed before. */
  async #waitStuck(cause: unknown, wait: number): Promise<boolean> {
    const goesOn = await new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(true), wait);
      const end = () => {
        clearTimeout(timer);
        resolve(false);
      };
      this.#stuck = { cause, end };
      if (this.#closing) {
        end();
      }
    });
    this.#stuck = undefined;
    return goesOn;
  }

  async #load({ load, what }: Extract<Output, { do: "load" }>): Promise<void> {
    const found = await this.store.load(what).catch((): Found => ({ found: "nothing" }));
    this.act((session, now) => session.loaded(load, found, now));
  }

  #tidySoon(): void {
    if (this.session.keeper === "store" && !this.#isClosed) {
      clearTimeout(this.#tidyTimer);
      this.#tidyTimer = setTimeout(() => this.#tidy(), TIDY_AFTER);
    }
  }

  /** Removes what the store need not keep, a part at a time. After an error, the next write finds it too. */
  async #tidy(): Promise<void> {
    try {
      for (const path of this.#app.removeFile ? await this.store.unneeded() : []) {
        await this.#app.removeFile?.(path);
        await this.store.apply([{ removed: path }], false);
      }
      if (await this.store.tidy(this.#messagesMax)) {
        this.#tidySoon();
      }
    } catch {
      // A file or a message that could not be removed is found again.
    }
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
        this.#app.tell(output.event);
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
      case "carry":
        this.#carry(output);
        break;
      case "load":
        this.#load(output);
        break;
      case "show":
        break;
    }
  }

  #dial({ link, need }: Extract<Output, { do: "dial" }>): void {
    const listener = {
      opened: (tokenLeft?: number) => this.act((session, now) => session.opened(link, now, tokenLeft)),
      frame: (text: string) => this.act((session, now) => session.received(link, text, now)),
      posted: (take: TakePosted) => this.act((session, now) => take(session, link, now)),
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

  async #carry({ carry, what }: Extract<Output, { do: "carry" }>): Promise<void> {
    const data = await carried(what, this.#carries.signal).catch(() => undefined);
    this.act((session, now) => session.carried(carry, data, now));
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

/** Returns whether the browser gives the page no more space. */
function isFull(cause: unknown): boolean {
  return cause instanceof DOMException && cause.name === "QuotaExceededError";
}

function isSomething({ writes, lasting, outputs }: Step): boolean {
  return writes.length > 0 || lasting || outputs.length > 0;
}

function closed(): PigeonholeError {
  return new PigeonholeError("closed", "the client is closed");
}
