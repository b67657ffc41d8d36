//! Cold starts: the time of each function from process start to its first `next`, its first and warm invocations,
//! memory and size. The smallest program that the Lambda runtime allows is in the same run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use local::RuntimeApi;
use template::workspace_root;
use testkit::stream::whole_template;
use testkit::{TestServer, programs};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

use crate::report;

const STARTS: usize = 30;
const WARM: usize = 20;
/// Debian's file with all certificates. Lambda's Amazon Linux has such a file too. Debian also has a folder with a file
/// for each certificate, which the SDK would read as well: twice the work.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Functions that no user waits for.
const NO_WARM_UP: [&str; 1] = ["notify"];
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the event for a function: the event of its own name, or the cheapest.
fn event(function: &str) -> &str {
    match function {
        "drain" => "ping",
        "group" => "members",
        "media" => "upload",
        other => other,
    }
}

/// Medians over many starts.
pub async fn table() -> anyhow::Result<String> {
    let server = TestServer::with(|_| {}).await;
    let template = whole_template();
    let common = [
        ("AWS_ENDPOINT_URL_SNS", format!("{}/sns", server.local().http_url())),
        ("AWS_ENDPOINT_URL_SQS", format!("{}/sqs", server.local().http_url())),
        ("AWS_ENDPOINT_URL_S3", server.local().objects().endpoint()),
        ("AWS_ENDPOINT_URL_DYNAMODB", server.local().database().endpoint()),
        ("CONNECTIONS_ENDPOINT", server.local().management_url()),
        ("JWKS_URL", format!("{}/.well-known/jwks.json", server.local().http_url())),
        ("TOKEN_ISSUER", "any".to_owned()),
        ("TOKEN_AUDIENCE", "any".to_owned()),
    ];
    let mut table = String::from(
        "| program | start → warm-up, ms | start → first `next`, ms | first invocation, ms | warm invocation, ms | memory at `next`, MB | size, MB |\n|---|---|---|---|---|---|---|\n",
    );
    let smallest = &programs().join("smallest");
    let bar = report::progress(1 + template.functions.len());
    let row = starts(smallest, &BTreeMap::new(), "ping").await?;
    row.write(&mut table, "the smallest `lambda_runtime` program", smallest)?;
    for function in template.functions.values() {
        bar.inc(1);
        let mut environment = function.environment.clone();
        environment.extend(common.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let binary = &programs().join(&function.binary);
        let mut all = starts(binary, &environment, event(&function.binary)).await?;
        let warm_ups = if NO_WARM_UP.contains(&function.binary.as_str()) { 0 } else { STARTS };
        for _ in 0..warm_ups {
            all.warming_ms.push(until_warm_up(binary, &environment).await?);
        }
        all.write(&mut table, &function.binary, binary)?;
    }
    bar.finish_and_clear();
    Ok(table)
}

#[derive(Default)]
struct Starts {
    /// The times until the first call of the warm-up, if the program has a warm-up.
    warming_ms: Vec<f64>,
    next_ms: Vec<f64>,
    first_ms: Vec<f64>,
    warm_ms: Vec<f64>,
    memory_mb: Vec<f64>,
}

impl Starts {
    fn write(mut self, table: &mut String, name: &str, binary: &Path) -> anyhow::Result<()> {
        let size = std::fs::metadata(binary)?.len() as f64 / 1e6;
        let all = [&mut self.warming_ms, &mut self.next_ms, &mut self.first_ms, &mut self.warm_ms, &mut self.memory_mb];
        let [warming, next, first, warm, memory] = all.map(|values| {
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or_default()
        });
        let warming = if self.warming_ms.is_empty() { "none".to_owned() } else { format!("{warming:.1}") };
        writeln!(table, "| {name} | {warming} | {next:.1} | {first:.1} | {warm:.1} | {memory:.1} | {size:.1} |")?;
        Ok(())
    }
}

async fn starts(binary: &Path, environment: &BTreeMap<String, String>, event: &str) -> anyhow::Result<Starts> {
    let event = std::fs::read_to_string(workspace_root().join(format!("events/{event}.json")))?;
    let mut all = Starts::default();
    for _ in 0..STARTS {
        one(binary, environment, &event, &mut all).await.with_context(|| binary.display().to_string())?;
    }
    Ok(all)
}

async fn one(
    binary: &Path,
    environment: &BTreeMap<String, String>,
    event: &str,
    all: &mut Starts,
) -> anyhow::Result<()> {
    let (api, address, _stop_api) = RuntimeApi::start("bench").await?;
    let began = Instant::now();
    let process = start(binary, environment, &address.to_string())?;
    timeout(PATIENCE, api.ready()).await?;
    all.next_ms.push(ms(began));
    all.memory_mb.push(memory_mb(process.id().unwrap_or_default())?);
    for number in 0..=WARM {
        let began = Instant::now();
        timeout(PATIENCE, api.offer(event.to_owned(), PATIENCE)).await???;
        if number == 0 { &mut all.first_ms } else { &mut all.warm_ms }.push(ms(began));
        timeout(PATIENCE, api.ready()).await?;
    }
    Ok(())
}

fn start(binary: &Path, environment: &BTreeMap<String, String>, runtime_api: &str) -> anyhow::Result<Child> {
    let process = Command::new(binary)
        .env_clear()
        .envs(environment)
        .envs([
            ("AWS_LAMBDA_RUNTIME_API", runtime_api),
            ("AWS_LAMBDA_FUNCTION_NAME", "bench"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512"),
            ("AWS_LAMBDA_LOG_GROUP_NAME", "bench"),
            ("AWS_LAMBDA_LOG_STREAM_NAME", "bench"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "bench"),
            ("AWS_SECRET_ACCESS_KEY", "bench"),
            ("SSL_CERT_FILE", CERTIFICATES),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    Ok(process)
}

/// From a process's start until it calls on AWS, or on its issuer, for the first time.
async fn until_warm_up(binary: &Path, environment: &BTreeMap<String, String>) -> anyhow::Result<f64> {
    let everything = TcpListener::bind("127.0.0.1:0").await?;
    let address = everything.local_addr()?.to_string();
    let elsewhere = ["AWS_ENDPOINT_URL_DYNAMODB", "CONNECTIONS_ENDPOINT", "JWKS_URL"];
    let mut environment = environment.clone();
    environment.extend(elsewhere.map(|name| (name.to_owned(), format!("http://{address}"))));
    let began = Instant::now();
    let _process = start(binary, &environment, &address)?;
    timeout(PATIENCE, everything.accept()).await??;
    Ok(ms(began))
}

fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1_000.0
}

/// Returns the resident memory that Linux reports.
fn memory_mb(pid: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("memory is read as on Linux")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kb: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kb * 1_024.0 / 1e6)
}
