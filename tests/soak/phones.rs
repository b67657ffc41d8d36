//! Phones at the end of the run. An offline user gets notifications for all pending messages, and no phone shows a
//! message that its user has read.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{PATIENCE, TestServer};
use tokio::time::timeout;

use crate::user::User;

/// Messages to each phone from each of its user's peers.
const EACH: usize = 3;

pub(crate) fn device(user: &str) -> String {
    format!("{user}s-phone")
}

/// Registers a phone of each user, while nothing goes wrong yet.
pub(crate) async fn register(server: &TestServer, users: impl Iterator<Item = String>) {
    for user in users {
        let device = device(&user);
        let mut phone = server.device(&user, &device).await;
        let token = data_encoding::HEXLOWER.encode(device.as_bytes());
        let request = json!({"action": "device", "platform": "apns", "token": token, "preview": true, "badge": true});
        assert_eq!(phone.ok(request).await["registered"], true);
        phone.leave().await;
    }
}

#[derive(Default)]
pub(crate) struct Phones {
    /// Conversations that phones show.
    pub(crate) rung: u64,
    /// Conversations without a notification, though their messages are pending.
    pub(crate) silent: u64,
    /// Notifications without a mark: `notify` died between publishing and its mark, and the user read before it ran
    /// again. No row records then that a dismissal is needed. The conversation's next notification replaces it.
    pub(crate) unmarked: u64,
    /// Other notifications of what was read.
    pub(crate) left: u64,
}

/// Half of the users go offline, and the others write to them. Then every user reads everything on another device.
pub(crate) async fn ring_and_clear(server: &TestServer, users: &mut [User]) -> Phones {
    let mut result = Phones::default();
    for user in users.iter_mut().skip(1).step_by(2) {
        user.put_away().await;
        // A connection's row remains if `$disconnect` failed. Its TTL or the next post removes it.
        server.forget_connections(user.name()).await;
    }
    for user in users.iter_mut().step_by(2) {
        user.write_to_each(EACH).await;
    }
    for user in users.iter().skip(1).step_by(2) {
        let shown = shown(server, user.name()).await;
        for row in server.rows("InboxTable", user.name()).iter().filter(|row| row["pending_since"].is_u64()) {
            let rang = |one: &Value| one["conversation_id"] == row["conversation_id"] && one["seq"] == row["last_seq"];
            if shown.iter().any(rang) {
                result.rung += 1;
            } else {
                println!("{} was not rung: the phone shows {shown:?}, the inbox has {row}", user.name());
                result.silent += 1;
            }
        }
    }
    for user in users.iter_mut() {
        let unmarked = unmarked(server, user.name()).await;
        result.unmarked += unmarked.len() as u64;
        user.read_elsewhere().await;
        let mut left = Vec::new();
        let cleared = async {
            loop {
                left = shown(server, user.name()).await;
                left.retain(|one| !unmarked.contains(&one["conversation_id"]));
                if left.is_empty() {
                    return;
                }
                // The app on the phone takes away what is read once it has its connection again.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if timeout(PATIENCE, cleared).await.is_err() {
            println!("{} has read everything, and the phone shows {left:?}", user.name());
            result.left += left.len() as u64;
        }
    }
    result
}

/// The conversations of which a phone shows what the user's row says nothing of.
async fn unmarked(server: &TestServer, user: &str) -> Vec<Value> {
    let (shown, rows) = (shown(server, user).await, server.rows("InboxTable", user));
    let is_marked = |one: &Value| {
        let row = rows.iter().find(|row| row["conversation_id"] == one["conversation_id"]);
        row.is_some_and(|row| row["notified_seq"].as_u64() >= one["seq"].as_u64())
    };
    shown.iter().filter(|one| !is_marked(one)).map(|one| one["conversation_id"].clone()).collect()
}

async fn shown(server: &TestServer, user: &str) -> Vec<Value> {
    let phones = server.phones(user).await;
    let shown = phones.iter().flat_map(|phone| phone["notifications"].as_array().into_iter().flatten());
    shown.cloned().collect()
}
