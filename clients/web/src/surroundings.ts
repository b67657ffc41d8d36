// Events of the platform about the page and the network.

export interface Surroundings {
  /** The page is visible again. */
  shown(): void;
  networkChanged(): void;
}

/** Reports changes until the returned function is called. */
export function watchSurroundings({ shown: wasShown, networkChanged }: Surroundings): () => void {
  const { window, document } = globalThis as Partial<typeof globalThis>;
  // React Native has a window without events, Node none.
  if (typeof window?.addEventListener !== "function" || typeof document?.addEventListener !== "function") {
    return () => {};
  }
  const shown = () => {
    if (document.visibilityState === "visible") {
      wasShown();
    }
  };
  // Restored from the browser's back/forward cache, where no socket stays open.
  const restored = ({ persisted }: PageTransitionEvent) => {
    if (persisted) {
      wasShown();
    }
  };
  document.addEventListener("visibilitychange", shown);
  window.addEventListener("online", networkChanged);
  window.addEventListener("offline", networkChanged);
  window.addEventListener("pageshow", restored);
  return () => {
    document.removeEventListener("visibilitychange", shown);
    window.removeEventListener("online", networkChanged);
    window.removeEventListener("offline", networkChanged);
    window.removeEventListener("pageshow", restored);
  };
}
