//! The outbox: order, retries, refusals.

use super::*;

#[test]
fn one_at_a_time_in_order_and_conversations_beside_each_other() {
    let mut play = Play::online(4);
    play.write_bob("a");
    play.write_bob("b");
    play.send("c", Target::User("carol".into()));
    let sent = play.requests();
    assert_eq!([&sent[0]["client_msg_id"], &sent[1]["client_msg_id"]], ["a", "c"]);
    assert_eq!((sent.len(), &sent[0]["to"], &sent[0]["kind"]), (2, &json!("bob"), &json!("text")));
    play.reply(1, &sent[0], stored("dm_ab", 5));
    assert_eq!(play.answer("send", stored("dm_ab", 6))["client_msg_id"], "b");
    play.reply(1, &sent[1], stored("dm_ac", 1));
    assert_eq!(play.shown(), [("dm_ab".into(), 5), ("dm_ab".into(), 6), ("dm_ac".into(), 1)]);
    let stats = play.session.stats();
    assert_eq!((stats.sent, stats.answered, stats.resent, stats.received), (3, 3, 0, 0));
    assert!(play.saved.outbox.is_empty());
}

#[test]
fn both_names_of_a_conversation_are_one_lane_once_that_is_known() {
    let mut play = Play::online(4);
    play.write_bob("a");
    play.write_bob("b");
    play.send("c", Target::Conversation("dm_ab".into()));
    let sent = play.requests();
    // Nobody could know yet.
    assert_eq!([&sent[0]["client_msg_id"], &sent[1]["client_msg_id"]], ["a", "c"]);
    play.reply(1, &sent[0], stored("dm_ab", 5));
    assert!(play.requests().is_empty(), "c is under way");
    play.send("d", Target::Conversation("dm_ab".into()));
    play.reply(1, &sent[1], stored("dm_ab", 6));
    assert_eq!(play.answer("send", stored("dm_ab", 7))["client_msg_id"], "b");
    assert_eq!(play.answer("send", stored("dm_ab", 8))["client_msg_id"], "d");
    assert_eq!(play.seqs(), [5, 6, 7, 8]);
}

#[test]
fn an_unanswered_message_goes_out_again_unchanged_and_is_answered_once() {
    let mut play = Play::online(4);
    play.write_bob("a");
    let first = play.request();
    play.after(ANSWER_WAIT.saturating_sub(MOMENT));
    assert!(play.requests().is_empty());
    play.after(MOMENT);
    assert_eq!(play.request(), first);
    play.reply(1, &first, stored("dm_ab", 5));
    play.reply(1, &first, stored("dm_ab", 5));
    assert_eq!(play.seqs(), [5]);
    assert_eq!(play.answers().len(), 1);
    assert_eq!(play.session.stats().resent, 1);
}

#[test]
fn a_reconnect_sends_what_was_not_answered_first() {
    let mut play = Play::online(4);
    play.write_bob("a");
    play.write_bob("b");
    assert_eq!(play.request()["client_msg_id"], "a");
    play.session.lost(1, Why::Closed, play.now);
    play.write_bob("c");
    assert!(play.requests().is_empty());
    play.connect();
    // It had been stored before the connection broke, so the drain has it as well.
    assert_eq!(play.answer("send", stored("dm_ab", 5))["client_msg_id"], "a");
    assert_eq!(play.answer("send", stored("dm_ab", 6))["client_msg_id"], "b");
    let mut own = message("dm_ab", 5, "alice");
    own["client_msg_id"] = json!("a");
    play.answer("drain", page(&[own], false));
    assert_eq!(play.answer("send", stored("dm_ab", 7))["client_msg_id"], "c");
    assert_eq!(play.seqs(), [5, 6, 7]);
    assert_eq!(play.session.stats().duplicates_dropped, 1);
}

#[test]
fn a_restart_sends_the_outbox_again_under_the_same_ids() {
    let mut play = Play::online(4);
    play.write_bob("a");
    play.write_bob("b");
    play.collect();
    let mut play = Play::restored(play.saved);
    play.connect();
    assert_eq!(play.answer("send", stored("dm_ab", 5))["client_msg_id"], "a");
    assert_eq!(play.answer("send", stored("dm_ab", 6))["client_msg_id"], "b");
    play.collect();
    assert!(play.saved.outbox.is_empty());
}

