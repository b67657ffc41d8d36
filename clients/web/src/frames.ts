// Generated from frames.schema.json by `npm run types`.

/**
 * Every frame of Pigeonhole's protocol, version 1. Generated from the types in crates/wire.
 */
export type Frames = Request | ServerFrame;
/**
 * What a client sends.
 */
export type Request =
  | SendRequest
  | EditRequest
  | DeleteRequest
  | ReactRequest
  | AckRequest
  | DrainRequest
  | ReadRequest
  | InboxRequest
  | HistoryRequest
  | SettingsRequest
  | DeviceRequest
  | UploadRequest
  | UploadedRequest
  | DownloadRequest
  | CreateRequest
  | AddRequest
  | RemoveRequest
  | LeaveRequest
  | RoleRequest
  | UpdateRequest
  | MembersRequest
  | ReceiptsRequest
  | ReactionsRequest
  | JoinRequest
  | ChannelsRequest
  | WatchRequest
  | UnwatchRequest
  | TypingRequest
  | PresenceRequest
  | PingRequest;
/**
 * Appends a message to a conversation. Sent again with the same `client_msg_id` and body: the same answer.
 */
export type SendRequest = {
  action: "send";
  /**
   * At most 16 KiB of UTF-8, and at most 24 KiB once written as JSON. Of an image, a file or a voice note it is the caption, and may
   * be empty.
   */
  body: string;
  /**
   * The idempotency key: unique per sender and conversation.
   */
  client_msg_id: ClientMsgId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * What an entry is. What a later version stored keeps its kind on the way through this one.
   */
  kind: "text" | "image" | "file" | "voice";
  /**
   * Of an image, a file or a voice note, once it is uploaded.
   */
  media?: Media;
  /**
   * In a group: whom it names, or `*` for all members, which admins and the owner may.
   *
   * @maxItems 20
   */
  mentions?: UserId[];
  /**
   * The message that this one answers: one of the conversation that there is.
   */
  reply_to?: number;
} & SendRequest1;
/**
 * The idempotency key of a `send`, unique per sender and conversation.
 */
export type ClientMsgId = string;
/**
 * What a request is called by its client, so that the answer can be told from others.
 */
export type RequestId = string;
/**
 * What an upload is called. The server makes it.
 */
export type MediaId = string;
/**
 * A media type such as `image/jpeg`, in lower case and without parameters.
 */
export type MimeType = string;
/**
 * What a file is called: a name that can be saved, and no way to another folder. Characters that turn the direction of a text
 * would show `exe.jpg` for what ends in `gpj.exe`.
 */
export type FileName = string;
/**
 * A SHA-256 digest in base64, with its padding.
 */
export type Digest = string;
/**
 * A thumbhash in base64.
 */
export type Thumbhash = string;
/**
 * The bars of a voice note in base64.
 */
export type Waveform = string;
/**
 * Who: the `sub` of the token, as any issuer writes it.
 */
export type UserId = string;
export type SendRequest1 =
  | {
      to: UserId;
    }
  | {
      conversation_id: ConversationId;
    };
/**
 * Which conversation. Opaque, but for what it begins with.
 */
export type ConversationId = string;
/**
 * What somebody reacts with. Which characters are emoji changes with each version of Unicode, so it is any short text: clients
 * show it as it is.
 */
export type Emoji = string;
/**
 * A moment: RFC 3339, UTC, three decimals of a second.
 */
export type Timestamp = string;
/**
 * Mutes or archives a conversation; blocks a user, which ends messages and ticks between the two.
 */
export type SettingsRequest = SettingsRequest1 & {
  action: "settings";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
};
export type SettingsRequest1 =
  | {
      conversation_id: ConversationId;
      set: ConversationSettings;
    }
  | {
      set: UserSettings;
      user_id: UserId;
    };
/**
 * How long a conversation is muted.
 */
export type MutedUntil = Timestamp | "forever";
/**
 * Registers the device of this connection for notifications, or takes it out.
 */
export type DeviceRequest = DeviceRequest1 & {
  action: "device";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
};
export type DeviceRequest1 =
  | {
      /**
       * A notification carries the number of unread messages, for the app's icon. Of APNs only.
       */
      badge?: boolean;
      /**
       * Whose service carries the notification, and so what a token of it is.
       */
      platform: "apns" | "apns_sandbox" | "fcm";
      /**
       * A notification shows who wrote and how the message begins.
       */
      preview?: boolean;
      token: DeviceToken;
      /**
       * Which messages ring.
       */
      when?: "pending" | "unread";
    }
  | {
      token: null;
    };
/**
 * What a push service calls an installation. Whoever has it can have the phone rung, or no longer: it is never logged.
 */
export type DeviceToken = string;
/**
 * Where to put the bytes of an image, a file or a voice note that is to be sent.
 */
export type UploadRequest = UploadRequest1 & {
  action: "upload";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
};
export type UploadRequest1 =
  | ((
      | {
          to: UserId;
        }
      | {
          conversation_id: ConversationId;
        }
    ) & {
      bytes: number;
      /**
       * What an entry is. What a later version stored keeps its kind on the way through this one.
       */
      kind: "image" | "file" | "voice";
      mime: MimeType;
      /**
       * Of a file above 16 MiB: SHA-256 of each 8 MiB of it.
       *
       * @minItems 1
       * @maxItems 13
       */
      parts?: Digest[];
      /**
       * SHA-256 of the bytes, or of a file in parts that of its parts' digests, one after another.
       */
      sha256: Digest;
    })
  | ((
      | {
          to: UserId;
        }
      | {
          conversation_id: ConversationId;
        }
    ) & {
      /**
       * A message that the caller can see.
       */
      copy_of: {
        conversation_id: ConversationId;
        /**
         * A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
         */
        seq: number;
      };
    })
  | {
      media_id: MediaId;
    };
/**
 * What a group is called.
 */
export type Title = string;
/**
 * Changes what a group is called, and what its members may do.
 */
export type UpdateRequest = UpdateRequest1 & {
  action: "update";
  /**
   * Who may add members.
   */
  add?: "all" | "admins";
  /**
   * The idempotency key: unique per sender and conversation, across all actions.
   */
  client_msg_id: ClientMsgId;
  conversation_id: ConversationId;
  /**
   * For those who join from now on.
   */
  history?: "joined" | "all";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * Of a channel: who may join by themselves.
   */
  join?: "open" | "admins";
  /**
   * Who may write messages.
   */
  post?: "all" | "admins";
  title?: Title;
};
export type UpdateRequest1 = {
  [k: string]: unknown;
};
/**
 * What a client receives.
 */
