//! The pairs of users who chat during an attack.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use testkit::TestServer;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at, sleep_until};
use tokio_tungstenite::tungstenite::Message;

use super::socket::{Heard, Socket, heard, open};

const PAIRS: u32 = 8;
/// The default pause between two messages of a user.
pub(crate) const PAUSE: Duration = Duration::from_millis(400);
/// A user acknowledges after this number of own messages.
const MESSAGES_PER_ACK: u64 = 3;
/// The pause between two sockets of other users.
const ARRIVALS_PAUSE: Duration = Duration::from_millis(250);
/// The prefix of the ids of all users in pairs.
pub(super) const PREFIX: &str = "pair-";

/// The times of a measurement.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    /// The pause between two messages of a user.
    pub(crate) pause: Duration,
    /// The pairs begin to chat.
    pub(crate) start: Instant,
    /// The attack begins.
    pub(crate) from: Instant,
    pub(crate) until: Instant,
    /// A reply or message that has not come by now counts as lost.
    pub(crate) end: Instant,
}

/// The outcome of all messages of the pairs.
#[derive(Default)]
pub(crate) struct Noticed {
    /// The times from a message to the recipient's frame, sorted at the end.
    pub(crate) latencies: Vec<Duration>,
    /// Messages whose frame did not come.
    pub(crate) lost: usize,
    /// Requests that failed or got no reply.
    pub(crate) refused: usize,
    pub(crate) closed: usize,
    /// Sockets of other users that did not open.
    pub(crate) turned_away: usize,
    sent: usize,
}

/// The sockets of all, in pairs.
pub(crate) async fn connect(server: &Arc<TestServer>) -> Vec<[(String, Socket); 2]> {
    let mut pairs = Vec::new();
    for number in 0..PAIRS {
        let person = async |side| {
            let name = format!("{PREFIX}{number}-{side}");
            let socket = open(server.url(), &server.token(&name)).await.expect("a good token connects");
            (name, socket)
        };
        pairs.push([person("a").await, person("b").await]);
    }
    pairs
}

/// All users write and read until the span ends, and other users open sockets meanwhile.
pub(crate) async fn chat(server: &Arc<TestServer>, pairs: Vec<[(String, Socket); 2]>, span: Span) -> Noticed {
    let mut talking = JoinSet::new();
    // Not all in the same moment.
    let mut first = span.start;
    for [(one, one_socket), (other, other_socket)] in pairs {
        for (socket, peer) in [(one_socket, other), (other_socket, one)] {
            first += span.pause / (2 * PAIRS);
            talking
                .spawn(Person { socket, peer, span, waiting: HashSet::new(), noticed: Noticed::default() }.talk(first));
        }
    }
    talking.spawn(arrive(Arc::clone(server), span));
    let mut all = Noticed::default();
    for noticed in talking.join_all().await {
        all.latencies.extend(noticed.latencies);
        all.refused += noticed.refused;
        all.closed += noticed.closed;
        all.turned_away += noticed.turned_away;
        all.sent += noticed.sent;
    }
    all.lost = all.sent.saturating_sub(all.latencies.len());
    // A lost message took at least that long.
    all.latencies.extend(std::iter::repeat_n(span.end - span.until, all.lost));
    all.latencies.sort();
    all
}

/// Opens one socket after another, each of another user.
async fn arrive(server: Arc<TestServer>, span: Span) -> Noticed {
    let (mut noticed, mut ticks) = (Noticed::default(), interval_at(span.from, ARRIVALS_PAUSE));
    for number in 0.. {
        ticks.tick().await;
        if Instant::now() >= span.until {
            break;
        }
        let token = server.token(&format!("{PREFIX}new-{number}"));
        noticed.turned_away += usize::from(open(server.url(), &token).await.is_err());
    }
    noticed
}

struct Person {
    socket: Socket,
    peer: String,
    span: Span,
    /// The ids of requests without a reply.
    waiting: HashSet<String>,
    noticed: Noticed,
}

impl Person {
    async fn talk(mut self, first: Instant) -> Noticed {
        let mut ticks = interval_at(first, self.span.pause);
        let (mut number, mut newest) = (0, None);
        loop {
            tokio::select! {
                now = ticks.tick(), if Instant::now() < self.span.until => {
                    number += 1;
                    self.write(number, now).await;
                    if let Some(entry) = newest.take_if(|_| number % MESSAGES_PER_ACK == 0) {
                        self.request(format!("a{number}"), json!({"action": "ack", "up_to": [entry]})).await;
                    }
                }
                message = self.socket.next() => match heard(message) {
                    Heard::Reply(frame) => self.answered(&frame),
                    Heard::Refusal(frame) => {
                        self.answered(&frame);
                        self.noticed.refused += 1;
                    }
                    // The frame replies to some request, which waits to the end.
                    Heard::Throttled | Heard::Other => {}
                    Heard::Event(event) => newest = self.arrived(&event).or(newest),
                    Heard::End => {
                        self.noticed.closed += 1;
                        break;
                    }
                },
                () = sleep_until(self.span.end) => break,
            }
        }
        self.noticed.refused += self.waiting.len();
        self.noticed
    }

    async fn write(&mut self, number: u64, due: Instant) {
        // The recipient measures from the time in the body, at which the message was due. Else a stall would hide
        // itself.
        let since_start = due - self.span.start;
        let body = format!("{} is when this message was sent", since_start.as_nanos());
        let id = format!("m{number}");
        let send = json!({"action": "send", "to": self.peer, "client_msg_id": id, "kind": "text", "body": body});
        self.noticed.sent += usize::from(due >= self.span.from);
        self.request(id, send).await;
    }

    async fn request(&mut self, id: String, mut frame: Value) {
        frame["id"] = json!(id);
        self.waiting.insert(id);
        // A socket that does not take the frame is closed; the next read finds that.
        let _ = self.socket.send(Message::text(frame.to_string())).await;
    }

    fn answered(&mut self, frame: &Value) {
        if let Some(id) = frame["id"].as_str() {
            self.waiting.remove(id);
        }
    }

    /// Returns the acknowledgement of the event's messages, if it has any.
    fn arrived(&mut self, event: &Value) -> Option<Value> {
        let mut newest = None;
        for message in event["messages"].as_array().into_iter().flatten() {
            let nanos = message["body"].as_str().and_then(|body| body.split(' ').next()?.parse().ok());
            let sent = self.span.start + Duration::from_nanos(nanos.expect("a body begins with its time"));
            if sent >= self.span.from {
                self.noticed.latencies.push(sent.elapsed());
            }
            newest = Some(json!({"conversation_id": message["conversation_id"], "seq": message["seq"]}));
        }
        newest
    }
}
