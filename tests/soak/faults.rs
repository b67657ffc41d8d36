//! AWS on a bad day: one call in so many goes wrong, in one of all the ways it can.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use fastrand::Rng;
use testkit::{AwsCall, Failure, Fate, Mishap};

const DELAY_MS: std::ops::Range<u64> = 5..500;

pub(crate) struct Faults {
    one_in: u32,
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
        Self { one_in, drawn: Mutex::new((Rng::with_seed(seed), Tally::default())) }
    }

    pub(crate) fn tally(&self) -> Tally {
        self.drawn.lock().unwrap().1.clone()
    }
}

impl Fate for Faults {
    fn of(&self, call: &AwsCall) -> Option<Mishap> {
        let (rng, tally) = &mut *self.drawn.lock().unwrap();
        tally.calls += 1;
        if rng.u32(..self.one_in) != 0 {
            return None;
        }
        let post = call.operation == "PostToConnection";
        let (name, mishap) = match rng.u32(..9) {
            0 => ("request lost", Mishap::Lost),
            1 => ("reply lost", Mishap::ReplyLost),
            2 => ("sandbox killed before the call arrived", Mishap::KilledBefore),
            3 => ("sandbox killed when the call had taken effect", Mishap::KilledAfter),
            4 => ("delayed", Mishap::Delayed(Duration::from_millis(rng.u64(DELAY_MS)))),
            5 => ("503", Mishap::Answer(Failure::unavailable())),
            6 if post => ("429", Mishap::Answer(Failure::limited())),
            6 => ("throttled", Mishap::Answer(Failure::throttled())),
            7 if call.operation == "TransactWriteItems" => {
                ("conflict, in a cancellation", Mishap::Answer(Failure::cancelled(&["None", "TransactionConflict"])))
            }
            7 if matches!(call.operation.as_str(), "PutItem" | "UpdateItem" | "DeleteItem") => {
                ("conflict, as an exception", Mishap::Answer(Failure::conflict()))
            }
            _ => ("500", Mishap::Answer(Failure::internal())),
        };
        *tally.faults.entry(name).or_default() += 1;
        Some(mishap)
    }
}
