//! For the end-to-end tests: a stage, which is a local server of one's own with the real functions or a deployed stack, and
//! phones that speak to it over real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "test support: a panic is the report"
)]

mod in_process;
mod phone;
mod proxy;
mod stage;
mod story;
mod users;
mod wire;

pub use in_process::{InProcess, file_event, frame_of, message, tables, to_event, up_to};
pub use phone::{ConnectError, Frame, Phone};
pub use proxy::{AwsCall, Fate, Mishap, Proxy};
pub use stage::{Stage, functions, root};
pub use story::events_tell_one_story;
pub use wire::Wire;

/// How long anything may take before a test calls it missing. Long, since all tests share the machine.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
