// A button that becomes a form: the hours in which this user's phone is quiet.

import { h, put } from "./dom.ts";

/** `HH:MM`, by the clock of this device. */
export interface Hours {
  from: string;
  to: string;
}

export class QuietHours {
  readonly element: HTMLElement;
  #button: HTMLButtonElement;
  #form: HTMLFormElement;
  #from = h("input", { type: "time", "aria-label": "Quiet from", required: true, value: "22:00" });
  #to = h("input", { type: "time", "aria-label": "Quiet until", required: true, value: "07:00" });

  /** `set`: `undefined` ends them. */
  constructor(user: string, hours: Hours | undefined, set: (hours: Hours | undefined) => Promise<void>) {
    const id = `quiet-${user}`;
    const attributes = { type: "button", class: "new-group", "aria-controls": id, click: () => this.#show(true) };
    this.#button = h("button", { ...attributes });
    const choose = async (chosen: Hours | undefined) => {
      try {
        await set(chosen);
        this.#name(chosen);
        this.#show(false);
        this.#button.focus();
      } catch (error) {
        this.#from.setCustomValidity((error as Error).message);
        this.#from.reportValidity();
      }
    };
    const submit = (event: SubmitEvent) => {
      event.preventDefault();
      void choose({ from: this.#from.value, to: this.#to.value });
    };
    const buttons = h(
      "div",
      { class: "answers" },
      h("button", { type: "button", class: "link", click: () => void choose(undefined) }, "Always ring"),
      h("button", { class: "filled" }, "Set"),
    );
    const name = { id, class: "new-group-form", "aria-label": "Quiet hours", hidden: true };
    const input = () => this.#from.setCustomValidity("");
    this.#form = h("form", { ...name, submit, input }, this.#from, this.#to, buttons);
    this.element = h("div", {}, this.#button, this.#form);
    if (hours) {
      [this.#from.value, this.#to.value] = [hours.from, hours.to];
    }
    this.#name(hours);
    this.#show(false);
  }

  #name(hours: Hours | undefined): void {
    this.#button.textContent = hours ? `Quiet ${hours.from}–${hours.to}` : "Quiet hours";
  }

  #show(isOpen: boolean): void {
    this.#form.hidden = !isOpen;
    this.#button.hidden = isOpen;
    put(this.#button, "aria-expanded", String(isOpen));
    if (isOpen) {
      this.#from.focus();
    }
  }
}
