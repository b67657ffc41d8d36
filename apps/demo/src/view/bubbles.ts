// Contents of a conversation: messages in their current form, events of a group, days between them, and the line above
// the unread ones.

import { type ChatRow, type Item as Entry, type MessageItem, mayWrite, type Progress } from "@pigeonhole/client";
import { type Carried, fileOf } from "../carried.ts";
import { isEmojiAlone, linked } from "../links.ts";
import { pieces } from "../mentions.ts";
import { called } from "../names.ts";
import { reason } from "../refusals.ts";
import { DELETED, type Growing, growingIn, isUnmade, whatOf } from "../rows.ts";
import { said } from "../said.ts";
import { unreadable } from "../sealed.ts";
import { sentence } from "../system.ts";
import { hue } from "./avatar.ts";
import { fill, h, type Item, icon, put } from "./dom.ts";
import { carry, ofMessage, uploading } from "./media.ts";
import { own } from "./own.ts";
import { clock, day } from "./time.ts";

export interface BubbleActions {
  me: string;
  /** The user has seen that this failed. */
  dismiss(clientMsgId: string): void;
  /** The upload is not wanted any more. */
  cancel(clientMsgId: string): void;
  /** Sends a failed message again. */
  retry(clientMsgId: string): void;
  /** Puts the text of a failed message back into the field. */
  takeBack(failed: MessageItem): void;
  /** The refusal of a request of this page, in the server’s words. */
  refusal(clientMsgId: string): string | undefined;
  /** A picture, as large as there is room. */
  look(url: string, alt: string): void;
  carried: Carried;
  react(seq: number, emoji: string | null): void;
  /** In a poll. */
  vote(seq: number, option: number): void;
  /** Shows another message. */
  goTo(seq: number): void;
  menu(seq: number): void;
}

type Tick = Progress["state"];

const meanings: Record<Tick, string> = {
  waiting: "Waiting for a connection",
  uploading: "Waiting for a connection",
  failed: "Not sent",
  stored: "Stored",
  delivered: "Delivered",
  read: "Read",
};

/** `entries`: `undefined` if they have not come. `why`: the group can’t be created. */
export function bubbles(
  entries: readonly Entry[] | undefined,
  row: ChatRow,
  why: string,
  actions: BubbleActions,
): Item[] {
  const items = (entries ?? []).map((entry) => shown(entry, row, actions));
  const growing = entries ? growingIn(row) : [];
  if (isUnmade(row)) {
    const waits = `The ${whatOf(row)} is created as soon as there is a connection.`;
    return [separator("nothing", why || waits)];
  }
  const isEmpty = entries && !items.some(({ key }) => /^[csg]/.test(key));
  if (isEmpty && growing.length === 0) {
    const hello = mayWrite(row) ? " Say hello." : "";
    items.push(
      separator("nothing", row.kind === "channel" ? "Nothing was posted here yet." : `No messages yet.${hello}`),
    );
  }
  const last = entries?.at(-1);
  return [...items, ...growing.map((text) => written(text, row, last?.type === "message" ? last.senderId : ""))];
}

function shown(entry: Entry, row: ChatRow, actions: BubbleActions): Item {
  switch (entry.type) {
    case "message":
      return message(entry, row, actions);
    case "system":
      return notice(entry.key, "system", sentence(entry.event, entry.senderId, actions.me, whatOf(row)), entry);
    case "unreadable": {
      const whose = entry.senderId === actions.me ? "You" : called(entry.senderId);
      return notice(entry.key, "unreadable", `${whose}: ${unreadable[entry.why]}`, entry);
    }
    case "day":
      return notice(entry.key, "day", day(Date.parse(`${entry.day}T12:00`)));
    case "unread":
      return notice(entry.key, "unread", entry.count === 1 ? "1 unread message" : `${entry.count} unread messages`);
    case "gap":
      return notice(entry.key, "gap", "Messages are missing here");
  }
}

function separator(kind: string, text: string): Item {
  return notice(`${kind} ${text}`, kind, text);
}

function notice(key: string, kind: string, text: string, of: unknown = text): Item {
  return {
    key,
    of: [of, text],
    create: () => h("li", { class: `separator ${kind}` }, h("span", {})),
    update: (element) => element.firstElementChild?.replaceChildren(text),
  };
}

