//! Notifications to all phones of a user that one concerns.

use std::collections::HashSet;

use domain::{Device, error_chain};
use futures_util::future::join_all;
use push::{Notification, Published};
use store::{devices, inbox};
use wire::{Platform, UserId};

use crate::Deps;
use crate::jobs::Member;
use crate::once::Once;
use crate::outcome::{Cause, Sent};

/// Conversations that one badge notes as counted by it.
const BADGED_MAX: usize = 25;
/// Times that a badge is read, where what it counts is read meanwhile.
const BADGE_READS_MAX: usize = 3;

/// Publishes to each phone, concurrently. A failure does not stop the others.
///
/// # Errors
/// A temporary failure. The retry publishes to the other phones again: a push may come twice.
pub(crate) async fn publish(
    deps: &Deps,
    badges: &Badges,
    user: &UserId,
    devices: &[&Device],
    notification: impl Fn(&Device, Option<u64>) -> Option<Notification>,
) -> Result<Sent, Cause> {
    let badge = badges.read(deps, user, devices).await;
    let publishes = devices.iter().filter_map(|device| {
        let notification = notification(device, badge.filter(|_| device.registration.badge))?;
        Some(async move { (*device, deps.phones.publish(&device.endpoint, notification).await) })
    });
    let (mut sent, mut failed, mut refused) = (Sent::default(), None, None);
    for (device, published) in join_all(publishes).await {
        match published {
            Published::Accepted => sent.accepted += 1,
            Published::Gone => match forget(deps, device).await {
                Ok(()) => sent.gone += 1,
                Err(error) => failed = Some(error.into()),
            },
            Published::Refused(cause) => {
                refused = Some(cause);
                sent.refused += 1;
            }
            Published::Failed(cause) => failed = Some(cause),
        }
    }
    // Another phone of the user has the push; repeating it would not help the first one.
    match failed.or(refused.filter(|_| sent.accepted == 0)) {
        Some(cause) => Err(cause),
        None => Ok(sent),
    }
}

/// The badge counts of a batch. A user's count is read once per batch, because it takes up to a megabyte of rows.
#[derive(Debug, Default)]
pub(crate) struct Badges {
    counts: Once<UserId, u64>,
    /// Members whose rows this batch marks by itself.
    ringing: HashSet<Member>,
}

impl Badges {
    /// Creates the counts of a batch with pushes for these members.
    pub(crate) fn of(ringing: HashSet<Member>) -> Self {
        Self { counts: Once::default(), ringing }
    }

    /// Returns the user's count, if one of these phones shows it. A failed read sends the push without a count.
    async fn read(&self, deps: &Deps, user: &UserId, devices: &[&Device]) -> Option<u64> {
        let shows = |device: &&Device| device.registration.badge && device.registration.platform != Platform::Fcm;
        if !devices.iter().any(shows) {
            return None;
        }
        let count = async || Ok(Some(self.count(deps, user).await?));
        self.counts.get(user, "the badge was not counted", count).await
    }

    /// Records in each conversation that the badge counts it, also for phones that show nothing. A later read then
    /// sends the badge again; a read meanwhile causes another count.
    async fn count(&self, deps: &Deps, user: &UserId) -> Result<u64, store::Error> {
        let mut messages = 0;
        for _ in 0..BADGE_READS_MAX {
            let unread = inbox::unread(&deps.store, user, deps.clock.now()).await?;
            messages = unread.messages;
            let unseen = unread.unseen.into_iter().map(|(conversation, count)| ((user.clone(), conversation), count));
            let unseen = unseen.filter(|(member, _)| !self.ringing.contains(member)).take(BADGED_MAX);
            let marks = unseen.map(async |((user, conversation), count)| {
                inbox::mark_badged(&deps.store, &user, &conversation, count, deps.clock.now()).await
            });
            // A conversation counts even if the record fails.
            if join_all(marks).await.into_iter().all(|marked| marked.unwrap_or(true)) {
                break;
            }
        }
        Ok(messages)
    }
}

/// Forgets a device whose app was removed, or has another token: it will register again. A device that has just done so
/// stays.
async fn forget(deps: &Deps, device: &Device) -> Result<(), store::Error> {
    if devices::forget(&deps.store, device, deps.clock.now()).await? == store::Written::Done
        && let Err(error) = deps.phones.forget(&device.endpoint).await
    {
        // An endpoint that remains in SNS costs nothing, and gets no push.
        tracing::warn!(error = error_chain(&*error), "an endpoint was not deleted from SNS");
    }
    Ok(())
}
