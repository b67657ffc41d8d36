// Channels that the app watches: what is posted there, and what `history` has of the rest.
//
// Nothing of a channel is pending, acknowledged, or kept over a restart. Each entry is handed over once, in the order of `seq`, from
// where the app began to watch. The server has a connection watch, so it is asked anew on each: first to watch, then for the history
// up to where that begins, so that nothing falls between the two.

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
import type { LinkId, Session, Waiter } from "./session.ts";

/** The history is asked for no less often than this, whatever the server says. */
const POLL_MAX = 60 * 60 * 1000;
const NEVER = Number.POSITIVE_INFINITY;

/** What the app is shown. */
class View {
  /** Handed to the app up to here. `undefined`: the first answer says where it begins. */
  shown: number | undefined;
  /** What came out of order. */
  buffer = new Map<number, Message>();
  /** The channel has entries up to here. */
  wanted = 0;
  /** What was written up to here was written before this connection watched. */
  missed = 0;
  /** How often the history is asked for, since an event can be lost, and where too many watch, none comes. */
  pollEvery: number = limits.POLL_MS;
  pollAt = NEVER;
  /** When it is asked for what is missing. */
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
  /** The connection that watches. */
  link: LinkId | undefined;
  /** A `watch` or an `unwatch` is under way. Two at once could be applied the other way round. */
  isAsking: boolean;
}

export class Channels {
  #session: Session;
  #watched = new Map<string, Watched>();

  constructor(session: Session) {
    this.#session = session;
  }

  /** From the entry after this one on; or from what is written from now on. One that is watched is asked for again, and goes on. */
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

  /** An own entry has been stored. Where the channel is not watched it is told all the same: it was waiting until now. */
  stored(entry: Message): void {
    if (this.#watched.get(entry.conversation_id)?.view) {
      this.arrived(entry);
    } else {
      this.#session.tell({ type: "message", message: entry, missed: false });
    }
  }

  /** When there is a history to be asked for. */
  next(): number {
    return Math.min(...[...this.#watched.values()].map((watched) => this.#askAt(watched)));
  }

  #askAt({ view, link }: Watched): number {
    return view && link === this.#session.links.current() ? view.askAt() : NEVER;
  }

  /** Asks for what is due. */
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
      // The app may have begun anew meanwhile: then where that begins is asked for again.
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

  /** What the user has posted is told, though something before it never came. */
  #end(view: View, error: PigeonholeError): void {
    for (const waiter of view.waiters) {
      this.#session.refuse(waiter, error);
    }
    const own = [...view.buffer.values()].filter(({ sender_id }) => sender_id === this.#session.me);
    for (const message of own.sort((one, other) => one.seq - other.seq)) {
      this.#tell(view, message);
    }
  }

  // What is there.

  /** Hands over what is next in order, then checks whether anything is missing. */
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
    this.#session.tell({ type: "message", message, missed: !isOwn && message.seq <= view.missed });
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
          // Asked for again once the next connection watches.
          view.isHistoryAsked = false;
        },
      },
    );
  }

  #onPage(view: View, { messages, last_seq, first_seq = 1 }: HistoryResult): void {
    const { now, stats } = this.#session;
    const before = view.shown ?? 0;
    // What is before the user joined is not theirs.
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

  /** The history does not have what is missing. It is asked for once more; then all else must not wait for it. */
  #lacking(view: View): void {
    const { now, timing } = this.#session;
    if (!view.isStuck) {
      view.isStuck = true;
      view.repairAt = now + timing.gapRetry;
      return;
    }
    const [first] = [...view.buffer.keys()].sort((one, other) => one - other);
    if (first === undefined) {
      // At the end. The next poll asks for it again.
      view.wanted = view.shown ?? 0;
    } else {
      view.shown = first - 1;
    }
    this.#show(view);
  }
}
