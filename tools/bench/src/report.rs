//! The documents: text by hand, and tables between markers, which a run replaces.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use template::workspace_root;

/// Where plots and all tables are but one.
pub fn folder() -> PathBuf {
    workspace_root().join("docs/bench")
}

fn document(part: &str) -> PathBuf {
    match part {
        "monthly" => workspace_root().join("docs/deploying.md"),
        _ => folder().join("README.md"),
    }
}

/// What stands between a part's markers now.
pub fn section(part: &str) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(document(part))?;
    let (start, end) = bounds(&text, part)?;
    Ok(text[start..end].to_owned())
}

/// Replaces what stands between a part's markers.
pub fn replace(part: &str, table: &str) -> anyhow::Result<()> {
    let path = document(part);
    let mut text = std::fs::read_to_string(&path)?;
    let (start, end) = bounds(&text, part)?;
    text.replace_range(start..end, table);
    Ok(std::fs::write(path, text)?)
}

fn bounds(text: &str, part: &str) -> anyhow::Result<(usize, usize)> {
    let (begin, end) = (format!("<!-- {part} -->\n"), format!("<!-- end of {part} -->"));
    let start = text.find(&begin).with_context(|| format!("the document has no {begin}"))? + begin.len();
    let end = text[start..].find(&end).with_context(|| format!("the document has no {end}"))?;
    Ok((start, start + end))
}

/// Each of two kinds of times.
pub fn sorted(times: impl Iterator<Item = [Duration; 2]>) -> [Vec<Duration>; 2] {
    let (mut one, mut other): (Vec<_>, Vec<_>) = times.map(|[one, other]| (one, other)).unzip();
    one.sort_unstable();
    other.sort_unstable();
    [one, other]
}

/// Of sorted times, the one that so many percent of them are within, in ms; 0 of none.
pub fn percentile_ms(sorted: &[Duration], percent: usize) -> f64 {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or_default().as_secs_f64() * 1_000.0
}

/// How far a part has come, on a terminal.
pub fn progress(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}, {elapsed}").expect("a template");
    ProgressBar::new(steps as u64).with_style(style)
}
