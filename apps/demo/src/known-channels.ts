// Open channels that were made in this browser: the server has no list of all channels. No DOM.

const NAME = "channels made here";
const KEPT_MAX = 20;

export interface KnownChannel {
  id: string;
  title: string;
}

/** The newest first. */
export function madeHere(): KnownChannel[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(NAME) ?? "[]");
    return Array.isArray(kept) ? kept.filter(isKnown) : [];
  } catch {
    return [];
  }
}

export function remember(id: string, title: string): void {
  const others = madeHere().filter((known) => known.id !== id);
  localStorage.setItem(NAME, JSON.stringify([{ id, title }, ...others].slice(0, KEPT_MAX)));
}

function isKnown(value: unknown): value is KnownChannel {
  const { id, title } = (value ?? {}) as Record<string, unknown>;
  return typeof id === "string" && typeof title === "string";
}
