// The leading tab: the session of all tabs of an app, and the requests and views of each.

import type { Shown, ViewId } from "./chat/views.ts";
import type { Driver } from "./driver.ts";
import { type Engine, type Input, LocalEngine } from "./engine.ts";
import { PigeonholeError, type PigeonholeErrorCode } from "./errors.ts";
import type { ClientEvent } from "./events.ts";
import type { Queued } from "./saved.ts";
import type { CallRequest } from "./session/waiter.ts";

/** A request of a tab. */
export type Ask =
  | { say: Input }
  | { send: Queued }
  | { call: CallRequest }
  | { read: [conversation: string, seq: number] }
  | { watch: [channel: string, after: number | undefined] }
  | { again: string }
  | { cancel: string }
  | { search: [words: string, limit: number] };

/** An error as plain data, which a channel between tabs carries whole. */
export interface Problem {
  code: PigeonholeErrorCode;
  message: string;
}

/** The answers to a request: it has come, a `send` is in the outbox, and the result. */
export type Answer = { taken: true } | { kept: true } | { ok: unknown } | { error: Problem };

export type TabId = string;

/** The way to a tab. */
export interface Tab {
  answer(n: number, answer: Answer): void;
  show(view: ViewId, shown: Shown): void;
}

/** The number of a tab's last requests that are known again. */
const ASKS_MAX = 10_000;

interface Member {
  tab: Tab;
  /** The requests that have come, each of which a tab repeats. */
  asks: Set<number>;
  /** The views of the tab, by the numbers of the session. */
  views: Map<ViewId, ViewId>;
}

export class Hub {
  #engine: Engine;
  #driver: Driver;
  #members = new Map<TabId, Member>();
  #lastView: ViewId = 0;
  #isOver = false;
  /** The tab that closes the client, and alone gets answers from then on. */
  #closes: TabId | undefined;

  constructor(driver: Driver) {
    this.#driver = driver;
    this.#engine = new LocalEngine(driver, false);
  }

  /** Takes a request of a tab. A repetition changes nothing. */
  take(id: TabId, tab: Tab, n: number, ask: Ask): void {
    const member = this.#members.get(id) ?? { tab, asks: new Set(), views: new Map() };
    this.#members.set(id, member);
    if (this.#isOverFor(id)) {
      return;
    }
    tab.answer(n, { taken: true });
    if (member.asks.has(n)) {
      return;
    }
    member.asks.add(n);
    const [oldest] = member.asks;
    if (oldest !== undefined && member.asks.size > ASKS_MAX) {
      member.asks.delete(oldest);
    }
    const answer = (result: Answer) => {
      if (!this.#isOverFor(id)) {
        tab.answer(n, result);
      }
    };
    this.#run(member, ask, answer).then(
      (ok) => answer({ ok }),
      (error) => answer({ error: problemOf(error) }),
    );
  }

  async #run(member: Member, ask: Ask, answer: (answer: Answer) => void): Promise<unknown> {
    const engine = this.#engine;
    if ("say" in ask) {
      engine.say(this.#mapped(member, ask.say));
      return undefined;
    }
    if ("send" in ask) {
      const { stored } = await engine.send(ask.send);
      answer({ kept: true });
      return stored;
    }
    if ("call" in ask) {
      return engine.call(ask.call);
    }
    if ("read" in ask) {
      return engine.read(...ask.read);
    }
    if ("watch" in ask) {
      return engine.watch(...ask.watch);
    }
    if ("again" in ask) {
      return engine.again(ask.again);
    }
    return "cancel" in ask ? engine.cancel(ask.cancel) : engine.search(...ask.search);
  }

  /** Returns the input with the session's numbers of views, which are the same in several tabs. */
  #mapped({ views }: Member, input: Input): Input {
    if ("open" in input) {
      const { view, of } = input.open;
      const open = views.get(view) ?? this.#nextView();
      views.set(view, open);
      return { open: { view: open, of } };
    }
    if ("act" in input) {
      // An act in a view that is closed changes nothing.
      return { act: { ...input.act, view: views.get(input.act.view) ?? 0 } };
    }
    if ("close" in input) {
      const close = views.get(input.close) ?? 0;
      views.delete(input.close);
      return { close };
    }
    return input;
  }

  #nextView(): ViewId {
    this.#lastView += 1;
    return this.#lastView;
  }

  /** Draws a view in its tab. */
  show(view: ViewId, shown: Shown): void {
    for (const { tab, views } of this.#members.values()) {
      for (const [own, number] of views) {
        if (number === view) {
          tab.show(own, shown);
        }
      }
    }
  }

  /** The tab is gone. */
  leave(id: TabId): void {
    for (const close of this.#members.get(id)?.views.values() ?? []) {
      this.#engine.say({ close });
    }
    this.#members.delete(id);
  }

  #isOverFor(id: TabId): boolean {
    return this.#isOver || (this.#closes !== undefined && this.#closes !== id);
  }

  /** Another tab leads from now on. The requests without an answer go there. */
  stop(): Promise<void> {
    this.#isOver = true;
    return this.#driver.stop();
  }

  /** The app closes this tab. The requests of other tabs without an answer go to the next leader. */
  close(own: TabId): Promise<void> {
    this.#closes = own;
    return this.#driver.close();
  }
}

/** Returns an event that a channel between tabs carries whole. */
export function plainEvent(event: ClientEvent): ClientEvent {
  return "error" in event ? ({ ...event, error: problemOf(event.error) } as ClientEvent) : event;
}

export function eventOf(event: ClientEvent): ClientEvent {
  return "error" in event ? { ...event, error: errorOf(event.error) } : event;
}

function problemOf(error: unknown): Problem {
  const { code = "unreadable", message } = error as Partial<Problem>;
  return { code, message: message ?? String(error) };
}

export function errorOf({ code, message }: Problem): PigeonholeError {
  return new PigeonholeError(code, message);
}
