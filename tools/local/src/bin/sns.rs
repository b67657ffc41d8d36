//! The local server's SNS alone, with its phones: for a deployment to an AWS on this machine, which has none.

use std::net::Ipv4Addr;

use clap::Parser;
use tokio::net::TcpListener;

/// SNS's mobile push at /sns. GET /sns returns the notifications on each token's phone. The program listens on
/// 127.0.0.1 only.
#[derive(Parser)]
#[command(name = "sns", version)]
struct Arguments {
    /// The port to listen on
    #[arg(long)]
    port: u16,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { port } = Arguments::parse();
    local::serve_sns(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?).await
}
