import { apply, copy, fileOf, isQueued, nothingSaved, type Saved, type Storage } from "../saved.ts";

/** React Native's AsyncStorage, `localStorage`, and any other store of strings under names. */
export interface KeyValueStore {
  getItem(key: string): string | null | Promise<string | null>;
  setItem(key: string, text: string): void | Promise<void>;
}

/**
 * Creates a storage in one string under this name, which it writes whole each time. Only one client may use the name at
 * a time; the app must ensure that. In browsers, prefer `indexedDbStorage`. The storage saves an unreadable string
 * under the name with `:unreadable` at its end, in place of an earlier one.
 */
export function keyValueStorage(store: KeyValueStore, name: string): Storage {
  const key = `pigeonhole:${name}`;
  let saved = nothingSaved();
  let setAside: string | undefined;
  return {
    async load() {
      const text = await store.getItem(key);
      const read = text === null ? nothingSaved() : parse(text);
      if (!read && text !== null) {
        // Before the first write puts another one in its place.
        await store.setItem(`${key}:unreadable`, text);
        setAside = `${key}:unreadable`;
      }
      saved = read ?? nothingSaved();
      return copy(saved);
    },
    setAside: () => setAside,
    async write(changes) {
      const next = copy(saved);
      for (const change of changes) {
        // Bytes are no string.
        if (!("queued" in change && fileOf(change.queued))) {
          apply(next, change);
        }
      }
      await store.setItem(key, JSON.stringify({ ...next, held: [...next.held] }));
      saved = next;
    },
  };
}

/** `undefined`: no version of this client has written that. */
function parse(text: string): Saved | undefined {
  try {
    const { outbox, held, caughtUp } = JSON.parse(text);
    const isMark = ([id, seq]: [unknown, unknown]) => typeof id === "string" && Number.isSafeInteger(seq);
    const isTime = caughtUp === undefined || typeof caughtUp === "string";
    if (!isTime || !outbox.every(isQueued) || !held.every(isMark)) {
      return undefined;
    }
    return { ...nothingSaved(), outbox, held: new Map(held), ...(caughtUp === undefined ? {} : { caughtUp }) };
  } catch {
    return undefined;
  }
}
