//! A frame of each kind, as it goes over the wire: what the server sends is written by the code that writes it there.

use domain::{
    ClientMsgId, Conversation, ConversationId, Event, Kind, LastMessage, Marks, Member, Message, MessageId, Refusal,
    Reply, RequestId, Seq, Timestamp, UserId, frame_error, reply,
};

/// The name of a frame's definition, and one such frame.
pub type Example = (&'static str, String);

pub fn examples() -> Vec<Example> {
    let mut all: Vec<Example> = REQUESTS.iter().map(|(name, frame)| (*name, (*frame).to_owned())).collect();
    all.extend(replies());
    all.extend(refusals().iter().map(|refusal| ("ErrorFrame", frame_error(Some("send"), Some(&id()), refusal))));
    // The one that could not be read.
    all.push(("ErrorFrame", frame_error(None, None, &Refusal::bad_request("frame", "must be valid JSON"))));
    all.extend(events());
    all.push(("GatewayError", GATEWAY_ERROR.to_owned()));
    all
}

const REQUESTS: [(&str, &str); 10] = [
    ("SendRequest", r#"{"action":"send","id":"r1","to":"bob","client_msg_id":"7b0e","kind":"text","body":"hi"}"#),
    (
        "SendRequest",
        r#"{"action":"send","id":"r1","conversation_id":"dm_x","client_msg_id":"7b0e","kind":"text","body":"hi"}"#,
    ),
    ("AckRequest", r#"{"action":"ack","id":"r1","up_to":[{"conversation_id":"dm_x","seq":42}]}"#),
    ("DrainRequest", r#"{"action":"drain","id":"r1"}"#),
    ("DrainRequest", r#"{"action":"drain","id":"r2","ack":[{"conversation_id":"dm_x","seq":42}]}"#),
    ("ReadRequest", r#"{"action":"read","id":"r1","conversation_id":"dm_x","seq":42}"#),
    ("InboxRequest", r#"{"action":"inbox","id":"r1","limit":50,"since":"2025-11-20T10:00:00.123Z"}"#),
    ("HistoryRequest", r#"{"action":"history","id":"r1","conversation_id":"dm_x"}"#),
    ("HistoryRequest", r#"{"action":"history","id":"r1","conversation_id":"dm_x","after_seq":41,"limit":100}"#),
    ("PingRequest", r#"{"action":"ping","id":"r1"}"#),
];

/// As API Gateway writes it.
const GATEWAY_ERROR: &str =
    r#"{"message":"Internal server error","connectionId":"VbUM1cTcIAMCJQA=","requestId":"VbUN8HqYIAMFtDw="}"#;

fn replies() -> Vec<Example> {
    let (conversation_id, seq, sent_at) = (conversation_id(), seq(42), sent_at());
    let member =
        |user, read| Member { user_id: user, delivered_seq: seq, read_seq: Seq::new(read).unwrap_or_default() };
    let results = [
        (
            "SendReply",
            "send",
            Reply::Send { conversation_id, seq, message_id: message_id(), sent_at, duplicate: false },
        ),
        ("AckReply", "ack", Reply::Ack {}),
        ("DrainReply", "drain", Reply::Drain { messages: vec![message()], more: false }),
        ("ReadReply", "read", Reply::Read { unread: 0 }),
        ("InboxReply", "inbox", Reply::Inbox { conversations: vec![conversation()], next_cursor: None }),
        (
            "HistoryReply",
            "history",
            Reply::History {
                messages: vec![message()],
                more: false,
                last_seq: seq,
                members: vec![member(alice(), 42), member(bob(), 41)],
            },
        ),
        ("PingReply", "ping", Reply::Ping { pending: false, server_time: sent_at }),
    ];
    results.into_iter().map(|(name, action, result)| (name, reply(action, Some(&id()), &result))).collect()
}

/// One of each. A code that is missing here has no example, which a test notices.
fn refusals() -> [Refusal; 8] {
    [
        Refusal::bad_request("client_msg_id", "is missing"),
        Refusal::TooLarge { field: "body", problem: "must be at most 16 KiB of UTF-8" },
        Refusal::UnknownAction,
        Refusal::TokenExpired,
        Refusal::NotMember,
        Refusal::IdReused,
        Refusal::Conflict,
        Refusal::Unavailable,
    ]
}

fn events() -> Vec<Example> {
    let (conversation, bob, seq, at) = (conversation_id(), bob(), seq(42), sent_at());
    let own = message();
    let theirs = own.clone().seen_by(&bob);
    let delivered = Event::Delivered { conversation_id: &conversation, user_id: &bob, seq, at };
    let read = Event::Read { conversation_id: &conversation, user_id: &bob, seq, at };
    vec![
        ("MessageNewEvent", Event::MessageNew { message: &theirs }.to_frame()),
        ("MessageNewEvent", Event::MessageNew { message: &own }.to_frame()),
        ("ReceiptDeliveredEvent", delivered.to_frame()),
        ("ReceiptReadEvent", read.to_frame()),
    ]
}

fn conversation() -> Conversation {
    let marks = Marks { delivered_seq: seq(42), read_seq: seq(41), unread: 1, pending_from: None };
    let Message { conversation_id, seq, message_id, sender_id, kind, body: preview, sent_at, .. } = message();
    let last = LastMessage { seq, message_id, sender_id: sender_id.clone(), kind, preview, sent_at };
    Conversation { conversation_id, peer_id: sender_id, last, active_at: sent_at, marks }
}

fn message() -> Message {
    Message {
        conversation_id: conversation_id(),
        seq: seq(42),
        message_id: message_id(),
        sender_id: alice(),
        kind: Kind::Text,
        body: "hi".to_owned(),
        sent_at: sent_at(),
        client_msg_id: Some(ClientMsgId::parse("7b0e").expect("it is one")),
    }
}

fn alice() -> UserId {
    UserId::parse("alice").expect("it is one")
}

fn bob() -> UserId {
    UserId::parse("bob").expect("it is one")
}

fn id() -> RequestId {
    RequestId::parse("r1").expect("it is one")
}

fn conversation_id() -> ConversationId {
    ConversationId::parse("dm_x").expect("it is one")
}

fn message_id() -> MessageId {
    MessageId::new(sent_at(), [7; 10])
}

fn seq(value: u64) -> Seq {
    Seq::new(value).expect("it is one")
}

fn sent_at() -> Timestamp {
    Timestamp::from_millis(1_763_632_800_123)
}
