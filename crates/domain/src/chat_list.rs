//! The order of the chat list: exactly by the time of each conversation's last message. A group's row that got the
//! message late is placed at the time of its arrival. Otherwise a user who has read the list since the message would
//! not find it.
//!
//! A row moves in the index at most once a step, since each move costs two writes. So the index's order lags the true
//! one by less than [`ACTIVE_AT_STEP`], and a reader continues until no later row can belong before.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use wire::{ConversationId, MessageId, Timestamp};

use crate::cursor::{Cursor, Position};
use crate::limits::{ACTIVE_AT_STEP, CHAT_LIST_READ_MAX};
use crate::membership::Membership;

/// A page in the making: rows come in the index's order, most recently active first.
#[derive(Debug)]
pub struct ChatList {
    limit: usize,
    start: Option<Cursor>,
    since: Option<Timestamp>,
    /// Candidates for the page, in the order of the index.
    rows: Vec<Membership>,
    read: usize,
    /// Where the index goes on; `None` at its end.
    next: Option<Position>,
}

impl ChatList {
    pub fn new(limit: usize, start: Option<Cursor>, since: Option<Timestamp>) -> Self {
        Self { limit, start, since, rows: vec![], read: 0, next: None }
    }

    /// The rows that can be on the page were active no later than this: what was active later has been shown.
    pub fn active_until(&self) -> Option<Timestamp> {
        self.before().map(|(sent_at, _)| *sent_at)
    }

    /// Adds the next rows read, and the index's next position. `moved` names the rows that the reader brought to the
    /// end of their group's log after it had read the index. No later read finds such a row behind the cursor, so it
    /// goes on this page.
    pub fn add(&mut self, rows: Vec<Membership>, moved: &BTreeSet<ConversationId>, next: Option<Position>) {
        self.read += rows.len();
        self.next = next;
        let (before, since) = (self.before().cloned(), self.since);
        let is_wanted = |row: &Membership| {
            (before.as_ref().is_none_or(|before| place(row) < *before) || moved.contains(&row.conversation_id))
                && since.is_none_or(|since| row.moved_up_at() >= since)
        };
        self.rows.extend(rows.into_iter().filter(is_wanted));
    }

    /// Returns the position for the next read, if the page is not decided yet. The bound limits the cost of a page for
    /// a user with messages in all conversations at the same time.
    pub fn read_on(&self) -> Option<&Position> {
        let next = self.next.as_ref()?;
        // An empty page would only make the client request another.
        let bounded = self.read >= self.limit + CHAT_LIST_READ_MAX && !self.rows.is_empty();
        (!bounded && !self.is_decided()).then_some(next)
    }

    /// Returns the page, and the cursor of the next one. `fitting` returns how many of these rows fit in a frame.
    pub fn page(mut self, fitting: impl FnOnce(&[Membership]) -> usize) -> (Vec<Membership>, Option<Cursor>) {
        let by_time = |rows: &mut Vec<Membership>| rows.sort_by_key(|row| Reverse(place(row)));
        let exact = self.next.is_none() || self.is_decided();
        if exact {
            by_time(&mut self.rows);
        }
        let found = self.rows.len();
        self.rows.truncate(self.limit);
        self.rows.truncate(fitting(&self.rows));
        let all = self.rows.len() == found && self.next.is_none();
        let cursor = self.rows.last().filter(|_| !all).map(|last| self.cursor(exact, last));
        by_time(&mut self.rows);
        (self.rows, cursor)
    }

    /// Returns the cursor behind this row, the page's last one in the order of the list.
    fn cursor(&self, exact: bool, last: &Membership) -> Cursor {
        if !exact {
            return Cursor { before: self.before().cloned(), after: Some(last.position()) };
        }
        let before = place(last);
        // Rows shown in the index's order must be skipped while the index is read from above them.
        let after = self.start.as_ref().and_then(|start| start.after.clone());
        Cursor { after: after.filter(|after| before.0 >= after.active_at), before: Some(before) }
    }

    /// Whether nothing that is unread can belong before the last row of the page.
    fn is_decided(&self) -> bool {
        let Some(next) = &self.next else { return true };
        let mut times: Vec<_> = self.rows.iter().map(Membership::moved_up_at).collect();
        times.sort_unstable_by_key(|time| Reverse(*time));
        times.get(self.limit.saturating_sub(1)).is_some_and(|last| *last >= next.active_at.plus(ACTIVE_AT_STEP))
    }

    fn before(&self) -> Option<&(Timestamp, MessageId)> {
        self.start.as_ref()?.before.as_ref()
    }
}

