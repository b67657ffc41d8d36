// The chat list, as an interface shows it.

import type { ClientEvent } from "../events.ts";
import {
  type Channel,
  type Conversation,
  type LastMessage,
  limits,
  type Message,
  type MutedUntil,
  type Presence,
} from "../frames.ts";
import { madeIds } from "../made-ids.ts";
import { carried, counts, kindOf, type Settings, targetOf } from "../protocol.ts";
import type { Queued, Target } from "../saved.ts";
import type { DraftText } from "../store/types.ts";
import { queryOf } from "../store/words.ts";
import { Timeline } from "../timeline.ts";
import { progressOf } from "./item.ts";
import type { NamesOf } from "./names.ts";
import type { ChatRow, Line, Lock } from "./row.ts";
import { kept } from "./same.ts";
import { Standing } from "./standing.ts";

/** All that an interface draws of the list. */
export interface ListSnapshot {
  /** Rises with each change of the rest. */
  readonly version: number;
  /**
   * Pinned conversations first, the one pinned last at the top, then pinned channels in the same way, then those with
   * the latest message. A row that did not change is the same object as in the snapshot before.
   */
  readonly rows: readonly ChatRow[];
  /** The number of unread messages of all conversations that are not muted, for the app's badge. */
  readonly unread: number;
  /** The known names of users in the rows, once the app shows names. */
  readonly names: NamesOf | undefined;
}

/** Which rows an interface draws. */
export interface Filter {
  /** The rows in the archive, instead of the others. */
  archived?: boolean;
  /** Only these kinds. Empty or left out: all. */
  kinds?: readonly Conversation["kind"][];
  /** The title or the peer has these words, the last one perhaps not complete. A text without words finds all. */
  words?: string;
}

/** A list of the server that has an order of what is pinned: `inbox` or `channels`. */
export type PinsOf = "chats" | "channels";

export const noRows: ListSnapshot = { version: 0, rows: [], unread: 0, names: undefined };

const NEVER = Number.POSITIVE_INFINITY;

/** Returns the end of a mute or a restriction. */
function endOf(until: MutedUntil | null): number {
  if (until === null) {
    return Number.NEGATIVE_INFINITY;
  }
  return until === "forever" ? NEVER : Date.parse(until);
}

/**
 * The chat list: all conversations that are known, with what has come of them.
 *
 * Pass in the rows of `inbox` and `channels` or of the store, the outbox, and all events. The list keeps no message that
 * is read, except for the last one.
 */
export class Conversations {
  #me: string;
  #chats: Chat[] = [];

  /** An empty list of this user. */
  constructor(me: string) {
    this.#me = me;
  }

  // Input.

  /** Takes a row of the chat list. An older row than the known one changes nothing. */
  row(row: Conversation): void {
    const chat = this.#chat(row.conversation_id, row.peer_id);
    chat.timeline.row(row);
    chat.listed(row);
    if (chat.rowSeq === row.last_seq) {
      chat.isBlocked = row.blocked ?? false;
    }
  }

  /** Takes a row of the list of channels, in the same way. */
  channel(row: Channel): void {
    const chat = this.#chat(row.conversation_id, undefined);
    chat.timeline.channel(row);
    chat.listed(row);
    chat.isGone = false;
  }

  /** The user is not a member of this channel any more. The channel leaves the list, and is closed. */
  gone(id: string): void {
    const chat = this.#found(id);
    if (chat) {
      chat.isGone = true;
    }
  }

