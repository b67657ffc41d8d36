//! Reads a token, for the edge that dials with it.

/// The claims of a token. Only the server checks whether it is valid.
#[derive(Clone, Debug, PartialEq, Eq, uniffi::Record)]
pub struct TokenInfo {
    /// Its user (`sub`). `None`: none can be read.
    pub user_id: Option<String>,
    /// How long it is valid (`exp`); zero if it has expired. `None`: no expiry can be read.
    pub left_ms: Option<u64>,
}

/// Reads a token. `wall_ms` is the time by the device's clock, since 1970.
#[uniffi::export]
pub fn inspect(token: &str, wall_ms: u64) -> TokenInfo {
    use pigeonhole_core::token::{subject, time_left};
    let now = std::time::UNIX_EPOCH + std::time::Duration::from_millis(wall_ms);
    let left_ms = time_left(token, now).map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
    TokenInfo { user_id: subject(token), left_ms }
}
