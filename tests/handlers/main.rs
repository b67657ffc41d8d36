//! The handlers themselves, in this process, on the real SDK and an embedded database: what they ask for, in which order,
//! and what they do when a call fails at the worst moment. And that template, functions, tables and events agree.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

mod agreement;
mod connect;
mod drain;
mod events;
mod logs;
mod marks;
mod remembering;
mod send;
mod starting;
