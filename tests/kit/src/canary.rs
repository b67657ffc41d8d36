//! A text by which a test finds where the server has what users wrote.

use data_encoding::{BASE64, HEXLOWER, HEXUPPER};

/// A random text, found in each of the usual encodings.
#[derive(Debug, Clone)]
pub struct Canary {
    text: String,
    forms: Vec<String>,
}

impl Canary {
    #[must_use]
    pub fn random() -> Self {
        Self::of(format!("canary{}", std::iter::repeat_with(fastrand::lowercase).take(12).collect::<String>()))
    }

    fn of(text: String) -> Self {
        let bytes = text.as_bytes();
        // The length of the text before decides which of these groups of three bytes Base64 has whole.
        let in_base64 = (0..3).map(|skipped| BASE64.encode(&bytes[skipped..][..(bytes.len() - skipped) / 3 * 3]));
        let escaped = text.chars().map(|letter| format!("\\u{:04x}", u32::from(letter))).collect::<Vec<_>>().concat();
        let wide = text.chars().flat_map(|letter| [letter, '\0']).collect::<String>();
        let listed = bytes.iter().map(u8::to_string).collect::<Vec<_>>();
        let others = [HEXLOWER.encode(bytes), HEXUPPER.encode(bytes), escaped, listed.join(","), listed.join(", ")];
        // UTF-16 has this in each order of its bytes, with one more zero at an end.
        let wide = wide.trim_end_matches('\0').to_owned();
        let forms = std::iter::once(text.clone()).chain(in_base64).chain(others).chain([wide]).collect();
        Self { text, forms }
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether these bytes have the text: as it is, in Base64, in hexadecimal or decimal digits, with the escapes of
    /// JSON, or in UTF-16.
    #[must_use]
    pub fn is_in(&self, bytes: impl AsRef<[u8]>) -> bool {
        // Each form is ASCII, and survives what replaces other bytes.
        let text = String::from_utf8_lossy(bytes.as_ref());
        self.forms.iter().any(|form| text.contains(form.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use data_encoding::{BASE64, BASE64URL_NOPAD, HEXUPPER};

    use super::Canary;

    #[test]
    fn a_canary_is_found_in_each_encoding_and_nowhere_else() {
        let canary = Canary::random();
        for before in ["", "a", "ab", "abc"] {
            let text = format!("{before}{}\u{1F424}", canary.text());
            let wide: Vec<u16> = text.encode_utf16().collect();
            let wide = |bytes: fn(u16) -> [u8; 2]| wide.iter().copied().flat_map(bytes).collect::<Vec<_>>();
            let forms = [
                text.clone().into_bytes(),
                BASE64.encode(text.as_bytes()).into_bytes(),
                BASE64URL_NOPAD.encode(text.as_bytes()).into_bytes(),
                HEXUPPER.encode(text.as_bytes()).into_bytes(),
                format!("{:?}", text.as_bytes()).into_bytes(),
                wide(u16::to_le_bytes),
                wide(u16::to_be_bytes),
                [&[0xff, 0xfe], text.as_bytes(), &[0xff]].concat(),
            ];
            for form in forms {
                assert!(canary.is_in(&form), "{form:?}");
                assert!(!Canary::random().is_in(&form));
            }
        }
    }
}
