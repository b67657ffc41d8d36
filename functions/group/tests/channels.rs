//! Channels, from the one who makes one to those who look at it: what is stored, who may what, and what each sees.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is the report")]

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Fault, Limits, Workbench, up_to};

/// A frame about a channel.
fn frame(action: &str, channel: &Value, more: &Value) -> Value {
    let mut frame = json!({"action": action, "conversation_id": channel});
    frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    frame
}

fn about(action: &str, channel: &Value) -> Value {
    frame(action, channel, &json!({}))
}

fn say(channel: &Value, id: &str, body: &str) -> Value {
    frame("send", channel, &json!({"client_msg_id": id, "kind": "text", "body": body}))
}

/// Alice makes a channel with these rules.
async fn channel(bench: &Workbench, rules: &Value) -> Value {
    let mut create =
        json!({"action": "create", "kind": "channel", "client_msg_id": "c1", "title": "News", "members": []});
    create.as_object_mut().unwrap().extend(rules.as_object().unwrap().clone());
    bench.ok("alice", create).await["conversation_id"].take()
}

async fn open(bench: &Workbench) -> Value {
    channel(bench, &json!({"join": "open"})).await
}

async fn row(bench: &Workbench, user: &str) -> Value {
    bench.ok(user, json!({"action": "channels"})).await["conversations"][0].take()
}

/// Returns the `seq` of each entry that a connection got.
fn told(bench: &Workbench, connection: &str) -> Vec<u64> {
    let frames = bench.aws.frames(connection);
    let new = frames.iter().filter(|frame| frame["type"] == "messages.new");
    new.flat_map(|frame| frame["messages"].as_array().unwrap().clone()).map(|m| m["seq"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_channel_is_made_and_joined_and_is_in_no_chat_list() {
    let bench = Workbench::default();
    let create = json!({"action": "create", "kind": "channel", "client_msg_id": "c1", "title": "News",
        "members": ["bob"], "join": "open"});
    let made = bench.ok("alice", create.clone()).await;
    let id = made["conversation_id"].clone();
    assert!(id.as_str().unwrap().starts_with("ch_"));
    assert_eq!((&made["seq"], &made["duplicate"]), (&json!(1), &json!(false)));
    assert_eq!(bench.ok("alice", create).await["duplicate"], true);
    let alices = row(&bench, "alice").await;
    assert_eq!(
        alices,
        json!({"conversation_id": id, "kind": "channel", "title": "News", "role": "owner", "first_seq": 1,
            "history": "joined", "post": "admins", "add": "admins", "join": "open", "unread": 0, "read_seq": 0, "last_seq": 1, "last_message": alices["last_message"]})
    );
    assert_eq!(alices["last_message"]["system"]["members"], json!(["alice", "bob"]));
    assert_eq!(row(&bench, "bob").await["role"], "member");
    bench.ok("alice", say(&id, "m1", "before her")).await;
    // Joined behind it, Carol sees what comes.
    assert_eq!(bench.ok("carol", about("join", &id)).await, json!({"last_seq": 2}));
    assert_eq!(bench.ok("carol", about("join", &id)).await, json!({"last_seq": 2}));
    let carols = row(&bench, "carol").await;
    assert_eq!((&carols["first_seq"], &carols["unread"], carols.get("last_message")), (&json!(3), &json!(0), None));
    assert!(!carols.to_string().contains("before her"));
    for user in ["alice", "bob", "carol"] {
        assert_eq!(bench.ok(user, json!({"action": "inbox"})).await["conversations"], json!([]));
        assert_eq!(bench.ok(user, json!({"action": "ping"})).await["pending"], false);
        assert_eq!(bench.ok(user, json!({"action": "drain"})).await["messages"], json!([]));
    }
    let members = bench.ok("carol", about("members", &id)).await;
    assert_eq!(
        members["members"],
        json!([{"user_id": "alice", "role": "owner", "joined_seq": 1}, {"user_id": "bob", "role": "member", "joined_seq": 1},
            {"user_id": "carol", "role": "member", "joined_seq": 2}])
    );
    assert_eq!(bench.ok("carol", about("leave", &id)).await, json!({}));
    assert_eq!(bench.ok("carol", about("leave", &id)).await, json!({}));
    assert_eq!(bench.ok("carol", json!({"action": "channels"})).await["conversations"], json!([]));
    assert_eq!(bench.aws.rows("MembersTable").len(), 2);
    assert_eq!(bench.refused("alice", about("leave", &id)).await, "forbidden");
}

#[tokio::test]
async fn a_post_is_written_once_however_many_are_members() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    for number in 0..30 {
        bench.ok(&format!("u{number}"), about("join", &id)).await;
    }
    bench.operations();
    bench.ok("alice", say(&id, "m1", "hi")).await;
    assert_eq!(bench.operations(), ["GetItem", "GetItem", "TransactWriteItems"]);
    assert_eq!(row(&bench, "u7").await["unread"], 1);
    // A post raises the sender's own read mark.
    let alices = row(&bench, "alice").await;
    assert_eq!((&alices["unread"], &alices["read_seq"]), (&json!(0), &json!(2)));
}

#[tokio::test]
async fn unread_counts_from_the_join_and_what_is_deleted_until_it_is_read() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    bench.ok("alice", say(&id, "m0", "before")).await;
    bench.ok("bob", about("join", &id)).await;
    for number in 3..=6 {
        bench.ok("alice", say(&id, &format!("m{number}"), "hi")).await;
    }
    bench.ok("alice", frame("delete", &id, &json!({"seq": 4, "client_msg_id": "d1"}))).await;
    let bobs = row(&bench, "bob").await;
    assert_eq!((&bobs["unread"], &bobs["last_seq"], &bobs["read_seq"]), (&json!(4), &json!(7), &json!(2)));
    assert_eq!(bench.ok("bob", up_to("read", &id, 4)).await, json!({"unread": 2}));
    assert_eq!(bench.ok("bob", up_to("read", &id, 3)).await, json!({"unread": 2}), "it never goes back");
    assert_eq!(bench.ok("bob", up_to("read", &id, 5)).await, json!({"unread": 1}));
    assert_eq!(bench.ok("bob", up_to("read", &id, 99)).await, json!({"unread": 0}));
    assert_eq!(row(&bench, "bob").await["read_seq"], 7);
    assert_eq!(bench.refused("carol", up_to("read", &id, 1)).await, "not_member");
    // A message that comes between the head and the mark is above it.
    bench.ok("alice", say(&id, "m8", "hi")).await;
    let hold = bench.aws.hold_next("UpdateItem");
    let post = async {
        hold.reached().await;
        bench.ok("alice", say(&id, "m9", "hi")).await;
        hold.release();
    };
    let (read, ()) = tokio::join!(bench.ok("bob", up_to("read", &id, 99)), post);
    assert_eq!((read, &row(&bench, "bob").await["unread"]), (json!({"unread": 0}), &json!(1)));
}

#[tokio::test]
async fn who_watches_is_told_by_the_stream_and_who_does_not_reads() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    for user in ["alice", "bob", "carol"] {
        bench.connected(user).await;
        bench.ok(user, about("join", &id)).await;
    }
    bench.ok("alice", say(&id, "m1", "before")).await;
    for user in ["alice", "bob"] {
        let watching = bench.ok(user, about("watch", &id)).await;
        assert_eq!(watching, json!({"live": true, "last_seq": 2, "poll_ms": 60_000}));
    }
    assert_eq!(bench.fanout().await, json!([]));
    bench.ok("alice", say(&id, "m2", "hi")).await;
    bench.ok("alice", frame("edit", &id, &json!({"seq": 2, "client_msg_id": "e1", "body": "then"}))).await;
    let batch = json!({"Records": bench.aws.heads()});
    assert_eq!(bench.started().fanout(batch.clone()).await, json!([]));
    assert_eq!(told(&bench, "bob="), [3, 4], "what was there before is in the history, and an edit of it is told");
    assert!(told(&bench, "carol=").is_empty() && told(&bench, "alice=").is_empty(), "she has the answer");
    // A retry of the batch posts nothing again.
    assert_eq!(bench.started().fanout(batch).await, json!([]));
    assert_eq!(told(&bench, "bob="), [3, 4]);
    let history = bench.ok("carol", frame("history", &id, &json!({"after_seq": 1}))).await;
    assert_eq!((&history["last_seq"], &history["first_seq"], &history["members"]), (&json!(4), &json!(2), &json!([])));
    bench.ok("bob", about("unwatch", &id)).await;
    bench.ok("alice", say(&id, "m3", "hi")).await;
    bench.fanout().await;
    assert_eq!(told(&bench, "bob="), [3, 4]);
    // Again: what came meanwhile is in the history.
    assert_eq!(bench.ok("bob", about("watch", &id)).await["last_seq"], 5);
    bench.ok("alice", say(&id, "m4", "hi")).await;
    bench.fanout().await;
    assert_eq!(told(&bench, "bob="), [3, 4, 6]);
}

