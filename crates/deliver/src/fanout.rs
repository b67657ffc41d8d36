//! From users to their connections: a frame to each, and the end of the rows of those that are gone.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{ConnectionId, Frames, Origin, error_chain};
use futures_util::{FutureExt, StreamExt, future, stream};
use store::connections::{self, Connection, Connections, Freshness};
use store::{Store, settings};
use wire::{ConversationId, ConversationKind, DeviceId, ServerEvent, Timestamp, UserId, direct_conversation_id};

use crate::connections_api::{ConnectionsApi, Posted};

/// The time for all posts of one invocation: the sender's client must get its reply before it retries after 5 s.
pub const FAN_OUT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum of concurrent posts to one user.
const POSTS_AT_ONCE_MAX: usize = 32;
/// Number of a user's newest connections that get transient events of other users.
const TOLD_OF_OTHERS_MAX: usize = 4;
/// Users whose connections a process remembers, a few hundred bytes each. One more user clears them all.
pub const USERS_REMEMBERED_MAX: usize = 1_000;
/// Maximum of excess connections of a user that one listing closes.
const TIDIED_MAX: usize = 4;
/// A post to a socket that is opening returns 410, as for a dead one, so a row younger than this is kept.
const CONNECTION_YOUNG: Duration = Duration::from_secs(10);

/// An event for all live connections of a user.
#[derive(Debug)]
pub struct Delivery<'a> {
    pub user: &'a UserId,
    pub event: ServerEvent,
    /// Where the request came from, which gets the reply. The user's other devices get a copy. A device that has
    /// connected at the last instant, and is missed, reads the change from the chat list, as any new device does.
    pub except: Option<&'a Origin>,
}

impl Delivery<'_> {
    /// How many connections get it, the newest. A mark of the user's own is for all of them, since it clears their badges.
    fn connections_max(&self) -> usize {
        match &self.event {
            ServerEvent::ReceiptDelivered(receipt) | ServerEvent::ReceiptRead(receipt)
                if receipt.user_id != *self.user =>
            {
                TOLD_OF_OTHERS_MAX
            }
            ServerEvent::Typing { .. } => TOLD_OF_OTHERS_MAX,
            _ => usize::MAX,
        }
    }
}

/// The outcome of the frames to one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    pub user: UserId,
    pub frames: Frames,
}

/// A closed connection, and its subscriptions to channels. The caller that closes it must remove those, if its
/// permissions allow that.
#[derive(Debug)]
pub struct Closed {
    pub connection: ConnectionId,
    pub watched: Vec<ConversationId>,
}

/// Finds the connections of users, and posts to them; made once per process. The fanout remembers connections that
/// accepted a frame, and posts the next frame to them immediately, while it reads the list.
#[derive(Debug)]
pub struct Fanout {
    store: Store,
    connections: ConnectionsApi,
    remembered: Mutex<HashMap<UserId, Vec<Connection>>>,
}

impl Fanout {
    pub fn new(store: Store, connections: ConnectionsApi) -> Self {
        Self { store, connections, remembered: Mutex::default() }
    }

    /// Returns the API that posts go to.
    pub fn connections(&self) -> &ConnectionsApi {
        &self.connections
    }

    /// Opens the connection to API Gateway before the first event needs it.
    pub async fn warm_up(&self) {
        self.connections.warm_up().await;
    }

