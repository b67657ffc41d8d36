/** Ignores a failure: the page repeats the request when the user opens the chat again. */
export function ignore(asked: Promise<void>): void {
  asked.catch(() => {});
}
