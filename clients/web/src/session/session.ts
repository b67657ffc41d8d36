// The client's state, independent of connections: the outbox, the received entries and the outstanding requests.
//
// This module has no I/O and reads no clock. Its inputs are frames, calls of the app and the time; its results are writes
// of the store and `Output`s to carry out. Four rules explain most of the code:
//
// - A request stays asked until the server replies, and the client repeats it unchanged after a timeout. Every action
//   of the protocol may be repeated, so a lost reply needs no extra code.
// - An entry waits in its conversation's buffer until all earlier entries have come. The app then gets it once, in the
//   order of `seq`.
// - Only the oldest message or change of each conversation is on its way. The server could store two concurrent ones in
//   the wrong order.
// - The client acknowledges an entry once the store or the app keeps it. A store is committed before the
//   acknowledgement leaves. An app reports that it has finished with the entry.
//
// The Rust client's session works in the same way, and both pass the scripts in conformance/.

import { type Act, type ViewId, type ViewOf, Views } from "../chat/views.ts";
import type { Zone } from "../chat/zone.ts";
import type { Timing } from "../config.ts";
import { PigeonholeError } from "../errors.ts";
import type { Why } from "../events.ts";
import type { ReadResult, WatchResult } from "../frames.ts";
import { type Incoming, isChannel, parseFrame } from "../protocol.ts";
import type { Queued, RefusedRequest, Saved, Target } from "../saved.ts";
import type { DraftText, Found, LoadId } from "../store/types.ts";
import { Calls } from "./calls.ts";
import { CatchUp } from "./catch-up.ts";
import { Channels } from "./channels.ts";
import { Conversations } from "./conversations.ts";
import { Core, type Keeper, type LinkId } from "./core.ts";
import type { Stored } from "./entry.ts";
import { Links } from "./links.ts";
import { Outbox } from "./outbox.ts";
import { Presences } from "./presence.ts";
import { Reports } from "./reports.ts";
import { Requests } from "./requests.ts";
import { Typing } from "./typing.ts";
import { type PutEnd, Uploads } from "./uploads.ts";
import type { CallRequest, CallResult, Waiter } from "./waiter.ts";

export interface SessionOptions {
  /** The user. */
  me: string;
  timing: Timing;
  /** Where received entries are kept. */
  keeper: Keeper;
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
  /** Requests that the server refused for good, which the user has not seen to yet. */
  readonly refused: RefusedRequest[];