    /// Posts each delivery to its user's connections, for at most [`FAN_OUT_TIMEOUT`] in all.
    pub async fn deliver(&self, now: Timestamp, deliveries: &[Delivery<'_>]) -> Vec<Delivered> {
        let mut outcomes: Vec<Delivered> =
            deliveries.iter().map(|delivery| Delivered::nothing(delivery.user)).collect();
        let begun: Vec<AtomicU64> = deliveries.iter().map(|_| AtomicU64::new(0)).collect();
        let each = deliveries.iter().zip(&mut outcomes).zip(&begun);
        let each = each.map(|((delivery, outcome), begun)| self.post_to_all(now, delivery, outcome, begun));
        if tokio::time::timeout(FAN_OUT_TIMEOUT, future::join_all(each)).await.is_err() {
            tracing::warn!("posts to connections timed out");
            for (outcome, begun) in outcomes.iter_mut().zip(begun) {
                let Frames { posted, gone, failed, paced } = outcome.frames;
                outcome.frames.failed += begun.into_inner().saturating_sub(posted + gone + failed + paced);
            }
        }
        outcomes
    }

    /// Posts an event to the connections of one of the user's devices, for at most [`FAN_OUT_TIMEOUT`] in all.
    pub async fn deliver_to_device(
        &self,
        now: Timestamp,
        user: &UserId,
        device: &DeviceId,
        event: &ServerEvent,
    ) -> Delivered {
        let mut outcome = Delivered::nothing(user);
        let Some(listed) = self.listed(now, user, &mut outcome).await else { return outcome };
        let frame = event.to_frame();
        let posts = listed.reachable_of(device).into_iter().map(Known::Listed);
        let posts = future::join_all(posts.map(|known| self.post(now, user, &frame, known)));
        if let Ok(posted) = tokio::time::timeout(FAN_OUT_TIMEOUT, posts).await {
            for posted in &posted {
                outcome.count(posted);
            }
        } else {
            tracing::warn!("posts to connections timed out");
            outcome.frames.failed += 1;
        }
        outcome
    }

    /// Lists a user's connections. A list that can't be read is a post that failed.
    async fn listed(&self, now: Timestamp, user: &UserId, outcome: &mut Delivered) -> Option<Connections> {
        let listed = connections::list(&self.store, user, now, Freshness::Strong).await;
        let listed = listed.inspect_err(|error| {
            tracing::error!(error = error_chain(error), "a user's connections were not read; no frame was posted");
            outcome.frames.failed += 1;
        });
        listed.ok()
    }

    /// Posts several events, in their order, to each of the user's connections, for at most [`FAN_OUT_TIMEOUT`] in all.
    /// Each event names the connection that gets none of it. Without connections, no event is built.
    pub async fn deliver_series<'a>(
        &self,
        now: Timestamp,
        user: &UserId,
        events: impl Future<Output = Vec<(Option<&'a Origin>, ServerEvent)>>,
    ) -> Delivered {
        let mut outcome = Delivered::nothing(user);
        let Some(listed) = self.listed(now, user, &mut outcome).await else { return outcome };
        let reachable = listed.reachable();
        if !reachable.is_empty() {
            let frames: Vec<_> = events.await.into_iter().map(|(except, event)| (except, event.to_frame())).collect();
            let outcome = Mutex::new(&mut outcome);
            let posts = reachable.into_iter().map(async |connection| {
                for (_, frame) in frames.iter().filter(|(except, _)| !connection.is(*except)) {
                    let posted = self.post(now, user, frame, Known::Listed(connection.connection.clone())).await;
                    outcome.lock().unwrap_or_else(PoisonError::into_inner).count(&posted);
                    if matches!(posted, Posted::Gone) {
                        break;
                    }
                }
            });
            if tokio::time::timeout(FAN_OUT_TIMEOUT, future::join_all(posts)).await.is_err() {
                tracing::warn!("posts to connections timed out");
                outcome.lock().unwrap_or_else(PoisonError::into_inner).frames.failed += 1;
            }
        }
        self.tidy(now, user, &listed).await;
        outcome
    }

    /// Posts to the remembered connections first, only to save time. Then lists the user's connections in any case. The
    /// list is read after the commit, so it has a device that connected, and drained, before the message was committed.
    /// `begun` counts the frames that must come to some end; an unreadable list counts as one that failed.
    async fn post_to_all(&self, now: Timestamp, delivery: &Delivery<'_>, outcome: &mut Delivered, begun: &AtomicU64) {
        let frame = &delivery.event.to_frame();
        // Beyond a block nothing goes out before it is known. The list has the device of each connection.
        let waits = of_other_member(delivery).is_some() || matches!(delivery.except, Some(Origin::Device(_)));
        let known = if waits { vec![] } else { self.known(delivery, now) };
        let listed = Mutex::default();
        // Until the post ends, the frame may reach no device.
        begun.fetch_add(1, Ordering::Relaxed);
        let others = self.others(now, delivery, &known, &listed).inspect(|_| {
            begun.fetch_sub(1, Ordering::Relaxed);
        });
        let others = stream::once(others).flat_map(stream::iter);
        let posts = stream::iter(known.iter().cloned().map(Known::Remembered).map(Ok)).chain(others).map(|known| {
            begun.fetch_add(1, Ordering::Relaxed);
            async {
                match known {
                    Ok(known) => self.post(now, delivery.user, frame, known).await,
                    Err(error) => Posted::Failed(error.into()),
                }
            }
        });
        let mut posted = pin!(posts.buffer_unordered(POSTS_AT_ONCE_MAX));
        while let Some(posted) = posted.next().await {
            outcome.count(&posted);
        }
        // Online users get their frame first.
        let listed = listed.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listed) = listed {
            self.tidy(now, delivery.user, &listed).await;
        }
    }

