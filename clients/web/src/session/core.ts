// The part that all parts of the session share: the user, the time, the counters, and the outputs.

import type { Shown, ViewId, Views } from "../chat/views.ts";
import type { Timing, TokenNeed } from "../config.ts";
import type { PigeonholeError } from "../errors.ts";
import type { ClientEvent, State } from "../events.ts";
import type { Message } from "../frames.ts";
import type { Settings } from "../protocol.ts";
import type { StorageChange } from "../saved.ts";
import type { Load, LoadId, Write } from "../store/types.ts";
import type { Waiter } from "./waiter.ts";

/** One connection, dialled or open. Later ones have higher numbers. */
export type LinkId = number;

/**
 * Where received entries are kept. The client acknowledges an entry only after that.
 *
 * - `store`: the turn that receives an entry writes it, and an app reads its messages from the store.
 * - `app`: the app gets a feed of events, and reports that it has finished with each entry. Until then, the entry comes
 *   again after a restart.
 */
export type Keeper = "store" | "app";

/**
 * The result of a turn. The caller commits `writes` in one transaction, and then carries out the `outputs` in their
 * order. A `lasting` turn has a transaction even without writes. After a failed commit, the caller carries out no output
 * before the same transaction has succeeded.
 */
export interface Step {
  writes: Write[];
  /** The writes, and all earlier ones, must survive a power failure. */
  lasting: boolean;
  outputs: Output[];
}

/** Something to be done. */
export type Output =
  | { do: "dial"; link: LinkId; need: TokenNeed }
  | { do: "send"; link: LinkId; frame: string }
  | { do: "close"; link: LinkId }
  | { do: "tell"; event: ClientEvent }
  /** Sends bytes of this message's file, one PUT at a time, or stops sending. */
  | { do: "put"; id: string; put: Put }
  | { do: "abort"; id: string }
  /** Carries a file of the encryption, for `carried`. */
  | { do: "carry"; carry: number; what: { put: Put } | { get: string; bytes: number } }
  /** Resolves or rejects a `Waiter`. */
  | { do: "answer"; settle: () => void }
  /** Reads the message store, for `loaded`. The store has the writes of this turn. */
  | { do: "load"; load: LoadId; what: Load }
  /** Draws this in a view, in place of what it showed before. */
  | { do: "show"; view: ViewId; shown: Shown };

/** Counters. The values never fall. */
export interface Stats {
  /** Messages and changes that went out, each counted once. */
  sent: number;
  /** Messages and changes that the server has stored. */
  answered: number;
  /** Messages and changes that went out again. */
  resent: number;
  /** Messages and changes that the server refused for good. */
  failed: number;
  /** Entries of other users and of the user's other devices, delivered to the app. */
  received: number;
  /** Entries that came again and were dropped. */
  duplicatesDropped: number;
  /** Times that `history` brought what was missing. */
  gapsRepaired: number;
  /** Connections after the first. */
  reconnects: number;
}

/** Bytes of a file that are to be put somewhere, with exactly these headers. */
export interface Put {
  file: Blob;
  offset: number;
  bytes: number;
  url: string;
  headers: Record<string, string>;
  /** Makes the bytes that leave, if they are not those of the file. */
  sealed?: () => Promise<Blob>;
}

export class Core {
  readonly me: string;
  readonly timing: Timing;
  readonly random: () => number;
  readonly keeper: Keeper;
  readonly views: Views;
  /** Milliseconds of some clock that never goes back. */
  now: number;
  /** The time of day by this device's clock, which the caller sets before each input. */
  wall = new Date(0).toISOString();
  /** The app has got the state `caught_up`, and no other state since. */
  toldCaughtUp = false;
  readonly stats: Stats = {
    sent: 0,
    answered: 0,
    resent: 0,
    failed: 0,
    received: 0,
    duplicatesDropped: 0,
    gapsRepaired: 0,
    reconnects: 0,
  };
  #step: Step = { writes: [], lasting: false, outputs: [] };

  constructor(me: string, timing: Timing, random: () => number, now: number, keeper: Keeper, views: Views) {
    this.me = me;
    this.keeper = keeper;
    this.views = views;
    this.timing = timing;
    this.random = random;
    this.now = now;
  }

  /** Returns the result of all inputs since the last call. */
  takeStep(): Step {
    const step = this.#step;
    this.#step = { writes: [], lasting: false, outputs: [] };
    return step;
  }

  output(output: Output): void {
    this.#step.outputs.push(output);
  }

  /** The turn must survive a power failure. */
  mustLast(): void {
    this.#step.lasting = true;
  }

  tell(event: ClientEvent): void {
    this.views.event(event, this.now);
    this.output({ do: "tell", event });
  }

  tellState(state: State): void {
    this.toldCaughtUp = state.state === "caught_up";
    this.tell({ type: "state", ...state });
  }

  /** Takes the next entry of a conversation, before the app gets it. `false`: it waits in its buffer. */
  judges(_: Message): boolean {
    return true;
  }

  /** The next entry for the app. */
  handOver(message: Message, missed: boolean): void {
    this.store({ entry: message });
    this.tell({ type: "message", message, missed });
  }

  /** The server has stored settings of the user. */
  settings(settings: Settings): void {
    this.store({ settings });
    this.tell({ type: "settings", settings });
  }

  save(change: StorageChange): void {
    // The attachment is part of a message's identity: with another id it would be another message.
    if ("queued" in change || ("uploading" in change && change.uploading.mediaId !== undefined)) {
      this.mustLast();
    }
    this.#step.writes.push({ change });
  }

  /** Writes what the store has beyond the session's own data. */
  store(write: Write): void {
    if (this.keeper === "store") {
      this.#step.writes.push(write);
    }
  }

  answer<T>(waiter: Waiter<T> | undefined, answer: T): void {
    this.#settle(waiter, () => waiter?.resolve(answer));
  }

  refuse(waiter: Waiter<never> | undefined, error: PigeonholeError): void {
    this.#settle(waiter, () => waiter?.reject(error));
  }

  #settle(waiter: Waiter<never> | undefined, settle: () => void): void {
    if (waiter?.isOfView) {
      settle();
    } else if (waiter) {
      this.output({ do: "answer", settle });
    }
  }

  /** Full jitter: at random between 0 and a maximum that doubles with each attempt. */
  jitter(first: number, max: number, attempt: number): number {
    return Math.min(first * 2 ** attempt, max) * this.random();
  }
}