#[tokio::test]
async fn who_watches_is_told_of_more_than_a_page_holds() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    bench.connected("bob").await;
    bench.ok("bob", about("join", &id)).await;
    bench.ok("bob", about("watch", &id)).await;
    let body = "x".repeat(4_000);
    for number in 0..20 {
        bench.ok("alice", say(&id, &format!("m{number}"), &body)).await;
    }
    assert_eq!(bench.fanout().await, json!([]), "nothing comes again, which would hold up others");
    assert_eq!(told(&bench, "bob="), (2..=21).collect::<Vec<_>>());
}

#[tokio::test]
async fn who_is_no_member_any_more_hears_nothing() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    for user in ["bob", "carol"] {
        bench.connected(user).await;
        bench.ok(user, about("join", &id)).await;
        bench.ok(user, about("watch", &id)).await;
    }
    let removed = bench.ok("alice", frame("remove", &id, &json!({"client_msg_id": "x1", "user_id": "bob"}))).await;
    assert_eq!(removed["seq"], 2);
    bench.ok("carol", about("leave", &id)).await;
    bench.ok("alice", say(&id, "m1", "secret")).await;
    assert_eq!(bench.fanout().await, json!([]));
    for user in ["bob", "carol"] {
        assert!(told(&bench, &format!("{user}=")).is_empty());
        assert_eq!(bench.ok(user, json!({"action": "channels"})).await["conversations"], json!([]));
        for action in ["history", "watch", "members"] {
            assert_eq!(bench.refused(user, about(action, &id)).await, "not_member");
        }
        assert_eq!(bench.refused(user, say(&id, "x", "x")).await, "not_member");
    }
    assert!(bench.aws.rows("WatchersTable").iter().all(|row| row.get("user_id").is_none()), "they are looked up once");
    // The member index remembers the removed user.
    let listed = bench.aws.rows("MembersTable");
    assert_eq!(listed.iter().filter(|row| row.get("removed_seq").is_none()).count(), 1);
    assert_eq!(listed.len(), 2);
}

