// The client's state, independent of connections: what waits, what is held, what must be asked.
//
// Nothing here does I/O or looks at a clock: frames, calls of the app and the time are inputs, `Output`s are what to do. Four
// rules explain most of it:
//
// - A request stays asked until it is answered, and is sent again, unchanged, when its time is up. Every action of the
//   protocol may be repeated, so a lost answer needs no code of its own.
// - Messages wait in their conversation's buffer until everything before them has come, and leave it once, in the order
//   of their `seq`.
// - Of the messages to one conversation, and of changes of those, only the oldest is under way. Two at once could be stored
//   the other way round.
// - A message is held, and so acknowledged, once the app is done with it: what it had before a crash comes again.
//
// The Rust client's session works in the same way, and both pass the scripts in conformance/.

import type { Timing, TokenNeed } from "../config.ts";
import type { PigeonholeError } from "../errors.ts";
import type { ClientEvent, State, Why } from "../events.ts";
import type { ReadResult, WatchResult } from "../frames.ts";
import { type Incoming, isChannel, parseFrame } from "../protocol.ts";
import type { Queued, Saved, StorageChange } from "../storage/storage.ts";
import { type CallRequest, type CallResult, Calls } from "./calls.ts";
import { CatchUp } from "./catch-up.ts";
import { Channels } from "./channels.ts";
import { Conversations } from "./conversations.ts";
import { Links } from "./links.ts";
import { Outbox, type Stored } from "./outbox.ts";
import { Reports } from "./reports.ts";
import { Requests } from "./requests.ts";
import { Typing } from "./typing.ts";
import { type Put, type PutEnd, Uploads } from "./uploads.ts";

/** One connection, dialled or open. Later ones have higher numbers. */
export type LinkId = number;

/** Called with the answer. */
export interface Waiter<T> {
  resolve(answer: T): void;
  reject(error: PigeonholeError): void;
}

/** Something to be done, in this order; but what is to be saved comes before everything else. */
export type Output =
  | { do: "dial"; link: LinkId; need: TokenNeed }
  | { do: "send"; link: LinkId; frame: string }
  | { do: "close"; link: LinkId }
  | { do: "tell"; event: ClientEvent }
  | { do: "save"; change: StorageChange }
  /** Bytes of what the message with this `clientMsgId` carries go out, one such at a time; and they go no further. */
  | { do: "put"; id: string; put: Put }
  | { do: "abort"; id: string }
  /** Resolves or rejects a `Waiter`. */
  | { do: "answer"; settle: () => void };

/** Counters. They only rise. */
export interface Stats {
  /** Messages and changes that went out, each counted once. */
  sent: number;
  /** Messages and changes that the server has stored. */
  answered: number;
  /** Messages and changes that went out again. */
  resent: number;
  /** Messages and changes that the server refused for good. */
  failed: number;
  /** Entries of others, and of the user's other devices, that were handed to the app. */
  received: number;
  /** Entries that came again and were dropped. */
  duplicatesDropped: number;
  /** Times that `history` brought what was missing. */
  gapsRepaired: number;
  /** Connections after the first. */
  reconnects: number;
}

export interface SessionOptions {
  /** The user. */
  me: string;
  timing: Timing;
  saved: Saved;
  /** From 0 to 1. */
  random: () => number;
  now: number;
}

export class Session {
  readonly me: string;
  readonly timing: Timing;
  readonly random: () => number;
  /** Milliseconds of some clock that never goes back. */
  now: number;
  readonly links: Links;
  readonly requests: Requests;
  readonly calls: Calls;
  readonly uploads: Uploads;
  readonly outbox: Outbox;
  readonly conversations: Conversations;
  readonly channels: Channels;
  readonly catchUp: CatchUp;
  readonly reports: Reports;
  readonly typing: Typing;
  readonly stats: Stats = {
    sent: 0,
    answered: 0,
    resent: 0,
    failed: 0,
    received: 0,
    duplicatesDropped: 0,
    gapsRepaired: 0,
    reconnects: 0,
  };
  #outputs: Output[] = [];

  /** Dials at its first tick. */
  constructor({ me, timing, saved, random, now }: SessionOptions) {
    this.me = me;
    this.timing = timing;
    this.random = random;
    this.now = now;
    this.links = new Links(this);
    this.requests = new Requests(this);
    this.calls = new Calls(this);
    this.uploads = new Uploads(this);
    this.outbox = new Outbox(this, saved.outbox);
    this.conversations = new Conversations(this, saved.held);
    this.channels = new Channels(this);
    this.catchUp = new CatchUp(this, saved.caughtUp);
    this.reports = new Reports(this);
    this.typing = new Typing(this);
  }

  // Events of connections.

  /** `tokenLeft`: for how many milliseconds the token is valid, as far as can be read from it. */
  opened(link: LinkId, now: number, tokenLeft?: number): void {
    this.#at(now, () => this.links.opened(link, tokenLeft));
  }

  dialFailed(link: LinkId, why: Why, now: number): void {
    this.#at(now, () => this.links.dialFailed(link, why));
  }

  /** The connection has ended, and not because it was closed here. */
  lost(link: LinkId, why: Why, now: number): void {
    this.#at(now, () => this.links.lost(link, why));
  }

