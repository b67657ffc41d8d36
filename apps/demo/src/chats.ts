// A user's chats: the client's events go in, what the user does goes out. No DOM.

import type {
  Client,
  ClientEvent,
  Conversation,
  Message,
  PigeonholeError,
  Receipt,
  ReceiptKind,
  Settings,
  Side,
  State,
} from "@pigeonhole/client";
import { Chat, type Newest } from "./chat.ts";

/** How much of a conversation is asked for at once. */
const PAGE = 50;

export interface Watcher {
  /** What is shown has changed. Called often. */
  changed(): void;
  /** A message of another user has come, in a chat that is not muted. */
  said(chat: Chat, message: Message): void;
  /** Whether the user can see the open chat. */
  isLooking(): boolean;
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
  #byPeer = new Map<string, Chat>();
  #nextPage: string | null | undefined;
  #isListing = false;
  /** Settings of other devices are told to those only that are connected. */
  #mayHaveMissed = false;
  /** The chats of the messages sent from here, by `client_msg_id`. */
  #sent = new Map<string, Chat>();

  constructor(me: string, client: Client, watcher: Watcher) {
    this.me = me;
    this.#client = client;
    this.#watcher = watcher;
  }

  /** The most recently active first. */
  list(): Listed[] {
    const all = this.#all().map((chat) => ({ chat, newest: chat.newest() }));
    return all.sort((one, other) => (other.newest?.at ?? 0) - (one.newest?.at ?? 0));
  }

  #all(): Chat[] {
    return [...this.#byPeer.values()];
  }

  with(peer: string): Chat {
    const found = this.#byPeer.get(peer);
    if (found) {
      return found;
    }
    const chat = new Chat(this.me, peer);
    // One that is not on the list is new.
    chat.isKnown = this.#nextPage === null;
    this.#byPeer.set(peer, chat);
    return chat;
  }

  /** Those of muted chats don't count. */
  get unread(): number {
    const counted = this.#all().filter((chat) => !chat.isMuted());
    return counted.reduce((sum, { timeline }) => sum + timeline.unread(), 0);
  }

  /** Until the client is closed. */
  async run(): Promise<void> {
    for (const { clientMsgId, target, body } of this.#client.outbox) {
      if ("to" in target) {
        this.#queued(this.with(target.to), clientMsgId, body);
      }
    }
    this.listMore();
    for await (const event of this.#client.events) {
      this.#onEvent(event);
      this.look();
      this.#watcher.changed();
    }
  }

  // What the user does.

  show(chat: Chat | undefined): void {
    this.open?.timeline.close();
    this.open = chat;
    this.#refresh();
    this.look();
    this.#watcher.changed();
  }

  /** What the user can see, they have read. What was missed is looked at once all of it has come. */
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

  async send(chat: Chat, body: string): Promise<void> {
    try {
      const { clientMsgId } = await this.#client.sendTo(chat.peer, body);
      this.#queued(chat, clientMsgId, body);
    } catch (error) {
      const id = crypto.randomUUID();
      this.#queued(chat, id, body);
      chat.timeline.failed(id, error instanceof Error ? error.message : String(error));
    }
    // To answer is to have seen what was unread, so the separator goes.
    chat.timeline.close();
    this.look();
    this.#watcher.changed();
  }

