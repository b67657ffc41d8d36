//! Logs: JSON lines on standard error, which Lambda keeps.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use tracing::subscriber::set_global_default;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormattedFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::{LookupSpan, Scope};
use tracing_subscriber::{EnvFilter, Layer as _, Registry};
use wire::ACTIONS;

use crate::Clock;
use crate::env::{BadVariable, env};
use crate::event_line::{FIELD, metrics};
use crate::log_key::LogKey;

/// The crates whose lines are ours, besides the functions in [`ACTIONS`]. A test sees that none is missing.
const OURS: &[&str] = &[
    "actions",
    "admin",
    "authorize",
    "backend",
    "connect",
    "deliver",
    "domain",
    "fanout",
    "ingest",
    "lambda",
    "notify",
    "hook",
    "objects",
    "pigeonhole_wire",
    "jobs",
    "publish",
    "push",
    "queue",
    "store",
];

/// Starts logging at the levels of `RUST_LOG`; default: `info`.
///
/// Each event has a line with its outcome, see [`crate::EventLine`], and with its metrics, under the stack's name in
/// `STACK_NAME`. No line contains a body, a token, a query string or a user id, at any level: the log has digests of
/// ids, see [`LogKey`].
///
/// # Errors
/// [`BadVariable`] if `RUST_LOG` is malformed, or `STACK_NAME` or `LOG_KEY` is missing.
pub fn start_log() -> Result<(), BadVariable> {
    let levels = std::env::var("RUST_LOG").unwrap_or_default();
    EnvFilter::try_new(&levels).map_err(|error| BadVariable::new("RUST_LOG", format!("is no filter: {error}")))?;
    // Fails only if something logs already, and then that goes on.
    let _ = set_global_default(subscriber(&levels, &env("STACK_NAME")?, LogKey::from_env()?, std::io::stderr));
    Ok(())
}

/// Returns the subscriber that writes the lines, at these levels; `info` if they are empty.
pub fn subscriber<W>(levels: &str, stack: &str, key: LogKey, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let levels = if levels.is_empty() { "info" } else { levels };
    let levels = EnvFilter::try_new(levels).unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = Lines { stack: stack.to_owned(), key };
    let lines = tracing_subscriber::fmt::layer().fmt_fields(JsonFields::new()).event_format(lines).with_writer(writer);
    Registry::default().with(lines.with_filter(levels.and(filter_fn(harmless))))
}

/// Below `info`, libraries log whole requests and events, so the log would have the text of messages.
fn harmless(line: &Metadata<'_>) -> bool {
    *line.level() <= Level::INFO || ours(line)
}

fn ours(metadata: &Metadata<'_>) -> bool {
    logs_as_ours(metadata.target().split("::").next().unwrap_or_default())
}

/// Whether a crate's lines below `info` may be written: those of the project's own crates.
pub fn logs_as_ours(name: &str) -> bool {
    OURS.contains(&name) || ACTIONS.iter().any(|action| action.function == name)
}

/// A line: one flat JSON object, since CloudWatch takes metrics only from the members of its root.
struct Lines {
    stack: String,
    key: LogKey,
}

#[derive(Serialize)]
struct Line<'a> {
    timestamp: String,
    level: &'a str,
    #[serde(flatten)]
    fields: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    #[serde(rename = "_aws", skip_serializing_if = "Option::is_none")]
    metrics: Option<Value>,
}

impl<S> FormatEvent<S, JsonFields> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        // Spans of other crates, such as the SDK's, were never checked for secrets.
        let spans = ctx.event_scope().into_iter().flat_map(Scope::from_root).filter(|span| ours(span.metadata()));
        let mut fields = Map::new();
        for span in spans {
            fields.extend(
                span.extensions().get::<FormattedFields<JsonFields>>().map(|text| members(text)).unwrap_or_default(),
            );
        }
        let mut text = String::new();
        ctx.format_fields(Writer::new(&mut text), event)?;
        fields.extend(members(&text));
        if let Some(Value::String(line)) = fields.remove(FIELD) {
            fields.extend(members(&line));
        }
        self.key.replace_ids(&mut fields);

        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let metrics = metrics(&mut fields, &self.stack, Clock::system().now());
        let level = event.metadata().level().as_str();
        // The line of an event comes from one place.
        let target = metrics.is_none().then(|| event.metadata().target());
        let line = serde_json::to_string(&Line { timestamp, level, fields, target, metrics });
        writeln!(writer, "{}", line.map_err(|_| fmt::Error)?)
    }
}

fn members(json: &str) -> Map<String, Value> {
    serde_json::from_str(json).unwrap_or_default()
}
