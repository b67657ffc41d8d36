// A user's chats: the client's events go in, what the user does goes out. No DOM.

import type { Client, ClientEvent, Conversation, Message, Receipt, State } from "@pigeonhole/client";
import { Chat } from "./chat.ts";

/** How much of a conversation is asked for at once. */
const PAGE = 50;

export interface Watcher {
  /** Something is to be shown. Called often. */
  changed(): void;
  /** A message of somebody else's has come. */
  said(chat: Chat, message: Message): void;
  /** Whether the user can see the open chat. */
  isLooking(): boolean;
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

  constructor(me: string, client: Client, watcher: Watcher) {
    this.me = me;
    this.#client = client;
    this.#watcher = watcher;
  }

  /** The one that was active last comes first. */
  list(): Chat[] {
    return [...this.#byPeer.values()].sort((one, other) => other.activeAt() - one.activeAt());
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

  get unread(): number {
    return this.list().reduce((sum, { unread }) => sum + unread, 0);
  }

  /** Until the client is closed. */
  async run(): Promise<void> {
    for (const { client_msg_id, target, body } of this.#client.outbox) {
      if ("to" in target) {
        this.with(target.to).waiting.push({ client_msg_id, body, at: Date.now() });
      }
    }
    this.listMore();
    for await (const event of this.#client.events) {
      this.#hear(event);
      this.look();
      this.#watcher.changed();
    }
  }

  // What the user does.

  show(chat: Chat | undefined): void {
    if (this.open !== chat && this.open) {
      this.open.awayFrom = undefined;
    }
    this.open = chat;
    this.#refresh();
    this.look();
    this.#watcher.changed();
  }

  /** What the user can see, they have read. */
  look(): void {
    const { open } = this;
    const seq = open?.unreported();
    if (open?.id === undefined || seq === undefined || !this.#watcher.isLooking()) {
      return;
    }
    open.readTo(seq);
    this.#client.read(open.id, seq);
    this.#watcher.changed();
  }

  async send(chat: Chat, body: string): Promise<void> {
    const at = Date.now();
    try {
      const { client_msg_id } = await this.#client.sendTo(chat.peer, body);
      chat.waiting.push({ client_msg_id, body, at });
    } catch (error) {
      chat.waiting.push({
        client_msg_id: crypto.randomUUID(),
        body,
        at,
        why: error instanceof Error ? error.message : String(error),
      });
    }
    chat.awayFrom = undefined;
    this.#watcher.changed();
  }

  discard(chat: Chat, client_msg_id: string): void {
    chat.waiting = chat.waiting.filter((waiting) => waiting.client_msg_id !== client_msg_id);
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
        this.#listed(row);
      }
      for (const chat of this.list()) {
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
    const first = chat?.messages()[0]?.seq ?? 1;
    if (chat?.id === undefined || first === 1 || chat.isLoading) {
      return;
    }
    chat.isLoading = true;
    this.#watcher.changed();
    try {
      chat.remembered(await this.#client.history(chat.id, { before_seq: first }, PAGE));
    } finally {
      chat.isLoading = false;
    }
    this.#watcher.changed();
  }

  // What the client tells.

  #hear(event: ClientEvent): void {
    switch (event.type) {
      case "message":
        this.#arrived(event.message, event.missed);
        break;
      case "receipt":
        this.#receipt(event);
        break;
      case "conversation":
        this.#listed(event.conversation);
        break;
      case "state":
        this.#turned(event);
        break;
      case "failed":
        this.#failed(event.client_msg_id, event.error.message);
        break;
    }
  }

  #failed(client_msg_id: string, why: string): void {
    const waiting = this.list().flatMap((chat) => chat.waiting);
    const failed = waiting.find((candidate) => candidate.client_msg_id === client_msg_id);
    if (failed) {
      failed.why = why;
    }
  }

  #turned(state: State): void {
    this.state = state;
    if (state.state === "offline") {
      this.retryAt = Date.now() + state.retryInMs;
    }
    if (state.state === "online" && this.open) {
      this.open.awayFrom = undefined;
    }
    if (state.state === "caught_up") {
      this.#refresh();
    }
  }

  #arrived(message: Message, missed: boolean): void {
    const chat = this.#chatOf(message);
    if (!chat) {
      // Written on another device, in a conversation that is new: its members say to whom.
      this.#discover(message.conversation_id);
      return;
    }
    this.#name(chat, message.conversation_id);
    chat.arrived(message, missed);
    if (message.sender_id !== this.me) {
      this.#watcher.said(chat, message);
    }
  }

  #chatOf({ conversation_id, sender_id, client_msg_id }: Message): Chat | undefined {
    if (sender_id !== this.me) {
      return this.with(sender_id);
    }
    const isWaiting = (chat: Chat) => chat.waiting.some((waiting) => waiting.client_msg_id === client_msg_id);
    return this.list().find((chat) => chat.id === conversation_id || isWaiting(chat));
  }

  async #discover(conversation: string): Promise<void> {
    const page = await this.#client.history(conversation, {}, PAGE);
    const peer = page.members.find(({ user_id }) => user_id !== this.me)?.user_id ?? this.me;
    const chat = this.with(peer);
    chat.id = conversation;
    chat.remembered(page);
    this.#watcher.changed();
  }

  #listed(row: Conversation): void {
    const chat = this.with(row.peer_id);
    this.#name(chat, row.conversation_id);
    chat.listed(row);
  }

  /** From now on it is known which conversation this is. */
  #name(chat: Chat, conversation: string): void {
    const isNew = chat.id === undefined;
    chat.id = conversation;
    if (isNew && !chat.isKnown && chat === this.open) {
      this.#refresh();
    }
  }

  #receipt({ kind, conversation_id, user_id, seq }: { kind: "delivered" | "read" } & Receipt): void {
    const chat = this.list().find(({ id }) => id === conversation_id);
    if (!chat) {
      return;
    }
    if (user_id !== this.me) {
      chat.peerHas(seq, kind === "read" ? seq : 0);
    } else if (kind === "read" && !chat.readTo(seq)) {
      // The list counts what that leaves.
      this.#nextPage = undefined;
      this.listMore();
    }
  }

  /** The end of the open chat, and how far its members are: receipts are not kept for those who were away. */
  async #refresh(): Promise<void> {
    const chat = this.open;
    if (chat?.id !== undefined) {
      chat.remembered(await this.#client.history(chat.id, {}, PAGE));
      this.look();
      this.#watcher.changed();
    }
  }
}
