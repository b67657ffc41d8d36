// A user on the page: the user's device, the chats on it, and the views that show them.

import { hasMembers, type Message } from "@pigeonhole/client/events";
import type { Chat } from "./chat.ts";
import type { Peers } from "./chats/inbox.ts";
import { Chats } from "./chats.ts";
import { Device } from "./device.ts";
import type { Prepared } from "./prepare.ts";
import { said } from "./said.ts";
import { kept } from "./tab.ts";
import { Back } from "./view/back.ts";
import { Confirm } from "./view/confirm.ts";
import { Conversation, type ConversationActions, whyNot } from "./view/conversation.ts";
import { h } from "./view/dom.ts";
import { Frames } from "./view/frames.ts";
import { Header } from "./view/header.ts";
import { List, type ListActions } from "./view/list.ts";
import { LockScreen } from "./view/lock-screen.ts";
import { notify } from "./view/notify.ts";

/** Interval of requests for the peer's presence, while the user can see it. */
const PRESENCE_EVERY_MS = 30_000;
/** Interval of requests for news in channels. */
const CHANNELS_EVERY_MS = 15_000;

export interface PaneOptions {
  user: string;
  /** A user to start a chat with. */
  peer: string | undefined;
  /** Whether the chat with them is open at first. */
  isOpen: boolean;
  /** The address of this user's own tab; none, if this is it. */
  ownTab: string | undefined;
  /** Shows this pane, where the page has room for one. */
  show(): void;
  /** How many messages are unread now. */
  unread(count: number): void;
}

export function pane(options: PaneOptions): HTMLElement {
  const { user } = options;
  const element = h("section", { class: "pane", "aria-label": user });
  start(options, element).catch((error: unknown) => {
    element.replaceChildren(h("p", { class: "broken", role: "alert" }, `${user} can't chat here. ${error}`));
  });
  return element;
}

async function start(options: PaneOptions, element: HTMLElement): Promise<void> {
  const frames = framesOf(options.user);
  const device = await Device.open(options.user, (frame) => frames.add(frame));
  await new Pane(options, element, frames, device).run();
}

class Pane {
  #options: PaneOptions;
  #element: HTMLElement;
  #device: Device;
  #chats: Chats;
  /** The open chat, kept over a reload: a group's id, or a peer. */
  #opened: ReturnType<typeof kept>;
  #header: Header;
  #lockScreen: LockScreen;
  #list: List;
  #conversation: Conversation;
  #destination = new Confirm();
  #back: Back;
  #announcer = h("p", { class: "hidden", "aria-live": "polite" });
  #isDue = false;

