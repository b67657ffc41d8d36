// The open chat: its messages, and the field to write another.

import type { Chat } from "../chat.ts";
import { avatar } from "./avatar.ts";
import { Composer } from "./composer.ts";
import { h, icon } from "./dom.ts";
import { Menu, type MenuItem } from "./menu.ts";
import { Messages } from "./messages.ts";
import { brief } from "./time.ts";

export interface ConversationActions {
  send(chat: Chat, body: string, replyTo: number | undefined): void;
  edit(chat: Chat, seq: number, body: string): void;
  delete(chat: Chat, seq: number): void;
  react(chat: Chat, seq: number, emoji: string | null): void;
  typing(chat: Chat): void;
  dismiss(chat: Chat, clientMsgId: string): void;
  copy(text: string): void;
  older(): void;
  /** Older ones, until this one is there. */
  olderTo(seq: number): Promise<void>;
  leave(): void;
  /** `until`: a time, `forever`, or `null`, not at all. */
  mute(chat: Chat, until: string | null): void;
  archive(chat: Chat, archived: boolean): void;
  block(chat: Chat, blocked: boolean): void;
}

const MUTE_MS = 8 * 60 * 60 * 1000;

export class Conversation {
  readonly element: HTMLElement;
  #actions: ConversationActions;
  #chat: Chat | undefined;
  #title = h("div", { class: "title" });
  /** Whether the peer is there, or writes. Not read out whenever it changes. */
  #presence = h("p", { class: "presence" });
  #set = h("p", { class: "set", "aria-live": "polite" });
  #menu = new Menu("Chat menu", () => this.#choices());
  #messages: Messages;
  #composer: Composer;
  #blocked: HTMLElement;

  constructor(user: string, actions: ConversationActions) {
    this.#actions = actions;
    const back = {
      type: "button",
      class: "button back",
      "aria-label": "Back to the chats",
      click: () => actions.leave(),
    };
    this.#messages = new Messages(user, {
      reply: ({ seq, sender_id, body }) => {
        this.#composer.reply(seq, sender_id === this.#chat?.me ? "yourself" : sender_id, body);
      },
      edit: ({ seq, body }) => this.#composer.edit(seq, body),
      react: (seq, emoji) => this.#chat && actions.react(this.#chat, seq, emoji),
      delete: (seq) => this.#chat && actions.delete(this.#chat, seq),
      copy: (text) => actions.copy(text),
      dismiss: (id) => this.#chat && actions.dismiss(this.#chat, id),
      older: () => actions.older(),
      olderTo: (seq) => actions.olderTo(seq),
      leave: () => this.focus(),
    });
    this.#composer = new Composer(user, {
      send: (body, replyTo) => {
        this.#messages.goToEnd();
        this.#chat && actions.send(this.#chat, body, replyTo);
      },
      edit: (seq, body) => this.#chat && actions.edit(this.#chat, seq, body),
      typing: () => this.#chat && actions.typing(this.#chat),
      editLast: () => this.#editLast(),
    });
    const unblock = () => this.#chat && actions.block(this.#chat, false);
    this.#blocked = h(
      "p",
      { class: "composer blocked", hidden: true },
      h("span"),
      h("button", { type: "button", class: "link", click: unblock }),
    );
    this.element = h(
      "section",
      { class: "conversation", "aria-label": `The open chat of ${user}` },
      h("header", {}, h("button", back, icon("back")), this.#title, this.#set, this.#menu.element),
      this.#messages.element,
      this.#composer.element,
      this.#blocked,
    );
  }

  /** `isConnected`: what is said of the peer is true now. */
  update(chat: Chat | undefined, isConnected: boolean): void {
    this.element.hidden = !chat;
    if (chat !== this.#chat) {
      this.#turnTo(chat);
    }
    if (!chat) {
      return;
    }
    this.#composer.element.hidden = chat.isBlocked;
    this.#blocked.hidden = !chat.isBlocked;
    const set = standing(chat);
    if (this.#set.textContent !== set) {
      this.#set.textContent = set;
    }
    const presence = presenceOf(chat, isConnected);
    if (this.#presence.textContent !== presence) {
      this.#presence.textContent = presence;
    }
    this.#composer.forget((seq) => chat.message(seq)?.deleted_at !== undefined);
    this.#messages.update();
  }

  focus(): void {
    this.#composer.focus();
  }

  #turnTo(chat: Chat | undefined): void {
    this.#chat = chat;
    this.#menu.close();
    this.#composer.turnTo(chat?.peer);
    this.#messages.turnTo(chat);
    if (chat) {
      const name = chat.peer === chat.me ? `${chat.peer} (you)` : chat.peer;
      this.#title.replaceChildren(avatar(chat.peer), h("div", {}, h("h3", {}, name), this.#presence));
      const [words, unblock] = this.#blocked.children;
      words?.replaceChildren(`You have blocked ${chat.peer}.`);
      unblock?.replaceChildren(`Unblock ${chat.peer}`);
    }
  }

  #choices(): MenuItem[] {
    const { mute, archive, block } = this.#actions;
    const chat = this.#chat;
    if (!chat) {
      return [];
    }
    const items: MenuItem[] = [];
    // Before the first message there is nothing to mute.
    if (chat.id !== undefined && chat.isMuted()) {
      items.push({ name: "Unmute", choose: () => mute(chat, null) });
    } else if (chat.id !== undefined) {
      const later = () => new Date(Date.now() + MUTE_MS).toISOString();
      items.push({ name: "Mute for 8 hours", choose: () => mute(chat, later()) });
      items.push({ name: "Mute", choose: () => mute(chat, "forever") });
    }
    if (chat.id !== undefined) {
      const name = chat.isArchived ? "Unarchive" : "Archive";
      items.push({ name, choose: () => archive(chat, !chat.isArchived) });
    }
    if (chat.peer !== chat.me) {
      const name = `${chat.isBlocked ? "Unblock" : "Block"} ${chat.peer}`;
      items.push({ name, choose: () => block(chat, !chat.isBlocked) });
    }
    return items;
  }

  #editLast(): void {
    const last = this.#chat?.lastOwn();
    if (last) {
      this.#composer.edit(last.seq, last.body);
    }
  }
}

/** Whether the peer writes, or is there, or when they were. */
function presenceOf(chat: Chat, isConnected: boolean): string {
  const { presence } = chat;
  if (!isConnected) {
    return "";
  }
  if (chat.isWriting()) {
    return "writes …";
  }
  if (presence?.online) {
    return "online";
  }
  return presence?.last_seen_at ? `last seen ${brief(Date.parse(presence.last_seen_at))}` : "";
}

/** What is set for a chat, in words. */
function standing(chat: Chat): string {
  if (chat.settingsAsked > 0) {
    return "Setting …";
  }
  const { mutedUntil } = chat;
  const muted =
    mutedUntil === null || mutedUntil === "forever" ? "Muted" : `Muted until ${brief(Date.parse(mutedUntil))}`;
  return [chat.refused, chat.isMuted() && muted, chat.isArchived && "Archived", chat.isBlocked && "Blocked"]
    .filter(Boolean)
    .join(" · ");
}
