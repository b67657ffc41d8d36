//! Log lines of the functions and of this server, made readable.

use std::collections::VecDeque;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use time::OffsetDateTime;
use time::macros::format_description;

use crate::lock;

/// Where log lines go.
#[derive(Debug, Clone, Default)]
pub enum Logs {
    #[default]
    Print,
    Silent,
    /// Kept for a test to look at.
    Keep(Arc<Mutex<Vec<String>>>),
}

/// The members of a line that are printed in a place of their own, or are for CloudWatch alone.
const FRAME: [&str; 7] = ["timestamp", "level", "message", "target", "_aws", "stack", "events"];

const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

/// Lines that are kept as they came, for whoever asks what became of a message. A few megabytes.
const KEPT_MAX: usize = 10_000;

/// The latest lines, and their destination.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    to: Logs,
    lately: Arc<Mutex<VecDeque<String>>>,
}

impl Log {
    pub(crate) fn new(to: Logs) -> Self {
        Self { to, lately: Arc::default() }
    }

    /// The functions' lines that hold `part`, oldest first.
    pub(crate) fn with(&self, part: &str) -> Vec<String> {
        lock(&self.lately).iter().filter(|line| line.contains(part)).cloned().collect()
    }

    /// Takes one line of a function's output.
    pub(crate) fn line(&self, function: &str, line: &str) {
        {
            let mut lately = lock(&self.lately);
            if lately.len() == KEPT_MAX {
                lately.pop_front();
            }
            lately.push_back(line.to_owned());
        }
        let colour = matches!(self.to, Logs::Print) && std::io::stdout().is_terminal();
        let line = readable(function, line, &clock(), colour);
        match &self.to {
            // The reader may be gone; the server continues.
            Logs::Print => writeln!(std::io::stdout(), "{line}").unwrap_or_default(),
            Logs::Silent => {}
            Logs::Keep(lines) => lock(lines).push(line),
        }
    }
}

/// The wall clock in UTC, as in the functions' own times.
fn clock() -> String {
    let format = format_description!("[hour]:[minute]:[second].[subsecond digits:3]");
    OffsetDateTime::now_utc().format(format).unwrap_or_default()
}

fn readable(function: &str, line: &str, time: &str, colour: bool) -> String {
    let paint = |code: &'static str| if colour { code } else { "" };
    let prefix = format!("{}{time}{} {function:<18}", paint(DIM), paint(PLAIN));
    let Ok(Value::Object(mut event)) = serde_json::from_str::<Value>(line) else {
        return format!("{prefix} {line}");
    };
    let level = match event.get("level").and_then(Value::as_str) {
        None | Some("INFO") => String::new(),
        Some(level) => {
            let code = paint(if level == "ERROR" { RED } else { YELLOW });
            format!(" {code}{level}{}", paint(PLAIN))
        }
    };
    let message = event.get("message").map(|message| format!(" {}", text(message))).unwrap_or_default();
    event.retain(|name, _| !FRAME.contains(&name.as_str()));
    let pairs = event.iter().map(|(name, value)| format!("{}{name}={}{}", paint(DIM), paint(PLAIN), text(value)));
    let words = std::iter::once(format!("{prefix}{level}{message}")).chain(pairs);
    words.collect::<Vec<_>>().join(" ")
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn lines_with_and_without_metrics_and_plain_text_are_readable() {
        let line = |line| readable("SendFunction", line, "10:00:00.000", false);
        let counted = r#"{"timestamp":"t","level":"INFO","message":"sent","route":"send","duration_ms":7,"events":1,
            "stack":"s","target":"send","_aws":{"Timestamp":0,"CloudWatchMetrics":[]}}"#;
        assert_eq!(line(counted), "10:00:00.000 SendFunction       sent duration_ms=7 route=send");
        let plain = r#"{"level":"WARN","message":"busy","request_id":"r","conflicts":2}"#;
        assert_eq!(line(plain), "10:00:00.000 SendFunction       WARN busy conflicts=2 request_id=r");
        assert_eq!(line("thread panicked"), "10:00:00.000 SendFunction       thread panicked");
    }
}