export type ServerFrame =
  | SendReply
  | EditReply
  | DeleteReply
  | ReactReply
  | AckReply
  | DrainReply
  | ReadReply
  | InboxReply
  | HistoryReply
  | SettingsReply
  | DeviceReply
  | UploadReply
  | UploadedReply
  | DownloadReply
  | CreateReply
  | AddReply
  | RemoveReply
  | LeaveReply
  | RoleReply
  | UpdateReply
  | MembersReply
  | ReceiptsReply
  | ReactionsReply
  | JoinReply
  | ChannelsReply
  | WatchReply
  | UnwatchReply
  | PresenceReply
  | PingReply
  | ErrorFrame
  | MessagesNewEvent
  | ReceiptDeliveredEvent
  | ReceiptReadEvent
  | TypingEvent
  | SettingsEvent
  | ConnectionReplacedEvent
  | GatewayError;
/**
 * A message's id: a UUIDv7 (RFC 9562) whose time is the message's `sent_at`, so that ids sort as time does.
 */
export type MessageId = string;
/**
 * The edit is stored, as an entry of its own.
 */
export type EditResult = SendResult;
/**
 * The delete is stored, as an entry of its own.
 */
export type DeleteResult = SendResult;
/**
 * The reaction is stored, as an entry of its own.
 */
export type ReactResult = SendResult;
/**
 * What happened to a group: the entry's `sender_id` did it.
 */
export type System =
  | {
      event: "created";
      /**
       * @minItems 1
       * @maxItems 51
       */
      members: UserId[];
      title: Title;
    }
  | {
      event: "members.added";
      /**
       * @minItems 1
       * @maxItems 50
       */
      members: UserId[];
    }
  | {
      event: "members.removed";
      /**
       * @minItems 1
       * @maxItems 50
       */
      members: UserId[];
    }
  | {
      event: "member.left";
    }
  | {
      event: "role.changed";
      /**
       * What a member of a group may do.
       */
      role: "owner" | "admin" | "member" | "none";
      user_id: UserId;
    }
  | {
      /**
       * Who of a group may do something.
       */
      add?: "all" | "admins";
      event: "info.changed";
      /**
       * From where on those who join see what was said.
       */
      history?: "joined" | "all";
      /**
       * Of a channel.
       */
      join?: "open" | "admins";
      /**
       * Who of a group may do something.
       */
      post?: "all" | "admins";
      title?: Title;
    };
/**
 * One installation of an app.
 */
export type DeviceId = string;
/**
 * The group is there, and its first entry says so.
 */
export type CreateResult = SendResult;
/**
 * The removal is stored, as an entry, which is the last that the user gets.
 */
export type RemoveResult = SendResult;
/**
 * The change is stored, as an entry.
 */
export type RoleResult = SendResult;
/**
 * The change is stored, as an entry.
 */
export type UpdateResult = SendResult;
/**
 * Every reason, with a stable code. The texts are for the client's developer: they name the field and the limit, and
 * carry nothing of the request's content and no internal details.
 */
export type ErrorCode =
  | "bad_request"
  | "too_large"
  | "unknown_action"
  | "token_expired"
  | "not_member"
  | "id_reused"
  | "forbidden"
  | "gone"
  | "not_ready"
  | "limit_reached"
  | "rate_limited"
  | "conflict"
  | "unavailable"
  | (string & {});
/**
 * The user changed settings on another of their connections.
 */
export type SettingsEvent = SettingsEvent1 & {
  type: "settings";
};
export type SettingsEvent1 =
  | {
      conversation_id: ConversationId;
      set: ConversationSettings;
    }
  | {
      set: UserSettings;
      user_id: UserId;
    };

/**
 * What a message carries beside its text. A message never holds a URL: `download` gives one.
 */
export interface Media {
  bytes: number;
  /**
   * Of a recording.
   */
  duration_ms?: number;
  height?: number;
  /**
   * What it was uploaded as. Clients keep what they have downloaded under it.
   */
  media_id: MediaId;
  mime: MimeType;
  /**
   * Of a file, what it is called.
   */
  name?: FileName;
  /**
   * SHA-256 of the bytes, or of a file in parts that of its parts' digests, one after another.
   */
  sha256: Digest;
  /**
   * What is shown until the image is there: <https://evanw.github.io/thumbhash/>.
   */
  thumbhash?: Thumbhash;
  /**
   * Of a voice note: 100 bars of 5 bits, packed from the first bit on.
   */
  waveform?: Waveform;
  /**
   * In pixels. An image has both.
   */
  width?: number;
}
/**
 * Gives a message of one's own another text.
 */
export interface EditRequest {
  action: "edit";
  /**
   * At most 16 KiB of UTF-8, and at most 24 KiB once written as JSON. A caption may become empty, a text may not.
   */
  body: string;
  /**
   * The idempotency key: unique per sender and conversation, across all actions.
   */
  client_msg_id: ClientMsgId;
  conversation_id: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * The message.
   */
  seq: number;
}
/**
 * Deletes a message of one's own, for everybody.
 */
export interface DeleteRequest {
  action: "delete";
  /**
   * The idempotency key: unique per sender and conversation, across all actions.
   */
  client_msg_id: ClientMsgId;
  conversation_id: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * The message.
   */
  seq: number;
}
/**
 * Puts an emoji beside a message, in the place of one's own before, or takes it back.
 */
export interface ReactRequest {
  action: "react";
  /**
   * The idempotency key: unique per sender and conversation, across all actions.
   */
  client_msg_id: ClientMsgId;
  conversation_id: ConversationId;
  /**
   * In the place of what the user reacted with before. `null` takes it back.
   */
  emoji: Emoji | null;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * The message.
   */
  seq: number;
}
/**
 * "This device holds everything up to here": two grey ticks at the sender's. Idempotent, never moves back.
 */
export interface AckRequest {
  action: "ack";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * @minItems 1
   * @maxItems 25
   */
  up_to: AckEntry[];
}
/**
 * "This device holds everything up to here."
 */
export interface AckEntry {
  conversation_id: ConversationId;
  /**
   * A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
   */
  seq: number;
}
/**
 * What no device of the user has acknowledged, a page at a time, oldest first.
 */
export interface DrainRequest {
  /**
   * The acknowledgement of the page before, applied first.
   *
   * @minItems 1
   * @maxItems 25
   */
  ack?: AckEntry[];
  action: "drain";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
}
/**
 * "The user has read everything up to here", and so holds it: blue ticks. Idempotent, never moves back.
 */
export interface ReadRequest {
  action: "read";
  conversation_id: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
   */
  seq: number;
}
/**
 * The chat list, most recently active first.
 */
export interface InboxRequest {
  action: "inbox";
  /**
   * The `next_cursor` of the page before.
   */
  cursor?: string;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  limit?: number;
  /**
   * Only conversations that were active since, with any offset from UTC. Goes along with every cursor.
   */
  since?: Timestamp;
}
/**
 * Messages of a conversation, and how far its members have come.
 */
export interface HistoryRequest {
  action: "history";
  /**
   * What comes after this one, nearest to it.
   */
  after_seq?: number;
  /**
   * What comes before this one, nearest to it.
   */
  before_seq?: number;
  conversation_id: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  limit?: number;
}
/**
 * Settings for a conversation: at least one of them.
 */
