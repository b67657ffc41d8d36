//! What is about all functions: that template, functions, tables and events agree, how functions start, rows that a later
//! version wrote, and what is left of what was deleted. The tests of one function are in its own folder.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

mod agreement;
mod canary;
mod events;
mod later;
mod starting;
