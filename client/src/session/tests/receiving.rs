//! Messages in: order, duplicates, gaps, acknowledgements, catching up.

use super::*;

#[test]
fn a_start_pages_through_the_drain_and_each_page_acknowledges_the_one_before() {
    let mut play = Play::new();
    play.connect();
    let first = play.answer("drain", page(&[message("dm_ab", 3, "bob"), message("dm_ac", 1, "carol")], true));
    assert!(first.get("ack").is_none());
    let missed: Vec<bool> = play
        .take(|output| if let Output::Event(Event::Message { missed, .. }) = output { Some(*missed) } else { None });
    assert_eq!(missed, [true, true]);
    // Not before the app is done with the page.
    assert!(play.requests().is_empty());
    play.session.handled("dm_ab", 3, play.now);
    assert!(play.requests().is_empty());
    play.session.handled("dm_ac", 1, play.now);
    let second = play.answer("drain", page(&[message("dm_ab", 4, "bob")], false));
    assert_eq!(second["ack"], marks(&[("dm_ab", 3), ("dm_ac", 1)]));
    assert_eq!(play.seqs(), [4]);
    assert_eq!(play.answer("drain", page(&[], false))["ack"], marks(&[("dm_ab", 4)]));
    assert!(play.states().is_empty());
    let listing = play.answer("inbox", inbox(&[row("dm_ab", "bob", 4, 4)]));
    assert!(listing.get("since").is_none());
    let events = play.events();
    assert!(matches!(events.as_slice(), [Event::ConversationChanged(_), Event::State(State::CaughtUp)]), "{events:?}");
    assert_eq!(play.saved.caught_up.as_deref(), Some("2026-11-20T10:00:00.123Z"));
    assert!(play.requests().is_empty());
}

#[test]
fn what_comes_twice_is_handed_over_once_after_a_restart_too() {
    let mut play = Play::online(4);
    for seq in [5, 5, 4] {
        play.push("dm_ab", seq);
    }
    assert_eq!(play.seqs(), [5]);
    assert_eq!(play.session.stats().duplicates_dropped, 2);
    play.collect();

    let mut play = Play::restored(play.saved);
    play.connect();
    play.answer("drain", page(&[message("dm_ab", 5, "bob"), message("dm_ab", 6, "bob")], false));
    assert_eq!(play.seqs(), [6]);
    assert_eq!(play.answer("drain", page(&[], false))["ack"], marks(&[("dm_ab", 6)]));
}

#[test]
fn what_the_app_was_not_done_with_comes_again_after_a_restart() {
    let mut play = Play::online(4);
    play.push("dm_ab", 5);
    assert_eq!(play.peek(), [("dm_ab".into(), 5)]);
    play.after(ACK_EVERY);
    assert!(play.requests().is_empty());
    let mut play = Play::restored(play.saved);
    play.connect();
    play.answer("drain", page(&[message("dm_ab", 5, "bob")], false));
    assert_eq!(play.seqs(), [5]);
}

#[test]
fn what_is_out_of_turn_waits_a_moment_for_what_is_before_it() {
    let mut play = Play::online(4);
    play.push("dm_ab", 6);
    assert!(play.peek().is_empty());
    play.push("dm_ab", 5);
    assert_eq!(play.seqs(), [5, 6]);
    play.after(Timing::default().gap_wait);
    assert!(play.requests().iter().all(|request| request["action"] == "ack"));
}

#[test]
fn a_gap_is_filled_from_history() {
    let mut play = Play::online(4);
    play.push("dm_ab", 8);
    play.push("dm_ab", 6);
    play.next();
    let asked = play.answer("history", history(&[message("dm_ab", 5, "bob"), message("dm_ab", 6, "bob")], 8, 4));
    assert_eq!((&asked["after_seq"], asked.get("before_seq")), (&json!(4), None));
    assert_eq!(play.seqs(), [5, 6]);
    // More came, so more may be there at once.
    let asked = play.answer("history", history(&[message("dm_ab", 7, "bob"), message("dm_ab", 8, "bob")], 8, 4));
    assert_eq!(asked["after_seq"], 6);
    assert_eq!(play.seqs(), [7, 8]);
    let stats = play.session.stats();
    assert_eq!((stats.gaps_repaired, stats.received, stats.duplicates_dropped), (2, 4, 0));
}

