// The open chat: its messages, its members, and the peer's presence.

import {
  type Client,
  type HistoryResult,
  isService,
  limits,
  type PigeonholeError,
  type Side,
} from "@pigeonhole/client/events";
import type { Chat } from "../chat.ts";
import { ignore } from "./ignore.ts";
import type { Model } from "./model.ts";

/** Messages per request for a conversation. */
export const PAGE = 50;

export class OpenChat {
  #client: Client;
  #model: Model;
  #isAskingPresence = false;

  constructor(client: Client, model: Model) {
    this.#client = client;
    this.#model = model;
  }

  /** Opens a chat, or none. */
  show(chat: Chat | undefined): void {
    const { open } = this.#model;
    open?.timeline.close();
    if (chat !== open) {
      this.#unwatch(open);
    }
    this.#model.open = chat;
    this.refresh();
    this.look();
    this.askPresence();
    this.#model.watcher.changed();
  }

  /** Removes a chat from the page, and closes it if it is open. */
  forget(chat: Chat): void {
    this.#model.delete(chat);
    if (chat === this.#model.open) {
      this.show(undefined);
    }
  }

  /** Marks visible messages as read. Missed messages count as seen after all of them have come. */
  look(): void {
    const { open, me, state, watcher } = this.#model;
    if (!watcher.isLooking() || state.state === "online") {
      open?.timeline.close();
      return;
    }
    open?.timeline.open();
    const seq = open?.timeline.readUpTo();
    if (open?.id !== undefined && seq !== undefined) {
      open.timeline.receipt({ kind: "read", user_id: me, seq });
      this.#client.read(open.id, seq);
      watcher.changed();
    }
  }

  // Messages.

  /**
   * Requests the end of the open chat, its missing messages, and its members' marks: the server sends receipts only to
   * connected clients.
   */
  refresh(): void {
    ignore(this.#refresh());
  }

  async #refresh(): Promise<void> {
    const chat = this.#model.open;
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
      const page = await this.page(chat, chat.id, side);
      if (!page) {
        break;
      }
      chat.addPage(page);
      this.#watch(chat, page.last_seq);
      this.look();
      this.#model.watcher.changed();
      if (page.messages.length === 0) {
        break;
      }
    }
    this.lookAround(chat);
  }

  /** Requests older messages. */
  async lookBack(): Promise<void> {
    const chat = this.#model.open;
    const side = chat?.timeline.moreBefore();
    if (chat?.id === undefined || !side || chat.isLoading || chat.isGone) {
      return;
    }
    chat.isLoading = true;
    this.#model.watcher.changed();
    try {
      const page = await this.page(chat, chat.id, side);
      if (page) {
        chat.addPage(page);
      }
    } catch {
      // The page repeats the request when the user scrolls on.
    } finally {
      chat.isLoading = false;
    }
    this.#model.watcher.changed();
  }

  /** Requests older messages until the page has this one. */
  async lookBackTo(seq: number): Promise<void> {
    const chat = this.#model.open;
    let before = Number.POSITIVE_INFINITY;
    for (;;) {
      const oldest = chat?.timeline.moreBefore()?.before_seq;
      // The page has the message, or the last page of the history was empty.
      if (chat !== this.#model.open || oldest === undefined || oldest <= seq || oldest >= before) {
        return;
      }
      before = oldest;
      await this.lookBack();
    }
  }

  /** Requests a page of messages. Returns `undefined` for a channel from which the user was removed. */
  async page(chat: Chat, id: string, side: Side): Promise<HistoryResult | undefined> {
    try {
      return await this.#client.history(id, side, PAGE);
    } catch (error) {
      if (!chat.isChannel || (error as PigeonholeError).code !== "not_member") {
        throw error;
      }
      this.#model.removed(chat);
      this.#model.watcher.changed();
      return undefined;
    }
  }

  #watch(chat: Chat, after: number): void {
    if (chat.isChannel && chat === this.#model.open && chat.id !== undefined && !chat.isWatched) {
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

  // Members and presence.

  /** Requests the members of a group, and their marks. No event reports joins and leaves of a channel. */
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
    this.#model.watcher.changed();
    if (chat.isChannel) {
      return;
    }
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = await this.#client.receipts(id, { limit: limits.MEMBERS_LIMIT_MAX, cursor });
      chat.timeline.receipts(page);
      cursor = page.next_cursor;
    }
    this.#model.watcher.changed();
  }

  /** Requests the presence of the open chat's peer. */
  async askPresence(): Promise<void> {
    const { open, me, watcher } = this.#model;
    const peer = open?.peer;
    if (
      open?.id === undefined ||
      peer === undefined ||
      peer === me ||
      isService(peer) ||
      this.#isAskingPresence ||
      !watcher.isLooking()
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
    watcher.changed();
  }
}
