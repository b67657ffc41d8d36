//! The connections that get the changes of a user's presence.

use std::time::Duration;

use wire::limits::PRESENCE_WATCH_MS;
use wire::{Timestamp, UserId};

use crate::ids::ConnectionId;

/// Connections that watch a user. The row is in the partition that each message to that user reads.
const OBSERVERS_MAX: usize = 8;
/// The limit for one user, whose newest connections stay. A phone that reconnects leaves dead ones, and one user must
/// not fill the row.
const OBSERVERS_OF_ONE_USER_MAX: usize = 3;
/// With the rest of the row at most 1 KiB, which is one write unit.
const OBSERVERS_BYTES_MAX: usize = 800;
/// A watch that has this much time left is not written again.
const RENEWED_BEFORE: Duration = Duration::from_millis(PRESENCE_WATCH_MS / 2);

/// A connection, and the time at which its watch ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observer {
    pub user: UserId,
    pub connection: ConnectionId,
    pub until: Timestamp,
}

/// The connections that watch a user, as the user's row has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observers(Vec<Observer>);

/// The outcome of a new watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noted {
    /// The row has it already, for long enough.
    Already,
    Room(Observers),
    Full,
}

impl Observers {
    /// Reads the row's text: a line per connection. Skips a line of a later version.
    pub fn parse(text: &str) -> Self {
        let observer = |line: &str| {
            let mut parts = line.split(' ');
            let (user, connection, until) = (parts.next()?, parts.next()?, parts.next()?);
            let until = Timestamp::from_millis(until.parse().ok()?);
            Some(Observer { user: UserId::parse(user).ok()?, connection: ConnectionId::new(connection), until })
        };
        Self(text.lines().filter_map(observer).collect())
    }

    /// Returns the text for the row.
    pub fn text(&self) -> String {
        let line = |Observer { user, connection, until }: &Observer| {
            format!("{} {} {}", user.as_str(), connection.as_str(), until.millis())
        };
        self.0.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Adds a connection for [`PRESENCE_WATCH_MS`], or until it ends. Drops those whose time is over.
    pub fn note(&self, user: &UserId, connection: &ConnectionId, ends_at: Timestamp, now: Timestamp) -> Noted {
        let until = now.plus(Duration::from_millis(PRESENCE_WATCH_MS)).min(ends_at);
        let is_same = |of: &&Observer| of.connection == *connection;
        if self.0.iter().filter(is_same).any(|of| of.until >= until.min(now.plus(RENEWED_BEFORE))) {
            return Noted::Already;
        }
        let (mut own, mut observers): (Vec<_>, Vec<_>) =
            self.live(now).filter(|of| !is_same(of)).cloned().partition(|of| of.user == *user);
        // The row has them in the order in which they came.
        own.drain(..own.len().saturating_sub(OBSERVERS_OF_ONE_USER_MAX - 1));
        observers.extend(own);
        observers.push(Observer { user: user.clone(), connection: connection.clone(), until });
        let (is_many, observers) = (observers.len() > OBSERVERS_MAX, Self(observers));
        if is_many || observers.text().len() > OBSERVERS_BYTES_MAX { Noted::Full } else { Noted::Room(observers) }
    }

    /// Returns the connections whose time is not over.
    pub fn live(&self, now: Timestamp) -> impl Iterator<Item = &Observer> {
        self.0.iter().filter(move |observer| observer.until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(observers: &Observers, number: usize, now: i64) -> Noted {
        let user = UserId::parse(&format!("u{number}")).unwrap();
        let connection = ConnectionId::new(format!("c{number}="));
        observers.note(&user, &connection, Timestamp::from_millis(100_000_000), Timestamp::from_millis(now))
    }

    fn room(noted: Noted) -> Observers {
        let Noted::Room(observers) = noted else { panic!("{noted:?}") };
        // As it is stored.
        Observers::parse(&observers.text())
    }

    #[test]
    fn eight_connections_watch_a_user_for_ten_minutes() {
        let mut observers = Observers::default();
        for number in 0..8 {
            observers = room(note(&observers, number, 0));
        }
        assert_eq!(note(&observers, 8, 0), Noted::Full);
        assert_eq!(note(&observers, 0, 299_999), Noted::Already, "a flood of requests writes nothing");
        let renewed = room(note(&observers, 0, 300_001));
        let live = |observers: &Observers, at| observers.live(Timestamp::from_millis(at)).count();
        assert_eq!((live(&renewed, 599_999), live(&renewed, 600_000)), (8, 1));
        assert_eq!(room(note(&renewed, 8, 600_000)).0.len(), 2);
    }

    #[test]
    fn one_user_has_three_of_the_connections() {
        let user = UserId::parse("u0").unwrap();
        let mut observers = room(note(&Observers::default(), 1, 0));
        for number in 0..9 {
            let connection = ConnectionId::new(format!("own{number}="));
            let now = Timestamp::from_millis(number);
            observers = room(observers.note(&user, &connection, Timestamp::from_millis(100_000_000), now));
        }
        let connections: Vec<&str> = observers.0.iter().map(|of| of.connection.as_str()).collect();
        assert_eq!(connections, ["c1=", "own6=", "own7=", "own8="]);
    }

    #[test]
    fn a_watch_ends_with_its_connection_and_a_row_stays_below_its_bytes() {
        let (id, now) = (ConnectionId::new("c="), Timestamp::from_millis(0));
        let user = UserId::parse(&"u".repeat(128)).unwrap();
        let mut observers = room(Observers::default().note(&user, &id, Timestamp::from_millis(5), now));
        assert_eq!(observers.live(Timestamp::from_millis(5)).count(), 0);
        assert_eq!(observers.note(&user, &id, Timestamp::from_millis(5), now), Noted::Already);
        for number in 0.. {
            let id = ConnectionId::new(format!("c{number}="));
            let user = UserId::parse(&format!("{number}{}", "u".repeat(127))).unwrap();
            match observers.note(&user, &id, Timestamp::from_millis(i64::MAX / 2), now) {
                Noted::Room(more) => observers = more,
                other => {
                    assert_eq!((other, observers.0.len()), (Noted::Full, 5));
                    break;
                }
            }
        }
        assert!(Observers::parse("of a later version\nx\n").0.is_empty());
    }
}
