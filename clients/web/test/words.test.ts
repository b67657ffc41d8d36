// The words of a text, and that the Rust core has the same ones.

import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { Store } from "../src/store/store.ts";
import type { Write } from "../src/store/types.ts";
import { CLASSES, queryOf, wordsOf } from "../src/store/words.ts";
import { folder } from "./script.ts";
import { storages, text } from "./store-writes.ts";

interface Search {
  name: string;
  messages: Record<number, string>;
  changes?: { edit?: number; delete?: number; body?: string }[];
  finds: Record<string, number[]>;
}

function entriesOf({ messages, changes = [] }: Search): Write[] {
  const entries = Object.values(messages).map((body, at) => text(at + 1, body));
  for (const { edit, delete: deleted, body = "" } of changes) {
    const seq = entries.length + 1;
    const kind = edit === undefined ? "delete" : "edit";
    entries.push({ ...text(seq, body), kind, target_seq: edit ?? deleted ?? 0, ...(edit ? { version: seq } : {}) });
  }
  return entries.map((entry) => ({ entry }));
}

describe("search.yaml", () => {
  const searches = parse(readFileSync(new URL("search.yaml", folder), "utf8")) as Search[];
  for (const search of searches) {
    it.each(storages)(`${search.name}, %s`, async (_, make) => {
      const store = await Store.open(make(), "alice");
      await store.apply(entriesOf(search), false);
      for (const [words, seqs] of Object.entries(search.finds)) {
        const found = (await store.search(words, 9)).map(({ seq }) => seq);
        expect(found, words).toEqual(seqs);
      }
      await store.close();
    });
  }
});

it("finds each text by itself, and cuts it into words of letters, digits and emoji", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", maxLength: 40 }), (text) => {
      expect(queryOf(text)?.finds(text) ?? true).toBe(true);
      for (const word of wordsOf(text)) {
        expect(word.replace(/[0-9a-z]|[^\p{ASCII}]/gu, "")).toBe("");
        expect([...word].length).toBeLessThanOrEqual(32);
      }
    }),
  );
});

/** Returns the characters that a function of `words.rs` matches. */
function rustClass(name: string): Set<number> {
  const source = readFileSync(new URL("../../core/src/words.rs", import.meta.url), "utf8");
  const [, body = ""] =
    new RegExp(`fn ${name}\\(c: char\\) -> bool \\{\\s*matches!\\(\\s*c,([^;]*?)\\)\\s*\\}`).exec(source) ?? [];
  const found = new Set<number>();
  const pattern = /'(\\u\{(\w+)\}|\\?.)'(?:\.\.='(\\u\{(\w+)\}|\\?.)')?/gu;
  const code = (char: string, hex?: string) =>
    hex ? Number.parseInt(hex, 16) : (char.replace("\\", "").codePointAt(0) ?? 0);
  for (const [, char = "", hex, endChar, endHex] of body.matchAll(pattern)) {
    const first = code(char, hex);
    const last = endChar === undefined ? first : code(endChar, endHex);
    for (let at = first; at <= last; at += 1) {
      found.add(at);
    }
  }
  return found;
}

it.each(Object.entries(CLASSES))("has the characters of words.rs in %s", (name, pattern) => {
  const rust = rustClass(name);
  expect(rust.size).toBeGreaterThan(5);
  for (let code = 0; code < 0x110000; code += 1) {
    // Half a character is none in Rust.
    if (code < 0xd800 || code > 0xdfff) {
      if (pattern.test(String.fromCodePoint(code)) !== rust.has(code)) {
        expect.fail(`U+${code.toString(16)} is in one class only`);
      }
    }
  }
});
