//! `upload`: where the bytes of a message go that is to be sent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::send::Target;
use crate::fields::Fields;
use crate::ids::{ConversationId, MediaId, Seq};
use crate::kind::Kind;
use crate::limits::MEDIA_PARTS_MAX;
use crate::media::{Digest, MimeType, bytes};
use crate::refusal::Refusal;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum UploadRequest {
    /// Bytes that are on the client.
    New(NewUpload),
    /// The media of another message, for a message of the caller. The client uploads nothing.
    #[cfg_attr(feature = "schema", schemars(extend("not" = {"required": ["media_id"]})))]
    Copy {
        #[serde(flatten)]
        target: Target,
        copy_of: CopyOf,
    },
    /// Fresh URLs for an upload that was begun, for what of it is not there yet.
    Again { media_id: MediaId },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[cfg_attr(feature = "schema", schemars(transform = crate::media::schema::of_upload))]
#[cfg_attr(feature = "schema", schemars(extend("not" = {"anyOf": [{"required": ["media_id"]}, {"required": ["copy_of"]}]})))]
pub struct NewUpload {
    /// Where it will be sent.
    #[serde(flatten)]
    pub target: Target,
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["image", "file", "voice", "sealed"])))]
    pub kind: Kind,
    /// Left out of kind `sealed`, of which `bytes` and `sha256` are those of the ciphertext.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime: Option<MimeType>,
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = crate::limits::MEDIA_BYTES_MAX)))]
    pub bytes: u64,
    /// SHA-256 of the bytes, or of a file in parts that of its parts' digests, one after another.
    pub sha256: Digest,
    /// The SHA-256 of each 8 MiB of a file above 16 MiB.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = MEDIA_PARTS_MAX)))]
    pub parts: Vec<Digest>,
}

/// A message that the caller can see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct CopyOf {
    pub conversation_id: ConversationId,
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
}

/// The upload, which accepts its bytes for a day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UploadResult {
    pub media_id: MediaId,
    /// Where to PUT all of the bytes. Left out where there is nothing to put, and of a file in parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// To be sent with the PUT, exactly these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The first few missing parts of a file in parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub parts: Vec<Part>,
    /// The URLs are good until then.
    pub expires_at: Timestamp,
}

/// Where to PUT a part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// From 1 on.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = MEDIA_PARTS_MAX)))]
    pub number: u64,
    /// The first of its bytes.
    pub offset: u64,
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub bytes: u64,
    pub url: String,
    pub headers: BTreeMap<String, String>,
}

impl UploadRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        if let Some(media_id) = fields.optional("media_id", MediaId::parse)? {
            return Ok(Self::Again { media_id });
        }
        if let Some(copy_of) = fields.get("copy_of") {
            let object = copy_of.as_object().ok_or_else(|| fields.wrong("copy_of", "must be an object"))?;
            let of = Fields { object, path: "copy_of." };
            let conversation_id = of.required("conversation_id", ConversationId::parse)?;
            let copy_of = CopyOf { conversation_id, seq: of.required_seq("seq")? };
            return Ok(Self::Copy { target: Target::parse(fields)?, copy_of });
        }
        let target = Target::parse(fields)?;
        let kind = fields.required("kind", |kind| {
            Kind::of_media(kind).ok_or("must be \"image\", \"file\", \"voice\" or \"sealed\"")
        })?;
        let mime = if kind == Kind::Sealed {
            for field in ["mime", "name"] {
                if fields.get(field).is_some() {
                    return Err(fields.wrong(field, "must be left out: kind is \"sealed\""));
                }
            }
            None
        } else {
            Some(MimeType::of(fields, &kind)?)
        };
        let bytes = bytes(fields)?;
        let sha256 = fields.required("sha256", Digest::parse)?;
        Ok(Self::New(NewUpload { target, kind, mime, bytes, sha256, parts: parts(fields)? }))
    }
}

fn parts(fields: &Fields) -> Result<Vec<Digest>, Refusal> {
    let Some(value) = fields.get("parts") else { return Ok(vec![]) };
    let problem =
        || fields.wrong("parts", format!("must be a list of 1 to {MEDIA_PARTS_MAX} SHA-256 digests in base64"));
    let list = value.as_array().filter(|list| (1..=MEDIA_PARTS_MAX).contains(&list.len())).ok_or_else(problem)?;
    let digest = |value: &Value| value.as_str().and_then(|text| Digest::parse(text).ok());
    list.iter().map(digest).collect::<Option<_>>().ok_or_else(problem)
}
