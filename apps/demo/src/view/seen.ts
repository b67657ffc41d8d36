// Tells which messages the user has seen: half of one, or half of the screen filled by it, for a moment.

/** The user does not see a message in less. */
const SEEN_MS = 300;
const STEPS = Array.from({ length: 21 }, (_, at) => at / 20);

export class Seen {
  #observer: IntersectionObserver;
  #visible = new Set<Element>();
  #seen: (element: HTMLElement) => void;

  /** `seen` gets the last element of those that were seen together. */
  constructor(root: HTMLElement, seen: (element: HTMLElement) => void) {
    this.#seen = seen;
    const options = { root, threshold: STEPS };
    this.#observer = new IntersectionObserver((entries) => this.#changed(entries), options);
    document.addEventListener("visibilitychange", () => this.#begin([...this.#visible]));
  }

  add(element: HTMLElement): void {
    this.#observer.observe(element);
  }

  #changed(entries: IntersectionObserverEntry[]): void {
    const came = [];
    for (const { target, intersectionRatio, intersectionRect, rootBounds } of entries) {
      const isFull = intersectionRect.height >= (rootBounds?.height ?? 0) / 2;
      if (!target.isConnected) {
        this.#observer.unobserve(target);
      }
      if (target.isConnected && intersectionRect.height > 0 && (intersectionRatio >= 0.5 || isFull)) {
        came.push(...(this.#visible.has(target) ? [] : [target]));
        this.#visible.add(target);
      } else {
        this.#visible.delete(target);
      }
    }
    this.#begin(came);
  }

  #begin(came: Element[]): void {
    if (came.length === 0 || document.visibilityState !== "visible") {
      return;
    }
    setTimeout(() => {
      const stayed = came.filter((element) => this.#visible.has(element) && element.isConnected) as HTMLElement[];
      const last = stayed.reduce<HTMLElement | undefined>((last, element) => {
        const isLater = !last || last.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING;
        return isLater ? element : last;
      }, undefined);
      if (last && document.visibilityState === "visible") {
        this.#seen(last);
      }
    }, SEEN_MS);
  }
}
