//! The words of a text, by which a search finds it.
//!
//! Case, compatibility forms and the marks of Latin, Greek and Cyrillic letters make no difference. Scripts without
//! spaces, such as Chinese, Japanese and Thai, make overlapping pairs of characters. Each emoji is a word.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// A longer word is cut, in a text and in a search.
const WORD_CHARS_MAX: usize = 32;

/// A search: all words must be in a text, the last one as the beginning of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The words, each of which a text contains.
    pub words: Vec<String>,
    /// The beginning of a word.
    pub prefix: String,
    /// The parts in scripts without spaces. A text with all pairs of a part can lack the part.
    runs: Vec<String>,
}

impl Query {
    /// Returns `None` for a text without words.
    pub fn new(text: &str) -> Option<Self> {
        let parts = parts(text);
        let mut words = words_of(&parts);
        let prefix = words.pop()?;
        let runs = parts.into_iter().filter_map(|part| if let Part::Run(run) = part { Some(run) } else { None });
        Some(Self { words, prefix, runs: runs.map(String::from_iter).collect() })
    }

    /// Returns whether the search finds this text.
    pub fn finds(&self, text: &str) -> bool {
        let found: BTreeSet<String> = words(text).into_iter().collect();
        self.words.iter().all(|word| found.contains(word))
            && found.iter().any(|word| word.starts_with(&self.prefix))
            && self.has_runs(text)
    }

    /// Returns whether a text that has the words also has the parts in scripts without spaces.
    pub fn has_runs(&self, text: &str) -> bool {
        let kept = |text| folded(text).filter(|c| !is_dropped(*c)).collect();
        let text = if self.runs.is_empty() { String::new() } else { kept(text) };
        self.runs.iter().all(|run| text.contains(run))
    }
}

/// Returns the words of a text, in their order.
pub fn words(text: &str) -> Vec<String> {
    words_of(&parts(text))
}

#[derive(Debug)]
enum Part {
    Word(String),
    /// Characters of scripts without spaces.
    Run(Vec<char>),
}

fn words_of(parts: &[Part]) -> Vec<String> {
    let mut words = Vec::new();
    for part in parts {
        match part {
            Part::Word(word) => words.push(word.chars().take(WORD_CHARS_MAX).collect()),
            Part::Run(run) => {
                words.extend(run.windows(2).map(|pair| pair.iter().collect()));
                words.extend(run.last().map(char::to_string));
            }
        }
    }
    words
}

fn parts(text: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut is_open = false;
    for c in folded(text) {
        if is_dropped(c) {
            continue;
        }
        if has_no_spaces(c) {
            match parts.last_mut() {
                Some(Part::Run(run)) if is_open => run.push(c),
                _ => parts.push(Part::Run(vec![c])),
            }
            is_open = true;
        } else if c.is_alphanumeric() || is_combining_mark(c) {
            match parts.last_mut() {
                Some(Part::Word(word)) if is_open => word.push(c),
                _ => parts.push(Part::Word(c.to_string())),
            }
            is_open = true;
        } else {
            is_open = false;
            if is_emoji(c) {
                parts.push(Part::Word(c.to_string()));
            }
        }
    }
    parts
}

/// Lower case, without compatibility forms and without the marks of Latin, Greek and Cyrillic letters.
fn folded(text: &str) -> impl Iterator<Item = char> {
    let mut is_marked_letter = false;
    let letters = text.nfkd().flat_map(char::to_lowercase).filter(move |c| {
        let is_mark = is_combining_mark(*c);
        if !is_mark {
            is_marked_letter = loses_marks(*c);
        }
        !(is_mark && is_marked_letter)
    });
    letters.flat_map(|c| {
        let (first, second) = match c {
            'ß' => ('s', Some('s')),
            'ς' => ('σ', None),
            other => (other, None),
        };
        std::iter::once(first).chain(second)
    })
}

/// Latin, Greek and Cyrillic.
fn loses_marks(c: char) -> bool {
    matches!(c, 'a'..='z' | '\u{c0}'..='\u{24f}' | '\u{370}'..='\u{52f}' | '\u{1e00}'..='\u{1fff}')
}

/// Apostrophes, and what joins or selects a form: none of them ends a word.
fn is_dropped(c: char) -> bool {
    matches!(
        c,
        '\'' | '’' | 'ʼ' | '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' | '\u{20e3}' | '\u{1f3fb}'..='\u{1f3ff}'
    )
}

/// Thai, Lao, Burmese, Khmer, Kana and Han.
fn has_no_spaces(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3005}'..='\u{3007}'
        | '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{20000}'..='\u{323af}')
}

fn is_emoji(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{1f000}'..='\u{1faff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_found_by_what_people_type() {
        for (text, search) in [
            ("See you at Café Österreich", "cafe oster"),
            ("See you at Café Österreich", "CAFÉ"),
            ("Don’t forget", "don't"),
            ("Don’t forget", "dont f"),
            ("Die Straße", "strasse"),
            ("ΟΔΟΣ", "οδός"),
            ("Ёлка", "елка"),
            ("ﬁne 5 km²", "fine km2"),
            ("well done 🎉🎉", "🎉"),
            ("ok 👍🏽", "👍"),
            ("東京都に行く", "東京"),
            ("東京都に行く", "都"),
            ("ไปชุมชน", "ชุม"),
            ("हिन्दी में", "हिन्दी"),
            ("release 2.0", "2 0"),
        ] {
            assert!(
                Query::new(search).unwrap().finds(text),
                "{search} in {text}: {:?} {:?}",
                words(search),
                words(text)
            );
        }
    }

    #[test]
    fn a_text_is_not_found_by_what_it_lacks() {
        for (text, search) in [
            ("goodnight", "night"),
            ("one two", "on two"),
            // All pairs are in the text, and the run is not.
            ("東京 京都", "東京都"),
            ("हिन्दी", "हन्द"),
            ("ok 👍", "🎉"),
        ] {
            assert!(
                !Query::new(search).unwrap().finds(text),
                "{search} in {text}: {:?} {:?}",
                words(search),
                words(text)
            );
        }
        assert_eq!(Query::new(" …! "), None);
    }

    proptest! {
        #[test]
        fn each_text_is_found_by_itself(text in ".{0,40}") {
            if let Some(query) = Query::new(&text) {
                prop_assert!(query.finds(&text), "{:?}", words(&text));
            }
            for word in words(&text) {
                prop_assert!(!word.contains(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric()), "{word:?}");
                prop_assert!(word.chars().count() <= WORD_CHARS_MAX);
            }
        }
    }
}
