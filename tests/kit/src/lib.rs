//! For tests only: the functions in this process, on fresh tables, with recorded and faulty calls and a clock to set; and,
//! with the feature `server`, a server to connect to over real sockets.
//!
//! The SDK clients are the genuine ones. Faults go in at their HTTP connector, below everything that ships.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod clients;
mod clock;
pub mod cloud;
mod database;
pub mod explorer;
mod gate;
mod in_process;
mod management;
#[cfg(feature = "server")]
mod network;
#[cfg(feature = "server")]
mod phone;
#[cfg(feature = "server")]
mod proxy;
mod recorder;
pub mod schedule;
mod story;
#[cfg(feature = "server")]
mod test_server;
#[cfg(feature = "server")]
mod users;
mod workbench;

pub use clients::{management_config, plain_http, store_config};
pub use clock::ManualClock;
pub use database::Database;
pub use gate::{Gate, Passed};
pub use in_process::{InProcess, file_event, frame_of, message, tables, to_event, up_to};
pub use local::workspace_root;
pub use management::Management;
pub use recorder::{Call, Failure, Hold, Recorder};
pub use story::events_tell_one_story;
pub use workbench::{Workbench, message_to_bob};
#[cfg(feature = "server")]
pub use {
    network::Network,
    phone::{ConnectError, Frame, Phone},
    proxy::{AwsCall, Fate, Mishap, Proxy},
    test_server::{TestServer, functions},
};

/// How long anything may take before a test calls it missing. Long, since all tests share the machine.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
