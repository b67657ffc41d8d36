// The open views: which events, rows and pages each one gets, and what they still need.

import type { ClientEvent } from "../events.ts";
import {
  type ChannelsResult,
  type Conversation,
  type GroupMember,
  type HistoryResult,
  type InboxResult,
  limits,
  type MembersResult,
  type Message,
  type PresenceResult,
  type ProfilesResult,
  type ReceiptsResult,
  type WatchResult,
} from "../frames.ts";
import { directConversationId } from "../made-ids.ts";
import { kindOf, type Side, targetOf } from "../protocol.ts";
import type { Queued, RefusedRequest, Target } from "../saved.ts";
import type { CallRequest, CallResult, Waiter } from "../session/waiter.ts";
import { isOfChannel } from "../store/apply.ts";
import { type DraftText, type Found, type Load, type LoadId, PAGE } from "../store/types.ts";
import { Conversations, type Filter, type ListSnapshot, noRows, type PinsOf } from "./conversations.ts";
import { Messages, type Snapshot } from "./messages.ts";
import { Names, type NamesOf, usersOfItem, usersOfRow } from "./names.ts";
import { Roster, type RosterSnapshot } from "./roster.ts";
import type { ChatRow, Lock } from "./row.ts";
import { same } from "./same.ts";
import type { At } from "./window.ts";
import type { Zone } from "./zone.ts";

/** A view of the app, by the number that the app gave it. */
export type ViewId = number;

/** The content of a view: the chat list, a conversation, which need not exist yet, or the members of one. */
export type ViewOf = { chats: Filter } | { messages: { with: Target; at: At } } | { members: string };

/**
 * An act of the user in a view.
 *
 * - `filter` selects other rows of the chat list.
 * - `older`, `newer`: the user has come near the first or the last item.
 * - `jump` shows another part of the conversation.
 * - `seen`: the item with this key was on the screen.
 * - `refresh` requests the rows that no event brings.
 */
export type Act = "older" | "newer" | "refresh" | { filter: Filter } | { jump: At } | { seen: string };

/** The content of a view at some time. */
export type Shown = { chats: ListSnapshot } | { messages: Screen } | { members: RosterSnapshot };

/** The content of the view of a conversation. */
export interface Screen extends Snapshot {
  /** A direct conversation has its id before its first message. */
  readonly conversationId: string;
  /**
   * The conversation's row of the chat list: its title, who is typing, whether the peer is online. `undefined` as long
   * as the conversation does not exist.
   */
  readonly chat: ChatRow | undefined;
  /** The known names of users in the messages, once the app shows names. */
  readonly names: NamesOf | undefined;
}

/** Something that a view needs of the session. The session settles a waiter within a turn. */
export type Need =
  | { need: "load"; load: LoadId; what: Load }
  | { need: "ask"; request: CallRequest; waiter: Waiter<unknown> }
  | { need: "read"; conversation_id: string; seq: number }
  | { need: "watch"; conversation_id: string; waiter: Waiter<WatchResult> }
  | { need: "unwatch"; conversation_id: string }
  /** The last users whose presence was watched are no longer shown. */
  | { need: "unwatchPresence" }
  /** Whether the server has profiles. */
  | { need: "features" }
  /** The whole chat list has come. */
  | { need: "listed" }
  /** The user is not a member of this channel any more. */
  | { need: "gone"; conversation_id: string }
  /** The server does not list it as pinned. */
  | { need: "unpinned"; conversation_id: string }
  /** All members of a conversation have come. */
  | { need: "members"; conversation_id: string; members: readonly GroupMember[] };

interface List {
  filter: Filter;
  shown: ListSnapshot | undefined;
}

interface Conversing {
  id: string;
  kind: Conversation["kind"];
  peerId: string | undefined;
  messages: Messages;
  /** The store has been read once, so the view has something to show. */
  isLoaded: boolean;
  /** The peer has written since the view opened. */
  hasPeerWritten: boolean;
  /** The view has a request for the marks of the members. */
  asksMarks: boolean;
  shown: Screen | undefined;
}

