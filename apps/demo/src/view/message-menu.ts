// The menu of a message.

import type { Message } from "@pigeonhole/client/events";
import type { Chat } from "../chat.ts";
import { list } from "../system.ts";
import { Confirm } from "./confirm.ts";
import { h, put } from "./dom.ts";
import { Choices, type MenuItem } from "./menu.ts";

export interface MessageActions {
  reply(message: Message): void;
  forward(message: Message): void;
  react(seq: number, emoji: string | null): void;
  edit(message: Message): void;
  delete(seq: number): void;
  copy(text: string): void;
  /** Shows, saves or plays what it carries. */
  open(seq: number): void;
  /** Shows the message to which it replies. */
  goTo(seq: number): void;
}

/** Items for a message's media. */
const opens: Record<string, string> = { image: "Look at it", file: "Save", voice: "Play or pause" };
const QUICK = ["👍", "❤️", "😂", "😮", "😢", "🙏"];
/** From the edge of the window. */
const MARGIN_PX = 8;
const GAP_PX = 4;

export class MessageMenu {
  readonly element: HTMLElement;
  #actions: MessageActions;
  #choices = new Choices("Message");
  #readers = h("p", { class: "readers", hidden: true });
  /** Above all else, so that nothing cuts it off. */
  #popover = h("div", { class: "message-menu", popover: "manual" }, this.#readers, this.#choices.element);
  #confirm = new Confirm();

  constructor(actions: MessageActions) {
    this.#actions = actions;
    this.element = h("div", {}, this.#popover, this.#confirm.element);
    addEventListener("resize", () => this.close());
  }

  close(): void {
    this.#choices.close();
  }

  /** `shown`: where the message stands. */
  open(chat: Chat, message: Message, shown: HTMLElement): void {
    const closed = () => {
      this.#popover.hidePopover();
      shown.classList.remove("asked");
    };
    this.close();
    const readers = message.sender_id === chat.me ? readersOf(chat, message.seq) : "";
    this.#readers.textContent = readers;
    this.#readers.hidden = readers === "";
    put(this.#choices.element, "aria-description", readers || undefined);
    this.#popover.showPopover();
    shown.classList.add("asked");
    this.#choices.open(this.#rows(chat, message), { returnFocus: () => shown.focus(), closed });
    const bubble = shown.querySelector(".bubble") ?? shown;
    place(this.#popover, bubble.getBoundingClientRect(), message.sender_id === chat.me);
  }

  #rows(chat: Chat, message: Message): MenuItem[][] {
    const { reply, forward, react, edit, copy, goTo, open } = this.#actions;
    const { seq, reply_to, body, reactions = [] } = message;
    const isOwn = message.sender_id === chat.me;
    const mine = reactions.find(({ mine }) => mine)?.emoji;
    // The user's own emoji may be none of the quick ones.
    const emoji = mine === undefined || QUICK.includes(mine) ? QUICK : [mine, ...QUICK];
    const quick = emoji.map((emoji) => ({
      name: emoji,
      isChecked: emoji === mine,
      choose: () => react(seq, emoji === mine ? null : emoji),
    }));
    const item = (name: string, choose: () => void) => [{ name, choose }];
    const remove = async () => {
      if (await this.#confirm.ask("Delete this message for everybody?", "Delete for everybody")) {
        this.#actions.delete(seq);
      }
    };
    return [
      ...(chat.isFixed ? [] : [quick]),
      ...(chat.isReadOnly ? [] : [item("Reply", () => reply(message))]),
      item("Forward", () => forward(message)),
      ...(reply_to === undefined ? [] : [item("Show what it answers", () => goTo(reply_to))]),
      ...(opens[message.kind] ? [item(opens[message.kind] ?? "", () => open(seq))] : []),
      ...(body ? [item("Copy", () => copy(body))] : []),
      ...(isOwn && !chat.isFixed ? [item("Edit", () => edit(message))] : []),
      ...(isOwn || (chat.isModerated && !chat.isClosed) ? [item("Delete for everybody", remove)] : []),
    ];
  }
}

/** Names the members who have a message of a group. */
function readersOf(chat: Chat, seq: number): string {
  const { read, delivered } = chat.timeline.readers(seq);
  const words = [
    read.length > 0 && `Read by ${list(read)}.`,
    delivered.length > 0 && `Received by ${list(delivered)}.`,
  ];
  return chat.isGroup && !chat.isChannel ? words.filter(Boolean).join(" ") || "Nobody has it yet." : "";
}

/** Below, or above where there is no room, and always inside the window. */
function place(element: HTMLElement, { top, bottom, left, right }: DOMRect, isMine: boolean): void {
  const { width, height } = element.getBoundingClientRect();
  const within = (wanted: number, max: number) => Math.max(MARGIN_PX, Math.min(wanted, max - MARGIN_PX));
  const below = bottom + GAP_PX;
  const y = below + height > innerHeight - MARGIN_PX ? top - GAP_PX - height : below;
  element.style.left = `${within(isMine ? right - width : left, innerWidth - width)}px`;
  element.style.top = `${within(y, innerHeight - height)}px`;
}
