//! Dollars per million messages, from what was counted and AWS's list prices.

use std::fmt::Write as _;
use std::iter::Sum;

use serde_json::json;
use testkit::up_to;

use crate::app::{App, Cost};
use crate::units;

/// List prices in us-east-1 in US dollars, without the free tier, as of November 2026.
mod price {
    /// An API Gateway WebSocket message of up to 32 KB, in either direction.
    pub(super) const FRAME: f64 = 1.00 / 1e6;
    pub(super) const LAMBDA_REQUEST: f64 = 0.20 / 1e6;
    /// A GB-second of an arm64 function.
    pub(super) const LAMBDA_GB_SECOND: f64 = 0.000_013_333_4;
    pub(super) const WRITE_UNIT: f64 = 0.625 / 1e6;
    pub(super) const READ_UNIT: f64 = 0.125 / 1e6;
    /// A publish of SNS's to a phone.
    pub(super) const PUSH: f64 = 0.50 / 1e6;
    /// A byte into CloudWatch Logs.
    pub(super) const LOG_BYTE: f64 = 0.50 / 1e9;
    /// A request to an SQS FIFO queue.
    pub(super) const QUEUE: f64 = 0.50 / 1e6;
    /// Requests to S3: writes and reads.
    pub(super) const S3_WRITE: f64 = 5.00 / 1e6;
    pub(super) const S3_READ: f64 = 0.40 / 1e6;
    /// A byte that S3 sends to the Internet, and one that it keeps for a month.
    pub(super) const S3_BYTE_OUT: f64 = 0.09 / 1e9;
    pub(super) const S3_BYTE_MONTH: f64 = 0.023 / 1e9;
    /// A socket that is open for a minute.
    pub(super) const CONNECTION_MINUTE: f64 = 0.25 / 1e6;
}

/// As template.yaml gives the functions.
const LAMBDA_GB: f64 = 0.5;
/// The billed time of a call to AWS: the mean of `path`'s latencies, as if no calls were concurrent.
const NOTIFY_GB: f64 = 0.25;
/// Records in a batch, while there are enough.
const BATCH: f64 = 1_000.0;
/// The share of notifications that another device's read dismisses.
const CLEARED: f64 = 0.5;
const CALL_S: f64 = 0.009;
const FUNCTION_S: f64 = 0.001;
/// The memory of a function with a whole vCPU, and the vCPU time of a call.
const VCPU_GB: f64 = 1.769;
const CALL_CPU_S: f64 = 0.000_33;
/// The log bytes of an event: our line with its metrics. A `send` has some 650, a `read` 550.
const LOG_BYTES: f64 = 600.0;

/// Dollars for a million operations, by part.
#[derive(Clone, Copy, Default)]
pub struct Bill {
    pub gateway: f64,
    pub lambda: f64,
    pub logs: f64,
    pub reads: f64,
    pub writes: f64,
}

impl Bill {
    pub fn of_a_million(cost: &Cost) -> Self {
        let million = |price: f64| price * 1e6;
        let frames = (cost.frames_in + cost.frames_out) as f64;
        let seconds = cost.calls as f64 * CALL_S + cost.invocations as f64 * FUNCTION_S;
        Self {
            gateway: million(frames * price::FRAME),
            lambda: million(
                cost.invocations as f64 * price::LAMBDA_REQUEST + seconds * LAMBDA_GB * price::LAMBDA_GB_SECOND,
            ),
            logs: million(cost.invocations as f64 * LOG_BYTES * price::LOG_BYTE),
            reads: million(cost.units.reads() * price::READ_UNIT),
            writes: million(cost.units.writes() * price::WRITE_UNIT),
        }
    }

    pub fn total(&self) -> f64 {
        self.gateway + self.lambda + self.logs + self.reads + self.writes
    }
}

