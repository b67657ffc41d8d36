//! The functions in this process, fed with the events of `events/`.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actions::{Actions, Hook, SendLimits};
use deliver::{ConnectionsApi, Fanout};
use device::Applications;
use domain::{ConnectionId, Encryption, Profiles, Rate};
use keys::KeyRates;
use lambda::{ApiEvent, Clock, Context, Core, Diagnostic, InvocationEvent, LambdaEvent, Limiter, LogKey, Response};
use media::UploadLimits;
use objects::Objects;
use publish::{Content, Sink};
use push::Phones;
use queue::{DeadLetters, Failures};
use serde_json::{Value, json};
use store::connections::Connection;
use store::{Store, Tables};
use template::workspace_root;
use wire::{ACTIONS, Timestamp, UserId};

use crate::{Connector, ManualClock, sqs_config};

/// How much a user may do: as the template says, but any number of requests and of first messages, of which tests make many.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub connections: usize,
    pub requests: Rate,
    pub sends: Rate,
    pub first_messages: Rate,
    /// Members of a group.
    pub group_members: u64,
    /// Time in which a connected user must acknowledge a message before the phone is notified.
    pub push_grace: Duration,
    /// Whether it is kept who is there.
    pub presence: bool,
    /// Bytes of media that a message may have.
    pub media_bytes: u64,
    /// MiB that a user uploads.
    pub uploads: Rate,
    pub encryption: Encryption,
    pub profiles: Profiles,
    /// Whether the team's own servers get events.
    pub events: bool,
    /// Whether each sealed message has a digest.
    pub sealed_reports: bool,
    pub keys: KeyRates,
    pub commits: Rate,
    pub births: Rate,
}

impl Default for Limits {
    fn default() -> Self {
        let sends = Rate { burst: 200, pause: Duration::from_millis(200) };
        Self {
            connections: 16,
            requests: Rate::UNLIMITED,
            sends,
            first_messages: Rate::UNLIMITED,
            group_members: 500,
            push_grace: Duration::from_secs(5),
            presence: false,
            media_bytes: wire::limits::MEDIA_BYTES_MAX,
            uploads: Rate::UNLIMITED,
            encryption: Encryption::Optional,
            profiles: Profiles::Users,
            events: false,
            sealed_reports: false,
            keys: KeyRates {
                claims: Rate { burst: 30, pause: Duration::from_secs(30) },
                packages: Rate { burst: 1_000, pause: Duration::from_mins(1) },
                devices: Rate { burst: 20, pause: Duration::from_mins(10) },
            },
            commits: Rate { burst: 30, pause: Duration::from_secs(30) },
            births: Rate { burst: 3, pause: Duration::from_hours(1) },
        }
    }
}

impl Limits {
    /// With as many requests of a user as the template says.
    pub fn of_requests() -> Self {
        Self { requests: Rate { burst: 60, pause: Duration::from_millis(100) }, ..Self::default() }
    }
}

/// A team's filter of what users write: returns its answer to a question, or why there is none.
pub type Filter = Arc<dyn Fn(Value) -> Answer<Value> + Send + Sync>;
type Answer<T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send>>;

/// The functions, without the authorizer, with one set of clients. Every user is connected as `{user}=`.
pub struct InProcess {
    pub store: Store,
    pub connections: ConnectionsApi,
    pub phones: Phones,
    pub clock: ManualClock,
    management: aws_sdk_apigatewaymanagement::Client,
    limits: Limits,
    send: Core,
    drain: Core,
    read: Core,
    inbox: Core,
    connect: connect::Deps,
    pub device: device::Deps,
    keys: keys::Deps,
    media: media::Deps,
    notify: Option<notify::Deps>,
    group: Core,
    fanout: Actions,
    admin: admin::Deps,
    backend: backend::Deps,
    ingest: Option<ingest::Deps>,
    publish: Option<publish::Deps>,
    jobs: Option<jobs::Deps>,
    /// Time for which a run of a job works.
    slice: Duration,
    queue: Option<aws_sdk_sqs::Client>,
    filter: Option<(Filter, bool)>,
    /// How often the queue has handed on what `ingest` takes.
    pub receives: u32,
}

