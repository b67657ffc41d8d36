//! From users to their connections: a frame to each, and the end of the rows of those that are gone.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{ConnectionId, Frames, error_chain};
use futures_util::{FutureExt, StreamExt, future, stream};
use lambda::{ConnectionsApi, Posted};
use store::Store;
use store::connections::{self, Connection, Connections, Freshness};
use wire::{ConversationId, ServerEvent, Timestamp, UserId};

/// All posts of one invocation: the sender, who retries after 5 s, must get its answer before that.
pub const FAN_OUT_TIMEOUT: Duration = Duration::from_secs(3);
/// Posts under way at once to one user.
const POSTS_AT_ONCE_MAX: usize = 32;
/// Users whose connections a process remembers; with one more it begins anew. A few hundred bytes each.
pub const USERS_REMEMBERED_MAX: usize = 1_000;
/// Of the connections that a user must not have, so many are closed by one who lists them.
const TIDIED_MAX: usize = 4;
/// A post to a socket that is still being set up answers 410 as a dead one does, so a row younger than this is kept.
const CONNECTION_YOUNG: Duration = Duration::from_secs(10);

/// An event for all live connections of a user.
#[derive(Debug)]
pub struct Delivery<'a> {
    pub user: &'a UserId,
    pub event: ServerEvent,
    /// The connection that the request came from, which has its answer. What the user's other devices get is a copy: one that
    /// connected in the last instant, and is missed, reads what it lacks from the chat list, as any new device does.
    pub except: Option<&'a ConnectionId>,
}

/// What became of the frames to one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    pub user: UserId,
    pub frames: Frames,
}

/// A connection that was closed, and the channels that it watched. Who closes it there has to forget that, as far as it may.
#[derive(Debug)]
pub struct Closed {
    pub connection: ConnectionId,
    pub watched: Vec<ConversationId>,
}

/// The way from users to their connections, made once per process. It remembers which connections took a frame: the next one
/// goes out at once, while the connections are read.
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
            tracing::warn!("not all frames went out in time; they are pending");
            for (outcome, begun) in outcomes.iter_mut().zip(begun) {
                let Frames { posted, gone, failed } = outcome.frames;
                outcome.frames.failed += begun.into_inner().saturating_sub(posted + gone + failed);
            }
        }
        outcomes
    }

    /// What is remembered is a head start and no more. The connections are read in any case, and only now, after the commit:
    /// somebody who connected meanwhile, and drained too early, is found there. `begun` counts the frames that must come to some
    /// end; that the connections can't be read counts as one that failed.
    async fn post_to_all(&self, now: Timestamp, delivery: &Delivery<'_>, outcome: &mut Delivered, begun: &AtomicU64) {
        let frame = &delivery.event.to_frame();
        let known = self.known(delivery.user, now);
        let listed = Mutex::default();
        // Until it is done, it may be a frame that nobody gets.
        begun.fetch_add(1, Ordering::Relaxed);
        let others = self.others(now, delivery, &known, &listed).inspect(|_| {
            begun.fetch_sub(1, Ordering::Relaxed);
        });
        let others = stream::once(others).flat_map(stream::iter);
        let is_wanted = |known: &Known| Some(&known.connection().id) != delivery.except;
        let posts = stream::iter(known.iter().cloned().map(Known::Remembered).map(Ok))
            .chain(others)
            .filter(|known| future::ready(known.as_ref().is_ok_and(is_wanted) || known.is_err()))
            .map(|known| {
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
        // Whoever is there has their frame first.
        let listed = listed.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listed) = listed {
            self.tidy(now, delivery.user, &listed).await;
        }
    }

    /// Where frames arrived before, and nothing is known since.
    fn known(&self, user: &UserId, now: Timestamp) -> Vec<Connection> {
        let open = |connection: &&Connection| connection.ends_at > now;
        self.remembered().get(user).into_iter().flatten().filter(open).cloned().collect()
    }

    /// All of the user's connections that are not known; and, in `found`, what the list of them says.
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
                tracing::error!(error = error_chain(&error), "connections are unknown; the frame is pending");
                return vec![Err(error)];
            }
        };
        let mut connections = listed.reachable();
        *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(listed);
        if let Entry::Occupied(mut remembered) = self.remembered().entry(delivery.user.clone()) {
            remembered.get_mut().retain(|connection| connections.contains(connection));
        }
        connections.retain(|connection| !known.contains(connection));
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
                tracing::warn!(error = error_chain(&**error), "a frame was not posted");
            }
            if outcome.frames.gone > 0 {
                break;
            }
        }
        outcome
    }

    /// Closes those that have ended, and the oldest of more than a user may have, each of which is told why. Whoever lists connections
    /// does so: of two that open at once, the one could not close the other. A few of them, those just beyond what is allowed: of hundreds
    /// that open at once, each lists most of the others.
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

    /// Closes connections, removes their rows, and says which of them are gone now. What fails is left to the next one, and to the
    /// TTL; so is one that is still being set up, whose socket would open and could not be found.
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
            tracing::warn!(error = error_chain(&error), "a connection that is gone keeps its row until its TTL");
            vec![]
        })
    }

    async fn post(&self, now: Timestamp, user: &UserId, frame: &str, known: Known) -> Posted {
        let connection = known.connection();
        let posted = self.connections.post(&connection.id, frame).await;
        match &posted {
            // One that was remembered still is, unless its row is gone meanwhile: then it must not come back.
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
                tracing::warn!(error = error_chain(&**error), "a frame was not posted; it is pending");
            }
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

    /// Never held across an await. What somebody who panicked left behind is still a list of connections.
    fn remembered(&self) -> MutexGuard<'_, HashMap<UserId, Vec<Connection>>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn nothing(user: &UserId) -> Self {
        Self { user: user.clone(), frames: Frames::default() }
    }

    fn count(&mut self, posted: &Posted) {
        match posted {
            Posted::Accepted => self.frames.posted += 1,
            Posted::Gone => self.frames.gone += 1,
            Posted::Failed(_) => self.frames.failed += 1,
        }
    }
}
