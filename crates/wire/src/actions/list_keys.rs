//! `list_keys`: the devices of the user that have keys.

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::fields::Fields;
use crate::ids::DeviceId;
use crate::refusal::Refusal;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListKeysRequest {}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListKeysResult {
    /// In the order of their ids.
    pub devices: Vec<KeyDevice>,
}

/// A device that has keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeyDevice {
    pub device_id: DeviceId,
    pub credential: Bytes,
    /// The packages that a claim can get, without the last resort.
    pub left: u64,
    pub last_resort_expires_at: Timestamp,
    /// When the device first published keys.
    pub added_at: Timestamp,
    /// The day on which the device last published or listed keys.
    pub seen_at: Timestamp,
}

impl ListKeysRequest {
    #[expect(clippy::unnecessary_wraps, reason = "as every action's")]
    pub(crate) fn parse(_: &Fields) -> Result<Self, Refusal> {
        Ok(Self {})
    }
}
