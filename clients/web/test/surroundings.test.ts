import { afterEach, expect, it, vi } from "vitest";
import { watchSurroundings } from "../src/surroundings.ts";

afterEach(() => vi.unstubAllGlobals());

it("says when the page is visible again, the network has changed, or the page is back from the cache", () => {
  const document = Object.assign(new EventTarget(), { visibilityState: "hidden" });
  const window = new EventTarget();
  vi.stubGlobal("document", document);
  vi.stubGlobal("window", window);
  let changes: string[] = [];
  const unwatch = watchSurroundings({
    shown: () => changes.push("shown"),
    networkChanged: () => changes.push("network"),
  });
  const changedBy = (target: EventTarget, type: string, fields = {}) => {
    changes = [];
    target.dispatchEvent(Object.assign(new Event(type), fields));
    return changes.join();
  };
  expect(changedBy(document, "visibilitychange")).toBe("");
  document.visibilityState = "visible";
  expect(changedBy(document, "visibilitychange")).toBe("shown");
  expect(changedBy(window, "online")).toBe("network");
  expect(changedBy(window, "offline")).toBe("network");
  expect(changedBy(window, "pageshow", { persisted: false })).toBe("");
  expect(changedBy(window, "pageshow", { persisted: true })).toBe("shown");
  unwatch();
  for (const type of ["online", "offline", "pageshow"]) {
    expect(changedBy(window, type, { persisted: true })).toBe("");
  }
  expect(changedBy(document, "visibilitychange")).toBe("");
});
