//! One member's conversation: what its phones show, and are to show.

use std::collections::HashSet;

use std::time::Duration;

use domain::{Device, Entry, LastEntry, Membership, error_chain, preview};
use lambda::millis_between;
use push::{Notification, Ring};
use store::connections::{self, Freshness};
use store::inbox::{self, Marked};
use store::stream::Said;
use store::{devices, messages};
use wire::{Message, Registration, Seq, Timestamp, UserId, When};

use crate::Deps;
use crate::jobs::{Job, Refresh};
use crate::later::{in_turn, look_again};
use crate::names::Names;
use crate::outcome::{Cause, Done, Rang, Sent};
use crate::phones::{Badges, publish};
use crate::rows::many;

/// An older message is shown without a sound.
pub(crate) const LOUD_MAX: Duration = Duration::from_hours(1);
/// Times that what is shown is read or deleted before it is noted, until nothing is shown.
const MARKS_MAX: u32 = 3;

/// Carries out the parts of the job that the row still requires.
pub(crate) async fn settle(
    deps: &Deps,
    badges: &Badges,
    names: &Names,
    job: &Job,
    row: Option<&Membership>,
) -> Result<Done, Cause> {
    let mut done = Done::default();
    let due = job.ring.map(|said| (said, due(row, said.seq, deps.clock.now())));
    done.ring = due.map(|(_, rang)| rang);
    let ring = due.filter(|(_, rang)| *rang == Rang::Yes).map(|(said, _)| said);
    // No badge counts what phones show nothing of, and no badge is noted in.
    let is_counted = row.is_some_and(|row| row.notified_seq.is_some() || row.is_badged);
    let refresh = job.refresh.filter(|refresh| is_counted || *refresh == Refresh::Uncounted);
    if ring.is_none() && job.clear.is_none() && refresh.is_none() {
        return Ok(done);
    }
    let Some(home) = Home::of(deps, &job.member.0).await? else {
        done.ring = done.ring.map(|rang| if rang == Rang::Yes { Rang::NoDevice } else { rang });
        return Ok(done);
    };
    let at = Place { deps, badges, names, home: &home };
    if let Some(seq) = job.clear {
        at.clear(job, row, seq, &mut done).await?;
    }
    if let (Some(refresh), Some(row)) = (refresh, row) {
        at.refresh(row, refresh, &mut done).await?;
    }
    if let (Some(said), Some(row)) = (ring, row) {
        done.ring = Some(at.ring(job, row, said, &mut done).await?);
    }
    Ok(done)
}

/// Decides whether a push is due. The conversation may be gone, muted or blocked, and the message read or deleted. Or
/// an earlier run has sent the push, and the batch comes again.
fn due(row: Option<&Membership>, seq: Seq, now: Timestamp) -> Rang {
    let Some(row) = row.filter(|row| !row.has_rung(seq)) else { return Rang::Past };
    if row.is_quiet(When::Unread, now) {
        return Rang::Muted;
    }
    let is_read = !row.awaits(seq, When::Unread) || row.has_taken_back(seq);
    if is_read { Rang::Spared } else { Rang::Yes }
}

/// A user's phones, and connections.
pub(crate) struct Home {
    pub(crate) devices: Vec<Device>,
    pub(crate) connected: HashSet<String>,
    /// A suspended user can't fetch the message, and the phone may be stolen.
    pub(crate) is_suspended: bool,
}

impl Home {
    /// `None` without a phone.
    pub(crate) async fn of(deps: &Deps, user: &UserId) -> Result<Option<Self>, Cause> {
        let now = deps.clock.now();
        let mut devices = devices::of_user(&deps.store, user).await?;
        devices.retain(|device| !device.has_ended(now));
        if devices.is_empty() {
            return Ok(None);
        }
        let connections = connections::list(&deps.store, user, now, Freshness::Eventual).await?;
        let connected = connections.open.iter().map(|open| open.device.as_str().to_owned()).collect();
        Ok(Some(Self { devices, connected, is_suspended: connections.suspended_until.is_some() }))
    }

    /// Returns the devices without a connection of their own: the others get the events.
    fn asleep(&self) -> Vec<&Device> {
        self.devices.iter().filter(|device| !self.connected.contains(device.device_id.as_str())).collect()
    }
}

