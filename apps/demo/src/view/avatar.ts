import { h } from "./dom.ts";

/** A user's initial, in a colour of their own. */
export function avatar(user: string): HTMLElement {
  const [first = "?"] = user;
  const element = h("span", { class: "avatar", "aria-hidden": "true" }, first.toUpperCase());
  element.style.setProperty("--hue", String(hue(user)));
  return element;
}

/** Shows a number in a badge, with the words that a screen reader adds; nothing for 0. */
export function count(badge: Element | null, number: number, words: string, shown = String(number)): void {
  badge?.replaceChildren(...(number > 0 ? [shown, h("span", { class: "hidden" }, ` ${words}`)] : []));
}

export function hue(user: string): number {
  let hue = 0;
  for (const letter of user) {
    hue = (hue * 31 + letter.charCodeAt(0) * 47) % 360;
  }
  return hue;
}
