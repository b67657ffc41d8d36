//! The number of messages that a page of a drain reads, which is about the number that it returns. A message's size shows
//! only after the read, so the first messages decide how many more to read.

use serde::Serialize;

use crate::limits::{DRAIN_MESSAGES_MAX, DRAIN_MESSAGES_PER_CONVERSATION_MIN, PAGE_BYTES_MAX};
use crate::page::json_bytes;

/// The largest ratio of a read's messages to those read before. The first messages can be short by chance.
const GROWTH: usize = 16;
/// The smallest size that a query is billed for, in bytes.
const UNIT_BYTES: usize = 4 * 1024;

/// The room that a page has left.
#[derive(Debug)]
pub struct Room {
    bytes: usize,
    messages: usize,
    /// How many messages the page before had, if a client acknowledges one.
    before: usize,
}

/// A conversation, as far as the page has not read it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    pub entries: usize,
    /// The row shows that the only pending entry is one short message.
    pub is_short: bool,
}

impl Room {
    pub fn new(before: usize) -> Self {
        Self { bytes: 0, messages: 0, before }
    }

    /// Notes what was read.
    pub fn take<T: Serialize>(&mut self, messages: &[T]) {
        self.messages += messages.len();
        self.bytes += messages.iter().map(json_bytes).sum::<usize>();
    }

    /// How many entries to read of each of these, in the order in which they are needed. All zero: the page is full.
    pub fn shares(&self, waiting: &[Waiting]) -> Vec<usize> {
        if self.messages == 0 && self.before == 0 {
            let first = waiting.iter().position(|one| one.entries > 0);
            let is_safe = |(place, one): (usize, &Waiting)| one.entries > 0 && (Some(place) == first || one.is_short);
            return waiting.iter().enumerate().map(|one| usize::from(is_safe(one))).collect();
        }
        let (wanted, each) = self.wanted();
        let share = wanted.div_ceil(waiting.iter().filter(|one| one.entries > 0).count().max(1));
        // A query of small messages reads some more at no cost. A cut-off conversation then holds back fewer of the
        // others' messages.
        let at_least = DRAIN_MESSAGES_PER_CONVERSATION_MIN.min(UNIT_BYTES / each).min(2 * share);
        let mut left = wanted;
        let mut shares: Vec<usize> = vec![];
        for one in waiting {
            shares.push(if left == 0 { 0 } else { one.entries.min(share.max(at_least)) });
            left = left.saturating_sub(one.entries.min(share));
        }
        for (taken, one) in shares.iter_mut().zip(waiting) {
            let more = left.min(one.entries - *taken);
            *taken += more;
            left -= more;
        }
        shares
    }

    /// Whether a page may read more than these entries.
    pub fn has_more_than(&self, entries: usize) -> bool {
        self.wanted().0 > entries
    }

    /// Returns how many more messages to read, and the expected size of each.
    fn wanted(&self) -> (usize, usize) {
        if self.messages == 0 {
            return (self.before.max(1), PAGE_BYTES_MAX / self.before.max(1));
        }
        let each = (self.bytes / self.messages).max(1);
        let fitting = PAGE_BYTES_MAX.saturating_sub(self.bytes) / each;
        (fitting.min(self.messages * GROWTH).min(DRAIN_MESSAGES_MAX), each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waiting(entries: usize) -> Waiting {
        Waiting { entries, is_short: false }
    }

    /// Reads conversations of messages that are all so large, as a drain does; in how many steps, and how much it read.
    fn read(mut left: Vec<usize>, before: usize, bytes: usize) -> (usize, usize) {
        let (mut room, mut steps) = (Room::new(before), 0);
        loop {
            let shares = room.shares(&left.iter().map(|entries| waiting(*entries)).collect::<Vec<_>>());
            assert!(shares.iter().zip(&left).all(|(share, entries)| share <= entries));
            if shares.iter().all(|share| *share == 0) {
                return (steps, room.bytes);
            }
            steps += 1;
            for (left, share) in left.iter_mut().zip(shares) {
                *left -= share;
                room.take(&vec!["x".repeat(bytes - 3); share]);
            }
        }
    }

    #[test]
    fn of_large_messages_one_is_read_and_of_small_ones_a_page_in_three_steps() {
        assert_eq!(read(vec![8; 25], 0, 16_500), (1, 16_500));
        assert_eq!(read(vec![8; 25], 1, 16_500), (1, 16_500));
        let (steps, bytes) = read(vec![5_000], 0, 250);
        assert!(steps == 3 && bytes > PAGE_BYTES_MAX - 250, "{steps} {bytes}");
        let (steps, bytes) = read(vec![5_000], 122, 250);
        assert!(steps <= 2 && bytes > PAGE_BYTES_MAX - 250, "{steps} {bytes}");
        // One message each of several people is one step.
        let room = Room::new(0);
        let short = Waiting { entries: 1, is_short: true };
        assert_eq!(room.shares(&[waiting(0), waiting(3), short, waiting(2), short]), [0, 1, 1, 0, 1]);
    }

    proptest! {
        /// The bound has room for the small messages that a query reads at no cost.
        #[test]
        fn a_page_reads_no_more_than_a_page_and_the_units_of_its_queries(
            left in prop::collection::vec(0usize..200, 0..25),
            before in 0usize..200,
            bytes in 4usize..24_000,
        ) {
            let expected = 2 * PAGE_BYTES_MAX.max(before * bytes);
            let (_, read) = read(left.clone(), before, bytes);
            prop_assert!(read <= expected + 25 * UNIT_BYTES + bytes * 25, "{read}");
            prop_assert!(read > 0 || left.iter().all(|entries| *entries == 0));
        }
    }
}