#[test]
fn a_gap_that_history_does_not_fill_is_asked_for_again_but_not_at_once() {
    let mut play = Play::online(4);
    play.push("dm_ab", 6);
    play.next();
    play.answer("history", history(&[], 4, 4));
    assert!(play.requests().is_empty());
    assert!(play.session.next_tick() >= Some(play.now + Timing::default().gap_retry));
    play.next();
    play.answer("history", history(&[message("dm_ab", 5, "alice")], 6, 4));
    assert_eq!(play.seqs(), [5, 6]);
}

#[test]
fn a_gap_that_will_never_be_filled_holds_nothing_up() {
    let mut play = Play::online(4);
    play.push("dm_ab", 6);
    play.next();
    let asked = play.request();
    play.refuse(&asked, json!({"code":"not_member","message":"","retryable":false}));
    assert_eq!(play.seqs(), [6]);
}

#[test]
fn a_conversation_that_is_new_on_this_device_begins_where_the_user_is() {
    let mut play = Play::online(0);
    play.push("dm_ab", 43);
    assert!(play.peek().is_empty());
    play.next();
    let asked = play.answer("history", history(&[message("dm_ab", 43, "bob")], 43, 41));
    assert_eq!((asked.get("after_seq"), &asked["limit"]), (None, &json!(1)));
    assert_eq!(play.answer("history", history(&[message("dm_ab", 42, "bob")], 43, 41))["after_seq"], 41);
    assert_eq!(play.seqs(), [42, 43]);
    // The first of all needs no question.
    play.push("dm_ac", 1);
    assert_eq!(play.shown(), [("dm_ac".into(), 1)]);
}

#[test]
fn what_another_device_took_is_found_by_the_chat_list() {
    let mut held = Play::online(4);
    held.saved.held.insert("dm_ab".into(), 4);
    held.saved.caught_up = Some("2026-11-20T09:00:00.000Z".into());
    let mut play = Play::restored(held.saved);
    play.connect();
    play.answer("drain", page(&[], false));
    let first = json!({"conversations":[row("dm_ab", "bob", 6, 6)],"next_cursor":"c"});
    assert_eq!(play.answer("inbox", first)["since"], "2026-11-20T09:00:00.000+00:01");
    assert_eq!(play.answer("inbox", inbox(&[row("dm_ac", "carol", 2, 2)]))["cursor"], "c");
    play.answer("history", history(&[message("dm_ab", 5, "bob"), message("dm_ab", 6, "bob")], 6, 6));
    let events = play.events();
    let told: Vec<_> = events.iter().filter(|event| !matches!(event, Event::ConversationChanged(_))).collect();
    assert!(matches!(told[2], Event::Message { message, missed: true } if message.seq == 5), "{told:?}");
    assert_eq!(told.last(), Some(&&Event::State(State::CaughtUp)));
    // The time moves on only once the app is done with all of it.
    play.collect();
    assert_eq!(play.saved.caught_up.as_deref(), Some("2026-11-20T09:00:00.000Z"));
    play.session.handled("dm_ab", 6, play.now);
    play.collect();
    assert_eq!(play.saved.caught_up.as_deref(), Some("2026-11-20T10:00:00.123Z"));
}

#[test]
fn a_gap_before_a_drained_page_does_not_stop_the_drain() {
    let mut play = Play::restored(Saved { held: [("dm_ab".to_owned(), 4)].into(), ..Saved::default() });
    play.connect();
    // Another device has acknowledged 5.
    play.answer("drain", page(&[message("dm_ab", 6, "bob")], false));
    assert!(play.peek().is_empty());
    play.next();
    play.answer("history", history(&[message("dm_ab", 5, "bob"), message("dm_ab", 6, "bob")], 6, 5));
    assert_eq!(play.seqs(), [5, 6]);
    assert_eq!(play.answer("drain", page(&[], false))["ack"], marks(&[("dm_ab", 6)]));
}

