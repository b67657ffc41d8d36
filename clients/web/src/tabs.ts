// Several tabs of an app are one client.
//
// The holder of a lock leads: its tab has the session, the socket and the store. The others send their requests to it,
// and it sends back replies, events and what their views show. If it goes, the browser gives the lock to another tab.
// That tab opens the store, and gets the views and the unanswered requests of all. A request of the outbox has an id, so
// that a repetition changes nothing. A leader that no longer runs loses the lock to a tab that its user looks at. Such a
// leader can write no more, since the store has another owner.

import { kept, same } from "./chat/same.ts";
import type { Act, Shown, ViewId, ViewOf } from "./chat/views.ts";
import type { Zone } from "./chat/zone.ts";
import type { App, Driver } from "./driver.ts";
import type { Engine, Input } from "./engine.ts";
import { PigeonholeError } from "./errors.ts";
import type { ClientEvent, State, Why } from "./events.ts";
import type { Message, ReadResult, WatchResult } from "./frames.ts";
import { type Answer, type Ask, errorOf, eventOf, Hub, plainEvent, type Tab, type TabId } from "./hub.ts";
import type { Queued } from "./saved.ts";
import type { Stored } from "./session/entry.ts";
import type { CallRequest, CallResult } from "./session/waiter.ts";
import type { Shared, Storage } from "./store/database.ts";
import { watchSurroundings } from "./surroundings.ts";
import { uuid } from "./uuid.ts";

/** A tab repeats a request to the leader after this time, in milliseconds. */
const ASK_AGAIN = 1000;
/** The leader answers within this time. */
const LEADER_WAIT = 3000;
/** The number of calls without an answer after which a tab takes the lock. */
const CALLS = 2;
/** A tab takes the lock at most once in this time. */
const STEAL_EVERY = 30_000;

/** The part of the platform that tabs need. A test has its own. */
export interface Platform {
  locks: Pick<LockManager, "request">;
  channel(name: string): Channel;
}

/** The part of `BroadcastChannel` that is used. */
export interface Channel {
  onmessage: ((event: { data: unknown }) => void) | null;
  postMessage(message: unknown): void;
  close(): void;
}

/** Returns what tabs need, if the platform has it. Pages without TLS have no locks. */
export function platform(): Platform | undefined {
  const locks = globalThis.navigator?.locks;
  return locks && typeof BroadcastChannel === "function"
    ? { locks, channel: (name) => new BroadcastChannel(name) as Channel }
    : undefined;
}

/** Between tabs, without `to` for all. */
type Post =
  /** A tab is new, or does not know whether the leader runs. */
  | { from: TabId; hello: true }
  /** This tab opens the store, and leads then. */
  | { from: TabId; to: TabId; opens: true }
  /** This tab leads. */
  | { from: TabId; to?: TabId; leads: string; state: State }
  | { from: TabId; to: TabId; n: number; ask: Ask }
  | { from: TabId; to: TabId; n: number; answer: Answer }
  | { from: TabId; to: TabId; view: ViewId; shown: Shown }
  | { from: TabId; event: ClientEvent };

/** A post with the version of the tables, by which tabs of each version know whether they can read it. */
interface Envelope {
  version: number;
  post: Post;
}

/** A request without its answer. */
interface Pending {
  ask: Ask;
  kept?: () => void;
  resolve(ok: unknown): void;
  reject(error: PigeonholeError): void;
  timer?: ReturnType<typeof setTimeout>;
}

/** The time in which a tab leads, or is about to. */
class Lead {
  /** `undefined`: the tab opens the store. */
  hub: Hub | undefined;
  isLost = false;
  readonly lost: Promise<void>;
  #resolve = () => {};

  constructor() {
    this.lost = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  end(): void {
    this.isLost = true;
    this.hub?.stop();
    this.#resolve();
  }
}

export interface TabsOptions {
  me: string;
  shared: Shared;
  platform: Platform;
  /** Starts the client of all tabs on this storage. */
  start(storage: Storage, app: App): Promise<Driver>;
  app: App;
}

export class Tabs implements Engine {
  readonly me: string;
  #options: TabsOptions;
  #app: App;
  #id: TabId = uuid();
  #channel: Channel | undefined;
  #leader: TabId | undefined;
  #state: State = { state: "connecting" };
  #lastAsk = 0;
  #pending = new Map<number, Pending>();
  #views = new Map<ViewId, { of: ViewOf; shown?: Shown }>();
  #zone: Zone | undefined;
  #showsNames = false;
  /** Ends the lock that shows other tabs that this one runs. */
  #leaving = new AbortController();
  /** Ends the wait for the lead. */
  #waiting = new AbortController();
  #lead: Lead | undefined;
  #stolenAt = Number.NEGATIVE_INFINITY;
  #isLooking = false;
  /** Called when a leader answers. */
  #found = new Set<() => void>();
  /** Called when this tab has a leader for the first time. */
  #opened = () => {};
  /** Takes the error of a tab that can't lead, as long as it opens. */
  #refused: ((error: unknown) => void) | undefined;
  #isClosed = false;
  #isPersisted = false;
  #unwatch: () => void;

