//! Groups, from the one who makes one to those who look at it: what is stored, who may what, and what each sees.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is the report")]

use domain::limits::PAGE_BYTES_MAX;
use serde_json::{Value, json};
use testkit::{Fault, Workbench, up_to};
use wire::limits::FRAME_BYTES_MAX;

/// A frame about a group.
fn frame(action: &str, group: &Value, more: &Value) -> Value {
    let mut frame = json!({"action": action, "conversation_id": group});
    frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    frame
}

fn say(group: &Value, id: &str, body: &str) -> Value {
    frame("send", group, &json!({"client_msg_id": id, "kind": "text", "body": body}))
}

fn create(members: &[&str]) -> Value {
    json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": members})
}

/// Alice makes a group with these.
async fn group(bench: &Workbench, members: &[&str]) -> Value {
    bench.ok("alice", create(members)).await["conversation_id"].take()
}

async fn row(bench: &Workbench, user: &str) -> Value {
    bench.ok(user, json!({"action": "inbox"})).await["conversations"][0].take()
}

/// Returns the user's history: the `seq` of each entry, and its text or its system event.
async fn history(bench: &Workbench, user: &str, group: &Value) -> Vec<(u64, String)> {
    let page = bench.ok(user, frame("history", group, &json!({"limit": 100}))).await;
    let said = page["messages"].as_array().unwrap().iter();
    said.map(|message| {
        let what = message["system"]["event"].as_str().or(message["body"].as_str()).unwrap();
        (message["seq"].as_u64().unwrap(), what.to_owned())
    })
    .collect()
}

