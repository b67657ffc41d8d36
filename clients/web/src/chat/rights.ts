// The rights of a user in a conversation, by its row. The server decides: an interface offers only what may succeed.

import type { Conversation } from "../frames.ts";
import { isService } from "../protocol.ts";
import type { ChatRow } from "./row.ts";

type Role = Conversation["role"];

/** Reports whether this role may do what admins do. */
export function moderates(role: Role | undefined): boolean {
  return role === "owner" || role === "admin";
}

/** Reports whether a member with the role `own` may remove a member with the role `other`. */
export function mayRemove(own: Role | undefined, other: Role | undefined): boolean {
  return own === "owner" || (own === "admin" && !moderates(other));
}

/** Reports whether the user may react there, and edit own messages. Only its own server writes as a service. */
export function mayReact({ isBlocked, isClosed, restrictedUntil, peerId }: ChatRow): boolean {
  const isHindered = isBlocked || isClosed || restrictedUntil !== undefined;
  return !isHindered && (peerId === undefined || !isService(peerId));
}

/** Reports whether the user may pin messages there: each of two, and who moderates a group or a channel. */
export function mayPin(row: ChatRow): boolean {
  return mayReact(row) && (row.kind === "direct" || moderates(row.role));
}

/** Reports whether the user may send messages there. */
export function mayWrite(row: ChatRow): boolean {
  const { post = row.kind === "channel" ? "admins" : "all" } = row.rules;
  return mayReact(row) && (row.kind === "direct" || post === "all" || moderates(row.role));
}
