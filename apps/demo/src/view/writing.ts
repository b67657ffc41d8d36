// Names of typing users.

import type { Chat } from "../chat.ts";
import { list } from "../system.ts";

/** More than these are "several". */
const NAMED_MAX = 2;

/** Returns an empty text if no user types. */
export function writes(chat: Chat): string {
  const users = chat.writing();
  if (users.length === 0 || !chat.isGroup) {
    return users.length === 0 ? "" : "typing …";
  }
  if (users.length > NAMED_MAX) {
    return "several people are typing …";
  }
  return `${list(users)} ${users.length === 1 ? "is" : "are"} typing …`;
}
