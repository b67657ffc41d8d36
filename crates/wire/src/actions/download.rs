//! `download`: where the bytes are that messages carry.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fields::Fields;
use crate::ids::MediaId;
use crate::limits::DOWNLOADS_MAX;
use crate::refusal::Refusal;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DownloadRequest {
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = DOWNLOADS_MAX), extend("uniqueItems" = true)))]
    pub media_ids: Vec<MediaId>,
}

/// Each requested id is in `items` or in `gone`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DownloadResult {
    pub items: Vec<Download>,
    /// Deleted, never there, or not for the caller: they look alike.
    pub gone: Vec<MediaId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Download {
    pub media_id: MediaId,
    /// Where to GET the bytes, as an attachment.
    pub url: String,
    pub expires_at: Timestamp,
}

impl DownloadRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let value = fields.get("media_ids").ok_or_else(|| fields.missing("media_ids"))?;
        let problem = || {
            fields.wrong("media_ids", format!("must be a list of 1 to {DOWNLOADS_MAX} media ids, each of them once"))
        };
        let list = value.as_array().filter(|list| (1..=DOWNLOADS_MAX).contains(&list.len())).ok_or_else(problem)?;
        let id = |value: &Value| value.as_str().and_then(|text| MediaId::parse(text).ok());
        let media_ids: Vec<MediaId> = list.iter().map(id).collect::<Option<_>>().ok_or_else(problem)?;
        let is_repeated =
            media_ids.iter().enumerate().any(|(place, id)| media_ids.iter().skip(place + 1).any(|other| other == id));
        if is_repeated { Err(problem()) } else { Ok(Self { media_ids }) }
    }
}
