// Elements of both parts of the console.

import { h } from "../view/dom.ts";

/** A time in UTC, as logs have it, to the second. */
export function utc(time: string | null | undefined): string {
  return time ? time.slice(0, 19).replace("T", " ") : "";
}

export function table(caption: string, headings: string[], rows: (Node | string)[][]): HTMLElement {
  if (rows.length === 0) {
    return h("p", {}, `${caption}: none.`);
  }
  const head = h("tr", {}, ...headings.map((heading) => h("th", { scope: "col" }, heading)));
  const body = rows.map((cells) => h("tr", {}, ...cells.map((cell) => h("td", {}, cell))));
  const content = h("table", {}, h("caption", {}, caption), h("thead", {}, head), h("tbody", {}, ...body));
  return h("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": caption }, content);
}

export function field(label: string, attributes: Record<string, string | boolean>): [HTMLElement, HTMLInputElement] {
  const input = h("input", { autocomplete: "off", ...attributes });
  return [h("label", {}, label, input), input];
}

/** Where a part of the page shows what came of the last request. */
export class Outcome {
  readonly root = h("p", { class: "outcome", role: "status" });

  /** Runs a request. Its text is shown, or its failure. */
  async of(run: () => Promise<string>): Promise<void> {
    this.root.classList.remove("failed");
    this.root.textContent = "…";
    try {
      this.root.textContent = await run();
    } catch (error) {
      this.root.classList.add("failed");
      this.root.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  button(label: string, run: () => Promise<string>): HTMLButtonElement {
    return h("button", { class: "filled", type: "button", click: () => void this.of(run) }, label);
  }
}
