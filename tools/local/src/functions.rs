//! Lambda: invokes functions by logical id, each in one of its sandboxes. A sandbox handles one event at a time; more
//! start on demand, and idle ones stop.

mod runtime_api;
mod sandbox;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
pub use runtime_api::RuntimeApi;
use sandbox::{Processes, Sandbox};
use serde_json::Value;
use template::{Function, Template};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::lock;
use crate::logs::Log;
use crate::metrics::Metrics;

/// How many events run at the same time, each in a sandbox of its own. On AWS the account's limit is 1,000; here further ones wait.
#[derive(Clone, Copy, Debug)]
pub struct Concurrency {
    pub of_function: usize,
    /// Less than that, so that one socket's requests don't take all sandboxes of a function: AWS would start more.
    pub of_socket: usize,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self { of_function: 16, of_socket: 8 }
    }
}

const IDLE_MAX: Duration = Duration::from_mins(5);
const REAP_EVERY: Duration = Duration::from_secs(15);

/// Why an invocation gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FunctionError {
    #[error("{error_type}: {message}")]
    Raised { error_type: String, message: String },
    #[error("Task timed out after {}.00 seconds", .0.as_secs())]
    TimedOut(Duration),
    #[error("{0}")]
    Crashed(String),
    /// As many run as may.
    #[error("Rate Exceeded.")]
    Throttled,
    /// The caller lacks the permission.
    #[error("Invalid permissions on Lambda function")]
    Forbidden,
}

pub(crate) struct Functions {
    pools: BTreeMap<String, Arc<Pool>>,
    metrics: Arc<Metrics>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// One function: what its sandboxes are made from, and those that have nothing to do.
struct Pool {
    blueprint: Blueprint,
    environment: Mutex<Arc<Environment>>,
    sandboxes_max: usize,
    turns: Semaphore,
    /// The maximum of concurrent invocations, if the function has one.
    reserved: Mutex<Option<usize>>,
    idle: Mutex<Vec<(Instant, Sandbox)>>,
    processes: Processes,
}

type Environment = BTreeMap<String, String>;

struct Blueprint {
    name: String,
    program: PathBuf,
    function: String,
    timeout: Duration,
    log: Log,
}

impl Functions {
    /// `environment` is added to every function's own.
    pub(crate) fn new(
        template: &Template,
        program: &Path,
        environment: &BTreeMap<String, String>,
        concurrency: Concurrency,
        log: &Log,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let mut pools = BTreeMap::new();
        for (name, function) in &template.functions {
            let environment = lambda_environment(name, function, program, environment);
            let blueprint = Blueprint {
                name: name.clone(),
                program: program.to_owned(),
                function: function.binary.clone(),
                timeout: function.timeout,
                log: log.clone(),
            };
            pools.insert(name.clone(), Arc::new(Pool::new(blueprint, environment, concurrency.of_function)));
        }
        let metrics = Arc::clone(metrics);
        let functions = Self { pools, metrics, tasks: TaskTracker::new(), stop: CancellationToken::new() };
        for pool in functions.pools.values() {
            functions.tasks.spawn(functions.stop.clone().run_until_cancelled_owned(reap(Arc::clone(pool))));
        }
        functions
    }

    /// Goes on to its end even if the caller stops waiting, as an invocation on AWS does.
    pub(crate) async fn invoke(&self, name: &str, event: &Value) -> Result<Vec<u8>, FunctionError> {
        let stopping = || FunctionError::Crashed("the server is stopping".to_owned());
        let Some(pool) = self.pools.get(name).cloned() else {
            return Err(FunctionError::Crashed(format!("there is no function {name}")));
        };
        if !pool.admits() {
            self.metrics.count("AWS/Lambda", "Throttles", name);
            return Err(FunctionError::Throttled);
        }
        self.metrics.count("AWS/Lambda", "Invocations", name);
        let event = Bytes::from(event.to_string());
        let (metrics, function) = (Arc::clone(&self.metrics), name.to_owned());
        let invocation = async move {
            let answer = pool.invoke(event).await;
            if answer.is_err() {
                metrics.count("AWS/Lambda", "Errors", &function);
            }
            answer
        };
        let running = self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(invocation));
        running.await.ok().flatten().unwrap_or_else(|| Err(stopping()))
    }

    /// Limits the concurrent invocations of the function; `None` removes the limit.
    pub(crate) fn reserve(&self, name: &str, concurrency: Option<usize>) {
        if let Some(pool) = self.pools.get(name) {
            *lock(&pool.reserved) = concurrency;
        }
    }

    /// Sets or removes a variable of the function, and returns the value that it had. Running invocations end with that
    /// value. Later ones run in new processes.
    pub(crate) fn configure(&self, name: &str, variable: &str, value: Option<&str>) -> Option<String> {
        let pool = self.pools.get(name)?;
        let mut environment = lock(&pool.environment);
        let mut changed = Environment::clone(&environment);
        let before = match value {
            Some(value) => changed.insert(variable.to_owned(), value.to_owned()),
            None => changed.remove(variable),
        };
        *environment = Arc::new(changed);
        lock(&pool.idle).clear();
        before
    }

