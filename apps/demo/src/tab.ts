// State of this tab, which survives a reload.

/** A value that only this tab sees. */
export function kept(name: string): { get(): string | null; set(value: string | undefined): void } {
  return {
    get: () => sessionStorage.getItem(name),
    set: (value) => (value === undefined ? sessionStorage.removeItem(name) : sessionStorage.setItem(name, value)),
  };
}
