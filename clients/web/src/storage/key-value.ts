import { apply, copy, nothingSaved, type Storage } from "./storage.ts";

/** React Native's AsyncStorage, `localStorage`, and any other store of strings under names. */
export interface KeyValueStore {
  getItem(key: string): string | null | Promise<string | null>;
  setItem(key: string, text: string): void | Promise<void>;
}

/**
 * Remembers in one string under this name, which is written whole each time. Only one client may use it at a time; the app
 * must take care of that. In browsers, prefer `indexedDbStorage`.
 */
export function keyValueStorage(store: KeyValueStore, name: string): Storage {
  const key = `pigeonhole:${name}`;
  let saved = nothingSaved();
  return {
    async load() {
      const text = await store.getItem(key);
      if (text !== null) {
        const { held, ...rest } = JSON.parse(text);
        saved = { ...rest, held: new Map(held) };
      }
      return copy(saved);
    },
    async write(changes) {
      const next = copy(saved);
      for (const change of changes) {
        apply(next, change);
      }
      await store.setItem(key, JSON.stringify({ ...next, held: [...next.held] }));
      saved = next;
    },
  };
}
