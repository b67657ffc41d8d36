//! From users to their phones: who is connected, a frame to each, and the end of the rows of those who are gone.
//!
//! Always after the commit, and never able to fail the request: what does not arrive here is pending, and is drained.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::limits::{CONNECTION_TTL, CONNECTION_YOUNG, FAN_OUT_TIMEOUT, POSTS_AT_ONCE_MAX, USERS_REMEMBERED_MAX};
use domain::{ConnectionId, Timestamp, UserId};
use futures_util::{StreamExt, future, stream};
use push::{Posted, Socket};
use store::Store;
use store::connections::{self, Connection, Freshness};

/// A frame for all live connections of a user.
#[derive(Debug)]
pub struct Delivery<'a> {
    pub user: &'a UserId,
    pub frame: String,
    /// The connection that the request came from, which has its answer. What the user's other devices get is a copy: one that
    /// connected in the last instant, and is missed, reads what it lacks from the chat list, as any new device does.
    pub except: Option<&'a ConnectionId>,
}

/// What became of a delivery's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub posted: u32,
    pub gone: u32,
    pub failed: u32,
}

/// The way from users to their phones, made once per process. It remembers which connections took a frame: the next one goes
/// out at once, while the connections are read.
#[derive(Debug)]
pub struct Phones {
    store: Store,
    socket: Socket,
    remembered: Mutex<HashMap<UserId, Vec<Connection>>>,
}

impl Phones {
    pub fn new(store: Store, socket: Socket) -> Self {
        Self { store, socket, remembered: Mutex::default() }
    }

    /// Opens the connection to API Gateway before the first event needs it.
    pub async fn warm_up(&self) {
        self.socket.warm_up().await;
    }

    /// Posts each delivery to its user's connections, for at most [`FAN_OUT_TIMEOUT`] in all. Answers with a tally for each
    /// delivery, and puts their sum into the line that says what came of the event.
    pub async fn deliver(&self, now: Timestamp, deliveries: &[Delivery<'_>]) -> Vec<Tally> {
        let mut tallies = vec![Tally::default(); deliveries.len()];
        let each = deliveries.iter().zip(&mut tallies).map(|(delivery, tally)| self.post_to_all(now, delivery, tally));
        if tokio::time::timeout(FAN_OUT_TIMEOUT, future::join_all(each)).await.is_err() {
            tracing::warn!("not all frames went out in time; they are pending");
        }
        let sum = |count: fn(&Tally) -> u32| tallies.iter().map(count).sum::<u32>();
        tracing::Span::current()
            .record("posted", sum(|tally| tally.posted))
            .record("gone", sum(|tally| tally.gone))
            .record("failed", sum(|tally| tally.failed));
        tallies
    }

    /// What is remembered is a head start and no more. The connections are read in any case, and only now, after the commit:
    /// somebody who connected meanwhile, and drained too early, is found there.
    async fn post_to_all(&self, now: Timestamp, delivery: &Delivery<'_>, tally: &mut Tally) {
        let known = self.known(delivery.user, now);
        let others = stream::once(self.others(now, delivery, &known)).flat_map(stream::iter);
        let posts = stream::iter(known.iter().cloned())
            .chain(others)
            .filter(|connection| future::ready(Some(&connection.id) != delivery.except))
            .map(|connection| self.post(now, delivery, connection));
        let mut posted = pin!(posts.buffer_unordered(POSTS_AT_ONCE_MAX));
        while let Some(posted) = posted.next().await {
            tally.count(&posted);
        }
    }

    /// Where frames arrived before, and nothing is known since.
    fn known(&self, user: &UserId, now: Timestamp) -> Vec<Connection> {
        let open = |connection: &&Connection| now.since(connection.connected_at) < CONNECTION_TTL;
        self.remembered().get(user).into_iter().flatten().filter(open).cloned().collect()
    }

    /// All of the user's connections that are not known.
    async fn others(&self, now: Timestamp, delivery: &Delivery<'_>, known: &[Connection]) -> Vec<Connection> {
        let freshness = if delivery.except.is_some() { Freshness::Eventual } else { Freshness::Strong };
        let mut connections = match connections::list(&self.store, delivery.user, now, freshness).await {
            Ok(connections) => connections,
            Err(error) => {
                tracing::error!(%error, "connections are unknown; the frame is pending");
                return Vec::new();
            }
        };
        if let Entry::Occupied(mut remembered) = self.remembered().entry(delivery.user.clone()) {
            remembered.get_mut().retain(|connection| connections.contains(connection));
        }
        connections.retain(|connection| !known.contains(connection));
        connections
    }

    async fn post(&self, now: Timestamp, delivery: &Delivery<'_>, connection: Connection) -> Posted {
        let posted = self.socket.post(&connection.id, &delivery.frame).await;
        match &posted {
            Posted::Accepted => self.remember(delivery.user, connection),
            // Still being set up, perhaps: its first drain fetches what it misses now.
            Posted::Gone if now.since(connection.connected_at) < CONNECTION_YOUNG => {}
            Posted::Gone => {
                self.forget(delivery.user, &connection);
                if let Err(error) = connections::forget(&self.store, delivery.user, &connection.id).await {
                    tracing::warn!(%error, "a connection that is gone keeps its row until its TTL");
                }
            }
            Posted::Failed { cause } => tracing::warn!(cause, "a frame was not posted; it is pending"),
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

impl Tally {
    fn count(&mut self, posted: &Posted) {
        match posted {
            Posted::Accepted => self.posted += 1,
            Posted::Gone => self.gone += 1,
            Posted::Failed { .. } => self.failed += 1,
        }
    }
}
