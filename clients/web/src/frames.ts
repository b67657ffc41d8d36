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
  | PinRequest
  | AckRequest
  | DrainRequest
  | ReadRequest
  | InboxRequest
  | HistoryRequest
  | SettingsRequest
  | ReportRequest
  | ProfilesRequest
  | ProfileRequest
  | DeviceRequest
  | UploadRequest
  | UploadedRequest
  | DownloadRequest
  | CreateRequest
  | AddRequest
  | RemoveRequest
  | LeaveRequest
  | RoleRequest
  | RestrictRequest
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
  | PublishKeysRequest
  | ClaimKeysRequest
  | ListKeysRequest
  | RemoveKeysRequest
  | CommitRequest
  | GroupInfoRequest
  | PingRequest;
/**
 * Appends a message to a conversation. Sent again with the same `client_msg_id` and body: the same answer.
 */
export type SendRequest = {
  action: "send";
  /**
   * At most 16 KiB of UTF-8, and at most 24 KiB as JSON. The caption of an image, a file or a voice note may be
   * empty. A sealed message has up to 12,288 bytes in base64.
   */
  body: string;
  /**
   * The idempotency key: unique per sender and conversation.
   */
  client_msg_id: ClientMsgId;
  /**
   * An object of the app's own, at most 2,048 bytes without spaces. An own kind needs it.
   */
  data?: Data;
  /**
   * The epoch in which a sealed message was encrypted. `epoch` and `silent` are of kind `sealed` alone.
   */
  epoch?: number;
  /**
   * A digest of a sealed message, 32 bytes. With `encryption.report`, each sealed message has it.
   */
  frank?: string;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * Or a kind of the app's own, `x-NAME`; `xs-NAME` if it does not count. NAME: 1 to 29 of `a-z0-9.-`.
   */
  kind: string;
  /**
   * The uploaded image, file or voice note. A sealed message has only its `media_id`.
   */
  media?: Attached;
  /**
   * In a group: whom it names, or `*` for all members, which admins and the owner may.
   *
   * @maxItems 20
   */
  mentions?: UserId[];
  /**
   * The user has read, and this device has saved, everything up to here. If no later entry of others exists, both
   * marks of the user move to the message.
   */
  read?: number;
  /**
   * The message that this one answers: one of the conversation that there is.
   */
  reply_to?: number;
  /**
   * The sealed entry does not count: no unread message, no push, no last message.
   */
  silent?: boolean;
} & SendRequest1;
/**
 * The idempotency key of a `send`, unique per sender and conversation.
 */
export type ClientMsgId = string;
/**
 * The client's id of a request. The reply repeats it.
 */
export type RequestId = string;
/**
 * The part of a message's media that the server sees.
 */
export type Attached = Media | SealedMedia;
/**
 * The id of an upload, made by the server.
 */
export type MediaId = string;
/**
 * A media type such as `image/jpeg`, in lower case and without parameters.
 */
export type MimeType = string;
/**
 * The name of a file: a name that can be saved, and no path to another folder. Characters that override the
 * direction of a text would show `exe.jpg` for a name that ends in `gpj.exe`.
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
 * The id of a conversation. Only its prefix has a meaning.
 */
export type ConversationId = string;
/**
 * The emoji of a reaction. Each version of Unicode adds emoji, so the server accepts any short visible text. Clients
 * show it as it is. `❤` and `❤️` are one emoji, written as the second.
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
 * How long a conversation is muted, or a member restricted.
 */
export type MutedUntil = Timestamp | "forever";
/**
 * The title of a group. A title of a stored entry is not checked: an earlier version accepted characters that are
 * forbidden now.
 */
export type Title = string;
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
       * The push service of the device, which issued its token.
       */
      platform: "apns" | "apns_sandbox" | "fcm";
      /**
       * A notification shows who wrote and how the message begins.
       */
      preview?: boolean;
      /**
       * Nothing rings on the device in these hours of each day. The next message after them rings for all.
       */
      quiet?: Quiet;
      token: DeviceToken;
      /**
       * The messages that send a push notification.
       */
      when?: "pending" | "unread";
    }
  | {
      token: null;
    };
/**
 * The push service's id of an installation. Never logged, because its holder can start and stop the device's
 * notifications.
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
       * The kind of an entry. A kind of a later version passes through this one unchanged.
       */
      kind: "image" | "file" | "voice" | "sealed";
      /**
       * Left out of kind `sealed`, of which `bytes` and `sha256` are those of the ciphertext.
       */
      mime?: MimeType;
      /**
       * The SHA-256 of each 8 MiB of a file above 16 MiB.
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
 * The description of a group or a channel. A description of a stored entry is not checked.
 */
export type About = string;
/**
 * Bytes in a frame, or in an uploaded file of kind `sealed`.
 */
export type Carried =
  | string
  | {
      /**
       * Left out of a request.
       */
      bytes?: number;
      media_id: MediaId;
      /**
       * Left out of a request.
       */
      sha256?: Digest;
    };
/**
 * Changes what a group is called, and what its members may do.
 */
export type UpdateRequest = UpdateRequest1 & {
  /**
   * The description, with at most 1,500 bytes of UTF-8. Line breaks are allowed.
   */
  about?: About | null;
  action: "update";
  /**
   * The members who may add others.
   */
  add?: "all" | "admins";
  /**
   * The idempotency key: unique per sender and conversation, across all actions.
   */
  client_msg_id: ClientMsgId;
  conversation_id: ConversationId;
  /**
   * An object of the app's own, with at most 2,048 bytes without spaces.
   */
  data?: Data | null;
  /**
   * For those who join from now on.
   */
  history?: "joined" | "all";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * In a channel only: the users who may join by themselves.
   */
  join?: "open" | "admins";
  /**
   * The members who may write messages.
   */
  post?: "all" | "admins";
  /**
   * In a channel only: whether its messages send push notifications.
   */
  rings?: "off" | "mentions";
  title?: Title;
};
export type UpdateRequest1 = {
  [k: string]: unknown;
};
/**
 * One installation of an app.
 */
export type DeviceId = string;
/**
 * Changes the keys of a sealed conversation, or seals a plain one. Sent again with the same fields: the same reply.
 */
export type CommitRequest = {
  action: "commit";
  /**
   * The idempotency key: unique per sender and conversation, across all actions.
   */
  client_msg_id: ClientMsgId;
  /**
   * Left out of a birth, which begins with new keys. Epoch 0 ends with a birth.
   */
  commit?: Carried;
  /**
   * The epoch that ends: the number of commits so far.
   */
  epoch: number;
  /**
   * The group info of the epoch that begins.
   */
  group_info: string;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * In a group: the users who left since the last commits.
   *
   * @minItems 1
   * @maxItems 50
   */
  removes?: UserId[];
  /**
   * The tree of that epoch.
   */
  tree: Carried;
  /**
   * For the devices that it adds.
   */
  welcome?: Carried;
} & CommitRequest1;
export type CommitRequest1 =
  | {
      to: UserId;
    }
  | {
      conversation_id: ConversationId;
    };
/**
 * The newest keys of a sealed conversation, with which a device joins by itself.
 */
export type GroupInfoRequest = {
  action: "group_info";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
} & GroupInfoRequest1;
export type GroupInfoRequest1 =
  | {
      to: UserId;
    }
  | {
      conversation_id: ConversationId;
    };
/**
 * What a client receives.
 */
