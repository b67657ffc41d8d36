//! `ping`: whether anything is pending.

use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::refusal::Refusal;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PingRequest {}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PingResult {
    /// Something waits unacknowledged: drain.
    pub pending: bool,
    pub server_time: Timestamp,
}

impl PingRequest {
    #[expect(clippy::unnecessary_wraps, reason = "as every action's")]
    pub(crate) fn parse(_: &Fields) -> Result<Self, Refusal> {
        Ok(Self {})
    }
}
