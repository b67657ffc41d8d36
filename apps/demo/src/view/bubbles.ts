// What stands in a conversation: messages, days between them, and where the user was away.

import type { Message } from "@pigeonhole/client";
import type { Chat, Ticks, Waiting } from "../chat.ts";
import { h, type Item, icon } from "./dom.ts";
import { clock, day } from "./time.ts";

const meanings: Record<Ticks, string> = {
  waiting: "Waiting for a connection",
  failed: "Not sent",
  stored: "Stored",
  delivered: "Delivered",
  read: "Read",
};

export function bubbles(chat: Chat, discard: (client_msg_id: string) => void): Item[] {
  const items: Item[] = [];
  let last: { day: string; sender: string } = { day: "", sender: "" };
  const turn = (at: number, sender: string) => {
    const today = day(at);
    if (today !== last.day) {
      items.push(separator("day", today));
      last = { day: today, sender: "" };
    }
    const isNext = last.sender === sender;
    last.sender = sender;
    return isNext;
  };
  for (const message of chat.messages()) {
    const isNext = turn(Date.parse(message.sent_at), message.sender_id);
    if (message.seq === chat.awayFrom) {
      items.push(separator("away", "While you were away"));
    }
    items.push(stored(chat, message, isNext));
  }
  for (const waiting of chat.waiting) {
    items.push(unsent(waiting, turn(waiting.at, chat.me), () => discard(waiting.client_msg_id)));
  }
  if (!chat.isKnown) {
    items.unshift(separator("day", "What was said before comes with the connection"));
  } else if (items.length === 0) {
    items.push(separator("nothing", "No messages yet. Say hello."));
  }
  return items;
}

function separator(kind: string, text: string): Item {
  return { key: `${kind} ${text}`, create: () => h("li", { class: kind }, h("span", {}, text)) };
}

function stored(chat: Chat, message: Message, isNext: boolean): Item {
  const { seq, sender_id, client_msg_id, body, sent_at } = message;
  const isMine = sender_id === chat.me;
  return {
    // The same as while it waited, so that it stays and only its ticks turn.
    key: client_msg_id ?? String(seq),
    create: () => bubble(isMine, sender_id, body),
    update: (element) => mark(element, Date.parse(sent_at), isMine ? chat.ticks(message) : undefined, isNext),
  };
}

function unsent({ client_msg_id, body, at, why }: Waiting, isNext: boolean, discard: () => void): Item {
  return {
    key: client_msg_id,
    create: () => bubble(true, "", body),
    update: (element) => {
      mark(element, at, why === undefined ? "waiting" : "failed", isNext);
      if (why !== undefined && !element.querySelector(".why")) {
        const forget = h("button", { type: "button", click: discard }, "Discard");
        element.append(h("p", { class: "why", role: "alert" }, `Not sent: ${why}. `, forget));
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

function mark(element: HTMLElement, at: number, ticks: Ticks | undefined, isNext: boolean): void {
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
