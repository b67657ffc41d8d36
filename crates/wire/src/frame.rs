//! Frames from the server: answers, of which each request has exactly one, and events.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actions::Reply;
use crate::event::ServerEvent;
use crate::ids::{ConversationId, RequestId, Seq, UserId};
use crate::json::to_json;
use crate::refusal::Refusal;

/// The frame that answers a request that succeeded.
pub fn reply_frame(action: &str, id: Option<&RequestId>, result: &Reply) -> String {
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
pub fn error_frame(action: Option<&str>, id: Option<&RequestId>, refusal: &Refusal) -> String {
    let (epoch, last_seq) = refusal.epoch().unzip();
    let error = Problem {
        code: refusal.code().to_owned(),
        message: refusal.to_string(),
        retryable: refusal.retryable(),
        retry_after_ms: refusal.retry_after_ms(),
        users: refusal.users().to_vec(),
        conversation_id: refusal.conversation_id().cloned(),
        epoch,
        last_seq,
        members: refusal.members().to_vec(),
        reason: refusal.reason().map(str::to_owned),
    };
    to_json(&ErrorFrame { kind: "error", action, id, error })
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    // The code of a `Refusal`. A later server can send other codes.
    #[cfg_attr(feature = "schema", schemars(with = "Refusal"))]
    pub code: String,
    /// For the client's developer: names the field that is wrong. Not for users.
    pub message: String,
    /// The same request may succeed if it is sent again.
    pub retryable: bool,
    /// How long to wait before that, where waiting helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The users whom the code is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserId>,
    /// With `stale_epoch`, the conversation, if it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// With `stale_epoch`, the number of the conversation's commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = crate::limits::EPOCH_MAX)))]
    pub epoch: Option<u64>,
    /// With `stale_epoch`, the `seq` of the conversation's last entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seq: Option<Seq>,
    /// With `rekey_required`, the users who left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<UserId>,
    /// With `rejected`, the filter's reason, for the user: at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Problem {
    /// Returns the text for an app: the filter's reason if there is one, and otherwise the message.
    pub fn text(&self) -> &str {
        self.reason.as_deref().filter(|reason| !reason.is_empty()).unwrap_or(&self.message)
    }
}

/// A frame from the server, as a client reads it.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerFrame {
    Reply {
        id: Option<String>,
        /// The result. Its type follows from the request with that id.
        result: Value,
    },
    Error {
        id: Option<String>,
        error: Problem,
    },
    Event(ServerEvent),
    /// A frame without `type`, which comes from API Gateway and not from Pigeonhole.
    Gateway,
    /// A frame of an unknown type, or with fields that its type does not have in this version.
    Unknown,
}

impl ServerFrame {
    /// Reads a frame. Unknown fields are ignored.
    pub fn parse(text: &str) -> Self {
        let Ok(frame) = serde_json::from_str::<Value>(text) else { return Self::Gateway };
        let Some(kind) = frame.get("type").and_then(Value::as_str) else { return Self::Gateway };
        let id = frame.get("id").and_then(Value::as_str).map(str::to_owned);
        match kind {
            "reply" => Self::Reply { id, result: frame.get("result").cloned().unwrap_or_default() },
            "error" => {
                let error = frame.get("error").cloned().unwrap_or_default();
                serde_json::from_value(error).map_or(Self::Unknown, |error| Self::Error { id, error })
            }
            _ => serde_json::from_value(frame).map_or(Self::Unknown, Self::Event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ConversationId, MessageId, Seq};
    use crate::time::Timestamp;
    use crate::{AckResult, InboxResult, PingResult, ReadResult, SendResult};
    use insta::assert_snapshot;

    fn id() -> RequestId {
        RequestId::parse("r1").unwrap()
    }

    #[test]
    fn replies_name_the_action_and_echo_the_id() {
        assert_snapshot!(reply_frame("ack", Some(&id()), &AckResult {}.into()), @r#"{"type":"reply","action":"ack","id":"r1","result":{}}"#);
        assert_snapshot!(reply_frame("read", None, &ReadResult { unread: 3, mentions: None }.into()), @r#"{"type":"reply","action":"read","result":{"unread":3}}"#);
        let sent = SendResult {
            conversation_id: ConversationId::parse("dm_x").unwrap(),
            seq: Seq::new(42).unwrap(),
            message_id: MessageId::stored("0198"),
            sent_at: Timestamp::from_millis(1_763_632_800_123),
            duplicate: false,
            version: None,
            read_seq: None,
            message: None,
        };
        assert_snapshot!(reply_frame("send", Some(&id()), &sent.into()), @r#"{"type":"reply","action":"send","id":"r1","result":{"conversation_id":"dm_x","seq":42,"message_id":"0198","sent_at":"2025-11-20T10:00:00.123Z","duplicate":false}}"#);
        let pong = PingResult { pending: true, server_time: Timestamp::from_millis(0), features: None };
        assert_snapshot!(reply_frame("ping", None, &pong.into()), @r#"{"type":"reply","action":"ping","result":{"pending":true,"server_time":"1970-01-01T00:00:00.000Z"}}"#);
        let inbox = InboxResult { conversations: vec![], next_cursor: None };
        assert_snapshot!(reply_frame("inbox", None, &inbox.into()), @r#"{"type":"reply","action":"inbox","result":{"conversations":[],"next_cursor":null}}"#);
    }

    #[test]
    fn errors_carry_a_code_a_text_and_whether_to_retry() {
        let bad = Refusal::bad_request("seq", "must be an integer");
        assert_snapshot!(error_frame(Some("read"), Some(&id()), &bad), @r#"{"type":"error","action":"read","id":"r1","error":{"code":"bad_request","message":"seq: must be an integer","retryable":false}}"#);
        assert_snapshot!(error_frame(None, None, &Refusal::Unavailable), @r#"{"type":"error","error":{"code":"unavailable","message":"a service failed; send the same request again","retryable":true,"retry_after_ms":1000}}"#);
        assert_snapshot!(error_frame(Some("send"), None, &Refusal::Conflict), @r#"{"type":"error","action":"send","error":{"code":"conflict","message":"the request did not finish in the server's tries; send the same request again","retryable":true,"retry_after_ms":100}}"#);
    }

    #[test]
    fn a_client_reads_what_the_server_writes() {
        let refused = error_frame(Some("send"), Some(&id()), &Refusal::Conflict);
        let ServerFrame::Error { id, error } = ServerFrame::parse(&refused) else { panic!("{refused}") };
        assert_eq!((id.as_deref(), &*error.code, error.retry_after_ms), (Some("r1"), "conflict", Some(100)));
        let reply = ServerFrame::parse(r#"{"type":"reply","action":"ack","id":"r1","result":{}}"#);
        assert_eq!(reply, ServerFrame::Reply { id: Some("r1".to_owned()), result: serde_json::json!({}) });
    }

    #[test]
    fn no_type_is_the_gateway_and_an_unknown_type_is_nothing() {
        let gateway = r#"{"message":"Internal server error","connectionId":"x"}"#;
        assert_eq!(ServerFrame::parse(gateway), ServerFrame::Gateway);
        assert_eq!(ServerFrame::parse("not json"), ServerFrame::Gateway);
        assert_eq!(ServerFrame::parse(r#"{"type":"typing","user_id":"bob"}"#), ServerFrame::Unknown);
        assert_eq!(ServerFrame::parse(r#"{"type":"messages.new","messages":5}"#), ServerFrame::Unknown);
    }
}
