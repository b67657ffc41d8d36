//! Connections: back-off, tokens, dead ones, replacing them in time.

use super::*;

fn offline(states: &[State]) -> &Why {
    match states.last() {
        Some(State::Offline { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn back_off_is_jittered_capped_and_starts_anew_with_an_answer() {
    let mut play = Play::new();
    let (first, max) = (Timing::default().reconnect_first, Timing::default().reconnect_max);
    let mut longest = Duration::ZERO;
    for attempt in 0..40_u32 {
        play.next();
        let (link, _) = play.dialed()[0];
        play.session.dial_failed(link, Why::Unreachable("no network".into()), play.now);
        let states = play.states();
        assert_eq!(states.first(), Some(&State::Connecting));
        let Some(State::Offline { retry_at, .. }) = states.last() else { panic!("{states:?}") };
        let wait = *retry_at - play.now;
        assert!(wait <= first.saturating_mul(2_u32.saturating_pow(attempt)).min(max));
        longest = longest.max(wait);
    }
    assert!(longest > max / 2, "{longest:?}");
    let link = play.connect();
    play.catch_up();
    play.session.lost(link, Why::Closed, play.now);
    let states = play.states();
    let Some(State::Offline { retry_at, .. }) = states.last() else { panic!("{states:?}") };
    assert!(*retry_at - play.now <= first);
}

#[test]
fn a_refused_token_is_replaced_once_before_anybody_worries() {
    for status in [401, 403] {
        let mut play = Play::new();
        play.tick();
        assert_eq!(play.dialed(), [(1, TokenNeed::Connect)]);
        play.session.dial_failed(1, Why::TokenRefused { status }, play.now);
        assert_eq!(play.dialed(), [(2, TokenNeed::Refused(status))]);
        assert!(!play.states().iter().any(|state| matches!(state, State::Offline { .. })));
        play.session.dial_failed(2, Why::TokenRefused { status }, play.now);
        assert_eq!(offline(&play.states()), &Why::TokenRefused { status });
        assert!(play.dialed().is_empty());
        play.next();
        assert_eq!(play.dialed(), [(3, TokenNeed::Refused(status))]);
        play.session.opened(3, play.now);
        play.catch_up();
        assert_eq!(play.states().last(), Some(&State::CaughtUp));
        // The next one has the same chance.
        play.session.lost(3, Why::Closed, play.now);
        play.next();
        assert_eq!(play.dialed(), [(4, TokenNeed::Connect)]);
        play.session.dial_failed(4, Why::TokenRefused { status }, play.now);
        assert_eq!(play.dialed(), [(5, TokenNeed::Refused(status))]);
    }
}

#[test]
fn an_expired_token_ends_the_connection_and_keeps_the_message() {
    let mut play = Play::online(4);
    play.write_bob("a");
    let first = play.request();
    play.refuse(&first, json!({"code":"token_expired","message":"","retryable":false}));
    assert_eq!(play.closed(), [1]);
    assert_eq!(offline(&play.states()), &Why::TokenExpired);
    play.next();
    assert_eq!(play.dialed(), [(2, TokenNeed::Expired)]);
    play.session.opened(2, play.now);
    assert!(play.requests().iter().any(|request| request["client_msg_id"] == "a"));
}

#[test]
fn an_app_without_a_token_is_asked_again_later() {
    let mut play = Play::new();
    play.tick();
    play.session.dial_failed(1, Why::NoToken("signed out".into()), play.now);
    assert_eq!(offline(&play.states()), &Why::NoToken("signed out".into()));
    play.next();
    assert_eq!(play.dialed().len(), 2);
}

#[test]
fn a_silent_server_is_a_dead_connection() {
    let mut play = Play::online(4);
    play.write_bob("a");
    play.after(ANSWER_WAIT);
    play.after(ANSWER_WAIT);
    assert!(play.closed().is_empty());
    play.after(ANSWER_WAIT);
    assert_eq!(play.closed(), [1]);
    assert_eq!(offline(&play.states()), &Why::Silent);
    // Where nothing is owed, silence is no sign of anything.
    let mut play = Play::online(4);
    play.after(Timing::default().ping_every.saturating_sub(MOMENT));
    assert!(play.closed().is_empty());
}

#[test]
fn make_before_break() {
    let mut play = Play::online(4);
    let timing = Timing::default();
    play.now += timing.lifetime.saturating_sub(timing.lifetime_jitter + MOMENT);
    play.tick();
    play.answer("ping", json!({"pending":false}));
    assert!(play.dialed().is_empty());
    play.now += timing.lifetime_jitter + MOMENT;
    play.tick();
    assert_eq!(play.dialed(), [(2, TokenNeed::Connect)]);
    play.forget();

    // The old one still serves.
    play.write_bob("a");
    let (link, send) = play.frames().remove(0);
    assert_eq!(link, 1);
    play.session.opened(2, play.now);
    let (link, drain) = play.frames().remove(0);
    assert_eq!((link, &drain["action"]), (2, &json!("drain")));
    // Frames of both count.
    play.reply(1, &send, stored("dm_ab", 5));
    play.frame(2, json!({"type":"message.new","message":message("dm_ab", 6, "bob")}));
    play.frame(1, json!({"type":"message.new","message":message("dm_ab", 6, "bob")}));
    assert_eq!(play.seqs(), [5, 6]);
    assert!(play.closed().is_empty());
    play.reply(2, &drain, page(&[], false));
    assert_eq!(play.closed(), [1]);
    play.answer("inbox", inbox(&[]));
    assert!(play.states().is_empty(), "nobody need know");
    assert_eq!(play.session.stats().reconnects, 1);
    play.write_bob("b");
    assert!(play.frames().iter().all(|(link, _)| *link == 2));
}

#[test]
fn what_the_old_connection_owes_when_it_is_closed_is_asked_on_the_new_one() {
    let mut play = Play::online(4);
    play.now += Timing::default().lifetime;
    play.tick();
    play.forget();
    play.write_bob("a");
    let (link, first) = play.frames().remove(0);
    assert_eq!(link, 1);
    play.session.opened(2, play.now);
    play.answer("drain", page(&[], false));
    let again = play.frames().into_iter().find(|(_, request)| request["action"] == "send").unwrap();
    assert_eq!((again.0, &again.1["client_msg_id"]), (2, &first["client_msg_id"]));
}

#[test]
fn a_replacement_that_fails_leaves_the_old_connection_in_service() {
    let mut play = Play::online(4);
    play.now += Timing::default().lifetime;
    play.tick();
    play.forget();
    play.session.dial_failed(2, Why::Unreachable("no".into()), play.now);
    assert!(play.states().is_empty());
    play.next();
    let (third, _) = play.dialed()[0];
    play.session.opened(third, play.now);
    // It breaks before it has drained: the old one takes over again, and what was asked is asked on it.
    play.forget();
    play.session.lost(third, Why::Closed, play.now);
    let asked = play.frames();
    assert!(asked.iter().any(|(link, request)| *link == 1 && request["action"] == "drain"), "{asked:?}");
    assert!(play.states().is_empty());
    play.session.lost(1, Why::Closed, play.now);
    assert_eq!(offline(&play.states()), &Why::Closed);
}

#[test]
fn the_old_connection_may_end_while_the_new_one_is_dialled() {
    let mut play = Play::online(4);
    play.now += Timing::default().lifetime;
    play.tick();
    play.forget();
    play.session.lost(1, Why::Closed, play.now);
    assert_eq!(play.states(), [State::Connecting]);
    play.session.opened(2, play.now);
    play.catch_up();
    assert_eq!(play.states(), [State::Online, State::CaughtUp]);
    // One that nobody asked for is not kept.
    play.session.opened(9, play.now);
    assert_eq!(play.closed(), [9]);
}

#[test]
fn a_page_that_was_asked_for_before_the_replacement_opened_says_nothing_about_it() {
    let mut play = Play::online(4);
    play.now += Timing::default().lifetime;
    play.tick();
    play.answer("ping", json!({"pending":true}));
    let (link, early) = play.frames().remove(0);
    assert_eq!((link, &early["action"]), (1, &json!("drain")));
    play.session.opened(2, play.now);
    play.reply(1, &early, page(&[], false));
    assert!(play.closed().is_empty());
    let (link, drain) = play.frames().remove(0);
    assert_eq!((link, &drain["action"]), (2, &json!("drain")));
    play.reply(2, &drain, page(&[], false));
    assert_eq!(play.closed(), [1]);
}
