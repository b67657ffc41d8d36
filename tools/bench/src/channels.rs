//! Cost of a post in a channel by its members and subscribers. Times of its first and last frame, with latencies as on
//! AWS.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::app::{App, Cost};
use crate::aws::{Pace, as_on_aws};
use crate::groups::{Frames, told};
use crate::{money, report};

/// Members and subscribers. The last number is the limit of subscribers that one channel serves.
const SIZES: [(usize, usize); 7] =
    [(100, 0), (100, 20), (10_000, 20), (100_000, 0), (100_000, 20), (100_000, 200), (100_000, 2_000)];
/// Subscribers and posts for the times, which do not depend on the members.
const WATCHING: [(usize, u64); 4] = [(1, 500), (20, 500), (200, 100), (2_000, 20)];
/// The members that one entry adds.
const ADDED: usize = 50;

/// Creates Alice's channel with these numbers of members and subscribers. Other members are not connected.
async fn channel(members: usize, watching: usize, pace: Option<Pace>) -> (App, Value) {
    let app = App::new(pace);
    let others: Vec<String> = (1..members).map(|number| format!("u{number}")).collect();
    app.online(&["alice"]).await;
    let watchers: Vec<&str> = others[..watching].iter().map(String::as_str).collect();
    app.online(&watchers).await;
    let create = json!({"action": "create", "kind": "channel", "client_msg_id": "c", "title": "News", "members": []});
    let channel = app.ok("alice", create).await["conversation_id"].clone();
    for (number, chunk) in others.chunks(ADDED).enumerate() {
        let add = json!({"action": "add", "conversation_id": channel, "client_msg_id": format!("a{number}"), "members": chunk});
        app.ok("alice", add).await;
    }
    for user in watchers {
        app.ok(user, json!({"action": "watch", "conversation_id": channel})).await;
    }
    let _ = app.fanout().await;
    (app, channel)
}

fn post(channel: &Value, id: u64) -> Value {
    let body = "a message of some forty characters, say";
    json!({"action": "send", "conversation_id": channel, "client_msg_id": format!("m{id}"), "kind": "text", "body": body})
}

/// Returns the costs by the numbers of members and subscribers.
pub async fn costs() -> String {
    let mut table = String::from(
        "| members | subscribers | write units | read units | calls | frames out | $ per million |\n|---|---|---|---|---|---|---|\n",
    );
    for (members, watching) in SIZES {
        let (app, channel) = channel(members, watching, None).await;
        let sent = app.cost([("alice", post(&channel, 1))]).await;
        let told = app.fanout().await;
        let units = |of: fn(&Cost) -> f64| of(&sent) + of(&told);
        let _ = writeln!(
            table,
            "| {members} | {watching} | {} | {} | {} | {} | ${:.0} |",
            units(|cost| cost.units.table_writes + cost.units.index_writes),
            units(|cost| cost.units.reads()),
            sent.calls + told.calls,
            sent.frames_out + told.frames_out,
            money::in_a_group(&sent, &told),
        );
    }
    table
}

/// Returns the times by the number of subscribers.
pub async fn times() -> String {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut table = String::from(
        "| subscribers | posts | first frame p50, ms | p99 | last frame p50, ms | p99 |\n|---|---|---|---|---|---|\n",
    );
    for (watching, posts) in WATCHING {
        let (app, channel) = channel(watching + 1, watching, Some(as_on_aws)).await;
        let mut all: Vec<Frames> = vec![];
        for id in 0..posts {
            all.push(told(&app, post(&channel, id), &mut rng, true).await);
        }
        let [first, last] = report::sorted(all.iter().map(|frames| [frames.first, frames.last]));
        let at = report::percentile_ms;
        let _ = writeln!(
            table,
            "| {watching} | {posts} | {:.0} | {:.0} | {:.0} | {:.0} |",
            at(&first, 50),
            at(&first, 99),
            at(&last, 50),
            at(&last, 99),
        );
    }
    table
}
