// A store in memory, for a client that keeps nothing, and for tests.

import {
  compareKeys,
  type Database,
  type Key,
  type Mode,
  type Range,
  type Storage,
  type Table,
  type Transaction,
} from "./database.ts";

interface Rows {
  /** In their order. */
  keys: Key[];
  /** By the JSON of the key. */
  values: Map<string, unknown>;
}

/** A change of a row. Without `value`, the row is removed. */
export interface Change {
  table: Table;
  key: Key;
  value?: unknown;
}

/** Creates a storage that lasts as long as this object. Clients can use it one after another, as after a reload. */
export function memoryStorage(): Storage {
  const database = new MemoryDatabase();
  return { open: async () => database, reset: async () => database.clear() };
}

export class MemoryDatabase implements Database {
  readonly keepsFiles: boolean;
  #tables = new Map<Table, Rows>();
  #commit: (changes: Change[]) => Promise<void>;
  /** The last transaction, which never fails. */
  #last: Promise<unknown> = Promise.resolve();

  /** `commit` writes the changes of a transaction elsewhere, all or none. */
  constructor(commit: (changes: Change[]) => Promise<void> = async () => {}, keepsFiles = true) {
    this.#commit = commit;
    this.keepsFiles = keepsFiles;
  }

  transaction<T>(_mode: Mode, run: (transaction: Transaction) => Promise<T>): Promise<T> {
    const result = this.#last.then(() => this.#run(run));
    this.#last = result.catch(() => {});
    return result;
  }

  async close(): Promise<void> {
    await this.#last;
  }

  clear(): undefined {
    this.#tables.clear();
  }

  /** Applies changes that need no transaction. */
  apply(changes: Change[]): void {
    for (const { table, key, value } of changes) {
      this.#set(table, key, value);
    }
  }

  async #run<T>(run: (transaction: Transaction) => Promise<T>): Promise<T> {
    const changes: Change[] = [];
    /** The changes that restore the state before the transaction. */
    const undo: Change[] = [];
    const write = (table: Table, key: Key, value: unknown) => {
      undo.push({ table, key, value: this.#get(table, key) });
      changes.push({ table, key, value });
      this.#set(table, key, value);
    };
    try {
      const result = await run({
        get: async (table, key) => this.#get(table, key),
        range: async (table, range = {}) => this.#range(table, range),
        put: (table, key, value) => write(table, key, copied(value)),
        delete: (table, key) => write(table, key, undefined),
      });
      if (changes.length > 0) {
        await this.#commit(changes);
      }
      return result;
    } catch (error) {
      this.apply(undo.reverse());
      throw error;
    }
  }

  #rows(table: Table): Rows {
    let rows = this.#tables.get(table);
    if (!rows) {
      rows = { keys: [], values: new Map() };
      this.#tables.set(table, rows);
    }
    return rows;
  }

  #get(table: Table, key: Key): unknown {
    return copied(this.#rows(table).values.get(JSON.stringify(key)));
  }

  #set(table: Table, key: Key, value: unknown): void {
    const { keys, values } = this.#rows(table);
    const name = JSON.stringify(key);
    const isThere = values.has(name);
    if (value === undefined) {
      values.delete(name);
    } else {
      values.set(name, value);
    }
    if (isThere && value === undefined) {
      keys.splice(placeOf(keys, key), 1);
    } else if (!isThere && value !== undefined) {
      keys.splice(placeOf(keys, key), 0, key);
    }
  }

  #range(table: Table, { from, below, limit = Number.POSITIVE_INFINITY, isReverse = false }: Range): [Key, unknown][] {
    const { keys } = this.#rows(table);
    const first = from === undefined ? 0 : placeOf(keys, from);
    const end = below === undefined ? keys.length : placeOf(keys, below);
    const found = isReverse
      ? keys.slice(Math.max(first, end - limit), end).reverse()
      : keys.slice(first, Math.min(end, first + limit));
    return found.map((key) => [key, this.#get(table, key)]);
  }
}

/** Returns a copy, so that no change of an object changes a row. */
function copied(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(copied);
  }
  // Others are bytes, which do not change.
  const isPlain = typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
  return isPlain ? Object.fromEntries(Object.entries(value).map(([name, field]) => [name, copied(field)])) : value;
}

/** Returns the place of the first key that is not before this one. */
function placeOf(keys: Key[], key: Key): number {
  let [low, high] = [0, keys.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareKeys(keys[middle] ?? 0, key) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}