export interface ConversationSettings {
  /**
   * Out of sight, until the next message.
   */
  archived?: boolean;
  /**
   * Nothing of it rings until then. `null`: it rings again.
   */
  muted_until?: MutedUntil | null;
}
/**
 * Settings for another user.
 */
export interface UserSettings {
  /**
   * Neither can write to the other, nor see the other's ticks.
   */
  blocked: boolean;
}
/**
 * "The bytes are there": they are looked at, and can be sent then. Idempotent.
 */
export interface UploadedRequest {
  action: "uploaded";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  media_id: MediaId;
}
/**
 * Where to get the bytes of what messages carry.
 */
export interface DownloadRequest {
  action: "download";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * @minItems 1
   * @maxItems 10
   */
  media_ids: MediaId[];
}
/**
 * Makes a group or a channel.
 */
export interface CreateRequest {
  action: "create";
  /**
   * Who may add members. Left out, as `post`.
   */
  add?: "all" | "admins";
  /**
   * The idempotency key: unique per user.
   */
  client_msg_id: ClientMsgId;
  /**
   * From where on those who join see what was said.
   */
  history?: "joined" | "all";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * Of a channel only: who may join by themselves. Left out, nobody.
   */
  join?: "open" | "admins";
  /**
   * A channel has any number of members, who read it on demand.
   */
  kind?: "group" | "channel";
  /**
   * Whoever else is a member from the first entry on.
   *
   * @maxItems 50
   */
  members: UserId[];
  /**
   * Who may write messages. Left out, all in a group, and admins in a channel.
   */
  post?: "all" | "admins";
  /**
   * At most 192 bytes of UTF-8.
   */
  title: Title;
}
/**
 * Adds members to a group.
 */
export interface AddRequest {
  action: "add";
  /**
   * The idempotency key: unique per sender and conversation, across all actions.
   */
  client_msg_id: ClientMsgId;
  conversation_id: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * @minItems 1
   * @maxItems 50
   */
  members: UserId[];
}
/**
 * Removes a member from a group.
 */
export interface RemoveRequest {
  action: "remove";
  /**
   * The idempotency key: unique per sender and conversation, across all actions.
   */
  client_msg_id: ClientMsgId;
  conversation_id: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  user_id: UserId;
}
/**
 * Leaves a group or a channel.
 */
export interface LeaveRequest {
  action: "leave";
  /**
   * The idempotency key: unique per sender and conversation, across all actions. Of a channel it can be left out: there it is no
   * entry.
   */
  client_msg_id?: ClientMsgId;
  conversation_id: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
}
/**
 * Says what a member of a group may do.
 */
export interface RoleRequest {
  action: "role";
  /**
   * The idempotency key: unique per sender and conversation, across all actions.
   */
  client_msg_id: ClientMsgId;
  conversation_id: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * `owner` hands the group over: who does so is an admin from then on.
   */
  role: "owner" | "admin" | "member";
  user_id: UserId;
}
/**
 * Who is in a group.
 */
export interface MembersRequest {
  action: "members";
  conversation_id: ConversationId;
  /**
   * The `next_cursor` of the page before.
   */
  cursor?: UserId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  limit?: number;
}
/**
 * How far the other members of a group have come.
 */
export interface ReceiptsRequest {
  action: "receipts";
  conversation_id: ConversationId;
  /**
   * The `next_cursor` of the page before.
   */
  cursor?: UserId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  limit?: number;
}
/**
 * Who reacted to a message.
 */
export interface ReactionsRequest {
  action: "reactions";
  conversation_id: ConversationId;
  /**
   * The `next_cursor` of the page before.
   */
  cursor?: UserId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  limit?: number;
  /**
   * The message.
   */
  seq: number;
}
/**
 * Becomes a member of a channel that takes everybody. Again: harmless.
 */
export interface JoinRequest {
  action: "join";
  conversation_id: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
}
/**
 * The channels whose member the user is, with what of each is unread.
 */
export interface ChannelsRequest {
  action: "channels";
  /**
   * The `next_cursor` of the page before.
   */
  cursor?: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
}
/**
 * Has a channel's entries come over this connection as they are written.
 */
export interface WatchRequest {
  action: "watch";
  conversation_id: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
}
/**
 * Has them come no longer.
 */
export interface UnwatchRequest {
  action: "unwatch";
  conversation_id: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
}
/**
 * The user is writing. Neither stored nor answered.
 */
export interface TypingRequest {
  action: "typing";
  conversation_id: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
}
/**
 * Who of these is there, and when the others were.
 */
export interface PresenceRequest {
  action: "presence";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * @minItems 1
   * @maxItems 20
   */
  user_ids: UserId[];
}
/**
 * Whether anything is pending; also keeps an idle socket open.
 */
export interface PingRequest {
  action: "ping";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
}
/**
 * The answer to `send`, if it succeeded.
 */
export interface SendReply {
  action: "send";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: SendResult;
  type: "reply";
}
/**
 * The message is stored: in the history, in the recipient's inbox, and pending.
 */
export interface SendResult {
  conversation_id: ConversationId;
  /**
   * It had been stored before, under the same `client_msg_id`.
   */
  duplicate: boolean;
  message_id: MessageId;
  sent_at: Timestamp;
  /**
   * A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
   */
  seq: number;
  /**
   * Only of an edit: which version of the text it made.
   */
  version?: number;
}
/**
 * The answer to `edit`, if it succeeded.
 */
export interface EditReply {
  action: "edit";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: EditResult;
  type: "reply";
}
/**
 * The answer to `delete`, if it succeeded.
 */
export interface DeleteReply {
  action: "delete";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: DeleteResult;
  type: "reply";
}
/**
 * The answer to `react`, if it succeeded.
 */
export interface ReactReply {
  action: "react";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: ReactResult;
  type: "reply";
}
/**
 * The answer to `ack`, if it succeeded.
 */
export interface AckReply {
  action: "ack";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: AckResult;
  type: "reply";
}
export interface AckResult {}
/**
 * The answer to `drain`, if it succeeded.
 */
export interface DrainReply {
  action: "drain";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: DrainResult;
  type: "reply";
}
/**
 * No messages and `more: false`: drained.
 */
export interface DrainResult {
  messages: Message[];
  more: boolean;
}
/**
 * An entry of a conversation, as one of its members sees it: a message, or a change of one.
 */
