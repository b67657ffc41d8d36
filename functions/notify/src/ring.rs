//! Phones ring for what nobody has taken.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use actions::{Attempt, retry};
use domain::{Device, Failure, LastEntry, Membership, Notification, error_chain, preview};
use futures_util::{StreamExt as _, stream};
use lambda::millis_between;
use store::connections::{self, Freshness};
use store::inbox::{self, Marked, ROWS_MAX};
use store::stream::{RowChange, Said};
use store::{devices, messages};
use tokio::time::{Instant, sleep, timeout_at};
use wire::{ConversationId, Seq, Timestamp, UserId, When};

use crate::clear::clear_one;
use crate::phones::{Badges, Sent, publish};
use crate::tally::{Cause, Tally};
use crate::{AT_ONCE_MAX, Deps};

/// Those who have time left are looked at again so often.
const STEP: Duration = Duration::from_secs(1);
/// Times that rows are asked for which the table did not take at once.
const READS_MAX: u32 = 5;

/// A new message, for one member.
#[derive(Debug)]
struct Ring {
    user: UserId,
    conversation: ConversationId,
    seq: Seq,
    at: Timestamp,
    /// The record's place in the batch.
    index: usize,
    devices: Vec<Device>,
    /// How long the member still has to acknowledge it.
    left: Duration,
}

type Rows = HashMap<(UserId, ConversationId), Membership>;

/// Rings for each new message of the batch that its recipient still lacks. Who is connected has until the end of the grace to
/// acknowledge it; nobody waits for them.
pub(crate) async fn ring(deps: &Deps, changes: &[RowChange], until: Instant, tally: &mut Tally) {
    let mut rings = newest(changes);
    tally.rings = rings.len() as u64;
    let mut rows = still_due(deps, &mut rings, tally).await;
    rings = look_up(deps, rings, tally).await;
    loop {
        let now = deps.clock.now();
        rings.retain(|ring| {
            let is_wanted = rows.get(&ring.member()).is_some_and(|row| !ring.wanted(row, now).is_empty());
            tally.spared += u64::from(!is_wanted);
            is_wanted
        });
        let (due, waiting): (Vec<Ring>, Vec<Ring>) = rings.into_iter().partition(|ring| ring.left.is_zero());
        ring_all(deps, &due, &rows, until, tally).await;
        rings = waiting;
        let Some(step) = rings.iter().map(|ring| ring.left.min(STEP)).min() else { return };
        sleep(step).await;
        tally.waited += step;
        for ring in &mut rings {
            ring.left -= step;
        }
        rows = still_due(deps, &mut rings, tally).await;
    }
}

/// Of each member's conversation the newest message: it says what the others would.
fn newest(changes: &[RowChange]) -> Vec<Ring> {
    let mut newest = BTreeMap::new();
    for (index, change) in changes.iter().enumerate() {
        let Some(Said { seq, at }) = change.news else { continue };
        let RowChange { user_id: user, conversation_id: conversation, .. } = change.clone();
        let member = (user.clone(), conversation.clone());
        let ring = Ring { user, conversation, seq, at, index, devices: vec![], left: Duration::ZERO };
        if newest.get(&member).is_none_or(|known: &Ring| known.seq < seq) {
            newest.insert(member, ring);
        }
    }
    newest.into_values().collect()
}

/// The rows as they are now, and only those rings that they still call for.
async fn still_due(deps: &Deps, rings: &mut Vec<Ring>, tally: &mut Tally) -> Rows {
    let (mut rows, mut failed) = (Rows::new(), HashSet::new());
    for chunk in rings.chunks(ROWS_MAX) {
        match read(deps, chunk.iter().map(Ring::member).collect(), tally).await {
            Ok(found) => rows.extend(found),
            Err(cause) => {
                failed.extend(chunk.iter().map(|ring| ring.index));
                tally.fail_all(chunk.iter().map(|ring| ring.index), cause);
            }
        }
    }
    rings.retain(|ring| {
        !failed.contains(&ring.index) && is_due(rows.get(&ring.member()), ring, deps.clock.now(), tally)
    });
    rows
}

async fn read(deps: &Deps, mut members: Vec<(UserId, ConversationId)>, tally: &mut Tally) -> Result<Rows, Cause> {
    let mut rows = Rows::new();
    for tries in 1..=READS_MAX {
        let found = inbox::get_many(&deps.store, &members).await?;
        tally.unreadable += found.unreadable;
        rows.extend(found.memberships.into_iter().map(|row| ((row.user_id.clone(), row.conversation_id.clone()), row)));
        members = found.left;
        if members.is_empty() {
            return Ok(rows);
        }
        sleep(Duration::from_millis(50) * tries).await;
    }
    Err("the table does not take all reads of a batch".into())
}

/// The conversation may be gone, muted or blocked; the message may be read or deleted; or phones rang for this one already, and the batch comes again.
fn is_due(row: Option<&Membership>, ring: &Ring, now: Timestamp, tally: &mut Tally) -> bool {
    let Some(row) = row.filter(|row| !row.has_rung(ring.seq)) else { return false };
    let (is_quiet, is_read) =
        (row.is_quiet(When::Unread, now), !row.awaits(ring.seq, When::Unread) || row.has_taken_back(ring.seq));
    tally.muted += u64::from(is_quiet);
    tally.spared += u64::from(!is_quiet && is_read);
    !is_quiet && !is_read
}

