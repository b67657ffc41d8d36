// A button with a menu below it, for mouse, touch and keyboard.

import { h, icon, put } from "./dom.ts";

export interface MenuItem {
  name: string;
  choose(): void;
}

export class Menu {
  readonly element: HTMLElement;
  #items: () => MenuItem[];
  #button: HTMLButtonElement;
  #list = h("div", { class: "menu-items", role: "menu", hidden: true });

  /** `items`: what can be chosen, at each time it opens. */
  constructor(name: string, items: () => MenuItem[]) {
    this.#items = items;
    const toggle = () => (this.#list.hidden ? this.#open() : this.close());
    const attributes = { type: "button", class: "button", "aria-label": name, "aria-haspopup": "menu", click: toggle };
    this.#button = h("button", attributes, icon("more"));
    put(this.#list, "aria-label", name);
    const typed = (event: KeyboardEvent) => this.#typed(event);
    this.element = h("div", { class: "menu", keydown: typed }, this.#button, this.#list);
    document.addEventListener("pointerdown", ({ target }) => {
      if (!this.element.contains(target as Node)) {
        this.close();
      }
    });
  }

  close(): void {
    this.#list.hidden = true;
    put(this.#button, "aria-expanded", "false");
  }

  #open(): void {
    const choose = (item: MenuItem) => {
      this.close();
      this.#button.focus();
      item.choose();
    };
    const buttons = this.#items().map((item) =>
      h("button", { type: "button", role: "menuitem", tabindex: -1, click: () => choose(item) }, item.name),
    );
    this.#list.replaceChildren(...buttons);
    this.#list.hidden = false;
    put(this.#button, "aria-expanded", "true");
    buttons[0]?.focus();
  }

  #typed(event: KeyboardEvent): void {
    if (this.#list.hidden) {
      return;
    }
    const items = [...this.#list.children] as HTMLElement[];
    const at = items.indexOf(document.activeElement as HTMLElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      items.at(next % items.length)?.focus();
    } else if (event.key === "Escape") {
      // Only the menu: the chat stays open.
      event.stopPropagation();
      this.close();
      this.#button.focus();
    } else if (event.key === "Tab") {
      this.close();
    }
  }
}