export interface Message {
  /**
   * Of an edit, the text that its target has now. Of an image, a file or a voice note, the caption. Empty where there is none, or
   * none any more.
   */
  body: string;
  /**
   * Only in what the sender's own devices receive.
   */
  client_msg_id?: ClientMsgId;
  conversation_id: ConversationId;
  /**
   * The `sent_at` of the entry that deleted it: the body is empty then, and nobody's reaction is left.
   */
  deleted_at?: Timestamp;
  deleted_by?: UserId;
  /**
   * The `sent_at` of the edit that made this version.
   */
  edited_at?: Timestamp;
  /**
   * Of a reaction: what it is. Left out: it was taken back.
   */
  emoji?: Emoji;
  /**
   * Of a reaction: what stood there before. Left out: nothing did.
   */
  emoji_before?: Emoji;
  /**
   * `text`, `image`, `file`, `voice`, `edit`, `delete`, `reaction`, `system`, or one that came later: a client shows nothing for a kind that it does not know.
   */
  kind: string;
  /**
   * Of an image, a file or a voice note that is not deleted.
   */
  media?: Media;
  /**
   * Whom it names, or `*` for all members.
   *
   * @minItems 1
   * @maxItems 20
   */
  mentions?: UserId[];
  message_id: MessageId;
  /**
   * The most frequent ones.
   *
   * @minItems 1
   * @maxItems 20
   */
  reactions?: Reaction[];
  /**
   * The last reaction entry that is in `reactions`, or was, if that took one back.
   */
  reactions_seq?: number;
  /**
   * The message that this one answers.
   */
  reply_to?: number;
  sender_id: UserId;
  /**
   * Never goes back within a conversation.
   */
  sent_at: Timestamp;
  /**
   * A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
   */
  seq: number;
  /**
   * Of a system entry: what happened.
   */
  system?: System;
  /**
   * Of an edit, a delete or a reaction: the message that it is about.
   */
  target_seq?: number;
  /**
   * Which version of the text this is, from 2 on. Of an edit, its target's.
   */
  version?: number;
}
/**
 * How many members reacted with the same.
 */
export interface Reaction {
  count: number;
  emoji: Emoji;
  /**
   * The viewer is among them.
   */
  mine: boolean;
}
/**
 * The answer to `read`, if it succeeded.
 */
export interface ReadReply {
  action: "read";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: ReadResult;
  type: "reply";
}
export interface ReadResult {
  /**
   * Of a group: how many of those name the user.
   */
  mentions?: number;
  /**
   * How many messages are left unread.
   */
  unread: number;
}
/**
 * The answer to `inbox`, if it succeeded.
 */
export interface InboxReply {
  action: "inbox";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: InboxResult;
  type: "reply";
}
export interface InboxResult {
  conversations: Conversation[];
  /**
   * `null`: this was the last page. A page that has one is never empty.
   */
  next_cursor: string | null;
}
/**
 * A conversation, as the chat list shows it to one of its members.
 */
export interface Conversation {
  /**
   * Who of a group may do something.
   */
  add?: "all" | "admins";
  archived?: boolean;
  /**
   * The member has blocked `peer_id`.
   */
  blocked?: boolean;
  conversation_id: ConversationId;
  /**
   * A device of the member holds everything up to here.
   */
  delivered_seq: number;
  /**
   * Below it nothing is shown, and nothing is a gap.
   */
  first_seq?: number;
  /**
   * Of a group, as long as the member is one: from where on those who join see what was said, who may write messages, and
   * who may add members.
   */
  history?: "joined" | "all";
  /**
   * What a conversation is between. More will come.
   */
  kind: "direct" | "group" | "channel";
  last_message: LastMessage;
  /**
   * The newest entry's `seq`, which can be one that the chat list does not show.
   */
  last_seq: number;
  member_count?: number;
  /**
   * Of a group: how many of those name the member.
   */
  mentions?: number;
  /**
   * What the member has set, each only where it is set.
   */
  muted_until?: MutedUntil;
  /**
   * Of a direct conversation, the other member; the member itself in a note to oneself.
   */
  peer_id?: UserId;
  /**
   * Who of a group may do something.
   */
  post?: "all" | "admins";
  /**
   * The member has read everything up to here.
   */
  read_seq: number;
  /**
   * What the member may do; `none`: they were removed, or have left.
   */
  role?: "owner" | "admin" | "member" | "none";
  /**
   * Of a group, and so are the next three.
   */
  title?: string;
  /**
   * How many of others' messages are above `read_seq`.
   */
  unread: number;
}
/**
 * The newest message of a conversation, shortened: of its entries the last one that counts.
 */
export interface LastMessage {
  /**
   * The message was deleted: the preview is empty.
   */
  deleted?: boolean;
  /**
   * What an entry is. What a later version stored keeps its kind on the way through this one.
   */
  kind: string;
  /**
   * The first characters of its body.
   */
  preview: string;
  sender_id: UserId;
  sent_at: Timestamp;
  /**
   * A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
   */
  seq: number;
  /**
   * Of a system entry: what happened.
   */
  system?: System;
}
/**
 * The answer to `history`, if it succeeded.
 */
export interface HistoryReply {
  action: "history";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: HistoryResult;
  type: "reply";
}
/**
 * Nothing in it contradicts anything else in it: no mark and no message is above `last_seq`.
 */
export interface HistoryResult {
  /**
   * Of a group: below it nothing is shown, and nothing is a gap.
   */
  first_seq?: number;
  /**
   * A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
   */
  last_seq: number;
  /**
   * Of a direct conversation. Of a group, `receipts` tells.
   */
  members: Member[];
  /**
   * In the order of their `seq`.
   */
  messages: Message[];
  /**
   * There are more on the side that was asked for.
   */
  more: boolean;
}
/**
 * How far a member of a conversation has come.
 */
export interface Member {
  /**
   * A device of theirs holds everything up to here.
   */
  delivered_seq: number;
  /**
   * They have read everything up to here.
   */
  read_seq: number;
  user_id: UserId;
}
/**
 * The answer to `settings`, if it succeeded.
 */
export interface SettingsReply {
  action: "settings";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: SettingsResult;
  type: "reply";
}
export interface SettingsResult {}
/**
 * The answer to `device`, if it succeeded.
 */
export interface DeviceReply {
  action: "device";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: DeviceResult;
  type: "reply";
}
export interface DeviceResult {
  device_id: DeviceId;
  registered: boolean;
}
/**
 * The answer to `upload`, if it succeeded.
 */
export interface UploadReply {
  action: "upload";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: UploadResult;
  type: "reply";
}
/**
 * It waits for its bytes, for a day.
 */
export interface UploadResult {
  /**
   * The URLs are good until then.
   */
  expires_at: Timestamp;
  /**
   * To be sent with the PUT, exactly these.
   */
  headers?: {
    [k: string]: string;
  };
  media_id: MediaId;
  /**
   * Of a file in parts, the first few of those that are not there yet.
   *
   * @minItems 1
   */
  parts?: Part[];
  /**
   * Where to PUT all of the bytes. Left out where there is nothing to put, and of a file in parts.
   */
  url?: string;
}
/**
 * Where to PUT a part of a file.
 */
export interface Part {
  bytes: number;
  headers: {
    [k: string]: string;
  };
  /**
   * From 1 on.
   */
  number: number;
  /**
   * The first of its bytes.
   */
  offset: number;
  url: string;
}
/**
 * The answer to `uploaded`, if it succeeded.
 */
