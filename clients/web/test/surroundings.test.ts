import { afterEach, expect, it, vi } from "vitest";
import { watchSurroundings } from "../src/surroundings.ts";

afterEach(() => vi.unstubAllGlobals());

it("says when the page is visible again, the network has changed, or the page is back from the cache", () => {
  const document = Object.assign(new EventTarget(), { visibilityState: "hidden" });
  const window = new EventTarget();
  vi.stubGlobal("document", document);
  vi.stubGlobal("window", window);
  let changes = 0;
  const unwatch = watchSurroundings(() => {
    changes += 1;
  });
  const changedBy = (target: EventTarget, type: string, fields = {}) => {
    const before = changes;
    target.dispatchEvent(Object.assign(new Event(type), fields));
    return changes - before;
  };
  expect(changedBy(document, "visibilitychange")).toBe(0);
  document.visibilityState = "visible";
  expect(changedBy(document, "visibilitychange")).toBe(1);
  expect(changedBy(window, "online")).toBe(1);
  expect(changedBy(window, "offline")).toBe(1);
  expect(changedBy(window, "pageshow", { persisted: false })).toBe(0);
  expect(changedBy(window, "pageshow", { persisted: true })).toBe(1);
  unwatch();
  for (const type of ["online", "offline", "pageshow"]) {
    expect(changedBy(window, type, { persisted: true })).toBe(0);
  }
  expect(changedBy(document, "visibilitychange")).toBe(0);
});
