//! The store of a client, which the driver writes and the app reads.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pigeonhole_core::chat::{Found, Load};
use pigeonhole_core::{Saved, Write};
use pigeonhole_store::Store;
use tokio::task::spawn_blocking;
use wire::UserId;

use crate::Error;

/// A store in a file, or none. All clones are the same store, and closing one closes all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept(Option<Arc<Mutex<Option<Store>>>>);

impl Kept {
    /// Opens the store at this path. Returns also what an earlier run has left.
    pub(crate) fn open(path: &Path, me: &UserId) -> Result<(Self, Saved), Error> {
        let store = Store::open(path, me).map_err(failed)?;
        let saved = store.saved().map_err(failed)?;
        Ok((Self(Some(Arc::new(Mutex::new(Some(store))))), saved))
    }

    /// Returns the path of the copy of a damaged store.
    pub(crate) fn set_aside(&self) -> Option<String> {
        let store = self.lock()?;
        Some(store.as_ref()?.set_aside()?.display().to_string())
    }

    /// Commits the writes of a turn. Blocks.
    pub(crate) fn commit(&self, writes: &[Write], lasting: bool) -> Result<(), Error> {
        let Some(mut store) = self.lock() else { return Ok(()) };
        store.as_mut().ok_or(Error::Closed)?.apply(writes, lasting).map_err(failed)
    }

    /// Returns an error if there is no message store.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.0.as_ref().map(drop).ok_or_else(without)
    }

    /// Reads from the store, outside the task, which must not block.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Store) -> Result<T, pigeonhole_store::Error> + Send + 'static,
    ) -> Result<T, Error> {
        let kept = self.clone();
        let reading = spawn_blocking(move || {
            let Some(store) = kept.lock() else {
                return Err(without());
            };
            read(store.as_ref().ok_or(Error::Closed)?).map_err(failed)
        });
        reading.await.map_err(io::Error::other)?
    }

    /// Reads what a view needs. A view that gets nothing asks the server.
    pub(crate) async fn load(&self, what: Load) -> Found {
        self.read(move |store| store.load(&what)).await.unwrap_or(Found::Nothing)
    }

    /// Removes some of what the store need not keep. Returns `true` if more remains. Blocks.
    pub(crate) fn tidy(&self, messages_max: usize) -> Result<bool, Error> {
        let Some(mut store) = self.lock() else { return Ok(false) };
        store.as_mut().ok_or(Error::Closed)?.tidy(messages_max).map_err(failed)
    }

    /// Closes the file, so that another client may open it.
    pub(crate) fn close(&self) {
        if let Some(mut store) = self.lock() {
            *store = None;
        }
    }

    fn lock(&self) -> Option<MutexGuard<'_, Option<Store>>> {
        // A transaction that panicked is rolled back, so the store is whole.
        Some(self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) fn without() -> Error {
    Error::Config("the client has no message store: set Config::store".to_owned())
}

fn failed(error: pigeonhole_store::Error) -> Error {
    match error {
        pigeonhole_store::Error::Io(error) => error.into(),
        error => io::Error::other(error).into(),
    }
}
