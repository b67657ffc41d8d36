//! The frames this client uses, as types. What it does not know, it ignores: fields here, `type`s in [`Frame::parse`].

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What `send` allows: bytes of UTF-8, and bytes once written as JSON. A body over these could close the socket.
pub(crate) const BODY_BYTES_MAX: usize = 16 * 1024;
pub(crate) const BODY_JSON_BYTES_MAX: usize = 24 * 1024;
/// The most marks one `ack` may carry.
pub(crate) const ACK_MARKS_MAX: usize = 25;
/// The most messages one `history` may ask for.
pub(crate) const HISTORY_MESSAGES_MAX: u32 = 100;
/// The most conversations one `inbox` may ask for.
pub(crate) const INBOX_CONVERSATIONS_MAX: u32 = 50;

#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct Message {
    pub conversation_id: String,
    pub seq: u64,
    pub sender_id: String,
    pub body: String,
    pub sent_at: String,
    /// Present only in what the sender's own devices receive.
    pub client_msg_id: Option<String>,
}

/// "Everything of this conversation up to here."
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Mark {
    pub conversation_id: String,
    pub seq: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub(crate) enum Request {
    Send {
        to: String,
        client_msg_id: String,
        kind: &'static str,
        body: String,
    },
    Ack {
        up_to: Vec<Mark>,
    },
    Drain {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        ack: Vec<Mark>,
    },
    Read {
        conversation_id: String,
        seq: u64,
    },
    Inbox {
        limit: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
    },
    History {
        conversation_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        after_seq: Option<u64>,
        limit: u32,
    },
    Ping,
}

impl Request {
    /// The frame that asks for this; the answer carries `id` again.
    pub(crate) fn frame(&self, id: u64) -> String {
        #[derive(Serialize)]
        struct Numbered<'a> {
            id: String,
            #[serde(flatten)]
            request: &'a Request,
        }
        // Strings and integers under string keys: there is nothing here that JSON could not say.
        serde_json::to_string(&Numbered { id: id.to_string(), request: self }).unwrap_or_default()
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct SendResult {
    pub conversation_id: String,
    pub seq: u64,
    pub sent_at: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DrainResult {
    pub messages: Vec<Message>,
    pub more: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct InboxResult {
    pub conversations: Vec<Listed>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Listed {
    pub conversation_id: String,
    /// Only a direct conversation has one.
    pub peer_id: Option<String>,
    #[serde(default)]
    pub delivered_seq: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct HistoryResult {
    pub messages: Vec<Message>,
    pub more: bool,
    pub last_seq: u64,
    pub members: Vec<Member>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Member {
    pub user_id: String,
    pub delivered_seq: u64,
    pub read_seq: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct PingResult {
    pub pending: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Refusal {
    pub code: String,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub retryable: bool,
    pub retry_after_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Receipt {
    pub conversation_id: String,
    pub user_id: String,
    pub seq: u64,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
pub(crate) enum Frame {
    #[serde(rename = "reply")]
    Reply {
        id: Option<String>,
        #[serde(default)]
        result: Value,
    },
    #[serde(rename = "error")]
    Error { id: Option<String>, error: Refusal },
    #[serde(rename = "message.new")]
    MessageNew { message: Message },
    #[serde(rename = "receipt.delivered")]
    Delivered(Receipt),
    #[serde(rename = "receipt.read")]
    Read(Receipt),
    #[serde(other)]
    Unknown,
}

impl Frame {
    /// `None`: the frame has no `type`, so it comes from the gateway and not from Pigeonhole.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        value.get("type").and_then(Value::as_str)?;
        Some(serde_json::from_value(value).unwrap_or(Self::Unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_flat_object() {
        let drain = Request::Drain { ack: vec![Mark { conversation_id: "dm_a".into(), seq: 4 }] };
        let sent: Value = serde_json::from_str(&drain.frame(7)).unwrap();
        assert_eq!(sent, serde_json::json!({"action":"drain","id":"7","ack":[{"conversation_id":"dm_a","seq":4}]}));
        assert_eq!(Request::Ping.frame(1), r#"{"id":"1","action":"ping"}"#);
    }

    #[test]
    fn no_type_is_the_gateway_and_an_unknown_type_is_nothing() {
        assert!(Frame::parse(r#"{"message":"Internal server error","connectionId":"x"}"#).is_none());
        assert!(Frame::parse("not json").is_none());
        assert!(matches!(Frame::parse(r#"{"type":"typing","user_id":"bob"}"#), Some(Frame::Unknown)));
        assert!(matches!(Frame::parse(r#"{"type":"message.new","message":5}"#), Some(Frame::Unknown)));
    }
}
