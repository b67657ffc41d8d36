// What stands in a conversation: messages, days between them, and where the unread ones begin.

import type { Tick, TimelineEntry } from "@pigeonhole/client";
import { type Chat, isShown } from "../chat.ts";
import { h, type Item, icon } from "./dom.ts";
import { clock, day } from "./time.ts";

const meanings: Record<Tick, string> = {
  waiting: "Waiting for a connection",
  failed: "Not sent",
  stored: "Stored",
  delivered: "Delivered",
  read: "Read",
};

export function bubbles(chat: Chat, dismiss: (clientMsgId: string) => void): Item[] {
  /** Whose message stands directly above. */
  let last: string | undefined;
  const follows = (sender: string | undefined) => {
    const isNext = sender !== undefined && sender === last;
    last = sender;
    return isNext;
  };
  const items = chat.timeline
    .entries((at) => day(Date.parse(at)))
    .flatMap((entry): Item[] => {
      switch (entry.type) {
        case "message":
          return isShown(entry.message) ? [stored(entry, follows(entry.message.sender_id))] : [];
        case "unsent":
          return [unsent(entry, follows(chat.me), dismiss)];
        default:
          follows(undefined);
          return [separator(entry.type, words(entry))];
      }
    });
  if (!chat.isKnown) {
    items.unshift(separator("day", "What was said before comes with the connection"));
  } else if (items.length === 0) {
    items.push(separator("nothing", "No messages yet. Say hello."));
  }
  return items;
}

type Entry<T> = Extract<TimelineEntry, { type: T }>;

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

function stored({ message, own, tick }: Entry<"message">, isNext: boolean): Item {
  const { seq, sender_id, client_msg_id, sent_at } = message;
  return {
    // The same as while it waited, so that it stays and only its ticks turn.
    key: client_msg_id ?? String(seq),
    create: () => bubble(own, sender_id, message.body),
    update: (element) => mark(element, Date.parse(sent_at), tick, isNext),
  };
}

function unsent(entry: Entry<"unsent">, isNext: boolean, dismiss: (clientMsgId: string) => void): Item {
  const { clientMsgId, body, at, tick, error } = entry;
  return {
    key: clientMsgId,
    create: () => bubble(true, "", body),
    update: (element) => {
      mark(element, Date.parse(at), tick, isNext);
      if (error !== undefined && !element.querySelector(".why")) {
        const forget = h("button", { type: "button", click: () => dismiss(clientMsgId) }, "Discard");
        element.append(h("p", { class: "why", role: "alert" }, `Not sent: ${error}. `, forget));
      }
    },
  };
}

function bubble(isMine: boolean, sender: string, body: string): HTMLElement {
  const who = h("span", { class: "hidden" }, isMine ? "You: " : `${sender}: `);
  const text = h("p", { class: "body", dir: "auto" }, who, body);
  return h(
    "li",
    { class: `message ${isMine ? "mine" : "theirs"}` },
    h("div", { class: "bubble" }, text, h("span", { class: "meta" })),
  );
}

function mark(element: HTMLElement, at: number, ticks: Tick | undefined, isNext: boolean): void {
  element.classList.toggle("next", isNext);
  const meta = element.querySelector(".meta");
  const now = `${at} ${ticks}`;
  if (!meta || element.dataset.mark === now) {
    return;
  }
  element.dataset.mark = now;
  meta.replaceChildren(h("time", { datetime: new Date(at).toISOString() }, clock(at)));
  if (ticks) {
    meta.append(
      h("span", { class: "ticks", role: "img", "aria-label": meanings[ticks], title: meanings[ticks] }, icon(ticks)),
    );
  }
}
