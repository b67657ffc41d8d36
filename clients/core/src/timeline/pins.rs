//! The pinned messages of a conversation, by pages and entries that come in any order.

use std::collections::BTreeMap;

use wire::{Message, Seq};

/// The pins of the newest page, and the entries after it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pins {
    /// The last `seq` of that page, and its pins, the last pinned first. `None`: no page has come.
    page: Option<(Seq, Vec<Seq>)>,
    /// By the `seq` of the entry: its target, and whether it is pinned from then on.
    later: BTreeMap<Seq, (Seq, bool)>,
}

impl Pins {
    /// Takes the pins of a page of the server. An older page than the current one changes nothing.
    pub(crate) fn page(&mut self, last_seq: Seq, pins: Vec<Seq>) {
        if self.page.as_ref().is_none_or(|(as_of, _)| *as_of <= last_seq) {
            self.page = Some((last_seq, pins));
            self.later = self.later.split_off(&last_seq.next());
        }
    }

    /// Takes an entry of kind `pin`.
    pub(crate) fn entry(&mut self, entry: &Message) {
        if let (Some(target), Some(pinned)) = (entry.target_seq, entry.pinned)
            && self.page.as_ref().is_none_or(|(as_of, _)| *as_of < entry.seq)
        {
            self.later.insert(entry.seq, (target, pinned));
        }
    }

    /// The user has joined anew: pins of meanwhile are unknown.
    pub(crate) fn forget_page(&mut self) {
        self.page = None;
    }

    /// Whether a page has come.
    pub(crate) fn is_known(&self) -> bool {
        self.page.is_some()
    }

    /// Returns the pinned messages, the last pinned first.
    pub(crate) fn now(&self) -> Vec<Seq> {
        let mut pins = self.page.as_ref().map(|(_, pins)| pins.clone()).unwrap_or_default();
        for (target, pinned) in self.later.values() {
            pins.retain(|seq| seq != target);
            if *pinned {
                pins.insert(0, *target);
            }
        }
        pins
    }
}