/** The number of rows to request for a new conversation, which is among the first. */
const ROWS = 10;
/** The number of members in a page of marks. */
const MARKS = 100;
const NEVER = Number.POSITIVE_INFINITY;

/** All views of the app. Without one, nothing is kept here. */
export class Views {
  #me: string;
  #zone: Zone = [];
  /** `undefined` until the first view opens. */
  #chats: Conversations | undefined;
  /** The rows of the store are in `#chats`. */
  #isStarted = false;
  /** All rows of the server are in the store. */
  #isListed: boolean;
  #isCaughtUp = false;
  #lists = new Map<ViewId, List>();
  #open = new Map<ViewId, Conversing>();
  #rosters = new Map<ViewId, Roster>();
  /** The requests under way: for the whole list, for its first rows, and for the channels. */
  #asks = { list: false, rows: false, channels: false };
  /** The last requests for what is pinned that are under way. */
  #pinsAsks: { [of in PinsOf]?: object | undefined } = {};
  #loads = new Map<LoadId, { view: Conversing; side: Side } | Roster>();
  #lastLoad: LoadId = 0;
  /** The users whose presence is watched. */
  #watched: string[] = [];
  readonly names = new Names();
  #now = 0;
  /** The channels of the store, then those of the server's last list. */
  #channels = new Set<string>();
  #needs: Need[] = [];
  /** Something has come since the last snapshots. */
  #isChanged = false;
  /** When a snapshot changes without an input. */
  #changesAt = NEVER;

  constructor(me: string, isListed: boolean) {
    this.#me = me;
    this.#isListed = isListed;
  }

  // Input from the session.

  /** Takes any event that the app gets. */
  event(event: ClientEvent, now: number): void {
    if (event.type === "state") {
      this.#isCaughtUp = event.state === "caught_up";
    }
    if (!this.#chats) {
      return;
    }
    this.#isChanged = true;
    this.#chats.event(event, now);
    for (const { messages } of this.#open.values()) {
      messages.event(event, now);
    }
    for (const roster of this.#rosters.values()) {
      roster.event(event);
    }
    if (event.type === "message") {
      this.#came(this.#chats, event.message);
    }
    if (event.type === "settings" && "conversation_id" in event.settings && event.settings.set.pinned !== undefined) {
      // The reply that is under way may be of before.
      for (const of of ["chats", "channels"] as const) {
        if (this.#pinsAsks[of]) {
          this.#askPinned(of);
        }
      }
    }
    if (event.type === "state" && event.state === "caught_up") {
      this.#listPinned();
      this.#listAll();
      for (const view of this.#open.values()) {
        this.#askMarks(view);
      }
      for (const roster of this.#rosters.values()) {
        this.#askMembers(roster);
      }
    }
  }

  #came(chats: Conversations, { conversation_id: id, sender_id, system }: Message): void {
    for (const view of this.#viewsOf(id)) {
      if (view.peerId === sender_id && !view.hasPeerWritten) {
        view.hasPeerWritten = true;
        // A user shows their presence to whom they have written.
        this.#watched = [];
      }
    }
    // The user is a member anew. No event has reported what the others read before.
    if (system?.event === "members.added" && system.members.includes(this.#me)) {
      for (const view of this.#viewsOf(id)) {
        this.#askMarks(view);
      }
    }
    // The store lists a new conversation once it has its row.
    if (this.#isCaughtUp && chats.lacksRow(id)) {
      this.#askRows();
    }
  }

  /** Takes a request that is in the outbox now. */
  queued(queued: Queued): void {
    if (this.#chats) {
      this.#isChanged = true;
      for (const view of this.#open.values()) {
        take(view, queued);
      }
      this.#chats.queued(queued);
    }
  }