/// Finds the phones, and how long their user still has.
async fn look_up(deps: &Deps, rings: Vec<Ring>, tally: &mut Tally) -> Vec<Ring> {
    let mut found = vec![];
    let looking = rings.into_iter().map(async |mut ring| {
        let outcome = ring.look_up(deps).await;
        (ring, outcome)
    });
    let mut looking = stream::iter(looking).buffer_unordered(AT_ONCE_MAX);
    while let Some((ring, outcome)) = looking.next().await {
        match outcome {
            Ok(Home::WithoutPhone) => tally.no_device += 1,
            Ok(Home::Suspended) => tally.muted += 1,
            Ok(Home::WithPhone) => found.push(ring),
            Err(error) => tally.fail(ring.index, error),
        }
    }
    found
}

/// What there is to ring.
enum Home {
    WithPhone,
    WithoutPhone,
    /// Nobody is let in who could take the message, and the phone may be a stolen one.
    Suspended,
}

impl Ring {
    fn member(&self) -> (UserId, ConversationId) {
        (self.user.clone(), self.conversation.clone())
    }

    async fn look_up(&mut self, deps: &Deps) -> Result<Home, store::Error> {
        let now = deps.clock.now();
        let mut devices = devices::of_user(&deps.store, &self.user).await?;
        devices.retain(|device| !device.has_ended(now));
        if devices.is_empty() {
            return Ok(Home::WithoutPhone);
        }
        self.devices = devices;
        let connections = connections::list(&deps.store, &self.user, now, Freshness::Eventual).await?;
        if connections.suspended_until.is_some() {
            return Ok(Home::Suspended);
        }
        // Nobody who is not connected can acknowledge anything.
        if !connections.open.is_empty() {
            self.left = deps.grace.saturating_sub(now.since(self.at));
        }
        Ok(Home::WithPhone)
    }

    /// The phones that want to ring, as far as the member has come.
    fn wanted<'a>(&'a self, row: &Membership, now: Timestamp) -> Vec<&'a Device> {
        let rings = |when| row.awaits(self.seq, when) && !row.is_quiet(when, now);
        self.devices.iter().filter(|device| rings(device.registration.when)).collect()
    }
}

async fn ring_all(deps: &Deps, rings: &[Ring], rows: &Rows, until: Instant, tally: &mut Tally) {
    let ringing = rings.iter().filter_map(|ring| Some((ring, rows.get(&ring.member())?)));
    let badges = &Badges::default();
    let ringing = ringing.map(async |(ring, row)| (ring, timeout_at(until, ring_one(deps, badges, ring, row)).await));
    let mut ringing = stream::iter(ringing).buffer_unordered(AT_ONCE_MAX);
    while let Some((ring, outcome)) = ringing.next().await {
        match outcome {
            Ok(Ok(sent)) => {
                tally.pushed(&sent);
                let age = millis_between(ring.at, deps.clock.now());
                tally.age_ms = tally.age_ms.max((sent.accepted > 0).then_some(age));
            }
            Ok(Err(cause)) => tally.fail(ring.index, cause),
            Err(elapsed) => tally.fail(ring.index, elapsed),
        }
    }
}

/// Says what the row says now, so that one notification is enough for what came meanwhile; and then notes that phones were rung.
/// Not before: who dies in between rings again, and replaces what is there.
async fn ring_one(deps: &Deps, badges: &Badges, ring: &Ring, row: &Membership) -> Result<Sent, Cause> {
    let (seq, wanted) = (row.rings_up_to(ring.seq), ring.wanted(row, deps.clock.now()));
    let shown = line(deps, row, seq, &wanted).await?;
    let notification = |device: &Device, badge| Notification::ring(row, &shown, seq, device, badge);
    let sent = publish(deps, badges, &ring.user, &wanted, notification).await?;
    if sent.accepted > 0 && mark(deps, ring, seq).await == Some(Marked::Read) {
        // Whoever has read it did not see that there was something to clear.
        clear_one(deps, &Badges::default(), &ring.user, &ring.conversation, seq).await?;
    }
    Ok(sent)
}

/// What a phone that shows it says of the message. Of a group, that is not in the row: it is read, if such a phone rings.
async fn line(deps: &Deps, row: &Membership, seq: Seq, devices: &[&Device]) -> Result<LastEntry, Cause> {
    if row.view().is_none() || !devices.iter().any(|device| device.registration.preview) {
        return Ok(row.last.clone());
    }
    let entry = store::if_readable(messages::get(&deps.store, &row.conversation_id, seq).await, "a message")?;
    // What came of a message, or happened to the group, was said by nobody.
    let entry = entry.flatten().filter(|entry| entry.kind.counts());
    let Some(entry) = entry else { return Ok(row.last.clone()) };
    Ok(LastEntry {
        seq,
        message_id: entry.place.message_id.clone(),
        sender_id: entry.sender_id.clone(),
        kind: entry.kind.clone(),
        preview: preview(&entry.body),
        sent_at: entry.place.sent_at,
        deleted: entry.deleted.is_some(),
        system: None,
    })
}

/// Where it can't be noted, phones were rung all the same: the batch is not made again for that, and nothing is cleared later.
async fn mark(deps: &Deps, ring: &Ring, seq: Seq) -> Option<Marked> {
    let marked: Result<Marked, Failure> =
        retry(&mut 0, async || match inbox::mark_notified(&deps.store, &ring.user, &ring.conversation, seq).await? {
            Marked::Busy => Ok(Attempt::AgainAfterPause),
            marked => Ok(Attempt::Done(marked)),
        })
        .await;
    marked.inspect_err(|error| tracing::warn!(error = error_chain(error), "a notification is not marked")).ok()
}
