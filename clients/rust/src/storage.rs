//! The places where the client saves data that must survive it.

mod file;
mod memory;

use std::io;

use pigeonhole_core::{Saved, StorageChange};

pub use file::FileStorage;
pub use memory::MemoryStorage;

/// The place where the client saves data that must survive it. Only one client uses it at a time.
pub trait Storage: Send + 'static {
    /// Returns everything that was written before.
    ///
    /// # Errors
    /// The reason why the data can't be read; the client does not start then.
    fn load(&mut self) -> io::Result<Saved>;

    /// Returns the path of a copy, if a part of the data can't be read. [`load`](Self::load) returns the rest then.
    fn set_aside(&self) -> Option<String> {
        None
    }

    /// Saves these changes, in this order. If one of them is [`StorageChange::Queued`], all are on the disk when this
    /// returns. A loss of the others means that a message is sent or shown a second time, never that one is lost.
    ///
    /// Runs where it may block.
    ///
    /// # Errors
    /// The reason why the changes could not be written. The client writes all of them again, with the next ones; it
    /// refuses a message instead.
    fn write(&mut self, changes: &[StorageChange]) -> io::Result<()>;
}