export interface UploadedReply {
  action: "uploaded";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: UploadedResult;
  type: "reply";
}
/**
 * All of the bytes are there, and are those that were announced.
 */
export interface UploadedResult {
  media_id: MediaId;
}
/**
 * The answer to `download`, if it succeeded.
 */
export interface DownloadReply {
  action: "download";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: DownloadResult;
  type: "reply";
}
/**
 * Each that was asked for is in one of the two.
 */
export interface DownloadResult {
  /**
   * Deleted, never there, or not for the caller: they look alike.
   */
  gone: MediaId[];
  items: Download[];
}
export interface Download {
  expires_at: Timestamp;
  media_id: MediaId;
  /**
   * Where to GET the bytes, as an attachment.
   */
  url: string;
}
/**
 * The answer to `create`, if it succeeded.
 */
export interface CreateReply {
  action: "create";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: CreateResult;
  type: "reply";
}
/**
 * The answer to `add`, if it succeeded.
 */
export interface AddReply {
  action: "add";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: AddResult;
  type: "reply";
}
/**
 * Who is a member now.
 */
export interface AddResult {
  added: UserId[];
  /**
   * Those who were members before.
   */
  already: UserId[];
  conversation_id?: ConversationId;
  /**
   * It had been stored before, under the same `client_msg_id`.
   */
  duplicate?: boolean;
  message_id?: MessageId;
  sent_at?: Timestamp;
  /**
   * A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
   */
  seq?: number;
  /**
   * Only of an edit: which version of the text it made.
   */
  version?: number;
}
/**
 * The answer to `remove`, if it succeeded.
 */
export interface RemoveReply {
  action: "remove";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: RemoveResult;
  type: "reply";
}
/**
 * The answer to `leave`, if it succeeded.
 */
export interface LeaveReply {
  action: "leave";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: LeaveResult;
  type: "reply";
}
/**
 * In a group it is stored, as an entry, which is the last that the user gets.
 */
export interface LeaveResult {
  conversation_id?: ConversationId;
  /**
   * It had been stored before, under the same `client_msg_id`.
   */
  duplicate?: boolean;
  message_id?: MessageId;
  sent_at?: Timestamp;
  /**
   * A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
   */
  seq?: number;
  /**
   * Only of an edit: which version of the text it made.
   */
  version?: number;
}
/**
 * The answer to `role`, if it succeeded.
 */
export interface RoleReply {
  action: "role";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: RoleResult;
  type: "reply";
}
/**
 * The answer to `update`, if it succeeded.
 */
export interface UpdateReply {
  action: "update";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: UpdateResult;
  type: "reply";
}
/**
 * The answer to `members`, if it succeeded.
 */
export interface MembersReply {
  action: "members";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: MembersResult;
  type: "reply";
}
export interface MembersResult {
  members: GroupMember[];
  /**
   * `null`: this was the last page.
   */
  next_cursor: UserId | null;
}
/**
 * A member of a group.
 */
export interface GroupMember {
  /**
   * The entry with which they joined.
   */
  joined_seq: number;
  /**
   * What a member of a group may do.
   */
  role: "owner" | "admin" | "member" | "none";
  user_id: UserId;
}
/**
 * The answer to `receipts`, if it succeeded.
 */
export interface ReceiptsReply {
  action: "receipts";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: ReceiptsResult;
  type: "reply";
}
export interface ReceiptsResult {
  /**
   * Devices of all other members hold everything up to here.
   */
  delivered_seq: number;
  /**
   * A page of the others.
   */
  members: Member[];
  /**
   * `null`: this was the last page.
   */
  next_cursor: UserId | null;
  /**
   * All other members have read everything up to here.
   */
  read_seq: number;
}
/**
 * The answer to `reactions`, if it succeeded.
 */
export interface ReactionsReply {
  action: "reactions";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: ReactionsResult;
  type: "reply";
}
export interface ReactionsResult {
  /**
   * `null`: this was the last page.
   */
  next_cursor: UserId | null;
  reactions: Reactor[];
}
/**
 * Who reacted with what.
 */
export interface Reactor {
  emoji: Emoji;
  user_id: UserId;
}
/**
 * The answer to `join`, if it succeeded.
 */
export interface JoinReply {
  action: "join";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: JoinResult;
  type: "reply";
}
/**
 * The user is a member, now or before.
 */
export interface JoinResult {
  /**
   * The newest entry's `seq`. What comes after it is unread.
   */
  last_seq: number;
}
/**
 * The answer to `channels`, if it succeeded.
 */
export interface ChannelsReply {
  action: "channels";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: ChannelsResult;
  type: "reply";
}
export interface ChannelsResult {
  /**
   * As many as a frame holds, in the order of their ids.
   */
  conversations: Channel[];
  /**
   * `null`: this was the last page.
   */
  next_cursor: ConversationId | null;
}
/**
 * A channel, as the list of channels shows it to one of its members.
 */
export interface Channel {
  /**
   * Who may add members.
   */
  add: "all" | "admins";
  archived?: boolean;
  conversation_id: ConversationId;
  /**
   * Below it nothing is shown, and nothing is a gap. One above `last_seq` as long as nothing was written since the member joined.
   */
  first_seq: number;
  /**
   * From where on those who join see what was said.
   */
  history: "joined" | "all";
  /**
   * Who of those who know its id may join it.
   */
  join: "open" | "admins";
  kind: "channel";
  /**
   * Left out if the member sees none.
   */
  last_message?: LastMessage;
  /**
   * The newest entry's `seq`, which can be one that the list does not show.
   */
  last_seq: number;
  /**
   * What the member has set, each only where it is set.
   */
  muted_until?: MutedUntil;
  /**
   * Who may write messages.
   */
  post: "all" | "admins";
  /**
   * The member has read everything up to here.
   */
  read_seq: number;
  /**
   * What the member may do.
   */
  role: "owner" | "admin" | "member" | "none";
  title: string;
  /**
   * How many messages are above `read_seq`. One that was deleted counts until it is read.
   */
  unread: number;
}
/**
 * The answer to `watch`, if it succeeded.
 */
export interface WatchReply {
  action: "watch";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: WatchResult;
  type: "reply";
}
/**
 * Whether they do.
 */
export interface WatchResult {
  /**
   * The newest entry's `seq`. What comes after it is sent.
   */
  last_seq: number;
  /**
   * Not if too many are watching already, or this connection watches too many.
   */
  live: boolean;
  /**
   * How often to ask for the history: instead, or, if `live`, beside it, since an event can be lost.
   */
  poll_ms: number;
}
/**
 * The answer to `unwatch`, if it succeeded.
 */
export interface UnwatchReply {
  action: "unwatch";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: UnwatchResult;
  type: "reply";
}
/**
 * None come any more.
 */
export interface UnwatchResult {}
/**
 * The answer to `presence`, if it succeeded.
 */