fn clock_of(clock: &ManualClock) -> Clock {
    let clock = clock.clone();
    Clock::new(move || clock.now())
}

impl InProcess {
    pub fn new(
        dynamodb: &aws_sdk_dynamodb::Client,
        management: aws_sdk_apigatewaymanagement::Client,
        sns: aws_sdk_sns::Client,
        s3: aws_sdk_s3::Client,
        clock: ManualClock,
        limits: Limits,
    ) -> Self {
        let store = Store::new(dynamodb, tables(), "WebSocketApi", limits.connections);
        Self::with(store, management, Phones::new(sns), Objects::new(s3, BUCKET), clock, &limits)
    }

    /// Adds the queues for unacceptable messages and failed events, and so `ingest` and `notify`.
    #[must_use]
    pub fn with_queue(mut self, sqs: aws_sdk_sqs::Client) -> Self {
        self.notify = Some(notify::Deps {
            store: self.store.clone(),
            phones: self.phones.clone(),
            failures: Failures::new(sqs.clone(), "http://sqs.test/failures"),
            grace: self.limits.push_grace,
            has_profiles: self.limits.profiles != Profiles::Off,
            clock: clock_of(&self.clock),
        });
        self.media.failures = Failures::new(sqs.clone(), "http://sqs.test/failures");
        let fanout = Fanout::new(self.store.clone(), ConnectionsApi::new(self.management.clone()));
        let mut limits = SendLimits::default();
        limits.profiles = self.limits.profiles;
        self.ingest = Some(ingest::Deps {
            actions: Actions::new(self.store.clone(), fanout, limits, clock_of(&self.clock)),
            dead_letters: DeadLetters::new(sqs.clone(), "http://sqs.test/dead-letters.fifo"),
        });
        self.queue = Some(sqs.clone());
        let fanout = Fanout::new(self.store.clone(), ConnectionsApi::new(self.management.clone()));
        self.jobs = Some(jobs::Deps {
            actions: Actions::new(self.store.clone(), fanout, SendLimits::default(), clock_of(&self.clock)),
            phones: self.phones.clone(),
            failures: Failures::new(sqs.clone(), "http://sqs.test/failures"),
            slice: self.slice,
            // A sleeping actor of the explorer wakes first, and its sleep would only end the SDK's waits of the others.
            settling: Duration::ZERO,
            backup_days: 35,
            report_days: 20,
        });
        self.with_sink(Sink::Queue { client: sqs, url: "http://sqs.test/events.fifo".to_owned() }, Content::Full)
    }

    /// Sends events there.
    #[must_use]
    pub fn with_sink(mut self, sink: Sink, content: Content) -> Self {
        let (store, stack, clock) = (self.store.clone(), "stack-of-tests".to_owned(), clock_of(&self.clock));
        self.publish = Some(publish::Deps { store, sink, content, stack, clock });
        self
    }

    /// Adds a filter, which has one second. `is_open`: what it does not answer is stored.
    #[must_use]
    pub fn with_filter(mut self, (filter, is_open): (Filter, bool)) -> Self {
        for core in [&mut self.send, &mut self.group] {
            let filter = Arc::clone(&filter);
            let ask = move |question: Vec<u8>| {
                let answer = filter(serde_json::from_slice(&question).expect("the question is JSON"));
                let answer: Answer<Vec<u8>> = Box::pin(async { answer.await.map(|answer| answer.to_string().into()) });
                answer
            };
            core.actions.hook = Some(Hook::new(Box::new(ask), Duration::from_secs(1), is_open));
        }
        self.filter = Some((filter, is_open));
        self
    }

    /// Returns the functions as newly started processes, with empty caches.
    #[must_use]
    pub fn restarted(&self) -> Self {
        let (store, management) = (self.store.clone(), self.management.clone());
        let (phones, objects) = (self.phones.clone(), self.media.objects.clone());
        let mut restarted = Self::with(store, management, phones, objects, self.clock.clone(), &self.limits);
        if let Some(sqs) = &self.queue {
            restarted = restarted.with_queue(sqs.clone());
        }
        match &self.filter {
            Some((filter, is_open)) => restarted.with_filter((Arc::clone(filter), *is_open)),
            None => restarted,
        }
    }

