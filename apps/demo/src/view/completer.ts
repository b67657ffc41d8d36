// Names of a group's members, while one writes "@" and how a name begins.

import type { Named } from "../mentions.ts";
import { avatar } from "./avatar.ts";
import { chooses, h, put } from "./dom.ts";

/** Names offered at most. */
const OFFERED_MAX = 6;

export class Completer {
  readonly element: HTMLElement;
  #field: HTMLTextAreaElement;
  #named: () => Named[];
  #offered: Named[] = [];
  #chosen = 0;
  /** How many there were to offer, when that was looked up last. */
  #known = 0;
  #id: string;

  constructor(user: string, field: HTMLTextAreaElement, named: () => Named[]) {
    this.#field = field;
    this.#named = named;
    this.#id = `names-${user}`;
    const name = { id: this.#id, class: "names", role: "listbox", "aria-label": "Members", hidden: true };
    this.element = h("ul", name);
    put(field, "aria-autocomplete", "list");
    put(field, "aria-controls", this.#id);
    field.addEventListener("input", () => this.#offer());
    field.addEventListener("blur", () => this.close());
  }

  /** Offers the members of the group after an "@". */
  update(): void {
    if (document.activeElement === this.#field && this.#named().length !== this.#known) {
      this.#offer();
    }
  }

  close(): void {
    this.#offered = [];
    this.#show();
  }

  /** Whether the key was for the names. */
  pressed(event: KeyboardEvent): boolean {
    const count = this.#offered.length;
    if (count === 0 || chooses(event)) {
      return false;
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      this.#chosen = (this.#chosen + step + count) % count;
      this.#show();
    } else if (event.key === "Enter" || event.key === "Tab") {
      this.#take(this.#offered[this.#chosen]);
    } else if (event.key === "Escape") {
      // The text and the chat stay.
      event.stopPropagation();
      this.close();
    } else {
      return false;
    }
    event.preventDefault();
    return true;
  }

  /** How the name begins that stands before the caret. */
  #begun(): string | undefined {
    const { value, selectionStart } = this.#field;
    return /(?:^|\s)@([!-~]*)$/.exec(value.slice(0, selectionStart))?.[1];
  }

  #offer(): void {
    const begun = this.#begun();
    const fits = ({ name }: Named) => begun !== undefined && name.toLowerCase().startsWith(begun.toLowerCase());
    const named = this.#named();
    this.#known = named.length;
    const offered = named.filter(fits).slice(0, OFFERED_MAX);
    // A name that is complete is not offered: Enter sends.
    this.#offered = offered.length === 1 && offered[0]?.name === begun ? [] : offered;
    this.#chosen = 0;
    this.#show();
  }

  #take(named: Named | undefined): void {
    const begun = this.#begun();
    if (named && begun !== undefined) {
      const { selectionStart } = this.#field;
      this.#field.setRangeText(`${named.name} `, selectionStart - begun.length, selectionStart, "end");
    }
    this.close();
    this.#field.focus();
  }

  #show(): void {
    const options = this.#offered.map((named, at) => {
      const option = h("li", { id: `${this.#id}-${at}`, role: "option" }, avatar(named.name), named.name);
      put(option, "aria-selected", String(at === this.#chosen));
      // Before the field loses the focus.
      option.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        this.#take(named);
      });
      return option;
    });
    this.element.replaceChildren(...options);
    this.element.hidden = options.length === 0;
    put(this.#field, "aria-activedescendant", options[this.#chosen]?.id);
  }
}