#[tokio::test]
async fn who_is_removed_from_an_open_channel_stays_out_until_an_admin_adds_them() {
    let bench = Workbench::default();
    let id = channel(&bench, &json!({"join": "open", "post": "all", "add": "all"})).await;
    for user in ["bob", "carol"] {
        bench.ok(user, about("join", &id)).await;
    }
    bench.ok("alice", frame("remove", &id, &json!({"client_msg_id": "x1", "user_id": "bob"}))).await;
    assert_eq!(bench.refused("bob", about("join", &id)).await, "forbidden");
    assert_eq!(bench.ok("bob", about("leave", &id)).await, json!({}), "he is none");
    assert_eq!(bench.refused("bob", about("join", &id)).await, "forbidden");
    let add = |key: &str, members: &[&str]| frame("add", &id, &json!({"client_msg_id": key, "members": members}));
    let added = bench.ok("carol", add("a1", &["bob", "dave"])).await;
    let removed = json!([{"user_id": "bob", "reason": "removed"}]);
    assert_eq!((&added["added"], &added["not_added"]), (&json!(["dave"]), &removed));
    let members = bench.ok("alice", about("members", &id)).await["members"].as_array().unwrap().len();
    assert_eq!(members, 3);
    assert_eq!(bench.ok("alice", add("a2", &["bob"])).await["added"], json!(["bob"]));
    // From there on it is as if it had never been.
    bench.ok("bob", about("leave", &id)).await;
    bench.ok("bob", about("join", &id)).await;
    assert_eq!(row(&bench, "bob").await["role"], "member");
}

#[tokio::test]
async fn a_join_beside_a_removal_does_not_undo_it() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    // One device of bob's is on its way in. Another one is quicker, and he is removed then.
    let hold = bench.aws.hold_next("TransactWriteItems");
    let removal = async {
        hold.reached().await;
        bench.ok("bob", about("join", &id)).await;
        bench.ok("alice", frame("remove", &id, &json!({"client_msg_id": "x1", "user_id": "bob"}))).await;
        hold.release();
    };
    let (refused, ()) = tokio::join!(bench.refused("bob", about("join", &id)), removal);
    assert_eq!(refused, "forbidden");
    assert_eq!(bench.refused("bob", about("history", &id)).await, "not_member");
}

#[tokio::test]
async fn channels_that_others_put_a_user_into_leave_room_for_what_they_join_and_make() {
    let bench = Workbench::default();
    let create = |id: &str, members: &[&str]| json!({"action": "create", "kind": "channel", "client_msg_id": id, "title": "x", "members": members, "join": "open"});
    let first = bench.ok("mallory", create("c0", &["bob"])).await["conversation_id"].clone();
    let rows = bench.aws.raw_rows("InboxTable");
    let added = rows.iter().find(|row| row["user_id"]["S"] == "bob").unwrap();
    let copies: Vec<Value> = (1..200)
        .map(|number| {
            let mut row = added.clone();
            row["conversation_id"] = json!({"S": format!("ch_copy{number}")});
            row
        })
        .collect();
    bench.aws.put_rows("InboxTable", &copies);
    let full = json!([{"user_id": "bob", "reason": "limit_reached"}]);
    // He is left out, and the others are not.
    let made = bench.ok("alice", create("c1", &["bob", "carol"])).await;
    assert_eq!((&made["seq"], &made["not_added"]), (&json!(1), &full));
    assert_eq!(bench.ok("alice", create("c1", &["bob", "carol"])).await["not_added"], full, "again");
    let id = made["conversation_id"].clone();
    assert_eq!(row(&bench, "carol").await["last_message"]["system"]["members"], json!(["alice", "carol"]));
    let added = bench.ok("alice", frame("add", &id, &json!({"client_msg_id": "a1", "members": ["dave", "bob"]}))).await;
    assert_eq!((&added["added"], &added["not_added"]), (&json!(["dave"]), &full));
    // Channels that bob joins or makes himself do not count.
    bench.ok("bob", about("join", &id)).await;
    bench.ok("bob", create("c2", &[])).await;
    // After bob has left one of the channels, another user can add him to one.
    bench.ok("bob", about("leave", &first)).await;
    let added = bench.ok("mallory", frame("add", &first, &json!({"client_msg_id": "a2", "members": ["bob"]}))).await;
    assert_eq!(added["added"], json!(["bob"]));
}

#[tokio::test]
async fn who_left_a_channel_deletes_what_they_wrote_and_nothing_else() {
    let bench = Workbench::default();
    let id = channel(&bench, &json!({"join": "open", "post": "all"})).await;
    bench.ok("bob", about("join", &id)).await;
    bench.ok("bob", say(&id, "m1", "mine")).await;
    bench.ok("alice", say(&id, "m2", "hers")).await;
    bench.ok("bob", about("leave", &id)).await;
    bench.ok("alice", say(&id, "m3", "later")).await;
    let delete = |seq: u64, key: &str| frame("delete", &id, &json!({"seq": seq, "client_msg_id": key}));
    for (user, seq) in [("bob", 3), ("bob", 9), ("mallory", 2)] {
        assert_eq!(bench.refused(user, delete(seq, "d0")).await, "not_member");
    }
    assert_eq!(bench.ok("bob", delete(2, "d1")).await["seq"], 2);
    let all = bench.ok("alice", about("history", &id)).await["messages"].clone();
    assert_eq!(
        (&all[1]["body"], &all[1]["deleted_by"], &all[4]["kind"]),
        (&json!(""), &json!("bob"), &json!("delete"))
    );
}

