//! The line being typed.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::text::sanitise;

/// The text before the cursor and the text behind it.
#[derive(Default)]
pub(crate) struct Editor {
    before: String,
    behind: String,
}

impl Editor {
    pub(crate) fn insert(&mut self, text: &str) {
        self.before.push_str(text);
    }

    /// The line is, or may become, a command, and that is nobody's affair.
    pub(crate) fn is_command(&self) -> bool {
        self.before.starts_with('/')
    }

    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.before) + &std::mem::take(&mut self.behind)
    }

    pub(crate) fn backspace(&mut self) {
        self.before.pop();
    }

    pub(crate) fn delete(&mut self) {
        if !self.behind.is_empty() {
            self.behind.remove(0);
        }
    }

    pub(crate) fn delete_word(&mut self) {
        let kept = self.before.trim_end().rfind(char::is_whitespace).map_or(0, |space| space + 1);
        // The space may be wider than one byte.
        let kept = (kept..=self.before.len()).find(|at| self.before.is_char_boundary(*at)).unwrap_or(0);
        self.before.truncate(kept);
    }

    pub(crate) fn clear_before(&mut self) {
        self.before.clear();
    }

    pub(crate) fn left(&mut self) {
        if let Some(c) = self.before.pop() {
            self.behind.insert(0, c);
        }
    }

    pub(crate) fn right(&mut self) {
        if !self.behind.is_empty() {
            self.before.push(self.behind.remove(0));
        }
    }

    pub(crate) fn home(&mut self) {
        self.behind.insert_str(0, &std::mem::take(&mut self.before));
    }

    pub(crate) fn end(&mut self) {
        self.before.push_str(&std::mem::take(&mut self.behind));
    }

    /// The part around the cursor that fits in `width` columns, and the cursor's column in it.
    pub(crate) fn visible(&self, width: usize) -> (String, usize) {
        let before = sanitise(&self.before);
        let mut used = before.width();
        let mut start = 0;
        for c in before.chars() {
            if used <= width {
                break;
            }
            used -= c.width().unwrap_or(0).min(used);
            start += c.len_utf8();
        }
        let mut shown = before.get(start..).unwrap_or_default().to_owned();
        let cursor = shown.width();
        let mut end = cursor;
        for c in sanitise(&self.behind).chars() {
            end += c.width().unwrap_or(0);
            if end > width {
                break;
            }
            shown.push(c);
        }
        (shown, cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editing_in_the_middle() {
        let mut editor = Editor::default();
        editor.insert("hello wrld");
        for _ in 0..3 {
            editor.left();
        }
        editor.insert("o");
        assert_eq!(editor.visible(80), ("hello world".to_owned(), 8));
        editor.end();
        editor.delete_word();
        assert_eq!(editor.visible(80), ("hello ".to_owned(), 6));
        editor.home();
        editor.delete();
        assert_eq!(editor.take(), "ello ");
        assert_eq!(editor.take(), "");
    }

    #[test]
    fn the_cursor_stays_in_sight() {
        let mut editor = Editor::default();
        editor.insert("ab世界cd\x1b");
        assert_eq!(editor.visible(5), ("界cd␛".to_owned(), 5));
        editor.home();
        assert_eq!(editor.visible(5), ("ab世".to_owned(), 0));
    }
}