export interface PresenceReply {
  action: "presence";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: PresenceResult;
  type: "reply";
}
export interface PresenceResult {
  /**
   * Of those who were asked for, the ones that the user has a direct conversation with.
   */
  users: Presence[];
}
/**
 * Whether a user is there, or was.
 */
export interface Presence {
  /**
   * When they last opened or closed a connection. `null`: nobody knows.
   */
  last_seen_at: Timestamp | null;
  /**
   * They have a live connection.
   */
  online: boolean;
  user_id: UserId;
}
/**
 * The answer to `ping`, if it succeeded.
 */
export interface PingReply {
  action: "ping";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: PingResult;
  type: "reply";
}
export interface PingResult {
  /**
   * Something waits unacknowledged: drain.
   */
  pending: boolean;
  server_time: Timestamp;
}
/**
 * The answer to a request that did not succeed.
 */
export interface ErrorFrame {
  /**
   * Left out where it could not be read.
   */
  action?: string;
  error: Problem;
  /**
   * The request's. Left out where it had none, or it could not be read.
   */
  id?: RequestId;
  type: "error";
}
/**
 * Why a request did not succeed.
 */
export interface Problem {
  code: ErrorCode;
  /**
   * For the client's developer: names the field that is wrong. Not for users.
   */
  message: string;
  /**
   * How long to wait before that, where waiting helps.
   */
  retry_after_ms?: number;
  /**
   * The same request may succeed if it is sent again.
   */
  retryable: boolean;
}
/**
 * Messages were stored: to each member's connections, but the one that sent them; of a channel to those that watch it.
 */
export interface MessagesNewEvent {
  conversation_id: ConversationId;
  /**
   * One or more, in the order of their `seq` and without a hole between them.
   *
   * @minItems 1
   */
  messages: Message[];
  type: "messages.new";
}
/**
 * A device of `user_id` has everything up to `seq`: two grey ticks.
 */
export interface ReceiptDeliveredEvent {
  at: Timestamp;
  conversation_id: ConversationId;
  /**
   * A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
   */
  seq: number;
  type: "receipt.delivered";
  user_id: UserId;
}
/**
 * `user_id` has read everything up to `seq`: blue ticks, and their other devices clear the badge.
 */
export interface ReceiptReadEvent {
  at: Timestamp;
  conversation_id: ConversationId;
  /**
   * A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
   */
  seq: number;
  type: "receipt.read";
  user_id: UserId;
}
/**
 * `user_id` is writing, for a few seconds from now on.
 */
export interface TypingEvent {
  at: Timestamp;
  conversation_id: ConversationId;
  type: "typing";
  user_id: UserId;
}
/**
 * The user has opened too many connections, and this was the oldest: it is closed now.
 */
export interface ConnectionReplacedEvent {
  type: "connection.replaced";
}
/**
 * What API Gateway itself says when it could not hand a frame on. It has no `type`, and doesn't say which request it is about.
 */
export interface GatewayError {
  connectionId: string;
  message: string;
  requestId: string;
}

/** What the server allows. */
export const limits = {
  ACK_ENTRIES_MAX: 25,
  BODY_BYTES_MAX: 16384,
  BODY_JSON_BYTES_MAX: 24576,
  CHANNELS_PER_USER_MAX: 200,
  CHANNEL_REACTIONS_MAX: 20,
  CLIENT_MSG_ID_CHARS_MAX: 64,
  CONVERSATION_ID_CHARS_MAX: 128,
  DEVICE_ID_CHARS_MAX: 64,
  DEVICE_TOKEN_CHARS_MAX: 4096,
  DOWNLOADS_MAX: 10,
  DURATION_MS_MAX: 86400000,
  EDITS_MAX: 20,
  EMOJI_BYTES_MAX: 32,
  FILE_NAME_BYTES_MAX: 255,
  FRAME_BYTES_MAX: 32768,
  GROUP_CHANGE_MEMBERS_MAX: 50,
  HISTORY_LIMIT_DEFAULT: 50,
  HISTORY_LIMIT_MAX: 100,
  INBOX_LIMIT_DEFAULT: 20,
  INBOX_LIMIT_MAX: 50,
  MEDIA_BYTES_MAX: 104857600,
  MEDIA_ID_CHARS_MAX: 64,
  MEDIA_PARTS_MAX: 13,
  MEDIA_PART_BYTES: 8388608,
  MEDIA_WHOLE_BYTES_MAX: 16777216,
  MEMBERS_LIMIT_DEFAULT: 50,
  MEMBERS_LIMIT_MAX: 100,
  MENTIONS_JSON_BYTES_MAX: 3072,
  MENTIONS_MAX: 20,
  MIME_CHARS_MAX: 100,
  PIXELS_MAX: 65535,
  POLL_LIVE_MS: 60000,
  POLL_MS: 10000,
  PRESENCE_USERS_MAX: 20,
  PREVIEW_CHARS_MAX: 100,
  REACTIONS_SHOWN_MAX: 20,
  REACTORS_MAX: 100,
  REQUEST_ID_CHARS_MAX: 64,
  SEQ_MAX: 9007199254740991,
  SMALL_GROUP_MEMBERS_MAX: 32,
  THUMBHASH_CHARS_MAX: 44,
  TITLE_BYTES_MAX: 192,
  TITLE_CHARS_MAX: 64,
  TYPING_PAUSE_MS: 4000,
  TYPING_SHOWN_MS: 6000,
  USER_ID_CHARS_MAX: 128,
  WATCHED_MAX: 8,
  WATCHERS_MAX: 2000,
  WAVEFORM_CHARS_MAX: 100,
} as const;

type Fields = Record<string, unknown>;

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// A text that is none makes what computes with times throw, far from here.
export function isTimestamp(value: unknown): value is string {
  return typeof value === "string" && /^\d{4}-\d\d-\d\dT/.test(value) && !Number.isNaN(Date.parse(value));
}

function isListOf(value: unknown, isItem: (item: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isItem);
}

export function isAckResult(value: unknown): value is AckResult {
  return isObject(value);
}

export function isAddResult(value: unknown): value is AddResult {
  return isObject(value) &&
    isListOf(value.added, (item) => typeof item === "string") &&
    isListOf(value.already, (item) => typeof item === "string") &&
    (value.conversation_id === undefined || typeof value.conversation_id === "string") &&
    (value.duplicate === undefined || typeof value.duplicate === "boolean") &&
    (value.message_id === undefined || typeof value.message_id === "string") &&
    (value.sent_at === undefined || isTimestamp(value.sent_at)) &&
    (value.seq === undefined || Number.isSafeInteger(value.seq)) &&
    (value.version === undefined || Number.isSafeInteger(value.version));
}

