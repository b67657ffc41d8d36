// The part that all parts of the session share: the user, the time, the counters, and the outputs.

import type { Timing, TokenNeed } from "../config.ts";
import type { PigeonholeError } from "../errors.ts";
import type { ClientEvent, State } from "../events.ts";
import type { StorageChange } from "../saved.ts";

/** One connection, dialled or open. Later ones have higher numbers. */
export type LinkId = number;

/** Called with the reply. */
export interface Waiter<T> {
  resolve(answer: T): void;
  reject(error: PigeonholeError): void;
}

/** Something to be done, in this order; but what is to be saved comes before everything else. */
export type Output =
  | { do: "dial"; link: LinkId; need: TokenNeed }
  | { do: "send"; link: LinkId; frame: string }
  | { do: "close"; link: LinkId }
  | { do: "tell"; event: ClientEvent }
  | { do: "save"; change: StorageChange }
  /** Sends bytes of this message's file, one PUT at a time, or stops sending. */
  | { do: "put"; id: string; put: Put }
  | { do: "abort"; id: string }
  /** Resolves or rejects a `Waiter`. */
  | { do: "answer"; settle: () => void };

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
}

export class Core {
  readonly me: string;
  readonly timing: Timing;
  readonly random: () => number;
  /** Milliseconds of some clock that never goes back. */
  now: number;
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
  #outputs: Output[] = [];

  constructor(me: string, timing: Timing, random: () => number, now: number) {
    this.me = me;
    this.timing = timing;
    this.random = random;
    this.now = now;
  }

  takeOutputs(): Output[] {
    const outputs = this.#outputs;
    this.#outputs = [];
    return outputs;
  }

  output(output: Output): void {
    this.#outputs.push(output);
  }

  tell(event: ClientEvent): void {
    this.output({ do: "tell", event });
  }

  tellState(state: State): void {
    this.toldCaughtUp = state.state === "caught_up";
    this.tell({ type: "state", ...state });
  }

  save(change: StorageChange): void {
    this.output({ do: "save", change });
  }

  answer<T>(waiter: Waiter<T> | undefined, answer: T): void {
    if (waiter) {
      this.output({ do: "answer", settle: () => waiter.resolve(answer) });
    }
  }

  refuse(waiter: Waiter<never> | undefined, error: PigeonholeError): void {
    if (waiter) {
      this.output({ do: "answer", settle: () => waiter.reject(error) });
    }
  }

  /** Full jitter: at random between 0 and a maximum that doubles with each attempt. */
  jitter(first: number, max: number, attempt: number): number {
    return Math.min(first * 2 ** attempt, max) * this.random();
  }
}
