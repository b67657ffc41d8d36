//! The rows of a batch's members, as they are by now.

use std::collections::HashMap;
use std::time::Duration;

use domain::Membership;
use futures_util::{StreamExt as _, stream};
use store::inbox::{self, ROWS_MAX};
use tokio::time::{sleep, timeout};
use wire::{ConversationId, UserId};

use crate::jobs::Member;
use crate::outcome::Cause;
use crate::tally::Tally;
use crate::{AT_ONCE_MAX, Deps};

/// One read of many rows.
const READ_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause before a retry of the keys that the table did not process.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(crate) struct Rows {
    found: HashMap<Member, Membership>,
    /// Members whose row could not be read, with the cause.
    failed: HashMap<Member, Cause>,
    answered: bool,
}

impl Rows {
    /// The member's row: `None` if there is none.
    pub(crate) fn take(&mut self, member: &Member) -> Result<Option<Membership>, Cause> {
        self.failed.remove(member).map_or_else(|| Ok(self.found.remove(member)), Err)
    }
}

/// Reads the rows of these members. An unreadable row does not affect the others.
///
/// # Errors
/// The table does not respond.
pub(crate) async fn read(deps: &Deps, members: &[Member], tally: &mut Tally) -> Result<Rows, Cause> {
    let mut rows = Rows::default();
    for chunk in members.chunks(ROWS_MAX) {
        if let Err(cause) = rows.read(deps, chunk, tally).await {
            rows.read_each(deps, chunk, cause, tally).await;
        }
    }
    if rows.answered || members.is_empty() {
        return Ok(rows);
    }
    // If only hot keys are requested, the reply looks like that of a missing table. A service has no rows, so its key
    // is never hot.
    let nobody = UserId::parse("@notify").ok().zip(ConversationId::parse("nobody").ok());
    many(deps, nobody.as_slice()).await?;
    Ok(rows)
}

impl Rows {
    /// A row that stays unread is a failure of its member only: the partition is hot.
    async fn read(&mut self, deps: &Deps, members: &[Member], tally: &mut Tally) -> Result<(), Cause> {
        let left = self.add(many(deps, members).await?, tally);
        if left.is_empty() {
            return Ok(());
        }
        sleep(PAUSE).await;
        let left = match many(deps, &left).await {
            Ok(found) => self.add(found, tally),
            Err(_) => left,
        };
        self.fail(left);
        Ok(())
    }

    /// Reads each row alone, to find the one that fails the batch.
    async fn read_each(&mut self, deps: &Deps, members: &[Member], cause: Cause, tally: &mut Tally) {
        if let [one] = members {
            self.failed.insert(one.clone(), cause);
            return;
        }
        let reads = members.iter().map(async |member| (member, many(deps, std::slice::from_ref(member)).await));
        let mut reads = stream::iter(reads).buffer_unordered(AT_ONCE_MAX);
        while let Some((member, found)) = reads.next().await {
            match found {
                Ok(found) => {
                    let left = self.add(found, tally);
                    self.fail(left);
                }
                Err(cause) => drop(self.failed.insert(member.clone(), cause)),
            }
        }
    }

    /// Their partition is hot.
    fn fail(&mut self, left: Vec<Member>) {
        self.failed.extend(left.into_iter().map(|member| (member, "the table does not take the read of a row".into())));
    }

    /// Returns the unread members.
    fn add(&mut self, found: inbox::Rows, tally: &mut Tally) -> Vec<Member> {
        self.answered = true;
        tally.unreadable += found.unreadable;
        let rows = found.memberships.into_iter();
        self.found.extend(rows.map(|row| ((row.user_id.clone(), row.conversation_id.clone()), row)));
        found.left
    }
}

pub(crate) async fn many(deps: &Deps, members: &[Member]) -> Result<inbox::Rows, Cause> {
    Ok(timeout(READ_TIMEOUT, inbox::get_many(&deps.store, members)).await??)
}
