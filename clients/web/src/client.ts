// The feed of events, for bots and servers: an app that keeps its messages itself.

import { Actions } from "./actions.ts";
import type { Config } from "./config.ts";
import type { Driver } from "./driver.ts";
import { LocalEngine } from "./engine.ts";
import type { ClientEvent } from "./events.ts";
import type { Queued } from "./saved.ts";
import type { Stats } from "./session/core.ts";
import { start } from "./start.ts";
import { memoryStorage } from "./store/memory.ts";

/**
 * Reads the data that the last client has saved, and connects in the background. Without a network, the client waits
 * for one, and reports this in `state` events.
 *
 * @throws `config`: the address or the device id can't work. `storage`, `storage_busy`: the storage can't be read.
 */
export async function connect(config: Config): Promise<Client> {
  const events = new Events((conversation, seq) => driver.act((at, now) => at.handled(conversation, seq, now)));
  const tell = (event: ClientEvent) => events.push(event);
  const driver = await start(config, config.storage ?? memoryStorage(), "app", { tell });
  return new Client(driver, events);
}

/** A user's connection to Pigeonhole, with a feed of all events. */
export class Client extends Actions {
  /** Events, in order. */
  readonly events: Events;
  #driver: Driver;

  /** @internal */
  constructor(driver: Driver, events: Events) {
    super(new LocalEngine(driver));
    this.#driver = driver;
    this.events = events;
  }

  /**
   * Returns the requests that wait for the server's reply, oldest first. After a reload, an app shows them as not sent
   * yet.
   */
  get outbox(): readonly Queued[] {
    return this.#driver.session.outbox.waiting();
  }

  /** Returns the counters of the client. */
  get stats(): Readonly<Stats> {
    return { ...this.#driver.session.stats };
  }

  /**
   * Acknowledges all events that the app has finished with, and closes the connection. The outbox keeps its content.
   * When it resolves, another client may use the storage.
   */
  async close(): Promise<void> {
    await this.engine.close();
    this.events.end();
  }
}

/**
 * Events, in order, for one `for await` at a time.
 *
 * A request for the next event also means that the app has finished (`done`) with the previous one. Only then does the
 * client acknowledge the message to the server and remember it as received.
 *
 * An app that stores messages does so before the loop's next round; then a crash at any point loses none. If an app
 * never requests the next event, all messages stay pending on the server.
 */
export class Events implements AsyncIterableIterator<ClientEvent> {
  #queue: ClientEvent[] = [];
  #handled: (conversation: string, seq: number) => void;
  /** The event that the app has, and is perhaps not done with. */
  #last: ClientEvent | undefined;
  #wake = () => {};
  #isOver = false;

  /** @internal */
  constructor(handled: (conversation: string, seq: number) => void) {
    this.#handled = handled;
  }

  async next(): Promise<IteratorResult<ClientEvent, undefined>> {
    this.done();
    while (this.#queue.length === 0 && !this.#isOver) {
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
    this.#last = this.#queue.shift();
    return this.#last ? { done: false, value: this.#last } : { done: true, value: undefined };
  }

  /** After `break`, another loop can go on. */
  async return(): Promise<IteratorResult<ClientEvent, undefined>> {
    return { done: true, value: undefined };
  }

  /**
   * Marks the last event as finished without a request for another one: before the app closes the client, for example.
   */
  done(): void {
    const last = this.#last;
    this.#last = undefined;
    if (last?.type === "message") {
      this.#handled(last.message.conversation_id, last.message.seq);
    }
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** @internal */
  push(event: ClientEvent): void {
    this.#queue.push(event);
    this.#wake();
  }

  /** @internal */
  end(): void {
    this.#isOver = true;
    this.#wake();
  }
}
