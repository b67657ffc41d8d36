// The open chat: its messages, the field to write another, and of a group what it is.

import {
  type Draft,
  isService,
  limits,
  type MediaDraft,
  type MessageItem,
  moderates,
  type ReportReason,
} from "@pigeonhole/client";
import type { Named } from "../mentions.ts";
import type { Opened } from "../opened.ts";
import { newLocation, newVote } from "../own.ts";
import type { Prepared } from "../prepare.ts";
import { isOfService, nameOf, typingIn, whyNot } from "../rows.ts";
import { said } from "../said.ts";
import { avatar } from "./avatar.ts";
import { Composer } from "./composer.ts";
import { Confirm } from "./confirm.ts";
import { h, icon, put } from "./dom.ts";
import type { ChatPanel } from "./encryption.ts";
import { type GroupActions, GroupPanel } from "./group-panel.ts";
import { Menu, type MenuItem } from "./menu.ts";
import { Messages, type MessagesActions } from "./messages.ts";
import { PollForm } from "./own.ts";
import { brief } from "./time.ts";

type OfMessages = Pick<
  MessagesActions,
  "dismiss" | "cancel" | "retry" | "refusal" | "fetch" | "whyNotMade" | "forward"
>;

export interface ConversationActions extends GroupActions, OfMessages {
  /** Returns `false` if the text can’t be sent, and is to be changed. */
  send(chat: Opened, draft: Exclude<Draft, string>): Promise<boolean>;
  files(chat: Opened, files: Promise<Prepared>[], caption: string): void;
  voice(chat: Opened, draft: MediaDraft): void;
  /** Shows why there is nothing to send. */
  refuse(chat: Opened, why: string): void;
  edit(chat: Opened, seq: number, body: string): void;
  delete(chat: Opened, seq: number): void;
  react(chat: Opened, seq: number, emoji: string | null): void;
  pin(chat: Opened, seq: number, pinned: boolean): void;
  copy(text: string): void;
  leave(): void;
  mute(chat: Opened, until: Date | "forever" | null): void;
  muteMentions(chat: Opened, muted: boolean): void;
  archive(chat: Opened, archived: boolean): void;
  pinToTop(chat: Opened, pinned: boolean): void;
  report(chat: Opened, message: MessageItem, reason: ReportReason): void;
  /** And closes it. */
  markUnread(chat: Opened): void;
  block(chat: Opened, blocked: boolean): void;
  /** A group that can’t be created need not be seen any more. */
  putAway(chat: Opened): void;
}

const MUTE_MS = 8 * 60 * 60 * 1000;

export class Conversation {
  readonly element: HTMLElement;
  #user: string;
  #actions: ConversationActions;
  #chat: Opened | undefined;
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
  #pollForm = new PollForm();
  /** Why nothing can be written. */
  #words = h("span");
  #unblock: HTMLButtonElement;
  #putAway: HTMLButtonElement;
  /** The last pinned message. */
  #pinned = h("button", { type: "button", class: "pinned", hidden: true, click: () => this.#goToPinned() });
  #panel: GroupPanel;
  #encryption: ChatPanel | undefined;

