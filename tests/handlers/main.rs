//! What is about all functions: that template, functions, tables and events agree, how functions start, and rows that a later
//! version wrote. The tests of one function are in its own folder.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

mod agreement;
mod events;
mod later;
mod starting;