    fn with(
        store: Store,
        management: aws_sdk_apigatewaymanagement::Client,
        phones: Phones,
        objects: Objects,
        clock: ManualClock,
        limits: &Limits,
    ) -> Self {
        let Limits { requests, sends, first_messages, .. } = *limits;
        let of_rates =
            |sends, firsts| SendLimits::new(sends, firsts, Duration::from_hours(30 * 24), limits.group_members);
        let write_limits = || of_rates(sends, first_messages);
        let time = || clock_of(&clock);
        let process = |limits: SendLimits| {
            let (limiter, fanout) = of_process(&store, &management, requests);
            Core { actions: Actions::new(store.clone(), fanout, limits, time()), limiter }
        };
        let sealing = |mut of: SendLimits| {
            (of.encryption, of.commits, of.births) = (limits.encryption, limits.commits, limits.births);
            (of.sealed_reports, of.profiles) = (limits.sealed_reports, limits.profiles);
            of.reports_kept_for = Duration::from_hours(180 * 24);
            of.published = limits.events;
            process(of)
        };
        let plain = || sealing(SendLimits::default());
        let connect = plain();
        let of_blocks = SendLimits::new(Rate::UNLIMITED, first_messages, Duration::ZERO, 0);
        Self {
            send: sealing(write_limits()),
            drain: plain(),
            read: process(of_blocks),
            inbox: plain(),
            group: sealing(write_limits()),
            fanout: plain().actions,
            connect: connect::Deps {
                actions: connect.actions,
                limiter: connect.limiter,
                typing: connect::Typing::default(),
                suspensions: connect::Suspensions::default(),
                presence: limits.presence,
            },
            device: of_devices(&phones, plain()),
            keys: of_keys(sealing(of_rates(sends, first_messages)), limits),
            media: of_media(objects, plain(), limits),
            notify: None,
            admin: of_operators(sealing(of_rates(Rate::UNLIMITED, Rate::UNLIMITED)).actions),
            backend: backend::Deps { actions: sealing(of_rates(Rate::UNLIMITED, Rate::UNLIMITED)).actions },
            ingest: None,
            publish: None,
            jobs: None,
            slice: Duration::from_mins(2),
            queue: None,
            filter: None,
            receives: 1,
            connections: ConnectionsApi::new(management.clone()),
            store,
            phones,
            clock,
            management,
            limits: *limits,
        }
    }

    /// Has the functions remember a connection, as if they had posted to it.
    pub fn remember(&self, user: &str, connection: &str, connected_at: Timestamp) {
        let user = UserId::parse(user).unwrap();
        let processes = [&self.send, &self.drain, &self.read, &self.inbox, &self.group];
        for actions in processes.into_iter().map(|core| &core.actions).chain([&self.fanout]) {
            actions.fanout.remember(
                &user,
                Connection::new(ConnectionId::new(connection), connected_at, Timestamp::from_millis(i64::MAX)),
            );
        }
    }

    /// Returns the function's reply to that action, or to that file of `events/`.
    pub async fn handle(&self, action: &str, event: InvocationEvent) -> Result<Response, Diagnostic> {
        let function = ACTIONS.iter().find(|spec| spec.name == action).map_or("connect", |spec| spec.function);
        // Boxed: a test of many steps would have the states of all of them on its stack.
        match function {
            "connect" => Box::pin(connect::handle(&self.connect, event)).await,
            "send" => Box::pin(send::handle(&self.send, event)).await,
            "drain" => Box::pin(drain::handle(&self.drain, event)).await,
            "read" => Box::pin(read::handle(&self.read, event)).await,
            "device" => Box::pin(device::handle(&self.device, event)).await,
            "keys" => Box::pin(keys::handle(&self.keys, event)).await,
            "group" => Box::pin(group::handle(&self.group, event)).await,
            "inbox" => Box::pin(inbox::handle(&self.inbox, event)).await,
            "media" => Box::pin(media::act(&self.media, event)).await,
            other => panic!("{other} can't be called here yet: add it"),
        }
    }

