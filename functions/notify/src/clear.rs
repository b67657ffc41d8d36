//! What was read elsewhere goes from the phones that show it.

use std::collections::HashSet;

use domain::{Device, Notification};
use futures_util::{StreamExt as _, stream};
use store::connections::{self, Freshness};
use store::devices;
use store::stream::RowChange;
use tokio::time::{Instant, timeout_at};
use wire::{ConversationId, Seq, UserId};

use crate::phones::{Badges, Sent, publish};
use crate::tally::{Cause, Tally};
use crate::{AT_ONCE_MAX, Deps};

/// Has the phones of each such record's user clear it.
pub(crate) async fn clear(deps: &Deps, changes: &[RowChange], until: Instant, tally: &mut Tally) {
    let read = changes.iter().enumerate().filter_map(|(index, change)| Some((index, change, change.read?)));
    let badges = &Badges::default();
    let clears = read.map(async |(index, change, seq)| {
        let RowChange { user_id, conversation_id, .. } = change;
        (index, timeout_at(until, clear_one(deps, badges, user_id, conversation_id, seq)).await)
    });
    let mut cleared = stream::iter(clears).buffer_unordered(AT_ONCE_MAX);
    while let Some((index, outcome)) = cleared.next().await {
        match outcome {
            Ok(Ok(sent)) => tally.cleared(&sent),
            Ok(Err(cause)) => tally.fail(index, cause),
            Err(elapsed) => tally.fail(index, elapsed),
        }
    }
}

/// On the phones without a live connection: the others had `receipt.read`.
pub(crate) async fn clear_one(
    deps: &Deps,
    badges: &Badges,
    user: &UserId,
    conversation: &ConversationId,
    seq: Seq,
) -> Result<Sent, Cause> {
    let now = deps.clock.now();
    let (devices, connections) = tokio::join!(
        devices::of_user(&deps.store, user),
        connections::list(&deps.store, user, now, Freshness::Eventual)
    );
    let (devices, connections) = (devices?, connections?);
    let connected: HashSet<&str> = connections.open.iter().map(|open| open.device.as_str()).collect();
    let is_asleep = |device: &&Device| !device.has_ended(now) && !connected.contains(device.device_id.as_str());
    let asleep: Vec<&Device> = devices.iter().filter(is_asleep).collect();
    publish(deps, badges, user, &asleep, |device, badge| Notification::clear(conversation, seq, device, badge)).await
}
