// The messages of one conversation, as an interface shows them.

import type { ClientEvent } from "../events.ts";
import type { HistoryResult, Message } from "../frames.ts";
import { clearOf } from "../media.ts";
import { carried, type Side } from "../protocol.ts";
import type { Queued, QueuedMessage } from "../saved.ts";
import { PAGE, type Window as Stored } from "../store/types.ts";
import { Timeline, type Unsent } from "../timeline.ts";
import { canHelp, type Item, type MessageItem, type Progress, progressOf, type Reply, type Signal } from "./item.ts";
import { kept, same } from "./same.ts";
import { type At, Window } from "./window.ts";
import { dayOf, type Zone } from "./zone.ts";

/** All that an interface draws. */
export interface Snapshot {
  /** Rises with each change of the rest. */
  readonly version: number;
  /** Everything to draw, in order. An item that did not change is the same object as in the snapshot before. */
  readonly items: readonly Item[];
  /** `loadOlder` brings more. */
  readonly hasOlder: boolean;
  /** `loadNewer` brings more: the window has left the end, and new messages are not among the items. */
  readonly hasNewer: boolean;
  /** The number of unread messages, for the arrow that leads to the end. */
  readonly unread: number;
  /** The pinned messages that are not deleted, the last pinned first. Without a message, it has not come. */
  readonly pins: readonly Reply[];
}

/**
 * A request of the view, which is made once. `loaded` ends a read of the message store, of `PAGE` messages of this
 * side. `page` or `lost` ends a `history` request of `PAGE` entries.
 */
export type Request = { load: Side } | { history: Side };

/** The requests for one side of the conversation: the store first, then the server. */
interface Asked {
  side: Side;
  /** `stuck`: the server's page was no help. The view repeats the request after the next reconnect. */
  stage: "loading" | "loaded" | "asking" | "stuck";
}

/** The limit of concurrent `history` requests of a view. */
const HISTORY_REQUESTS_MAX = 2;

/**
 * The view of one conversation's messages.
 *
 * Pass in the client's events, and carry out the requests; then draw the snapshot. The order of the inputs does not
 * matter, and an input may come again.
 */
export class Messages {
  /** Takes the inputs that no event has: rows, marks of members, requests of the outbox, dismissals. */
  readonly timeline: Timeline;
  #me: string;
  #conversation: string;
  #zone: Zone;
  #at: At;
  /** `undefined`: nothing is known yet of where the view opens. */
  #window: Window | undefined;
  #asked: Asked[] = [];
  /** The files of attachments on this device. */
  #places = new Map<number, string>();
  #snapshot: Snapshot = { version: 0, items: [], hasOlder: false, hasNewer: false, unread: 0, pins: [] };

  /** Opens a view, in this time zone. The unread separator stays where it is until the view is dropped. */
  constructor(me: string, conversation: string, at: At, zone: Zone) {
    this.#me = me;
    this.#conversation = conversation;
    this.#at = at;
    this.#zone = zone;
    this.timeline = new Timeline(me);
    this.timeline.open();
  }

  // Input from the client.

  /** Takes any event of the client. Events of other conversations change nothing. */
  event(event: ClientEvent, now: number): void {
    const isHere = (id: string) => id === this.#conversation;
    switch (event.type) {
      case "message":
        if (isHere(event.message.conversation_id)) {
          this.timeline.message(event.message);
        }
        break;
      case "receipt":
        if (isHere(event.conversation_id)) {
          this.timeline.receipt(event);
        }
        break;
      case "conversation":
        if (isHere(event.conversation.conversation_id)) {
          this.timeline.row(event.conversation);
        }
        break;
      case "typing":
        if (isHere(event.conversation_id)) {
          this.timeline.typing(event.user_id, now, event.text);
        }
        break;
      case "uploading":
        this.timeline.uploading(event);
        break;
      case "reacted":
        if (isHere(event.request.conversation_id)) {
          this.timeline.reacted(event);
        }
        break;
      case "failed":
        this.timeline.failedFor(event, event.error.code);
        break;
      case "state":
        if (event.state === "caught_up") {
          this.#retry();
        }
        break;
      default:
      // Events that no message shows.
    }
  }

  /** Takes messages of the store. */
  loaded(side: Side, window: Stored): void {
    this.timeline.stored(window, side, PAGE);
    this.#setStage(side, "loading", "loaded");
  }

  /** Takes the file of a message's attachment. `undefined`: it no longer exists. */
  place(seq: number, path: string | undefined): void {
    if (path === undefined) {
      this.#places.delete(seq);
    } else {
      this.#places.set(seq, path);
    }
  }

  /** Takes a page of the server. */
  page(side: Side, page: Omit<HistoryResult, "more">): void {
    const known = () => ({ isKnown: this.timeline.isKnown, spans: this.timeline.spans });
    const before = known();
    this.timeline.history(page);
    this.#setStage(side, "asking", same(before, known()) ? "stuck" : undefined);
  }

