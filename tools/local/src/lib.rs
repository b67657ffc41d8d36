//! AWS on this machine, as far as `template.yaml` asks for it: API Gateway's WebSocket API (`gateway`), Lambda
//! (`functions`, `mappings`), `DynamoDB` (`database`), S3 (`s3`), SNS's mobile push (`sns`) and SQS (`queues`, `sqs`). It knows nothing of chat but what an app on a phone
//! knows (`phones`): routes, functions and tables come from the template, and the functions are the binaries that run on AWS too.

mod binaries;
mod database;
mod functions;
mod gateway;
mod logs;
mod mappings;
mod metrics;
mod phones;
mod queues;
mod s3;
mod server;
mod sns;
mod sqs;
mod tokens;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use binaries::{Binaries, build_functions};
pub use database::DatabaseServer;
pub use functions::{FunctionError, RuntimeApi};
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
