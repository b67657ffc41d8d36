//! The log of a group or a channel: an entry moves its head, and rows follow it later.

mod append;
mod newcomers;
mod plan;
mod writer;

use deliver::Delivered;
use domain::{Failure, Head, Logged, Membership, error_chain};
use store::Store;
use store::heads::{self, Again};
use store::messages::Listed;
use wire::{ConversationId, Seq, UserId};

pub(crate) use append::append;
pub use append::{Changed, added, creation};
pub(crate) use newcomers::has_room;

/// Entries that one round applies.
pub(crate) const ENTRIES_AT_ONCE_MAX: usize = 100;
/// Reads of an entry that must be there: its transaction shows elsewhere already.
pub(crate) const LOOKS_MAX: u32 = 4;

/// The outcome of following a log.
#[derive(Debug, Default)]
pub struct Reconciled {
    pub delivered: Vec<Delivered>,
    /// Members' rows that went on.
    pub moved: u64,
    /// Former members whose inbox rows record the leave.
    pub settled: Vec<(UserId, Seq)>,
    /// Rows whose members an earlier run may not have notified.
    pub untold: Vec<Membership>,
    /// Rows that can't be read.
    pub unreadable: u64,
    /// Members whose rows stay behind: they could not be read or not be written. The others are where the log ends.
    pub left_behind: u64,
    /// Whether in a moment it may be otherwise for one of them, or for who has left.
    pub may_pass: bool,
    /// Where the log ended.
    pub end: Seq,
    /// Why not all of the log was gone over.
    pub failed: Option<Failure>,
}

/// Reads the head, if this version can read it. Otherwise the work continues with the next entry, or with a member's
/// next request.
pub(crate) async fn readable_head(
    store: &Store,
    conversation: &ConversationId,
    unreadable: &mut u64,
) -> Result<Option<Head>, Failure> {
    let head = store::if_readable(heads::get(store, conversation).await, "a head")?;
    *unreadable += u64::from(head.is_none());
    Ok(head.flatten())
}

/// Has the stream deliver the group again if some rows stayed behind for a reason that may pass. These rows delay no
/// other group. After the second try they stay behind until the group's next entry, the member's next request, or a
/// repair.
pub(crate) async fn second_look(store: &Store, conversation: &ConversationId, done: &mut Reconciled) {
    if !done.may_pass || done.failed.is_some() {
        return;
    }
    match heads::hand_on_again(store, conversation, done.end).await {
        // Not yet.
        Ok(Again::Noted) => done.left_behind = 0,
        Ok(Again::GoesOn | Again::Twice) => {}
        Err(error) => tracing::warn!(error = error_chain(&error), "the second try of a group was not scheduled"),
    }
}

/// Entries as far as they show without a hole: of a transaction that has just been committed, others may show before.
pub(crate) fn dense(listed: Listed, behind: Seq) -> Vec<Logged> {
    let read = listed.messages.into_iter().map(|entry| Logged::Entry(Box::new(entry)));
    let mut entries: Vec<Logged> = read.chain(listed.unreadable.into_iter().map(Logged::Unreadable)).collect();
    entries.sort_by_key(Logged::seq);
    let mut next = behind;
    entries.retain(|entry| {
        let follows = entry.seq() == next.next();
        if follows {
            next = next.next();
        }
        follows
    });
    entries
}
