// The names of users, for all panes of the page.

const known = new Map<string, string>();
/** The names that users have set here. Views of other users have the one before, up to a day. */
const own = new Map<string, string>();

/** Takes the names that a view has. */
export function learn(names: ReadonlyMap<string, string> | undefined): void {
  for (const [user, name] of names ?? []) {
    known.set(user, name);
  }
}

/** Takes a name that the user has set on this page. */
export function rename(user: string, name: string): void {
  own.set(user, name);
}

/** Returns the name that the user has set, as far as it is known here. */
export function ownNameOf(user: string): string {
  return own.get(user) ?? known.get(user) ?? "";
}

/** Returns what the user is called: by the id without a name. */
export function called(user: string): string {
  return (own.get(user) ?? known.get(user)) || user;
}
