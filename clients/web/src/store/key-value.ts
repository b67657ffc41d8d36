// A store in strings under names, such as those of React Native's AsyncStorage.

import { PigeonholeError } from "../errors.ts";
import { type Database, type Key, type Storage, type Table, VERSION } from "./database.ts";
import { type Change, MemoryDatabase } from "./memory.ts";

/** React Native's AsyncStorage, `localStorage`, and any other store of strings under names. */
export interface KeyValueStore {
  getItem(key: string): string | null | Promise<string | null>;
  setItem(key: string, text: string): void | Promise<void>;
  removeItem(key: string): void | Promise<void>;
}

/** The rows of a part, by the JSON of their table and key. A transaction writes each part that it changes as a whole. */
type Part = Map<string, unknown>;

/** The first string: the names of all others. */
interface Head {
  version: number;
  parts: string[];
}

/** All strings of a transaction that has more than one. Without a text, the string goes. */
type Journal = Record<string, string | null>;

/** The number of messages in a part. */
const MESSAGES = 64;
/** The number of parts of a table whose keys are texts. */
const TEXTS = 16;

/**
 * Creates a storage in strings whose names begin with this one. The client reads all of it at its start, and has it in
 * memory from then on. Only one client may use the name at a time; the app must ensure that. In browsers, prefer
 * `indexedDbStorage`. If a string can't be read, the storage copies all under their names with `:unreadable` at the end,
 * in place of earlier copies.
 *
 * Bytes are no strings: a message whose attachment is not uploaded yet does not survive a restart.
 */
export function keyValueStorage(store: KeyValueStore, name: string): Storage {
  return new Strings(store, `pigeonhole:${name}`);
}

class Strings implements Storage {
  #store: KeyValueStore;
  #name: string;
  #parts = new Map<string, Part>();
  /** Committed, and not yet in its strings. */
  #journal: Journal | undefined;

  constructor(store: KeyValueStore, name: string) {
    this.#store = store;
    this.#name = name;
  }

  async open(): Promise<Database> {
    // A transaction that was cut off is complete in the journal.
    const journal = await this.#store.getItem(this.#nameOf("journal"));
    this.#journal = journal === null ? undefined : parse<Journal>(journal);
    await this.#finish();
    const { version, parts } = await this.#head();
    if (version > VERSION) {
      throw new PigeonholeError("newer", `a later version of the app wrote the storage ${this.#name}`);
    }
    const database = new MemoryDatabase((changes) => this.#commit(changes), false);
    this.#parts.clear();
    for (const name of parts) {
      const text = await this.#store.getItem(this.#nameOf(name));
      const part: Part = new Map(text === null ? [] : parse<[string, unknown][]>(text));
      this.#parts.set(name, part);
      database.apply([...part].map(([row, value]) => ({ ...placeOf(row), value })));
    }
    return database;
  }

  async reset(): Promise<string> {
    const head = await this.#head().catch(() => ({ parts: [] }));
    for (const name of ["", "journal", ...head.parts]) {
      const text = await this.#store.getItem(this.#nameOf(name));
      if (text !== null) {
        await this.#store.setItem(`${this.#nameOf(name)}:unreadable`, text);
        await this.#store.removeItem(this.#nameOf(name));
      }
    }
    this.#journal = undefined;
    return `${this.#name}:unreadable`;
  }

  async #head(): Promise<Head> {
    const text = await this.#store.getItem(this.#name);
    const head = text === null ? { version: VERSION, parts: [] } : parse<Head>(text);
    if (!Number.isSafeInteger(head.version) || !Array.isArray(head.parts)) {
      throw new SyntaxError("the first string is none of a store");
    }
    return head;
  }

  /** One string is written whole or not at all, so several are in a journal first. */
  async #commit(changes: Change[]): Promise<void> {
    await this.#finish();
    const parts = new Map<string, Part>();
    for (const { table, key, value } of changes) {
      const name = partOf(table, key);
      const part = parts.get(name) ?? new Map(this.#parts.get(name));
      parts.set(name, part);
      const row = JSON.stringify([table, key]);
      if (value === undefined) {
        part.delete(row);
      } else {
        part.set(row, value);
      }
    }
    const next = new Map(this.#parts);
    const journal: Journal = {};
    for (const [name, part] of parts) {
      const isEmpty = part.size === 0;
      journal[name] = isEmpty ? null : JSON.stringify([...part]);
      if (isEmpty) {
        next.delete(name);
      } else {
        next.set(name, part);
      }
    }
    if (next.size !== this.#parts.size || [...parts.keys()].some((name) => next.has(name) !== this.#parts.has(name))) {
      journal[""] = JSON.stringify({ version: VERSION, parts: [...next.keys()] } satisfies Head);
    }
    const [[name, text] = [], ...others] = Object.entries(journal);
    if (name !== undefined && typeof text === "string" && others.length === 0) {
      await this.#store.setItem(this.#nameOf(name), text);
      this.#parts = next;
      return;
    }
    await this.#store.setItem(this.#nameOf("journal"), JSON.stringify(journal));
    // From here on, the transaction is committed.
    this.#parts = next;
    this.#journal = journal;
    await this.#finish().catch(() => {});
  }

  /** Writes the strings of the journal. The next transaction waits for that. */
  async #finish(): Promise<void> {
    if (!this.#journal) {
      return;
    }
    for (const [name, text] of Object.entries(this.#journal)) {
      await (text === null
        ? this.#store.removeItem(this.#nameOf(name))
        : this.#store.setItem(this.#nameOf(name), text));
    }
    await this.#store.removeItem(this.#nameOf("journal"));
    this.#journal = undefined;
  }

  #nameOf(name: string): string {
    return name === "" ? this.#name : `${this.#name}:${name}`;
  }
}

function parse<T>(text: string): T {
  return JSON.parse(text);
}

function placeOf(row: string): { table: Table; key: Key } {
  const [table, key] = parse<[Table, Key]>(row);
  return { table, key };
}

/** Returns the name of the part that has this row. */
function partOf(table: Table, key: Key): string {
  if (typeof key === "object") {
    const [num, seq] = key;
    return `${table}:${num}:${typeof seq === "number" ? Math.floor(seq / MESSAGES) : ""}`;
  }
  if (typeof key === "number") {
    return `${table}:${Math.floor(key / MESSAGES)}`;
  }
  const sum = [...key].reduce((sum, char) => sum + (char.codePointAt(0) ?? 0), 0);
  return `${table}:${sum % TEXTS}`;
}
