//! Tests of all functions together: agreement of template, functions, tables and events; starting; rows of a later
//! version; traces of deleted messages. The tests of one function are in its own folder.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

mod agreement;
mod canary;
mod events;
mod http;
mod later;
mod starting;
