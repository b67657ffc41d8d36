//! The ids of messages, and of sockets, which clients never see.

use wire::{DeviceId, MessageId, Timestamp};

/// One socket, as API Gateway calls it. Opaque: whatever it hands us, we hand back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(String);

impl ConnectionId {
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a request came from. The reply goes there, so the copies for the user's own connections don't.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// One socket.
    Connection(ConnectionId),
    /// Over HTTP: the device, and so all of its sockets.
    Device(DeviceId),
}

/// No connection's id has a space.
const OF_DEVICE: &str = "device ";

impl Origin {
    /// Returns the text that a group's entry keeps.
    pub fn to_text(&self) -> String {
        match self {
            Self::Connection(id) => id.as_str().to_owned(),
            Self::Device(id) => format!("{OF_DEVICE}{id}"),
        }
    }

    /// Reads that text.
    pub fn of_text(text: &str) -> Self {
        let device = text.strip_prefix(OF_DEVICE).and_then(|id| DeviceId::parse(id).ok());
        device.map_or_else(|| Self::Connection(ConnectionId::new(text)), Self::Device)
    }

    /// Returns whether a connection, with the name of its device, is where the request came from.
    pub fn is(&self, connection: &ConnectionId, device: &str) -> bool {
        match self {
            Self::Connection(id) => id == connection,
            Self::Device(id) => id.as_str() == device,
        }
    }
}

/// The id of a message sent at `sent_at`: a UUIDv7 (RFC 9562) of that time, so that ids sort as time does. The random
/// bytes need be unlikely to repeat within a millisecond, no more.
pub fn message_id(sent_at: Timestamp, random: [u8; 10]) -> MessageId {
    let millis = u64::try_from(sent_at.millis()).unwrap_or(0);
    MessageId::stored(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn message_ids_are_version_7_and_carry_their_time() {
        let id = message_id(Timestamp::from_millis(1_700_000_000_123), [7; 10]);
        let uuid = uuid::Uuid::parse_str(id.as_str()).unwrap();
        assert_eq!(uuid.get_version_num(), 7);
        let (seconds, nanos) = uuid.get_timestamp().unwrap().to_unix();
        assert_eq!((seconds, nanos / 1_000_000), (1_700_000_000, 123));
    }

    proptest! {
        #[test]
        fn message_ids_sort_as_their_times(a in 0i64..4_102_444_800_000, b in 0i64..4_102_444_800_000, r: [u8; 10], s: [u8; 10]) {
            prop_assume!(a != b);
            let (x, y) = (message_id(Timestamp::from_millis(a), r), message_id(Timestamp::from_millis(b), s));
            prop_assert_eq!(a < b, x < y);
        }
    }
}
