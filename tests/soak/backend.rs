//! A team's own backend next to the users. The backend sends messages to each user through the queue, some of them
//! twice. The backend also posts to a group, made through the operators' function, and repeats each request until a
//! reply comes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fastrand::Rng;
use pigeonhole_client::ConversationId;
use serde_json::{Value, json};
use testkit::{PATIENCE, TestServer};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::changes::text;
use crate::groups::Log;
use crate::user::Counts;

pub(crate) const SERVICE: &str = "@shop";
/// The backend sends one message to a user for this many messages between users.
pub(crate) const TOLD_ONE_IN: usize = 5;
/// A message in this many goes to the backend's group instead.
const IN_GROUP_ONE_IN: u32 = 8;
/// One message in this many goes into the queue twice.
const TWICE_ONE_IN: u32 = 4;
/// Messages in one batch for a user, at most.
const BURST_MAX: usize = 4;
const PACE: Duration = Duration::from_millis(20);

pub(crate) struct Backend {
    server: Arc<TestServer>,
    counts: Arc<Counts>,
    users: Vec<String>,
    queue_url: Value,
    admin_url: String,
    group: ConversationId,
    /// The number of the last message to each.
    said: BTreeMap<String, u64>,
    rng: Rng,
}

impl Backend {
    /// With a group of its own, made while nothing goes wrong yet.
    pub(crate) async fn start(
        server: &Arc<TestServer>,
        users: Vec<String>,
        members: usize,
        seed: u64,
        counts: &Arc<Counts>,
    ) -> Self {
        let local = server.http.get(format!("{}/local", server.local().http_url())).send().await.expect("an answer");
        let mut local: Value = local.json().await.expect("it is JSON");
        let mut backend = Self {
            server: Arc::clone(server),
            counts: Arc::clone(counts),
            queue_url: local["queue_url"].take(),
            admin_url: local["admin_url"].as_str().expect("there is the function").to_owned(),
            group: ConversationId::parse("gr_none").expect("an id"),
            said: BTreeMap::new(),
            rng: Rng::with_seed(seed),
            users,
        };
        let create = json!({
            "op": "create_group", "as": SERVICE, "client_msg_id": "group", "title": "The shop", "members": backend.users[..members],
        });
        let made = backend.ask(create).await;
        let id = made["conversation_id"].as_str().expect("it is made");
        backend.group = ConversationId::parse(id).expect("an id");
        backend
    }

    pub(crate) fn group(&self) -> &ConversationId {
        &self.group
    }

    /// Sends this many messages in step with the users, or until one of `ends`.
    pub(crate) async fn tell(mut self, all: usize, ends: [CancellationToken; 2]) -> Self {
        let mut told = 0;
        while told < all && !ends.iter().any(CancellationToken::is_cancelled) {
            let said = self.counts.sent.load(Relaxed) + self.counts.in_groups.load(Relaxed);
            if (told * TOLD_ONE_IN) as u64 >= said {
                tokio::time::sleep(PACE).await;
                continue;
            }
            if self.rng.u32(..IN_GROUP_ONE_IN) == 0 {
                self.post().await;
                told += 1;
                continue;
            }
            // Several for one user come in one batch.
            let user = self.users[self.rng.usize(..self.users.len())].clone();
            for _ in 0..self.rng.usize(1..=BURST_MAX) {
                self.publish(&user).await;
                told += 1;
            }
        }
        self.counts.backend_is_done.store(true, Relaxed);
        self
    }

    async fn publish(&mut self, user: &str) {
        let number = self.next(user);
        self.counts.published.fetch_add(1, Relaxed);
        self.queue(user, number, "").await;
        if self.rng.u32(..TWICE_ONE_IN) == 0 {
            // A job that runs again, sooner or later. SQS knows what it has by this id, and the function by the message's own.
            let again = self.rng.u64(1..=number);
            let known_by = if self.rng.bool() { String::new() } else { format!("-{}", self.rng.u64(..)) };
            self.counts.published_again.fetch_add(1, Relaxed);
            self.queue(user, again, &known_by).await;
        }
    }

    fn next(&mut self, to: &str) -> u64 {
        let number = self.said.entry(to.to_owned()).or_default();
        *number += 1;
        *number
    }

    async fn queue(&self, user: &str, number: u64, known_by: &str) {
        let id = format!("{user}-{number}");
        let body = text(SERVICE, user, number);
        let message = json!({"to": user, "from": SERVICE, "client_msg_id": id, "kind": "text", "body": body});
        let send = json!({
            "QueueUrl": self.queue_url, "MessageGroupId": user, "MessageDeduplicationId": format!("{id}{known_by}"),
            "MessageBody": message.to_string(),
        });
        let url = format!("{}/sqs/", self.server.local().http_url());
        let request = self.server.http.post(url).header("x-amz-target", "AmazonSQS.SendMessage").json(&send);
        let answer = request.send().await.expect("the queue answers");
        assert!(answer.status().is_success(), "the queue has taken it: {}", answer.status());
    }

    async fn post(&mut self) {
        let group = self.group.to_string();
        let number = self.next(&group);
        self.counts.posted.fetch_add(1, Relaxed);
        let send = json!({
            "op": "send", "as": SERVICE, "conversation_id": group, "client_msg_id": format!("m{number}"), "kind": "text",
            "body": text(SERVICE, &group, number),
        });
        self.ask(send).await;
    }

    /// As often as it takes: what was done before is a duplicate.
    async fn ask(&self, request: Value) -> Value {
        let answered = async {
            loop {
                let answer = self.server.http.post(&self.admin_url).json(&request).send().await.expect("an answer");
                let mut answer: Value = answer.json().await.unwrap_or_default();
                if answer.get("result").is_some() {
                    return answer["result"].take();
                }
                let code = answer["error"]["code"].as_str().unwrap_or_default();
                assert!(["", "conflict", "unavailable"].contains(&code), "{answer}");
                tokio::time::sleep(PACE).await;
            }
        };
        timeout(PATIENCE, answered).await.expect("it is answered in time")
    }

    /// Counts that describe the run.
    pub(crate) fn account(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("told by a backend, through the queue", self.counts.published.load(Relaxed)),
            ("of them shown", self.counts.told.load(Relaxed)),
            ("put into the queue again", self.counts.published_again.load(Relaxed)),
            ("said by it in its group", self.counts.posted.load(Relaxed)),
        ]
    }

    /// Counts that must be zero.
    pub(crate) fn wrong(&self) -> Vec<(&'static str, u64)> {
        let (published, told) = (self.counts.published.load(Relaxed), self.counts.told.load(Relaxed));
        let dead_letters = self.server.local().queue("BackendDeadLetters").expect("the template has it");
        vec![
            ("told by the backend, and lost or shown twice", published.abs_diff(told)),
            ("said by it in its group, and not there so", self.wrong_in_group()),
            ("its dead letters", dead_letters.len() as u64),
        ]
    }

    /// Counts differences between the group's log and the sent messages, in their order.
    fn wrong_in_group(&self) -> u64 {
        let logs = Log::all(&self.server, std::slice::from_ref(&self.group));
        let said = self.said.get(self.group.as_str()).copied().unwrap_or_default();
        let expected: Vec<String> = (1..=said).map(|number| text(SERVICE, self.group.as_str(), number)).collect();
        let found = logs[0].texts_of(SERVICE);
        if found == expected {
            return 0;
        }
        println!("{SERVICE} said {said} things in its group, of which there are {found:?}");
        1
    }
}
