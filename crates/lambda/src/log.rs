//! Logs: JSON lines on standard error, which Lambda keeps.

use tracing_subscriber::EnvFilter;

/// Starts logging at the levels that `RUST_LOG` names, `info` if it names none.
///
/// One line per event says what came of it; see [`crate::Call`]. No line ever has a body, a token, a query string or a
/// user id in it.
pub fn start_log() {
    let levels = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false)
        .with_env_filter(levels)
        .with_writer(std::io::stderr)
        .init();
}
