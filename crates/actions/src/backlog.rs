//! Pending messages of a user, a page at a time.

use domain::limits::DRAIN_MESSAGES_MAX;
use domain::{Backlog, Entry, Failure, Membership, Room, Sight, Waiting, drain_page, error_chain};
use futures_util::future::join_all;
use store::inbox::{self, Behind};
use store::{Store, messages};
use wire::limits::ACK_ENTRIES_MAX;
use wire::{Message, Seq, UserId};

use crate::Raised;
use crate::access::seen_again;

/// Conversations of the first read, before any size shows how many fit on a page.
const FIRST_LOOK: usize = 5;

/// A page that a client acknowledges. The next page is expected to have as many messages, of as many conversations.
#[derive(Clone, Copy, Debug)]
pub struct PageBefore {
    conversations: usize,
    messages: usize,
}

impl PageBefore {
    pub fn of(raised: &[Raised]) -> Self {
        let messages = raised.iter().map(|raised| raised.row.marks.delivered_seq.above(raised.from)).sum::<u64>();
        Self { conversations: raised.len(), messages: usize::try_from(messages).unwrap_or(usize::MAX) }
    }
}

/// A page of it.
#[derive(Debug)]
pub struct DrainPage {
    pub messages: Vec<Message>,
    pub more: bool,
    /// The number of unreadable rows. Their messages, and those behind them, stay pending.
    pub unreadable: u64,
    /// The log of a conversation lacks an entry. The entries behind it stay pending.
    pub has_hole: bool,
}

/// Returns the oldest pending messages, as many as fit a frame.
///
/// The function reads little more than it returns. Conversations follow in the order in which they became pending, a
/// few at a time. The size of the messages so far determines how many it reads next.
pub(crate) async fn backlog(store: &Store, user: &UserId, before: PageBefore) -> Result<DrainPage, Failure> {
    let mut room = Room::new(before.messages.min(DRAIN_MESSAGES_MAX));
    let mut look = if before.messages == 0 { FIRST_LOOK } else { before.conversations };
    let (mut parts, mut unreadable, mut failed): (Vec<Part>, _, _) = (vec![], 0, None);
    let mut rows = Rows::First;
    loop {
        let waiting: Vec<Waiting> = parts.iter().map(|part| part.waiting).collect();
        let known = waiting.iter().map(|waiting| waiting.entries).sum();
        // No more conversations than the ack of this page can name.
        let places = ACK_ENTRIES_MAX - parts.len();
        if places > 0 && room.has_more_than(known) && !matches!(rows, Rows::None) {
            let found = inbox::pending(store, user, look.min(places), rows.behind()).await?;
            unreadable += found.unreadable;
            parts.extend(found.memberships.into_iter().map(Part::of));
            rows = found.next.map_or(Rows::None, Rows::Behind);
            look = ACK_ENTRIES_MAX;
            continue;
        }
        let shares = room.shares(&waiting);
        if shares.iter().all(|share| *share == 0) {
            break;
        }
        let reading = parts.iter_mut().zip(shares).filter(|(_, share)| *share > 0);
        for read in join_all(reading.map(async |(part, share)| part.read(store, share).await)).await {
            match read {
                Ok(messages) => room.take(&messages),
                // The messages of the other conversations do not wait for this one.
                Err(failure) => {
                    tracing::error!(
                        error = error_chain(&failure),
                        "skipped a conversation whose messages were not read"
                    );
                    failed.get_or_insert(failure);
                }
            }
        }
    }
    let is_whole = matches!(rows, Rows::None) && failed.is_none() && !parts.iter().any(Part::has_more);
    unreadable += parts.iter().map(|part| part.unreadable).sum::<u64>();
    let has_hole = parts.iter().any(|part| part.has_hole);
    let (messages, left_out) = drain_page(parts.into_iter().map(Part::into_backlog).collect());
    match failed {
        Some(failure) if messages.is_empty() => Err(failure),
        // A client with `more` requests the next page immediately, so an empty page is the last.
        _ => Ok(DrainPage { more: !messages.is_empty() && (left_out || !is_whole), messages, unreadable, has_hole }),
    }
}

/// The rows that are still to be read.
enum Rows {
    First,
    Behind(Behind),
    None,
}

impl Rows {
    fn behind(self) -> Option<Behind> {
        match self {
            Self::First | Self::None => None,
            Self::Behind(place) => Some(place),
        }
    }
}

/// One conversation's part of the page.
struct Part {
    row: Membership,
    sight: Sight,
    messages: Vec<Message>,
    /// The entries that are still to be read: how many, behind which entry, and up to which.
    waiting: Waiting,
    behind: Seq,
    last: Seq,
    /// More waits behind that, for another page.
    goes_on: bool,
    unreadable: u64,
    has_hole: bool,
}

impl Part {
    /// Begins with the pending entries of an earlier membership, alone. A page so never has a hole of entries that the
    /// user may not see.
    fn of(row: Membership) -> Self {
        let parts = row.waiting();
        let (first, last) = parts.first().copied().unwrap_or((row.end.seq.next(), row.end.seq));
        let entries = usize::try_from(last.next().above(first)).unwrap_or(usize::MAX);
        let is_owed = !row.owed().is_empty();
        Self {
            sight: if is_owed { Sight { first, last, has_left: true } } else { row.sight() },
            messages: vec![],
            waiting: Waiting { entries, is_short: row.awaits_a_short_text() },
            behind: first.previous(),
            last,
            goes_on: parts.len() > 1,
            unreadable: 0,
            has_hole: false,
            row,
        }
    }

    /// Reads on, and gives what was read. The first message that can't be read, or is not there, ends it: what comes after would leave a hole.
    async fn read(&mut self, store: &Store, limit: usize) -> Result<Vec<Message>, Failure> {
        // After a failure, the page reads no more of this conversation.
        let entries = std::mem::take(&mut self.waiting).entries;
        let Membership { user_id, conversation_id, .. } = &self.row;
        let listed = messages::next(store, conversation_id, self.behind, limit).await?;
        if let Some(seq) = listed.missing {
            tracing::error!(conversation_id = %conversation_id, seq = seq.value(), "an entry of a conversation is missing");
            self.has_hole = true;
        }
        let end = listed.unreadable.iter().chain(&listed.missing).min();
        let readable = listed.messages.iter().filter(|message| end.is_none_or(|end| message.place.seq < *end));
        // In a group, the member may have left before entries that the row has not reached.
        let is_theirs = |message: &&Entry| self.row.view().is_none() || message.place.seq <= self.last;
        let shown: Vec<&Entry> = readable.filter(is_theirs).collect();
        // A row that lags does not show whether its member saw a later change.
        let sight = seen_again(store, user_id, conversation_id, self.sight, &shown).await?;
        let messages: Vec<Message> = shown.iter().map(|message| message.seen_by(user_id, &sight)).collect();
        self.unreadable += listed.unreadable.len() as u64;
        self.goes_on &= end.is_none();
        if end.is_none() && messages.len() == limit {
            self.waiting.entries = entries.saturating_sub(limit);
        }
        self.behind = messages.last().map_or(self.behind, |last| last.seq);
        self.messages.extend(messages.iter().cloned());
        Ok(messages)
    }

    /// Whether there is more to read of it: on this page, or on the next.
    fn has_more(&self) -> bool {
        self.waiting.entries > 0 || self.goes_on
    }

    fn into_backlog(self) -> Backlog {
        Backlog { more: self.has_more(), messages: self.messages }
    }
}
