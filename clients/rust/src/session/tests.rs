//! What the scripts in conformance/ can't say of the session.

use super::*;
use crate::Why;
use crate::protocol::{BODY_BYTES_MAX, Request, Side, Target};
use crate::storage::Queued;

fn start(now: Instant) -> Session {
    let mut session = Session::new("alice", Timing::default(), Saved::default(), fastrand::Rng::with_seed(7), now);
    session.tick(now);
    session
}

fn online(now: Instant) -> Session {
    let mut session = start(now);
    session.opened(1, now);
    session.take_outputs();
    session
}

#[test]
fn back_off_is_jittered_and_capped() {
    let mut now = Instant::now();
    let mut session = start(now);
    let (first, max) = (Timing::default().reconnect_first, Timing::default().reconnect_max);
    let mut longest = Duration::ZERO;
    for attempt in 0..40_u32 {
        session.dial_failed(u64::from(attempt) + 1, Why::Unreachable("no network".into()), now);
        let next = session.next_tick().unwrap();
        assert!(next - now <= first.saturating_mul(2_u32.saturating_pow(attempt)).min(max));
        longest = longest.max(next - now);
        now = next;
        session.tick(now);
    }
    assert!(longest > max / 2, "{longest:?}");
}

#[test]
fn a_connection_that_nobody_asked_for_is_not_kept() {
    let now = Instant::now();
    let mut session = online(now);
    session.opened(9, now);
    assert_eq!(session.take_outputs(), [Output::Close { link: 9 }]);
}

#[test]
fn a_body_may_be_as_long_as_the_server_allows() {
    let now = Instant::now();
    let mut session = online(now);
    let target = Target::User("bob".into());
    session.send(Queued { client_msg_id: "a".into(), target, body: "x".repeat(BODY_BYTES_MAX) }, None, now);
    let outputs = session.take_outputs();
    assert!(matches!(&outputs[..], [Output::Frame { text, .. }] if text.len() > BODY_BYTES_MAX), "{outputs:?}");
}

#[test]
fn what_no_frame_holds_is_refused_before_it_is_sent() {
    let now = Instant::now();
    let mut session = online(now);
    session.call(1, Request::history(&"x".repeat(40_000), Side::Newest, 10), now);
    session.read(&"x".repeat(40_000), 1, 2, now);
    let refused = |ticket| Output::Answer { ticket, answer: Err(Error::TooLarge) };
    assert_eq!(session.take_outputs(), [refused(1), refused(2)]);
}

#[test]
fn an_answer_to_a_call_that_makes_no_sense_is_told() {
    let now = Instant::now();
    let mut session = online(now);
    session.call(1, Request::history("dm_ab", Side::Newest, 10), now);
    // The drain of the connect is request 1.
    session.received(1, r#"{"type":"reply","action":"history","id":"2","result":{"messages":5}}"#, now);
    let unreadable = Output::Answer { ticket: 1, answer: Err(Error::Unreadable) };
    assert!(session.take_outputs().contains(&unreadable));
}
