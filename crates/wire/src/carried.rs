//! The parts of a commit: in the frame, or in a file.

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Returns the upload, if the bytes are in a file.
    pub fn file(&self) -> Option<&MediaId> {
        match self {
            Self::Bytes(_) => None,
            Self::File { media_id, .. } => Some(media_id),
        }
    }

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
    /// The parts that are files, by their fields.
    files: Vec<(&'static str, MediaId)>,
}

impl<'a> CarriedParts<'a> {
    pub(crate) fn of(fields: &'a Fields<'a>) -> Self {
        Self { fields, chars: 0, files: vec![] }
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
        let Some(object) = self.fields.get(field).and_then(Value::as_object) else {
            return self.bytes(field).map(Carried::Bytes);
        };
        let path = match field {
            "commit" => "commit.",
            "welcome" => "welcome.",
            _ => "tree.",
        };
        let file = Fields { object, path };
        let media_id = file.required("media_id", MediaId::parse)?;
        if self.files.iter().any(|(_, other)| *other == media_id) {
            return Err(file.wrong("media_id", "must not be that of another field"));
        }
        self.files.push((field, media_id.clone()));
        Ok(Carried::File { media_id, bytes: None, sha256: None })
    }

    /// Checks that the frame has all parts.
    pub(crate) fn check_here(&self) -> Result<(), Refusal> {
        let problem = "must be bytes in base64: only a group takes a file";
        self.files.first().map_or(Ok(()), |(field, _)| Err(self.fields.wrong(field, problem)))
    }

    pub(crate) fn optional(&mut self, field: &'static str) -> Result<Option<Carried>, Refusal> {
        self.fields.get(field).is_some().then(|| self.take(field)).transpose()
    }
}
