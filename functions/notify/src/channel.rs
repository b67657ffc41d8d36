//! A member of a channel: what their phones show of a message that mentions them.

use domain::{ChannelRow, Device, Mention, Sight};
use lambda::millis_between;
use push::{Notification, Ring};
use store::inbox::Marked;
use store::stream::Said;
use store::{channels, messages};
use wire::{ConversationId, Timestamp, UserId};

use crate::Deps;
use crate::jobs::Job;
use crate::later::look_again;
use crate::member::{Home, LOUD_MAX, Place, last_of};
use crate::names::Names;
use crate::outcome::{Cause, Done, Rang};
use crate::phones::{Badges, publish};

/// Carries out the parts of the job that the row still requires. No badge counts a channel.
pub(crate) async fn settle(deps: &Deps, badges: &Badges, names: &Names, job: &Job) -> Result<Done, Cause> {
    let (user, channel) = &job.member;
    let row = if job.ring.is_some() { row(deps, user, channel).await? } else { None };
    let mut done = Done { ring: job.ring.map(|_| due(row.as_ref(), deps.clock.now())), ..Done::default() };
    let due = row.as_ref().and_then(|row| row.mention.map(|mention| (row, mention)));
    let due = due.filter(|_| done.ring == Some(Rang::Yes));
    if due.is_none() && job.clear.is_none() {
        return Ok(done);
    }
    let Some(home) = Home::of(deps, user).await? else {
        done.ring = due.map_or(done.ring, |_| Some(Rang::NoDevice));
        return Ok(done);
    };
    let at = Place { deps, badges, names, home: &home };
    if let Some(seq) = job.clear {
        at.clear(job, None, seq, &mut done).await?;
    }
    if let Some((row, mention)) = due {
        done.ring = Some(ring(&at, job, row, mention, &mut done).await?);
    }
    Ok(done)
}

async fn row(deps: &Deps, user: &UserId, channel: &ConversationId) -> Result<Option<ChannelRow>, Cause> {
    let mut found = channels::find_members(&deps.store, channel, std::slice::from_ref(user)).await?;
    if !found.unreadable.is_empty() || !found.left.is_empty() {
        return Err("the table does not take the read of a row, or the row can't be read".into());
    }
    Ok(found.rows.pop())
}

/// Decides whether a push is due: the newest mention counts, once.
fn due(row: Option<&ChannelRow>, now: Timestamp) -> Rang {
    let Some((row, mention)) = row.and_then(|row| Some((row, row.mention?))) else { return Rang::Past };
    if row.notified_seq >= Some(mention.seq) {
        return Rang::Past;
    }
    if row.read_seq >= mention.seq {
        return Rang::Spared;
    }
    if row.is_quiet(mention, now) { Rang::Muted } else { Rang::Yes }
}

async fn ring(at: &Place<'_>, job: &Job, row: &ChannelRow, mention: Mention, done: &mut Done) -> Result<Rang, Cause> {
    let (now, (user, channel)) = (at.deps.clock.now(), &job.member);
    if at.home.is_suspended {
        return Ok(Rang::Muted);
    }
    let rings_on = |device: &&Device| !device.registration.quiet.is_some_and(|quiet| quiet.is_at(now));
    let wanted: Vec<&Device> = at.home.devices.iter().filter(rings_on).collect();
    if wanted.is_empty() {
        return Ok(Rang::Spared);
    }
    let left = at.deps.grace.saturating_sub(now.since(mention.at));
    // A connected user can read the message before a phone rings.
    if !at.home.connected.is_empty() && !left.is_zero() {
        let ring = Some(Said { seq: mention.seq, at: mention.at });
        let waiting = Job { clear: None, ring, ..job.clone() };
        if look_again(at.deps, &job.member, waiting.again(job.tries, now)).await.is_ok() {
            return Ok(Rang::Waits);
        }
    }
    let message = messages::get(&at.deps.store, channel, mention.seq).await;
    let Some(message) = store::if_readable(message, "a message")?.flatten() else { return Ok(Rang::Spared) };
    let last = last_of(message.seen_by(user, &Sight { first: row.first_seq, ..Sight::WHOLE }));
    if last.deleted {
        return Ok(Rang::Spared);
    }
    let names = at.names.of(at.deps, Some(channel), &last, &wanted).await;
    let ring = Ring { seq: mention.seq, is_quiet: now.since(mention.at) >= LOUD_MAX };
    let notification = |device: &Device, badge| Some(Notification::ring(channel, &last, &names, ring, device, badge));
    let sent = publish(at.deps, at.badges, user, &wanted, notification).await?;
    let is_rung = sent.accepted > 0;
    done.pushed += sent;
    if is_rung {
        done.age_ms = Some(millis_between(mention.at, at.deps.clock.now()));
        if at.note(job, mention.seq).await == Some(Marked::Read) {
            at.clear(job, None, mention.seq, done).await?;
        }
    }
    Ok(Rang::Yes)
}
