// The open chat: its messages, the field to write another, and of a group what it is.

import { type Draft, isService, limits, type MediaDraft, type Message, type Queued } from "@pigeonhole/client/events";
import type { Chat } from "../chat.ts";
import type { Named } from "../mentions.ts";
import type { Prepared } from "../prepare.ts";
import { said } from "../said.ts";
import { avatar } from "./avatar.ts";
import { Composer } from "./composer.ts";
import { Confirm } from "./confirm.ts";
import { h, icon, put } from "./dom.ts";
import { type GroupActions, GroupPanel } from "./group-panel.ts";
import { Menu, type MenuItem } from "./menu.ts";
import { Messages } from "./messages.ts";
import { brief } from "./time.ts";
import { writes } from "./writing.ts";

export interface ConversationActions extends GroupActions {
  send(chat: Chat, draft: Exclude<Draft, string>): void;
  files(chat: Chat, files: Promise<Prepared>[], caption: string): void;
  voice(chat: Chat, draft: MediaDraft): void;
  /** Shows why the server refused a message. */
  refuse(chat: Chat, why: string): void;
  cancel(clientMsgId: string): void;
  retry(chat: Chat, failed: Queued): void;
  fetch(message: Message): Promise<Blob>;
  /** Opens the dialog for the destination. */
  forward(message: Message): void;
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
  muteMentions(chat: Chat, muted: boolean): void;
  archive(chat: Chat, archived: boolean): void;
  block(chat: Chat, blocked: boolean): void;
  /** A group that can't be made need not be seen any more. */
  putAway(chat: Chat): void;
}

const MUTE_MS = 8 * 60 * 60 * 1000;

export class Conversation {
  readonly element: HTMLElement;
  #actions: ConversationActions;
  #chat: Chat | undefined;
  #title = h("div", { class: "title" });
  #name = h("h3", { dir: "auto" });
  /** Whether the peer is there, who of a group writes, or who is in it. Not read out whenever it changes. */
  #presence = h("p", { class: "presence" });
  #set = h("p", { class: "set", "aria-live": "polite" });
  #menu = new Menu("Chat menu", () => this.#choices());
  #messages: Messages;
  #composer: Composer;
  #blocked: HTMLElement;
  /** Unread messages of the other chats, where the list is covered. */
  #others = h("span", { class: "badge" });
  #back: HTMLElement;
  #confirm = new Confirm();
  /** Why nothing can be written. */
  #words = h("span");
  #unblock: HTMLButtonElement;
  #putAway: HTMLButtonElement;
  #panel: GroupPanel;