#[tokio::test]
async fn a_fanout_that_fails_in_the_middle_goes_on_there() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    let users: Vec<String> = (0..40).map(|number| format!("u{number}")).collect();
    for user in &users {
        bench.connected(user).await;
        bench.ok(user, about("join", &id)).await;
        assert_eq!(bench.ok(user, about("watch", &id)).await["live"], true);
    }
    bench.ok("alice", say(&id, "m1", "hi")).await;
    let batch = json!({"Records": bench.aws.heads()});
    // The write fails that records the posts of the fourth part.
    (0..3).for_each(|_| bench.aws.pass_next("UpdateItem"));
    bench.aws.fail_next("UpdateItem", Fault::Status(500));
    assert_eq!(bench.started().fanout(batch).await, json!([]), "no other channel waits for it");
    bench.ok("alice", say(&id, "m2", "more")).await;
    assert_eq!(bench.fanout().await, json!([]));
    let times = |seq: u64| -> Vec<usize> {
        let of = |user: &String| told(&bench, &format!("{user}=")).into_iter().filter(|one| *one == seq).count();
        users.iter().map(of).collect()
    };
    assert!(times(3).iter().all(|times| *times == 1));
    let first = times(2);
    assert!(first.iter().all(|times| (1..=2).contains(times)), "{first:?}");
    let twice = first.iter().filter(|times| **times == 2).count();
    assert!((1..20).contains(&twice), "only those of that part: {first:?}");
}

#[tokio::test]
async fn a_dead_connection_watches_no_more_nor_does_one_that_has_ended_or_closed() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    for user in ["bob", "carol", "dave"] {
        bench.connected(user).await;
        bench.ok(user, about("join", &id)).await;
        bench.ok(user, about("watch", &id)).await;
    }
    let watchers = || -> Vec<Value> {
        let rows = bench.aws.rows("WatchersTable");
        rows.iter().filter_map(|row| row.get("user_id").cloned()).collect()
    };
    let mut event = bench.event("disconnect", "dave");
    event.payload.request_context.connection_id = Some("dave=".to_owned());
    assert_eq!(bench.handle("disconnect", event).await.unwrap().status_code, 200);
    assert_eq!(watchers().len(), 2);
    bench.aws.fail_next("bob=", Fault::Status(410));
    bench.ok("alice", say(&id, "m1", "hi")).await;
    bench.fanout().await;
    assert_eq!(watchers(), [json!("carol")]);
    bench.clock.advance(Duration::from_hours(3));
    bench.ok("alice", say(&id, "m2", "hi")).await;
    bench.fanout().await;
    assert_eq!((watchers().len(), told(&bench, "carol=")), (0, vec![2]));
}

#[tokio::test]
async fn a_connection_that_is_replaced_leaves_its_place_among_the_watchers() {
    let bench = Workbench::limited(Limits { connections: 1, ..Limits::default() });
    let id = open(&bench).await;
    bench.connected("bob").await;
    bench.ok("bob", about("join", &id)).await;
    bench.ok("bob", about("watch", &id)).await;
    assert_eq!(bench.aws.rows("WatchersTable").len(), 1);
    bench.started().connected_at("bob", "another=", "second").await;
    assert_eq!(bench.aws.closed(), ["bob="]);
    assert_eq!(bench.aws.rows("WatchersTable"), Vec::<Value>::new());
}

#[tokio::test]
async fn an_add_that_is_refused_leaves_no_names_in_the_directory() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    let add = |members: &[String]| frame("add", &id, &json!({"client_msg_id": "a1", "members": members}));
    bench.ok("alice", add(&["bob".to_owned()])).await;
    for round in 0..3 {
        let strangers: Vec<String> = (0..50).map(|number| format!("u{round}-{number}")).collect();
        assert_eq!(bench.refused("alice", add(&strangers)).await, "id_reused");
    }
    assert_eq!(bench.aws.rows("MembersTable").len(), 2);
}

#[tokio::test]
async fn a_connection_watches_so_many_and_one_that_is_gone_none() {
    let bench = Workbench::default();
    bench.connected("alice").await;
    let mut ids = vec![];
    for number in 0..9 {
        let create = json!({"action": "create", "kind": "channel", "client_msg_id": format!("c{number}"), "title": "x",
            "members": ["bob"]});
        ids.push(bench.ok("alice", create).await["conversation_id"].take());
    }
    for (number, id) in ids.iter().enumerate() {
        let watching = bench.ok("alice", about("watch", id)).await;
        assert_eq!(
            (&watching["live"], &watching["poll_ms"]),
            (&json!(number < 8), &json!(if number < 8 { 60_000 } else { 10_000 }))
        );
    }
    assert_eq!(bench.ok("alice", about("watch", &ids[0])).await["live"], true, "again");
    bench.ok("alice", about("unwatch", &ids[0])).await;
    assert_eq!(bench.ok("alice", about("watch", &ids[8])).await["live"], true);
    assert_eq!(bench.ok("bob", about("watch", &ids[0])).await["live"], false, "his connection has no row");
    let watchers = bench.aws.rows("WatchersTable");
    assert_eq!(watchers.len(), 8);
    assert!(watchers.iter().all(|row| row["user_id"] == "alice"));
}

