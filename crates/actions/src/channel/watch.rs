//! The subscribers of a channel, and their events.
//!
//! No event must arrive, because a channel's entries are in its history. The work can be done at any time and twice,
//! and can stop at any line.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use deliver::Delivered;
use domain::{ChannelRow, ConnectionId, Entry, Failure, Logged, Origin, Sight, error_chain, poll_ms, split};
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use store::connections::{self, Connection, Freshness};
use store::watchers::{self, PARTS, Watcher, WatcherPart};
use store::{Store, channels, heads, messages};
use tokio::time::sleep;
use wire::limits::{POLL_LIVE_MS, POLL_MS, WATCHED_MAX};
use wire::{ConversationId, Message, Refusal, Seq, ServerEvent, Timestamp, UserId, WatchResult};

use crate::Actions;
use crate::log::{ENTRIES_AT_ONCE_MAX, LOOKS_MAX, Reconciled, dense, readable_head};
use crate::retry::pause;

/// Concurrent posts of one channel's entries.
const POSTS_AT_ONCE_MAX: usize = 64;
/// From one time that a channel's entries are posted to the next: what is written meanwhile shares frames.
const SHOW_PAUSE: Duration = Duration::from_secs(1);

/// Has the channel's entries posted to the connection, unless too many are watching.
pub(crate) async fn watch(
    store: &Store,
    now: Timestamp,
    user: &UserId,
    connection: &Connection,
    channel: &ConversationId,
) -> Result<WatchResult, Failure> {
    let head = heads::get(store, channel).await?.ok_or(Refusal::NotMember)?;
    channels::get(store, user, channel).await?.ok_or(Refusal::NotMember)?;
    watchers::put(store, channel, user, connection, head.end.seq).await?;
    // Only now: a subscriber who was there before an entry is found behind it. If too many subscribe concurrently, all
    // of them find too many.
    let (is_known, is_crowded, head) = tokio::try_join!(
        connections::watching(store, user, &connection.id, channel, WATCHED_MAX),
        watchers::is_crowded(store, channel, &connection.id, now),
        heads::get(store, channel)
    )?;
    // Only now as well: of a suspension, either this is found by it, or it is found here.
    let is_suspended = connections::suspended_until(store, user, now, Freshness::Strong).await?.is_some();
    let live = is_known && !is_crowded && !is_suspended;
    if !live {
        unwatch(store, user, &connection.id, channel).await?;
    }
    let last_seq = head.ok_or(Refusal::NotMember)?.end.seq;
    let poll_ms = match (live, is_crowded) {
        (true, _) => POLL_LIVE_MS,
        (false, false) => POLL_MS,
        (false, true) => poll_of_crowd(store, channel, &connection.id, now).await,
    };
    Ok(WatchResult { live, last_seq, poll_ms })
}

/// Returns the interval of a refused subscriber's requests: the more are refused, the longer.
async fn poll_of_crowd(store: &Store, channel: &ConversationId, connection: &ConnectionId, now: Timestamp) -> u64 {
    match watchers::turned_away(store, channel, connection, now).await {
        Ok(turned_away) => poll_ms(turned_away),
        Err(error) => {
            tracing::warn!(
                error = error_chain(&error),
                "the count of rejected watchers was not read; the reply has the shortest poll interval"
            );
            POLL_LIVE_MS
        }
    }
}

/// Posts none of them any more.
pub(crate) async fn unwatch(
    store: &Store,
    user: &UserId,
    connection: &ConnectionId,
    channel: &ConversationId,
) -> Result<(), Failure> {
    tokio::try_join!(
        watchers::remove(store, channel, connection),
        connections::not_watching(store, user, connection, channel)
    )?;
    Ok(())
}

/// Removes the subscriptions of a closed connection. The next post to it or the TTL removes those that stay.
pub async fn forget_watched(store: &Store, connection: &ConnectionId, watched: &[ConversationId]) {
    for channel in watched {
        forget(store, channel, connection).await;
    }
}

async fn forget(store: &Store, channel: &ConversationId, connection: &ConnectionId) {
    if let Err(error) = watchers::remove(store, channel, connection).await {
        tracing::warn!(error = error_chain(&error), "watcher row not removed; its TTL will remove it");
    }
}

