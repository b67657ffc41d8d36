// Generated from docs/contract/frames.schema.json by `just server-types`.

export const limits = {
  BODY_BYTES_MAX: 16384,
  CLIENT_MSG_ID_CHARS_MAX: 64,
  FRAME_BYTES_MAX: 32768,
} as const;

/** The idempotency key of a `send`, unique per sender and conversation. */
export type ClientMsgId = string;

/** The id of an upload, made by the server. */
export type MediaId = string;

/** A SHA-256 digest in base64, with its padding. */
export type Digest = string;

export interface Carried1 {
  /** Left out of a request. */
  bytes?: number;
  media_id: MediaId;
  /** Left out of a request. */
  sha256?: Digest;
}

/** Bytes in a frame, or in an uploaded file of kind `sealed`. */
export type Carried = string | Carried1;

/** The id of a conversation. Only its prefix has a meaning. */
export type ConversationId = string;

/** An object of the app's own. Numbers are doubles, and keys have no order, so that two objects of one meaning are equal. */
export type Data = Record<string, unknown>;

/** A moment: RFC 3339, UTC, three decimals of a second. */
export type Timestamp = string;

/** Who: the `sub` of the token, as any issuer writes it. */
export type UserId = string;

/** The emoji of a reaction. Each version of Unicode adds emoji, so the server accepts any short visible text. Clients show it as it is. `❤` and `❤️` are one emoji, written as the second. */
export type Emoji = string;

/** A media type such as `image/jpeg`, in lower case and without parameters. */
export type MimeType = string;

/** The name of a file: a name that can be saved, and no path to another folder. Characters that override the direction of a text would show `exe.jpg` for a name that ends in `gpj.exe`. */
export type FileName = string;

/** A thumbhash in base64. */
export type Thumbhash = string;

/** The bars of a voice note in base64. */
export type Waveform = string;

/** The media of a message. A message never contains a URL: `download` returns one. */
export interface Media {
  bytes: number;
  /** The length of a recording. */
  duration_ms?: number;
  height?: number;
  /** The id of the upload. Clients use it as the key of a downloaded file. */
  media_id: MediaId;
  mime: MimeType;
  /** The name of a file. */
  name?: FileName;
  /** SHA-256 of the bytes, or of a file in parts that of its parts' digests, one after another. */
  sha256: Digest;
  /** The placeholder of an image until it is loaded: <https://evanw.github.io/thumbhash/>. */
  thumbhash?: Thumbhash;
  /** The waveform of a voice note: 100 bars of 5 bits, packed from the first bit on. */
  waveform?: Waveform;
  /** In pixels. An image has both. */
  width?: number;
}

/** An upload that only devices of the members can open. */
export interface SealedMedia {
  /** The length of the ciphertext. Left out of a request. */
  bytes?: number;
  media_id: MediaId;
}

/** The part of a message's media that the server sees. */
export type Attached = Media | SealedMedia;

/** A message's id: a UUIDv7 (RFC 9562) whose time is the message's `sent_at`, so that ids sort as time does. */
export type MessageId = string;

/** How many members reacted with the same. */
export interface Reaction {
  count: number;
  emoji: Emoji;
  /** The viewer is among them. */
  mine: boolean;
}

/** The description of a group or a channel. A description of a stored entry is not checked. */
export type About = string;

/** The title of a group. A title of a stored entry is not checked: an earlier version accepted characters that are forbidden now. */
export type Title = string;

/** The creator is the first of the members. */
export interface SystemCreated {
  /** The description, with at most 1,500 bytes of UTF-8. Line breaks are allowed. */
  about?: About | null;
  /** An object of the app's own, with at most 2,048 bytes without spaces. */
  data?: Data | null;
  event: "created";
  members: UserId[];
  title: Title;
}

export interface SystemMembersAdded {
  event: "members.added";
  members: UserId[];
}

export interface SystemMembersRemoved {
  event: "members.removed";
  members: UserId[];
}

export interface SystemMemberLeft {
  event: "member.left";
}

/** The role of `user_id` changed. If `role` is `owner`, the former owner is an admin from then on. */
export interface SystemRoleChanged {
  event: "role.changed";
  /** The role of a member, which decides what the member may do. */
  role: "owner" | "admin" | "member" | "none";
  user_id: UserId;
}

/** How long a conversation is muted, or a member restricted. */
export type MutedUntil = Timestamp | "forever";

/** `user_id` may only read until then. Without `until` the restriction ended. */
export interface SystemMemberRestricted {
  event: "member.restricted";
  until?: MutedUntil;
  user_id: UserId;
}

/** The new values of the changed properties. */
export interface SystemInfoChanged {
  /** The description, with at most 1,500 bytes of UTF-8. Line breaks are allowed. */
  about?: About | null;
  /** The members of a group who may do something. */
  add?: "all" | "admins";
  /** An object of the app's own, with at most 2,048 bytes without spaces. */
  data?: Data | null;
  event: "info.changed";
  /** The entries that a new member sees: those from the join on, or all. */
  history?: "joined" | "all";
  /** In a channel only. */
  join?: "open" | "admins";
  /** The members of a group who may do something. */
  post?: "all" | "admins";
  /** In a channel only. */
  rings?: "off" | "mentions";
  title?: Title;
}

