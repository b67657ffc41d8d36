// A user on the page: the user's device, and the views that show the chats on it.

import {
  type ChatRow,
  type ClientEvent,
  emptyRow,
  hasMembers,
  isChannel,
  limits,
  type Message,
  type MessageItem,
  type NewGroup,
  type PigeonholeError,
  type ReportReason,
  type Sent,
} from "@pigeonhole/client";
import { Device } from "./device.ts";
import { makeKeys } from "./keys.ts";
import { called, learn, rename } from "./names.ts";
import { Opened, type Place, placeOf } from "./opened.ts";
import type { Prepared } from "./prepare.ts";
import { notAdded, reason, whyNotJoined, whyNotMade, whyRefused } from "./refusals.ts";
import { nameOf, whatOf, whyNot } from "./rows.ts";
import { said } from "./said.ts";
import { kept } from "./tab.ts";
import { Back } from "./view/back.ts";
import { Confirm } from "./view/confirm.ts";
import { Conversation, type ConversationActions } from "./view/conversation.ts";
import { h, icon } from "./view/dom.ts";
import type { Encryption } from "./view/encryption.ts";
import { Frames } from "./view/frames.ts";
import { Header } from "./view/header.ts";
import { type Found, List, type ListActions } from "./view/list.ts";
import { LockScreen } from "./view/lock-screen.ts";
import { notify } from "./view/notify.ts";

/** Messages that a search shows. */
const FOUND_MAX = 20;

/** As much of an encrypted message as a report takes. A character has up to three bytes. */
const CLAIMED_CHARS = Math.floor(limits.CLAIMED_BYTES_MAX / 3);

/** Interval of requests for news in channels. */
const CHANNELS_EVERY_MS = 15_000;

export interface PaneOptions {
  user: string;
  /** Names a second device of the user in this browser. */
  device: string | undefined;
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
  let pane: Pane | undefined;
  const turned = () => pane?.showSoon();
  const { user, device: named, peer } = options;
  const device = await Device.open(user, named, (frame) => frames.add(frame), turned);
  pane = new Pane(options, element, frames, device, await encryptionOf(user, peer, device));
}

/** Returns the panels of the encryption, which are loaded for a user with keys. */
async function encryptionOf(user: string, peer: string | undefined, device: Device): Promise<Encryption | undefined> {
  if (!device.isEncrypted) {
    return undefined;
  }
  const { Encryption } = await import("./view/encryption.ts");
  const second = new URLSearchParams({ user, device: "second", ...(peer === undefined ? {} : { with: peer }) });
  return new Encryption(user, device.phone.deviceId, device.pigeonhole, `/?${second}`);
}

class Pane {
  #options: PaneOptions;
  #element: HTMLElement;
  #device: Device;
  #rows;
  #archived;
  #opened: Opened | undefined;
  /** The open chat, kept over a reload. */
  #place: ReturnType<typeof kept>;
  /** The users whose chats were opened here. The client’s list has no rows of chats without a message. */
  #begun = new Set<string>();
  #retryAt = 0;
  #words = "";
  #found: Found[] = [];
  /** The refusals of requests of this page, in words, by `client_msg_id`. */
  #refusals = new Map<string, string>();
  #header: Header;
  #lockScreen: LockScreen;
  /** The user's devices, of a user with keys. */
  #devices: HTMLElement;
  #list: List;
  #conversation: Conversation;
  #destination = new Confirm();
  #back: Back;
  #announcer = h("p", { class: "hidden", "aria-live": "polite" });
  #isDue = false;

