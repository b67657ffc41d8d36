use std::collections::BTreeSet;

use super::*;
use crate::limits::{BODY_BYTES_MAX, SEQ_MAX};
use crate::{
    ACTIONS, AckRequest, ClientMsgId, DeviceRequest, DeviceToken, DrainRequest, InboxRequest, Kind, Platform, Quiet,
    Registration, SendRequest, Seq, Side, Target, Timestamp, UserId, When, error_frame,
};
use proptest::prelude::*;
use serde_json::json;

fn parse(frame: &Value) -> Result<Request, Rejected> {
    Request::parse(&frame.to_string())
}

/// The code and text that a frame is refused with.
fn refusal(frame: &Value) -> String {
    let rejected = parse(frame).expect_err(&frame.to_string());
    format!("{} · {}", rejected.refusal.code(), rejected.refusal)
}

fn with(mut frame: Value, field: &str, value: Value) -> Value {
    frame[field] = value;
    frame
}

fn without(mut frame: Value, field: &str) -> Value {
    frame.as_object_mut().unwrap().remove(field);
    frame
}

fn send() -> Value {
    json!({"action": "send", "id": "r1", "to": "bob", "client_msg_id": "m1", "kind": "text", "body": "hi"})
}

#[test]
fn a_send_is_read_whole() {
    let request = parse(&send()).unwrap();
    assert_eq!(request.id, Some(RequestId::parse("r1").unwrap()));
    let expected = SendRequest {
        target: Target::User(UserId::parse("bob").unwrap()),
        client_msg_id: ClientMsgId::parse("m1").unwrap(),
        kind: Kind::Text,
        data: None,
        reply_to: None,
        read: None,
        mentions: vec![],
        body: "hi".to_owned(),
        media: None,
        epoch: None,
        silent: false,
        frank: None,
    };
    assert_eq!(request.action, Action::Send(expected));
}

#[test]
fn unknown_fields_and_nulls_are_ignored() {
    let frame = with(with(send(), "colour", json!("red")), "conversation_id", Value::Null);
    assert_eq!(parse(&frame).unwrap(), parse(&send()).unwrap());
}