  #queued(chat: Chat, clientMsgId: string, body: string): void {
    this.#sent.set(clientMsgId, chat);
    chat.timeline.queued(clientMsgId, body, new Date().toISOString());
  }

  dismiss(chat: Chat, clientMsgId: string): void {
    chat.timeline.dismiss(clientMsgId);
    this.#watcher.changed();
  }

  /** `until`: a time, `forever`, or `null`, not at all. */
  mute(chat: Chat, until: string | null): void {
    this.#setHere(chat, { muted_until: until });
  }

  archive(chat: Chat, archived: boolean): void {
    this.#setHere(chat, { archived });
  }

  block(chat: Chat, blocked: boolean): void {
    this.#set(chat, { user_id: chat.peer, set: { blocked } });
  }

  #setHere(chat: Chat, set: Extract<Settings, { conversation_id: string }>["set"]): void {
    if (chat.id !== undefined) {
      this.#set(chat, { conversation_id: chat.id, set });
    }
  }

  /** What is shown changes once the server has it. */
  async #set(chat: Chat, settings: Settings): Promise<void> {
    chat.settingsAsked += 1;
    chat.refused = "";
    this.#watcher.changed();
    try {
      await this.#client.settings(settings);
    } catch (error) {
      chat.refused = `Not set: ${(error as Error).message}`;
    }
    chat.settingsAsked -= 1;
    this.#watcher.changed();
  }

  /** The next page of the list. */
  async listMore(): Promise<void> {
    if (this.#isListing || this.#nextPage === null) {
      return;
    }
    this.#isListing = true;
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
    }
    this.#watcher.changed();
  }

  /** Older messages of the open chat. */
  async lookBack(): Promise<void> {
    const chat = this.open;
    const side = chat?.timeline.moreBefore();
    if (chat?.id === undefined || !side || chat.isLoading) {
      return;
    }
    chat.isLoading = true;
    this.#watcher.changed();
    try {
      chat.addPage(await this.#client.history(chat.id, side, PAGE));
    } finally {
      chat.isLoading = false;
    }
    this.#watcher.changed();
  }

  // Events of the client.

  #onEvent(event: ClientEvent): void {
    switch (event.type) {
      case "message":
        this.#onMessage(event.message);
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
      case "failed":
        this.#sent.get(event.clientMsgId)?.timeline.failed(event.clientMsgId, reason(event.error));
        break;
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
      if (this.#mayHaveMissed) {
        this.#mayHaveMissed = false;
        this.#listAnew();
      }
    }
  }

  #onSettings(settings: Settings): void {
    const chat = "user_id" in settings ? this.with(settings.user_id) : this.of(settings.conversation_id);
    chat?.setSettings(settings);
  }

  #onMessage(message: Message): void {
    const chat = this.#chatOf(message);
    if (!chat) {
      // Sent by another device, in a conversation that is new here: its members say to whom.
      this.#findPeer(message.conversation_id);
      return;
    }
    this.#name(chat, message.conversation_id);
    chat.timeline.message(message);
    chat.isArchived = false;
    if (message.sender_id !== this.me && !chat.isMuted()) {
      this.#watcher.said(chat, message);
    }
  }

  #chatOf({ conversation_id, sender_id, client_msg_id }: Message): Chat | undefined {
    if (sender_id !== this.me) {
      return this.with(sender_id);
    }
    return this.of(conversation_id) ?? this.#sent.get(client_msg_id ?? "");
  }

  /** The chat of a conversation, if it is known already. */
  of(conversation: string): Chat | undefined {
    return this.#all().find(({ id }) => id === conversation);
  }

  async #findPeer(conversation: string): Promise<void> {
    const page = await this.#client.history(conversation, {}, PAGE);
    const peer = page.members.find(({ user_id }) => user_id !== this.me)?.user_id ?? this.me;
    const chat = this.with(peer);
    chat.id = conversation;
    chat.addPage(page);
    this.#watcher.changed();
  }

  #onRow(row: Conversation): void {
    // Of a group.
    if (row.peer_id === undefined) {
      return;
    }
    const chat = this.with(row.peer_id);
    this.#name(chat, row.conversation_id);
    chat.setRow(row);
  }

  /** From now on it is known which conversation this is. */
  #name(chat: Chat, conversation: string): void {
    const isNew = chat.id === undefined;
    chat.id = conversation;
    if (isNew && !chat.isKnown && chat === this.open) {
      this.#refresh();
    }
  }

  #onReceipt(receipt: Receipt & { kind: ReceiptKind }): void {
    const chat = this.of(receipt.conversation_id);
    chat?.timeline.receipt(receipt);
    if (receipt.user_id === this.me && chat && chat.timeline.unread() > 0) {
      // The server's list has the number that is left.
      this.#listAnew();
    }
  }

  #listAnew(): void {
    this.#nextPage = undefined;
    this.listMore();
  }

  /** The end of the open chat, what is missing of it, and its members' marks: receipts are not kept for who was offline. */
  async #refresh(): Promise<void> {
    const chat = this.open;
    if (chat?.id === undefined) {
      return;
    }
    for (let side: Side | undefined = {}; side; side = chat.timeline.missing()) {
      const page = await this.#client.history(chat.id, side, PAGE);
      chat.addPage(page);
      this.look();
      this.#watcher.changed();
      if (page.messages.length === 0) {
        return;
      }
    }
  }
}

/** Why a message will never be stored, in the user's words where they are known. */
function reason({ code, message }: PigeonholeError): string {
  return code === "forbidden" ? "it can’t be delivered" : message;
}
