//! The session against a server played by hand: what comes in, what must be asked and shown.

#![allow(clippy::needless_pass_by_value, reason = "`json!(…)` reads better without a borrow")]

use serde_json::{Value, json};

use super::*;

struct Play {
    session: Session,
    now: Instant,
}

impl Play {
    fn new() -> Self {
        Self { session: Session::new("alice", "bob", fastrand::Rng::with_seed(7)), now: Instant::now() }
    }

    /// Connected, with the direct conversation at `last_seq` and everything before it shown.
    fn caught_up(last_seq: u64) -> Self {
        let mut play = Self::new();
        play.session.connected(play.now);
        play.answer("inbox", inbox(&json!([{"conversation_id":"dm_ab","peer_id":"bob"}])));
        play.answer("drain", page(&[], false));
        let first = last_seq.saturating_sub(1).max(1);
        let messages: Vec<Value> = (first..=last_seq).map(|seq| message("dm_ab", seq, "bob")).collect();
        play.answer("history", history(&messages, last_seq, last_seq));
        assert_eq!(play.events().last(), Some(&Event::UpToDate));
        play
    }

    fn requests(&mut self) -> Vec<Value> {
        let frames = self.session.take_frames();
        frames.iter().map(|frame| serde_json::from_str(frame).unwrap()).collect()
    }

    /// The one request that was made.
    fn request(&mut self) -> Value {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests[0].clone()
    }

    /// Expects one request with this action, and answers it.
    fn answer(&mut self, action: &str, result: Value) -> Value {
        let request = self.request();
        assert_eq!(request["action"], action, "{request}");
        self.reply(&request, result);
        request
    }

    fn reply(&mut self, request: &Value, result: Value) {
        self.frame(json!({"type":"reply","action":request["action"],"id":request["id"],"result":result}));
    }

    fn refuse(&mut self, request: &Value, error: Value) -> Verdict {
        let frame = json!({"type":"error","action":request["action"],"id":request["id"],"error":error});
        self.session.received(&frame.to_string(), self.now)
    }

    fn frame(&mut self, frame: Value) {
        assert_eq!(self.session.received(&frame.to_string(), self.now), Verdict::Keep);
    }

    fn push(&mut self, conversation: &str, seq: u64, sender: &str) {
        self.frame(json!({"type":"message.new","message":message(conversation, seq, sender)}));
    }

    fn say(&mut self, id: &str) {
        self.session.say(id.to_owned(), format!("body of {id}"), self.now);
    }

    fn after(&mut self, wait: Duration) -> Verdict {
        self.now += wait;
        self.session.tick(self.now)
    }

    fn events(&mut self) -> Vec<Event> {
        self.session.take_events()
    }

    /// The seqs of the open conversation shown since last asked.
    fn shown(&mut self) -> Vec<u64> {
        let messages = self.events().into_iter();
        messages
            .filter_map(|event| if let Event::Message { message, .. } = event { Some(message.seq) } else { None })
            .collect()
    }
}

fn message(conversation: &str, seq: u64, sender: &str) -> Value {
    json!({"conversation_id":conversation,"seq":seq,"message_id":"x","sender_id":sender,"kind":"text",
        "body":format!("{sender} {seq}"),"sent_at":"2026-11-20T10:00:00.123Z"})
}

fn inbox(conversations: &Value) -> Value {
    json!({"conversations":conversations,"next_cursor":null})
}

fn page(messages: &[Value], more: bool) -> Value {
    json!({"messages":messages,"more":more})
}

/// A history of which alice has read everything up to `alice_read`, and bob nothing.
fn history(messages: &[Value], last_seq: u64, alice_read: u64) -> Value {
    json!({"messages":messages,"more":false,"last_seq":last_seq,"members":[
        {"user_id":"alice","delivered_seq":alice_read,"read_seq":alice_read},
        {"user_id":"bob","delivered_seq":0,"read_seq":0}]})
}

fn stored(seq: u64) -> Value {
    json!({"conversation_id":"dm_ab","seq":seq,"message_id":"x","sent_at":"2026-11-20T10:00:00.123Z","duplicate":false})
}

