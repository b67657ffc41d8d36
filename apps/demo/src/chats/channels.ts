// The user's channels. No event reports news of a channel that is not open, so the page requests the list.

import { type Client, hasMembers, isChannel, type PigeonholeError } from "@pigeonhole/client/events";
import type { Chat } from "../chat.ts";
import { ignore } from "./ignore.ts";
import type { Model } from "./model.ts";
import type { OpenChat } from "./open-chat.ts";
import { whyNotJoined } from "./refusals.ts";

export class Channels {
  #client: Client;
  #model: Model;
  #openChat: OpenChat;

  constructor(client: Client, model: Model, openChat: OpenChat) {
    this.#client = client;
    this.#model = model;
    this.#openChat = openChat;
  }

  /** @throws Why not, in the user's words. */
  async join(channel: string): Promise<void> {
    if (!hasMembers(channel)) {
      throw new Error("The id of a channel begins with ch_, that of a group that you left with gr_");
    }
    try {
      await this.#client.join(channel);
    } catch (error) {
      throw new Error(whyNotJoined(error as PigeonholeError, isChannel(channel)));
    }
    await this.#list();
    this.#openChat.show(this.#model.group(channel));
  }

  /** Requests the list of all channels. */
  list(): void {
    ignore(this.#list());
  }

  async #list(): Promise<void> {
    const model = this.#model;
    const before = model.all().filter(({ isListed, isChannel }) => isListed && isChannel);
    const found = new Set<Chat>();
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = await this.#client.channels({ cursor });
      for (const row of page.conversations) {
        const chat = model.group(row.conversation_id);
        chat.setChannel(row);
        found.add(chat);
        if (chat === model.open && !chat.isWatched) {
          // An admin has added the user again.
          this.#openChat.refresh();
        }
      }
      cursor = page.next_cursor;
    }
    for (const chat of before.filter((chat) => !found.has(chat))) {
      model.removed(chat);
    }
    model.watcher.changed();
  }

  /** Requests the list, and the counts of reactions in the open channel, which no event reports either. */
  async look(): Promise<void> {
    const { open, state, watcher } = this.#model;
    if (!watcher.isLooking() || state.state !== "caught_up") {
      return;
    }
    this.list();
    if (open?.isWatched && open.id !== undefined) {
      const page = await this.#openChat.page(open, open.id, {}).catch(() => undefined);
      if (page) {
        open.addPage(page);
        watcher.changed();
      }
    }
  }
}
