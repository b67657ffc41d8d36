// Rows of the chat list, in words. No DOM.

import { type ChatRow, isService, mayWrite } from "@pigeonhole/client";
import { called } from "./names.ts";
import { said } from "./said.ts";
import { list, sentence } from "./system.ts";
import { moment } from "./view/time.ts";

/** Replaces a deleted text. */
export const DELETED = "This message was deleted";

export function nameOf({ kind, peerId, title }: ChatRow): string {
  return (peerId === undefined ? title : called(peerId)) ?? (kind === "channel" ? "Channel" : "Group");
}

/** Names the kind for its members. */
export function whatOf({ kind }: ChatRow): "group" | "channel" {
  return kind === "channel" ? "channel" : "group";
}

/** Reports whether only a team’s own server writes there. */
export function isOfService({ peerId }: ChatRow): boolean {
  return peerId !== undefined && isService(peerId);
}

/** Why nothing can be written there, or nothing. */
export function whyNot(row: ChatRow): string {
  const what = whatOf(row);
  if (row.isBlocked) {
    return `You have blocked ${called(row.peerId ?? "")}.`;
  }
  if (isOfService(row)) {
    return `Only ${called(row.peerId ?? "")} sends messages here.`;
  }
  if (row.isClosed) {
    return `You are no longer in this ${what}.`;
  }
  if (isUnmade(row)) {
    return row.failed === undefined ? `The ${what} is not created yet.` : `The ${what} was not created.`;
  }
  if (row.restrictedUntil !== undefined) {
    return row.restrictedUntil === "forever"
      ? `You can only read in this ${what}.`
      : `You can only read in this ${what} until ${moment(row.restrictedUntil)}.`;
  }
  return mayWrite(row) ? "" : `Only admins ${what === "channel" ? "post" : "write"} in this ${what}.`;
}

/** Reports whether the server has not created the group yet. */
export function isUnmade({ kind, conversationId }: ChatRow): boolean {
  return kind !== "direct" && conversationId === undefined;
}

/** Returns the last message, with its author in a group; or the text that the user has begun. */
export function lineOf(row: ChatRow, me: string, isOpen: boolean): string {
  const { line, draft, kind } = row;
  if (draft?.body && !isOpen) {
    return `Draft: ${draft.body}`;
  }
  if (!line) {
    return kind === "direct" ? "No messages yet" : "…";
  }
  const { senderId, event, isDeleted, text, progress } = line;
  if (event) {
    return sentence(event, senderId, me, whatOf(row));
  }
  const words = isDeleted ? DELETED : said(line.kind, text);
  if (progress?.state === "failed") {
    return `Not sent: ${words}`;
  }
  return senderId === me ? `You: ${words}` : kind === "direct" ? words : `${called(senderId)}: ${words}`;
}

/** More than these are "several". */
const NAMED_MAX = 2;

/** Names the users who are typing. */
export function typingIn({ typing, kind }: ChatRow): string {
  if (typing.length === 0 || kind === "direct") {
    return typing.length === 0 ? "" : "typing …";
  }
  return typing.length > NAMED_MAX
    ? "several people are typing …"
    : `${list(typing.map(called))} ${typing.length === 1 ? "is" : "are"} typing …`;
}

/** A text that a service is writing. */
export interface Growing {
  senderId: string;
  text: string;
}

/** Returns the texts that services are writing, in the order of their ids. */
export function growingIn({ texts }: ChatRow): Growing[] {
  const all = Object.entries(texts).sort(([one], [other]) => (one < other ? -1 : 1));
  return all.flatMap(([senderId, text]) => (text === "" ? [] : { senderId, text }));
}

/** Names the services that are writing a text, for a screen reader: this line stays the same while the text grows. */
export function writersIn(row: ChatRow): string {
  const names = growingIn(row).map(({ senderId }) => called(senderId));
  return names.length === 0 ? "" : `${list(names)} ${names.length === 1 ? "is" : "are"} writing`;
}
