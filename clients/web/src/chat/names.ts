// The names of the users whom views show, by their profiles.

import { limits, type ProfilesResult, type System } from "../frames.ts";
import type { Item } from "./item.ts";
import type { ChatRow } from "./row.ts";

/** The known names of users. */
export type NamesOf = ReadonlyMap<string, string>;

/** The time in ms after which a shown profile is requested again. */
const FRESH = 24 * 60 * 60 * 1000;

/** The names that this client knows, for as long as it runs. */
export class Names {
  /** The app shows names. */
  #isOn = false;
  /** The server has profiles. `undefined`: unknown, on this connection. */
  #hasProfiles: boolean | undefined;
  #known = new Map<string, { name: string | undefined; at: number }>();
  /** Shown users whose name is unknown or old. */
  #wanted = new Set<string>();
  #isAsking = false;

  show(): void {
    this.#isOn = true;
  }

  /** Takes whether the server has profiles. `undefined`: the connection has ended. */
  setHasProfiles(hasProfiles: boolean | undefined): void {
    this.#hasProfiles = hasProfiles;
  }

  /** The user's profile has changed. */
  changed(user: string): void {
    if (this.#isOn) {
      this.#wanted.add(user);
    }
  }

  /** Returns the known names of shown users: `before`, if they are the same. The others are requested. */
  of(users: Iterable<string>, now: number, before: NamesOf | undefined): NamesOf | undefined {
    if (!this.#isOn) {
      return undefined;
    }
    const names = new Map<string, string>();
    for (const user of new Set(users)) {
      const known = this.#known.get(user);
      if (known === undefined || known.at + FRESH <= now) {
        this.#wanted.add(user);
      }
      if (known?.name !== undefined) {
        names.set(user, known.name);
      }
    }
    const isSame = before?.size === names.size && [...names].every(([user, name]) => before.get(user) === name);
    return isSame ? before : names;
  }

  /** Returns the next request. A further one waits for its reply, so that the users of several views share it. */
  due(): "features" | string[] | undefined {
    if (this.#wanted.size === 0 || this.#isAsking || this.#hasProfiles === false) {
      return undefined;
    }
    if (this.#hasProfiles === undefined) {
      this.#hasProfiles = false;
      return "features";
    }
    this.#isAsking = true;
    return [...this.#wanted].sort().slice(0, limits.PROFILES_MAX);
  }

  /** Takes the reply to a request for these users. */
  came(users: string[], { profiles, left }: ProfilesResult, at: number): void {
    this.#isAsking = false;
    const ofUsers = profiles.filter((profile) => "user_id" in profile);
    const found = new Map(ofUsers.map(({ user_id, name }) => [user_id, name]));
    for (const user of users.filter((user) => !left.includes(user))) {
      this.#wanted.delete(user);
      this.#known.set(user, { name: found.get(user), at });
    }
  }

  /** The server has not replied. The next connection requests the names. */
  lost(): void {
    this.#isAsking = false;
    this.#hasProfiles = false;
  }
}

/** Returns the users whom a row shows. */
export function usersOfRow({ peerId, typing, line }: ChatRow): string[] {
  const ofLine = line ? [line.senderId, ...(line.event ? usersOfEvent(line.event) : [])] : [];
  return [...(peerId === undefined ? [] : [peerId]), ...typing, ...ofLine];
}

/** Returns the users whom an item shows. */
export function usersOfItem(item: Item): string[] {
  switch (item.type) {
    case "system":
      return [item.senderId, ...usersOfEvent(item.event)];
    case "unreadable":
      return [item.senderId];
    case "message": {
      const replied = item.reply?.message?.sender_id;
      return [item.senderId, ...item.mentions, ...(replied === undefined ? [] : [replied])];
    }
    case "day":
    case "unread":
    case "gap":
      return [];
  }
}

function usersOfEvent(system: System): string[] {
  switch (system.event) {
    case "created":
    case "members.added":
    case "members.removed":
      return [...system.members];
    case "role.changed":
    case "member.restricted":
      return [system.user_id];
    default:
      // The others name no user, and nor do those of a later version.
      return [];
  }
}
