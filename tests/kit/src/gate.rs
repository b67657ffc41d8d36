//! Every call of every actor waits here until it is let through. The SDK clients are the real ones; what waits is
//! their HTTP request, and what lets it through carries it out in a [`Cloud`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use aws_sdk_apigatewaymanagement as management;
use aws_sdk_dynamodb as dynamodb;
use aws_sdk_dynamodb::config::retry::{RetryPartition, TokenBucket};
use tokio::sync::oneshot;

use crate::cloud::{Cloud, Touch};
use crate::{AwsCall, Connector, Fault, dynamodb_config, management_config, s3_config, sns_config, sqs_config};

/// The status and body; `None` where the connection breaks.
type Answer = Option<(u16, String)>;

/// Clones share what waits.
#[derive(Clone)]
pub struct Gate(Arc<Mutex<Inner>>);

struct Inner {
    cloud: Cloud,
    /// Calls pass as they come.
    open: bool,
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
}

struct Waiting {
    actor: usize,
    errand: Errand,
    touches: Vec<Touch>,
    /// `None` once the client has given up on it, while it is still on its way.
    answer_tx: Option<oneshot::Sender<Answer>>,
}

enum Errand {
    Call(AwsCall),
    /// Something of the actor's own that has its place in the order: an answer that arrives, a socket that opens.
    Own(String),
}

/// A call that can be let through.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) id: u64,
    pub(crate) actor: usize,
    pub(crate) nth: usize,
    pub(crate) touches: Vec<Touch>,
    pub(crate) call: Option<AwsCall>,
    /// The client has given up on it.
    pub(crate) late: bool,
    /// Writes that the call may not show.
    pub(crate) half_seen: Vec<Fault>,
}

impl Candidate {
    pub(crate) fn writes(&self) -> bool {
        self.call.as_ref().is_some_and(AwsCall::writes)
    }

    pub(crate) fn reads(&self) -> bool {
        self.call.as_ref().is_some_and(|call| !call.writes())
    }

    /// Whether it matters which of the two comes first.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.touches.iter().any(|one| other.touches.iter().any(|two| one.meets(two)))
    }
}

/// The call that has just passed.
#[derive(Debug)]
pub struct Passed {
    pub actor: usize,
    /// `None`: a step of the actor's own, or its end.
    pub call: Option<AwsCall>,
    /// The status of the service's reply, if the call arrived.
    pub status: Option<u16>,
    pub what: String,
}

impl Gate {
    pub fn new(cloud: Cloud) -> Self {
        Self(Arc::new(Mutex::new(Inner { cloud, open: true, next: 0, waiting: BTreeMap::new() })))
    }

    /// The AWS behind the gate.
    pub fn with_cloud<T>(&self, look: impl FnOnce(&mut Cloud) -> T) -> T {
        look(&mut self.lock().cloud)
    }

    /// Returns an actor's DynamoDB client. Retries are as in production, except that their budget has no end: it
    /// outlasts a schedule, and a schedule must not depend on earlier ones.
    pub fn dynamodb_client(&self, actor: usize) -> dynamodb::Client {
        let budget = RetryPartition::custom("explorer").token_bucket(TokenBucket::unlimited()).build();
        let config = dynamodb_config(self.connector(actor)).retry_partition(budget);
        dynamodb::Client::from_conf(config.build())
    }

    /// Returns an actor's management API client. Calls have one try, as in production.
    pub fn management_client(&self, actor: usize) -> management::Client {
        management::Client::from_conf(management_config(self.connector(actor)).build())
    }

    /// An SNS client of that actor's, which tries once.
    pub fn sns_client(&self, actor: usize) -> aws_sdk_sns::Client {
        aws_sdk_sns::Client::from_conf(sns_config(self.connector(actor)).build())
    }

