//! The one rule for texts that apps show beside others: titles, names of files, emoji.

/// The characters that leave the place in which an app shows the text: they begin another line, or set a direction for what follows.
pub(crate) fn breaks_out(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a reader sees anything of the text: one character that is neither blank nor zero-width.
pub(crate) fn is_visible(text: &str) -> bool {
    !text.chars().all(|c| c.is_whitespace() || is_ignorable(c))
}

/// The characters that Unicode calls `Default_Ignorable_Code_Point`, and the blank Braille pattern.
fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The rule as parts of a JSON Schema's `pattern`.
#[cfg(feature = "schema")]
pub(crate) mod schema {
    /// The members of a character class that [`super::breaks_out`] names.
    macro_rules! breaking {
        () => {
            r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
        };
    }
    /// Looks ahead for a character that shows.
    macro_rules! visible {
        () => {
            visible!(".", "")
        };
        ($any:literal, $blank:literal) => {
            concat!(
                "(?=",
                $any,
                "*[^",
                $blank,
                r"\x20\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u202f\u205f-\u206f",
                r"\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8",
                "\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}])"
            )
        };
    }

    pub(crate) const TITLE: &str = concat!("^", visible!(), "[^", breaking!(), "]+$");
    /// A line break may stand in it.
    pub(crate) const ABOUT: &str =
        concat!("^", visible!(r"[\s\S]", r"\x0a"), r"[^\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+$");
    pub(crate) const FILE_NAME: &str = concat!(r"^(?!\.{1,2}$)", visible!(), r"[^/\\", breaking!(), "]+$");
    pub(crate) const EMOJI: &str =
        concat!("^", visible!(), r"[^\x20\xa0\u1680\u2000-\u200a\u202f\u205f\u3000", breaking!(), "]+$");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_in_its_line_and_its_direction() {
        for c in ['\n', '\r', '\0', '\u{7f}', '\u{85}', '\u{2028}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}'] {
            assert!(breaks_out(c), "{c:?}");
        }
        // Hebrew and Arabic names have marks of direction, Persian ones a joiner; neither reaches beyond its place.
        for c in ['a', ' ', 'ش', '\u{200c}', '\u{200d}', '\u{200e}', '\u{200f}', '\u{61c}', '\u{fe0f}'] {
            assert!(!breaks_out(c), "{c:?}");
        }
    }

    #[test]
    fn a_text_has_a_character_that_shows() {
        for blank in
            ["", " ", "\u{a0}\u{3000}", "\u{200b}", "\u{200d}\u{fe0f}", "\u{3164}", "\u{2800}", "\u{e0041}", "\u{ad}"]
        {
            assert!(!is_visible(blank), "{blank:?}");
        }
        for text in ["a", " a ", "❤\u{fe0f}", "\u{200f}ש", "\u{301}"] {
            assert!(is_visible(text), "{text:?}");
        }
    }
}