export type ServerFrame =
  | SendReply
  | EditReply
  | DeleteReply
  | ReactReply
  | PinReply
  | AckReply
  | DrainReply
  | ReadReply
  | InboxReply
  | HistoryReply
  | SettingsReply
  | ReportReply
  | ProfilesReply
  | ProfileReply
  | DeviceReply
  | UploadReply
  | UploadedReply
  | DownloadReply
  | CreateReply
  | AddReply
  | RemoveReply
  | LeaveReply
  | RoleReply
  | RestrictReply
  | UpdateReply
  | MembersReply
  | ReceiptsReply
  | ReactionsReply
  | JoinReply
  | ChannelsReply
  | WatchReply
  | UnwatchReply
  | PresenceReply
  | PublishKeysReply
  | ClaimKeysReply
  | ListKeysReply
  | RemoveKeysReply
  | CommitReply
  | GroupInfoReply
  | PingReply
  | ErrorFrame
  | MessagesNewEvent
  | ReceiptDeliveredEvent
  | ReceiptReadEvent
  | TypingEvent
  | PresenceEvent
  | SettingsEvent
  | ProfileEvent
  | KeysLowEvent
  | ConnectionReplacedEvent
  | GatewayError;
/**
 * A message's id: a UUIDv7 (RFC 9562) whose time is the message's `sent_at`, so that ids sort as time does.
 */
export type MessageId = string;
/**
 * The event of a system entry, whose `sender_id` caused it.
 */
export type System =
  | {
      /**
       * The description, with at most 1,500 bytes of UTF-8. Line breaks are allowed.
       */
      about?: About | null;
      /**
       * An object of the app's own, with at most 2,048 bytes without spaces.
       */
      data?: Data | null;
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
       * The role of a member, which decides what the member may do.
       */
      role: "owner" | "admin" | "member" | "none";
      user_id: UserId;
    }
  | {
      event: "member.restricted";
      until?: MutedUntil;
      user_id: UserId;
    }
  | {
      /**
       * The description, with at most 1,500 bytes of UTF-8. Line breaks are allowed.
       */
      about?: About | null;
      /**
       * The members of a group who may do something.
       */
      add?: "all" | "admins";
      /**
       * An object of the app's own, with at most 2,048 bytes without spaces.
       */
      data?: Data | null;
      event: "info.changed";
      /**
       * The entries that a new member sees: those from the join on, or all.
       */
      history?: "joined" | "all";
      /**
       * In a channel only.
       */
      join?: "open" | "admins";
      /**
       * The members of a group who may do something.
       */
      post?: "all" | "admins";
      /**
       * In a channel only.
       */
      rings?: "off" | "mentions";
      title?: Title;
    };
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
 * The pin is stored, as an entry.
 */
export type PinResult = SendResult;
/**
 * The id of a report, made by the server.
 */
export type ReportId = string;
/**
 * The profile of a user, or of a conversation that the caller sees.
 */
export type ProfileOf = Profile | ConversationProfile;
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
export type RestrictResult = SendResult;
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
  | "rejected"
  | "limit_reached"
  | "device_required"
  | "no_keys"
  | "device_limit"
  | "encryption_required"
  | "stale_epoch"
  | "rekey_required"
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
 * An object of the app's own. Numbers are doubles, and keys have no order, so that two objects of one meaning are equal.
 */
export interface Data {
  [k: string]: unknown;
}
/**
 * The media of a message. A message never contains a URL: `download` returns one.
 */
export interface Media {
  bytes: number;
  /**
   * The length of a recording.
   */
  duration_ms?: number;
  height?: number;
  /**
   * The id of the upload. Clients use it as the key of a downloaded file.
   */
  media_id: MediaId;
  mime: MimeType;
  /**
   * The name of a file.
   */
  name?: FileName;
  /**
   * SHA-256 of the bytes, or of a file in parts that of its parts' digests, one after another.
   */
  sha256: Digest;
  /**
   * The placeholder of an image until it is loaded: <https://evanw.github.io/thumbhash/>.
   */
  thumbhash?: Thumbhash;
  /**
   * The waveform of a voice note: 100 bars of 5 bits, packed from the first bit on.
   */
  waveform?: Waveform;
  /**
   * In pixels. An image has both.
   */
  width?: number;
}
/**
 * An upload that only devices of the members can open.
 */
export interface SealedMedia {
  /**
   * The length of the ciphertext. Left out of a request.
   */
  bytes?: number;
  media_id: MediaId;
}
/**
 * Replaces the text of one of the caller's messages.
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
   * Left out: the message keeps its data. `null`: it has none from now on.
   */
  data?: Data | null;
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
 * Deletes one of the caller's messages, for all members.
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
 * Adds the caller's reaction to a message, replaces the earlier one, or removes it.
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
 * Pins a message for all members, or takes the pin off.
 */