    /// An SQS client of that actor's, which tries once.
    pub fn sqs_client(&self, actor: usize) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::from_conf(sqs_config(self.connector(actor)).build())
    }

    /// An S3 client of that actor's, which tries once.
    pub fn s3_client(&self, actor: usize) -> aws_sdk_s3::Client {
        aws_sdk_s3::Client::from_conf(s3_config(self.connector(actor)).build())
    }

    /// An actor's way to AWS, on which its calls wait.
    fn connector(&self, actor: usize) -> Connector {
        let gate = self.clone();
        Connector::new(move |call| {
            let touches = gate.with_cloud(|cloud| cloud.touches(&call));
            let waits = gate.wait(actor, Errand::Call(call.clone()), touches);
            let gate = gate.clone();
            async move {
                match waits {
                    None => Some(gate.with_cloud(|cloud| cloud.perform(&call))),
                    Some((_place, answer_rx)) => answer_rx.await.ok().flatten(),
                }
            }
        })
    }

    /// A step of the actor's own: it goes on once it is let through.
    pub async fn pass(&self, actor: usize, what: &str, touches: Vec<Touch>) {
        if let Some((_place, passed_rx)) = self.wait(actor, Errand::Own(what.to_owned()), touches) {
            let _ = passed_rx.await;
        }
    }

    /// From here on calls wait (`false`), or are carried out as they come (`true`). Nothing waits from before.
    pub(crate) fn set_open(&self, open: bool) {
        let mut inner = self.lock();
        (inner.open, inner.next) = (open, 0);
        inner.waiting.clear();
    }

    /// The actor has come to its end.
    pub(crate) fn ended(&self, actor: usize) {
        self.lock().cloud.half_seen.reveal(actor);
    }

    pub(crate) fn is_waiting(&self, actor: usize) -> bool {
        self.lock().waiting.values().any(|waiting| waiting.actor == actor && waiting.answer_tx.is_some())
    }

    /// Everything that waits, actor by actor.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let inner = self.lock();
        let mut candidates: Vec<_> =
            inner.waiting.iter().map(|(id, waiting)| waiting.candidate(*id, &inner.cloud)).collect();
        candidates.sort_by_key(|candidate| (candidate.actor, candidate.id));
        let (mut before, mut nth) = (usize::MAX, 0);
        for candidate in &mut candidates {
            nth = if candidate.actor == before { nth + 1 } else { 0 };
            (before, candidate.nth) = (candidate.actor, nth);
        }
        candidates
    }

    /// Lets a call through, or has it fail.
    pub(crate) fn release(&self, id: u64, fault: Option<Fault>) -> Passed {
        let mut inner = self.lock();
        let mut waiting = inner.waiting.remove(&id).expect("only what waits is let through");
        let (actor, answer_tx) = (waiting.actor, waiting.answer_tx.take());
        let (passed, answer) = match &waiting.errand {
            Errand::Own(what) => {
                (Passed { actor, call: None, status: None, what: what.clone() }, Some((200, String::new())))
            }
            Errand::Call(call) => {
                let what = inner.cloud.describe(call);
                if let Some(fault) = fault.filter(|fault| fault.shows_half()) {
                    inner.cloud.half_seen.hide(actor, fault, call);
                }
                let reached = fault.is_none_or(Fault::takes_effect).then(|| inner.cloud.perform(call));
                let status = reached.as_ref().map(|(status, _)| *status);
                let answer = match fault {
                    Some(fault) if !fault.shows_half() => fault.refusal(call),
                    _ => reached,
                };
                (Passed { actor, call: Some(call.clone()), status, what }, answer)
            }
        };
        if fault == Some(Fault::Late) {
            inner.waiting.insert(id, waiting);
        }
        if let Some(answer_tx) = answer_tx {
            // The actor gave up waiting.
            let _ = answer_tx.send(answer);
        }
        passed
    }

    /// `None`: the gate is open.
    fn wait(&self, actor: usize, errand: Errand, touches: Vec<Touch>) -> Option<(Place, oneshot::Receiver<Answer>)> {
        let mut inner = self.lock();
        if inner.open {
            return None;
        }
        let (answer_tx, answer_rx) = oneshot::channel();
        let id = inner.next;
        inner.next += 1;
        inner.waiting.insert(id, Waiting { actor, errand, touches, answer_tx: Some(answer_tx) });
        Some((Place { gate: self.clone(), id }, answer_rx))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl Waiting {
    fn candidate(&self, id: u64, cloud: &Cloud) -> Candidate {
        let call = match &self.errand {
            Errand::Call(call) => Some(call.clone()),
            Errand::Own(_) => None,
        };
        let late = self.answer_tx.is_none();
        let half_seen = call.as_ref().map(|call| cloud.half_seen.faults(call)).unwrap_or_default();
        Candidate { id, actor: self.actor, nth: 0, touches: self.touches.clone(), call, late, half_seen }
    }
}

/// A place in the queue, given up when dropped: a killed actor's call never arrives.
struct Place {
    gate: Gate,
    id: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.gate.lock();
        if inner.waiting.get(&self.id).is_some_and(|waiting| waiting.answer_tx.is_some()) {
            inner.waiting.remove(&self.id);
        }
    }
}