#[test]
fn a_refused_message_makes_way_for_the_next() {
    let mut play = Play::online(4);
    play.write_bob("a");
    play.write_bob("b");
    let first = play.request();
    play.refuse(&first, json!({"code":"id_reused","message":"other body","retryable":false}));
    let error = Error::Refused { code: "id_reused".into(), message: "other body".into() };
    assert_eq!(play.answers(), [(u64::from(b'a'), Err(error.clone()))]);
    let failed = Event::Failed {
        client_msg_id: "a".into(),
        target: Target::User("bob".into()),
        body: "body of a".into(),
        error,
    };
    assert_eq!(play.events(), [failed]);
    assert_eq!(play.request()["client_msg_id"], "b");
    assert_eq!((play.session.stats().failed, play.saved.outbox.len()), (1, 1));
}

#[test]
fn an_error_that_may_pass_waits_as_long_as_it_says() {
    let mut play = Play::online(4);
    play.write_bob("a");
    let first = play.request();
    play.refuse(&first, json!({"code":"conflict","message":"busy","retryable":true,"retry_after_ms":900}));
    play.after(Duration::from_millis(899));
    assert!(play.requests().is_empty());
    play.after(Duration::from_millis(1));
    assert_eq!(play.request(), first);
    // Without such a wish the client chooses, and not more than if there had been no answer.
    play.refuse(&first, json!({"code":"unavailable","message":"","retryable":true}));
    play.after(ANSWER_WAIT);
    assert_eq!(play.request(), first);
}

#[test]
fn the_gateways_own_error_repeats_what_is_unanswered() {
    let mut play = Play::online(4);
    play.write_bob("a");
    let first = play.request();
    play.frame(1, json!({"message":"Internal server error","connectionId":"c","requestId":"r"}));
    play.after(Timing::default().retry_first);
    assert_eq!(play.request(), first);
}

#[test]
fn what_can_not_be_read_is_no_answer() {
    let mut play = Play::online(4);
    play.write_bob("a");
    let first = play.request();
    play.reply(1, &first, json!({"seq":"five"}));
    play.frame(1, json!({"type":"typing","user_id":"bob"}));
    assert!(play.answers().is_empty());
    play.after(ANSWER_WAIT);
    assert_eq!(play.request(), first);

    play.session.call(9, Request::history("dm_ab", Side::Newest, 10), play.now);
    play.answer("history", json!({"messages":5}));
    assert_eq!(play.answers(), [(9, Err(Error::Unreadable))]);
}

#[test]
fn calls_wait_for_a_connection_and_are_asked_again_on_the_next() {
    let mut play = Play::new();
    play.session.call(1, Request::history("dm_ab", Side::Before(9), 10), play.now);
    play.session.call(2, Request::Inbox { limit: 50, cursor: None, since: None }, play.now);
    assert!(play.requests().is_empty());
    play.connect();
    let asked = play.answer("history", history(&[message("dm_ab", 8, "bob")], 8, 0));
    assert_eq!((&asked["before_seq"], &asked["limit"]), (&json!(9), &json!(10)));
    assert!(matches!(play.answers().as_slice(), [(1, Ok(Answer::History(found)))] if found.messages.len() == 1));
    play.session.lost(1, Why::Closed, play.now);
    play.forget();
    play.connect();
    play.answer("inbox", inbox(&[]));
    assert!(matches!(play.answers().as_slice(), [(2, Ok(Answer::Inbox(_)))]));
    // What was brought for the app is no news.
    assert!(play.peek().is_empty());
    play.session.call(3, Request::history(&"x".repeat(40_000), Side::Newest, 10), play.now);
    assert_eq!(play.answers(), [(3, Err(Error::TooLarge))]);
}

#[test]
fn a_body_may_be_as_long_as_the_server_allows() {
    let mut play = Play::online(0);
    let queued =
        Queued { client_msg_id: "a".into(), target: Target::User("bob".into()), body: "x".repeat(BODY_BYTES_MAX) };
    play.session.send(queued, None, play.now);
    assert_eq!(play.request()["body"].as_str().unwrap().len(), BODY_BYTES_MAX);
}
