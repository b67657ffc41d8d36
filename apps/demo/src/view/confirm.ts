// A question: before an action that can't be undone, or to choose an option.

import { h } from "./dom.ts";

export interface Answer {
  value: string;
  name: string;
}

export class Confirm {
  readonly element: HTMLDialogElement;
  #question = h("p", {});
  #answers = h("div", { class: "answers" });
  #answered: ((value: string) => void) | undefined;

  constructor() {
    this.element = h("dialog", { class: "confirm" }, h("form", { method: "dialog" }, this.#question, this.#answers));
    this.element.addEventListener("close", () => {
      // The dialog was reopened: the event is of the earlier question.
      if (!this.element.open) {
        this.#answered?.(this.element.returnValue);
        this.#answered = undefined;
      }
    });
    // The chat stays open.
    this.element.addEventListener("keydown", (event) => event.stopPropagation());
  }

  /** Whether the user wants it. */
  async ask(question: string, yes: string): Promise<boolean> {
    const button = h("button", { type: "submit", value: "yes", class: "danger" }, yes);
    return (await this.#ask(question, [button])) === "yes";
  }

  /** The value of the one that the user wants, if any. */
  async choose(question: string, answers: Answer[]): Promise<string | undefined> {
    const buttons = answers.map(({ value, name }) => h("button", { type: "submit", value, class: "choice" }, name));
    return (await this.#ask(question, buttons)) || undefined;
  }

  #ask(question: string, buttons: HTMLElement[]): Promise<string> {
    // The first one has the focus: Enter alone does nothing.
    const no = h("button", { type: "submit", value: "" }, "Cancel");
    this.#question.textContent = question;
    this.#answers.replaceChildren(no, ...buttons);
    this.element.setAttribute("aria-label", question);
    this.element.returnValue = "";
    this.element.showModal();
    return new Promise((answered) => {
      this.#answered = answered;
    });
  }
}
