// A user's chats: the client's events go in, what the user does goes out. No DOM.

import {
  type AddResult,
  type Client,
  type ClientEvent,
  type Conversation,
  counts,
  type Draft,
  type GroupInfo,
  type HistoryResult,
  hasMembers,
  isChannel,
  isService,
  limits,
  type MediaDraft,
  type Message,
  type NewGroup,
  type PigeonholeError,
  type Queued,
  type QueuedChange,
  type Receipt,
  type ReceiptKind,
  type Role,
  type Sent,
  type Settings,
  type Side,
  type State,
  type Target,
  type Typing,
} from "@pigeonhole/client";
import { fileOf } from "./carried.ts";
import { Chat, type Newest } from "./chat.ts";
import { type Group, UNKNOWN } from "./group.ts";
import { list } from "./system.ts";

/** Messages per request for a conversation. */
const PAGE = 50;

export interface Watcher {
  /** Called often, after each change of the page's data. */
  changed(): void;
  /** A message of another user has come, in a chat that is not muted. */
  said(chat: Chat, message: Message): void;
  /** Whether the user can see the open chat. */
  isLooking(): boolean;
}

/** The peer of each conversation, kept over a reload: an entry of the outbox may name only the conversation. */
export interface Peers {
  get(conversation: string): string | undefined;
  set(conversation: string, peer: string): void;
}

/** A chat in the list. */
export interface Listed {
  chat: Chat;
  newest: Newest | undefined;
}

export class Chats {
  readonly me: string;
  state: State = { state: "connecting" };
  /** When the next connection is tried, on the clock of `Date.now`. */
  retryAt = 0;
  open: Chat | undefined;
  #client: Client;
  #watcher: Watcher;
  /** By their keys. */
  #chats = new Map<string, Chat>();
  /** By the keys of groups that were made here and had no id yet: a click may meet the one as it becomes the other. */
  #became = new Map<string, Chat>();
  #nextPage: string | null | undefined;
  #isListing = false;
  /** The list has changed: the page requests it from its beginning, even if an earlier reply is still to come. */
  #isListStale = false;
  /** The server sends settings of other devices only to connected clients. */
  #mayHaveMissed = false;
  /** The chats of the messages and changes sent from here, by `client_msg_id`. */
  #sent = new Map<string, Chat>();
  #peers: Peers;
  #isAskingPresence = false;

  constructor(me: string, client: Client, peers: Peers, watcher: Watcher) {
    this.me = me;
    this.#client = client;
    this.#peers = peers;
    this.#watcher = watcher;
  }

  /** The most recently active first. */
  list(): Listed[] {
    const all = this.#all().map((chat) => ({ chat, newest: chat.newest() }));
    return all.sort((one, other) => (other.newest?.at ?? 0) - (one.newest?.at ?? 0));
  }

  #all(): Chat[] {
    return [...this.#chats.values()];
  }

  with(peer: string): Chat {
    const found = this.#chats.get(peer);
    if (found) {
      return found;
    }
    const chat = Chat.with(this.me, peer);
    // A conversation that is not on the list is new.
    chat.isKnown = this.#nextPage === null;
    this.#chats.set(peer, chat);
    return chat;
  }

  /** Or the channel. */
  group(conversation: string): Chat {
    const found = this.of(conversation);
    if (found) {
      return found;
    }
    const chat = Chat.ofGroup(this.me, conversation, isChannel(conversation));
    chat.id = conversation;
    this.#chats.set(chat.key, chat);
    return chat;
  }

  keyed(key: string): Chat | undefined {
    return this.#chats.get(key) ?? this.#became.get(key);
  }

  /** Muted chats don't count. */
  get unread(): number {
    const counted = this.#all().filter((chat) => !chat.isMuted());
    return counted.reduce((sum, { timeline }) => sum + timeline.unread(), 0);
  }