    /// The answer to a batch of the inbox table's stream: what is to come again.
    pub async fn notify(&self, batch: Value) -> Value {
        let batch = serde_json::from_value(batch).expect("the batch parses");
        let deps = self.notify.as_ref().expect("a workbench has a queue");
        let answer = Box::pin(notify::handle(deps, LambdaEvent::new(batch, Context::default()))).await;
        serde_json::to_value(answer.unwrap()).unwrap()["batchItemFailures"].take()
    }

    /// The answer to a batch of the heads' stream: what is to come again.
    pub async fn fanout(&self, batch: Value) -> Value {
        let batch = serde_json::from_value(batch).expect("the batch parses");
        let answer = Box::pin(fanout::handle(&self.fanout, LambdaEvent::new(batch, Context::default()))).await;
        serde_json::to_value(answer.unwrap()).unwrap()["batchItemFailures"].take()
    }

    /// The answer to a batch of the stream of entries or of reports: what is to come again.
    pub async fn publish(&self, records: Vec<Value>) -> Value {
        let batch = serde_json::from_value(json!({ "Records": records })).expect("the batch parses");
        let deps = self.publish.as_ref().expect("a workbench has a queue");
        let answer = Box::pin(publish::handle(deps, LambdaEvent::new(batch, Context::default()))).await;
        serde_json::to_value(answer.unwrap()).unwrap()["batchItemFailures"].take()
    }

    /// Has each step of a job be a run.
    #[must_use]
    pub fn step_by_step(mut self) -> Self {
        self.slice = Duration::ZERO;
        match self.queue.clone() {
            Some(sqs) => self.with_queue(sqs),
            None => self,
        }
    }

    /// The answer to a batch of the stream of jobs, or to the daily rule: what is to come again.
    pub async fn jobs(&self, due: Value) -> Value {
        let due = serde_json::from_value(due).expect("the batch parses");
        let deps = self.jobs.as_ref().expect("a workbench has a queue");
        let answer = Box::pin(jobs::handle(deps, LambdaEvent::new(due, Context::default()))).await;
        serde_json::to_value(answer.unwrap()).unwrap()["batchItemFailures"].take()
    }

    /// Takes these messages out of the queue, in one batch, each with its group. The places of those that are to come again.
    pub async fn ingest(&self, messages: &[(&str, Value)]) -> Vec<usize> {
        let receives = self.receives.to_string();
        let record = |(place, (group, body)): (usize, &(&str, Value))| {
            let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
            json!({"messageId": format!("{place} {body}"), "body": body, "attributes": {
                "MessageGroupId": group, "ApproximateReceiveCount": receives,
                "SentTimestamp": self.clock.now().millis().to_string(),
            }})
        };
        let records: Vec<Value> = messages.iter().enumerate().map(record).collect();
        let batch = serde_json::from_value(json!({ "Records": records })).expect("the batch parses");
        let deps = self.ingest.as_ref().expect("a workbench has a queue");
        let answer = Box::pin(ingest::handle(deps, LambdaEvent::new(batch, Context::default()))).await;
        let failures = serde_json::to_value(answer.unwrap()).unwrap()["batchItemFailures"].take();
        let place = |failure: &Value| {
            let (place, _) = failure["itemIdentifier"].as_str().unwrap().split_once(' ').unwrap();
            place.parse().unwrap()
        };
        failures.as_array().unwrap().iter().map(place).collect()
    }

    /// The answer to a batch of the media table's stream: what is to come again.
    pub async fn sweep(&self, records: Vec<Value>) -> Value {
        self.sweep_again(json!({ "Records": records })).await
    }

    /// The answer to what `media` gave up before.
    pub async fn sweep_again(&self, event: Value) -> Value {
        let answer = Box::pin(media::handle(&self.media, LambdaEvent::new(event, Context::default()))).await;
        serde_json::to_value(answer.unwrap()).unwrap()["batchItemFailures"].take()
    }