#[tokio::test]
async fn who_may_what_in_a_channel() {
    let bench = Workbench::default();
    let id = channel(&bench, &json!({})).await;
    // The refusal is the same as for a channel that does not exist.
    for id in [&id, &json!("ch_of-nobody")] {
        assert_eq!(bench.refused("bob", about("join", id)).await, "not_member");
    }
    let fifty: Vec<String> = (0..49).map(|number| format!("u{number}")).chain(["bob".to_owned()]).collect();
    let add =
        |id: &Value, key: &str, members: &Value| frame("add", id, &json!({"client_msg_id": key, "members": members}));
    let added = bench.ok("alice", add(&id, "a1", &json!(fifty))).await;
    assert_eq!((&added["seq"], added["added"].as_array().unwrap().len()), (&json!(2), 50));
    assert_eq!(row(&bench, "bob").await["first_seq"], 2);
    assert_eq!(bench.ok("bob", about("join", &id)).await, json!({"last_seq": 2}), "who is a member is one");
    for refused in [
        say(&id, "x", "x"),
        add(&id, "x", &json!(["carol"])),
        frame("update", &id, &json!({"client_msg_id": "x", "join": "open"})),
        frame("remove", &id, &json!({"client_msg_id": "x", "user_id": "u1"})),
    ] {
        assert_eq!(bench.refused("bob", refused).await, "forbidden");
    }
    for wrong in [
        up_to("ack", &id, 1),
        about("receipts", &id),
        json!({"action": "channels", "cursor": "gr_of-no-channel"}),
        frame("reactions", &id, &json!({"seq": 1})),
        frame("send", &id, &json!({"client_msg_id": "x", "kind": "text", "body": "x", "mentions": ["bob"]})),
    ] {
        assert_eq!(bench.refused("alice", wrong).await, "bad_request");
    }
    let of_group = json!({"action": "create", "client_msg_id": "g", "title": "x", "members": [], "join": "open"});
    assert_eq!(bench.refused("alice", of_group).await, "bad_request");
    bench.ok("alice", frame("update", &id, &json!({"client_msg_id": "u1", "join": "open", "post": "all"}))).await;
    bench.ok("carol", about("join", &id)).await;
    bench.ok("carol", say(&id, "m1", "hi")).await;
    bench.ok("alice", frame("role", &id, &json!({"client_msg_id": "o1", "user_id": "carol", "role": "owner"}))).await;
    assert_eq!(
        (&row(&bench, "carol").await["role"], &row(&bench, "alice").await["role"]),
        (&json!("owner"), &json!("admin"))
    );
    bench.ok("alice", about("leave", &id)).await;
    let gone = frame("role", &id, &json!({"client_msg_id": "o2", "user_id": "alice", "role": "admin"}));
    assert_eq!(bench.refused("carol", gone).await, "gone");
    bench.ok("mallory", json!({"action": "settings", "user_id": "carol", "set": {"blocked": true}})).await;
    assert_eq!(bench.refused("carol", add(&id, "a2", &json!(["mallory"]))).await, "forbidden");
}

#[tokio::test]
async fn who_was_made_the_owner_of_a_channel_and_left_behind_in_it_may_leave() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    bench.ok("bob", about("join", &id)).await;
    bench.ok("alice", frame("role", &id, &json!({"client_msg_id": "o1", "user_id": "bob", "role": "owner"}))).await;
    assert_eq!(bench.refused("bob", about("leave", &id)).await, "forbidden", "alice could have it back");
    bench.ok("alice", about("leave", &id)).await;
    // Another write of the row is under way.
    bench.aws.fail_next("DeleteItem", Fault::Conflict);
    bench.ok("bob", about("leave", &id)).await;
    assert_eq!(bench.refused("bob", about("members", &id)).await, "not_member");
    assert_eq!(bench.ok("bob", json!({"action": "channels"})).await["conversations"], json!([]));
}

#[tokio::test]
async fn reactions_are_counted_once_for_each_member_and_are_no_entries() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    for user in ["bob", "carol"] {
        bench.ok(user, about("join", &id)).await;
    }
    let sent = bench.ok("alice", say(&id, "m1", "hi")).await;
    let react = |key: &str, emoji: Value| frame("react", &id, &json!({"seq": 2, "client_msg_id": key, "emoji": emoji}));
    let shown = async |user: &str| {
        let page = bench.ok(user, frame("history", &id, &json!({"limit": 1}))).await;
        page["messages"][0]["reactions"].clone()
    };
    let answer = bench.ok("bob", react("r1", json!("👍"))).await;
    assert_eq!(
        (&answer["seq"], &answer["message_id"], &answer["duplicate"]),
        (&json!(2), &sent["message_id"], &json!(false))
    );
    assert_eq!(bench.ok("bob", react("r1", json!("👍"))).await["duplicate"], true);
    assert_eq!(bench.refused("bob", react("r1", json!("🎉"))).await, "id_reused");
    bench.ok("bob", react("r2", json!("👍"))).await;
    bench.ok("carol", react("r1", json!("👍"))).await;
    assert_eq!(shown("bob").await, json!([{"emoji": "👍", "count": 2, "mine": true}]));
    assert_eq!(shown("alice").await, json!([{"emoji": "👍", "count": 2, "mine": false}]));
    bench.ok("bob", react("r3", json!("🎉"))).await;
    assert_eq!(
        shown("carol").await,
        json!([{"emoji": "🎉", "count": 1, "mine": false}, {"emoji": "👍", "count": 1, "mine": true}])
    );
    bench.ok("bob", react("r4", Value::Null)).await;
    bench.ok("carol", react("r2", Value::Null)).await;
    assert_eq!(shown("bob").await, Value::Null);
    // Two concurrent reactions both count.
    let hold = bench.aws.hold_next("TransactWriteItems");
    let other = async {
        hold.reached().await;
        bench.ok("carol", react("r5", json!("👍"))).await;
        hold.release();
    };
    tokio::join!(bench.ok("bob", react("r5", json!("👍"))), other);
    assert_eq!(shown("bob").await[0]["count"], 2);
    assert_eq!(bench.aws.rows("MessagesTable").len(), 2);
    bench.ok("alice", frame("delete", &id, &json!({"seq": 2, "client_msg_id": "d1"}))).await;
    assert_eq!(bench.refused("bob", react("r6", json!("👍"))).await, "gone");
    bench.ok("bob", about("leave", &id)).await;
    assert_eq!(bench.ok("bob", react("r1", json!("👍"))).await["duplicate"], true, "it keeps its answer");
    assert_eq!(bench.refused("bob", react("r6", json!("👍"))).await, "not_member");
    assert!(!format!("{:?}", bench.aws.rows("MessagesTable")).contains("reaction_counts"));
    assert_eq!(bench.refused("mallory", react("r6", json!("👍"))).await, "not_member");
}

