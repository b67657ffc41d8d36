//! The limits of the rules; `wire` has those that clients see. Units last.

use std::time::Duration;

use wire::limits::FRAME_BYTES_MAX;

/// What the items of a page may take of a frame. The rest is for the envelope: the echoed id (64 characters, up to six
/// bytes each once escaped), two members with their user ids, and the punctuation.
pub const PAGE_BYTES_MAX: usize = FRAME_BYTES_MAX - 2 * 1024;
/// About as many of the smallest messages as a page holds.
pub const DRAIN_MESSAGES_MAX: usize = 128;
/// Each pending conversation brings at least this many messages to a page, if it has them.
pub const DRAIN_MESSAGES_PER_CONVERSATION_MIN: usize = 8;

/// Whom one process remembers at once of those whom it counts for. Some 200 bytes each.
pub const REMEMBERED_MAX: usize = 1_000;

/// How long the same `client_msg_id` is answered from the first `send`.
pub const IDEMPOTENCY_TTL: Duration = Duration::from_hours(7 * 24);
/// How long a device is rung whose app is not started, and so not registered again.
pub const DEVICE_TTL: Duration = Duration::from_hours(60 * 24);
/// The same registration again is not looked at for so long.
pub const DEVICE_FRESH: Duration = Duration::from_hours(7 * 24);
/// Devices that ring for one user.
pub const DEVICES_PER_USER_MAX: usize = 16;
/// That a message was read is of no use to a phone that was off for so long: it catches up when its app is opened.
pub const CLEAR_TTL: Duration = Duration::from_hours(24);
/// The longest `apns-collapse-id`:
/// <https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns>.
pub const COLLAPSE_ID_BYTES_MAX: usize = 64;
/// How long what is announced can be uploaded and sent.
pub const UPLOAD_TTL: Duration = Duration::from_hours(24);
/// How long a URL is good to put something. Lambda's credentials, which sign it, can end before it if it is longer.
pub const UPLOAD_URL_TTL: Duration = Duration::from_mins(15);
/// What began in time is taken to be over by then: S3 looks at the time only when a request begins.
pub const UPLOAD_SLOWEST: Duration = Duration::from_hours(1);
/// How long a URL is good to get something.
pub const DOWNLOAD_URL_TTL: Duration = Duration::from_mins(5);
/// Parts whose URLs one answer has: a frame must hold them.
pub const PARTS_SHOWN_MAX: usize = 8;
/// API Gateway ends every socket after 2 hours; the rest is for clocks that differ.
pub const CONNECTION_TTL: Duration = Duration::from_mins(2 * 60 + 5);
/// A device has two sockets while it replaces one. What is older broke without a goodbye; API Gateway takes frames for it until
/// it notices, up to ten minutes later, and each of them is paid for.
pub const CONNECTIONS_PER_DEVICE_MAX: usize = 2;
/// As many rows of the chat list as a page may read beyond its own to be in the exact order.
pub const CHAT_LIST_READ_MAX: usize = 200;
/// Entries that one step of a read mark may go over, where it does not go to the end: they are counted.
pub const COUNTED_MAX: u64 = 1_000;
/// A conversation moves up the chat list's index at most this often.
pub const ACTIVE_AT_STEP: Duration = Duration::from_mins(1);
/// Members of a small group of whom one is told how far the others have come: the authors of what was covered last.
pub const RECEIPT_ENTRIES_MAX: usize = 50;