/// Returns the `seq` of each entry that a connection got.
fn told(bench: &Workbench, connection: &str) -> Vec<u64> {
    let frames = bench.aws.frames(connection);
    let new = frames.iter().filter(|frame| frame["type"] == "messages.new");
    new.flat_map(|frame| frame["messages"].as_array().unwrap().clone()).map(|m| m["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_group_is_made_in_one_transaction_and_again_with_the_same_answer() {
    let bench = Workbench::default();
    for user in ["alice", "bob", "carol"] {
        bench.connected(user).await;
    }
    bench.aws.clear();
    let made = bench.ok("alice", create(&["bob", "carol", "alice"])).await;
    assert_eq!((&made["seq"], &made["duplicate"]), (&json!(1), &json!(false)));
    let written: Vec<_> = bench.aws.calls().iter().map(|call| call.operation().to_owned()).collect();
    assert_eq!(written[..3], ["GetItem", "BatchGetItem", "TransactWriteItems"], "{written:?}");
    let group = &made["conversation_id"];
    assert!(group.as_str().unwrap().starts_with("gr_"));
    for user in ["alice", "bob", "carol"] {
        let row = row(&bench, user).await;
        assert_eq!((&row["kind"], &row["title"], &row["member_count"]), (&json!("group"), &json!("Trip"), &json!(3)));
        assert_eq!(row["role"], if user == "alice" { "owner" } else { "member" });
        assert_eq!((&row["first_seq"], &row["unread"], &row["last_seq"]), (&json!(1), &json!(0), &json!(1)));
        assert_eq!(rules(&row), ("joined", "all", "all"));
        let system = &row["last_message"]["system"];
        assert_eq!(*system, json!({"event": "created", "title": "Trip", "members": ["alice", "bob", "carol"]}));
        assert_eq!(bench.ok(user, json!({"action": "ping"})).await["pending"], user != "alice");
    }
    assert_eq!(told(&bench, "bob="), [1]);
    assert!(told(&bench, "alice=").is_empty(), "her connection has the answer");
    let again = bench.ok("alice", create(&["bob", "carol", "alice"])).await;
    assert_eq!((&again["duplicate"], &again["message_id"]), (&json!(true), &made["message_id"]));
    assert_eq!(bench.refused("alice", create(&["bob"])).await, "id_reused");
    assert_eq!(bench.aws.rows("MessagesTable").len(), 1);
}

#[tokio::test]
async fn a_message_is_stored_once_and_each_row_follows() {
    let bench = Workbench::default();
    for user in ["alice", "bob", "carol"] {
        bench.connected(user).await;
    }
    let group = group(&bench, &["bob", "carol"]).await;
    let sent = bench.ok("bob", say(&group, "m1", "hi")).await;
    assert_eq!(sent["seq"], 2);
    assert_eq!((told(&bench, "alice="), told(&bench, "bob="), told(&bench, "carol=")), (vec![2], vec![1], vec![1, 2]));
    let [alices, bobs, carols] = [row(&bench, "alice").await, row(&bench, "bob").await, row(&bench, "carol").await];
    assert_eq!((&alices["unread"], &bobs["unread"], &carols["unread"]), (&json!(1), &json!(0), &json!(1)));
    assert_eq!(alices["last_message"]["preview"], "hi");
    // Bob has not acknowledged the first: he must still be able to drain.
    assert_eq!((&bobs["delivered_seq"], &alices["delivered_seq"]), (&json!(0), &json!(1)));
    // The stream finds nothing left to do, and no member gets a frame twice.
    assert_eq!(bench.fanout().await, json!([]));
    assert_eq!(told(&bench, "carol="), [1, 2]);
}

#[tokio::test]
async fn nothing_that_a_send_has_just_committed_is_read_again() {
    let bench = Workbench::default();
    for user in ["alice", "bob", "carol"] {
        bench.connected(user).await;
    }
    let group = group(&bench, &["bob", "carol"]).await;
    for frame in [
        say(&group, "m1", "hi"),
        frame("edit", &group, &json!({"seq": 2, "client_msg_id": "e1", "body": "hello"})),
        frame("react", &group, &json!({"seq": 2, "client_msg_id": "r1", "emoji": "👍"})),
        frame("delete", &group, &json!({"seq": 2, "client_msg_id": "d1"})),
    ] {
        bench.aws.clear();
        bench.ok("alice", frame.clone()).await;
        let calls: Vec<_> = bench.aws.calls().iter().map(|call| call.operation().to_owned()).collect();
        let commit = calls.iter().position(|call| call == "TransactWriteItems").unwrap();
        // The head and the member list; then the inbox rows, and a write of each.
        assert_eq!(calls[..2], ["GetItem", "Query"], "{frame}");
        assert_eq!(commit, if frame["action"] == "send" { 2 } else { 3 }, "{calls:?}");
        assert_eq!(calls[commit + 1..commit + 3], ["BatchGetItem", "UpdateItem"], "{calls:?}");
    }
    assert_eq!(told(&bench, "bob="), [1, 2, 3, 4, 5]);
    assert_eq!(bench.fanout().await, json!([]));
    assert_eq!(told(&bench, "bob="), [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn what_the_inline_step_leaves_the_stream_does() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let group = group(&bench, &["bob", "carol"]).await;
    bench.fanout().await;
    // The inbox rows, after the commit.
    bench.aws.fail_next("BatchGetItem", Fault::Status(500));
    bench.ok("alice", say(&group, "m1", "hi")).await;
    assert_eq!(told(&bench, "bob="), [1]);
    let batch = json!({"Records": bench.aws.heads()});
    assert_eq!(bench.started().fanout(batch.clone()).await, json!([]));
    assert_eq!(told(&bench, "bob="), [1, 2]);
    bench.ok("bob", up_to("ack", &group, 2)).await;
    assert_eq!(bench.started().fanout(batch).await, json!([]));
    assert_eq!(told(&bench, "bob="), [1, 2]);
    let drained = bench.ok("carol", json!({"action": "drain"})).await;
    assert_eq!(drained["messages"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_member_who_fails_far_behind_holds_up_nobody_and_gets_a_second_look() {
    let bench = Workbench::default();
    let group = group(&bench, &["bob", "carol"]).await;
    bench.fanout().await;
    // More entries than one step applies.
    for number in 0..120 {
        bench.aws.fail_next("BatchGetItem", Fault::Status(500));
        bench.ok("alice", say(&group, &format!("m{number}"), "hi")).await;
    }
    let at_the_end = || bench.aws.rows("InboxTable").iter().filter(|row| row["last_seq"] == 121).count();
    bench.aws.fail_next("UpdateItem", Fault::Status(500));
    assert_eq!(bench.fanout().await, json!([]));
    assert_eq!(at_the_end(), 2);
    assert_eq!(bench.fanout().await, json!([]));
    assert_eq!(at_the_end(), 3);
}

#[tokio::test]
async fn who_is_added_again_does_not_wait_for_the_stream() {
    // The group is so large that only the stream notifies its members.
    let others: Vec<String> = (0..40).map(|number| format!("u{number}")).chain(["bob".to_owned()]).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    for look in ["inbox", "ack", "read"] {
        let bench = Workbench::default();
        let group = group(&bench, &others).await;
        bench.ok("alice", frame("remove", &group, &json!({"client_msg_id": "x1", "user_id": "bob"}))).await;
        assert_eq!(bench.fanout().await, json!([]));
        assert_eq!(row(&bench, "bob").await["role"], "none");
        bench.ok("alice", frame("add", &group, &json!({"client_msg_id": "a1", "members": ["bob"]}))).await;
        bench.ok("alice", say(&group, "m1", "hi")).await;
        if look != "inbox" {
            bench.ok("bob", up_to(look, &group, 4)).await;
        }
        let row = row(&bench, "bob").await;
        let (delivered, unread) = if look == "inbox" { (2, 1) } else { (4, u8::from(look == "ack")) };
        assert_eq!(
            (&row["role"], &row["last_seq"], &row["first_seq"]),
            (&json!("member"), &json!(4), &json!(3)),
            "{look}"
        );
        assert_eq!((&row["delivered_seq"], &row["unread"]), (&json!(delivered), &json!(unread)), "{look}");
    }
}

#[tokio::test]
async fn a_delete_takes_nothing_out_of_the_archive() {
    let bench = Workbench::default();
    let group = group(&bench, &["bob"]).await;
    bench.ok("alice", say(&group, "m1", "hi")).await;
    bench.ok("bob", frame("settings", &group, &json!({"set": {"archived": true}}))).await;
    bench.ok("alice", frame("delete", &group, &json!({"seq": 2, "client_msg_id": "d1"}))).await;
    assert_eq!(bench.row("bob")["archived"], true);
    bench.ok("alice", say(&group, "m2", "hi")).await;
    assert_eq!(bench.row("bob").get("archived"), None);
}

#[tokio::test]
async fn whoever_looks_does_not_wait_for_the_stream() {
    for look in ["inbox", "ack", "read", "history"] {
        let bench = Workbench::default();
        let group = group(&bench, &["bob"]).await;
        bench.aws.fail_next("BatchGetItem", Fault::Status(500));
        bench.ok("alice", say(&group, "m1", "hi")).await;
        bench.connected("bob").await;
        match look {
            "inbox" => assert_eq!(row(&bench, "bob").await["last_message"]["preview"], "hi"),
            "history" => assert_eq!(history(&bench, "bob", &group).await.len(), 2),
            _ => {
                let result = bench.ok("bob", up_to(look, &group, 2)).await;
                assert!(look == "ack" || result == json!({"unread": 0, "mentions": 0}), "{result}");
                assert_eq!(row(&bench, "bob").await["delivered_seq"], 2);
            }
        }
        assert_eq!(told(&bench, "bob=").is_empty(), look == "history", "who moves a row tells its user: {look}");
    }
}

#[tokio::test]
async fn who_joins_sees_what_comes_and_who_leaves_what_came() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let group = group(&bench, &["bob"]).await;
    bench.ok("alice", say(&group, "m1", "before")).await;
    bench.ok("bob", frame("react", &group, &json!({"seq": 2, "client_msg_id": "r1", "emoji": "👍"}))).await;
    let added =
        bench.ok("bob", frame("add", &group, &json!({"client_msg_id": "a1", "members": ["carol", "alice"]}))).await;
    assert_eq!((&added["seq"], &added["added"], &added["already"]), (&json!(4), &json!(["carol"]), &json!(["alice"])));
    let again =
        bench.ok("bob", frame("add", &group, &json!({"client_msg_id": "a1", "members": ["carol", "alice"]}))).await;
    assert_eq!((&again["duplicate"], &again["added"]), (&json!(true), &json!(["carol"])));
    let nobody = bench.ok("bob", frame("add", &group, &json!({"client_msg_id": "a2", "members": ["carol"]}))).await;
    assert_eq!(nobody, json!({"added": [], "already": ["carol"]}));
    let carols = row(&bench, "carol").await;
    assert_eq!((&carols["first_seq"], &carols["unread"], &carols["read_seq"]), (&json!(4), &json!(0), &json!(3)));
    // About something that she does not see.
    bench.ok("alice", frame("edit", &group, &json!({"seq": 2, "client_msg_id": "e1", "body": "secret"}))).await;
    let reply = json!({"client_msg_id": "m2", "kind": "text", "body": "after", "reply_to": 2});
    bench.ok("alice", frame("send", &group, &reply)).await;
    let seen = bench.ok("carol", frame("history", &group, &json!({}))).await;
    assert_eq!(seen["messages"][2]["reply_to"], 2, "below her first entry");
    assert_eq!((&seen["first_seq"], &seen["more"], &seen["members"]), (&json!(4), &json!(false), &json!([])));
    let edit = &seen["messages"][1];
    assert_eq!(
        (&edit["kind"], &edit["target_seq"], &edit["body"], edit.get("version")),
        (&json!("edit"), &json!(2), &json!(""), None)
    );
    let drained = bench.ok("carol", json!({"action": "drain"})).await;
    assert_eq!(drained["messages"].as_array().unwrap().len(), 3);
    assert!(!drained.to_string().contains("secret"));
    for change in ["react", "edit"] {
        let more = json!({"seq": 2, "client_msg_id": "x", "emoji": "👍", "body": "x"});
        assert_eq!(bench.refused("carol", frame(change, &group, &more)).await, "gone");
    }
    bench.ok("bob", frame("react", &group, &json!({"seq": 2, "client_msg_id": "r2", "emoji": "🎉"}))).await;
    let reaction = bench.ok("carol", json!({"action": "drain"})).await["messages"][3].clone();
    assert_eq!((&reaction["emoji"], &reaction["emoji_before"]), (&json!("🎉"), &json!("👍")));
    let message = bench.ok("alice", frame("history", &group, &json!({"after_seq": 1}))).await["messages"][0].clone();
    assert_eq!(message["reactions_seq"], 7);

    bench.ok("alice", frame("remove", &group, &json!({"client_msg_id": "x1", "user_id": "carol"}))).await;
    bench
        .ok("alice", frame("update", &group, &json!({"client_msg_id": "u1", "title": "Without her", "post": "admins"})))
        .await;
    bench.ok("alice", say(&group, "m3", "later")).await;
    assert_eq!(bench.fanout().await, json!([]));
    assert_eq!(rules(&row(&bench, "bob").await), ("joined", "admins", "all"));
    assert_eq!(rules(&row(&bench, "carol").await), ("", "", ""), "what was decided since is not hers to know");
    let carols = row(&bench, "carol").await;
    assert_eq!((&carols["role"], &carols["title"], &carols["last_seq"]), (&json!("none"), &json!("Trip"), &json!(8)));
    assert_eq!(carols["last_message"]["system"], json!({"event": "members.removed", "members": ["carol"]}));
    assert_eq!(history(&bench, "carol", &group).await.last().unwrap(), &(8, "members.removed".to_owned()));
    let all = bench.ok("carol", frame("history", &group, &json!({"after_seq": 5}))).await;
    assert_eq!((&all["last_seq"], &all["more"]), (&json!(8), &json!(false)));
    assert_eq!(bench.ok("carol", up_to("read", &group, 99)).await, json!({"unread": 0, "mentions": 0}));
    bench.ok("carol", frame("settings", &group, &json!({"set": {"archived": true}}))).await;
    for refused in [
        say(&group, "x2", "let me in"),
        frame("leave", &group, &json!({"client_msg_id": "x3"})),
        frame("members", &group, &json!({})),
        frame("receipts", &group, &json!({})),
    ] {
        assert_eq!(bench.refused("carol", refused).await, "not_member");
    }
    assert!(bench.aws.rows("MembersTable").iter().all(|row| row["user_id"] != "carol"));
    // After the second addition, she sees neither the messages since her removal nor the earlier ones.
    bench.ok("bob", frame("add", &group, &json!({"client_msg_id": "a3", "members": ["carol"]}))).await;
    let carols = row(&bench, "carol").await;
    assert_eq!(
        (&carols["first_seq"], &carols["role"], &carols["title"]),
        (&json!(11), &json!("member"), &json!("Without her"))
    );
    assert_eq!(history(&bench, "carol", &group).await, [(11, "members.added".to_owned())]);
}

#[tokio::test]
async fn a_former_member_reads_nothing_that_came_of_a_message_after_the_leave() {
    let bench = Workbench::ringing();
    bench.register("carol", "aa01", json!({"preview": true, "when": "unread"})).await;
    bench.connected("carol").await;
    let group = group(&bench, &["bob", "carol"]).await;
    bench.ok("alice", say(&group, "m1", "plain")).await;
    bench.ok("alice", say(&group, "m2", "first")).await;
    bench.ok("alice", frame("edit", &group, &json!({"seq": 3, "client_msg_id": "e1", "body": "second"}))).await;
    bench.ok("bob", frame("react", &group, &json!({"seq": 2, "client_msg_id": "r1", "emoji": "👍"}))).await;
    bench.ok("alice", say(&group, "m3", "third")).await;
    let before = bench.ok("carol", frame("history", &group, &json!({}))).await["messages"].clone();
    bench.ok("alice", frame("remove", &group, &json!({"client_msg_id": "x1", "user_id": "carol"}))).await;
    for (seq, text) in [(2, "SECRET"), (3, "SECRET")] {
        let edit = json!({"seq": seq, "client_msg_id": format!("e{seq}"), "body": text});
        bench.ok("alice", frame("edit", &group, &edit)).await;
    }
    bench.ok("alice", frame("delete", &group, &json!({"seq": 6, "client_msg_id": "d1"}))).await;
    bench.ok("bob", frame("react", &group, &json!({"seq": 2, "client_msg_id": "r2", "emoji": "🎉"}))).await;
    bench.ok("alice", frame("update", &group, &json!({"client_msg_id": "u1", "title": "SECRET"}))).await;
    bench.fanout().await;
    bench.notify().await;
    let after = bench.ok("carol", frame("history", &group, &json!({}))).await["messages"].clone();
    let drained = bench.ok("carol", json!({"action": "drain"})).await["messages"].clone();
    assert_eq!(after, drained);
    let said = |message: &Value| {
        ["body", "version", "edited_at", "reactions_seq", "reactions"].map(|name| message[name].clone())
    };
    let nothing = [json!(""), Value::Null, Value::Null, Value::Null, Value::Null];
    for place in [1, 2, 3] {
        assert_eq!(said(&after[place]), nothing, "{}", after[place]);
        assert_eq!(after[place]["seq"], before[place]["seq"]);
    }
    // A delete takes effect for all members. No field names the user who deleted.
    assert_eq!((&after[5]["body"], after[5].get("deleted_by")), (&json!(""), None));
    assert!(after[5]["deleted_at"].is_string(), "{after}");
    assert_eq!(after[6]["system"]["event"], "members.removed");
    let rows = bench.ok("carol", json!({"action": "inbox"})).await;
    for all in [rows.to_string(), format!("{:?}", bench.aws.frames("carol=")), after.to_string()] {
        assert!(!all.contains("SECRET") && !all.contains("🎉"), "{all}");
    }
    let pushed = bench.aws.with_sns(|sns| format!("{:?}", sns.pushes()));
    assert!(!pushed.contains("SECRET"), "{pushed}");
    for action in ["reactions", "members", "receipts"] {
        assert_eq!(bench.refused("carol", frame(action, &group, &json!({"seq": 2}))).await, "not_member");
    }
}

#[tokio::test]
async fn an_edit_during_a_look_is_seen_by_a_member_and_not_by_who_is_removed_meanwhile() {
    for (is_removed, action) in [(false, "history"), (true, "history"), (false, "drain"), (true, "drain")] {
        let bench = Workbench::default();
        let group = group(&bench, &["bob", "carol"]).await;
        bench.ok("alice", say(&group, "m1", "first")).await;
        let hold = bench.aws.hold_next("Query");
        // A drain asks for rows first, and a history for the entries.
        let hold = if action == "drain" {
            hold.release();
            bench.aws.hold_next("Query")
        } else {
            hold
        };
        let meanwhile = async {
            hold.reached().await;
            if is_removed {
                bench.ok("alice", frame("remove", &group, &json!({"client_msg_id": "x1", "user_id": "carol"}))).await;
            }
            bench.ok("alice", frame("edit", &group, &json!({"seq": 2, "client_msg_id": "e1", "body": "second"}))).await;
            hold.release();
        };
        let (page, ()) = tokio::join!(bench.ok("carol", frame(action, &group, &json!({}))), meanwhile);
        let message = &page["messages"][1];
        assert_eq!(message["seq"], 2, "{page}");
        assert_eq!(message["body"], if is_removed { "" } else { "second" }, "{action}: {page}");
    }
}

#[tokio::test]
async fn who_left_a_group_by_themselves_is_added_once_by_an_admin_and_then_comes_back_by_themselves() {
    // Before who left is out of the roster, and after that.
    for settled in [false, true] {
        let bench = Workbench::default();
        let group = group(&bench, &["bob", "carol"]).await;
        let add = |id: &str, members: &[&str]| frame("add", &group, &json!({"client_msg_id": id, "members": members}));
        let leave = |id: &str| frame("leave", &group, &json!({"client_msg_id": id}));
        let left = json!([{"user_id": "carol", "reason": "left"}]);
        let fan_out = async || {
            if settled {
                bench.fanout().await;
                assert!(bench.aws.rows("MembersTable").iter().all(|row| row.get("left_seq").is_none()));
            }
        };
        bench.ok("carol", leave("l1")).await;
        fan_out().await;
        // A member can't add her, and the others of the same request are added.
        for duplicate in [false, true] {
            let added = bench.ok("bob", add("a1", &["carol", "dave", "alice"])).await;
            let of = |name: &str| added[name].clone();
            assert_eq!((of("added"), of("already")), (json!(["dave"]), json!(["alice"])), "{added}");
            assert_eq!((of("not_added"), of("duplicate")), (left.clone(), json!(duplicate)));
        }
        let nobody = json!({"added": [], "already": [], "not_added": left});
        assert_eq!(bench.ok("bob", add("a2", &["carol"])).await, nobody);
        // An admin can, once.
        let added = bench.ok("alice", add("a3", &["carol"])).await;
        assert_eq!((&added["added"], added.get("not_added")), (&json!(["carol"]), None));
        bench.ok("carol", leave("l2")).await;
        fan_out().await;
        assert_eq!(bench.ok("alice", add("a4", &["carol"])).await, nobody);
        // She comes back by herself, and again changes nothing.
        let join = || frame("join", &group, &json!({}));
        let back = bench.ok("carol", join()).await["last_seq"].as_u64().unwrap();
        assert_eq!(bench.ok("carol", join()).await["last_seq"], back);
        let carols = row(&bench, "carol").await;
        assert_eq!(
            (&carols["role"], &carols["first_seq"], &carols["last_seq"]),
            (&json!("member"), &json!(back), &json!(back))
        );
        assert_eq!(bench.ok("carol", json!({"action": "ping"})).await["pending"], true);
        let page = bench.ok("carol", frame("history", &group, &json!({}))).await["messages"].clone();
        let entry = page.as_array().unwrap().last().unwrap();
        assert_eq!(entry["system"], json!({"event": "members.added", "members": ["carol"]}));
        assert_eq!((&entry["sender_id"], &entry["seq"]), (&json!("carol"), &json!(back)));
        // From there on it begins anew.
        bench.ok("carol", leave("l3")).await;
        fan_out().await;
        assert_eq!(bench.ok("bob", add("a5", &["carol"])).await, nobody);
        assert_eq!(bench.ok("alice", add("a6", &["carol"])).await["added"], json!(["carol"]));
        // A removed user can't come back.
        bench.ok("alice", frame("remove", &group, &json!({"client_msg_id": "x1", "user_id": "carol"}))).await;
        fan_out().await;
        for user in ["carol", "mallory"] {
            assert_eq!(bench.refused(user, join()).await, "not_member");
        }
        assert_eq!(bench.ok("alice", add("a7", &["carol"])).await["added"], json!(["carol"]));
    }
}

#[tokio::test]
async fn a_former_member_deletes_what_they_wrote_and_nothing_else() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let group = group(&bench, &["bob", "carol"]).await;
    bench.ok("carol", say(&group, "m1", "mine")).await;
    bench.ok("alice", say(&group, "m2", "hers")).await;
    bench.ok("alice", frame("remove", &group, &json!({"client_msg_id": "x1", "user_id": "carol"}))).await;
    bench.ok("alice", say(&group, "m3", "later")).await;
    let delete = |seq: u64, id: &str| frame("delete", &group, &json!({"seq": seq, "client_msg_id": id}));
    for (user, seq) in [("carol", 3), ("carol", 5), ("carol", 1), ("carol", 99), ("mallory", 2)] {
        assert_eq!(bench.refused(user, delete(seq, "d0")).await, "not_member", "{user} {seq}");
    }
    let edit = frame("edit", &group, &json!({"seq": 2, "client_msg_id": "e1", "body": "x"}));
    assert_eq!(bench.refused("carol", edit).await, "not_member");
    assert_eq!(row(&bench, "bob").await["unread"], 3);
    // She is told the place of her message, and not where the log ends by now.
    for duplicate in [false, true] {
        let deleted = bench.ok("carol", delete(2, "d1")).await;
        assert_eq!((&deleted["seq"], &deleted["duplicate"]), (&json!(2), &json!(duplicate)));
    }
    assert_eq!(bench.refused("carol", delete(2, "d2")).await, "gone");
    assert_eq!(told(&bench, "bob=").last(), Some(&6));
    assert_eq!(row(&bench, "bob").await["unread"], 2);
    let all = bench.ok("bob", frame("history", &group, &json!({}))).await["messages"].clone();
    assert_eq!((&all[1]["body"], &all[1]["deleted_by"]), (&json!(""), &json!("carol")));
    assert_eq!((&all[5]["kind"], &all[5]["sender_id"]), (&json!("delete"), &json!("carol")));
    // She sees that it is gone, and no more of the log than before.
    let hers = bench.ok("carol", frame("history", &group, &json!({}))).await;
    assert_eq!((&hers["last_seq"], &hers["messages"][1]["body"]), (&json!(4), &json!("")));
    // Added again, she can take back what is below her join.
    bench.ok("alice", say(&group, "m4", "x")).await;
    bench.ok("alice", frame("add", &group, &json!({"client_msg_id": "a1", "members": ["carol"]}))).await;
    assert_eq!(bench.refused("carol", delete(3, "d3")).await, "gone");
}

#[tokio::test]
async fn what_waited_for_a_member_before_a_removal_reaches_them_once_they_are_back() {
    for way in ["drain", "history"] {
        let bench = Workbench::default();
        let group = group(&bench, &["bob", "carol"]).await;
        let add = |id: &str| frame("add", &group, &json!({"client_msg_id": id, "members": ["carol"]}));
        let remove = |id: &str| frame("remove", &group, &json!({"client_msg_id": id, "user_id": "carol"}));
        bench.ok("carol", up_to("ack", &group, 1)).await;
        // Twice, while she is away.
        bench.ok("alice", say(&group, "m2", "two")).await;
        bench.ok("alice", remove("x1")).await;
        bench.ok("alice", say(&group, "m4", "not hers")).await;
        bench.ok("alice", frame("edit", &group, &json!({"seq": 2, "client_msg_id": "e1", "body": "not hers"}))).await;
        bench.ok("alice", add("n1")).await;
        bench.ok("alice", say(&group, "m7", "seven")).await;
        bench.ok("alice", remove("x2")).await;
        bench.ok("alice", say(&group, "m9", "not hers")).await;
        bench.ok("alice", add("n2")).await;
        bench.ok("alice", say(&group, "m11", "eleven")).await;
        assert_eq!(bench.ok("carol", json!({"action": "ping"})).await["pending"], true);
        let carols = row(&bench, "carol").await;
        assert_eq!((&carols["first_seq"], &carols["unread"], &carols["read_seq"]), (&json!(10), &json!(1), &json!(9)));
        // The receipts do not show that she has it.
        let receipts = bench.ok("alice", frame("receipts", &group, &json!({}))).await["members"].clone();
        assert_eq!(receipts[1], json!({"user_id": "carol", "delivered_seq": 1, "read_seq": 1}));
        let (mut seen, mut after) = (vec![], 1);
        for _ in 0..9 {
            let page = match way {
                "drain" => bench.ok("carol", json!({"action": "drain"})).await,
                _ => bench.ok("carol", frame("history", &group, &json!({"after_seq": after}))).await,
            };
            let messages = page["messages"].as_array().unwrap().clone();
            let Some(last) = messages.last().map(|last| last["seq"].as_u64().unwrap()) else { break };
            let seqs: Vec<u64> = messages.iter().map(|message| message["seq"].as_u64().unwrap()).collect();
            assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "no page has a hole: {page}");
            assert_eq!(page["more"], last < 11, "{page}");
            if way == "history" {
                assert!(page["first_seq"].as_u64().unwrap() <= seqs[0], "{page}");
            }
            seen.extend(seqs);
            assert!(!page.to_string().contains("not hers"), "{page}");
            after = last;
            bench.ok("carol", up_to("ack", &group, last)).await;
        }
        assert_eq!(seen, [2, 3, 6, 7, 8, 10, 11], "{way}");
        assert_eq!(bench.ok("carol", json!({"action": "ping"})).await["pending"], false);
        let receipts = bench.ok("alice", frame("receipts", &group, &json!({}))).await["members"].clone();
        assert_eq!(receipts[1], json!({"user_id": "carol", "delivered_seq": 11, "read_seq": 9}));
        bench.ok("alice", say(&group, "m12", "twelve")).await;
        assert_eq!(bench.row("carol").get("earlier"), None);
    }
}

fn rules(row: &Value) -> (&str, &str, &str) {
    let rule = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
    (rule("history"), rule("post"), rule("add"))
}

#[tokio::test]
async fn members_their_marks_and_reactions_come_in_pages() {
    let bench = Workbench::default();
    let group = group(&bench, &["bob", "carol", "dave"]).await;
    bench.ok("alice", say(&group, "m1", "hi")).await;
    for user in ["dave", "bob", "carol"] {
        let react = json!({"seq": 2, "client_msg_id": "r1", "emoji": "👍"});
        bench.ok(user, frame("react", &group, &react)).await;
    }
    let others = ["bob", "carol", "dave"];
    for (action, list, of) in [
        ("members", "members", json!({})),
        ("receipts", "members", json!({})),
        ("reactions", "reactions", json!({"seq": 2})),
    ] {
        let page = async |limit: u64, cursor: &Value| {
            let mut request = frame(action, &group, &of);
            request["limit"] = json!(limit);
            request["cursor"] = cursor.clone();
            let page = bench.ok("alice", request).await;
            let users: Vec<Value> = page[list].as_array().unwrap().iter().map(|one| one["user_id"].clone()).collect();
            (users, page["next_cursor"].clone())
        };
        let all: Vec<&str> = if action == "members" { vec!["alice", "bob", "carol", "dave"] } else { others.to_vec() };
        let (mut users, cursor) = page(2, &Value::Null).await;
        assert_eq!(users, all[..2], "{action}");
        users.extend(page(2, &cursor).await.0);
        assert_eq!(users, all, "{action}");
        // Where no more is known to come there is no cursor.
        assert_eq!(page(all.len() as u64 + 1, &Value::Null).await, (users, Value::Null), "{action}");
    }
    let whole = async |action, of| bench.ok("alice", frame(action, &group, &of)).await["next_cursor"].clone();
    assert_eq!(whole("receipts", json!({"limit": 3})).await, Value::Null);
    assert_eq!(whole("reactions", json!({"seq": 2, "limit": 3})).await, Value::Null);
}

#[tokio::test]
async fn of_two_who_write_at_once_one_comes_second() {
    let bench = Workbench::default();
    let group = group(&bench, &["bob"]).await;
    let hold = bench.aws.hold_next("TransactWriteItems");
    let second = async {
        hold.reached().await;
        let sent = bench.ok("bob", say(&group, "b1", "first")).await;
        hold.release();
        sent
    };
    let (alices, bobs) = tokio::join!(bench.ok("alice", say(&group, "a1", "second")), second);
    assert_eq!((&alices["seq"], &bobs["seq"]), (&json!(3), &json!(2)));
    assert_eq!(bench.aws.rows("MessagesTable").len(), 3);
}

#[tokio::test]
async fn who_has_left_is_told_of_no_mark_though_the_roster_still_has_them() {
    let bench = Workbench::default();
    let group = group(&bench, &["bob", "carol"]).await;
    bench.connected("alice").await;
    bench.connected("carol").await;
    bench.ok("alice", say(&group, "a1", "hi")).await;
    bench.ok("carol", say(&group, "c1", "bye")).await;
    bench.ok("carol", frame("leave", &group, &json!({"client_msg_id": "l1"}))).await;
    bench.ok("bob", up_to("read", &group, 4)).await;
    let receipts =
        |connection: &str| bench.aws.frames(connection).iter().filter(|frame| frame["type"] == "receipt.read").count();
    assert_eq!((receipts("alice="), receipts("carol=")), (1, 0));
}

#[tokio::test]
async fn a_first_view_that_comes_late_does_not_begin_it_anew() {
    let bench = Workbench::default();
    let hold = bench.aws.hold_next("UpdateItem");
    let meanwhile = async {
        hold.reached().await;
        bench.fanout().await;
        let group = row(&bench, "bob").await["conversation_id"].take();
        bench.ok("bob", say(&group, "b1", "hi")).await;
        for user in ["alice", "bob"] {
            bench.ok(user, up_to("read", &group, 2)).await;
        }
        hold.release();
    };
    tokio::join!(group(&bench, &["bob"]), meanwhile);
    for user in ["alice", "bob"] {
        let row = row(&bench, user).await;
        assert_eq!([&row["last_seq"], &row["read_seq"], &row["unread"]], [&json!(2), &json!(2), &json!(0)], "{user}");
    }
}

#[tokio::test]
async fn who_is_removed_between_the_head_and_the_roster_writes_nothing() {
    let bench = Workbench::default();
    let group = group(&bench, &["bob", "carol"]).await;
    let hold = bench.aws.hold_next("Query");
    let removal = async {
        hold.reached().await;
        bench.ok("alice", frame("remove", &group, &json!({"client_msg_id": "x1", "user_id": "carol"}))).await;
        hold.release();
    };
    let (refused, ()) = tokio::join!(bench.refused("carol", say(&group, "c1", "still here")), removal);
    assert_eq!(refused, "not_member");
    assert_eq!(bench.aws.rows("MessagesTable").len(), 2);
}

#[tokio::test]
async fn who_comes_back_while_they_leave_the_roster_is_in_it() {
    let bench = Workbench::default();
    let group = group(&bench, &["bob", "carol"]).await;
    bench.ok("carol", frame("leave", &group, &json!({"client_msg_id": "l1"}))).await;
    let hold = bench.aws.hold_next("DeleteItem");
    let back = async {
        hold.reached().await;
        bench.ok("alice", frame("add", &group, &json!({"client_msg_id": "n1", "members": ["carol"]}))).await;
        hold.release();
    };
    let (again, ()) = tokio::join!(bench.fanout(), back);
    assert_eq!(again, json!([]));
    let members = bench.ok("alice", frame("members", &group, &json!({}))).await;
    assert_eq!(members["members"].as_array().unwrap().len(), 3);
    bench.ok("carol", say(&group, "c1", "here again")).await;
}

#[tokio::test]
async fn each_page_of_a_list_fits_a_frame_whatever_its_members_are_called() {
    let bench = Workbench::default();
    let longest: Vec<String> = (10..110).map(|number| format!("{}{number:02x}", "\\".repeat(126))).collect();
    let ids: Vec<&str> = longest.iter().map(String::as_str).collect();
    let group = group(&bench, &ids[..50]).await;
    bench.ok("alice", frame("add", &group, &json!({"client_msg_id": "a1", "members": ids[50..]}))).await;
    bench.ok("alice", say(&group, "m1", "hi")).await;
    // The longest emoji that there is.
    for user in &ids {
        bench.ok(user, frame("react", &group, &json!({"seq": 3, "client_msg_id": "r1", "emoji": "👩🏻‍❤️‍💋‍👨🏿"}))).await;
    }
    for (action, list, of) in [
        ("members", "members", json!({"limit": 100})),
        ("receipts", "members", json!({"limit": 100})),
        ("reactions", "reactions", json!({"seq": 3, "limit": 100})),
    ] {
        let (mut listed, mut cursor) = (vec![], Value::Null);
        loop {
            let mut request = frame(action, &group, &of);
            request["cursor"] = cursor;
            request["id"] = json!("\u{1}".repeat(64));
            let answer = bench.run("alice", request).await;
            let page = &answer["result"];
            let bytes = [&page[list], &answer].map(|value| value.to_string().len());
            assert!(bytes[0] <= PAGE_BYTES_MAX && bytes[1] <= FRAME_BYTES_MAX, "{action}: {bytes:?}");
            listed.extend(page[list].as_array().unwrap().iter().map(|one| one["user_id"].as_str().unwrap().to_owned()));
            cursor = page["next_cursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        listed.retain(|user| user != "alice");
        assert_eq!(listed, longest, "{action}: everybody once");
    }
}
