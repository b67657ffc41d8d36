//! A storage that ends with its last clone.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use pigeonhole_core::{Saved, StorageChange};

use super::Storage;

/// Remembers as long as the process lives. Its clones are the same storage, so a client can be stopped and another one
/// started with what the first has left.
#[derive(Clone, Debug, Default)]
pub struct MemoryStorage(Arc<Mutex<Saved>>);

impl MemoryStorage {
    /// Returns the current content.
    pub fn saved(&self) -> Saved {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Storage for MemoryStorage {
    fn load(&mut self) -> io::Result<Saved> {
        Ok(self.saved())
    }

    fn write(&mut self, changes: &[StorageChange]) -> io::Result<()> {
        let mut saved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            saved.apply(change);
        }
        Ok(())
    }
}