    /// Where frames arrived before, and nothing is known since. Newest first.
    fn known(&self, delivery: &Delivery<'_>, now: Timestamp) -> Vec<Connection> {
        let is_origin =
            |connection: &Connection| matches!(delivery.except, Some(Origin::Connection(id)) if *id == connection.id);
        let open = |connection: &&Connection| connection.ends_at > now && !is_origin(connection);
        let mut known: Vec<Connection> =
            self.remembered().get(delivery.user).into_iter().flatten().filter(open).cloned().collect();
        known.sort_by_key(|connection| Reverse(connection.connected_at));
        known.truncate(delivery.connections_max());
        known
    }

    /// Returns the user's connections that are not in `known`. Puts the list of all connections into `found`.
    async fn others(
        &self,
        now: Timestamp,
        delivery: &Delivery<'_>,
        known: &[Connection],
        found: &Mutex<Option<Connections>>,
    ) -> Vec<Result<Known, store::Error>> {
        let freshness = if delivery.except.is_some() { Freshness::Eventual } else { Freshness::Strong };
        let listed = match connections::list(&self.store, delivery.user, now, freshness).await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::error!(error = error_chain(&error), "a user's connections were not read; no frame was posted");
                return vec![Err(error)];
            }
        };
        let reachable = listed.reachable();
        if let Entry::Occupied(mut remembered) = self.remembered().entry(delivery.user.clone()) {
            remembered.get_mut().retain(|known| reachable.iter().any(|open| open.connection == *known));
        }
        let wanted = reachable.into_iter().filter(|open| !open.is(delivery.except));
        let mut connections: Vec<Connection> = wanted.map(|open| open.connection.clone()).collect();
        let has_blocks = listed.has_blocks;
        *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(listed);
        connections.truncate(delivery.connections_max());
        connections.retain(|connection| !known.contains(connection));
        if let Some(other) = of_other_member(delivery).filter(|_| has_blocks && !connections.is_empty()) {
            let conversation = direct_conversation_id(delivery.user, other);
            match settings::relation(&self.store, delivery.user, &conversation).await {
                Ok(relation) if relation.is_blocked() => return vec![],
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(error = error_chain(&error), "a block setting was not read; no frame was posted");
                    return vec![Err(error)];
                }
            }
        }
        connections.into_iter().map(Known::Listed).map(Ok).collect()
    }

    /// Posts to one connection of a user's, until it turns out to be gone. Nothing is known of its row here.
    pub async fn post_to(
        &self,
        user: &UserId,
        connection: &ConnectionId,
        events: impl Iterator<Item = ServerEvent>,
    ) -> Delivered {
        let mut outcome = Delivered::nothing(user);
        for event in events {
            let posted = self.connections.post(connection, &event.to_frame()).await;
            outcome.count(&posted);
            if let Posted::Failed(error) = &posted {
                tracing::warn!(error = error_chain(&**error), "post to a connection failed");
            }
            if outcome.frames.gone > 0 {
                break;
            }
        }
        outcome
    }

    /// Closes expired connections, and the oldest above a user's maximum; each of these gets an event with the reason.
    /// Every listing does so, because two connections that open concurrently can't close each other. A listing closes a
    /// few, just above the maximum: of hundreds that open together, each lists most of the others.
    pub async fn tidy(&self, now: Timestamp, user: &UserId, listed: &Connections) -> Vec<Closed> {
        let mut closed = self.close_all(now, user, few(&listed.ended)).await;
        let oldest = listed.over_limit();
        let oldest = few(&oldest);
        let frame = &ServerEvent::ConnectionReplaced {}.to_frame();
        let posts = oldest.iter().map(|connection| self.connections.post(&connection.id, frame));
        future::join_all(posts).await;
        closed.extend(self.close_all(now, user, oldest).await);
        closed
    }

    /// Closes connections, removes their rows, and returns those that are gone now. Failures are left to the next
    /// listing, and to the TTL. So is a connection that is still opening, whose socket would open without a row.
    pub async fn close_all(&self, now: Timestamp, user: &UserId, connections: &[Connection]) -> Vec<Closed> {
        let close = async |connection: &Connection| {
            self.forget(user, connection);
            match self.connections.close(&connection.id).await {
                Ok(false) if now.since(connection.connected_at) < CONNECTION_YOUNG => None,
                Ok(_) => {
                    let watched = self.forget_row(user, connection).await;
                    Some(Closed { connection: connection.id.clone(), watched })
                }
                Err(error) => {
                    tracing::warn!(error = error_chain(&*error), "a connection was not closed");
                    None
                }
            }
        };
        future::join_all(connections.iter().map(close)).await.into_iter().flatten().collect()
    }

    /// The channels that it watched.
    async fn forget_row(&self, user: &UserId, connection: &Connection) -> Vec<ConversationId> {
        connections::forget(&self.store, user, &connection.id).await.unwrap_or_else(|error| {
            tracing::warn!(
                error = error_chain(&error),
                "the row of a closed connection was not removed; its TTL will remove it"
            );
            vec![]
        })
    }

    async fn post(&self, now: Timestamp, user: &UserId, frame: &str, known: Known) -> Posted {
        let connection = known.connection();
        let posted = self.connections.post(&connection.id, frame).await;
        match &posted {
            // A remembered connection stays remembered, unless its row is gone meanwhile: then it must not come back.
            Posted::Accepted => {
                if let Known::Listed(connection) = known {
                    self.remember(user, connection);
                }
            }
            // Still being set up, perhaps: its first drain fetches what it misses now.
            Posted::Gone if now.since(connection.connected_at) < CONNECTION_YOUNG => {}
            Posted::Gone => {
                self.forget(user, connection);
                self.forget_row(user, connection).await;
            }
            Posted::Failed(error) => {
                tracing::warn!(error = error_chain(&**error), "post to a connection failed");
            }
            // The event's line has how many there were.
            Posted::Paced => {}
        }
        posted
    }

    /// Notes that a frame arrived there.
    pub fn remember(&self, user: &UserId, connection: Connection) {
        let mut remembered = self.remembered();
        if remembered.len() >= USERS_REMEMBERED_MAX && !remembered.contains_key(user) {
            remembered.clear();
        }
        let connections = remembered.entry(user.clone()).or_default();
        if !connections.contains(&connection) {
            connections.push(connection);
        }
    }

    fn forget(&self, user: &UserId, connection: &Connection) {
        if let Some(connections) = self.remembered().get_mut(user) {
            connections.retain(|known| known != connection);
        }
    }

    /// Never held across an await. After a panic the map is still a list of connections.
    fn remembered(&self) -> MutexGuard<'_, HashMap<UserId, Vec<Connection>>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the group member who caused the event, for events that a block between the two users suppresses: receipts
