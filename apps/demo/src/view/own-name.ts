// The form for the name that others see of this user.

import { limits } from "@pigeonhole/client";
import { ButtonForm } from "./button-form.ts";
import { h } from "./dom.ts";

/** `name`: the present one. `set`: an empty name removes it. */
export function ownName(user: string, name: () => string, set: (name: string) => Promise<void>): HTMLElement {
  const field = h("input", { "aria-label": "Your name", maxlength: limits.TITLE_CHARS_MAX, autocomplete: "off" });
  const open = () => {
    field.value = name();
  };
  const submit = () => void form.change(set(field.value.trim()));
  const cancel = h("button", { type: "button", class: "link", click: () => form.show(false) }, "Cancel");
  const save = h("button", { class: "filled" }, "Save");
  const form: ButtonForm = new ButtonForm(`name-${user}`, "Your name", [field], { open, submit }, cancel, save);
  return form.element;
}