  /** A frame, from a connection that is open or was until now. */
  received(link: LinkId, text: string, now: number): void {
    this.#at(now, () => {
      const incoming = parseFrame(text);
      this.links.frameArrived(link, isService(incoming));
      switch (incoming.is) {
        case "reply":
          return this.requests.answered(incoming.id, incoming.result);
        case "error":
          return incoming.problem.code === "token_expired"
            ? this.links.tokenExpired(link)
            : this.requests.refused(incoming.id, incoming.problem);
        case "messages":
          for (const message of incoming.messages) {
            if (isChannel(message.conversation_id)) {
              this.channels.arrived(message);
            } else {
              this.conversations.arrived(message, false);
            }
          }
          return;
        case "receipt":
          return this.tell({ type: "receipt", kind: incoming.kind, ...incoming.receipt });
        case "typing":
          return this.tell({ type: "typing", ...incoming.typing });
        case "settings":
          return this.tell({ type: "settings", settings: incoming.settings });
        case "replaced":
          return this.links.replaced(link);
        case "gateway":
          // It doesn't say which request it is about.
          return this.requests.retryAllSoon(link);
        case "unknown":
          return;
      }
    });
  }

  /** So many bytes of what is put have gone out. */
  putProgress(id: string, sent: number, now: number): void {
    this.#at(now, () => this.uploads.progress(id, sent));
  }

  putEnded(id: string, end: PutEnd, now: number): void {
    this.#at(now, () => this.uploads.ended(id, end));
  }

  // Calls of the app.

  send(queued: Queued, waiter: Waiter<Stored> | undefined, now: number): void {
    this.#at(now, () => this.outbox.add(queued, waiter));
  }

  /** Whether that was in time. */
  cancel(clientMsgId: string, now: number): boolean {
    let isCancelled = false;
    this.#at(now, () => {
      isCancelled = this.uploads.cancel(clientMsgId);
    });
    return isCancelled;
  }

  /** The user has read everything up to here. */
  read(conversation: string, seq: number, waiter: Waiter<ReadResult> | undefined, now: number): void {
    this.#at(now, () => this.reports.read(conversation, seq, waiter));
  }

  /** The user writes there: told to the others now, or not at all. */
  type(conversation: string, now: number): void {
    this.#at(now, () => this.typing.send(conversation));
  }

  /** The app wants to be told what is posted in a channel: after this one, or from now on. */
  watch(channel: string, after: number | undefined, waiter: Waiter<WatchResult>, now: number): void {
    this.#at(now, () => this.channels.watch(channel, after, waiter));
  }

  unwatch(channel: string, now: number): void {
    this.#at(now, () => this.channels.unwatch(channel));
  }

  /** Asks, now or once there is a connection. */
  call<R extends CallRequest>(request: R, waiter: Waiter<CallResult<R>>, now: number): void {
    this.#at(now, () => this.calls.add(request, waiter));
  }

  /** The app is done with everything of the conversation up to here. */
  handled(conversation: string, seq: number, now: number): void {
    this.#at(now, () => this.conversations.handled(conversation, seq));
  }

  /** Reconnects that wait are tried now: the app is in the foreground again. */
  wake(now: number): void {
    this.#at(now, () => {
      this.links.dialSoon();
      this.catchUp.pingSoon();
    });
    this.tick(now);
  }

  /** As `wake`, but without a user who looks at it. */
  networkChanged(now: number): void {
    if (!this.links.isReplaced()) {
      this.wake(now);
    }
  }

  /** Before the connections are closed: what is held and read is reported, however recent the last report. */
  closing(now: number): void {
    this.#at(now, () => this.reports.flush());
  }

  // Time.

  tick(now: number): void {
    this.#at(now, () => {
      this.links.closeSilent();
      this.requests.resendDue();
      this.catchUp.pingDue();
    });
  }

  /** When `tick` has something to do, if nothing else happens before. */
  nextTick(): number {
    if (this.links.current() === undefined) {
      return this.links.nextDial();
    }
    return Math.min(
      this.links.nextDial(),
      this.links.nextSilence(),
      this.requests.nextRetry(),
      this.catchUp.nextPing(),
      this.reports.next(),
      this.conversations.nextRepair(),
      this.channels.next(),
      this.uploads.next(),
    );
  }

  // Outputs.

  takeOutputs(): Output[] {
    const outputs = this.#outputs;
    this.#outputs = [];
    return outputs;
  }

  output(output: Output): void {
    this.#outputs.push(output);
  }

  tell(event: ClientEvent): void {
    this.output({ do: "tell", event });
  }

  tellState(state: State): void {
    this.links.toldCaughtUp = state.state === "caught_up";
    this.tell({ type: "state", ...state });
  }

  save(change: StorageChange): void {
    this.output({ do: "save", change });
  }

  answer<T>(waiter: Waiter<T> | undefined, answer: T): void {
    if (waiter) {
      this.output({ do: "answer", settle: () => waiter.resolve(answer) });
    }
  }

  refuse(waiter: Waiter<never> | undefined, error: PigeonholeError): void {
    if (waiter) {
      this.output({ do: "answer", settle: () => waiter.reject(error) });
    }
  }

  /** Full jitter: at random between 0 and a maximum that doubles with each attempt. */
  jitter(first: number, max: number, attempt: number): number {
    return Math.min(first * 2 ** attempt, max) * this.random();
  }

  #at(now: number, change: () => void): void {
    this.now = now;
    change();
    this.#sendDue();
  }

  /** Sends every request that is due and not under way. */
  #sendDue(): void {
    this.links.dialDue();
    if (this.links.current() === undefined) {
      return;
    }
    this.calls.ask();
    this.outbox.sendWaiting();
    this.catchUp.drainOn();
    this.reports.report();
    this.conversations.repairDue();
    this.channels.ask();
    this.uploads.ask();
    this.catchUp.finish();
  }
}

/** Whether the server serves. One that only refuses, before it closes the connection, must not be dialled in a tight loop. */
function isService(incoming: Incoming): boolean {
  return incoming.is === "error" ? incoming.problem.code !== "token_expired" : incoming.is !== "gateway";
}
