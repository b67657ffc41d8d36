// Contents of a conversation: messages in their current form, events of a group, days between them, and the line above
// the unread ones.

import type { Message, Queued, Tick, TimelineEntry, Unsent } from "@pigeonhole/client/events";
import { type Carried, fileOf } from "../carried.ts";
import { type Chat, DELETED } from "../chat.ts";
import { isEmojiAlone, linked } from "../links.ts";
import { pieces } from "../mentions.ts";
import { said } from "../said.ts";
import { sentence } from "../system.ts";
import { hue } from "./avatar.ts";
import { fill, h, type Item, icon, put } from "./dom.ts";
import { carry, ofMessage, uploading } from "./media.ts";
import { clock, day } from "./time.ts";

export interface BubbleActions {
  /** The user has seen that this failed. */
  dismiss(clientMsgId: string): void;
  /** The upload is not wanted any more. */
  cancel(clientMsgId: string): void;
  /** Sends a failed message again. */
  retry(failed: Queued): void;
  /** Puts the text of a failed message back into the field. */
  takeBack(failed: Queued, text: string): void;
  /** A picture, as large as there is room. */
  look(url: string, alt: string): void;
  carried: Carried;
  react(seq: number, emoji: string | null): void;
  /** Shows another message. */
  goTo(seq: number): void;
  menu(seq: number): void;
}

type Entry<T> = Extract<TimelineEntry, { type: T }>;

const meanings: Record<Tick, string> = {
  waiting: "Waiting for a connection",
  failed: "Not sent",
  stored: "Stored",
  delivered: "Delivered",
  read: "Read",
};

export function bubbles(chat: Chat, actions: BubbleActions): Item[] {
  /** The author of the message directly above. */
  let last: string | undefined;
  const follows = (sender: string | undefined) => {
    const isNext = sender !== undefined && sender === last;
    last = sender;
    return isNext;
  };
  const items = chat.timeline
    .entries((at) => day(Date.parse(at)))
    .map((entry): Item => {
      switch (entry.type) {
        case "message":
          return stored(entry, follows(entry.message.sender_id), chat, actions);
        case "unsent":
          return waiting(entry, follows(chat.me), chat, actions);
        case "system": {
          follows(undefined);
          const { seq, sender_id } = entry.message;
          return { ...separator("system", sentence(entry.system, sender_id, chat.me, chat.what)), key: keyOf(seq) };
        }
        default:
          follows(undefined);
          return separator(entry.type, words(entry));
      }
    });
  if (!chat.isKnown) {
    items.unshift(separator("day", "Earlier messages appear once you are online"));
  } else if (items.length === 0) {
    const isWaiting = chat.isGroup && chat.id === undefined;
    const hello = chat.isReadOnly ? "" : " Say hello.";
    const nothing = chat.isChannel ? "Nothing was posted here yet." : `No messages yet.${hello}`;
    const waits = `The ${chat.what} is created as soon as there is a connection.`;
    items.push(separator("nothing", isWaiting ? (chat.isNotMade ? chat.refused : waits) : nothing));
  }
  return items;
}

const keyOf = (seq: number) => `at ${seq}`;
/** Another client's id may be any text, a number too. */
const keyOfOwn = (clientMsgId: string) => `own ${clientMsgId}`;

function words(entry: Entry<"day" | "unread" | "gap">): string {
  switch (entry.type) {
    case "day":
      return entry.day;
    case "unread":
      return entry.count === 1 ? "1 unread message" : `${entry.count} unread messages`;
    case "gap":
      return "Messages are missing here";
  }
}

function separator(kind: string, text: string): Item {
  return { key: `${kind} ${text}`, create: () => h("li", { class: `separator ${kind}` }, h("span", {}, text)) };
}

function stored(entry: Entry<"message">, isNext: boolean, chat: Chat, actions: BubbleActions): Item {
  const { message, own, tick, quote, changing, refused } = entry;
  const { seq, sender_id, client_msg_id, sent_at, edited_at, deleted_at, reply_to } = message;
  const { reactions = [], mentions = [] } = message;
  const isDeleted = deleted_at !== undefined;
  return {
    // The key of the waiting message, so that the element stays and only its ticks change.
    key: client_msg_id === undefined ? keyOf(seq) : keyOfOwn(client_msg_id),
    create: () => bubble(own, sender_id, chat.isGroup),
    update: (element) => {
      element.classList.toggle("next", isNext);
      element.classList.toggle("deleted", isDeleted);
      element.classList.toggle("named", !own && (mentions.includes(chat.me) || mentions.includes("*")));
      element.dataset.seq = String(seq);
      say(element, isDeleted ? DELETED : message.body, mentions);
      answer(element, isDeleted ? undefined : reply_to, quote, actions);
      mark(element, {
        at: Date.parse(sent_at),
        ticks: tick,
        isEdited: edited_at !== undefined,
        isChanging: changing,
      });
      carry(element, isDeleted ? undefined : ofMessage(message, actions.carried), actions.carried, actions.look);
      uploading(element, undefined, () => {});
      chips(element, seq, reactions, actions);
      complain(element, refused, { dismissal: "Dismiss", mayRetry: false }, actions);
      offerMenu(element, isDeleted ? undefined : () => actions.menu(seq));
    },
  };
}

