// The pinned messages of a conversation, by pages and entries that come in any order.

import type { Message } from "./frames.ts";

/** The pins of the newest page, and the entries after it. */
export class Pins {
  /** The last `seq` of that page, and its pins, the last pinned first. `undefined`: no page has come. */
  #page: { asOf: number; pins: readonly number[] } | undefined;
  /** By the `seq` of the entry. */
  #later = new Map<number, { target: number; pinned: boolean }>();

  /** Whether a page has come. */
  get isKnown(): boolean {
    return this.#page !== undefined;
  }

  /** The user has joined anew: pins of meanwhile are unknown. */
  forgetPage(): void {
    this.#page = undefined;
  }

  /** Takes the pins of a page of the server. An older page than the current one changes nothing. */
  page(asOf: number, pins: readonly number[]): void {
    if (asOf >= (this.#page?.asOf ?? 0)) {
      this.#page = { asOf, pins };
      this.#later = new Map([...this.#later].filter(([seq]) => seq > asOf));
    }
  }

  /** Takes any entry; those of kind `pin` count. */
  entry({ seq, target_seq: target, pinned }: Message): void {
    if (target !== undefined && pinned !== undefined && seq > (this.#page?.asOf ?? 0)) {
      this.#later.set(seq, { target, pinned });
    }
  }

  /** Returns the pinned messages, the last pinned first. */
  now(): number[] {
    const pins = new Set([...(this.#page?.pins ?? [])].reverse());
    for (const [, { target, pinned }] of [...this.#later].sort(([one], [other]) => one - other)) {
      pins.delete(target);
      if (pinned) {
        pins.add(target);
      }
    }
    return [...pins].reverse();
  }
}
