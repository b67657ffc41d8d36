// As much of a browser as several tabs share: locks, channels and an IndexedDB in memory.

import "fake-indexeddb/auto";
import type { OpenSocket, Socket } from "../src/config.ts";
import type { Database } from "../src/store/database.ts";
import { indexedDbStorage } from "../src/store/indexeddb.ts";
import type { Channel, Platform } from "../src/tabs.ts";
import { nodeSocket } from "./server.ts";

interface Request {
  tab: Page;
  held: (lock: Lock | null) => Promise<unknown>;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

export class Browser {
  #held = new Map<string, Request>();
  #queues = new Map<string, Request[]>();
  readonly pages = new Set<Page>();

  /** Opens a page of the app. */
  page(): Page {
    const page = new Page(this);
    this.pages.add(page);
    return page;
  }

  // Locks.

  request(
    tab: Page,
    name: string,
    { signal, steal = false }: LockOptions,
    held: (lock: Lock | null) => Promise<unknown>,
  ): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (tab.isDead) {
        return;
      }
      const request = { tab, held, resolve, reject };
      const queue = this.#queues.get(name) ?? [];
      this.#queues.set(name, queue);
      if (steal) {
        const lost = this.#held.get(name);
        this.#held.delete(name);
        lost?.tab.run(() => lost.reject(new DOMException("stolen", "AbortError")));
        queue.unshift(request);
      } else {
        queue.push(request);
      }
      if (signal?.aborted) {
        queue.splice(queue.indexOf(request), 1);
        reject(new DOMException("aborted", "AbortError"));
      }
      signal?.addEventListener("abort", () => {
        const now = this.#queues.get(name) ?? [];
        if (now.includes(request)) {
          now.splice(now.indexOf(request), 1);
          reject(new DOMException("aborted", "AbortError"));
        }
      });
      queueMicrotask(() => this.#grant(name));
    });
  }

  #grant(name: string): void {
    const queue = this.#queues.get(name) ?? [];
    const request = this.#held.has(name) ? undefined : queue.shift();
    if (request) {
      this.#held.set(name, request);
      const released = (settle: () => void) => {
        if (this.#held.get(name) === request) {
          this.#held.delete(name);
          this.#grant(name);
          settle();
        }
      };
      request.held(null).then(
        (value) => released(() => request.resolve(value)),
        (error) => released(() => request.reject(error)),
      );
    }
  }

  /** The page is gone, whatever it was doing. */
  kill(page: Page): void {
    page.die();
    this.pages.delete(page);
    for (const [name, queue] of this.#queues) {
      this.#queues.set(
        name,
        queue.filter(({ tab }) => tab !== page),
      );
      if (this.#held.get(name)?.tab === page) {
        this.#held.delete(name);
        this.#grant(name);
      }
    }
  }
}

export class Page implements Platform {
  #browser: Browser;
  #channels = new Set<Connected>();
  #sockets = new Set<Socket>();
  isDead = false;
  /** A client of the page has the lock and opens the store. */
  isAsked = false;
  /** The number of posts to other tabs. */
  posted = 0;
  /** Opens the store no sooner than this. */
  opens: Promise<void> = Promise.resolve();
  /** The page gets nothing from other tabs and of its locks for a while. Its socket works. */
  #isStopped = false;
  #waiting: (() => void)[] = [];

  constructor(browser: Browser) {
    this.#browser = browser;
  }

  readonly locks = {
    request: (name: string, options: LockOptions, held: (lock: Lock | null) => Promise<unknown>) =>
      this.#browser.request(this, name, options, held),
  } as Platform["locks"];

  channel(name: string): Channel {
    const channel = new Connected(name, this, () => [...this.#browser.pages]);
    this.#channels.add(channel);
    return channel;
  }

  stop(): void {
    this.#isStopped = true;
  }

  resume(): void {
    this.#isStopped = false;
    for (const wait of this.#waiting.splice(0)) {
      wait();
    }
  }

  /** Runs this as soon as the page is not stopped. */
  run(what: () => void): void {
    if (this.#isStopped) {
      this.#waiting.push(what);
    } else {
      what();
    }
  }

  channels(name: string): Connected[] {
    return [...this.#channels].filter((channel) => channel.name === name);
  }

  readonly webSocket: OpenSocket = (url, protocols) => {
    if (this.isDead) {
      return { onopen: null, onmessage: null, onerror: null, onclose: null, send: () => {}, close: () => {} };
    }
    const socket = nodeSocket(url, protocols);
    this.#sockets.add(socket);
    return socket;
  };

  storage(name: string) {
    const { shared } = indexedDbStorage(name);
    if (!shared) {
      throw new Error("tabs share an IndexedDB");
    }
    const alive = <T>(run: () => Promise<T>): Promise<T> => (this.isDead ? new Promise(() => {}) : run());
    const open = async (outdated: () => void): Promise<Database> => {
      this.isAsked = true;
      await this.opens;
      const database = await alive(() => shared.open(outdated));
      return {
        keepsFiles: database.keepsFiles,
        transaction: (mode, run) => alive(() => database.transaction(mode, run)),
        close: () => database.close(),
      };
    };
    return { ...shared, open };
  }

  die(): void {
    this.isDead = true;
    for (const channel of this.#channels) {
      channel.close();
    }
    for (const socket of this.#sockets) {
      for (const event of ["onopen", "onmessage", "onclose"] as const) {
        socket[event] = null;
      }
      // A socket that is not open yet reports an error.
      socket.onerror = () => {};
      socket.close();
    }
  }
}

class Connected implements Channel {
  readonly name: string;
  onmessage: Channel["onmessage"] = null;
  #page: Page;
  #pages: () => Page[];
  #isClosed = false;

  constructor(name: string, page: Page, pages: () => Page[]) {
    this.name = name;
    this.#page = page;
    this.#pages = pages;
  }

  postMessage(message: unknown): void {
    if (this.#isClosed || this.#page.isDead) {
      return;
    }
    this.#page.posted += 1;
    const data = structuredClone(message);
    for (const page of this.#pages()) {
      for (const channel of page === this.#page ? [] : page.channels(this.name)) {
        setImmediate(() => channel.#receive(data));
      }
    }
  }

  #receive(data: unknown): void {
    this.#page.run(() => {
      if (!this.#isClosed) {
        this.onmessage?.({ data });
      }
    });
  }

  close(): void {
    this.#isClosed = true;
  }
}