export function isChannel(value: unknown): value is Channel {
  return isObject(value) &&
    typeof value.add === "string" &&
    (value.archived === undefined || typeof value.archived === "boolean") &&
    typeof value.conversation_id === "string" &&
    Number.isSafeInteger(value.first_seq) &&
    typeof value.history === "string" &&
    typeof value.join === "string" &&
    value.kind === "channel" &&
    (value.last_message === undefined || isLastMessage(value.last_message)) &&
    Number.isSafeInteger(value.last_seq) &&
    (value.muted_until === undefined || (isTimestamp(value.muted_until) || value.muted_until === "forever")) &&
    typeof value.post === "string" &&
    Number.isSafeInteger(value.read_seq) &&
    typeof value.role === "string" &&
    typeof value.title === "string" &&
    Number.isSafeInteger(value.unread);
}

export function isChannelsResult(value: unknown): value is ChannelsResult {
  return isObject(value) &&
    isListOf(value.conversations, isChannel) &&
    (typeof value.next_cursor === "string" || value.next_cursor === null);
}

export function isConnectionReplacedEvent(value: unknown): value is ConnectionReplacedEvent {
  return isObject(value) &&
    value.type === "connection.replaced";
}

export function isConversation(value: unknown): value is Conversation {
  return isObject(value) &&
    (value.add === undefined || typeof value.add === "string") &&
    (value.archived === undefined || typeof value.archived === "boolean") &&
    (value.blocked === undefined || typeof value.blocked === "boolean") &&
    typeof value.conversation_id === "string" &&
    Number.isSafeInteger(value.delivered_seq) &&
    (value.first_seq === undefined || Number.isSafeInteger(value.first_seq)) &&
    (value.history === undefined || typeof value.history === "string") &&
    typeof value.kind === "string" &&
    isLastMessage(value.last_message) &&
    Number.isSafeInteger(value.last_seq) &&
    (value.member_count === undefined || Number.isSafeInteger(value.member_count)) &&
    (value.mentions === undefined || Number.isSafeInteger(value.mentions)) &&
    (value.muted_until === undefined || (isTimestamp(value.muted_until) || value.muted_until === "forever")) &&
    (value.peer_id === undefined || typeof value.peer_id === "string") &&
    (value.post === undefined || typeof value.post === "string") &&
    Number.isSafeInteger(value.read_seq) &&
    (value.role === undefined || typeof value.role === "string") &&
    (value.title === undefined || typeof value.title === "string") &&
    Number.isSafeInteger(value.unread);
}

export function isConversationSettings(value: unknown): value is ConversationSettings {
  return isObject(value) &&
    (value.archived === undefined || typeof value.archived === "boolean") &&
    (value.muted_until === undefined || ((isTimestamp(value.muted_until) || value.muted_until === "forever") || value.muted_until === null));
}

export function isDeviceResult(value: unknown): value is DeviceResult {
  return isObject(value) &&
    typeof value.device_id === "string" &&
    typeof value.registered === "boolean";
}

export function isDownload(value: unknown): value is Download {
  return isObject(value) &&
    isTimestamp(value.expires_at) &&
    typeof value.media_id === "string" &&
    typeof value.url === "string";
}

export function isDownloadResult(value: unknown): value is DownloadResult {
  return isObject(value) &&
    isListOf(value.gone, (item) => typeof item === "string") &&
    isListOf(value.items, isDownload);
}

export function isDrainResult(value: unknown): value is DrainResult {
  return isObject(value) &&
    isListOf(value.messages, isMessage) &&
    typeof value.more === "boolean";
}

export function isErrorFrame(value: unknown): value is ErrorFrame {
  return isObject(value) &&
    (value.action === undefined || typeof value.action === "string") &&
    isProblem(value.error) &&
    (value.id === undefined || typeof value.id === "string") &&
    value.type === "error";
}

export function isGroupMember(value: unknown): value is GroupMember {
  return isObject(value) &&
    Number.isSafeInteger(value.joined_seq) &&
    typeof value.role === "string" &&
    typeof value.user_id === "string";
}

export function isHistoryResult(value: unknown): value is HistoryResult {
  return isObject(value) &&
    (value.first_seq === undefined || Number.isSafeInteger(value.first_seq)) &&
    Number.isSafeInteger(value.last_seq) &&
    isListOf(value.members, isMember) &&
    isListOf(value.messages, isMessage) &&
    typeof value.more === "boolean";
}

export function isInboxResult(value: unknown): value is InboxResult {
  return isObject(value) &&
    isListOf(value.conversations, isConversation) &&
    (typeof value.next_cursor === "string" || value.next_cursor === null);
}

export function isJoinResult(value: unknown): value is JoinResult {
  return isObject(value) &&
    Number.isSafeInteger(value.last_seq);
}

export function isLastMessage(value: unknown): value is LastMessage {
  return isObject(value) &&
    (value.deleted === undefined || typeof value.deleted === "boolean") &&
    typeof value.kind === "string" &&
    typeof value.preview === "string" &&
    typeof value.sender_id === "string" &&
    isTimestamp(value.sent_at) &&
    Number.isSafeInteger(value.seq) &&
    (value.system === undefined || isSystem(value.system));
}

export function isLeaveResult(value: unknown): value is LeaveResult {
  return isObject(value) &&
    (value.conversation_id === undefined || typeof value.conversation_id === "string") &&
    (value.duplicate === undefined || typeof value.duplicate === "boolean") &&
    (value.message_id === undefined || typeof value.message_id === "string") &&
    (value.sent_at === undefined || isTimestamp(value.sent_at)) &&
    (value.seq === undefined || Number.isSafeInteger(value.seq)) &&
    (value.version === undefined || Number.isSafeInteger(value.version));
}

export function isMedia(value: unknown): value is Media {
  return isObject(value) &&
    Number.isSafeInteger(value.bytes) &&
    (value.duration_ms === undefined || Number.isSafeInteger(value.duration_ms)) &&
    (value.height === undefined || Number.isSafeInteger(value.height)) &&
    typeof value.media_id === "string" &&
    typeof value.mime === "string" &&
    (value.name === undefined || typeof value.name === "string") &&
    typeof value.sha256 === "string" &&
    (value.thumbhash === undefined || typeof value.thumbhash === "string") &&
    (value.waveform === undefined || typeof value.waveform === "string") &&
    (value.width === undefined || Number.isSafeInteger(value.width));
}

export function isMember(value: unknown): value is Member {
  return isObject(value) &&
    Number.isSafeInteger(value.delivered_seq) &&
    Number.isSafeInteger(value.read_seq) &&
    typeof value.user_id === "string";
}

export function isMembersResult(value: unknown): value is MembersResult {
  return isObject(value) &&
    isListOf(value.members, isGroupMember) &&
    (typeof value.next_cursor === "string" || value.next_cursor === null);
}

