//! Tests of the session that the scripts in conformance/ can't express.

use wire::limits::{BODY_BYTES_MAX, FRAME_BYTES_MAX};
use wire::{ClientMsgId, ConversationId, HistoryRequest, InboxRequest, Side, Target};

use super::*;
use crate::Why;
use crate::saved::Outgoing;

fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

fn start(now: Moment) -> Session {
    let mut session = Session::new(user("alice"), Timing::default(), Saved::default(), 7, now);
    session.tick(now);
    session
}

fn online(now: Moment) -> Session {
    let mut session = start(now);
    session.opened(1, None, now);
    session.take_outputs();
    session
}

#[test]
fn back_off_is_jittered_and_capped_higher_where_the_server_is_overloaded() {
    let Timing { reconnect_first: first, reconnect_max, reconnect_busy_max, .. } = Timing::default();
    for (why, max) in [
        (Why::Unreachable("no network".into()), reconnect_max),
        (Why::Refused { status: 404 }, reconnect_max),
        (Why::Refused { status: 429 }, reconnect_busy_max),
        (Why::Refused { status: 503 }, reconnect_busy_max),
    ] {
        let mut now = Moment::default();
        let mut session = start(now);
        let mut longest = Duration::ZERO;
        for attempt in 0..40_u32 {
            session.dial_failed(u64::from(attempt) + 1, why.clone(), now);
            let next = session.next_tick().unwrap();
            assert!(next - now <= first.saturating_mul(2_u32.saturating_pow(attempt)).min(max));
            longest = longest.max(next - now);
            now = next;
            session.tick(now);
        }
        assert!(longest > max / 2, "{why}: {longest:?}");
    }
}

#[test]
fn a_server_that_only_fails_is_dialled_less_and_less_often() {
    for says in [r#"{"message":"Internal server error"}"#, TOKEN_EXPIRED] {
        let mut now = Moment::default();
        let mut session = start(now);
        let mut longest = Duration::ZERO;
        for link in 1..40 {
            session.opened(link, None, now);
            session.received(link, says, now);
            session.lost(link, Why::Closed, now);
            let next = session.next_tick().unwrap();
            longest = longest.max(next - now);
            now = next;
            session.tick(now);
        }
        assert!(longest > Timing::default().reconnect_max / 2, "{longest:?}");
    }
}

const TOKEN_EXPIRED: &str =
    r#"{"type":"error","action":"drain","id":"1","error":{"code":"token_expired","message":"","retryable":false}}"#;

#[test]
fn a_connection_that_nobody_asked_for_is_not_kept() {
    let now = Moment::default();
    let mut session = online(now);
    session.opened(9, None, now);
    assert!(matches!(session.take_outputs()[..], [Output::Close { link: 9 }]));
}

#[test]
fn a_body_may_be_as_long_as_the_server_allows() {
    let now = Moment::default();
    let mut session = online(now);
    let (client_msg_id, target) = (ClientMsgId::parse("a").unwrap(), Target::User(user("bob")));
    let outgoing =
        Outgoing::Message { target, body: "x".repeat(BODY_BYTES_MAX), reply_to: None, mentions: vec![], media: None };
    session.send(Queued { client_msg_id, outgoing }, None, now);
    let outputs = session.take_outputs();
    assert!(matches!(&outputs[..], [Output::Frame { text, .. }] if text.len() > BODY_BYTES_MAX), "{outputs:?}");
}

fn answer_of(output: Output) -> Option<(AskId, Result<Reply, Error>)> {
    if let Output::Answer { ask, result } = output { Some((ask, result)) } else { None }
}

#[test]
fn a_request_that_no_frame_holds_is_refused_before_it_is_sent() {
    let now = Moment::default();
    let mut session = online(now);
    let mut ask = |cursor: String| {
        let action = InboxRequest { limit: 50, cursor: Some(cursor), since: None }.into();
        session.call(action, 1, now);
        let outputs = session.take_outputs();
        let frames: Vec<usize> = outputs
            .iter()
            .filter_map(|output| if let Output::Frame { text, .. } = output { Some(text.len()) } else { None })
            .collect();
        let answer = outputs.into_iter().find_map(answer_of);
        (frames, answer)
    };
    // Written as JSON, each of these is six bytes.
    let (frames, answer) = ask("\u{1}".repeat(FRAME_BYTES_MAX / 8));
    assert!(frames.len() == 1 && frames[0] <= FRAME_BYTES_MAX && answer.is_none(), "{frames:?}");
    assert_eq!(ask("x".repeat(FRAME_BYTES_MAX)), (vec![], Some((1, Err(Error::TooLarge)))));
}

#[test]
fn an_answer_to_a_call_that_makes_no_sense_is_told() {
    let now = Moment::default();
    let mut session = online(now);
    let conversation_id = ConversationId::parse("dm_ab").unwrap();
    let action = HistoryRequest { conversation_id, side: Side::Newest, limit: 10 }.into();
    session.call(action, 5, now);
    // The drain of the connect is request 1.
    session.received(1, r#"{"type":"reply","action":"history","id":"2","result":{"messages":5}}"#, now);
    let answer = session.take_outputs().into_iter().find_map(answer_of);
    assert_eq!(answer, Some((5, Err(Error::Unreadable))));
}

#[test]
fn a_drained_page_of_which_nothing_can_be_read_is_the_last() {
    let now = Moment::default();
    let mut session = online(now);
    // The drain of the connect is request 1.
    session.received(1, r#"{"type":"reply","action":"drain","id":"1","result":{"messages":[7],"more":true}}"#, now);
    let outputs = session.take_outputs();
    assert!(matches!(&outputs[..], [Output::Frame { text, .. }] if text.contains("inbox")), "{outputs:?}");
}
