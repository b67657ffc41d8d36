// The user's list of conversations, page by page, and the peer of each.

import { type Client, type Conversation, counts, hasMembers, type Target } from "@pigeonhole/client/events";
import type { Chat } from "../chat.ts";
import { ignore } from "./ignore.ts";
import type { Model } from "./model.ts";
import { type OpenChat, PAGE } from "./open-chat.ts";

/** The peer of each conversation, kept over a reload: an entry of the outbox may name only the conversation. */
export interface Peers {
  get(conversation: string): string | undefined;
  set(conversation: string, peer: string): void;
}

export class Inbox {
  #client: Client;
  #model: Model;
  #openChat: OpenChat;
  #peers: Peers;
  #isListing = false;
  /** The list has changed: the page requests it from its beginning, even if an earlier reply is still to come. */
  #isStale = false;

  constructor(client: Client, model: Model, openChat: OpenChat, peers: Peers) {
    this.#client = client;
    this.#model = model;
    this.#openChat = openChat;
    this.#peers = peers;
  }

  /** Requests the next page of the list. */
  more(): void {
    if (!this.#isListing && (this.#model.nextPage !== null || this.#isStale)) {
      ignore(this.#list());
    }
  }

  /** Requests the list from its beginning. */
  again(): void {
    this.#isStale = true;
    this.more();
  }

  async #list(): Promise<void> {
    const model = this.#model;
    this.#isListing = true;
    if (this.#isStale) {
      this.#isStale = false;
      model.nextPage = undefined;
    }
    try {
      const { conversations, next_cursor } = await this.#client.inbox(model.nextPage);
      model.nextPage = next_cursor;
      for (const row of conversations) {
        this.row(row);
      }
      for (const chat of model.all()) {
        chat.isKnown ||= next_cursor === null && chat.id === undefined;
      }
    } finally {
      this.#isListing = false;
      if (this.#isStale) {
        this.more();
      }
    }
    model.watcher.changed();
  }

  row(row: Conversation): void {
    const { conversation_id, peer_id } = row;
    const chat = peer_id === undefined ? this.#model.group(conversation_id) : this.#model.with(peer_id);
    this.name(chat, conversation_id);
    chat.setRow(row);
  }

  /** Sets the conversation of a chat, which the page learns from a row, a message or a page of messages. */
  name(chat: Chat, conversation: string): void {
    const isNew = chat.id === undefined;
    chat.id = conversation;
    if (isNew && chat.peer !== undefined) {
      this.#peers.set(conversation, chat.peer);
    }
    if (isNew && chat === this.#model.open) {
      // A receipt can come before the reply that names its conversation.
      this.#openChat.refresh();
      this.#openChat.askPresence();
    }
  }

  /** Returns the chat to which an entry of the outbox belongs, unless no peer of the conversation is kept. */
  chatOf(target: Target): Chat | undefined {
    if ("to" in target) {
      return this.#model.with(target.to);
    }
    const { conversation_id } = target;
    if (hasMembers(conversation_id)) {
      return this.#model.group(conversation_id);
    }
    const peer = this.#peers.get(conversation_id);
    if (peer === undefined) {
      return undefined;
    }
    const chat = this.#model.with(peer);
    this.name(chat, conversation_id);
    return chat;
  }

  /** Requests messages of a conversation that is new here, to learn its peer. */
  findPeer(conversation: string): void {
    ignore(this.#findPeer(conversation));
  }

  async #findPeer(conversation: string): Promise<void> {
    const { me } = this.#model;
    const page = await this.#client.history(conversation, {}, PAGE);
    const member = page.members.find(({ user_id }) => user_id !== me)?.user_id;
    // A service is no member.
    const writer = page.messages.find((message) => counts(message) && message.sender_id !== me)?.sender_id;
    const chat = this.#model.with(member ?? writer ?? me);
    this.name(chat, conversation);
    chat.addPage(page);
    this.#model.watcher.changed();
  }
}
