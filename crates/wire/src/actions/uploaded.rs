//! `uploaded`: the bytes are where they belong.

use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::ids::MediaId;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UploadedRequest {
    pub media_id: MediaId,
}

/// All of the bytes are there, and are those that were announced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UploadedResult {
    pub media_id: MediaId,
}

impl UploadedRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        Ok(Self { media_id: fields.required("media_id", MediaId::parse)? })
    }
}
