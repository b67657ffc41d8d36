//! Puts the parts together on their ports, and takes them apart again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use axum::serve::ListenerExt as _;
use serde_json::json;
use template::{Function, Overrides, Template, workspace_root};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::database::DatabaseServer;
use crate::functions::{Concurrency, Functions};
use crate::gateway::{Authorized, Connections, Gateway, Limits, Throttles};
use crate::logs::{Log, Logs};
use crate::mappings::{Poller, QueuePoller, StreamLimits, Switches, is_done};
use crate::metrics::{Counts, IteratorAges, Metrics};
use crate::phone::Platform;
use crate::queues::{self, Queue, Queues};
use crate::s3::ObjectServer;
use crate::send_hook;
use crate::sns::{self, Sns};
use crate::sqs;
use crate::tokens::{self, Tokens};
use crate::{lock, reached, write_whole};

/// For sockets to close and their `$disconnect` to run.
const SHUTDOWN_MAX: Duration = Duration::from_secs(3);

/// SQS's own default.
const EVENTS_VISIBILITY: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct Options {
    /// The address to listen on, which is the one of the upload URLs. The database listens on 127.0.0.1.
    pub host: IpAddr,
    /// 0 takes any port that is free, and others for the database and S3; otherwise these have the next two.
    pub port: u16,
    /// The folder that keeps the tables; without it they are in memory.
    pub data: Option<PathBuf>,
    pub template: PathBuf,
    /// Values for the template's parameters.
    pub parameters: Overrides,
    /// The folder with the demo's page, as `just demo` builds it.
    pub demo: PathBuf,
    /// The folder with the documentation, as `just docs` builds it.
    pub docs: PathBuf,
    /// The program that a sandbox runs, with `--function` and the name of the function's binary.
    pub program: PathBuf,
    pub limits: Limits,
    pub concurrency: Concurrency,
    pub streams: StreamLimits,
    /// Where the team's filter of messages listens, over HTTP.
    pub send_hook: Option<String>,
    /// Never deliver `$disconnect`, which on AWS is best effort.
    pub lose_disconnects: bool,
    /// Added to every function's environment, in place of what is there.
    pub environment: BTreeMap<String, String>,
    pub logs: Logs,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 3001,
            data: None,
            template: workspace_root().join("template.yaml"),
            parameters: Overrides::new(),
            demo: workspace_root().join("apps/demo/dist"),
            docs: workspace_root().join("target/docs/site"),
            program: PathBuf::new(),
            limits: Limits::default(),
            concurrency: Concurrency::default(),
            streams: StreamLimits::default(),
            send_hook: None,
            lose_disconnects: false,
            environment: BTreeMap::new(),
            logs: Logs::default(),
        }
    }
}

fn data_id(data: Option<&Path>) -> anyhow::Result<String> {
    let new = Uuid::new_v4().simple().to_string();
    let Some(file) = data.map(|folder| folder.join("id")) else { return Ok(new) };
    if !file.exists() {
        write_whole(&file, new.as_bytes())?;
    }
    Ok(std::fs::read_to_string(file)?)
}

/// A running server. [`Server::shutdown`] ends it, or the end of the runtime on which it was started.
pub struct Server {
    address: SocketAddr,
    gateway: Arc<Gateway>,
    /// By the logical id of the mapping.
    mappings: BTreeMap<String, Arc<Switches>>,
}

impl Server {
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let Options { host, port, data, template, parameters, demo, docs, program, .. } = options;
        let Options { limits, concurrency, streams, send_hook, lose_disconnects, environment, logs, .. } = options;
        let listener = TcpListener::bind((host, port)).await;
        let listener = listener.with_context(|| {
            format!("cannot listen on {}; choose another with --port or --host", SocketAddr::new(host, port))
        })?;
        let address = reached(&listener)?;
        let overrides = overrides(address, send_hook.as_deref(), parameters);
        let mut template = with_local_address(Template::load(&template, &overrides)?, address);
        template.queues.extend(events_queue(&template));
        let queues = Queues::new(&template, &format!("http://{address}{}", sqs::PATH));
        with_queues(&mut template, &queues);