  /** Until the client is closed. */
  async run(): Promise<void> {
    for (const queued of this.#client.outbox) {
      if ("create" in queued) {
        this.#making(queued);
        continue;
      }
      const { target } = queued;
      if ("conversation_id" in target && hasMembers(target.conversation_id)) {
        this.#queued(this.group(target.conversation_id), queued);
        continue;
      }
      const peer = "to" in target ? target.to : this.#peers.get(target.conversation_id);
      if (peer !== undefined) {
        const chat = this.with(peer);
        if ("conversation_id" in target) {
          this.#name(chat, target.conversation_id);
        }
        this.#queued(chat, queued);
      }
    }
    this.listMore();
    ignore(this.listChannels());
    for await (const event of this.#client.events) {
      this.#onEvent(event);
      this.look();
      this.#watcher.changed();
    }
  }

  // Actions of the user.

  show(chat: Chat | undefined): void {
    this.open?.timeline.close();
    if (chat !== this.open) {
      this.#unwatch(this.open);
    }
    this.open = chat;
    this.#refresh();
    this.look();
    this.askPresence();
    this.#watcher.changed();
  }

  /** Marks visible messages as read. Missed messages count as seen after all of them have come. */
  look(): void {
    const { open } = this;
    if (!this.#watcher.isLooking() || this.state.state === "online") {
      open?.timeline.close();
      return;
    }
    open?.timeline.open();
    const seq = open?.timeline.readUpTo();
    if (open?.id !== undefined && seq !== undefined) {
      open.timeline.receipt({ kind: "read", user_id: this.me, seq });
      this.#client.read(open.id, seq);
      this.#watcher.changed();
    }
  }

  async send(chat: Chat, draft: Exclude<Draft, string>): Promise<void> {
    const target = targetOf(chat);
    if (target) {
      await this.#queue(chat, this.#client.send(target, draft), { target, ...draft });
    }
    // To answer is to have seen what was unread, so the separator goes.
    chat.timeline.close();
    this.look();
    this.#watcher.changed();
  }

  // Media of messages.

  sendMedia(chat: Chat, draft: MediaDraft): Promise<void> {
    return this.#carry(chat, (target) => this.#client.sendMedia(target, draft));
  }

  /** The same words, or what it carries, in another chat. */
  forward(chat: Chat, message: Message): Promise<void> {
    const { body, media } = message;
    return media
      ? this.#carry(chat, (target) => this.#client.forward(target, message, body))
      : this.send(chat, { body });
  }

