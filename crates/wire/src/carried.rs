//! The parts of a commit: in the frame, or in a file.

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::fields::Fields;
use crate::ids::MediaId;
use crate::limits::COMMIT_CHARS_MAX;
use crate::media::Digest;
use crate::refusal::Refusal;

/// Bytes in a frame, or in an uploaded file of kind `sealed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Carried {
    Bytes(Bytes),
    File {
        media_id: MediaId,
        /// Left out of a request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// Left out of a request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<Digest>,
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
