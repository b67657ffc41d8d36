// The days of a time zone, whose offsets the caller knows.

/**
 * The offsets of the user's time zone to UTC, in seconds, each with the time from which it holds, in order. The first
 * one also holds for all earlier times. Empty: UTC.
 */
export type Zone = readonly (readonly [from: string, seconds: number])[];

/** Returns the day of this time, such as `2026-11-25`. */
export function dayOf(zone: Zone, at: string): string {
  const time = Date.parse(at);
  const [, seconds] = zone.filter(([from]) => Date.parse(from) <= time).at(-1) ?? zone[0] ?? ["", 0];
  return new Date(time + seconds * 1000).toISOString().slice(0, "2026-11-25".length);
}
