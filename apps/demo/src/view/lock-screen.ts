// The lock screen of a phone in a pocket.

import type { LockScreen as Shown } from "../phone.ts";
import { fill, h } from "./dom.ts";
import { clock } from "./time.ts";

const ICON = new URL("../../icon.svg", import.meta.url).href;
/** How often the clock is set. */
const CLOCK_MS = 1000;

export class LockScreen {
  readonly element: HTMLElement;
  #open: (conversation: string, title: string) => void;
  #time = h("p", { class: "clock", "aria-hidden": "true" });
  #badge = h("span", { class: "badge" });
  #app = h("span", { class: "app", role: "img" }, h("img", { src: ICON, alt: "", width: 30, height: 30 }), this.#badge);
  #nothing: HTMLElement;
  #notifications = h("ul", { "aria-label": "Notifications", "aria-live": "polite" });
  #timer: ReturnType<typeof setInterval> | undefined;

  /** `open`: the user touches a notification. */
  constructor(user: string, open: (conversation: string, title: string) => void) {
    this.#open = open;
    this.#nothing = h("p", { class: "nothing" }, `A message to ${user} appears here within seconds.`);
    this.element = h(
      "aside",
      { class: "phone", "aria-label": `${user}’s phone, locked`, hidden: true },
      h("div", { class: "wallpaper" }, this.#time, this.#app),
      h("div", { class: "rung" }, this.#nothing, this.#notifications),
    );
    this.show({ badge: 0, notifications: [] });
  }

  lock(isLocked: boolean): void {
    if (this.element.hidden !== isLocked) {
      return;
    }
    this.element.hidden = !isLocked;
    clearInterval(this.#timer);
    if (isLocked) {
      this.#tick();
      this.#timer = setInterval(() => this.#tick(), CLOCK_MS);
    }
  }

  show({ badge, notifications }: Shown): void {
    const items = notifications.map(({ conversation_id, seq, title, body, at }) => ({
      // A notification that replaces another one has another key, and so appears again.
      key: `${conversation_id} ${seq}`,
      create: () => {
        const touched = () => this.#open(conversation_id, title);
        const time = h("time", {}, clock(Date.parse(at)));
        const text = h("span", { class: "text", dir: "auto" }, body);
        const button = h("button", { type: "button", click: touched }, h("strong", { dir: "auto" }, title), time, text);
        return h("li", {}, button);
      },
    }));
    fill(this.#notifications, items);
    this.#nothing.hidden = items.length > 0;
    this.#badge.textContent = badge > 0 ? String(badge) : "";
    this.#app.ariaLabel = `Pigeonhole, ${badge} unread`;
  }

  #tick(): void {
    this.#time.textContent = clock(Date.now());
  }
}