function waiting(entry: Entry<"unsent">, isNext: boolean, { me, final }: Chat, actions: BubbleActions): Item {
  const { unsent, body, tick, quote, media } = entry;
  const { queued, at, error, uploaded = 0 } = unsent;
  const file = fileOf(queued);
  const isFinal = final.has(queued.clientMsgId);
  return {
    key: keyOfOwn(queued.clientMsgId),
    create: () => bubble(true, me, false),
    update: (element) => {
      element.classList.toggle("next", isNext);
      say(element, body, "mentions" in queued ? queued.mentions : undefined);
      answer(element, "replyTo" in queued ? queued.replyTo : undefined, quote, actions);
      const { carried } = actions;
      // A forwarded message has no file here.
      const url = () => media && (file ? carried.urlOfOwn(media, file) : carried.known(media.sha256));
      const isMissing = !file && media !== undefined && carried.known(media.sha256) === undefined;
      const shown = media && { kind: media.kind, media, body, by: me, url, isMissing };
      carry(element, shown, carried, actions.look);
      const isOnItsWay = error === undefined && file !== undefined && uploaded < file.size;
      const progress = isOnItsWay ? { done: uploaded, bytes: file.size } : undefined;
      uploading(element, progress, () => actions.cancel(queued.clientMsgId));
      mark(element, { at: Date.parse(at), ticks: tick, isEdited: false, isChanging: false });
      const failed = error === undefined ? undefined : unsent;
      complain(
        element,
        failed,
        { dismissal: "Discard", mayRetry: file !== undefined && !isFinal, text: media ? "" : body },
        actions,
      );
    },
  };
}

/** Returns the parts of a message, all of which may change. The bubble takes the focus, for the keyboard. */
function bubble(isMine: boolean, sender: string, isGroup: boolean): HTMLElement {
  const says = h("span", { class: "hidden" }, ": ");
  const who = h("span", { class: isGroup && !isMine ? "who" : "hidden" }, isMine ? "You" : sender, says);
  who.style.setProperty("--hue", String(hue(sender)));
  const body = h("p", { class: "body" }, who, h("span", { class: "text", dir: "auto" }));
  const inner = h("div", { class: "bubble" }, body, h("span", { class: "meta" }));
  const reactions = h("div", { class: "reactions", role: "group", "aria-label": "Reactions", hidden: true });
  return h(
    "li",
    { class: `message ${isMine ? "mine" : "theirs"}`, tabindex: -1 },
    h("div", { class: "line" }, inner),
    reactions,
  );
}

function part(element: HTMLElement, selector: string): HTMLElement | null {
  return element.querySelector<HTMLElement>(selector);
}

function say(element: HTMLElement, text: string, mentions: readonly string[] = []): void {
  const said = part(element, ".text");
  if (said && said.textContent !== text) {
    said.replaceChildren(...withMentions(text, mentions));
    said.classList.toggle("large", isEmojiAlone(text));
  }
}

/** Highlights mentions and links addresses. */
function withMentions(text: string, mentions: readonly string[]): (Node | string)[] {
  const names = new Set(mentions.map((id) => (id === "*" ? "all" : id)));
  return linked(text).flatMap(({ text, href }) =>
    href === undefined
      ? pieces(text, names).map(({ text, name }) => (name === undefined ? text : h("span", { class: "mention" }, text)))
      : [h("a", { href, target: "_blank", rel: "noopener noreferrer", tabindex: -1 }, text)],
  );
}

