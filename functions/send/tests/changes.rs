//! `edit`, `delete` and `react`: what each writes, tells and refuses, and what happens where two meet.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use serde_json::{Value, json};
use testkit::{Fault, Workbench, message_to_bob, up_to};

fn edit(id: &Value, seq: u64, key: &str, body: &str) -> Value {
    json!({"action": "edit", "conversation_id": id, "seq": seq, "client_msg_id": key, "body": body})
}

fn delete(id: &Value, seq: u64, key: &str) -> Value {
    json!({"action": "delete", "conversation_id": id, "seq": seq, "client_msg_id": key})
}

fn react(id: &Value, seq: u64, key: &str, emoji: Option<&str>) -> Value {
    json!({"action": "react", "conversation_id": id, "seq": seq, "client_msg_id": key, "emoji": emoji})
}

fn message(bench: &Workbench, seq: u64) -> Value {
    bench.aws.rows("MessagesTable").into_iter().find(|row| row["seq"] == seq).unwrap()
}

/// The entry at this seq, as the user's history has it.
async fn shown(bench: &Workbench, user: &str, id: &Value, seq: u64) -> Value {
    let page = json!({"action": "history", "conversation_id": id, "before_seq": seq + 1, "limit": 1});
    bench.ok(user, page).await["messages"][0].take()
}

async fn line(bench: &Workbench, user: &str) -> Value {
    bench.ok(user, json!({"action": "inbox"})).await["conversations"][0].take()
}

#[tokio::test]
async fn an_edit_replaces_the_text_everywhere_and_moves_nothing() {
    let bench = Workbench::default();
    let id = bench.conversation(2).await;
    bench.connected("bob").await;
    let before = line(&bench, "bob").await;
    bench.operations();
    let answer = bench.ok("alice", edit(&id, 2, "e1", "hello")).await;
    assert_eq!((&answer["seq"], &answer["duplicate"], &answer["conversation_id"]), (&json!(3), &json!(false), &id));
    assert_eq!(answer["version"], 2);
    // Where the conversation ends; only then what the message is; the commit; where the two are connected.
    assert_eq!(bench.operations(), ["GetItem", "GetItem", "TransactWriteItems", "Query", "Query"]);

    let frames = bench.aws.frames("bob=");
    let entry = &frames.last().unwrap()["messages"][0];
    assert_eq!(
        (&entry["kind"], &entry["seq"], &entry["target_seq"], &entry["body"], &entry["version"]),
        (&json!("edit"), &json!(3), &json!(2), &json!("hello"), &json!(2))
    );
    assert_eq!(entry.get("client_msg_id"), None);
    let edited = shown(&bench, "bob", &id, 2).await;
    assert_eq!(
        (&edited["body"], &edited["version"], &edited["edited_at"]),
        (&json!("hello"), &json!(2), &answer["sent_at"])
    );
    assert_eq!(message(&bench, 3)["body"], "", "content is in one place");

    let after = line(&bench, "bob").await;
    assert_eq!((&after["last_seq"], &after["last_message"]["preview"]), (&json!(3), &json!("hello")));
    for same in ["seq", "sent_at", "sender_id", "kind"] {
        assert_eq!(after["last_message"][same], before["last_message"][same], "{same}");
    }
    assert_eq!((&after["unread"], &bench.row("bob")["active_at"]), (&json!(2), &bench.row("alice")["active_at"]));
    let kept = bench.aws.rows("AuditTable");
    assert_eq!((kept.len(), &kept[0]["seq_version"], &kept[0]["body"]), (1, &json!("2 1"), &json!("hi")));
    assert_eq!(kept[0]["expires_at"], bench.clock.now().seconds() + 30 * 24 * 3600);
}