        let database_port =
            port_after(port, 1).context("the database takes the port after --port, and there is none")?;
        let database = Arc::new(DatabaseServer::start(&template.tables, data.as_deref(), database_port).await?);
        let objects_port = port_after(port, 2).context("S3 takes the second port after --port, and there is none")?;
        let bucket = template.buckets.first().cloned().unwrap_or_default();
        let objects = ObjectServer::start(&bucket, data.as_deref(), host, objects_port).await?;
        let (log, metrics) = (Log::new(logs), Arc::<Metrics>::default());
        let sns = Sns::open(data.as_deref(), log.clone())?;
        let environment = common(address, &database, &objects, environment);
        let functions = Arc::new(Functions::new(&template, &program, &environment, concurrency, &log, &metrics));
        let pollers = template.mappings.iter();
        let pollers =
            pollers.map(|mapping| Poller::new(&template, mapping, &database, &functions, streams, &log, &metrics));
        let pollers = pollers.collect::<anyhow::Result<Vec<_>>>()?;
        let of_queues = template.queue_mappings.iter();
        let of_queues =
            of_queues.map(|mapping| QueuePoller::new(mapping, &queues, &functions, streams.visibility_max, &log));
        let of_queues = of_queues.collect::<anyhow::Result<Vec<_>>>()?;