  /** Takes a request of the outbox: a message, a change of one, or a new group. */
  queued(queued: Queued): void {
    if ("request" in queued && queued.request.action === "create") {
      const { kind, title } = queued.request;
      const key = madeKey(queued.clientMsgId);
      if (!this.#chats.some((chat) => chat.key === key)) {
        const chat = new Chat(key, new Timeline(this.#me));
        chat.timeline.is(kind ?? "group");
        chat.title = { asOf: 0, text: title };
        chat.standing.begins(queued.request);
        chat.madeIds = madeIds(this.#me, queued.clientMsgId);
        chat.madeAt = queued.madeAt;
        this.#chats.push(chat);
      }
      return;
    }
    const target = targetOf(queued);
    if (target) {
      const chat = "to" in target ? this.#chat(undefined, target.to) : this.#chat(target.conversation_id, undefined);
      chat.timeline.queued(queued);
    }
  }

  /** Takes any event of the client. */
  event(event: ClientEvent, now: number): void {
    switch (event.type) {
      case "message":
        this.#message(event.message, event.missed);
        break;
      case "receipt":
        this.#found(event.conversation_id)?.receipt(event, this.#me);
        break;
      case "conversation":
        this.row(event.conversation);
        break;
      case "settings":
        this.#settings(event.settings);
        break;
      case "typing": {
        const chat = this.#found(event.conversation_id);
        chat?.timeline.typing(event.user_id, now, event.text);
        chat?.isThere(event.user_id);
        break;
      }
      case "presence": {
        const { type: _, ...presence } = event;
        this.presence([presence]);
        break;
      }
      case "uploading":
        for (const chat of this.#chats) {
          chat.timeline.uploading(event);
        }
        break;
      case "reacted":
        this.#found(event.request.conversation_id)?.timeline.reacted(event);
        break;
      case "failed":
        for (const chat of this.#chats) {
          chat.timeline.failedFor(event, event.error.code);
          chat.refused(event.clientMsgId, event.error.code);
        }
        break;
      default:
      // Events that no row shows.
    }
  }

  #message(message: Message, missed: boolean): void {
    const { conversation_id: id, sender_id } = message;
    const isOwn = sender_id === this.#me;
    const chat = this.#chat(id, this.#peerOf(message, isOwn));
    chat.timeline.message(message);
    chat.learn(message, this.#me);
    if (counts(message)) {
      chat.isArchived = false;
    }
    if (!missed && !isOwn) {
      chat.isThere(sender_id);
    }
    chat.timeline.trim();
  }

  #peerOf(message: Message, isOwn: boolean): string | undefined {
    if (kindOf(message.conversation_id) !== "direct") {
      return undefined;
    }
    if (!isOwn) {
      return counts(message) ? message.sender_id : undefined;
    }
    // The first own message to a user names the conversation of both.
    const id = message.client_msg_id;
    return id === undefined ? undefined : this.#chats.find(({ timeline }) => timeline.hasUnsent(id))?.peerId;
  }

  #settings(settings: Settings): void {
    if ("user_id" in settings) {
      const chat = this.#ofPeer(settings.user_id);
      if (chat) {
        chat.isBlocked = settings.set.blocked;
      }
      return;
    }
    const chat = this.#found(settings.conversation_id);
    const { muted_until, archived, mute_mentions, unread, pinned } = settings.set;
    if (chat && muted_until !== undefined) {
      chat.mutedUntil = muted_until;
    }
    if (chat && archived !== undefined) {
      chat.isArchived = archived;
    }
    if (chat && unread !== undefined) {
      chat.isMarkedUnread = unread;
    }
    if (chat && pinned !== undefined) {
      const last = Math.max(...this.#chats.map((chat) => chat.pinned ?? 0));
      chat.pinned = pinned ? last + 1 : undefined;
    }
    if (chat && mute_mentions !== undefined) {
      chat.mutesMentions = mute_mentions;
    }
  }

  /** Takes what is pinned in a list of the server, in its order. Returns what was pinned here and is not there. */
  pinnedAre(of: PinsOf, order: readonly string[]): string[] {
    const unpinned: string[] = [];
    for (const chat of this.#chats) {
      const id = chat.conversationId;
      if (id !== undefined && listOf(chat.timeline.kind) === of) {
        const place = order.indexOf(id);
        if (place < 0 && chat.pinned !== undefined) {
          unpinned.push(id);
        }
        chat.pinned = place < 0 ? undefined : order.length - place;
      }
    }
    return unpinned;
  }

  /** Takes the reply to `presence`. */
  presence(users: readonly Presence[]): void {
    for (const presence of users) {
      for (const chat of this.#chats.filter(({ peerId }) => peerId === presence.user_id)) {
        chat.presence = presence;
      }
    }
  }

  // Input from the user. The key is that of a row.

  /** Returns the key of the direct conversation with this user, which gets a row. */
  direct(peerId: string): string {
    return this.#chat(undefined, peerId).key;
  }

  /** Sets the text that the user has begun, or `undefined`. */
  draft(key: string, draft: DraftText | undefined): void {
    this.#keyed(key, (chat) => {
      chat.draft = draft;
    });
  }