/// Sends the subscribers of a channel the entries since their last event, once in a `SHOW_PAUSE`. The function records
/// each part of the subscribers once it has its events, so a repetition continues there. A part that fails delays no
/// other.
pub(crate) async fn show(actions: &Actions, channel: &ConversationId) -> Result<Reconciled, Failure> {
    let store = &actions.store;
    let mut done = Reconciled::default();
    let mut parts = waiting(store, channel, &mut done).await?;
    let told_at = parts.iter().filter_map(|part| part.told_at).max();
    let rest = told_at.map(|at| SHOW_PAUSE.saturating_sub(actions.now().since(at)));
    if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
        sleep(rest).await;
        parts = waiting(store, channel, &mut done).await?;
    }
    let end = done.end;
    let from = parts.iter().flat_map(|part| part.watchers.iter().map(|watcher| watcher.from_seq.max(part.told_seq)));
    let Some(from) = from.min() else { return Ok(done) };
    // A subscriber further behind requests the history.
    let newest = Seq::new(end.value().saturating_sub(ENTRIES_AT_ONCE_MAX as u64)).unwrap_or_default();
    let from = from.max(newest);
    let entries = entries_up_to(store, channel, from, end).await?;
    let last = entries.last().map_or(from, Logged::seq);
    for part in parts {
        let told = part_told(actions, channel, &part, &entries, &mut done).await;
        let noted = match told {
            Ok(()) => watchers::told(store, channel, part.number, last, actions.now()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = noted {
            tracing::warn!(error = error_chain(&error), "no event was sent to a part of the watchers");
            done.may_pass = true;
        }
    }
    if last < end {
        done.failed = Some(Failure::Unavailable("an entry of a channel is missing".into()));
    }
    Ok(done)
}

/// Returns the parts of the subscribers that lack events.
async fn waiting(store: &Store, channel: &ConversationId, done: &mut Reconciled) -> Result<Vec<WatcherPart>, Failure> {
    let Some(head) = readable_head(store, channel, &mut done.unreadable).await? else { return Ok(vec![]) };
    done.end = head.end.seq;
    let read = join_all((0..PARTS).map(|number| watchers::part(store, channel, number))).await;
    let mut parts = vec![];
    for part in read {
        match part {
            Ok(part) => parts.push(part),
            Err(error) => {
                tracing::warn!(error = error_chain(&error), "a part of the watchers was not read");
                done.may_pass = true;
            }
        }
    }
    done.unreadable = parts.iter().map(|part| part.unreadable).sum();
    let waits = |part: &WatcherPart| part.watchers.iter().any(|of| of.from_seq.max(part.told_seq) < done.end);
    parts.retain(waits);
    Ok(parts)
}

/// All of them, as soon as all show: of a transaction that has just been committed, the head may show before.
async fn entries_up_to(store: &Store, channel: &ConversationId, from: Seq, end: Seq) -> Result<Vec<Logged>, Failure> {
    let (mut found, mut looks): (Vec<Logged>, _) = (vec![], 0);
    loop {
        let behind = found.last().map_or(from, Logged::seq);
        if behind >= end {
            return Ok(found);
        }
        let range = behind.next().value()..=end.value();
        let page = dense(messages::range(store, channel, &range).await?, behind);
        if page.is_empty() {
            looks += 1;
            if looks == LOOKS_MAX {
                return Ok(found);
            }
            sleep(pause(looks, 1.0)).await;
        }
        found.extend(page);
    }
}

/// Posts to the members of a part. The membership is read after the entries, so a member of now may see them. A
/// subscriber with an unreadable row gets no event, and requests the history.
async fn part_told(
    actions: &Actions,
    channel: &ConversationId,
    part: &WatcherPart,
    entries: &[Logged],
    done: &mut Reconciled,
) -> Result<(), store::Error> {
    let (store, now) = (&actions.store, actions.now());
    let users: BTreeSet<&UserId> = part.watchers.iter().map(|watcher| &watcher.user).collect();
    let users: Vec<UserId> = users.into_iter().cloned().collect();
    let found = channels::find_members(store, channel, &users).await?;
    done.unreadable += found.unreadable.len() as u64;
    let unknown: BTreeSet<&UserId> = found.unreadable.iter().chain(&found.left).collect();
    let rows: HashMap<&UserId, &ChannelRow> = found.rows.iter().map(|row| (&row.user_id, row)).collect();
    let posts = part.watchers.iter().map(async |watcher| {
        if watcher.ends_at > now && unknown.contains(&watcher.user) {
            return Some(Delivered::failed(&watcher.user));
        }
        let row = rows.get(&watcher.user).filter(|_| watcher.ends_at > now);
        let Some(row) = row else {
            forget(store, channel, &watcher.connection).await;
            return None;
        };
        let from = watcher.from_seq.max(part.told_seq);
        Some(post(actions, channel, watcher, seen(entries, from, row, watcher)).await)
    });
    let mut posts = stream::iter(posts).buffer_unordered(POSTS_AT_ONCE_MAX);
    while let Some(delivered) = posts.next().await {
        done.delivered.extend(delivered);
    }
    Ok(())
}

/// Returns the entries that are new to a subscriber, without those that came from the same connection. Reaction counts
/// are in the history alone: here the viewer's own reaction is not known.
fn seen(entries: &[Logged], from: Seq, row: &ChannelRow, watcher: &Watcher) -> Vec<Vec<Message>> {
    let is_its = |origin: &Origin| matches!(origin, Origin::Connection(id) if *id == watcher.connection);
    let is_own = |entry: &Entry| entry.sender_id == watcher.user && entry.origin.as_ref().is_some_and(is_its);
    // The entries were read before the row, so the subscriber was a member when they had this content.
    let sight = Sight { first: row.first_seq, ..Sight::WHOLE };
    let mut runs: Vec<Vec<Message>> = vec![vec![]];
    for logged in entries.iter().filter(|logged| logged.seq() > from && logged.seq() >= row.first_seq) {
        match logged {
            Logged::Entry(entry) if !is_own(entry) => {
                let message = Message { reactions: vec![], ..entry.seen_by(&watcher.user, &sight) };
                runs.last_mut().into_iter().for_each(|run| run.push(message.clone()));
            }
            Logged::Entry(_) | Logged::Unreadable(_) => runs.push(vec![]),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

async fn post(actions: &Actions, channel: &ConversationId, watcher: &Watcher, runs: Vec<Vec<Message>>) -> Delivered {
    let event = |messages| ServerEvent::MessagesNew { conversation_id: channel.clone(), messages, marks: vec![] };
    let events = runs.into_iter().flat_map(split).map(event);
    let delivered = actions.fanout.post_to(&watcher.user, &watcher.connection, events).await;
    if delivered.frames.gone > 0 {
        forget(&actions.store, channel, &watcher.connection).await;
    }
    delivered
}
