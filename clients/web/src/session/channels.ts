// Channels to which the app is subscribed: their events, and the pages of `history` that fill the gaps.
//
// Entries of a channel are never pending, acknowledged or saved. The app gets each entry once, in the order of `seq`,
// from the start of its subscription. On the server, a subscription belongs to a connection, so the client subscribes
// again on each. Then it requests the history up to the start of that subscription, so that no entry is lost between
// the two.

import { PigeonholeError } from "../errors.ts";
import {
  type HistoryResult,
  isUnwatchResult,
  isWatchResult,
  limits,
  type Message,
  type WatchResult,
} from "../frames.ts";
import { checkRequest, readHistory } from "../protocol.ts";
import type { Core, LinkId } from "./core.ts";
import type { Requests } from "./requests.ts";
import type { Waiter } from "./waiter.ts";

/** The longest interval of history requests, whatever the server sets. */
const POLL_MAX = 60 * 60 * 1000;
const NEVER = Number.POSITIVE_INFINITY;

/** The entries for the app. */
class View {
  /** The app has got everything up to here. `undefined`: the first reply has the start. */
  shown: number | undefined;
  /** Entries that came out of order. */
  buffer = new Map<number, Message>();
  /** The channel has entries up to here. */
  wanted = 0;
  /** Entries up to here are older than this connection's subscription. */
  missed = 0;
  /** The interval of history requests. An event can be lost, and a channel with too many subscribers sends none. */
  pollEvery: number = limits.POLL_MS;
  pollAt = NEVER;
  /** The time of the next request for missing entries. */
  repairAt: number | undefined;
  /** The last history did not have what is missing. */
  isStuck = false;
  isHistoryAsked = false;
  waiters: Waiter<WatchResult>[] = [];

  constructor(after: number | undefined) {
    this.shown = after;
  }

  askAt(): number {
    return this.isHistoryAsked ? NEVER : Math.min(this.repairAt ?? NEVER, this.pollAt);
  }
}

interface Watched {
  /** `undefined`: the app wants no more of it, and the server has not heard of that. */
  view: View | undefined;
  /** The connection that has the subscription. */
  link: LinkId | undefined;
  /** A `watch` or an `unwatch` is unanswered. The server could apply concurrent ones in the wrong order. */
  isAsking: boolean;
}

/** The session, as this part knows it. */
interface Session extends Core {
  readonly requests: Requests;
  readonly links: { current(): LinkId | undefined };
}

export class Channels {
  #session: Session;
  #watched = new Map<string, Watched>();

  constructor(session: Session) {
    this.#session = session;
  }

  /**
   * Subscribes from the entry after this one, or from the next new entry. For an active subscription, repeats the
   * request and continues.
   */
  watch(id: string, after: number | undefined, waiter: Waiter<WatchResult>): void {
    try {
      checkRequest({ action: "watch", conversation_id: id });
    } catch (error) {
      this.#session.refuse(waiter, error as PigeonholeError);
      return;
    }
    const watched = this.#watched.get(id) ?? { view: undefined, link: undefined, isAsking: false };
    watched.view ??= new View(after);
    watched.view.waiters.push(waiter);
    watched.link = undefined;
    this.#watched.set(id, watched);
  }

  unwatch(id: string): void {
    const watched = this.#watched.get(id);
    if (watched?.view) {
      this.#end(watched.view, new PigeonholeError("unwatched", "the app has ended the watch"));
      watched.view = undefined;
    }
  }

  /** The user has left it. The server knows what that means for the watch. */
  left(id: string): void {
    this.unwatch(id);
    this.#watched.delete(id);
  }

  /** An entry has come, by any way. */
  arrived(message: Message): void {
    const view = this.#watched.get(message.conversation_id)?.view;
    if (!view) {
      // On its way when the app wanted no more.
      return;
    }
    const { seq } = message;
    if (seq <= (view.shown ?? 0) || view.buffer.has(seq)) {
      this.#session.stats.duplicatesDropped += 1;
      return;
    }
    view.buffer.set(seq, message);
    view.wanted = Math.max(view.wanted, seq);
    this.#show(view);
  }

  /** Delivers an own stored entry: in order with the others if the app is subscribed, otherwise immediately. */
  stored(entry: Message): void {
    if (this.#watched.get(entry.conversation_id)?.view) {
      this.arrived(entry);
    } else {
      this.#session.handOver(entry, false);
    }
  }

  /** Returns when the next history request is due. */
  next(): number {
    return Math.min(...[...this.#watched.values()].map((watched) => this.#askAt(watched)));
  }

  #askAt({ view, link }: Watched): number {
    return view && link === this.#session.links.current() ? view.askAt() : NEVER;
  }

  /** Sends the requests that are due. */
  ask(): void {
    for (const [id, watched] of [...this.#watched]) {
      const { view, link, isAsking } = watched;
      const isWatching = link === this.#session.links.current();
      if (view && this.#askAt(watched) <= this.#session.now) {
        this.#askHistory(id, view);
      }
      if (!isAsking && isWatching !== (view !== undefined)) {
        this.#ask(id, watched);
      } else if (!isAsking && !view) {
        this.#watched.delete(id);
      }
    }
  }

  // Watching.

  #ask(id: string, watched: Watched): void {
    const { view } = watched;
    const link = this.#session.links.current();
    const ended = (watching: LinkId | undefined) => {
      watched.isAsking = false;
      // The app may have subscribed again meanwhile: then the client repeats the request for the new start.
      watched.link = watched.view === view || !watched.view ? watching : undefined;
    };
    watched.isAsking = true;
    this.#session.requests.ask(
      { action: view ? "watch" : "unwatch", conversation_id: id },
      {
        answered: (result) => {
          const readable = view ? isWatchResult(result) : isUnwatchResult(result);
          if (readable) {
            ended(view && link);
          }
          if (view && watched.view === view && isWatchResult(result)) {
            this.#begun(view, result);
          }
          return readable;
        },
        refused: (error) => {
          ended(undefined);
          if (view && watched.view === view) {
            this.#refused(id, view, error);
          }
        },
        lost: () => ended(undefined),
      },
    );
  }

