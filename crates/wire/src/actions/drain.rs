//! `drain`: what no device of the user has acknowledged.

use serde::{Deserialize, Serialize};

use super::ack::{AckEntry, entries};
use crate::fields::Fields;
use crate::message::Message;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DrainRequest {
    /// The acknowledgement of the page before, applied first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = crate::limits::ACK_ENTRIES_MAX)))]
    pub ack: Vec<AckEntry>,
}

/// No messages and `more: false`: drained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DrainResult {
    pub messages: Vec<Message>,
    pub more: bool,
}

impl DrainRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        Ok(Self { ack: entries(fields, "ack")?.unwrap_or_default() })
    }
}
