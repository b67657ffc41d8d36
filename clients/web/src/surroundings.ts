// What the platform says about the page and the network.

/** Calls `changed` when the page is visible again or the network has changed, until the returned function is called. */
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
  // Restored from the browser's back/forward cache, where no socket stays open.
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