    /// The answer to an operator.
    pub async fn admin(&self, request: Value) -> Value {
        Box::pin(admin::handle(&self.admin, LambdaEvent::new(request, Context::default()))).await.unwrap()
    }

    /// The status and the body of the reply over HTTP to this user or service, from this device. The path is `send`, or
    /// `services/send`.
    pub async fn http(&self, user: &str, device: Option<&str>, path: &str, frame: Value) -> (i64, Value) {
        let mut event = file_event("http");
        let (key, op) = match path.split_once('/') {
            Some((_, op)) => ("POST /v1/services/{op}".to_owned(), op),
            None => (format!("POST /v1/{path}"), path),
        };
        event["pathParameters"] = json!({ "op": op });
        event["requestContext"]["routeKey"] = json!(key);
        event["requestContext"]["authorizer"]["lambda"]["principalId"] = json!(user);
        event["headers"]["x-device-id"] = json!(device.unwrap_or_default());
        if device.is_none() {
            event["headers"].as_object_mut().unwrap().remove("x-device-id");
        }
        event["body"] = json!(frame.to_string());
        let event = to_event(event);
        let answer = match path.split_once('/') {
            Some(_) => self.backend(event).await,
            None => self.handle(path, event).await.unwrap(),
        };
        assert_eq!(answer.headers["content-type"], "application/json");
        (answer.status_code, serde_json::from_str(&answer.body.unwrap()).unwrap())
    }

    /// The reply of `backend` to a request of a service.
    pub async fn backend(&self, event: InvocationEvent) -> Response {
        Box::pin(backend::handle(&self.backend, event)).await.unwrap()
    }

    /// The answer to a frame of this user's.
    pub async fn run(&self, user: &str, frame: Value) -> Value {
        let mut event = message(user, &frame.to_string());
        event.payload.request_context.connected_at = self.clock.now().millis();
        frame_of(&self.handle(frame["action"].as_str().unwrap(), event).await)
    }

    /// The answer to a frame from this device of the user's.
    pub async fn device(&self, user: &str, device: &str, frame: Value) -> Value {
        let mut event = message(user, &frame.to_string());
        event.payload.request_context.connected_at = self.clock.now().millis();
        event.payload.request_context.authorizer.fields.insert("device_id".to_owned(), json!(device));
        frame_of(&self.handle(frame["action"].as_str().unwrap(), event).await)
    }

    /// The result of an action that succeeds.
    pub async fn ok(&self, user: &str, frame: Value) -> Value {
        let mut answer = self.run(user, frame).await;
        assert_eq!(answer["type"], "reply", "{answer}");
        answer["result"].take()
    }

    /// Notes the user as connected at `{user}=`, long enough ago to be no longer young.
    pub async fn connected(&self, user: &str) {
        self.connected_at(user, &format!("{user}="), "first").await;
    }

    /// As [`connected`](Self::connected), at that connection, with that device.
    pub async fn connected_at(&self, user: &str, connection: &str, device: &str) {
        self.connect_at(user, connection, device).await;
        self.clock.advance(Duration::from_mins(1));
    }

    /// The same, just now. Many who connect one after another would else outlive their connections.
    pub async fn connect_at(&self, user: &str, connection: &str, device: &str) {
        let mut event = self.event("connect", user);
        event.payload.request_context.connection_id = Some(connection.to_owned());
        let query = HashMap::from([("device_id".to_owned(), device.to_owned())]);
        event.payload.query_string_parameters = query;
        assert_eq!(self.handle("connect", event).await.unwrap().status_code, 200);
    }

    /// An event of `events/`, from this user, connected now.
    pub fn event(&self, file: &str, user: &str) -> InvocationEvent {
        let mut event = file_event(file);
        event["requestContext"]["authorizer"]["principalId"] = json!(user);
        event["requestContext"]["connectionId"] = json!(format!("{user}="));
        event["requestContext"]["connectedAt"] = json!(self.clock.now().millis());
        to_event(event)
    }
}