  constructor(user: string, actions: ConversationActions) {
    this.#actions = actions;
    const leave = { type: "button", class: "button back", click: () => actions.leave() };
    this.#back = h("button", leave, icon("back"), this.#others);
    this.others(0);
    this.#messages = new Messages(user, {
      reply: (message) => this.#reply(message),
      forward: (message) => actions.forward(message),
      edit: (message) => this.#edit(message),
      react: (seq, emoji) => this.#chat && actions.react(this.#chat, seq, emoji),
      delete: (seq) => this.#chat && actions.delete(this.#chat, seq),
      copy: (text) => actions.copy(text),
      dismiss: (id) => this.#chat && actions.dismiss(this.#chat, id),
      cancel: (id) => actions.cancel(id),
      retry: (failed) => this.#chat && actions.retry(this.#chat, failed),
      takeBack: (failed, text) => this.#takeBack(failed, text),
      fetch: (message) => actions.fetch(message),
      older: () => actions.older(),
      olderTo: (seq) => actions.olderTo(seq),
      leave: () => this.focus(),
    });
    this.#composer = new Composer(user, () => named(this.#chat), {
      send: (body, replyTo, mentions) => {
        this.#messages.goToEnd();
        const reply = replyTo === undefined ? {} : { replyTo };
        this.#chat && actions.send(this.#chat, { body, ...reply, ...(mentions.length > 0 ? { mentions } : {}) });
      },
      files: (files, caption) => {
        this.#messages.goToEnd();
        this.#chat && actions.files(this.#chat, files, caption);
      },
      voice: () => {
        const chat = this.#chat;
        return {
          send: (draft) => {
            if (chat === this.#chat) {
              this.#messages.goToEnd();
            }
            chat && actions.voice(chat, draft);
          },
          refuse: (why) => chat && actions.refuse(chat, why),
        };
      },
      edit: (seq, body) => this.#chat && actions.edit(this.#chat, seq, body),
      typing: () => this.#chat && actions.typing(this.#chat),
      editLast: () => this.#editLast(),
    });
    const unblock = () => this.#chat && actions.block(this.#chat, false);
    this.#unblock = h("button", { type: "button", class: "link", click: unblock });
    const putAway = () => this.#chat && actions.putAway(this.#chat);
    this.#putAway = h("button", { type: "button", class: "link", click: putAway }, "Remove");
    this.#blocked = h("p", { class: "composer blocked", hidden: true }, this.#words, this.#unblock, this.#putAway);
    this.#panel = new GroupPanel(user, actions);
    this.element = h(
      "section",
      { class: "conversation", "aria-label": `The open chat of ${user}` },
      h("header", {}, this.#back, this.#title, this.#set, this.#panel.button, this.#menu.element),
      this.#panel.element,
      this.#messages.element,
      this.#composer.element,
      this.#blocked,
      this.#confirm.element,
    );
    this.#composer.takeFrom(this.element);
  }

  /** `isConnected`: the shown presence is current. */
  update(chat: Chat | undefined, isConnected: boolean): void {
    this.element.hidden = !chat;
    if (chat !== this.#chat) {
      this.#turnTo(chat);
    }
    if (!chat) {
      return;
    }
    this.#showName(chat);
    const why = whyNot(chat);
    this.#composer.element.hidden = why !== "";
    this.#blocked.hidden = why === "";
    this.#unblock.hidden = !chat.isBlocked;
    this.#putAway.hidden = !chat.isNotMade;
    if (this.#words.textContent !== why) {
      this.#words.textContent = why;
    }
    this.#panel.update(chat);
    const set = standing(chat);
    if (this.#set.textContent !== set) {
      this.#set.textContent = set;
    }
    const presence = presenceOf(chat, isConnected);
    if (this.#presence.textContent !== presence) {
      this.#presence.textContent = presence;
    }
    this.#composer.update();
    this.#composer.forget((seq) => chat.message(seq)?.deleted_at !== undefined);
    this.#messages.update();
  }

  /** `unread`: messages of the other chats. */
  others(unread: number): void {
    this.#others.textContent = unread > 0 ? String(unread) : "";
    put(this.#back, "aria-label", `Back to the chats${unread > 0 ? `, ${unread} unread` : ""}`);
  }

  focus(): void {
    this.#composer.focus();
  }

  #turnTo(chat: Chat | undefined): void {
    this.#chat = chat;
    this.#menu.close();
    this.#composer.turnTo(chat?.key);
    this.#messages.turnTo(chat);
    this.#panel.turnTo();
    this.#unblock.textContent = `Unblock ${chat?.peer}`;
    this.#name.textContent = "";
  }

  #showName(chat: Chat): void {
    const name = chat.peer === chat.me ? `${chat.peer} (you)` : chat.name;
    if (this.#name.textContent !== name) {
      this.#name.textContent = name;
      this.#title.replaceChildren(avatar(chat.name), h("div", {}, this.#name, this.#presence));
      this.#composer.address(chat.name);
    }
  }

  #choices(): MenuItem[] {
    const { mute, muteMentions, archive, block } = this.#actions;
    const chat = this.#chat;
    if (!chat) {
      return [];
    }
    const items: MenuItem[] = [];
    // Before the first message there is nothing to mute.
    if (chat.id !== undefined && chat.isMuted()) {
      items.push({ name: "Unmute", choose: () => mute(chat, null) });
      if (chat.peer === undefined && !chat.isChannel) {
        const name = chat.mutesMentions ? "Notify of mentions" : "Mute mentions too";
        items.push({ name, choose: () => muteMentions(chat, !chat.mutesMentions) });
      }
    } else if (chat.id !== undefined) {
      const later = () => new Date(Date.now() + MUTE_MS).toISOString();
      items.push({ name: "Mute for 8 hours", choose: () => mute(chat, later()) });
      items.push({ name: "Mute", choose: () => mute(chat, "forever") });
    }
    if (chat.id !== undefined) {
      const name = chat.isArchived ? "Unarchive" : "Archive";
      items.push({ name, choose: () => archive(chat, !chat.isArchived) });
    }
    if (chat.isNotMade) {
      items.push({ name: "Remove", choose: () => this.#actions.putAway(chat) });
    }
    if (chat.peer !== undefined && chat.peer !== chat.me && !chat.isOfService) {
      const name = `${chat.isBlocked ? "Unblock" : "Block"} ${chat.peer}`;
      items.push({ name, choose: () => (chat.isBlocked ? block(chat, false) : this.#block(chat)) });
    }
    return items;
  }

  async #block(chat: Chat): Promise<void> {
    const question = `Block ${chat.peer}? Neither of you can send a message to the other until you unblock ${chat.peer}.`;
    if (await this.#confirm.ask(question, "Block")) {
      this.#actions.block(chat, true);
    }
  }

  #reply({ seq, sender_id, body, kind, media }: Message): void {
    const whose = sender_id === this.#chat?.me ? "yourself" : sender_id;
    this.#composer.reply(seq, whose, said(kind, body, media));
  }

  #takeBack(failed: Queued, text: string): void {
    const answered = "replyTo" in failed && failed.replyTo ? this.#chat?.message(failed.replyTo) : undefined;
    this.#composer.takeBack(text);
    if (answered && answered.deleted_at === undefined) {
      this.#reply(answered);
    }
    this.#chat && this.#actions.dismiss(this.#chat, failed.clientMsgId);
  }

  #editLast(): void {
    const last = this.#chat?.lastOwn();
    if (last) {
      this.#edit(last);
    }
  }

  #edit({ seq, body, media }: Message): void {
    this.#composer.edit(seq, body, media !== undefined);
  }
}

