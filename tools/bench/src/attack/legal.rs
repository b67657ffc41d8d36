//! Busy users within the limits: a phone that drains a long absence, a support desk, and an app that returns after a
//! week. The server must not refuse their requests, and must not close their connections.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures_util::SinkExt as _;
use pigeonhole_client::{Client, Event, Events, Side, Target};
use serde_json::json;
use testkit::TestServer;
use tokio::time::{Instant, interval, timeout};
use tokio_tungstenite::tungstenite::Message;

use super::socket::{Socket, open};
use super::waves::ask;
use super::{MEASURED, Report, Site};
use crate::ingest;
use crate::load::connect;

/// The pages of `drain` that 10,000 short messages need: a page has 30 KB.
const DRAINED: usize = 1_200;
const DRAINED_BYTES: usize = 2_000;
const CUSTOMERS: usize = 50;
/// The pause between two messages of all customers. The desk reads each message and replies.
const CUSTOMERS_PAUSE: Duration = Duration::from_secs(1);
const FRIENDS: usize = 30;
const FROM_EACH_FRIEND: usize = 3;
/// Chats that are opened after a return.
const OPENED: usize = 10;
/// Each of these users needs seconds.
const PATIENCE: Duration = Duration::from_mins(5);

pub(super) async fn round(written: &mut Report) {
    let site = Site::elastic().await;
    let phone = drain(&site.server).await;
    let desk = serve_customers(&site.server).await;
    let back = come_back(&site.server).await;
    let refused = site.lines_with("rate_limited");
    let closed = [&phone, &desk, &back].iter().map(|client| client.stats().reconnects).sum::<u64>();
    let _ = writeln!(written.waves, "| legal | | | | | | | | | {refused} | {closed} | | | | |");
    let wrong = (refused > 0 || closed > 0).then(|| format!("{refused} refused; {closed} closed"));
    let bars = written.bars("legal", wrong.as_slice());
    let _ = writeln!(written.pairs, "| legal | on | | | | | | | | | {bars} |");
}

/// A phone that was away while a service wrote to it.
async fn drain(server: &Arc<TestServer>) -> Client {
    let body = "x".repeat(DRAINED_BYTES);
    let message = |number: usize| json!({"to": "phone", "from": "@orders", "client_msg_id": format!("m{number}"), "kind": "text", "body": body});
    ingest::publish(server, (0..DRAINED).map(message).collect()).await;
    timeout(PATIENCE, ingest::queue(server).settled()).await.expect("all of it is delivered");
    let (client, mut events) = connect(server, "phone").await;
    messages(&mut events, DRAINED).await;
    client
}

/// The number of other users' chats.
async fn messages(events: &mut Events, count: usize) -> Vec<pigeonhole_client::Message> {
    let mut come = Vec::new();
    let all = async {
        while come.len() < count {
            if let Some(Event::Message { message, .. }) = events.next().await {
                come.push(message);
            }
        }
    };
    timeout(PATIENCE, all).await.expect("all of them come");
    come
}

async fn write(socket: &mut Socket, to: &str, number: usize) {
    let id = format!("m{number}");
    ask(socket, &json!({"action": "send", "to": to, "client_msg_id": id, "kind": "text", "body": "hello there"})).await;
}

/// A desk that replies to each message of many customers when it arrives.
async fn serve_customers(server: &Arc<TestServer>) -> Client {
    let mut customers = Vec::new();
    for number in 0..CUSTOMERS {
        let token = server.token(&format!("customer-{number}"));
        customers.push(open(server.url(), &token).await.expect("a good token connects"));
    }
    let (client, mut events) = connect(server, "desk").await;
    let (end, mut ticks) = (Instant::now() + MEASURED, interval(CUSTOMERS_PAUSE));
    let mut number = 0;
    while Instant::now() < end {
        tokio::select! {
            _ = ticks.tick() => {
                let to_desk = json!({
                    "action": "send", "to": "desk", "client_msg_id": format!("m{number}"), "kind": "text", "body": "hello?",
                });
                let customer = &mut customers[number % CUSTOMERS];
                customer.send(Message::text(to_desk.to_string())).await.expect("the socket is open");
                number += 1;
            }
            event = events.next() => if let Some(Event::Message { message, .. }) = event {
                if message.sender_id.as_str() == "desk" {
                    continue;
                }
                let conversation = message.conversation_id;
                let _ = client.read(&conversation, message.seq);
                client.typing(&conversation);
                let _ = client.send(Target::Conversation(conversation), "how can we help?").await.expect("it is in the outbox");
            }
        }
    }
    client
}

/// An app that was away for a week: it catches up, shows the chat list, and its user opens some chats.
async fn come_back(server: &Arc<TestServer>) -> Client {
    for number in 0..FRIENDS {
        let token = server.token(&format!("friend-{number}"));
        let mut socket = open(server.url(), &token).await.expect("a good token connects");
        for number in 0..FROM_EACH_FRIEND {
            write(&mut socket, "away", number).await;
        }
    }
    let (client, mut events) = connect(server, "away").await;
    let come = messages(&mut events, FRIENDS * FROM_EACH_FRIEND).await;
    client.inbox(None).await.expect("the chat list comes");
    for message in come.iter().rev().step_by(FROM_EACH_FRIEND).take(OPENED) {
        client.history(&message.conversation_id, Side::Newest, 50).await.expect("a page comes");
        let _ = client.read(&message.conversation_id, message.seq);
    }
    let names: Vec<_> =
        come.iter().map(|message| message.sender_id.clone()).step_by(FROM_EACH_FRIEND).take(20).collect();
    client.presence(names).await.expect("it is answered");
    client
}
