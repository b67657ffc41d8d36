//! `settings`: what it writes, what it ends, and that a block holds whatever happens beside it.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::time::Duration;

use domain::Rate;
use serde_json::{Value, json};
use testkit::{Fault, Limits, Workbench, message_to_bob, up_to};

fn block(user: &str, blocked: bool) -> Value {
    json!({"action": "settings", "user_id": user, "set": {"blocked": blocked}})
}

fn to_alice(id: &str) -> Value {
    json!({"action": "send", "to": "alice", "client_msg_id": id, "kind": "text", "body": "hi"})
}

fn to_alice_of(peer: &str) -> Value {
    json!({"action": "send", "to": peer, "client_msg_id": "m", "kind": "text", "body": "hi"})
}

async fn row(bench: &Workbench, user: &str) -> Value {
    bench.ok(user, json!({"action": "inbox"})).await["conversations"][0].clone()
}

#[tokio::test]
async fn a_conversation_is_muted_and_archived_and_each_left_alone() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    let set = async |set: Value| {
        let frame = json!({"action": "settings", "conversation_id": id, "set": set});
        assert_eq!(bench.ok("bob", frame).await, json!({}));
        let row = row(&bench, "bob").await;
        (row["muted_until"].clone(), row["archived"].clone())
    };
    assert_eq!(set(json!({"muted_until": "forever"})).await, (json!("forever"), Value::Null));
    assert_eq!(set(json!({"archived": true})).await, (json!("forever"), json!(true)));
    let until = json!("2027-02-01T00:00:00.000Z");
    assert_eq!(set(json!({"muted_until": until})).await, (until, json!(true)));
    assert_eq!(set(json!({"muted_until": null, "archived": false})).await, (Value::Null, Value::Null));
    assert_eq!(row(&bench, "alice").await["muted_until"], Value::Null, "the others don't see it");
}

#[tokio::test]
async fn ten_conversations_are_pinned_the_last_one_first_and_ten_channels() {
    let bench = Workbench::default();
    let pin = async |id: &Value, pinned: bool| {
        let frame = json!({"action": "settings", "conversation_id": id, "set": {"pinned": pinned}});
        bench.run("bob", frame).await["error"]["code"].clone()
    };
    let pinned = async |list: &str| -> Vec<Value> {
        let rows = bench.ok("bob", json!({"action": list, "pinned": true})).await;
        assert_eq!(rows["next_cursor"], Value::Null);
        let rows = rows["conversations"].as_array().unwrap();
        assert!(rows.iter().all(|row| row["pinned"] == true));
        rows.iter().map(|row| row["conversation_id"].clone()).collect()
    };
    let (mut chats, mut channels) = (vec![], vec![]);
    for number in 0..11 {
        let send = json!({"action": "send", "to": format!("user{number}"), "client_msg_id": "m", "kind": "text", "body": "hi"});
        chats.push(bench.ok("bob", send).await["conversation_id"].take());
        let create = json!({"action": "create", "client_msg_id": format!("c{number}"), "kind": "channel", "title": "x", "members": ["bob"]});
        channels.push(bench.ok("alice", create).await["conversation_id"].take());
    }
    let group = json!({"action": "create", "client_msg_id": "g", "title": "x", "members": ["bob"]});
    chats[3] = bench.ok("alice", group).await["conversation_id"].take();
    for (list, ids) in [("inbox", &chats), ("channels", &channels)] {
        assert_eq!(pinned(list).await, [Value::Null; 0]);
        for id in &ids[..10] {
            assert_eq!(pin(id, true).await, Value::Null);
        }
        assert_eq!(pin(&ids[10], true).await, "limit_reached");
        assert_eq!(pin(&ids[4], true).await, Value::Null, "once more: it is the last one");
        let wanted: Vec<Value> = [4, 9, 8, 7, 6, 5, 3, 2, 1, 0].map(|at: usize| ids[at].clone()).to_vec();
        assert_eq!(pinned(list).await, wanted);
        assert_eq!(pin(&ids[9], false).await, Value::Null);
        assert_eq!(pin(&ids[10], true).await, Value::Null);
        let wanted: Vec<Value> = [10, 4, 8, 7, 6, 5, 3, 2, 1, 0].map(|at: usize| ids[at].clone()).to_vec();
        assert_eq!(pinned(list).await, wanted);
    }
    // A channel that the user leaves has no place.
    bench.ok("bob", json!({"action": "leave", "conversation_id": channels[4], "client_msg_id": "l"})).await;
    assert_eq!(pinned("channels").await.len(), 9);
    assert_eq!(pin(&channels[9], true).await, Value::Null);
    assert_eq!(pinned("channels").await[..2], [channels[9].clone(), channels[10].clone()]);
    assert_eq!(pin(&channels[4], false).await, "not_member");
    let row = bench.ok("alice", json!({"action": "channels"})).await["conversations"][0].take();
    assert_eq!(row["pinned"], Value::Null, "the others don't see it");
    let both = json!({"action": "inbox", "pinned": true, "cursor": "x"});
    assert_eq!(bench.refused("bob", both).await, "bad_request");
}