        let gateway = Arc::new(Gateway {
            api: template.api,
            http: template.http,
            authorized: Authorized::default(),
            domain: address.to_string(),
            functions,
            forbidden: Mutex::new(BTreeSet::new()),
            metrics,
            database,
            data_id: data_id(data.as_deref())?,
            objects,
            sns,
            queues,
            tokens: Tokens::new(format!("http://{address}"))?,
            limits,
            concurrency,
            send_hook,
            lose_disconnects,
            log,
            connections: Connections::default(),
            throttles: Throttles::default(),
            admin: admin_of(&template.functions),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        });
        // Without this, small answers wait for the other side's delayed acknowledgement.
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap_or_default());
        let stopped = gateway.stop.clone().cancelled_owned();
        let router = Arc::clone(&gateway).router(address.ip(), &demo, &docs)?;
        tokio::spawn(axum::serve(listener, router).with_graceful_shutdown(stopped).into_future());
        let mappings = template.mappings.into_iter().map(|mapping| mapping.logical_id);
        let mappings = mappings.zip(pollers.iter().map(Poller::switches)).collect();
        for poller in pollers {
            gateway.tasks.spawn(gateway.stop.clone().run_until_cancelled_owned(poller.run()));
        }
        for poller in of_queues {
            gateway.tasks.spawn(gateway.stop.clone().run_until_cancelled_owned(poller.run()));
        }
        Ok(Self { address, gateway, mappings })
    }

    /// Where clients connect: `ws://127.0.0.1:3001/v1`.
    pub fn url(&self) -> String {
        format!("ws://{}/{}", self.address, self.gateway.api.stage)
    }

    /// Where tokens, keys and tables are: `http://127.0.0.1:3001`.
    pub fn http_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where management clients post: `http://127.0.0.1:3001/v1`.
    pub fn management_url(&self) -> String {
        format!("http://{}/{}", self.address, self.gateway.api.stage)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn database(&self) -> &DatabaseServer {
        &self.gateway.database
    }

    pub fn objects(&self) -> &ObjectServer {
        &self.gateway.objects
    }

    /// A token that the functions accept.
    pub fn token(&self, user: &str, expires_in_s: u32) -> anyhow::Result<String> {
        self.gateway.tokens.issue(user, expires_in_s)
    }

    /// The process ids of a function's sandboxes, by the function's logical id.
    pub fn sandboxes(&self, function: &str) -> Vec<u32> {
        self.gateway.functions.sandboxes(function)
    }

    /// How many events are at work, over all functions.
    pub fn running(&self) -> usize {
        self.gateway.functions.running()
    }

    /// Starts processes of the function behind a route ahead of its events, as provisioned concurrency does.
    pub async fn warm(&self, route: &str, count: usize) -> anyhow::Result<()> {
        let route = self.gateway.api.routes.get(route).context("the API has no such route")?;
        Ok(self.gateway.functions.warm(&route.function, count).await?)
    }

    /// The process id of the sandbox whose calls are signed with this access key.
    pub fn caller(&self, access_key: &str) -> Option<u32> {
        self.gateway.functions.caller(access_key)
    }

    /// Returns the switches of a mapping, by its logical id; `None` if the template has none.
    pub fn mapping(&self, logical_id: &str) -> Option<&Switches> {
        self.mappings.get(logical_id).map(|switches| &**switches)
    }

    /// A queue, by its logical id; `None` if the template has none.
    pub fn queue(&self, logical_id: &str) -> Option<&Queue> {
        self.gateway.queues.get(logical_id).map(|queue| &**queue)
    }

    /// Does the work of `just replay`: invokes the function again with its own failed events from the queue, and with
    /// the failed batches of its mapping. Successful events are removed. Reports whether none is left.
    ///
    /// # Errors
    /// The template has no such queue, or the function fails.
    pub async fn replay(&self, function: &str, mapping: &str, queue: &str) -> anyhow::Result<bool> {
        let queue = self.queue(queue).context("there is no such queue")?;
        let mut all_done = true;
        for message in queue.receive(usize::MAX, Duration::ZERO) {
            let event = serde_json::from_str(&message.letter.body)?;
            if is_done(&self.gateway.functions.invoke(function, &event).await?) {
                queue.delete(&message.receipt);
            } else {
                all_done = false;
            }
        }
        let switches = self.mapping(mapping).context("there is no such mapping")?;
        for batch in switches.take_given_up() {
            let event = json!({ "Records": batch.records });
            if !is_done(&self.gateway.functions.invoke(function, &event).await?) {
                all_done = false;
                switches.give_up(batch);
            }
        }
        Ok(all_done)
    }

    /// AWS's metrics of the API and of the functions.
    pub fn metrics(&self) -> Counts {
        self.gateway.metrics.counts()
    }

    /// AWS's metric `IteratorAge`.
    pub fn iterator_ages(&self) -> IteratorAges {
        self.gateway.metrics.iterator_ages()
    }

    /// What `aws lambda put-function-concurrency` does; `None`: `delete-function-concurrency`.
    pub fn reserve(&self, function: &str, concurrency: Option<usize>) {
        self.gateway.functions.reserve(function, concurrency);
    }

    /// Gives the function another value of a variable, or takes it away, as a deployment does. The value that it had.
    pub fn configure(&self, function: &str, variable: &str, value: Option<&str>) -> Option<String> {
        self.gateway.functions.configure(function, variable, value)
    }

    /// Whether the API has the permission to call the function.
    pub fn permit(&self, function: &str, permitted: bool) {
        let mut forbidden = lock(&self.gateway.forbidden);
        if permitted {
            forbidden.remove(function);
        } else {
            forbidden.insert(function.to_owned());
        }
    }

    /// Closes the sockets, lets their `$disconnect` run, and ends every process it started.
    pub async fn shutdown(self) {
        self.gateway.stop.cancel();
        self.gateway.tasks.close();
        // A stuck function must not delay the end.
        let _ = timeout(SHUTDOWN_MAX, self.gateway.tasks.wait()).await;
        self.gateway.functions.stop().await;
    }
}

/// Returns the logical id of the operators' function.
fn admin_of(functions: &BTreeMap<String, Function>) -> Option<String> {
    functions.iter().find(|(_, function)| function.binary == "admin").map(|(id, _)| id.clone())
}

/// Port 0 is any free port, and so are those after it.
fn port_after(port: u16, places: u16) -> Option<u16> {
    if port == 0 { Some(0) } else { port.checked_add(places) }
}

