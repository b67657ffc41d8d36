// The open chat: its messages, and the field to write another.

import type { Chat } from "../chat.ts";
import { avatar } from "./avatar.ts";
import { bubbles } from "./bubbles.ts";
import { fill, h, icon } from "./dom.ts";

export interface ConversationActions {
  send(chat: Chat, body: string): void;
  dismiss(chat: Chat, clientMsgId: string): void;
  older(): void;
  leave(): void;
}

/** Nearer to the top than this, older messages are asked for. */
const NEAR_PX = 300;
/** Nearer to the bottom than this, one is at the bottom. */
const BOTTOM_PX = 40;

export class Conversation {
  readonly element: HTMLElement;
  #actions: ConversationActions;
  #chat: Chat | undefined;
  /** Unsent texts in the field, by peer. */
  #drafts = new Map<string, string>();
  #title = h("div", { class: "title" });
  #messages = h("ol", { class: "messages", tabindex: 0, "aria-label": "Messages" });
  #loading = h("p", { class: "loading" }, "Loading older messages …");
  #scroller = h("div", { class: "scroller", scroll: () => this.#scrolled() }, this.#loading, this.#messages);
  #toEnd: HTMLButtonElement;
  #field: HTMLTextAreaElement;
  #isAtEnd = true;

  constructor(user: string, actions: ConversationActions) {
    this.#actions = actions;
    const back = {
      type: "button",
      class: "button back",
      "aria-label": "Back to the chats",
      click: () => actions.leave(),
    };
    this.#toEnd = h(
      "button",
      { type: "button", class: "button to-end", "aria-label": "To the newest message" },
      icon("down"),
    );
    this.#toEnd.addEventListener("click", () => this.#goToEnd());
    this.#field = h("textarea", {
      rows: 1,
      "aria-label": "Message",
      autocomplete: "off",
      keydown: (event: KeyboardEvent) => this.#typed(event),
    });
    const submit = (event: SubmitEvent) => {
      event.preventDefault();
      this.#send();
    };
    const send = h("button", { class: "button primary", "aria-label": "Send" }, icon("send"));
    this.element = h(
      "section",
      { class: "conversation", "aria-label": `The open chat of ${user}` },
      h("header", {}, h("button", back, icon("back")), this.#title),
      h("div", { class: "view" }, this.#scroller, this.#toEnd),
      h("form", { class: "composer", submit }, this.#field, send),
    );
    // When the view gets smaller, by a keyboard on the screen for example, the end stays visible.
    new ResizeObserver(() => this.#isAtEnd && this.#goToEnd()).observe(this.#scroller);
  }

  update(chat: Chat | undefined): void {
    this.element.hidden = !chat;
    if (chat !== this.#chat) {
      this.#turnTo(chat);
    }
    if (!chat) {
      return;
    }
    this.#loading.hidden = !chat.isLoading;
    const anchor = this.#messages.querySelector<HTMLElement>(".message");
    const before = anchor?.offsetTop ?? 0;
    const items = bubbles(chat, (id) => this.#actions.dismiss(chat, id));
    fill(this.#messages, items);
    if (this.#isAtEnd) {
      this.#goToEnd();
    } else if (anchor) {
      // What was visible stays where it is, below the older messages.
      this.#scroller.scrollTop += anchor.offsetTop - before;
    }
  }

  focus(): void {
    this.#field.focus();
  }

  #turnTo(chat: Chat | undefined): void {
    if (this.#chat) {
      this.#drafts.set(this.#chat.peer, this.#field.value);
    }
    this.#chat = chat;
    this.#messages.replaceChildren();
    this.#isAtEnd = true;
    if (chat) {
      const name = chat.peer === chat.me ? `${chat.peer} (you)` : chat.peer;
      this.#title.replaceChildren(avatar(chat.peer), h("h3", {}, name));
      this.#messages.setAttribute("aria-label", `Messages with ${chat.peer}`);
      this.#field.placeholder = `Message ${chat.peer}`;
      this.#field.value = this.#drafts.get(chat.peer) ?? "";
    }
  }

  #typed(event: KeyboardEvent): void {
    // Enter may also choose a character of an input method.
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.#send();
    }
  }

  #send(): void {
    const body = this.#field.value.trim();
    if (this.#chat && body) {
      this.#field.value = "";
      this.#isAtEnd = true;
      this.#actions.send(this.#chat, body);
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

  #goToEnd(): void {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#isAtEnd = true;
    this.#toEnd.hidden = true;
  }
}
