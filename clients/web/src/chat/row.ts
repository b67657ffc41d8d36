// The rows of the chat list.

import type { Conversation, MutedUntil, Presence, System } from "../frames.ts";
import { type GroupInfo, kindOf } from "../protocol.ts";
import type { Target } from "../saved.ts";
import type { DraftText } from "../store/types.ts";
import type { Progress } from "./item.ts";

/** One conversation of the chat list. */
export interface ChatRow {
  /** An opaque text that names the conversation for as long as the list exists, before and after it has an id. */
  key: string;
  /** `undefined` until the server has stored the first message or the new group. */
  conversationId: string | undefined;
  kind: Conversation["kind"];
  /** The other user of a direct conversation. */
  peerId: string | undefined;
  /** The title of a group or a channel. */
  title: string | undefined;
  /** The user's role in a group or a channel. */
  role: Conversation["role"] | undefined;
  /** The rules of a group or a channel. A rule is left out until the server's row or an entry has it. */
  rules: Rules;
  /** The number of members of a group, once known. */
  memberCount: number | undefined;
  /** Until then, or `forever`, the user may only read in the group or channel. */
  restrictedUntil?: MutedUntil;
  /** The user was removed or has left, and can't write. */
  isClosed: boolean;
  /** The server refused to create the group, with this code. */
  failed: string | undefined;
  /** The last message. */
  line: Line | undefined;
  /** The number of unread messages. */
  unread: number;
  /** The number of unread messages that mention the user. */
  mentions: number;
  /** The conversation is muted now. */
  isMuted: boolean;
  /** Until then, or `forever`. `null`: not muted. */
  mutedUntil: MutedUntil | null;
  /** While the group is muted, mentions send no push either. */
  mutesMentions: boolean;
  isPinned: boolean;
  /** The user has archived it, and no message has come since. */
  isArchived: boolean;
  /** The user has marked it as unread, and has read nothing since. */
  isMarkedUnread: boolean;
  /** The user has blocked the peer. */
  isBlocked: boolean;
  /** The text that the user has begun. */
  draft: DraftText | undefined;
  /** The other users who are typing, in the order of their ids. */
  typing: readonly string[];
  /** The texts that services are writing, as far as they are, by the service's id. */
  texts: Readonly<Record<string, string>>;
  /** Whether the peer is online, if a view has requested it. */
  presence: Presence | undefined;
  /** Whether the conversation is encrypted. */
  lock: Lock;
}

/**
 * How a direct conversation or a group is encrypted. A client without encryption has `plain` alone.
 *
 * - `plain`: the messages are in the clear.
 * - `sealed`: new messages are encrypted.
 * - `changed`: the user verified a member, whose identity is another one now. Messages wait until the user accepts it.
 * - `joining`: the conversation is encrypted, and this device has no part in it yet.
 */
export type Lock = "plain" | "sealed" | "changed" | "joining";

/** Returns the row of a conversation that the list does not have: nothing was written there, or no row has come yet. */
export function emptyRow(target: Target): ChatRow {
  const [conversationId, peerId] = "to" in target ? [undefined, target.to] : [target.conversation_id, undefined];
  return {
    key: conversationId === undefined ? `p${peerId}` : `c${conversationId}`,
    conversationId,
    kind: kindOf(conversationId ?? ""),
    peerId,
    title: undefined,
    role: undefined,
    rules: {},
    memberCount: undefined,
    isClosed: false,
    failed: undefined,
    line: undefined,
    unread: 0,
    mentions: 0,
    isMuted: false,
    mutedUntil: null,
    mutesMentions: false,
    isPinned: false,
    isArchived: false,
    isMarkedUnread: false,
    isBlocked: false,
    draft: undefined,
    typing: [],
    texts: {},
    presence: undefined,
    lock: "plain",
  };
}

/** The rules of a group or a channel. A channel also has `join` and `rings`. */
export type Rules = Pick<GroupInfo, "history" | "post" | "add" | "join" | "rings">;

/** The last message of a conversation. */
export interface Line {
  /** `undefined`: the message is not stored. */
  seq: number | undefined;
  /** The author, or the user who caused the event. */
  senderId: string;
  /** When it was stored or written. */
  at: string;
  /** A text, what is attached, or an event of the group. */
  kind: string;
  /** The first characters of the text. */
  text: string;
  /** The message is deleted, and the text is empty. */
  isDeleted: boolean;
  /** The event of a system entry. */
  event: System | undefined;
  /** How far an own message has come. */
  progress: Progress | undefined;
}