  /** The conversation does not exist yet. */
  empty(side: Side): void {
    this.page(side, { messages: [], last_seq: 0, members: [] });
  }

  /** The server has not sent the page. */
  lost(side: Side): void {
    this.#setStage(side, "asking", "stuck");
  }

  #setStage(side: Side, from: Asked["stage"], to: Asked["stage"] | undefined): void {
    this.#asked = this.#asked.filter((asked) => !(asked.stage === from && same(asked.side, side)));
    if (to) {
      this.#asked.push({ side, stage: to });
    }
  }

  /** Requests again what the server could not send. */
  #retry(): void {
    this.#asked = this.#asked.filter(({ stage }) => stage !== "stuck");
  }

  // Input from the user.

  /** Sets the time zone again, after a journey or a change of its offsets. */
  setZone(zone: Zone): void {
    this.#zone = zone;
  }

  /** Shows older messages: the user has come near the first item. */
  older(): void {
    this.#grow();
    this.#retry();
    this.#window?.loadOlder();
  }

  /** Shows newer messages: the user has come near the last item. */
  newer(): void {
    this.#grow();
    this.#retry();
    this.#window?.loadNewer();
  }

  /** Shows another part of the conversation. */
  jump(at: At): void {
    this.#retry();
    this.#at = at;
    this.#window = undefined;
  }

  /**
   * Takes note that the item with this key was on the screen, with all unread messages before it. Returns the mark to
   * report with `read`, if it rises. The mark does not pass a gap, since the user can't have seen what is missing.
   */
  seen(key: string): number | undefined {
    const item = this.#snapshot.items.find((item) => item.key === key);
    const seq = item && seqOf(item);
    return seq === undefined ? undefined : this.#read(this.timeline.readBySeeing(seq));
  }

  /**
   * The user has read everything, although some of it may never have come to this device. Returns the mark to report
   * with `read`, if it rises.
   */
  readAll(): number | undefined {
    return this.#read(this.timeline.unread() > 0 ? this.timeline.lastSeq : undefined);
  }

  #read(seq: number | undefined): number | undefined {
    if (seq !== undefined) {
      this.timeline.keepSeparator();
      this.timeline.receipt({ kind: "read", user_id: this.#me, seq });
    }
    return seq;
  }

  // Output.

  /** Returns what the view needs now and has not requested yet. */
  requests(): Request[] {
    this.#grow();
    const missing = this.#window?.missing(this.timeline) ?? [{}];
    const isUnderWay = ({ stage }: Asked) => stage === "loading" || stage === "asking";
    this.#asked = this.#asked.filter((asked) => isUnderWay(asked) || missing.some((side) => same(side, asked.side)));
    const requests: Request[] = [];
    for (const side of missing) {
      const asked = this.#asked.find((asked) => same(asked.side, side));
      const asking = this.#asked.filter(({ stage }) => stage === "asking").length;
      if (!asked) {
        this.#asked.push({ side, stage: "loading" });
        requests.push({ load: side });
      } else if (asked.stage === "loaded" && asking < HISTORY_REQUESTS_MAX) {
        asked.stage = "asking";
        requests.push({ history: side });
      }
    }
    return requests;
  }

  /** Returns what an interface draws now. */
  snapshot(): Snapshot {
    this.#grow();
    const { version, ...before } = this.#snapshot;
    const now = {
      items: kept(before.items, this.#items()),
      hasOlder: this.#window?.hasOlder(this.timeline) ?? false,
      hasNewer: this.#window?.to !== undefined,
      unread: this.timeline.unread(),
      pins: this.#pins(),
    };
    if (!same(before, now)) {
      this.#snapshot = { version: version + 1, ...now };
    }
    return this.#snapshot;
  }

  /** Whether no page has said which messages are pinned, and none is under way. */
  wantsPins(): boolean {
    return !this.timeline.knowsPins && this.#asked.every(({ stage }) => stage !== "asking");
  }

  #pins(): Reply[] {
    const pins = this.timeline.pins().map((seq) => ({ seq, message: this.timeline.quote(seq) }));
    return pins.filter(({ message }) => message?.deleted_at === undefined);
  }

  #grow(): void {
    this.#window ??= Window.open(this.#at, this.timeline);
    const isStuck = (side: Side) => this.#asked.some((asked) => asked.stage === "stuck" && same(asked.side, side));
    this.#window?.grow(this.timeline, isStuck);
  }

  #items(): Item[] {
    const list = new List(this.#zone);
    const signals = new Map<number, Signal[]>();
    for (const { seq, sender_id: senderId, kind, data, reply_to: about = 0 } of this.timeline.signals()) {
      signals.set(about, [...(signals.get(about) ?? []), { seq, senderId, kind, data }]);
    }
    // Before the window opens, only what is not sent is shown.
    const { from, to } = this.#window ?? { from: Number.POSITIVE_INFINITY, to: undefined };
    for (const place of this.timeline.places(from, to)) {
      switch (place.type) {
        case "gap":
          list.push({ ...place, key: `g${place.afterSeq}` });
          break;
        case "system": {
          const { seq, sender_id: senderId, sent_at: at } = place.message;
          list.day(at);
          list.push({ key: `s${seq}`, type: "system", seq, senderId, at, event: place.system });
          break;
        }
        case "message": {
          const { message, tick, unread } = place;
          list.day(message.sent_at);
          if (unread !== undefined) {
            list.push({ key: "u", type: "unread", count: unread });
          }
          list.push(this.#stored(message, tick && { state: tick }, signals.get(message.seq) ?? [], list));
          break;
        }
        case "unreadable": {
          const { seq, sender_id: senderId, sent_at: at } = place.message;
          list.day(at);
          if (place.unread !== undefined) {
            list.push({ key: "u", type: "unread", count: place.unread });
          }
          list.push({ key: `s${seq}`, type: "unreadable", seq, senderId, at, why: place.why });
          break;
        }
        case "unsent":
          list.day(place.unsent.at);
          list.push(this.#unsent(place.unsent, place.message));
      }
    }
    return withRuns(list.items);
  }

  #stored(message: Message, progress: Progress | undefined, signals: Signal[], list: List): MessageItem {
    const { seq } = message;
    const shown = this.timeline.foreseen(message);
    const clientMsgId = progress ? shown.client_msg_id : undefined;
    const own = `c${clientMsgId}`;
    const refused = this.timeline.refused(seq);
    return {
      // The server may have stored one id twice, long after each other.
      key: clientMsgId === undefined || list.has(own) ? `s${seq}` : own,
      type: "message",
      seq,
      clientMsgId,
      senderId: shown.sender_id,
      at: shown.sent_at,
      kind: shown.kind,
      body: shown.body,
      data: shown.data,
      signals,
      isSealed: shown.epoch !== undefined,
      media: clearOf(shown.media),
      path: shown.media && this.#places.get(seq),
      upload: undefined,
      mentions: shown.mentions ?? [],
      reply: this.#reply(shown.reply_to),
      editedAt: shown.edited_at,
      deletedBy: shown.deleted_by,
      reactions: shown.reactions ?? [],
      progress,
      isChanging: this.timeline.isChanging(seq),
      refused: refused?.error === undefined ? undefined : refusedBy(refused.queued, refused.error),
      run: alone,
    };
  }

  #unsent(unsent: Unsent, message: QueuedMessage): MessageItem {
    const { clientMsgId, body, replyTo, data, media: upload, mentions = [] } = message;
    return {
      key: `c${clientMsgId}`,
      type: "message",
      seq: undefined,
      clientMsgId,
      senderId: this.#me,
      at: unsent.at,
      kind: carried(message).kind,
      body,
      data,
      signals: [],
      isSealed: false,
      media: undefined,
      path: undefined,
      upload,
      mentions,
      reply: this.#reply(replyTo),
      editedAt: undefined,
      deletedBy: undefined,
      reactions: [],
      progress: progressOf(unsent),
      isChanging: false,
      refused: undefined,
      run: alone,
    };
  }

  #reply(seq: number | undefined): Reply | undefined {
    return seq === undefined ? undefined : { seq, message: this.timeline.quote(seq) };
  }
}

