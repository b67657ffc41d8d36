//! Costs of each operation: request units, calls, invocations and frames. The counts are exact, so a test pins them.

use std::fmt::Write as _;
use std::pin::Pin;
use std::time::Duration;

use domain::Rate;
use serde_json::{Value, json};
use testkit::{Limits, message, up_to};

use crate::app::{App, Cost, with_conversations};
use crate::aws::MeasuredCall;
use crate::report;

/// Returns all operations with their costs.
pub async fn table() -> String {
    // On the heap: all in one are too large for a test's stack.
    let parts: [Pin<Box<dyn Future<Output = Rows>>>; 18] = [
        Box::pin(sending()),
        Box::pin(limiting()),
        Box::pin(marking()),
        Box::pin(changing()),
        Box::pin(draining()),
        Box::pin(listing()),
        Box::pin(connecting()),
        Box::pin(ringing()),
        Box::pin(publishing()),
        Box::pin(grouping()),
        Box::pin(posting()),
        Box::pin(serving()),
        Box::pin(carrying()),
        Box::pin(claiming()),
        Box::pin(sealing()),
        Box::pin(sealing_files()),
        Box::pin(sealing_groups()),
        Box::pin(sealing_by_files()),
    ];
    let (bar, mut rows) = (report::progress(parts.len()), Rows::new());
    for part in parts {
        rows.extend(part.await);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut table = String::from(
        "| operation | read units: table + index | write units: table + index | calls | Lambdas | frames in | out |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for (name, cost) in rows {
        let Cost { units, calls, invocations, frames_in, frames_out } = cost;
        let both =
            |table: f64, index: f64| if index == 0.0 { format!("{table}") } else { format!("{table} + {index}") };
        let reads = both(units.table_reads, units.index_reads);
        let writes = both(units.table_writes, units.index_writes);
        let _ =
            writeln!(table, "| {name} | {reads} | {writes} | {calls} | {invocations} | {frames_in} | {frames_out} |");
    }
    table
}

pub(crate) type Rows = Vec<(&'static str, Cost)>;

pub(crate) async fn sending() -> Rows {
    let mut app = App::new(None);
    app.online(&["alice", "bob"]).await;
    let mut rows = Rows::new();
    let first = app.message("bob", "hi");
    rows.push(("send: first message of a conversation", app.cost([("alice", first)]).await));
    let (conversation, seq) = app.say("alice", "bob", "hi").await;
    app.ok("bob", up_to("read", &conversation, seq)).await;
    let _ = app.say("alice", "bob", "warm").await;
    app.ok("bob", up_to("read", &conversation, seq + 1)).await;
    let next = app.message("bob", "hi");
    rows.push(("send: next message, earlier ones acknowledged", app.cost([("alice", next.clone())]).await));
    rows.push(("send: duplicate", app.cost([("alice", next)]).await));
    let next = app.message("bob", "hi");
    rows.push(("send: next message, earlier ones pending", app.cost([("alice", next)]).await));
    let next = app.message("bob", "hi");
    rows.push(("send: next message, over HTTP", app.over_http([("alice", next)]).await));
    app.functions.clock.advance(Duration::from_mins(2));
    let next = app.message("bob", "hi");
    rows.push(("send: first message in a minute", app.cost([("alice", next)]).await));
    let next = app.message("carol", "hi");
    app.ok("alice", next).await;
    let next = app.message("carol", "hi");
    rows.push(("send: recipient offline", app.cost([("alice", next)]).await));
    let mut app = App::filtered();
    app.online(&["alice", "bob"]).await;
    let (conversation, seq) = app.say("alice", "bob", "hi").await;
    app.ok("bob", up_to("read", &conversation, seq)).await;
    let next = app.message("bob", "hi");
    rows.push(("send: with a filter, apart from its invocation", app.cost([("alice", next)]).await));
    rows
}

async fn limiting() -> Rows {
    let one = Rate { burst: 1, pause: Duration::from_mins(3) };
    let mut app = App::limited(None, Limits { sends: one, first_messages: one, ..Limits::default() });
    let mut rows = Rows::new();
    let next = app.message("bob", "hi");
    rows.push(("send: counted first message, recipient offline", app.cost([("alice", next)]).await));
    let next = app.message("bob", "hi");
    rows.push(("send: refused, too many", app.cost([("alice", next)]).await));
    let next = app.message("carol", "hi");
    rows.push(("send: refused, too many first messages", app.cost([("alice", next)]).await));
    let block = json!({"action": "settings", "user_id": "alice", "set": {"blocked": true}});
    rows.push(("settings: block", app.cost([("bob", block)]).await));
    let next = app.message("bob", "hi");
    rows.push(("send: refused, blocked", app.cost([("alice", next)]).await));
    let id = app.functions.ok("bob", json!({"action": "inbox"})).await["conversations"][0]["conversation_id"].clone();
    let mute = json!({"action": "settings", "conversation_id": id, "set": {"muted_until": "forever"}});
    rows.push(("settings: mute or archive", app.cost([("bob", mute)]).await));
    let pin = json!({"action": "settings", "conversation_id": id, "set": {"pinned": true}});
    rows.push(("settings: pin", app.cost([("bob", pin)]).await));
    rows.push(("inbox: pinned", app.cost([("bob", json!({"action": "inbox", "pinned": true}))]).await));
    let unpin = json!({"action": "settings", "conversation_id": id, "set": {"pinned": false}});
    app.cost([("bob", unpin)]).await;
    rows
}

async fn marking() -> Rows {
    let mut app = App::new(None);
    app.online(&["alice", "bob"]).await;
    let mut rows = Rows::new();
    let (conversation, seq) = app.say("alice", "bob", "hi").await;
    rows.push(("ack: last message", app.cost([("bob", up_to("ack", &conversation, seq))]).await));
    rows.push(("ack: duplicate", app.cost([("bob", up_to("ack", &conversation, seq))]).await));
    rows.push((
        "read: last message, already acknowledged",
        app.cost([("bob", up_to("read", &conversation, seq))]).await,
    ));
    let (_, seq) = app.say("alice", "bob", "hi").await;
    rows.push((
        "read: last message, acknowledges it too",
        app.cost([("bob", up_to("read", &conversation, seq))]).await,
    ));
    let (_, seq) = app.say("alice", "bob", "hi").await;
    let _ = app.say("alice", "bob", "hi").await;
    rows.push(("ack: newer messages exist", app.cost([("bob", up_to("ack", &conversation, seq))]).await));
    rows.push(("read: newer messages exist", app.cost([("bob", up_to("read", &conversation, seq))]).await));
    app.ok("bob", up_to("read", &conversation, seq + 1)).await;
    let next = app.message("bob", "hi");
    let all = [
        ("alice", next),
        ("bob", up_to("ack", &conversation, seq + 2)),
        ("bob", up_to("read", &conversation, seq + 2)),
    ];
    rows.push(("send + ack + read", app.cost(all).await));
    let next = app.message("bob", "hi");
    let all = [("alice", next), ("bob", up_to("read", &conversation, seq + 3))];
    rows.push(("send + read", app.cost(all).await));
    let (_, seq) = app.say("alice", "bob", "hi").await;
    let fused = app.reply("alice", "yes", seq);
    rows.push(("send, fused", app.cost([("bob", fused)]).await));
    rows.push(("ping: nothing pending", app.cost([("bob", json!({"action": "ping"}))]).await));
    rows.push(("sample: one request in sixteen, any action", sample().await));
    rows
}

/// Returns the added cost of a sampled request. The other requests here have no limit, and so no samples.
async fn sample() -> Cost {
    let app = App::limited(None, Limits::of_requests());
    let mut calls = vec![];
    // The next request continues a sample that is still running at the reply.
    for number in 0..100 {
        let mut event = message("bob", r#"{"action":"ping"}"#);
        event.payload.request_context.request_id = Some(format!("r{number}"));
        let _ = app.functions.handle("ping", event).await;
        calls.extend(app.aws.calls().into_iter().filter(|call| call.operation == "UpdateItem"));
        if !calls.is_empty() {
            break;
        }
    }
    Cost::default().with(&calls)
}

/// Changes of messages of forty characters, to a connected user.
pub(crate) async fn changing() -> Rows {
    let mut app = App::limited(None, Limits { presence: true, ..Limits::default() });
    app.online(&["alice", "bob"]).await;
    let _ = app.say("alice", "bob", "a message of some forty characters, say").await;
    let (id, _) = app.say("alice", "bob", "a message of some forty characters, say").await;
    let edit = || change(&id, 1, "edit", &json!({"body": "another one of some forty characters, say"}));
    let react = |seq| change(&id, seq, "react", &json!({"emoji": "👍"}));
    let delete = |seq| change(&id, seq, "delete", &json!({}));
    let watch = || json!({"action": "presence", "user_ids": ["bob"], "watch": true});
    let mut rows = Rows::new();
    // A frame without a name is not counted.
    for (name, user, frame) in [
        ("", "bob", up_to("read", &id, 2)),
        ("edit", "alice", edit()),
        ("edit: duplicate", "alice", edit()),
        ("", "bob", up_to("read", &id, 3)),
        ("react", "alice", react(1)),
        ("", "bob", up_to("read", &id, 4)),
        ("delete: read message", "alice", delete(1)),
        ("", "alice", app.message("bob", "a message of some forty characters, say")),
        ("delete: unread, pending message", "alice", delete(6)),
        ("react: refused, message is deleted", "bob", react(1)),
        ("ack: last entry, a change entry", "bob", up_to("ack", &id, 7)),
        ("read: last message, a change entry follows", "bob", up_to("read", &id, 6)),
        // A stranger gets no typing event.
        ("", "bob", app.message("alice", "hi")),
        ("typing", "alice", json!({"action": "typing", "conversation_id": id})),
        ("presence: one user", "alice", json!({"action": "presence", "user_ids": ["bob"]})),
        ("presence: one user, watched", "alice", watch()),
        ("presence: one user, watched already", "alice", watch()),
        ("pin", "alice", change(&id, 8, "pin", &json!({"pinned": true}))),
    ] {
        let cost = app.cost([(user, frame)]).await;
        if !name.is_empty() {
            rows.push((name, cost));
        }
    }
    rows
}

fn change(id: &Value, seq: u64, action: &str, more: &Value) -> Value {
    let mut frame =
        json!({"action": action, "conversation_id": id, "seq": seq, "client_msg_id": format!("{action}-{seq}")});
    if let (Value::Object(frame), Value::Object(more)) = (&mut frame, more) {
        frame.extend(more.clone());
    }
    frame
}

async fn draining() -> Rows {
    let mut rows = Rows::new();
    let (short, long) = ("a message of some forty characters, say", "x".repeat(16 * 1024));
    for (name, conversations, messages, body) in [
        ("drain: 1 message", 1, 1, short),
        ("drain: 100 messages of 1 conversation", 1, 100, short),
        ("drain: 100 messages of 100 conversations", 100, 100, short),
        ("drain: 5,000 messages of 1 conversation", 1, 5_000, short),
        ("drain: 5,000 messages of 1,000 conversations", 1_000, 5_000, short),
        ("drain: 200 messages of 16 KB, of 25 conversations", 25, 200, &long),
    ] {
        let mut app = App::new(None);
        for number in 0..messages {
            let peer = format!("peer-{}", number % conversations);
            let _ = app.say(&peer, "bob", body).await;
        }
        rows.push((name, drain(&app, "bob").await));
    }
    rows
}

/// Page by page, as a client does it: each request acknowledges the page before, and an ack the last.
async fn drain(app: &App, user: &str) -> Cost {
    let _ = app.aws.calls();
    let (mut frame, mut frames) = (json!({"action": "drain"}), 0);
    loop {
        let page = app.ok(user, frame).await;
        frames += 1;
        let (held, more) = (last_of_each(&page["messages"]), page["more"] == true);
        frame = match (more, held.is_empty()) {
            (true, _) => json!({"action": "drain", "ack": held}),
            (false, false) => json!({"action": "ack", "up_to": held}),
            // The last page was empty, or this was the last ack.
            (false, true) => {
                let cost = Cost { invocations: frames, frames_in: frames, frames_out: frames, ..Cost::default() };
                return cost.with(&app.aws.calls());
            }
        };
    }
}

/// The entries that acknowledge a page.
fn last_of_each(messages: &Value) -> Vec<Value> {
    let mut entries: Vec<Value> = Vec::new();
    for message in messages.as_array().into_iter().flatten() {
        entries.retain(|entry| entry["conversation_id"] != message["conversation_id"]);
        entries.push(json!({"conversation_id": message["conversation_id"], "seq": message["seq"]}));
    }
    entries
}

async fn listing() -> Rows {
    let mut rows = Rows::new();
    for (name, conversations) in [
        ("inbox: 20 of 10 conversations", 10),
        ("inbox: 20 of 40 conversations", 40),
        ("inbox: 20 of 1,000 conversations", 1_000),
        ("inbox: 20 of 100,000 conversations", 100_000),
    ] {
        let app = with_conversations(conversations).await;
        rows.push((name, app.cost([("bob", json!({"action": "inbox", "limit": 20}))]).await));
    }
    let mut app = App::new(None);
    let mut conversation = Value::Null;
    for _ in 0..200 {
        conversation = app.say("alice", "bob", "a message of some forty characters, say").await.0;
    }
    let page = json!({"action": "history", "conversation_id": conversation, "limit": 50});
    rows.push(("history: 50 messages", app.cost([("bob", page)]).await));
    let report = json!({"action": "report", "conversation_id": conversation, "seqs": [200], "reason": "spam"});
    rows.push(("report: one message", app.cost([("bob", report.clone())]).await));
    rows.push(("report: repeated", app.cost([("bob", report)]).await));
    let profile = json!({"action": "profile", "set": {"name": "Bob"}});
    rows.push(("profile: a name", app.cost([("bob", profile)]).await));
    let users: Vec<String> = std::iter::once("bob".to_owned()).chain((1..50).map(|n| format!("u{n}"))).collect();
    let profiles = json!({"action": "profiles", "user_ids": users});
    rows.push(("profiles: 50 users", app.cost([("alice", profiles)]).await));
    rows
}

/// Push to phones whose user is not connected. Each invocation has one record here, and up to a thousand on a busy
/// stack.
async fn ringing() -> Rows {
    let mut app = App::ringing();
    let mut rows = Rows::new();
    let _ = app.say("alice", "carol", "hi").await;
    rows.push(("notify: no phone registered", app.notify().await));
    let device = json!({"action": "device", "platform": "fcm", "token": "t"});
    rows.push(("device: new token", app.cost([("bob", device.clone())]).await));
    rows.push(("device: same token within a week", app.cost([("bob", device)]).await));
    let (conversation, seq) = app.say("alice", "bob", "hi").await;
    rows.push(("notify: push to one phone", app.notify().await));
    // The mark itself makes a record of the row, which is still pending.
    rows.push(("notify: invoked by its own mark", app.notify().await));
    app.ok("bob", up_to("read", &conversation, seq)).await;
    rows.push(("notify: dismissal on one phone", app.notify().await));
    let badge = json!({"action": "device", "platform": "apns", "token": "aa01", "badge": true});
    app.ok("bob", badge).await;
    for number in 0..130 {
        let _ = app.say(&format!("peer-{number}"), "bob", "a message of some forty characters, say").await;
    }
    let _ = app.notify().await;
    let _ = app.say("alice", "bob", "hi").await;
    rows.push(("notify: push with a badge over 130 conversations", app.notify().await));
    rows
}

/// Events to a team's own servers, for full batches.
async fn publishing() -> Rows {
    let mut app = App::ringing();
    let mut rows = Rows::new();
    for _ in 0..100 {
        let _ = app.say("alice", "bob", "a message of some forty characters, say").await;
    }
    rows.push(("publish: 100 entries of 1 conversation", app.publish().await));
    for number in 0..100 {
        let _ = app.say("alice", &format!("peer-{number}"), "a message of some forty characters, say").await;
    }
    rows.push(("publish: 100 entries of 100 conversations", app.publish().await));
    rows
}

/// Creates Alice's group of this size, of which the first third is connected.
async fn group_of(members: usize) -> (App, Value) {
    let app = App::new(None);
    let others: Vec<String> = (1..members).map(|number| format!("u{number}")).collect();
    app.online(&["alice"]).await;
    let connected: Vec<&str> = others.iter().take(members / 3).map(String::as_str).collect();
    app.online(&connected).await;
    let mut chunks = others.chunks(50);
    let create = json!({"action": "create", "client_msg_id": "c", "title": "Trip", "members": chunks.next()});
    let group = app.ok("alice", create).await["conversation_id"].clone();
    for (number, chunk) in chunks.enumerate() {
        let key = format!("a{number}");
        app.ok("alice", in_group(&group, "add", &key, &json!({"members": chunk}))).await;
    }
    let _ = app.fanout().await;
    (app, group)
}

fn in_group(group: &Value, action: &str, key: &str, more: &Value) -> Value {
    let mut frame = json!({"action": action, "conversation_id": group, "client_msg_id": key});
    if let (Some(frame), Some(more)) = (frame.as_object_mut(), more.as_object()) {
        frame.extend(more.clone());
    }
    frame
}

/// With a third of the members connected, each with one device, and everything pending from the first entry on.
async fn grouping() -> Rows {
    let mut rows = Rows::new();
    let text = json!({"kind": "text", "body": "hi"});
    for (members, sent, handed_on) in [
        (3, "send: in a group of 3", "fanout: after it"),
        (32, "send: in a group of 32", "fanout: after it"),
        (100, "send: in a group of 100", "fanout: after it, posts to the members"),
        (500, "send: in a group of 500", "fanout: after it, posts to the members"),
    ] {
        let (app, group) = group_of(members).await;
        rows.push((sent, app.cost([("alice", in_group(&group, "send", "m1", &text))]).await));
        rows.push((handed_on, app.fanout().await));
        if members == 32 {
            rows.push(("ack: in a group of 32", app.cost([("u1", up_to("ack", &group, 2))]).await));
            rows.push(("read: in a group of 32", app.cost([("u1", up_to("read", &group, 2))]).await));
            let receipts = in_group(&group, "receipts", "", &json!({}));
            rows.push(("receipts: group of 32", app.cost([("alice", receipts)]).await));
        }
    }
    let (app, group) = group_of(100).await;
    app.ok("alice", in_group(&group, "send", "m1", &text)).await;
    let fifty: Vec<String> = (0..50).map(|number| format!("new{number}")).collect();
    for (name, action, more) in [
        ("edit: in a group of 100", "edit", json!({"seq": 3, "body": "hello"})),
        ("react: in a group of 100", "react", json!({"seq": 3, "emoji": "👍"})),
        ("delete: in a group of 100", "delete", json!({"seq": 3})),
        ("add: 50 to a group of 100", "add", json!({"members": fifty})),
        ("remove: from a group of 100", "remove", json!({"user_id": "u1"})),
        ("restrict: in a group of 100", "restrict", json!({"user_id": "u2", "until": "forever"})),
    ] {
        rows.push((name, app.cost([("alice", in_group(&group, action, name.get(..3).unwrap_or(name), &more))]).await));
    }
    let app = App::new(None);
    for number in 0..20 {
        let create =
            json!({"action": "create", "client_msg_id": format!("c{number}"), "title": "Trip", "members": ["bob"]});
        let group = app.ok("alice", create).await["conversation_id"].clone();
        app.ok("alice", in_group(&group, "send", "m1", &text)).await;
    }
    rows.push(("inbox: 20 groups", app.cost([("bob", json!({"action": "inbox", "limit": 20}))]).await));
    rows
}

/// A channel of 300 members and 12 subscribers. The number of members does not change the cost of a post.
async fn posting() -> Rows {
    let app = App::new(None);
    app.online(&["alice"]).await;
    let create = json!({"action": "create", "kind": "channel", "client_msg_id": "c", "title": "News", "members": [],
        "join": "open"});
    let channel = app.ok("alice", create).await["conversation_id"].clone();
    let about = |action: &str, more: Value| in_group(&channel, action, action, &more);
    let mut rows = Rows::new();
    for number in 0..299 {
        let user = format!("u{number}");
        let cost = app.cost([(user.as_str(), about("join", json!({})))]).await;
        if number == 0 {
            rows.push(("join: a channel", cost));
        }
        if number < 12 {
            app.online(&[&user]).await;
        }
    }
    let text = |key: &str| in_group(&channel, "send", key, &json!({"kind": "text", "body": "hi"}));
    let _ = app.fanout().await;
    rows.push(("send: in a channel", app.cost([("alice", text("m1"))]).await));
    rows.push(("fanout: after it, no subscribers", app.fanout().await));
    rows.push(("watch", app.cost([("u0", about("watch", json!({})))]).await));
    for number in 1..12 {
        app.ok(&format!("u{number}"), about("watch", json!({}))).await;
    }
    app.ok("alice", text("m2")).await;
    rows.push(("fanout: after it, 12 subscribers", app.fanout().await));
    for (name, user, frame) in [
        ("unwatch", "u0", about("unwatch", json!({}))),
        ("read: in a channel, not to its end", "u0", up_to("read", &channel, 2)),
        ("read: in a channel, to its end", "u0", up_to("read", &channel, 3)),
        ("react: in a channel", "u0", about("react", json!({"seq": 3, "emoji": "👍"}))),
        ("edit: in a channel", "alice", about("edit", json!({"seq": 3, "body": "hello"}))),
        ("history: 3 messages of a channel", "u1", about("history", json!({}))),
    ] {
        rows.push((name, app.cost([(user, frame)]).await));
    }
    app.ok("alice", about("update", json!({"rings": "mentions"}))).await;
    let named = json!({"kind": "text", "body": "hi", "mentions": ["u0", "u1", "u2"]});
    let cost = app.cost([("alice", in_group(&channel, "send", "m3", &named))]).await;
    rows.push(("send: in a channel, mentions three members", cost));
    for number in 0..20 {
        let create = json!({"action": "create", "kind": "channel", "client_msg_id": format!("c{number}"), "title": "News",
            "members": ["bob"]});
        let channel = app.ok("alice", create).await["conversation_id"].clone();
        app.ok("alice", in_group(&channel, "send", "m1", &json!({"kind": "text", "body": "hi"}))).await;
    }
    rows.push(("channels: 20", app.cost([("bob", json!({"action": "channels"}))]).await));
    rows
}

/// Messages from a team's own servers.
async fn serving() -> Rows {
    let app = App::new(None);
    app.online(&["bob"]).await;
    let message = |to: &str, id: &str| json!({"to": to, "from": "@orders", "client_msg_id": id, "kind": "text", "body": "on its way"});
    let mut rows = Rows::new();
    rows.push(("ingest: first message of a service", app.ingest(&[("bob", message("bob", "m1"))]).await));
    rows.push(("ingest: next message", app.ingest(&[("bob", message("bob", "m2"))]).await));
    rows.push(("ingest: duplicate", app.ingest(&[("bob", message("bob", "m2"))]).await));
    let ten: Vec<_> = (3..13).map(|number| ("bob", message("bob", &format!("m{number}")))).collect();
    rows.push(("ingest: 10 more, in one batch", app.ingest(&ten).await));
    let _ = app.ingest(&[("carol", message("carol", "m1"))]).await;
    rows.push(("ingest: recipient offline", app.ingest(&[("carol", message("carol", "m2"))]).await));
    rows.push(("ingest: poison", app.ingest(&[("bob", json!("poison"))]).await));
    rows
}

/// A picture of two bytes: the rows are the same for any size.
pub(crate) async fn carrying() -> Rows {
    // Counted as in a deployment.
    let uploads = Rate { burst: 1024, pause: Duration::from_mins(1) };
    let app = App::limited(None, Limits { uploads, ..Limits::default() });
    app.online(&["alice", "bob"]).await;
    let mut rows = Rows::new();
    let described = json!({"mime": "image/png", "bytes": 2, "sha256": "j0NDRmSPa5bfid2pAcUXaxCm2Dlh3TwayItZstwyeqQ="});
    let with = |more: Value| {
        let mut frame = described.clone();
        if let (Some(frame), Some(more)) = (frame.as_object_mut(), more.as_object()) {
            frame.extend(more.clone());
        }
        frame
    };
    let announce = with(json!({"action": "upload", "to": "bob", "kind": "image"}));
    let carrying = |media_id: &Value, key: &str| {
        let media = with(json!({"media_id": media_id, "width": 4, "height": 3}));
        json!({"action": "send", "to": "bob", "client_msg_id": key, "kind": "image", "body": "hi", "media": media})
    };
    let (mut conversation, mut pictures) = (Value::Null, vec![]);
    for number in 0..10 {
        let place = app.ok("alice", announce.clone()).await;
        app.aws.with_cloud(|cloud| cloud.s3.put(place["url"].as_str().unwrap_or_default(), &place["headers"], b"hi"));
        let media_id = place["media_id"].clone();
        let uploaded = json!({"action": "uploaded", "media_id": media_id});
        if number == 0 {
            rows.push(("upload", app.cost([("alice", announce.clone())]).await));
            rows.push(("uploaded", app.cost([("alice", uploaded)]).await));
        } else {
            app.ok("alice", uploaded).await;
        }
        let frame = carrying(&media_id, &format!("m{number}"));
        if number == 1 {
            rows.push(("send: a picture", app.cost([("alice", frame)]).await));
        } else {
            let sent = app.ok("alice", frame).await;
            conversation = sent["conversation_id"].clone();
            app.ok("bob", up_to("read", &conversation, number + 1)).await;
        }
        pictures.push(media_id);
    }
    let download = |pictures: &[Value]| json!({"action": "download", "media_ids": pictures});
    rows.push(("download: one picture", app.cost([("bob", download(&pictures[..1]))]).await));
    rows.push(("download: 10 pictures", app.cost([("bob", download(&pictures))]).await));
    let copy = json!({"action": "upload", "to": "carol", "copy_of": {"conversation_id": conversation, "seq": 1}});
    rows.push(("upload: a copy, to forward it", app.cost([("bob", copy)]).await));
    let delete = in_group(&conversation, "delete", "d1", &json!({"seq": 1}));
    rows.push(("delete: of a picture", app.cost([("alice", delete)]).await));
    rows.push(("object cleanup: its object", app.sweep().await));
    let parts = vec![described["sha256"].clone(); 13];
    let mut large =
        with(json!({"action": "upload", "to": "bob", "kind": "file", "bytes": 100 * 1024 * 1024, "parts": parts}));
    large["sha256"] = json!(DIGEST_OF_PARTS);
    rows.push(("upload: 100 MiB, in parts", app.cost([("alice", large)]).await));
    rows
}

/// The digest of the digests of thirteen equal parts, which are never uploaded.
const DIGEST_OF_PARTS: &str = "kCEAVggnV+pyLOzSv1Qvy0xC92+JvItPn8Tl/gpVmyU=";

pub(crate) async fn connecting() -> Rows {
    let app = App::new(None);
    app.online(&["alice"]).await;
    let calls = app.aws.calls();
    let seen = App::limited(None, Limits { presence: true, ..Limits::default() });
    seen.online(&["alice"]).await;
    let with_presence = seen.aws.calls();
    let cost = |calls: &[MeasuredCall]| Cost { invocations: 2, ..Cost::default() }.with(calls);
    vec![("connect", cost(&calls)), ("connect, with presence", cost(&with_presence))]
}

/// Keys of the sizes that they have in practice: a package of 456 bytes, a credential of 180.
async fn claiming() -> Rows {
    let app = App::new(None);
    let package = |number: u32, expires_at: &str| json!({"data": format!("AAEABQABAAEA{number:04}{}", "A".repeat(592)), "expires_at": expires_at});
    let publication = |packages: u32| {
        let packages: Vec<Value> = (1..=packages).map(|number| package(number, "2027-04-01T00:00:00.000Z")).collect();
        json!({
            "action": "publish_keys", "credential": "A".repeat(240), "key_packages": packages,
            "last_resort": package(0, "2028-01-01T00:00:00.000Z"),
        })
    };
    let claim = |id: &str, users: &[&str]| json!({"action": "claim_keys", "claim_id": id, "users": users});
    let mut rows = Rows::new();
    rows.push(("publish_keys: the first 25 packages", app.cost_at("bob", "phone", publication(25)).await));
    rows.push(("publish_keys: duplicate", app.cost_at("bob", "phone", publication(25)).await));
    rows.push(("list_keys: one device", app.cost_at("bob", "phone", json!({"action": "list_keys"})).await));
    rows.push(("claim_keys: a user with one device", app.cost_at("alice", "pixel", claim("k1", &["bob"])).await));
    rows.push(("claim_keys: duplicate", app.cost_at("alice", "pixel", claim("k1", &["bob"])).await));
    app.cost_at("bob", "tablet", publication(25)).await;
    app.cost_at("alice", "laptop", publication(25)).await;
    let three = app.cost_at("alice", "pixel", claim("k2", &["bob", "alice"])).await;
    rows.push(("claim_keys: two users with three devices", three));
    let removal = json!({"action": "remove_keys", "device_id": "tablet"});
    rows.push(("remove_keys", app.cost_at("bob", "phone", removal).await));
    rows
}

/// Bytes of this count, as a frame has them.
fn bytes(count: usize) -> String {
    "AAAA".repeat(count / 3)
}

/// The fields of a frame of a sealed text. A text of up to 430 bytes is 679 sealed.
fn sealed(epoch: u64) -> Value {
    json!({"kind": "sealed", "epoch": epoch, "body": bytes(678)})
}

fn with(mut frame: Value, more: Value) -> Value {
    if let (Some(frame), Value::Object(more)) = (frame.as_object_mut(), more) {
        frame.extend(more);
    }
    frame
}

/// A sealed conversation of four devices, with the sizes that they have in practice.
async fn sealing() -> Rows {
    let app = App::new(None);
    let commit = |id: &str, epoch: u64, field: &str, count: usize| {
        let mut commit = json!({
            "action": "commit", "to": "bob", "client_msg_id": id, "epoch": epoch, "group_info": bytes(600),
            "tree": bytes(1_392),
        });
        commit[field] = json!(bytes(count));
        commit
    };
    let send = |id: &str, epoch: u64| with(json!({"action": "send", "to": "bob", "client_msg_id": id}), sealed(epoch));
    let mut rows = Rows::new();
    rows.push(("commit: birth, of four devices", app.cost_at("alice", "pixel", commit("b1", 0, "welcome", 600)).await));
    app.cost_at("alice", "pixel", send("m1", 1)).await;
    rows.push(("send: sealed", app.cost_at("alice", "pixel", send("m2", 1)).await));
    rows.push((
        "commit: new keys, of four devices",
        app.cost_at("alice", "pixel", commit("c1", 1, "commit", 879)).await,
    ));
    rows.push(("send: refused, stale epoch", app.cost([("alice", send("m3", 1))]).await));
    let info = json!({"action": "group_info", "to": "bob"});
    rows.push(("group_info", app.cost_at("alice", "pixel", info).await));
    rows
}

/// A sealed conversation whose messages have a digest, and one of them a file.
async fn sealing_files() -> Rows {
    let uploads = Rate { burst: 1024, pause: Duration::from_mins(1) };
    let app = App::limited(None, Limits { uploads, sealed_reports: true, ..Limits::default() });
    app.online(&["alice", "bob"]).await;
    let birth = json!({"epoch": 0, "welcome": bytes(600), "group_info": bytes(600), "tree": bytes(1_392)});
    let birth = with(json!({"action": "commit", "to": "bob", "client_msg_id": "b1"}), birth);
    app.cost_at("alice", "pixel", birth).await;
    let send = |id: &str, more: Value| {
        let digest = json!({"frank": "A".repeat(43) + "="});
        let frame = json!({"action": "send", "to": "bob", "client_msg_id": id});
        with(with(with(frame, sealed(1)), digest), more)
    };
    let announce = json!({
        "action": "upload", "to": "bob", "kind": "sealed", "bytes": 2,
        "sha256": "j0NDRmSPa5bfid2pAcUXaxCm2Dlh3TwayItZstwyeqQ=",
    });
    let mut rows = Rows::new();
    let place = app.ok("alice", announce.clone()).await;
    rows.push(("upload: a sealed file", app.cost([("alice", announce)]).await));
    app.aws.with_cloud(|cloud| cloud.s3.put(place["url"].as_str().unwrap_or_default(), &place["headers"], b"hi"));
    app.ok("alice", json!({"action": "uploaded", "media_id": place["media_id"]})).await;
    app.cost_at("alice", "pixel", send("m1", json!({}))).await;
    rows.push(("send: sealed, with a digest", app.cost_at("alice", "pixel", send("m2", json!({}))).await));
    let media = json!({"media": {"media_id": place["media_id"]}});
    rows.push(("send: sealed, with a digest and a file", app.cost_at("alice", "pixel", send("m3", media)).await));
    rows
}

/// A commit of a group of twenty devices, with the sizes that they have in practice. A commit has new keys, for all of
/// which one device encrypts anew.
fn commit_of_twenty(epoch: u64, more: &[(&str, usize)]) -> Value {
    let mut commit = json!({"epoch": epoch, "group_info": bytes(600), "tree": bytes(6_960)});
    for (field, count) in more {
        commit[*field] = json!(bytes(*count));
    }
    commit
}

/// Sealed groups: a message costs what a plain one costs.
async fn sealing_groups() -> Rows {
    let mut rows = Rows::new();
    let app = App::new(None);
    for (name, id, encrypted) in
        [("create: a group of 3", "c1", false), ("create: an encrypted group of 3", "c2", true)]
    {
        let mut create = json!({"action": "create", "client_msg_id": id, "title": "Trip", "members": ["bob", "carol"]});
        if encrypted {
            create["encrypted"] = json!(true);
        }
        rows.push((name, app.cost([("alice", create)]).await));
    }
    for (members, sent, handed_on) in [
        (32, "send: sealed, in a group of 32", "fanout: after it"),
        (100, "send: sealed, in a group of 100", "fanout: after it, posts to the members"),
    ] {
        let (app, group) = group_of(members).await;
        let act = async |action: &str, id: &str, more: Value| {
            app.cost_at("alice", "pixel", in_group(&group, action, id, &more)).await
        };
        let born = act("commit", "b1", commit_of_twenty(0, &[("welcome", 2_490)])).await;
        let _ = app.fanout().await;
        rows.push((sent, act("send", "m1", sealed(1)).await));
        rows.push((handed_on, app.fanout().await));
        if members == 100 {
            rows.push(("commit: birth, in a group of 100, of 20 devices", born));
            let update = commit_of_twenty(1, &[("commit", 2_298)]);
            rows.push(("commit: new keys, in a group of 100, of 20 devices", act("commit", "c1", update).await));
            let adds = commit_of_twenty(2, &[("commit", 900), ("welcome", 489)]);
            let adds = with(adds, json!({"members": ["dave"]}));
            rows.push(("add: with a commit, of 20 devices", act("add", "n1", adds).await));
            let removal = with(commit_of_twenty(3, &[("commit", 2_298)]), json!({"user_id": "dave"}));
            rows.push(("remove: with a commit, of 20 devices", act("remove", "x1", removal).await));
            act("remove", "x2", json!({"user_id": "u1"})).await;
            let refused = app.cost([("alice", in_group(&group, "send", "m2", &sealed(4)))]).await;
            rows.push(("send: refused, a user left unnamed", refused));
            rows.push(("group_info: of 20 devices", act("group_info", "", json!({})).await));
        }
    }
    rows
}

/// A group of a hundred devices, whose tree and Welcome leave as files. The length of a file costs no units.
async fn sealing_by_files() -> Rows {
    let (app, group) = group_of(100).await;
    let announce = json!({
        "action": "upload", "conversation_id": group, "kind": "sealed", "bytes": 2,
        "sha256": "j0NDRmSPa5bfid2pAcUXaxCm2Dlh3TwayItZstwyeqQ=",
    });
    let file = async || {
        let place = app.ok("alice", announce.clone()).await;
        app.aws.with_cloud(|cloud| cloud.s3.put(place["url"].as_str().unwrap_or_default(), &place["headers"], b"hi"));
        app.ok("alice", json!({"action": "uploaded", "media_id": place["media_id"]})).await;
        json!({"media_id": place["media_id"]})
    };
    let act = async |action: &str, id: &str, epoch: u64, more: Value| {
        let keys = json!({"epoch": epoch, "group_info": bytes(600), "tree": file().await});
        app.cost_at("alice", "pixel", in_group(&group, action, id, &with(keys, more))).await
    };
    let welcome = json!({"welcome": file().await});
    let born = act("commit", "b1", 0, welcome).await;
    let _ = app.fanout().await;
    let update = act("commit", "c1", 1, json!({"commit": bytes(8_800)})).await;
    let adds = json!({"members": ["dave"], "commit": bytes(900), "welcome": bytes(489)});
    let added = act("add", "n1", 2, adds).await;
    let removal = json!({"user_id": "dave", "commit": bytes(8_800)});
    let removed = act("remove", "x1", 3, removal).await;
    vec![
        ("commit: birth, in a group of 100, of 100 devices by two files", born),
        ("commit: new keys, of 100 devices, the tree by a file", update),
        ("add: with a commit, of 100 devices, the tree by a file", added),
        ("remove: with a commit, of 100 devices, the tree by a file", removed),
    ]
}
