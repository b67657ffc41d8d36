// A picture, as large as the window.

import { h, icon } from "./dom.ts";

export class Lightbox {
  readonly element: HTMLDialogElement;
  #picture = h("img", { alt: "" });
  #save = h("a", { class: "button", "aria-label": "Save the picture", download: "photo" }, icon("down"));

  constructor() {
    const close = { type: "button", class: "button", "aria-label": "Close", click: () => this.element.close() };
    const tools = h("div", { class: "tools" }, this.#save, h("button", close, icon("close")));
    this.element = h("dialog", { class: "lightbox", "aria-label": "Picture" }, tools, this.#picture);
    // The chat stays open.
    this.element.addEventListener("keydown", (event) => event.stopPropagation());
    this.element.addEventListener("click", ({ target }) => target === this.element && this.element.close());
  }

  show(url: string, alt: string): void {
    this.#picture.src = url;
    this.#picture.alt = alt;
    this.#save.href = url;
    this.element.showModal();
  }
}