#[tokio::test]
async fn a_silent_entry_is_pending_drained_and_acknowledged_like_any_other() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.ok("bob", up_to("read", &id, 1)).await;
    assert_eq!(bench.ok("bob", json!({"action": "ping"})).await["pending"], false);
    bench.ok("alice", react(&id, 1, "r1", Some("👍"))).await;
    assert_eq!(bench.ok("bob", json!({"action": "ping"})).await["pending"], true);
    let drained = bench.ok("bob", json!({"action": "drain"})).await;
    let entry = &drained["messages"][0];
    assert_eq!(
        (&entry["kind"], &entry["seq"], &entry["emoji"], &entry["body"]),
        (&json!("reaction"), &json!(2), &json!("👍"), &json!(""))
    );
    assert_eq!(drained["more"], false);
    bench.ok("bob", up_to("ack", &id, 2)).await;
    assert_eq!(bench.ok("bob", json!({"action": "ping"})).await["pending"], false);
    // The own marks stood at the end, and still do.
    let row = bench.row("alice");
    assert_eq!((&row["delivered_seq"], &row["read_seq"], row.get("pending_from")), (&json!(2), &json!(2), None));
    // The next message takes the next place, and is the line again.
    assert_eq!(bench.ok("alice", message_to_bob("m2")).await["seq"], 3);
    let line = line(&bench, "bob").await;
    assert_eq!((&line["last_seq"], &line["last_message"]["seq"], &line["unread"]), (&json!(3), &json!(3), &json!(1)));
}

#[tokio::test]
async fn a_read_of_a_part_counts_only_what_counts() {
    let bench = Workbench::default();
    let id = bench.conversation(3).await;
    bench.ok("alice", edit(&id, 1, "e1", "one")).await;
    bench.ok("alice", react(&id, 1, "r1", Some("👍"))).await;
    bench.ok("alice", message_to_bob("m4")).await;
    bench.ok("alice", delete(&id, 3, "d1")).await;
    assert_eq!(bench.row("bob")["unread"], 3, "1, 2 and 6");
    // Counted from below, and from above.
    assert_eq!(bench.ok("bob", up_to("read", &id, 1)).await["unread"], 2);
    assert_eq!(bench.ok("bob", up_to("read", &id, 3)).await["unread"], 1, "3 is deleted");
    assert_eq!(bench.ok("bob", up_to("read", &id, 5)).await["unread"], 1);
    assert_eq!(bench.ok("bob", up_to("read", &id, 6)).await["unread"], 0);
    assert_eq!(bench.ok("bob", up_to("read", &id, 7)).await["unread"], 0);
}

#[tokio::test]
async fn a_delete_leaves_nothing_but_what_the_operator_keeps() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.ok("alice", edit(&id, 1, "e1", "secret")).await;
    bench.ok("bob", react(&id, 1, "r1", Some("👍"))).await;
    bench.operations();
    let answer = bench.ok("alice", delete(&id, 1, "d1")).await;
    // The recipient's row says whether they have read it.
    assert_eq!(bench.operations()[..4], ["GetItem", "GetItem", "GetItem", "TransactWriteItems"]);
    let deleted = shown(&bench, "bob", &id, 1).await;
    assert_eq!(
        (&deleted["body"], &deleted["deleted_by"], &deleted["deleted_at"]),
        (&json!(""), &json!("alice"), &answer["sent_at"])
    );
    for gone in ["reactions", "reactions_seq", "version", "edited_at"] {
        assert_eq!(deleted.get(gone), None, "{gone}");
    }
    let old_edit = shown(&bench, "bob", &id, 2).await;
    assert_eq!(
        (&old_edit["body"], old_edit.get("version")),
        (&json!(""), None),
        "nor does an edit of it say what it was"
    );
    for user in ["alice", "bob"] {
        let line = line(&bench, user).await;
        assert_eq!(
            (&line["last_message"]["preview"], &line["last_message"]["deleted"]),
            (&json!(""), &json!(true)),
            "{user}"
        );
    }
    assert_eq!(bench.row("bob")["unread"], 0);
    let kept: Vec<_> = bench.aws.rows("AuditTable").iter().map(|row| row["body"].clone()).collect();
    assert_eq!(kept.len(), 2);
    assert!(kept.contains(&json!("hi")) && kept.contains(&json!("secret")));
    // Another line takes its place, and is not deleted.
    bench.ok("alice", message_to_bob("m2")).await;
    assert_eq!(line(&bench, "bob").await["last_message"].get("deleted"), None);
}

