//! Values that a batch reads once, whoever of its members needs them.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use domain::error_chain;
use tokio::sync::OnceCell;

use crate::outcome::Cause;

/// The values by their key: `None` if there is none, or if its read failed.
#[derive(Debug)]
pub(crate) struct Once<K, V>(Mutex<HashMap<K, Arc<OnceCell<Option<V>>>>>);

impl<K, V> Default for Once<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Once<K, V> {
    /// Returns the value. A failed read is logged as `failure`, and is not repeated in this batch.
    pub(crate) async fn get(
        &self,
        key: &K,
        failure: &'static str,
        read: impl AsyncFnOnce() -> Result<Option<V>, Cause>,
    ) -> Option<V> {
        let cell = Arc::clone(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key.clone()).or_default());
        let read = async || {
            let value = read().await;
            value.inspect_err(|error| tracing::warn!(error = error_chain(&**error), "{failure}")).ok().flatten()
        };
        cell.get_or_init(read).await.clone()
    }
}