  /** As `draft`, by the place where the user writes. A new conversation gets a row with its draft. */
  draftOf(target: Target, draft: DraftText | undefined): void {
    const ofPeer = (peer: string) => (draft ? this.#chat(undefined, peer) : this.#ofPeer(peer));
    const chat = "to" in target ? ofPeer(target.to) : this.#found(target.conversation_id);
    if (chat) {
      chat.draft = draft;
    }
  }

  /** The server refused this request for good. */
  failed(clientMsgId: string, code: string): void {
    for (const chat of this.#chats) {
      chat.timeline.failed(clientMsgId, code);
      chat.refused(clientMsgId, code);
    }
  }

  /** The request is stored, and its entry came before. */
  settled(clientMsgId: string): void {
    for (const { timeline } of this.#chats) {
      timeline.settled(clientMsgId);
    }
  }

  /** The user has read a conversation up to here. */
  read(conversation: string, seq: number): void {
    const chat = this.#found(conversation);
    chat?.receipt({ kind: "read", user_id: this.#me, seq }, this.#me);
    chat?.timeline.trim();
  }

  /**
   * The user has read everything of a conversation, although some of it may never have come to this device. Returns the
   * mark to report with `read`, if it rises.
   */
  readAll(key: string): { conversation_id: string; seq: number } | undefined {
    const conversation_id = this.#chats.find((chat) => chat.key === key)?.conversationId;
    const seq = conversation_id === undefined ? undefined : this.readAllOf(conversation_id);
    return conversation_id === undefined || seq === undefined ? undefined : { conversation_id, seq };
  }

  /** As `readAll`, by the id. */
  readAllOf(conversation: string): number | undefined {
    const timeline = this.#found(conversation)?.timeline;
    if (!timeline || timeline.unread() === 0) {
      return undefined;
    }
    const seq = timeline.lastSeq;
    this.read(conversation, seq);
    return seq;
  }

  /** Removes a failed message or group, which the user has seen. */
  dismiss(clientMsgId: string): void {
    this.#chats = this.#chats.filter((chat) => chat.failed === undefined || chat.key !== madeKey(clientMsgId));
    for (const { timeline } of this.#chats) {
      timeline.dismiss(clientMsgId);
    }
  }

  /** Removes a row: the user has left the channel, or discards a group that was refused. */
  remove(key: string): void {
    this.#chats = this.#chats.filter((chat) => chat.key !== key);
  }

  /** Takes how each conversation is encrypted, by its peer or its id. Returns whether any has changed. */
  lock(lockOf: (of: string) => Lock): boolean {
    let hasChanged = false;
    for (const chat of this.#chats) {
      const of = chat.peerId ?? chat.conversationId;
      const lock = of === undefined ? "plain" : lockOf(of);
      hasChanged ||= chat.lock !== lock;
      chat.lock = lock;
    }
    return hasChanged;
  }

  #keyed(key: string, set: (chat: Chat) => void): void {
    const chat = this.#chats.find((chat) => chat.key === key);
    if (chat) {
      set(chat);
    }
  }

  #found(id: string): Chat | undefined {
    return this.#chats.find(({ conversationId }) => conversationId === id);
  }

  #ofPeer(peer: string): Chat | undefined {
    return this.#chats.find(({ peerId }) => peerId === peer);
  }

