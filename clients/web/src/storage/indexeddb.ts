// A storage in the browser's IndexedDB. The stores are: the outbox, in the order of sending; the bytes of its
// attachments; the marks; the rest.

import { PigeonholeError } from "../errors.ts";
import {
  fileOf,
  isQueued,
  nothingSaved,
  type Queued,
  type Saved,
  type Storage,
  type StorageChange,
  withMediaId,
} from "../saved.ts";

const VERSION = 3;
const STORES = ["outbox", "held", "rest", "files"];
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
  #name: string;
  #database: IDBDatabase | undefined;
  #unlock = () => {};

  constructor(name: string) {
    this.#name = name;
  }

  async load(): Promise<Saved> {
    this.#unlock = await lock(this.#name);
    try {
      return await read(await this.#open());
    } catch (error) {
      this.#unlock();
      throw error;
    }
  }

  async write(changes: StorageChange[]): Promise<void> {
    // The outbox must survive a power failure, and so must the id of an attachment, which is part of a message's
    // identity. A loss of other changes only repeats a message.
    const mustLast = (change: StorageChange) =>
      "queued" in change || ("uploading" in change && change.uploading.mediaId !== undefined);
    const durability = changes.some(mustLast) ? "strict" : "relaxed";
    const database = await this.#open();
    const transaction = database.transaction(STORES, "readwrite", { durability });
    try {
      for (const change of changes) {
        put(transaction, change);
      }
    } catch (error) {
      // Without this, the changes before the error would be written.
      transaction.abort();
      throw error;
    }
    await done(transaction);
  }

  async #open(): Promise<IDBDatabase> {
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
      };
      this.#database = database;
    }
    return this.#database;
  }

  async close(): Promise<void> {
    this.#database?.close();
    this.#database = undefined;
    this.#unlock();
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

function open(name: string): Promise<IDBDatabase> {
  const request = indexedDB.open(name, VERSION);
  request.onupgradeneeded = ({ oldVersion }) => {
    const database = request.result;
    if (oldVersion < 2) {
      // Version 1 was never released.
      for (const store of [...database.objectStoreNames]) {
        database.deleteObjectStore(store);
      }
      database.createObjectStore("outbox", { autoIncrement: true }).createIndex("by_id", "clientMsgId");
      database.createObjectStore("held");
      database.createObjectStore("rest");
    }
    database.createObjectStore("files");
  };
  return answer(request);
}

async function read(database: IDBDatabase): Promise<Saved> {
  const transaction = database.transaction(STORES);
  const store = (name: string) => transaction.objectStore(name);
  const [saved, ids, seqs, caughtUp, named, files] = await Promise.all([
    answer<Queued[]>(store("outbox").getAll()),
    answer(store("held").getAllKeys()),
    answer<number[]>(store("held").getAll()),
    answer<string | undefined>(store("rest").get("caughtUp")),
    answer(store("files").getAllKeys()),
    answer<Blob[]>(store("files").getAll()),
  ]);
  const fileNamed = new Map(named.map((id, at) => [String(id), files[at]]));
  const outbox = saved.filter(isQueued).map((queued) => withFile(queued, fileNamed.get(queued.clientMsgId)));
  const held = new Map(ids.map((id, at) => [String(id), seqs[at] ?? 0]));
  return { ...nothingSaved(), outbox, held, ...(caughtUp === undefined ? {} : { caughtUp }) };
}

/** Its bytes are written once, apart from it. */
function withFile(queued: Queued, file: Blob | undefined): Queued {
  return "body" in queued && queued.media && file
    ? { ...queued, media: { ...queued.media, source: { file } } }
    : queued;
}

function put(transaction: IDBTransaction, change: StorageChange): void {
  const store = (name: string) => transaction.objectStore(name);
  if ("queued" in change) {
    const { queued } = change;
    const file = fileOf(queued);
    store("outbox").add(file ? withFile(queued, new Blob()) : queued);
    if (file) {
      store("files").put(file, queued.clientMsgId);
    }
  } else if ("uploading" in change) {
    const { clientMsgId, mediaId } = change.uploading;
    const found = store("outbox").index("by_id").openCursor(clientMsgId);
    found.onsuccess = () => {
      found.result?.update(withMediaId(found.result.value, mediaId));
    };
  } else if ("done" in change) {
    const found = store("outbox").index("by_id").openCursor(change.done);
    found.onsuccess = () => {
      found.result?.delete();
    };
    store("files").delete(change.done);
  } else if ("held" in change) {
    const { conversation_id, seq } = change.held;
    const held = store("held");
    const before = held.get(conversation_id);
    before.onsuccess = () => {
      // Where there are no locks, another tab may have come further.
      if (seq > (before.result ?? -1)) {
        held.put(seq, conversation_id);
      }
    };
  } else if ("caughtUp" in change) {
    store("rest").put(change.caughtUp, "caughtUp");
  }
}

function answer<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function done(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error);
  });
}
