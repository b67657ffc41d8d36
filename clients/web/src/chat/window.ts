// The part of a conversation that a view shows.

import type { Side } from "../protocol.ts";
import { allWithin } from "../spans.ts";
import { PAGE, type Span } from "../store/types.ts";
import type { Timeline } from "../timeline.ts";

/** A window has at most this number of stored entries. Beyond it, the view drops those at the other end. */
export const ITEMS_MAX = 300;

/** Where a view opens: at the end, around the first unread message, or around an entry. */
export type At = "newest" | "firstUnread" | { seq: number };

const END = Number.POSITIVE_INFINITY;

/** The window of a view: the shown entries from `from` to `to`. */
export class Window {
  from: number;
  /** `undefined`: the end of the conversation, with all that will come. */
  to: number | undefined;
  /** The number of entries that the window still lacks on each side. */
  #older: number;
  #newer: number;

  private constructor(from: number, to: number | undefined, older: number, newer: number) {
    [this.from, this.to, this.#older, this.#newer] = [from, to, older, newer];
  }

  /** Opens at the first unread message once the number of those is known, or messages have come without it. */
  static open(at: At, timeline: Timeline): Window | undefined {
    if (at === "firstUnread" && !timeline.isCounted && timeline.spans.length === 0) {
      return undefined;
    }
    if (typeof at === "object") {
      return Window.#around(at.seq);
    }
    const isUnread = at === "firstUnread" && timeline.unread() > 0;
    return isUnread ? Window.#around(timeline.ownRead() + 1) : new Window(END, undefined, PAGE, 0);
  }

  static #around(seq: number): Window {
    return new Window(seq, Math.max(seq - 1, 0), PAGE / 2, PAGE / 2);
  }

  loadOlder(): void {
    this.#older = PAGE;
  }

  loadNewer(): void {
    this.#newer = PAGE;
  }

  /**
   * Takes in what has come. On the older side a gap becomes an item. On the newer side it must close first, unless the
   * server could not send it: so `isStuck`. The user reads on from there.
   */
  grow(timeline: Timeline, isStuck: (side: Side) => boolean): void {
    const rows = timeline.shown();
    const upTo = (seq: number) => countUpTo(rows, seq);

    const start = startOfWhole(timeline, this.from);
    const isBegun = this.from === END || rows[upTo(this.from) - 1] === this.from;
    const bound = isBegun || isStuck({ before_seq: start }) ? 0 : start;
    const below = upTo(this.from - 1);
    const first = Math.max(below - this.#older, upTo(bound - 1), 0);
    const growsOlder = first < below;
    if (growsOlder) {
      this.#older -= below - first;
      this.from = rows[first] ?? this.from;
    }

    if (this.to !== undefined) {
      const whole = endOfWhole(timeline, this.to);
      const above = upTo(this.to);
      const end = Math.min(upTo(isStuck({ after_seq: whole }) ? END : whole), above + this.#newer);
      this.#newer -= end - above;
      const to = end > above ? (rows[end - 1] ?? this.to) : this.to;
      // Without a network, the first entries come from behind a gap, and those below them come later.
      if (end > above && allWithin(timeline.spans, { from: this.from, to: this.from }).length === 0) {
        this.from = rows[above] ?? this.from;
      }
      const isEnd = end === rows.length && timeline.isKnown && endOfWhole(timeline, to) >= timeline.lastSeq;
      this.to = isEnd ? undefined : to;
    }

    const end = this.to === undefined ? rows.length : upTo(this.to);
    if (end > first + ITEMS_MAX) {
      if (growsOlder) {
        this.to = rows[first + ITEMS_MAX - 1];
      } else {
        this.from = rows[end - ITEMS_MAX] ?? this.from;
        this.#older = 0;
      }
    }
  }

  /** Returns whether there are older entries, as far as known. */
  hasOlder(timeline: Timeline): boolean {
    return (timeline.shown()[0] ?? END) < this.from || this.#olderSide(timeline) !== undefined;
  }

  /** Returns the parts of the conversation that the window lacks, in the order in which a user needs them. */
  missing(timeline: Timeline): Side[] {
    const { spans, lastSeq, first, isKnown } = timeline;
    const sides: Side[] = [];
    if (this.to === undefined && (spans.at(-1)?.to ?? -1) < lastSeq && (lastSeq >= first || !isKnown)) {
      sides.push({});
    }
    const shown = allWithin(spans, { from: this.from, to: this.to ?? END });
    sides.push(
      ...shown
        .slice(1)
        .reverse()
        .map(({ from }) => ({ before_seq: from })),
    );
    if (this.to !== undefined && this.#newer > 0) {
      sides.push({ after_seq: endOfWhole(timeline, this.to) });
    }
    const older = this.#older > 0 ? this.#olderSide(timeline) : undefined;
    return older ? [...sides, older] : sides;
  }

  /** The entries below the window that have not come. */
  #olderSide(timeline: Timeline): { before_seq: number } | undefined {
    const start = startOfWhole(timeline, this.from);
    return start > timeline.first && start < END ? { before_seq: start } : undefined;
  }
}

/** Returns how many of the sorted numbers are not above this one. */
function countUpTo(sorted: readonly number[], seq: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? END) <= seq) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/**
 * Returns the first entry from which all below `seq` have come. At the end of the conversation, those are the newest.
 */
function startOfWhole({ spans }: Timeline, seq: number): number {
  const isThere = ({ from, to }: Span) => from <= seq && (seq <= to + 1 || seq === END);
  return spans.filter(isThere).at(-1)?.from ?? seq;
}

/** Returns the last entry up to which all above `seq` have come. */
function endOfWhole({ spans }: Timeline, seq: number): number {
  return spans.find(({ from, to }) => from <= seq + 1 && seq + 1 <= to)?.to ?? seq;
}
