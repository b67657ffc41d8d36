//! The limits that clients see, in one place. Units last.

macro_rules! limits {
    ($($(#[$doc:meta])* pub const $name:ident: $type:ty = $value:expr;)+) => {
        $($(#[$doc])* pub const $name: $type = $value;)+

        /// All of them by their names, for clients in other languages.
        #[cfg(feature = "schema")]
        pub fn by_name() -> serde_json::Map<String, serde_json::Value> {
            serde_json::Map::from_iter([$((stringify!($name).to_owned(), $name.into())),+])
        }
    };
}

limits! {
    /// A WebSocket frame, either way: API Gateway closes the socket with 1009 above this
    /// (<https://docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-execution-service-websocket-limits-table.html>).
    pub const FRAME_BYTES_MAX: usize = 32 * 1024;
    /// A message body in UTF-8.
    pub const BODY_BYTES_MAX: usize = 16 * 1024;
    /// A message body once written as JSON: escapes grow it, and a frame must still hold it.
    pub const BODY_JSON_BYTES_MAX: usize = 24 * 1024;
    /// A message's data, written as JSON without spaces. With its body, it is within that limit, too.
    pub const DATA_BYTES_MAX: usize = 2 * 1024;
    /// Objects and lists within each other.
    pub const DATA_LEVELS_MAX: usize = 8;
    /// The data of a profile, written as JSON without spaces.
    pub const PROFILE_DATA_BYTES_MAX: usize = 1024;
    /// A group's description, in Unicode scalar values and in bytes of UTF-8.
    pub const ABOUT_CHARS_MAX: usize = 500;
    pub const ABOUT_BYTES_MAX: usize = 1_500;
    /// A message's preview in the chat list, in Unicode scalar values, not bytes. No grapheme is cut.
    pub const PREVIEW_CHARS_MAX: usize = 100;

    pub const USER_ID_CHARS_MAX: usize = 128;
    pub const CONVERSATION_ID_CHARS_MAX: usize = 128;
    pub const CLIENT_MSG_ID_CHARS_MAX: usize = 64;
    pub const DEVICE_ID_CHARS_MAX: usize = 64;
    /// What APNs or FCM calls a device: 64 and some 160 characters today, and neither promises a length.
    pub const DEVICE_TOKEN_CHARS_MAX: usize = 4096;
    /// The `id` that a request may carry and its answer echoes.
    pub const REQUEST_ID_CHARS_MAX: usize = 64;
    /// The id of a report.
    pub const REPORT_ID_CHARS_MAX: usize = 64;
    /// The id of an upload.
    pub const MEDIA_ID_CHARS_MAX: usize = 64;
    /// An emoji of a reaction, in bytes of UTF-8. The longest that Unicode recommends takes 35, a family of four skin
    /// tones 41.
    pub const EMOJI_BYTES_MAX: usize = 44;
    /// Larger integers lose precision in a JavaScript client (RFC 8259, section 6).
    pub const SEQ_MAX: u64 = (1 << 53) - 1;

    /// Times that a message can be edited.
    pub const EDITS_MAX: u64 = 20;
    /// Ranges of entries in one entry about an erased user. More are in a further entry.
    pub const ERASED_RANGES_MAX: usize = 100;
    /// Members who can react to a message at a time.
    pub const REACTORS_MAX: usize = 100;
    /// Different reactions that a frame shows of a message: the most frequent ones.
    pub const REACTIONS_SHOWN_MAX: usize = 20;

    /// A group's title, in Unicode scalar values and in bytes of UTF-8.
    pub const TITLE_CHARS_MAX: usize = 64;
    pub const TITLE_BYTES_MAX: usize = 192;
    /// Members that one request adds to a group.
    pub const GROUP_CHANGE_MEMBERS_MAX: usize = 50;
    /// Members whom a message mentions.
    pub const MENTIONS_MAX: usize = 20;
    /// The list of them once written as JSON: a frame must hold it beside the largest body.
    pub const MENTIONS_JSON_BYTES_MAX: usize = 3 * 1024;
    /// Members of a small group, in which the server sends receipts and `typing` as they happen.
    pub const SMALL_GROUP_MEMBERS_MAX: u64 = 32;
    /// Members in one page of a list of them.
    pub const MEMBERS_LIMIT_DEFAULT: u64 = 50;
    pub const MEMBERS_LIMIT_MAX: u64 = 100;

    /// A message's media, in bytes. A deployment can allow less.
    pub const MEDIA_BYTES_MAX: u64 = 100 * 1024 * 1024;
    /// An upload in one piece, in bytes. A larger file is uploaded in parts of [`MEDIA_PART_BYTES`].
    pub const MEDIA_WHOLE_BYTES_MAX: u64 = 16 * 1024 * 1024;
    /// Each part but the last, which has what is left.
    pub const MEDIA_PART_BYTES: u64 = 8 * 1024 * 1024;
    /// Parts of one file.
    pub const MEDIA_PARTS_MAX: usize = 13;
    /// Downloads that one request asks for: a frame must hold their URLs.
    pub const DOWNLOADS_MAX: usize = 10;
    /// The name of a media type.
    pub const MIME_CHARS_MAX: usize = 100;
    /// A file's name, in bytes of UTF-8. No file system takes longer names.
    pub const FILE_NAME_BYTES_MAX: usize = 255;
    /// The width and the height of an image.
    pub const PIXELS_MAX: u64 = 65_535;
    /// A recording: a day.
    pub const DURATION_MS_MAX: u64 = 24 * 60 * 60 * 1000;
    pub const THUMBHASH_CHARS_MAX: usize = 44;
    pub const WAVEFORM_CHARS_MAX: usize = 100;
    /// A small image in an encrypted message.
    pub const THUMBNAIL_BYTES_MAX: usize = 4 * 1024;

    /// Channels that a user has joined or made. Concurrent joins can exceed it by a few.
    pub const CHANNELS_PER_USER_MAX: usize = 200;
    /// Channels to which others have added a user.
    pub const CHANNELS_ADDED_MAX: usize = 200;
    /// Connections to which a channel's entries are sent as they are written.
    pub const WATCHERS_MAX: usize = 2_000;
    /// Channels that one connection watches.
    pub const WATCHED_MAX: usize = 8;
    /// The pause between two `history` requests of a client with the channel open: without a subscription, and with
    /// one, because an event can be lost.
    pub const POLL_MS: u64 = 10_000;
    pub const POLL_LIVE_MS: u64 = 60_000;
    /// The longest pause without a subscription, when the channel has turned away very many clients.
    pub const POLL_MAX_MS: u64 = 600_000;
    /// Different reactions to a message of a channel.
    pub const CHANNEL_REACTIONS_MAX: usize = REACTIONS_SHOWN_MAX;

    /// A device's credential, in bytes.
    pub const CREDENTIAL_BYTES_MAX: usize = 512;
    /// A key package, in bytes.
    pub const KEY_PACKAGE_BYTES_MIN: usize = 8;
    pub const KEY_PACKAGE_BYTES_MAX: usize = 1024;
    /// Key packages that one request publishes.
    pub const KEY_PACKAGES_PUBLISHED_MAX: usize = 25;
    /// Key packages of a device that wait for claims.
    pub const KEY_PACKAGES_LEFT_MAX: usize = 100;
    /// Days from now to the end of a key package.
    pub const KEY_PACKAGE_DAYS_MAX: u64 = 91;
    /// Days from now to the end of a last resort.
    pub const LAST_RESORT_DAYS_MAX: u64 = 401;
    /// Devices of a user that have keys.
    pub const KEY_DEVICES_MAX: usize = 10;
    /// Users whose keys one request claims.
    pub const CLAIM_USERS_MAX: usize = 10;
    /// Key packages of each device of another user that a user gets in a day. After them, the user gets the last
    /// resort.
    pub const CLAIMS_OF_DEVICE_MAX: u64 = 10;
    /// The number of key packages at or below which a device gets `keys.low`.
    pub const KEYS_LOW: u64 = 5;

    /// The bytes of a sealed entry: 16,384 characters.
    pub const SEALED_BYTES_MAX: usize = 12 * 1024;
    /// The bytes of the digest that proves a sealed entry.
    pub const FRANK_BYTES: usize = 32;
    /// The bytes of a commit, its welcome, group info and tree, in characters of base64 together.
    pub const COMMIT_CHARS_MAX: usize = 24 * 1024;
    /// The number of commits of a conversation.
    pub const REMOVES_MAX: usize = 50;
    pub const EPOCH_MAX: u64 = (1 << 53) - 1;

    /// Pinned messages of a conversation.
    pub const PINS_MAX: usize = 20;
    /// Conversations that a user may pin, and channels.
    pub const PINNED_CONVERSATIONS_MAX: usize = 10;

    /// Entries that one report names.
    pub const REPORT_SEQS_MAX: usize = 10;
    /// A report's note, in Unicode scalar values.
    pub const NOTE_CHARS_MAX: usize = 500;
    /// The text that a sealed message has by the word of who reports it, in bytes.
    pub const CLAIMED_BYTES_MAX: usize = 4 * 1024;
    /// The key that opens the digest of a sealed message, in bytes.
    pub const OPENED_KEY_BYTES: usize = 32;
    /// The keys and plaintexts of one report, in characters of base64 together.
    pub const OPENED_CHARS_MAX: usize = 24 * 1024;

    /// Conversations in one `ack`, and so also in one page of a drain: a page can be acknowledged by the next request.
    pub const ACK_ENTRIES_MAX: usize = 25;
    /// Conversations in one page of the chat list.
    pub const INBOX_LIMIT_DEFAULT: u64 = 20;
    pub const INBOX_LIMIT_MAX: u64 = 50;
    /// Users in one `presence` request.
    pub const PRESENCE_USERS_MAX: usize = 20;
    /// Users and conversations in one `profiles` request.
    pub const PROFILES_MAX: usize = 50;
    /// How long a `presence` with `watch` has the server send events.
    pub const PRESENCE_WATCH_MS: u64 = 600_000;
    /// The shortest pause between two `typing` requests for a conversation.
    pub const TYPING_PAUSE_MS: u64 = 4_000;
    /// The time for which a client shows a user as writing.
    pub const TYPING_SHOWN_MS: u64 = 6_000;
    /// The text of a service that grows, in UTF-8.
    pub const TYPING_TEXT_BYTES_MAX: usize = 16_384;
    /// The longest time for which a `read` waits for a `send` that takes it, while its user writes.
    pub const READ_WAIT_MS: u64 = 10_000;
    /// Messages in one page of a history.
    pub const HISTORY_LIMIT_DEFAULT: u64 = 50;
    pub const HISTORY_LIMIT_MAX: u64 = 100;
}
