// A user's chats: handles the client's events. The parts in `chats/` carry out the actions of the user. No DOM.

import {
  type Client,
  type ClientEvent,
  counts,
  hasMembers,
  isService,
  limits,
  type Message,
  type Receipt,
  type ReceiptKind,
  type Settings,
  type State,
  type Typing,
} from "@pigeonhole/client/events";
import type { Chat } from "./chat.ts";
import { Changes } from "./chats/changes.ts";
import { Channels } from "./chats/channels.ts";
import { Inbox, type Peers } from "./chats/inbox.ts";
import { Model, type Watcher } from "./chats/model.ts";
import { OpenChat } from "./chats/open-chat.ts";
import { Outgoing } from "./chats/outgoing.ts";

export class Chats {
  readonly model: Model;
  readonly openChat: OpenChat;
  readonly inbox: Inbox;
  readonly channels: Channels;
  readonly outgoing: Outgoing;
  readonly changes: Changes;
  #client: Client;
  /** The server sends settings of other devices only to connected clients. */
  #mayHaveMissed = false;

  constructor(me: string, client: Client, peers: Peers, watcher: Watcher) {
    this.#client = client;
    this.model = new Model(me, watcher);
    this.openChat = new OpenChat(client, this.model);
    this.inbox = new Inbox(client, this.model, this.openChat, peers);
    this.channels = new Channels(client, this.model, this.openChat);
    this.outgoing = new Outgoing(client, this.model, this.openChat, this.inbox);
    this.changes = new Changes(client, this.model, this.openChat);
  }

  /** Handles events until the client is closed. */
  async run(): Promise<void> {
    this.outgoing.resume();
    this.inbox.more();
    this.channels.list();
    for await (const event of this.#client.events) {
      this.#onEvent(event);
      this.openChat.look();
      this.model.watcher.changed();
    }
  }

  #onEvent(event: ClientEvent): void {
    switch (event.type) {
      case "message":
        this.#onMessage(event.message, event.missed);
        break;
      case "receipt":
        this.#onReceipt(event);
        break;
      case "conversation":
        this.inbox.row(event.conversation);
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
        this.outgoing.chatOf(event.clientMsgId)?.timeline.uploading(event);
        break;
      case "reacted":
        this.outgoing.chatOf(event.clientMsgId)?.timeline.reacted(event);
        break;
      case "unwatched":
        this.#onUnwatched(event.conversation_id);
        break;
      case "failed":
        this.outgoing.failed(event);
        break;
    }
  }

  #onMessage(message: Message, missed: boolean): void {
    const chat = this.#chatOf(message);
    if (!chat) {
      // Another device sent it, or an operator deleted it. The conversation is new here, and the message names no peer.
      this.inbox.findPeer(message.conversation_id);
      return;
    }
    this.inbox.name(chat, message.conversation_id);
    chat.addMessage(message);
    if (message.kind === "system") {
      if (chat === this.model.open) {
        this.openChat.refresh();
      }
      return;
    }
    const isOwn = message.sender_id === this.model.me;
    if (!isOwn && !missed) {
      isThere(chat);
    }
    if (!counts(message)) {
      if (message.kind !== "reaction" && chat.isLineBy(message.target_seq)) {
        this.inbox.again();
      }
      return;
    }
    chat.isArchived = false;
    if (!isOwn && !chat.isMuted()) {
      this.model.watcher.said(chat, message);
    }
  }

  #chatOf(message: Message): Chat | undefined {
    const { conversation_id, sender_id, client_msg_id } = message;
    const sentFrom = this.outgoing.chatOf(client_msg_id);
    if (hasMembers(conversation_id)) {
      return this.outgoing.made(conversation_id, sentFrom);
    }
    // A change by a service deletes a message of another sender.
    const isOperator = isService(sender_id) && !counts(message);
    if (sender_id !== this.model.me && !isOperator) {
      return this.model.with(sender_id);
    }
    return this.model.of(conversation_id) ?? sentFrom;
  }

  #onReceipt(receipt: Receipt & { kind: ReceiptKind }): void {
    const chat = this.model.of(receipt.conversation_id);
    chat?.timeline.receipt(receipt);
    if (receipt.user_id === this.model.me && chat && chat.timeline.unread() > 0) {
      // The server's list has the number that is left.
      if (chat.isChannel) {
        this.channels.list();
      } else {
        this.inbox.again();
      }
    }
  }

  #onState(state: State): void {
    this.model.state = state;
    if (state.state === "offline") {
      this.model.retryAt = Date.now() + state.retryInMs;
    }
    this.#mayHaveMissed ||= state.state === "offline" || state.state === "replaced";
    if (state.state === "caught_up") {
      this.openChat.refresh();
      this.openChat.askPresence();
      if (this.#mayHaveMissed) {
        this.#mayHaveMissed = false;
        this.inbox.again();
        this.channels.list();
      }
    }
  }

  #onSettings(settings: Settings): void {
    const { model } = this;
    const chat = "user_id" in settings ? model.with(settings.user_id) : model.of(settings.conversation_id);
    chat?.setSettings(settings);
  }

  #onTyping({ conversation_id, user_id }: Typing): void {
    const chat = this.model.of(conversation_id);
    if (chat) {
      chat.timeline.typing(user_id, performance.now());
      isThere(chat);
      setTimeout(() => this.model.watcher.changed(), limits.TYPING_SHOWN_MS + 1);
    }
  }

  #onUnwatched(conversation: string): void {
    const chat = this.model.of(conversation);
    if (chat) {
      this.model.removed(chat);
    }
  }
}

/** Marks a typing user as online, whatever the last request for presence returned. */
function isThere(chat: Chat): void {
  if (chat.presence) {
    chat.presence = { ...chat.presence, online: true };
  }
}
