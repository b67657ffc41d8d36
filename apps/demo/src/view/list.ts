// The chats, the one that was active last at the top, and fields to start another.

import type { NewGroup as NewGroupOf } from "@pigeonhole/client/events";
import type { Chat, Newest } from "../chat.ts";
import type { Listed } from "../chats/model.ts";
import { avatar } from "./avatar.ts";
import { Channels } from "./channels.ts";
import { fill, h, icon, put } from "./dom.ts";
import { NewGroup } from "./new-group.ts";
import { shop } from "./shop.ts";
import { brief } from "./time.ts";
import { writes } from "./writing.ts";

export interface ListActions {
  open(key: string): void;
  start(peer: string): void;
  create(group: NewGroupOf): Promise<void>;
  join(channel: string): Promise<void>;
  more(): void;
}

/** Closer to the end than this, the page requests more. */
const NEAR_PX = 200;

export class List {
  readonly element: HTMLElement;
  #actions: ListActions;
  #channels: Channels;
  #chats = h("ul", { class: "chats" });
  #archived = h("ul", { class: "chats" });
  #archivedCount = h("summary", {});
  #archive = h("details", { class: "archive" }, this.#archivedCount, this.#archived);
  #empty = h(
    "p",
    { class: "empty" },
    "No chats yet. Start one with a name, any name: the server here gives everyone a token.",
  );

  constructor(user: string, actions: ListActions) {
    this.#actions = actions;
    const attributes = {
      class: "scroller",
      scroll: () => this.#scrolled(scroller),
      keydown: (event: KeyboardEvent) => this.#moved(event),
    };
    const scroller = h("div", attributes, this.#chats, this.#archive, this.#empty);
    const newGroup = new NewGroup(user, (title, members) => actions.create({ title, members }));
    this.#channels = new Channels(user, actions);
    const starters = h(
      "div",
      { class: "starters" },
      this.#starter(),
      h("div", { class: "makers" }, newGroup.element, this.#channels.element, shop(user)),
    );
    this.element = h("nav", { class: "list", "aria-label": `Chats of ${user}` }, starters, scroller);
  }

  update(chats: Listed[], open: Chat | undefined): void {
    this.#empty.hidden = chats.length > 0;
    this.#channels.update(chats.map(({ chat }) => chat));
    const items = (isArchived: boolean) =>
      chats
        .filter(({ chat }) => chat.isArchived === isArchived)
        .map((listed) => ({
          key: listed.chat.key,
          create: () => this.#row(listed.chat),
          update: (row: HTMLElement) => show(row, listed, listed.chat === open),
        }));
    const archived = items(true);
    fill(this.#chats, items(false));
    fill(this.#archived, archived);
    this.#archive.hidden = archived.length === 0;
    this.#archivedCount.textContent = `Archived (${archived.length})`;
  }

  /** On this chat. */
  focus(key: string | undefined): void {
    const rows = [...this.#chats.children, ...this.#archived.children] as HTMLElement[];
    rows
      .find(({ dataset }) => dataset.key === key)
      ?.querySelector("button")
      ?.focus();
  }

  #row({ key, name, isChannel }: Chat): HTMLElement {
    const text = h(
      "span",
      { class: "texts" },
      h(
        "span",
        { class: "peer" },
        ...(isChannel ? [h("span", { class: "kind", role: "img", "aria-label": "Channel" }, icon("channel"))] : []),
        h("span", { class: "of", dir: "auto" }, name),
        h("span", { class: "muted", role: "img", "aria-label": "Muted" }, icon("muted")),
      ),
      h("time", {}),
      h("span", { class: "preview", dir: "auto" }),
      h("span", { class: "badges" }, h("span", { class: "badge named" }), h("span", { class: "badge count" })),
    );
    return h(
      "li",
      {},
      h("button", { type: "button", class: "chat", click: () => this.#actions.open(key) }, avatar(name), text),
    );
  }

  #starter(): HTMLElement {
    const name = h("input", {
      name: "peer",
      required: true,
      pattern: "[!-~]{1,128}",
      title: "A user id: 1 to 128 letters, digits and signs, without spaces",
      placeholder: "Start a chat with …",
      "aria-label": "Start a chat with",
      autocomplete: "off",
      autocapitalize: "none",
      spellcheck: "false",
    });
    const start = (event: SubmitEvent) => {
      event.preventDefault();
      this.#actions.start(name.value);
      name.value = "";
    };
    const button = h("button", { class: "button", "aria-label": "Start the chat" }, icon("plus"));
    return h("form", { class: "starter", submit: start }, name, button);
  }

  /** Arrow keys go from chat to chat. */
  #moved(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const rows = [...this.element.querySelectorAll<HTMLElement>(".chat")].filter((row) => row.checkVisibility());
    const at = rows.indexOf(document.activeElement as HTMLElement);
    if (step !== undefined && at >= 0) {
      event.preventDefault();
      rows[at + step]?.focus();
    }
  }

  #scrolled({ scrollHeight, scrollTop, clientHeight }: HTMLElement): void {
    if (scrollHeight - scrollTop - clientHeight < NEAR_PX) {
      this.#actions.more();
    }
  }
}

/** Returns the last message, with its author in a group. */
function line({ me, isGroup }: Chat, { text, by }: Newest): string {
  const who = by === me ? "You: " : isGroup && by !== undefined ? `${by}: ` : "";
  return `${who}${text}`;
}

function show(row: HTMLElement, { chat, newest }: Listed, isOpen: boolean): void {
  const [unread, mentions] = [chat.timeline.unread(), chat.timeline.mentions()];
  const nothing = chat.isKnown && !chat.isGroup ? "No messages yet" : chat.refused || "…";
  const set = (name: string, text: string) => {
    const found = row.querySelector(name);
    if (found && found.textContent !== text) {
      found.textContent = text;
    }
  };
  set("time", newest ? brief(newest.at) : "");
  const shown = row.querySelector(".peer .of");
  if (shown && shown.textContent !== chat.name) {
    // A group got another title.
    shown.textContent = chat.name;
    row.querySelector(".avatar")?.replaceWith(avatar(chat.name));
  }
  const writing = writes(chat);
  set(".preview", writing || (newest ? line(chat, newest) : nothing));
  row.querySelector(".preview")?.classList.toggle("writing", writing !== "");
  set(".count", unread > 0 ? String(unread) : "");
  set(".named", mentions > 0 ? "@" : "");
  const isMuted = chat.isMuted();
  const button = row.querySelector(".chat");
  if (button) {
    put(button, "aria-current", isOpen && "true");
    const parts = [`${chat.name}, ${unread} unread`, mentions > 0 && `${mentions} for you`, isMuted && "muted"];
    put(button, "aria-label", unread > 0 && parts.filter(Boolean).join(", "));
  }
  const mark = row.querySelector(".muted");
  if (mark) {
    put(mark, "hidden", !isMuted);
  }
  put(row, "class", unread > 0 && (isMuted ? "unread quiet" : "unread"));
}
