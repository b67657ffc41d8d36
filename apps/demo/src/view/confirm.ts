// A question before what can't be taken back.

import { h } from "./dom.ts";

export class Confirm {
  readonly element: HTMLDialogElement;
  #question = h("p", {});
  #yes = h("button", { type: "submit", value: "yes", class: "danger" });
  #answered: ((isYes: boolean) => void) | undefined;

  constructor() {
    // The first one has the focus: Enter alone destroys nothing.
    const no = h("button", { type: "submit", value: "no" }, "Cancel");
    const form = h("form", { method: "dialog" }, this.#question, h("div", { class: "answers" }, no, this.#yes));
    this.element = h("dialog", { class: "confirm" }, form);
    this.element.addEventListener("close", () => {
      // One that is open has been asked anew: the event is of the last time.
      if (!this.element.open) {
        this.#answered?.(this.element.returnValue === "yes");
        this.#answered = undefined;
      }
    });
    // The chat stays open.
    this.element.addEventListener("keydown", (event) => event.stopPropagation());
  }

  /** Whether the user wants it. */
  ask(question: string, yes: string): Promise<boolean> {
    this.#question.textContent = question;
    this.#yes.textContent = yes;
    this.element.setAttribute("aria-label", question);
    this.element.returnValue = "no";
    this.element.showModal();
    return new Promise((answered) => {
      this.#answered = answered;
    });
  }
}
