// The items of a conversation's view.

import type { Unreadable } from "../events.ts";
import type { Data, Media, Message, Reaction, System } from "../frames.ts";
import type { Upload } from "../saved.ts";
import type { Unsent } from "../timeline.ts";

/**
 * One thing to draw. Its `key` stays the same wherever the item moves: an own message has the same key before and after
 * the server stores it. No two items of a view have the same key.
 *
 * A key is `c` and the `client_msg_id` of an own message, or `s` and the `seq` of any other entry. A day has `d` and the
 * day, a gap `g` and the last `seq` before it, and the unread separator `u`.
 */
export type Item =
  /** The day of all that follows, such as `2026-11-25`. */
  | { key: string; type: "day"; day: string }
  /** The unread separator: the number of unread messages when the view was opened. The first of them follows. */
  | { key: string; type: "unread"; count: number }
  /** Entries between these two are missing. The view has requested them. */
  | { key: string; type: "gap"; afterSeq: number; beforeSeq: number }
  /** An event of the group, which `senderId` caused. */
  | { key: string; type: "system"; seq: number; senderId: string; at: string; event: System }
  | MessageItem
  /** An encrypted message that this device can't read. */
  | { key: string; type: "unreadable"; seq: number; senderId: string; at: string; why: Unreadable };

/** A message, stored or not. */
export interface MessageItem {
  key: string;
  type: "message";
  /** `undefined` until the server has stored it. */
  seq: number | undefined;
  /** The idempotency key of an own message. */
  clientMsgId: string | undefined;
  senderId: string;
  /** When the server stored it; until then, when the user wrote it. */
  at: string;
  /**
   * `text`, `image`, `file`, `voice`, or a kind of an app's own. An app that does not know an own kind shows the text, and
   * nothing if there is none.
   */
  kind: string;
  /** The text, with the user's latest edit. Empty if the message is deleted. */
  body: string;
  /** The app's own data. */
  data: Data | undefined;
  /** The silent entries of the app's own kinds that reply to the message, oldest first, as far as the view has them. */
  signals: readonly Signal[];
  /** The message came encrypted. */
  isSealed: boolean;
  /** The attachment of a stored message. */
  media: Media | undefined;
  /** The file of the attachment on this device, once it has been downloaded. */
  path: string | undefined;
  /** The attachment of a message that is not stored. */
  upload: Upload | undefined;
  /** The mentioned users. */
  mentions: readonly string[];
  /** The message that this one replies to. */
  reply: Reply | undefined;
  /** The time of the last edit. */
  editedAt: string | undefined;
  /** The user who deleted it. Text, attachment and reactions are gone. */
  deletedBy: string | undefined;
  /** The most frequent first. */
  reactions: readonly Reaction[];
  /** How far an own message has come. `undefined`: another user wrote it. */
  progress: Progress | undefined;
  /** Own changes of it have no reply yet. The item shows them already. */
  isChanging: boolean;
  /** The last own change of it that the server refused for good, until it is dismissed. The item does not show it. */
  refused: Refused | undefined;
  /** The place in a run of messages by one user, between which nothing else is shown. */
  run: Run;
}

/** A silent entry of an app's own kind (`xs-NAME`) that replies to a message, such as a vote. */
export interface Signal {
  seq: number;
  senderId: string;
  kind: string;
  data: Data | undefined;
}

/** The target of a reply. `message` is its current state, perhaps deleted. `undefined`: it has not come. */
export interface Reply {
  seq: number;
  message: Message | undefined;
}

/**
 * How far an own message has come.
 *
 * - `waiting`: the message waits for the server.
 * - `uploading`: its file is being uploaded. `done` can fall when the client repeats a part.
 * - `stored`: the server has it.
 * - `delivered`: a device of each other member has it.
 * - `read`: each other member has read it.
 * - `failed`: the server refused it for good, and it stays until it is dismissed. With `canHelp`, the same message can
 *   succeed at another try; otherwise, only an edit helps.
 */
export type Progress =
  | { state: "waiting" | "stored" | "delivered" | "read" }
  | { state: "uploading"; done: number; of: number }
  | { state: "failed"; code: string; canHelp: boolean };

/** A change that the server refused for good. */
export interface Refused {
  clientMsgId: string;
  code: string;
  canHelp: boolean;
}

/** An interface writes the name at the first message of a run, and draws the picture at the last. */
export interface Run {
  isFirst: boolean;
  isLast: boolean;
}

/** Returns the progress of a message that is not stored. */
export function progressOf({ error: code, uploaded: done, queued }: Unsent): Progress {
  const upload = "body" in queued ? queued.media : undefined;
  if (code !== undefined) {
    return { state: "failed", code, canHelp: canHelp(code) };
  }
  return done === undefined || !upload ? { state: "waiting" } : { state: "uploading", done, of: upload.bytes };
}

/** Returns whether the same message or change can succeed later, although the server refused it for good. */
export function canHelp(code: string): boolean {
  return !["too_large", "bad_request", "gone", "id_reused", "config"].includes(code);
}
