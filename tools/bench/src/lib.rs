//! Costs and times of each operation. `cargo run --release --bin bench` writes the tables into `docs/bench/`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::missing_panics_doc,
    reason = "measuring: a panic is the report, and counts are small"
)]

pub mod app;
pub mod attack;
pub mod aws;
pub mod channels;
pub mod cold;
pub mod groups;
pub mod growth;
pub mod ingest;
pub mod load;
pub mod money;
pub mod path;
pub mod plot;
pub mod report;
pub mod ring;
pub mod storm;
pub mod units;
pub mod uploads;
