//! The limits of the rules; `wire` has those that clients see. Units last.

use std::time::Duration;

use wire::limits::FRAME_BYTES_MAX;

/// Bytes of a frame for the items of a page. The rest is for the envelope. The echoed id has up to 64 characters, of up
/// to six bytes each once escaped. Two members with their user ids and the punctuation follow.
pub const PAGE_BYTES_MAX: usize = FRAME_BYTES_MAX - 2 * 1024;
/// About as many of the smallest messages as a page holds.
pub const DRAIN_MESSAGES_MAX: usize = 128;
/// Each pending conversation brings at least this many messages to a page, if it has them.
pub const DRAIN_MESSAGES_PER_CONVERSATION_MIN: usize = 8;

/// Rate counters that one process keeps in memory, about 200 bytes each.
pub const REMEMBERED_MAX: usize = 1_000;

/// Time for which a device gets pushes without a start of its app, which would register it again.
pub const DEVICE_TTL: Duration = Duration::from_hours(60 * 24);
/// A message's text in a report, in bytes of UTF-8.
pub const REPORTED_BODY_BYTES_MAX: usize = 4 * 1024;
/// As many rows of the chat list as a page may read beyond its own to be in the exact order.
pub const CHAT_LIST_READ_MAX: usize = 200;
/// Entries that one step of a read mark may go over, where it does not go to the end: they are counted.
pub const COUNTED_MAX: u64 = 1_000;
/// A conversation moves up the chat list's index at most this often.
pub const ACTIVE_AT_STEP: Duration = Duration::from_mins(1);

/// Maximum of earlier memberships of a group with pending entries. The newest are kept; above it the oldest is removed.
pub const EARLIER_TIMES_MAX: usize = 8;