/// Returns the price of a million messages in a group: `send`, and `fanout` after it. A call takes a third of a
/// millisecond of a vCPU. `fanout` has a vCPU and dozens of concurrent calls; `send` has less than a third of a vCPU.
/// Each of the two also waits for five calls in a row.
pub(crate) fn in_a_group(sent: &Cost, told: &Cost) -> f64 {
    let seconds = |cost: &Cost, gb: f64| cost.calls as f64 * CALL_CPU_S * VCPU_GB / gb + 5.0 * CALL_S;
    let lambda = |cost: &Cost, gb| seconds(cost, gb) * gb * price::LAMBDA_GB_SECOND + price::LAMBDA_REQUEST;
    let million = 1e6 * (lambda(sent, LAMBDA_GB) + lambda(told, VCPU_GB));
    let apart = |cost| Bill { lambda: 0.0, ..Bill::of_a_million(cost) }.total();
    million + apart(sent) + apart(told)
}

/// Returns the price of a million messages from a team's own servers, for SQS and for the rest. SQS takes, delivers and
/// deletes batches of this size. The calls of one message wait for each other; the messages of a batch do not. Each
/// message has a log line.
pub(crate) fn of_services(taken: &Cost, messages: usize) -> (f64, Bill) {
    let messages = messages as f64;
    let calls = taken.calls as f64;
    let seconds = calls * CALL_CPU_S * VCPU_GB / LAMBDA_GB + calls / messages * CALL_S;
    let lambda = seconds * LAMBDA_GB * price::LAMBDA_GB_SECOND + price::LAMBDA_REQUEST;
    let Bill { gateway, reads, writes, .. } = Bill::of_a_million(taken);
    let each = |batch: f64| batch / messages;
    let bill = Bill {
        gateway: each(gateway),
        lambda: each(lambda * 1e6),
        logs: LOG_BYTES * price::LOG_BYTE * 1e6,
        reads: each(reads),
        writes: each(writes),
    };
    (each(3.0 * price::QUEUE * 1e6), bill)
}

impl Sum for Bill {
    fn sum<I: Iterator<Item = Self>>(bills: I) -> Self {
        bills.fold(Self::default(), |sum, bill| Self {
            gateway: sum.gateway + bill.gateway,
            lambda: sum.lambda + bill.lambda,
            logs: sum.logs + bill.logs,
            reads: sum.reads + bill.reads,
            writes: sum.writes + bill.writes,
        })
    }
}

/// The costs of a message with its acknowledgement and read.
pub struct Ways {
    /// Sent to a connected recipient: `send`, then a `read` that also acknowledges.
    pub online: Cost,
    /// As above, with a client that acknowledges on its own before it reads.
    pub online_with_ack: Cost,
    /// Left pending, drained in a page of 100, and read with the rest of the page.
    pub drained: Cost,
    /// A reply to an online user that takes the read mark along, as each message of a lively conversation does.
    pub fused: Cost,
    /// `online` and `fused` with each request over HTTP.
    pub over_http: [Cost; 2],
}

pub async fn ways() -> Ways {
    let mut app = App::new(None);
    app.online(&["alice", "bob"]).await;
    let (conversation, seq) = app.say("alice", "bob", "hi").await;
    app.ok("bob", up_to("read", &conversation, seq)).await;
    let next = app.message("bob", "a message of some forty characters, say");
    let online = app.cost([("alice", next), ("bob", up_to("read", &conversation, seq + 1))]).await;
    let next = app.message("bob", "a message of some forty characters, say");
    let marks = ["ack", "read"].map(|action| ("bob", up_to(action, &conversation, seq + 2)));
    let online_with_ack = app.cost([("alice", next)].into_iter().chain(marks)).await;
    let next = app.message("bob", "a message of some forty characters, say");
    let online_over_http = app.over_http([("alice", next), ("bob", up_to("read", &conversation, seq + 3))]).await;

    let mut app = App::new(None);
    app.online(&["alice"]).await;
    let _ = app.say("alice", "bob", "hi").await;
    let message = |_| ("alice", app.message("bob", "a message of some forty characters, say"));
    let mut frames: Vec<_> = (0..100).map(message).collect();
    frames.extend([("bob", json!({"action": "drain"})), ("bob", up_to("read", &conversation, 101))]);
    let drained = app.cost(frames).await;
    let mut app = App::new(None);
    app.online(&["alice", "bob"]).await;
    let (_, seq) = app.say("alice", "bob", "hi").await;
    let reply = app.reply("alice", "hi", seq);
    let seq = app.ok("bob", reply).await["seq"].as_u64().unwrap_or_default();
    let next = app.reply("bob", "a message of some forty characters, say", seq);
    let fused = app.cost([("alice", next)]).await;
    let reply = app.reply("alice", "hi", seq + 1);
    let seq = app.ok("bob", reply).await["seq"].as_u64().unwrap_or_default();
    let next = app.reply("bob", "a message of some forty characters, say", seq);
    let over_http = [online_over_http, app.over_http([("alice", next)]).await];
    Ways { online, online_with_ack, drained, fused, over_http }
}

