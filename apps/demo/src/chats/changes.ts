// Changes of a chat that are no messages: of a group's members and rules, and of the user's own settings.

import type { Client, GroupInfo, Role, Settings } from "@pigeonhole/client/events";
import type { Chat } from "../chat.ts";
import type { Model } from "./model.ts";
import type { OpenChat } from "./open-chat.ts";
import { notAdded, whyNot } from "./refusals.ts";

export class Changes {
  #client: Client;
  #model: Model;
  #openChat: OpenChat;

  constructor(client: Client, model: Model, openChat: OpenChat) {
    this.#client = client;
    this.#model = model;
    this.#openChat = openChat;
  }

  // A group or a channel.

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

  async leave(chat: Chat): Promise<void> {
    await this.#changeGroup(chat, (id) => this.#client.leave(id));
    if (chat.isChannel && chat.refused === "") {
      this.#openChat.forget(chat);
    }
  }

  /** Sends a change. The page shows it when the server's entry arrives. */
  async #changeGroup(
    chat: Chat,
    make: (conversation: string) => Promise<{ clientMsgId: string; stored: Promise<unknown> }>,
  ): Promise<void> {
    const { id } = chat;
    if (id === undefined) {
      return;
    }
    await this.#request(chat, "Not changed", async () => {
      const { stored } = await make(id);
      chat.refused = notAdded(await stored);
    });
  }

  // The user's own settings.

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
  #set(chat: Chat, settings: Settings): Promise<void> {
    return this.#request(chat, "Not set", () => this.#client.settings(settings));
  }

  /** Shows that a request is under way, and afterwards why the server refused it. */
  async #request(chat: Chat, failure: string, request: () => Promise<unknown>): Promise<void> {
    chat.asked += 1;
    chat.refused = "";
    this.#model.watcher.changed();
    try {
      await request();
    } catch (error) {
      chat.refused = `${failure}: ${whyNot(error)}`;
    }
    chat.asked -= 1;
    this.#model.watcher.changed();
  }
}
