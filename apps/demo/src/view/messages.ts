// The messages of the open chat: where one is, what can be done with each, and how one goes from one to the next.

import type { Message, Queued } from "@pigeonhole/client/events";
import { Carried } from "../carried.ts";
import type { Chat } from "../chat.ts";
import { bubbles } from "./bubbles.ts";
import { fill, h, icon, put } from "./dom.ts";
import { Lightbox } from "./lightbox.ts";
import { SEEK } from "./media.ts";
import { type MessageActions, MessageMenu } from "./message-menu.ts";
import { pressedLong } from "./touch.ts";

export interface MessagesActions extends Omit<MessageActions, "goTo" | "open"> {
  dismiss(clientMsgId: string): void;
  cancel(clientMsgId: string): void;
  retry(failed: Queued): void;
  /** Puts the text of a failed message back into the field. */
  takeBack(failed: Queued, text: string): void;
  /** Fetches the media of a message. */
  fetch(message: Message): Promise<Blob>;
  older(): void;
  /** Older ones, until this one is there. */
  olderTo(seq: number): Promise<void>;
  /** To the field, to write. */
  leave(): void;
}

/** These keys go so far in a voice message. */
const seconds: Record<string, number> = { ArrowLeft: -5, ArrowRight: 5 };
/** Closer to the top than this, the page requests older messages. */
const NEAR_PX = 300;
/** Nearer to the bottom than this, one is at the bottom. */
const BOTTOM_PX = 40;

export class Messages {
  readonly element: HTMLElement;
  #actions: MessagesActions;
  #chat: Chat | undefined;
  #list: HTMLElement;
  #loading = h("p", { class: "loading" }, "Loading older messages …");
  #scroller: HTMLElement;
  #toEnd: HTMLButtonElement;
  #menu: MessageMenu;
  #isAtEnd = true;
  #carried: Carried;
  #lightbox = new Lightbox();

  constructor(user: string, actions: MessagesActions) {
    this.#actions = actions;
    this.#carried = new Carried((message) => actions.fetch(message));
    this.#menu = new MessageMenu({
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
    const end = { type: "button", class: "button to-end", "aria-label": "To the newest message" };
    this.#toEnd = h("button", { ...end, click: () => this.goToEnd() }, icon("down"));
    const hint =
      "Arrow keys up and down go from message to message, left and right in a voice message, Enter opens the menu of one.";
    this.element = h(
      "div",
      { class: "view" },
      this.#scroller,
      this.#toEnd,
      h("p", { id: keys, hidden: true }, hint),
      this.#menu.element,
      this.#lightbox.element,
    );
    // When the view gets smaller, by a keyboard on the screen for example, the end stays visible.
    new ResizeObserver(() => this.#isAtEnd && this.goToEnd()).observe(this.#scroller);
  }

  turnTo(chat: Chat | undefined): void {
    this.#chat = chat;
    this.#menu.close();
    this.#list.replaceChildren();
    this.#isAtEnd = true;
  }

  update(): void {
    const chat = this.#chat;
    if (!chat) {
      return;
    }
    put(this.#list, "aria-label", `Messages with ${chat.name}`);
    this.#loading.hidden = !chat.isLoading;
    const anchor = this.#firstVisible();
    const before = anchor?.offsetTop ?? 0;
    const items = bubbles(chat, {
      ...this.#actions,
      goTo: (seq) => this.#goTo(seq),
      menu: (seq) => this.#openMenu(this.#elementOf(seq)),
      look: (url, alt) => this.#lightbox.show(url, alt),
      carried: this.#carried,
    });
    fill(this.#list, items);
    if (this.#isAtEnd) {
      this.goToEnd();
    } else if (anchor) {
      // Visible messages stay in place, whatever changes above them.
      this.#scroller.scrollTop += anchor.offsetTop - before;
    }
  }

  goToEnd(): void {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#isAtEnd = true;
    this.#toEnd.hidden = true;
  }

  #elements(): HTMLElement[] {
    return [...this.#list.querySelectorAll<HTMLElement>(".message")];
  }

  #elementOf(seq: number): HTMLElement | undefined {
    return this.#elements().find(({ dataset }) => dataset.seq === String(seq));
  }

  #firstVisible(): HTMLElement | undefined {
    const { scrollTop } = this.#scroller;
    return this.#elements().find(({ offsetTop, offsetHeight }) => offsetTop + offsetHeight > scrollTop);
  }

  #openMenu(element: HTMLElement | undefined): void {
    const message: Message | undefined = this.#chat?.message(Number(element?.dataset.seq));
    if (this.#chat && element && message && message.deleted_at === undefined) {
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

  async #goTo(seq: number): Promise<void> {
    if (!this.#elementOf(seq)) {
      await this.#actions.olderTo(seq);
      this.update();
    }
    const element = this.#elementOf(seq);
    if (element) {
      element.scrollIntoView({ block: "center" });
      element.focus({ preventScroll: true });
      this.#scrolled();
      element.classList.add("found");
      element.addEventListener("animationend", () => element.classList.remove("found"), { once: true });
    }
  }

  #scrolled(): void {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    this.#isAtEnd = scrollHeight - scrollTop - clientHeight < BOTTOM_PX;
    this.#toEnd.hidden = this.#isAtEnd;
    if (scrollTop < NEAR_PX) {
      this.#actions.older();
    }
  }
}

/** The message that this is in. */
function messageOf(target: EventTarget | null): HTMLElement | undefined {
  return (target instanceof Element ? target.closest<HTMLElement>(".message") : null) ?? undefined;
}
