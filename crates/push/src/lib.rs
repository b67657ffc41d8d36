//! Frames out. [`Socket`] posts to a live connection through API Gateway's @connections API.
//!
//! Nothing here touches the tables: what a dead connection means for them is for [`Posted`]'s reader to decide.

mod socket;

pub use socket::{Posted, Socket};
