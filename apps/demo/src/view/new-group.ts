// A button that becomes a form: what the new group is called, who is in it, and whether it is encrypted.

import { limits, type NewGroup as NewGroupOf } from "@pigeonhole/client";
import { h, icon, put } from "./dom.ts";
import { userIds } from "./user-ids.ts";

export class NewGroup {
  readonly element: HTMLElement;
  #button: HTMLButtonElement;
  #form: HTMLFormElement;
  #title: HTMLInputElement;
  #members: HTMLInputElement;
  #encrypted = h("input", { type: "checkbox", checked: true });

  /** `hasKeys`: the user can create an encrypted group. */
  constructor(user: string, hasKeys: boolean, create: (group: NewGroupOf) => Promise<void>) {
    const id = `new-group-${user}`;
    this.#button = h(
      "button",
      { type: "button", class: "new-group", "aria-controls": id, "aria-expanded": "false", click: () => this.#open() },
      icon("group"),
      "New group",
    );
    this.#title = h("input", {
      required: true,
      maxlength: limits.TITLE_CHARS_MAX,
      pattern: ".*\\S.*",
      title: "What the group is called",
      placeholder: "Title",
      "aria-label": "Title",
      autocomplete: "off",
      input: () => this.#title.setCustomValidity(""),
    });
    this.#members = h("input", {
      placeholder: "bob, carol …",
      "aria-label": "Members",
      autocomplete: "off",
      autocapitalize: "none",
      spellcheck: "false",
      input: () => this.#members.setCustomValidity(""),
    });
    const submit = async (event: SubmitEvent) => {
      event.preventDefault();
      const { ids, problem } = userIds(this.#members.value, user);
      if (problem) {
        this.#members.setCustomValidity(problem);
        this.#members.reportValidity();
        return;
      }
      try {
        const encrypted = hasKeys ? { encrypted: this.#encrypted.checked } : {};
        await create({ title: this.#title.value.trim(), members: ids, ...encrypted });
        this.#close();
      } catch (error) {
        this.#title.setCustomValidity((error as Error).message);
        this.#title.reportValidity();
      }
    };
    const cancel = () => {
      this.#close();
      this.#button.focus();
    };
    const keydown = (event: KeyboardEvent) => {
      if (event.key === "Escape") {
        // The chat stays open.
        event.stopPropagation();
        cancel();
      }
    };
    const buttons = h(
      "div",
      { class: "answers" },
      h("button", { type: "button", class: "link", click: cancel }, "Cancel"),
      h("button", { class: "filled" }, "Create"),
    );
    const name = { id, class: "new-group-form", "aria-label": "New group", hidden: true };
    const switches = hasKeys ? [h("label", {}, this.#encrypted, " Encrypted")] : [];
    this.#form = h("form", { ...name, submit, keydown }, this.#title, this.#members, ...switches, buttons);
    this.element = h("div", {}, this.#button, this.#form);
  }

  #open(): void {
    this.#show(true);
    this.#title.focus();
  }

  #close(): void {
    this.#show(false);
    this.#form.reset();
  }

  #show(isOpen: boolean): void {
    this.#form.hidden = !isOpen;
    this.#button.hidden = isOpen;
    put(this.#button, "aria-expanded", String(isOpen));
  }
}