/** Whether the peer writes, or is there, or when they were. */
function presenceOf(chat: Chat, isConnected: boolean): string {
  const { presence } = chat;
  const writing = isConnected ? writes(chat) : "";
  if (writing || chat.isGroup) {
    return writing || membersOf(chat);
  }
  if (chat.isOfService) {
    return "Service";
  }
  if (!isConnected) {
    return "";
  }
  if (presence?.online) {
    return "online";
  }
  return presence?.last_seen_at ? `last seen ${brief(Date.parse(presence.last_seen_at))}` : "";
}

/** As many names as there is room for; or how many there are. */
function membersOf({ members, group, isClosed, isChannel }: Chat): string {
  if (isChannel) {
    const isMore = members.length >= limits.MEMBERS_LIMIT_MAX;
    return isClosed || members.length === 0
      ? "Channel"
      : `Channel · ${count(members.length)}${isMore ? " or more" : ""}`;
  }
  if (members.length > 0 && !isClosed) {
    return members.map(({ user_id }) => user_id).join(", ");
  }
  const { memberCount } = group;
  return memberCount === undefined ? "" : count(memberCount);
}

function count(members: number): string {
  return members === 1 ? "1 member" : `${members} members`;
}

/** Returns the members who can be mentioned: a service gets no notification. */
function named(chat: Chat | undefined): Named[] {
  if (chat?.isChannel) {
    // Outside a group a mention has no use.
    return [];
  }
  const others = (chat?.members ?? []).filter(({ user_id }) => user_id !== chat?.me && !isService(user_id));
  const users = others.map(({ user_id }) => ({ id: user_id, name: user_id }));
  return chat?.isModerated && users.length > 0 ? [...users, { id: "*", name: "all" }] : users;
}

/** Why nothing can be written there, or nothing. */
export function whyNot(chat: Chat): string {
  if (chat.isBlocked) {
    return `You have blocked ${chat.peer}.`;
  }
  if (chat.isOfService) {
    return `Only ${chat.peer} sends messages here.`;
  }
  if (chat.isClosed) {
    return `You are no longer in this ${chat.what}.`;
  }
  if (chat.isGroup && chat.id === undefined) {
    return chat.isNotMade ? `The ${chat.what} was not created.` : `The ${chat.what} is not created yet.`;
  }
  return chat.isReadOnly ? `Only admins ${chat.isChannel ? "post" : "write"} in this ${chat.what}.` : "";
}

/** Describes a chat's settings. */
function standing(chat: Chat): string {
  if (chat.asked > 0) {
    return "Setting …";
  }
  const { mutedUntil } = chat;
  const until =
    mutedUntil === null || mutedUntil === "forever" ? "Muted" : `Muted until ${brief(Date.parse(mutedUntil))}`;
  const muted = chat.mutesMentions ? `${until}, mentions too` : until;
  return [chat.refused, chat.isMuted() && muted, chat.isArchived && "Archived", chat.isBlocked && "Blocked"]
    .filter(Boolean)
    .join(" · ");
}
