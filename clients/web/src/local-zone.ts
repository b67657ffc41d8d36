// The time zone of this device.

import type { Zone } from "./chat/zone.ts";

const DAY = 24 * 60 * 60 * 1000;

/** Returns the offsets of the last 10 years and the next one, each with the time from which it holds. */
export function localZone(now: number): Zone {
  const offset = (at: number) => -60 * new Date(at).getTimezoneOffset();
  const zone: [string, number][] = [];
  let before: number | undefined;
  // No zone changes its clocks twice within a week.
  for (let at = now - 3652 * DAY; at < now + 366 * DAY; at += 7 * DAY) {
    if (offset(at) !== before) {
      zone.push([
        new Date(before === undefined ? at : changeBetween(offset, at - 7 * DAY, at)).toISOString(),
        offset(at),
      ]);
      before = offset(at);
    }
  }
  return zone;
}

/** Returns the first time with the later offset. */
function changeBetween(offset: (at: number) => number, from: number, to: number): number {
  let [early, late] = [from, to];
  while (late - early > 1) {
    const middle = Math.floor((early + late) / 2);
    [early, late] = offset(middle) === offset(to) ? [early, middle] : [middle, late];
  }
  return late;
}
