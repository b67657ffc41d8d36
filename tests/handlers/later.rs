//! This version's functions read rows of a later version. The functions pass known parts on. Unknown ones stay unchanged, and
//! no other conversation suffers.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, Limits, Workbench, message_to_bob, up_to};
use wire::limits::ACK_ENTRIES_MAX;

/// Alice and Carol have each sent Bob two messages. The ids of both conversations.
async fn two_conversations(bench: &Workbench) -> [Value; 2] {
    let mut ids = [Value::Null, Value::Null];
    for (id, sender) in ids.iter_mut().zip(["alice", "carol"]) {
        for key in ["m1", "m2"] {
            *id = bench.ok(sender, message_to_bob(key)).await["conversation_id"].clone();
        }
    }
    ids
}

/// Rewrites rows as a later version would have written them.
fn rewrite(bench: &Workbench, table: &str, is: impl Fn(&Value) -> bool, change: impl Fn(&mut Value)) {
    let mut rows: Vec<Value> = bench.aws.raw_rows(table).into_iter().filter(is).collect();
    assert!(!rows.is_empty(), "no such row in {table}");
    for row in &mut rows {
        row["v"] = json!({"N": "2"});
        change(row);
    }
    bench.aws.put_rows(table, &rows);
}

fn of<'a>(user: &'a str, id: &'a Value) -> impl Fn(&Value) -> bool + 'a {
    move |row| row["user_id"]["S"] == user && row["conversation_id"]["S"] == *id
}

fn message<'a>(id: &'a Value, seq: &'a str) -> impl Fn(&Value) -> bool + 'a {
    move |row| row["conversation_id"]["S"] == *id && row["seq"]["N"] == seq
}

