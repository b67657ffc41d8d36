//! Notifications to all phones of a user that one concerns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::{Device, Notification, error_chain};
use push::Published;
use store::{devices, inbox};
use tokio::sync::OnceCell;
use wire::{Platform, UserId};

use crate::Deps;
use crate::tally::Cause;

/// What became of them.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) accepted: u64,
    /// Dead tokens, whose devices are forgotten.
    pub(crate) gone: u64,
    /// On platforms that take nothing of this server's any more.
    pub(crate) refused: u64,
}

/// Publishes to each. Whatever fails, the others are tried.
///
/// # Errors
/// One that may go another time. Those that went are published again then: rather twice than not.
pub(crate) async fn publish(
    deps: &Deps,
    badges: &Badges,
    user: &UserId,
    devices: &[&Device],
    notification: impl Fn(&Device, Option<u64>) -> Notification,
) -> Result<Sent, Cause> {
    let badge = badges.of(deps, user, devices).await;
    let (mut sent, mut failed, mut refused) = (Sent::default(), None, None);
    for device in devices {
        let notification = notification(device, badge.filter(|_| device.registration.badge));
        match deps.phones.publish(&device.endpoint, notification).await {
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
    // A user with another phone was rung; ringing that one again and again would mend nothing.
    match failed.or(refused.filter(|_| sent.accepted == 0)) {
        Some(cause) => Err(cause),
        None => Ok(sent),
    }
}

/// The numbers for apps' icons. A user's is read once, however many conversations ring: it is that of up to a megabyte of rows.
#[derive(Debug, Default)]
pub(crate) struct Badges(Mutex<HashMap<UserId, Arc<OnceCell<Option<u64>>>>>);

impl Badges {
    /// The user's, if one of these phones shows it. A phone rings without it rather than not at all.
    async fn of(&self, deps: &Deps, user: &UserId, devices: &[&Device]) -> Option<u64> {
        let shows = |device: &&Device| device.registration.badge && device.registration.platform != Platform::Fcm;
        if !devices.iter().any(shows) {
            return None;
        }
        let badge = Arc::clone(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(user.clone()).or_default());
        let read = async || {
            let unread = inbox::unread(&deps.store, user, deps.clock.now()).await;
            unread.inspect_err(|error| tracing::warn!(error = error_chain(error), "no badge")).ok()
        };
        *badge.get_or_init(read).await
    }
}

/// Its app was removed, or has another token by now: it will register again. One that has just done so stays.
async fn forget(deps: &Deps, device: &Device) -> Result<(), store::Error> {
    if devices::forget(&deps.store, device, deps.clock.now()).await? == store::Written::Done
        && let Err(error) = deps.phones.forget(&device.endpoint).await
    {
        // One that SNS keeps costs nothing, and rings nobody.
        tracing::warn!(error = error_chain(&*error), "SNS did not forget an endpoint");
    }
    Ok(())
}
