// Menus for mouse, touch and keyboard: one below a button, and one next to the element that opens it.

import { h, type Icon, icon, put } from "./dom.ts";

export interface MenuItem {
  name: string;
  /** Shown in place of the name. */
  icon?: Icon;
  choose(): void;
  /** The item belongs to a set, of which at most one is chosen. */
  isChecked?: boolean;
}

/** Rows of choices, most with one item. Up and Down go from row to row, Left and Right within one. */
export class Choices {
  readonly element = h("div", { class: "menu-items", role: "menu", hidden: true });
  #rows: HTMLElement[][] = [];
  #returnFocus = () => {};
  #closed = () => {};

  constructor(name: string) {
    put(this.element, "aria-label", name);
    this.element.addEventListener("keydown", (event) => this.#typed(event));
  }

  #pressed = ({ target }: PointerEvent) => {
    // The button that opens the menu is its sibling.
    if (!this.element.parentElement?.contains(target as Node)) {
      this.close();
    }
  };

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  /** `returnFocus`: where the focus goes when something is chosen, or nothing by Escape. */
  open(rows: MenuItem[][], { returnFocus, closed }: { returnFocus(): void; closed(): void }): void {
    this.close();
    const choose = (item: MenuItem) => {
      this.close();
      returnFocus();
      item.choose();
    };
    this.#returnFocus = returnFocus;
    this.#closed = closed;
    this.#rows = rows.map((row) =>
      row.map((item) => {
        const { name, isChecked, icon: shape } = item;
        const role = isChecked === undefined ? "menuitem" : "menuitemradio";
        const button = h("button", { type: "button", role, tabindex: -1, click: () => choose(item) });
        button.append(shape ? icon(shape) : name);
        put(button, "aria-label", shape && name);
        put(button, "aria-checked", isChecked === undefined ? undefined : String(isChecked));
        return button;
      }),
    );
    const elements = this.#rows.map((row) =>
      row.length > 1 ? h("div", { class: "row", role: "group" }, ...row) : row,
    );
    this.element.replaceChildren(...elements.flat());
    this.element.hidden = false;
    document.addEventListener("pointerdown", this.#pressed);
    this.#rows[0]?.[0]?.focus({ preventScroll: true });
  }

  close(): void {
    if (this.isOpen) {
      this.element.hidden = true;
      document.removeEventListener("pointerdown", this.#pressed);
      this.#closed();
    }
  }

  #typed(event: KeyboardEvent): void {
    const focused = document.activeElement as HTMLElement;
    const at = this.#rows.findIndex((row) => row.includes(focused));
    const row = this.#rows[at] ?? [];
    const column = row.indexOf(focused);
    const inRow = (row: HTMLElement[] | undefined) => row?.[Math.min(column, row.length - 1)];
    const places: Record<string, HTMLElement | undefined> = {
      ArrowDown: inRow(this.#rows.at((at + 1) % this.#rows.length)),
      ArrowUp: inRow(this.#rows.at(at - 1)),
      ArrowRight: row.at((column + 1) % row.length),
      ArrowLeft: row.at(column - 1),
      Home: this.#rows[0]?.[0],
      End: this.#rows.at(-1)?.[0],
    };
    const next = places[event.key];
    if (next) {
      event.preventDefault();
      event.stopPropagation();
      next.focus();
    } else if (event.key === "Escape") {
      // Only the menu: the chat stays open.
      event.stopPropagation();
      this.close();
      this.#returnFocus();
    } else if (event.key === "Tab") {
      this.close();
    }
  }
}

/** A button with a menu below it. */
export class Menu {
  readonly element: HTMLElement;
  #items: () => MenuItem[];
  #button: HTMLButtonElement;
  #choices: Choices;

  /** `items`: what can be chosen, at each time it opens. */
  constructor(name: string, items: () => MenuItem[]) {
    this.#items = items;
    this.#choices = new Choices(name);
    const attributes = { type: "button", class: "button", "aria-label": name, "aria-haspopup": "menu" };
    this.#button = h("button", { ...attributes, click: () => this.#toggle() }, icon("more"));
    this.element = h("div", { class: "menu" }, this.#button, this.#choices.element);
  }

  close(): void {
    this.#choices.close();
  }

  #toggle(): void {
    if (this.#choices.isOpen) {
      this.close();
      return;
    }
    const rows = this.#items().map((item) => [item]);
    const closed = () => put(this.#button, "aria-expanded", "false");
    this.#choices.open(rows, { returnFocus: () => this.#button.focus(), closed });
    put(this.#button, "aria-expanded", "true");
  }
}

/** From the edge of the window. */
const MARGIN_PX = 8;
const GAP_PX = 4;

/** Puts an element below another one, or above it where there is no room, and always inside the window. */
export function place(element: HTMLElement, anchor: Element, isAtEnd: boolean): void {
  const { top, bottom, left, right } = anchor.getBoundingClientRect();
  const { width, height } = element.getBoundingClientRect();
  const within = (wanted: number, max: number) => Math.max(MARGIN_PX, Math.min(wanted, max - MARGIN_PX));
  const below = bottom + GAP_PX;
  const y = below + height > innerHeight - MARGIN_PX ? top - GAP_PX - height : below;
  element.style.left = `${within(isAtEnd ? right - width : left, innerWidth - width)}px`;
  element.style.top = `${within(y, innerHeight - height)}px`;
}
