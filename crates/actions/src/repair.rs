//! A group, made what its log says: for an operator, where the stream was given up, or where rows were lost.

use deliver::Fanout;
use domain::{Failure, Head, LoggedRoster, Membership, RosterRow};
use store::{Store, heads, roster, views};
use wire::{ConversationId, Refusal, Seq, Timestamp, UserId};

use crate::reconcile::{Reconciled, entries, reconcile_and_settle};
use crate::retry::{Attempt, retry};

/// What was wrong, and is not any more.
#[derive(Debug)]
pub struct Repaired {
    /// Rows of the roster.
    pub roster: u64,
    /// Entries and rows that only a later version can read. With one among them the roster is left as it is.
    pub unreadable: u64,
    pub members: Reconciled,
}

/// Writes those rows of the group's roster that are not what its log says, all of which it reads; and brings its members along. A row of
/// the inbox that is not there is made anew: everything since the join waits, and is unread.
pub async fn repair(
    store: &Store,
    fanout: &Fanout,
    now: impl Fn() -> Timestamp,
    conversation: &ConversationId,
) -> Result<Repaired, Failure> {
    let (roster, unreadable) = retry(&mut 0, async || {
        let Some(head) = heads::get(store, conversation).await? else {
            return Err(Refusal::bad_request("conversation_id", "must be the id of a group").into());
        };
        let wrong = wrong_rows(store, &head).await?;
        let restored = wrong.rows.is_empty() || roster::restore(store, &head, &wrong.rows).await?;
        Ok(if restored { Attempt::Done((wrong.rows.len() as u64, wrong.unreadable)) } else { Attempt::AgainAfterPause })
    })
    .await?;
    let members = reconcile_and_settle(store, fanout, now, conversation).await?;
    Ok(Repaired { roster, unreadable, members })
}

/// What the rows of the roster must be that are not so.
#[derive(Default)]
struct Wrong {
    rows: Vec<(UserId, Option<RosterRow>)>,
    unreadable: u64,
}

/// What it reads, it reads after the head.
async fn wrong_rows(store: &Store, head: &Head) -> Result<Wrong, Failure> {
    let (found, unreadable) = roster::list(store, &head.conversation_id, true).await?;
    let logged = logged_roster(store, head).await?;
    let unreadable = unreadable + logged.unknown;
    if unreadable > 0 {
        return Ok(Wrong { unreadable, ..Wrong::default() });
    }
    let found_row = |user: &UserId| found.iter().find(|row| row.user_id == *user);
    let differs = |row: &&RosterRow| found_row(&row.user_id) != Some(*row);
    let differing: Vec<&RosterRow> = logged.rows().filter(differs).collect();
    // Who has left has no row once their own says so.
    let gone = differing.iter().filter(|row| !row.is_member() && found_row(&row.user_id).is_none());
    let gone: Vec<UserId> = gone.map(|row| row.user_id.clone()).collect();
    let told = views::glance(store, &head.conversation_id, &gone).await?.rows;
    let is_told = |row: &RosterRow| {
        let left = told.iter().find(|told| told.user_id == row.user_id).and_then(Membership::view);
        left.is_some_and(|view| view.left_seq == row.left_seq)
    };
    let rows = differing.into_iter().filter(|row| !is_told(row)).map(|row| (row.user_id.clone(), Some(row.clone())));
    let strangers = found.iter().filter(|row| logged.get(&row.user_id).is_none());
    let rows = rows.chain(strangers.map(|row| (row.user_id.clone(), None))).collect();
    Ok(Wrong { rows, unreadable })
}

async fn logged_roster(store: &Store, head: &Head) -> Result<LoggedRoster, Failure> {
    let (mut logged, mut behind) = (LoggedRoster::default(), Seq::ZERO);
    while behind < head.end.seq {
        let page = entries(store, &head.conversation_id, behind).await?;
        let Some(last) = page.last() else {
            return Err(Failure::Unavailable(format!("the log has no entry {}", behind.next()).into()));
        };
        behind = last.seq();
        page.iter().filter(|entry| entry.seq() <= head.end.seq).for_each(|entry| logged.step(entry));
    }
    Ok(logged)
}