#[tokio::test]
async fn a_delete_of_what_was_read_lowers_nothing() {
    let bench = Workbench::default();
    let id = bench.conversation(3).await;
    bench.ok("bob", up_to("read", &id, 1)).await;
    bench.ok("alice", delete(&id, 1, "d1")).await;
    assert_eq!(bench.row("bob")["unread"], 2);
    bench.ok("alice", delete(&id, 3, "d2")).await;
    assert_eq!(bench.row("bob")["unread"], 1);
    assert_eq!(line(&bench, "bob").await["last_message"]["deleted"], true);
    // Not the line: that stays as it is.
    bench.ok("alice", delete(&id, 2, "d3")).await;
    assert_eq!(bench.row("bob")["unread"], 0);
    assert_eq!(line(&bench, "bob").await["last_message"]["seq"], 3);
}

#[tokio::test]
async fn each_member_has_one_reaction() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    for (number, (user, emoji)) in
        [("bob", Some("👍")), ("alice", Some("👍")), ("bob", Some("🎉")), ("bob", Some("🎉"))].into_iter().enumerate()
    {
        let answer = bench.ok(user, react(&id, 1, &format!("r{number}"), emoji)).await;
        assert_eq!(answer["seq"], number + 2, "the same again is an entry, too");
    }
    let both = shown(&bench, "bob", &id, 1).await;
    assert_eq!(both["reactions_seq"], 5);
    assert_eq!(
        both["reactions"],
        json!([{"emoji": "🎉", "count": 1, "mine": true}, {"emoji": "👍", "count": 1, "mine": false}])
    );
    for user in ["bob", "alice", "alice"] {
        bench.ok(user, react(&id, 1, &format!("{user}-{}", bench.row("bob")["last_seq"]), None)).await;
    }
    let none = shown(&bench, "bob", &id, 1).await;
    assert_eq!((none.get("reactions"), &none["reactions_seq"]), (None, &json!(8)));
    let mut before = vec![];
    for seq in 2..=8 {
        let entry = shown(&bench, "bob", &id, seq).await;
        before.push((entry["emoji_before"].clone(), entry["emoji"].clone()));
    }
    let (thumb, party, none) = (json!("👍"), json!("🎉"), json!(null));
    let expected = [(&none, &thumb), (&none, &thumb), (&thumb, &party), (&party, &party)];
    let taken_back = [(&party, &none), (&thumb, &none), (&none, &none)];
    let expected = expected.into_iter().chain(taken_back).map(|(before, now)| (before.clone(), now.clone()));
    assert_eq!(before, expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn an_emoji_is_one_reaction_in_whichever_spelling() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.ok("alice", react(&id, 1, "r1", Some("❤"))).await;
    bench.ok("bob", react(&id, 1, "r2", Some("❤\u{fe0f}"))).await;
    let two = json!([{"emoji": "❤\u{fe0f}", "count": 2, "mine": true}]);
    assert_eq!(shown(&bench, "bob", &id, 1).await["reactions"], two);
    assert_eq!(bench.ok("bob", react(&id, 1, "r2", Some("❤"))).await["duplicate"], true);
    // An earlier version stored what it was sent.
    for mut row in bench.aws.raw_rows("MessagesTable") {
        match row["seq"]["N"].as_str() {
            Some("1") => row["reactions"]["M"]["alice"] = json!({"S": "❤"}),
            _ => row["emoji"] = json!({"S": "❤\u{fe0e}"}),
        }
        bench.aws.put_rows("MessagesTable", &[row]);
    }
    assert_eq!(shown(&bench, "bob", &id, 1).await["reactions"], two);
    bench.ok("alice", react(&id, 1, "r3", None)).await;
    let taken_back = shown(&bench, "bob", &id, 4).await;
    assert_eq!(
        (&shown(&bench, "bob", &id, 2).await["emoji"], &taken_back["emoji_before"]),
        (&two[0]["emoji"], &two[0]["emoji"])
    );
    // The longest emoji that Unicode recommends, and an invisible character.
    bench.ok("alice", react(&id, 1, "r4", Some("👩🏻‍❤️‍💋‍👩🏿"))).await;
    assert_eq!(bench.refused("alice", react(&id, 1, "r5", Some("\u{200b}"))).await, "bad_request");
}

