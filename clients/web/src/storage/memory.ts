import { apply, copy, nothingSaved, type Saved, type Storage, type StorageChange } from "./storage.ts";

/** Remembers as long as this object lives: a client can be closed, and another one started with what the first has saved. */
export function memoryStorage(saved: Saved = nothingSaved()): Storage {
  return {
    load: async () => copy(saved),
    write: async (changes: StorageChange[]) => {
      for (const change of changes) {
        apply(saved, change);
      }
    },
  };
}