  /** Shown from now on, with how far it is. */
  async #carry(chat: Chat, send: (target: Target) => Promise<Sent>): Promise<void> {
    const target = targetOf(chat);
    if (!target) {
      return;
    }
    chat.refused = "";
    try {
      const { queued } = await send(target);
      this.#queued(chat, queued);
    } catch (error) {
      chat.refused = `Not sent: ${reason(error as PigeonholeError, false, chat)}`;
    }
    chat.timeline.close();
    this.look();
    this.#watcher.changed();
  }

  /** Shows why the server refused a message. */
  refuse(chat: Chat, why: string): void {
    chat.refused = why;
    this.#watcher.changed();
  }

  cancel(clientMsgId: string): void {
    this.#client.cancel(clientMsgId);
  }

  /** The same once more, in the place of what has failed. */
  retry(chat: Chat, failed: Queued): void {
    this.dismiss(chat, failed.clientMsgId);
    const blob = fileOf(failed);
    if (blob && "body" in failed && failed.media) {
      const { body, replyTo, mentions, media } = failed;
      const { kind, name, width, height, duration_ms: durationMs, thumbhash, waveform } = media;
      const all = { name, replyTo, mentions, width, height, durationMs, thumbhash, waveform };
      const known = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
      this.sendMedia(chat, { blob, kind, body, ...known });
    }
  }

  /** Fetches the media of a message. */
  fetch(message: Message): Promise<Blob> {
    return this.#client.download(message);
  }

  edit(chat: Chat, seq: number, body: string): void {
    this.#change(chat, (id) => [this.#client.edit(id, seq, body), { edit: { seq, body } }]);
  }

  delete(chat: Chat, seq: number): void {
    this.#change(chat, (id) => [this.#client.delete(id, seq), { delete: { seq } }]);
  }

  /** `null`: no longer. */
  react(chat: Chat, seq: number, emoji: string | null): void {
    this.#change(chat, (id) => [this.#client.react(id, seq, emoji), { react: { seq, emoji } }]);
  }

  async #change(chat: Chat, make: (conversation: string) => [Promise<Sent>, Change]): Promise<void> {
    if (chat.id !== undefined) {
      const [sent, change] = make(chat.id);
      await this.#queue(chat, sent, { target: { conversation_id: chat.id }, ...change });
      this.#watcher.changed();
    }
  }

  // Groups.

  /** Opens the new group before the server has it. Until then its messages wait, over a reload too. */
  async create(group: NewGroup): Promise<void> {
    const { queued } = await this.#client.create(group);
    if ("create" in queued) {
      this.show(this.#making(queued));
    }
  }

  #making({ clientMsgId, create }: Extract<Queued, { create: unknown }>): Chat {
    const chat = Chat.ofGroup(this.me, clientMsgId, create.kind === "channel");
    chat.group = begun(create);
    chat.isKnown = true;
    this.#chats.set(chat.key, chat);
    this.#sent.set(clientMsgId, chat);
    return chat;
  }

  /** A group that can't be made is not shown any more. */
  putAway(chat: Chat): void {
    this.#forget(chat);
    this.#watcher.changed();
  }

  add(chat: Chat, users: string[]): Promise<void> {
    return this.#changeGroup(chat, (id) => this.#client.add(id, users));
  }

  remove(chat: Chat, user: string): Promise<void> {
    return this.#changeGroup(chat, (id) => this.#client.remove(id, user));
  }

  role(chat: Chat, user: string, role: Role): Promise<void> {
    return this.#changeGroup(chat, (id) => this.#client.role(id, user, role));
  }

  update(chat: Chat, info: GroupInfo): Promise<void> {
    return this.#changeGroup(chat, (id) => this.#client.update(id, info));
  }

  async leaveGroup(chat: Chat): Promise<void> {
    await this.#changeGroup(chat, (id) => this.#client.leave(id));
    if (chat.isChannel && chat.refused === "") {
      this.#forget(chat);
    }
  }

  // Channels.

  /** @throws Why not, in the user's words. */
  async join(channel: string): Promise<void> {
    if (!hasMembers(channel)) {
      throw new Error("The id of a channel begins with ch_, that of a group that you left with gr_");
    }
    try {
      await this.#client.join(channel);
    } catch (error) {
      const { code, message } = error as PigeonholeError;
      const words: Record<string, string> = {
        forbidden: "An admin removed you. Only an admin can add you",
        not_member: isChannel(channel)
          ? "There is no such channel, or its admins decide who joins"
          : "You can’t come back to this group",
        limit_reached: "You are in as many channels as one can be",
      };
      throw new Error(words[code] ?? message);
    }
    await this.listChannels();
    this.show(this.group(channel));
  }

  /** Lists all channels: no event reports news in those that are not open. */
  async listChannels(): Promise<void> {
    const before = this.#all().filter(({ isListed, isChannel }) => isListed && isChannel);
    const found = new Set<Chat>();
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = await this.#client.channels({ cursor });
      for (const row of page.conversations) {
        const chat = this.group(row.conversation_id);
        chat.setChannel(row);
        found.add(chat);
        if (chat === this.open && !chat.isWatched) {
          // Added again.
          this.#refresh();
        }
      }
      cursor = page.next_cursor;
    }
    for (const chat of before.filter((chat) => !found.has(chat))) {
      this.#removed(chat);
    }
    this.#watcher.changed();
  }

  /**
   * Requests the news of channels that are not open, and the counts of reactions in the open one: no event reports
   * either.
   */
  async lookAtChannels(): Promise<void> {
    const { open } = this;
    if (!this.#watcher.isLooking() || this.state.state !== "caught_up") {
      return;
    }
    ignore(this.listChannels());
    if (open?.isWatched && open.id !== undefined) {
      const page = await this.#page(open, open.id, {}).catch(() => undefined);
      if (page) {
        open.addPage(page);
        this.#watcher.changed();
      }
    }
  }

  #watch(chat: Chat, after: number): void {
    if (chat.isChannel && chat === this.open && chat.id !== undefined && !chat.isWatched) {
      chat.isWatched = true;
      this.#client.watch(chat.id, after);
    }
  }

  #unwatch(chat: Chat | undefined): void {
    if (chat?.isWatched && chat.id !== undefined) {
      chat.isWatched = false;
      this.#client.unwatch(chat.id);
    }
  }

  /** The messages stay as long as the chat is open. */
  #removed(chat: Chat): void {
    chat.isGone = true;
    chat.isWatched = false;
    if (chat !== this.open) {
      this.#forget(chat);
    }
  }

  #forget(chat: Chat): void {
    this.#chats.delete(chat.key);
    if (chat === this.open) {
      this.show(undefined);
    }
  }

  /** Sends a change. The page shows it when the server's entry arrives. */
  async #changeGroup(
    chat: Chat,
    make: (conversation: string) => Promise<{ clientMsgId: string; stored: Promise<unknown> }>,
  ): Promise<void> {
    if (chat.id === undefined) {
      return;
    }
    chat.asked += 1;
    chat.refused = "";
    this.#watcher.changed();
    try {
      const { stored } = await make(chat.id);
      const answer = await stored;
      chat.refused = notAdded(answer);
    } catch (error) {
      chat.refused = `Not changed: ${whyNot(error)}`;
    }
    chat.asked -= 1;
    this.#watcher.changed();
  }

  /** Requests the members of the open group, and their marks. No event reports joins and leaves of a channel. */
  lookAround(chat: Chat): void {
    ignore(this.#lookAround(chat));
  }

  async #lookAround(chat: Chat): Promise<void> {
    const { id } = chat;
    if (id === undefined || !chat.isGroup || chat.isClosed) {
      return;
    }
    const members = [];
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = await this.#client.members(id, { limit: limits.MEMBERS_LIMIT_MAX, cursor });
      members.push(...page.members);
      // A channel can have any number of members.
      const isEnough = chat.isChannel && members.length >= limits.MEMBERS_LIMIT_MAX;
      cursor = isEnough ? null : page.next_cursor;
    }
    chat.members = members;
    this.#watcher.changed();
    if (chat.isChannel) {
      return;
    }
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = await this.#client.receipts(id, { limit: limits.MEMBERS_LIMIT_MAX, cursor });
      chat.timeline.receipts(page);
      cursor = page.next_cursor;
    }
    this.#watcher.changed();
  }

  /** Shown from now on, also where it can't even be kept. */
  async #queue(chat: Chat, sent: Promise<Sent>, what: Unnamed<Queued>): Promise<void> {
    try {
      const { clientMsgId } = await sent;
      this.#queued(chat, { clientMsgId, ...what });
    } catch (error) {
      const clientMsgId = crypto.randomUUID();
      this.#queued(chat, { clientMsgId, ...what });
      chat.timeline.failed(clientMsgId, reason(error as PigeonholeError, !("body" in what), chat));
    }
  }

  #queued(chat: Chat, queued: Queued): void {
    this.#sent.set(queued.clientMsgId, chat);
    chat.timeline.queued(queued, new Date().toISOString());
  }

  /** The user writes. To be called at each key. */
  typing(chat: Chat): void {
    if (chat.id !== undefined) {
      this.#client.typing(chat.id);
    }
  }

  /** Asks whether the open chat's peer is there. */
  async askPresence(): Promise<void> {
    const { open, me } = this;
    const peer = open?.peer;
    if (
      open?.id === undefined ||
      peer === undefined ||
      peer === me ||
      isService(peer) ||
      this.#isAskingPresence ||
      !this.#watcher.isLooking()
    ) {
      return;
    }
    this.#isAskingPresence = true;
    try {
      const [presence] = await this.#client.presence([peer]);
      open.presence = presence;
    } catch {
      // Without a reply the page shows no presence.
      open.presence = undefined;
    } finally {
      this.#isAskingPresence = false;
    }
    this.#watcher.changed();
  }

  dismiss(chat: Chat, clientMsgId: string): void {
    chat.timeline.dismiss(clientMsgId);
    this.#watcher.changed();
  }

  /** `until`: a time, `forever`, or `null`, not at all. */
  mute(chat: Chat, until: string | null): void {
    this.#setHere(chat, { muted_until: until });
  }

  muteMentions(chat: Chat, muted: boolean): void {
    this.#setHere(chat, { mute_mentions: muted });
  }

  archive(chat: Chat, archived: boolean): void {
    this.#setHere(chat, { archived });
  }

  block(chat: Chat, blocked: boolean): void {
    if (chat.peer !== undefined) {
      this.#set(chat, { user_id: chat.peer, set: { blocked } });
    }
  }

  #setHere(chat: Chat, set: Extract<Settings, { conversation_id: string }>["set"]): void {
    if (chat.id !== undefined) {
      this.#set(chat, { conversation_id: chat.id, set });
    }
  }

  /** Sends settings. The page shows them when the server has accepted them. */
  async #set(chat: Chat, settings: Settings): Promise<void> {
    chat.asked += 1;
    chat.refused = "";
    this.#watcher.changed();
    try {
      await this.#client.settings(settings);
    } catch (error) {
      chat.refused = `Not set: ${whyNot(error)}`;
    }
    chat.asked -= 1;
    this.#watcher.changed();
  }

  /** The next page of the list. */
  listMore(): void {
    if (!this.#isListing && (this.#nextPage !== null || this.#isListStale)) {
      ignore(this.#list());
    }
  }

  async #list(): Promise<void> {
    this.#isListing = true;
    if (this.#isListStale) {
      this.#isListStale = false;
      this.#nextPage = undefined;
    }
    try {
      const { conversations, next_cursor } = await this.#client.inbox(this.#nextPage);
      this.#nextPage = next_cursor;
      for (const row of conversations) {
        this.#onRow(row);
      }
      for (const chat of this.#all()) {
        chat.isKnown ||= next_cursor === null && chat.id === undefined;
      }
    } finally {
      this.#isListing = false;
      if (this.#isListStale) {
        this.listMore();
      }
    }
    this.#watcher.changed();
  }

  /** Older messages of the open chat. */
  async lookBack(): Promise<void> {
    const chat = this.open;
    const side = chat?.timeline.moreBefore();
    if (chat?.id === undefined || !side || chat.isLoading || chat.isGone) {
      return;
    }
    chat.isLoading = true;
    this.#watcher.changed();
    try {
      const page = await this.#page(chat, chat.id, side);
      if (page) {
        chat.addPage(page);
      }
    } catch {
      // Asked again when the user scrolls on.
    } finally {
      chat.isLoading = false;
    }
    this.#watcher.changed();
  }

  /** Older messages of the open chat, until this one is there. */
  async lookBackTo(seq: number): Promise<void> {
    const chat = this.open;
    let before = Number.POSITIVE_INFINITY;
    for (;;) {
      const oldest = chat?.timeline.moreBefore()?.before_seq;
      // The message is there, or the last page was empty.
      if (chat !== this.open || oldest === undefined || oldest <= seq || oldest >= before) {
        return;
      }
      before = oldest;
      await this.lookBack();
    }
  }

  // Events of the client.

  #onEvent(event: ClientEvent): void {
    switch (event.type) {
      case "message":
        this.#onMessage(event.message, event.missed);
        break;
      case "receipt":
        this.#onReceipt(event);
        break;
      case "conversation":
        this.#onRow(event.conversation);
        break;
      case "state":
        this.#onState(event);
        break;
      case "settings":
        this.#onSettings(event.settings);
        break;
      case "typing":
        this.#onTyping(event);
        break;
      case "uploading":
        this.#sent.get(event.clientMsgId)?.timeline.uploading(event);
        break;
      case "reacted":
        this.#sent.get(event.clientMsgId)?.timeline.reacted(event);
        break;
      case "unwatched":
        this.#onUnwatched(event.conversation_id);
        break;
      case "failed":
        this.#onFailed(event);
        break;
    }
  }

  #onUnwatched(conversation: string): void {
    const chat = this.of(conversation);
    if (chat) {
      this.#removed(chat);
    }
  }

  #onTyping({ conversation_id, user_id }: Typing): void {
    const chat = this.of(conversation_id);
    if (chat) {
      chat.timeline.typing(user_id, performance.now());
      isThere(chat);
      setTimeout(() => this.#watcher.changed(), limits.TYPING_SHOWN_MS + 1);
    }
  }

  #onFailed({ clientMsgId, error, ...queued }: Extract<ClientEvent, { type: "failed" }>): void {
    const chat = this.#sent.get(clientMsgId);
    if (chat && "create" in queued) {
      chat.isNotMade = true;
      chat.refused = `Not made: ${whyNotMade(error, queued.create)}`;
      return;
    }
    const timeline = chat?.timeline;
    if (error.code === "cancelled") {
      timeline?.failed(clientMsgId, error.code);
      timeline?.dismiss(clientMsgId);
      return;
    }
    const isChange = !("body" in queued);
    if (final.includes(error.code)) {
      chat?.final.add(clientMsgId);
    }
    timeline?.failed(clientMsgId, reason(error, isChange, chat));
    if (isChange && error.code === "gone") {
      // The message is deleted: no notice is needed.
      timeline?.dismiss(clientMsgId);
    }
  }

  #onState(state: State): void {
    this.state = state;
    if (state.state === "offline") {
      this.retryAt = Date.now() + state.retryInMs;
    }
    this.#mayHaveMissed ||= state.state === "offline" || state.state === "replaced";
    if (state.state === "caught_up") {
      this.#refresh();
      this.askPresence();
      if (this.#mayHaveMissed) {
        this.#mayHaveMissed = false;
        this.#listAnew();
        ignore(this.listChannels());
      }
    }
  }

  #onSettings(settings: Settings): void {
    const chat = "user_id" in settings ? this.with(settings.user_id) : this.of(settings.conversation_id);
    chat?.setSettings(settings);
  }

  #onMessage(message: Message, missed: boolean): void {
    const chat = this.#chatOf(message);
    if (!chat) {
      // Sent by another device, or deleted by an operator, in a conversation that is new here: it says itself with whom.
      ignore(this.#findPeer(message.conversation_id));
      return;
    }
    this.#name(chat, message.conversation_id);
    chat.addMessage(message);
    if (message.kind === "system") {
      if (chat === this.open) {
        this.#refresh();
      }
      return;
    }
    if (message.sender_id !== this.me && !missed) {
      isThere(chat);
    }
    if (!counts(message)) {
      if (message.kind !== "reaction" && chat.isLineBy(message.target_seq)) {
        this.#listAnew();
      }
      return;
    }
    chat.isArchived = false;
    if (message.sender_id !== this.me && !chat.isMuted()) {
      this.#watcher.said(chat, message);
    }
  }

  #chatOf(message: Message): Chat | undefined {
    const { conversation_id, sender_id, client_msg_id } = message;
    if (hasMembers(conversation_id)) {
      return this.#made(conversation_id, this.#sent.get(client_msg_id ?? ""));
    }
    // A service that says nothing has deleted what others said.
    const isOperator = isService(sender_id) && !counts(message);
    if (sender_id !== this.me && !isOperator) {
      return this.with(sender_id);
    }
    return this.of(conversation_id) ?? this.#sent.get(client_msg_id ?? "");
  }

  /** The chat of a group, which may be one that was made here. */
  #made(conversation: string, chat: Chat | undefined): Chat {
    if (!chat?.isGroup || chat.id !== undefined) {
      return this.group(conversation);
    }
    const known = this.of(conversation);
    if (!known) {
      return chat;
    }
    // Its row came first.
    this.#chats.delete(chat.key);
    this.#became.set(chat.key, known);
    if (chat === this.open) {
      this.show(known);
    }
    return known;
  }

  /** The chat of a conversation, if it is known already. */
  of(conversation: string): Chat | undefined {
    return this.#all().find(({ id }) => id === conversation);
  }

  async #findPeer(conversation: string): Promise<void> {
    const page = await this.#client.history(conversation, {}, PAGE);
    const member = page.members.find(({ user_id }) => user_id !== this.me)?.user_id;
    // A service is no member.
    const writer = page.messages.find((message) => counts(message) && message.sender_id !== this.me)?.sender_id;
    const peer = member ?? writer ?? this.me;
    const chat = this.with(peer);
    this.#name(chat, conversation);
    chat.addPage(page);
    this.#watcher.changed();
  }

  #onRow(row: Conversation): void {
    const chat = row.peer_id === undefined ? this.group(row.conversation_id) : this.with(row.peer_id);
    this.#name(chat, row.conversation_id);
    chat.setRow(row);
  }

  /** From now on it is known which conversation this is. */
  #name(chat: Chat, conversation: string): void {
    const isNew = chat.id === undefined;
    chat.id = conversation;
    if (isNew && chat.peer !== undefined) {
      this.#peers.set(conversation, chat.peer);
    }
    if (isNew && chat === this.open) {
      // A receipt can come before the answer that says which conversation it is of.
      this.#refresh();
      this.askPresence();
    }
  }

  #onReceipt(receipt: Receipt & { kind: ReceiptKind }): void {
    const chat = this.of(receipt.conversation_id);
    chat?.timeline.receipt(receipt);
    if (receipt.user_id === this.me && chat && chat.timeline.unread() > 0) {
      // The server's list has the number that is left.
      if (chat.isChannel) {
        ignore(this.listChannels());
      } else {
        this.#listAnew();
      }
    }
  }

  #listAnew(): void {
    this.#isListStale = true;
    this.listMore();
  }

  /** The end of the open chat, what is missing of it, and its members' marks: receipts are not kept for who was offline. */
  #refresh(): void {
    ignore(this.#lookAtEnd());
  }

  async #lookAtEnd(): Promise<void> {
    const chat = this.open;
    if (chat?.id === undefined) {
      return;
    }
    let asked: string | undefined;
    for (let side: Side | undefined = {}; side; side = chat.timeline.missing()) {
      // The next page lacks it too.
      if (JSON.stringify(side) === asked) {
        break;
      }
      asked = JSON.stringify(side);
      const page = await this.#page(chat, chat.id, side);
      if (!page) {
        break;
      }
      chat.addPage(page);
      this.#watch(chat, page.last_seq);
      this.look();
      this.#watcher.changed();
      if (page.messages.length === 0) {
        break;
      }
    }
    this.lookAround(chat);
  }

  /** Nothing of a channel whose member the user is no longer. */
  async #page(chat: Chat, id: string, side: Side): Promise<HistoryResult | undefined> {
    try {
      return await this.#client.history(id, side, PAGE);
    } catch (error) {
      if (!chat.isChannel || (error as PigeonholeError).code !== "not_member") {
        throw error;
      }
      this.#removed(chat);
      this.#watcher.changed();
      return undefined;
    }
  }
}