/// Returns the template's parameters: those of the options, and those with another value here.
fn overrides(address: SocketAddr, send_hook: Option<&str>, parameters: Overrides) -> Overrides {
    let mut overrides = Overrides::from(
        [
            ("JwksUrl", format!("http://{address}/.well-known/jwks.json")),
            ("TokenIssuer", format!("http://{address}")),
            ("TokenAudience", tokens::AUDIENCE.to_owned()),
            ("LogKey", "key-of-a-local-server".to_owned()),
            ("QueryStringTokens", "on".to_owned()),
            ("BackendMessages", "on".to_owned()),
            ("Profiles", "users".to_owned()),
            ("HttpApi", "on".to_owned()),
            ("ServiceAudience", tokens::SERVICE_AUDIENCE.to_owned()),
            ("EventsTo", queues::arn(EVENTS_QUEUE)),
            ("Encryption", "Optional".to_owned()),
            // A developer writes to many made-up users.
            ("FirstMessageRate", "off".to_owned()),
            ("ApnsApplicationArn", Platform::Apns.application()),
            ("ApnsSandboxApplicationArn", Platform::ApnsSandbox.application()),
            ("FcmApplicationArn", Platform::Gcm.application()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    overrides.extend(send_hook.map(|_| ("SendHookArn".to_owned(), send_hook::ARN.to_owned())));
    overrides.extend(parameters);
    overrides
}

/// The API's host on AWS is this server here.
fn with_local_address(mut template: Template, address: SocketAddr) -> Template {
    let host = format!("https://{}.execute-api.us-east-1.amazonaws.com", template.api.logical_id);
    for value in template.functions.values_mut().flat_map(|function| function.environment.values_mut()) {
        *value = value.replace(&host, &format!("http://{address}"));
    }
    template
}

/// The logical id of the queue of events, which a team has of its own on AWS.
pub(crate) const EVENTS_QUEUE: &str = "Events";

/// Returns the queue for events, if a function sends any.
fn events_queue(template: &Template) -> Option<template::Queue> {
    let mut functions = template.functions.values();
    let target = functions.find_map(|function| function.environment.get("EVENTS_TO").filter(|arn| !arn.is_empty()))?;
    Some(template::Queue {
        logical_id: EVENTS_QUEUE.to_owned(),
        is_fifo: target.rsplit_once('.').is_some_and(|(_, end)| end == "fifo"),
        visibility: EVENTS_VISIBILITY,
        redrive: None,
        deduplicates_in_group: true,
    })
}

/// What CloudFormation refers to as a queue is its URL.
fn with_queues(template: &mut Template, queues: &Queues) {
    for value in template.functions.values_mut().flat_map(|function| function.environment.values_mut()) {
        if let Some(queue) = queues.get(value) {
            queue.url.clone_into(value);
        }
    }
}

/// Returns the environment of every function, besides the template's variables and Lambda's own. Later entries replace
/// earlier ones.
fn common(
    address: SocketAddr,
    database: &DatabaseServer,
    objects: &ObjectServer,
    environment: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let endpoints = [
        ("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), database.endpoint()),
        ("AWS_ENDPOINT_URL_SNS".to_owned(), format!("http://{address}{}", sns::PATH)),
        ("AWS_ENDPOINT_URL_SQS".to_owned(), format!("http://{address}{}", sqs::PATH)),
        ("AWS_ENDPOINT_URL_S3".to_owned(), objects.endpoint()),
        // On this machine, no request of a barred user takes longer.
        ("SETTLING_SECONDS".to_owned(), "1".to_owned()),
        ("AWS_ENDPOINT_URL_LAMBDA".to_owned(), format!("http://{address}{}", send_hook::PATH)),
    ];
    // By SystemRoot, a program on Windows finds its sockets.
    let kept = ["RUST_LOG", "SystemRoot"].map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    endpoints.into_iter().chain(kept.into_iter().flatten()).chain(environment).collect()
}
