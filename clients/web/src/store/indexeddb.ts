// A store in the browser's IndexedDB.

import { PigeonholeError } from "../errors.ts";
import {
  compareKeys,
  type Database,
  type Key,
  type Mode,
  type Range,
  type Shared,
  type Storage,
  TABLES,
  type Table,
  type Transaction,
  VERSION,
} from "./database.ts";

/** A page that is being reloaded releases its lock within this. */
const LOCK_WAIT = 2000;

/**
 * Creates a storage with this name, in this browser profile and origin. Only one client may use it at a time, over all
 * tabs. Give each user a name of their own, and each tab, if the app may be open in several.
 *
 * @throws `storage_busy`, when the client is connected: another client has it. `storage`: the platform has no
 * IndexedDB.
 */
export function indexedDbStorage(name: string): Storage {
  return new IndexedDbStorage(`pigeonhole:${name}`);
}

class IndexedDbStorage implements Storage {
  readonly shared: Shared;
  #name: string;

  constructor(name: string) {
    this.#name = name;
    this.shared = { name, version: VERSION, open: (outdated) => IndexedDb.open(name, () => {}, outdated) };
  }

  async open(): Promise<Database> {
    const unlock = await lock(this.#name);
    try {
      return await IndexedDb.open(this.#name, unlock);
    } catch (error) {
      unlock();
      throw error;
    }
  }

  async reset(): Promise<undefined> {
    await answer(indexedDB.deleteDatabase(this.#name));
  }
}

export class IndexedDb implements Database {
  readonly keepsFiles = true;
  #name: string;
  #database: IDBDatabase | undefined;
  #isClosed = false;
  #closed: () => void;
  #outdated: () => void;

  /**
   * Opens the database. `closed` is called when the client no longer uses it, and `outdated` when a later version of the
   * app needs it.
   */
  static async open(name: string, closed: () => void, outdated = () => {}): Promise<IndexedDb> {
    const opened = new IndexedDb(name, closed, outdated);
    await opened.#open();
    return opened;
  }

  private constructor(name: string, closed: () => void, outdated: () => void) {
    this.#name = name;
    this.#closed = closed;
    this.#outdated = outdated;
  }

  async transaction<T>(mode: Mode, run: (transaction: Transaction) => Promise<T>): Promise<T> {
    const database = await this.#open();
    const transaction =
      mode === "read"
        ? database.transaction(TABLES)
        : database.transaction(TABLES, "readwrite", { durability: mode === "lasting" ? "strict" : "relaxed" });
    const ended = end(transaction);
    try {
      const result = await run(accessTo(transaction));
      await ended;
      return result;
    } catch (error) {
      // Without this, what was written before the error would be committed.
      abort(transaction);
      await ended.catch(() => {});
      throw error;
    }
  }

  async #open(): Promise<IDBDatabase> {
    if (this.#isClosed) {
      throw new PigeonholeError("closed", "the storage is closed");
    }
    if (!this.#database) {
      const database = await open(this.#name);
      const forget = () => {
        this.#database = undefined;
      };
      // Browsers may close it, when memory or disk space is short.
      database.onclose = forget;
      // A tab with a later version of the app waits until all others have closed it.
      database.onversionchange = () => {
        database.close();
        forget();
        this.#outdated();
      };
      this.#database = database;
    }
    return this.#database;
  }

  close(): void {
    this.#isClosed = true;
    this.#database?.close();
    this.#database = undefined;
    this.#closed();
  }
}

/** Locks out other tabs until the returned function is called. */
async function lock(name: string): Promise<() => void> {
  // Some platforms, and pages without TLS, have no locks. There the app must take care of it.
  const locks = globalThis.navigator?.locks;
  if (!locks) {
    return () => {};
  }
  // `AbortSignal.timeout` is younger than locks: Safari 15.4 has only these.
  const wait = new AbortController();
  const timer = setTimeout(() => wait.abort(), LOCK_WAIT);
  return new Promise((resolve, reject) => {
    const held = () => {
      clearTimeout(timer);
      return new Promise<void>((unlock) => resolve(unlock));
    };
    locks.request(name, { signal: wait.signal }, held).catch((cause: unknown) => {
      clearTimeout(timer);
      reject(new PigeonholeError("storage_busy", `another client uses the storage ${name}`, { cause }));
    });
  });
}

async function open(name: string): Promise<IDBDatabase> {
  const request = indexedDB.open(name, FIRST_VERSION + VERSION);
  request.onupgradeneeded = ({ oldVersion }) => {
    const database = request.result;
    if (oldVersion <= FIRST_VERSION) {
      for (const store of [...database.objectStoreNames]) {
        database.deleteObjectStore(store);
      }
    }
    // The tables of an earlier version stay as they are.
    for (const table of TABLES) {
      if (!database.objectStoreNames.contains(table)) {
        database.createObjectStore(table);
      }
    }
  };
  try {
    return await answer(request);
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "VersionError") {
      throw new PigeonholeError("newer", `a later version of the app wrote the storage ${name}`, { cause });
    }
    throw cause;
  }
}

/** Versions up to this one had other tables, and were never released. */
const FIRST_VERSION = 3;

function accessTo(transaction: IDBTransaction): Transaction {
  const store = (table: Table) => transaction.objectStore(table);
  return {
    get: (table, key) => answer(store(table).get(key as IDBValidKey)),
    range: (table, range = {}) => read(store(table), range),
    put: (table, key, value) => {
      store(table).put(value, key as IDBValidKey);
    },
    delete: (table, key) => {
      store(table).delete(key as IDBValidKey);
    },
  };
}

async function read(store: IDBObjectStore, { from, below, limit, isReverse }: Range): Promise<[Key, unknown][]> {
  if (limit === 0 || (from !== undefined && below !== undefined && compareKeys(from, below) >= 0)) {
    return [];
  }
  let range = rangeOf(from as IDBValidKey | undefined, below as IDBValidKey | undefined);
  if (isReverse && limit !== undefined) {
    const first = await keyBefore(store.openKeyCursor(range, "prev"), limit - 1);
    range = rangeOf(first ?? (from as IDBValidKey | undefined), below as IDBValidKey | undefined);
  }
  const count = isReverse ? undefined : limit;
  const [keys, values] = await Promise.all([
    answer(store.getAllKeys(range, count)),
    answer<unknown[]>(store.getAll(range, count)),
  ]);
  const found = keys.map((key, at): [Key, unknown] => [key as Key, values[at]]);
  return isReverse ? found.reverse() : found;
}

function rangeOf(from: IDBValidKey | undefined, below: IDBValidKey | undefined): IDBKeyRange | null {
  if (from === undefined) {
    return below === undefined ? null : IDBKeyRange.upperBound(below, true);
  }
  return below === undefined ? IDBKeyRange.lowerBound(from) : IDBKeyRange.bound(from, below, false, true);
}

/** Returns the key this many rows before the last one. A cursor over the rows would take an event for each of them. */
async function keyBefore(request: IDBRequest<IDBCursor | null>, rows: number): Promise<IDBValidKey | undefined> {
  const last = await answer(request);
  if (!last || rows === 0) {
    return last?.key;
  }
  last.advance(rows);
  return (await answer(request))?.key;
}

function answer<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function end(transaction: IDBTransaction): Promise<void> {
  const ended = new Promise<void>((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error);
  });
  // The caller of the transaction gets the first error.
  ended.catch(() => {});
  return ended;
}

function abort(transaction: IDBTransaction): void {
  try {
    transaction.abort();
  } catch {
    // The transaction has ended already.
  }
}