const alone = { isFirst: true, isLast: true };

function refusedBy({ clientMsgId }: Queued, code: string) {
  return { clientMsgId, code, canHelp: canHelp(code) };
}

/** Returns the number of a stored entry. */
function seqOf(item: Item): number | undefined {
  switch (item.type) {
    case "message":
    case "system":
      return item.seq;
    default:
      return undefined;
  }
}

/** The items so far. */
class List {
  readonly items: Item[] = [];
  #zone: Zone;
  #day = "";
  #keys = new Set<string>();

  constructor(zone: Zone) {
    this.#zone = zone;
  }

  has(key: string): boolean {
    return this.#keys.has(key);
  }

  push(item: Item): void {
    this.#keys.add(item.key);
    this.items.push(item);
  }

  /** Opens a later day. The time of an unsent message is by this device's clock, which may be behind the server's. */
  day(at: string): void {
    const day = dayOf(this.#zone, at);
    if (this.#day < day) {
      this.#day = day;
      this.push({ key: `d${day}`, type: "day", day });
    }
  }
}

function withRuns(items: readonly Item[]): Item[] {
  return items.map((item, at) => {
    if (item.type !== "message") {
      return item;
    }
    const isOfRun = (other: Item | undefined) => other?.type === "message" && other.senderId === item.senderId;
    return { ...item, run: { isFirst: !isOfRun(items[at - 1]), isLast: !isOfRun(items[at + 1]) } };
  });
}
