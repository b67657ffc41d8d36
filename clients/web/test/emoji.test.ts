import { expect, test } from "vitest";
import { canonicalEmoji } from "../src/emoji.ts";

// An emoji of each form in Unicode's `emoji-test.txt`.
const QUALIFIED = [
  ...["👍", "👍🏽", "❤️", "☹️", "©️", "1️⃣", "#️⃣", "🇨🇭", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "👩‍👩‍👧‍👧", "❤️‍🔥", "👁️‍🗨️", "🏳️‍🌈", "🏳️‍⚧️"],
  ...["☝️", "☝🏿", "⛹🏻‍♀️", "🕵️‍♂️", "👩🏻‍❤️‍💋‍👩🏿", "🧑🏽‍🤝‍🧑🏻", "㊙️", "⏏️", "⌚", "🐦‍⬛", "🙂‍↔️", "🏃🏼‍♂️‍➡️"],
];

test("an emoji has one spelling", () => {
  for (const emoji of QUALIFIED) {
    for (const spelling of [emoji, emoji.replaceAll("\uFE0F", ""), emoji.replaceAll("\uFE0F", "\uFE0E")]) {
      expect(canonicalEmoji(spelling)).toBe(emoji);
    }
  }
});

test("other texts stay as they are", () => {
  for (const text of ["+1", "ok", "1", "#", "ü"]) {
    expect(canonicalEmoji(text)).toBe(text);
  }
});
