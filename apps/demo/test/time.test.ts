// Times as the demo shows them: the browser's test only ever sees today.

import { expect, it } from "vitest";
import { brief, day } from "../src/view/time.ts";

const now = new Date(2026, 10, 21, 0, 30).getTime();
const at = (date: number, hour: number, month = 10) => new Date(2026, month, date, hour).getTime();

it.each([
  [at(21, 0), "Today", "00:00"],
  [at(20, 23), "Yesterday", "Yesterday"],
  [at(19, 1), "Thursday", "Thursday"],
  [at(15, 1), "Sunday", "Sunday"],
  [at(14, 23), "November 14, 2026", "11/14/26"],
  [at(1, 12, 0), "January 1, 2026", "01/01/26"],
])("names the day of %i", (at, words, short) => {
  expect(day(at, now)).toBe(words);
  expect(brief(at, now)).toBe(short);
});