fn seqs(page: &Value, id: &Value) -> Vec<u64> {
    let messages = page["messages"].as_array().unwrap().iter().filter(|message| message["conversation_id"] == *id);
    messages.map(|message| message["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn each_row_says_which_version_wrote_it() {
    let bench = Workbench::default();
    bench.connected("alice").await;
    bench.ok("alice", message_to_bob("m1")).await;
    bench.register("alice", "aa01", json!({})).await;
    for table in ["ConnectionsTable", "MessagesTable", "IdempotencyTable", "InboxTable", "DevicesTable"] {
        let rows = bench.aws.rows(table);
        assert!(!rows.is_empty() && rows.iter().all(|row| row["v"] == 1), "{table}: {rows:?}");
    }
}

#[tokio::test]
async fn a_kind_and_attributes_that_are_not_known_are_passed_on() {
    let bench = Workbench::default();
    let [id, _] = two_conversations(&bench).await;
    rewrite(&bench, "MessagesTable", message(&id, "2"), |row| {
        row["kind"] = json!({"S": "hologram"});
        row["depth"] = json!({"N": "3"});
    });
    rewrite(&bench, "InboxTable", of("bob", &id), |row| {
        row["last_kind"] = json!({"S": "hologram"});
        row["depth"] = json!({"N": "4102444800000"});
    });
    let drained = bench.ok("bob", json!({"action": "drain"})).await;
    assert_eq!(seqs(&drained, &id), [1, 2]);
    assert!(drained["messages"].as_array().unwrap().iter().any(|message| message["kind"] == "hologram"));
    let history = bench.ok("bob", json!({"action": "history", "conversation_id": id})).await;
    assert_eq!(history["messages"][1]["kind"], "hologram");
    let inbox = bench.ok("bob", json!({"action": "inbox"})).await;
    assert_eq!(inbox["conversations"].as_array().unwrap().len(), 2);

    // A write of this version keeps unknown attributes, and the row's version.
    bench.ok("bob", up_to("read", &id, 2)).await;
    bench.ok("alice", message_to_bob("m3")).await;
    let row =
        bench.aws.rows("InboxTable").into_iter().find(|row| row["user_id"] == "bob" && row["conversation_id"] == id);
    let row = row.unwrap();
    assert_eq!((&row["v"], &row["depth"], &row["last_seq"]), (&json!(2), &json!(4_102_444_800_000_i64), &json!(3)));
}

#[tokio::test]
async fn what_is_not_known_of_a_changed_message_is_passed_on() {
    let bench = Workbench::default();
    let [id, _] = two_conversations(&bench).await;
    let react = |seq: u64, key: &str| json!({"action": "react", "conversation_id": id, "seq": seq, "client_msg_id": key, "emoji": "👍"});
    bench.ok("alice", react(2, "r1")).await;
    // A way to react that came later; and an entry of a kind that came later, behind which this version goes on.
    rewrite(&bench, "MessagesTable", message(&id, "2"), |row| {
        row["reactions"]["M"]["carol"] = json!({"M": {"sticker": {"S": "s1"}}});
    });
    rewrite(&bench, "MessagesTable", message(&id, "3"), |row| row["kind"] = json!({"S": "poll_vote"}));
    bench.ok("bob", react(2, "r2")).await;
    let history = bench.ok("bob", json!({"action": "history", "conversation_id": id})).await;
    assert_eq!(history["messages"][1]["reactions"], json!([{"emoji": "👍", "count": 2, "mine": true}]));
    assert_eq!(
        (&history["messages"][2]["kind"], &history["messages"][2]["target_seq"]),
        (&json!("poll_vote"), &json!(2))
    );
    let rows = bench.aws.rows("MessagesTable");
    let row = rows.iter().find(|row| row["conversation_id"] == id && row["seq"] == 2).unwrap();
    assert_eq!(row["reactions"]["carol"], json!({"sticker": "s1"}), "it stays as it is");
    // Nor does it count as unread.
    assert_eq!(bench.ok("bob", up_to("read", &id, 1)).await["unread"], 1);
}

#[tokio::test]
async fn a_row_from_before_silent_entries_reads_as_it_did() {
    let bench = Workbench::default();
    let [id, _] = two_conversations(&bench).await;
    let row = bench.row("bob");
    for name in ["silent_seq", "silent_at", "shown_seq", "deleted_seq"] {
        assert_eq!(row.get(name), None, "what nobody changed has nothing of it");
    }
    bench.ok("alice", json!({"action": "delete", "conversation_id": id, "seq": 2, "client_msg_id": "d1"})).await;
    bench.ok("alice", json!({"action": "delete", "conversation_id": id, "seq": 1, "client_msg_id": "d2"})).await;
    // As the version before writes a message: it knows nothing of what the last silent entry left.
    bench.ok("alice", message_to_bob("m3")).await;
    let inbox = bench.ok("bob", json!({"action": "inbox"})).await;
    let shown = inbox["conversations"].as_array().unwrap().iter().find(|row| row["conversation_id"] == id).unwrap();
    assert_eq!((&shown["last_seq"], &shown["last_message"]["seq"]), (&json!(5), &json!(5)));
    assert_eq!((shown["last_message"].get("deleted"), &shown["unread"]), (None, &json!(1)));
}

#[tokio::test]
async fn a_row_that_cannot_be_read_takes_no_other_with_it() {
    let bench = Workbench::limited(Limits { presence: true, ..Limits::default() });
    let [id, other] = two_conversations(&bench).await;
    rewrite(&bench, "InboxTable", of("bob", &id), |row| row["unread"] = json!({"S": "many"}));
    let inbox = bench.ok("bob", json!({"action": "inbox"})).await;
    assert_eq!((inbox["conversations"].as_array().unwrap().len(), &inbox["next_cursor"]), (1, &Value::Null));
    assert_eq!(inbox["conversations"][0]["conversation_id"], other);

    let drained = bench.ok("bob", json!({"action": "drain"})).await;
    assert_eq!((seqs(&drained, &id), seqs(&drained, &other), &drained["more"]), (vec![], vec![1, 2], &json!(false)));
    bench.ok("bob", up_to("ack", &other, 2)).await;
    assert_eq!(bench.ok("bob", json!({"action": "drain"})).await, json!({"messages": [], "more": false}));
    // An acknowledged live entry goes with the next page, and delays nothing.
    let other_up_to = json!({"conversation_id": other, "seq": 2});
    let up_to_both = json!([{"conversation_id": id, "seq": 1}, other_up_to]);
    let drained = bench.ok("bob", json!({"action": "drain", "ack": up_to_both})).await;
    assert_eq!(drained, json!({"messages": [], "more": false}));
    bench.ok("bob", up_to("ack", &id, 1)).await;
    // The message stays pending, for a version that can read it.
    assert_eq!(bench.ok("bob", json!({"action": "ping"})).await["pending"], true);
    assert_eq!(bench.refused("bob", json!({"action": "history", "conversation_id": id})).await, "unavailable");
    // Unless the device has all of it.
    bench.ok("bob", up_to("ack", &id, 2)).await;
    assert_eq!(bench.ok("bob", json!({"action": "ping"})).await["pending"], false);
    // The other member has the history, and bob the others' presence.
    let history = bench.ok("alice", json!({"action": "history", "conversation_id": id})).await;
    assert_eq!((seqs(&history, &id), history["members"].as_array().unwrap().len()), (vec![1, 2], 1));
    let presence = bench.ok("bob", json!({"action": "presence", "user_ids": ["alice", "carol"]})).await;
    assert_eq!(presence["users"][0]["user_id"], "carol");
}

#[tokio::test]
async fn pages_of_rows_that_cannot_be_read_are_passed_over() {
    let bench = Workbench::default();
    let [first, second] = two_conversations(&bench).await;
    rewrite(&bench, "InboxTable", of("bob", &second), |row| row["unread"] = json!({"S": "many"}));
    // Carol's is the newest: the page with it alone would be empty.
    let page = bench.ok("bob", json!({"action": "inbox", "limit": 1})).await;
    assert_eq!(page["conversations"][0]["conversation_id"], first);
}

#[tokio::test]
async fn a_message_that_cannot_be_read_holds_back_what_comes_after_it() {
    let bench = Workbench::default();
    let [id, other] = two_conversations(&bench).await;
    bench.ok("alice", message_to_bob("m3")).await;
    rewrite(&bench, "MessagesTable", message(&id, "2"), |row| row["body"] = json!({"M": {}}));
    let drained = bench.ok("bob", json!({"action": "drain"})).await;
    assert_eq!((seqs(&drained, &id), seqs(&drained, &other), &drained["more"]), (vec![1], vec![1, 2], &json!(false)));
    let history = bench.ok("bob", json!({"action": "history", "conversation_id": id})).await;
    assert_eq!((seqs(&history, &id), &history["last_seq"]), (vec![1, 3], &json!(3)));
    for entry in [(&id, 1), (&other, 2)] {
        bench.ok("bob", up_to("ack", entry.0, entry.1)).await;
    }
    assert_eq!(bench.ok("bob", json!({"action": "drain"})).await, json!({"messages": [], "more": false}));
    assert_eq!(bench.ok("bob", json!({"action": "ping"})).await["pending"], true);
}

/// Creates one conversation more than a page of `drain` has room for, each older than the next. Returns the id of the
/// newest one.
async fn more_conversations_than_a_page_holds(bench: &Workbench) -> Value {
    let mut id = Value::Null;
    for number in 0..=ACK_ENTRIES_MAX {
        bench.clock.advance(Duration::from_secs(1));
        id = bench.ok(&format!("user-{number}"), message_to_bob("m1")).await["conversation_id"].clone();
    }
    id
}

#[tokio::test]
async fn a_drain_looks_behind_rows_that_it_cannot_read() {
    let bench = Workbench::default();
    let newest = more_conversations_than_a_page_holds(&bench).await;
    let older = |row: &Value| row["user_id"]["S"] == "bob" && row["conversation_id"]["S"] != newest;
    rewrite(&bench, "InboxTable", older, |row| row["unread"] = json!({"S": "many"}));
    let drained = bench.ok("bob", json!({"action": "drain"})).await;
    assert_eq!((seqs(&drained, &newest), &drained["more"]), (vec![1], &json!(false)));
}

#[tokio::test]
async fn a_page_on_which_no_message_can_be_read_is_the_last() {
    let bench = Workbench::default();
    let newest = more_conversations_than_a_page_holds(&bench).await;
    rewrite(&bench, "MessagesTable", |row| row["conversation_id"]["S"] != newest, |row| row["body"] = json!({"M": {}}));
    assert_eq!(bench.ok("bob", json!({"action": "drain"})).await, json!({"messages": [], "more": false}));
}

#[tokio::test]
async fn a_history_counts_the_messages_that_it_cannot_read() {
    let bench = Workbench::default();
    let [id, _] = two_conversations(&bench).await;
    rewrite(&bench, "MessagesTable", message(&id, "2"), |row| row["body"] = json!({"M": {}}));
    let after = bench.ok("bob", json!({"action": "history", "conversation_id": id, "after_seq": 0})).await;
    assert_eq!((seqs(&after, &id), &after["more"]), (vec![1], &json!(false)), "2 is the end");
    bench.ok("alice", message_to_bob("m3")).await;
    let newest = bench.ok("bob", json!({"action": "history", "conversation_id": id, "limit": 2})).await;
    assert_eq!((seqs(&newest, &id), &newest["more"]), (vec![3], &json!(true)), "1 is before 2");
}

#[tokio::test]
async fn a_head_that_cannot_be_read_holds_up_no_other_group() {
    let bench = Workbench::default();
    let create = |id: &str| json!({"action": "create", "client_msg_id": id, "title": "Trip", "members": ["bob"]});
    let ids = [bench.ok("alice", create("c1")).await, bench.ok("alice", create("c2")).await];
    bench.fanout().await;
    for made in &ids {
        let send = json!({"action": "send", "conversation_id": made["conversation_id"], "client_msg_id": "m1", "kind": "text", "body": "hi"});
        bench.aws.fail_next("BatchGetItem", Fault::Status(500));
        bench.ok("alice", send).await;
    }
    let id = &ids[0]["conversation_id"];
    let of_group = |row: &Value| row["conversation_id"]["S"] == *id;
    rewrite(&bench, "ConversationsTable", of_group, |row| row["post_by"] = json!({"S": "moderators"}));
    assert_eq!(bench.fanout().await, json!([]), "nothing comes again, which would hold up others");
    let rows = bench.aws.rows("InboxTable");
    let last_seq = |made: &Value| {
        let of_bob = |row: &&Value| row["user_id"] == "bob" && row["conversation_id"] == made["conversation_id"];
        rows.iter().find(of_bob).unwrap()["last_seq"].clone()
    };
    assert_eq!([last_seq(&ids[0]), last_seq(&ids[1])], [1, 2]);
    // Bob acknowledges the entries that he has.
    bench.ok("bob", up_to("ack", id, 2)).await;
}

#[tokio::test]
async fn a_member_whose_join_cannot_be_read_holds_up_no_other() {
    let bench = Workbench::default();
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": ["bob"]});
    let id = bench.ok("alice", create).await["conversation_id"].take();
    bench.fanout().await;
    let add = json!({"action": "add", "conversation_id": id, "client_msg_id": "a1", "members": ["carol"]});
    // Before the commit, what is known of the newcomer; after it, the members' rows.
    bench.aws.pass_next("BatchGetItem");
    bench.aws.pass_next("BatchGetItem");
    bench.aws.fail_next("BatchGetItem", Fault::Status(500));
    bench.ok("alice", add).await;
    rewrite(&bench, "MessagesTable", message(&id, "2"), |row| row["system"] = json!({"S": "a later form"}));
    // More entries than one replay covers.
    for number in 0..120 {
        let send = json!({"action": "send", "conversation_id": id, "client_msg_id": format!("m{number}"), "kind": "text", "body": "hi"});
        bench.aws.fail_next("BatchGetItem", Fault::Status(500));
        bench.ok("alice", send).await;
    }
    assert_eq!(tokio::time::timeout(Duration::from_secs(20), bench.fanout()).await, Ok(json!([])));
    let rows = bench.aws.rows("InboxTable");
    let row = |user: &str| rows.iter().find(|row| row["user_id"] == user).map(|row| row["last_seq"].clone());
    assert_eq!([row("alice"), row("bob"), row("carol")], [Some(json!(122)), Some(json!(122)), None]);
}

#[tokio::test]
async fn a_connection_that_cannot_be_read_keeps_no_frame_from_the_others() {
    let bench = Workbench::default();
    bench.started().connected_at("bob", "later=", "later").await;
    bench.connected("bob").await;
    let later = |row: &Value| row["connection_id"]["S"] == "later=";
    rewrite(&bench, "ConnectionsTable", later, |row| row["connected_at"] = json!({"S": "just now"}));
    bench.ok("alice", message_to_bob("m1")).await;
    assert_eq!(bench.posted("bob"), ["messages.new"]);
}

#[tokio::test]
async fn a_last_visit_that_cannot_be_read_keeps_nothing_from_its_user() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let mut seen = bench.aws.raw_rows("ConnectionsTable").remove(0);
    seen["connection_id"] = json!({"S": " last seen"});
    seen["last_seen_at"] = json!({"S": "just now"});
    bench.aws.put_rows("ConnectionsTable", &[seen]);
    bench.ok("alice", message_to_bob("m1")).await;
    assert_eq!(bench.posted("bob"), ["messages.new"]);
}

#[tokio::test]
async fn a_row_of_a_roster_that_cannot_be_read_takes_no_other_conversation_out_of_the_list() {
    let bench = Workbench::default();
    let [direct, _] = two_conversations(&bench).await;
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    rewrite(&bench, "MembersTable", of("bob", &group), |row| row["joined_seq"] = json!({"S": "several"}));
    let send = json!({"action": "send", "conversation_id": group, "client_msg_id": "m1", "kind": "text", "body": "hi"});
    bench.ok("alice", send).await;
    let inbox = bench.ok("bob", json!({"action": "inbox"})).await;
    let listed =
        |id: &Value| inbox["conversations"].as_array().unwrap().iter().any(|row| row["conversation_id"] == *id);
    assert!(listed(&direct) && listed(&group), "{inbox}");
}

#[tokio::test]
async fn what_is_repeated_is_answered_though_it_cannot_be_read() {
    let bench = Workbench::default();
    let first = bench.ok("alice", message_to_bob("m1")).await;
    let stored = message(&first["conversation_id"], "1");
    rewrite(&bench, "MessagesTable", stored, |row| row["media"] = json!({"S": "a later form"}));
    let again = bench.ok("alice", message_to_bob("m1")).await;
    assert_eq!((&again["seq"], &again["message_id"]), (&first["seq"], &first["message_id"]));
    assert_eq!(again["duplicate"], true);
}

#[tokio::test]
async fn phones_ring_for_a_message_of_a_group_that_cannot_be_read() {
    let bench = Workbench::ringing();
    bench.register("bob", "bb01", json!({"preview": true})).await;
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": ["bob"]});
    let id = bench.ok("alice", create).await["conversation_id"].take();
    let send = json!({"action": "send", "conversation_id": id, "client_msg_id": "m1", "kind": "text", "body": "hi"});
    bench.ok("alice", send).await;
    rewrite(&bench, "MessagesTable", message(&id, "2"), |row| row["media"] = json!({"S": "a later form"}));
    assert_eq!(bench.notify().await, json!([]), "nothing comes again, which would hold up others");
    assert_eq!(bench.rung("bb01").len(), 1);
}

#[tokio::test]
async fn phones_ring_for_what_can_be_read_and_on_what_can_be_reached() {
    let bench = Workbench::ringing();
    for token in ["aa01", "aa02"] {
        bench.register("bob", token, json!({"preview": true})).await;
    }
    let is_first = |row: &Value| row["device_id"]["S"] == "aa01" && row.get("token").is_some();
    rewrite(&bench, "DevicesTable", is_first, |row| row["platform"] = json!({"S": "harmonyos"}));
    let [id, other] = two_conversations(&bench).await;
    rewrite(&bench, "InboxTable", of("bob", &id), |row| row["last_kind"] = json!({"S": "sealed"}));
    rewrite(&bench, "InboxTable", of("bob", &other), |row| row["delivered_seq"] = json!({"S": "several"}));
    assert_eq!(bench.notify().await, json!([]));
    assert_eq!((bench.rung("aa01").len(), bench.rung("aa02")), (0, vec!["message 2".to_owned()]));
    bench.aws.with_sns(|sns| {
        let alert = &sns.pushes()[0].payload["aps"]["alert"];
        assert_eq!((&alert["loc-key"], &alert["body"]), (&json!("PIGEONHOLE_MESSAGE"), &Value::Null));
    });
}

#[tokio::test]
async fn an_own_reaction_that_cannot_be_read_keeps_no_page_of_a_channel_back() {
    let bench = Workbench::default();
    let create =
        json!({"action": "create", "kind": "channel", "client_msg_id": "c1", "title": "News", "members": ["bob"]});
    let id = bench.ok("alice", create).await["conversation_id"].take();
    bench
        .ok(
            "alice",
            json!({"action": "send", "conversation_id": id, "client_msg_id": "m1", "kind": "text", "body": "hi"}),
        )
        .await;
    let react =
        |key: &str| json!({"action": "react", "conversation_id": id, "seq": 2, "client_msg_id": key, "emoji": "👍"});
    bench.ok("bob", react("r1")).await;
    let own = |row: &Value| row["sender_key"]["S"] == "bob  2";
    rewrite(&bench, "IdempotencyTable", own, |row| row["emoji"] = json!({"M": {"sticker": {"S": "s1"}}}));
    let history = bench.ok("bob", json!({"action": "history", "conversation_id": id})).await;
    assert_eq!(history["messages"][1]["reactions"], json!([{"emoji": "👍", "count": 1, "mine": false}]));
    // Nor does a client repeat for ever what this version can't replace.
    assert_eq!(bench.refused("bob", react("r2")).await, "gone");
    assert_eq!(bench.ok("bob", react("r1")).await["duplicate"], true, "it keeps its answer");
}

#[tokio::test]
async fn a_message_that_cannot_be_read_holds_up_no_lane_of_who_would_change_it() {
    let bench = Workbench::default();
    let [id, _] = two_conversations(&bench).await;
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    bench
        .ok(
            "alice",
            json!({"action": "send", "conversation_id": group, "client_msg_id": "m1", "kind": "text", "body": "hi"}),
        )
        .await;
    for id in [&id, &group] {
        rewrite(&bench, "MessagesTable", message(id, "2"), |row| row["body"] = json!({"M": {}}));
        for (action, more) in
            [("edit", json!({"body": "hello"})), ("react", json!({"emoji": "👍"})), ("delete", json!({}))]
        {
            let mut change = json!({"action": action, "conversation_id": id, "seq": 2, "client_msg_id": action});
            change.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert_eq!(bench.refused("alice", change).await, "gone", "{action}: a client drops it, and goes on");
        }
    }
}

#[tokio::test]
async fn the_row_of_who_may_not_have_read_a_message_does_not_keep_it_from_being_deleted() {
    let bench = Workbench::default();
    let [id, _] = two_conversations(&bench).await;
    rewrite(&bench, "InboxTable", of("bob", &id), |row| row["unread"] = json!({"S": "many"}));
    bench.ok("alice", json!({"action": "delete", "conversation_id": id, "seq": 2, "client_msg_id": "d1"})).await;
    let rows = bench.aws.rows("MessagesTable");
    let row = rows.iter().find(|row| row["conversation_id"] == id && row["seq"] == 2).unwrap();
    assert_eq!(row["body"], "");
}

#[tokio::test]
async fn what_cannot_be_read_of_one_group_takes_no_other_conversation_out_of_the_list() {
    let bench = Workbench::default();
    let [direct, _] = two_conversations(&bench).await;
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "Trip", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    let send = json!({"action": "send", "conversation_id": group, "client_msg_id": "m1", "kind": "text", "body": "hi"});
    bench.aws.fail_next("BatchGetItem", Fault::Status(500));
    bench.ok("alice", send).await;
    // The index, the rows, and then the entries that bob's row has not come to.
    bench.aws.pass_next("Query");
    bench.aws.pass_next("Query");
    bench.aws.fail_next("Query", Fault::Status(500));
    let inbox = bench.ok("bob", json!({"action": "inbox"})).await;
    let listed =
        |id: &Value| inbox["conversations"].as_array().unwrap().iter().any(|row| row["conversation_id"] == *id);
    assert!(listed(&direct) && listed(&group), "{inbox}");
    let inbox = bench.ok("bob", json!({"action": "inbox"})).await;
    assert_eq!(inbox["conversations"][0]["last_seq"], 2, "the next look brings it along");
}
