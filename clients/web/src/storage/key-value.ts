import { apply, copy, nothingSaved, type Storage } from "./storage.ts";

/** React Native's AsyncStorage, `localStorage`, and whatever else keeps texts under names. */
export interface KeyValueStore {
  getItem(key: string): string | null | Promise<string | null>;
  setItem(key: string, text: string): void | Promise<void>;
}

/**
 * Remembers in one text under this name, which is written whole each time. One client has it at a time; the app sees to
 * that. In browsers `indexedDbStorage` is the better one.
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
