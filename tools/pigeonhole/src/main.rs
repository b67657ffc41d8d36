//! `cargo run`: serves the functions until Ctrl-C, and prints what can be done with them. For each sandbox, the server
//! starts this same program again with the name of a function, so that Cargo links one program and not fourteen.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use local::{Limits, Options, Server, StreamLimits};
use tokio::signal::unix::{SignalKind, signal};

const PORT_DEFAULT: u16 = 3001;

/// Runs Pigeonhole on this machine: the WebSocket API, the functions and the tables of template.yaml.
/// Listens on 127.0.0.1 only.
#[derive(Parser)]
#[command(name = "pigeonhole", version)]
struct Arguments {
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
        "connect" => lambda::serve(connect::start, connect::handle).await,
        "device" => lambda::serve(device::start, device::handle).await,
        "drain" => lambda::serve(drain::start, drain::handle).await,
        "fanout" => lambda::serve(fanout::start, fanout::handle).await,
        "group" => lambda::serve(group::start, group::handle).await,
        "inbox" => lambda::serve(inbox::start, inbox::handle).await,
        "ingest" => lambda::serve(ingest::start, ingest::handle).await,
        "media" => lambda::serve(media::start, media::handle).await,
        "notify" => lambda::serve(notify::start, notify::handle).await,
        "read" => lambda::serve(read::start, read::handle).await,
        "send" => lambda::serve(send::start, send::handle).await,
        _ => Err(format!("this program has no function {name}").into()),
    }
}

#[tokio::main]
async fn run_server(arguments: &Arguments) -> anyhow::Result<()> {
    let options = Options { program: std::env::current_exe()?, ..options(arguments) };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;

    let server = tokio::select! {
        server = Server::start(options) => server?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    greet(&server, arguments);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    server.shutdown().await;
    Ok(())
}

fn options(arguments: &Arguments) -> Options {
    Options {
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
        parameters: arguments.parameter.iter().cloned().collect(),
        lose_disconnects: arguments.lose_disconnects,
        ..Options::default()
    }
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn greet(server: &Server, arguments: &Arguments) {
    let (socket, http, database) = (server.url(), server.http_url(), server.database().endpoint());
    let objects = server.objects().endpoint();
    let is_usual = server.port() == PORT_DEFAULT;
    let url = if is_usual { String::new() } else { format!(" {socket}") };
    let place = if is_usual { String::new() } else { format!("PIGEONHOLE_LOCAL={http} ") };
    let data = arguments
        .data
        .as_ref()
        .map_or_else(|| "in memory; --data DIR keeps it".to_owned(), |folder| format!("in {}", folder.display()));
    println!(
        "Pigeonhole is ready.
  demo      {http}/     (two people chat in the browser)
  docs      {http}/docs/     (after: just docs)
  socket    {socket}
  chat now  cargo run --example chat -- alice bob{url}
            cargo run --example chat -- bob alice{url}     (in another terminal)
  token     curl '{http}/token?user=alice'
  phones    curl '{http}/phones?user=bob'     (bob's phones and their notifications; the action device registers a phone)
  tables    curl {http}/tables/InboxTable
            aws dynamodb scan --endpoint-url {database} --table-name InboxTable
  queue     {place}just publish bob 'your parcel is on its way'     (docs/backend.md)
  objects   {objects}     (pictures and files, in a local S3)
  operate   {place}just admin '{{\"op\":\"connections\",\"user_id\":\"bob\"}}'     (docs/operating.md)
            {place}just trace CONVERSATION SEQ
  data      {data}
Logs follow. Ctrl-C stops everything."
    );
}
