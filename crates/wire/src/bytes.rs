//! Bytes that the server does not interpret.

use std::fmt;

use data_encoding::BASE64;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[cfg(feature = "schema")]
pub(crate) const BASE64_PATTERN: &str =
    "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

/// 32 bytes: a digest.
#[cfg(feature = "schema")]
pub(crate) const DIGEST_PATTERN: &str = "^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$";

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
