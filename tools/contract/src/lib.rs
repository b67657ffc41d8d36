//! The contract with client developers, out of the types in `wire`: `asyncapi.yaml` and `frames.schema.json`.
//!
//! `just contract` writes them, a test sees to it that they are current, and other tests check the frames they see
//! against them. No function depends on this.
#![recursion_limit = "256"]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a tool for the developer: a panic is the report"
)]

mod asyncapi;
mod check;
mod examples;
mod schema;

use std::path::{Path, PathBuf};

pub use check::{check_request, check_server_frame};
pub use examples::{Example, examples};
pub use schema::schema;

/// What each file must hold.
pub fn files() -> [(PathBuf, String); 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let schema = schema();
    let json = serde_json::to_string_pretty(&schema).expect("it can be written");
    [
        (root.join("docs/contract/asyncapi.yaml"), asyncapi::asyncapi(&schema)),
        (root.join("docs/contract/frames.schema.json"), json + "\n"),
    ]
}
