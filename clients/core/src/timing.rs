//! How long the client waits for what.

use std::time::Duration;

/// All times for which the client waits. The defaults are the protocol's; tests wait less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The client repeats a request without a reply after this time, then after twice as long each time, up to eight
    /// times as long. 5 s.
    pub answer_wait: Duration,
    /// The first retry after a temporary error waits up to this time, each further retry up to twice the previous one,
    /// and at most `answer_wait`. 200 ms.
    pub retry_first: Duration,
    /// While a reply is outstanding and the server sends no frame for this time, the client treats the connection as
    /// dead. 15 s.
    pub silence_max: Duration,
    /// The interval of pings, which return whether messages are pending. Less than 10 min, when API Gateway closes idle
    /// sockets. 5 min.
    pub ping_every: Duration,
    /// The least time between two acknowledgements, and between two reports of having read the same conversation. 1 s.
    pub ack_every: Duration,
    /// The time that a message with a gap before it waits until the client requests `history`. 200 ms.
    pub gap_wait: Duration,
    /// The time until the client repeats a request for missing entries; each further wait is up to twice as long. 1 s.
    pub gap_retry: Duration,
    /// The first reconnect waits up to this, each further one up to twice the one before. 500 ms.
    pub reconnect_first: Duration,
    /// No reconnect waits longer, as long as the server is not overloaded. 30 s.
    pub reconnect_max: Duration,
    /// The longest wait before a reconnect after the server has replied 429 or 5xx. 5 min.
    pub reconnect_busy_max: Duration,
    /// How long opening a connection may take. 10 s.
    pub dial_wait: Duration,
    /// How long a frame may take to go out. 10 s.
    pub write_wait: Duration,
    /// How long closing a connection may take. 1 s.
    pub close_wait: Duration,
    /// The client replaces a connection of this age, or a minute before its token expires. API Gateway closes it at 2
    /// h. 1 h 55 min.
    pub lifetime: Duration,
    /// The client closes a connection up to this much earlier, at random, so that devices that connected together
    /// reconnect apart. 55 min.
    pub lifetime_jitter: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            answer_wait: Duration::from_secs(5),
            retry_first: Duration::from_millis(200),
            silence_max: Duration::from_secs(15),
            ping_every: Duration::from_secs(5 * 60),
            ack_every: Duration::from_secs(1),
            gap_wait: Duration::from_millis(200),
            gap_retry: Duration::from_secs(1),
            reconnect_first: Duration::from_millis(500),
            reconnect_max: Duration::from_secs(30),
            reconnect_busy_max: Duration::from_secs(5 * 60),
            dial_wait: Duration::from_secs(10),
            write_wait: Duration::from_secs(10),
            close_wait: Duration::from_secs(1),
            lifetime: Duration::from_secs(115 * 60),
            lifetime_jitter: Duration::from_secs(55 * 60),
        }
    }
}
