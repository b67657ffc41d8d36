// The words of a text, by which a search finds it.
//
// Case, compatibility forms and the marks of Latin, Greek and Cyrillic letters make no difference. Scripts without
// spaces, such as Chinese, Japanese and Thai, make overlapping pairs of characters. Each emoji is a word. The Rust core
// cuts texts in the same way: a test compares the ranges of characters with those of its `words.rs`.

/** A longer word is cut, in a text and in a search. */
const WORD_CHARS_MAX = 32;

/** Latin, Greek and Cyrillic. */
const LOSES_MARKS = /[a-z\u{c0}-\u{24f}\u{370}-\u{52f}\u{1e00}-\u{1fff}]/u;
/** Apostrophes, and what joins or selects a form: none of them ends a word. */
const IS_DROPPED = /['’ʼ]|[\u{200c}-\u{200d}]|[\u{fe0e}-\u{fe0f}]|\u{20e3}|[\u{1f3fb}-\u{1f3ff}]/u;
/** Thai, Lao, Burmese, Khmer, Kana and Han. */
const HAS_NO_SPACES =
  /[\u{e00}-\u{eff}\u{1000}-\u{109f}\u{1780}-\u{17ff}\u{3005}-\u{3007}\u{3041}-\u{30ff}\u{3400}-\u{4dbf}\u{4e00}-\u{9fff}\u{20000}-\u{323af}]/u;
const IS_EMOJI = /[\u{2190}-\u{2bff}\u{3030}\u{303d}\u{1f000}-\u{1faff}]/u;
/** The names of these classes in `words.rs`, for the test. */
export const CLASSES = {
  loses_marks: LOSES_MARKS,
  is_dropped: IS_DROPPED,
  has_no_spaces: HAS_NO_SPACES,
  is_emoji: IS_EMOJI,
};
const IS_MARK = /\p{M}/u;
const IS_LETTER = /[\p{Alphabetic}\p{N}\p{M}]/u;

interface Part {
  chars: string[];
  /** Characters of scripts without spaces. */
  isRun: boolean;
}

/** A search: all words must be in a text, the last one as the beginning of a word. */
export interface Query {
  /** The words, each of which a text contains. */
  words: readonly string[];
  /** The beginning of a word. */
  prefix: string;
  /** Returns whether the search finds this text. */
  finds(text: string): boolean;
  /**
   * Returns whether a text that has the words also has the parts in scripts without spaces. A text with all pairs of a
   * part can lack the part.
   */
  hasRuns(text: string): boolean;
}

/** Returns `undefined` for a text without words. */
export function queryOf(text: string): Query | undefined {
  const parts = partsOf(text);
  const words = parts.flatMap(wordsOfPart);
  const prefix = words.pop();
  if (prefix === undefined) {
    return undefined;
  }
  const runs = parts.filter(({ isRun }) => isRun).map(({ chars }) => chars.join(""));
  const hasRuns = (other: string) =>
    runs.length === 0 ||
    includesAll(
      folded(other)
        .filter((char) => !IS_DROPPED.test(char))
        .join(""),
      runs,
    );
  return {
    words,
    prefix,
    hasRuns,
    finds(other) {
      const found = wordsOf(other);
      const hasWords = words.every((word) => found.includes(word));
      return hasWords && found.some((word) => word.startsWith(prefix)) && hasRuns(other);
    },
  };
}

/** Returns the words of a text, in their order. */
export function wordsOf(text: string): string[] {
  return partsOf(text).flatMap(wordsOfPart);
}

function includesAll(text: string, parts: string[]): boolean {
  return parts.every((part) => text.includes(part));
}

function wordsOfPart({ chars, isRun }: Part): string[] {
  if (!isRun) {
    return [chars.slice(0, WORD_CHARS_MAX).join("")];
  }
  return chars.map((char, at) => char + (chars[at + 1] ?? ""));
}

function partsOf(text: string): Part[] {
  const parts: Part[] = [];
  let open: Part | undefined;
  for (const char of folded(text)) {
    if (IS_DROPPED.test(char)) {
      continue;
    }
    const isRun = HAS_NO_SPACES.test(char);
    if (isRun || IS_LETTER.test(char)) {
      if (open?.isRun === isRun) {
        open.chars.push(char);
      } else {
        open = { chars: [char], isRun };
        parts.push(open);
      }
    } else {
      open = undefined;
      if (IS_EMOJI.test(char)) {
        parts.push({ chars: [char], isRun: false });
      }
    }
  }
  return parts;
}

/** Lower case, without compatibility forms and without the marks of Latin, Greek and Cyrillic letters. */
function folded(text: string): string[] {
  let isMarkedLetter = false;
  const chars: string[] = [];
  // Character by character: the end of a word makes no difference, as for the Greek sigma.
  const lower = [...text.normalize("NFKD")].flatMap((char) => [...char.toLowerCase()]);
  for (const char of lower) {
    const isMark = IS_MARK.test(char);
    if (!isMark) {
      isMarkedLetter = LOSES_MARKS.test(char);
    }
    if (char === "ß") {
      chars.push("s", "s");
    } else if (!(isMark && isMarkedLetter)) {
      chars.push(char === "ς" ? "σ" : char);
    }
  }
  return chars;
}
