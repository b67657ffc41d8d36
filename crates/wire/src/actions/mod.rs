//! A file per action: what its request may say, how it is read, and what it answers.

pub mod ack;
pub mod delete;
pub mod device;
pub mod drain;
pub mod edit;
pub mod history;
pub mod inbox;
pub mod ping;
pub mod presence;
pub mod react;
pub mod read;
pub mod send;
pub mod settings;
pub mod typing;