  /**
   * Opens this tab. Resolves when some tab leads.
   *
   * @throws The error of this tab, if it can't lead.
   */
  static async open(options: TabsOptions): Promise<Tabs> {
    const tabs = new Tabs(options);
    try {
      await new Promise<void>((resolve, reject) => {
        tabs.#opened = resolve;
        tabs.#refused = reject;
        tabs.#begin();
      });
    } catch (error) {
      tabs.#unwatch();
      tabs.#end(new PigeonholeError("closed", "the client could not start"));
      throw error;
    }
    tabs.#refused = undefined;
    return tabs;
  }

  private constructor(options: TabsOptions) {
    this.#options = options;
    this.#app = options.app;
    this.me = options.me;
    this.#unwatch = watchTab({
      suspend: () => this.#suspend(),
      resume: () => this.#begin(),
      shown: () => {
        this.say({ wake: true });
        this.#look();
      },
      networkChanged: () => this.say({ networkChanged: true }),
    });
  }

  // The API.

  say(input: Input): void {
    this.#note(input);
    this.#ask({ say: input }).catch(() => {});
  }

  async send<R extends Stored>(queued: Queued): Promise<{ stored: Promise<R> }> {
    this.#persist();
    let stored: Promise<unknown> | undefined;
    await new Promise<void>((resolve, reject) => {
      stored = this.#ask({ send: queued }, resolve);
      // The server's refusal comes after `kept`, when this promise has its result.
      stored.catch(reject);
    });
    return { stored: stored as Promise<R> };
  }

  call<R extends CallRequest>(request: R): Promise<CallResult<R>> {
    return this.#ask({ call: request }) as Promise<CallResult<R>>;
  }

  read(conversation: string, seq: number): Promise<ReadResult> {
    return this.#ask({ read: [conversation, seq] }) as Promise<ReadResult>;
  }

  watch(channel: string, after: number | undefined): Promise<WatchResult> {
    return this.#ask({ watch: [channel, after] }) as Promise<WatchResult>;
  }

  again(clientMsgId: string): Promise<Stored> {
    return this.#ask({ again: clientMsgId }) as Promise<Stored>;
  }

  cancel(clientMsgId: string): Promise<boolean> {
    return this.#ask({ cancel: clientMsgId }) as Promise<boolean>;
  }

  search(words: string, limit: number): Promise<Message[]> {
    return this.#ask({ search: [words, limit] }) as Promise<Message[]>;
  }

  async close(): Promise<void> {
    if (!this.#isClosed) {
      this.#unwatch();
      await this.#lead?.hub?.close(this.#id);
      this.#end(new PigeonholeError("closed", "the client is closed"));
    }
  }

  /** Ends this tab for good. */
  #end(error: PigeonholeError): void {
    this.#isClosed = true;
    this.#suspend();
    for (const { reject, timer } of this.#pending.values()) {
      clearTimeout(timer);
      reject(error);
    }
    this.#pending.clear();
  }

  // Requests.

  #ask(ask: Ask, kept?: () => void): Promise<unknown> {
    if (this.#isClosed) {
      return Promise.reject(new PigeonholeError("closed", "the client is closed"));
    }
    this.#lastAsk += 1;
    const n = this.#lastAsk;
    const answer = new Promise((resolve, reject) => {
      this.#pending.set(n, { ask, resolve, reject, ...(kept ? { kept } : {}) });
    });
    // The app may ignore the result.
    answer.catch(() => {});
    this.#deliver(n);
    return answer;
  }

  /** Sends a request to the leader, here or in another tab. Without one, it waits for the next. */
  #deliver(n: number): void {
    const pending = this.#pending.get(n);
    if (!pending) {
      return;
    }
    const { ask } = pending;
    clearTimeout(pending.timer);
    const hub = this.#lead?.hub;
    if (hub) {
      hub.take(this.#id, this.#own, n, ask);
    } else if (this.#leader !== undefined) {
      try {
        this.#post({ from: this.#id, to: this.#leader, n, ask });
      } catch (error) {
        this.#answered(n, { error: { code: "bad_request", message: String(error) } });
        return;
      }
      pending.timer = setTimeout(() => {
        this.#deliver(n);
        this.#look();
      }, ASK_AGAIN);
    }
  }

  #answered(n: number, answer: Answer): void {
    const pending = this.#pending.get(n);
    if (!pending) {
      return;
    }
    clearTimeout(pending.timer);
    if ("taken" in answer) {
      return;
    }
    if ("kept" in answer) {
      pending.kept?.();
      return;
    }
    this.#pending.delete(n);
    if ("ok" in answer) {
      pending.resolve(answer.ok);
    } else {
      pending.reject(errorOf(answer.error));
    }
  }

  /** Remembers what the next leader must know. */
  #note(input: Input): void {
    if ("open" in input) {
      this.#views.set(input.open.view, { of: input.open.of });
    } else if ("close" in input) {
      this.#views.delete(input.close);
    } else if ("zone" in input) {
      this.#zone = input.zone;
    } else if ("names" in input) {
      this.#showsNames = true;
    } else if ("act" in input) {
      this.#noteAct(input.act.view, input.act.act);
    }
  }

  #noteAct(view: ViewId, act: Act): void {
    const open = this.#views.get(view);
    if (open && typeof act === "object" && "filter" in act) {
      open.of = { chats: act.filter };
    } else if (open && typeof act === "object" && "jump" in act && "messages" in open.of) {
      open.of = { messages: { ...open.of.messages, at: act.jump } };
    }
  }

  /** Another leader: opens the views again, and repeats the requests without an answer. */
  #leads(leader: TabId, state: State): void {
    if (this.#leader !== leader) {
      this.#leader = leader;
      for (const [n, { ask, timer }] of this.#pending) {
        if ("say" in ask && ("open" in ask.say || "zone" in ask.say || "names" in ask.say || "act" in ask.say)) {
          clearTimeout(timer);
          this.#pending.delete(n);
        }
      }
      const old = [...this.#pending.keys()];
      if (this.#zone) {
        this.#ask({ say: { zone: this.#zone } });
      }
      if (this.#showsNames) {
        this.#ask({ say: { names: true } });
      }
      for (const [view, { of }] of this.#views) {
        this.#ask({ say: { open: { view, of } } });
      }
      for (const n of old) {
        this.#deliver(n);
      }
      this.#tell({ type: "state", ...state });
    }
    this.#opened();
    this.#isAlive();
  }

  /** A tab leads, or is about to. */
  #isAlive(): void {
    for (const found of this.#found) {
      found();
    }
    this.#found.clear();
  }

  #tell(event: ClientEvent): void {
    if (event.type === "state") {
      const { type: _, ...state } = event;
      this.#state = state;
    }
    this.#app.tell(event);
  }

  #show(view: ViewId, shown: Shown): void {
    const open = this.#views.get(view);
    if (open) {
      open.shown = keptOf(open.shown, shown);
      this.#app.show?.(view, open.shown);
    }
  }

  // Other tabs.

  /** The way to this tab itself. */
  #own: Tab = {
    answer: (n, answer) => this.#answered(n, answer),
    show: (view, shown) => this.#show(view, shown),
  };

  #post(post: Post): void {
    const { version } = this.#options.shared;
    this.#channel?.postMessage({ version, post } satisfies Envelope);
  }

  /** Takes what another tab has posted, which can be of another version of the app. */
  #heard({ version, post }: Envelope): void {
    const own = this.#options.shared.version;
    if (version > own) {
      this.#outdated();
    } else if (version === own) {
      this.#received(post);
    } else if (this.#lead?.hub) {
      // Any post shows an old page that its version is old.
      this.#announce();
    }
  }

  #received(post: Post): void {
    if ("to" in post && post.to !== undefined && post.to !== this.#id) {
      return;
    }
    if ("hello" in post) {
      if (this.#lead?.hub) {
        this.#announce(post.from);
      } else if (this.#lead) {
        this.#post({ from: this.#id, to: post.from, opens: true });
      }
    } else if ("opens" in post) {
      this.#isAlive();
    } else if ("leads" in post && post.leads !== this.me) {
      this.#refuse(new PigeonholeError("wrong_user", `the storage has the data of ${post.leads}, not of ${this.me}`));
    } else if ("leads" in post) {
      this.#lost();
      this.#leads(post.from, post.state);
    } else if ("ask" in post) {
      this.#lead?.hub?.take(post.from, this.#tab(post.from), post.n, post.ask);
    } else if (post.from !== this.#leader) {
      // From a leader that was stopped.
    } else if ("answer" in post) {
      this.#answered(post.n, post.answer);
    } else if ("view" in post) {
      this.#show(post.view, post.shown);
    } else {
      this.#tell(eventOf(post.event));
    }
  }

  /** The way to another tab. Its views are closed when the tab is gone. */
  #tab(to: TabId): Tab {
    const from = this.#id;
    const known = this.#tabs.get(to);
    if (known) {
      return known;
    }
    const tab: Tab = {
      answer: (n, answer) => this.#post({ from, to, n, answer }),
      show: (view, shown) => this.#post({ from, to, view, shown }),
    };
    this.#tabs.set(to, tab);
    const gone = () => {
      this.#tabs.delete(to);
      this.#lead?.hub?.leave(to);
    };
    this.#request(to, async () => gone());
    return tab;
  }

  #tabs = new Map<TabId, Tab>();

  /** Requests the lock of a tab, which lasts as long as the promise of `held`. */
  #request(tab: TabId, held: () => Promise<void>): void {
    const { signal } = this.#leaving;
    // This tab leaves before it gets the lock.
    this.#options.platform.locks.request(`${this.#options.shared.name} ${tab}`, { signal }, held).catch(() => {});
  }

  // The lead.

  /** Enters this tab among the others. */
  #begin(): void {
    if (this.#isClosed || this.#channel) {
      return;
    }
    const { platform, shared } = this.#options;
    this.#leaving = new AbortController();
    const { signal } = this.#leaving;
    this.#channel = platform.channel(shared.name);
    this.#channel.onmessage = ({ data }) => this.#heard(data as Envelope);
    const left = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    // First, so that the leader can tell when this tab is gone.
    this.#request(this.#id, () => {
      this.#look();
      return left;
    });
    this.#wait();
  }

  /** Waits for the lead. */
  #wait(): void {
    const { platform, shared } = this.#options;
    this.#waiting.abort();
    this.#waiting = new AbortController();
    const { signal } = this.#waiting;
    platform.locks
      .request(shared.name, { signal }, () => this.#leadUntilLost())
      .catch(() => {
        if (!signal.aborted) {
          this.#lost();
        }
      });
  }

  /** Leads until another tab has the lead, or this one goes. */
  async #leadUntilLost(): Promise<void> {
    const { shared, start } = this.#options;
    const lead = new Lead();
    this.#lead = lead;
    const app: App = {
      ...this.#app,
      tell: (event) => {
        this.#tell(event);
        this.#post({ from: this.#id, event: plainEvent(event) });
      },
      show: (view, shown) => lead.hub?.show(view, shown),
      taken: () => {
        if (this.#lead === lead) {
          this.#lost();
        }
      },
    };
    try {
      const hub = new Hub(await start({ open: () => shared.open(() => this.#outdated()) }, app));
      if (lead.isLost) {
        await hub.stop();
        return;
      }
      lead.hub = hub;
    } catch (error) {
      if (!lead.isLost) {
        this.#lead = undefined;
        this.#failed(error);
      }
      return;
    }
    this.#leader = undefined;
    this.#tabs.clear();
    this.#announce();
    this.#leads(this.#id, this.#state);
    await lead.lost;
  }

  #announce(to?: TabId): void {
    this.#post({ from: this.#id, leads: this.me, state: this.#state, ...(to === undefined ? {} : { to }) });
  }

  /** This tab can't lead. Another one may, or this one later. */
  #failed(error: unknown): void {
    if (this.#refused) {
      this.#refused(error);
    } else if (error instanceof PigeonholeError && error.code === "newer") {
      this.#outdated();
    } else {
      const { signal } = this.#leaving;
      const why: Why = { reason: "storage", detail: String(error) };
      this.#tell({ type: "state", state: "offline", why, retryInMs: LEADER_WAIT });
      const timer = setTimeout(() => this.#wait(), LEADER_WAIT);
      signal.addEventListener("abort", () => clearTimeout(timer));
    }
  }

  /** Another tab has the lead, if this one had it. */
  #lost(): void {
    if (this.#lead) {
      this.#stopLeading();
      this.#wait();
      this.#look();
    }
  }

  #stopLeading(): void {
    const lead = this.#lead;
    this.#lead = undefined;
    if (lead) {
      this.#leader = undefined;
      lead.end();
    }
  }

  /** Leaves the others, for a time or for good: the page goes, or the browser keeps it for a later return. */
  #suspend(): void {
    this.#stopLeading();
    this.#waiting.abort();
    this.#leaving.abort();
    this.#channel?.close();
    this.#channel = undefined;
    this.#leader = undefined;
    for (const { timer } of this.#pending.values()) {
      clearTimeout(timer);
    }
  }

  /** A later version of the app has the store now. */
  #outdated(): void {
    if (!this.#isClosed) {
      const error = new PigeonholeError(
        "newer",
        "a later version of the app runs in another tab: load this page again",
      );
      this.#refuse(error);
      this.#app.tell({ type: "reload" });
    }
  }

  /** Ends this tab, which can never use the storage. */
  #refuse(error: PigeonholeError): void {
    this.#unwatch();
    this.#end(error);
    this.#refused?.(error);
  }

  /** Looks for the leader, and takes the lead from one that does not answer. */
  async #look(): Promise<void> {
    if (this.#isLooking) {
      return;
    }
    this.#isLooking = true;
    await this.#lookOn(this.#leaving);
    this.#isLooking = false;
  }

  async #lookOn({ signal }: AbortController): Promise<void> {
    for (let call = 1; !this.#lead && !signal.aborted; call += 1) {
      if ((await this.#call()) || this.#lead || signal.aborted) {
        return;
      }
      const isDue = call >= CALLS && performance.now() - this.#stolenAt >= STEAL_EVERY;
      if (isDue && isVisible()) {
        this.#steal();
        return;
      }
    }
  }

  /** Calls the leader. Returns whether it answers in time. */
  #call(): Promise<boolean> {
    this.#post({ from: this.#id, hello: true });
    return new Promise((resolve) => {
      const found = () => {
        clearTimeout(timer);
        resolve(true);
      };
      const timer = setTimeout(() => {
        this.#found.delete(found);
        resolve(false);
      }, LEADER_WAIT);
      this.#found.add(found);
    });
  }

  #steal(): void {
    const { platform, shared } = this.#options;
    this.#stolenAt = performance.now();
    this.#waiting.abort();
    platform.locks.request(shared.name, { steal: true }, () => this.#leadUntilLost()).catch(() => this.#lost());
  }

  /** Asks the browser not to remove the messages when the disk is full. */
  #persist(): void {
    if (!this.#isPersisted) {
      this.#isPersisted = true;
      // The answer changes nothing.
      globalThis.navigator?.storage?.persist?.().catch(() => {});
    }
  }
}

