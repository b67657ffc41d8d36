// A button that becomes a form, for a setting of the user.

import { h, put } from "./dom.ts";

export class ButtonForm {
  readonly element: HTMLElement;
  readonly button: HTMLButtonElement;
  #form: HTMLFormElement;
  #first: HTMLInputElement;

  /** `fields`: the first one has the focus, and shows why a change failed. */
  constructor(
    id: string,
    name: string,
    fields: [HTMLInputElement, ...HTMLInputElement[]],
    acts: { open?: () => void; submit: () => void },
    ...buttons: HTMLButtonElement[]
  ) {
    [this.#first] = fields;
    const open = () => {
      acts.open?.();
      this.show(true);
    };
    this.button = h("button", { type: "button", class: "new-group", "aria-controls": id, click: open }, name);
    const submit = (event: SubmitEvent) => {
      event.preventDefault();
      acts.submit();
    };
    const input = () => this.#first.setCustomValidity("");
    const attributes = { id, class: "new-group-form", "aria-label": name, hidden: true, submit, input };
    this.#form = h("form", attributes, ...fields, h("div", { class: "answers" }, ...buttons));
    this.element = h("div", {}, this.button, this.#form);
    this.show(false);
  }

  /** Makes a change, and closes the form after it. */
  async change(made: Promise<void>): Promise<void> {
    try {
      await made;
      this.show(false);
      this.button.focus();
    } catch (error) {
      this.#first.setCustomValidity((error as Error).message);
      this.#first.reportValidity();
    }
  }

  show(isOpen: boolean): void {
    this.#form.hidden = !isOpen;
    this.button.hidden = isOpen;
    put(this.button, "aria-expanded", String(isOpen));
    if (isOpen) {
      this.#first.focus();
    }
  }
}
