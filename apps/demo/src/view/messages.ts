// The messages of the open chat: where one is, what can be done with each, and how one goes from one to the next.

import type { Item, MessageItem } from "@pigeonhole/client";
import { Carried } from "../carried.ts";
import type { Opened } from "../opened.ts";
import { nameOf, writersIn } from "../rows.ts";
import { type BubbleActions, bubbles } from "./bubbles.ts";
import { fill, h, icon, put } from "./dom.ts";
import { Lightbox } from "./lightbox.ts";
import { SEEK } from "./media.ts";
import { type MessageActions, MessageMenu } from "./message-menu.ts";
import { Seen } from "./seen.ts";
import { pressedLong } from "./touch.ts";

type OfBubbles = Pick<BubbleActions, "vote" | "dismiss" | "cancel" | "retry" | "takeBack" | "refusal">;

export interface MessagesActions extends Omit<MessageActions, "goTo" | "open">, OfBubbles {
  /** Why a group can’t be created. */
  whyNotMade(chat: Opened): string;
  /** Fetches the media of a message. */
  fetch(message: MessageItem): Promise<Blob>;
  /** To the field, to write. */
  leave(): void;
}

/** These keys go so far in a voice message. */
const seconds: Record<string, number> = { ArrowLeft: -5, ArrowRight: 5 };
/** Closer to the first or the last message than this, the page requests more. */
const NEAR_PX = 600;
/** Nearer to the bottom than this, one is at the bottom. */
const BOTTOM_PX = 40;

export class Messages {
  readonly element: HTMLElement;
  #actions: MessagesActions;
  #user: string;
  #chat: Opened | undefined;
  /** The drawn items. */
  #items: readonly Item[] | undefined;
  #why = "";
  /** The drawn texts of services that are writing. */
  #texts = "";
  /** Reads out that a service is writing, and not each change of its text. */
  #writers = h("p", { class: "hidden", "aria-live": "polite" });
  #list: HTMLElement;
  #loading = h("p", { class: "loading" }, "Loading older messages …");
  #scroller: HTMLElement;
  #unread = h("span", { class: "badge" });
  #toEnd: HTMLButtonElement;
  #menu: MessageMenu;
  #isAtEnd = true;
  /** The view has not come yet, so nothing has been scrolled to. */
  #isNew = true;
  /** The message to show once it has come. */
  #wanted: number | undefined;
  #carried: Carried;
  #lightbox = new Lightbox();
  #seen: Seen;