export interface PinRequest {
  action: "pin";
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
   * `false` takes the pin off.
   */
  pinned: boolean;
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
 * Returns the messages that no device of the user has acknowledged, page by page, oldest first.
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
   * Only those that the user has pinned, the one pinned last first, without pages.
   */
  pinned?: boolean;
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
   * Requests the entries after this one, nearest to it.
   */
  after_seq?: number;
  /**
   * Requests the entries before this one, nearest to it.
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
   * Hidden in the chat list until the next message.
   */
  archived?: boolean;
  /**
   * While the group is muted, a message that mentions the user sends no push either.
   */
  mute_mentions?: boolean;
  /**
   * Until then the conversation sends no push, except for mentions. `null`: not muted.
   */
  muted_until?: MutedUntil | null;
  /**
   * At the top of the chat list, the one pinned last first.
   */
  pinned?: boolean;
  /**
   * Shown as unread until the next `read`, whatever the marks are.
   */
  unread?: boolean;
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
 * Tells the operator about messages, a conversation or a user. Safe to repeat.
 */
export interface ReportRequest {
  action: "report";
  /**
   * The text of a sealed message by the caller's word, which proves nothing.
   */
  claimed?: string;
  conversation_id?: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * The caller's words, in Unicode scalar values.
   */
  note?: string;
  /**
   * Proofs of what sealed messages say. With `encryption.report`.
   *
   * @minItems 1
   * @maxItems 10
   */
  opened?: Opened[];
  /**
   * Why something is reported.
   */
  reason: "spam" | "abuse" | "sexual" | "violence" | "illegal" | "other";
  /**
   * Entries of the conversation that the caller sees. The server copies them.
   *
   * @minItems 1
   * @maxItems 10
   *
   * Items: A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
   */
  seqs?: number[];
  /**
   * A member of the conversation, or the author of one of the entries. Without a conversation: any user.
   */
  user_id?: UserId;
}
/**
 * The plaintext of a sealed message, and the key that fits it to the message's `frank`.
 */
export interface Opened {
  /**
   * The envelope's `frank`: 32 bytes.
   */
  key: string;
  /**
   * The envelope, with its spaces.
   */
  plaintext: string;
  /**
   * A reported entry.
   */
  seq: number;
}
/**
 * The names and data of users, and the looks of groups and channels.
 */
export interface ProfilesRequest {
  action: "profiles";
  /**
   * Groups and channels. At most 50 ids in both lists together.
   *
   * @minItems 1
   * @maxItems 50
   */
  conversation_ids?: ConversationId[];
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * @minItems 1
   * @maxItems 50
   */
  user_ids?: UserId[];
}
/**
 * Changes the user's own name and data.
 */
export interface ProfileRequest {
  action: "profile";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  set: ProfileChange;
}
/**
 * At least one field. A field that is left out stays as it is; `null` removes it.
 */
export interface ProfileChange {
  /**
   * At most 1,024 bytes without spaces.
   */
  data?: Data | null;
  name?: Title | null;
}
/**
 * Hours of the day, from `from_min` to `to_min`, which may be past midnight. None if both are equal.
 */
export interface Quiet {
  /**
   * The minute of the device's day.
   */
  from_min: number;
  /**
   * The offset of the device's zone from UTC. An app registers again when it changes.
   */
  offset_min: number;
  to_min: number;
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
  /**
   * The description, with at most 1,500 bytes of UTF-8. Line breaks are allowed.
   */
  about?: About | null;
  action: "create";
  /**
   * The members who may add others. Default: as for `post`.
   */
  add?: "all" | "admins";
  /**
   * The idempotency key: unique per user.
   */
  client_msg_id: ClientMsgId;
  /**
   * An object of the app's own, with at most 2,048 bytes without spaces.
   */
  data?: Data | null;
  /**
   * In a group only: encrypted messages only, from the first on.
   */
  encrypted?: boolean;
  /**
   * The entries that a new member sees: those from the join on, or all.
   */
  history?: "joined" | "all";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * In a channel only: the users who may join by themselves. Default: no user.
   */
  join?: "open" | "admins";
  /**
   * A channel has any number of members, who read it on demand.
   */
  kind?: "group" | "channel";
  /**
   * The other members from the first entry on.
   *
   * @maxItems 50
   */
  members: UserId[];
  /**
   * The members who may write messages. Default: all in a group, admins in a channel.
   */
  post?: "all" | "admins";
  /**
   * In a channel only: whether its messages send push notifications. Default: `off`.
   */
  rings?: "off" | "mentions";
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
  commit?: Carried;
  conversation_id: ConversationId;
  /**
   * The epoch that ends.
   */
  epoch?: number;
  /**
   * The group info of the epoch that begins.
   */
  group_info?: string;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * @minItems 1
   * @maxItems 50
   */
  members: UserId[];
  /**
   * The tree of that epoch.
   */
  tree?: Carried;
  /**
   * For the devices of the users whom an `add` adds. Left out of a `remove`.
   */
  welcome?: Carried;
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
  commit?: Carried;
  conversation_id: ConversationId;
  /**
   * The epoch that ends.
   */
  epoch?: number;
  /**
   * The group info of the epoch that begins.
   */
  group_info?: string;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * The tree of that epoch.
   */
  tree?: Carried;
  user_id: UserId;
  /**
   * For the devices of the users whom an `add` adds. Left out of a `remove`.
   */
  welcome?: Carried;
}
/**
 * Leaves a group or a channel.
 */
export interface LeaveRequest {
  action: "leave";
  /**
   * The idempotency key: unique per sender and conversation, across all actions. Optional for a channel, where a
   * leave writes no entry.
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
 * Lets a member of a group or a channel only read until a time, or ends that.
 */
export interface RestrictRequest {
  action: "restrict";
  /**
   * The idempotency key: unique per sender and conversation, across all actions.
   */
  client_msg_id: ClientMsgId;
  /**
   * A group or a channel.
   */
  conversation_id: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * Until then the member only reads. `null` ends the restriction.
   */
  until: MutedUntil | null;
  user_id: UserId;
}
/**
 * Lists the members of a group.
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
 * Lists the reactions to a message, with their users.
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
 * Joins a channel, or rejoins a group that the caller left. Safe to repeat.
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
  /**
   * Only those that the user has pinned, the one pinned last first, without pages.
   */
  pinned?: boolean;
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
 * Returns which of these users are online, and when the others last were.
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
  /**
   * Have the server send changes to this connection, as `presence` events, for the next
   * [`PRESENCE_WATCH_MS`](crate::limits::PRESENCE_WATCH_MS).
   */
  watch?: boolean;
}
/**
 * Publishes the keys with which others encrypt for the device of this connection. Safe to repeat.
 */
export interface PublishKeysRequest {
  action: "publish_keys";
  /**
   * Replaces the device's credential. Another one ends all packages of the one before.
   */
  credential: string;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * Added to the packages of the device. A package that was ever accepted is not added again.
   *
   * @maxItems 25
   */
  key_packages: KeyPackage[];
  /**
   * Replaces the package that a claim gets when no other is left.
   */
  last_resort: KeyPackage;
}
/**
 * A key package of MLS (RFC 9420), of which the server reads the first eight bytes.
 */
export interface KeyPackage {
  /**
   * Bytes, in a frame as padded base64 (RFC 4648, section 4). Never in a log.
   */
  data: string;
  /**
   * At most 91 days ahead; of the last resort 401 days.
   */
  expires_at: Timestamp;
}
/**
 * Takes a key package of each device of these users. Sent again with the same `claim_id` and users: the same reply.
 */
export interface ClaimKeysRequest {
  action: "claim_keys";
  /**
   * The idempotency key: unique per device, for 24 hours.
   */
  claim_id: ClientMsgId;
  /**
   * A group: the users are its members.
   */
  conversation_id?: ConversationId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
  /**
   * The caller may be one of them.
   *
   * @minItems 1
   * @maxItems 10
   */
  users: UserId[];
}
/**
 * The devices of the user that have keys.
 */
export interface ListKeysRequest {
  action: "list_keys";
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
}
/**
 * Ends the keys of one of the user's devices. Safe to repeat.
 */
export interface RemoveKeysRequest {
  action: "remove_keys";
  /**
   * The caller's device or another one. A device without keys is no error.
   */
  device_id: DeviceId;
  /**
   * Echoed by the answer.
   */
  id?: RequestId;
}
/**
 * Whether anything is pending; also keeps an idle socket open.
 */
export interface PingRequest {
  action: "ping";
  /**
   * The reply lists what the deployment has switched on.
   */
  features?: boolean;
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
   * The message had been stored before, under the same `client_msg_id`.
   */
  duplicate: boolean;
  /**
   * The message as it is stored, if the team's filter rewrote it.
   */
  message?: Message;
  message_id: MessageId;
  /**
   * Only if the `send` had `read`: the user's read mark. If it is below `read`, the client sends a `read`.
   */
  read_seq?: number;
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
 * An entry of a conversation, as one of its members sees it: a message, or a change of one.
 */
export interface Message {
  /**
   * The text of a message, or the caption of an image, a file or a voice note. An edit has the current text of its
   * target. A sealed entry has its bytes in base64. Empty if there is no text, or none any more.
   */
  body: string;
  /**
   * Only in what the sender's own devices receive.
   */
  client_msg_id?: ClientMsgId;
  /**
   * The bytes of a commit. Left out of a birth.
   */
  commit?: Carried;
  conversation_id: ConversationId;
  /**
   * The app's own object. A deleted message has none. An edit has the data of its target.
   */
  data?: Data;
  /**
   * The `sent_at` of the entry that deleted the message. A deleted message has an empty body and no reactions.
   */
  deleted_at?: Timestamp;
  deleted_by?: UserId;
  /**
   * The `sent_at` of the edit that made this version.
   */
  edited_at?: Timestamp;
  /**
   * The emoji of a reaction. Left out: the reaction was removed.
   */
  emoji?: Emoji;
  /**
   * The user's emoji before this reaction. Left out: the user had none.
   */
  emoji_before?: Emoji;
  /**
   * The epoch of a sealed entry, or the one that a commit begins.
   */
  epoch?: number;
  /**
   * With this digest of a sealed message, 32 bytes, a member can prove what its sender wrote.
   */
  frank?: string;
  /**
   * `text`, `image`, `file`, `voice`, `edit`, `delete`, `reaction`, `pin`, `system`, `sealed`, `commit`, `erased`, an app's own `x-NAME` or `xs-NAME`, or one that came later: a client shows nothing for a kind that it does not know.
   */
  kind: string;
  /**
   * The image, file or voice note of a message that is not deleted. A sealed message has only its id and length.
   */
  media?: Attached;
  /**
   * The mentioned users, or `*` for all members.
   *
   * @minItems 1
   * @maxItems 20
   */
  mentions?: UserId[];
  message_id: MessageId;
  /**
   * Pins only: whether the message at `target_seq` is pinned from now on.
   */
  pinned?: boolean;
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
   * The users who left and whom a commit removes.
   */
  removes?: UserId[];
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
   * Erasures only: the entries of that user, as ranges from the first to the last of each. Perhaps none.
   *
   * @maxItems 100
   */
  seqs?: number[][];
  /**
   * A sealed entry that does not count: no unread message, no push, no last message. A commit is always silent.
   */
  silent?: boolean;
  /**
   * The event of a system entry.
   */
  system?: System;
  /**
   * The message that an edit, a delete, a reaction or a pin is about.
   */
  target_seq?: number;
  /**
   * The tree of the epoch that a commit begins, if the commit has a welcome.
   */
  tree?: Carried;
  /**
   * Erasures only: the id that the erased user has from now on. No request can name it.
   */
  user_id?: UserId;
  /**
   * The version of the text, from 2 on. An edit has the version of its target.
   */
  version?: number;
  /**
   * The welcome of the devices that a commit adds.
   */
  welcome?: Carried;
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
 * The answer to `pin`, if it succeeded.
 */
export interface PinReply {
  action: "pin";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: PinResult;
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
   * In a group, the number of unread messages that mention the user.
   */
  mentions?: number;
  /**
   * The number of messages that are still unread.
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
   * The members of a group who may do something.
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
   * The conversation is sealed: it takes encrypted messages only.
   */
  encrypted?: boolean;
  /**
   * The number of commits of a sealed conversation. A group that was created so begins with 0.
   */
  epoch?: number;
  /**
   * The first entry that the member may see. Missing entries below it are no gap.
   */
  first_seq?: number;
  /**
   * `history`, `post` and `add` are the rules of a group, as long as the user is a member.
   */
  history?: "joined" | "all";
  /**
   * In a group, the last entry that set the title or the look. Present once there was one since the creation, or a look.
   */
  info_seq?: number;
  /**
   * The kind of a conversation. More kinds will come.
   */
  kind: "direct" | "group" | "channel";
  last_message: LastMessage;
  /**
   * The newest entry's `seq`, which can be one that the chat list does not show.
   */
  last_seq: number;
  /**
   * The member has marked it as unread, whatever `unread` is.
   */
  marked_unread?: boolean;
  member_count?: number;
  /**
   * In a group, the number of unread messages that mention the member.
   */
  mentions?: number;
  /**
   * While the group is muted, mentions send no push either.
   */
  mute_mentions?: boolean;
  /**
   * The member's settings. A setting that is not set is left out.
   */
  muted_until?: MutedUntil;
  /**
   * The other member of a direct conversation; in a note, the member.
   */
  peer_id?: UserId;
  /**
   * The member has pinned it.
   */
  pinned?: boolean;
  /**
   * The members of a group who may do something.
   */
  post?: "all" | "admins";
  /**
   * The member has read everything up to here.
   */
  read_seq: number;
  /**
   * Until then the member may only read.
   */
  restricted_until?: MutedUntil;
  /**
   * The member's role. `none`: the user was removed or has left.
   */
  role?: "owner" | "admin" | "member" | "none";
  /**
   * The title of a group. `title` and the next three fields are present in groups only.
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
   * The kind of an entry. A kind of a later version passes through this one unchanged.
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
   * The event of a system entry.
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
   * In groups and channels, the first entry that the member may see. Missing entries below it are no gap.
   */
  first_seq?: number;
  /**
   * A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
   */
  last_seq: number;
  /**
   * The members of a direct conversation, with their marks. `receipts` returns those of a group.
   */
  members: Member[];
  /**
   * In the order of their `seq`.
   */
  messages: Message[];
  /**
   * More entries exist on the requested side.
   */
  more: boolean;
  /**
   * The pinned messages, the last pinned first. Left out: none is.
   *
   * @minItems 1
   * @maxItems 20
   *
   * Items: A message's place in its conversation: 1, 2, 3, … without a hole. Zero stands before the first.
   */
  pins?: number[];
}
/**
 * How far a member of a conversation has come.
 */
export interface Member {
  /**
   * A device of the member has received every entry up to this one.
   */
  delivered_seq: number;
  /**
   * The member has read every entry up to this one.
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
 * The answer to `report`, if it succeeded.
 */
export interface ReportReply {
  action: "report";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: ReportResult;
  type: "reply";
}
export interface ReportResult {
  /**
   * A repetition with the same conversation, entries and user gets the same id.
   */
  report_id: ReportId;
}
/**
 * The answer to `profiles`, if it succeeded.
 */
export interface ProfilesReply {
  action: "profiles";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: ProfilesResult;
  type: "reply";
}
export interface ProfilesResult {
  /**
   * The ids to request again: their profiles did not fit the frame.
   */
  left: string[];
  /**
   * The profiles that exist, in no order, as many as a frame holds.
   */
  profiles: ProfileOf[];
}
/**
 * The name and the data of a user or a service.
 */
export interface Profile {
  /**
   * An object of the app's own.
   */
  data?: Data;
  name?: Title;
  user_id: UserId;
  /**
   * Rises with each change.
   */
  version: number;
}
/**
 * The look of a group or a channel.
 */
export interface ConversationProfile {
  about?: About;
  conversation_id: ConversationId;
  /**
   * An object of the app's own.
   */
  data?: Data;
  /**
   * The `info_seq` of the conversation.
   */
  version: number;
}
/**
 * The answer to `profile`, if it succeeded.
 */
export interface ProfileReply {
  action: "profile";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: ProfileResult;
  type: "reply";
}
export interface ProfileResult {
  version: number;
}
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
 * The upload, which accepts its bytes for a day.
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
   * The first few missing parts of a file in parts.
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
 * Each requested id is in `items` or in `gone`.
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
 * The group is there, and its first entry says so.
 */
export interface CreateResult {
  conversation_id: ConversationId;
  /**
   * The message had been stored before, under the same `client_msg_id`.
   */
  duplicate: boolean;
  /**
   * The message as it is stored, if the team's filter rewrote it.
   */
  message?: Message;
  message_id: MessageId;
  /**
   * The users who could not be added to a channel. Left out if there is none.
   */
  not_added?: NotAdded[];
  /**
   * Only if the `send` had `read`: the user's read mark. If it is below `read`, the client sends a `read`.
   */
  read_seq?: number;
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
 * A user who could not be added, and why.
 */
export interface NotAdded {
  /**
   * `left`: they left the group by themselves, and only they can come back, by `join`; after a first leave an admin can add them.
   * `removed`: an admin removed them from the channel, and only an admin can add them. `limit_reached`: others have added them to as
   * many channels as they may. Other reasons will come.
   */
  reason: string;
  user_id: UserId;
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
 * The outcome for each requested user.
 */
export interface AddResult {
  added: UserId[];
  /**
   * The users who were members before.
   */
  already: UserId[];
  conversation_id?: ConversationId;
  /**
   * The message had been stored before, under the same `client_msg_id`.
   */
  duplicate?: boolean;
  /**
   * The message as it is stored, if the team's filter rewrote it.
   */
  message?: Message;
  message_id?: MessageId;
  /**
   * The users who could not be added. Left out if there is none.
   */
  not_added?: NotAdded[];
  /**
   * Only if the `send` had `read`: the user's read mark. If it is below `read`, the client sends a `read`.
   */
  read_seq?: number;
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
   * The message had been stored before, under the same `client_msg_id`.
   */
  duplicate?: boolean;
  /**
   * The message as it is stored, if the team's filter rewrote it.
   */
  message?: Message;
  message_id?: MessageId;
  /**
   * Only if the `send` had `read`: the user's read mark. If it is below `read`, the client sends a `read`.
   */
  read_seq?: number;
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
 * The answer to `restrict`, if it succeeded.
 */
export interface RestrictReply {
  action: "restrict";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: RestrictResult;
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
   * Until then the member may only read.
   */
  restricted_until?: MutedUntil;
  /**
   * The role of a member, which decides what the member may do.
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
 * A user, and the emoji of the user's reaction.
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
   * The newest entry's `seq`. Later entries are unread.
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
   * The members who may add others.
   */
  add: "all" | "admins";
  archived?: boolean;
  conversation_id: ConversationId;
  /**
   * The first entry that the member may see. Missing entries below it are no gap. One above `last_seq` while the
   * member sees no entry yet.
   */
  first_seq: number;
  /**
   * The entries that a new member sees: those from the join on, or all.
   */
  history: "joined" | "all";
  /**
   * The last entry that set the title or the look. Present once there was one since the creation, or a look.
   */
  info_seq?: number;
  /**
   * The users who may join, of those who know the id.
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
   * The member has marked it as unread, whatever `unread` is.
   */
  marked_unread?: boolean;
  /**
   * The last message that mentions the member, until the member has read it.
   */
  mentioned_seq?: number;
  /**
   * The member's settings. A setting that is not set is left out.
   */
  muted_until?: MutedUntil;
  /**
   * The member has pinned it.
   */
  pinned?: boolean;
  /**
   * The members who may write messages.
   */
  post: "all" | "admins";
  /**
   * The member has read everything up to here.
   */
  read_seq: number;
  /**
   * Until then the member may only read.
   */
  restricted_until?: MutedUntil;
  /**
   * Whether its messages send push notifications. Left out: `off`.
   */
  rings?: "off" | "mentions";
  /**
   * The member's role.
   */
  role: "owner" | "admin" | "member" | "none";
  title: string;
  /**
   * The number of messages above `read_seq`. A deleted message counts until it is read.
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
   * The newest entry's `seq`. The server sends later entries as events.
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
   * The requested users with whom the caller has a direct conversation.
   */
  users: Presence[];
  /**
   * With `watch`: the users whose changes the server sends. A user has room for a few connections that watch.
   */
  watched?: UserId[];
}
/**
 * Whether a user is online, and when the user last was.
 */
export interface Presence {
  /**
   * When the user last opened or closed a connection. `null`: unknown.
   */
  last_seen_at: Timestamp | null;
  /**
   * The user has an open connection.
   */
  online: boolean;
  user_id: UserId;
}
/**
 * The answer to `publish_keys`, if it succeeded.
 */
export interface PublishKeysReply {
  action: "publish_keys";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: PublishKeysResult;
  type: "reply";
}
export interface PublishKeysResult {
  /**
   * The devices of the user that have keys.
   */
  devices: number;
  /**
   * The packages of the device that a claim can get, without the last resort.
   */
  left: number;
}
/**
 * The answer to `claim_keys`, if it succeeded.
 */
export interface ClaimKeysReply {
  action: "claim_keys";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: ClaimKeysResult;
  type: "reply";
}
export interface ClaimKeysResult {
  /**
   * The users for whom the frame had no room: claim their keys with another `claim_id`.
   */
  left: UserId[];
  /**
   * Each with all devices.
   */
  users: ClaimedUser[];
}
export interface ClaimedUser {
  /**
   * Without the device of the caller. Empty for a caller with no other device.
   */
  devices: ClaimedDevice[];
  user_id: UserId;
}
export interface ClaimedDevice {
  device_id: DeviceId;
  /**
   * Bytes, in a frame as padded base64 (RFC 4648, section 4). Never in a log.
   */
  key_package: string;
  /**
   * The package is the device's last resort, which other claims get too.
   */
  last_resort: boolean;
}
/**
 * The answer to `list_keys`, if it succeeded.
 */
export interface ListKeysReply {
  action: "list_keys";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: ListKeysResult;
  type: "reply";
}
export interface ListKeysResult {
  /**
   * In the order of their ids.
   */
  devices: KeyDevice[];
}
/**
 * A device that has keys.
 */
export interface KeyDevice {
  /**
   * When the device first published keys.
   */
  added_at: Timestamp;
  /**
   * Bytes, in a frame as padded base64 (RFC 4648, section 4). Never in a log.
   */
  credential: string;
  device_id: DeviceId;
  last_resort_expires_at: Timestamp;
  /**
   * The packages that a claim can get, without the last resort.
   */
  left: number;
  /**
   * The day on which the device last published or listed keys.
   */
  seen_at: Timestamp;
}
/**
 * The answer to `remove_keys`, if it succeeded.
 */
export interface RemoveKeysReply {
  action: "remove_keys";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: RemoveKeysResult;
  type: "reply";
}
export interface RemoveKeysResult {
  /**
   * The devices of the user that still have keys.
   */
  devices: number;
}
/**
 * The answer to `commit`, if it succeeded.
 */
export interface CommitReply {
  action: "commit";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: CommitResult;
  type: "reply";
}
/**
 * The commit is stored, as a silent entry.
 */
export interface CommitResult {
  conversation_id: ConversationId;
  /**
   * The message had been stored before, under the same `client_msg_id`.
   */
  duplicate: boolean;
  /**
   * The epoch that it began.
   */
  epoch: number;
  /**
   * The message as it is stored, if the team's filter rewrote it.
   */
  message?: Message;
  message_id: MessageId;
  /**
   * Only if the `send` had `read`: the user's read mark. If it is below `read`, the client sends a `read`.
   */
  read_seq?: number;
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
 * The answer to `group_info`, if it succeeded.
 */
export interface GroupInfoReply {
  action: "group_info";
  /**
   * The request's. Left out where it had none.
   */
  id?: RequestId;
  result: GroupInfoResult;
  type: "reply";
}
/**
 * The newest epoch of the conversation.
 */
export interface GroupInfoResult {
  /**
   * The last birth.
   */
  birth_seq: number;
  conversation_id: ConversationId;
  epoch: number;
  /**
   * Bytes, in a frame as padded base64 (RFC 4648, section 4). Never in a log.
   */
  group_info: string;
  /**
   * The commit that began it.
   */
  seq: number;
  tree: Carried;
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
   * The list of what the deployment has switched on, if the request has `features`: `encryption`,
   * `encryption.required`.
   */
  features?: string[];
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
   * With `stale_epoch`, the conversation, if it exists.
   */
  conversation_id?: ConversationId;
  /**
   * With `stale_epoch`, the number of the conversation's commits.
   */
  epoch?: number;
  /**
   * With `stale_epoch`, the `seq` of the conversation's last entry.
   */
  last_seq?: number;
  /**
   * With `rekey_required`, the users who left.
   */
  members?: UserId[];
  /**
   * For the client's developer: names the field that is wrong. Not for users.
   */
  message: string;
  /**
   * With `rejected`, the filter's reason, for the user: at most 200 characters.
   */
  reason?: string;
  /**
   * How long to wait before that, where waiting helps.
   */
  retry_after_ms?: number;
  /**
   * The same request may succeed if it is sent again.
   */
  retryable: boolean;
  /**
   * The users whom the code is about.
   */
  users?: UserId[];
}
/**
 * Stored messages, for each member's connections except the sending one; of a channel, for its subscribers.
 */
export interface MessagesNewEvent {
  conversation_id: ConversationId;
  /**
   * The marks that a `send` with `read` moved: its sender's, which count as receipts.
   */
  marks?: Member[];
  /**
   * At least one entry, in the order of `seq` and without a gap.
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
  /**
   * The text so far, of a service alone. Shown until the service's next entry, and not stored.
   */
  text?: string;
  type: "typing";
  user_id: UserId;
}
/**
 * A user whom this connection watches has come or gone.
 */
export interface PresenceEvent {
  /**
   * When the user last opened or closed a connection. `null`: unknown.
   */
  last_seen_at: Timestamp | null;
  /**
   * The user has an open connection.
   */
  online: boolean;
  type: "presence";
  user_id: UserId;
}
/**
 * The user changed their profile on another of their connections.
 */
export interface ProfileEvent {
  type: "profile";
  version: number;
}
/**
 * Few key packages of this device are left: publish more.
 */
export interface KeysLowEvent {
  left: number;
  type: "keys.low";
}
/**
 * The user has opened too many connections, and this was the oldest: it is closed now.
 */
export interface ConnectionReplacedEvent {
  type: "connection.replaced";
}
/**
 * API Gateway's own frame when it could not invoke a function. The frame has no `type`, and names no request.
 */
export interface GatewayError {
  connectionId: string;
  message: string;
  requestId: string;
}

/** What the server allows. */
export * as limits from "./limits.ts";

type Fields = Record<string, unknown>;

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// A text that is none makes what computes with times throw, far from here.
export function isTimestamp(value: unknown): value is string {
  return typeof value === "string" && /^\d{4}-\d\d-\d\dT/.test(value) && !Number.isNaN(Date.parse(value));
}

type Guard = (value: unknown) => boolean;

function isText(value: unknown): boolean {
  return typeof value === "string";
}

function isFlag(value: unknown): boolean {
  return typeof value === "boolean";
}

function isInteger(value: unknown): boolean {
  return Number.isSafeInteger(value);
}

function listOf(isItem: Guard): Guard {
  return (value) => Array.isArray(value) && value.every(isItem);
}

// All fields of a type in one call: a condition for each field would be several times as many bytes.
function has(value: Fields, isIt: Guard, ...names: string[]): boolean {
  return names.every((name) => isIt(value[name]));
}

function mayHave(value: Fields, isIt: Guard, ...names: string[]): boolean {
  return names.every((name) => value[name] === undefined || isIt(value[name]));
}

export function isAckResult(value: unknown): value is AckResult {
  return isObject(value);
}

export function isAddResult(value: unknown): value is AddResult {
  return isObject(value) &&
    has(value, listOf(isText), "added", "already") &&
    mayHave(value, isText, "conversation_id", "message_id") &&
    mayHave(value, isFlag, "duplicate") &&
    mayHave(value, isMessage, "message") &&
    mayHave(value, listOf(isNotAdded), "not_added") &&
    mayHave(value, isInteger, "read_seq", "seq", "version") &&
    mayHave(value, isTimestamp, "sent_at");
}

export function isChannel(value: unknown): value is Channel {
  return isObject(value) &&
    has(value, isText, "add", "conversation_id", "history", "join", "post", "role", "title") &&
    mayHave(value, isFlag, "archived", "marked_unread", "pinned") &&
    has(value, isInteger, "first_seq", "last_seq", "read_seq", "unread") &&
    mayHave(value, isInteger, "info_seq", "mentioned_seq") &&
    mayHave(value, isLastMessage, "last_message") &&
    mayHave(value, isText, "rings") &&
    value.kind === "channel" &&
    (value.muted_until === undefined || (isTimestamp(value.muted_until) || value.muted_until === "forever")) &&
    (value.restricted_until === undefined || (isTimestamp(value.restricted_until) || value.restricted_until === "forever"));
}

export function isChannelsResult(value: unknown): value is ChannelsResult {
  return isObject(value) &&
    has(value, listOf(isChannel), "conversations") &&
    (isText(value.next_cursor) || value.next_cursor === null);
}

export function isClaimKeysResult(value: unknown): value is ClaimKeysResult {
  return isObject(value) &&
    has(value, listOf(isText), "left") &&
    has(value, listOf(isClaimedUser), "users");
}

export function isClaimedDevice(value: unknown): value is ClaimedDevice {
  return isObject(value) &&
    has(value, isText, "device_id", "key_package") &&
    has(value, isFlag, "last_resort");
}

export function isClaimedUser(value: unknown): value is ClaimedUser {
  return isObject(value) &&
    has(value, listOf(isClaimedDevice), "devices") &&
    has(value, isText, "user_id");
}

export function isCommitResult(value: unknown): value is CommitResult {
  return isObject(value) &&
    has(value, isText, "conversation_id", "message_id") &&
    has(value, isFlag, "duplicate") &&
    has(value, isInteger, "epoch", "seq") &&
    mayHave(value, isMessage, "message") &&
    mayHave(value, isInteger, "read_seq", "version") &&
    has(value, isTimestamp, "sent_at");
}

export function isConnectionReplacedEvent(value: unknown): value is ConnectionReplacedEvent {
  return isObject(value) &&
    value.type === "connection.replaced";
}

export function isConversation(value: unknown): value is Conversation {
  return isObject(value) &&
    mayHave(value, isText, "add", "history", "peer_id", "post", "role", "title") &&
    mayHave(value, isFlag, "archived", "blocked", "encrypted", "marked_unread", "mute_mentions", "pinned") &&
    has(value, isText, "conversation_id", "kind") &&
    has(value, isInteger, "delivered_seq", "last_seq", "read_seq", "unread") &&
    mayHave(value, isInteger, "epoch", "first_seq", "info_seq", "member_count", "mentions") &&
    has(value, isLastMessage, "last_message") &&
    (value.muted_until === undefined || (isTimestamp(value.muted_until) || value.muted_until === "forever")) &&
    (value.restricted_until === undefined || (isTimestamp(value.restricted_until) || value.restricted_until === "forever"));
}

export function isConversationProfile(value: unknown): value is ConversationProfile {
  return isObject(value) &&
    mayHave(value, isText, "about") &&
    has(value, isText, "conversation_id") &&
    mayHave(value, isData, "data") &&
    has(value, isInteger, "version");
}

export function isConversationSettings(value: unknown): value is ConversationSettings {
  return isObject(value) &&
    mayHave(value, isFlag, "archived", "mute_mentions", "pinned", "unread") &&
    (value.muted_until === undefined || ((isTimestamp(value.muted_until) || value.muted_until === "forever") || value.muted_until === null));
}

export function isCreateResult(value: unknown): value is CreateResult {
  return isObject(value) &&
    has(value, isText, "conversation_id", "message_id") &&
    has(value, isFlag, "duplicate") &&
    mayHave(value, isMessage, "message") &&
    mayHave(value, listOf(isNotAdded), "not_added") &&
    mayHave(value, isInteger, "read_seq", "version") &&
    has(value, isTimestamp, "sent_at") &&
    has(value, isInteger, "seq");
}

export function isData(value: unknown): value is Data {
  return isObject(value);
}

export function isDeviceResult(value: unknown): value is DeviceResult {
  return isObject(value) &&
    has(value, isText, "device_id") &&
    has(value, isFlag, "registered");
}

export function isDownload(value: unknown): value is Download {
  return isObject(value) &&
    has(value, isTimestamp, "expires_at") &&
    has(value, isText, "media_id", "url");
}

export function isDownloadResult(value: unknown): value is DownloadResult {
  return isObject(value) &&
    has(value, listOf(isText), "gone") &&
    has(value, listOf(isDownload), "items");
}

export function isDrainResult(value: unknown): value is DrainResult {
  return isObject(value) &&
    has(value, listOf(isMessage), "messages") &&
    has(value, isFlag, "more");
}

export function isErrorFrame(value: unknown): value is ErrorFrame {
  return isObject(value) &&
    mayHave(value, isText, "action", "id") &&
    has(value, isProblem, "error") &&
    value.type === "error";
}

export function isGroupInfoResult(value: unknown): value is GroupInfoResult {
  return isObject(value) &&
    has(value, isInteger, "birth_seq", "epoch", "seq") &&
    has(value, isText, "conversation_id", "group_info") &&
    (isText(value.tree) || isObject(value.tree));
}

export function isGroupMember(value: unknown): value is GroupMember {
  return isObject(value) &&
    has(value, isInteger, "joined_seq") &&
    has(value, isText, "role", "user_id") &&
    (value.restricted_until === undefined || (isTimestamp(value.restricted_until) || value.restricted_until === "forever"));
}

export function isHistoryResult(value: unknown): value is HistoryResult {
  return isObject(value) &&
    mayHave(value, isInteger, "first_seq") &&
    has(value, isInteger, "last_seq") &&
    has(value, listOf(isMember), "members") &&
    has(value, listOf(isMessage), "messages") &&
    has(value, isFlag, "more") &&
    mayHave(value, listOf(isInteger), "pins");
}

export function isInboxResult(value: unknown): value is InboxResult {
  return isObject(value) &&
    has(value, listOf(isConversation), "conversations") &&
    (isText(value.next_cursor) || value.next_cursor === null);
}

export function isJoinResult(value: unknown): value is JoinResult {
  return isObject(value) &&
    has(value, isInteger, "last_seq");
}

export function isKeyDevice(value: unknown): value is KeyDevice {
  return isObject(value) &&
    has(value, isTimestamp, "added_at", "last_resort_expires_at", "seen_at") &&
    has(value, isText, "credential", "device_id") &&
    has(value, isInteger, "left");
}

export function isKeysLowEvent(value: unknown): value is KeysLowEvent {
  return isObject(value) &&
    has(value, isInteger, "left") &&
    value.type === "keys.low";
}

export function isLastMessage(value: unknown): value is LastMessage {
  return isObject(value) &&
    mayHave(value, isFlag, "deleted") &&
    has(value, isText, "kind", "preview", "sender_id") &&
    has(value, isTimestamp, "sent_at") &&
    has(value, isInteger, "seq") &&
    mayHave(value, isSystem, "system");
}

export function isLeaveResult(value: unknown): value is LeaveResult {
  return isObject(value) &&
    mayHave(value, isText, "conversation_id", "message_id") &&
    mayHave(value, isFlag, "duplicate") &&
    mayHave(value, isMessage, "message") &&
    mayHave(value, isInteger, "read_seq", "seq", "version") &&
    mayHave(value, isTimestamp, "sent_at");
}

export function isListKeysResult(value: unknown): value is ListKeysResult {
  return isObject(value) &&
    has(value, listOf(isKeyDevice), "devices");
}

export function isMedia(value: unknown): value is Media {
  return isObject(value) &&
    has(value, isInteger, "bytes") &&
    mayHave(value, isInteger, "duration_ms", "height", "width") &&
    has(value, isText, "media_id", "mime", "sha256") &&
    mayHave(value, isText, "name", "thumbhash", "waveform");
}

export function isMember(value: unknown): value is Member {
  return isObject(value) &&
    has(value, isInteger, "delivered_seq", "read_seq") &&
    has(value, isText, "user_id");
}

export function isMembersResult(value: unknown): value is MembersResult {
  return isObject(value) &&
    has(value, listOf(isGroupMember), "members") &&
    (isText(value.next_cursor) || value.next_cursor === null);
}

export function isMessage(value: unknown): value is Message {
  return isObject(value) &&
    has(value, isText, "body", "conversation_id", "kind", "message_id", "sender_id") &&
    mayHave(value, isText, "client_msg_id", "deleted_by", "emoji", "emoji_before", "frank", "user_id") &&
    mayHave(value, isData, "data") &&
    mayHave(value, isTimestamp, "deleted_at", "edited_at") &&
    mayHave(value, isInteger, "epoch", "reactions_seq", "reply_to", "target_seq", "version") &&
    mayHave(value, listOf(isText), "mentions", "removes") &&
    mayHave(value, isFlag, "pinned", "silent") &&
    mayHave(value, listOf(isReaction), "reactions") &&
    has(value, isTimestamp, "sent_at") &&
    has(value, isInteger, "seq") &&
    mayHave(value, listOf(listOf(isInteger)), "seqs") &&
    mayHave(value, isSystem, "system") &&
    (value.commit === undefined || (isText(value.commit) || isObject(value.commit))) &&
    (value.media === undefined || (isMedia(value.media) || isSealedMedia(value.media))) &&
    (value.tree === undefined || (isText(value.tree) || isObject(value.tree))) &&
    (value.welcome === undefined || (isText(value.welcome) || isObject(value.welcome)));
}

export function isMessagesNewEvent(value: unknown): value is MessagesNewEvent {
  return isObject(value) &&
    has(value, isText, "conversation_id") &&
    mayHave(value, listOf(isMember), "marks") &&
    has(value, listOf(isMessage), "messages") &&
    value.type === "messages.new";
}

export function isNotAdded(value: unknown): value is NotAdded {
  return isObject(value) &&
    has(value, isText, "reason", "user_id");
}

export function isPart(value: unknown): value is Part {
  return isObject(value) &&
    has(value, isInteger, "bytes", "number", "offset") &&
    has(value, isObject, "headers") &&
    has(value, isText, "url");
}

export function isPingResult(value: unknown): value is PingResult {
  return isObject(value) &&
    mayHave(value, listOf(isText), "features") &&
    has(value, isFlag, "pending") &&
    has(value, isTimestamp, "server_time");
}

export function isPresence(value: unknown): value is Presence {
  return isObject(value) &&
    has(value, isFlag, "online") &&
    has(value, isText, "user_id") &&
    (isTimestamp(value.last_seen_at) || value.last_seen_at === null);
}

export function isPresenceEvent(value: unknown): value is PresenceEvent {
  return isObject(value) &&
    has(value, isFlag, "online") &&
    has(value, isText, "user_id") &&
    (isTimestamp(value.last_seen_at) || value.last_seen_at === null) &&
    value.type === "presence";
}

export function isPresenceResult(value: unknown): value is PresenceResult {
  return isObject(value) &&
    has(value, listOf(isPresence), "users") &&
    mayHave(value, listOf(isText), "watched");
}

export function isProblem(value: unknown): value is Problem {
  return isObject(value) &&
    has(value, isText, "code", "message") &&
    mayHave(value, isText, "conversation_id", "reason") &&
    mayHave(value, isInteger, "epoch", "last_seq", "retry_after_ms") &&
    mayHave(value, listOf(isText), "members", "users") &&
    has(value, isFlag, "retryable");
}

export function isProfile(value: unknown): value is Profile {
  return isObject(value) &&
    mayHave(value, isData, "data") &&
    mayHave(value, isText, "name") &&
    has(value, isText, "user_id") &&
    has(value, isInteger, "version");
}

export function isProfileEvent(value: unknown): value is ProfileEvent {
  return isObject(value) &&
    has(value, isInteger, "version") &&
    value.type === "profile";
}

export function isProfileOf(value: unknown): value is ProfileOf {
  return isProfile(value) || isConversationProfile(value);
}

export function isProfileResult(value: unknown): value is ProfileResult {
  return isObject(value) &&
    has(value, isInteger, "version");
}

export function isProfilesResult(value: unknown): value is ProfilesResult {
  return isObject(value) &&
    has(value, listOf(isText), "left") &&
    has(value, listOf(isProfileOf), "profiles");
}

export function isPublishKeysResult(value: unknown): value is PublishKeysResult {
  return isObject(value) &&
    has(value, isInteger, "devices", "left");
}

export function isReaction(value: unknown): value is Reaction {
  return isObject(value) &&
    has(value, isInteger, "count") &&
    has(value, isText, "emoji") &&
    has(value, isFlag, "mine");
}

export function isReactionsResult(value: unknown): value is ReactionsResult {
  return isObject(value) &&
    has(value, listOf(isReactor), "reactions") &&
    (isText(value.next_cursor) || value.next_cursor === null);
}

export function isReactor(value: unknown): value is Reactor {
  return isObject(value) &&
    has(value, isText, "emoji", "user_id");
}

export function isReadResult(value: unknown): value is ReadResult {
  return isObject(value) &&
    mayHave(value, isInteger, "mentions") &&
    has(value, isInteger, "unread");
}

export function isReceiptDeliveredEvent(value: unknown): value is ReceiptDeliveredEvent {
  return isObject(value) &&
    has(value, isTimestamp, "at") &&
    has(value, isText, "conversation_id", "user_id") &&
    has(value, isInteger, "seq") &&
    value.type === "receipt.delivered";
}

export function isReceiptReadEvent(value: unknown): value is ReceiptReadEvent {
  return isObject(value) &&
    has(value, isTimestamp, "at") &&
    has(value, isText, "conversation_id", "user_id") &&
    has(value, isInteger, "seq") &&
    value.type === "receipt.read";
}

export function isReceiptsResult(value: unknown): value is ReceiptsResult {
  return isObject(value) &&
    has(value, isInteger, "delivered_seq", "read_seq") &&
    has(value, listOf(isMember), "members") &&
    (isText(value.next_cursor) || value.next_cursor === null);
}

export function isRemoveKeysResult(value: unknown): value is RemoveKeysResult {
  return isObject(value) &&
    has(value, isInteger, "devices");
}

export function isReportResult(value: unknown): value is ReportResult {
  return isObject(value) &&
    has(value, isText, "report_id");
}

export function isSealedMedia(value: unknown): value is SealedMedia {
  return isObject(value) &&
    mayHave(value, isInteger, "bytes") &&
    has(value, isText, "media_id");
}

export function isSendResult(value: unknown): value is SendResult {
  return isObject(value) &&
    has(value, isText, "conversation_id", "message_id") &&
    has(value, isFlag, "duplicate") &&
    mayHave(value, isMessage, "message") &&
    mayHave(value, isInteger, "read_seq", "version") &&
    has(value, isTimestamp, "sent_at") &&
    has(value, isInteger, "seq");
}

export function isSettingsEvent(value: unknown): value is SettingsEvent {
  return isObject(value) &&
    value.type === "settings" &&
    ((has(value, isText, "conversation_id") && has(value, isConversationSettings, "set")) || (has(value, isUserSettings, "set") && has(value, isText, "user_id")));
}

export function isSettingsResult(value: unknown): value is SettingsResult {
  return isObject(value);
}

export function isSystem(value: unknown): value is System {
  return isObject(value) &&
    typeof value.event === "string" &&
    (value.event !== "created" || (has(value, listOf(isText), "members") && has(value, isText, "title") && (value.about === undefined || (isText(value.about) || value.about === null)) && (value.data === undefined || (isData(value.data) || value.data === null)))) &&
    (value.event !== "members.added" || (has(value, listOf(isText), "members"))) &&
    (value.event !== "members.removed" || (has(value, listOf(isText), "members"))) &&
    (value.event !== "role.changed" || (has(value, isText, "role", "user_id"))) &&
    (value.event !== "member.restricted" || (has(value, isText, "user_id") && (value.until === undefined || (isTimestamp(value.until) || value.until === "forever")))) &&
    (value.event !== "info.changed" || (mayHave(value, isText, "add", "history", "join", "post", "rings", "title") && (value.about === undefined || (isText(value.about) || value.about === null)) && (value.data === undefined || (isData(value.data) || value.data === null))));
}

export function isTypingEvent(value: unknown): value is TypingEvent {
  return isObject(value) &&
    has(value, isTimestamp, "at") &&
    has(value, isText, "conversation_id", "user_id") &&
    mayHave(value, isText, "text") &&
    value.type === "typing";
}

export function isUnwatchResult(value: unknown): value is UnwatchResult {
  return isObject(value);
}

export function isUploadResult(value: unknown): value is UploadResult {
  return isObject(value) &&
    has(value, isTimestamp, "expires_at") &&
    mayHave(value, isObject, "headers") &&
    has(value, isText, "media_id") &&
    mayHave(value, listOf(isPart), "parts") &&
    mayHave(value, isText, "url");
}

export function isUploadedResult(value: unknown): value is UploadedResult {
  return isObject(value) &&
    has(value, isText, "media_id");
}

export function isUserSettings(value: unknown): value is UserSettings {
  return isObject(value) &&
    has(value, isFlag, "blocked");
}

export function isWatchResult(value: unknown): value is WatchResult {
  return isObject(value) &&
    has(value, isInteger, "last_seq", "poll_ms") &&
    has(value, isFlag, "live");
}

/** What each action replies with. */
export interface Results {
  send: SendResult;
  edit: EditResult;
  delete: DeleteResult;
  react: ReactResult;
  pin: PinResult;
  ack: AckResult;
  drain: DrainResult;
  read: ReadResult;
  inbox: InboxResult;
  history: HistoryResult;
  settings: SettingsResult;
  report: ReportResult;
  profiles: ProfilesResult;
  profile: ProfileResult;
  device: DeviceResult;
  upload: UploadResult;
  uploaded: UploadedResult;
  download: DownloadResult;
  create: CreateResult;
  add: AddResult;
  remove: RemoveResult;
  leave: LeaveResult;
  role: RoleResult;
  restrict: RestrictResult;
  update: UpdateResult;
  members: MembersResult;
  receipts: ReceiptsResult;
  reactions: ReactionsResult;
  join: JoinResult;
  channels: ChannelsResult;
  watch: WatchResult;
  unwatch: UnwatchResult;
  presence: PresenceResult;
  list_keys: ListKeysResult;
  ping: PingResult;
}

export const isResult: { [A in keyof Results]: (value: unknown) => value is Results[A] } = {
  send: isSendResult,
  edit: isSendResult,
  delete: isSendResult,
  react: isSendResult,
  pin: isSendResult,
  ack: isAckResult,
  drain: isDrainResult,
  read: isReadResult,
  inbox: isInboxResult,
  history: isHistoryResult,
  settings: isSettingsResult,
  report: isReportResult,
  profiles: isProfilesResult,
  profile: isProfileResult,
  device: isDeviceResult,
  upload: isUploadResult,
  uploaded: isUploadedResult,
  download: isDownloadResult,
  create: isCreateResult,
  add: isAddResult,
  remove: isSendResult,
  leave: isLeaveResult,
  role: isSendResult,
  restrict: isSendResult,
  update: isSendResult,
  members: isMembersResult,
  receipts: isReceiptsResult,
  reactions: isReactionsResult,
  join: isJoinResult,
  channels: isChannelsResult,
  watch: isWatchResult,
  unwatch: isUnwatchResult,
  presence: isPresenceResult,
  list_keys: isListKeysResult,
  ping: isPingResult,
};
