//! Logs: JSON lines on standard error, which Lambda keeps.

use tracing::subscriber::set_global_default;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry};

use crate::env::BadVariable;

/// The crates whose lines are ours.
const OURS: &[&str] =
    &["authorize", "connect", "send", "drain", "read", "inbox", "deliver", "domain", "lambda", "push", "store"];

/// Starts logging at the levels that `RUST_LOG` names, `info` if it names none.
///
/// One line per event says what came of it; see [`crate::Call`]. No line ever has a body, a token, a query string or a user
/// id in it, at any level.
///
/// # Errors
/// [`BadVariable`] if it names something else.
pub fn start_log() -> Result<(), BadVariable> {
    let levels = std::env::var("RUST_LOG").unwrap_or_default();
    EnvFilter::try_new(&levels).map_err(|error| BadVariable::new("RUST_LOG", format!("is no filter: {error}")))?;
    // Fails only if something logs already, and then that goes on.
    set_global_default(subscriber(&levels, std::io::stderr)).unwrap_or_default();
    Ok(())
}

/// What writes the lines, at these levels; `info` where they are none.
pub fn subscriber<W>(levels: &str, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let levels = EnvFilter::try_new(levels).ok().filter(|_| !levels.is_empty());
    let levels = levels.unwrap_or_else(|| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt::layer().json().flatten_event(true).with_span_list(false).with_writer(writer);
    Registry::default().with(lines.with_filter(levels.and(filter_fn(harmless))))
}

/// Below `info`, libraries write down whole requests and events: what people said to each other would be in the log.
fn harmless(line: &Metadata<'_>) -> bool {
    let ours = |target: &str| OURS.contains(&target.split("::").next().unwrap_or_default());
    *line.level() <= Level::INFO || ours(line.target())
}