/// A row's place in the true order; ids decide between messages of one moment.
fn place(row: &Membership) -> (Timestamp, MessageId) {
    (row.moved_up_at(), row.last.message_id.clone())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::membership::tests::row;

    /// An index, and pages of it as the store would read them.
    /// As many rows as a frame holds.
    struct Index(Vec<Membership>, usize);

    impl Index {
        /// By when each conversation was active, and how long after that its last message came: of one that came late,
        /// before.
        fn of(times: &[(i64, i64)]) -> Self {
            let mut rows: Vec<Membership> = times
                .iter()
                .enumerate()
                .map(|(number, (active_at, later))| {
                    let mut row = row(1, 0, 0, 0, None);
                    row.conversation_id = ConversationId::parse(&format!("dm_{number:05}")).unwrap();
                    row.active_at = Timestamp::from_millis(*active_at);
                    row.last.sent_at = Timestamp::from_millis(active_at + later);
                    row.last.message_id = MessageId::stored(format!("id-{number:05}"));
                    row
                })
                .collect();
            rows.sort_by_key(|row| Reverse((row.active_at, row.conversation_id.clone())));
            Self(rows, usize::MAX)
        }

        fn page(&self, limit: usize, start: Option<Cursor>) -> (Vec<Membership>, Option<Cursor>, usize) {
            let mut list = ChatList::new(limit, start.clone(), None);
            let mut from = start.and_then(|start| start.after);
            let until = list.active_until();
            loop {
                let behind = |row: &&Membership| {
                    let at = (row.active_at, &row.conversation_id);
                    from.as_ref().is_none_or(|from| at < (from.active_at, &from.conversation_id))
                        && until.is_none_or(|until| row.active_at <= until)
                };
                let left: Vec<_> = self.0.iter().filter(behind).cloned().collect();
                let read: Vec<_> = left.iter().take(limit + 1).cloned().collect();
                let next = read.last().filter(|_| left.len() > read.len()).map(Membership::position);
                list.add(read, &BTreeSet::new(), next);
                match list.read_on() {
                    Some(next) => from = Some(next.clone()),
                    None => break,
                }
            }
            let read = list.read;
            let (rows, cursor) = list.page(|rows| rows.len().min(self.1));
            (rows, cursor, read)
        }

        fn pages(&self, limit: usize) -> Vec<Vec<Membership>> {
            let (mut pages, mut cursor) = (vec![], None);
            loop {
                let (rows, next, _) = self.page(limit, cursor);
                assert!(!rows.is_empty() || next.is_none());
                pages.push(rows);
                cursor = next;
                if cursor.is_none() {
                    return pages;
                }
            }
        }
    }

    #[test]
    fn the_fourth_of_many_in_one_minute_is_first_when_it_is_written_to_again() {
        let mut times: Vec<(i64, i64)> = (0..23).map(|number| (1_000_000 + number * 100, 0)).collect();
        times[3].1 = 30_000;
        let (first, _, _) = Index::of(&times).page(10, None);
        assert_eq!(first[0].conversation_id.as_str(), "dm_00003");
        assert_eq!(first.len(), 10);
    }

    #[test]
    fn a_quiet_list_is_read_no_further_than_a_row_behind_the_page() {
        let times: Vec<(i64, i64)> = (0..1000).map(|number| (number * 120_000, 0)).collect();
        let (_, _, read) = Index::of(&times).page(20, None);
        assert_eq!(read, 21);
    }

    #[test]
    fn where_everybody_writes_at_once_a_page_has_a_price_and_nobody_is_left_out() {
        let times: Vec<(i64, i64)> =
            (0..2000).map(|number| (1_000_000 + number, 59_000 - (number * 7) % 58_000)).collect();
        let index = Index::of(&times);
        let (_, _, read) = index.page(20, None);
        assert!(read <= 20 + CHAT_LIST_READ_MAX + 21, "{read}");
        let mut shown: Vec<_> = index.pages(20).concat().iter().map(|row| row.conversation_id.to_string()).collect();
        assert_eq!(shown.len(), 2000);
        shown.sort();
        shown.dedup();
        assert_eq!(shown.len(), 2000);
    }

    proptest! {
        #[test]
        fn pages_are_in_the_exact_order_and_whole(
            times in prop::collection::vec((0i64..600_000, -400_000i64..60_000), 0..150),
            limit in 1usize..30,
            frame in 1usize..30,
        ) {
            let index = Index(Index::of(&times).0, frame);
            let shown: Vec<_> = index.pages(limit).concat().iter().map(place).collect();
            let mut wanted: Vec<_> = index.0.iter().map(place).collect();
            wanted.sort_by(|one, other| other.cmp(one));
            prop_assert_eq!(shown, wanted);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        /// Above the bound too, each row appears once.
        #[test]
        fn nobody_is_left_out_nor_shown_twice(
            times in prop::collection::vec((0i64..70_000, -60_000i64..60_000), 200..500),
            limit in 10usize..30,
            frame in 10usize..30,
        ) {
            let index = Index(Index::of(&times).0, frame);
            let mut shown: Vec<_> = index.pages(limit).concat().iter().map(|row| row.conversation_id.to_string()).collect();
            shown.sort();
            let mut wanted: Vec<_> = index.0.iter().map(|row| row.conversation_id.to_string()).collect();
            wanted.sort();
            prop_assert_eq!(shown, wanted);
        }
    }
}
