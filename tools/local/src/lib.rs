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
mod server;
mod sns;
mod sqs;
mod tokens;

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

/// Whole, or as it was: a server may be killed meanwhile.
fn write_whole(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let new = file.with_extension("new");
    std::fs::write(&new, bytes)?;
    std::fs::rename(new, file)
}

/// A panic elsewhere leaves nothing half done in what the locks here guard.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
