// The form for the hours in which this user's phone is quiet.

import { ButtonForm } from "./button-form.ts";
import { h } from "./dom.ts";

/** `HH:MM`, by the clock of this device. */
export interface Hours {
  from: string;
  to: string;
}

/** `set`: `undefined` ends them. */
export function quietHours(
  user: string,
  hours: Hours | undefined,
  set: (hours: Hours | undefined) => Promise<void>,
): HTMLElement {
  const time = (name: string, value: string) => h("input", { type: "time", "aria-label": name, required: true, value });
  const from = time("Quiet from", hours?.from ?? "22:00");
  const to = time("Quiet until", hours?.to ?? "07:00");
  const name = (shown: Hours | undefined) => {
    form.button.textContent = shown ? `Quiet ${shown.from}–${shown.to}` : "Quiet hours";
  };
  const choose = (chosen: Hours | undefined) => void form.change(set(chosen).then(() => name(chosen)));
  const submit = () => choose({ from: from.value, to: to.value });
  const end = h("button", { type: "button", class: "link", click: () => choose(undefined) }, "Always ring");
  const save = h("button", { class: "filled" }, "Set");
  const form: ButtonForm = new ButtonForm(`quiet-${user}`, "Quiet hours", [from, to], { submit }, end, save);
  name(hours);
  return form.element;
}