/// Returns the price of a million messages, by part.
pub async fn table() -> String {
    let Ways { online, online_with_ack, drained, fused, over_http } = ways().await;
    let half_over_http = over_http.iter().map(Bill::of_a_million).sum();
    let half = [&online, &fused].map(Bill::of_a_million).into_iter().sum();
    let mut rows = vec![
        ("sent, delivered and read online", Bill::of_a_million(&online), 1.0),
        ("as above, acknowledged before read", Bill::of_a_million(&online_with_ack), 1.0),
        ("half of them read with the reply", half, 2.0),
        ("half of them, each request over HTTP", half_over_http, 2.0),
        ("all of them read with the reply", Bill::of_a_million(&fused), 1.0),
        ("left pending, 100 drained and read together", Bill::of_a_million(&drained), 100.0),
    ];
    // A frame in, a function that looks up the connection and posts, a frame out. An offline user misses it.
    let mut relay = Cost { calls: 2, invocations: 1, frames_in: 1, frames_out: 1, ..Cost::default() };
    relay.units.table_reads = 1.0;
    rows.push(("a WebSocket relay without storage or replies", Bill::of_a_million(&relay), 1.0));
    bills("a million messages", rows)
}

/// Returns a table of bills, each with its name and its number of messages.
fn bills(of: &str, rows: impl IntoIterator<Item = (&'static str, Bill, f64)>) -> String {
    let mut table =
        format!("| {of} | API Gateway | Lambda | logs | reads | writes | all |\n|---|---|---|---|---|---|---|\n");
    for (name, bill, count) in rows {
        let Bill { gateway, lambda, logs, reads, writes } = bill;
        let all = bill.total() / count;
        let parts = [gateway, lambda, logs, reads, writes].map(|part| format!("${:.2}", part / count)).join(" | ");
        let _ = writeln!(table, "| {name} | {parts} | **${all:.2}** |");
    }
    table
}

/// Returns what push adds to a million messages, by the share of offline recipients, with one phone each and no badge.
pub async fn ringing() -> String {
    let mut app = App::ringing();
    app.ok("bob", json!({"action": "device", "platform": "fcm", "token": "t"})).await;
    let (conversation, seq) = app.say("alice", "bob", "hi").await;
    app.ok("bob", up_to("ack", &conversation, seq)).await;
    let taken = app.notify().await;
    let _ = app.say("alice", "bob", "hi").await;
    let (ring, mark) = (app.notify().await, app.notify().await);
    app.ok("bob", up_to("read", &conversation, seq + 1)).await;
    let clear = app.notify().await;

    let mut table = String::from(
        "| of a million messages | records in a batch | Lambda | logs | reads | writes | SNS | all |\n|---|---|---|---|---|---|---|---|\n",
    );
    for offline in [0.2, 1.0] {
        for records in [1.0, BATCH] {
            let parts = [(1.0 - offline, &taken), (offline, &ring), (offline, &mark), (offline * CLEARED, &clear)];
            let sum = |of: &dyn Fn(&Cost) -> f64| parts.iter().map(|(share, cost)| share * of(cost)).sum::<f64>() * 1e6;
            let invocations = sum(&|cost| cost.invocations as f64) / records;
            // The calls of a batch run 32 at a time; those of a single record run one after the other.
            let at_once = records.min(32.0);
            let seconds = sum(&|cost| cost.calls as f64) * CALL_S / at_once + invocations * FUNCTION_S;
            let bill = [
                invocations * price::LAMBDA_REQUEST + seconds * NOTIFY_GB * price::LAMBDA_GB_SECOND,
                invocations * LOG_BYTES * price::LOG_BYTE,
                sum(&|cost| cost.units.reads()) * price::READ_UNIT,
                sum(&|cost| cost.units.writes()) * price::WRITE_UNIT,
                offline * (1.0 + CLEARED) * 1e6 * price::PUSH,
            ];
            let (all, cells) = (bill.iter().sum::<f64>(), bill.map(|part| format!("${part:.2}")).join(" | "));
            let percent = offline * 100.0;
            let _ = writeln!(table, "| {percent:.0} % push | {records:.0} | {cells} | **${all:.2}** |");
        }
    }
    table
}

/// Returns the price of a million other operations, between two users with one device online.
pub async fn changing() -> String {
    let mut counted = units::changing().await;
    counted.extend(units::connecting().await);
    let ack = "ack: last entry, a change entry";
    let rows = [
        ("edits, delivered and acknowledged", &["edit", ack][..]),
        ("reactions, delivered and acknowledged", &["react", ack]),
        ("deletes of unread messages, delivered and acknowledged", &["delete: unread, pending message", ack]),
        ("`typing`, delivered", &["typing"]),
        ("`presence` of one user", &["presence: one user"]),
        ("connects", &["connect"]),
        ("connects, with `Presence`", &["connect, with presence"]),
    ];
    bills(
        "a million",
        rows.map(|(name, operations)| {
            let costs = counted.iter().filter(|(counted, _)| operations.contains(counted));
            let costs: Vec<&Cost> = costs.map(|(_, cost)| cost).collect();
            assert_eq!(costs.len(), operations.len(), "{operations:?} are counted under these names");
            (name, costs.into_iter().map(Bill::of_a_million).sum(), 1.0)
        }),
    )
}

/// Returns what a million photos add to a million messages: each is uploaded, sent and fetched once.
pub async fn photos() -> String {
    let mut counted = units::carrying().await;
    counted.extend(units::sending().await);
    let of = |name: &str| {
        let found = counted.iter().find(|(counted, _)| *counted == name);
        Bill::of_a_million(&found.unwrap_or_else(|| panic!("{name} is counted under this name")).1)
    };
    let asked: Bill = ["upload", "uploaded", "download: one picture"].map(of).into_iter().sum();
    let (picture, text) = (of("send: a picture"), of("send: next message, earlier ones acknowledged"));
    let (frames, functions) = (asked.gateway, asked.lambda + asked.logs);
    let rows = asked.reads + asked.writes + picture.total() - text.total();
    // The client puts it and gets it, and `uploaded` reads it.
    let requests = (price::S3_WRITE + 2.0 * price::S3_READ) * 1e6;
    let mut table = String::from(
        "| a million photos of | API Gateway | functions and logs | rows | requests to S3 | bytes out | all | kept, a month |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for kilobytes in [100.0, 300.0, 3_000.0] {
        let bytes = kilobytes * 1e9;
        let parts = [frames, functions, rows, requests, bytes * price::S3_BYTE_OUT];
        let (all, kept) = (parts.iter().sum::<f64>(), bytes * price::S3_BYTE_MONTH);
        let cells = parts.map(|part| format!("${part:.2}")).join(" | ");
        let _ = writeln!(table, "| {} KB | {cells} | **${all:.2}** | ${kept:.2} |", with_commas(kilobytes));
    }
    table
}

/// Returns the price of open sockets, for their hours in total.
pub fn socket_hours(hours: f64) -> f64 {
    hours * 60.0 * price::CONNECTION_MINUTE
}

/// Returns the price per month by messages per day, with sockets.
pub async fn monthly() -> String {
    let online = Bill::of_a_million(&ways().await.online).total() / 1e6;
    let mut table = String::from(
        "| messages a day | devices online at a time | messages | sockets | a month |\n|---|---|---|---|---|\n",
    );
    for (messages, sockets) in [(1_000.0, 20.0), (100_000.0, 2_000.0), (10_000_000.0, 200_000.0)] {
        let message_cost = messages * 30.0 * online;
        let socket_cost = socket_hours(sockets * 30.0 * 24.0);
        let all = message_cost + socket_cost;
        let (messages, sockets) = (with_commas(messages), with_commas(sockets));
        let _ = writeln!(table, "| {messages} | {sockets} | ${message_cost:.2} | ${socket_cost:.2} | **${all:.2}** |");
    }
    table
}

pub(crate) fn with_commas(number: f64) -> String {
    let digits = format!("{number:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}
