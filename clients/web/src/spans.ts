// Ranges of `seq` without a gap.

import type { Side } from "./protocol.ts";
import type { Span, Window } from "./store/types.ts";

/** Returns the part that both have. */
export function within(one: Span, other: Span): Span | undefined {
  const both = { from: Math.max(one.from, other.from), to: Math.min(one.to, other.to) };
  return both.from <= both.to ? both : undefined;
}

/** Returns the parts of these ranges that are in this one. */
export function allWithin(spans: readonly Span[], other: Span): Span[] {
  return spans.flatMap((span) => within(span, other) ?? []);
}

/** Returns these ranges and one more, in their order. Ranges that meet become one. */
export function joined(span: Span, spans: readonly Span[]): Span[] {
  const touches = ({ from, to }: Span) => from <= span.to + 1 && span.from <= to + 1;
  const met = [span, ...spans.filter(touches)];
  const all = {
    from: Math.min(...met.map(({ from }) => from)),
    to: Math.max(...met.map(({ to }) => to)),
  };
  const others = spans.filter((other) => !touches(other));
  return [...others, all].sort((one, other) => one.from - other.from);
}

/** Returns the range of which a window has all that the store has, if it was read from this side with this limit. */
export function covered({ messages }: Window, side: Side, limit: number): Span | undefined {
  const isAll = messages.length < limit;
  const first = isAll ? 1 : messages[0]?.seq;
  const last = isAll ? Number.POSITIVE_INFINITY : messages.at(-1)?.seq;
  if (first === undefined || last === undefined) {
    return undefined;
  }
  if ("after_seq" in side && side.after_seq !== undefined) {
    return { from: side.after_seq + 1, to: last };
  }
  const end = "before_seq" in side && side.before_seq !== undefined ? side.before_seq - 1 : Number.POSITIVE_INFINITY;
  return first <= end ? { from: first, to: end } : undefined;
}