/** The event of a system entry, whose `sender_id` caused it. */
export type System = SystemCreated | SystemMembersAdded | SystemMembersRemoved | SystemMemberLeft | SystemRoleChanged | SystemMemberRestricted | SystemInfoChanged;

/** An entry of a conversation, as one of its members sees it: a message, or a change of one. */
export interface Message {
  /** The text of a message, or the caption of an image, a file or a voice note. An edit has the current text of its target. A sealed entry has its bytes in base64. Empty if there is no text, or none any more. */
  body: string;
  /** Only in what the sender's own devices receive. */
  client_msg_id?: ClientMsgId;
  /** The bytes of a commit. Left out of a birth. */
  commit?: Carried;
  conversation_id: ConversationId;
  /** The app's own object. A deleted message has none. An edit has the data of its target. */
  data?: Data;
  /** The `sent_at` of the entry that deleted the message. A deleted message has an empty body and no reactions. */
  deleted_at?: Timestamp;
  deleted_by?: UserId;
  /** The `sent_at` of the edit that made this version. */
  edited_at?: Timestamp;
  /** The emoji of a reaction. Left out: the reaction was removed. */
  emoji?: Emoji;
  /** The user's emoji before this reaction. Left out: the user had none. */
  emoji_before?: Emoji;
  /** The epoch of a sealed entry, or the one that a commit begins. */
  epoch?: number;
  /** With this digest of a sealed message, 32 bytes, a member can prove what its sender wrote. */
  frank?: string;
  /** `text`, `image`, `file`, `voice`, `edit`, `delete`, `reaction`, `pin`, `system`, `sealed`, `commit`, `erased`, an app's own `x-NAME` or `xs-NAME`, or one that came later: a client shows nothing for a kind that it does not know. */
  kind: string;
  /** The image, file or voice note of a message that is not deleted. A sealed message has only its id and length. */
  media?: Attached;
  /** The mentioned users, or `*` for all members. */
  mentions?: UserId[];
  message_id: MessageId;
  /** Pins only: whether the message at `target_seq` is pinned from now on. */
  pinned?: boolean;
  /** The most frequent ones. */
  reactions?: Reaction[];
  /** The last reaction entry that is in `reactions`, or was, if that took one back. */
  reactions_seq?: number;
  /** The users who left and whom a commit removes. */
  removes?: UserId[];
  /** The message that this one answers. */
  reply_to?: number;
  sender_id: UserId;
  /** Never goes back within a conversation. */
  sent_at: Timestamp;
  /** A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first. */
  seq: number;
  /** Erasures only: the entries of that user, as ranges from the first to the last of each. Perhaps none. */
  seqs?: (number[])[];
  /** A sealed entry that does not count: no unread message, no push, no last message. A commit is always silent. */
  silent?: boolean;
  /** The event of a system entry. */
  system?: System;
  /** The message that an edit, a delete, a reaction or a pin is about. */
  target_seq?: number;
  /** The tree of the epoch that a commit begins, if the commit has a welcome. */
  tree?: Carried;
  /** Erasures only: the id that the erased user has from now on. No request can name it. */
  user_id?: UserId;
  /** The version of the text, from 2 on. An edit has the version of its target. */
  version?: number;
  /** The welcome of the devices that a commit adds. */
  welcome?: Carried;
}

/** The message is stored: in the history, in the recipient's inbox, and pending. */
export interface SendResult {
  conversation_id: ConversationId;
  /** The message had been stored before, under the same `client_msg_id`. */
  duplicate: boolean;
  /** The message as it is stored, if the team's filter rewrote it. */
  message?: Message;
  message_id: MessageId;
  /** Only if the `send` had `read`: the user's read mark. If it is below `read`, the client sends a `read`. */
  read_seq?: number;
  sent_at: Timestamp;
  /** A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first. */
  seq: number;
  /** Only of an edit: which version of the text it made. */
  version?: number;
}

/** A user who could not be added, and why. */
export interface NotAdded {
  /** `left`: they left the group by themselves, and only they can come back, by `join`; after a first leave an admin can add them. `removed`: an admin removed them from the channel, and only an admin can add them. `limit_reached`: others have added them to as many channels as they may. Other reasons will come. */
  reason: string;
  user_id: UserId;
}

/** The group is there, and its first entry says so. */
export interface CreateResult {
  conversation_id: ConversationId;
  /** The message had been stored before, under the same `client_msg_id`. */
  duplicate: boolean;
  /** The message as it is stored, if the team's filter rewrote it. */
  message?: Message;
  message_id: MessageId;
  /** The users who could not be added to a channel. Left out if there is none. */
  not_added?: NotAdded[];
  /** Only if the `send` had `read`: the user's read mark. If it is below `read`, the client sends a `read`. */
  read_seq?: number;
  sent_at: Timestamp;
  /** A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first. */
  seq: number;
  /** Only of an edit: which version of the text it made. */
  version?: number;
}