export function isMessage(value: unknown): value is Message {
  return isObject(value) &&
    typeof value.body === "string" &&
    (value.client_msg_id === undefined || typeof value.client_msg_id === "string") &&
    typeof value.conversation_id === "string" &&
    (value.deleted_at === undefined || isTimestamp(value.deleted_at)) &&
    (value.deleted_by === undefined || typeof value.deleted_by === "string") &&
    (value.edited_at === undefined || isTimestamp(value.edited_at)) &&
    (value.emoji === undefined || typeof value.emoji === "string") &&
    (value.emoji_before === undefined || typeof value.emoji_before === "string") &&
    typeof value.kind === "string" &&
    (value.media === undefined || isMedia(value.media)) &&
    (value.mentions === undefined || isListOf(value.mentions, (item) => typeof item === "string")) &&
    typeof value.message_id === "string" &&
    (value.reactions === undefined || isListOf(value.reactions, isReaction)) &&
    (value.reactions_seq === undefined || Number.isSafeInteger(value.reactions_seq)) &&
    (value.reply_to === undefined || Number.isSafeInteger(value.reply_to)) &&
    typeof value.sender_id === "string" &&
    isTimestamp(value.sent_at) &&
    Number.isSafeInteger(value.seq) &&
    (value.system === undefined || isSystem(value.system)) &&
    (value.target_seq === undefined || Number.isSafeInteger(value.target_seq)) &&
    (value.version === undefined || Number.isSafeInteger(value.version));
}

export function isMessagesNewEvent(value: unknown): value is MessagesNewEvent {
  return isObject(value) &&
    typeof value.conversation_id === "string" &&
    isListOf(value.messages, isMessage) &&
    value.type === "messages.new";
}

export function isPart(value: unknown): value is Part {
  return isObject(value) &&
    Number.isSafeInteger(value.bytes) &&
    isObject(value.headers) &&
    Number.isSafeInteger(value.number) &&
    Number.isSafeInteger(value.offset) &&
    typeof value.url === "string";
}

export function isPingResult(value: unknown): value is PingResult {
  return isObject(value) &&
    typeof value.pending === "boolean" &&
    isTimestamp(value.server_time);
}

export function isPresence(value: unknown): value is Presence {
  return isObject(value) &&
    (isTimestamp(value.last_seen_at) || value.last_seen_at === null) &&
    typeof value.online === "boolean" &&
    typeof value.user_id === "string";
}

export function isPresenceResult(value: unknown): value is PresenceResult {
  return isObject(value) &&
    isListOf(value.users, isPresence);
}

export function isProblem(value: unknown): value is Problem {
  return isObject(value) &&
    typeof value.code === "string" &&
    typeof value.message === "string" &&
    (value.retry_after_ms === undefined || Number.isSafeInteger(value.retry_after_ms)) &&
    typeof value.retryable === "boolean";
}

export function isReaction(value: unknown): value is Reaction {
  return isObject(value) &&
    Number.isSafeInteger(value.count) &&
    typeof value.emoji === "string" &&
    typeof value.mine === "boolean";
}

export function isReactionsResult(value: unknown): value is ReactionsResult {
  return isObject(value) &&
    (typeof value.next_cursor === "string" || value.next_cursor === null) &&
    isListOf(value.reactions, isReactor);
}

export function isReactor(value: unknown): value is Reactor {
  return isObject(value) &&
    typeof value.emoji === "string" &&
    typeof value.user_id === "string";
}

export function isReadResult(value: unknown): value is ReadResult {
  return isObject(value) &&
    (value.mentions === undefined || Number.isSafeInteger(value.mentions)) &&
    Number.isSafeInteger(value.unread);
}

export function isReceiptDeliveredEvent(value: unknown): value is ReceiptDeliveredEvent {
  return isObject(value) &&
    isTimestamp(value.at) &&
    typeof value.conversation_id === "string" &&
    Number.isSafeInteger(value.seq) &&
    value.type === "receipt.delivered" &&
    typeof value.user_id === "string";
}

export function isReceiptReadEvent(value: unknown): value is ReceiptReadEvent {
  return isObject(value) &&
    isTimestamp(value.at) &&
    typeof value.conversation_id === "string" &&
    Number.isSafeInteger(value.seq) &&
    value.type === "receipt.read" &&
    typeof value.user_id === "string";
}

export function isReceiptsResult(value: unknown): value is ReceiptsResult {
  return isObject(value) &&
    Number.isSafeInteger(value.delivered_seq) &&
    isListOf(value.members, isMember) &&
    (typeof value.next_cursor === "string" || value.next_cursor === null) &&
    Number.isSafeInteger(value.read_seq);
}

export function isSendResult(value: unknown): value is SendResult {
  return isObject(value) &&
    typeof value.conversation_id === "string" &&
    typeof value.duplicate === "boolean" &&
    typeof value.message_id === "string" &&
    isTimestamp(value.sent_at) &&
    Number.isSafeInteger(value.seq) &&
    (value.version === undefined || Number.isSafeInteger(value.version));
}

export function isSettingsEvent(value: unknown): value is SettingsEvent {
  return isObject(value) &&
    value.type === "settings" &&
    ((typeof value.conversation_id === "string" && isConversationSettings(value.set)) || (isUserSettings(value.set) && typeof value.user_id === "string"));
}

export function isSettingsResult(value: unknown): value is SettingsResult {
  return isObject(value);
}

export function isSystem(value: unknown): value is System {
  return isObject(value) &&
    typeof value.event === "string" &&
    (value.event !== "created" || (isListOf(value.members, (item) => typeof item === "string") && typeof value.title === "string")) &&
    (value.event !== "members.added" || (isListOf(value.members, (item) => typeof item === "string"))) &&
    (value.event !== "members.removed" || (isListOf(value.members, (item) => typeof item === "string"))) &&
    (value.event !== "role.changed" || (typeof value.role === "string" && typeof value.user_id === "string")) &&
    (value.event !== "info.changed" || ((value.add === undefined || typeof value.add === "string") && (value.history === undefined || typeof value.history === "string") && (value.join === undefined || typeof value.join === "string") && (value.post === undefined || typeof value.post === "string") && (value.title === undefined || typeof value.title === "string")));
}

export function isTypingEvent(value: unknown): value is TypingEvent {
  return isObject(value) &&
    isTimestamp(value.at) &&
    typeof value.conversation_id === "string" &&
    value.type === "typing" &&
    typeof value.user_id === "string";
}

export function isUnwatchResult(value: unknown): value is UnwatchResult {
  return isObject(value);
}

export function isUploadResult(value: unknown): value is UploadResult {
  return isObject(value) &&
    isTimestamp(value.expires_at) &&
    (value.headers === undefined || isObject(value.headers)) &&
    typeof value.media_id === "string" &&
    (value.parts === undefined || isListOf(value.parts, isPart)) &&
    (value.url === undefined || typeof value.url === "string");
}

export function isUploadedResult(value: unknown): value is UploadedResult {
  return isObject(value) &&
    typeof value.media_id === "string";
}

export function isUserSettings(value: unknown): value is UserSettings {
  return isObject(value) &&
    typeof value.blocked === "boolean";
}

export function isWatchResult(value: unknown): value is WatchResult {
  return isObject(value) &&
    Number.isSafeInteger(value.last_seq) &&
    typeof value.live === "boolean" &&
    Number.isSafeInteger(value.poll_ms);
}