/** Returns the quote above a reply. */
function answer(
  element: HTMLElement,
  replyTo: number | undefined,
  quote: Message | undefined,
  { goTo }: BubbleActions,
): void {
  const found = part(element, ".quote");
  if (replyTo === undefined) {
    found?.remove();
    return;
  }
  const whose = quote?.sender_id ?? "";
  const text = quote
    ? quote.deleted_at === undefined
      ? said(quote.kind, quote.body, quote.media)
      : DELETED
    : "An earlier message";
  if (found && found.dataset.says === `${whose} ${text}`) {
    return;
  }
  const button = { type: "button", class: "quote", tabindex: -1, click: () => goTo(replyTo) };
  const label = h("span", { class: "hidden" }, "In reply to ");
  const made = h("button", button, label, h("strong", {}, whose), h("span", { dir: "auto" }, text));
  made.dataset.says = `${whose} ${text}`;
  found?.remove();
  part(element, ".bubble")?.prepend(made);
}

interface Mark {
  at: number;
  ticks: Tick | undefined;
  isEdited: boolean;
  isChanging: boolean;
}

function mark(element: HTMLElement, { at, ticks, isEdited, isChanging }: Mark): void {
  const meta = part(element, ".meta");
  const now = `${at} ${ticks} ${isEdited} ${isChanging}`;
  if (!meta || element.dataset.mark === now) {
    return;
  }
  element.dataset.mark = now;
  meta.replaceChildren(
    ...(isEdited ? [h("span", {}, "edited")] : []),
    h("time", { datetime: new Date(at).toISOString() }, clock(at)),
    ...(isChanging ? [sign("Its change waits for a connection", "waiting")] : []),
    ...(ticks ? [sign(meanings[ticks], ticks)] : []),
  );
}

function sign(name: string, shape: Tick): HTMLElement {
  return h("span", { class: "ticks", role: "img", "aria-label": name, title: name }, icon(shape));
}

/** Returns the reactions. Each button removes the user's own reaction, or sets it to the same emoji. */
function chips(
  element: HTMLElement,
  seq: number,
  reactions: NonNullable<Message["reactions"]>,
  { react }: BubbleActions,
): void {
  const list = part(element, ".reactions");
  if (!list) {
    return;
  }
  list.hidden = reactions.length === 0;
  const items = reactions.map(({ emoji, count, mine }) => ({
    key: emoji,
    create: () => {
      const toggle = () => react(seq, chip.getAttribute("aria-pressed") === "true" ? null : emoji);
      const chip = h("button", { type: "button", class: "chip", tabindex: -1, click: toggle });
      return chip;
    },
    update: (chip: HTMLElement) => {
      put(chip, "aria-pressed", String(mine));
      put(chip, "aria-label", `${emoji} ${count}${mine ? ", one of them yours" : ""}`);
      const text = count > 1 ? `${emoji} ${count}` : emoji;
      if (chip.textContent !== text) {
        chip.textContent = text;
      }
    },
  }));
  fill(list, items);
}

interface Offered {
  dismissal: string;
  /** Another try may end otherwise. */
  mayRetry: boolean;
  /** A text that the user may change and send again. */
  text?: string;
}

/** Shows messages that were not stored, with the reason, until the user dismisses them. */
function complain(
  element: HTMLElement,
  refused: Unsent | undefined,
  { dismissal, mayRetry, text = "" }: Offered,
  { dismiss, retry, takeBack }: BubbleActions,
): void {
  const found = part(element, ".why");
  const id = refused?.queued.clientMsgId;
  if (found?.dataset.of === id) {
    return;
  }
  found?.remove();
  if (refused && id !== undefined) {
    const { queued, error } = refused;
    const offer = (name: string, click: () => void) => [" ", h("button", { type: "button", click }, name)];
    const complaint = h(
      "p",
      { class: "why", role: "alert" },
      `${failure(queued)}: ${error}.`,
      ...(mayRetry ? offer("Try again", () => retry(queued)) : []),
      ...(text ? offer("Edit", () => takeBack(queued, text)) : []),
      ...offer(dismissal, () => dismiss(id)),
    );
    complaint.dataset.of = id;
    element.append(complaint);
  }
}

function failure(queued: Queued): string {
  switch ("request" in queued && queued.request.action) {
    case "edit":
      return "Not edited";
    case "delete":
      return "Not deleted";
    case "react":
      return "Reaction not stored";
    default:
      return "Not sent";
  }
}

/** Adds a button next to the bubble, for the mouse. Otherwise the message itself opens its menu. */
function offerMenu(element: HTMLElement, open: (() => void) | undefined): void {
  const found = part(element, ".offer");
  if (!open) {
    found?.remove();
  } else if (!found) {
    const attributes = {
      type: "button",
      class: "button offer",
      tabindex: -1,
      "aria-label": "Message menu",
      "aria-haspopup": "menu",
    };
    part(element, ".line")?.append(h("button", { ...attributes, click: open }, icon("more")));
  }
}