/** The outcome for each requested user. */
export interface AddResult {
  added: UserId[];
  /** The users who were members before. */
  already: UserId[];
  conversation_id?: ConversationId;
  /** The message had been stored before, under the same `client_msg_id`. */
  duplicate?: boolean;
  /** The message as it is stored, if the team's filter rewrote it. */
  message?: Message;
  message_id?: MessageId;
  /** The users who could not be added. Left out if there is none. */
  not_added?: NotAdded[];
  /** Only if the `send` had `read`: the user's read mark. If it is below `read`, the client sends a `read`. */
  read_seq?: number;
  sent_at?: Timestamp;
  /** A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first. */
  seq?: number;
  /** Only of an edit: which version of the text it made. */
  version?: number;
}

/** At least one field. A field that is left out stays as it is; `null` removes it. */
export interface ProfileChange {
  /** At most 1,024 bytes without spaces. */
  data?: Data | null;
  name?: Title | null;
}

export interface ProfileResult {
  version: number;
}

/** Every reason, with a stable code. The texts are for the client's developer: they name the field and the limit, and carry nothing of the request's content and no internal details. */
export type ErrorCode = "bad_request" | "too_large" | "unknown_action" | "token_expired" | "not_member" | "id_reused" | "forbidden" | "gone" | "not_ready" | "rejected" | "limit_reached" | "device_required" | "no_keys" | "device_limit" | "encryption_required" | "stale_epoch" | "rekey_required" | "rate_limited" | "conflict" | "unavailable" | (string & {});

/** Appends a message to a conversation. Sent again with the same `client_msg_id` and body: the same answer. */
export interface Send {
  to?: UserId;
  /** The idempotency key: unique per sender and conversation. */
  client_msg_id: ClientMsgId;
  /** Or a kind of the app's own, `x-NAME`; `xs-NAME` if it does not count. NAME: 1 to 29 of `a-z0-9.-`. */
  kind?: string;
  /** At most 16 KiB of UTF-8, and at most 24 KiB as JSON. The caption of an image, a file or a voice note may be empty. A sealed message has up to 12,288 bytes in base64. */
  body: string;
  /** An object of the app's own, at most 2,048 bytes without spaces. An own kind needs it. */
  data?: Data;
  /** In a group: whom it names, or `*` for all members, which admins and the owner may. */
  mentions?: UserId[];
  /** The message that this one answers: one of the conversation that there is. */
  reply_to?: number;
  conversation_id?: ConversationId;
}

/** Makes a group or a channel. */
export interface CreateGroup {
  /** The idempotency key: unique per user. */
  client_msg_id: ClientMsgId;
  /** At most 192 bytes of UTF-8. */
  title: Title;
  /** The other members from the first entry on. */
  members: UserId[];
  /** A channel has any number of members, who read it on demand. */
  kind?: "group" | "channel";
  /** The description, with at most 1,500 bytes of UTF-8. Line breaks are allowed. */
  about?: About | null;
  /** An object of the app's own, with at most 2,048 bytes without spaces. */
  data?: Data | null;
  /** The members who may write messages. Default: all in a group, admins in a channel. */
  post?: "all" | "admins";
  /** The members who may add others. Default: as for `post`. */
  add?: "all" | "admins";
  /** The entries that a new member sees: those from the join on, or all. */
  history?: "joined" | "all";
  /** In a channel only: the users who may join by themselves. Default: no user. */
  join?: "open" | "admins";
}

/** Changes what a group is called, and what its members may do. */
export interface Update {
  conversation_id: ConversationId;
  /** The idempotency key: unique per sender and conversation, across all actions. */
  client_msg_id: ClientMsgId;
  title?: Title;
  /** The description, with at most 1,500 bytes of UTF-8. Line breaks are allowed. */
  about?: About | null;
  /** An object of the app's own, with at most 2,048 bytes without spaces. */
  data?: Data | null;
  /** The members who may write messages. */
  post?: "all" | "admins";
  /** The members who may add others. */
  add?: "all" | "admins";
  /** For those who join from now on. */
  history?: "joined" | "all";
  /** In a channel only: the users who may join by themselves. */
  join?: "open" | "admins";
}

/** Adds members to a group. */
export interface Add {
  conversation_id: ConversationId;
  /** The idempotency key: unique per sender and conversation, across all actions. */
  client_msg_id: ClientMsgId;
  members: UserId[];
}

/** Removes a member from a group. */
export interface Remove {
  conversation_id: ConversationId;
  /** The idempotency key: unique per sender and conversation, across all actions. */
  client_msg_id: ClientMsgId;
  user_id: UserId;
}

/** Lets a member of a group or a channel only read until a time, or ends that. */
export interface Restrict {
  /** A group or a channel. */
  conversation_id: ConversationId;
  /** The idempotency key: unique per sender and conversation, across all actions. */
  client_msg_id: ClientMsgId;
  user_id: UserId;
  /** Until then the member only reads. `null` ends the restriction. */
  until: MutedUntil | null;
}

/** `user_id` is writing, for a few seconds from now on. */
export interface Typing {
  to?: UserId;
  /** The text so far, of a service alone. Shown until the service's next entry, and not stored. */
  text: string;
  conversation_id?: ConversationId;
}
