// The state that all parts of a user's page share: the chats, the open chat and the connection. No DOM, no network.

import { isChannel, type Message, type State } from "@pigeonhole/client/events";
import { Chat, type Newest } from "../chat.ts";

export interface Watcher {
  /** Called often, after each change of the page's data. */
  changed(): void;
  /** A message of another user has come, in a chat that is not muted. */
  said(chat: Chat, message: Message): void;
  /** Reports whether the user can see the open chat. */
  isLooking(): boolean;
}

/** A chat in the list. */
export interface Listed {
  chat: Chat;
  newest: Newest | undefined;
}

export class Model {
  readonly me: string;
  readonly watcher: Watcher;
  state: State = { state: "connecting" };
  /** When the next connection is tried, on the clock of `Date.now`. */
  retryAt = 0;
  open: Chat | undefined;
  /** The cursor of the chat list: `undefined` before the first page, `null` after the last one. */
  nextPage: string | null | undefined;
  /** By their keys. */
  #chats = new Map<string, Chat>();
  /** By the keys of groups that were created here and had no id yet: a click may still name such a key. */
  #became = new Map<string, Chat>();

  constructor(me: string, watcher: Watcher) {
    this.me = me;
    this.watcher = watcher;
  }

  all(): Chat[] {
    return [...this.#chats.values()];
  }

  /** Returns all chats, the most recently active first. */
  list(): Listed[] {
    const all = this.all().map((chat) => ({ chat, newest: chat.newest() }));
    return all.sort((one, other) => (other.newest?.at ?? 0) - (one.newest?.at ?? 0));
  }

  /** Counts the unread messages of all chats that are not muted. */
  get unread(): number {
    const counted = this.all().filter((chat) => !chat.isMuted());
    return counted.reduce((sum, { timeline }) => sum + timeline.unread(), 0);
  }

  /** Returns the chat with a peer, which is a new one if there is none yet. */
  with(peer: string): Chat {
    const found = this.#chats.get(peer);
    if (found) {
      return found;
    }
    const chat = Chat.with(this.me, peer);
    // A conversation that is not on the list is new.
    chat.isKnown = this.nextPage === null;
    this.add(chat);
    return chat;
  }

  /** Returns the chat of a group or a channel, which is a new one if there is none yet. */
  group(conversation: string): Chat {
    const found = this.of(conversation);
    if (found) {
      return found;
    }
    const chat = Chat.ofGroup(this.me, conversation, isChannel(conversation));
    chat.id = conversation;
    this.add(chat);
    return chat;
  }

  /** Returns the chat of a conversation, if the page knows it already. */
  of(conversation: string): Chat | undefined {
    return this.all().find(({ id }) => id === conversation);
  }

  keyed(key: string): Chat | undefined {
    return this.#chats.get(key) ?? this.#became.get(key);
  }

  add(chat: Chat): void {
    this.#chats.set(chat.key, chat);
  }

  delete(chat: Chat): void {
    this.#chats.delete(chat.key);
  }

  /** Replaces a group that was created here by the chat of its row, which came first. */
  replace(made: Chat, known: Chat): void {
    this.delete(made);
    this.#became.set(made.key, known);
  }

  /** The user was removed from a channel. The messages stay as long as the chat is open. */
  removed(chat: Chat): void {
    chat.isGone = true;
    chat.isWatched = false;
    if (chat !== this.open) {
      this.delete(chat);
    }
  }
}
