//! Erases a user, step by step. Each step can be repeated, by a run that was killed or by two at the same time.
//!
//! First the user is barred and all that they could write with is closed. So nothing of theirs is added while the logs are
//! gone through. The user's rows in `inbox` show which conversations are left: a row goes when its conversation is done.

use std::time::Duration;

use domain::{ErasedBody, Failure, With};
use serde::{Deserialize, Serialize};
use store::erase::{self, Erasing, OwnRow};
use store::jobs::{self, Holds, Job, State};
use store::{Store, Written, connections, devices, inbox, reports};
use tokio::time::{Instant, sleep};
use wire::limits::ERASED_RANGES_MAX;
use wire::{ConversationId, ConversationKind, Refusal, Seq, UserId};

use crate::Deps;

/// Time for which a job has the work on a conversation. A run that has lost it is dead by then.
const LEASE: Duration = Duration::from_mins(10);
/// The pause for each row that was written: a job takes a fifth of what a conversation's partition can write.
const PAUSE_PER_WRITE: Duration = Duration::from_millis(5);
/// Looks at a peer's row that others change meanwhile.
const LOOKS_MAX: u32 = 5;
/// Days after which the user's exports end, which no backup has.
const EXPORT_DAYS: u64 = 7;
/// Reports are found by month, so a look each this number of days meets each month.
const MONTH_DAYS_MIN: u64 = 28;

/// Where a job goes on.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Cursor {
    at: At,
    /// The step begins after the time in which all settles.
    #[serde(default)]
    waits: bool,
    /// The last of the user's rows that is done, or that stays.
    #[serde(default)]
    behind: String,
    /// This look at the user's rows has found one.
    #[serde(default)]
    has_found: bool,
    /// The conversation at work, and its other member.
    #[serde(default)]
    of: Option<(ConversationId, UserId)>,
    /// The last entry that is done.
    #[serde(default)]
    seq: Option<Seq>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum At {
    /// Bars the user.
    #[default]
    Bar,
    /// Unregisters phones.
    Devices,
    /// Looks for the next conversation.
    Rows,
    /// Closes a conversation for both members.
    Close,
    /// Empties what the user wrote.
    Log,
    /// Removes earlier texts and idempotency keys.
    Traces,
    /// Appends the entry by which devices empty theirs.
    Tell,
    /// Replaces the id in the peer's row, and removes the user's.
    Peer,
    /// Removes a log that is no member's any more.
    Remove,
    /// Removes the user's settings, keys and profile.
    Own,
    /// Replaces the reporter of reports.
    Reports,
    Done,
}

/// Works at the job until its time is over or it has ended.
pub(crate) async fn work(deps: &Deps, job: &mut Job) -> Result<(), Failure> {
    let until = Instant::now() + deps.slice;
    let mut cursor = match job.cursor.as_str() {
        "" => Cursor::default(),
        text => serde_json::from_str(text).map_err(|error| Failure::Unreadable(error.into()))?,
    };
    if std::mem::take(&mut cursor.waits) {
        sleep(deps.settling).await;
    }
    let holds = jobs::holds(&deps.actions.store).await?;
    let mut leased = None;
    loop {
        if let Some((conversation, _)) = &cursor.of
            && leased.as_ref() != Some(conversation)
        {
            if !lease(deps, job, conversation).await? {
                // Another job has the conversation.
                cursor.waits = true;
                break;
            }
            leased = Some(conversation.clone());
        }
        cursor = step(deps, job, &holds, cursor).await?;
        if leased.is_some() && leased.as_ref() != cursor.of.as_ref().map(|(conversation, _)| conversation) {
            give_back(&deps.actions.store, job, leased.take()).await?;
        }
        if cursor.waits || cursor.at == At::Done || Instant::now() >= until {
            break;
        }
    }
    give_back(&deps.actions.store, job, leased).await?;
    job.state = State::Running;
    job.cursor = serde_json::to_string(&cursor).map_err(|error| Failure::Unreadable(error.into()))?;
    if cursor.at == At::Done {
        end(deps, job);
    }
    Ok(())
}

async fn lease(deps: &Deps, job: &Job, conversation: &ConversationId) -> Result<bool, Failure> {
    let now = deps.actions.clock.now();
    let taken = jobs::lease(&deps.actions.store, conversation, &job.id, now, now.plus(LEASE)).await?;
    Ok(taken == Written::Done)
}

async fn give_back(store: &Store, job: &Job, leased: Option<ConversationId>) -> Result<(), Failure> {
    if let Some(conversation) = leased {
        jobs::give_back(store, &conversation, &job.id).await?;
    }
    Ok(())
}