    /// How many events are at work, over all functions.
    pub(crate) fn running(&self) -> usize {
        self.pools.values().map(|pool| pool.running()).sum()
    }

    /// Starts sandboxes of a function ahead of its events, as provisioned concurrency does.
    pub(crate) async fn warm(&self, name: &str, count: usize) -> Result<(), FunctionError> {
        let Some(pool) = self.pools.get(name) else { return Ok(()) };
        for _ in 0..count {
            pool.warm().await?;
        }
        Ok(())
    }

    /// The process ids of a function's sandboxes, busy or idle.
    pub(crate) fn sandboxes(&self, name: &str) -> Vec<u32> {
        self.pools.get(name).map(|pool| lock(&pool.processes).values().copied().collect()).unwrap_or_default()
    }

    /// The process that makes its calls with this access key.
    pub(crate) fn caller(&self, access_key: &str) -> Option<u32> {
        self.pools.values().find_map(|pool| lock(&pool.processes).get(access_key).copied())
    }

    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        for pool in self.pools.values() {
            let idle = std::mem::take(&mut *lock(&pool.idle));
            for (_, sandbox) in idle {
                sandbox.stop().await;
            }
        }
    }
}

impl Pool {
    fn new(blueprint: Blueprint, environment: Environment, sandboxes_max: usize) -> Self {
        let (turns, environment) = (Semaphore::new(sandboxes_max), Mutex::new(Arc::new(environment)));
        let (reserved, idle, processes) = (Mutex::default(), Mutex::default(), Processes::default());
        Self { blueprint, environment, sandboxes_max, turns, reserved, idle, processes }
    }

    fn admits(&self) -> bool {
        lock(&self.reserved).is_none_or(|reserved| self.running() < reserved)
    }

    fn running(&self) -> usize {
        self.sandboxes_max - self.turns.available_permits()
    }

    /// Starts a sandbox that waits for its first event.
    async fn warm(&self) -> Result<(), FunctionError> {
        let environment = Arc::clone(&lock(&self.environment));
        let sandbox = Sandbox::start(&self.blueprint, environment, Arc::clone(&self.processes)).await?;
        lock(&self.idle).push((Instant::now(), sandbox));
        Ok(())
    }

    async fn invoke(&self, event: Bytes) -> Result<Vec<u8>, FunctionError> {
        // The semaphore is never closed, so there is always a turn to wait for.
        let _turn = self.turns.acquire().await;
        while let Some(mut sandbox) = self.take_idle() {
            let answer = sandbox.run(event.clone(), self.blueprint.timeout).await;
            // An idle process that has ended has not read the event, so another process can.
            if sandbox.has_fetched() {
                return self.settle(sandbox, answer).await;
            }
        }
        let environment = Arc::clone(&lock(&self.environment));
        let mut sandbox = Sandbox::start(&self.blueprint, environment, Arc::clone(&self.processes)).await?;
        let answer = sandbox.run(event, self.blueprint.timeout).await;
        self.settle(sandbox, answer).await
    }

    /// Keeps the sandbox for the next event, unless it can't be relied on.
    async fn settle(&self, sandbox: Sandbox, answer: Result<Vec<u8>, FunctionError>) -> Result<Vec<u8>, FunctionError> {
        let is_current = Arc::ptr_eq(sandbox.environment(), &lock(&self.environment));
        match &answer {
            Ok(_) | Err(FunctionError::Raised { .. }) if is_current => {
                lock(&self.idle).push((Instant::now(), sandbox));
            }
            Ok(_) | Err(_) => sandbox.stop().await,
        }
        answer
    }

    /// The one used last, for it is the warmest.
    fn take_idle(&self) -> Option<Sandbox> {
        let mut idle = lock(&self.idle);
        while let Some((_, mut sandbox)) = idle.pop() {
            if sandbox.is_alive() {
                return Some(sandbox);
            }
        }
        None
    }
}

async fn reap(pool: Arc<Pool>) {
    loop {
        sleep(REAP_EVERY).await;
        lock(&pool.idle).retain_mut(|(since, sandbox)| since.elapsed() < IDLE_MAX && sandbox.is_alive());
    }
}

/// What Lambda puts into every sandbox's environment; nothing else of ours gets in.
fn lambda_environment(
    name: &str,
    function: &Function,
    program: &Path,
    common: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let folder = program.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
    let lambda = [
        ("_HANDLER", "bootstrap"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
        ("AWS_SESSION_TOKEN", "local"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        // There is no metadata service to ask, and waiting for one takes seconds.
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_LAMBDA_FUNCTION_NAME", name),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", &function.memory_mb.to_string()),
        ("AWS_LAMBDA_LOG_GROUP_NAME", &format!("/aws/lambda/{name}")),
        ("AWS_LAMBDA_LOG_STREAM_NAME", "local"),
        ("LAMBDA_TASK_ROOT", &folder),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    function.environment.clone().into_iter().chain(lambda).chain(common.clone()).collect()
}
