//! Tests of the session that the scripts in conformance/ can't express.

use wire::limits::{BODY_BYTES_MAX, FRAME_BYTES_MAX};
use wire::{ClientMsgId, ConversationId, HistoryRequest, InboxRequest, Side, Target};

use super::*;
use crate::saved::{Outgoing, Saved};
use crate::{TokenNeed, Why};

fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

fn start(now: Moment) -> Core {
    let setup = Setup {
        me: user("alice"),
        timing: Timing::default(),
        keeper: Keeper::App,
        saved: Saved::default(),
        keyring: None,
    };
    let mut core = Core::new(setup, 7);
    let dials = core.turn(vec![], now, Timestamp::default()).outputs;
    assert!(dials.contains(&Output::Dial { link: 1, need: TokenNeed::Connect }), "{dials:?}");
    core
}

fn online(now: Moment) -> Core {
    let mut core = start(now);
    let _drains = core.turn(vec![Input::Opened { link: 1, token_left: None }], now, Timestamp::default());
    core
}

fn ended(link: LinkId, why: Why) -> Input {
    Input::Ended { link, why }
}

fn frame(text: &str) -> Input {
    Input::Frame { link: 1, text: text.to_owned() }
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
        let mut core = start(now);
        let mut longest = Duration::ZERO;
        for attempt in 0..40_u32 {
            let next =
                core.turn(vec![ended(u64::from(attempt) + 1, why.clone())], now, Timestamp::default()).wake_at.unwrap();
            assert!(next - now <= first.saturating_mul(2_u32.saturating_pow(attempt)).min(max));
            longest = longest.max(next - now);
            now = next;
            let _dials = core.turn(vec![], now, Timestamp::default());
        }
        assert!(longest > max / 2, "{why}: {longest:?}");
    }
}

#[test]
fn a_server_that_only_fails_is_dialled_less_and_less_often() {
    for says in [r#"{"message":"Internal server error"}"#, TOKEN_EXPIRED] {
        let mut now = Moment::default();
        let mut core = start(now);
        let mut longest = Duration::ZERO;
        for link in 1..40 {
            let opened = Input::Opened { link, token_left: None };
            let inputs = vec![opened, Input::Frame { link, text: says.to_owned() }, ended(link, Why::Closed)];
            let next = core.turn(inputs, now, Timestamp::default()).wake_at.unwrap();
            longest = longest.max(next - now);
            now = next;
            let _dials = core.turn(vec![], now, Timestamp::default());
        }
        assert!(longest > Timing::default().reconnect_max / 2, "{longest:?}");
    }
}

const TOKEN_EXPIRED: &str =
    r#"{"type":"error","action":"drain","id":"1","error":{"code":"token_expired","message":"","retryable":false}}"#;

#[test]
fn a_connection_that_nobody_asked_for_is_not_kept() {
    let now = Moment::default();
    let mut core = online(now);
    let outputs = core.turn(vec![Input::Opened { link: 9, token_left: None }], now, Timestamp::default()).outputs;
    assert_eq!(outputs, [Output::Close { link: 9 }]);
}

#[test]
fn a_body_may_be_as_long_as_the_server_allows() {
    let now = Moment::default();
    let mut core = online(now);
    let (client_msg_id, target) = (ClientMsgId::parse("a").unwrap(), Target::User(user("bob")));
    let outgoing = Outgoing::Message { target, draft: "x".repeat(BODY_BYTES_MAX).into(), media: None };
    let what = Ask::Keep(Queued { client_msg_id, outgoing, made_at: Timestamp::default() });
    let outputs = core.turn(vec![Input::Ask { ask: 1, what }], now, Timestamp::default()).outputs;
    assert!(matches!(&outputs[..], [Output::Send { text, .. }] if text.len() > BODY_BYTES_MAX), "{outputs:?}");
}

fn answer_of(output: Output) -> Option<(AskId, Result<Reply, Error>)> {
    if let Output::Answer { ask, result } = output { Some((ask, result)) } else { None }
}

#[test]
fn a_request_that_no_frame_holds_is_refused_before_it_is_sent() {
    let now = Moment::default();
    let mut core = online(now);
    let mut ask = |cursor: String| {
        let what = Ask::Question(InboxRequest { limit: 50, cursor: Some(cursor), since: None, pinned: false }.into());
        let outputs = core.turn(vec![Input::Ask { ask: 1, what }], now, Timestamp::default()).outputs;
        let frames: Vec<usize> = outputs
            .iter()
            .filter_map(|output| if let Output::Send { text, .. } = output { Some(text.len()) } else { None })
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
    let mut core = online(now);
    let conversation_id = ConversationId::parse("dm_ab").unwrap();
    let what = Ask::Question(HistoryRequest { conversation_id, side: Side::Newest, limit: 10 }.into());
    let _asks = core.turn(vec![Input::Ask { ask: 5, what }], now, Timestamp::default());
    // The drain of the connect is request 1.
    let reply = frame(r#"{"type":"reply","action":"history","id":"2","result":{"messages":5}}"#);
    let answer = core.turn(vec![reply], now, Timestamp::default()).outputs.into_iter().find_map(answer_of);
    assert_eq!(answer, Some((5, Err(Error::Unreadable))));
}

#[test]
fn a_drained_page_of_which_nothing_can_be_read_is_the_last() {
    let now = Moment::default();
    let mut core = online(now);
    // The drain of the connect is request 1.
    let reply = frame(r#"{"type":"reply","action":"drain","id":"1","result":{"messages":[7],"more":true}}"#);
    let outputs = core.turn(vec![reply], now, Timestamp::default()).outputs;
    assert!(matches!(&outputs[..], [Output::Send { text, .. }] if text.contains("inbox")), "{outputs:?}");
}
