//! The frames of the protocol, as types. What this version does not know, it ignores: fields here, `type`s in
//! [`Frame::parse`].

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;

/// What `send` allows: bytes of UTF-8, and bytes once written as JSON.
pub(crate) const BODY_BYTES_MAX: usize = 16 * 1024;
pub(crate) const BODY_JSON_BYTES_MAX: usize = 24 * 1024;
/// A larger frame would not be refused: it would close the socket.
pub(crate) const FRAME_BYTES_MAX: usize = 32 * 1024;
/// The most marks one `ack` may carry.
pub(crate) const ACK_MARKS_MAX: usize = 25;
/// The most messages one `history` may ask for.
pub(crate) const HISTORY_MESSAGES_MAX: u32 = 100;
/// The most conversations one `inbox` may ask for.
pub(crate) const INBOX_CONVERSATIONS_MAX: u32 = 50;

/// A message, as the server has stored it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Message {
    /// Where it was said.
    pub conversation_id: String,
    /// Its place there: 1, 2, 3 and so on, without holes.
    pub seq: u64,
    /// Unique everywhere, and sorts as time does.
    #[serde(default)]
    pub message_id: String,
    /// Who said it.
    pub sender_id: String,
    /// `text`; others will come.
    #[serde(default)]
    pub kind: String,
    /// What was said.
    pub body: String,
    /// When it was stored: RFC 3339, UTC, milliseconds. Never goes back within a conversation.
    pub sent_at: String,
    /// Present only in what the sender's own devices receive.
    pub client_msg_id: Option<String>,
}

/// Whom a message is for.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Target {
    /// The direct conversation with this user, created by the first message.
    #[serde(rename = "to")]
    User(String),
    /// A conversation that the user is a member of.
    #[serde(rename = "conversation_id")]
    Conversation(String),
}

/// What the server answered to a message: it is stored, and waits for its recipients.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Stored {
    /// The conversation it went to.
    pub conversation_id: String,
    /// Its place there.
    pub seq: u64,
    /// Its id.
    #[serde(default)]
    pub message_id: String,
    /// When it was stored: RFC 3339, UTC, milliseconds.
    pub sent_at: String,
    /// It had been stored already, by an earlier try whose answer was lost.
    #[serde(default)]
    pub duplicate: bool,
}

/// A conversation, as the chat list shows it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Conversation {
    /// Its id.
    pub conversation_id: String,
    /// `direct`; others will come.
    #[serde(default)]
    pub kind: String,
    /// The other member. Only a direct conversation has one.
    pub peer_id: Option<String>,
    /// The newest message, shortened.
    pub last_message: Option<LastMessage>,
    /// How many messages of others are above `read_seq`.
    #[serde(default)]
    pub unread: u64,
    /// Some device of this user holds everything up to here.
    #[serde(default)]
    pub delivered_seq: u64,
    /// This user has read everything up to here.
    #[serde(default)]
    pub read_seq: u64,
    /// The newest message's seq.
    #[serde(default)]
    pub last_seq: u64,
}

/// The newest message of a [`Conversation`].
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct LastMessage {
    /// Its place in the conversation.
    pub seq: u64,
    /// Who said it.
    pub sender_id: String,
    /// `text`; others will come.
    #[serde(default)]
    pub kind: String,
    /// The first 100 characters of its body.
    #[serde(default)]
    pub preview: String,
    /// When it was stored: RFC 3339, UTC, milliseconds.
    pub sent_at: String,
}

/// A page of the chat list.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Inbox {
    /// Most recently active first.
    pub conversations: Vec<Conversation>,
    /// Where the next page begins; `None`: this was the last.
    pub next_cursor: Option<String>,
}

/// A page of a conversation.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct History {
    /// In the order of their seq.
    pub messages: Vec<Message>,
    /// There are more on the side that was asked for.
    pub more: bool,
    /// The conversation's newest message.
    pub last_seq: u64,
    /// Who is in it, and how far each of them has come.
    #[serde(default)]
    pub members: Vec<Member>,
}