#[test]
fn what_is_no_object_is_refused_without_an_echo() {
    for (frame, problem) in [
        ("", "must be valid JSON"),
        ("{", "must be valid JSON"),
        ("hello", "must be valid JSON"),
        ("[]", "must be a JSON object"),
        ("\"send\"", "must be a JSON object"),
        ("7", "must be a JSON object"),
        ("{\"action\":\"send\"}{}", "must be valid JSON"),
        ("{\"id\":\"\\ud800\"}", "must be valid JSON"),
    ] {
        let rejected = Request::parse(frame).unwrap_err();
        let refusal = Refusal::bad_request("frame", problem);
        assert_eq!(rejected, Rejected { action: None, id: None, refusal }, "{frame}");
    }
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    let deep = format!("{{\"action\":\"ping\",\"x\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(Request::parse(&deep).unwrap_err().refusal, Refusal::bad_request("frame", "must be valid JSON"));
}

#[test]
fn a_frame_over_32_kib_is_too_large() {
    let frame = json!({"action": "ping", "x": "x".repeat(FRAME_BYTES_MAX)});
    assert_eq!(refusal(&frame), "too_large · frame: must be at most 32 KiB");
}

#[test]
fn action_and_id_are_echoed_where_they_could_be_read() {
    let rejected = parse(&json!({"action": "fly", "id": "r9"})).unwrap_err();
    assert_eq!(
        error_frame(rejected.action.as_deref(), rejected.id.as_ref(), &rejected.refusal),
        r#"{"type":"error","action":"fly","id":"r9","error":{"code":"unknown_action","message":"action: no such action","retryable":false}}"#
    );

    let rejected = parse(&json!({"action": "send", "id": 7})).unwrap_err();
    assert_eq!((rejected.action.as_deref(), &rejected.id), (Some("send"), &None));
    assert_eq!(rejected.refusal.to_string(), "id: must be a string");

    let long = parse(&json!({"action": "x".repeat(65), "id": "r9"})).unwrap_err();
    assert_eq!((long.action, long.refusal), (None, Refusal::UnknownAction));
}

#[test]
fn a_request_without_a_usable_action_is_a_bad_request() {
    assert_eq!(refusal(&json!({"id": "r1"})), "bad_request · action: is missing");
    assert_eq!(refusal(&json!({"action": 5})), "bad_request · action: must be a string");
    assert_eq!(refusal(&json!({"action": null})), "bad_request · action: is missing");
    assert_eq!(refusal(&json!({"action": "$connect"})), "unknown_action · action: no such action");
    assert_eq!(
        refusal(&json!({"action": "ping", "id": "x".repeat(65)})),
        "bad_request · id: must be 1 to 64 characters"
    );
}

#[test]
fn send_names_the_field_at_fault() {
    for field in ["client_msg_id", "kind", "body"] {
        assert_eq!(refusal(&without(send(), field)), format!("bad_request · {field}: is missing"));
        assert_eq!(refusal(&with(send(), field, json!(7))), format!("bad_request · {field}: must be a string"));
    }
    let ids = "printable ASCII characters without spaces";
    assert_eq!(
        refusal(&without(send(), "to")),
        "bad_request · to: is missing; set it to a user, or set conversation_id"
    );
    assert_eq!(
        refusal(&with(send(), "conversation_id", json!("dm_x"))),
        "bad_request · to: must be left out if conversation_id is set"
    );
    assert_eq!(refusal(&with(send(), "to", json!("a b"))), format!("bad_request · to: must be 1 to 128 {ids}"));
    assert_eq!(refusal(&with(send(), "to", json!({}))), "bad_request · to: must be a string");
    assert_eq!(
        refusal(&with(without(send(), "to"), "conversation_id", json!("\u{0}"))),
        format!("bad_request · conversation_id: must be 1 to 128 {ids}")
    );
    assert_eq!(
        refusal(&with(send(), "client_msg_id", json!("x".repeat(65)))),
        format!("bad_request · client_msg_id: must be 1 to 64 {ids}")
    );
    assert_eq!(
        refusal(&with(send(), "kind", json!("video"))),
        "bad_request · kind: must be \"text\", \"image\", \"file\", \"voice\", \"sealed\" or \"x-\" and a name"
    );
    assert_eq!(refusal(&with(send(), "body", json!(""))), "bad_request · body: must not be empty");
    assert_eq!(refusal(&with(send(), "data", json!([]))), "bad_request · data: must be an object");
    assert_eq!(refusal(&with(send(), "kind", json!("x-poll"))), "bad_request · data: is missing");
    let vote = with(with(send(), "kind", json!("xs-vote")), "data", json!({}));
    assert_eq!(refusal(&vote), "bad_request · body: must be empty: the kind is silent");
    assert!(Request::parse(&with(vote.clone(), "body", json!("")).to_string()).is_ok());
    assert!(Request::parse(&without(vote, "body").to_string()).is_ok());
    let too_large = "too_large · body: must be at most 16 KiB of UTF-8, and at most 24 KiB once written as JSON";
    assert_eq!(refusal(&with(send(), "body", json!("x".repeat(BODY_BYTES_MAX + 1)))), too_large);
    assert_eq!(refusal(&with(send(), "body", json!("\u{1}".repeat(5_000)))), too_large);
}

#[test]
fn ack_takes_1_to_25_entries() {
    let entry = json!({"conversation_id": "dm_x", "seq": 3});
    let ack = |entries: Value| json!({"action": "ack", "up_to": entries});
    assert!(
        matches!(parse(&ack(json!([entry]))).unwrap().action, Action::Ack(AckRequest { up_to }) if up_to.len() == 1)
    );
    assert!(parse(&ack(Value::Array(vec![entry.clone(); 25]))).is_ok());
    let list = "bad_request · up_to: must be a list of 1 to 25 objects with conversation_id and seq";
    assert_eq!(refusal(&ack(Value::Array(vec![entry.clone(); 26]))), list);
    assert_eq!(refusal(&ack(json!([]))), list);
    assert_eq!(refusal(&ack(entry.clone())), list);
    assert_eq!(refusal(&json!({"action": "ack"})), "bad_request · up_to: is missing");
    assert_eq!(refusal(&ack(json!([entry, 7]))), "bad_request · up_to[1]: must be an object");
    assert_eq!(refusal(&ack(json!([{"conversation_id": "dm_x"}]))), "bad_request · up_to[0].seq: is missing");
    assert_eq!(refusal(&ack(json!([{"seq": 1}]))), "bad_request · up_to[0].conversation_id: is missing");
}

#[test]
fn drain_may_carry_the_ack_of_the_page_before() {
    assert_eq!(parse(&json!({"action": "drain"})).unwrap().action, Action::Drain(DrainRequest { ack: vec![] }));
    let carried = json!({"action": "drain", "ack": [{"conversation_id": "dm_x", "seq": 3}]});
    assert!(matches!(parse(&carried).unwrap().action, Action::Drain(DrainRequest { ack }) if ack.len() == 1));
    let bad = json!({"action": "drain", "ack": [{"conversation_id": "dm_x", "seq": -1}]});
    assert_eq!(refusal(&bad), "bad_request · ack[0].seq: must be an integer from 1 to 9007199254740991");
}

#[test]
fn seqs_are_integers_that_every_client_can_count() {
    let read = |seq: Value| json!({"action": "read", "conversation_id": "dm_x", "seq": seq});
    assert!(parse(&read(json!(1))).is_ok());
    assert!(parse(&read(json!(SEQ_MAX))).is_ok());
    for bad in [json!(0), json!(-1), json!(1.5), json!("1"), json!(SEQ_MAX + 1), json!(1e300), json!(true)] {
        assert_eq!(refusal(&read(bad)), "bad_request · seq: must be an integer from 1 to 9007199254740991");
    }
}

#[test]
fn inbox_has_defaults_and_limits() {
    let plain = InboxRequest { limit: 20, cursor: None, since: None, pinned: false };
    assert_eq!(parse(&json!({"action": "inbox"})).unwrap().action, Action::Inbox(plain));
    let since = parse(&json!({"action": "inbox", "limit": 50, "since": "1970-01-01T00:00:01Z"})).unwrap();
    assert!(
        matches!(since.action, Action::Inbox(InboxRequest { limit: 50, since: Some(at), .. }) if at.millis() == 1000)
    );
    for bad in [json!(0), json!(51), json!("20"), json!(-5)] {
        assert_eq!(
            refusal(&json!({"action": "inbox", "limit": bad})),
            "bad_request · limit: must be an integer from 1 to 50"
        );
    }
    assert_eq!(
        refusal(&json!({"action": "inbox", "since": "yesterday"})),
        "bad_request · since: must be a time in RFC 3339, such as 2026-01-31T10:00:00.000Z"
    );
}

#[test]
fn history_looks_one_way() {
    let history = |extra: Value| {
        let mut frame = json!({"action": "history", "conversation_id": "dm_x"});
        frame.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        frame
    };
    let side = |extra: Value| match parse(&history(extra)).unwrap().action {
        Action::History(request) => (request.side, request.limit),
        other => panic!("{other:?}"),
    };
    assert_eq!(side(json!({})), (Side::Newest, 50));
    assert_eq!(side(json!({"before_seq": 9, "limit": 100})), (Side::Before(Seq::new(9).unwrap()), 100));
    assert_eq!(side(json!({"after_seq": 0})), (Side::After(Seq::ZERO), 50));
    assert_eq!(
        refusal(&history(json!({"before_seq": 0}))),
        "bad_request · before_seq: must be an integer from 1 to 9007199254740991"
    );
    assert_eq!(
        refusal(&history(json!({"after_seq": -1}))),
        "bad_request · after_seq: must be an integer from 0 to 9007199254740991"
    );
    assert_eq!(
        refusal(&history(json!({"before_seq": 1, "after_seq": 1}))),
        "bad_request · before_seq: must be left out if after_seq is set"
    );
    assert_eq!(refusal(&history(json!({"limit": 101}))), "bad_request · limit: must be an integer from 1 to 100");
    assert_eq!(refusal(&json!({"action": "history"})), "bad_request · conversation_id: is missing");
}

#[test]
fn a_device_registers_with_a_token_and_leaves_with_null() {
    let device = |extra: Value| {
        let mut frame = json!({"action": "device", "platform": "apns", "token": "9F2c"});
        frame.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        frame
    };
    let read = |frame: &Value| match parse(frame).unwrap().action {
        Action::Device(request) => request,
        other => panic!("{other:?}"),
    };
    let plain = Registration {
        platform: Platform::Apns,
        token: DeviceToken::parse("9f2c").unwrap(),
        preview: false,
        badge: false,
        when: When::Pending,
        quiet: None,
    };
    assert_eq!(read(&device(json!({}))), DeviceRequest::On(plain.clone()), "the digits of APNs have no case");
    let fcm = json!({"platform": "fcm", "token": "9F2c:A", "preview": true, "badge": true, "when": "unread",
        "quiet": {"from_min": 1320, "to_min": 420, "offset_min": -840}});
    let token = DeviceToken::parse("9F2c:A").unwrap();
    let quiet = Some(Quiet { from_min: 1320, to_min: 420, offset_min: -840 });
    let full = Registration { platform: Platform::Fcm, token, preview: true, badge: true, when: When::Unread, quiet };
    assert_eq!(read(&device(fcm)), DeviceRequest::On(full));
    assert_eq!(read(&device(json!({"preview": null, "when": null, "quiet": null}))), DeviceRequest::On(plain));
    assert_eq!(read(&json!({"action": "device", "token": null})), DeviceRequest::Off { token: () });

    let token = "bad_request · token: must be 1 to 4096 printable ASCII characters without spaces";
    for bad in ["", "a b", "ü", "a\n", &"x".repeat(4097)] {
        assert_eq!(refusal(&device(json!({"token": bad}))), token);
    }
    assert!(parse(&device(json!({"token": "x".repeat(4096)}))).is_ok());
    assert_eq!(refusal(&without(device(json!({})), "token")), "bad_request · token: is missing");
    assert_eq!(refusal(&without(device(json!({})), "platform")), "bad_request · platform: is missing");
    assert_eq!(
        refusal(&device(json!({"platform": "baidu"}))),
        "bad_request · platform: must be \"apns\", \"apns_sandbox\" or \"fcm\""
    );
    assert_eq!(refusal(&device(json!({"preview": 1}))), "bad_request · preview: must be true or false");
    assert_eq!(refusal(&device(json!({"when": "now"}))), "bad_request · when: must be \"pending\" or \"unread\"");
    let quiet = |from: Value, to: Value, offset: Value| {
        refusal(&device(json!({"quiet": {"from_min": from, "to_min": to, "offset_min": offset}})))
    };
    assert_eq!(refusal(&device(json!({"quiet": 1}))), "bad_request · quiet: must be an object or null");
    assert_eq!(
        quiet(json!(1440), json!(0), json!(0)),
        "bad_request · quiet.from_min: must be an integer from 0 to 1439"
    );
    assert_eq!(quiet(json!(0), json!(-1), json!(0)), "bad_request · quiet.to_min: must be an integer from 0 to 1439");
    assert_eq!(quiet(json!(0), Value::Null, json!(0)), "bad_request · quiet.to_min: is missing");
    let offset = "bad_request · quiet.offset_min: must be an integer from -840 to 840";
    for bad in [json!(841), json!(-841), json!(1.5), json!("0")] {
        assert_eq!(quiet(json!(0), json!(0), bad), offset);
    }
}

#[test]
fn quiet_hours_are_of_the_day_of_the_device_and_may_go_past_midnight() {
    let at = |text: &str| Timestamp::parse(text).unwrap();
    let night = Quiet { from_min: 22 * 60, to_min: 7 * 60, offset_min: 60 };
    assert!(!night.is_at(at("2026-11-20T20:59:59.999Z")));
    assert!(night.is_at(at("2026-11-20T21:00:00.000Z")));
    assert!(night.is_at(at("2026-11-21T05:59:59.999Z")));
    assert!(!night.is_at(at("2026-11-21T06:00:00.000Z")));
    let noon = Quiet { from_min: 12 * 60, to_min: 13 * 60, offset_min: -840 };
    assert!(!noon.is_at(at("2026-11-20T01:59:59.999Z")));
    assert!(noon.is_at(at("2026-11-20T02:00:00.000Z")));
    assert!(!noon.is_at(at("2026-11-20T03:00:00.000Z")));
    let never = Quiet { from_min: 60, to_min: 60, offset_min: 0 };
    assert!(!never.is_at(at("2026-11-20T01:00:00.000Z")));
}

#[test]
fn a_change_names_its_message_and_says_what_it_is() {
    let change = |action: &str| json!({"action": action, "conversation_id": "dm_x", "seq": 42, "client_msg_id": "c1"});
    let react = |emoji: &str| with(change("react"), "emoji", json!(emoji));
    assert!(parse(&change("delete")).is_ok());
    assert!(parse(&react("👍🏽")).is_ok());
    // Nothing, and what is left out, are two things.
    let Action::React(taken_back) = parse(&with(change("react"), "emoji", Value::Null)).unwrap().action else {
        panic!()
    };
    assert_eq!(taken_back.emoji, None);
    assert_eq!(refusal(&change("react")), "bad_request · emoji: is missing");
    let emoji = "bad_request · emoji: must be 1 to 44 bytes of UTF-8 that show, without spaces and control characters";
    for bad in ["", "a b", "\u{1}", "\u{200b}", "\u{202e}x", &"👍".repeat(13)] {
        assert_eq!(refusal(&react(bad)), emoji);
    }
    for action in ["edit", "delete", "react"] {
        for (field, problem) in
            [("conversation_id", "is missing"), ("seq", "is missing"), ("client_msg_id", "is missing")]
        {
            assert_eq!(refusal(&without(change(action), field)), format!("bad_request · {field}: {problem}"));
        }
    }
    assert_eq!(refusal(&change("edit")), "bad_request · body: is missing");
    assert!(parse(&with(change("edit"), "body", json!(""))).is_ok(), "it may be a caption");
    assert!(refusal(&with(change("edit"), "body", json!("x".repeat(16 * 1024 + 1)))).starts_with("too_large · body: "));
    let before_the_first = with(send(), "reply_to", json!(0));
    assert!(refusal(&before_the_first).starts_with("bad_request · reply_to: must be an integer from 1"));
}

const SHA256: &str = "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=";

fn image() -> Value {
    let media = json!({
        "media_id": "m_x", "mime": "image/jpeg", "bytes": 5, "sha256": SHA256, "width": 4, "height": 3,
        "thumbhash": "1QcSHQRnh493V4dIh4eXh1h4kJUI", "name": "us.jpg"
    });
    with(with(with(send(), "kind", json!("image")), "body", json!("")), "media", media)
}

fn voice() -> Value {
    let media = json!({
        "media_id": "m_x", "mime": "audio/webm", "bytes": 5, "sha256": SHA256, "duration_ms": 1200, "waveform": "AAAA"
    });
    with(with(send(), "kind", json!("voice")), "media", media)
}

fn file() -> Value {
    let media = json!({
        "media_id": "m_x", "mime": "image/svg+xml", "bytes": 5, "sha256": SHA256, "name": "logo.svg"
    });
    with(with(send(), "kind", json!("file")), "media", media)
}

#[test]
fn each_kind_carries_what_it_is() {
    for frame in [image(), voice(), file()] {
        let Action::Send(request) = parse(&frame).unwrap().action else { panic!() };
        // The media serialize to the JSON that was parsed.
        assert_eq!(serde_json::to_value(request.media).unwrap(), frame["media"]);
    }
    let of = |frame: Value, field: &str, value: Value| {
        let media = with(frame["media"].clone(), field, value);
        refusal(&with(frame, "media", media))
    };
    for field in ["media_id", "mime", "bytes", "sha256", "width", "height"] {
        let media = without(image()["media"].clone(), field);
        assert_eq!(refusal(&with(image(), "media", media)), format!("bad_request · media.{field}: is missing"));
    }
    for (frame, field, refused) in [
        (image(), "duration_ms", json!(5)),
        (image(), "waveform", json!("AAAA")),
        (voice(), "name", json!("a")),
        (voice(), "width", json!(5)),
        (voice(), "thumbhash", json!("AAAA")),
        (file(), "waveform", json!("AAAA")),
    ] {
        let kind = frame["kind"].clone();
        assert_eq!(of(frame, field, refused), format!("bad_request · media.{field}: must be left out: kind is {kind}"));
    }
    for (frame, field) in [(voice(), "duration_ms"), (file(), "name")] {
        let media = without(frame["media"].clone(), field);
        assert_eq!(refusal(&with(frame, "media", media)), format!("bad_request · media.{field}: is missing"));
    }
    // A type that a browser can run is not an image type.
    for mime in ["image/svg+xml", "text/html", "application/pdf"] {
        assert!(of(image(), "mime", json!(mime)).starts_with("bad_request · media.mime: must be image/jpeg"), "{mime}");
    }
    // Nor is it a voice note, whatever it is called.
    for mime in ["video/mp4", "audio/x+xml", "audio/html", "audio/vnd.x-xml"] {
        let problem = "bad_request · media.mime: must begin with audio/, without a + or ml in what follows";
        assert_eq!(of(voice(), "mime", json!(mime)), problem, "{mime}");
    }
    for mime in ["audio/mp4", "audio/x-m4a", "audio/vnd.wave", "audio/amr-wb"] {
        let media = with(voice()["media"].clone(), "mime", json!(mime));
        assert!(parse(&with(voice(), "media", media)).is_ok(), "{mime}");
    }
    for name in [" ", "\u{200b}\u{3164}"] {
        assert_eq!(of(file(), "name", json!(name)), "bad_request · media.name: must have a character that shows");
    }
    for name in ["../../etc/passwd", "a\\b", "a\nb", "", "x\u{202e}gpj.exe"] {
        assert!(of(file(), "name", json!(name)).starts_with("bad_request · media.name: must be 1 to 255"), "{name}");
    }
    for (field, value) in [("width", json!(0)), ("height", json!(65_536)), ("bytes", json!(0)), ("bytes", json!("5"))] {
        assert!(of(image(), field, value).starts_with(&format!("bad_request · media.{field}: must be an integer")));
    }
    assert_eq!(of(image(), "bytes", json!(100 * 1024 * 1024 + 1)), "too_large · bytes: must be at most 100 MiB");
    assert_eq!(refusal(&without(image(), "media")), "bad_request · media: is missing");
    assert_eq!(refusal(&with(image(), "media", json!("m_x"))), "bad_request · media: must be an object");
    let text = with(send(), "media", image()["media"].clone());
    assert_eq!(refusal(&text), "bad_request · media: must be left out: a text has none");
    assert_eq!(refusal(&without(image(), "body")), "bad_request · body: is missing");
}

#[test]
fn a_whole_number_is_an_integer_however_it_is_written() {
    let read = |seq: &str| Request::parse(&format!(r#"{{"action":"read","conversation_id":"dm_x","seq":{seq}}}"#));
    let Action::Read(request) = read("42.0").unwrap().action else { panic!() };
    assert_eq!(request.seq, 42);
    assert_eq!(read("4.2e1"), read("42"));
    for bad in ["1.5", "0.0", "-1.0", "1e300", "9007199254740992.0", "\"1\""] {
        assert!(read(bad).is_err(), "{bad}");
    }
    let from_the_first = r#"{"action":"history","conversation_id":"dm_x","after_seq":-0.0}"#;
    assert!(Request::parse(from_the_first).is_ok());
}

#[test]
fn an_encoder_that_escapes_is_told_so_before_the_socket_closes() {
    let body = "ж".repeat(5_000);
    let frame = with(send(), "body", json!(body)).to_string();
    assert!(Request::parse(&frame).is_ok());
    let escaped = frame.replace('ж', "\\u0436");
    assert!(escaped.len() < FRAME_BYTES_MAX);
    let rejected = Request::parse(&escaped).unwrap_err();
    let told = "body: must be at most 24 KiB as the frame has it; write characters as they are, and not as escapes";
    assert_eq!((rejected.refusal.code(), &*rejected.refusal.to_string()), ("too_large", told));
    assert_eq!((rejected.action.as_deref(), rejected.id), (Some("send"), Some(RequestId::parse("r1").unwrap())));
    // Up to there an escape is a way to write a character as any other.
    let short = with(send(), "body", json!("ж".repeat(4_000))).to_string();
    assert_eq!(Request::parse(&short.replace('ж', "\\u0436")), Request::parse(&short));
}

#[test]
fn an_id_has_a_character() {
    assert_eq!(refusal(&with(send(), "id", json!(""))), "bad_request · id: must be 1 to 64 characters");
    assert_eq!(parse(&with(send(), "id", Value::Null)).unwrap().id, None);
}

#[test]
fn an_upload_is_new_a_copy_or_one_that_was_begun() {
    let new =
        json!({"action": "upload", "to": "bob", "kind": "image", "mime": "image/png", "bytes": 5, "sha256": SHA256});
    let copy = json!({"action": "upload", "to": "bob", "copy_of": {"conversation_id": "dm_x", "seq": 7}});
    let again = json!({"action": "upload", "media_id": "m_x"});
    for frame in [&new, &copy, &again] {
        assert!(parse(frame).is_ok(), "{frame}");
    }
    assert!(parse(&with(with(new.clone(), "bytes", json!(20_000_000)), "parts", json!([SHA256, SHA256]))).is_ok());
    for (field, value, problem) in [
        ("kind", json!("text"), "bad_request · kind: must be \"image\", \"file\", \"voice\" or \"sealed\""),
        ("mime", json!("image/svg+xml"), "bad_request · mime: must be image/jpeg"),
        ("mime", json!("image/png; x=y"), "bad_request · mime: must be a media type"),
        ("bytes", json!(0), "bad_request · bytes: must be an integer"),
        ("bytes", json!(104_857_601), "too_large · bytes: must be at most 100 MiB"),
        ("sha256", json!("abc"), "bad_request · sha256: must be a SHA-256 digest in base64"),
        ("parts", json!([]), "bad_request · parts: must be a list of 1 to 13"),
        ("parts", json!(["abc"]), "bad_request · parts: must be a list of 1 to 13"),
        ("parts", json!(vec![SHA256; 14]), "bad_request · parts: must be a list of 1 to 13"),
        ("media_id", json!("a b"), "bad_request · media_id: must be 1 to 64"),
        ("copy_of", json!("dm_x"), "bad_request · copy_of: must be an object"),
        ("copy_of", json!({"conversation_id": "dm_x"}), "bad_request · copy_of.seq: is missing"),
        ("conversation_id", json!("dm_x"), "bad_request · to: must be left out if conversation_id is set"),
    ] {
        let told = refusal(&with(new.clone(), field, value));
        assert!(told.starts_with(problem), "{told}");
    }
    for field in ["to", "kind", "mime", "bytes", "sha256"] {
        assert!(refusal(&without(new.clone(), field)).starts_with(&format!("bad_request · {field}: is missing")));
    }
    assert_eq!(refusal(&json!({"action": "uploaded"})), "bad_request · media_id: is missing");
}

#[test]
fn downloads_are_one_to_ten_each_of_them_once() {
    let ask = |ids: Value| json!({"action": "download", "media_ids": ids});
    let ids = |count: usize| (0..count).map(|n| format!("m_{n}")).collect::<Vec<_>>();
    assert!(parse(&ask(json!(ids(10)))).is_ok());
    for bad in [json!([]), json!(ids(11)), json!(["m_1", "m_1"]), json!("m_1"), json!([7]), json!(["m 1"])] {
        let problem = "bad_request · media_ids: must be a list of 1 to 10 media ids, each of them once";
        assert_eq!(refusal(&ask(bad)), problem);
    }
}

#[test]
fn presence_is_of_one_to_twenty_users() {
    let ask = |ids: Value| json!({"action": "presence", "user_ids": ids});
    assert!(parse(&ask(json!(["bob"]))).is_ok());
    assert!(parse(&ask(json!(vec!["bob"; 20]))).is_ok());
    for bad in [json!([]), json!(vec!["bob"; 21]), json!("bob"), json!([5]), json!(["a b"])] {
        assert_eq!(refusal(&ask(bad)), "bad_request · user_ids: must be a list of 1 to 20 user ids");
    }
    assert_eq!(refusal(&json!({"action": "typing"})), "bad_request · conversation_id: is missing");
    let watch = json!({"action": "presence", "user_ids": ["bob"], "watch": 1});
    assert_eq!(refusal(&watch), "bad_request · watch: must be true or false");
}

/// The names of all fields in a value, at any depth.
fn names_in(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            names.extend(fields.keys().cloned());
            fields.values().for_each(|value| names_in(value, names));
        }
        Value::Array(items) => items.iter().for_each(|value| names_in(value, names)),
        _ => {}
    }
}

/// Any JSON a client could come up with, with the names that requests have.
fn any_json() -> impl Strategy<Value = Value> {
    let mut names = BTreeSet::from(["cursor", "after_seq", "reply_to"].map(str::to_owned));
    for action in ACTIONS {
        names_in(&serde_json::from_str(action.example).unwrap(), &mut names);
    }
    let names: Vec<String> = names.into_iter().collect();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        prop::sample::select(ACTIONS.iter().map(|action| action.name).chain(["text"]).collect::<Vec<_>>())
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        let names = prop::sample::select(names.clone());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..12).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_is_a_request_or_a_refusal(frame in ".{0,200}") {
        // Text that is no JSON object is never a request.
        let parsed = Request::parse(&frame);
        prop_assert!(parsed.is_err() || frame.contains(char::is_alphabetic), "a request");
    }

    #[test]
    fn any_json_is_a_request_or_a_refusal_that_fits_a_frame(frame in any_json()) {
        if let Err(rejected) = parse(&frame) {
            let answer = error_frame(rejected.action.as_deref(), rejected.id.as_ref(), &rejected.refusal);
            prop_assert!(answer.len() < 2_000, "{answer}");
            let answer: Value = serde_json::from_str(&answer).unwrap();
            prop_assert_eq!(&answer["type"], "error");
        }
    }
}

