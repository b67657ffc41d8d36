//! AWS's own metrics, as far as an alarm or a test asks for them, counted where what they count happens.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::lock;

/// How often since the start, by the metric's namespace and name, and by the logical id of the API or the function.
pub type Counts = BTreeMap<(&'static str, &'static str, String), u64>;

#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<Counts>);

impl Metrics {
    pub(crate) fn count(&self, namespace: &'static str, name: &'static str, of: &str) {
        *lock(&self.0).entry((namespace, name, of.to_owned())).or_default() += 1;
    }

    pub(crate) fn counts(&self) -> Counts {
        lock(&self.0).clone()
    }
}
