//! `cargo run`: serves the functions until Ctrl-C, and prints what can be done with them. For each sandbox, the server
//! starts this same program again with the name of a function, so that Cargo links one program and not fifteen.
//!
//! The npm package `@pigeonhole/local` has this program too. There the template and the demo's page are next to it.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use local::{Limits, Options, Server, StreamLimits};

const PORT_DEFAULT: u16 = 3001;
const TEMPLATE: &str = "template.yaml";

/// Runs Pigeonhole on this machine: the WebSocket API, the functions and the tables of template.yaml.
#[derive(Parser)]
#[command(name = "pigeonhole", version)]
struct Arguments {
    /// Address to listen on, such as your machine's in the Wi-Fi for a phone. Upload URLs name it. Any user of that
    /// network can then chat as any user. With 0.0.0.0, all addresses; upload URLs name 127.0.0.1
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,

    /// Port of the WebSocket API. The database listens on the next port, and S3 on the one after it. With 0, three free
    /// ports
    #[arg(long, default_value_t = PORT_DEFAULT)]
    port: u16,

    /// Folder of the tables, which the next start reads again. Without it, the tables are in memory
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Idle time after which the server closes a socket
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    idle_timeout: u64,

    /// Age at which the server closes a socket
    #[arg(long, value_name = "SECONDS", default_value_t = 7200)]
    max_lifetime: u64,

    /// Maximum batching window of the table streams, in place of a longer one in template.yaml. With 0, push is
    /// immediate
    #[arg(long, value_name = "SECONDS")]
    batching_window: Option<u64>,

    /// Value of a parameter of template.yaml, such as RequestRate=off
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    parameter: Vec<(String, String)>,

    /// Switch this off, which the local server has on: events, http or profiles
    #[arg(long, value_name = "NAME", value_parser = without)]
    without: Vec<(&'static str, &'static str)>,

    /// Never deliver $disconnect, which is best effort on AWS
    #[arg(long)]
    lose_disconnects: bool,

    /// Run this function instead of the server, with the environment that Lambda gives it
    #[arg(long, hide = true)]
    function: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = match &arguments.function {
        Some(function) => run_function(function).map_err(|error| format!("{error:?}")),
        // A backtrace does not help against a port in use.
        None => run_server(&arguments).map_err(|error| format!("{error:#}")),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pigeonhole: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Does what the `main` of this function does on AWS.
#[tokio::main(flavor = "current_thread")]
async fn run_function(name: &str) -> Result<(), lambda::Error> {
    match name {
        "admin" => lambda::serve(admin::start, admin::handle).await,
        "authorize" => lambda::serve(authorize::start, authorize::handle).await,
        "backend" => lambda::serve(backend::start, backend::handle).await,
        "connect" => lambda::serve(connect::start, connect::handle).await,
        "device" => lambda::serve(device::start, device::handle).await,
        "keys" => lambda::serve(keys::start, keys::handle).await,
        "drain" => lambda::serve(drain::start, drain::handle).await,
        "fanout" => lambda::serve(fanout::start, fanout::handle).await,
        "group" => lambda::serve(group::start, group::handle).await,
        "inbox" => lambda::serve(inbox::start, inbox::handle).await,
        "ingest" => lambda::serve(ingest::start, ingest::handle).await,
        "media" => lambda::serve(media::start, media::handle).await,
        "notify" => lambda::serve(notify::start, notify::handle).await,
        "jobs" => lambda::serve(jobs::start, jobs::handle).await,
        "publish" => lambda::serve(publish::start, publish::handle).await,
        "read" => lambda::serve(read::start, read::handle).await,
        "send" => lambda::serve(send::start, send::handle).await,
        _ => Err(format!("this program has no function {name}").into()),
    }
}

#[tokio::main]
async fn run_server(arguments: &Arguments) -> anyhow::Result<()> {
    let program = std::env::current_exe()?;
    let package = package(&program).map(Path::to_owned);
    let mut options = Options { program, ..options(arguments) };
    if let Some(folder) = &package {
        options.template = folder.join(TEMPLATE);
        options.demo = folder.join("demo");
        options.docs = folder.join("docs");
    }
    let mut end = std::pin::pin!(end()?);
    let server = tokio::select! {
        server = Server::start(options) => server?,
        () = &mut end => return Ok(()),
    };
    greet(&server, arguments, package.is_some());
    end.await;
    server.shutdown().await;
    Ok(())
}

/// Returns the folder of a packaged program. What Cargo builds uses the files of the clone.
fn package(program: &Path) -> Option<&Path> {
    program.parent().filter(|folder| folder.join(TEMPLATE).exists())
}

/// Returns the end of the program, by Ctrl-C or SIGTERM.
#[cfg(unix)]
fn end() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Returns the end of the program, by Ctrl-C.
#[cfg(windows)]
fn end() -> std::io::Result<impl Future<Output = ()>> {
    let mut interrupt = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        interrupt.recv().await;
    })
}

