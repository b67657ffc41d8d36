//! Failures of AWS: one call in a fixed number fails, in one of all possible ways.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use fastrand::Rng;
use testkit::{AwsCall, Fault};

const DELAY_MS: std::ops::Range<u64> = 5..500;

pub(crate) struct Faults {
    one_in: u32,
    begun: AtomicBool,
    drawn: Mutex<(Rng, Tally)>,
}

#[derive(Default, Clone)]
pub(crate) struct Tally {
    pub(crate) calls: u64,
    /// Every call that went wrong, by what went wrong with it.
    pub(crate) faults: BTreeMap<&'static str, u64>,
}

impl Faults {
    pub(crate) fn new(seed: u64, one_in: u32) -> Self {
        Self { one_in, begun: AtomicBool::new(false), drawn: Mutex::new((Rng::with_seed(seed), Tally::default())) }
    }

    /// From now on something goes wrong.
    pub(crate) fn begin(&self) {
        self.begun.store(true, Relaxed);
    }

    /// Chooses this call's fault, if it has one.
    pub(crate) fn draw(&self, call: &AwsCall) -> Option<Fault> {
        if !self.begun.load(Relaxed) {
            return None;
        }
        let (rng, tally) = &mut *self.drawn.lock().unwrap();
        tally.calls += 1;
        if rng.u32(..self.one_in) != 0 {
            return None;
        }
        let post = matches!(call, AwsCall::Post { .. } | AwsCall::Close { .. });
        let (name, fault) = match rng.u32(..9) {
            0 => ("request lost", Fault::Lost),
            1 => ("reply lost", Fault::ReplyLost),
            2 => ("sandbox killed before the call arrived", Fault::Killed),
            3 => ("sandbox killed when the call had taken effect", Fault::KilledAfter),
            4 => ("delayed", Fault::Delayed(Duration::from_millis(rng.u64(DELAY_MS)))),
            5 => ("503", Fault::Status(503)),
            6 if post => ("429", Fault::Status(429)),
            6 => ("throttled", Fault::Throttled),
            7 if call.operation() == "TransactWriteItems" => ("conflict, in a cancellation", Fault::Conflict),
            7 if call.writes() => ("conflict, as an exception", Fault::Conflict),
            _ => ("500", Fault::Status(500)),
        };
        *tally.faults.entry(name).or_default() += 1;
        Some(fault)
    }

    pub(crate) fn tally(&self) -> Tally {
        self.drawn.lock().unwrap().1.clone()
    }
}