  #begun(view: View, answer: WatchResult): void {
    const { last_seq, poll_ms } = answer;
    const { now, timing } = this.#session;
    // An own entry may have come before.
    view.shown ??= Math.min(last_seq, ...[...view.buffer.keys()].map((seq) => seq - 1));
    view.wanted = Math.max(view.wanted, last_seq);
    view.missed = last_seq;
    view.pollEvery = Math.min(Math.max(poll_ms, timing.gapRetry), POLL_MAX);
    view.pollAt = now + view.pollEvery;
    for (const waiter of view.waiters.splice(0)) {
      this.#session.answer(waiter, answer);
    }
    this.#show(view);
    if (view.repairAt !== undefined) {
      view.repairAt = now;
    }
  }

  /** The user is no member any more. */
  #refused(id: string, view: View, error: PigeonholeError): void {
    this.#watched.delete(id);
    this.#end(view, error);
    this.#session.tell({ type: "unwatched", conversation_id: id, error });
  }

  /** Ends a subscription. The app gets the user's own posts although an earlier entry never came. */
  #end(view: View, error: PigeonholeError): void {
    for (const waiter of view.waiters) {
      this.#session.refuse(waiter, error);
    }
    const own = [...view.buffer.values()].filter(({ sender_id }) => sender_id === this.#session.me);
    for (const message of own.sort((one, other) => one.seq - other.seq)) {
      this.#tell(view, message);
    }
  }

  // Entries.

  /** Delivers the next entries in order, then checks whether any is missing. */
  #show(view: View): void {
    if (view.shown === undefined) {
      return;
    }
    for (let next = view.buffer.get(view.shown + 1); next; next = view.buffer.get(view.shown + 1)) {
      view.buffer.delete(next.seq);
      view.shown = next.seq;
      this.#tell(view, next);
    }
    if (view.wanted > view.shown) {
      view.repairAt ??= this.#session.now + this.#session.timing.gapWait;
    } else {
      view.repairAt = undefined;
      view.isStuck = false;
    }
  }

  #tell(view: View, message: Message): void {
    const { me, stats } = this.#session;
    const isOwn = message.sender_id === me;
    if (!isOwn) {
      stats.received += 1;
    }
    this.#session.handOver(message, !isOwn && message.seq <= view.missed);
  }

  #askHistory(id: string, view: View): void {
    const after_seq = view.shown ?? 0;
    const isCurrent = () => this.#watched.get(id)?.view === view;
    view.isHistoryAsked = true;
    this.#session.requests.ask(
      { action: "history", conversation_id: id, after_seq, limit: limits.HISTORY_LIMIT_MAX },
      {
        answered: (result) => {
          const page = readHistory(result);
          if (page) {
            view.isHistoryAsked = false;
          }
          if (page && isCurrent()) {
            this.#onPage(view, page);
          }
          return page !== undefined;
        },
        refused: (error) => {
          view.isHistoryAsked = false;
          if (isCurrent()) {
            this.#refused(id, view, error);
          }
        },
        lost: () => {
          // The client repeats the request when the next connection is subscribed.
          view.isHistoryAsked = false;
        },
      },
    );
  }

  #onPage(view: View, { messages, last_seq, first_seq = 1 }: HistoryResult): void {
    const { now, stats } = this.#session;
    const before = view.shown ?? 0;
    // The user may not see the entries before the join.
    view.shown = Math.max(before, first_seq - 1);
    view.wanted = Math.max(view.wanted, last_seq);
    for (const message of messages) {
      if (message.seq > view.shown) {
        view.buffer.set(message.seq, message);
      }
    }
    const wasBroken = view.repairAt !== undefined;
    this.#show(view);
    const progress = view.shown > before;
    view.pollAt = now + view.pollEvery;
    if (wasBroken && progress) {
      stats.gapsRepaired += 1;
    }
    if (view.repairAt !== undefined && progress) {
      view.isStuck = false;
      view.repairAt = now;
    } else if (view.repairAt !== undefined) {
      this.#lacking(view);
    }
  }

  /**
   * Handles a page without the missing entries. The client requests them once more; then the other entries must not
   * wait for them.
   */
  #lacking(view: View): void {
    const { now, timing } = this.#session;
    if (!view.isStuck) {
      view.isStuck = true;
      view.repairAt = now + timing.gapRetry;
      return;
    }
    const [first] = [...view.buffer.keys()].sort((one, other) => one - other);
    if (first === undefined) {
      // At the end. The next poll repeats the request.
      view.wanted = view.shown ?? 0;
    } else {
      view.shown = first - 1;
    }
    this.#show(view);
  }
}