  /** `encryption`: of a user with keys. */
  constructor(user: string, actions: ConversationActions, encryption: ChatPanel | undefined) {
    this.#encryption = encryption;
    this.#user = user;
    this.#actions = actions;
    const leave = { type: "button", class: "button back", click: () => actions.leave() };
    this.#back = h("button", leave, icon("back"), this.#others);
    this.others(0);
    this.#messages = new Messages(user, {
      reply: (message) => this.#reply(message),
      forward: (message) => actions.forward(message),
      edit: (message) => this.#edit(message),
      react: (seq, emoji) => this.#chat && actions.react(this.#chat, seq, emoji),
      pin: (seq, pinned) => this.#chat && actions.pin(this.#chat, seq, pinned),
      vote: (seq, option) => this.#chat && void actions.send(this.#chat, newVote(seq, option)),
      delete: (seq) => this.#chat && actions.delete(this.#chat, seq),
      copy: (text) => actions.copy(text),
      report: (message, reason) => this.#chat && actions.report(this.#chat, message, reason),
      dismiss: (id) => actions.dismiss(id),
      cancel: (id) => actions.cancel(id),
      retry: (id) => actions.retry(id),
      takeBack: (failed) => this.#takeBack(failed),
      refusal: (id) => actions.refusal(id),
      whyNotMade: (chat) => actions.whyNotMade(chat),
      fetch: (message) => actions.fetch(message),
      leave: () => this.focus(),
    });
    this.#composer = new Composer(user, () => named(this.#chat, user), {
      send: (body, replyTo, mentions) => void this.#send(body, replyTo, mentions),
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
      typing: () => this.#chat?.chat?.typing(),
      draft: (body) => this.#chat?.chat?.draft(body || undefined),
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
      h(
        "header",
        {},
        this.#back,
        this.#title,
        this.#set,
        ...(encryption ? [encryption.button] : []),
        this.#panel.button,
        this.#menu.element,
      ),
      this.#panel.element,
      this.#pinned,
      ...(encryption ? [encryption.element, encryption.warning] : []),
      this.#messages.element,
      this.#composer.element,
      this.#blocked,
      this.#confirm.element,
      this.#pollForm.element,
    );
    this.#composer.takeFrom(this.element);
  }

  /** `isConnected`: the shown presence is current. */
  update(chat: Opened | undefined, isConnected: boolean): void {
    this.element.hidden = !chat;
    if (chat !== this.#chat) {
      this.#turnTo(chat);
    }
    if (!chat) {
      return;
    }
    const { row } = chat;
    this.#showName(chat);
    const why = whyNot(row);
    this.#composer.element.hidden = why !== "";
    this.#blocked.hidden = why === "";
    this.#unblock.hidden = !row.isBlocked;
    this.#putAway.hidden = row.failed === undefined;
    this.#panel.update(chat);
    this.#showPinned(chat);
    this.#encryption?.update(chat);
    set(this.#words, why);
    set(this.#set, standing(chat));
    set(this.#presence, presenceOf(chat, isConnected));
    if (chat.isLoaded) {
      this.#composer.restore(row.draft?.body ?? "");
    }
    this.#composer.update();
    this.#composer.forget((seq) => this.#messages.message(seq)?.deletedBy !== undefined);
    this.#messages.update();
  }

  #showPinned({ view }: Opened): void {
    const [last] = view?.pins ?? [];
    const { kind = "", body = "", media } = last?.message ?? {};
    this.#pinned.hidden = last === undefined;
    set(this.#pinned, `Pinned: ${said(kind, body, media) || "an earlier message"}`);
  }

  #goToPinned(): void {
    const [last] = this.#chat?.view?.pins ?? [];
    if (last) {
      this.#messages.goTo(last.seq);
    }
  }

  /** Shows a message of the open chat. */
  goTo(seq: number): void {
    this.#messages.goTo(seq);
  }

  /** `unread`: messages of the other chats. */
  others(unread: number): void {
    this.#others.textContent = unread > 0 ? String(unread) : "";
    put(this.#back, "aria-label", `Back to the chats${unread > 0 ? `, ${unread} unread` : ""}`);
  }

  focus(): void {
    this.#composer.focus();
  }

  #turnTo(chat: Opened | undefined): void {
    // The text that is begun is the last chat’s.
    this.#composer.turnTo();
    this.#chat = chat;
    this.#menu.close();
    this.#messages.turnTo(chat);
    this.#panel.turnTo();
    this.#encryption?.turnTo();
    this.#unblock.textContent = `Unblock ${chat?.row.peerId}`;
    this.#name.textContent = "";
  }

  #showName({ row }: Opened): void {
    const plain = nameOf(row);
    const name = plain === this.#user && row.peerId ? `${plain} (you)` : plain;
    if (this.#name.textContent !== name) {
      this.#name.textContent = name;
      this.#title.replaceChildren(avatar(plain), h("div", {}, this.#name, this.#presence));
      this.#composer.address(plain);
    }
  }

  #choices(): MenuItem[] {
    const { mute, muteMentions, archive, pinToTop, block } = this.#actions;
    const chat = this.#chat;
    if (!chat) {
      return [];
    }
    const { row } = chat;
    const { peerId, isMuted, isArchived, isPinned, isBlocked, mutesMentions } = row;
    const items: MenuItem[] = [];
    // Before the first message there is nothing to mute.
    if (row.conversationId !== undefined && isMuted) {
      items.push({ name: "Unmute", choose: () => mute(chat, null) });
      if (row.kind === "group") {
        const name = mutesMentions ? "Notify of mentions" : "Mute mentions too";
        items.push({ name, choose: () => muteMentions(chat, !mutesMentions) });
      }
    } else if (row.conversationId !== undefined) {
      items.push({ name: "Mute for 8 hours", choose: () => mute(chat, new Date(Date.now() + MUTE_MS)) });
      items.push({ name: "Mute", choose: () => mute(chat, "forever") });
    }
    if (row.conversationId !== undefined) {
      items.push({ name: isPinned ? "Unpin" : "Pin to top", choose: () => pinToTop(chat, !isPinned) });
      items.push({ name: isArchived ? "Unarchive" : "Archive", choose: () => archive(chat, !isArchived) });
      items.push({ name: "Mark as unread", choose: () => this.#actions.markUnread(chat) });
    }
    if (whyNot(row) === "") {
      items.push({ name: "New poll", choose: () => this.#pollForm.open((poll) => void this.#say(chat, poll)) });
      items.push({ name: "Send my location", choose: () => this.#locate(chat) });
    }
    if (row.kind !== "channel" && row.conversationId !== undefined) {
      const names = { user: this.#user, with: peerId ?? "", chat: row.conversationId };
      items.push({
        name: "What the server sees",
        choose: () => void open(`/server.html?${new URLSearchParams(names)}`, "_blank", "noopener"),
      });
    }
    if (row.failed !== undefined) {
      items.push({ name: "Remove", choose: () => this.#actions.putAway(chat) });
    }
    if (peerId !== undefined && peerId !== this.#user && !isOfService(row)) {
      const name = `${isBlocked ? "Unblock" : "Block"} ${peerId}`;
      items.push({ name, choose: () => (isBlocked ? block(chat, false) : this.#block(chat)) });
    }
    return items;
  }

  async #say(chat: Opened, draft: Exclude<Draft, string>): Promise<void> {
    this.#messages.goToEnd();
    await this.#actions.send(chat, draft);
  }

  #locate(chat: Opened): void {
    navigator.geolocation.getCurrentPosition(
      ({ coords }) => void this.#say(chat, newLocation(coords)),
      () => this.#actions.refuse(chat, "Not sent: the browser does not know where you are, or may not tell it"),
    );
  }

  async #send(body: string, replyTo: number | undefined, mentions: string[]): Promise<void> {
    const chat = this.#chat;
    if (!chat) {
      return;
    }
    this.#messages.goToEnd();
    const reply = replyTo === undefined ? {} : { replyTo };
    const draft = { body, ...reply, ...(mentions.length > 0 ? { mentions } : {}) };
    if (!(await this.#actions.send(chat, draft)) && chat === this.#chat) {
      this.#composer.takeBack(body);
    }
  }

  async #block(chat: Opened): Promise<void> {
    const { peerId } = chat.row;
    const question = `Block ${peerId}? Neither of you can send a message to the other until you unblock ${peerId}.`;
    if (await this.#confirm.ask(question, "Block")) {
      this.#actions.block(chat, true);
    }
  }

  #reply({ seq, senderId, body, kind, media }: MessageItem): void {
    if (seq !== undefined) {
      this.#composer.reply(seq, senderId === this.#user ? "yourself" : senderId, said(kind, body, media));
    }
  }

  #takeBack(failed: MessageItem): void {
    this.#composer.takeBack(failed.body);
    const answered = failed.reply && this.#messages.message(failed.reply.seq);
    if (answered && answered.deletedBy === undefined) {
      this.#reply(answered);
    }
    this.#actions.dismiss(failed.clientMsgId ?? "");
  }

  #editLast(): void {
    const last = this.#messages.lastOwn();
    if (last) {
      this.#edit(last);
    }
  }

  #edit({ seq, body, media }: MessageItem): void {
    if (seq !== undefined) {
      this.#composer.edit(seq, body, media !== undefined);
    }
  }
}

function set(element: HTMLElement, text: string): void {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

/** Whether the peer is typing, or is online, or when they were. */
function presenceOf(chat: Opened, isConnected: boolean): string {
  const { row } = chat;
  const typing = isConnected ? typingIn(row) : "";
  if (typing || row.kind !== "direct") {
    return typing || membersOf(chat);
  }
  if (isOfService(row)) {
    return "Service";
  }
  if (!isConnected) {
    return "";
  }
  if (row.presence?.online) {
    return "online";
  }
  return row.presence?.last_seen_at ? `last seen ${brief(Date.parse(row.presence.last_seen_at))}` : "";
}

/** As many names as there is room for; or how many there are. */
function membersOf({ members, row }: Opened): string {
  if (row.kind === "channel") {
    const isMore = members.length >= limits.MEMBERS_LIMIT_MAX;
    return row.isClosed || members.length === 0
      ? "Channel"
      : `Channel · ${count(members.length)}${isMore ? " or more" : ""}`;
  }
  if (members.length > 0 && !row.isClosed) {
    return members
      .map(({ userId }) => userId)
      .sort()
      .join(", ");
  }
  return row.memberCount === undefined ? "" : count(row.memberCount);
}

function count(members: number): string {
  return members === 1 ? "1 member" : `${members} members`;
}

/** Returns the members who can be mentioned: a service gets no notification. */
function named(chat: Opened | undefined, me: string): Named[] {
  const isGroup = chat?.row.kind === "group";
  if (!chat || !(isGroup || chat.row.rules.rings === "mentions")) {
    // Elsewhere a mention has no use.
    return [];
  }
  const others = chat.members.filter(({ userId }) => userId !== me && !isService(userId));
  const users = others.map(({ userId }) => ({ id: userId, name: userId })).sort((a, b) => (a.id < b.id ? -1 : 1));
  return isGroup && moderates(chat.row.role) && users.length > 0 ? [...users, { id: "*", name: "all" }] : users;
}

/** Describes a chat’s settings. */
function standing({ asked, refused, row }: Opened): string {
  if (asked > 0) {
    return "Setting …";
  }
  const { mutedUntil } = row;
  const until =
    mutedUntil === null || mutedUntil === "forever" ? "Muted" : `Muted until ${brief(Date.parse(mutedUntil))}`;
  const muted = row.mutesMentions ? `${until}, mentions too` : until;
  return [refused, row.isMuted && muted, row.isArchived && "Archived", row.isBlocked && "Blocked"]
    .filter(Boolean)
    .join(" · ");
}
