use super::*;

const NOON: OffsetDateTime = time::macros::datetime!(2026-11-22 12:00 UTC);

fn apple(phone: &mut Phone, payload: &Value, attributes: &[(&str, &str)]) -> Result<(), String> {
    let names: Vec<_> =
        attributes.iter().map(|(name, value)| (format!("AWS.SNS.MOBILE.APNS.{name}"), *value)).collect();
    let attributes = names.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    phone.receive(&Push { platform: Platform::Apns, payload, attributes: &attributes }, NOON)
}

fn android(phone: &mut Phone, data: &Value) -> Result<(), String> {
    let payload = json!({ "fcmV1Message": { "validate_only": false, "message": { "data": data } } });
    phone.receive(&Push { platform: Platform::Gcm, payload: &payload, attributes: &BTreeMap::new() }, NOON)
}

fn ring(conversation: &str, seq: u64, alert: &Value, badge: u64) -> Value {
    json!({
        "aps": { "alert": alert, "badge": badge, "sound": "default", "thread-id": conversation, "mutable-content": 1 },
        "pigeonhole": { "type": "message", "conversation_id": conversation, "seq": seq },
    })
}

fn shown(phone: &mut Phone, platform: &str) -> Value {
    phone.look(&json!({ "user_id": "bob", "device_id": "d", "platform": platform, "badge": true, "registered_at": 0 }))
}

/// `[conversation, seq, title, body]` of each notification.
fn notifications(phone: &mut Phone) -> Vec<Value> {
    let shown = shown(phone, "apns");
    let shown = shown["notifications"].as_array().unwrap().iter();
    shown.map(|one| json!([one["conversation_id"], one["seq"], one["title"], one["body"]])).collect()
}

#[test]
fn an_iphone_shows_texts_by_their_keys_and_the_newest_of_each_conversation() {
    let mut phone = Phone::default();
    let plain = json!({ "loc-key": "PIGEONHOLE_MESSAGE" });
    let preview = json!({ "title-loc-key": "PIGEONHOLE_FROM", "title-loc-args": ["alice"], "body": "hi" });
    for (conversation, seq, alert, badge) in [("a", 1, &plain, 1), ("b", 1, &plain, 2), ("a", 2, &preview, 3)] {
        let collapse = [("PUSH_TYPE", "alert"), ("COLLAPSE_ID", conversation)];
        apple(&mut phone, &ring(conversation, seq, alert, badge), &collapse).unwrap();
    }
    let expected = [json!(["a", 2, "alice", "hi"]), json!(["b", 1, "Pigeonhole", "New message"])];
    assert_eq!(notifications(&mut phone), expected);
    let shown = shown(&mut phone, "apns");
    assert_eq!((&shown["badge"], &shown["notifications"][0]["at"]), (&json!(3), &json!("2026-11-22T12:00:00.000Z")));

    apple(&mut phone, &ring("a", 3, &plain, 4), &[]).unwrap();
    assert_eq!(notifications(&mut phone).len(), 3, "without a collapse id nothing is replaced");
}

#[test]
fn a_clear_takes_away_what_was_read_and_nothing_newer() {
    let clear = |seq| {
        json!({
            "aps": { "content-available": 1 },
            "pigeonhole": { "type": "read", "conversation_id": "a", "seq": seq, "badge": 0 },
        })
    };
    let mut phone = Phone::default();
    apple(&mut phone, &ring("a", 2, &json!("hi"), 1), &[("COLLAPSE_ID", "a")]).unwrap();
    apple(&mut phone, &clear(1), &[("PUSH_TYPE", "background")]).unwrap();
    assert_eq!(notifications(&mut phone).len(), 1);
    apple(&mut phone, &clear(2), &[("PUSH_TYPE", "background")]).unwrap();
    assert_eq!((notifications(&mut phone), &shown(&mut phone, "apns")["badge"]), (vec![], &json!(0)));

    android(&mut phone, &json!({ "type": "message", "conversation_id": "a", "seq": "7" })).unwrap();
    android(&mut phone, &json!({ "type": "read", "conversation_id": "b", "seq": "7" })).unwrap();
    assert_eq!(notifications(&mut phone), [json!(["a", 7, "Pigeonhole", "New message"])]);
    android(&mut phone, &json!({ "type": "read", "conversation_id": "a", "seq": "7" })).unwrap();
    assert_eq!(notifications(&mut phone), Vec::<Value>::new());
}