fn options(arguments: &Arguments) -> Options {
    let without = arguments.without.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Options {
        host: arguments.host,
        port: arguments.port,
        data: arguments.data.clone(),
        limits: Limits {
            idle_max: Duration::from_secs(arguments.idle_timeout),
            lifetime_max: Duration::from_secs(arguments.max_lifetime),
            ..Limits::default()
        },
        streams: StreamLimits {
            window_max: arguments.batching_window.map_or(Duration::MAX, Duration::from_secs),
            ..StreamLimits::default()
        },
        parameters: without.chain(arguments.parameter.iter().cloned()).collect(),
        send_hook: std::env::var("SEND_HOOK_URL").ok().filter(|url| !url.is_empty()),
        lose_disconnects: arguments.lose_disconnects,
        ..Options::default()
    }
}

/// Returns the parameter that a feature has, and its value without the feature.
fn without(name: &str) -> Result<(&'static str, &'static str), String> {
    match name {
        "events" => Ok(("EventsTo", "")),
        "profiles" => Ok(("Profiles", "off")),
        "http" => Ok(("HttpApi", "off")),
        _ => Err("must be events, http or profiles".to_owned()),
    }
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn greet(server: &Server, arguments: &Arguments, is_packaged: bool) {
    let (socket, http, database) = (server.url(), server.http_url(), server.database().endpoint());
    let (objects, port) = (server.objects().endpoint(), server.port());
    let objects_port = objects.rsplit(':').next().unwrap_or_default();
    let data = arguments
        .data
        .as_ref()
        .map_or_else(|| "in memory; --data DIR keeps it".to_owned(), |folder| format!("in {}", folder.display()));
    let devices = if http.starts_with("http://127.0.0.1:") {
        format!(
            "adb reverse tcp:{port} tcp:{port}     (Android phones and emulators reach 127.0.0.1 so)
            adb reverse tcp:{objects_port} tcp:{objects_port}     (others: start with --host ADDRESS)"
        )
    } else {
        format!("all that reach {}", arguments.host)
    };
    let commands = if is_packaged { of_package(&http) } else { of_clone(server) };
    println!(
        "Pigeonhole is ready.
  demo      {http}/     (two people chat in the browser)
  console   {http}/console.html     (for operators: users, messages, reports)
  socket    {socket}
{commands}
  token     curl '{http}/token?user=alice'
  devices   {devices}
  phones    curl '{http}/phones?user=bob'     (bob's phones and their notifications; the action device registers a phone)
  tables    curl {http}/tables/InboxTable
            aws dynamodb scan --endpoint-url {database} --table-name InboxTable
  objects   {objects}     (pictures and files, in a local S3)
  data      {data}
Logs follow. Ctrl-C stops everything."
    );
}

/// Returns the lines of the banner with commands that need a clone of the repository.
fn of_clone(server: &Server) -> String {
    let (socket, http) = (server.url(), server.http_url());
    let is_usual = http == format!("http://127.0.0.1:{PORT_DEFAULT}");
    let url = if is_usual { String::new() } else { format!(" {socket}") };
    let place = if is_usual { String::new() } else { format!("PIGEONHOLE_LOCAL={http} ") };
    format!(
        "  docs      {http}/docs/     (after: just docs)
  chat now  cargo run --example chat -- alice bob{url}
            cargo run --example chat -- bob alice{url}     (in another terminal)
  queue     {place}just publish bob 'your parcel is on its way'     (docs/backend.md)
  operate   {place}just admin '{{\"op\":\"connections\",\"user_id\":\"bob\"}}'     (docs/operating.md)
            {place}just trace CONVERSATION SEQ"
    )
}

/// Returns the same for a program without a clone.
fn of_package(http: &str) -> String {
    let admin = format!("curl {http}/local/admin -H 'content-type: application/json' -d");
    format!(
        "  publish   {admin} '{{\"op\":\"send\",\"as\":\"@shop\",\"to\":\"bob\",\"client_msg_id\":\"1\",\"kind\":\"text\",\"body\":\"hi\"}}'
  operate   {admin} '{{\"op\":\"connections\",\"user_id\":\"bob\"}}'
  log       curl '{http}/local/log?with=ERROR'"
    )
}
