//! Who looks at a channel, and what they are told.
//!
//! Nothing of it must arrive: what a channel holds is in its history. So it can be done at any time, twice, and be left in the middle.

use std::collections::{BTreeSet, HashMap};

use deliver::{Delivered, Fanout};
use domain::{ChannelRow, ConnectionId, Failure, Logged, StoredMessage, error_chain, split};
use futures_util::future::try_join_all;
use futures_util::{StreamExt as _, stream};
use store::connections::{self, Connection};
use store::watchers::{self, PARTS, Watcher, WatcherPart};
use store::{Store, channels, heads};
use tokio::time::sleep;
use wire::limits::{POLL_LIVE_MS, POLL_MS, WATCHED_MAX};
use wire::{ConversationId, Message, Refusal, Seq, ServerEvent, Timestamp, UserId, WatchResult};

use crate::reconcile::{ENTRIES_AT_ONCE_MAX, LOOKS_MAX, Reconciled, entries, readable_head};
use crate::retry::pause;

/// Connections to which one channel's entries are posted at once.
const POSTS_AT_ONCE_MAX: usize = 64;

/// Has the channel's entries posted to the connection, unless too many are watching.
pub async fn watch(
    store: &Store,
    now: Timestamp,
    user: &UserId,
    connection: &Connection,
    channel: &ConversationId,
) -> Result<WatchResult, Failure> {
    let head = heads::get(store, channel).await?.ok_or(Refusal::NotMember)?;
    channels::get(store, user, channel).await?.ok_or(Refusal::NotMember)?;
    watchers::put(store, channel, user, connection, head.end.seq).await?;
    // Only now: who was there before an entry is found behind it. Of too many at once, all find that they are.
    let (is_known, is_crowded, head) = tokio::try_join!(
        connections::watching(store, user, &connection.id, channel, WATCHED_MAX),
        watchers::is_crowded(store, channel, &connection.id, now),
        heads::get(store, channel)
    )?;
    let live = is_known && !is_crowded;
    if !live {
        unwatch(store, user, &connection.id, channel).await?;
    }
    let last_seq = head.ok_or(Refusal::NotMember)?.end.seq;
    Ok(WatchResult { live, last_seq, poll_ms: if live { POLL_LIVE_MS } else { POLL_MS } })
}