#[tokio::test]
async fn reactions_that_an_earlier_version_spelt_otherwise_count_with_the_others_and_are_taken_back() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    bench.ok("bob", about("join", &id)).await;
    bench.ok("alice", say(&id, "m1", "hi")).await;
    let react = |key: &str, emoji: Value| frame("react", &id, &json!({"seq": 2, "client_msg_id": key, "emoji": emoji}));
    bench.ok("bob", react("r1", json!("❤\u{fe0f}"))).await;
    for table in ["MessagesTable", "IdempotencyTable"] {
        for row in bench.aws.raw_rows(table) {
            let spelt = row.to_string().replace("❤\u{fe0f}", "❤");
            bench.aws.put_rows(table, &[serde_json::from_str(&spelt).unwrap()]);
        }
    }
    bench.ok("alice", react("r1", json!("❤"))).await;
    let shown = async |user: &str| {
        let page = bench.ok(user, frame("history", &id, &json!({"limit": 1}))).await;
        page["messages"][0]["reactions"].clone()
    };
    assert_eq!(shown("bob").await, json!([{"emoji": "❤\u{fe0f}", "count": 2, "mine": true}]));
    bench.ok("bob", react("r2", Value::Null)).await;
    assert_eq!(shown("bob").await, json!([{"emoji": "❤\u{fe0f}", "count": 1, "mine": false}]));
}

#[tokio::test]
async fn settings_of_a_channel_and_what_its_reader_is_told() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    bench.started().connected_at("alice", "alice=2", "second").await;
    let set = |set: Value| frame("settings", &id, &json!({"set": set}));
    bench.ok("alice", set(json!({"muted_until": "forever", "archived": true}))).await;
    let alices = row(&bench, "alice").await;
    assert_eq!((&alices["muted_until"], &alices["archived"]), (&json!("forever"), &json!(true)));
    bench.ok("alice", say(&id, "m1", "hi")).await;
    assert_eq!(row(&bench, "alice").await.get("archived"), None);
    bench.ok("alice", set(json!({"muted_until": null, "archived": false}))).await;
    assert_eq!(row(&bench, "alice").await.get("muted_until"), None);
    assert_eq!(bench.refused("bob", set(json!({"archived": true}))).await, "not_member");
    bench.ok("alice", up_to("read", &id, 2)).await;
    let frames = bench.aws.frames("alice=2");
    let read = frames.iter().find(|frame| frame["type"] == "receipt.read").unwrap();
    assert_eq!((&read["seq"], &read["user_id"]), (&json!(2), &json!("alice")));
}

#[tokio::test]
async fn a_read_of_a_channel_that_does_not_raise_the_mark_is_told_again_once_in_five_seconds_and_for_a_minute() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    bench.ok("alice", say(&id, "m1", "hi")).await;
    bench.ok("bob", about("join", &id)).await;
    bench.ok("alice", say(&id, "m2", "hi")).await;
    bench.connected("alice").await;
    bench.started().connected_at("bob", "bob=2", "second").await;
    let functions = bench.started();
    let told = || bench.aws.frames("bob=2").iter().filter(|frame| frame["type"] == "receipt.read").count();
    let ten_times = async || {
        for _ in 0..10 {
            functions.ok("bob", up_to("read", &id, 3)).await;
        }
    };
    ten_times().await;
    assert_eq!(told(), 2, "the mark rose; a repetition may be of a run that stopped before the receipt");
    assert_eq!(bench.posted("alice"), Vec::<String>::new(), "the author gets no receipt");
    bench.clock.advance(Duration::from_secs(5));
    ten_times().await;
    assert_eq!(told(), 3);
    bench.clock.advance(Duration::from_mins(1));
    ten_times().await;
    bench.ok("bob", up_to("read", &id, 2)).await;
    assert_eq!(told(), 3);
    bench.ok("alice", say(&id, "m3", "hi")).await;
    functions.ok("bob", up_to("read", &id, 4)).await;
    assert_eq!(told(), 4);
}

#[tokio::test]
async fn the_list_shows_nothing_from_after_a_removal() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    bench.ok("bob", about("join", &id)).await;
    let hold = bench.aws.hold_next("BatchGetItem");
    let removal = async {
        hold.reached().await;
        bench.ok("alice", frame("remove", &id, &json!({"client_msg_id": "x1", "user_id": "bob"}))).await;
        bench.ok("alice", say(&id, "m1", "secret")).await;
        hold.release();
    };
    let (listed, ()) = tokio::join!(bench.ok("bob", json!({"action": "channels"})), removal);
    assert_eq!(listed["conversations"], json!([]));
}