  constructor(options: PaneOptions, element: HTMLElement, frames: Frames, device: Device) {
    const { user, ownTab } = options;
    this.#options = options;
    this.#element = element;
    this.#device = device;
    this.#opened = kept(`open for ${user} in ${device.dataId}`);
    this.#chats = new Chats(user, device.client, peersOf(user), {
      changed: () => this.#showSoon(),
      said: (chat, message) => this.#said(chat, message),
      isLooking: () => this.#isLooking(),
    });
    this.#header = new Header(user, {
      ownTab,
      connect: (wanted) => this.#turn(wanted),
      comeBack: () => device.client.wake(),
    });
    this.#lockScreen = new LockScreen(user, (conversation, title) => this.#openNotified(conversation, title));
    device.phone.changed = (shown) => this.#lockScreen.show(shown);
    this.#list = new List(user, this.#listActions());
    this.#conversation = new Conversation(user, this.#conversationActions());
    this.#back = new Back(user, () => this.#chats.model.open && !this.#list.element.checkVisibility() && this.#close());
    this.#lay(frames);
    this.#listen();
  }

  /** Opens the chat that was open before a reload, then handles events until the client is closed. */
  async run(): Promise<void> {
    const { peer, isOpen } = this.#options;
    const { model } = this.#chats;
    if (peer !== undefined) {
      model.with(peer);
    }
    const last = this.#opened.get() ?? (isOpen ? peer : undefined);
    this.#open(last ? (hasMembers(last) ? model.group(last) : model.with(last)) : undefined);
    // A server without phones refuses it, and the page works all the same.
    this.#device.phone.register(this.#device.client).catch(() => {});
    await this.#chats.run();
  }

  // Views.

  #lay(frames: Frames): void {
    const nobody = h("p", { class: "nobody" }, "Choose a chat, or start one.");
    const body = h("div", { class: "pane-body" }, this.#list.element, this.#conversation.element, nobody);
    this.#element.replaceChildren(
      this.#header.element,
      this.#lockScreen.element,
      body,
      frames.element,
      this.#destination.element,
      this.#announcer,
    );
  }

  #listen(): void {
    const { model, openChat, channels } = this.#chats;
    this.#element.addEventListener("keydown", ({ key }) => {
      if (key === "Escape" && model.open) {
        this.#leave();
      }
    });
    // The chat is visible again.
    new IntersectionObserver(() => openChat.look()).observe(this.#element);
    document.addEventListener("visibilitychange", () => {
      openChat.look();
      openChat.askPresence();
    });
    setInterval(() => openChat.askPresence(), PRESENCE_EVERY_MS);
    setInterval(() => channels.look(), CHANNELS_EVERY_MS);
  }

  #show(): void {
    const { model } = this.#chats;
    const { open, state, retryAt } = model;
    const { isCut, phone } = this.#device;
    phone.lock(isCut);
    this.#lockScreen.lock(isCut);
    this.#header.update({ state, retryAt, isCut });
    this.#list.update(model.list(), open);
    this.#conversation.update(open, state.state === "caught_up");
    this.#opened.set(open?.id !== undefined && open.isGroup ? open.id : (open?.peer ?? ""));
    this.#element.classList.toggle("is-open", open !== undefined);
    if (open && this.#element.checkVisibility() && !this.#list.element.checkVisibility()) {
      this.#back.covered();
    }
    this.#options.unread(model.unread);
    this.#conversation.others(model.unread - (open && !open.isMuted() ? open.timeline.unread() : 0));
  }

  /** Updates the views once per burst of events. */
  #showSoon(): void {
    if (!this.#isDue) {
      this.#isDue = true;
      setTimeout(() => {
        this.#isDue = false;
        this.#show();
      });
    }
  }

  #isLooking(): boolean {
    return document.visibilityState === "visible" && this.#element.checkVisibility();
  }

  /** A message of another user has come. */
  #said(chat: Chat, message: Message): void {
    const { sender_id, kind, body, media } = message;
    const text = said(kind, body, media);
    this.#announce(`${sender_id}${chat.isGroup ? ` in ${chat.name}` : ""}: ${text}`);
    if (!this.#isLooking() || chat !== this.#chats.model.open) {
      const open = () => {
        this.#options.show();
        this.#openAndFocus(chat);
      };
      notify({ title: chat.name, body: chat.isGroup ? `${sender_id}: ${text}` : text, tag: chat.key, open });
    }
  }

  #announce(words: string): void {
    this.#announcer.textContent = words;
  }

  // Actions of the user.

  #turn(isOn: boolean): void {
    this.#device.turn(isOn);
    this.#show();
  }

  #open(chat: Chat | undefined): void {
    this.#chats.openChat.show(chat);
    this.#show();
  }

  #openAndFocus(chat: Chat | undefined): void {
    this.#open(chat);
    this.#conversation.focus();
  }

  /** Opens the chat of a notification on the lock screen. */
  #openNotified(conversation: string, title: string): void {
    const { model } = this.#chats;
    this.#turn(true);
    const isOfGroup = hasMembers(conversation);
    this.#openAndFocus(model.of(conversation) ?? (isOfGroup ? model.group(conversation) : model.with(title)));
  }

  /** Goes back to the list. */
  #leave(): void {
    this.#close();
    this.#back.uncovered();
  }

  #close(): void {
    const key = this.#chats.model.open?.key;
    this.#open(undefined);
    this.#list.focus(key);
  }

  async #forward(message: Message): Promise<void> {
    const { model, outgoing } = this.#chats;
    const writable = model.list().filter(({ chat }) => whyNot(chat) === "");
    const answers = writable.map(({ chat: { key, name } }) => ({ value: key, name }));
    const chat = model.keyed((await this.#destination.choose("Forward to …", answers)) ?? "");
    if (chat) {
      await outgoing.forward(chat, message);
      this.#open(chat);
    }
    this.#conversation.focus();
  }

  async #sendFiles(chat: Chat, files: Promise<Prepared>[], caption: string): Promise<void> {
    // In the order in which the user chose them.
    for (const file of files) {
      const body = file === files.at(-1) ? caption : "";
      const { draft } = await file;
      await this.#chats.outgoing.sendMedia(chat, { ...draft, body });
    }
  }

  async #copy(text: string): Promise<void> {
    await navigator.clipboard.writeText(text);
    this.#announce("Copied");
  }

  #listActions(): ListActions {
    const { model, inbox, channels, outgoing } = this.#chats;
    return {
      open: (key) => this.#openAndFocus(model.keyed(key)),
      start: (peer) => this.#openAndFocus(model.with(peer)),
      create: async (group) => {
        await outgoing.create(group);
        this.#conversation.focus();
      },
      join: async (channel) => {
        await channels.join(channel);
        this.#conversation.focus();
      },
      more: () => inbox.more(),
    };
  }

  #conversationActions(): ConversationActions {
    const { openChat, outgoing, changes } = this.#chats;
    return {
      send: (chat, draft) => void outgoing.send(chat, draft),
      files: (chat, files, caption) => void this.#sendFiles(chat, files, caption),
      voice: (chat, draft) => void outgoing.sendMedia(chat, draft),
      refuse: (chat, why) => outgoing.refuse(chat, why),
      cancel: (id) => outgoing.cancel(id),
      retry: (chat, failed) => outgoing.retry(chat, failed),
      dismiss: (chat, id) => outgoing.dismiss(chat, id),
      fetch: (message) => this.#device.client.download(message),
      forward: (message) => void this.#forward(message),
      edit: (chat, seq, body) => outgoing.edit(chat, seq, body),
      delete: (chat, seq) => outgoing.delete(chat, seq),
      react: (chat, seq, emoji) => outgoing.react(chat, seq, emoji),
      typing: (chat) => outgoing.typing(chat),
      copy: (text) => void this.#copy(text),
      older: () => void openChat.lookBack(),
      olderTo: (seq) => openChat.lookBackTo(seq),
      mute: (chat, until) => changes.mute(chat, until),
      muteMentions: (chat, muted) => changes.muteMentions(chat, muted),
      archive: (chat, archived) => changes.archive(chat, archived),
      block: (chat, blocked) => changes.block(chat, blocked),
      putAway: (chat) => outgoing.putAway(chat),
      add: (chat, users) => void changes.add(chat, users),
      remove: (chat, member) => void changes.remove(chat, member),
      role: (chat, member, role) => void changes.role(chat, member, role),
      update: (chat, info) => void changes.update(chat, info),
      lookAround: (chat) => openChat.lookAround(chat),
      leaveGroup: (chat) => void changes.leave(chat),
      leave: () => this.#leave(),
    };
  }
}

/** Returns the panel of frames, which stays as the user left it over a reload. */
function framesOf(user: string): Frames {
  const hidden = kept(`frames hidden for ${user}`);
  const isOpen = hidden.get() === null && matchMedia("(min-width: 760px) and (min-height: 600px)").matches;
  return new Frames(isOpen, (isOpen) => hidden.set(isOpen ? undefined : "yes"));
}

function peersOf(user: string): Peers {
  const peer = (conversation: string) => kept(`peer of ${user} in ${conversation}`);
  return {
    get: (conversation) => peer(conversation).get() ?? undefined,
    set: (conversation, name) => peer(conversation).set(name),
  };
}
