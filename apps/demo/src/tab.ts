// State of this tab, which survives a reload.

/** A page that is being reloaded releases its locks within this. */
const RELOAD_MS_MAX = 2000;

/** A value that only this tab sees. */
export function kept(name: string): { get(): string | null; set(value: string | undefined): void } {
  return {
    get: () => sessionStorage.getItem(name),
    set: (value) => (value === undefined ? sessionStorage.removeItem(name) : sessionStorage.setItem(name, value)),
  };
}

/**
 * The name of the user's first storage that no other tab uses: `alice 1`. A tab keeps its own over reloads; one that is closed
 * leaves it, with what is in its outbox, to the next.
 */
export async function takeStorage(user: string): Promise<string> {
  const last = kept(`storage of ${user}`);
  const before = last.get();
  if (before && (await hold(before, { signal: AbortSignal.timeout(RELOAD_MS_MAX) }))) {
    return before;
  }
  for (let number = 1; ; number += 1) {
    const name = `${user} ${number}`;
    if (await hold(name, { ifAvailable: true })) {
      last.set(name);
      return name;
    }
  }
}

/** Takes a lock for as long as the page lives. */
function hold(name: string, options: LockOptions): Promise<boolean> {
  return new Promise((resolve) => {
    const taken = (lock: Lock | null) => {
      resolve(lock !== null);
      return lock ? new Promise<never>(() => {}) : undefined;
    };
    navigator.locks.request(`demo: ${name}`, options, taken).catch(() => resolve(false));
  });
}
