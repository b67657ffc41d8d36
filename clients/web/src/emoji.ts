// One spelling for each emoji, as the server has it.

/**
 * Returns the emoji with a variation selector (U+FE0F) behind each character that needs one, and nowhere else.
 * Unicode's TR 51 calls this form fully qualified. `❤` and `❤️` are one reaction, so they must be one key.
 */
export function canonicalEmoji(text: string): string {
  return text.replace(/[\uFE0E\uFE0F]/gu, "").replace(TEXT_BY_DEFAULT, "$&\uFE0F");
}

/** A digit of a keycap; or a character that shows as text by itself, unless a skin tone follows. */
const TEXT_BY_DEFAULT = /[#*0-9](?=\u20E3)|(?!\p{ASCII})(?!\p{Emoji_Presentation})\p{Emoji}(?!\p{Emoji_Modifier})/gu;
