//! `ack`: this device holds everything up to here.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fields::Fields;
use crate::ids::{ConversationId, Seq};
use crate::limits::ACK_ENTRIES_MAX;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AckRequest {
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = ACK_ENTRIES_MAX)))]
    pub up_to: Vec<AckEntry>,
}

/// "This device holds everything up to here."
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AckEntry {
    pub conversation_id: ConversationId,
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AckResult {}

impl AckRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let up_to = entries(fields, "up_to")?.ok_or_else(|| fields.missing("up_to"))?;
        Ok(Self { up_to })
    }
}

/// A list of marks; `None` where the field is left out.
pub(super) fn entries(fields: &Fields, field: &str) -> Result<Option<Vec<AckEntry>>, Refusal> {
    let Some(value) = fields.get(field) else { return Ok(None) };
    let list = value.as_array().filter(|list| (1..=ACK_ENTRIES_MAX).contains(&list.len()));
    let list = list.ok_or_else(|| {
        fields.wrong(field, format!("must be a list of 1 to {ACK_ENTRIES_MAX} objects with conversation_id and seq"))
    })?;
    list.iter().enumerate().map(|(index, value)| entry(fields, field, index, value)).collect::<Result<_, _>>().map(Some)
}

fn entry(fields: &Fields, field: &str, index: usize, value: &Value) -> Result<AckEntry, Refusal> {
    let object = value.as_object().ok_or_else(|| fields.wrong(&format!("{field}[{index}]"), "must be an object"))?;
    let fields = Fields { object, path: &format!("{field}[{index}].") };
    let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
    Ok(AckEntry { conversation_id, seq: fields.required_seq("seq")? })
}