/// Posts none of them any more.
pub async fn unwatch(
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

/// What a connection watched that has ended. What stays is removed by whoever posts to it, or by the TTL.
pub async fn forget_watched(store: &Store, connection: &ConnectionId, watched: &[ConversationId]) {
    for channel in watched {
        forget(store, channel, connection).await;
    }
}

async fn forget(store: &Store, channel: &ConversationId, connection: &ConnectionId) {
    if let Err(error) = watchers::remove(store, channel, connection).await {
        tracing::warn!(error = error_chain(&error), "who watches no more stays listed");
    }
}

/// Tells who looks at the channel what was written since they were told last. Part by part: each is noted once it is told, so that who
/// does it again goes on there.
pub async fn show(
    store: &Store,
    fanout: &Fanout,
    now: impl Fn() -> Timestamp,
    channel: &ConversationId,
) -> Result<Reconciled, Failure> {
    let mut done = Reconciled::default();
    let Some(head) = readable_head(store, channel, &mut done.unreadable).await? else { return Ok(done) };
    let end = head.end.seq;
    let parts = try_join_all((0..PARTS).map(|number| watchers::part(store, channel, number))).await?;
    done.unreadable = parts.iter().map(|part| part.unreadable).sum();
    let waits = |part: &&WatcherPart| !part.watchers.is_empty() && part.told_seq < end;
    let parts: Vec<&WatcherPart> = parts.iter().filter(waits).collect();
    let from = parts.iter().flat_map(|part| part.watchers.iter().map(|watcher| watcher.from_seq.max(part.told_seq)));
    let Some(from) = from.min() else { return Ok(done) };
    // Who was left behind further than that asks for the history.
    let newest = Seq::new(end.value().saturating_sub(ENTRIES_AT_ONCE_MAX as u64)).unwrap_or_default();
    let entries = entries_up_to(store, channel, from.max(newest), end).await?;
    let last = entries.last().map_or(from, Logged::seq);
    for part in parts {
        part_told(store, fanout, now(), channel, part, &entries, &mut done).await?;
        watchers::told(store, channel, part.number, last).await?;
    }
    if last < end {
        done.failed = Some(Failure::Unavailable("an entry of a channel does not show".into()));
    }
    Ok(done)
}

/// All of them, page by page, as soon as all show: of a transaction that has just been committed, the head may show before.
async fn entries_up_to(store: &Store, channel: &ConversationId, from: Seq, end: Seq) -> Result<Vec<Logged>, Failure> {
    let (mut found, mut looks) = (vec![], 0);
    loop {
        let behind = found.last().map_or(from, Logged::seq);
        if behind >= end {
            return Ok(found);
        }
        let page = entries(store, channel, behind).await?;
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

/// Posts to those of a part who are members: which is looked up after the entries were read, so whoever is one now was to see them.
async fn part_told(
    store: &Store,
    fanout: &Fanout,
    now: Timestamp,
    channel: &ConversationId,
    part: &WatcherPart,
    entries: &[Logged],
    done: &mut Reconciled,
) -> Result<(), Failure> {
    let users: BTreeSet<&UserId> = part.watchers.iter().map(|watcher| &watcher.user).collect();
    let users: Vec<UserId> = users.into_iter().cloned().collect();
    let (rows, unreadable) = channels::get_many(store, channel, &users).await?;
    done.unreadable += unreadable;
    let rows: HashMap<&UserId, &ChannelRow> = rows.iter().map(|row| (&row.user_id, row)).collect();
    let posts = part.watchers.iter().map(async |watcher| {
        let row = rows.get(&watcher.user).filter(|_| watcher.ends_at > now);
        let Some(row) = row else {
            forget(store, channel, &watcher.connection).await;
            return None;
        };
        let from = watcher.from_seq.max(part.told_seq);
        Some(post(store, fanout, channel, watcher, seen(entries, from, row, watcher)).await)
    });
    let mut posts = stream::iter(posts).buffer_unordered(POSTS_AT_ONCE_MAX);
    while let Some(delivered) = posts.next().await {
        done.delivered.extend(delivered);
    }
    Ok(())
}

/// What is new to a watcher, but for what came from their own connection. How often there is which reaction is in the history: who of
/// them is the viewer is not known here.
fn seen(entries: &[Logged], from: Seq, row: &ChannelRow, watcher: &Watcher) -> Vec<Vec<Message>> {
    let is_own = |entry: &StoredMessage| {
        entry.sender_id == watcher.user && entry.aside.origin.as_ref() == Some(&watcher.connection)
    };
    let mut runs: Vec<Vec<Message>> = vec![vec![]];
    for logged in entries.iter().filter(|logged| logged.seq() > from && logged.seq() >= row.first_seq) {
        match logged {
            Logged::Entry(entry) if !is_own(entry) => {
                let message = Message { reactions: vec![], ..entry.seen_by(&watcher.user, row.first_seq) };
                runs.last_mut().into_iter().for_each(|run| run.push(message.clone()));
            }
            Logged::Entry(_) | Logged::Unreadable(_) => runs.push(vec![]),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

async fn post(
    store: &Store,
    fanout: &Fanout,
    channel: &ConversationId,
    watcher: &Watcher,
    runs: Vec<Vec<Message>>,
) -> Delivered {
    let event = |messages| ServerEvent::MessagesNew { conversation_id: channel.clone(), messages };
    let events = runs.into_iter().flat_map(split).map(event);
    let delivered = fanout.post_to(&watcher.user, &watcher.connection, events).await;
    if delivered.frames.gone > 0 {
        forget(store, channel, &watcher.connection).await;
    }
    delivered
}
