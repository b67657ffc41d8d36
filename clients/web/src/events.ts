// What the client tells the app.

import type { PigeonholeError } from "./errors.ts";
import type { Conversation, Message } from "./frames.ts";
import type { Receipt, ReceiptKind, Settings, Typing } from "./protocol.ts";
import type { Queued, QueuedReaction } from "./storage/storage.ts";

export type ClientEvent =
  | MessageEvent
  | ReceiptEvent
  | ConversationEvent
  | UploadingEvent
  | ReactedEvent
  | UnwatchedEvent
  | TypingEvent
  | SettingsEvent
  | StateEvent
  | FailedEvent
  | StorageEvent;

/**
 * The next entry of its conversation, in the order of `seq`, each once: a message, or what became of one (`edit`, `delete`,
 * `reaction`). The user's own are among them, once they are stored: `client_msg_id` says which they are. One that was stored in a group before
 * the user was removed from it and added again can come behind later ones: a `Timeline` takes it out of what is unsent, and shows it no more.
 * Of a channel, others' come only while it is watched.
 */
interface MessageEvent {
  type: "message";
  message: Message;
  /** Somebody else wrote it while this device was not connected. */
  missed: boolean;
}

/**
 * A member's devices hold (two grey ticks), or the member has read (blue ticks), everything up to `seq`. One that
 * arrives late can be below an earlier one: only the highest counts. `user_id` is the user themselves if another device
 * of theirs has read.
 */
interface ReceiptEvent extends Receipt {
  type: "receipt";
  kind: ReceiptKind;
}

/**
 * A row of the chat list, as the server had it after a connect: there is something new in the conversation, or another
 * device has read some of it. May come without a change.
 */
interface ConversationEvent {
  type: "conversation";
  conversation: Conversation;
}

/** An own reaction to a message of a channel is counted, for `Timeline.reacted`: there it is no entry, and no `message`. */
type ReactedEvent = { type: "reacted" } & QueuedReaction;

/** A channel is watched no longer, since the server refuses it: mostly `not_member`, for who was removed from it. */
interface UnwatchedEvent {
  type: "unwatched";
  conversation_id: string;
  error: PigeonholeError;
}

/** Somebody writes there, for some seconds from now on: to be shown until an entry of theirs comes, or 6 s are over. */
interface TypingEvent extends Typing {
  type: "typing";
}

/**
 * The user has changed settings, here or on another device: the server has them now. What is left out stays as it was. One
 * that another device changed while this one was not connected is only in the rows of `inbox`.
 */
interface SettingsEvent {
  type: "settings";
  settings: Settings;
}

/** How the connection is doing. A socket that is replaced before its end changes nothing here. */
type StateEvent = { type: "state" } & State;

/**
 * - `connecting`: a connection is being opened.
 * - `online`: there is one, and what was missed is on its way.
 * - `caught_up`: everything that was missed has been handed over.
 * - `offline`: there is none. The next one is tried in `retryInMs`.
 * - `replaced`: the server has closed it, because the user has opened too many newer ones. The next one is opened by `wake`,
 *   not before: devices that come back by themselves would take each other's place without end.
 */
export type State =
  | { state: "connecting" | "online" | "caught_up" | "replaced" }
  | { state: "offline"; why: Why; retryInMs: number };

/**
 * A message or a change that will never be stored: the server refused it for good, or what it carries can't be uploaded. It is out of the
 * outbox.
 */
type FailedEvent = { type: "failed"; error: PigeonholeError } & Queued;

/**
 * The file of a message that is being sent: so many of its bytes are uploaded, for `Timeline.uploading`. It can go back, where a part has
 * to be put again.
 */
interface UploadingEvent {
  type: "uploading";
  clientMsgId: string;
  done: number;
  bytes: number;
}

/**
 * The first event, where what an earlier run has stored can't be read. It is set aside, under the name `setAside`, and this
 * client begins as on a new device: messages that were not sent yet are only there.
 */
interface StorageEvent {
  type: "storage";
  setAside: string;
}

/**
 * Why there is no connection.
 *
 * - `closed`: the server closed the connection.
 * - `lost`: the connection broke.
 * - `silent`: the server owes an answer and has sent nothing for too long.
 * - `unreachable`: the server can't be reached. In a browser, also: the server refused.
 * - `refused`: the server refused the connection.
 * - `token_refused`: the server refused the token, and a new one too.
 * - `token_expired`: the next try asks for a new one.
 * - `no_token`: the app could not give a token.
 */
export interface Why {
  reason: "closed" | "lost" | "silent" | "unreachable" | "refused" | "token_refused" | "token_expired" | "no_token";
  /** HTTP's status code, of `refused` and `token_refused`. */
  status?: number;
  /** For developers. */
  detail?: string;
}
