//! `ping`: whether anything is pending.

use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::refusal::Refusal;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PingRequest {
    /// The reply lists what the deployment has switched on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub features: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PingResult {
    /// Something waits unacknowledged: drain.
    pub pending: bool,
    pub server_time: Timestamp,
    /// The list of what the deployment has switched on, if the request has `features`: `encryption`,
    /// `encryption.required`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
}

impl PingRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        Ok(Self { features: fields.boolean("features")?.unwrap_or_default() })
    }
}