pub(crate) struct Place<'a> {
    pub(crate) deps: &'a Deps,
    pub(crate) badges: &'a Badges,
    pub(crate) names: &'a Names,
    pub(crate) home: &'a Home,
}

impl Place<'_> {
    /// Dismisses notifications up to `seq`. After a delete, the newest unread message before it is shown again.
    pub(crate) async fn clear(
        &self,
        job: &Job,
        row: Option<&Membership>,
        seq: Seq,
        done: &mut Done,
    ) -> Result<(), Cause> {
        if let Some(row) = row
            && let Some(message) = self.left_before(row, seq).await?
        {
            if !row.has_rung(message.place.seq) {
                done.pushed += self.ring_with(row, &message, &self.home.asleep()).await?;
                self.mark(job, message.place.seq, done).await?;
            }
            return Ok(());
        }
        done.cleared += self.publish_clear(job, seq, self.badges).await?;
        Ok(())
    }

    async fn publish_clear(&self, job: &Job, seq: Seq, badges: &Badges) -> Result<Sent, Cause> {
        let (user, conversation) = &job.member;
        let clear = |device: &Device, badge| Some(Notification::clear(conversation, seq, device, badge));
        publish(self.deps, badges, user, &self.home.asleep(), clear).await
    }

    /// Returns the newest message before the deleted one at `seq` that the member has not read, and that a push may
    /// show.
    async fn left_before(&self, row: &Membership, seq: Seq) -> Result<Option<Entry>, Cause> {
        let Membership { user_id, conversation_id, marks, .. } = row;
        let is_told = !self.home.is_suspended && !row.is_quiet(When::Unread, self.deps.clock.now());
        let from = marks.read_seq.next().max(row.first_seq());
        if seq <= marks.read_seq || marks.unread == 0 || !is_told || from >= seq {
            return Ok(None);
        }
        let range = from.value()..=seq.previous().value();
        Ok(messages::newest_by_others(&self.deps.store, conversation_id, &range, user_id).await?)
    }

    /// Without a sound, in the place of what is shown.
    async fn ring_with(&self, row: &Membership, message: &Entry, to: &[&Device]) -> Result<Sent, Cause> {
        let ring = Ring { seq: message.place.seq, is_quiet: true };
        self.publish_ring(row, &entry_of(row, message), ring, to).await
    }

    async fn publish_ring(
        &self,
        row: &Membership,
        shown: &LastEntry,
        ring: Ring,
        to: &[&Device],
    ) -> Result<Sent, Cause> {
        let id = &row.conversation_id;
        let names = self.names.of(self.deps, row.view().map(|_| id), shown, to).await;
        let notification = |device: &Device, badge| Some(Notification::ring(id, shown, &names, ring, device, badge));
        publish(self.deps, self.badges, &row.user_id, to, notification).await
    }

    async fn refresh(&self, row: &Membership, refresh: Refresh, done: &mut Done) -> Result<(), Cause> {
        let asleep = self.home.asleep();
        if let Refresh::Edited(seq) = refresh
            && row.notified_seq == Some(seq)
            && row.awaits(seq, When::Unread)
            && !self.home.is_suspended
            && !row.is_quiet(When::Unread, self.deps.clock.now())
        {
            let showing: Vec<&Device> = asleep.into_iter().filter(|device| device.registration.preview).collect();
            if let Some(message) = self.message(row, seq).await?.filter(|entry| !is_deleted(entry)) {
                done.pushed += self.ring_with(row, &message, &showing).await?;
            }
            return Ok(());
        }
        let badge = |device: &Device, badge: Option<u64>| Notification::badge(device, badge?);
        done.cleared += publish(self.deps, self.badges, &row.user_id, &asleep, badge).await?;
        Ok(())
    }

    /// Sends a push with the row's current content, so that one notification covers later messages. Then records the
    /// push in the row. Not before: after a crash between the two, the next run sends it again, and replaces the
    /// notification.
    async fn ring(&self, job: &Job, row: &Membership, said: Said, done: &mut Done) -> Result<Rang, Cause> {
        let now = self.deps.clock.now();
        if self.home.is_suspended {
            return Ok(Rang::Muted);
        }
        let rings = |when| row.awaits(said.seq, when) && !row.is_quiet(when, now);
        let rings_on = |device: &&Device| {
            let Registration { when, quiet, .. } = device.registration;
            rings(when) && !quiet.is_some_and(|quiet| quiet.is_at(now))
        };
        let wanted: Vec<&Device> = self.home.devices.iter().filter(rings_on).collect();
        if wanted.is_empty() {
            return Ok(Rang::Spared);
        }
        let left = self.deps.grace.saturating_sub(now.since(said.at));
        // Only a connected user can acknowledge. If the later try can't be written, an early push is better than none.
        if !self.home.connected.is_empty() && !left.is_zero() {
            let waiting = Job { clear: None, ring: Some(said), ..job.clone() };
            if look_again(self.deps, &job.member, waiting.again(job.tries, now)).await.is_ok() {
                return Ok(Rang::Waits);
            }
        }
        let ring = Ring { seq: row.rings_up_to(said.seq), is_quiet: now.since(said.at) >= LOUD_MAX };
        let shown = self.line(row, ring.seq, &wanted).await?;
        let sent = self.publish_ring(row, &shown, ring, &wanted).await?;
        let is_rung = sent.accepted > 0;
        done.pushed += sent;
        if is_rung {
            done.age_ms = Some(millis_between(said.at, self.deps.clock.now()));
            self.mark(job, ring.seq, done).await?;
        }
        Ok(Rang::Yes)
    }

    /// Records the push. A failure is ignored: nothing is repeated for it, and nothing is dismissed later. A user who
    /// has read or deleted the message meanwhile did not see a notification to dismiss. Its replacement may be read
    /// meanwhile, too: its own record shows that.
    async fn mark(&self, job: &Job, mut seq: Seq, done: &mut Done) -> Result<(), Cause> {
        for _ in 0..MARKS_MAX {
            if self.note(job, seq).await != Some(Marked::Read) {
                return Ok(());
            }
            let row = many(self.deps, std::slice::from_ref(&job.member)).await?.memberships.pop();
            let badges = Badges::default();
            let again = Place { badges: &badges, ..*self };
            let left = match &row {
                Some(row) => again.left_before(row, seq).await?.map(|message| (row, message)),
                None => None,
            };
            let Some((row, message)) = left else {
                done.cleared += again.publish_clear(job, seq, &badges).await?;
                return Ok(());
            };
            done.pushed += again.ring_with(row, &message, &self.home.asleep()).await?;
            seq = message.place.seq;
        }
        done.cleared += self.publish_clear(job, seq, &Badges::default()).await?;
        Ok(())
    }

    pub(crate) async fn note(&self, job: &Job, seq: Seq) -> Option<Marked> {
        let ((user, conversation), store) = (&job.member, &self.deps.store);
        let marked = in_turn(async || inbox::mark_notified(store, user, conversation, seq).await).await;
        marked
            .inspect_err(|error| {
                tracing::warn!(error = error_chain(error), "the mark of a notification was not written");
            })
            .ok()
    }

    /// Returns the message's text for a phone that shows it. A group's row lacks it, so it is read if there is such a
    /// phone.
    async fn line(&self, row: &Membership, seq: Seq, devices: &[&Device]) -> Result<LastEntry, Cause> {
        if row.view().is_none() || !devices.iter().any(|device| device.registration.preview) {
            return Ok(row.last.clone());
        }
        // Change entries and events of the group have no author here.
        let message = self.message(row, seq).await?;
        Ok(message.map_or_else(|| row.last.clone(), |message| entry_of(row, &message)))
    }

    async fn message(&self, row: &Membership, seq: Seq) -> Result<Option<Entry>, Cause> {
        let message = messages::get(&self.deps.store, &row.conversation_id, seq).await;
        Ok(store::if_readable(message, "a message")?.flatten().filter(|entry| entry.message().is_some()))
    }
}

fn is_deleted(entry: &Entry) -> bool {
    entry.message().is_some_and(|target| target.message.deleted.is_some())
}

/// Returns the member's view of the message, which may be from before a membership.
fn entry_of(row: &Membership, message: &Entry) -> LastEntry {
    last_of(message.seen_by(&row.user_id, &row.sight()))
}

pub(crate) fn last_of(message: Message) -> LastEntry {
    let Message { seq, message_id, sender_id, kind, body, sent_at, deleted_at, .. } = message;
    let (preview, deleted) = (preview(&body), deleted_at.is_some());
    LastEntry { seq, message_id, sender_id, kind, preview, sent_at, deleted, system: None }
}