  /** Takes a mark that the user has set, in a view or elsewhere in the app. */
  read(id: string, seq: number): void {
    if (this.#chats) {
      this.#isChanged = true;
      this.#chats.read(id, seq);
      for (const { messages } of this.#viewsOf(id)) {
        messages.timeline.receipt({ kind: "read", user_id: this.#me, seq });
      }
    }
  }

  /** The request is stored, and its entry came before. A view that opened between has it as unsent. */
  settled(clientMsgId: string): void {
    this.#isChanged = true;
    this.#chats?.settled(clientMsgId);
    for (const { messages } of this.#open.values()) {
      messages.timeline.settled(clientMsgId);
    }
  }

  /** Removes a request that the server refused, from all views. */
  dismiss(clientMsgId: string): void {
    this.#isChanged = true;
    this.#chats?.dismiss(clientMsgId);
    for (const { messages } of this.#open.values()) {
      messages.timeline.dismiss(clientMsgId);
    }
  }

  /** The user is not a member of this channel any more: the user has left, or the server no longer lists the channel. */
  gone(conversation_id: string): void {
    this.#isChanged = true;
    this.#chats?.gone(conversation_id);
    this.#channels.delete(conversation_id);
    this.#needs.push({ need: "gone", conversation_id });
  }

  /** Takes the file of an attachment. */
  place(id: string, seq: number, path?: string): void {
    this.#isChanged = true;
    for (const { messages } of this.#viewsOf(id)) {
      messages.place(seq, path);
    }
  }

  /** Takes a draft that the store has now. */
  draft(target: Target, draft?: DraftText): void {
    this.#isChanged = true;
    this.#chats?.draftOf(target, draft);
  }

  /** Takes what the store has. `unsent` is the outbox, and `refused` what the server refused for good. */
  loaded(load: LoadId, found: Found, unsent: () => readonly Queued[], refused: readonly RefusedRequest[]): void {
    this.#isChanged = true;
    const [chats, wanted] = [this.#chats, this.#loads.get(load)];
    this.#loads.delete(load);
    if (wanted instanceof Roster) {
      wanted.loaded(found.found === "members" ? found.members : []);
    } else if (chats && wanted) {
      loadedIn(wanted.view, wanted.side, found, chats);
    } else if (chats && !this.#isStarted) {
      this.#isStarted = true;
      const none = { chats: [], channels: [], drafts: [] };
      const { chats: rows, channels, drafts } = found.found === "start" ? found : none;
      for (const row of rows) {
        chats.row(row);
      }
      for (const row of channels) {
        chats.channel(row);
        this.#channels.add(row.conversation_id);
      }
      for (const { target, draft } of drafts) {
        chats.draftOf(target, draft);
      }
      for (const queued of unsent()) {
        chats.queued(queued);
      }
      for (const { queued, code } of refused) {
        chats.queued(queued);
        chats.failed(queued.clientMsgId, code);
      }
    }
  }

  // Input from the user.

  /** Opens a view. A view with the same number is replaced. */
  open(view: ViewId, of: ViewOf, unsent: readonly Queued[], refused: readonly RefusedRequest[]): void {
    this.#isChanged = true;
    this.close(view);
    if (!this.#chats) {
      this.#chats = new Conversations(this.#me);
      this.#load({ load: "start" });
      this.#listPinned();
      this.#listAll();
    }
    if ("chats" in of) {
      this.#lists.set(view, { filter: of.chats, shown: undefined });
      return;
    }
    if ("members" in of) {
      const roster = new Roster(of.members);
      this.#rosters.set(view, roster);
      this.#loads.set(this.#load({ load: "members", conversation_id: of.members }), roster);
      this.#askMembers(roster);
      return;
    }
    const { with: target, at } = of.messages;
    const id = "to" in target ? directConversationId(this.#me, target.to) : target.conversation_id;
    const open: Conversing = {
      id,
      kind: kindOf(id),
      peerId: "to" in target ? target.to : this.#chats.peerOf(id),
      messages: new Messages(this.#me, id, at, this.#zone),
      isLoaded: false,
      hasPeerWritten: false,
      asksMarks: false,
      shown: undefined,
    };
    open.messages.timeline.is(open.kind);
    for (const queued of unsent) {
      take(open, queued);
    }
    for (const { queued, code } of refused) {
      take(open, queued);
      open.messages.timeline.failed(queued.clientMsgId, code);
    }
    this.#open.set(view, open);
    if (open.kind === "channel") {
      const answered = ({ last_seq }: WatchResult) => {
        // No event brings an entry that was stored between the page of a view and the subscription.
        for (const { messages } of this.#viewsOf(id)) {
          messages.timeline.endsAt(last_seq);
        }
        this.#askPins(open);
      };
      this.#needs.push({ need: "watch", conversation_id: id, waiter: this.#waiter(answered) });
    } else {
      this.#askMarks(open);
    }
  }

  /** Takes an act of the user in a view. */
  act(view: ViewId, act: Act): void {
    this.#isChanged = true;
    const [list, open] = [this.#lists.get(view), this.#open.get(view)];
    if (act === "older") {
      open?.messages.older();
    } else if (act === "newer") {
      open?.messages.newer();
    } else if (act === "refresh") {
      this.#listAll();
    } else if ("jump" in act) {
      open?.messages.jump(act.jump);
    } else if ("seen" in act) {
      const seq = open?.messages.seen(act.seen);
      if (open && seq !== undefined) {
        this.#needs.push({ need: "read", conversation_id: open.id, seq });
      }
    } else if (list) {
      list.filter = act.filter;
    }
  }

  /**
   * The user has read everything of a conversation, on the screen or not. The conversation's row may come after its
   * messages, so the screen counts too.
   */
  readAll(id: string): void {
    this.#isChanged = true;
    const open = [...this.#open.values()].filter((open) => open.id === id);
    const seen = open.map(({ messages }) => messages.readAll() ?? 0);
    const seq = Math.max(this.#chats?.readAllOf(id) ?? 0, ...seen);
    if (seq > 0) {
      this.#needs.push({ need: "read", conversation_id: id, seq });
    }
  }

  /** Whether the messages of this conversation are on the screen. */
  isOpen(conversation: string): boolean {
    return [...this.#open.values()].some(({ id }) => id === conversation);
  }

  /** Closes a view. */
  close(view: ViewId): void {
    this.#lists.delete(view);
    this.#rosters.delete(view);
    const closed = this.#open.get(view);
    if (closed) {
      this.#open.delete(view);
      this.#isChanged = true;
      if (closed.kind === "channel" && this.#viewsOf(closed.id).length === 0) {
        this.#needs.push({ need: "unwatch", conversation_id: closed.id });
      }
    }
  }

  /** From now on, the app shows names. */
  showNames(): void {
    this.#isChanged = true;
    this.names.show();
  }

  /** The user's own profile has changed. */
  ownNameChanged(): void {
    this.names.changed(this.#me);
  }

  /** Sets the user's time zone, at the start and whenever it changes. */
  setZone(zone: Zone): void {
    this.#isChanged = true;
    this.#zone = zone;
    for (const { messages } of this.#open.values()) {
      messages.setZone(zone);
    }
  }

  // Output.

  /** Returns what the views need and have not requested yet. */
  needs(): Need[] {
    if (this.#isChanged) {
      for (const view of this.#open.values()) {
        this.#pages(view);
      }
      this.#presence();
    }
    if (this.#isCaughtUp) {
      this.#askNames();
    }
    return this.#needs.splice(0);
  }

  #askNames(): void {
    const due = this.names.due();
    if (due === "features") {
      this.#needs.push({ need: "features" });
    } else if (due) {
      const answered = (result: ProfilesResult) => this.names.came(due, result, this.#now);
      this.#ask({ action: "profiles", user_ids: due }, answered, () => this.names.lost());
    }
  }

  #pages(view: Conversing): void {
    const { id: conversation_id, messages } = view;
    for (const request of messages.requests()) {
      if ("load" in request) {
        const side = request.load;
        const load = this.#load({ load: "window", conversation_id, side });
        this.#loads.set(load, { view, side });
      } else {
        this.#askHistory(view, request.history);
      }
    }
  }

  #askHistory(view: Conversing, side: Side): void {
    const { id: conversation_id, messages } = view;
    this.#ask(
      { action: "history", conversation_id, ...side, limit: PAGE },
      (page) => messages.page(side, page),
      (code) => {
        // The other user has no message of this one yet.
        if (code === "not_member" && view.peerId !== undefined) {
          messages.empty(side);
        } else {
          messages.lost(side);
        }
      },
    );
  }

  /** Watches the peers of the open conversations. */
  #presence(): void {
    const peers = [...this.#open.values()].flatMap(({ peerId }) => peerId ?? []);
    const sorted = [...new Set(peers)].sort().slice(0, limits.PRESENCE_USERS_MAX);
    const user_ids = sorted.filter((peer) => peer !== this.#me);
    if (same(user_ids, this.#watched)) {
      return;
    }
    this.#watched = user_ids;
    if (user_ids.length === 0) {
      this.#needs.push({ need: "unwatchPresence" });
    } else {
      const answered = ({ users }: PresenceResult) => this.#chats?.presence(users);
      this.#ask({ action: "presence", user_ids, watch: true }, answered);
    }
  }

  /** Returns the views whose content has changed. `wall` is the time of day. */
  changed(now: number, wall: string): { view: ViewId; shown: Shown }[] {
    const chats = this.#chats;
    if (!chats || !(this.#isChanged || this.#changesAt <= now)) {
      return [];
    }
    this.#isChanged = false;
    this.#now = now;
    const at = Date.parse(wall);
    const changed: { view: ViewId; shown: Shown }[] = [];
    const all = this.#isStarted && this.#lists.size > 0 ? chats.all(now, at) : [];
    for (const [view, list] of this.#isStarted ? this.#lists : []) {
      const before = list.shown ?? noRows;
      let snapshot = chats.snapshot(before, list.filter, now, at, all);
      const names = this.names.of(snapshot.rows.flatMap(usersOfRow), now, before.names);
      if (names !== snapshot.names) {
        snapshot = { ...snapshot, version: before.version + 1, names };
      }
      if (snapshot !== list.shown) {
        list.shown = snapshot;
        changed.push({ view, shown: { chats: snapshot } });
      }
    }
    for (const [view, open] of this.#open) {
      const { id: conversationId, peerId, messages, isLoaded, shown } = open;
      if (isLoaded) {
        const row = chats.rowOf(conversationId, peerId, now, at);
        const chat = same(row, shown?.chat) ? shown?.chat : row;
        const snapshot = messages.snapshot();
        const ofChat = chat ? usersOfRow(chat) : [];
        const users = [...ofChat, ...(peerId === undefined ? [] : [peerId]), ...snapshot.items.flatMap(usersOfItem)];
        const names = this.names.of(users, now, shown?.names);
        if (!shown || chat !== shown.chat || snapshot.version !== shown.version || names !== shown.names) {
          open.shown = { conversationId, chat, ...snapshot, names };
          changed.push({ view, shown: { messages: open.shown } });
        }
      }
    }
    for (const [view, roster] of this.#rosters) {
      const members = roster.changed(this.names, now);
      if (members) {
        changed.push({ view, shown: { members } });
      }
    }
    this.#changesAt = chats.changesAt(now, at);
    return changed;
  }

  /** Brings the rows up to how their conversations are encrypted. */
  lock(lockOf: (of: string) => Lock): void {
    this.#isChanged ||= this.#chats?.lock(lockOf) ?? false;
  }

  /** Returns when a snapshot changes without an input. */
  next(): number {
    return this.#lists.size + this.#open.size > 0 ? this.#changesAt : NEVER;
  }

  #viewsOf(id: string): Conversing[] {
    return [...this.#open.values()].filter((view) => view.id === id);
  }

  /** Requests the rows of the list that no device event brings: all of them once, and those of channels. */
  #listAll(): void {
    if (!this.#isCaughtUp || this.#asks.list || this.#asks.channels) {
      return;
    }
    if (!this.#isListed) {
      this.#askList(undefined);
    }
    this.#askChannels(undefined);
  }

  /** Requests what is pinned. No event has reported what another device has pinned while this one was away. */
  #listPinned(): void {
    if (this.#isCaughtUp && this.#isListed) {
      this.#askPinned("chats");
    }
    if (this.#isCaughtUp && this.#chats?.hasOrder("channels")) {
      this.#askPinned("channels");
    }
  }

  #askOrder(of: PinsOf): void {
    if (this.#chats?.lacksOrder(of) && !this.#pinsAsks[of]) {
      this.#askPinned(of);
    }
  }

  /** Requests the order of what is pinned, which no row has. An earlier request is without effect. */
  #askPinned(of: PinsOf): void {
    const ask = {};
    this.#pinsAsks[of] = ask;
    const ended = () => {
      const isLast = this.#pinsAsks[of] === ask;
      if (isLast) {
        this.#pinsAsks[of] = undefined;
      }
      return isLast;
    };
    const answered = ({ conversations }: InboxResult | ChannelsResult) => {
      if (!ended()) {
        return;
      }
      for (const row of conversations) {
        if (isOfChannel(row)) {
          this.#chats?.channel(row);
        } else {
          this.#chats?.row(row);
        }
      }
      // A server of before this field lists all of them.
      const order = conversations.flatMap((row) => (row.pinned ? row.conversation_id : []));
      for (const conversation_id of this.#chats?.pinnedAre(of, order) ?? []) {
        this.#needs.push({ need: "unpinned", conversation_id });
      }
    };
    if (of === "chats") {
      this.#ask({ action: "inbox", limit: limits.INBOX_LIMIT_MAX, pinned: true }, answered, ended);
    } else {
      this.#ask({ action: "channels", pinned: true }, answered, ended);
    }
  }

  #askList(cursor: string | undefined): void {
    this.#asks.list = true;
    const answered = ({ conversations, next_cursor }: InboxResult) => {
      this.#asks.list = false;
      this.#rows(conversations);
      if (next_cursor !== null) {
        this.#askList(next_cursor);
      } else {
        this.#isListed = true;
        this.#needs.push({ need: "listed" });
        this.#askOrder("chats");
      }
    };
    const refused = () => {
      this.#asks.list = false;
    };
    this.#ask({ action: "inbox", limit: limits.INBOX_LIMIT_MAX, ...cursorOf(cursor) }, answered, refused);
  }

  #askRows(): void {
    if (!this.#asks.rows) {
      this.#asks.rows = true;
      const answered = ({ conversations }: InboxResult) => {
        this.#asks.rows = false;
        this.#rows(conversations);
      };
      const refused = () => {
        this.#asks.rows = false;
      };
      this.#ask({ action: "inbox", limit: ROWS }, answered, refused);
    }
  }

  #rows(rows: readonly Conversation[]): void {
    for (const row of rows) {
      this.#chats?.row(row);
    }
  }

  #askChannels(cursor: string | undefined, listed = new Set<string>()): void {
    this.#asks.channels = true;
    const answered = ({ conversations, next_cursor }: ChannelsResult) => {
      this.#asks.channels = false;
      for (const row of conversations) {
        this.#chats?.channel(row);
        listed.add(row.conversation_id);
      }
      if (next_cursor !== null) {
        this.#askChannels(next_cursor, listed);
      } else {
        const gone = [...this.#channels].filter((id) => !listed.has(id));
        this.#channels = listed;
        for (const id of gone) {
          this.gone(id);
        }
        this.#askOrder("channels");
      }
    };
    const refused = () => {
      this.#asks.channels = false;
    };
    this.#ask({ action: "channels", ...cursorOf(cursor) }, answered, refused);
  }

  /** Requests how far the others have come. No event has reported what happened while this device was away. */
  #askMarks(view: Conversing): void {
    const { id: conversation_id, kind, messages } = view;
    if (view.asksMarks || kind === "channel") {
      // No member of a channel sees the marks of others.
      return;
    }
    view.asksMarks = true;
    const refused = () => {
      view.asksMarks = false;
    };
    if (kind === "direct") {
      // A page of a direct conversation has the marks. The message itself comes with a page of the view.
      const answered = (page: HistoryResult) => {
        view.asksMarks = false;
        messages.timeline.history({ ...page, messages: [] });
      };
      this.#ask({ action: "history", conversation_id, limit: 1 }, answered, refused);
      return;
    }
    const ask = (cursor: string | undefined) => {
      const answered = (page: ReceiptsResult) => {
        messages.timeline.receipts(page);
        view.asksMarks = page.next_cursor !== null && this.#viewsOf(conversation_id).includes(view);
        if (view.asksMarks) {
          ask(page.next_cursor ?? undefined);
        } else {
          this.#askPins(view);
        }
      };
      this.#ask({ action: "receipts", conversation_id, limit: MARKS, ...cursorOf(cursor) }, answered, refused);
    };
    ask(undefined);
  }

  /** Requests the pinned messages of a group or a channel whose messages all came from the store. */
  #askPins({ id: conversation_id, messages }: Conversing): void {
    if (messages.wantsPins()) {
      const answered = (page: HistoryResult) => messages.timeline.pinned(page);
      this.#ask({ action: "history", conversation_id, limit: 1 }, answered, () => undefined);
    }
  }

  /** Requests all members. No event has reported who joined or left while this device was away. */
  #askMembers(roster: Roster): void {
    const { conversationId: conversation_id } = roster;
    const ask = (cursor: string | undefined) => {
      const answered = (page: MembersResult) => {
        const members = roster.page(page);
        if (members) {
          this.#needs.push({ need: "members", conversation_id, members });
        } else {
          ask(page.next_cursor ?? undefined);
        }
      };
      const request = { action: "members", conversation_id, limit: limits.MEMBERS_LIMIT_MAX } as const;
      this.#ask({ ...request, ...cursorOf(cursor) }, answered, () => roster.lost());
    };
    if (this.#isCaughtUp && roster.ask()) {
      ask(undefined);
    }
  }