/// and `typing`. In a direct conversation, the inbox row decides.
fn of_other_member<'a>(delivery: &'a Delivery) -> Option<&'a UserId> {
    let (conversation, other) = match &delivery.event {
        ServerEvent::ReceiptDelivered(receipt) | ServerEvent::ReceiptRead(receipt) => {
            (&receipt.conversation_id, &receipt.user_id)
        }
        ServerEvent::Typing { conversation_id, user_id, .. } => (conversation_id, user_id),
        ServerEvent::MessagesNew { .. }
        | ServerEvent::Presence(_)
        | ServerEvent::Settings(_)
        | ServerEvent::Profile(_)
        | ServerEvent::KeysLow { .. }
        | ServerEvent::ConnectionReplaced {} => return None,
    };
    match conversation.kind() {
        ConversationKind::Group => (other != delivery.user).then_some(other),
        ConversationKind::Direct | ConversationKind::Channel => None,
    }
}

fn few(connections: &[Connection]) -> &[Connection] {
    connections.get(..TIDIED_MAX).unwrap_or(connections)
}

/// A connection, and how it is known.
enum Known {
    Remembered(Connection),
    Listed(Connection),
}

impl Known {
    fn connection(&self) -> &Connection {
        match self {
            Self::Remembered(connection) | Self::Listed(connection) => connection,
        }
    }
}

impl Delivered {
    /// One frame that was not posted.
    pub fn failed(user: &UserId) -> Self {
        Self { user: user.clone(), frames: Frames { failed: 1, ..Frames::default() } }
    }

    /// No frame.
    pub fn nothing(user: &UserId) -> Self {
        Self { user: user.clone(), frames: Frames::default() }
    }

    fn count(&mut self, posted: &Posted) {
        match posted {
            Posted::Accepted => self.frames.posted += 1,
            Posted::Gone => self.frames.gone += 1,
            Posted::Failed(_) => self.frames.failed += 1,
            Posted::Paced => self.frames.paced += 1,
        }
    }
}
