//! From users to their phones: who is connected, a frame to each, and the end of the rows of those who are gone.
//!
//! Always after the commit, and never able to fail the request: what does not arrive here is pending, and is drained.

use domain::limits::{CONNECTION_YOUNG, FAN_OUT_TIMEOUT, POSTS_AT_ONCE_MAX};
use domain::{ConnectionId, Timestamp, UserId};
use futures_util::{StreamExt, future, stream};
use push::{Posted, Socket};
use store::Store;
use store::connections::{self, Connection};

/// A frame for all live connections of a user.
#[derive(Debug)]
pub struct Delivery<'a> {
    pub user: &'a UserId,
    pub frame: String,
    /// The connection that the request came from, which has its answer.
    pub except: Option<&'a ConnectionId>,
}

/// What became of a delivery's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub posted: u32,
    pub gone: u32,
    pub failed: u32,
}

/// Posts each delivery to its user's connections, all at once within [`POSTS_AT_ONCE_MAX`], for at most
/// [`FAN_OUT_TIMEOUT`] in all. Answers with a tally for each delivery, and puts their sum into the line that says what came
/// of the event.
pub async fn deliver(store: &Store, socket: &Socket, now: Timestamp, deliveries: &[Delivery<'_>]) -> Vec<Tally> {
    let mut tallies = vec![Tally::default(); deliveries.len()];
    let all = async {
        let found = future::join_all(deliveries.iter().map(|delivery| reachable(store, now, delivery))).await;
        let pairs = deliveries.iter().enumerate().zip(found);
        let posts = pairs.flat_map(|(delivery, connections)| connections.into_iter().map(move |to| (delivery, to)));
        let mut posted = stream::iter(posts)
            .map(|((nth, delivery), to)| async move { (nth, post(store, socket, now, delivery, to).await) })
            .buffer_unordered(POSTS_AT_ONCE_MAX);
        while let Some((nth, posted)) = posted.next().await {
            tallies.get_mut(nth).into_iter().for_each(|tally| tally.count(&posted));
        }
    };
    if tokio::time::timeout(FAN_OUT_TIMEOUT, all).await.is_err() {
        tracing::warn!("not all frames went out in time; they are pending");
    }
    let sum = |count: fn(&Tally) -> u32| tallies.iter().map(count).sum::<u32>();
    tracing::Span::current()
        .record("posted", sum(|tally| tally.posted))
        .record("gone", sum(|tally| tally.gone))
        .record("failed", sum(|tally| tally.failed));
    tallies
}

async fn reachable(store: &Store, now: Timestamp, delivery: &Delivery<'_>) -> Vec<Connection> {
    match connections::list(store, delivery.user, now).await {
        Ok(connections) => {
            connections.into_iter().filter(|connection| Some(&connection.id) != delivery.except).collect()
        }
        Err(error) => {
            tracing::error!(%error, "connections are unknown; the frame is pending");
            Vec::new()
        }
    }
}

async fn post(
    store: &Store,
    socket: &Socket,
    now: Timestamp,
    delivery: &Delivery<'_>,
    connection: Connection,
) -> Posted {
    let posted = socket.post(&connection.id, &delivery.frame).await;
    match &posted {
        Posted::Accepted => {}
        // Still being set up, perhaps: its first drain fetches what it misses now.
        Posted::Gone if now.since(connection.connected_at) < CONNECTION_YOUNG => {}
        Posted::Gone => {
            if let Err(error) = connections::forget(store, delivery.user, &connection.id).await {
                tracing::warn!(%error, "a connection that is gone keeps its row until its TTL");
            }
        }
        Posted::Failed { cause } => tracing::warn!(cause, "a frame was not posted; it is pending"),
    }
    posted
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