  constructor(user: string, actions: MessagesActions) {
    this.#actions = actions;
    this.#user = user;
    this.#carried = new Carried((message) => actions.fetch(message));
    this.#menu = new MessageMenu(user, {
      ...actions,
      goTo: (seq) => this.#goTo(seq),
      open: (seq) => this.#elementOf(seq)?.querySelector<HTMLElement>(".picture, .file, .play")?.click(),
    });
    const keys = `keys-${user}`;
    this.#list = h("ol", {
      class: "messages",
      tabindex: 0,
      "aria-describedby": keys,
      keydown: (event: KeyboardEvent) => this.#pressed(event),
      contextmenu: (event: MouseEvent) => this.#menuAsked(event),
    });
    pressedLong(this.#list, (target) => this.#openMenu(messageOf(target)));
    const scrolls = { scroll: () => this.#scrolled(), wheel: () => this.#menu.close() };
    this.#scroller = h("div", { class: "scroller", ...scrolls }, this.#loading, this.#list);
    this.#seen = new Seen(this.#scroller, ({ dataset }) => this.#chat?.view?.seen(dataset.key));
    const toEnd = () => {
      this.goToEnd();
      this.#chat?.chat?.readAll();
    };
    this.#toEnd = h("button", { type: "button", class: "button to-end", click: toEnd }, icon("down"), this.#unread);
    const hint =
      "Arrow keys up and down go from message to message, left and right in a voice message, Enter opens the menu of one.";
    this.element = h(
      "div",
      { class: "view" },
      this.#scroller,
      this.#writers,
      this.#toEnd,
      h("p", { id: keys, hidden: true }, hint),
      this.#menu.element,
      this.#lightbox.element,
    );
    // When the view gets smaller, by a keyboard on the screen for example, the end stays visible.
    new ResizeObserver(() => this.#isAtEnd && this.#toBottom()).observe(this.#scroller);
  }

  turnTo(chat: Opened | undefined): void {
    this.#chat = chat;
    this.#menu.close();
    this.#list.replaceChildren();
    this.#items = undefined;
    this.#isAtEnd = true;
    this.#isNew = true;
    this.#wanted = undefined;
  }

  update(): void {
    const chat = this.#chat;
    if (!chat) {
      return;
    }
    const { row, view } = chat;
    this.#menu.update();
    put(this.#list, "aria-label", `Messages with ${nameOf(row)}`);
    const unread = view?.unread ?? 0;
    this.#unread.textContent = unread > 0 ? String(unread) : "";
    put(this.#toEnd, "aria-label", `To the newest message${unread > 0 ? `, ${unread} unread` : ""}`);
    const items = chat.isLoaded ? view?.items : undefined;
    const why = this.#actions.whyNotMade(chat);
    const texts = JSON.stringify(row.texts);
    if (items !== this.#items || items === undefined || why !== this.#why || texts !== this.#texts) {
      this.#items = items;
      this.#why = why;
      this.#texts = texts;
      this.#draw(chat, items, why);
    }
    const writers = writersIn(row);
    if (this.#writers.textContent !== writers) {
      this.#writers.textContent = writers;
    }
    this.#showEnd();
  }

  #draw(chat: Opened, items: readonly Item[] | undefined, why: string): void {
    const anchor = this.#isAtEnd ? undefined : this.#firstVisible();
    const before = anchor?.offsetTop ?? 0;
    const wasAbove = this.#wanted !== undefined;
    fill(
      this.#list,
      // A text belongs below the newest message.
      bubbles(items, chat.view?.hasNewer ? { ...chat.row, texts: {} } : chat.row, why, {
        ...this.#actions,
        me: this.#user,
        goTo: (seq) => this.#goTo(seq),
        menu: (seq) => this.#openMenu(this.#elementOf(seq)),
        look: (url, alt) => this.#lightbox.show(url, alt),
        carried: this.#carried,
      }),
    );
    for (const element of this.#list.children as Iterable<HTMLElement & HTMLCollection>) {
      // A text that grows is no message yet, which the user can have seen.
      if (!element.classList.contains("growing")) {
        this.#seen.add(element);
      }
    }
    this.#loading.hidden = !chat.view?.hasOlder;
    if (wasAbove) {
      this.#showWanted();
    } else if (this.#isNew && items?.length) {
      this.#isNew = false;
      this.#toBottom();
      const unread = this.#list.querySelector<HTMLElement>(".separator.unread");
      if (unread) {
        unread.scrollIntoView({ block: "start" });
        this.#scrolled();
      }
    } else if (this.#isAtEnd) {
      this.#toBottom();
    } else if (anchor?.isConnected) {
      // Visible messages stay in place, whatever changes above them.
      this.#scroller.scrollTop += anchor.offsetTop - before;
    }
  }

  goToEnd(): void {
    if (this.#chat?.view?.hasNewer) {
      this.#chat.view.jumpTo("newest");
    }
    this.#toBottom();
    this.#showEnd();
  }

  #toBottom(): void {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#isAtEnd = true;
  }

  #showEnd(): void {
    this.#toEnd.hidden = this.#isAtEnd && !this.#chat?.view?.hasNewer;
  }

  #elements(): HTMLElement[] {
    return [...this.#list.querySelectorAll<HTMLElement>(".message:not(.growing)")];
  }

  #elementOf(seq: number): HTMLElement | undefined {
    return this.#elements().find(({ dataset }) => dataset.seq === String(seq));
  }

  #firstVisible(): HTMLElement | undefined {
    const { scrollTop } = this.#scroller;
    return this.#elements().find(({ offsetTop, offsetHeight }) => offsetTop + offsetHeight > scrollTop);
  }

  /** The message with this number, if it is shown. */
  message(seq: number): MessageItem | undefined {
    return this.#messages().find((message) => message.seq === seq);
  }

  #messages(): MessageItem[] {
    return (this.#items ?? []).flatMap((item) => (item.type === "message" ? [item] : []));
  }

  /** Returns the user's last message that is not deleted. */
  lastOwn(): MessageItem | undefined {
    const isOwn = ({ senderId, seq, deletedBy }: MessageItem) =>
      senderId === this.#user && seq !== undefined && deletedBy === undefined;
    return this.#messages().filter(isOwn).at(-1);
  }

  #openMenu(element: HTMLElement | undefined): void {
    const message = this.message(Number(element?.dataset.seq));
    if (this.#chat && element && message && message.deletedBy === undefined) {
      this.#menu.open(this.#chat, message, element);
    }
  }

  /** By the right button, or by the key for it. */
  #menuAsked(event: MouseEvent): void {
    const element = messageOf(event.target);
    // The user can copy a selection, as anywhere.
    if (element?.dataset.seq !== undefined && getSelection()?.isCollapsed !== false) {
      event.preventDefault();
      this.#openMenu(element);
    }
  }

  /** Arrow keys go from message to message, and back and forth in what is spoken. */
  #pressed(event: KeyboardEvent): void {
    const { key, target } = event;
    const all = this.#elements();
    const at = all.indexOf(target as HTMLElement);
    const isMessage = at >= 0;
    if (!isMessage && target !== this.#list) {
      return;
    }
    const to: Record<string, HTMLElement | undefined> = {
      ArrowUp: isMessage ? all[at - 1] : all.at(-1),
      ArrowDown: isMessage ? all[at + 1] : all.at(-1),
      Home: all[0],
      End: all.at(-1),
    };
    if (key in to) {
      event.preventDefault();
      to[key]?.focus();
    } else if (isMessage && key in seconds) {
      event.preventDefault();
      all[at]?.querySelector(".voice")?.dispatchEvent(new CustomEvent(SEEK, { detail: seconds[key] ?? 0 }));
    } else if (isMessage && (key === "Enter" || key === " " || key === "ContextMenu")) {
      event.preventDefault();
      this.#openMenu(all[at]);
    } else if (isMessage && key === "Escape") {
      // The chat stays open.
      event.stopPropagation();
      this.#actions.leave();
    }
  }

  /** Shows a message, which may have to come first. */
  #goTo(seq: number): void {
    this.#wanted = seq;
    this.#isAtEnd = false;
    if (this.#elementOf(seq)) {
      this.#showWanted();
    } else {
      this.#chat?.view?.jumpTo({ seq });
    }
  }

  /** For a message that was searched. */
  goTo(seq: number): void {
    this.#goTo(seq);
  }

  #showWanted(): void {
    const element = this.#elementOf(this.#wanted ?? 0);
    if (element) {
      this.#wanted = undefined;
      this.#isNew = false;
      element.scrollIntoView({ block: "center" });
      element.focus({ preventScroll: true });
      this.#scrolled();
      element.classList.add("found");
      element.addEventListener("animationend", () => element.classList.remove("found"), { once: true });
    }
  }

  #scrolled(): void {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    const view = this.#chat?.view;
    const below = scrollHeight - scrollTop - clientHeight;
    this.#isAtEnd = below < BOTTOM_PX && !view?.hasNewer && this.#wanted === undefined;
    this.#showEnd();
    if (scrollTop < NEAR_PX && view?.hasOlder) {
      view.loadOlder();
    }
    if (below < NEAR_PX && view?.hasNewer) {
      view.loadNewer();
    }
  }
}

/** The message that this is in. */
function messageOf(target: EventTarget | null): HTMLElement | undefined {
  return (target instanceof Element ? target.closest<HTMLElement>(".message") : null) ?? undefined;
}
