// A storage in the browser's IndexedDB: a store for the outbox, in the order of sending, one for the marks, one for the rest, one for
// what is being uploaded, and one for its bytes, which are written once.

import { PigeonholeError } from "../errors.ts";
import type { Change, Queued, Saved, Storage, Upload } from "./storage.ts";

const VERSION = 3;
const STORES = ["outbox", "held", "rest", "uploads", "blobs"];
/** A page that is being reloaded releases its lock within this. */
const LOCK_WAIT = 2000;

/**
 * Remembers under this name, in this browser profile and origin. Only one client may use it at a time, over all tabs: give
 * each user a name of their own, and each tab, if the app may be open in several.
 *
 * @throws `storage_busy`, when the client is connected: another one has it. `storage`: there is no IndexedDB here.
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

  async write(changes: Change[]): Promise<void> {
    // What is queued must survive a power failure; if the rest is lost, a message comes again at most.
    const durability = changes.some((change) => "queued" in change || "uploading" in change) ? "strict" : "relaxed";
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
      // Browsers may close it, when memory or disk space is short.
      database.onclose = () => {
        this.#database = undefined;
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
  return new Promise((resolve, reject) => {
    const held = () => new Promise<void>((unlock) => resolve(unlock));
    locks.request(name, { signal: AbortSignal.timeout(LOCK_WAIT) }, held).catch((cause: unknown) => {
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
    database.createObjectStore("uploads", { autoIncrement: true }).createIndex("by_id", "clientMsgId");
    database.createObjectStore("blobs");
  };
  return answer(request);
}

async function read(database: IDBDatabase): Promise<Saved> {
  const transaction = database.transaction(STORES);
  const store = (name: string) => transaction.objectStore(name);
  const [outbox, ids, seqs, caughtUp, uploads, named, blobs] = await Promise.all([
    answer<Queued[]>(store("outbox").getAll()),
    answer(store("held").getAllKeys()),
    answer<number[]>(store("held").getAll()),
    answer<string | undefined>(store("rest").get("caughtUp")),
    answer<Upload[]>(store("uploads").getAll()),
    answer(store("blobs").getAllKeys()),
    answer<Blob[]>(store("blobs").getAll()),
  ]);
  const bytes = new Map(named.map((id, at) => [String(id), blobs[at]]));
  const withBytes = uploads.map((upload) => {
    const blob = bytes.get(upload.clientMsgId);
    return blob ? { ...upload, blob } : upload;
  });
  const held = new Map(ids.map((id, at) => [String(id), seqs[at] ?? 0]));
  return {
    outbox,
    held,
    ...(caughtUp === undefined ? {} : { caughtUp }),
    ...(uploads.length === 0 ? {} : { uploads: withBytes }),
  };
}

function put(transaction: IDBTransaction, change: Change): void {
  const store = (name: string) => transaction.objectStore(name);
  if ("queued" in change) {
    store("outbox").add(change.queued);
    endUpload(transaction, change.queued.clientMsgId);
  } else if ("uploading" in change) {
    const { blob, ...upload } = change.uploading;
    const uploads = store("uploads");
    const found = uploads.index("by_id").getKey(upload.clientMsgId);
    found.onsuccess = () => {
      if (found.result !== undefined) {
        uploads.put(upload, found.result);
        return;
      }
      uploads.add(upload);
      if (blob) {
        store("blobs").put(blob, upload.clientMsgId);
      }
    };
  } else if ("done" in change) {
    remove(store("outbox"), change.done);
    endUpload(transaction, change.done);
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
  } else {
    store("rest").put(change.caughtUp, "caughtUp");
  }
}

function endUpload(transaction: IDBTransaction, id: string): void {
  remove(transaction.objectStore("uploads"), id);
  transaction.objectStore("blobs").delete(id);
}

/** By its `clientMsgId`. */
function remove(store: IDBObjectStore, id: string): void {
  const found = store.index("by_id").getKey(id);
  found.onsuccess = () => {
    if (found.result !== undefined) {
      store.delete(found.result);
    }
  };
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
