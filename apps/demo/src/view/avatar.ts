import { h } from "./dom.ts";

/** A user's initial, in a colour of their own. */
export function avatar(user: string): HTMLElement {
  const [first = "?"] = user;
  const element = h("span", { class: "avatar", "aria-hidden": "true" }, first.toUpperCase());
  element.style.setProperty("--hue", String(hue(user)));
  return element;
}

export function hue(user: string): number {
  let hue = 0;
  for (const letter of user) {
    hue = (hue * 31 + letter.charCodeAt(0) * 47) % 360;
  }
  return hue;
}
