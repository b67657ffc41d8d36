// Refusals of the server and of the client, in the user's words. No DOM.

import type { AddResult, NewGroup, PigeonholeError } from "@pigeonhole/client";
import { list } from "./system.ts";

/** Explains why the server will never store a message, or a change of one. `message`: of the refusal, if it is known. */
export function reason(code: string, isChange: boolean, isDirect: boolean, what: string, message = ""): string {
  switch (code) {
    case "forbidden":
      return isChange || !isDirect ? "it is not allowed" : "it can’t be delivered";
    case "not_member":
      return isDirect ? "the server no longer has this chat" : `you are no longer in this ${what}`;
    case "limit_reached":
      return isChange ? "it has been changed too often" : message || "there is no room for more";
    case "too_large":
      return tooLarge(message);
    case "no_keys":
      return "the other user has no encryption yet, and this message leaves encrypted only";
    default:
      return message || code;
  }
}

/** Returns a limit that the server or the client names, in units that people use. */
function tooLarge(message: string): string {
  const [, limit, unit = ""] = /at most (\d+) (MiB|KiB)/.exec(message) ?? [];
  if (unit === "MiB") {
    return `the file is too large: up to ${limit} MB`;
  }
  return unit === "KiB" ? "it is too long: up to 16,000 letters, or 5,000 emoji" : message || "it is too large";
}

/** Explains why the server refused a new group. No text names the member at fault: a block stays secret. */
export function whyNotMade(error: PigeonholeError, { members }: NewGroup): string {
  if (error.code !== "forbidden" || members.length === 0) {
    return whyRefused(error);
  }
  return members.length === 1 ? `${members[0]} can’t be added` : `one of ${list(members)} can’t be added`;
}

/** Explains why the server refused a change of a group, or of the user’s settings. */
export function whyRefused(error: unknown): string {
  const { code, message } = error as PigeonholeError;
  const words: Record<string, string> = {
    forbidden: "it is not allowed",
    gone: "they are not in it",
    not_member: "you are no longer in it",
    limit_reached: "there is no room for more",
  };
  return words[code] ?? message;
}

/** Explains why the user could not join a channel, or come back to a group. */
export function whyNotJoined({ code, message }: PigeonholeError, isChannel: boolean): string {
  const words: Record<string, string> = {
    forbidden: "An admin removed you. Only an admin can add you",
    not_member: isChannel
      ? "There is no such channel, or its admins decide who joins"
      : "You can’t come back to this group",
    limit_reached: "You are in as many channels as one can be",
  };
  return words[code] ?? message;
}

/** Lists the users who could not be added, with the reasons; empty if there are none. */
export function notAdded(answer: unknown): string {
  const { not_added = [] } = (answer ?? {}) as Pick<AddResult, "not_added">;
  const words: Record<string, string> = {
    left: "left the group, and can come back",
    removed: "was removed: an admin can add them",
    limit_reached: "is in as many channels as others may add a user to",
  };
  return not_added.map(({ user_id, reason }) => `Not added: ${user_id} ${words[reason] ?? ""}`.trim()).join(" · ");
}