#[test]
fn an_app_that_is_connected_takes_away_what_was_read() {
    let mut phone = Phone::default();
    for conversation in ["a", "b"] {
        apple(&mut phone, &ring(conversation, 1, &json!("hi"), 2), &[("COLLAPSE_ID", conversation)]).unwrap();
    }
    let row = |conversation: &str, read_seq: u64, unread: u64, muted_until: i64| {
        let marks = json!({ "read_seq": read_seq, "unread": unread, "muted_until": muted_until });
        let mut row = json!({ "conversation_id": conversation });
        row.as_object_mut().unwrap().extend(marks.as_object().unwrap().clone());
        row
    };
    phone.catch_up(&[row("a", 1, 0, 0), row("b", 0, 1, 0), row("c", 0, 5, i64::MAX)], NOON);
    assert_eq!(notifications(&mut phone), [json!(["b", 1, "Pigeonhole", "hi"])]);
    assert_eq!(shown(&mut phone, "apns")["badge"], 1, "without what is muted");
}

#[test]
fn an_android_app_shows_what_the_data_says() {
    let mut phone = Phone::default();
    android(&mut phone, &json!({ "type": "message", "conversation_id": "a", "seq": "1" })).unwrap();
    let preview =
        json!({ "type": "message", "conversation_id": "a", "seq": "2", "sender_id": "alice", "preview": "hi" });
    android(&mut phone, &preview).unwrap();
    android(&mut phone, &json!({ "type": "unheard of" })).unwrap();
    assert_eq!(notifications(&mut phone), [json!(["a", 2, "alice", "hi"])]);
    assert_eq!(shown(&mut phone, "fcm")["badge"], Value::Null);
    let check = json!({ "fcmV1Message": { "validate_only": true, "message": { "data": { "type": "message" } } } });
    let check = Push { platform: Platform::Gcm, payload: &check, attributes: &BTreeMap::new() };
    phone.receive(&check, NOON).unwrap();
    assert_eq!(notifications(&mut phone).len(), 1);
}

#[test]
fn what_a_platform_does_not_take_is_not_shown() {
    let mut phone = Phone::default();
    let loud = json!({ "aps": { "content-available": 1, "badge": 3 } });
    assert!(apple(&mut phone, &loud, &[("PUSH_TYPE", "background")]).is_err());
    let long = "x".repeat(65);
    assert!(apple(&mut phone, &ring("a", 1, &json!("hi"), 1), &[("COLLAPSE_ID", &long)]).is_err());
    assert!(apple(&mut phone, &json!({ "aps": {} }), &[]).is_err());
    assert!(android(&mut phone, &json!({ "type": "message", "conversation_id": "a", "seq": 1 })).is_err());
    assert_eq!(notifications(&mut phone), Vec::<Value>::new());
}

#[test]
fn who_signs_in_on_a_phone_sees_nothing_of_the_user_before() {
    let mut phone = Phone::default();
    apple(&mut phone, &ring("a", 1, &json!("for alice"), 1), &[]).unwrap();
    let row =
        |user: &str, registered_at: i128| json!({ "user_id": user, "device_id": "d", "registered_at": registered_at });
    let noon = NOON.unix_timestamp_nanos() / 1_000_000;
    assert_eq!(phone.look(&row("alice", noon - 1))["notifications"].as_array().unwrap().len(), 1);
    assert_eq!(phone.look(&row("alice", noon + 1))["notifications"].as_array().unwrap().len(), 1, "registered anew");
    assert_eq!(phone.look(&row("bob", noon + 1))["notifications"], json!([]));
}
