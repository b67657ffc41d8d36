//! Every call of every actor waits here until it is let through. The SDK clients are the genuine ones; what waits is
//! their HTTP request, and what lets it through carries it out in a [`Cloud`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use aws_sdk_apigatewaymanagement as management;
use aws_sdk_dynamodb as dynamodb;
use aws_sdk_dynamodb::config::retry::{RetryPartition, TokenBucket};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use tokio::sync::oneshot;

use crate::clients::{management_config, store_config};
use crate::cloud::{Cloud, Request, Touch};
use crate::recorder::{answer, lost};
use crate::schedule::Fault;

type Answer = Result<HttpResponse, ConnectorError>;

/// Clones share what waits.
#[derive(Clone)]
pub struct Gate(Arc<Mutex<Inner>>);

struct Inner {
    cloud: Cloud,
    /// Nobody waits: calls are carried out as they come.
    open: bool,
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
}

struct Waiting {
    actor: usize,
    errand: Errand,
    touches: Vec<Touch>,
    /// `None` once the client has given up on it, while it is still on its way.
    reply: Option<oneshot::Sender<Answer>>,
}

enum Errand {
    Call(Request),
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
    pub(crate) request: Option<Request>,
    /// The client has given up on it.
    pub(crate) late: bool,
}

impl Candidate {
    pub(crate) fn writes(&self) -> bool {
        self.request.as_ref().is_some_and(Request::writes)
    }

    pub(crate) fn reads(&self) -> bool {
        self.request.as_ref().is_some_and(|request| !request.writes())
    }

    /// Whether it matters which of the two comes first.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.touches.iter().any(|one| other.touches.iter().any(|two| one.meets(two)))
    }
}

/// What was just let through.
#[derive(Debug)]
pub struct Passed {
    pub actor: usize,
    /// `None`: a step of the actor's own, or its end.
    pub request: Option<Request>,
    /// What the service answered, if the call arrived.
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

    /// A DynamoDB client of that actor's. It retries as in production, though its budget for that, which outlasts a
    /// schedule, has no end: what one schedule does must not depend on those before.
    pub fn store_client(&self, actor: usize) -> dynamodb::Client {
        let budget = RetryPartition::custom("explorer").token_bucket(TokenBucket::unlimited()).build();
        let config = store_config(Door { gate: self.clone(), actor }).retry_partition(budget);
        dynamodb::Client::from_conf(config.build())
    }

    /// A management API client of that actor's. It tries once, as in production.
    pub fn management_client(&self, actor: usize) -> management::Client {
        management::Client::from_conf(management_config(Door { gate: self.clone(), actor }).build())
    }

    /// A step of the actor's own: it goes on once it is let through.
    pub async fn pass(&self, actor: usize, what: &str, touches: Vec<Touch>) {
        if let Some((_place, passed)) = self.wait(actor, Errand::Own(what.to_owned()), touches) {
            passed.await.ok();
        }
    }

    /// From here on calls wait (`false`), or are carried out as they come (`true`). Nothing waits from before.
    pub(crate) fn set_open(&self, open: bool) {
        let mut inner = self.lock();
        (inner.open, inner.next) = (open, 0);
        inner.waiting.clear();
    }

    pub(crate) fn is_waiting(&self, actor: usize) -> bool {
        self.lock().waiting.values().any(|waiting| waiting.actor == actor && waiting.reply.is_some())
    }

    /// Everything that waits, actor by actor.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let inner = self.lock();
        let mut candidates: Vec<_> = inner.waiting.iter().map(|(id, waiting)| waiting.candidate(*id)).collect();
        candidates.sort_by_key(|candidate| (candidate.actor, candidate.id));
        let (mut before, mut nth) = (usize::MAX, 0);
        for candidate in &mut candidates {
            nth = if candidate.actor == before { nth + 1 } else { 0 };
            (before, candidate.nth) = (candidate.actor, nth);
        }
        candidates
    }

    /// Lets a call through, or lets it come to grief.
    pub(crate) fn release(&self, id: u64, fault: Option<Fault>) -> Passed {
        let mut inner = self.lock();
        let mut waiting = inner.waiting.remove(&id).expect("only what waits is let through");
        let (actor, reply) = (waiting.actor, waiting.reply.take());
        let transaction = waiting.touches.len() > 1;
        let what = match &waiting.errand {
            Errand::Own(what) => what.clone(),
            Errand::Call(request) => inner.cloud.describe(request),
        };
        let arrives = matches!(fault, None | Some(Fault::ReplyLost));
        let mut passed = Passed { actor, request: None, status: None, what };
        let mut reached = Ok(answer(200, String::new()));
        if let Errand::Call(request) = &waiting.errand {
            if arrives {
                let (status, body) = inner.cloud.perform(request);
                passed.status = Some(status);
                reached = Ok(answer(status, body));
            }
            passed.request = Some(request.clone());
        }
        if fault == Some(Fault::Late) {
            inner.waiting.insert(id, waiting);
        }
        let answer = match fault.map(|fault| fault.failure(transaction)) {
            None => reached,
            Some(failure) => failure.answer().ok_or_else(|| lost("the connection broke")),
        };
        if let Some(reply) = reply {
            // Nobody there: the actor gave up waiting.
            reply.send(answer).ok();
        }
        passed
    }

    /// `None`: the gate is open.
    fn wait(&self, actor: usize, errand: Errand, touches: Vec<Touch>) -> Option<(Place, oneshot::Receiver<Answer>)> {
        let mut inner = self.lock();
        if inner.open {
            return None;
        }
        let (reply, answered) = oneshot::channel();
        let id = inner.next;
        inner.next += 1;
        inner.waiting.insert(id, Waiting { actor, errand, touches, reply: Some(reply) });
        Some((Place { gate: self.clone(), id }, answered))
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
    fn candidate(&self, id: u64) -> Candidate {
        let request = match &self.errand {
            Errand::Call(request) => Some(request.clone()),
            Errand::Own(_) => None,
        };
        let late = self.reply.is_none();
        Candidate { id, actor: self.actor, nth: 0, touches: self.touches.clone(), request, late }
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
        if inner.waiting.get(&self.id).is_some_and(|waiting| waiting.reply.is_some()) {
            inner.waiting.remove(&self.id);
        }
    }
}

/// An actor's HTTP client, which leads to the gate.
#[derive(Debug, Clone)]
struct Door {
    gate: Gate,
    actor: usize,
}

impl HttpClient for Door {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Door {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let request = Request::of(&request);
        let touches = self.gate.with_cloud(|cloud| cloud.touches(&request));
        let waits = self.gate.wait(self.actor, Errand::Call(request.clone()), touches);
        let gate = self.gate.clone();
        HttpConnectorFuture::new(async move {
            match waits {
                None => {
                    let (status, body) = gate.with_cloud(|cloud| cloud.perform(&request));
                    Ok(answer(status, body))
                }
                Some((_place, answered)) => answered.await.unwrap_or_else(|_| Err(lost("nobody lets it through"))),
            }
        })
    }
}
