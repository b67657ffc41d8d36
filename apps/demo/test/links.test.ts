import { expect, it } from "vitest";
import { isEmojiAlone, linked } from "../src/links.ts";

const hrefs = (text: string) => linked(text).flatMap(({ href }) => href ?? []);

it("finds addresses, without the punctuation around them", () => {
  const text = "See https://a.example/b, or (http://c.example/d_(e)).";
  expect(hrefs(text)).toEqual(["https://a.example/b", "http://c.example/d_(e)"]);
});

it("links only addresses of pages, and loses no text", () => {
  expect(hrefs("javascript:alert(1) data:text/html,x ftp://a.example https:// http://[ a.example")).toEqual([]);
  for (const text of ["", "https://", "https://?!", "x https://a.example", "HTTP://A.example/ü?q=1#x…"]) {
    expect(
      linked(text)
        .map(({ text }) => text)
        .join(""),
    ).toBe(text);
  }
});

it("knows a few emoji from a text", () => {
  expect(["👍", "❤️", "🇩🇪 👨‍👩‍👧", "1️⃣", "🎉🎉🎉"].map(isEmojiAlone)).toEqual([true, true, true, true, true]);
  expect(["", " ", "1", "👍 ok", "🎉🎉🎉🎉", "©", "#"].map(isEmojiAlone)).toEqual(Array(7).fill(false));
});
