//! Writes the files that follow from the registry of actions and the types in `wire`. `asyncapi.yaml` and
//! `frames.schema.json` are the contract with client developers; each action has an event; AWS takes `template.yaml`.
//!
//! `just contract` writes the files, and a test checks that they are current. Other tests check frames against the
//! contract. No function depends on this crate.
#![recursion_limit = "256"]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a tool for the developer: a panic is the report"
)]

mod asyncapi;
mod check;
mod events;
mod examples;
mod openapi;
mod schema;
mod stack;

use std::path::{Path, PathBuf};

pub use check::{check_request, check_server_frame};
pub use examples::{Example, examples};
pub use schema::schema;

/// Returns each file with its content.
pub fn files() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let schema = schema();
    let json = serde_json::to_string_pretty(&schema).expect("it can be written");
    let mut files = vec![
        (root.join("docs/contract/asyncapi.yaml"), asyncapi::asyncapi(&schema)),
        (root.join("docs/contract/openapi.yaml"), openapi::openapi(&schema)),
        (root.join("docs/contract/frames.schema.json"), json + "\n"),
        (root.join("template.yaml"), stack::template(&root)),
    ];
    files.extend(events::events().map(|(name, text)| (root.join(format!("events/{name}.json")), text)));
    files
}