  /** Dials at its first tick. */
  constructor({ me, timing, keeper, saved, random, now }: SessionOptions) {
    super(me, timing, random, now, keeper, new Views(me, saved.listed));
    this.refused = [...saved.refused];
    this.links = new Links(this);
    this.requests = new Requests(this);
    this.calls = new Calls(this);
    this.uploads = new Uploads(this);
    this.outbox = new Outbox(this, saved.outbox);
    this.conversations = new Conversations(this, saved.held);
    this.channels = new Channels(this);
    this.catchUp = new CatchUp(this, saved.caughtUp);
    this.reports = new Reports(this, saved.reads);
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
          for (const { user_id, read_seq: seq } of incoming.marks) {
            const { conversationId: conversation_id, at } = incoming;
            this.#receipt({
              is: "receipt",
              kind: "read",
              receipt: { conversation_id, user_id, seq, at: at ?? this.wall },
            });
          }
          return;
        case "receipt":
          return this.#receipt(incoming);
        case "typing":
          return this.tell({ type: "typing", ...incoming.typing });
        case "presence":
          return this.tell({ type: "presence", ...incoming.presence });
        case "settings":
          return this.settings(incoming.settings);
        case "profile":
          return this.views.ownNameChanged();
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

  #receipt({ kind, receipt }: Extract<Incoming, { is: "receipt" }>): void {
    const { conversation_id, user_id, seq } = receipt;
    const member = { user_id, delivered_seq: seq, read_seq: kind === "read" ? seq : 0 };
    this.store({ marks: { conversation_id, members: [member] } });
    this.tell({ type: "receipt", kind, ...receipt });
  }

  /** Records the number of bytes of a PUT that have been sent. */
  putProgress(id: string, sent: number, now: number): void {
    this.#at(now, () => this.uploads.progress(id, sent));
  }

  putEnded(id: string, end: PutEnd, now: number): void {
    this.#at(now, () => this.uploads.ended(id, end));
  }

  /** Takes the bytes of a file of the encryption, none after a PUT. `undefined`: the file was not carried. */
  carried(carry: number, data: Uint8Array | undefined, now: number): void {
    this.#at(now, () => this.carriedFile(carry, data));
  }

  protected carriedFile(_carry: number, _data: Uint8Array | undefined): void {}

  // Calls of the app.

  /** Takes a request into the outbox. The store has it once the turn is committed. */
  keep(queued: Queued, waiter: Waiter<Stored> | undefined, now: number): void {
    this.#at(now, () => this.#keep(queued, waiter));
  }

  #keep(queued: Queued, waiter: Waiter<Stored> | undefined): void {
    // A tab repeats its request to the next leader, whose outbox may have it.
    if (this.outbox.join(queued.clientMsgId, waiter)) {
      return;
    }
    const made = { ...queued, madeAt: queued.madeAt ?? this.wall };
    this.views.queued(made);
    this.save({ queued: made });
    this.outbox.add(made, waiter);
  }

  /** Tries a request again that the server refused for good. */
  again(clientMsgId: string, waiter: Waiter<Stored>, now: number): void {
    this.#at(now, () => {
      const found = this.refused.find(({ queued }) => queued.clientMsgId === clientMsgId);
      if (found) {
        this.#dismiss(clientMsgId);
        this.#keep(found.queued, waiter);
      } else if (!this.outbox.join(clientMsgId, waiter)) {
        this.refuse(waiter, new PigeonholeError("bad_request", "client_msg_id: is no request that was refused"));
      }
    });
  }

  /** The user discards a request that was refused. */
  dismiss(clientMsgId: string, now: number): void {
    this.#at(now, () => this.#dismiss(clientMsgId));
  }

  #dismiss(clientMsgId: string): void {
    const at = this.refused.findIndex(({ queued }) => queued.clientMsgId === clientMsgId);
    if (at >= 0) {
      this.refused.splice(at, 1);
      this.save({ done: clientMsgId });
    }
    this.views.dismiss(clientMsgId);
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

  /** The app is done with everything of the conversation up to here, if it keeps its entries itself. */
  handled(conversation: string, seq: number, now: number): void {
    this.#at(now, () => {
      if (this.keeper === "app") {
        this.conversations.hold(conversation, seq);
      }
    });
  }

  // Views.

  /**
   * Opens a view, in place of an earlier one with this number. Each `show` has its content, for as long as the view is
   * open. Views need the keeper `store`. The view of a channel subscribes to it. The view of a direct conversation
   * watches the presence of its peer, in place of the app's own `presence` with `watch`.
   */
  openView(view: ViewId, of: ViewOf, now: number): void {
    this.#at(now, () => this.views.open(view, of, this.outbox.waiting(), this.refused));
  }

  /** The user acts in a view. */
  actView(view: ViewId, act: Act, now: number): void {
    this.#at(now, () => this.views.act(view, act));
  }

  closeView(view: ViewId, now: number): void {
    this.#at(now, () => {
      this.views.close(view);
      this.reports.stopWaiting();
    });
  }

  /** The result of a `load`. */
  loaded(load: LoadId, found: Found, now: number): void {
    this.#at(now, () => this.views.loaded(load, found, () => this.outbox.waiting(), this.refused));
  }

  /** The user has read everything of a conversation, although some of it may never have come to this device. */
  readAll(conversation: string, now: number): void {
    this.#at(now, () => this.views.readAll(conversation));
  }

  /** The user has begun a text. Without `draft`, the text was sent or removed. */
  draft(target: Target, draft: DraftText | undefined, now: number): void {
    this.#at(now, () => {
      this.views.draft(target, draft);
      this.store({ draft: { target, draft } });
    });
  }

  /** The file of a message's attachment is on this device. Without `path`, it no longer is. */
  place(conversation_id: string, seq: number, path: string | undefined, now: number): void {
    this.#at(now, () => {
      this.views.place(conversation_id, seq, path);
      this.store({ place: { conversation_id, seq, path } });
    });
  }

  /**
   * The app shows names: snapshots of views have those of the users in them, if the server has profiles. The client
   * requests a name when it is shown, and again after a day.
   */
  showNames(now: number): void {
    this.#at(now, () => this.views.showNames());
  }

  /** The user's time zone, at the start and whenever it changes. Without it, days are those of UTC. */
  setZone(zone: Zone, now: number): void {
    this.#at(now, () => this.views.setZone(zone));
  }

  /** Makes the requests of the views. Returns whether there were any. */
  #serveViews(): boolean {
    const needs = this.views.needs();
    for (const need of needs) {
      switch (need.need) {
        case "load":
          this.output({ do: "load", load: need.load, what: need.what });
          break;
        case "ask":
          this.calls.add(need.request, { ...need.waiter, isOfView: true });
          break;
        case "read":
          this.reports.read(need.conversation_id, need.seq, undefined);
          break;
        case "watch":
          this.channels.watch(need.conversation_id, undefined, { ...need.waiter, isOfView: true });
          break;
        case "unwatch":
          this.channels.unwatch(need.conversation_id);
          break;
        case "features":
          if (this.links.current() !== undefined) {
            this.reports.askFeatures();
          } else {
            // The next connection requests them.
            this.views.names.setHasProfiles(undefined);
          }
          break;
        case "unwatchPresence":
          this.presences.forget();
          break;
        case "members":
          this.store({ members: { conversation_id: need.conversation_id, members: need.members } });
          break;
        case "gone":
          this.store({ gone: need.conversation_id });
          break;
        case "unpinned":
          this.store({ settings: { conversation_id: need.conversation_id, set: { pinned: false } } });
          break;
        case "listed":
          if (this.keeper === "store") {
            this.save({ listed: true });
          }
          break;
      }
    }
    return needs.length > 0;
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
      return Math.min(this.links.nextDial(), this.views.next());
    }
    return Math.min(
      this.links.nextDial(),
      this.views.next(),
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
    this.#serveViews();
    this.#sendDue();
    // A view can need more, because of an event of this turn.
    if (this.#serveViews()) {
      this.#sendDue();
    }
    this.showViews();
    // A shown user can lack a name.
    if (this.#serveViews()) {
      this.#sendDue();
    }
  }

  /** Passes the app the content of the views that have changed. */
  protected showViews(): void {
    for (const { view, shown } of this.views.changed(this.now, this.wall)) {
      this.output({ do: "show", view, shown });
    }
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
