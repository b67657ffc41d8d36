//! Every limit, in one place. Units last.

use std::time::Duration;

/// A WebSocket frame, either way: API Gateway closes the socket with 1009 above this
/// (<https://docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-execution-service-websocket-limits-table.html>).
pub const FRAME_BYTES_MAX: usize = 32 * 1024;
/// What the items of a page may take of a frame. The rest is for the envelope: the echoed id (64 characters, up to six
/// bytes each once escaped), two members with their user ids, and the punctuation.
pub const PAGE_BYTES_MAX: usize = FRAME_BYTES_MAX - 2 * 1024;

/// A message body in UTF-8.
pub const BODY_BYTES_MAX: usize = 16 * 1024;
/// A message body once written as JSON: escapes grow it, and a frame must still hold it.
pub const BODY_JSON_BYTES_MAX: usize = 24 * 1024;
/// What the chat list shows of a message: Unicode scalar values, not bytes.
pub const PREVIEW_CHARS_MAX: usize = 100;

pub const USER_ID_CHARS_MAX: usize = 128;
pub const CONVERSATION_ID_CHARS_MAX: usize = 128;
pub const CLIENT_MSG_ID_CHARS_MAX: usize = 64;
pub const DEVICE_ID_CHARS_MAX: usize = 64;
/// The `id` that a request may carry and its answer echoes.
pub const REQUEST_ID_CHARS_MAX: usize = 64;
/// Larger integers lose precision in a JavaScript client (RFC 8259, section 6).
pub const SEQ_MAX: u64 = (1 << 53) - 1;

/// Conversations in one `ack`, and so also in one page of a drain: a page can be acknowledged by the next request.
pub const ACK_ENTRIES_MAX: usize = 25;
pub const INBOX_LIMIT_DEFAULT: u64 = 20;
pub const INBOX_LIMIT_MAX: u64 = 50;
pub const HISTORY_LIMIT_DEFAULT: u64 = 50;
pub const HISTORY_LIMIT_MAX: u64 = 100;
/// About as many of the smallest messages as a page holds.
pub const DRAIN_MESSAGES_MAX: usize = 128;
/// Each pending conversation brings at least this many messages to a page, if it has them.
pub const DRAIN_MESSAGES_PER_CONVERSATION_MIN: usize = 8;

/// How long the same `client_msg_id` is answered from the first `send`.
pub const IDEMPOTENCY_TTL: Duration = Duration::from_hours(7 * 24);
/// API Gateway ends every socket after 2 hours; the rest is for clocks that differ.
pub const CONNECTION_TTL: Duration = Duration::from_mins(2 * 60 + 5);
/// A device has two sockets while it replaces one. What is older broke without a goodbye; API Gateway takes frames for it until
/// it notices, up to ten minutes later, and each of them is paid for.
pub const CONNECTIONS_PER_DEVICE_MAX: usize = 2;
/// A post to a socket that is still being set up answers 410 as a dead one does, so a row younger than this is kept.
pub const CONNECTION_YOUNG: Duration = Duration::from_secs(10);
/// A conversation moves up the chat list's index at most this often.
pub const ACTIVE_AT_STEP: Duration = Duration::from_mins(1);

/// Attempts at one write before the client is told to try again itself.
pub const WRITE_TRIES_MAX: u32 = 5;
/// The first retry waits between nothing and this; each further one up to twice the one before.
pub const RETRY_BASE: Duration = Duration::from_millis(20);

/// Posts under way at once to one user.
pub const POSTS_AT_ONCE_MAX: usize = 32;
/// Users whose connections a process remembers; with one more it begins anew. A few hundred bytes each.
pub const USERS_REMEMBERED_MAX: usize = 1_000;
/// One post to one connection.
pub const POST_TIMEOUT: Duration = Duration::from_secs(1);
/// All posts of one invocation: the sender, who retries after 5 s, must get its answer before that.
pub const FAN_OUT_TIMEOUT: Duration = Duration::from_secs(3);
/// One attempt at one DynamoDB call.
pub const STORE_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// One DynamoDB call with the SDK's own retries.
pub const STORE_CALL_TIMEOUT: Duration = Duration::from_secs(4);
