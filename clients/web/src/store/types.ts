// The changes that a message store takes, and its answers to reads.

import type { Channel, Conversation, GroupMember, HistoryResult, Member, Message, Opened } from "../frames.ts";
import type { Draft, Settings, Side } from "../protocol.ts";
import type { StorageChange, Target } from "../saved.ts";

/** A text that the user has not sent yet. */
export type DraftText = Exclude<Draft, string>;

/** One change of the store. All changes of a turn are one transaction. */
export type Write =
  /** An entry, as a `message` event has it. */
  | { entry: Message }
  /** The proof of an opened message, or of an edit of the message with this `seq`. The proof goes with its text. */
  | { proof: { conversation_id: string; seq: number; proof: Opened } }
  /** A page of history, and the side that was requested. */
  | { page: { conversation_id: string; side: Side; page: HistoryResult } }
  /** A row of the chat list or of the list of channels. A row that is older than the stored one changes nothing. */
  | { row: Conversation | Channel }
  /** The user is not a member of this channel any more. The store removes its row and its messages. */
  | { gone: string }
  /** The user has read a conversation up to here. In a group, `mentions` counts the unread messages that name them. */
  | { read: { conversation_id: string; seq: number; unread: number; mentions?: number | undefined } }
  /** The marks of members. A mark only rises. */
  | { marks: { conversation_id: string; members: readonly Member[] } }
  /** Settings of the user that the server has stored. */
  | { settings: Settings }
  /** All members of a group, in place of the stored ones. Their marks stay. */
  | { members: { conversation_id: string; members: readonly GroupMember[] } }
  /** A text that the user has not sent yet. Without `draft`, the text was sent or removed. */
  | { draft: { target: Target; draft?: DraftText | undefined } }
  /** The file of a message's attachment on this device. Without `path`, the file no longer exists. */
  | { place: { conversation_id: string; seq: number; path?: string | undefined } }
  /** The client removed a file that was no longer needed. */
  | { removed: string }
  /** The user can no longer see the entries below `first_seq`. The store removes them for good. */
  | { floor: { conversation_id: string; first_seq: number } }
  /** The store removes the messages below `first_seq`, to save space. The client can request this gap again. */
  | { trim: { conversation_id: string; first_seq: number } }
  /** A change that the session saves. */
  | { change: StorageChange }
  /** A row of the end-to-end encryption, as base64. Without `value`, the row is deleted. */
  | { sealing: { key: string; value?: string | undefined } };

/** A member of a conversation, as far as the store knows. */
export interface KnownMember {
  user_id: string;
  /** The role and the entry of the join, in a group whose list of members came. */
  joined?: Pick<GroupMember, "role" | "joined_seq">;
  /** A device of the member has received every entry up to this one. */
  delivered_seq: number;
  /** The member has read every entry up to this one. */
  read_seq: number;
}

/** A range of `seq` that the store has without a gap, both ends included. */
export interface Span {
  from: number;
  to: number;
}

/** A part of a conversation. */
export interface Window {
  /** Messages and system entries in their current state, in the order of their `seq`. */
  messages: Message[];
  /** All spans of the conversation, in their order. The entries between two of them are missing. */
  spans: Span[];
}

/** A read from the store, by its number. */
export type LoadId = number;

/** A read that a view needs of the store. */
export type Load =
  /** The chat list and the drafts. */
  | { load: "start" }
  /** `PAGE` messages of a conversation on one side, its row and its members. */
  | { load: "window"; conversation_id: string; side: Side }
  /** The members of a conversation. */
  | { load: "members"; conversation_id: string }
  /** The proofs of what these messages say now. */
  | { load: "proofs"; conversation_id: string; seqs: readonly number[] };

/** The result of a `Load`. */
export type Found =
  /** No store exists, or it can't be read. */
  | { found: "nothing" }
  /** The rows of the chat list, the conversation with the newest message first, those of channels, and all drafts. */
  | { found: "start"; chats: Conversation[]; channels: Channel[]; drafts: { target: Target; draft: DraftText }[] }
  | { found: "members"; members: KnownMember[] }
  | { found: "proofs"; proofs: Opened[] }
  | {
      found: "window";
      /** The row of the chat list or of the list of channels. */
      row?: Conversation | Channel;
      /** The known members, in the order of their ids. */
      members: KnownMember[];
      window: Window;
      /** The files of attachments on this device, by the `seq` of their messages. */
      places: Map<number, string>;
    };

/** The number of messages of a `window`. */
export const PAGE = 50;
