// The client's state, independent of connections: the outbox, the received entries and the outstanding requests.
//
// This module has no I/O and reads no clock. Its inputs are frames, calls of the app and the time; its results are
// `Output`s to carry out. Four rules explain most of the code:
//
// - A request stays asked until the server replies, and the client repeats it unchanged after a timeout. Every action
//   of the protocol may be repeated, so a lost reply needs no extra code.
// - An entry waits in its conversation's buffer until all earlier entries have come. The app then gets it once, in the
//   order of `seq`.
// - Only the oldest message or change of each conversation is on its way. The server could store two concurrent ones in
//   the wrong order.
// - An entry is saved, and so acknowledged, once the app has finished with it. After a crash, an unfinished entry comes
//   again.
//
// The Rust client's session works in the same way, and both pass the scripts in conformance/.

import type { Timing } from "../config.ts";
import type { Why } from "../events.ts";
import type { ReadResult, WatchResult } from "../frames.ts";
import { type Incoming, isChannel, parseFrame } from "../protocol.ts";
import type { Queued, Saved } from "../saved.ts";
import { type CallRequest, type CallResult, Calls } from "./calls.ts";
import { CatchUp } from "./catch-up.ts";
import { Channels } from "./channels.ts";
import { Conversations } from "./conversations.ts";
import { Core, type LinkId, type Waiter } from "./core.ts";
import type { Stored } from "./entry.ts";
import { Links } from "./links.ts";
import { Outbox } from "./outbox.ts";
import { Presences } from "./presence.ts";
import { Reports } from "./reports.ts";
import { Requests } from "./requests.ts";
import { Typing } from "./typing.ts";
import { type PutEnd, Uploads } from "./uploads.ts";

export interface SessionOptions {
  /** The user. */
  me: string;
  timing: Timing;
  saved: Saved;
  /** From 0 to 1. */
  random: () => number;
  now: number;
}

export class Session extends Core {
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
  readonly presences: Presences;

  /** Dials at its first tick. */
  constructor({ me, timing, saved, random, now }: SessionOptions) {
    super(me, timing, random, now);
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
    this.presences = new Presences(this);
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
        case "presence":
          return this.tell({ type: "presence", ...incoming.presence });
        case "settings":
          return this.tell({ type: "settings", settings: incoming.settings });
        case "replaced":
          return this.links.replaced(link);
        case "gateway":
          // This frame does not name its request, so all of them are repeated.
          return this.requests.retryAllSoon(link);
        case "unknown":
          return;
      }
    });
  }

  /** Records the number of bytes of a PUT that have been sent. */
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

  /** Sends `typing` now, or not at all. */
  type(conversation: string, now: number): void {
    this.#at(now, () => this.typing.send(conversation));
  }

  /** Subscribes to a channel: to the entries after this one, or to new entries. */
  watch(channel: string, after: number | undefined, waiter: Waiter<WatchResult>, now: number): void {
    this.#at(now, () => this.channels.watch(channel, after, waiter));
  }

  unwatch(channel: string, now: number): void {
    this.#at(now, () => this.channels.unwatch(channel));
  }

  /** Sends a request now, or when the client has a connection. */
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

  /** Works as `wake`, but without a user who is present. */
  networkChanged(now: number): void {
    if (!this.links.isReplaced()) {
      this.wake(now);
    }
  }

  /** Reports all marks before the connections are closed, however recent the last report. */
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
      this.presences.next(),
      this.uploads.next(),
    );
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
    this.presences.ask();
    this.uploads.ask();
    this.catchUp.finish();
  }
}

/**
 * Returns whether the frame shows that the server works. A server that refuses each request and closes must not be
 * dialled in a tight loop.
 */
function isService(incoming: Incoming): boolean {
  return incoming.is === "error" ? incoming.problem.code !== "token_expired" : incoming.is !== "gateway";
}
