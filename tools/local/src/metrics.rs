//! AWS's own metrics, as far as an alarm or a test asks for them, counted where what they count happens.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::lock;

/// How often since the start, by the metric's namespace and name, and by the logical id of the API or the function.
pub type Counts = BTreeMap<(&'static str, &'static str, String), u64>;

/// How old each batch was, in milliseconds, in their order; by the logical id of the function.
pub type IteratorAges = BTreeMap<String, Vec<u64>>;

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    counts: Mutex<Counts>,
    iterator_ages: Mutex<IteratorAges>,
}

impl Metrics {
    pub(crate) fn count(&self, namespace: &'static str, name: &'static str, of: &str) {
        *lock(&self.counts).entry((namespace, name, of.to_owned())).or_default() += 1;
    }

    pub(crate) fn counts(&self) -> Counts {
        lock(&self.counts).clone()
    }

    pub(crate) fn add_iterator_age(&self, function: &str, millis: u64) {
        lock(&self.iterator_ages).entry(function.to_owned()).or_default().push(millis);
    }

    pub(crate) fn iterator_ages(&self) -> IteratorAges {
        lock(&self.iterator_ages).clone()
    }
}
