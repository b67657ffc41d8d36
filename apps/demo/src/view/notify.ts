// Notifications of the browser, for messages that the user can't see on the page.

import { h, icon } from "./dom.ts";

const isPossible = "Notification" in globalThis;

/** A button that asks for the permission, until there is a decision. */
export function permission(): HTMLElement {
  const click = async () => {
    button.hidden = (await Notification.requestPermission()) !== "default";
  };
  const button = h("button", { type: "button", class: "link notify", click }, icon("bell"), "Notify me");
  button.hidden = !isPossible || Notification.permission !== "default";
  return button;
}

/** Shows a notification, which replaces the last one of that `tag`. */
export function notify({ title, body, tag, open }: { title: string; body: string; tag: string; open(): void }): void {
  if (!isPossible || Notification.permission !== "granted") {
    return;
  }
  try {
    const notification = new Notification(title, { body, tag });
    notification.addEventListener("click", () => {
      window.focus();
      notification.close();
      open();
    });
  } catch {
    // Browsers of phones show only those of a service worker.
  }
}
