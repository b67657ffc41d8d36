import { apply, copy, nothingSaved, type Saved, type Storage, type StorageChange } from "../saved.ts";

/**
 * Creates a storage that lasts as long as this object. After one client is closed, another one can start with its data.
 */
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
