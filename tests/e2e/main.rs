//! Everything a user meets, through real sockets to the real functions. One binary, so that it links once.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

mod backend;
mod changes;
mod channels;
mod chat;
mod client;
mod connecting;
mod devices;
mod draining;
mod drills;
mod encrypted;
mod errors;
mod events;
mod failures;
mod filter;
mod groups;
mod http;
mod inbox;
mod keys;
mod limits;
mod media;
mod online;
mod operator;
mod phones;
mod presence;
mod privileges;
mod retries;
mod sealed;
mod settings;
mod sockets;
mod strangers;
mod views;
