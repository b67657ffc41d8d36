// The chats, the one that was active last at the top, and fields to find one or to start another.

import type { ChatRow, Message, NewGroup as NewGroupOf } from "@pigeonhole/client";
import { ownNameOf } from "../names.ts";
import { lineOf, nameOf, typingIn } from "../rows.ts";
import { said } from "../said.ts";
import { avatar, count } from "./avatar.ts";
import { Channels } from "./channels.ts";
import { fill, h, type Item, icon, put } from "./dom.ts";
import { NewGroup } from "./new-group.ts";
import { ownName } from "./own-name.ts";
import { type Hours, quietHours } from "./quiet.ts";
import { shop } from "./shop.ts";
import { brief } from "./time.ts";

export interface ListActions {
  open(row: ChatRow): void;
  start(peer: string): void;
  create(group: NewGroupOf): Promise<void>;
  join(channel: string): Promise<void>;
  setQuiet(hours: Hours | undefined): Promise<void>;
  /** An empty name removes it. */
  setName(name: string): Promise<void>;
  /** Shows only the chats with these words, and the messages with them. */
  search(words: string): void;
  /** Opens the chat of a message that was found, at the message. */
  goTo(message: Message): void;
}

/** A message that was found. */
export interface Found {
  message: Message;
  /** The chat’s name. */
  name: string;
}

export interface Listed {
  rows: readonly ChatRow[];
  archived: readonly ChatRow[];
  found: readonly Found[];
  /** The key of the open chat’s row. */
  open: string | undefined;
  isSearch: boolean;
}

/** More rows than a screen shows. The others are drawn once the page is idle. */
const FIRST_ROWS = 40;
/** The list is complete after this time, however busy the page is. */
const IDLE_MS_MAX = 500;

export class List {
  readonly element: HTMLElement;
  #user: string;
  #actions: ListActions;
  #channels: Channels;
  #rows = new Map<string, ChatRow>();
  #chats = h("ul", { class: "chats" });
  #archived = h("ul", { class: "chats" });
  #archivedCount = h("summary", {});
  #archive = h("details", { class: "archive" }, this.#archivedCount, this.#archived);
  #found = h("ul", { class: "chats", "aria-label": "Messages found" });
  #field: HTMLInputElement;
  #empty = h("p", { class: "empty" });
  #rowsMax = FIRST_ROWS;
  #isDrawingAll = false;
  #listed: Listed | undefined;