/// Until [`InProcess::with_queue`].
fn no_queue() -> Failures {
    let nobody = Connector::new(|_| async { None });
    Failures::new(aws_sdk_sqs::Client::from_conf(sqs_config(nobody).build()), "")
}

/// Returns a process's limiter and its client for posts: all clones of a `ConnectionsApi` share the process's limit for
/// posts.
fn of_process(store: &Store, management: &aws_sdk_apigatewaymanagement::Client, requests: Rate) -> (Limiter, Fanout) {
    let connections = ConnectionsApi::new(management.clone());
    (Limiter::new(requests, store.clone(), connections.clone()), Fanout::new(store.clone(), connections))
}

fn of_devices(phones: &Phones, core: Core) -> device::Deps {
    device::Deps {
        actions: core.actions,
        phones: phones.clone(),
        applications: applications(),
        limiter: core.limiter,
        registrations: Mutex::default(),
    }
}

fn of_keys(core: Core, limits: &Limits) -> keys::Deps {
    let Core { actions, limiter } = core;
    keys::Deps { actions, limiter, rates: limits.keys }
}

fn of_media(objects: Objects, core: Core, limits: &Limits) -> media::Deps {
    media::Deps {
        actions: core.actions,
        objects,
        failures: no_queue(),
        limiter: core.limiter,
        limits: UploadLimits { bytes_max: limits.media_bytes, mib: limits.uploads },
    }
}

fn of_operators(actions: Actions) -> admin::Deps {
    admin::Deps { actions, log_key: LogKey::new("key-of-tests") }
}

/// As in the template: it has no name of its own.
const BUCKET: &str = "mediabucket";

/// Returns an application per platform.
fn applications() -> Applications {
    let arn = |platform| Some(format!("arn:aws:sns:us-east-1:000000000000:app/{platform}/local"));
    Applications { apns: arn("APNS"), apns_sandbox: arn("APNS_SANDBOX"), fcm: arn("GCM") }
}

/// A table is called as in the template: none has a name of its own.
fn tables() -> Tables {
    Tables {
        connections: "ConnectionsTable".to_owned(),
        messages: "MessagesTable".to_owned(),
        idempotency: "IdempotencyTable".to_owned(),
        inbox: "InboxTable".to_owned(),
        devices: "DevicesTable".to_owned(),
        audit: "AuditTable".to_owned(),
        conversations: "ConversationsTable".to_owned(),
        members: "MembersTable".to_owned(),
        media: "MediaTable".to_owned(),
        watchers: "WatchersTable".to_owned(),
        keys: "KeysTable".to_owned(),
        epochs: "EpochsTable".to_owned(),
    }
}

/// The frame that raises a mark: `ack` or `read`.
pub fn up_to(action: &str, conversation: &Value, seq: u64) -> Value {
    match action {
        "ack" => json!({"action": "ack", "up_to": [{"conversation_id": conversation, "seq": seq}]}),
        _ => json!({"action": action, "conversation_id": conversation, "seq": seq}),
    }
}

/// The event of a file, as it is.
pub fn file_event(file: &str) -> Value {
    let path = workspace_root().join("events").join(format!("{file}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

pub fn to_event(event: Value) -> InvocationEvent {
    let payload: ApiEvent = serde_json::from_value(event).expect("the event parses");
    LambdaEvent::new(payload, Context::default())
}

/// A frame of this user's, as an event.
pub fn message(user: &str, body: &str) -> InvocationEvent {
    let mut event = file_event("send");
    event["requestContext"]["authorizer"]["principalId"] = json!(user);
    event["requestContext"]["connectionId"] = json!(format!("{user}="));
    event["body"] = json!(body);
    to_event(event)
}

/// Returns the reply frame for the event's sender.
pub fn frame_of(response: &Result<Response, Diagnostic>) -> Value {
    let response = serde_json::to_value(response.as_ref().unwrap()).unwrap();
    assert_eq!(response["statusCode"], 200, "API Gateway delivers only these");
    serde_json::from_str(response["body"].as_str().unwrap()).unwrap()
}
