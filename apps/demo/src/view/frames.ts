// The frames as they pass, the newest at the top.

import type { Passed } from "../network.ts";
import { h } from "./dom.ts";

const FRAMES_MAX = 200;

const clockFormat = new Intl.DateTimeFormat("en", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  hourCycle: "h23",
});

export class Frames {
  readonly element: HTMLDetailsElement;
  #rows = h("ol", { tabindex: 0, "aria-label": "Frames, newest first" });
  #count = h("span", { class: "count" });
  #passed = 0;

  constructor(isOpen: boolean, toggled: (isOpen: boolean) => void) {
    const summary = h("summary", { class: "frames-title" }, "Frames", this.#count);
    const toggle = () => toggled(this.element.open);
    this.element = h("details", { class: "frames", open: isOpen, toggle }, summary, this.#rows);
  }

  add({ at, way, text }: Passed): void {
    const row = h("li", { class: way }, h("time", {}, clockFormat.format(at)));
    if (way === "note") {
      row.append(h("span", { class: "note" }, text));
    } else {
      this.#passed += 1;
      row.append(frame(way, text));
    }
    this.#rows.prepend(row);
    while (this.#rows.childElementCount > FRAMES_MAX) {
      this.#rows.lastElementChild?.remove();
    }
    this.#count.textContent = String(this.#passed);
  }
}

/** Ids are long, and the fields after them matter more. */
function short(field: string, value: unknown): unknown {
  return field.endsWith("_id") && typeof value === "string" && value.length > 12 ? `${value.slice(0, 8)}…` : value;
}

/** One line, which opens to many. */
function frame(way: "in" | "out", text: string): HTMLElement {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    parsed = text;
  }
  const { action, type, ...rest } = parsed as { action?: string; type?: string };
  const name = [type, action].filter(Boolean).join(" ");
  const arrow = h("span", { class: "way", role: "img", "aria-label": way === "in" ? "received" : "sent" });
  const summary = h("summary", {}, arrow, h("b", {}, name), ` ${JSON.stringify(rest, short)}`);
  return h("details", {}, summary, h("pre", {}, JSON.stringify(parsed, null, 2)));
}
