//! `docs/bench/README.md`: prose by hand, and tables between markers, which a run replaces.

use std::path::PathBuf;

use anyhow::Context as _;

pub fn path() -> PathBuf {
    tests::root().join("docs/bench/README.md")
}

/// What stands between a part's markers now.
pub fn section(part: &str) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path())?;
    let (start, end) = bounds(&text, part)?;
    Ok(text[start..end].to_owned())
}

/// Replaces what stands between a part's markers.
pub fn replace(part: &str, table: &str) -> anyhow::Result<()> {
    let mut text = std::fs::read_to_string(path())?;
    let (start, end) = bounds(&text, part)?;
    text.replace_range(start..end, table);
    Ok(std::fs::write(path(), text)?)
}

fn bounds(text: &str, part: &str) -> anyhow::Result<(usize, usize)> {
    let (begin, end) = (format!("<!-- {part} -->\n"), format!("<!-- end of {part} -->"));
    let start = text.find(&begin).with_context(|| format!("docs/bench/README.md has no {begin}"))? + begin.len();
    let end = text[start..].find(&end).with_context(|| format!("docs/bench/README.md has no {end}"))?;
    Ok((start, start + end))
}
