// Which items were on the screen.

import type { Item } from "@pigeonhole/client";
import { useEffect, useMemo } from "react";
import { useChat } from "./context.ts";

/** An item is seen after this time on the screen, in milliseconds. */
const SEEN_AFTER = 300;

type Ref = (element: Element | null) => void;

/**
 * Returns a function that gives each item its `ref`: the same function for the same key, so that a render observes
 * nothing anew. An item is seen after 300 ms on a visible page: half of the item, or an item that fills half of the
 * screen. The client marks it as read, with all unread messages before it.
 */
export function useSeen(id: string): (item: Pick<Item, "key">) => Ref {
  const chat = useChat(id);
  const screen = useMemo(() => new OnScreen((key) => chat?.seen(key)), [chat]);
  useEffect(() => screen.begin(), [screen]);
  return screen.ref;
}

class OnScreen {
  #seen: (key: string) => void;
  #refs = new Map<string, Ref>();
  #keys = new Map<Element, string>();
  /** The timers of the visible elements that are not seen yet. */
  #timers = new Map<Element, ReturnType<typeof setTimeout>>();
  /** The elements that were visible long enough, while the page was hidden. */
  #waiting = new Set<Element>();
  #observer: IntersectionObserver | undefined;

  constructor(seen: (key: string) => void) {
    this.#seen = seen;
  }

  readonly ref = ({ key }: Pick<Item, "key">): Ref => {
    const ref = this.#refs.get(key) ?? this.#make(key);
    this.#refs.set(key, ref);
    return ref;
  };

  #make(key: string): Ref {
    let before: Element | undefined;
    return (element) => {
      if (before) {
        this.#leave(before);
        this.#keys.delete(before);
        this.#observer?.unobserve(before);
      }
      before = element ?? undefined;
      if (element) {
        this.#keys.set(element, key);
        this.#observer?.observe(element);
      }
    };
  }

  /** Observes all elements, until the returned function is called. */
  begin(): () => void {
    if (typeof IntersectionObserver === "undefined") {
      return () => {};
    }
    const observer = new IntersectionObserver((entries) => this.#changed(entries), {
      // A tall item fills half of the screen at any of these.
      threshold: [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5],
    });
    this.#observer = observer;
    for (const element of this.#keys.keys()) {
      observer.observe(element);
    }
    const shown = () => {
      if (document.visibilityState === "visible") {
        const waiting = [...this.#waiting];
        this.#waiting.clear();
        for (const element of waiting) {
          this.#enter(element);
        }
      }
    };
    document.addEventListener("visibilitychange", shown);
    return () => {
      document.removeEventListener("visibilitychange", shown);
      observer.disconnect();
      this.#observer = undefined;
      for (const element of [...this.#timers.keys(), ...this.#waiting]) {
        this.#leave(element);
      }
    };
  }

  #changed(entries: readonly IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting, intersectionRatio, intersectionRect, rootBounds } of entries) {
      const fills = rootBounds !== null && intersectionRect.height >= rootBounds.height / 2;
      if (isIntersecting && (intersectionRatio >= 0.5 || fills)) {
        this.#enter(target);
      } else {
        this.#leave(target);
      }
    }
  }

  #enter(element: Element): void {
    if (!this.#timers.has(element)) {
      this.#timers.set(
        element,
        setTimeout(() => this.#look(element), SEEN_AFTER),
      );
    }
  }

  #leave(element: Element): void {
    clearTimeout(this.#timers.get(element));
    this.#timers.delete(element);
    this.#waiting.delete(element);
  }

  #look(element: Element): void {
    const key = this.#keys.get(element);
    this.#timers.delete(element);
    if (document.visibilityState !== "visible") {
      this.#waiting.add(element);
    } else if (key !== undefined) {
      this.#seen(key);
    }
  }
}
