//! `cargo run`: builds the functions, serves them until Ctrl-C, and says what can be done with them.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use local::{Limits, Options, Server, StreamLimits, build_functions};
use tokio::signal::unix::{SignalKind, signal};

const PORT_DEFAULT: u16 = 3001;

/// Pigeonhole on this machine: the WebSocket API, the functions behind it and their tables, as template.yaml says.
/// It listens on 127.0.0.1 only.
#[derive(Parser)]
#[command(name = "pigeonhole", version)]
struct Arguments {
    /// The port to listen on; the database takes the next one, and S3 the one after it. 0: any three that are free
    #[arg(long, default_value_t = PORT_DEFAULT)]
    port: u16,

    /// Keep the tables in this folder, and find them again at the next start. Without it they are in memory
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Build the functions with optimisations, as for AWS
    #[arg(long)]
    release: bool,

    /// Close a socket after that long without data in either direction
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    idle_timeout: u64,

    /// Close a socket that long after it was opened
    #[arg(long, value_name = "SECONDS", default_value_t = 7200)]
    max_lifetime: u64,

    /// Take the changes of a table to their function after that long at most, where the template may say longer. A phone rings at
    /// once with 0
    #[arg(long, value_name = "SECONDS")]
    batching_window: Option<u64>,

    /// Another value for a parameter of template.yaml, such as RequestRate=off
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    parameter: Vec<(String, String)>,

    /// Never deliver $disconnect: on AWS it is best effort, and nothing may depend on it
    #[arg(long)]
    lose_disconnects: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A backtrace says nothing of a port that is taken.
            eprintln!("pigeonhole: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let options = options(arguments);
    // Whoever built this server with optimisations has built the functions so as well.
    let optimised = arguments.release || !cfg!(debug_assertions);
    // By name and not by package: then Cargo builds them with the features that this server was built with, and the
    // libraries only once.
    let functions = options.functions()?;
    let mut cargo = vec!["build"];
    cargo.extend(functions.iter().flat_map(|binary| ["--bin", binary]));
    cargo.extend(optimised.then_some("--release"));
    // Nothing has started yet that a signal would have to stop, so this may block.
    let binaries = build_functions(&cargo)?;

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;

    let server = tokio::select! {
        server = Server::start(Options { binaries, ..options }) => server?,
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
    let url = if server.port() == PORT_DEFAULT { String::new() } else { format!(" --url {socket}") };
    let data = arguments
        .data
        .as_ref()
        .map_or_else(|| "in memory; --data DIR keeps it".to_owned(), |folder| format!("in {}", folder.display()));
    println!(
        "Pigeonhole is ready.
  demo      {http}/     (two people chat in the browser)
  socket    {socket}
  chat now  cargo run --bin chat --{url} alice bob
            cargo run --bin chat --{url} bob alice     (in another terminal)
  token     curl '{http}/token?user=alice'
  phones    curl '{http}/phones?user=bob'     (what each of bob's phones shows: register one with the action device)
  tables    curl {http}/tables/InboxTable
            aws dynamodb scan --endpoint-url {database} --table-name InboxTable
  queue     just publish bob 'your parcel is on its way'     (docs/backend.md)
  objects   {objects}     (what messages carry, as S3 has it)
  operate   curl --json '{{\"op\":\"connections\",\"user_id\":\"bob\"}}' {http}/local/admin     (docs/operating.md has more)
  data      {data}
Logs follow. Ctrl-C stops everything."
    );
}
