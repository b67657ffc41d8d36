// Times in the words of a chat list.

const DAY_MS = 24 * 60 * 60 * 1000;

const clockFormat = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const weekdayFormat = new Intl.DateTimeFormat("en", { weekday: "long" });
const dayFormat = new Intl.DateTimeFormat("en", { day: "numeric", month: "long", year: "numeric" });
const shortFormat = new Intl.DateTimeFormat("en", { day: "2-digit", month: "2-digit", year: "2-digit" });

export function clock(at: number): string {
  return clockFormat.format(at);
}

/** Returns a time to come, with its day if that is not today. */
export function moment(time: string, now = Date.now()): string {
  const at = Date.parse(time);
  return daysBetween(at, now) === 0 ? clock(at) : `${dayFormat.format(at)}, ${clock(at)}`;
}

/** Above a day's first message. */
export function day(at: number, now = Date.now()): string {
  return recent(at, now) ?? dayFormat.format(at);
}

/** Returns the time of a chat's last message: the time if it is of today, otherwise the day. */
export function brief(at: number, now = Date.now()): string {
  const words = recent(at, now) ?? shortFormat.format(at);
  return words === "Today" ? clock(at) : words;
}

function recent(at: number, now: number): string | undefined {
  const ago = daysBetween(at, now);
  if (ago === 0 || ago === 1) {
    return ago === 0 ? "Today" : "Yesterday";
  }
  return ago > 1 && ago < 7 ? weekdayFormat.format(at) : undefined;
}

/** Days of the calendar here, some of which have 23 or 25 hours. */
function daysBetween(from: number, to: number): number {
  const midnight = (at: number) => new Date(at).setHours(0, 0, 0, 0);
  return Math.round((midnight(to) - midnight(from)) / DAY_MS);
}