#[tokio::test]
async fn two_pins_at_the_same_time_are_both_in_the_list() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    let other = bench.ok("bob", to_alice_of("carol")).await["conversation_id"].take();
    let pin =
        |id: &Value| json!({"action": "settings", "conversation_id": id, "set": {"pinned": true, "archived": true}});
    let first = bench.aws.hold_next("TransactWriteItems");
    let (both, ()) = tokio::join!(bench.ok("bob", pin(&id)), async {
        first.reached().await;
        bench.ok("bob", pin(&other)).await;
        first.release();
    });
    assert_eq!(both, json!({}));
    let rows = bench.ok("bob", json!({"action": "inbox", "pinned": true})).await["conversations"].take();
    assert_eq!((rows[0]["conversation_id"].clone(), rows[1]["conversation_id"].clone()), (id, other));
    assert_eq!(rows[0]["archived"], true);
}

#[tokio::test]
async fn what_is_marked_as_unread_is_so_until_the_next_read() {
    let bench = Workbench::default();
    let id = bench.conversation(2).await;
    let channel =
        json!({"action": "create", "client_msg_id": "c1", "kind": "channel", "title": "x", "members": ["bob"]});
    let channel = bench.ok("alice", channel).await["conversation_id"].take();
    for (id, list, end) in [(&id, "inbox", 2), (&channel, "channels", 1)] {
        let is_marked = async || {
            let row = bench.ok("bob", json!({"action": list})).await["conversations"][0].take();
            assert_eq!(row["conversation_id"], *id);
            (row["marked_unread"].clone(), row["unread"].clone())
        };
        let set =
            async |set: Value| bench.ok("bob", json!({"action": "settings", "conversation_id": id, "set": set})).await;
        set(json!({"unread": true})).await;
        assert_eq!(is_marked().await, (json!(true), json!(if list == "inbox" { 2 } else { 0 })), "the count is exact");
        set(json!({"archived": true})).await;
        assert_eq!(is_marked().await.0, true, "left alone");
        if list == "inbox" {
            bench.ok("bob", up_to("read", id, 1)).await;
            assert_eq!(is_marked().await, (Value::Null, json!(1)), "a read that leaves something unread");
            set(json!({"unread": true})).await;
            bench.ok("bob", json!({"action": "ack", "up_to": [{"conversation_id": id, "seq": 2}]})).await;
            assert_eq!(is_marked().await.0, true, "what a device holds is not read");
        }
        bench.ok("bob", up_to("read", id, end)).await;
        assert_eq!(is_marked().await, (Value::Null, json!(0)));
        set(json!({"unread": true})).await;
        bench.ok("bob", up_to("read", id, end)).await;
        assert_eq!(is_marked().await.0, Value::Null, "a read that moves nothing");
        set(json!({"unread": true})).await;
        set(json!({"unread": false})).await;
        assert_eq!(is_marked().await.0, Value::Null);
    }
    assert_eq!(row(&bench, "alice").await["marked_unread"], Value::Null, "the others don't see it");
}