#[test]
fn groups_name_the_field_at_fault() {
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": ["bob"]});
    assert!(parse(&create).is_ok());
    let fifty: Vec<_> = (0..50).map(|number| format!("u{number}")).collect();
    assert!(parse(&with(create.clone(), "members", json!(fifty))).is_ok());
    assert!(parse(&with(create.clone(), "members", json!([]))).is_ok());
    let title = "bad_request · title: must be 1 to 64 characters, and at most 192 bytes of UTF-8";
    assert_eq!(refusal(&with(create.clone(), "title", json!(""))), title);
    let shows = "bad_request · title: must have a character that shows, and no control characters, line breaks and overrides of direction";
    for bad in ["  ", "a\nb", "a\u{202e}b", "\u{200b}"] {
        assert_eq!(refusal(&with(create.clone(), "title", json!(bad))), shows);
    }
    let members = "bad_request · members: must be a list of 0 to 50 user ids, each of them once";
    for wrong in [json!(["bob", "bob"]), json!(["a b"]), json!([1]), json!("bob"), json!(vec!["x"; 51])] {
        assert_eq!(refusal(&with(create.clone(), "members", wrong)), members);
    }
    assert_eq!(
        refusal(&with(create.clone(), "history", json!("none"))),
        "bad_request · history: must be \"joined\" or \"all\""
    );
    assert_eq!(
        refusal(&with(create.clone(), "post", json!("me"))),
        "bad_request · post: must be \"all\" or \"admins\""
    );
    assert_eq!(
        refusal(&with(create.clone(), "kind", json!("direct"))),
        "bad_request · kind: must be \"group\" or \"channel\""
    );
    assert_eq!(refusal(&with(create, "join", json!("all"))), "bad_request · join: must be \"open\" or \"admins\"");
    let role =
        json!({"action": "role", "conversation_id": "gr_x", "client_msg_id": "c", "user_id": "bob", "role": "none"});
    assert_eq!(refusal(&role), "bad_request · role: must be \"owner\", \"admin\" or \"member\"");
    let update = json!({"action": "update", "conversation_id": "gr_x", "client_msg_id": "c"});
    let missing = "bad_request · title: is missing; name this, about, data, history, post, add, join or rings";
    assert_eq!(refusal(&update), missing);
    assert!(parse(&with(update, "add", json!("admins"))).is_ok());
    let add = json!({"action": "add", "conversation_id": "gr_x", "client_msg_id": "c", "members": []});
    assert_eq!(refusal(&add), "bad_request · members: must be a list of 1 to 50 user ids, each of them once");
    assert_eq!(refusal(&without(add, "members")), "bad_request · members: is missing");
    let page = json!({"action": "members", "conversation_id": "gr_x", "limit": 101});
    assert_eq!(refusal(&page), "bad_request · limit: must be an integer from 1 to 100");
}

