#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod edge;
mod engine;
mod event;
mod fault;
mod files;
mod ids;
#[cfg(feature = "bindgen")]
#[path = "conformance/model.rs"]
mod model;
mod reader;
mod token;

pub use edge::{EdgeInput, EdgeOutput, TokenNeed, Turn, Why};
pub use engine::{Counters, Encrypted, Engine, EngineSetup, generate_keys};
pub use fault::Fault;
pub use files::{open_file, seal_file, sealed_bytes, sealed_part};
pub use ids::direct_conversation_id;
#[cfg(feature = "bindgen")]
pub use model::Model;
pub use reader::{Notice, Reader};
pub use token::{TokenInfo, inspect};

uniffi::setup_scaffolding!();