#[tokio::test]
async fn a_user_has_so_many_channels_in_pages_that_fit_a_frame() {
    let bench = Workbench::default();
    let title = "€".repeat(64);
    let mut ids = vec![];
    for number in 0..201 {
        // Each of another user's: a user makes no more either.
        let create = json!({"action": "create", "kind": "channel", "client_msg_id": format!("c{number}"), "title": title,
            "members": [], "join": "open"});
        ids.push(bench.ok(&format!("owner{}", number / 200), create).await["conversation_id"].take());
    }
    for id in &ids[..200] {
        bench.ok("bob", about("join", id)).await;
    }
    assert_eq!(bench.refused("bob", about("join", &ids[200])).await, "limit_reached");
    let (mut listed, mut cursor, mut pages) = (vec![], Value::Null, 0);
    loop {
        let answer = bench.run("bob", json!({"action": "channels", "cursor": cursor})).await;
        assert!(answer.to_string().len() <= 32 * 1024);
        listed.extend(answer["result"]["conversations"].as_array().unwrap().clone());
        pages += 1;
        cursor = answer["result"]["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert!(pages > 1);
    let listed: std::collections::BTreeSet<String> =
        listed.iter().map(|row| row["conversation_id"].to_string()).collect();
    assert_eq!(listed, ids[..200].iter().map(ToString::to_string).collect());
}

#[tokio::test]
async fn a_part_has_room_for_so_many_and_who_has_ended_takes_none() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let id = open(&bench).await;
    bench.ok("bob", about("join", &id)).await;
    bench.ok("bob", about("watch", &id)).await;
    let own = bench.aws.raw_rows("WatchersTable").into_iter().next().unwrap();
    bench.ok("bob", about("unwatch", &id)).await;
    let crowd = |ends_at: &Value| -> Vec<Value> {
        let other = |number: u32| {
            let mut row = own.clone();
            row["connection_id"]["S"] = json!(format!("c{number}="));
            row["ends_at"] = ends_at.clone();
            row
        };
        (0..250).map(other).collect()
    };
    bench.aws.put_rows("WatchersTable", &crowd(&own["ends_at"]));
    let full = bench.ok("bob", about("watch", &id)).await;
    assert_eq!(full, json!({"live": false, "last_seq": 1, "poll_ms": 10_000}));
    let watch = bench.aws.rows("WatchersTable").into_iter().filter(|row| row.get("user_id").is_some());
    assert_eq!(watch.count(), 250, "nothing is left of it");
    assert!(bench.aws.rows("ConnectionsTable").iter().all(|row| row.get("watching").is_none()));
    bench.aws.put_rows("WatchersTable", &crowd(&json!({"N": "1"})));
    assert_eq!(bench.ok("bob", about("watch", &id)).await["live"], true);
}

#[tokio::test]
async fn the_more_are_turned_away_the_less_often_each_asks() {
    let bench = Workbench::default();
    bench.connected("bob").await;
    let id = open(&bench).await;
    bench.ok("bob", about("join", &id)).await;
    bench.ok("bob", about("watch", &id)).await;
    let own = bench.aws.raw_rows("WatchersTable").into_iter().next().unwrap();
    let crowd: Vec<Value> = (0..251)
        .map(|number| {
            let mut row = own.clone();
            row["connection_id"]["S"] = json!(format!("c{number}="));
            row
        })
        .collect();
    bench.aws.put_rows("WatchersTable", &crowd);
    let poll_ms = async || bench.ok("bob", about("watch", &id)).await["poll_ms"].as_u64().unwrap();
    let count = || {
        let rows = bench.aws.raw_rows("WatchersTable");
        rows.into_iter().find(|row| row.get("turned_away").is_some()).unwrap()
    };
    assert_eq!(poll_ms().await, 10_000);
    assert_eq!(count()["turned_away"]["N"], "1");
    // In each of eight parts.
    let mut many = count();
    many["turned_away"]["N"] = json!("3124");
    bench.aws.put_rows("WatchersTable", &[many.clone()]);
    assert_eq!(poll_ms().await, 100_000);
    many["turned_away"]["N"] = json!("1000000");
    bench.aws.put_rows("WatchersTable", &[many]);
    assert_eq!(poll_ms().await, 600_000);
    // All subscribers have renewed their subscription since.
    bench.clock.advance(Duration::from_hours(3));
    for row in bench.aws.raw_rows("WatchersTable").iter_mut().filter(|row| row.get("user_id").is_some()) {
        row["ends_at"]["N"] = json!(bench.clock.now().plus(Duration::from_hours(1)).millis().to_string());
        bench.aws.put_rows("WatchersTable", std::slice::from_ref(row));
    }
    assert_eq!(poll_ms().await, 10_000);
    assert_eq!(count()["turned_away"]["N"], "1");
    // A subscriber does not read the count.
    bench.ok("alice", say(&id, "m1", "hi")).await;
    assert_eq!(bench.fanout().await, json!([]));
}

#[tokio::test]
async fn a_reaction_that_meets_others_again_and_again_is_told_so_at_once() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    bench.ok("alice", say(&id, "m1", "hi")).await;
    bench.aws.fail_always("TransactWriteItems", Fault::Conflict);
    bench.operations();
    let react = frame("react", &id, &json!({"seq": 2, "client_msg_id": "r1", "emoji": "👍"}));
    assert_eq!(bench.refused("alice", react).await, "conflict");
    let tries = bench.operations().iter().filter(|operation| *operation == "TransactWriteItems").count();
    assert_eq!(tries, 2);
}

