// Ordered keys and values with transactions, on which a message store stands.

/** A key, in the order of IndexedDB: numbers before texts, and texts before lists. */
export type Key = number | string | readonly (number | string)[];

/** The version of the tables. A later version of the app may write a later one. */
export const VERSION = 2;

/**
 * The tables, named as those of the SQLite store:
 *
 * - `meta`: by name: `me`, `device`, `owner` (how often the store was opened), `num` (the last one), `caught_up`, `listed`
 * - `conversation`: by id, with its row of the chat list and its spans
 * - `message`: by `[num, seq]`, as the message is by now. A `num` is never used again.
 * - `search`: by `[num, part]`, the words of some messages in one text
 * - `member`: by `[num, user_id]`
 * - `draft`: by its target, `outbox`: in the order of sending, `file`: the bytes of its attachments, by `client_msg_id`
 * - `unneeded`: files outside of the store that the client must still remove
 * - `sealing`: the states and private keys of the end-to-end encryption, by the key that the encryption gives
 */
export const TABLES = [
  "meta",
  "conversation",
  "message",
  "search",
  "member",
  "draft",
  "outbox",
  "file",
  "unneeded",
  "sealing",
] as const;

export type Table = (typeof TABLES)[number];

/** Some keys of a table: those from `from`, and those below `below`. */
export interface Range {
  from?: Key;
  below?: Key;
  /** At most this number, from the first; with `isReverse`, from the last. */
  limit?: number;
  isReverse?: boolean;
}

export interface Transaction {
  get(table: Table, key: Key): Promise<unknown>;
  range(table: Table, range?: Range): Promise<[Key, unknown][]>;
  /** Sees what this transaction has written. */
  put(table: Table, key: Key, value: unknown): void;
  delete(table: Table, key: Key): void;
}

/** `lasting`: the transaction and all earlier ones survive a power failure once it has ended. */
export type Mode = "read" | "write" | "lasting";

export interface Database {
  /** Whether a value can have bytes. Without it, a message with an attachment does not survive a restart. */
  readonly keepsFiles: boolean;
  /**
   * Runs a transaction, which waits for nothing but its own reads. When this resolves, the transaction is committed. If
   * `run` or the commit fails, nothing of it is written.
   */
  transaction<T>(mode: Mode, run: (transaction: Transaction) => Promise<T>): Promise<T>;
  /** Another client may open it. */
  close(): void | Promise<void>;
}

/** Where a client keeps what must survive a restart. One client uses it at a time. */
export interface Storage {
  /**
   * Opens it, or creates it.
   *
   * @throws `newer`: a later version of the app wrote it. `storage_busy`: another client has it.
   */
  open(): Promise<Database>;
  /** Begins with nothing, in place of data that can't be read. Returns the name of a copy, if it makes one. */
  reset?(): Promise<string | undefined>;
  /** A storage that all tabs of an app share. */
  readonly shared?: Shared;
}

/** A storage of which one tab at a time, the holder of a lock, is the client. */
export interface Shared {
  /** The name of the lock. */
  readonly name: string;
  /** The version of the tables. A tab makes way for one with a later version. */
  readonly version: number;
  /** Opens it without the lock. `outdated` is called when a later version of the app needs it. */
  open(outdated: () => void): Promise<Database>;
}

/** Compares keys: negative if the first is before the other. */
export function compareKeys(one: Key, other: Key): number {
  const [first, second] = [rank(one), rank(other)];
  if (first !== second || typeof one !== "object" || typeof other !== "object") {
    return first - second || (one < other ? -1 : Number(one > other));
  }
  for (const [at, part] of one.entries()) {
    const otherPart = other[at];
    const difference = otherPart === undefined ? 1 : compareKeys(part, otherPart);
    if (difference !== 0) {
      return difference;
    }
  }
  return one.length - other.length;
}

function rank(key: Key): number {
  return ["number", "string", "object"].indexOf(typeof key);
}
