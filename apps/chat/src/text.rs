//! Text of others on this terminal: made harmless, and cut to fit.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Shows control characters instead of obeying them: an escape sequence in a message could otherwise move the cursor,
/// retitle the window or type for the reader. Characters that turn the writing direction go the same way, since they
/// can make a line read as something else.
pub(crate) fn sanitise(text: &str) -> String {
    text.chars().map(harmless).collect()
}

fn harmless(c: char) -> char {
    match c {
        '\t' => ' ',
        // Unicode has a picture for each of these.
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\x7f' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{61c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        _ => c,
    }
}

/// Sanitised rows of at most `width` columns, broken at spaces where there are any. Never empty.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut rows = Vec::new();
    for line in text.split('\n') {
        wrap_line(&sanitise(line.trim_end_matches('\r')), width.max(2), &mut rows);
    }
    rows
}

fn wrap_line(line: &str, width: usize, rows: &mut Vec<String>) {
    let mut row = String::new();
    let mut used = 0;
    for word in line.split_inclusive(' ') {
        if used > 0 && used + word.trim_end().width() > width {
            rows.push(std::mem::take(&mut row).trim_end().to_owned());
            used = 0;
        }
        for c in word.chars() {
            let columns = c.width().unwrap_or(0);
            // A space that does not fit is the break itself.
            if used + columns > width && c != ' ' {
                rows.push(std::mem::take(&mut row));
                used = 0;
            }
            row.push(c);
            used += columns;
        }
    }
    rows.push(row.trim_end().to_owned());
}

/// The start of `text` that fits in `width` columns, with an ellipsis where something is left out.
pub(crate) fn truncate(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_gets_through() {
        let all: String = (0..0x300).filter_map(char::from_u32).chain("\u{202e}\u{2028}\u{9b}31m".chars()).collect();
        assert!(!sanitise(&all).chars().any(char::is_control));
        assert_eq!(sanitise("\x1b[2Jhi\x07"), "␛[2Jhi␇");
        assert_eq!(sanitise("abc\u{202e}gpj.exe"), "abc\u{fffd}gpj.exe");
    }

    #[test]
    fn other_writing_is_left_alone() {
        let text = "Grüße, 世界 👩‍💻 ✓✓ é";
        assert_eq!(sanitise(text), text);
    }

    #[test]
    fn rows_break_at_spaces_and_never_exceed_the_width() {
        assert_eq!(wrap("the quick brown fox", 9), ["the quick", "brown fox"]);
        assert_eq!(wrap("ab\ncd\r\n", 9), ["ab", "cd", ""]);
        assert_eq!(wrap("", 9), [""]);
        assert_eq!(wrap("世界世界", 5), ["世界", "世界"]);
        assert_eq!(wrap("a abcdefgh", 4), ["a", "abcd", "efgh"]);
        for row in wrap("日本語 text mixed with averyveryverylongwordwithoutspaces", 7) {
            assert!(row.width() <= 7, "{row:?}");
        }
    }

    #[test]
    fn truncation_counts_columns() {
        assert_eq!(truncate("alice", 5), "alice");
        assert_eq!(truncate("alice", 4), "ali…");
        assert_eq!(truncate("世界", 3), "世…");
    }
}
