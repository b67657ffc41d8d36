//! AWS on this machine, as far as `template.yaml` asks for it: API Gateway's WebSocket API (`gateway`), Lambda
//! (`functions`) and `DynamoDB` (`database`). It knows nothing of chat: routes, functions and tables come from the template,
//! and the functions are the binaries that run on AWS too.

mod binaries;
mod database;
mod functions;
mod gateway;
mod logs;
mod metrics;
mod server;
mod tokens;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use binaries::{Binaries, build_functions};
pub use database::DatabaseServer;
pub use functions::{FunctionError, RuntimeApi};
pub use gateway::Limits;
pub use logs::Logs;
pub use metrics::Counts;
pub use server::{Options, Server};
pub use tokens::Tokens;

/// A panic elsewhere leaves nothing half done in what the locks here guard.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