#[tokio::test]
async fn a_repeated_change_has_its_first_answer_and_is_told_as_it_is_by_now() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.connected("bob").await;
    let first = bench.ok("alice", edit(&id, 1, "e1", "first")).await;
    bench.ok("alice", edit(&id, 1, "e2", "second")).await;
    let again = bench.ok("alice", edit(&id, 1, "e1", "first")).await;
    assert_eq!(
        (&again["seq"], &again["message_id"], &again["duplicate"]),
        (&first["seq"], &first["message_id"], &json!(true))
    );
    assert_eq!((&first["version"], &again["version"]), (&json!(2), &json!(2)), "the version that it made");
    let told = bench.aws.frames("bob=").last().unwrap()["messages"][0].clone();
    assert_eq!((&told["seq"], &told["body"], &told["version"]), (&json!(2), &json!("second"), &json!(3)));

    bench.ok("alice", delete(&id, 1, "d1")).await;
    // Gone, blocked: what was stored keeps its answer.
    bench.ok("bob", json!({"action": "settings", "user_id": "alice", "set": {"blocked": true}})).await;
    for (seq, repeated) in [(2, edit(&id, 1, "e1", "first")), (4, delete(&id, 1, "d1")), (1, message_to_bob("m1"))] {
        let again = bench.ok("alice", repeated).await;
        assert_eq!((&again["seq"], &again["duplicate"]), (&json!(seq), &json!(true)));
        assert_eq!(again.get("version"), (seq == 2).then_some(&json!(2)), "only an edit makes one");
        let told = bench.aws.frames("bob=").last().unwrap()["messages"][0].clone();
        assert_eq!((&told["seq"], &told["body"]), (&json!(seq), &json!("")), "{told}");
    }
}

#[tokio::test]
async fn an_id_is_of_one_request_whatever_its_action() {
    let bench = Workbench::default();
    let id = bench.conversation(2).await;
    bench.ok("alice", edit(&id, 1, "e1", "x")).await;
    for reused in [
        edit(&id, 1, "e1", "y"),
        edit(&id, 2, "e1", "x"),
        delete(&id, 1, "e1"),
        react(&id, 1, "e1", Some("x")),
        edit(&id, 1, "m1", "hi"),
        delete(&id, 1, "m1"),
        json!({"action": "send", "to": "bob", "client_msg_id": "e1", "kind": "text", "body": "x"}),
        json!({"action": "send", "to": "bob", "client_msg_id": "m1", "kind": "text", "body": "hi", "reply_to": 1}),
    ] {
        assert_eq!(bench.refused("alice", reused.clone()).await, "id_reused", "{reused}");
    }
    assert_eq!(bench.row("bob")["last_seq"], 3);
}

