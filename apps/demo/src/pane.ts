// A user on the page: a client, and the views that show what it tells.

import { connect, hasMembers, indexedDbStorage, type Message } from "@pigeonhole/client";
import type { Chat } from "./chat.ts";
import { Chats } from "./chats.ts";
import { local, sameTables } from "./local.ts";
import { Network } from "./network.ts";
import { Phone } from "./phone.ts";
import { said } from "./said.ts";
import { kept, takeStorage } from "./tab.ts";
import { Confirm } from "./view/confirm.ts";
import { Conversation, whyNot } from "./view/conversation.ts";
import { h } from "./view/dom.ts";
import { Frames } from "./view/frames.ts";
import { Header } from "./view/header.ts";
import { List } from "./view/list.ts";
import { LockScreen } from "./view/lock-screen.ts";

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

async function start({ user, peer, isOpen, ownTab, unread }: PaneOptions, element: HTMLElement): Promise<void> {
  const isCut = kept(`cut off ${user}`);
  const hidesFrames = kept(`frames hidden for ${user}`);

  const frames = new Frames(hidesFrames.get() === null && roomForFrames(), (isOpen) =>
    hidesFrames.set(isOpen ? undefined : "yes"),
  );
  const network = new Network(isCut.get() !== null, (frame) => frames.add(frame));
  const { data_id } = await local();
  const opened = kept(`open for ${user} in ${data_id}`);
  const storage = await takeStorage(user);
  const lockScreen = new LockScreen(user, (id, title) => {
    turnOn(true);
    turnTo(chats.of(id) ?? (hasMembers(id) ? chats.group(id) : chats.with(title)));
    conversation.focus();
  });
  const phone = new Phone(user, storage, (shown) => lockScreen.show(shown));
  const client = await connect({
    url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1`,
    userId: user,
    deviceId: phone.deviceId,
    token: () => token(user),
    // Entries of other tables are about other messages.
    storage: indexedDbStorage(`${storage} of ${data_id}`),
    webSocket: network.open,
  });

  const announcer = h("p", { class: "hidden", "aria-live": "polite" });
  const peers = {
    get: (conversation: string) => kept(`peer of ${user} in ${conversation}`).get() ?? undefined,
    set: (conversation: string, peer: string) => kept(`peer of ${user} in ${conversation}`).set(peer),
  };
  const chats = new Chats(user, client, peers, {
    changed: () => showSoon(),
    said: ({ isGroup, name }, { sender_id, kind, body, media }) => {
      announcer.textContent = `${sender_id}${isGroup ? ` in ${name}` : ""}: ${said(kind, body, media)}`;
    },
    isLooking: () => document.visibilityState === "visible" && element.checkVisibility(),
  });
  const turnOn = (wanted: boolean) => {
    isCut.set(wanted ? undefined : "yes");
    if (wanted) {
      network.mend();
      client.wake();
    } else {
      network.cut();
    }
    show();
  };
  const copy = async (text: string) => {
    await navigator.clipboard.writeText(text);
    announcer.textContent = "Copied";
  };
  const header = new Header(user, {
    ownTab,
    connect: turnOn,
    comeBack: () => client.wake(),
  });
  const turnTo = (chat: Chat | undefined) => {
    chats.show(chat);
    show();
  };
  const leave = () => {
    const key = chats.open?.key;
    turnTo(undefined);
    list.focus(key);
  };
  const list = new List(user, {
    open: (key) => {
      turnTo(chats.keyed(key));
      conversation.focus();
    },
    start: (peer) => {
      turnTo(chats.with(peer));
      conversation.focus();
    },
    create: async (group) => {
      await chats.create(group);
      conversation.focus();
    },
    join: async (channel) => {
      await chats.join(channel);
      conversation.focus();
    },
    more: () => chats.listMore(),
  });
  const where = new Confirm();
  const forward = async (message: Message) => {
    const writable = chats.list().filter(({ chat }) => whyNot(chat) === "");
    const answers = writable.map(({ chat: { key, name } }) => ({ value: key, name }));
    const chat = chats.keyed((await where.choose("Forward to …", answers)) ?? "");
    if (chat) {
      await chats.forward(chat, message);
      turnTo(chat);
    }
    conversation.focus();
  };
  const conversation = new Conversation(user, {
    send: (chat, draft) => void chats.send(chat, draft),
    files: async (chat, files, caption) => {
      // In the order in which they were chosen.
      for (const file of files) {
        const body = file === files.at(-1) ? caption : "";
        const { draft } = await file;
        await chats.sendMedia(chat, { ...draft, body });
      }
    },
    voice: (chat, draft) => void chats.sendMedia(chat, draft),
    refuse: (chat, why) => chats.refuse(chat, why),
    cancel: (id) => chats.cancel(id),
    retry: (chat, failed) => chats.retry(chat, failed),
    fetch: (message) => chats.fetch(message),
    forward: (message) => void forward(message),
    edit: (chat, seq, body) => chats.edit(chat, seq, body),
    delete: (chat, seq) => chats.delete(chat, seq),
    react: (chat, seq, emoji) => chats.react(chat, seq, emoji),
    typing: (chat) => chats.typing(chat),
    copy: (text) => void copy(text),
    dismiss: (chat, id) => chats.dismiss(chat, id),
    older: () => void chats.lookBack(),
    olderTo: (seq) => chats.lookBackTo(seq),
    mute: (chat, until) => chats.mute(chat, until),
    muteMentions: (chat, muted) => chats.muteMentions(chat, muted),
    archive: (chat, archived) => chats.archive(chat, archived),
    block: (chat, blocked) => chats.block(chat, blocked),
    putAway: (chat) => chats.putAway(chat),
    add: (chat, users) => void chats.add(chat, users),
    remove: (chat, member) => void chats.remove(chat, member),
    role: (chat, member, role) => void chats.role(chat, member, role),
    update: (chat, info) => void chats.update(chat, info),
    lookAround: (chat) => chats.lookAround(chat),
    leaveGroup: (chat) => void chats.leaveGroup(chat),
    leave: () => leave(),
  });

  const show = () => {
    phone.lock(network.isCut);
    lockScreen.lock(network.isCut);
    header.update({ state: chats.state, retryAt: chats.retryAt, isCut: network.isCut });
    list.update(chats.list(), chats.open);
    conversation.update(chats.open, chats.state.state === "caught_up");
    opened.set(chats.open?.id !== undefined && chats.open.isGroup ? chats.open.id : (chats.open?.peer ?? ""));
    element.classList.toggle("is-open", chats.open !== undefined);
    unread(chats.unread);
  };
  let isDue = false;
  const showSoon = () => {
    if (!isDue) {
      isDue = true;
      // Many events come in a burst.
      setTimeout(() => {
        isDue = false;
        show();
      });
    }
  };

  const nobody = h("p", { class: "nobody" }, "Choose a chat, or start one.");
  const body = h("div", { class: "pane-body" }, list.element, conversation.element, nobody);
  element.replaceChildren(header.element, lockScreen.element, body, frames.element, where.element, announcer);
  element.addEventListener("keydown", ({ key }) => {
    if (key === "Escape" && chats.open) {
      leave();
    }
  });
  // The chat is visible again.
  new IntersectionObserver(() => chats.look()).observe(element);
  document.addEventListener("visibilitychange", () => {
    chats.look();
    chats.askPresence();
  });
  setInterval(() => chats.askPresence(), PRESENCE_EVERY_MS);
  setInterval(() => chats.lookAtChannels(), CHANNELS_EVERY_MS);

  if (peer !== undefined) {
    chats.with(peer);
  }
  const last = opened.get() ?? (isOpen ? peer : undefined);
  turnTo(last ? (hasMembers(last) ? chats.group(last) : chats.with(last)) : undefined);
  // A server without phones refuses it, and the page works all the same.
  phone.register(client).catch(() => {});
  await chats.run();
}

/** Returns a token from the local server, which issues one for any user. */
async function token(user: string): Promise<string> {
  await sameTables();
  const response = await fetch(`/token?${new URLSearchParams({ user })}`);
  if (!response.ok) {
    throw new Error(`no token: ${response.status}`);
  }
  const { token } = await response.json();
  return token;
}

function roomForFrames(): boolean {
  return matchMedia("(min-width: 760px) and (min-height: 600px)").matches;
}
