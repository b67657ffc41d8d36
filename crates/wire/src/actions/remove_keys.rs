//! `remove_keys`: ends the keys of one of the user's devices.

use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::ids::DeviceId;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RemoveKeysRequest {
    /// The caller's device or another one. A device without keys is no error.
    pub device_id: DeviceId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RemoveKeysResult {
    /// The devices of the user that still have keys.
    pub devices: u64,
}

impl RemoveKeysRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        Ok(Self { device_id: fields.required("device_id", DeviceId::parse)? })
    }
}