#[tokio::test]
async fn what_may_not_be_changed_is_refused_and_writes_nothing() {
    let bench = Workbench::default();
    let id = bench.conversation(2).await;
    bench.ok("bob", react(&id, 1, "r1", Some("👍"))).await;
    bench.ok("alice", delete(&id, 2, "d1")).await;
    let rows = |bench: &Workbench| ["MessagesTable", "InboxTable", "AuditTable"].map(|table| bench.aws.rows(table));
    let before = rows(&bench);
    for (user, frame, code) in [
        ("mallory", edit(&id, 1, "x", "x"), "not_member"),
        ("mallory", delete(&id, 1, "x"), "not_member"),
        ("mallory", react(&id, 1, "x", Some("👍")), "not_member"),
        ("bob", edit(&id, 1, "x", "x"), "forbidden"),
        ("bob", delete(&id, 1, "x"), "forbidden"),
        ("bob", delete(&id, 2, "x"), "gone"),
        ("alice", edit(&id, 2, "x", "x"), "gone"),
        ("alice", react(&id, 2, "x", Some("👍")), "gone"),
        ("alice", delete(&id, 3, "x"), "gone"),
        ("alice", edit(&id, 99, "x", "x"), "gone"),
        ("alice", edit(&json!("dm_nobody"), 1, "x", "x"), "not_member"),
        ("alice", edit(&id, 1, "x", ""), "bad_request"),
        ("alice", edit(&id, 0, "x", "x"), "bad_request"),
        ("alice", react(&id, 1, "x", Some("two words")), "bad_request"),
        ("alice", json!({"action": "react", "conversation_id": id, "seq": 1, "client_msg_id": "x"}), "bad_request"),
    ] {
        assert_eq!(bench.refused(user, frame.clone()).await, code, "{user}: {frame}");
    }
    assert_eq!(rows(&bench), before);
}

#[tokio::test]
async fn a_block_holds_for_changes_and_what_was_said_can_still_be_taken_back() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.ok("bob", json!({"action": "settings", "user_id": "alice", "set": {"blocked": true}})).await;
    assert_eq!(bench.refused("alice", edit(&id, 1, "e1", "x")).await, "forbidden");
    assert_eq!(bench.refused("alice", react(&id, 1, "r1", Some("👍"))).await, "forbidden");
    assert_eq!(bench.refused("bob", react(&id, 1, "r1", Some("👍"))).await, "forbidden");
    assert_eq!(bench.ok("alice", delete(&id, 1, "d1")).await["seq"], 2);
    assert_eq!(bench.row("bob")["unread"], 0);
}

#[tokio::test]
async fn a_block_that_comes_first_is_seen_by_the_commit() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    let commit = bench.aws.hold_next("TransactWriteItems");
    let editing = bench.run("alice", edit(&id, 1, "e1", "x"));
    let blocking = async {
        commit.reached().await;
        bench.ok("bob", json!({"action": "settings", "user_id": "alice", "set": {"blocked": true}})).await;
        commit.release();
    };
    let (answer, ()) = tokio::join!(editing, blocking);
    assert_eq!(answer["error"]["code"], "forbidden");
    assert_eq!(message(&bench, 1)["body"], "hi");
}

/// Runs Alice's change, with another user's request between her reads and her commit.
async fn beside(bench: &Workbench, change: Value, user: &str, other: Value) -> (Value, Value) {
    let commit = bench.aws.hold_next("TransactWriteItems");
    let slow = bench.run("alice", change);
    let quick = async {
        commit.reached().await;
        let answer = bench.ok(user, other).await;
        commit.release();
        answer
    };
    tokio::join!(slow, quick)
}

#[tokio::test]
async fn of_an_edit_beside_an_edit_both_are_made_one_after_the_other() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    let (slow, quick) = beside(&bench, edit(&id, 1, "e1", "slow"), "alice", edit(&id, 1, "e2", "quick")).await;
    assert_eq!((&quick["seq"], &slow["result"]["seq"]), (&json!(2), &json!(3)));
    let shown = shown(&bench, "bob", &id, 1).await;
    assert_eq!((&shown["body"], &shown["version"]), (&json!("slow"), &json!(3)));
    assert_eq!(bench.row("bob")["last_preview"], "slow");
    let mut kept: Vec<_> = bench.aws.rows("AuditTable").iter().map(|row| row["body"].to_string()).collect();
    kept.sort();
    assert_eq!(kept, ["\"hi\"", "\"quick\""]);
}