#[test]
fn a_message_mentions_twenty_members() {
    let send = |mentions: Vec<String>| with(send(), "mentions", json!(mentions));
    let some = |count| (0..count).map(|number| format!("u{number}")).collect();
    assert!(parse(&send(some(20))).is_ok());
    assert!(parse(&send(vec!["*".to_owned()])).is_ok());
    let list = "bad_request · mentions: must be a list of 0 to 20 user ids, each of them once";
    assert_eq!(refusal(&send(some(21))), list);
    let long = |number| format!("{number:02}{}", "\"".repeat(100));
    assert_eq!(
        refusal(&send((0..20).map(long).collect())),
        "too_large · mentions: must be at most 3 KiB once written as JSON"
    );
}

#[test]
fn keys_are_bytes_within_their_limits() {
    let example = |name: &str| {
        let spec = ACTIONS.iter().find(|action| action.name == name).unwrap();
        serde_json::from_str::<Value>(spec.example).unwrap()
    };
    let publish = example("publish_keys");
    for field in ["credential", "key_packages", "last_resort"] {
        assert_eq!(refusal(&without(publish.clone(), field)), format!("bad_request · {field}: is missing"));
    }
    let bytes = "must be bytes in base64 with its padding, and not empty";
    for text in ["", "Zg", "Zh==", "Zg==\n"] {
        let frame = with(publish.clone(), "credential", json!(text));
        assert_eq!(refusal(&frame), format!("bad_request · credential: {bytes}"), "{text:?}");
    }
    let of_length = |length: usize| json!(data_encoding::BASE64.encode(&vec![0; length]));
    assert!(parse(&with(publish.clone(), "credential", of_length(512))).is_ok());
    for length in [513, 600] {
        let frame = with(publish.clone(), "credential", of_length(length));
        assert_eq!(refusal(&frame), "too_large · credential: must be at most 512 bytes");
    }
    let last = |package: Value| with(publish.clone(), "last_resort", package);
    let package = &publish["last_resort"];
    let form = "must be a key package of MLS 1.0 with cipher suite 1";
    let other = with(package.clone(), "data", json!("AAEABQABAAI="));
    assert_eq!(refusal(&last(other)), format!("bad_request · last_resort.data: {form}"));
    assert_eq!(refusal(&last(json!(7))), "bad_request · last_resort: must be an object");
    let timeless = without(package.clone(), "expires_at");
    assert_eq!(refusal(&last(timeless)), "bad_request · last_resort.expires_at: is missing");
    let many = with(publish.clone(), "key_packages", json!(vec![package.clone(); 26]));
    assert_eq!(refusal(&many), "bad_request · key_packages: must be a list of at most 25 key packages");
    let broken = with(publish.clone(), "key_packages", json!([package, {"data": "AA"}]));
    assert_eq!(refusal(&broken), format!("bad_request · key_packages[1].data: {bytes}"));

    let claim = example("claim_keys");
    assert_eq!(refusal(&without(claim.clone(), "claim_id")), "bad_request · claim_id: is missing");
    let users = "bad_request · users: must be a list of 1 to 10 user ids, each of them once";
    for list in [json!([]), json!(["bob", "bob"]), json!((0..11).map(|n| format!("u{n}")).collect::<Vec<_>>())] {
        assert_eq!(refusal(&with(claim.clone(), "users", list)), users);
    }
    let remove = json!({"action": "remove_keys", "device_id": "a b"});
    assert!(refusal(&remove).starts_with("bad_request · device_id: "));
}

