//! A file per action: what its request may say, how it is read, and what it answers.

pub mod ack;
pub mod add;
pub mod create;
pub mod delete;
pub mod device;
pub mod download;
pub mod drain;
pub mod edit;
pub mod history;
pub mod inbox;
pub mod leave;
pub mod members;
pub mod ping;
pub mod presence;
pub mod react;
pub mod reactions;
pub mod read;
pub mod receipts;
pub mod remove;
pub mod role;
pub mod send;
pub mod settings;
pub mod typing;
pub mod update;
pub mod upload;
pub mod uploaded;
