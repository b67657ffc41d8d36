//! Bytes that the server does not interpret.

use std::fmt;

use data_encoding::BASE64;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::fields::Fields;
use crate::limits::COMMIT_CHARS_MAX;
use crate::refusal::Refusal;

#[cfg(feature = "schema")]
pub(crate) const BASE64_PATTERN: &str =
    "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

/// Bytes, in a frame as padded base64 (RFC 4648, section 4). Never in a log.
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(
        inline,
        with = "String",
        extend(
            "minLength" = 1,
            "pattern" = BASE64_PATTERN
        )
    )
)]
pub struct Bytes(Box<[u8]>);

impl Bytes {
    /// Decodes the one form that these bytes have. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64.decode(text.as_bytes()).ok()?;
        // The decoder also takes several such texts, one after another.
        (BASE64.encode(&bytes) == text).then(|| Self(bytes.into()))
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Returns their one form.
    pub fn to_text(&self) -> String {
        BASE64.encode(&self.0)
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_text())
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).ok_or_else(|| de::Error::custom("must be base64"))
    }
}

/// Bytes in a frame, or in an uploaded file of kind `sealed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Carried {
    Bytes(Bytes),
    File {
        media_id: crate::ids::MediaId,
        /// Left out of a request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// Left out of a request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<crate::media::Digest>,
    },
}

impl Carried {
    /// Returns the bytes, if the frame has them.
    pub fn here(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes.as_slice()),
            Self::File { .. } => None,
        }
    }
}

/// Reads the parts of a commit, and counts their characters.
pub(crate) struct CarriedParts<'a> {
    fields: &'a Fields<'a>,
    chars: usize,
}

impl<'a> CarriedParts<'a> {
    pub(crate) fn of(fields: &'a Fields<'a>) -> Self {
        Self { fields, chars: 0 }
    }

    pub(crate) fn bytes(&mut self, field: &'static str) -> Result<Bytes, Refusal> {
        self.chars += self.fields.text(field)?.len();
        if self.chars > COMMIT_CHARS_MAX {
            let problem = "commit, welcome, group_info and tree must have at most 24,576 characters together";
            return Err(Refusal::TooLarge { field, problem: problem.into() });
        }
        self.fields.bytes(field, COMMIT_CHARS_MAX)
    }

    pub(crate) fn take(&mut self, field: &'static str) -> Result<Carried, Refusal> {
        self.bytes(field).map(Carried::Bytes)
    }

    pub(crate) fn optional(&mut self, field: &'static str) -> Result<Option<Carried>, Refusal> {
        self.fields.get(field).is_some().then(|| self.take(field)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_same_bytes_have_one_form() {
        assert_eq!(Bytes::parse("Zg==").unwrap().as_slice(), b"f");
        for other in ["Zg", "Zg=", "Zh==", "Zg== ", "Z g==", "Zg==\n", "_-8=", "Zg==Zg=="] {
            assert!(Bytes::parse(other).is_none(), "{other:?}");
        }
    }

    #[test]
    fn no_debug_text_has_the_bytes() {
        assert_eq!(format!("{:?}", Bytes::from(b"secret".to_vec())), "6 bytes");
    }

    proptest! {
        #[test]
        fn a_text_that_is_taken_comes_back(text in "[A-Za-z0-9+/=]{0,12}") {
            let back = Bytes::parse(&text).map(|bytes| serde_json::to_value(&bytes).unwrap());
            prop_assert!(back.is_none_or(|back| back == text));
        }
    }
}
