// A poll and a location in a bubble, and the form for a new poll.

import type { MessageItem } from "@pigeonhole/client";
import { mapOf, newPoll, placeOf, pollOf, votesOf } from "../own.ts";
import { fill, h, put } from "./dom.ts";

/** Shows what a kind of this page's own has, below the text. */
export function own(element: HTMLElement, entry: MessageItem, me: string, vote: (option: number) => void): void {
  const isDeleted = entry.deletedBy !== undefined;
  poll(element, entry, isDeleted, me, vote);
  const place = isDeleted ? undefined : placeOf(entry);
  const found = element.querySelector<HTMLAnchorElement>(".place");
  if (!place) {
    found?.remove();
  } else if (found?.href !== mapOf(place)) {
    found?.remove();
    const link = { class: "place", href: mapOf(place), target: "_blank", rel: "noopener noreferrer" };
    element.querySelector(".body")?.append(h("a", link, "Show the map"));
  }
}

function poll(
  element: HTMLElement,
  entry: MessageItem,
  isDeleted: boolean,
  me: string,
  vote: (option: number) => void,
): void {
  const poll = isDeleted ? undefined : pollOf(entry);
  let list = element.querySelector<HTMLElement>(".poll");
  if (!poll) {
    list?.remove();
    return;
  }
  if (!list) {
    list = h("div", { class: "poll", role: "group", "aria-label": "Options" });
    element.querySelector(".bubble")?.append(list);
  }
  const votes = votesOf(poll, entry.signals);
  const items = poll.options.map((option, at) => ({
    key: `${at} ${option}`,
    create: () => h("button", { type: "button", class: "option" }),
    update: (button: HTMLElement) => {
      const users = votes[at] ?? [];
      // A vote names the poll by its number.
      (button as HTMLButtonElement).disabled = entry.seq === undefined;
      button.onclick = () => vote(at);
      put(button, "aria-pressed", String(users.includes(me)));
      put(button, "title", users.join(", ") || undefined);
      put(button, "aria-label", `${option}, ${users.length === 1 ? "1 vote" : `${users.length} votes`}`);
      button.replaceChildren(h("span", { dir: "auto" }, option), h("span", { class: "count" }, String(users.length)));
    },
  }));
  fill(list, items);
}

/** Asks for a question and its options. */
export class PollForm {
  readonly element: HTMLDialogElement;
  #question = h("input", { required: true, "aria-label": "Question", placeholder: "Question", maxlength: 200 });
  #options = h("textarea", {
    required: true,
    rows: 4,
    "aria-label": "Options, one per line",
    placeholder: "Options, one per line",
    maxlength: 500,
  });
  #send: ((poll: ReturnType<typeof newPoll>) => void) | undefined;

  constructor() {
    const submit = () => {
      const options = this.#options.value.split("\n").map((option) => option.trim());
      const named = options.filter((option) => option !== "");
      if (named.length > 0) {
        this.#send?.(newPoll(this.#question.value.trim(), named));
      }
    };
    const cancel = { type: "button", click: () => this.element.close() };
    const answers = h("div", { class: "answers" }, h("button", cancel, "Cancel"), h("button", {}, "Send the poll"));
    this.element = h(
      "dialog",
      {
        class: "confirm new-poll",
        "aria-label": "New poll",
        keydown: (event: KeyboardEvent) => event.stopPropagation(),
      },
      h("form", { method: "dialog", submit }, this.#question, this.#options, answers),
    );
  }

  open(send: (poll: ReturnType<typeof newPoll>) => void): void {
    this.#send = send;
    this.#question.value = "";
    this.#options.value = "";
    this.element.showModal();
  }
}