#[test]
fn acknowledgements_share_a_frame_a_second() {
    let mut play = Play::online(4);
    play.push("dm_ab", 5);
    assert_eq!(play.seqs(), [5]);
    assert_eq!(play.answer("ack", json!({}))["up_to"], marks(&[("dm_ab", 5)]));
    for seq in 6..=8 {
        play.push("dm_ab", seq);
    }
    play.push("dm_ac", 1);
    play.shown();
    assert!(play.requests().is_empty());
    play.after(ACK_EVERY);
    assert_eq!(play.answer("ack", json!({}))["up_to"], marks(&[("dm_ab", 8), ("dm_ac", 1)]));
}

#[test]
fn as_many_acknowledgements_as_fit_one_frame_do_not_wait() {
    let mut play = Play::online(4);
    play.push("dm_ab", 5);
    play.seqs();
    play.answer("ack", json!({}));
    for number in 0..26 {
        play.push(&format!("dm_{number:02}"), 1);
        play.shown();
    }
    let ack = play.request();
    assert_eq!(ack["up_to"].as_array().unwrap().len(), 25);
    play.session.leaving(play.now);
    assert_eq!(play.request()["up_to"], marks(&[("dm_25", 1)]));
}

#[test]
fn a_lost_acknowledgement_goes_along_with_the_next_drain() {
    let mut play = Play::online(4);
    play.push("dm_ab", 5);
    play.seqs();
    assert_eq!(play.request()["action"], "ack");
    play.session.lost(1, Why::Closed, play.now);
    play.connect();
    let requests = play.requests();
    assert_eq!((requests.len(), &requests[0]["ack"]), (1, &marks(&[("dm_ab", 5)])));
}

#[test]
fn a_refused_acknowledgement_is_not_repeated_and_does_not_end_the_drain() {
    let mut play = Play::new();
    play.connect();
    play.answer("drain", page(&[message("dm_ab", 1, "bob")], false));
    play.seqs();
    let with_ack = play.request();
    assert_eq!(with_ack["ack"], marks(&[("dm_ab", 1)]));
    play.refuse(&with_ack, json!({"code":"not_member","message":"","retryable":false}));
    assert!(play.answer("drain", page(&[], false)).get("ack").is_none());
    play.answer("inbox", inbox(&[]));
    assert_eq!(play.states().last(), Some(&State::CaughtUp));
}

#[test]
fn own_messages_need_no_acknowledgement_where_the_server_saw_to_it() {
    let mut play = Play::online(4);
    play.send("a", Target::Conversation("dm_ab".into()));
    play.answer("send", stored("dm_ab", 5));
    assert_eq!(play.seqs(), [5]);
    play.after(ACK_EVERY);
    assert!(play.requests().is_empty());
    // Bob's 6 came in between: the server can't have known that alice would hold it.
    play.send("b", Target::Conversation("dm_ab".into()));
    let send = play.request();
    play.push("dm_ab", 6);
    play.reply(1, &send, stored("dm_ab", 7));
    assert_eq!(play.seqs(), [6, 7]);
    play.after(ACK_EVERY);
    let acks = play.requests();
    assert_eq!(acks.last().unwrap()["up_to"], marks(&[("dm_ab", 7)]));
}

