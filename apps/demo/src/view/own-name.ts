// A button that becomes a form: the name that others see of this user.

import { limits } from "@pigeonhole/client";
import { h, put } from "./dom.ts";

export class OwnName {
  readonly element: HTMLElement;
  #button: HTMLButtonElement;
  #form: HTMLFormElement;
  #field = h("input", { "aria-label": "Your name", maxlength: limits.TITLE_CHARS_MAX, autocomplete: "off" });

  /** `name`: the present one. `set`: an empty name removes it. */
  constructor(user: string, name: () => string, set: (name: string) => Promise<void>) {
    const id = `name-${user}`;
    const open = () => {
      this.#field.value = name();
      this.#show(true);
    };
    const attributes = { type: "button", class: "new-group", "aria-controls": id, click: open };
    this.#button = h("button", { ...attributes }, "Your name");
    const submit = async (event: SubmitEvent) => {
      event.preventDefault();
      try {
        await set(this.#field.value.trim());
        this.#show(false);
        this.#button.focus();
      } catch (error) {
        this.#field.setCustomValidity((error as Error).message);
        this.#field.reportValidity();
      }
    };
    const input = () => this.#field.setCustomValidity("");
    const buttons = h(
      "div",
      { class: "answers" },
      h("button", { type: "button", class: "link", click: () => this.#show(false) }, "Cancel"),
      h("button", { class: "filled" }, "Save"),
    );
    const attributesOfForm = { id, class: "new-group-form", "aria-label": "Your name", hidden: true, submit, input };
    this.#form = h("form", { ...attributesOfForm }, this.#field, buttons);
    this.element = h("div", {}, this.#button, this.#form);
    this.#show(false);
  }

  #show(isOpen: boolean): void {
    this.#form.hidden = !isOpen;
    this.#button.hidden = isOpen;
    put(this.#button, "aria-expanded", String(isOpen));
    if (isOpen) {
      this.#field.focus();
    }
  }
}
