//! `typing`: the user is writing.

use serde::Serialize;
use serde_json::{Map, Value};

use super::send::Target;
use crate::fields::Fields;
use crate::ids::ConversationId;
use crate::limits::TYPING_TEXT_BYTES_MAX;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TypingRequest {
    pub conversation_id: ConversationId,
}

impl TypingRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        Ok(Self { conversation_id: fields.required("conversation_id", ConversationId::parse)? })
    }
}

/// The text that a service is writing, so far. No action: users send no text that is not stored, because nothing could
/// filter or report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypingText {
    pub target: Target,
    pub text: String,
}

impl TypingText {
    /// Reads the fields.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn of(object: &Map<String, Value>) -> Result<Self, Refusal> {
        let fields = Fields { object, path: "" };
        let target = Target::parse(&fields)?;
        let text = fields.text("text")?;
        if text.len() > TYPING_TEXT_BYTES_MAX {
            return Err(Refusal::TooLarge { field: "text", problem: "must have at most 16,384 bytes".into() });
        }
        Ok(Self { target, text: text.to_owned() })
    }
}