#[tokio::test]
async fn a_mute_can_hold_mentions_too_and_only_in_groups() {
    let bench = Workbench::default();
    let direct = bench.conversation(1).await;
    let create = json!({"action": "create", "client_msg_id": "c1", "title": "x", "members": ["bob"]});
    let group = bench.ok("alice", create).await["conversation_id"].take();
    let set = |id: &Value, set: Value| json!({"action": "settings", "conversation_id": id, "set": set});
    let group_row = async || {
        let rows = bench.ok("bob", json!({"action": "inbox"})).await["conversations"].take();
        rows.as_array().unwrap().iter().find(|row| row["conversation_id"] == group).unwrap().clone()
    };
    let shown = async || group_row().await["mute_mentions"].clone();
    assert_eq!(shown().await, Value::Null);
    bench.ok("bob", set(&group, json!({"muted_until": "forever", "mute_mentions": true}))).await;
    assert_eq!(shown().await, true);
    bench.ok("bob", set(&group, json!({"archived": true}))).await;
    assert_eq!(shown().await, true, "left alone");
    bench.ok("bob", set(&group, json!({"mute_mentions": false}))).await;
    assert_eq!((shown().await, group_row().await["muted_until"].clone()), (Value::Null, json!("forever")));
    for id in [&direct, &json!("ch_x")] {
        assert_eq!(bench.refused("bob", set(id, json!({"mute_mentions": true}))).await, "bad_request");
    }
    assert_eq!(bench.refused("bob", set(&group, json!({"mute_mentions": "yes"}))).await, "bad_request");
}

#[tokio::test]
async fn a_message_takes_the_conversation_out_of_the_archive_for_both() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    for user in ["alice", "bob"] {
        let archive =
            json!({"action": "settings", "conversation_id": id, "set": {"archived": true, "muted_until": "forever"}});
        bench.ok(user, archive).await;
    }
    bench.ok("alice", message_to_bob("m2")).await;
    for user in ["alice", "bob"] {
        let row = row(&bench, user).await;
        assert_eq!((&row["archived"], &row["muted_until"]), (&Value::Null, &json!("forever")), "{user}");
    }
}

#[tokio::test]
async fn settings_are_told_to_ones_own_other_connections_only() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.connected("alice").await;
    bench.connected("bob").await;
    bench.started().connected_at("bob", "second=", "second").await;
    let set = json!({"muted_until": null, "archived": true});
    bench.ok("bob", json!({"action": "settings", "conversation_id": id, "set": set})).await;
    bench.ok("bob", block("alice", true)).await;
    assert_eq!(
        bench.aws.frames("second="),
        [
            json!({"type": "settings", "conversation_id": id, "set": set}),
            json!({"type": "settings", "user_id": "alice", "set": {"blocked": true}})
        ]
    );
    assert_eq!((bench.aws.posts("bob="), bench.aws.posts("alice=")), (0, 0));
}

#[tokio::test]
async fn who_is_no_member_sets_nothing() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    let frame = json!({"action": "settings", "conversation_id": id, "set": {"archived": true}});
    assert_eq!(bench.refused("mallory", frame).await, "not_member");
    assert!(bench.aws.rows("InboxTable").iter().all(|row| row["user_id"] != "mallory"));
    assert_eq!(bench.refused("mallory", block("mallory", true)).await, "bad_request");
}

#[tokio::test]
async fn a_block_ends_messages_both_ways_and_its_end_brings_them_back() {
    let bench = Workbench::default();
    bench.conversation(1).await;
    bench.ok("bob", block("alice", true)).await;
    assert_eq!(row(&bench, "bob").await["blocked"], true);
    assert_eq!(row(&bench, "alice").await["blocked"], Value::Null, "whom it is about learns nothing but `forbidden`");
    assert_eq!(bench.refused("alice", message_to_bob("m2")).await, "forbidden");
    assert_eq!(bench.refused("bob", to_alice("b1")).await, "forbidden");
    assert_eq!(bench.aws.rows("MessagesTable").len(), 1);
    // A message that was stored before the block keeps its reply.
    assert_eq!(bench.ok("alice", message_to_bob("m1")).await["duplicate"], true);
    bench.ok("bob", block("alice", false)).await;
    assert_eq!(bench.ok("alice", message_to_bob("m2")).await["seq"], 2);
    assert_eq!(bench.ok("bob", to_alice("b1")).await["seq"], 3);
}

