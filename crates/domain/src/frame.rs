//! Answers, as they go over the wire. Each request has exactly one: a reply or an error.

use serde::Serialize;

use crate::conversation::Conversation;
use crate::ids::{ConversationId, MessageId, RequestId, Seq, UserId};
use crate::message::Message;
use crate::refusal::Refusal;
use crate::time::Timestamp;

/// What an action answers when it succeeded.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
// The frame around it says which action it answers.
#[cfg_attr(feature = "schema", schemars(!untagged, tag = "action", content = "result", rename_all = "snake_case"))]
pub enum Reply {
    /// The message is stored: in the history, in the recipient's inbox, and pending.
    Send {
        conversation_id: ConversationId,
        #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
        seq: Seq,
        message_id: MessageId,
        sent_at: Timestamp,
        /// It had been stored before, under the same `client_msg_id`.
        duplicate: bool,
    },
    Ack {},
    /// No messages and `more: false`: drained.
    Drain {
        messages: Vec<Message>,
        more: bool,
    },
    Read {
        /// How many messages are left unread.
        unread: u64,
    },
    Inbox {
        #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::conversation::Wire>"))]
        conversations: Vec<Conversation>,
        /// `null`: this was the last page.
        next_cursor: Option<String>,
    },
    History {
        /// In the order of their `seq`.
        messages: Vec<Message>,
        /// There are more on the side that was asked for.
        more: bool,
        last_seq: Seq,
        members: Vec<Member>,
    },
    Ping {
        /// Something waits unacknowledged: drain.
        pending: bool,
        server_time: Timestamp,
    },
}

/// How far a member of a conversation has come.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Member {
    pub user_id: UserId,
    /// A device of theirs holds everything up to here.
    pub delivered_seq: Seq,
    /// They have read everything up to here.
    pub read_seq: Seq,
}

/// The frame that answers a request that succeeded.
pub fn reply(action: &str, id: Option<&RequestId>, result: &Reply) -> String {
    #[derive(Serialize)]
    struct Frame<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        action: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a RequestId>,
        result: &'a Reply,
    }
    to_json(&Frame { kind: "reply", action, id, result })
}

/// The frame that answers a request that did not succeed. `action` and `id` where they could be read.
pub fn error(action: Option<&str>, id: Option<&RequestId>, refusal: &Refusal) -> String {
    let problem = Problem {
        code: refusal.code(),
        message: refusal.to_string(),
        retryable: refusal.retryable(),
        retry_after_ms: refusal.retry_after_ms(),
    };
    to_json(&ErrorFrame { kind: "error", action, id, error: problem })
}

/// The answer to a request that did not succeed.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorFrame<'a> {
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(extend("const" = "error")))]
    kind: &'static str,
    /// Left out where it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'a str>,
    /// The request's. Left out where it had none, or it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RequestId>,
    error: Problem,
}

/// Why a request did not succeed.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Problem {
    #[cfg_attr(feature = "schema", schemars(with = "Refusal"))]
    code: &'static str,
    /// For the client's developer: names the field that is wrong. Not for users.
    message: String,
    /// The same request may succeed if it is sent again.
    retryable: bool,
    /// How long to wait before that, where waiting helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// Our own types have string keys and no fallible serializers, so this can't fail; an empty frame is not sent.
pub(crate) fn to_json(frame: &impl Serialize) -> String {
    serde_json::to_string(frame).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn id() -> RequestId {
        RequestId::parse("r1").unwrap()
    }

    #[test]
    fn replies_name_the_action_and_echo_the_id() {
        assert_snapshot!(reply("ack", Some(&id()), &Reply::Ack {}), @r#"{"type":"reply","action":"ack","id":"r1","result":{}}"#);
        assert_snapshot!(reply("read", None, &Reply::Read { unread: 3 }), @r#"{"type":"reply","action":"read","result":{"unread":3}}"#);
        let sent = Reply::Send {
            conversation_id: ConversationId::parse("dm_x").unwrap(),
            seq: Seq::new(42).unwrap(),
            message_id: MessageId::stored("0198"),
            sent_at: Timestamp::from_millis(1_763_632_800_123),
            duplicate: false,
        };
        assert_snapshot!(reply("send", Some(&id()), &sent), @r#"{"type":"reply","action":"send","id":"r1","result":{"conversation_id":"dm_x","seq":42,"message_id":"0198","sent_at":"2025-11-20T10:00:00.123Z","duplicate":false}}"#);
        let pong = Reply::Ping { pending: true, server_time: Timestamp::from_millis(0) };
        assert_snapshot!(reply("ping", None, &pong), @r#"{"type":"reply","action":"ping","result":{"pending":true,"server_time":"1970-01-01T00:00:00.000Z"}}"#);
        let inbox = Reply::Inbox { conversations: vec![], next_cursor: None };
        assert_snapshot!(reply("inbox", None, &inbox), @r#"{"type":"reply","action":"inbox","result":{"conversations":[],"next_cursor":null}}"#);
    }

    #[test]
    fn errors_carry_a_code_a_text_and_whether_to_retry() {
        let bad = Refusal::bad_request("seq", "must be an integer");
        assert_snapshot!(error(Some("read"), Some(&id()), &bad), @r#"{"type":"error","action":"read","id":"r1","error":{"code":"bad_request","message":"seq: must be an integer","retryable":false}}"#);
        assert_snapshot!(error(None, None, &Refusal::Unavailable), @r#"{"type":"error","error":{"code":"unavailable","message":"a service failed; send the same request again","retryable":true,"retry_after_ms":1000}}"#);
        assert_snapshot!(error(Some("send"), None, &Refusal::Conflict), @r#"{"type":"error","action":"send","error":{"code":"conflict","message":"the conversation is busy; send the same request again","retryable":true,"retry_after_ms":100}}"#);
    }
}
