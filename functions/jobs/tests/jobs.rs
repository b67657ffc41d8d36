//! Jobs, and the erasure of a user from all tables.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use serde_json::{Value, json};
use testkit::{Fault, Workbench, message_to_bob};

const TABLES: [&str; 12] = [
    "ConnectionsTable",
    "MessagesTable",
    "IdempotencyTable",
    "InboxTable",
    "DevicesTable",
    "AuditTable",
    "ConversationsTable",
    "MembersTable",
    "MediaTable",
    "WatchersTable",
    "KeysTable",
    "EpochsTable",
];
/// In each text of the user who is erased.
const CANARY: &str = "canary";

/// The rows of all tables that have the user's id or words, but those that keep the id on purpose.
fn tainted(bench: &Workbench) -> Vec<String> {
    let is_kept = |row: &Value| {
        let partition = row["conversation_id"].as_str().unwrap_or_default();
        partition == "ledger" || partition.starts_with("job ") || row["connection_id"] == " suspension"
    };
    let rows = TABLES.iter().flat_map(|table| bench.aws.rows(table).into_iter().map(move |row| (table, row)));
    let rows = rows.filter(|(_, row)| !is_kept(row)).map(|(table, row)| format!("{table} {row}"));
    rows.filter(|row| row.contains("alice") || row.contains(CANARY)).collect()
}

async fn admin(bench: &Workbench, request: Value) -> Value {
    bench.started().admin(request).await
}

async fn erase(bench: &Workbench, user: &str) -> (String, String) {
    let begun = admin(bench, json!({"op": "erase", "user_id": user})).await["result"].take();
    let text = |name: &str| begun[name].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
    (text("job_id"), text("erased_id"))
}

async fn state(bench: &Workbench, job: &str) -> Value {
    admin(bench, json!({"op": "job", "job_id": job})).await["result"].take()
}

fn to(user: &str, id: &str) -> Value {
    json!({"action": "send", "to": user, "client_msg_id": id, "kind": "text", "body": format!("{CANARY} {id}")})
}

/// Alice has written all kinds of things to bob, to herself and to a stranger; and others about her. Her conversation with
/// bob.
async fn busy_alice(bench: &Workbench) -> Value {
    let conversation = bench.ok("alice", to("bob", "m1")).await["conversation_id"].take();
    let about = |action: &str, seq: u64, id: &str, more: Value| {
        let mut frame = json!({"action": action, "conversation_id": conversation, "seq": seq, "client_msg_id": id});
        frame.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        frame
    };
    bench
        .ok("bob", json!({"action": "send", "to": "alice", "client_msg_id": "b1", "kind": "text", "body": "hi"}))
        .await;
    bench.ok("alice", to("bob", "m2")).await;
    bench.ok("alice", about("edit", 1, "e1", json!({"body": format!("{CANARY} again")}))).await;
    bench.ok("alice", about("react", 2, "r1", json!({"emoji": "👍"}))).await;
    bench.ok("bob", about("react", 3, "r2", json!({"emoji": "👎"}))).await;
    bench.ok("alice", to("bob", "m3")).await;
    bench.ok("alice", about("delete", 7, "d1", json!({}))).await;
    bench.ok("alice", to("bob", "m4")).await;
    bench.ok("alice", to("alice", "n1")).await;
    let set = json!({"action": "settings", "user_id": "carol", "set": {"blocked": true}});
    bench.ok("alice", set).await;
    bench.ok("alice", json!({"action": "profile", "set": {"name": format!("Alice {CANARY}")}})).await;
    bench.ok("alice", json!({"action": "report", "user_id": "bob", "reason": "spam"})).await;
    bench.register("alice", "phone-of-alice", json!({})).await;
    let by_service =
        json!({"op": "send", "as": "@shop", "to": "alice", "client_msg_id": "s1", "kind": "text", "body": CANARY});
    assert!(admin(bench, by_service).await["result"].is_object());
    conversation
}

#[tokio::test(start_paused = true)]
async fn nothing_of_an_erased_user_is_in_any_table() {
    let bench = Workbench::publishing();
    busy_alice(&bench).await;
    for table in ["MessagesTable", "InboxTable", "AuditTable", "IdempotencyTable", "DevicesTable", "ConversationsTable"]
    {
        assert!(tainted(&bench).iter().any(|row| row.starts_with(table)), "the control finds nothing in {table}");
    }
    let (job, gone) = erase(&bench, "alice").await;
    assert!(gone.starts_with("@gone-") && gone.len() == 22);
    assert!(bench.jobs().await > 2, "each saved step is the next record");
    let done = state(&bench, &job).await;
    assert_eq!(
        (&done["op"], &done["state"], &done["counts"]["conversations"]),
        (&json!("erase"), &json!("done"), &json!(3))
    );
    assert!(done["complete_at"].is_string());
    let left = tainted(&bench);
    assert!(left.is_empty(), "{left:#?}");
    assert!(bench.aws.with_sns(|sns| sns.pushes().is_empty()));
    let jobs = bench.aws.rows("AuditTable");
    assert!(jobs.iter().all(|row| row["conversation_id"] != "jobs"), "no job is under way");
}

