//! The end-to-end encryption of Pigeonhole, as functions over bytes: MLS (RFC 9420) by `mls-rs`, without I/O and clock.
//!
//! A function gets the stored bytes and an input, and returns the new bytes with an output. With an error it returns no
//! bytes: the stored ones stay valid, since no object of the library survives a call.
//!
//! [`Device`] begins and joins groups, and makes the packages by which others add it. [`Group`] seals, opens, commits and
//! follows. The crate itself checks the rules that the library lacks, on the outcome of a commit, so that all members judge
//! alike.

#![warn(missing_docs)]

mod commit;
mod conversation;
mod envelope;
mod error;
mod file;
mod framing;
mod frank;
mod group;
mod identity;
mod judge;
mod keyring;
mod mls;
mod package;
mod provider;
mod reader;
mod safety;
mod strict_json;
#[cfg(test)]
mod tests;
mod tree;
#[cfg(test)]
mod vectors;

pub use commit::{Followed, Pending, Step};
pub use conversation::{Conversation, Entry, MARK_BYTES, Mark};
pub use envelope::{Envelope, PADDING_BYTES};
pub use error::{Error, Result};
pub use file::{FileCipher, FileDigest, FileKey, FileOpener, SEGMENT_BYTES, TAG_BYTES, sealed_file_bytes};
pub use frank::{frank, is_frank};
pub use group::{Group, Opened};
pub use identity::{Credential, Device, Identity, PublicKey, SEED_BYTES};
pub use judge::{Change, Kind, Named};
pub use keyring::{
    Answered, Fetch, Keyring, Lock, Notice, OwnDevice, Part, Party, Prepared, Readiness, RequestKey, Roll, Sealed,
    Shown, Taken, Upload, Why,
};
pub use package::{Asked, Checked, LAST_RESORT_LIFETIME_S, PACKAGE_LIFETIME_S, Package};
pub use safety::{SafetyNumber, safety_number};

/// Compiles the example of the page, and runs it.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