fn end(deps: &Deps, job: &mut Job) {
    (job.state, job.cursor) = (State::Done, String::new());
    let days = deps.backup_days.max(EXPORT_DAYS);
    let complete_at = deps.actions.clock.now().plus(Duration::from_hours(24 * days));
    let is_whole = ["held", "left"].iter().all(|name| count_of(job, name) == 0);
    job.complete_at = is_whole.then_some(complete_at);
}

fn count_of(job: &Job, name: &str) -> u64 {
    job.counts.get(name).copied().unwrap_or_default()
}

fn count(job: &mut Job, name: &str, more: u64) {
    *job.counts.entry(name.to_owned()).or_default() += more;
}

/// Does one step, and returns the next one.
async fn step(deps: &Deps, job: &mut Job, holds: &Holds, cursor: Cursor) -> Result<Cursor, Failure> {
    let store = &deps.actions.store;
    let user = &job.user.clone();
    let go = |cursor: Cursor, at: At| Ok(Cursor { at, ..cursor });
    match (cursor.at, cursor.of.clone()) {
        (At::Bar, _) => {
            connections::bar(store, user).await?;
            deps.actions.unwatch_all(user).await?;
            deps.actions.disconnect(user).await?;
            Ok(Cursor { at: At::Devices, waits: true, ..cursor })
        }
        (At::Devices, _) => {
            forget_devices(deps, user).await?;
            go(cursor, At::Rows)
        }
        (At::Rows, _) => next(store, job, holds, cursor).await,
        (At::Own, _) => {
            erase::remove_own(store, user).await?;
            go(cursor, At::Reports)
        }
        (At::Reports, _) => {
            replace_reporter(deps, job).await?;
            go(cursor, At::Done)
        }
        (At::Close | At::Log | At::Traces | At::Tell | At::Peer | At::Remove, Some((conversation, peer))) => {
            direct(deps, job, cursor, (&conversation, &peer)).await
        }
        // There is no conversation to work at.
        (At::Close | At::Log | At::Traces | At::Tell | At::Peer | At::Remove | At::Done, _) => go(cursor, At::Done),
    }
}

/// Unregisters each phone. SNS keeps no endpoint of it.
async fn forget_devices(deps: &Deps, user: &UserId) -> Result<(), Failure> {
    let (store, now) = (&deps.actions.store, deps.actions.clock.now());
    for device in devices::of_user(store, user).await? {
        deps.phones.forget(&device.endpoint).await.map_err(Failure::Unavailable)?;
        if devices::forget(store, &device, now).await? == Written::Lost {
            return Err(Refusal::Conflict.into());
        }
    }
    Ok(())
}

/// Looks for the next of the user's conversations. After the last one, looks once more: a request that could not read the
/// bar may have made another.
async fn next(store: &Store, job: &mut Job, holds: &Holds, cursor: Cursor) -> Result<Cursor, Failure> {
    if cursor.behind.is_empty() {
        job.counts.remove("held");
        job.counts.remove("left");
    }
    let Some(row) = erase::next_row(store, &job.user, &cursor.behind).await? else {
        let again = Cursor { at: At::Rows, waits: true, ..Cursor::default() };
        return Ok(if cursor.has_found { again } else { Cursor { at: At::Own, ..Cursor::default() } });
    };
    let behind = row.key.clone();
    let passed = Cursor { behind, ..cursor };
    // A row about no conversation has a space in its key.
    let Ok(conversation) = ConversationId::parse(&row.key) else { return Ok(passed) };
    match (conversation.kind(), row) {
        (ConversationKind::Direct, OwnRow { peer: Some(peer), is_written, .. }) => {
            if holds.has_conversation(&conversation) || holds.has_user(&peer) {
                count(job, "held", 1);
                return Ok(passed);
            }
            if !is_written {
                let who = Erasing { user: &job.user, gone: &job.gone, now: job.saved_at };
                erase::rewrite_stranger(store, who, &peer, &conversation).await?;
                erase::remove_row(store, &job.user, conversation.as_str()).await?;
                return Ok(passed);
            }
            Ok(Cursor { at: At::Close, has_found: true, of: Some((conversation, peer)), seq: None, ..passed })
        }
        // The steps for groups and channels are by hand. A direct conversation without a peer is of a later version.
        (ConversationKind::Direct | ConversationKind::Group | ConversationKind::Channel, _) => {
            count(job, "left", 1);
            Ok(passed)
        }
    }
}

