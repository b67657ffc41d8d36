// Addresses of pages in a text. No DOM.

export interface Linked {
  text: string;
  /** An address, if the text is one. */
  href: string | undefined;
}

/** A sentence's punctuation, and the bracket around an address, are not part of it. */
const END = /[.,;:!?'"’”…»]$/;

/** Splits a text into addresses and the text between them. */
export function linked(text: string): Linked[] {
  return text.split(/(https?:\/\/[^\s<>]+)/i).flatMap((piece, at) => {
    const length = at % 2 === 1 ? lengthOf(piece) : 0;
    const address = piece.slice(0, length);
    if (!URL.canParse(address)) {
      return [{ text: piece, href: undefined }];
    }
    return [
      { text: address, href: new URL(address).href },
      { text: piece.slice(length), href: undefined },
    ];
  });
}

function lengthOf(address: string): number {
  let end = address.length;
  for (;;) {
    const part = address.slice(0, end);
    const opens = part.split("(").length;
    if (!END.test(part) && !(part.endsWith(")") && part.split(")").length > opens)) {
      return end;
    }
    end -= 1;
  }
}

/** More emoji than these are a text. */
const LARGE_MAX = 3;

/** Reports whether a text is a few emoji and nothing else. */
export function isEmojiAlone(text: string): boolean {
  if (/[a-z,.]/i.test(text)) {
    // Most texts, for which nothing has to be split.
    return false;
  }
  const characters = [...new Intl.Segmenter().segment(text.replace(/\s/g, ""))].map(({ segment }) => segment);
  const isEmoji = (character: string) => /^(\p{Emoji_Presentation}|\p{Emoji}\ufe0f|\p{RI}\p{RI})/u.test(character);
  return characters.length > 0 && characters.length <= LARGE_MAX && characters.every(isEmoji);
}
