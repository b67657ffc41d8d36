//! Repairs a group's rows from its log: for an operator, after failed records of the stream or lost rows.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{Failure, Head, LoggedRoster, Membership, RosterRow};
use serde::{Deserialize, Serialize};
use store::{Store, heads, messages, roster, views};
use wire::{ConversationId, Refusal, Seq, UserId};

use crate::Actions;
use crate::group::reconcile::reconcile_and_settle;
use crate::log::{Reconciled, dense};
use crate::retry::{Attempt, retry};

/// Entries in one read of a log, without their texts.
const ENTRIES_AT_ONCE_MAX: usize = 1_000;
/// The time that one request reads a log. The next request continues there.
const BUDGET: Duration = Duration::from_secs(20);

/// How far a group's log was gone over, and who was a member by then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSoFar {
    seq: Seq,
    roster: LoggedRoster,
}

/// The outcome of a repair.
#[derive(Debug)]
pub struct Repaired {
    /// Rows of the roster.
    pub roster: u64,
    /// Entries and rows that only a later version can read. With one among them the roster is left as it is.
    pub unreadable: u64,
    pub members: Reconciled,
    /// Where to go on, if there was no time for all of the log. Then nothing was written.
    pub next: Option<LogSoFar>,
}

/// Reads the group's log from `log` on, writes the rows of the member list that differ from it, and reconciles. A
/// missing inbox row is created again: all entries since the join are pending and unread.
pub(crate) async fn repair(
    actions: &Actions,
    conversation: &ConversationId,
    mut log: LogSoFar,
) -> Result<Repaired, Failure> {
    let (store, began) = (&actions.store, actions.now());
    let is_over = || actions.now().since(began) >= BUDGET;
    let written = retry(&mut 0, async || {
        let Some(head) = heads::get(store, conversation).await? else {
            return Err(Refusal::bad_request("conversation_id", "must be the id of a group").into());
        };
        if !go_over(store, &head, &mut log, is_over).await? {
            return Ok(Attempt::Done(None));
        }
        let wrong = wrong_rows(store, &head, &log.roster).await?;
        let restored = wrong.rows.is_empty() || roster::restore(store, &head, &wrong.rows).await?;
        let written = (wrong.rows.len() as u64, wrong.unreadable);
        Ok(if restored { Attempt::Done(Some(written)) } else { Attempt::AgainAfterPause })
    })
    .await?;
    let Some((roster, unreadable)) = written else {
        let unreadable = log.roster.unknown;
        return Ok(Repaired { roster: 0, unreadable, members: Reconciled::default(), next: Some(log) });
    };
    let members = reconcile_and_settle(actions, conversation, None).await?;
    Ok(Repaired { roster, unreadable, members, next: None })
}

/// The rows of the member list that differ from the log, as they must be.
#[derive(Default)]
struct Wrong {
    rows: Vec<(UserId, Option<RosterRow>)>,
    unreadable: u64,
}

/// Reads the rows after the head.
async fn wrong_rows(store: &Store, head: &Head, logged: &LoggedRoster) -> Result<Wrong, Failure> {
    let (found, unreadable) = roster::list(store, &head.conversation_id, true).await?;
    let unreadable = unreadable + logged.unknown;
    if unreadable > 0 {
        return Ok(Wrong { unreadable, ..Wrong::default() });
    }
    let found: BTreeMap<UserId, RosterRow> = found.into_iter().map(|row| (row.user_id.clone(), row)).collect();
    let found_row = |user: &UserId| found.get(user);
    let differs = |row: &&RosterRow| found_row(&row.user_id) != Some(*row);
    let differing: Vec<&RosterRow> = logged.rows().filter(differs).collect();
    // A former member has no row here once the own inbox row records the leave.
    let gone = differing.iter().filter(|row| !row.is_member() && found_row(&row.user_id).is_none());
    let gone: Vec<UserId> = gone.map(|row| row.user_id.clone()).collect();
    let told = views::glance(store, &head.conversation_id, &gone).await?.rows;
    let told: BTreeMap<&UserId, &Membership> = told.iter().map(|row| (&row.user_id, row)).collect();
    let is_told = |row: &RosterRow| {
        let left = told.get(&row.user_id).and_then(|told| told.view());
        left.is_some_and(|view| view.left_seq == row.left_seq)
    };
    let rows = differing.into_iter().filter(|row| !is_told(row)).map(|row| (row.user_id.clone(), Some(row.clone())));
    let strangers = found.keys().filter(|user| logged.get(user).is_none());
    let rows = rows.chain(strangers.map(|user| (user.clone(), None))).collect();
    Ok(Wrong { rows, unreadable })
}

/// Goes over the log up to the head's end. `false`: the time was over before.
async fn go_over(store: &Store, head: &Head, log: &mut LogSoFar, is_over: impl Fn() -> bool) -> Result<bool, Failure> {
    while log.seq < head.end.seq {
        if is_over() {
            return Ok(false);
        }
        let page = messages::outlines(store, &head.conversation_id, log.seq, ENTRIES_AT_ONCE_MAX).await?;
        let page = dense(page, log.seq);
        if page.is_empty() {
            return Err(Failure::Unavailable(format!("the log has no entry {}", log.seq.next()).into()));
        }
        for entry in page.iter().filter(|entry| entry.seq() <= head.end.seq) {
            log.roster.step(entry);
            log.seq = entry.seq();
        }
    }
    Ok(true)
}
