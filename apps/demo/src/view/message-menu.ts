// The menu of a message.

import { type MessageItem, mayPin, mayReact, mayWrite, moderates, type ReportReason } from "@pigeonhole/client";
import { linked } from "../links.ts";
import type { Opened } from "../opened.ts";
import { list } from "../system.ts";
import { type Answer, Confirm } from "./confirm.ts";
import { h, put } from "./dom.ts";
import { EmojiMenu } from "./emoji.ts";
import { Choices, type MenuItem, place } from "./menu.ts";

export interface MessageActions {
  reply(message: MessageItem): void;
  forward(message: MessageItem): void;
  react(seq: number, emoji: string | null): void;
  pin(seq: number, pinned: boolean): void;
  edit(message: MessageItem): void;
  delete(seq: number): void;
  copy(text: string): void;
  report(message: MessageItem, reason: ReportReason): void;
  /** Shows, saves or plays what it carries. */
  open(seq: number): void;
  /** Shows the message to which it replies. */
  goTo(seq: number): void;
}

/** Items for a message's media. */
const opens: Record<string, string> = { image: "Look at it", file: "Save", voice: "Play or pause" };
/** Why a message is reported. */
const REASONS: (Answer & { value: ReportReason })[] = [
  { value: "spam", name: "Spam" },
  { value: "abuse", name: "Abuse" },
  { value: "sexual", name: "Sexual content" },
  { value: "violence", name: "Violence" },
  { value: "illegal", name: "Something illegal" },
  { value: "other", name: "Something else" },
];
const QUICK = ["👍", "❤️", "😂", "😮", "😢", "🙏"];
/** Links that a menu offers at most. */
const LINKS_MAX = 3;

export class MessageMenu {
  readonly element: HTMLElement;
  #me: string;
  #actions: MessageActions;
  #choices = new Choices("Message");
  #readers = h("p", { class: "readers", hidden: true });
  /** Above all else, so that nothing cuts it off. */
  #popover = h("div", { class: "message-menu", popover: "manual" }, this.#readers, this.#choices.element);
  #emoji = new EmojiMenu();
  /** Shows the readers of the message. */
  #show = () => {};
  #confirm = new Confirm();

  constructor(me: string, actions: MessageActions) {
    this.#me = me;
    this.#actions = actions;
    this.element = h("div", {}, this.#popover, this.#emoji.element, this.#confirm.element);
    addEventListener("resize", () => this.close());
  }

  close(): void {
    this.#choices.close();
    this.#emoji.close();
  }

  /** The readers may have changed. */
  update(): void {
    if (this.#choices.isOpen) {
      this.#show();
    }
  }

  /** `shown`: where the message stands. */
  open(chat: Opened, message: MessageItem, shown: HTMLElement): void {
    const closed = () => {
      this.#popover.hidePopover();
      shown.classList.remove("asked");
    };
    this.close();
    this.#show = () => {
      const readers = message.senderId === this.#me ? readersOf(chat, message.seq ?? 0, this.#me) : "";
      this.#readers.textContent = readers;
      this.#readers.hidden = readers === "";
      put(this.#choices.element, "aria-description", readers || undefined);
    };
    this.#show();
    this.#popover.showPopover();
    shown.classList.add("asked");
    this.#choices.open(this.#rows(chat, message, shown), { returnFocus: () => shown.focus(), closed });
    place(this.#popover, shown.querySelector(".bubble") ?? shown, message.senderId === this.#me);
  }

  #rows(chat: Opened, message: MessageItem, shown: HTMLElement): MenuItem[][] {
    const { reply, forward, react, edit, copy, goTo, open } = this.#actions;
    const { seq = 0, reply: answered, body, reactions } = message;
    const { row } = chat;
    const isPinned = chat.view?.pins.some((pin) => pin.seq === seq) ?? false;
    const isOwn = message.senderId === this.#me;
    const mine = reactions.find(({ mine }) => mine)?.emoji;
    // The user's own emoji may be none of the quick ones.
    const emoji = mine === undefined || QUICK.includes(mine) ? QUICK : [mine, ...QUICK];
    const quick: MenuItem[] = emoji.map((emoji) => ({
      name: emoji,
      isChecked: emoji === mine,
      choose: () => react(seq, emoji === mine ? null : emoji),
    }));
    const others = { choose: (emoji: string) => react(seq, emoji), returnFocus: () => shown.focus() };
    quick.push({ name: "Other emoji", icon: "plus", choose: () => this.#emoji.open(shown, others) });
    const item = (name: string, choose: () => void) => [{ name, choose }];
    const remove = async () => {
      if (await this.#confirm.ask("Delete this message for everyone?", "Delete for everyone")) {
        this.#actions.delete(seq);
      }
    };
    const report = async () => {
      const chosen = await this.#confirm.choose("Report this message to the operator? For …", REASONS);
      const reason = REASONS.find(({ value }) => value === chosen)?.value;
      if (reason) {
        this.#actions.report(message, reason);
      }
    };
    return [
      ...(mayReact(row) ? [quick] : []),
      ...(mayWrite(row) ? [item("Reply", () => reply(message))] : []),
      item("Forward", () => forward(message)),
      ...(answered ? [item("Show the original message", () => goTo(answered.seq))] : []),
      ...(opens[message.kind] ? [item(opens[message.kind] ?? "", () => open(seq))] : []),
      ...links(body),
      ...(body ? [item("Copy", () => copy(body))] : []),
      ...(mayPin(row) ? [item(isPinned ? "Unpin" : "Pin", () => this.#actions.pin(seq, !isPinned))] : []),
      ...(isOwn && mayReact(row) ? [item("Edit", () => edit(message))] : []),
      ...(isOwn || (moderates(row.role) && !row.isClosed) ? [item("Delete for everyone", remove)] : []),
      ...(isOwn ? [] : [item("Report", report)]),
    ];
  }
}

/** Opens the pages that a text names, by the keyboard too. */
function links(body: string): MenuItem[][] {
  const hrefs = [...new Set(linked(body).flatMap(({ href }) => href ?? []))].slice(0, LINKS_MAX);
  return hrefs.map((href) => [
    { name: `Open ${new URL(href).host}`, choose: () => void open(href, "_blank", "noopener,noreferrer") },
  ]);
}

/** Names the members who have a message of a group. */
function readersOf({ members, row }: Opened, seq: number, me: string): string {
  const others = members.filter(({ userId, joinedSeq }) => userId !== me && joinedSeq < seq);
  const read = others.filter(({ readSeq }) => readSeq >= seq).map(({ userId }) => userId);
  const delivered = others.filter(({ readSeq, deliveredSeq }) => readSeq < seq && deliveredSeq >= seq);
  const words = [
    read.length > 0 && `Read by ${list(read)}.`,
    delivered.length > 0 && `Received by ${list(delivered.map(({ userId }) => userId))}.`,
  ];
  return row.kind === "group" ? words.filter(Boolean).join(" ") || "Nobody has received it yet." : "";
}
