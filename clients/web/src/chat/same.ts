// Keeps the objects of a snapshot whose content did not change.

/** Returns whether both are equal, field by field. */
export function same(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) {
    return true;
  }
  // A file is the same only as itself.
  if (!isPlain(one) || !isPlain(other) || Array.isArray(one) !== Array.isArray(other)) {
    return false;
  }
  const [names, others] = [Object.keys(one), Object.keys(other)];
  return names.length === others.length && names.every((name) => name in other && same(one[name], other[name]));
}

function isPlain(value: unknown): value is Record<string, unknown> {
  const prototype = typeof value === "object" && value !== null ? Object.getPrototypeOf(value) : undefined;
  return prototype === Object.prototype || prototype === Array.prototype;
}

/** Returns the new things. A thing that equals the old one with the same key is that object. */
export function kept<T extends { key: string }>(before: readonly T[], now: readonly T[]): readonly T[] {
  const byKey = new Map(before.map((thing) => [thing.key, thing]));
  const things = now.map((thing) => {
    const old = byKey.get(thing.key);
    return old && same(old, thing) ? old : thing;
  });
  return things.length === before.length && things.every((thing, at) => thing === before[at]) ? before : things;
}
