// What the platform tells of the app's surroundings.

/** Calls `changed` when the page is visible again or the network has changed, until what it gives is called. */
export function watchSurroundings(changed: () => void): () => void {
  const { window, document } = globalThis as Partial<typeof globalThis>;
  // React Native has a window without events, Node none.
  if (typeof window?.addEventListener !== "function" || typeof document?.addEventListener !== "function") {
    return () => {};
  }
  const shown = () => {
    if (document.visibilityState === "visible") {
      changed();
    }
  };
  // Back from the browser's cache of pages, where no socket stays open.
  const restored = ({ persisted }: PageTransitionEvent) => {
    if (persisted) {
      changed();
    }
  };
  document.addEventListener("visibilitychange", shown);
  window.addEventListener("online", changed);
  window.addEventListener("offline", changed);
  window.addEventListener("pageshow", restored);
  return () => {
    document.removeEventListener("visibilitychange", shown);
    window.removeEventListener("online", changed);
    window.removeEventListener("offline", changed);
    window.removeEventListener("pageshow", restored);
  };
}
