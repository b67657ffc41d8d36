// The events that the client gives to the app.

import type { PigeonholeError } from "./errors.ts";
import type { Conversation, Message, Presence } from "./frames.ts";
import type { Receipt, ReceiptKind, Settings, Typing } from "./protocol.ts";
import type { Queued, QueuedRequest } from "./saved.ts";

export type ClientEvent =
  | MessageEvent
  | ReceiptEvent
  | ConversationEvent
  | UploadingEvent
  | ReactedEvent
  | UnwatchedEvent
  | TypingEvent
  | PresenceChangedEvent
  | SettingsEvent
  | StateEvent
  | FailedEvent
  | StorageEvent
  | NotKeptEvent
  | ReloadEvent
  | SecurityEvent
  | UnreadableEvent;

/** News of the end-to-end encryption: of the keys of another user, or of the user's own devices. */
interface SecurityEvent {
  type: "security";
  notice: Notice;
}

/** A change, such as `identity_changed`, with the user or the conversation. */
export interface Notice {
  notice: string;
  [field: string]: unknown;
}

/** An encrypted message that this device can't read, in the place of a `message`. The views have its place. */
interface UnreadableEvent {
  type: "unreadable";
  conversation_id: string;
  seq: number;
  sender_id: string;
  why: Unreadable;
}

/**
 * Why this device can't read an encrypted message.
 *
 * - `before_join`: it was sent before this device joined the conversation.
 * - `forged`: the bytes are not what a member sealed here.
 * - `broken`: the keys of this device don't open it.
 * - `plain_behind_birth`: it is not encrypted, although the conversation is.
 * - `later`: it opens once all before it has come.
 * - `not_encrypted`: this client has no encryption.
 */
export type Unreadable = "before_join" | "forged" | "broken" | "plain_behind_birth" | "later" | "not_encrypted";

/** An entry without its content. */
export interface UnreadableMessage extends Message {
  unreadable?: Unreadable;
}

/**
 * An opened edit or reaction. `target_id`: the `client_msg_id` of its target, as the author names it. `keeps_data`, also of
 * an own edit: the request named no data, so the target keeps what it has.
 */
export interface OpenedChange extends Message {
  target_id?: string;
  keeps_data?: true;
}

/** Returns why this device can't read an encrypted message. `undefined`: the entry is another, or was read. */
export function whyUnreadable(message: UnreadableMessage): Unreadable | undefined {
  const isShown = message.kind === "sealed" && !message.silent;
  return isShown ? (message.unreadable ?? "not_encrypted") : undefined;
}

/**
 * The next entry of its conversation, in the order of `seq`, each once: a message, a system entry or a change entry
 * (`edit`, `delete`, `reaction`). The user's own entries come too, once they are stored, with their `client_msg_id`.
 *
 * An own entry of a group can come behind later entries, if the user was removed and added again after it. A `Timeline`
 * then removes it from the unsent messages and does not show it. In a channel, entries of other users come only while
 * the app is subscribed.
 */
interface MessageEvent {
  type: "message";
  message: Message;
  /** True if another user wrote the entry while this device was not connected. */
  missed: boolean;
}

/**
 * A member's devices have received everything up to `seq` (two grey ticks), or the member has read it (blue ticks). A
 * late event can be below an earlier one: only the highest counts. `user_id` is the user's own id if the user has read
 * on another device.
 */
interface ReceiptEvent extends Receipt {
  type: "receipt";
  kind: ReceiptKind;
}

/**
 * A row of the chat list, read after a connect. The conversation has a new entry, or another device has read some of
 * it. This event may come without a change.
 */
interface ConversationEvent {
  type: "conversation";
  conversation: Conversation;
}

/**
 * The server has applied an own change of a message, for `Timeline.reacted`, and no `message` event reports it. Two
 * changes are such: a reaction in a channel, where it is no entry, and a former member's delete of an own message.
 */
export interface ReactedEvent extends QueuedRequest<"react" | "delete"> {
  type: "reacted";
}

/** The subscription to a channel has ended, since the server refuses it: mostly `not_member`, for a removed user. */
interface UnwatchedEvent {
  type: "unwatched";
  conversation_id: string;
  error: PigeonholeError;
}

/** Another member is typing. Show this for 6 s, or until an entry by the member comes. */
interface TypingEvent extends Typing {
  type: "typing";
}

/**
 * A user whom the app watches with `watchPresence` has come or gone. Also comes when the client renews the watch, then
 * perhaps without a change.
 */
interface PresenceChangedEvent extends Presence {
  type: "presence";
}

/**
 * The server has stored the user's new settings, from this or another device. A field that is left out keeps its value.
 * For changes that another device made while this device was not connected, request `inbox`.
 */
interface SettingsEvent {
  type: "settings";
  settings: Settings;
}

/** How the connection is doing. A socket that is replaced before its end changes nothing here. */
type StateEvent = { type: "state" } & State;

/**
 * - `connecting`: the client is opening a connection.
 * - `online`: the connection is open, and the client is requesting what it missed.
 * - `caught_up`: the app has got every event that it missed.
 * - `offline`: the client has no connection. The next try is in `retryInMs`.
 * - `replaced`: the server closed the connection, because the user has opened too many newer ones. Only `wake` opens
 *   the next one: devices that reconnected by themselves would replace each other without end.
 */
export type State =
  | { state: "connecting" | "online" | "caught_up" | "replaced" }
  | { state: "offline"; why: Why; retryInMs: number };

/**
 * The server refused a message or a change for good, or the attachment can't be uploaded. The client removed the
 * request from the outbox.
 */
type FailedEvent = { type: "failed"; error: PigeonholeError } & Queued;

/**
 * The upload progress of a message's file, for `Timeline.uploading`. The number can fall when the client must upload a
 * part again.
 */
interface UploadingEvent {
  type: "uploading";
  clientMsgId: string;
  done: number;
  bytes: number;
}

/**
 * The first event, if the data of an earlier run can't be read. The client starts as on a new device. `setAside` is the
 * name of a copy of that data, or empty if the storage makes none. Unsent messages and drafts that could be read are still
 * there.
 */
interface StorageEvent {
  type: "storage";
  setAside: string;
}

/** The platform has no storage that tabs share, so messages and unsent requests last as long as this page. */
interface NotKeptEvent {
  type: "not_kept";
}

/** A later version of the app runs in another tab and has the storage. This client is closed: load the page again. */
interface ReloadEvent {
  type: "reload";
}

/**
 * The reason why the client has no connection.
 *
 * - `closed`: the server closed the connection.
 * - `lost`: the connection broke.
 * - `silent`: the server owes a reply and has sent no frame for too long.
 * - `unreachable`: the server can't be reached. In a browser, also: the server refused.
 * - `refused`: the server refused the connection.
 * - `token_refused`: the server refused the token, and a new one too.
 * - `token_expired`: the client requests a new one for the next try.
 * - `no_token`: the app could not return a token.
 * - `storage`: the storage can't be written. The client connects again once it can.
 * - `wrong_user`: the app's token is for another user (its `sub`) than `userId`, so the client does not connect with
 *   it. `detail` names both users.
 */
export interface Why {
  reason:
    | "closed"
    | "lost"
    | "silent"
    | "unreachable"
    | "refused"
    | "token_refused"
    | "token_expired"
    | "no_token"
    | "storage"
    | "wrong_user";
  /** HTTP's status code, of `refused` and `token_refused`. */
  status?: number;
  /** For developers. */
  detail?: string;
}
