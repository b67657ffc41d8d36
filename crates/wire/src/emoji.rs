//! The emoji of a reaction.

use serde::{Deserialize, Deserializer, Serialize};

use crate::ids::InvalidId;
use crate::limits::EMOJI_BYTES_MAX;
use crate::text::{breaks_out, is_visible};

/// The emoji of a reaction. Each version of Unicode adds emoji, so the server accepts any short visible text. Clients
/// show it as it is. `❤` and `❤️` are one emoji, written as the second.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transparent))]
pub struct Emoji(
    #[cfg_attr(
        feature = "schema",
        schemars(length(min = 1, max = EMOJI_BYTES_MAX), regex(pattern = crate::text::schema::EMOJI))
    )]
    String,
);

impl Emoji {
    /// Takes the text if it has the form that the type promises, and gives it the variation selectors that Unicode recommends.
    ///
    /// # Errors
    /// [`InvalidId`] says what the form is.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let is_written = |text: &str| (1..=EMOJI_BYTES_MAX).contains(&text.len());
        let is_emoji = is_written(text)
            && is_visible(text)
            && !text.contains(|c: char| c.is_whitespace() || breaks_out(c))
            && is_written(&qualified(text));
        if !is_emoji {
            let form = "bytes of UTF-8 that show, without spaces and control characters";
            return Err(InvalidId::new(format!("must be 1 to {EMOJI_BYTES_MAX} {form}")));
        }
        Ok(Self(qualified(text)))
    }

    /// As the server wrote it: an earlier version took other texts, too.
    pub fn stored(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The same emoji as [`Self::parse`] writes it.
    #[must_use]
    pub fn canonical(&self) -> Self {
        Self(qualified(&self.0))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Emoji {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(qualified(&String::deserialize(deserializer)?)))
    }
}

/// The characters that show as text unless U+FE0F follows: `Emoji` without `Emoji_Presentation` in Unicode's `emoji-data.txt`, ASCII
/// left out (<https://www.unicode.org/reports/tr51/#Emoji_Properties>).
const TEXT_BY_DEFAULT: &str = "©®‼⁉™ℹ↔↕↖↗↘↙↩↪⌨⏏⏭⏮⏯⏱⏲⏸⏹⏺Ⓜ▪▫▶◀◻◼☀☁☂☃☄☎☑☘☝☠☢☣☦☪☮☯☸☹☺♀♂♟♠♣♥♦♨♻♾⚒⚔⚕⚖⚗⚙⚛⚜⚠⚧⚰⚱⛈⛏⛑⛓⛩⛰⛱⛴⛷⛸⛹✂✈✉✌✍✏✒✔✖✝✡✳✴❄❇❣❤➡⤴⤵⬅⬆⬇〰〽㊗㊙🅰🅱🅾🅿🈂🈷🌡🌤🌥🌦🌧🌨🌩🌪🌫🌬🌶🍽🎖🎗🎙🎚🎛🎞🎟🏋🏌🏍🏎🏔🏕🏖🏗🏘🏙🏚🏛🏜🏝🏞🏟🏳🏵🏷🐿👁📽🕉🕊🕯🕰🕳🕴🕵🕶🕷🕸🕹🖇🖊🖋🖌🖍🖐🖥🖨🖱🖲🖼🗂🗃🗄🗑🗒🗓🗜🗝🗞🗡🗣🗨🗯🗳🗺🛋🛍🛎🛏🛠🛡🛢🛣🛤🛥🛩🛰🛳";

/// The text with U+FE0F behind each character that needs it, and nowhere else: TR 51 calls an emoji fully qualified then.
fn qualified(text: &str) -> String {
    let mut chars = text.chars().filter(|c| !matches!(c, '\u{fe0e}' | '\u{fe0f}')).peekable();
    let mut qualified = String::with_capacity(text.len());
    while let Some(c) = chars.next() {
        qualified.push(c);
        let next = chars.peek();
        let is_key = matches!(c, '0'..='9' | '#' | '*') && next == Some(&'\u{20e3}');
        let has_skin_tone = next.is_some_and(|next| matches!(next, '\u{1f3fb}'..='\u{1f3ff}'));
        if is_key || (TEXT_BY_DEFAULT.contains(c) && !has_skin_tone) {
            qualified.push('\u{fe0f}');
        }
    }
    qualified
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_emoji_that_unicode_recommends_is_a_reaction_and_has_one_spelling() {
        let toned = |emoji: &'static emojis::Emoji| emoji.skin_tones().into_iter().flatten();
        let all = emojis::iter().flat_map(|emoji| std::iter::once(emoji).chain(toned(emoji)));
        let mut count = 0;
        for emoji in all.map(emojis::Emoji::as_str) {
            for spelling in [emoji.to_owned(), emoji.replace('\u{fe0f}', ""), emoji.replace('\u{fe0f}', "\u{fe0e}")] {
                let parsed = Emoji::parse(&spelling).unwrap_or_else(|error| panic!("{spelling}: {error}"));
                assert_eq!(parsed.as_str(), emoji, "{spelling:?}");
            }
            count += 1;
        }
        assert!(count > 3_900, "{count}");
    }

    #[test]
    fn what_does_not_show_or_breaks_out_is_no_reaction() {
        for bad in
            ["", "a b", "\u{1}", "\u{2028}", "👍\n", "\u{200b}", "\u{fe0f}", "\u{202e}👍", "\u{2066}", "\u{3164}"]
        {
            assert!(Emoji::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Emoji::parse(&"👍".repeat(EMOJI_BYTES_MAX / 4 + 1)).is_err());
        assert!(Emoji::parse(&"©".repeat(EMOJI_BYTES_MAX / 2)).is_err(), "too long as it is written");
        assert!(Emoji::parse("👩‍👩‍👧‍👧").is_ok() && Emoji::parse("+1").is_ok());
    }

    #[test]
    fn what_an_earlier_version_took_is_read() {
        let read = |json: &str| serde_json::from_str::<Emoji>(json).unwrap();
        assert_eq!(read("\"\u{200b}\"").as_str(), "\u{200b}");
        assert_eq!((read("\"❤\"").as_str(), Emoji::stored("❤").as_str()), ("❤️", "❤"));
    }

    proptest! {
        #[test]
        fn a_spelling_is_the_only_one(text in "[❤👍🏽1#a©\u{200d}\u{20e3}\u{fe0e}\u{fe0f}]{0,12}") {
            if let Ok(emoji) = Emoji::parse(&text) {
                prop_assert_eq!(&emoji.canonical(), &emoji);
                let bare = text.replace(['\u{fe0e}', '\u{fe0f}'], "");
                prop_assert_eq!(Emoji::parse(&bare), Ok(emoji));
            }
        }
    }
}
