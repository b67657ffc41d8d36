//! The room against a client played by hand.

use super::*;

fn message(conversation: &str, seq: u64, sender: &str) -> Message {
    Message {
        conversation_id: conversation.into(),
        seq,
        message_id: "x".into(),
        sender_id: sender.into(),
        kind: "text".into(),
        body: format!("{sender} {seq}"),
        sent_at: "2026-11-20T10:00:00.123Z".into(),
        client_msg_id: None,
    }
}

fn heard(conversation: &str, seq: u64, sender: &str, missed: bool) -> client::Event {
    client::Event::Message { message: message(conversation, seq, sender), missed }
}

fn row(conversation: &str, peer: &str) -> client::Conversation {
    client::Conversation {
        conversation_id: conversation.into(),
        kind: "direct".into(),
        peer_id: Some(peer.into()),
        last_message: None,
        unread: 0,
        delivered_seq: 0,
        read_seq: 0,
        last_seq: 0,
    }
}

/// A history of which alice has read everything up to `alice_read`, and bob nothing.
fn history(seqs: impl IntoIterator<Item = u64>, alice_read: u64) -> History {
    let messages: Vec<Message> = seqs.into_iter().map(|seq| message("dm_ab", seq, "bob")).collect();
    let last_seq = messages.last().map_or(0, |last| last.seq);
    let member = |user: &str, seq| client::Member { user_id: user.into(), delivered_seq: seq, read_seq: seq };
    History { messages, more: false, last_seq, members: vec![member("alice", alice_read), member("bob", 0)] }
}

fn told(room: &mut Room) -> Vec<String> {
    let text = |news| match news {
        News::Event(Event::Message { message, missed }) => format!("{} {missed}", message.seq),
        News::Event(Event::Elsewhere { sender_id, count, .. }) => format!("{sender_id} {count}"),
        News::Event(other) => format!("{other:?}"),
        other => format!("{other:?}"),
    };
    room.take_news().into_iter().map(text).collect()
}

/// The conversation is open, and everything up to `last` shown and read.
fn caught_up(last: u64) -> Room {
    let mut room = Room::new("alice", "bob");
    room.event(client::Event::State(State::Online));
    room.event(client::Event::ConversationChanged(row("dm_ab", "bob")));
    room.event(client::Event::State(State::CaughtUp));
    room.remembered(Ok(history(1..=last, last)));
    room.take_asks();
    assert_eq!(told(&mut room).last().unwrap(), "UpToDate");
    room
}

#[test]
fn a_start_shows_history_before_what_was_missed_and_others_as_one_line_each() {
    let mut room = Room::new("alice", "bob");
    room.event(client::Event::State(State::Online));
    room.event(heard("dm_ab", 3, "bob", true));
    room.event(heard("dm_ac", 1, "carol", true));
    room.event(heard("dm_ac", 2, "carol", true));
    room.event(heard("dm_ab", 4, "bob", true));
    room.event(client::Event::ConversationChanged(row("dm_ab", "bob")));
    room.event(client::Event::State(State::CaughtUp));
    let ask = Ask::History { conversation_id: "dm_ab".into(), side: Side::Newest, limit: HISTORY_AT_START };
    assert_eq!(room.take_asks(), [ask]);
    room.remembered(Ok(history(1..=4, 2)));
    assert_eq!(told(&mut room), ["Online", "carol 2", "1 false", "2 false", "3 true", "4 true", "UpToDate"]);
    assert_eq!(room.take_asks(), [Ask::Read { conversation_id: "dm_ab".into(), seq: 4 }]);
}

#[test]
fn a_peer_far_down_the_chat_list_is_looked_for_and_one_who_is_not_there_too() {
    let mut room = Room::new("alice", "bob");
    room.event(client::Event::State(State::CaughtUp));
    assert_eq!(room.take_asks(), [Ask::Inbox { cursor: None }]);
    room.listed(Ok(Inbox { conversations: vec![row("dm_ac", "carol")], next_cursor: Some("c".into()) }));
    assert_eq!(room.take_asks(), [Ask::Inbox { cursor: Some("c".into()) }]);
    room.listed(Ok(Inbox { conversations: vec![], next_cursor: None }));
    assert_eq!(told(&mut room), ["UpToDate"]);

    // The first message opens the conversation. The receipt for it may have come before: history knows.
    room.said("a", "hi".into());
    let mut own = message("dm_ab", 1, "alice");
    own.client_msg_id = Some("a".into());
    room.event(client::Event::Message { message: own, missed: false });
    assert!(matches!(room.take_asks().as_slice(), [Ask::History { .. }]));
    let mut first = history([], 0);
    first.members[1].delivered_seq = 1;
    room.remembered(Ok(first));
    let told = told(&mut room);
    assert_eq!(told[1..], ["1 false".to_owned(), "Delivered { up_to: 1 }".to_owned()]);
}

#[test]
fn ticks_only_rise_and_reading_is_more_than_delivery() {
    let mut room = caught_up(4);
    let mut receipt = |kind, user: &str, seq| {
        let (conversation_id, user_id) = ("dm_ab".to_owned(), user.to_owned());
        room.event(client::Event::Receipt(Receipt { kind, conversation_id, user_id, seq, at: String::new() }));
        told(&mut room)
    };
    assert_eq!(receipt(ReceiptKind::Delivered, "bob", 2), ["Delivered { up_to: 2 }"]);
    assert!(receipt(ReceiptKind::Delivered, "bob", 1).is_empty());
    assert_eq!(receipt(ReceiptKind::Read, "bob", 4), ["Read { up_to: 4 }"]);
    assert!(receipt(ReceiptKind::Delivered, "bob", 4).is_empty());
    assert!(receipt(ReceiptKind::Read, "bob", 3).is_empty());
    // What alice reads on another device is no tick for her.
    assert!(receipt(ReceiptKind::Read, "alice", 9).is_empty());
}

#[test]
fn what_is_shown_is_read_unless_another_device_has_read_it() {
    let mut room = caught_up(4);
    room.event(heard("dm_ab", 5, "bob", false));
    assert_eq!(told(&mut room), ["5 false"]);
    assert_eq!(room.take_asks(), [Ask::Read { conversation_id: "dm_ab".into(), seq: 5 }]);
    room.event(heard("dm_ab", 6, "alice", false));
    assert!(room.take_asks().is_empty());
    room.event(heard("dm_ac", 1, "carol", false));
    assert_eq!(told(&mut room), ["6 false", "carol 1"]);
}

#[test]
fn a_reconnect_asks_only_how_far_everybody_is() {
    let mut room = caught_up(4);
    room.event(client::Event::State(State::Online));
    room.event(heard("dm_ab", 5, "bob", true));
    room.event(client::Event::State(State::CaughtUp));
    let ask = Ask::History { conversation_id: "dm_ab".into(), side: Side::After(5), limit: 1 };
    assert_eq!(room.take_asks(), [ask]);
    room.remembered(Ok(history([], 4)));
    assert_eq!(told(&mut room), ["Online", "5 true", "UpToDate"]);
    assert_eq!(room.take_asks(), [Ask::Read { conversation_id: "dm_ab".into(), seq: 5 }]);
}

#[test]
fn a_message_that_can_never_be_sent_is_said_to_have_failed() {
    let mut room = caught_up(4);
    room.not_said("x".into(), &Error::TooLarge);
    assert!(matches!(
        room.take_news().as_slice(),
        [News::Event(Event::Waiting { .. }), News::Event(Event::Failed { .. })]
    ));
}
