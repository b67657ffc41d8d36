//! `history`: returns entries of a conversation.

use serde::{Deserialize, Serialize, Serializer};

use crate::fields::Fields;
use crate::ids::{ConversationId, Seq, UserId};
use crate::limits::{HISTORY_LIMIT_DEFAULT, HISTORY_LIMIT_MAX};
use crate::message::Message;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryRequest {
    pub conversation_id: ConversationId,
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(with = "SideFields"))]
    pub side: Side,
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "left_out", range(min = 1, max = HISTORY_LIMIT_MAX), extend("default" = HISTORY_LIMIT_DEFAULT)))]
    pub limit: u64,
}

/// Which part of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end of it.
    Newest,
    /// The entries just before this one.
    Before(Seq),
    /// The entries just after this one.
    After(Seq),
}

/// The fields that request a [`Side`]: at most one of them.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("not" = {"required": ["before_seq", "after_seq"]})))]
struct SideFields {
    /// Requests the entries before this one, nearest to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    before_seq: Option<Seq>,
    /// Requests the entries after this one, nearest to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    after_seq: Option<Seq>,
}

impl Serialize for Side {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (before_seq, after_seq) = match *self {
            Self::Newest => (None, None),
            Self::Before(seq) => (Some(seq), None),
            Self::After(seq) => (None, Some(seq)),
        };
        SideFields { before_seq, after_seq }.serialize(serializer)
    }
}

/// Nothing in it contradicts anything else in it: no mark and no message is above `last_seq`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryResult {
    /// In the order of their `seq`.
    pub messages: Vec<Message>,
    /// More entries exist on the requested side.
    pub more: bool,
    pub last_seq: Seq,
    /// In groups and channels, the first entry that the member may see. Missing entries below it are no gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub first_seq: Option<Seq>,
    /// The members of a direct conversation, with their marks. `receipts` returns those of a group.
    pub members: Vec<Member>,
    /// The pinned messages, the last pinned first. Left out: none is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = crate::limits::PINS_MAX)))]
    pub pins: Vec<Seq>,
}

/// How far a member of a conversation has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Member {
    pub user_id: UserId,
    /// A device of the member has received every entry up to this one.
    pub delivered_seq: Seq,
    /// The member has read every entry up to this one.
    pub read_seq: Seq,
}

impl HistoryRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let (before, after) = (fields.seq("before_seq", 1)?, fields.seq("after_seq", 0)?);
        let side = match (before, after) {
            (None, None) => Side::Newest,
            (Some(before), None) => Side::Before(before),
            (None, Some(after)) => Side::After(after),
            (Some(_), Some(_)) => {
                return Err(Refusal::bad_request("before_seq", "must be left out if after_seq is set"));
            }
        };
        let limit = fields.integer("limit", 1, HISTORY_LIMIT_MAX)?.unwrap_or(HISTORY_LIMIT_DEFAULT);
        Ok(Self { conversation_id, side, limit })
    }
}
