//! `report`: tells the operator about messages, a conversation or a user.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bytes::Bytes;
use crate::fields::Fields;
use crate::ids::{ConversationId, ReportId, Seq, UserId};
use crate::limits::{
    CLAIMED_BYTES_MAX, NOTE_CHARS_MAX, OPENED_CHARS_MAX, OPENED_KEY_BYTES, REPORT_SEQS_MAX, SEALED_BYTES_MAX, SEQ_MAX,
};
use crate::refusal::Refusal;
use crate::time::Timestamp;

/// Names a conversation or a user, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(extend(
    "if" = {"not": {"required": ["user_id"]}},
    "then" = {"required": ["conversation_id"]},
    "dependentRequired" = {"seqs": ["conversation_id"], "opened": ["seqs"]},
)))]
pub struct ReportRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// Entries of the conversation that the caller sees. The server copies them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = REPORT_SEQS_MAX), extend("uniqueItems" = true)))]
    pub seqs: Vec<Seq>,
    /// A member of the conversation, or the author of one of the entries. Without a conversation: any user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    pub reason: ReportReason,
    /// The caller's words, in Unicode scalar values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = NOTE_CHARS_MAX)))]
    pub note: Option<String>,
    /// The text of a sealed message by the caller's word, which proves nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = CLAIMED_BYTES_MAX)))]
    pub claimed: Option<String>,
    /// Proofs of what sealed messages say. With `encryption.report`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = REPORT_SEQS_MAX)))]
    pub opened: Vec<Opened>,
}

/// Why something is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum ReportReason {
    Spam,
    Abuse,
    Sexual,
    Violence,
    Illegal,
    Other,
}

/// The plaintext of a sealed message, and the key that fits it to the message's `frank`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Opened {
    /// A reported entry.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
    /// The envelope's `frank`: 32 bytes.
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::bytes::DIGEST_PATTERN)))]
    pub key: Bytes,
    /// The envelope, with its spaces.
    pub plaintext: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportResult {
    /// A repetition with the same conversation, entries and user gets the same id.
    pub report_id: ReportId,
}

/// A report, as an operator reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub report_id: ReportId,
    pub at: Timestamp,
    pub reporter_id: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seqs: Vec<Seq>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    pub reason: ReportReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<String>,
    /// The message objects as they were then, without `client_msg_id`, each with a body of 4 KiB at most. A proved one has
    /// `plaintext` and `verified`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Map<String, Value>>,
}

impl ReportRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.optional("conversation_id", ConversationId::parse)?;
        let user_id = fields.optional("user_id", UserId::parse)?;
        if conversation_id.is_none() && user_id.is_none() {
            return Err(fields.wrong("conversation_id", "is missing; set it, or set user_id"));
        }
        let seqs = seqs(fields)?;
        if conversation_id.is_none() && !seqs.is_empty() {
            return Err(fields.wrong("seqs", "must be left out if conversation_id is"));
        }
        let problem = "must be \"spam\", \"abuse\", \"sexual\", \"violence\", \"illegal\" or \"other\"";
        let reason = fields.required("reason", |text| ReportReason::parse(text).ok_or(problem))?;
        let note = fields.optional("note", |text| {
            let fits = (1..=NOTE_CHARS_MAX).contains(&text.chars().take(NOTE_CHARS_MAX + 1).count());
            if fits { Ok(text.to_owned()) } else { Err(format!("must have 1 to {NOTE_CHARS_MAX} characters")) }
        })?;
        let claimed =
            fields.optional("claimed", |text| if text.is_empty() { Err("must not be empty") } else { Ok(text) })?;
        if claimed.is_some_and(|text| text.len() > CLAIMED_BYTES_MAX) {
            let problem = format!("must be at most {CLAIMED_BYTES_MAX} bytes").into();
            return Err(Refusal::TooLarge { field: "claimed", problem });
        }
        let claimed = claimed.map(str::to_owned);
        let opened = opened(fields, &seqs)?;
        Ok(Self { conversation_id, seqs, user_id, reason, note, claimed, opened })
    }
}

/// Reads the entries, in their order.
fn seqs(fields: &Fields) -> Result<Vec<Seq>, Refusal> {
    let Some(value) = fields.get("seqs") else { return Ok(vec![]) };
    let problem = || {
        let problem =
            format!("must be a list of 1 to {REPORT_SEQS_MAX} integers from 1 to {SEQ_MAX}, each of them once");
        fields.wrong("seqs", problem)
    };
    let list = value.as_array().filter(|list| (1..=REPORT_SEQS_MAX).contains(&list.len())).ok_or_else(problem)?;
    let seq = |value: &Value| value.as_u64().filter(|number| (1..=SEQ_MAX).contains(number)).and_then(Seq::new);
    let mut seqs: Vec<Seq> = list.iter().map(seq).collect::<Option<_>>().ok_or_else(problem)?;
    seqs.sort_unstable();
    let is_repeated = seqs.windows(2).any(|pair| pair.first() == pair.last());
    if is_repeated { Err(problem()) } else { Ok(seqs) }
}

fn opened(fields: &Fields, seqs: &[Seq]) -> Result<Vec<Opened>, Refusal> {
    let Some(value) = fields.get("opened") else { return Ok(vec![]) };
    let problem = || fields.wrong("opened", format!("must be a list of 1 to {REPORT_SEQS_MAX} objects"));
    let list = value.as_array().filter(|list| (1..=REPORT_SEQS_MAX).contains(&list.len())).ok_or_else(problem)?;
    let mut opened: Vec<Opened> = vec![];
    let mut chars = 0;
    for (place, value) in list.iter().enumerate() {
        let object = value.as_object().ok_or_else(problem)?;
        let path = format!("opened[{place}].");
        let fields = Fields { object, path: &path };
        let seq = fields.required_seq("seq")?;
        if !seqs.contains(&seq) || opened.iter().any(|other| other.seq == seq) {
            return Err(fields.wrong("seq", "must be one of seqs, each of them once"));
        }
        let key = fields.bytes("key", OPENED_KEY_BYTES)?;
        if key.as_slice().len() != OPENED_KEY_BYTES {
            return Err(fields.wrong("key", format!("must be {OPENED_KEY_BYTES} bytes")));
        }
        let plaintext = fields.bytes("plaintext", SEALED_BYTES_MAX)?;
        chars += fields.text("key")?.len() + fields.text("plaintext")?.len();
        opened.push(Opened { seq, key, plaintext });
    }
    if chars > OPENED_CHARS_MAX {
        let problem = format!("must have at most {OPENED_CHARS_MAX} characters in all keys and plaintexts").into();
        return Err(Refusal::TooLarge { field: "opened", problem });
    }
    Ok(opened)
}

impl ReportReason {
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_value(Value::from(text)).ok()
    }
}