#[tokio::test]
async fn a_member_who_reacts_on_two_devices_at_once_is_counted_once_and_nobody_after_a_delete() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    for user in ["bob", "carol"] {
        bench.ok(user, about("join", &id)).await;
    }
    bench.ok("alice", say(&id, "m1", "hi")).await;
    let react = |key: &str| frame("react", &id, &json!({"seq": 2, "client_msg_id": key, "emoji": "👍"}));
    bench.ok("alice", react("r0")).await;
    let hold = bench.aws.hold_next("TransactWriteItems");
    let other = async {
        hold.reached().await;
        bench.ok("bob", react("r2")).await;
        hold.release();
    };
    tokio::join!(bench.ok("bob", react("r1")), other);
    let page = bench.ok("bob", frame("history", &id, &json!({"limit": 1}))).await;
    assert_eq!(page["messages"][0]["reactions"], json!([{"emoji": "👍", "count": 2, "mine": true}]));
    // The first message has reactions, and the second has none yet.
    bench.ok("alice", say(&id, "m2", "well?")).await;
    for (seq, key) in [(2, "d1"), (3, "d2")] {
        let react = frame("react", &id, &json!({"seq": seq, "client_msg_id": format!("r-{key}"), "emoji": "👍"}));
        let hold = bench.aws.hold_next("TransactWriteItems");
        let delete = async {
            hold.reached().await;
            bench.ok("alice", frame("delete", &id, &json!({"seq": seq, "client_msg_id": key}))).await;
            hold.release();
        };
        let (refused, ()) = tokio::join!(bench.refused("carol", react), delete);
        assert_eq!(refused, "gone", "{seq}");
    }
    assert!(bench.aws.rows("MessagesTable").iter().all(|row| row.get("reaction_counts").is_none()));
}

#[tokio::test]
async fn who_joins_while_they_are_added_stays_what_they_were_made() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    let hold = bench.aws.hold_next("TransactWriteItems");
    let promotion = async {
        hold.reached().await;
        bench.ok("alice", frame("add", &id, &json!({"client_msg_id": "a1", "members": ["carol"]}))).await;
        bench
            .ok("alice", frame("role", &id, &json!({"client_msg_id": "o1", "user_id": "carol", "role": "admin"})))
            .await;
        hold.release();
    };
    tokio::join!(bench.ok("carol", about("join", &id)), promotion);
    assert_eq!(row(&bench, "carol").await["role"], "admin");
}

#[tokio::test]
async fn who_joins_on_two_devices_at_once_is_in_no_directory_once_they_have_left() {
    for leaves_meanwhile in [false, true] {
        let bench = Workbench::default();
        let id = open(&bench).await;
        let hold = bench.aws.hold_next("TransactWriteItems");
        let other = async {
            hold.reached().await;
            bench.clock.advance(Duration::from_secs(1));
            bench.ok("carol", about("join", &id)).await;
            if leaves_meanwhile {
                bench.ok("carol", about("leave", &id)).await;
            }
            hold.release();
        };
        tokio::join!(bench.ok("carol", about("join", &id)), other);
        bench.ok("carol", about("leave", &id)).await;
        let listed: Vec<_> = bench.aws.rows("MembersTable").into_iter().map(|row| row["user_id"].clone()).collect();
        assert_eq!(listed, ["alice"], "left meanwhile: {leaves_meanwhile}");
    }
}

#[tokio::test]
async fn who_joins_beside_an_addition_that_comes_to_nothing_is_a_member() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    // Another transaction is just writing the row, and will be cancelled.
    bench.aws.fail_next("TransactWriteItems", Fault::Conflict);
    bench.ok("bob", about("join", &id)).await;
    assert_eq!(row(&bench, "bob").await["conversation_id"], id);
}

#[tokio::test]
async fn who_comes_back_while_they_leave_is_listed() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    bench.ok("carol", about("join", &id)).await;
    bench.aws.pass_next("DeleteItem");
    let hold = bench.aws.hold_next("DeleteItem");
    let back = async {
        hold.reached().await;
        bench.clock.advance(Duration::from_secs(1));
        bench.ok("carol", about("join", &id)).await;
        hold.release();
    };
    tokio::join!(bench.ok("carol", about("leave", &id)), back);
    let members = bench.ok("alice", about("members", &id)).await;
    assert_eq!(members["members"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn rows_of_a_later_version_are_passed_over_and_others_are_served() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    for user in ["bob", "carol"] {
        bench.connected(user).await;
        bench.ok(user, about("join", &id)).await;
        bench.ok(user, about("watch", &id)).await;
    }
    let mut rows = bench.aws.raw_rows("InboxTable");
    for row in rows.iter_mut().filter(|row| row["user_id"]["S"] == "bob") {
        (row["v"], row["read_counted"]) = (json!({"N": "2"}), json!({"S": "many"}));
    }
    bench.aws.put_rows("InboxTable", &rows);
    assert_eq!(bench.ok("bob", json!({"action": "channels"})).await["conversations"], json!([]));
    bench.ok("alice", say(&id, "m1", "hi")).await;
    assert_eq!(bench.fanout().await, json!([]));
    assert_eq!((told(&bench, "bob="), told(&bench, "carol=")), (vec![], vec![2]));
    assert_eq!(bench.ok("carol", about("members", &id)).await["members"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn what_comes_while_somebody_begins_to_watch_is_told_or_in_the_answer() {
    let bench = Workbench::default();
    let id = open(&bench).await;
    bench.connected("bob").await;
    bench.ok("bob", about("join", &id)).await;
    // Each part has a subscriber.
    for number in 0..40 {
        let user = format!("u{number}");
        bench.connected(&user).await;
        bench.ok(&user, about("join", &id)).await;
        bench.ok(&user, about("watch", &id)).await;
    }
    let hold = bench.aws.hold_next("PutItem");
    let post = async {
        hold.reached().await;
        bench.ok("alice", say(&id, "m1", "hi")).await;
        assert_eq!(bench.fanout().await, json!([]));
        hold.release();
    };
    let (watching, ()) = tokio::join!(bench.ok("bob", about("watch", &id)), post);
    assert!(watching["last_seq"] == 2 || told(&bench, "bob=") == [2], "{watching}");
}