#[test]
fn profiles_have_names_and_small_data() {
    let profiles = json!({"action": "profiles", "user_ids": ["alice"]});
    let list = "bad_request · user_ids: must be a list of 1 to 50 user ids, each of them once";
    for users in [json!([]), json!(["a", "a"]), json!((0..51).map(|n| format!("u{n}")).collect::<Vec<_>>())] {
        assert_eq!(refusal(&with(profiles.clone(), "user_ids", users)), list);
    }
    assert_eq!(
        refusal(&without(profiles.clone(), "user_ids")),
        "bad_request · user_ids: is missing; name this or conversation_ids"
    );
    let many: Vec<String> = (0..50).map(|n| format!("gr_{n}")).collect();
    let groups = refusal(&with(profiles, "conversation_ids", json!(many)));
    assert_eq!(groups, "bad_request · conversation_ids: must have at most 50 ids together with user_ids");
    let set = |set: Value| json!({"action": "profile", "set": set});
    for (wrong, problem) in [
        (json!({}), "bad_request · set: must have name or data"),
        (json!({"colour": "red"}), "bad_request · set: must have name or data"),
        (json!([]), "bad_request · set: must be an object"),
        (json!({"name": 7}), "bad_request · set.name: must be a string"),
        (json!({"avatar": "m_x"}), "bad_request · set.avatar: must be left out: this server has no avatars"),
        (json!({"data": 7}), "bad_request · set.data: must be an object"),
        (json!({"data": {"x": "y".repeat(1_017)}}), "too_large · data: must be at most 1024 bytes without spaces"),
    ] {
        assert_eq!(refusal(&set(wrong)), problem);
    }
    assert!(refusal(&set(json!({"name": ""}))).starts_with("bad_request · set.name: must be 1 to 64"));
    for right in [json!({"data": {"x": "y".repeat(1_016)}}), json!({"name": null}), json!({"data": null, "name": "A"})]
    {
        assert!(parse(&set(right)).is_ok());
    }
}