#[tokio::test]
async fn two_blocks_are_two() {
    let bench = Workbench::default();
    bench.conversation(1).await;
    bench.ok("bob", block("alice", true)).await;
    bench.ok("alice", block("bob", true)).await;
    bench.ok("bob", block("alice", false)).await;
    assert_eq!(bench.refused("bob", to_alice("b1")).await, "forbidden", "alice still blocks him");
    bench.ok("alice", block("bob", false)).await;
    bench.ok("bob", to_alice("b1")).await;
}

#[tokio::test]
async fn one_can_be_blocked_before_the_first_message() {
    let bench = Workbench::default();
    bench.ok("bob", block("alice", true)).await;
    assert_eq!(bench.refused("alice", message_to_bob("m1")).await, "forbidden");
    assert_eq!(bench.refused("bob", to_alice("b1")).await, "forbidden");
    // Neither user has a conversation from the block.
    for user in ["alice", "bob"] {
        assert_eq!(bench.ok(user, json!({"action": "inbox"})).await["conversations"], json!([]));
        assert_eq!(bench.ok(user, json!({"action": "drain"})).await["messages"], json!([]));
        let id = bench.aws.rows("InboxTable")[0]["conversation_id"].clone();
        for frame in [up_to("ack", &id, 1), up_to("read", &id, 1), json!({"action": "history", "conversation_id": id})]
        {
            assert_eq!(bench.refused(user, frame).await, "not_member");
        }
    }
    bench.ok("bob", block("alice", false)).await;
    assert_eq!(bench.ok("alice", message_to_bob("m1")).await["seq"], 1);
    assert_eq!(row(&bench, "bob").await["unread"], 1);
}