#[test]
fn reading_is_reported_once_a_second_and_spares_the_acknowledgement() {
    let mut play = Play::online(4);
    play.push("dm_ab", 5);
    play.peek();
    play.session.read("dm_ab", 5, 1, play.now);
    play.session.handled("dm_ab", 5, play.now);
    let first = play.request();
    assert_eq!((&first["action"], &first["seq"]), (&json!("read"), &json!(5)));
    play.push("dm_ab", 6);
    play.push("dm_ab", 7);
    for (seq, ticket) in [(6, 2), (7, 3)] {
        play.session.read("dm_ab", seq, ticket, play.now);
        play.session.handled("dm_ab", seq, play.now);
    }
    play.reply(1, &first, json!({"unread":2}));
    assert_eq!(play.answers(), [(1, Ok(Answer::Unread(2)))]);
    assert!(play.requests().is_empty());
    play.after(ACK_EVERY);
    assert_eq!(play.answer("read", json!({"unread":0}))["seq"], 7);
    assert_eq!(play.answers(), [(2, Ok(Answer::Unread(0))), (3, Ok(Answer::Unread(0)))]);
    play.after(ACK_EVERY);
    assert!(play.requests().is_empty());
}

#[test]
fn a_refused_read_says_so_and_the_messages_are_acknowledged_all_the_same() {
    let mut play = Play::online(4);
    play.push("dm_ab", 5);
    play.session.read("dm_ab", 9, 1, play.now);
    play.seqs();
    let read = play.request();
    play.refuse(&read, json!({"code":"bad_request","message":"seq","retryable":false}));
    assert!(matches!(play.answers().as_slice(), [(1, Err(Error::Refused { .. }))]));
    assert_eq!(play.request()["up_to"], marks(&[("dm_ab", 5)]));
}

#[test]
fn receipts_are_passed_on() {
    let mut play = Play::online(4);
    play.frame(
        1,
        json!({"type":"receipt.read","conversation_id":"dm_ab","user_id":"bob","seq":4,"at":"2026-11-20T10:00:00.123Z"}),
    );
    let receipt = Receipt {
        kind: ReceiptKind::Read,
        conversation_id: "dm_ab".into(),
        user_id: "bob".into(),
        seq: 4,
        at: "2026-11-20T10:00:00.123Z".into(),
    };
    assert_eq!(play.events(), [Event::Receipt(receipt)]);
}

#[test]
fn a_ping_finds_what_no_push_brought() {
    let mut play = Play::online(4);
    let at = play.session.next_tick();
    assert_eq!(at, Some(play.now + Timing::default().ping_every));
    play.next();
    play.answer("ping", json!({"pending":true,"server_time":"2026-11-20T10:00:00.123Z"}));
    play.answer("drain", page(&[message("dm_ab", 5, "bob")], false));
    let events = play.events();
    assert!(matches!(events.as_slice(), [Event::Message { missed: false, .. }]), "{events:?}");
    play.session.handled("dm_ab", 5, play.now);
    play.answer("drain", page(&[], false));
    // It was no connect, so there is nothing to list.
    assert!(play.requests().is_empty());
}

#[test]
fn a_read_mark_beyond_the_end_acknowledges_nothing_that_comes_later() {
    let mut play = Play::online(4);
    play.session.read("dm_ab", 999, 1, play.now);
    let read = play.request();
    // Stored after the server cut the mark down to 4, or before: who knows?
    play.push("dm_ab", 5);
    assert_eq!(play.seqs(), [5]);
    play.reply(1, &read, json!({"unread":0}));
    assert_eq!(play.answer("ack", json!({}))["up_to"], marks(&[("dm_ab", 5)]));
    play.after(ACK_EVERY);
    play.push("dm_ab", 6);
    assert_eq!(play.seqs(), [6]);
    assert_eq!(play.request()["up_to"], marks(&[("dm_ab", 6)]));
}

#[test]
fn a_conversation_that_the_user_has_left_does_not_keep_the_others_from_being_whole() {
    let mut play = Play::restored(Saved { held: [("dm_ab".to_owned(), 4)].into(), ..Saved::default() });
    play.connect();
    play.answer("drain", page(&[], false));
    play.answer("inbox", inbox(&[row("dm_ab", "bob", 6, 6)]));
    let asked = play.request();
    assert_eq!(asked["action"], "history");
    assert_ne!(play.states().last(), Some(&State::CaughtUp));
    play.refuse(&asked, json!({"code":"not_member","message":"","retryable":false}));
    assert_eq!(play.states(), [State::CaughtUp]);
}