/** Without the id that the client gives it. */
type Unnamed<Q extends Queued> = Q extends Queued ? Omit<Q, "clientMsgId"> : never;
type Change = QueuedChange extends infer Q
  ? Q extends QueuedChange
    ? Omit<Q, "clientMsgId" | "target">
    : never
  : never;

/** `undefined`: a group that is not made yet. */
function targetOf({ id, peer }: Chat): Target | undefined {
  if (id !== undefined) {
    return { conversation_id: id };
  }
  return peer === undefined ? undefined : { to: peer };
}

/** Marks a typing user as online, whatever the last request for presence returned. */
function isThere(chat: Chat): void {
  if (chat.presence) {
    chat.presence = { ...chat.presence, online: true };
  }
}

/** Returns a new group's rules; an omitted one has the protocol's default. */
function begun({ kind, title, history = "joined", post, add, join }: NewGroup): Group {
  const unsaid = kind === "channel" ? "admins" : "all";
  const rules = { history, post: post ?? unsaid, add: add ?? unsaid };
  return { ...UNKNOWN, title, role: "owner", ...rules, ...(kind === "channel" ? { join: join ?? "admins" } : {}) };
}

/** Errors after which another try ends the same way. */
const final: PigeonholeError["code"][] = ["too_large", "bad_request", "gone", "id_reused", "config"];