function message(entry: MessageItem, row: ChatRow, actions: BubbleActions): Item {
  const { me, carried } = actions;
  const { seq, clientMsgId = "", senderId, body, mentions, reply, progress, upload } = entry;
  const isOwn = senderId === me;
  const isDeleted = entry.deletedBy !== undefined;
  const isFailed = progress?.state === "failed";
  return {
    // The element of a waiting message stays when the server stores it: only its ticks change.
    key: entry.key,
    of: [entry, called(senderId), called(reply?.message?.sender_id ?? "")],
    create: () => bubble(isOwn, senderId, row.kind !== "direct"),
    update: (element) => {
      title(element, isOwn ? "You" : called(senderId));
      element.classList.toggle("next", !entry.run.isFirst);
      element.classList.toggle("deleted", isDeleted);
      element.classList.toggle("named", !isOwn && (mentions.includes(me) || mentions.includes("*")));
      put(element, "data-seq", seq);
      say(element, isDeleted ? DELETED : body, mentions);
      answer(element, isDeleted ? undefined : reply, actions);
      mark(element, {
        at: Date.parse(entry.at),
        ticks: isDeleted ? undefined : progress?.state,
        isEdited: entry.editedAt !== undefined,
        isChanging: entry.isChanging,
      });
      const file = fileOf(entry);
      // A forwarded message has no file here.
      const url = () => upload && (file ? carried.urlOfOwn(upload, file) : carried.known(upload.sha256));
      const isMissing = !file && upload !== undefined && carried.known(upload.sha256) === undefined;
      const sent = upload && { kind: upload.kind, media: upload, body, by: me, url, isMissing };
      carry(element, isDeleted ? undefined : (sent ?? ofMessage(entry, carried)), carried, actions.look);
      const isOnItsWay = file && !isFailed && (progress?.state !== "uploading" || progress.done < file.size);
      const done = progress?.state === "uploading" ? progress.done : 0;
      uploading(element, isOnItsWay ? { done, bytes: file.size } : undefined, () => actions.cancel(clientMsgId));
      own(element, entry, me, (option) => seq !== undefined && actions.vote(seq, option));
      chips(element, seq ?? 0, entry.reactions, actions);
      complain(element, entry, row, actions);
      offerMenu(element, isDeleted || seq === undefined ? undefined : () => actions.menu(seq));
    },
  };
}

/** Returns a message that a service is writing, with the margins of the stored one: nothing moves when that comes. */
function written({ senderId, text }: Growing, row: ChatRow, lastSender: string): Item {
  return {
    key: `writes ${senderId}`,
    of: [text, lastSender, called(senderId)],
    create: () => {
      const element = bubble(false, senderId, row.kind !== "direct");
      element.classList.add("growing");
      put(element, "aria-busy", "true");
      part(element, ".meta")?.append("…");
      return element;
    },
    update: (element) => {
      title(element, called(senderId));
      element.classList.toggle("next", senderId === lastSender);
      say(element, text);
    },
  };
}

/** Returns the parts of a message, all of which may change. The bubble takes the focus, for the keyboard. */
function bubble(isMine: boolean, sender: string, isGroup: boolean): HTMLElement {
  const says = h("span", { class: "hidden" }, ": ");
  const who = h("span", { class: isGroup && !isMine ? "who" : "hidden" }, h("span", {}), says);
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

/** Shows whose message it is. */
function title(element: HTMLElement, name: string): void {
  const shown = part(element, ".body > :first-child > :first-child");
  if (shown && shown.textContent !== name) {
    shown.textContent = name;
  }
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
function answer(element: HTMLElement, reply: MessageItem["reply"], { goTo }: BubbleActions): void {
  const found = part(element, ".quote");
  if (reply === undefined) {
    found?.remove();
    return;
  }
  const { seq, message: quote } = reply;
  const whose = called(quote?.sender_id ?? "");
  const text = quote
    ? quote.deleted_at === undefined
      ? said(quote.kind, quote.body, quote.media)
      : DELETED
    : "An earlier message";
  if (found && found.dataset.says === `${whose} ${text}`) {
    return;
  }
  const button = { type: "button", class: "quote", tabindex: -1, click: () => goTo(seq) };
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
    ...(ticks ? [sign(meanings[ticks], ticks === "uploading" ? "waiting" : ticks)] : []),
  );
}

function sign(name: string, shape: Exclude<Tick, "uploading">): HTMLElement {
  return h("span", { class: "ticks", role: "img", "aria-label": name, title: name }, icon(shape));
}

/** Returns the reactions. Each button removes the user's own reaction, or sets it to the same emoji. */
function chips(element: HTMLElement, seq: number, reactions: MessageItem["reactions"], { react }: BubbleActions): void {
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

/** Shows a message or a change of one that was not stored, with the reason, until the user dismisses it. */
function complain(element: HTMLElement, item: MessageItem, row: ChatRow, actions: BubbleActions): void {
  const found = part(element, ".why");
  const { progress, clientMsgId } = item;
  const failed = progress?.state === "failed" && clientMsgId !== undefined ? { ...progress, clientMsgId } : undefined;
  const refused = failed ?? item.refused;
  const id = refused && `${refused.clientMsgId} ${refused.code}`;
  if (found?.dataset.of === id) {
    return;
  }
  found?.remove();
  if (refused) {
    const offer = (name: string, click: () => void) => [" ", h("button", { type: "button", click }, name)];
    const message = actions.refusal(refused.clientMsgId);
    const why = reason(refused.code, !failed, row.kind === "direct", whatOf(row), message);
    const complaint = h(
      "p",
      { class: "why", role: "alert" },
      `${failed ? "Not sent" : "Not changed"}: ${why}.`,
      ...(refused.canHelp ? offer("Try again", () => actions.retry(refused.clientMsgId)) : []),
      ...(failed && !item.upload ? offer("Edit", () => actions.takeBack(item)) : []),
      ...offer(failed ? "Discard" : "Dismiss", () => actions.dismiss(refused.clientMsgId)),
    );
    complaint.dataset.of = id;
    element.append(complaint);
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
