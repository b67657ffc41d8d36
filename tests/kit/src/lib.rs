//! For tests only: the functions in this process, on fresh tables, with recorded and faulty calls and a clock to set; and,
//! with the feature `server`, a server to connect to over real sockets.
//!
//! The SDK clients are the real ones. Faults go in at their HTTP connector, below everything that ships.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::indexing_slicing,
    reason = "a panic is the report"
)]

mod billing;
mod call;
mod canary;
mod clock;
pub mod cloud;
mod conditions;
mod connector;
pub mod explorer;
mod fake_aws;
pub mod fake_s3;
pub mod fake_sns;
mod fault;
mod gate;
pub mod half_seen;
mod in_process;
pub mod schedule;
#[cfg(feature = "server")]
mod server;
mod story;
pub mod stream;
mod workbench;

pub use call::AwsCall;
pub use canary::Canary;
pub use clock::ManualClock;
pub use connector::{
    Connector, dynamodb_config, events_config, management_config, s3_config, sdk_config, sns_config, sqs_config,
};
pub use fake_aws::{FakeAws, Hold};
pub use fault::Fault;
pub use gate::{Gate, Passed};
pub use in_process::{Filter, InProcess, Limits, file_event, frame_of, message, to_event, up_to};
#[cfg(feature = "server")]
pub use server::{ConnectError, Frame, Network, Phone, Proxy, TestServer, example, programs};
pub use story::events_tell_one_story;
pub use workbench::{Workbench, message_to_bob};

/// Returns the features that a server of the tests lists: those of every server, with profiles, and these.
pub fn features(more: &[&str]) -> Vec<String> {
    let all = ["data", "report", "restrict", "pins", "unread", "quiet", "fuse", "profiles", "profile.write"];
    all.iter().chain(more).map(|name| (*name).to_owned()).collect()
}

/// How long anything may take before a test calls it missing. Long, since all tests share the machine.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