  constructor(
    options: PaneOptions,
    element: HTMLElement,
    frames: Frames,
    device: Device,
    encryption: Encryption | undefined,
  ) {
    const { user, ownTab, peer, isOpen } = options;
    const { pigeonhole, phone } = device;
    this.#options = options;
    this.#element = element;
    this.#device = device;
    this.#place = kept(`open for ${user} in ${device.dataId}`);
    this.#rows = pigeonhole.conversations();
    this.#archived = pigeonhole.conversations({ archived: true });
    this.#devices = encryption?.devices.element ?? h("div", { hidden: true });
    this.#header = new Header(user, {
      ownTab,
      connect: (wanted) => device.turn(wanted),
      comeBack: () => pigeonhole.wake(),
      encryption: encryption?.devices.button ?? this.#encrypt(),
    });
    this.#lockScreen = new LockScreen(user, (id, title) => this.#openNotified(id, title));
    phone.changed = (shown) => this.#lockScreen.show(shown);
    this.#list = new List(user, this.#listActions(), encryption !== undefined, phone.quiet);
    this.#conversation = new Conversation(user, this.#conversationActions(), encryption?.chat);
    this.#back = new Back(user, () => this.#opened && !this.#list.element.checkVisibility() && this.#close());
    this.#lay(frames);
    for (const { subscribe } of [this.#rows, this.#archived, pigeonhole.connection]) {
      subscribe(() => this.showSoon());
    }
    pigeonhole.onEvent((event) => this.#onEvent(event));
    element.addEventListener("keydown", ({ key }) => key === "Escape" && this.#opened && this.#leave());
    // A server without phones refuses it, and the page works all the same.
    phone.register(pigeonhole).catch(() => {});
    if (peer !== undefined) {
      this.#begun.add(peer);
    }
    setInterval(() => document.visibilityState === "visible" && this.#rows.refresh(), CHANNELS_EVERY_MS);
    const last = this.#place.get();
    this.#open(last !== null ? (JSON.parse(last) ?? undefined) : isOpen && peer !== undefined ? { peer } : undefined);
  }

  #lay(frames: Frames): void {
    const nobody = h("p", { class: "nobody" }, "Choose a chat, or start one.");
    const body = h("div", { class: "pane-body" }, this.#list.element, this.#conversation.element, nobody);
    this.#element.replaceChildren(
      this.#header.element,
      this.#devices,
      this.#lockScreen.element,
      body,
      frames.element,
      this.#destination.element,
      this.#announcer,
    );
  }

  /** Returns the button by which the user gets keys. */
  #encrypt(): HTMLElement {
    const name = "Turn on encryption";
    const click = async () => {
      const question = `Turn on encryption for ${this.#options.user}? It stays on: chats with it can’t go back.`;
      if (await this.#destination.ask(question, "Turn on")) {
        try {
          await makeKeys(this.#options.user, this.#device.dataId);
          location.reload();
        } catch (error) {
          this.#element.prepend(h("p", { class: "broken", role: "alert" }, whyRefused(error)));
        }
      }
    };
    return h(
      "button",
      { type: "button", class: "button lock", "aria-label": name, title: name, click },
      icon("unlocked"),
    );
  }

  // Drawing.

  /** Updates the views once per burst of changes. */
  showSoon(): void {
    if (!this.#isDue) {
      this.#isDue = true;
      setTimeout(() => {
        this.#isDue = false;
        this.#show();
      });
    }
  }

  #show(): void {
    const { isCut, phone, pigeonhole } = this.#device;
    const state = pigeonhole.connection.getSnapshot();
    phone.lock(isCut);
    this.#lockScreen.lock(isCut);
    this.#header.update({ state, retryAt: this.#retryAt, isCut });
    this.#follow();
    const opened = this.#opened;
    for (const view of [this.#rows, this.#archived, ...(opened?.views ?? [])]) {
      learn(view?.getSnapshot()?.names);
    }
    this.#conversation.update(opened, state.state === "caught_up");
    this.#element.classList.toggle("is-open", opened !== undefined);
    if (opened && this.#element.checkVisibility() && !this.#list.element.checkVisibility()) {
      this.#back.covered();
    }
    const { unread } = this.#rows;
    this.#options.unread(unread);
    this.#conversation.others(unread - (opened && !opened.row.isMuted ? opened.row.unread : 0));
    const archived = this.#archived.rows;
    const isSearch = this.#words !== "";
    this.#list.update({ rows: this.#listed(), archived, found: this.#found, open: opened?.row.key, isSearch });
  }

  /** The chats of the list, and those in which nothing was written. */
  #listed(): readonly ChatRow[] {
    const { rows } = this.#rows;
    if (this.#words || !this.#rows.getSnapshot()) {
      return rows;
    }
    const begun = [...this.#begun].filter((peer) => !this.#rowAt({ peer })).map((to) => emptyRow({ to }));
    return [...rows, ...begun];
  }

  #rowAt(place: Place): ChatRow | undefined {
    const isAt = (row: ChatRow) =>
      "peer" in place
        ? row.peerId === place.peer
        : "id" in place
          ? row.conversationId === place.id
          : row.key === place.key;
    return [...this.#rows.rows, ...this.#archived.rows].find(isAt);
  }

  /** The open chat follows its row: a group gets its id, and a channel that the user has left is closed. */
  #follow(): void {
    const opened = this.#opened;
    if (!opened) {
      return;
    }
    const row = this.#rowAt(opened.place);
    opened.listed(row);
    if (opened.chat === undefined && row?.conversationId !== undefined) {
      this.#place.set(JSON.stringify({ id: row.conversationId }));
      opened.close();
      this.#opened = this.#at({ id: row.conversationId }, row);
    } else if (opened.chat === undefined && !row && this.#rows.getSnapshot()) {
      this.#open(undefined);
    }
  }

  #at(place: Place, row: ChatRow | undefined): Opened {
    return new Opened(this.#device.pigeonhole, place, row, () => this.showSoon());
  }

  // Events.

  #onEvent(event: ClientEvent): void {
    switch (event.type) {
      case "message":
        this.#said(event.message, event.missed);
        break;
      case "state":
        this.#retryAt = event.state === "offline" ? Date.now() + event.retryInMs : 0;
        break;
      case "failed": {
        const { clientMsgId, error } = event;
        const made = "request" in event && event.request.action === "create" ? event.request : undefined;
        this.#refusals.set(clientMsgId, made ? whyNotMade(error, made) : error.message);
        if (error.code === "cancelled" || (error.code === "gone" && "request" in event)) {
          // The user knows, or the message is deleted: no notice is needed.
          this.#device.pigeonhole.dismiss(clientMsgId);
        }
        break;
      }
      case "reload":
        location.reload();
    }
  }

  /** A message of another user has come. */
  #said({ conversation_id, sender_id, kind, body, media, target_seq }: Message, missed: boolean): void {
    const row = this.#rowAt(hasMembers(conversation_id) ? { id: conversation_id } : { peer: sender_id });
    if (sender_id === this.#options.user || missed || target_seq !== undefined || kind === "system" || row?.isMuted) {
      return;
    }
    const isOfGroup = hasMembers(conversation_id);
    const name = row ? nameOf(row) : isOfGroup ? "Group" : called(sender_id);
    const text = said(kind, body, media);
    this.#announce(`${called(sender_id)}${isOfGroup ? ` in ${name}` : ""}: ${text}`);
    const isSeen = document.visibilityState === "visible" && this.#element.checkVisibility();
    if (!isSeen || this.#opened?.chat?.id !== conversation_id) {
      const open = () => {
        this.#options.show();
        this.#openAndFocus({ id: conversation_id });
      };
      notify({ title: name, body: isOfGroup ? `${called(sender_id)}: ${text}` : text, tag: conversation_id, open });
    }
  }

  #announce(words: string): void {
    this.#announcer.textContent = words;
  }

  // Actions of the user.

  #open(place: Place | undefined): void {
    if (place && this.#isOpen(place)) {
      this.#show();
      return;
    }
    this.#opened?.close();
    this.#opened = place && this.#at(place, this.#rowAt(place));
    // A group that is not created yet has no name of its own over a reload.
    this.#place.set(JSON.stringify(place && !("key" in place) ? place : null));
    if (place && "peer" in place) {
      this.#begun.add(place.peer);
    }
    if (this.#opened?.row.isMarkedUnread) {
      this.#opened.chat?.markUnread(false).catch(() => {});
    }
    this.#show();
  }

  #isOpen(place: Place): boolean {
    const chat = this.#opened?.chat;
    const id = "id" in place ? place.id : "peer" in place && this.#device.pigeonhole.direct(place.peer).id;
    return chat !== undefined && chat.id === id;
  }

  #openAndFocus(place: Place): void {
    this.#open(place);
    this.#conversation.focus();
  }

  /** Opens the chat of a notification on the lock screen. */
  #openNotified(id: string, title: string): void {
    this.#device.turn(true);
    this.#openAndFocus(hasMembers(id) || title.startsWith("@") ? { id } : { peer: title });
  }

  /** Goes back to the list. */
  #leave(): void {
    this.#close();
    this.#back.uncovered();
  }

  #close(): void {
    const key = this.#opened?.row.key;
    this.#open(undefined);
    this.#list.focus(key);
  }

  async #forward(message: MessageItem): Promise<void> {
    const from = this.#opened?.chat?.id;
    const writable = [...this.#listed(), ...this.#archived.rows].filter((row) => whyNot(row) === "");
    const answers = writable.map((row) => ({ value: row.key, name: nameOf(row) }));
    const key = await this.#destination.choose("Forward to …", answers);
    const row = writable.find((row) => row.key === key);
    if (row && from !== undefined) {
      this.#open(placeOf(row));
      const { body, media, seq, kind } = message;
      const carried = media && seq !== undefined ? { conversation_id: from, seq, kind, media } : undefined;
      await this.#send(this.#opened, ({ chat }) => (carried ? chat?.forward(carried, body) : chat?.send(body)));
    }
    this.#conversation.focus();
  }

  /** Sends a message. Returns `false` if it can’t even wait: the chat shows why. A message shows a refusal of the server. */
  async #send(opened: Opened | undefined, send: (opened: Opened) => Promise<Sent> | undefined): Promise<boolean> {
    if (!opened) {
      return false;
    }
    opened.refused = "";
    try {
      const sent = await send(opened);
      sent?.stored.catch(() => {});
      return true;
    } catch (error) {
      const { code, message } = error as PigeonholeError;
      const { row } = opened;
      opened.refused = `Not sent: ${reason(code, false, row.kind === "direct", whatOf(row), message)}`;
      return false;
    } finally {
      this.showSoon();
    }
  }

  async #sendFiles(opened: Opened, files: Promise<Prepared>[], caption: string): Promise<void> {
    // In the order in which the user chose them.
    for (const file of files) {
      const body = file === files.at(-1) ? caption : "";
      const { draft } = await file;
      await this.#send(opened, ({ chat }) => chat?.sendFile({ ...draft, body }));
    }
  }

  /** Carries out a request, and shows that it is under way, and afterwards why the server refused it. */
  async #request(opened: Opened, failure: string, request: () => Promise<unknown> | undefined): Promise<void> {
    opened.asked += 1;
    opened.refused = "";
    this.#show();
    try {
      opened.refused = notAdded(await request());
    } catch (error) {
      opened.refused = `${failure}: ${whyRefused(error)}`;
    }
    opened.asked -= 1;
    this.showSoon();
  }

  #change(opened: Opened, change: () => Promise<Sent<unknown>> | undefined): Promise<void> {
    return this.#request(opened, "Not changed", async () => (await change())?.stored);
  }

  async #leaveGroup(opened: Opened): Promise<void> {
    await this.#change(opened, () => opened.chat?.leave());
    if (opened.isChannel && opened.refused === "" && opened === this.#opened) {
      this.#leave();
    }
  }

  async #create(group: NewGroup): Promise<void> {
    const { clientMsgId, stored } = await this.#device.pigeonhole.newGroup(group);
    stored.catch(() => {});
    this.#open({ key: `n${clientMsgId}` });
    this.#conversation.focus();
  }

  async #join(channel: string): Promise<void> {
    if (!hasMembers(channel)) {
      throw new Error("The id of a channel begins with ch_, that of a group that you left with gr_");
    }
    try {
      await this.#device.pigeonhole.conversation(channel).join();
    } catch (error) {
      throw new Error(whyNotJoined(error as PigeonholeError, isChannel(channel)));
    }
    this.#openAndFocus({ id: channel });
  }

  async #search(words: string): Promise<void> {
    this.#words = words;
    this.#rows.select(words ? { words } : {});
    this.#archived.select(words ? { archived: true, words } : { archived: true });
    const messages = words ? await this.#device.pigeonhole.search(words, FOUND_MAX) : [];
    if (words === this.#words) {
      const { user } = this.#options;
      this.#found = messages.map((message) => {
        const row = this.#rowAt({ id: message.conversation_id });
        return { message, name: row ? nameOf(row) : message.sender_id === user ? "You" : called(message.sender_id) };
      });
      this.showSoon();
    }
  }

  #goTo({ conversation_id, seq }: Message): void {
    this.#list.endSearch();
    this.#open({ id: conversation_id });
    this.#conversation.goTo(seq);
  }

  async #report(opened: Opened, message: MessageItem, reason: ReportReason): Promise<void> {
    const { conversationId } = opened.row;
    const { seq = 0, isSealed, body } = message;
    // The server can't read it.
    const claimed = isSealed && body ? body.slice(0, CLAIMED_CHARS) : undefined;
    const report = { conversationId, seqs: [seq], reason, claimed };
    await this.#request(opened, "Not reported", () => this.#device.pigeonhole.report(report));
    opened.refused ||= "Reported to the operator";
  }

  async #copy(text: string): Promise<void> {
    await navigator.clipboard.writeText(text);
    this.#announce("Copied");
  }

  #listActions(): ListActions {
    return {
      open: (row) => this.#openAndFocus(placeOf(row)),
      start: (peer) => this.#openAndFocus({ peer }),
      create: (group) => this.#create(group),
      join: (channel) => this.#join(channel),
      setName: async (name) => {
        await this.#device.pigeonhole.setProfile({ name: name || null });
        rename(this.#options.user, name);
        this.showSoon();
      },
      setQuiet: (hours) => this.#device.phone.setQuiet(this.#device.pigeonhole, hours),
      search: (words) => void this.#search(words),
      goTo: (message) => this.#goTo(message),
    };
  }

  #conversationActions(): ConversationActions {
    const { pigeonhole } = this.#device;
    const set = (opened: Opened, request: () => Promise<void> | undefined) =>
      void this.#request(opened, "Not set", request);
    return {
      send: (opened, draft) => this.#send(opened, ({ chat }) => chat?.send(draft)),
      files: (opened, files, caption) => void this.#sendFiles(opened, files, caption),
      voice: (opened, draft) => void this.#send(opened, ({ chat }) => chat?.sendFile(draft)),
      refuse: (opened, why) => {
        opened.refused = why;
        this.showSoon();
      },
      cancel: (id) => void pigeonhole.cancel(id),
      retry: (id) => void pigeonhole.again(id).catch(() => {}),
      dismiss: (id) => pigeonhole.dismiss(id),
      refusal: (id) => this.#refusals.get(id),
      whyNotMade: ({ row }) =>
        row.failed === undefined ? "" : `Not created: ${this.#refusals.get(row.key.slice(1)) ?? row.failed}`,
      fetch: (message) => pigeonhole.download(message),
      forward: (message) => void this.#forward(message),
      edit: (opened, seq, body) => void this.#send(opened, ({ chat }) => chat?.edit(seq, body)),
      delete: (opened, seq) => void this.#send(opened, ({ chat }) => chat?.delete(seq)),
      react: (opened, seq, emoji) => void this.#send(opened, ({ chat }) => chat?.react(seq, emoji)),
      pin: (opened, seq, pinned) => void this.#send(opened, ({ chat }) => chat?.pin(seq, pinned)),
      copy: (text) => void this.#copy(text),
      report: (opened, message, reason) => void this.#report(opened, message, reason),
      mute: (opened, until) => set(opened, () => opened.chat?.mute(until)),
      muteMentions: (opened, muted) => set(opened, () => opened.chat?.muteMentions(muted)),
      archive: (opened, archived) => set(opened, () => opened.chat?.archive(archived)),
      pinToTop: (opened, pinned) => set(opened, () => opened.chat?.pinToTop(pinned)),
      markUnread: (opened) => {
        set(opened, () => opened.chat?.markUnread(true));
        this.#leave();
      },
      block: (opened, blocked) => set(opened, () => pigeonhole.block(opened.row.peerId ?? "", blocked)),
      putAway: ({ row }) => pigeonhole.dismiss(row.key.slice(1)),
      add: (opened, users) => void this.#change(opened, () => opened.chat?.add(users)),
      remove: (opened, member) => void this.#change(opened, () => opened.chat?.remove(member)),
      restrict: (opened, member, forMs) => {
        const until =
          forMs === Number.POSITIVE_INFINITY ? "forever" : forMs && new Date(Date.now() + forMs).toISOString();
        void this.#change(opened, () => opened.chat?.restrict(member, until || null));
      },
      role: (opened, member, role) => void this.#change(opened, () => opened.chat?.role(member, role)),
      update: (opened, info) => void this.#change(opened, () => opened.chat?.update(info)),
      leaveGroup: (opened) => void this.#leaveGroup(opened),
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
