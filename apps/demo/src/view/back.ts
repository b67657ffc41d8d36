// Back, of the browser or of a phone: from a chat to the list, where the page has room for one of the two.

interface Opened {
  /** The users whose chats are open, in the order of their opening. */
  open?: string[];
}

export class Back {
  #user: string;

  /** `leave`: the user goes back. */
  constructor(user: string, leave: () => void) {
    this.#user = user;
    addEventListener("popstate", ({ state }: PopStateEvent) => {
      if (!opened(state).includes(user)) {
        leave();
      }
    });
  }

  /** A chat covers the list now. */
  covered(): void {
    const users = opened(history.state);
    if (!users.includes(this.#user)) {
      history.pushState({ open: [...users, this.#user] } satisfies Opened, "");
    }
  }

  /** The list is shown again. */
  uncovered(): void {
    const users = opened(history.state);
    if (users.at(-1) === this.#user) {
      history.back();
    } else {
      history.replaceState({ open: users.filter((user) => user !== this.#user) } satisfies Opened, "");
    }
  }
}

function opened(state: unknown): string[] {
  return (state as Opened | null)?.open ?? [];
}
