// The client's session, as the API of an app uses it. All arguments and results are plain data, so that the session can
// run elsewhere.

import type { Act, ViewId, ViewOf } from "./chat/views.ts";
import type { Zone } from "./chat/zone.ts";
import type { Driver } from "./driver.ts";
import type { Message, ReadResult, WatchResult } from "./frames.ts";
import type { Queued, Target } from "./saved.ts";
import type { Stored } from "./session/entry.ts";
import type { CallRequest, CallResult } from "./session/waiter.ts";
import type { DraftText } from "./store/types.ts";
import { watchSurroundings } from "./surroundings.ts";

/** Something that the app does and that has no reply. */
export type Input =
  /** The app shows a view, until `close`. */
  | { open: { view: ViewId; of: ViewOf } }
  | { act: { view: ViewId; act: Act } }
  | { close: ViewId }
  | { draft: { target: Target; draft: DraftText | undefined } }
  | { dismiss: string }
  | { readAll: string }
  | { typing: string }
  | { unwatch: string }
  /** The file of a message's attachment on this device. */
  | { place: { conversation_id: string; seq: number; path: string | undefined } }
  | { zone: Zone }
  /** The app shows names. */
  | { names: true }
  /** The user is back. */
  | { wake: true }
  | { networkChanged: true };

export interface Engine {
  /** The user. */
  readonly me: string;
  say(input: Input): void;
  /** Resolves once the request is in the outbox; `stored` resolves once the server has stored it. */
  send<R extends Stored>(queued: Queued): Promise<{ stored: Promise<R> }>;
  call<R extends CallRequest>(request: R): Promise<CallResult<R>>;
  read(conversation: string, seq: number): Promise<ReadResult>;
  watch(channel: string, after: number | undefined): Promise<WatchResult>;
  /** Tries a request again that the server refused for good. */
  again(clientMsgId: string): Promise<Stored>;
  /** Returns whether that was in time. */
  cancel(clientMsgId: string): Promise<boolean>;
  search(words: string, limit: number): Promise<Message[]>;
  close(): Promise<void>;
}

/** The engine of a session that runs here. */
export class LocalEngine implements Engine {
  readonly me: string;
  #driver: Driver;
  #unwatch: () => void;

  /** `isWatching`: the engine learns from the page that the user or the network is back. */
  constructor(driver: Driver, isWatching = true) {
    this.me = driver.session.me;
    this.#driver = driver;
    const surroundings = {
      shown: () => this.say({ wake: true }),
      networkChanged: () => this.say({ networkChanged: true }),
    };
    this.#unwatch = isWatching ? watchSurroundings(surroundings) : () => {};
  }

  say(input: Input): void {
    this.#driver.act((session, now) => {
      if ("open" in input) {
        session.openView(input.open.view, input.open.of, now);
      } else if ("act" in input) {
        session.actView(input.act.view, input.act.act, now);
      } else if ("close" in input) {
        session.closeView(input.close, now);
      } else if ("draft" in input) {
        session.draft(input.draft.target, input.draft.draft, now);
      } else if ("dismiss" in input) {
        session.dismiss(input.dismiss, now);
      } else if ("readAll" in input) {
        session.readAll(input.readAll, now);
      } else if ("typing" in input) {
        session.type(input.typing, now);
      } else if ("unwatch" in input) {
        session.unwatch(input.unwatch, now);
      } else if ("place" in input) {
        session.place(input.place.conversation_id, input.place.seq, input.place.path, now);
      } else if ("zone" in input) {
        session.setZone(input.zone, now);
      } else if ("names" in input) {
        session.showNames(now);
      } else if ("networkChanged" in input) {
        session.networkChanged(now);
      } else {
        session.wake(now);
      }
    });
  }

  send<R extends Stored>(queued: Queued): Promise<{ stored: Promise<R> }> {
    return this.#driver.send<R>(queued);
  }

  call<R extends CallRequest>(request: R): Promise<CallResult<R>> {
    return this.#driver.ask((session, waiter, now) => session.call(request, waiter, now));
  }

  read(conversation: string, seq: number): Promise<ReadResult> {
    return this.#driver.ask((session, waiter, now) => session.read(conversation, seq, waiter, now));
  }

  watch(channel: string, after: number | undefined): Promise<WatchResult> {
    return this.#driver.ask((session, waiter, now) => session.watch(channel, after, waiter, now));
  }

  again(clientMsgId: string): Promise<Stored> {
    return this.#driver.ask((session, waiter, now) => session.again(clientMsgId, waiter, now));
  }

  async cancel(clientMsgId: string): Promise<boolean> {
    let isCancelled = false;
    this.#driver.act((session, now) => {
      isCancelled = session.cancel(clientMsgId, now);
    });
    return isCancelled;
  }

  search(words: string, limit: number): Promise<Message[]> {
    return this.#driver.store.search(words, limit);
  }

  async close(): Promise<void> {
    this.#unwatch();
    await this.#driver.close();
  }
}