  /** The conversation with this id or with this peer, which may be new. */
  #chat(id: string | undefined, peerId: string | undefined): Chat {
    const ofId =
      id === undefined ? undefined : (this.#found(id) ?? this.#chats.find((chat) => chat.madeIds.includes(id)));
    const ofPeer = peerId === undefined ? undefined : this.#ofPeer(peerId);
    if (ofId && ofPeer && ofId !== ofPeer) {
      // Both turn out to be one conversation.
      this.#chats = this.#chats.filter((chat) => chat !== ofPeer);
      ofId.absorb(ofPeer);
    }
    let chat = ofId ?? ofPeer;
    if (!chat) {
      chat = new Chat(peerId === undefined ? `c${id}` : `p${peerId}`, new Timeline(this.#me));
      this.#chats.push(chat);
    }
    chat.conversationId = id ?? chat.conversationId;
    chat.peerId = peerId ?? chat.peerId;
    return chat;
  }

  // Output.

  /**
   * Returns the rows that the filter selects, as the successor of the snapshot that the interface has. `now` is a time
   * of the clock of `event`, for typing, and `at` the time of day in milliseconds, for mutes. Several lists share `all`.
   */
  snapshot(before: ListSnapshot, filter: Filter, now: number, at: number, all = this.all(now, at)): ListSnapshot {
    const { archived = false, kinds = [], words = "" } = filter;
    const query = queryOf(words);
    const unread = all.reduce((sum, { chat, row }) => sum + (row.isMuted || chat.isGone ? 0 : row.unread), 0);
    const wanted = all.filter(({ chat, row }) => {
      const isOfKind = kinds.length === 0 || kinds.includes(row.kind);
      return (
        !chat.isGone &&
        row.isArchived === archived &&
        isOfKind &&
        (!query || query.finds(row.title ?? row.peerId ?? ""))
      );
    });
    const order = wanted.map(({ chat, row }) => {
      const latest = [row.line?.at ?? "", chat.madeAt ?? ""].sort()[1] ?? "";
      return { row, place: placeOf(chat), latest };
    });
    order.sort(
      (one, other) =>
        other.place - one.place || compare(other.latest, one.latest) || compare(one.row.key, other.row.key),
    );
    const rows = kept(
      before.rows,
      order.map(({ row }) => row),
    );
    const isSame = rows === before.rows && unread === before.unread;
    return isSame ? before : { version: before.version + 1, rows, unread, names: before.names };
  }

  /** Returns each conversation with its row. */
  all(now: number, at: number): { chat: Chat; row: ChatRow }[] {
    return this.#chats.map((chat) => ({ chat, row: chat.row(now, at, this.#me) }));
  }

  /** Returns the row of a conversation, known by its id or by the other user. */
  rowOf(id: string, peerId: string | undefined, now: number, at: number): ChatRow | undefined {
    const chat = this.#found(id) ?? (peerId === undefined ? undefined : this.#ofPeer(peerId));
    return chat?.row(now, at, this.#me);
  }

  /** Returns whether the conversation lacks its row of the chat list. */
  lacksRow(id: string): boolean {
    const chat = this.#found(id);
    // Rows of channels are in another list, which is read at each start.
    return chat !== undefined && chat.timeline.kind !== "channel" && chat.rowSeq === 0;
  }

  /** Returns whether what is pinned in this list has an order. */
  hasOrder(of: PinsOf): boolean {
    return this.#pinned(of).length > 1;
  }

  /** Returns whether that order is unknown. */
  lacksOrder(of: PinsOf): boolean {
    return this.hasOrder(of) && this.#pinned(of).includes(0);
  }

  #pinned(of: PinsOf): number[] {
    return this.#chats.flatMap(({ pinned, timeline }) => (listOf(timeline.kind) === of ? (pinned ?? []) : []));
  }

  /** Returns the other user of a direct conversation. */
  peerOf(id: string): string | undefined {
    return this.#found(id)?.peerId;
  }

  /** Returns when a row changes without an input: a user is no longer typing, or a mute ends. */
  changesAt(now: number, at: number): number {
    return this.#chats.reduce((first, chat) => Math.min(first, chat.changesAt(now, at)), NEVER);
  }
}

class Chat {
  key: string;
  conversationId: string | undefined;
  /** The ids that a new group or channel can get. Its row can come before the reply. */
  madeIds: string[] = [];
  /** Has entries that came live, and that are unread or the last ones. */
  readonly timeline: Timeline;
  peerId: string | undefined;
  /** The title, by this entry or a row with this `last_seq`. */
  title: { asOf: number; text: string | undefined } = { asOf: 0, text: undefined };
  readonly standing = new Standing();
  /** The last message of the newest row, with its changes by entries up to this `seq`. */
  line: { asOf: number; message: LastMessage | undefined } = { asOf: 0, message: undefined };
  rowSeq = 0;
  madeAt: string | undefined;
  failed: string | undefined;
  mutedUntil: string | null = null;
  mutesMentions = false;
  /** A channel that the server no longer lists. */
  isGone = false;
  /** The place among the pinned ones, if it is pinned: a higher one is above. 0: the order is not known yet. */
  pinned: number | undefined;
  isArchived = false;
  isMarkedUnread = false;
  isBlocked = false;
  draft: DraftText | undefined;
  presence: Presence | undefined;
  lock: Lock = "plain";

  constructor(key: string, timeline: Timeline) {
    this.key = key;
    this.timeline = timeline;
  }

  receipt(receipt: Parameters<Timeline["receipt"]>[0], me: string): void {
    this.isMarkedUnread &&= receipt.kind !== "read" || receipt.user_id !== me;
    this.timeline.receipt(receipt);
  }

  /** The server refused to create this group, if it is the one of this request. */
  refused(clientMsgId: string, code: string): void {
    if (this.conversationId === undefined && this.key === madeKey(clientMsgId)) {
      this.failed = code;
    }
  }

  listed(row: Conversation | Channel): void {
    const { last_seq: asOf } = row;
    if (asOf < this.rowSeq) {
      return;
    }
    this.rowSeq = asOf;
    this.mutedUntil = row.muted_until ?? null;
    this.mutesMentions = "mute_mentions" in row && row.mute_mentions === true;
    this.standing.row(row);
    this.isArchived = row.archived ?? false;
    this.isMarkedUnread = row.marked_unread ?? false;
    this.pinned = row.pinned ? (this.pinned ?? 0) : undefined;
    if (asOf >= this.title.asOf) {
      this.title = { asOf, text: row.title };
    }
    const last = row.last_message;
    // The server's row of an encrypted message has no text.
    const isKnown = last?.kind === "sealed" && last.seq === this.line.message?.seq;
    if (asOf >= this.line.asOf && !isKnown) {
      this.line = { asOf, message: last };
    }
  }

  /** Takes the title, the rules, and a change of the row's last message. */
  learn(entry: Message, me: string): void {
    this.standing.entry(entry, me);
    const { seq, kind, body, target_seq, system, epoch, sender_id } = entry;
    const title = system?.event === "created" || system?.event === "info.changed" ? system.title : undefined;
    if (title !== undefined && seq > this.title.asOf) {
      this.title = { asOf: seq, text: title };
    }
    const { asOf, message } = this.line;
    if (!message || target_seq !== message.seq || seq <= asOf) {
      return;
    }
    // No server has checked who wrote an encrypted edit.
    const holds = epoch === undefined || sender_id === message.sender_id;
    if (kind === "edit" && holds && !message.deleted) {
      this.line = { asOf: seq, message: { ...message, preview: preview(body) } };
    } else if (kind === "delete") {
      this.line = { asOf: seq, message: { ...message, preview: "", deleted: true } };
    }
  }

  /** Takes what the other one has, which was known by its peer only. An interface may show that one. */
  absorb(other: Chat): void {
    this.key = other.key;
    this.timeline.adopt(other.timeline);
    this.draft = other.draft ?? this.draft;
    this.pinned = other.pinned ?? this.pinned;
    this.presence = other.presence;
  }

  /** A user who writes is online, whatever the last request for presence returned. */
  isThere(userId: string): void {
    if (this.presence?.user_id === userId) {
      this.presence = { ...this.presence, online: true };
    }
  }

  row(now: number, at: number, me: string): ChatRow {
    return {
      key: this.key,
      conversationId: this.conversationId,
      kind: this.timeline.kind,
      peerId: this.peerId,
      title: this.title.text,
      role: this.standing.role,
      rules: this.standing.rules,
      memberCount: this.standing.memberCount,
      ...this.#restricted(at),
      isClosed: this.isGone || this.timeline.isClosed(),
      failed: this.failed,
      line: this.#lastLine(me),
      unread: this.timeline.unread(),
      mentions: this.timeline.mentions(),
      isMuted: at < endOf(this.mutedUntil),
      mutedUntil: this.mutedUntil,
      mutesMentions: this.mutesMentions,
      isPinned: this.pinned !== undefined,
      isArchived: this.isArchived,
      isMarkedUnread: this.isMarkedUnread,
      isBlocked: this.isBlocked,
      draft: this.draft,
      typing: this.timeline.writing(now),
      texts: this.timeline.texts(now),
      presence: this.presence,
      lock: this.lock,
    };
  }

  #restricted(at: number): Pick<ChatRow, "restrictedUntil"> {
    const until = this.standing.restrictedUntil;
    return until === undefined || endOf(until) <= at ? {} : { restrictedUntil: until };
  }

  changesAt(now: number, at: number): number {
    const ends = [endOf(this.mutedUntil), endOf(this.standing.restrictedUntil ?? null)];
    const left = ends.map((end) => (at < end ? now + (end - at) : NEVER));
    return Math.min(this.timeline.writingEnds(now), ...left);
  }

  /**
   * Returns the last stored message, or a later one that is not stored. A message that waits is the later one, whatever
   * this device's clock shows.
   */
  #lastLine(me: string): Line | undefined {
    const ofRow = this.line.message;
    const last = this.timeline.shown().at(-1);
    let line = ofRow && this.#lineOf(ofRow, me);
    const isLast = last !== undefined && (!ofRow || ofRow.seq <= last);
    for (const place of this.timeline.places(isLast ? last : NEVER, undefined)) {
      if (place.type === "system") {
        line = lineOf(place.message, undefined);
      } else if (place.type === "unreadable") {
        line = { ...lineOf(place.message, undefined), text: "" };
      } else if (place.type === "message") {
        line = lineOf(this.timeline.foreseen(place.message), place.tick && { state: place.tick });
      } else if (place.type === "unsent") {
        const { unsent, message } = place;
        const before = line?.at ?? "";
        if (unsent.error === undefined || before <= unsent.at) {
          line = {
            seq: undefined,
            senderId: me,
            at: before > unsent.at ? before : unsent.at,
            kind: carried(message).kind,
            text: preview(message.body),
            isDeleted: false,
            event: undefined,
            progress: progressOf(unsent),
          };
        }
      }
    }
    return line;
  }