#[test]
fn a_start_pages_through_the_drain_and_shows_history_before_what_was_missed() {
    let mut play = Play::new();
    play.session.connected(play.now);
    play.answer("inbox", inbox(&json!([{"conversation_id":"dm_ab","peer_id":"bob"}])));
    let first = play.answer("drain", page(&[message("dm_ab", 3, "bob"), message("dm_ac", 1, "carol")], true));
    assert!(first.get("ack").is_none());
    let second = play.answer("drain", page(&[message("dm_ab", 4, "bob")], false));
    assert_eq!(second["ack"], json!([{"conversation_id":"dm_ab","seq":3},{"conversation_id":"dm_ac","seq":1}]));
    let third = play.answer("drain", page(&[], false));
    assert_eq!(third["ack"], json!([{"conversation_id":"dm_ab","seq":4}]));
    let all: Vec<Value> = (1..=4).map(|seq| message("dm_ab", seq, "bob")).collect();
    play.answer("history", history(&all, 4, 2));
    let told: Vec<String> = play
        .events()
        .iter()
        .map(|event| match event {
            Event::Message { message, missed } => format!("{} {missed}", message.seq),
            Event::Elsewhere { sender_id, count, .. } => format!("{sender_id} {count}"),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(told, ["carol 1", "1 false", "2 false", "3 true", "4 true", "UpToDate"]);
    let read = play.request();
    assert_eq!((&read["action"], &read["seq"]), (&json!("read"), &json!(4)));
}

#[test]
fn no_conversation_yet_is_a_start_too_and_the_first_send_opens_it() {
    let mut play = Play::new();
    play.session.connected(play.now);
    play.answer("inbox", inbox(&json!([{"conversation_id":"dm_ac","peer_id":"carol"}])));
    play.answer("drain", page(&[], false));
    assert_eq!(play.events(), [Event::UpToDate]);
    play.say("a");
    let send = play.answer("send", stored(1));
    assert_eq!((&send["to"], &send["kind"]), (&json!("bob"), &json!("text")));
    // The receipt for this message may have come before its answer: history knows.
    play.answer(
        "history",
        json!({"messages":[message("dm_ab", 1, "alice")],"more":false,"last_seq":1,
        "members":[{"user_id":"bob","delivered_seq":1,"read_seq":0}]}),
    );
    let events = play.events();
    assert!(events.contains(&Event::Delivered { up_to: 1 }), "{events:?}");
    assert!(events.iter().any(|event| matches!(event,
        Event::Message { message, .. } if message.client_msg_id.as_deref() == Some("a"))));
}

#[test]
fn what_comes_twice_is_shown_once() {
    let mut play = Play::caught_up(4);
    play.push("dm_ab", 5, "bob");
    play.push("dm_ab", 5, "bob");
    play.push("dm_ab", 4, "bob");
    assert_eq!(play.shown(), [5]);
    // Nothing is left over that would look like a gap.
    assert_eq!(play.request()["action"], "read");
}

#[test]
fn a_gap_is_filled_from_history_and_shown_in_order() {
    let mut play = Play::caught_up(4);
    play.push("dm_ab", 7, "bob");
    play.push("dm_ab", 6, "bob");
    assert!(play.shown().is_empty());
    let asked = play.request();
    assert_eq!((&asked["action"], &asked["after_seq"]), (&json!("history"), &json!(4)));
    play.reply(&asked, history(&[message("dm_ab", 5, "bob"), message("dm_ab", 6, "bob")], 7, 4));
    assert_eq!(play.shown(), [5, 6, 7]);
}

#[test]
fn a_gap_that_history_does_not_fill_is_asked_for_again_but_not_at_once() {
    let mut play = Play::caught_up(4);
    play.push("dm_ab", 6, "bob");
    play.answer("history", history(&[], 4, 4));
    assert!(play.requests().is_empty());
    assert_eq!(play.session.next_tick(), Some(play.now + GAP_RETRY));
    assert_eq!(play.after(GAP_RETRY), Verdict::Keep);
    play.answer("history", history(&[message("dm_ab", 5, "alice")], 6, 4));
    assert_eq!(play.shown(), [5, 6]);
    assert!(play.session.next_tick().is_some_and(|at| at > play.now));
}

#[test]
fn sends_go_one_by_one_in_order() {
    let mut play = Play::caught_up(4);
    play.say("a");
    play.say("b");
    let first = play.answer("send", stored(5));
    assert_eq!(first["client_msg_id"], "a");
    assert_eq!(play.answer("send", stored(6))["client_msg_id"], "b");
    assert_eq!(play.shown(), [5, 6]);
    assert!(play.requests().is_empty());
}

#[test]
fn an_unanswered_send_is_repeated_unchanged_and_answered_once() {
    let mut play = Play::caught_up(4);
    play.say("a");
    let first = play.request();
    assert_eq!(play.after(Duration::from_millis(4999)), Verdict::Keep);
    assert!(play.requests().is_empty());
    assert_eq!(play.after(Duration::from_millis(1)), Verdict::Keep);
    assert_eq!(play.request(), first);
    play.reply(&first, stored(5));
    play.reply(&first, stored(5));
    assert_eq!(play.shown(), [5]);
}

#[test]
fn a_reconnect_repeats_the_outbox_and_asks_for_what_is_missing() {
    let mut play = Play::caught_up(4);
    play.say("a");
    play.say("b");
    assert_eq!(play.request()["client_msg_id"], "a");
    play.session.disconnected();
    play.say("c");
    assert!(play.requests().is_empty());

    play.session.connected(play.now);
    let requests = play.requests();
    let actions: Vec<_> = requests.iter().map(|request| request["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["drain", "send"]);
    assert_eq!(requests[1]["client_msg_id"], "a");
    // It had been stored before the connection broke, so the history has it as well.
    play.reply(&requests[1], stored(5));
    assert_eq!(play.answer("send", stored(6))["client_msg_id"], "b");
    assert_eq!(play.answer("send", stored(7))["client_msg_id"], "c");
    play.reply(&requests[0], page(&[], false));
    let own = |seq: u64, id: &str| {
        let mut own = message("dm_ab", seq, "alice");
        own["client_msg_id"] = json!(id);
        own
    };
    let asked = play.answer("history", history(&[own(5, "a"), own(6, "b")], 7, 4));
    assert_eq!(asked["after_seq"], 7);
    assert_eq!(play.shown(), [5, 6, 7]);
}

#[test]
fn a_refused_send_makes_way_for_the_next() {
    let mut play = Play::caught_up(4);
    play.say("a");
    play.say("b");
    let first = play.request();
    let refusal = json!({"code":"id_reused","message":"other body","retryable":false});
    assert_eq!(play.refuse(&first, refusal), Verdict::Keep);
    assert!(play.events().iter().any(|event| matches!(event,
        Event::Failed { client_msg_id, why, .. } if client_msg_id == "a" && why.contains("id_reused"))));
    assert_eq!(play.request()["client_msg_id"], "b");
}

#[test]
fn a_retryable_refusal_waits_as_long_as_it_says() {
    let mut play = Play::caught_up(4);
    play.say("a");
    let first = play.request();
    let refusal = json!({"code":"conflict","message":"busy","retryable":true,"retry_after_ms":900});
    assert_eq!(play.refuse(&first, refusal), Verdict::Keep);
    assert_eq!(play.after(Duration::from_millis(899)), Verdict::Keep);
    assert!(play.requests().is_empty());
    assert_eq!(play.after(Duration::from_millis(1)), Verdict::Keep);
    assert_eq!(play.request(), first);
}

#[test]
fn the_gateways_own_error_repeats_what_is_unanswered() {
    let mut play = Play::caught_up(4);
    play.say("a");
    let first = play.request();
    play.frame(json!({"message":"Internal server error","connectionId":"c","requestId":"r"}));
    assert_eq!(play.after(RETRY_MIN), Verdict::Keep);
    assert_eq!(play.request(), first);
}

#[test]
fn an_expired_token_ends_the_connection_and_keeps_the_message() {
    let mut play = Play::caught_up(4);
    play.say("a");
    let first = play.request();
    let refusal = json!({"code":"token_expired","message":"","retryable":false});
    assert_eq!(play.refuse(&first, refusal), Verdict::TokenExpired);
    play.session.disconnected();
    play.session.connected(play.now);
    assert!(play.requests().iter().any(|request| request["client_msg_id"] == "a"));
}

#[test]
fn a_body_that_no_frame_holds_is_never_sent() {
    let mut play = Play::caught_up(4);
    for body in ["x".repeat(BODY_BYTES_MAX + 1), "\u{1}".repeat(BODY_JSON_BYTES_MAX / 6)] {
        play.session.say("a".into(), body, play.now);
        assert!(play.requests().is_empty());
        assert!(matches!(play.events().as_slice(), [Event::Waiting { .. }, Event::Failed { .. }]));
    }
    play.session.say("a".into(), "x".repeat(BODY_BYTES_MAX), play.now);
    assert_eq!(play.requests().len(), 1);
}

#[test]
fn ticks_only_rise_and_reading_is_more_than_delivery() {
    let mut play = Play::caught_up(4);
    let receipt = |kind: &str, user: &str, seq: u64| json!({"type":kind,"conversation_id":"dm_ab","user_id":user,"seq":seq,"at":"2026-11-20T10:00:00.123Z"});
    play.frame(receipt("receipt.delivered", "bob", 2));
    play.frame(receipt("receipt.delivered", "bob", 1));
    assert_eq!(play.events(), [Event::Delivered { up_to: 2 }]);
    play.frame(receipt("receipt.read", "bob", 4));
    play.frame(receipt("receipt.delivered", "bob", 4));
    play.frame(receipt("receipt.read", "bob", 3));
    assert_eq!(play.events(), [Event::Read { up_to: 4 }]);
    // What alice reads on another device is no tick for her.
    play.frame(receipt("receipt.read", "alice", 9));
    assert!(play.events().is_empty());
}

#[test]
fn reading_is_reported_at_most_once_a_second() {
    let mut play = Play::caught_up(4);
    for seq in 5..=7 {
        play.push("dm_ab", seq, "bob");
    }
    assert_eq!(play.request()["seq"], 5);
    assert_eq!(play.session.next_tick(), Some(play.now + REPORT_EVERY));
    assert_eq!(play.after(REPORT_EVERY), Verdict::Keep);
    assert_eq!(play.request()["seq"], 7);
    play.push("dm_ab", 8, "bob");
    assert!(play.requests().is_empty());
    play.session.leaving(play.now);
    assert_eq!(play.request()["seq"], 8);
}

#[test]
fn other_conversations_are_a_notice_and_acknowledged_without_gaps() {
    let mut play = Play::caught_up(4);
    play.push("dm_ac", 1, "carol");
    assert_eq!(play.events(), [Event::Elsewhere { sender_id: "carol".into(), body: "carol 1".into(), count: 1 }]);
    let ack = play.request();
    assert_eq!((&ack["action"], &ack["up_to"]), (&json!("ack"), &json!([{"conversation_id":"dm_ac","seq":1}])));
    // 2 is missing: acknowledging 3 would lose it.
    play.push("dm_ac", 3, "carol");
    assert!(play.events().is_empty());
    play.answer("drain", page(&[message("dm_ac", 2, "carol"), message("dm_ac", 3, "carol")], false));
    let next = play.answer("drain", page(&[], false));
    assert_eq!(next["ack"], json!([{"conversation_id":"dm_ac","seq":3}]));
    assert_eq!(play.events(), [Event::Elsewhere { sender_id: "carol".into(), body: "carol 3".into(), count: 2 }]);
}

#[test]
fn a_ping_finds_what_no_push_brought() {
    let mut play = Play::caught_up(4);
    assert_eq!(play.session.next_tick(), Some(play.now + PING_EVERY));
    assert_eq!(play.after(PING_EVERY), Verdict::Keep);
    play.answer("ping", json!({"pending":true,"server_time":"2026-11-20T10:00:00.123Z"}));
    play.answer("drain", page(&[message("dm_ab", 5, "bob")], false));
    assert_eq!(
        play.events(),
        [Event::Message { message: serde_json::from_value(message("dm_ab", 5, "bob")).unwrap(), missed: false }]
    );
}

#[test]
fn a_silent_server_is_a_dead_connection() {
    let mut play = Play::caught_up(4);
    play.say("a");
    assert_eq!(play.after(ANSWER_WAIT), Verdict::Keep);
    assert_eq!(play.after(ANSWER_WAIT), Verdict::Keep);
    assert_eq!(play.after(ANSWER_WAIT), Verdict::Dead);
}

#[test]
fn back_off_is_jittered_and_capped() {
    let mut rng = fastrand::Rng::with_seed(1);
    let (first, max) = (Duration::from_millis(500), Duration::from_secs(30));
    for attempt in 0..200 {
        assert!(jitter(&mut rng, first, max, attempt) <= max);
        assert!(jitter(&mut rng, first, max, 0) <= first);
    }
    let longest = (0..200).map(|_| jitter(&mut rng, first, max, 20)).max();
    assert!(longest > Some(Duration::from_secs(20)));
}