  #load(what: Load): LoadId {
    this.#lastLoad += 1;
    this.#needs.push({ need: "load", load: this.#lastLoad, what });
    return this.#lastLoad;
  }

  #ask<R extends CallRequest>(
    request: R,
    answered: (result: CallResult<R>) => void,
    refused: (code: string) => void = () => {},
  ): void {
    this.#needs.push({ need: "ask", request, waiter: this.#waiter(answered, refused) as Waiter<unknown> });
  }

  /** After a refusal, views stay as they are. After the next reconnect, they ask again. */
  #waiter<T>(answered: (result: T) => void, refused: (code: string) => void = () => {}): Waiter<T> {
    return {
      resolve: (result) => {
        this.#isChanged = true;
        answered(result);
      },
      reject: ({ code }) => {
        this.#isChanged = true;
        refused(code);
      },
    };
  }
}

/** Gives a view what the store has. */
function loadedIn(view: Conversing, side: Side, found: Found, chats: Conversations): void {
  const { timeline } = view.messages;
  if (found.found !== "window") {
    view.messages.loaded(side, { messages: [], spans: [] });
  } else {
    for (const { user_id, delivered_seq, read_seq } of found.members) {
      timeline.receipt({ kind: "delivered", user_id, seq: delivered_seq });
      timeline.receipt({ kind: "read", user_id, seq: read_seq });
    }
    if (found.row && isOfChannel(found.row)) {
      timeline.channel(found.row);
    } else if (found.row) {
      timeline.row(found.row);
      // The list has entries that the row of the store lacks, such as a new title.
      if (chats.lacksRow(view.id)) {
        chats.row(found.row);
      }
    }
    view.messages.loaded(side, found.window);
    for (const [seq, path] of found.places) {
      view.messages.place(seq, path);
    }
  }
  view.isLoaded = true;
}

function take({ id, peerId, messages }: Conversing, queued: Queued): void {
  const target = targetOf(queued);
  const isHere = target && ("to" in target ? target.to === peerId : target.conversation_id === id);
  if (isHere) {
    messages.timeline.queued(queued);
  }
}

function cursorOf(cursor: string | undefined) {
  return cursor === undefined ? {} : { cursor };
}
