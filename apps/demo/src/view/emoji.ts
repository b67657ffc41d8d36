// A menu of emoji, to write one or to react with one.

import { h } from "./dom.ts";
import { Choices, place } from "./menu.ts";

const EMOJI =
  "😀 😄 😁 😅 😂 🙂 😉 😊 😍 😘 😎 🤔 😐 🙄 😬 😴 😮 😢 😭 😡 🤯 🥳 🤗 🤫 👍 👎 👌 ✌️ 🤞 👏 🙌 🙏 💪 👋 🤝 🤷 ❤️ 🧡 💛 💚 💙 💜 💔 💯 🎉 🎂 🎁 🔥 ⭐ ☀️ 🌧️ ❄️ 🌈 🌻 🍀 🐶 🐱 🍎 🍕 ☕ 🍺 🥂 ⚽ 🚲 🚗 🚆 ✈️ 🏠 💡 📷 ✅ ❌";
const COLUMNS = 8;

export class EmojiMenu {
  readonly element: HTMLElement;
  #choices = new Choices("Emoji");

  constructor() {
    this.element = h("div", { class: "message-menu emoji-menu", popover: "manual" }, this.#choices.element);
  }

  /** Opens the menu next to an element. `returnFocus`: where the focus goes afterwards. */
  open(anchor: Element, { choose, returnFocus }: { choose(emoji: string): void; returnFocus(): void }): void {
    this.close();
    const items = EMOJI.split(" ").map((name) => ({ name, choose: () => choose(name) }));
    const rows = Array.from({ length: items.length / COLUMNS }, (_, at) =>
      items.slice(at * COLUMNS, (at + 1) * COLUMNS),
    );
    this.element.showPopover();
    this.#choices.open(rows, { returnFocus, closed: () => this.element.hidePopover() });
    place(this.element, anchor, false);
  }

  close(): void {
    this.#choices.close();
  }
}