#[tokio::test]
async fn of_an_edit_beside_a_delete_nothing_is_left() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    let (slow, _) = beside(&bench, edit(&id, 1, "e1", "back"), "alice", delete(&id, 1, "d1")).await;
    assert_eq!(slow["error"]["code"], "gone");
    assert_eq!(message(&bench, 1)["body"], "");
    assert_eq!(bench.row("bob")["last_preview"], "");
}

#[tokio::test]
async fn of_two_reactions_at_once_both_are_there() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    beside(&bench, react(&id, 1, "r1", Some("👍")), "bob", react(&id, 1, "r1", Some("🎉"))).await;
    assert_eq!(message(&bench, 1)["reactions"], json!({"alice": "👍", "bob": "🎉"}));
}

#[tokio::test]
async fn a_delete_beside_a_read_counts_once() {
    let bench = Workbench::default();
    let id = bench.conversation(3).await;
    // Bob reads a part, and the server counts the rest. The end of the conversation does not move.
    beside(&bench, delete(&id, 2, "d1"), "bob", up_to("read", &id, 2)).await;
    assert_eq!(bench.row("bob")["unread"], 1, "3 is left");
    let read = bench.aws.hold_next("UpdateItem");
    let reading = bench.run("bob", up_to("read", &id, 3));
    let deleting = async {
        read.reached().await;
        bench.ok("alice", delete(&id, 3, "d2")).await;
        read.release();
    };
    let (answer, ()) = tokio::join!(reading, deleting);
    assert_eq!((&answer["result"]["unread"], &bench.row("bob")["unread"]), (&json!(0), &json!(0)));
}

#[tokio::test]
async fn an_edit_of_what_the_other_has_not_received_is_all_that_they_receive() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.ok("alice", edit(&id, 1, "e1", "second")).await;
    let drained = bench.ok("bob", json!({"action": "drain"})).await;
    let said: Vec<_> = drained["messages"].as_array().unwrap().iter().map(|entry| entry["body"].clone()).collect();
    assert_eq!(said, ["second", "second"]);
    bench.ok("alice", delete(&id, 1, "d1")).await;
    let drained = bench.ok("bob", json!({"action": "drain"})).await;
    assert!(drained["messages"].as_array().unwrap().iter().all(|entry| entry["body"] == ""), "{drained}");
}

#[tokio::test]
async fn an_edit_is_listed_with_a_target_that_is_not_on_its_page() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.ok("bob", up_to("ack", &id, 1)).await;
    bench.ok("alice", edit(&id, 1, "e1", "one")).await;
    bench.ok("alice", edit(&id, 1, "e2", "two")).await;
    bench.operations();
    let drained = bench.ok("bob", json!({"action": "drain"})).await;
    // The inbox query, the query of the first entry, whose size limits the next query, and the rest. Each entry is read
    // with its target.
    assert_eq!(bench.operations(), ["Query", "Query", "GetItem", "Query", "GetItem"]);
    let said: Vec<_> =
        drained["messages"].as_array().unwrap().iter().map(|entry| (&entry["body"], &entry["version"])).collect();
    assert_eq!(said, [(&json!("two"), &json!(3)); 2]);
}

#[tokio::test]
async fn an_edit_of_a_message_that_cannot_be_read_waits_with_it() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.ok("bob", up_to("ack", &id, 1)).await;
    bench.ok("alice", edit(&id, 1, "e1", "one")).await;
    let mut rows = bench.aws.raw_rows("MessagesTable");
    rows.retain(|row| row["seq"]["N"] == "1");
    rows[0]["body"] = json!({"M": {}});
    bench.aws.put_rows("MessagesTable", &rows);
    assert_eq!(bench.ok("bob", json!({"action": "drain"})).await, json!({"messages": [], "more": false}));
    assert_eq!(bench.ok("bob", json!({"action": "ping"})).await["pending"], true);
}

