// "@" and a name in a text. No DOM.

import { limits } from "@pigeonhole/client";

/** A user who can be mentioned: an id, or `*` under the name `all`. */
export interface Named {
  id: string;
  name: string;
}

/** A piece of a text; a mention begins with "@". */
export interface Piece {
  text: string;
  name: string | undefined;
}

/** Splits a text into pieces. Punctuation after a name is not part of it, unless a user has that name. */
export function pieces(text: string, names: ReadonlySet<string>): Piece[] {
  return text.split(/(@[!-~]+)/).flatMap((text) => {
    let name = text.startsWith("@") ? text.slice(1) : "";
    while (name !== "" && !names.has(name)) {
      name = /[^A-Za-z0-9]$/.test(name) ? name.slice(0, -1) : "";
    }
    const rest = { text: text.slice(name === "" ? 0 : name.length + 1), name: undefined };
    return name === "" ? [rest] : [{ text: `@${name}`, name }, rest];
  });
}

/** Returns the ids that a text mentions. */
export function mentionsIn(body: string, named: readonly Named[]): string[] {
  const found = new Set(pieces(body, new Set(named.map(({ name }) => name))).map(({ name }) => name));
  const ids = named.filter(({ name }) => found.has(name)).map(({ id }) => id);
  // All are all: the server takes it alone.
  return ids.includes("*") ? ["*"] : ids.slice(0, limits.MENTIONS_MAX);
}
