//! A process that runs a function, and its own Runtime API. Dropping a sandbox kills the process.

use std::collections::BTreeMap;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::DropGuard;

use super::runtime_api::RuntimeApi;
use super::{Blueprint, Environment, FunctionError};
use crate::lock;
use crate::logs::Log;

/// Lambda's own limit on the time from start to the first request for an event.
const INIT_MAX: Duration = Duration::from_secs(10);
const LAST_WORDS_MAX: Duration = Duration::from_millis(500);
/// <https://learn.microsoft.com/en-us/windows/win32/procthread/process-creation-flags>
#[cfg(windows)]
const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;

pub(super) struct Sandbox {
    process: Child,
    environment: Arc<Environment>,
    api: Arc<RuntimeApi>,
    _registration: Registration,
    _stop_api: DropGuard,
}

/// The process ids of the sandboxes that live, by the access key that each has for its calls.
pub(super) type Processes = Arc<Mutex<BTreeMap<String, u32>>>;

/// Lists the process for as long as the sandbox lives.
struct Registration {
    access_key: String,
    processes: Processes,
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&self.processes).remove(&self.access_key);
    }
}

impl Sandbox {
    /// Returns once the function has asked for its first event.
    pub(super) async fn start(
        blueprint: &Blueprint,
        environment: Arc<Environment>,
        processes: Processes,
    ) -> Result<Self, FunctionError> {
        let failed = |error: std::io::Error| {
            FunctionError::Crashed(format!("{} cannot start: {error}", blueprint.program.display()))
        };
        let (api, address, stop_api) = RuntimeApi::start(&blueprint.name).await.map_err(failed)?;

        // As on AWS, no other sandbox has the same credentials, so a call shows whose it is.
        let access_key = format!("{}.{:08x}", blueprint.name, fastrand::u32(..));
        let mut command = Command::new(&blueprint.program);
        // A terminal's Ctrl-C is for the server, which ends its sandboxes when the sockets are closed.
        #[cfg(unix)]
        command.process_group(0);
        #[cfg(windows)]
        command.creation_flags(CREATE_NEW_PROCESS_GROUP);
        let mut process = command
            .args(["--function", &blueprint.function])
            .env_clear()
            .envs(&*environment)
            .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
            .env("AWS_ACCESS_KEY_ID", &access_key)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        lock(&processes).insert(access_key.clone(), process.id().unwrap_or_default());
        let registration = Registration { access_key, processes };
        forward(process.stdout.take(), blueprint);
        let last_words = forward(process.stderr.take(), blueprint);

        let mut sandbox = Self { process, environment, api, _registration: registration, _stop_api: stop_api };
        sandbox.wait_until_ready(last_words).await?;
        Ok(sandbox)
    }

    async fn wait_until_ready(&mut self, last_words: JoinHandle<Option<String>>) -> Result<(), FunctionError> {
        let status = tokio::select! {
            () = self.api.ready() => return Ok(()),
            status = self.process.wait() => status,
            () = tokio::time::sleep(INIT_MAX) => return Err(FunctionError::TimedOut(INIT_MAX)),
        };
        let reported = self.api.init_error().map(|error| error.to_string());
        let last_words = async { timeout(LAST_WORDS_MAX, last_words).await.ok()?.ok()? };
        let why = match reported {
            Some(error) => Some(error),
            None => last_words.await,
        };
        Err(FunctionError::Crashed(format!("{} at start-up: {}", exited(status), why.unwrap_or_default())))
    }

    pub(super) async fn run(&mut self, payload: Bytes, time_max: Duration) -> Result<Vec<u8>, FunctionError> {
        let answer_rx = self.api.offer(payload, time_max);
        tokio::select! {
            // A reply from before the end of the process counts.
            biased;
            Ok(answer) = answer_rx => answer,
            status = self.process.wait() => Err(FunctionError::Crashed(exited(status))),
            () = tokio::time::sleep(time_max) => Err(FunctionError::TimedOut(time_max)),
        }
    }

    pub(super) fn environment(&self) -> &Arc<Environment> {
        &self.environment
    }

    /// Whether the process took the event that it was last given.
    pub(super) fn has_fetched(&self) -> bool {
        !self.api.has_offer()
    }

    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Kills the process and waits for its end.
    pub(super) async fn stop(mut self) {
        // The only failure is that it has ended already.
        let _ = self.process.kill().await;
    }
}

fn exited(status: std::io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => format!("Runtime exited: {status}"),
        Err(error) => format!("Runtime exited: {error}"),
    }
}

/// Logs each line, and gives the last one that said something when the stream has ended.
fn forward(
    stream: Option<impl AsyncRead + Unpin + Send + 'static>,
    blueprint: &Blueprint,
) -> JoinHandle<Option<String>> {
    let (name, log): (String, Log) = (blueprint.name.clone(), blueprint.log.clone());
    tokio::spawn(async move {
        let mut lines = BufReader::new(stream?).lines();
        let mut last = None;
        while let Ok(Some(line)) = lines.next_line().await {
            if !line.trim().is_empty() {
                log.line(&name, &line);
                last = Some(line);
            }
        }
        last
    })
}