  /** `hasKeys`: of a user with keys. */
  constructor(user: string, actions: ListActions, hasKeys: boolean, quiet: Hours | undefined) {
    this.#user = user;
    this.#actions = actions;
    const attributes = {
      class: "scroller",
      keydown: (event: KeyboardEvent) => this.#moved(event),
    };
    const scroller = h("div", attributes, this.#chats, this.#archive, this.#found, this.#empty);
    const newGroup = new NewGroup(user, hasKeys, (group) => actions.create(group));
    this.#channels = new Channels(user, actions);
    const name = ownName(user, () => ownNameOf(user), actions.setName);
    const hours = quietHours(user, quiet, (hours) => actions.setQuiet(hours));
    this.#field = this.#search();
    const starters = h(
      "div",
      { class: "starters" },
      this.#starter(this.#field),
      h("div", { class: "makers" }, newGroup.element, this.#channels.element, hours, name, shop(user)),
    );
    this.element = h("nav", { class: "list", "aria-label": `Chats of ${user}` }, starters, scroller);
  }

  update(listed: Listed): void {
    const { rows, archived, found, open, isSearch } = listed;
    this.#listed = listed;
    this.#empty.hidden = rows.length + archived.length + found.length > 0;
    this.#empty.textContent = isSearch
      ? "Nothing found. Press Enter to start a chat with this name."
      : "No chats yet. Start one with a name, any name: the server here gives everyone a token.";
    if (!isSearch) {
      this.#channels.update([...rows, ...archived]);
    }
    const item = (row: ChatRow): Item => ({
      key: row.key,
      of: [row, row.key === open, nameOf(row), lineOf(row, this.#user, row.key === open)],
      create: () => this.#row(row),
      update: (element) => show(element, row, this.#user, row.key === open),
    });
    this.#rows = new Map([...rows, ...archived].map((row) => [row.key, row]));
    fill(this.#chats, rows.slice(0, this.#rowsMax).map(item));
    if (rows.length > this.#rowsMax) {
      this.#drawAllSoon();
    }
    fill(this.#archived, archived.map(item));
    this.#archive.hidden = archived.length === 0;
    this.#archive.open ||= isSearch;
    this.#archivedCount.textContent = `Archived (${archived.length})`;
    fill(
      this.#found,
      found.map((found) => this.#result(found)),
    );
    this.#found.hidden = found.length === 0;
  }

  #drawAllSoon(): void {
    if (this.#isDrawingAll) {
      return;
    }
    this.#isDrawingAll = true;
    const drawAll = () => {
      this.#rowsMax = Number.POSITIVE_INFINITY;
      if (this.#listed) {
        this.update(this.#listed);
      }
    };
    // A timer alone can be due before the browser has drawn the frame. Older versions of Safari have no idle callbacks.
    requestAnimationFrame(() => {
      if (typeof requestIdleCallback === "function") {
        requestIdleCallback(drawAll, { timeout: IDLE_MS_MAX });
      } else {
        setTimeout(drawAll);
      }
    });
  }

  /** Ends the search. */
  endSearch(): void {
    if (this.#field.value !== "") {
      this.#field.value = "";
      this.#actions.search("");
    }
  }

  #result({ message, name }: Found): Item {
    const { conversation_id, seq, kind, body, media, sent_at } = message;
    const create = () => {
      const time = h("time", {}, brief(Date.parse(sent_at)));
      const preview = h("span", { class: "preview", dir: "auto" }, said(kind, body, media));
      const texts = h("span", { class: "texts" }, h("span", { class: "peer", dir: "auto" }, name), time, preview);
      const open = { type: "button", class: "chat", click: () => this.#actions.goTo(message) };
      return h("li", {}, h("button", open, icon("search"), texts));
    };
    return { key: `${conversation_id} ${seq}`, create };
  }

  /** On this chat. */
  focus(key: string | undefined): void {
    const rows = [...this.#chats.children, ...this.#archived.children] as HTMLElement[];
    rows
      .find(({ dataset }) => dataset.key === key)
      ?.querySelector("button")
      ?.focus();
  }

  #row({ key, kind }: ChatRow): HTMLElement {
    const text = h(
      "span",
      { class: "texts" },
      h(
        "span",
        { class: "peer" },
        ...(kind === "channel"
          ? [h("span", { class: "kind", role: "img", "aria-label": "Channel" }, icon("channel"))]
          : []),
        h("span", { class: "of", dir: "auto" }),
        h("span", { class: "locked-chat", role: "img", "aria-label": "Encrypted" }, icon("locked")),
        h("span", { class: "muted", role: "img", "aria-label": "Muted" }, icon("muted")),
        h("span", { class: "on-top", role: "img", "aria-label": "Pinned" }, icon("pin")),
      ),
      h("time", {}),
      h("span", { class: "preview", dir: "auto" }),
      h("span", { class: "badges" }, h("span", { class: "badge named" }), h("span", { class: "badge count" })),
    );
    return h("li", {}, h("button", { type: "button", class: "chat", click: () => this.#open(key) }, avatar("?"), text));
  }

  #open(key: string): void {
    const row = this.#rows.get(key);
    if (row) {
      this.#actions.open(row);
    }
  }

  #search(): HTMLInputElement {
    return h("input", {
      name: "peer",
      required: true,
      pattern: "[!-~]{1,128}",
      title: "A user id: 1 to 128 letters, digits and signs, without spaces",
      placeholder: "Search, or start a chat with …",
      "aria-label": "Search or start a chat with",
      autocomplete: "off",
      autocapitalize: "none",
      spellcheck: "false",
      input: () => this.#actions.search(this.#field.value),
      keydown: (event: KeyboardEvent) => {
        if (event.key === "Escape" && this.#field.value) {
          // The chat stays open.
          event.stopPropagation();
          this.endSearch();
        }
      },
    });
  }

  #starter(name: HTMLInputElement): HTMLElement {
    const start = (event: SubmitEvent) => {
      event.preventDefault();
      const peer = name.value;
      this.endSearch();
      this.#actions.start(peer);
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
}

function show(element: HTMLElement, row: ChatRow, me: string, isOpen: boolean): void {
  const { unread, mentions, isMuted, isPinned, isMarkedUnread, line } = row;
  const set = (name: string, text: string) => {
    const found = element.querySelector(name);
    if (found && found.textContent !== text) {
      found.textContent = text;
    }
  };
  set("time", line ? brief(Date.parse(line.at)) : "");
  const name = nameOf(row);
  const shown = element.querySelector(".peer .of");
  if (shown && shown.textContent !== name) {
    // A group got another title.
    shown.textContent = name;
    element.querySelector(".avatar")?.replaceWith(avatar(name));
  }
  const typing = typingIn(row);
  set(".preview", typing || lineOf(row, me, isOpen));
  element.querySelector(".preview")?.classList.toggle("writing", typing !== "");
  element.querySelector(".preview")?.classList.toggle("failed", line?.progress?.state === "failed");
  count(element.querySelector(".count"), unread || Number(isMarkedUnread), "unread", unread > 0 ? String(unread) : "•");
  count(element.querySelector(".named"), mentions, `${mentions} for you`, "@");
  const button = element.querySelector(".chat");
  if (button) {
    put(button, "aria-current", isOpen && "true");
  }
  const marks = { ".muted": isMuted, ".on-top": isPinned, ".locked-chat": row.lock !== "plain" };
  for (const [name, isShown] of Object.entries(marks)) {
    const mark = element.querySelector(name);
    if (mark) {
      put(mark, "hidden", !isShown);
    }
  }
  put(element, "class", (unread > 0 || isMarkedUnread) && (isMuted ? "unread quiet" : "unread"));
}