/** Why a message or a change of one will never be stored, in the user's words where they are known. */
function reason({ code, message }: PigeonholeError, isChange: boolean, chat: Chat | undefined): string {
  const isOfGroup = chat?.isGroup === true;
  switch (code) {
    case "forbidden":
      return isChange || isOfGroup ? "it is not allowed" : "it can’t be delivered";
    case "not_member":
      return isOfGroup ? `you are not in this ${chat.what} any more` : "the server knows this chat no more";
    case "limit_reached":
      return isChange ? "it has been changed too often" : message;
    case "too_large":
      return tooLarge(message);
    default:
      return message;
  }
}

/** A limit that the server or the client names, as people measure. */
function tooLarge(message: string): string {
  const [, limit, unit = ""] = /at most (\d+) (MiB|KiB)/.exec(message) ?? [];
  if (unit === "MiB") {
    return `the file is too large: ${limit} MB is the most`;
  }
  return unit === "KiB" ? "it is too long: some 16,000 letters are the most, or 5,000 emoji" : message;
}

/** Explains why the server refused a new group. No text names the member at fault: a block stays secret. */
function whyNotMade(error: PigeonholeError, { members }: NewGroup): string {
  if (error.code !== "forbidden" || members.length === 0) {
    return whyNot(error);
  }
  return members.length === 1 ? `${members[0]} can’t be added` : `one of ${list(members)} can’t be added`;
}

/** Why a group can't be changed, in the user's words where they are known. */
function whyNot(error: unknown): string {
  const { code, message } = error as PigeonholeError;
  const words: Record<string, string> = {
    forbidden: "it is not allowed",
    gone: "they are not in it",
    not_member: "you are not in it any more",
    limit_reached: "there is no room for more",
  };
  return words[code] ?? message;
}

/** Lists the users who could not be added, with the reasons; empty if there are none. */
function notAdded(answer: unknown): string {
  const { not_added = [] } = (answer ?? {}) as Pick<AddResult, "not_added">;
  const words: Record<string, string> = {
    left: "left the group, and can come back",
    removed: "was removed: an admin can add them",
    limit_reached: "is in as many channels as others may add a user to",
  };
  return not_added.map(({ user_id, reason }) => `Not added: ${user_id} ${words[reason] ?? ""}`.trim()).join(" · ");
}

/** Ignores a failure: the page repeats the request when the user opens the chat again. */
function ignore(asked: Promise<void>): void {
  asked.catch(() => {});
}