  #lineOf({ seq, sender_id, sent_at, kind, preview: text, deleted, system }: LastMessage, me: string): Line {
    const isOwn = sender_id === me && counts({ kind });
    return {
      seq,
      senderId: sender_id,
      at: sent_at,
      kind,
      text,
      isDeleted: deleted ?? false,
      event: system,
      progress: isOwn ? { state: this.timeline.ownTick(seq) } : undefined,
    };
  }
}

function lineOf(message: Message, progress: Line["progress"]): Line {
  const { seq, sender_id: senderId, sent_at: at, kind, body, deleted_at, system: event } = message;
  return { seq, senderId, at, kind, text: preview(body), isDeleted: deleted_at !== undefined, event, progress };
}

function preview(body: string): string {
  return [...body.slice(0, 2 * limits.PREVIEW_CHARS_MAX)].slice(0, limits.PREVIEW_CHARS_MAX).join("");
}

/** Returns which list of the server has conversations of this kind. */
function listOf(kind: Conversation["kind"]): PinsOf {
  return kind === "channel" ? "channels" : "chats";
}

/** Returns the place of a pinned conversation, above that of a pinned channel; -1 if it is not pinned. */
function placeOf({ pinned, timeline }: Chat): number {
  const above = listOf(timeline.kind) === "chats" ? Number.MAX_SAFE_INTEGER / 2 : 0;
  return pinned === undefined ? -1 : pinned + above;
}

/** The key of a group that was made here. */
function madeKey(clientMsgId: string): string {
  return `n${clientMsgId}`;
}

function compare(one: string, other: string): number {
  return one === other ? 0 : one < other ? -1 : 1;
}
