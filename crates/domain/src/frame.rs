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
pub enum Reply {
    Send { conversation_id: ConversationId, seq: Seq, message_id: MessageId, sent_at: Timestamp, duplicate: bool },
    Ack {},
    Drain { messages: Vec<Message>, more: bool },
    Read { unread: u64 },
    Inbox { conversations: Vec<Conversation>, next_cursor: Option<String> },
    History { messages: Vec<Message>, more: bool, last_seq: Seq, members: Vec<Member> },
    Ping { pending: bool, server_time: Timestamp },
}

/// How far a member has come.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Member {
    pub user_id: UserId,
    pub delivered_seq: Seq,
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
    #[derive(Serialize)]
    struct Frame<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        action: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a RequestId>,
        error: Problem,
    }
    #[derive(Serialize)]
    struct Problem {
        code: &'static str,
        message: String,
        retryable: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    }
    let problem = Problem {
        code: refusal.code(),
        message: refusal.to_string(),
        retryable: refusal.retryable(),
        retry_after_ms: refusal.retry_after_ms(),
    };
    to_json(&Frame { kind: "error", action, id, error: problem })
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
