//! The sockets that are open: what `@connections` can reach.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use time::OffsetDateTime;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::events::Origin;
use crate::lock;

/// Frames that wait for a slow client before posts to it are refused.
const QUEUE_FRAMES_MAX: usize = 256;

pub(super) struct Connection {
    pub(super) origin: Origin,
    opened: Instant,
    last_active: Mutex<Instant>,
    pub(super) turns: Semaphore,
    frame_tx: mpsc::Sender<Utf8Bytes>,
    close_tx: mpsc::Sender<CloseFrame>,
}

/// The other ends of a connection's channels, for its socket.
pub(super) struct Receivers {
    /// Text frames for the client.
    pub(super) frame_rx: mpsc::Receiver<Utf8Bytes>,
    /// The frame to close the socket with.
    pub(super) close_rx: mpsc::Receiver<CloseFrame>,
}

/// The client does not take its frames as fast as they come.
pub(super) struct QueueFull;

impl Connection {
    /// `running_max` requests of the socket run concurrently; the others wait.
    pub(super) fn new(origin: Origin, running_max: usize) -> (Arc<Self>, Receivers) {
        let (frame_tx, frame_rx) = mpsc::channel(QUEUE_FRAMES_MAX);
        let (close_tx, close_rx) = mpsc::channel(1);
        let now = Instant::now();
        let (last_active, turns) = (Mutex::new(now), Semaphore::new(running_max));
        let connection = Self { origin, opened: now, last_active, turns, frame_tx, close_tx };
        (Arc::new(connection), Receivers { frame_rx, close_rx })
    }

    /// Queues a text frame. For a socket that has just closed it is lost, as it would be a moment later on its way.
    pub(super) fn send(&self, text: impl Into<Utf8Bytes>) -> Result<(), QueueFull> {
        match self.frame_tx.try_send(text.into()) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(QueueFull),
        }
    }

    /// Asks the socket to close. The first to ask gives the reason.
    pub(super) fn close(&self, frame: CloseFrame) {
        let _ = self.close_tx.try_send(frame);
    }

    /// Notes that data passed.
    pub(super) fn touch(&self) {
        *lock(&self.last_active) = Instant::now();
    }

    /// Waits until no data has passed for `idle_max`.
    pub(super) async fn idle(&self, idle_max: Duration) {
        loop {
            let deadline = *lock(&self.last_active) + idle_max;
            if Instant::now() >= deadline {
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }

    pub(super) fn last_active_at(&self) -> OffsetDateTime {
        self.origin.connected_at + lock(&self.last_active).duration_since(self.opened)
    }
}

/// By connection id.
#[derive(Default)]
pub(crate) struct Connections(Mutex<HashMap<String, Arc<Connection>>>);

impl Connections {
    pub(super) fn add(&self, connection: &Arc<Connection>) {
        lock(&self.0).insert(connection.origin.connection_id.clone(), Arc::clone(connection));
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Connection>> {
        lock(&self.0).get(id).cloned()
    }

    pub(super) fn of_user(&self, user: &str) -> Vec<Origin> {
        let connections = lock(&self.0);
        let of_user = connections.values().filter(|connection| connection.origin.said("principalId") == Some(user));
        of_user.map(|connection| connection.origin.clone()).collect()
    }

    pub(super) fn remove(&self, id: &str) {
        lock(&self.0).remove(id);
    }
}