/// Does a step in a direct conversation.
async fn direct(
    deps: &Deps,
    job: &mut Job,
    cursor: Cursor,
    (conversation, peer): (&ConversationId, &UserId),
) -> Result<Cursor, Failure> {
    let store = &deps.actions.store;
    let (user, gone) = (&job.user.clone(), &job.gone.clone());
    let who = Erasing { user, gone, now: deps.actions.clock.now() };
    // A service has no row, and a note has one.
    let has_peer = peer != user && !peer.is_service();
    let at = match cursor.at {
        At::Close => {
            erase::close(store, who, peer, conversation).await?;
            if has_peer { At::Log } else { At::Remove }
        }
        At::Log => {
            let done = erase::empty(store, who, conversation, cursor.seq.unwrap_or(Seq::ZERO)).await?;
            count(job, "entries", done.written);
            sleep(pause(done.written)).await;
            match done.last {
                Some(_) => return Ok(Cursor { seq: done.last, ..cursor }),
                None => At::Traces,
            }
        }
        At::Traces => {
            erase::remove_traces(store, conversation, Some(user)).await?;
            At::Tell
        }
        At::Tell if inbox::get(store, peer, conversation).await?.is_none() => At::Remove,
        At::Tell => {
            tell(deps, job, conversation, (user, peer)).await?;
            At::Peer
        }
        At::Peer => {
            rewrite_peer(store, who, conversation, peer).await?;
            return done(store, job, cursor, conversation).await;
        }
        At::Remove => {
            let removed = erase::remove(store, conversation).await?;
            count(job, "entries", removed.written);
            sleep(pause(removed.written)).await;
            if removed.last.is_some() {
                return Ok(cursor);
            }
            erase::remove_traces(store, conversation, None).await?;
            return done(store, job, cursor, conversation).await;
        }
        At::Bar | At::Devices | At::Rows | At::Own | At::Reports | At::Done => At::Rows,
    };
    Ok(Cursor { at, ..cursor })
}

fn pause(written: u64) -> Duration {
    PAUSE_PER_WRITE * u32::try_from(written).unwrap_or(u32::MAX)
}

/// Removes the user's own row, which was the last trace of the conversation.
async fn done(store: &Store, job: &mut Job, cursor: Cursor, of: &ConversationId) -> Result<Cursor, Failure> {
    erase::remove_row(store, &job.user, of.as_str()).await?;
    count(job, "conversations", 1);
    Ok(Cursor { at: At::Rows, of: None, seq: None, ..cursor })
}

/// Appends the entries that name what the user wrote, also where that is nothing.
async fn tell(
    deps: &Deps,
    job: &Job,
    conversation: &ConversationId,
    (user, peer): (&UserId, &UserId),
) -> Result<(), Failure> {
    let seqs = erase::own_seqs(&deps.actions.store, &job.gone, conversation).await?;
    let mut parts: Vec<&[[Seq; 2]]> = seqs.chunks(ERASED_RANGES_MAX).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    for (number, part) in parts.into_iter().enumerate() {
        let erased = ErasedBody { user: job.gone.clone(), seqs: part.to_vec() };
        let key = format!("erase:{}:{number}", job.id);
        if let Some(appended) = deps.actions.append_erased(conversation, (user, peer), erased, &key).await? {
            deps.actions.tell_appended(&appended, None).await;
        }
    }
    Ok(())
}

async fn rewrite_peer(
    store: &Store,
    who: Erasing<'_>,
    conversation: &ConversationId,
    peer: &UserId,
) -> Result<(), Failure> {
    for _ in 0..LOOKS_MAX {
        let Some(row) = inbox::get(store, peer, conversation).await? else { return Ok(()) };
        let is_theirs = matches!(&row.with, With::Peer { peer_id, .. } if peer_id == who.user);
        if !is_theirs || erase::rewrite_peer(store, who, &row).await? == Written::Done {
            return Ok(());
        }
    }
    Err(Refusal::Conflict.into())
}

/// Replaces the reporter in the reports of all months that can have one. Reports about the user stay.
async fn replace_reporter(deps: &Deps, job: &Job) -> Result<(), Failure> {
    let now = deps.actions.clock.now();
    let looks = deps.report_days / MONTH_DAYS_MIN + 2;
    let months = (0..looks).map(|look| now.minus(Duration::from_hours(24 * MONTH_DAYS_MIN * look)));
    let mut months: Vec<String> = months.map(domain::month).collect();
    months.dedup();
    for month in months {
        reports::replace_reporter(&deps.actions.store, &month, &job.user, &job.gone).await?;
    }
    Ok(())
}