/// How far a member of a conversation has come.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Member {
    /// Who.
    pub user_id: String,
    /// Their devices hold everything up to here.
    #[serde(default)]
    pub delivered_seq: u64,
    /// They have read everything up to here.
    #[serde(default)]
    pub read_seq: u64,
}

/// Which part of a conversation [`history`](crate::Client::history) brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end of it.
    Newest,
    /// What came before this seq, nearest to it.
    Before(u64),
    /// What came after this seq, nearest to it.
    After(u64),
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
        #[serde(flatten)]
        target: Target,
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
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<String>,
    },
    History {
        conversation_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        before_seq: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        after_seq: Option<u64>,
        limit: u32,
    },
    Ping,
}

impl Request {
    pub(crate) fn history(conversation_id: &str, side: Side, limit: u32) -> Self {
        let (before_seq, after_seq) = match side {
            Side::Newest => (None, None),
            Side::Before(seq) => (Some(seq), None),
            Side::After(seq) => (None, Some(seq)),
        };
        Self::History { conversation_id: conversation_id.to_owned(), before_seq, after_seq, limit }
    }

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

    /// Refuses here what would close the socket there, again at each try.
    pub(crate) fn check_size(&self) -> Result<(), Error> {
        if let Self::Send { body, .. } = self {
            let json_bytes = serde_json::to_string(body).map_or(usize::MAX, |json| json.len());
            if body.len() > BODY_BYTES_MAX || json_bytes > BODY_JSON_BYTES_MAX {
                return Err(Error::TooLarge);
            }
        }
        if self.frame(u64::MAX).len() > FRAME_BYTES_MAX { Err(Error::TooLarge) } else { Ok(()) }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct DrainResult {
    pub messages: Vec<Message>,
    pub more: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ReadResult {
    pub unread: u64,
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
pub(crate) struct ReceiptFrame {
    pub conversation_id: String,
    pub user_id: String,
    pub seq: u64,
    #[serde(default)]
    pub at: String,
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
    Delivered(ReceiptFrame),
    #[serde(rename = "receipt.read")]
    Read(ReceiptFrame),
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
        let frame: Value = serde_json::from_str(&drain.frame(7)).unwrap();
        assert_eq!(frame, serde_json::json!({"action":"drain","id":"7","ack":[{"conversation_id":"dm_a","seq":4}]}));
        assert_eq!(Request::Ping.frame(1), r#"{"id":"1","action":"ping"}"#);
        let send = |target| Request::Send { target, client_msg_id: "m".into(), kind: "text", body: "hi".into() };
        assert_eq!(
            send(Target::User("bob".into())).frame(1),
            r#"{"id":"1","action":"send","to":"bob","client_msg_id":"m","kind":"text","body":"hi"}"#
        );
        assert!(send(Target::Conversation("dm_a".into())).frame(1).contains(r#""conversation_id":"dm_a""#));
    }

    #[test]
    fn no_type_is_the_gateway_and_an_unknown_type_is_nothing() {
        assert!(Frame::parse(r#"{"message":"Internal server error","connectionId":"x"}"#).is_none());
        assert!(Frame::parse("not json").is_none());
        assert!(matches!(Frame::parse(r#"{"type":"typing","user_id":"bob"}"#), Some(Frame::Unknown)));
        assert!(matches!(Frame::parse(r#"{"type":"message.new","message":5}"#), Some(Frame::Unknown)));
    }

    #[test]
    fn what_no_frame_holds_is_noticed_here() {
        let send = |to: &str, body: String| {
            Request::Send { target: Target::User(to.into()), client_msg_id: "m".into(), kind: "text", body }
                .check_size()
        };
        assert!(send("bob", "x".repeat(BODY_BYTES_MAX)).is_ok());
        assert!(send("bob", "x".repeat(BODY_BYTES_MAX + 1)).is_err());
        assert!(send("bob", "\u{1}".repeat(BODY_JSON_BYTES_MAX / 6)).is_err());
        assert!(send(&"b".repeat(FRAME_BYTES_MAX), "hi".into()).is_err());
    }
}
