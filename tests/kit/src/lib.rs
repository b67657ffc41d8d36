//! For tests only: fresh tables, recorded and faulty calls to them, an @connections to post to, and a clock to set.
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
mod management;
mod recorder;
pub mod schedule;

pub use clients::{management_config, plain_http, store_config};
pub use clock::ManualClock;
pub use database::Database;
pub use gate::{Gate, Passed};
pub use management::Management;
pub use recorder::{Call, Failure, Hold, Recorder};