function isVisible(): boolean {
  return (globalThis.document?.visibilityState ?? "visible") === "visible";
}

/** Returns a snapshot in which all that did not change is the same object as before. */
function keptOf(before: Shown | undefined, now: Shown): Shown {
  if (before && "chats" in before && "chats" in now) {
    return { chats: { ...now.chats, rows: kept(before.chats.rows, now.chats.rows) } };
  }
  if (before && "messages" in before && "messages" in now) {
    const { chat, items } = before.messages;
    const isSame = same(chat, now.messages.chat);
    return {
      messages: { ...now.messages, items: kept(items, now.messages.items), ...(isSame ? { chat } : {}) },
    };
  }
  return now;
}

interface Lives {
  /** The page goes, or the browser keeps it for a later return. */
  suspend(): void;
  resume(): void;
  shown(): void;
  networkChanged(): void;
}

/** Watches the life of the page, until the returned function is called. */
function watchTab({ suspend, resume, shown, networkChanged }: Lives): () => void {
  const { window } = globalThis as Partial<typeof globalThis>;
  const unwatch = watchSurroundings({ shown, networkChanged });
  if (typeof window?.addEventListener !== "function") {
    return unwatch;
  }
  const restored = ({ persisted }: PageTransitionEvent) => {
    if (persisted) {
      resume();
    }
  };
  window.addEventListener("pagehide", suspend);
  window.addEventListener("pageshow", restored);
  return () => {
    unwatch();
    window.removeEventListener("pagehide", suspend);
    window.removeEventListener("pageshow", restored);
  };
}