#[tokio::test(start_paused = true)]
async fn each_step_can_be_a_run_of_its_own_or_be_repeated() {
    let bench = Workbench::publishing();
    busy_alice(&bench).await;
    let (job, _) = erase(&bench, "alice").await;
    let functions = bench.started().step_by_step();
    let mut runs = 0;
    loop {
        let records = bench.aws.jobs();
        let Some(record) = records.first() else { break };
        // Two runs for each record: the second one saves nothing, or takes the next step.
        for _ in 0..2 {
            assert_eq!(functions.jobs(json!({ "Records": [record] })).await, json!([]));
            runs += 1;
        }
        assert!(runs < 500, "the job does not end");
    }
    assert!(runs > 20, "{runs}");
    assert_eq!(state(&bench, &job).await["state"], "done");
    assert!(tainted(&bench).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_peer_keeps_the_conversation_without_what_the_user_wrote() {
    let bench = Workbench::publishing();
    let conversation = busy_alice(&bench).await;
    let unread = bench.row("bob")["unread"].clone();
    let (_, gone) = erase(&bench, "alice").await;
    bench.jobs().await;
    let history = bench.ok("bob", json!({"action": "history", "conversation_id": conversation})).await;
    let messages = history["messages"].as_array().unwrap();
    let seen =
        |seq: usize| (&messages[seq - 1]["sender_id"], &messages[seq - 1]["body"], &messages[seq - 1]["deleted_by"]);
    for seq in [1, 3, 9] {
        assert_eq!(seen(seq), (&json!(gone), &json!(""), &json!("@erased")), "{seq}");
    }
    assert_eq!(seen(2), (&json!("bob"), &json!("hi"), &Value::Null));
    assert_eq!(seen(7), (&json!(gone), &json!(""), &json!(gone)), "deleted by its author before");
    let erased = messages.last().unwrap();
    assert_eq!(
        (&erased["kind"], &erased["sender_id"], &erased["user_id"]),
        (&json!("erased"), &json!("@system"), &json!(gone))
    );
    assert_eq!(erased["seqs"], json!([[1, 1], [3, 5], [7, 9]]));
    let rows = bench.ok("bob", json!({"action": "inbox"})).await;
    let row = &rows["conversations"][0];
    assert_eq!((&row["peer_id"], &row["last_message"]["preview"]), (&json!(gone), &json!("")), "{row}");
    assert_eq!(bench.row("bob")["unread"], unread, "emptied messages count until they are read");

    // Nothing reaches the user by the old id, by the new one, or by the conversation. Bob can delete his own message.
    let text = |target: Value| {
        let mut frame = json!({"action": "send", "client_msg_id": "x", "kind": "text", "body": "hi"});
        frame.as_object_mut().unwrap().extend(target.as_object().unwrap().clone());
        frame
    };
    for target in [json!({"to": "alice"}), json!({"to": gone}), json!({"conversation_id": conversation})] {
        assert_eq!(bench.refused("bob", text(target.clone())).await, "forbidden", "{target}");
    }
    assert_eq!(bench.refused("dave", text(json!({"to": "alice"}))).await, "forbidden");
    let by_service =
        json!({"op": "send", "as": "@shop", "to": "alice", "client_msg_id": "s2", "kind": "text", "body": "hi"});
    assert_eq!(admin(&bench, by_service).await["error"]["code"], "forbidden");
    for blocked in [true, false] {
        let set = json!({"action": "settings", "user_id": "alice", "set": {"blocked": blocked}});
        assert_eq!(bench.refused("bob", set).await, "forbidden");
    }
    let delete = json!({"action": "delete", "conversation_id": conversation, "seq": 2, "client_msg_id": "d2"});
    bench.ok("bob", delete).await;
    let delete = json!({"op": "delete_message", "conversation_id": conversation, "seq": 1});
    assert_eq!(admin(&bench, delete).await["error"]["code"], "gone");
    assert!(tainted(&bench).is_empty());
}

/// The steps of both jobs come in turns. Each waits while the other has their conversation.
#[tokio::test(start_paused = true)]
async fn both_members_of_a_conversation_can_be_erased_at_the_same_time() {
    let bench = Workbench::publishing();
    busy_alice(&bench).await;
    let jobs = [erase(&bench, "alice").await.0, erase(&bench, "bob").await.0];
    let functions = bench.started().step_by_step();
    let mut runs = 0;
    loop {
        let records = bench.aws.jobs();
        if records.is_empty() {
            break;
        }
        for record in records {
            assert_eq!(functions.jobs(json!({ "Records": [record] })).await, json!([]));
            runs += 1;
        }
        assert!(runs < 500, "the jobs do not end");
    }
    for job in &jobs {
        assert_eq!(state(&bench, job).await["state"], "done");
    }
    assert!(tainted(&bench).is_empty());
    assert_eq!(bench.aws.rows("MessagesTable"), Vec::<Value>::new(), "the log is nobody's");
    assert_eq!(bench.aws.rows("InboxTable").iter().filter(|row| row["user_id"] != "carol").count(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_erased_user_is_barred_for_ever_and_erased_once() {
    let bench = Workbench::publishing();
    bench.conversation(1).await;
    let first = erase(&bench, "alice").await;
    assert_eq!(erase(&bench, "alice").await, first);
    bench.jobs().await;
    assert_eq!(erase(&bench, "alice").await, first);
    assert_eq!(bench.jobs().await, 0, "there is nothing left to do");
    assert_eq!(admin(&bench, json!({"op": "unsuspend", "user_id": "alice"})).await["error"]["code"], "gone");
    let suspend = json!({"op": "suspend", "user_id": "alice", "until": "2027-02-01T00:00:00Z"});
    assert!(admin(&bench, suspend).await["result"].is_object());
    let listed = admin(&bench, json!({"op": "connections", "user_id": "alice"})).await;
    assert_eq!(listed["result"]["suspended_until"], "9999-12-31T23:59:59.000Z");
    // A user without anything is barred, too.
    let (job, _) = erase(&bench, "nobody").await;
    bench.jobs().await;
    assert_eq!(state(&bench, &job).await["state"], "done");
    for (request, code) in [
        (json!({"op": "erase", "user_id": "@shop"}), "bad_request"),
        (json!({"op": "erase", "user_id": "bob", "reason": "x".repeat(201)}), "bad_request"),
        (json!({"op": "job", "job_id": "j_x"}), "gone"),
        (json!({"op": "hold", "on": true}), "bad_request"),
    ] {
        assert_eq!(admin(&bench, request.clone()).await["error"]["code"], code, "{request}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_held_is_left_and_erased_later() {
    let bench = Workbench::publishing();
    let conversation = bench.conversation(2).await;
    bench.ok("alice", to("carol", "c1")).await;
    let hold = |of: Value, on: bool| {
        let mut request = json!({"op": "hold", "on": on});
        request.as_object_mut().unwrap().extend(of.as_object().unwrap().clone());
        request
    };
    let (user, peer) = (json!({"user_id": "alice"}), json!({"user_id": "carol"}));
    admin(&bench, hold(user.clone(), true)).await;
    assert_eq!(admin(&bench, json!({"op": "erase", "user_id": "alice"})).await["error"]["code"], "forbidden");
    admin(&bench, hold(user, false)).await;
    let of = json!({"conversation_id": conversation});
    admin(&bench, hold(of.clone(), true)).await;
    admin(&bench, hold(peer.clone(), true)).await;
    let begun = erase(&bench, "alice").await;
    bench.jobs().await;
    let left = state(&bench, &begun.0).await;
    assert_eq!(
        (&left["state"], &left["counts"], &left["complete_at"]),
        (&json!("done"), &json!({"held": 2}), &Value::Null)
    );
    assert!(bench.aws.rows("MessagesTable").iter().all(|row| row["emptied_at"].is_null()));
    admin(&bench, hold(of, false)).await;
    admin(&bench, hold(peer, false)).await;
    assert_eq!(erase(&bench, "alice").await, begun, "the same job begins again");
    bench.jobs().await;
    let done = state(&bench, &begun.0).await;
    assert_eq!((&done["counts"]["conversations"], &done["counts"]["held"]), (&json!(2), &Value::Null));
    assert!(done["complete_at"].is_string());
    assert!(tainted(&bench).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_fails_five_times_has_failed_and_can_go_on() {
    let bench = Workbench::publishing();
    bench.ok("alice", message_to_bob("m1")).await;
    let (job, _) = erase(&bench, "alice").await;
    let [record] = bench.aws.jobs().try_into().unwrap();
    bench.aws.fail_if(|call| call.is_about("ConnectionsTable", " suspension").then_some(Fault::Lost));
    for tries in 1..=5 {
        let again = bench.started().jobs(json!({ "Records": [record] })).await;
        assert_eq!(again == json!([]), tries == 5, "try {tries}");
    }
    assert_eq!(bench.aws.given_up(), [json!({ "job_id": job })], "the alarm");
    assert_eq!(state(&bench, &job).await["state"], "failed");
    assert_eq!(bench.jobs().await, 1, "a job that has failed does nothing");
    bench.aws.recover();
    let again = json!({"op": "job", "job_id": job, "again": true});
    assert_eq!(admin(&bench, again).await["result"]["state"], "queued");
    bench.jobs().await;
    assert_eq!(state(&bench, &job).await["state"], "done");
}

/// A later version has written it, or it is damaged.
#[tokio::test(start_paused = true)]
async fn a_job_that_cannot_be_read_fails_with_the_alarm() {
    let bench = Workbench::publishing();
    let (job, _) = erase(&bench, "alice").await;
    let [record] = bench.aws.jobs().try_into().unwrap();
    let mut rows = bench.aws.raw_rows("AuditTable");
    rows.retain(|row| row["conversation_id"]["S"].as_str().unwrap().starts_with("job "));
    rows[0].as_object_mut().unwrap().remove("cursor");
    bench.aws.put_rows("AuditTable", &rows);
    for _ in 0..5 {
        bench.started().jobs(json!({ "Records": [record] })).await;
    }
    assert!(bench.jobs().await > 0, "the damage and the end are records, too");
    assert_eq!(bench.jobs().await, 0, "nothing moves any more");
    assert_eq!(bench.aws.given_up(), [json!({ "job_id": job })]);
    let rows = bench.aws.rows("AuditTable");
    assert!(rows.iter().any(|row| row["state"] == "failed"), "{rows:?}");
    assert!(rows.iter().all(|row| row["conversation_id"] != "jobs"));
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_record_was_lost_comes_back_with_the_daily_rule() {
    let bench = Workbench::publishing();
    bench.conversation(1).await;
    let (job, _) = erase(&bench, "alice").await;
    assert_eq!(bench.aws.jobs().len(), 1, "lost");
    let daily = json!({"daily": true});
    assert_eq!(bench.started().jobs(daily.clone()).await, json!([]));
    assert_eq!(bench.jobs().await, 0, "the job has moved within the hour");
    bench.clock.advance(std::time::Duration::from_secs(3_601));
    bench.started().jobs(daily).await;
    assert!(bench.jobs().await > 2);
    assert_eq!(state(&bench, &job).await["state"], "done");
}

#[tokio::test(start_paused = true)]
async fn erasures_are_repeated_after_tables_were_restored() {
    let bench = Workbench::publishing();
    bench.conversation(1).await;
    let tables = ["MessagesTable", "InboxTable", "IdempotencyTable"];
    let before = tables.map(|table| bench.aws.raw_rows(table));
    let (job, gone) = erase(&bench, "alice").await;
    bench.jobs().await;
    // All tables but the operator's are as they were.
    bench
        .aws
        .remove_row("MessagesTable", &json!({"conversation_id": before[0][0]["conversation_id"], "seq": {"N": "2"}}));
    for (table, rows) in tables.iter().zip(&before) {
        bench.aws.put_rows(table, rows);
    }
    bench
        .aws
        .remove_row("ConnectionsTable", &json!({"user_id": {"S": "alice"}, "connection_id": {"S": " suspension"}}));
    assert!(!tainted(&bench).is_empty());
    let since = |at: &str| json!({"op": "erase_again", "since": at});
    assert_eq!(admin(&bench, since("2099-01-01T00:00:00Z")).await["result"], json!({"jobs": 0}));
    assert_eq!(admin(&bench, since("2020-01-01T00:00:00Z")).await["result"], json!({"jobs": 1}));
    bench.jobs().await;
    assert_eq!(state(&bench, &job).await["state"], "done");
    assert!(tainted(&bench).is_empty());
    assert_eq!(bench.refused("bob", to("alice", "x")).await, "forbidden");
    assert_eq!(erase(&bench, "alice").await, (job, gone));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_leaves_a_group_is_never_complete() {
    let bench = Workbench::publishing();
    bench.ok("alice", json!({"action": "create", "client_msg_id": "g1", "title": "Sea", "members": ["bob"]})).await;
    bench.fanout().await;
    let (job, _) = erase(&bench, "alice").await;
    bench.jobs().await;
    let left = state(&bench, &job).await;
    assert_eq!(
        (&left["state"], &left["counts"]["left"], &left["complete_at"]),
        (&json!("done"), &json!(1), &Value::Null)
    );
}
