//! The part of a conversation that a view shows.

use serde::{Deserialize, Serialize};
use wire::{Seq, Side};

use crate::Timeline;
use crate::store::Span;

/// A view adds this number of entries at each step, and requests pages of this size.
pub const PAGE: usize = 50;
/// A window has at most this number of stored entries. Beyond it, the view drops those at the other end.
pub const ITEMS_MAX: usize = 300;

/// Where a view opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum At {
    /// At the end.
    Newest,
    /// Around the first unread message; at the end if there is none.
    FirstUnread,
    /// Around this entry.
    Seq(Seq),
}

/// The window of a view: the shown entries from `from` to `to`.
#[derive(Clone, Debug)]
pub(super) struct Window {
    from: Seq,
    /// `None`: the end of the conversation, with all that will come.
    to: Option<Seq>,
    /// The number of entries that the window still lacks on each side.
    older: usize,
    newer: usize,
}

impl Window {
    /// Opens at the first unread message once the number of those is known, or messages have come without it.
    pub(super) fn new(at: At, timeline: &Timeline) -> Option<Self> {
        match at {
            At::FirstUnread if !timeline.is_counted() && timeline.spans().is_empty() => None,
            At::FirstUnread if timeline.unread() > 0 => Some(Self::around(timeline.own_read().next())),
            At::FirstUnread | At::Newest => Some(Self { from: Seq::MAX, to: None, older: PAGE, newer: 0 }),
            At::Seq(seq) => Some(Self::around(seq)),
        }
    }

    fn around(seq: Seq) -> Self {
        Self { from: seq, to: Some(seq.previous()), older: PAGE / 2, newer: PAGE / 2 }
    }

    pub(super) fn bounds(&self) -> (Seq, Option<Seq>) {
        (self.from, self.to)
    }

    pub(super) fn load_older(&mut self) {
        self.older = PAGE;
    }

    pub(super) fn load_newer(&mut self) {
        self.newer = PAGE;
    }

    /// Takes in what has come. On the older side a gap becomes an item. On the newer side it must close first, unless
    /// the server could not send it: so `is_stuck`. The user reads on from there.
    pub(super) fn grow(&mut self, timeline: &Timeline, is_stuck: impl Fn(Side) -> bool) {
        let rows: Vec<Seq> = timeline.shown().collect();
        let up_to = |seq: Seq| rows.partition_point(|row| *row <= seq);

        let start = start_of_whole(timeline, self.from);
        let is_begun = self.from == Seq::MAX || rows.binary_search(&self.from).is_ok();
        let bound = if is_begun || is_stuck(Side::Before(start)) { Seq::ZERO } else { start };
        let below = up_to(self.from.previous());
        let first = below.saturating_sub(self.older).max(up_to(bound.previous()));
        let grows_older = first < below;
        if grows_older && let Some(seq) = rows.get(first) {
            self.older -= below - first;
            self.from = *seq;
        }

        if let Some(to) = self.to {
            let whole = end_of_whole(timeline, to);
            let bound = if is_stuck(Side::After(whole)) { Seq::MAX } else { whole };
            let above = up_to(to);
            let end = up_to(bound).min(above + self.newer);
            self.newer -= end - above;
            let to = if end > above { rows.get(end - 1).copied().unwrap_or(to) } else { to };
            // Without a network, the first entries come from behind a gap, and those below them come later.
            if end > above && !timeline.spans().iter().any(|span| span.from <= self.from && self.from <= span.to) {
                self.from = rows.get(above).copied().unwrap_or(self.from);
            }
            let is_end = end == rows.len() && timeline.is_known() && end_of_whole(timeline, to) >= timeline.last_seq();
            self.to = if is_end { None } else { Some(to) };
        }

        let end = self.to.map_or(rows.len(), up_to);
        if end > first + ITEMS_MAX {
            if grows_older {
                self.to = rows.get(first + ITEMS_MAX - 1).copied();
            } else if let Some(seq) = rows.get(end - ITEMS_MAX) {
                self.from = *seq;
                self.older = 0;
            }
        }
    }

    /// Returns whether there are older entries, as far as known.
    pub(super) fn has_older(&self, timeline: &Timeline) -> bool {
        timeline.shown().next().is_some_and(|oldest| oldest < self.from) || self.older_side(timeline).is_some()
    }

    /// Returns the parts of the conversation that the window lacks, in the order in which a user needs them.
    pub(super) fn missing(&self, timeline: &Timeline) -> Vec<Side> {
        let (spans, mut sides) = (timeline.spans(), Vec::new());
        let end = spans.last().map(|span| span.to);
        let lacks_end = end.is_none_or(|end| end < timeline.last_seq());
        if self.to.is_none() && lacks_end && (timeline.last_seq() >= timeline.first() || !timeline.is_known()) {
            sides.push(Side::Newest);
        }
        let window = Span { from: self.from, to: self.to.unwrap_or(Seq::MAX) };
        let shown = spans.iter().rev().filter_map(|span| span.within(window));
        let gaps = shown.clone().zip(shown.skip(1)).map(|(above, _)| Side::Before(above.from));
        sides.extend(gaps);
        if let Some(to) = self.to.filter(|_| self.newer > 0) {
            sides.push(Side::After(end_of_whole(timeline, to)));
        }
        if self.older > 0 {
            sides.extend(self.older_side(timeline));
        }
        sides
    }

    /// The entries below the window that have not come.
    fn older_side(&self, timeline: &Timeline) -> Option<Side> {
        let start = start_of_whole(timeline, self.from);
        (start > timeline.first() && start < Seq::MAX).then_some(Side::Before(start))
    }
}

/// Returns the first entry from which all below `seq` have come. At the end of the conversation, those are the newest.
fn start_of_whole(timeline: &Timeline, seq: Seq) -> Seq {
    let is_there = |span: &&Span| span.from <= seq && (seq <= span.to.next() || seq == Seq::MAX);
    timeline.spans().iter().rfind(is_there).map_or(seq, |span| span.from)
}

/// Returns the last entry up to which all above `seq` have come.
fn end_of_whole(timeline: &Timeline, seq: Seq) -> Seq {
    let next = seq.next();
    timeline.spans().iter().find(|span| span.from <= next && next <= span.to).map_or(seq, |span| span.to)
}
