// The open chat: its messages, and the field to write another.

import type { Chat } from "../chat.ts";
import { avatar } from "./avatar.ts";
import { bubbles } from "./bubbles.ts";
import { fill, h, icon } from "./dom.ts";
import { Menu, type MenuItem } from "./menu.ts";
import { brief } from "./time.ts";

export interface ConversationActions {
  send(chat: Chat, body: string): void;
  dismiss(chat: Chat, clientMsgId: string): void;
  older(): void;
  leave(): void;
  /** `until`: a time, `forever`, or `null`, not at all. */
  mute(chat: Chat, until: string | null): void;
  archive(chat: Chat, archived: boolean): void;
  block(chat: Chat, blocked: boolean): void;
}

const MUTE_MS = 8 * 60 * 60 * 1000;
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
  #set = h("p", { class: "set", "aria-live": "polite" });
  #menu = new Menu("Chat menu", () => this.#choices());
  #composer: HTMLElement;
  #blocked: HTMLElement;
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
    const unblock = () => this.#chat && actions.block(this.#chat, false);
    this.#blocked = h(
      "p",
      { class: "composer blocked", hidden: true },
      h("span"),
      h("button", { type: "button", class: "link", click: unblock }),
    );
    const send = h("button", { class: "button primary", "aria-label": "Send" }, icon("send"));
    this.#composer = h("form", { class: "composer", submit }, this.#field, send);
    this.element = h(
      "section",
      { class: "conversation", "aria-label": `The open chat of ${user}` },
      h("header", {}, h("button", back, icon("back")), this.#title, this.#set, this.#menu.element),
      h("div", { class: "view" }, this.#scroller, this.#toEnd),
      this.#composer,
      this.#blocked,
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
    this.#composer.hidden = chat.isBlocked;
    this.#blocked.hidden = !chat.isBlocked;
    const set = standing(chat);
    if (this.#set.textContent !== set) {
      this.#set.textContent = set;
    }
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
    this.#menu.close();
    this.#messages.replaceChildren();
    this.#isAtEnd = true;
    if (chat) {
      const name = chat.peer === chat.me ? `${chat.peer} (you)` : chat.peer;
      this.#title.replaceChildren(avatar(chat.peer), h("h3", {}, name));
      this.#messages.setAttribute("aria-label", `Messages with ${chat.peer}`);
      const [words, unblock] = this.#blocked.children;
      words?.replaceChildren(`You have blocked ${chat.peer}.`);
      unblock?.replaceChildren(`Unblock ${chat.peer}`);
      this.#field.placeholder = `Message ${chat.peer}`;
      this.#field.value = this.#drafts.get(chat.peer) ?? "";
    }
  }

  #choices(): MenuItem[] {
    const { mute, archive, block } = this.#actions;
    const chat = this.#chat;
    if (!chat) {
      return [];
    }
    const items: MenuItem[] = [];
    // Before the first message there is nothing to mute.
    if (chat.id !== undefined && chat.isMuted()) {
      items.push({ name: "Unmute", choose: () => mute(chat, null) });
    } else if (chat.id !== undefined) {
      const later = () => new Date(Date.now() + MUTE_MS).toISOString();
      items.push({ name: "Mute for 8 hours", choose: () => mute(chat, later()) });
      items.push({ name: "Mute", choose: () => mute(chat, "forever") });
    }
    if (chat.id !== undefined) {
      const name = chat.isArchived ? "Unarchive" : "Archive";
      items.push({ name, choose: () => archive(chat, !chat.isArchived) });
    }
    if (chat.peer !== chat.me) {
      const name = `${chat.isBlocked ? "Unblock" : "Block"} ${chat.peer}`;
      items.push({ name, choose: () => block(chat, !chat.isBlocked) });
    }
    return items;
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

/** What is set for a chat, in words. */
function standing(chat: Chat): string {
  if (chat.settingsAsked > 0) {
    return "Setting …";
  }
  const { mutedUntil } = chat;
  const muted =
    mutedUntil === null || mutedUntil === "forever" ? "Muted" : `Muted until ${brief(Date.parse(mutedUntil))}`;
  return [chat.refused, chat.isMuted() && muted, chat.isArchived && "Archived", chat.isBlocked && "Blocked"]
    .filter(Boolean)
    .join(" · ");
}
