// The chats, the one that was active last at the top, and a field to start another.

import type { Chat } from "../chat.ts";
import type { Listed } from "../chats.ts";
import { avatar } from "./avatar.ts";
import { fill, h, icon, put } from "./dom.ts";
import { brief } from "./time.ts";

export interface ListActions {
  open(peer: string): void;
  more(): void;
}

/** Nearer to the end than this, the next page is asked for. */
const NEAR_PX = 200;

export class List {
  readonly element: HTMLElement;
  #actions: ListActions;
  #chats = h("ul", { class: "chats" });
  #archived = h("ul", { class: "chats" });
  #archivedCount = h("summary", {});
  #archive = h("details", { class: "archive" }, this.#archivedCount, this.#archived);
  #empty = h(
    "p",
    { class: "empty" },
    "No chats yet. Start one with a name, any name: the server here gives everybody a token.",
  );

  constructor(user: string, actions: ListActions) {
    this.#actions = actions;
    const attributes = {
      class: "scroller",
      scroll: () => this.#scrolled(scroller),
      keydown: (event: KeyboardEvent) => this.#moved(event),
    };
    const scroller = h("div", attributes, this.#chats, this.#archive, this.#empty);
    this.element = h("nav", { class: "list", "aria-label": `Chats of ${user}` }, this.#starter(), scroller);
  }

  update(chats: Listed[], open: Chat | undefined): void {
    this.#empty.hidden = chats.length > 0;
    const items = (isArchived: boolean) =>
      chats
        .filter(({ chat }) => chat.isArchived === isArchived)
        .map((listed) => ({
          key: listed.chat.peer,
          create: () => this.#row(listed.chat.peer),
          update: (row: HTMLElement) => show(row, listed, listed.chat === open),
        }));
    const archived = items(true);
    fill(this.#chats, items(false));
    fill(this.#archived, archived);
    this.#archive.hidden = archived.length === 0;
    this.#archivedCount.textContent = `Archived (${archived.length})`;
  }

  /** On this chat. */
  focus(peer: string | undefined): void {
    const rows = [...this.#chats.children, ...this.#archived.children] as HTMLElement[];
    rows
      .find(({ dataset }) => dataset.key === peer)
      ?.querySelector("button")
      ?.focus();
  }

  #row(peer: string): HTMLElement {
    const text = h(
      "span",
      { class: "texts" },
      h(
        "span",
        { class: "peer" },
        peer,
        h("span", { class: "muted", role: "img", "aria-label": "Muted" }, icon("muted")),
      ),
      h("time", {}),
      h("span", { class: "preview" }),
      h("span", { class: "badge" }),
    );
    return h(
      "li",
      {},
      h("button", { type: "button", class: "chat", click: () => this.#actions.open(peer) }, avatar(peer), text),
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
      this.#actions.open(name.value);
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

function show(row: HTMLElement, { chat, newest }: Listed, isOpen: boolean): void {
  const unread = chat.timeline.unread();
  const nothing = chat.isKnown ? "No messages yet" : "…";
  const set = (name: string, text: string) => {
    const found = row.querySelector(name);
    if (found && found.textContent !== text) {
      found.textContent = text;
    }
  };
  set("time", newest ? brief(newest.at) : "");
  const isWriting = chat.isWriting();
  set(".preview", isWriting ? "writes …" : newest ? `${newest.own ? "You: " : ""}${newest.text}` : nothing);
  row.querySelector(".preview")?.classList.toggle("writing", isWriting);
  set(".badge", unread > 0 ? String(unread) : "");
  const isMuted = chat.isMuted();
  const button = row.querySelector(".chat");
  if (button) {
    put(button, "aria-current", isOpen && "true");
    put(button, "aria-label", unread > 0 && `${chat.peer}, ${unread} unread${isMuted ? ", muted" : ""}`);
  }
  const mark = row.querySelector(".muted");
  if (mark) {
    put(mark, "hidden", !isMuted);
  }
  put(row, "class", unread > 0 && (isMuted ? "unread quiet" : "unread"));
}