#[tokio::test]
async fn blocks_of_ids_that_nobody_has_cost_what_first_messages_cost_and_leave_nothing() {
    let first_messages = Rate { burst: 3, pause: Duration::from_mins(3) };
    let bench = Workbench::limited(Limits { first_messages, ..Limits::default() });
    bench.ok("alice", message_to_bob("m1")).await;
    bench.ok("alice", block("nobody-1", true)).await;
    // A repeated block costs nothing, and neither does a block of a user with whom a conversation exists.
    bench.ok("alice", block("nobody-1", true)).await;
    bench.ok("bob", block("alice", true)).await;
    bench.ok("alice", block("bob", true)).await;
    bench.ok("alice", block("nobody-2", true)).await;
    assert_eq!(bench.refused("alice", block("nobody-3", true)).await, "rate_limited");
    bench.ok("alice", block("nobody-1", true)).await;
    for user in ["nobody-1", "nobody-2", "nobody-3"] {
        bench.ok("alice", block(user, false)).await;
    }
    assert_eq!(
        bench.refused("alice", block("nobody-3", true)).await,
        "rate_limited",
        "what was taken back is no refund"
    );
    bench.clock.advance(Duration::from_mins(3));
    bench.ok("alice", block("nobody-3", true)).await;
    bench.ok("alice", block("nobody-3", false)).await;
    let mut left: Vec<_> = bench
        .aws
        .rows("InboxTable")
        .iter()
        .map(|row| (row["user_id"].clone(), row["conversation_id"].clone()))
        .collect();
    left.retain(|(_, id)| *id != " first messages");
    assert_eq!(left.iter().map(|(user, _)| user).collect::<Vec<_>>(), ["alice", "bob"]);
    let blocks = || {
        bench
            .aws
            .rows("ConnectionsTable")
            .iter()
            .map(|row| (row["user_id"].clone(), row["blocks"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(blocks(), [(json!("alice"), json!(2)), (json!("bob"), json!(2))]);
    bench.ok("alice", block("bob", false)).await;
    bench.ok("bob", block("alice", false)).await;
    assert_eq!(blocks(), []);
}

#[tokio::test]
async fn two_blocks_of_strangers_leave_nothing_once_both_are_taken_back() {
    let bench = Workbench::default();
    for (user, other, blocked) in
        [("alice", "bob", true), ("bob", "alice", true), ("alice", "bob", false), ("bob", "alice", false)]
    {
        bench.ok(user, block(other, blocked)).await;
    }
    assert_eq!((bench.aws.rows("InboxTable"), bench.aws.rows("ConnectionsTable")), (vec![], vec![]));
}

#[tokio::test]
async fn a_first_message_beside_the_end_of_a_block_is_not_lost() {
    let bench = Workbench::default();
    bench.ok("alice", block("bob", true)).await;
    bench.ok("bob", block("alice", true)).await;
    bench.ok("bob", block("alice", false)).await;
    // Alice's end has read that there is no conversation. Between that and its write there comes to be one.
    let hold = bench.aws.hold_next("TransactWriteItems");
    let beside = async {
        hold.reached().await;
        bench.ok("alice", block("bob", false)).await;
        bench.ok("alice", message_to_bob("m1")).await;
        hold.release();
    };
    tokio::join!(bench.ok("alice", block("bob", false)), beside);
    assert_eq!((&row(&bench, "bob").await["unread"], &row(&bench, "alice").await["last_seq"]), (&json!(1), &json!(1)));
    assert_eq!(bench.ok("alice", message_to_bob("m2")).await["seq"], 2);
}

#[tokio::test]
async fn a_block_of_the_version_before_is_counted_when_it_is_set_again_and_taken_back_as_any() {
    let bench = Workbench::default();
    bench.conversation(1).await;
    let uncounted = || {
        for mut row in bench.aws.raw_rows("InboxTable") {
            if row["user_id"]["S"] == "bob" {
                row["blocked"] = json!({"BOOL": true});
            } else {
                row["blocked_by_peer"] = json!({"BOOL": true});
            }
            bench.aws.put_rows("InboxTable", &[row]);
        }
    };
    uncounted();
    bench.ok("bob", block("alice", false)).await;
    assert_eq!(bench.ok("alice", message_to_bob("m2")).await["seq"], 2);
    uncounted();
    bench.ok("bob", block("alice", true)).await;
    assert_eq!(bench.aws.rows("ConnectionsTable").len(), 2);
    bench.ok("bob", block("alice", false)).await;
    assert_eq!(bench.aws.rows("ConnectionsTable"), Vec::<Value>::new());
}

#[tokio::test]
async fn ticks_and_marks_end_with_a_block() {
    let bench = Workbench::default();
    let id = bench.conversation(3).await;
    bench.connected("alice").await;
    bench.ok("bob", up_to("ack", &id, 1)).await;
    bench.ok("bob", up_to("read", &id, 1)).await;
    assert_eq!(bench.posted("alice"), ["receipt.delivered", "receipt.read"]);
    bench.ok("alice", block("bob", true)).await;
    bench.ok("bob", up_to("ack", &id, 2)).await;
    bench.ok("bob", up_to("read", &id, 3)).await;
    assert_eq!(bench.posted("alice"), ["receipt.delivered", "receipt.read"]);
    let members = async |user| {
        let history = bench.ok(user, json!({"action": "history", "conversation_id": id})).await;
        history["members"].as_array().unwrap().iter().map(|member| member["user_id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((members("alice").await, members("bob").await), (vec![json!("alice")], vec![json!("bob")]));
}

#[tokio::test]
async fn a_block_that_comes_between_the_look_and_the_commit_holds() {
    let bench = Workbench::default();
    bench.conversation(1).await;
    let commit = bench.aws.hold_next("TransactWriteItems");
    let sending = bench.refused("alice", message_to_bob("m2"));
    let blocking = async {
        commit.reached().await;
        bench.ok("bob", block("alice", true)).await;
        commit.release();
    };
    let (code, ()) = tokio::join!(sending, blocking);
    assert_eq!(code, "forbidden");
    assert_eq!(bench.aws.rows("MessagesTable").len(), 1);
}

#[tokio::test]
async fn a_setting_that_meets_a_conflict_is_written_again() {
    let bench = Workbench::default();
    let id = bench.conversation(1).await;
    bench.aws.fail_next("TransactWriteItems", Fault::Conflict);
    bench.ok("bob", block("alice", true)).await;
    assert_eq!(row(&bench, "bob").await["blocked"], true);
    bench.aws.fail_next("UpdateItem", Fault::Conflict);
    bench.ok("bob", json!({"action": "settings", "conversation_id": id, "set": {"archived": true}})).await;
    assert_eq!(row(&bench, "bob").await["archived"], true);
}
