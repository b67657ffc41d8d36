//! AWS on this machine, as far as `template.yaml` needs it. `gateway` is API Gateway's WebSocket API, and `functions`
//! and `mappings` are Lambda. `database` is `DynamoDB`, `s3` S3, `sns` SNS's mobile push, and `queues` and `sqs` are
//! SQS.
//!
//! The crate knows no more of chat than an app on a phone (`phones`). Routes, functions and tables come from the
//! template, and the program that runs a function from [`Options`].

mod database;
mod functions;
mod gateway;
mod logs;
mod mappings;
mod metrics;
mod phone;
mod phones;
mod queues;
mod s3;
mod send_hook;
mod server;
mod sns;
mod sqs;
mod tokens;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use database::DatabaseServer;
pub use functions::{Concurrency, FunctionError, RuntimeApi};
pub use gateway::Limits;
pub use logs::Logs;
pub use mappings::{StreamLimits, Switches};
pub use metrics::{Counts, IteratorAges};
pub use queues::Queue;
pub use s3::ObjectServer;
pub use server::{Options, Server};
pub use sns::serve_sns;
pub use tokens::Tokens;
use tokio::net::TcpListener;

/// Whole, or as it was: a server may be killed meanwhile.
fn write_whole(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let new = file.with_extension("new");
    std::fs::write(&new, bytes)?;
    std::fs::rename(new, file)
}

/// Returns the address by which clients reach a listener. On all addresses of the machine, as in a container, that is
/// 127.0.0.1.
fn reached(listener: &TcpListener) -> std::io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    let is_all = address.ip().is_unspecified();
    Ok(if is_all { SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port()) } else { address })
}

/// A panic elsewhere leaves nothing half done in what the locks here guard.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
