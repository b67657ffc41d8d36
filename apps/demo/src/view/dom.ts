// The little that the page needs to make elements.

type Value = string | number | boolean | undefined | ((event: never) => void);

/** An element. Functions among the attributes are listeners. Texts are never parsed as HTML. */
export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Record<string, Value> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name, value as EventListener);
    } else {
      put(element, name, value);
    }
  }
  element.append(...children);
  return element;
}

/** Sets an attribute, or takes it away. */
export function put(element: Element, name: string, value: string | number | boolean | undefined): void {
  if (value === undefined || value === false) {
    element.removeAttribute(name);
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** The key code of an input method's key events. */
const OF_INPUT_METHOD = 229;

/** Reports whether the key chooses a character of an input method. Safari ends the composition before that key. */
export function chooses({ isComposing, keyCode }: KeyboardEvent): boolean {
  return isComposing || keyCode === OF_INPUT_METHOD;
}

export interface Item {
  /** Its element is kept as long as there is one with this key. */
  key: string;
  /** As long as these are the same, the element is not updated. */
  of?: readonly unknown[];
  create(): HTMLElement;
  update?(element: HTMLElement): void;
}

/** The content of each element. */
const drawn = new WeakMap<HTMLElement, readonly unknown[]>();

/**
 * Makes these the children of an element, in this order, and leaves existing ones alone. Items with equal keys get an
 * element each.
 */
export function fill(parent: Element, all: Item[]): void {
  const focused = document.activeElement;
  const items = withOwnKeys(all);
  const keys = new Set(items.map(({ key }) => key));
  const there = new Map<string, HTMLElement>();
  for (const child of [...parent.children] as HTMLElement[]) {
    const { key } = child.dataset;
    if (key !== undefined && keys.has(key)) {
      there.set(key, child);
    } else {
      child.remove();
    }
  }
  let next = parent.firstElementChild;
  for (const { key, of, create, update } of items) {
    let element = there.get(key);
    if (!element) {
      element = create();
      element.dataset.key = key;
    }
    const before = drawn.get(element);
    if (!of || !before || of.some((value, at) => value !== before[at])) {
      drawn.set(element, of ?? []);
      update?.(element);
    }
    if (element === next) {
      next = next.nextElementSibling;
    } else {
      parent.insertBefore(element, next);
    }
  }
  // An element that is moved loses its focus.
  if (focused instanceof HTMLElement && focused !== document.activeElement && parent.contains(focused)) {
    focused.focus({ preventScroll: true });
  }
}

function withOwnKeys(items: Item[]): Item[] {
  const counts = new Map<string, number>();
  return items.map((item) => {
    const count = counts.get(item.key) ?? 0;
    counts.set(item.key, count + 1);
    return count === 0 ? item : { ...item, key: `${item.key}\n${count}` };
  });
}

const SVG = "http://www.w3.org/2000/svg";

export type Icon = keyof typeof strokes;

/** An icon of strokes, 20 by 20. */
export function icon(name: Icon): SVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", `icon ${name}`);
  for (const stroke of strokes[name]) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", stroke);
    svg.append(path);
  }
  return svg;
}

const strokes = {
  back: ["M12.5 4.5 7 10l5.5 5.5"],
  down: ["M4.5 7.5 10 13l5.5-5.5"],
  send: ["M10 16V4.5", "M5 9.5 10 4.5l5 5"],
  open: ["M8 4.5H4.5v11h11V12", "M11.5 4.5h4v4", "M15.5 4.5 9.5 10.5"],
  close: ["m5 5 10 10", "M15 5 5 15"],
  more: ["M10 4.9v.2", "M10 9.9v.2", "M10 14.9v.2"],
  pin: ["M7 3.5h6", "M8 3.5v5.3l-2.5 3.7h9L12 8.8V3.5", "M10 12.5v4.5"],
  muted: ["M5.5 13.5V9a4.5 4.5 0 0 1 9 0v4.5", "M3.5 13.5h13", "M8.5 16.5h3", "m3.5 3.5 13 13"],
  group: [
    "M7.5 9.5a2.7 2.7 0 1 0 0-5.4 2.7 2.7 0 0 0 0 5.4",
    "M2.5 16c0-2.8 2.2-4.4 5-4.4s5 1.6 5 4.4",
    "M13 4.3a2.7 2.7 0 0 1 0 5",
    "M14.8 12c1.7.6 2.7 2 2.7 4",
  ],
  channel: ["M4 8v4h2.5l7 3.5v-11L6.5 8Z", "M7 12.2V15h2.5v-1.6", "M16 8.3c.7 1 .7 2.4 0 3.4"],
  shop: ["M4 8.5V16h12V8.5", "M2.8 8.5 4.5 4h11l1.7 4.5Z", "M8.2 16v-4h3.6v4"],
  clip: [
    "m15.5 9.5-5.8 5.8a3.3 3.3 0 0 1-4.7-4.7l6.3-6.3a2.2 2.2 0 0 1 3.1 3.1l-6.2 6.2a1.1 1.1 0 0 1-1.6-1.6l5.5-5.4",
  ],
  microphone: [
    "M10 3a2.2 2.2 0 0 0-2.2 2.2v4.6a2.2 2.2 0 0 0 4.4 0V5.2A2.2 2.2 0 0 0 10 3",
    "M5 9.5a5 5 0 0 0 10 0",
    "M10 14.5V17",
  ],
  smile: ["M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14", "M6.8 11.5c1.4 2.6 5 2.6 6.4 0", "M7.6 8v.2", "M12.4 8v.2"],
  bell: ["M5.5 13.5V9a4.5 4.5 0 0 1 9 0v4.5", "M3.5 13.5h13", "M8.5 16.5h3"],
  locked: ["M5 9h10v7.5H5Z", "M7 9V6.5a3 3 0 0 1 6 0V9"],
  unlocked: ["M5 9h10v7.5H5Z", "M7 9V6.5a3 3 0 0 1 5.8-1"],
  search: ["M8.8 3.8a5 5 0 1 0 0 10 5 5 0 0 0 0-10", "m12.6 12.6 3.9 3.9"],
  file: ["M6 3h5.5L15 6.5V17H6Z", "M11.5 3v3.5H15"],
  play: ["M7 4.5v11l8.5-5.5Z"],
  pause: ["M7.5 5v10", "M12.5 5v10"],
  plus: ["M10 4.5v11", "M4.5 10h11"],
  waiting: ["M10 3.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13", "M10 6.5V10l2.5 1.5"],
  failed: ["M10 3.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13", "M10 6.5v4", "M10 13.2v.1"],
  stored: ["m5 10.5 3.5 3.5L16 6"],
  delivered: ["m1.5 10.5 3.5 3.5L12.5 6", "m9 13.2.8.8L17.5 6"],
  read: ["m1.5 10.5 3.5 3.5L12.5 6", "m9 13.2.8.8L17.5 6"],
};
