import { PigeonholeError } from "../errors.ts";
import type { Storage, StorageChange } from "../saved.ts";

/** Writes to the storage, one write after the other, and keeps what could not be written for the next one. */
export class StorageWriter {
  #storage: Storage;
  /** Changes that could not be written. */
  #unsaved: StorageChange[] = [];
  /** The last write, which never fails. */
  #last: Promise<void> = Promise.resolve();

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** Rejects if these can't be written. */
  save(changes: StorageChange[]): Promise<void> {
    return this.#next(async () => {
      try {
        await this.#write(changes);
      } catch (cause) {
        throw new PigeonholeError("storage", "the outbox can't be written", { cause });
      }
    });
  }

  /** Keeps these for the next write if they can't be written. */
  saveSoon(changes: StorageChange[]): Promise<void> {
    return this.#next(async () => {
      try {
        await this.#write(changes);
      } catch {
        this.#unsaved.push(...changes);
      }
    });
  }

  close(): Promise<void> {
    return this.#next(async () => this.#storage.close?.());
  }

  async #write(changes: StorageChange[]): Promise<void> {
    await this.#storage.write([...this.#unsaved, ...changes]);
    this.#unsaved = [];
  }

  #next(write: () => Promise<void>): Promise<void> {
    const written = this.#last.then(write);
    this.#last = written.catch(() => {});
    return written;
  }
}