#[tokio::test]
async fn a_change_whose_answer_is_lost_is_found_by_the_retry() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    for (seq, change) in [(2, edit(&id, 1, "e1", "x")), (3, react(&id, 1, "r1", Some("👍"))), (4, delete(&id, 1, "d1"))]
    {
        bench.aws.fail_next("TransactWriteItems", Fault::ReplyLost);
        assert_eq!(bench.refused("alice", change.clone()).await, "unavailable");
        let again = bench.ok("alice", change).await;
        assert_eq!((&again["seq"], &again["duplicate"]), (&json!(seq), &json!(true)));
    }
    assert_eq!(bench.row("bob")["unread"], 0);
}

#[tokio::test]
async fn changes_count_against_the_rate_of_messages() {
    let sends = domain::Rate { burst: 2, pause: std::time::Duration::from_mins(1) };
    let bench = Workbench::limited(testkit::Limits { sends, ..testkit::Limits::default() });
    let id = bench.ok("alice", message_to_bob("m1")).await["conversation_id"].clone();
    bench.ok("alice", edit(&id, 1, "e1", "x")).await;
    for more in [edit(&id, 1, "e2", "y"), delete(&id, 1, "d1"), react(&id, 1, "r1", Some("👍")), message_to_bob("m2")]
    {
        assert_eq!(bench.refused("alice", more).await, "rate_limited");
    }
    assert_eq!(bench.ok("alice", edit(&id, 1, "e1", "x")).await["duplicate"], true);
    bench.ok("bob", react(&id, 1, "r1", Some("👍"))).await;
}

#[tokio::test]
async fn a_note_to_oneself_changes_too() {
    let bench = Workbench::default();
    let note = json!({"action": "send", "to": "alice", "client_msg_id": "n1", "kind": "text", "body": "milk"});
    let id = bench.ok("alice", note).await["conversation_id"].clone();
    bench.ok("alice", edit(&id, 1, "e1", "bread")).await;
    bench.ok("alice", react(&id, 1, "r1", Some("✅"))).await;
    bench.ok("alice", delete(&id, 1, "d1")).await;
    let row = bench.row("alice");
    assert_eq!((&row["last_seq"], &row["unread"], row.get("pending_from")), (&json!(4), &json!(0), None));
}

#[tokio::test]
async fn a_message_answers_one_that_there_is() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    let reply = |key: &str, to: u64| json!({"action": "send", "to": "bob", "client_msg_id": key, "kind": "text", "body": "yes", "reply_to": to});
    assert_eq!(bench.ok("alice", reply("a1", 1)).await["seq"], 2);
    assert_eq!(shown(&bench, "bob", &id, 2).await["reply_to"], 1);
    assert_eq!(bench.refused("alice", reply("a2", 3)).await, "bad_request");
    assert_eq!(bench.refused("alice", reply("a2", 0)).await, "bad_request");
    let first =
        json!({"action": "send", "to": "carol", "client_msg_id": "c1", "kind": "text", "body": "x", "reply_to": 1});
    assert_eq!(bench.refused("alice", first).await, "bad_request");
}

#[tokio::test]
async fn what_is_archived_stays_so_for_a_silent_entry() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.ok("bob", json!({"action": "settings", "conversation_id": id, "set": {"archived": true}})).await;
    bench.ok("alice", edit(&id, 1, "e1", "x")).await;
    assert_eq!(bench.row("bob")["archived"], true);
    bench.ok("alice", message_to_bob("m2")).await;
    assert_eq!(bench.row("bob").get("archived"), None);
}
