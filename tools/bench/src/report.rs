//! The results: most tables are files of their own, `docs/bench/TABLE.csv`; a page shows the others between two markers.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use template::workspace_root;

/// The folder of the plots and tables.
pub fn folder() -> PathBuf {
    workspace_root().join("docs/bench")
}

/// The page that shows a table.
fn page(table: &str) -> Option<PathBuf> {
    match table {
        "monthly" => Some(workspace_root().join("docs/deploying.md")),
        "latencies" | "groups-times" | "money" => Some(folder().join("README.md")),
        _ => None,
    }
}

fn file(table: &str) -> PathBuf {
    folder().join(format!("{table}.csv"))
}

/// Returns what is recorded of a table.
pub fn recorded(table: &str) -> anyhow::Result<String> {
    let Some(page) = page(table) else { return Ok(std::fs::read_to_string(file(table))?) };
    let text = std::fs::read_to_string(page)?;
    let (start, end) = bounds(&text, table)?;
    Ok(text[start..end].to_owned())
}

/// Returns what a run records of a table with these rows, which are Markdown.
pub fn form(table: &str, rows: &str) -> String {
    if page(table).is_some() { rows.to_owned() } else { csv(rows) }
}

/// Replaces what is recorded of a table.
pub fn record(table: &str, rows: &str) -> anyhow::Result<()> {
    let rows = form(table, rows);
    let Some(page) = page(table) else { return Ok(std::fs::write(file(table), rows)?) };
    let mut text = std::fs::read_to_string(&page)?;
    let (start, end) = bounds(&text, table)?;
    text.replace_range(start..end, &rows);
    Ok(std::fs::write(page, text)?)
}

fn bounds(text: &str, table: &str) -> anyhow::Result<(usize, usize)> {
    let (begin, end) = (format!("<!-- {table} -->\n"), format!("<!-- end of {table} -->"));
    let start = text.find(&begin).with_context(|| format!("the page has no {begin}"))? + begin.len();
    let end = text[start..].find(&end).with_context(|| format!("the page has no {end}"))?;
    Ok((start, start + end))
}

/// Formats a table of Markdown as CSV, without bold and code.
fn csv(rows: &str) -> String {
    let quoted = |cell: &str| if cell.contains(',') { format!("\"{cell}\"") } else { cell.to_owned() };
    let mut text = String::new();
    for row in rows.lines().filter(|row| !row.starts_with("|---")) {
        let row = row.replace("**", "").replace('`', "");
        let cells: Vec<_> = row.trim_matches('|').split('|').map(|cell| quoted(cell.trim())).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

/// Sorts two kinds of times.
pub fn sorted(times: impl Iterator<Item = [Duration; 2]>) -> [Vec<Duration>; 2] {
    let (mut one, mut other): (Vec<_>, Vec<_>) = times.map(|[one, other]| (one, other)).unzip();
    one.sort_unstable();
    other.sort_unstable();
    [one, other]
}

/// Returns a percentile of sorted times in ms, or 0 without times.
pub fn percentile_ms(sorted: &[Duration], percent: usize) -> f64 {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or_default().as_secs_f64() * 1_000.0
}

/// Shows the progress of a part on a terminal.
pub fn progress(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}, {elapsed}").expect("a template");
    ProgressBar::new(steps as u64).with_style(style)
}
