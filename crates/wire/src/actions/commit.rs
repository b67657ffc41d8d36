//! `commit`: changes the keys of a sealed conversation, or begins it.

use serde::{Deserialize, Serialize};

use super::send::{SendResult, Target};
use crate::bytes::Bytes;
use crate::carried::{Carried, CarriedParts};
use crate::fields::Fields;
use crate::ids::{ClientMsgId, ConversationId, ConversationKind, UserId};
use crate::limits::{EPOCH_MAX, REMOVES_MAX};
use crate::refusal::Refusal;

/// From a connection that names its `device_id`. The bytes are of MLS (RFC 9420), and the server reads none of them.
/// Their base64 has at most 24,576 characters in all. In a group, each of `commit`, `welcome` and `tree` can be an upload
/// of kind `sealed` to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(extend(
        "if" = {"properties": {"epoch": {"const": 0}}},
        "then" = {"not": {"required": ["commit"]}}
    ))
)]
pub struct CommitRequest {
    #[serde(flatten)]
    pub target: Target,
    /// The idempotency key: unique per sender and conversation, across all actions.
    pub client_msg_id: ClientMsgId,
    /// The epoch that ends: the number of commits so far.
    #[cfg_attr(feature = "schema", schemars(range(max = EPOCH_MAX - 1)))]
    pub epoch: u64,
    /// Left out of a birth, which begins with new keys. Epoch 0 ends with a birth.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::COMMIT_CHARS_MAX - 8)))]
    pub commit: Option<Box<Carried>>,
    /// For the devices that it adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::COMMIT_CHARS_MAX - 8)))]
    pub welcome: Option<Box<Carried>>,
    /// The group info of the epoch that begins.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::COMMIT_CHARS_MAX - 8)))]
    pub group_info: Bytes,
    /// The tree of that epoch.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::COMMIT_CHARS_MAX - 8)))]
    pub tree: Box<Carried>,
    /// In a group: the users who left since the last commits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "schema",
        schemars(length(min = 1, max = REMOVES_MAX), extend("uniqueItems" = true))
    )]
    pub removes: Vec<UserId>,
}

/// The commit is stored, as a silent entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommitResult {
    #[serde(flatten)]
    pub entry: SendResult,
    /// The epoch that it began.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = EPOCH_MAX)))]
    pub epoch: u64,
}

impl CommitRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let target = Target::parse(fields)?;
        let client_msg_id = fields.required("client_msg_id", ClientMsgId::parse)?;
        let epoch = fields.integer("epoch", 0, EPOCH_MAX - 1)?.ok_or_else(|| fields.missing("epoch"))?;
        let removes = fields.users("removes", 1, REMOVES_MAX)?.unwrap_or_default();
        let of_group = |id: &ConversationId| id.kind() == ConversationKind::Group;
        if !removes.is_empty() && !matches!(&target, Target::Conversation(id) if of_group(id)) {
            return Err(fields.wrong("removes", "must be left out: this is not a group"));
        }
        let mut parts = CarriedParts::of(fields);
        let commit = parts.optional("commit")?;
        if commit.is_some() && epoch == 0 {
            return Err(fields.wrong("commit", "must be left out at epoch 0: the conversation has no keys yet"));
        }
        let welcome = parts.optional("welcome")?;
        let group_info = parts.bytes("group_info")?;
        let tree = Box::new(parts.take("tree")?);
        if !matches!(&target, Target::Conversation(id) if of_group(id)) {
            parts.check_here()?;
        }
        let (commit, welcome) = (commit.map(Box::new), welcome.map(Box::new));
        Ok(Self { target, client_msg_id, epoch, commit, welcome, group_info, tree, removes })
    }
}
