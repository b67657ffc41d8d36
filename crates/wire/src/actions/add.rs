//! `add`: more members of a group.

use serde::{Deserialize, Serialize};

use super::send::SendResult;
use crate::bytes::Bytes;
use crate::carried::{Carried, CarriedParts};
use crate::fields::Fields;
use crate::ids::{ClientMsgId, ConversationId, UserId};
use crate::limits::{EPOCH_MAX, GROUP_CHANGE_MEMBERS_MAX};
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(extend(
        "dependencies" = {
            "epoch": ["commit", "welcome", "group_info", "tree"],
            "commit": ["epoch", "welcome", "group_info", "tree"],
            "welcome": ["epoch", "commit", "group_info", "tree"],
            "group_info": ["epoch", "commit", "welcome", "tree"],
            "tree": ["epoch", "commit", "welcome", "group_info"]
        }
    ))
)]
pub struct AddRequest {
    pub conversation_id: ConversationId,
    /// The idempotency key: unique per sender and conversation, across all actions.
    pub client_msg_id: ClientMsgId,
    #[cfg_attr(
        feature = "schema",
        schemars(length(min = 1, max = GROUP_CHANGE_MEMBERS_MAX), extend("uniqueItems" = true))
    )]
    pub members: Vec<UserId>,
    /// In a sealed group.
    #[serde(flatten)]
    pub keys: Option<Box<Rekeyed>>,
}

/// The commit of a change of a sealed group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rekeyed {
    /// The epoch that ends.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = EPOCH_MAX - 1)))]
    pub epoch: u64,
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::COMMIT_CHARS_MAX - 8)))]
    pub commit: Carried,
    /// For the devices of the users whom an `add` adds. Left out of a `remove`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::COMMIT_CHARS_MAX - 8)))]
    pub welcome: Option<Carried>,
    /// The group info of the epoch that begins.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::COMMIT_CHARS_MAX - 8)))]
    pub group_info: Bytes,
    /// The tree of that epoch.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::COMMIT_CHARS_MAX - 8)))]
    pub tree: Carried,
}

/// The outcome for each requested user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AddResult {
    /// The system entry about the addition. Its fields are left out if no user is new.
    #[serde(flatten)]
    pub entry: Option<SendResult>,
    pub added: Vec<UserId>,
    /// The users who were members before.
    pub already: Vec<UserId>,
    /// The users who could not be added. Left out if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_added: Vec<NotAdded>,
}

/// A user who could not be added, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotAdded {
    pub user_id: UserId,
    /// `left`: they left the group by themselves, and only they can come back, by `join`; after a first leave an admin can add them.
    /// `removed`: an admin removed them from the channel, and only an admin can add them. `limit_reached`: others have added them to as
    /// many channels as they may. Other reasons will come.
    pub reason: String,
}

impl AddRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let conversation_id = fields.required("conversation_id", ConversationId::parse)?;
        let client_msg_id = fields.required("client_msg_id", ClientMsgId::parse)?;
        let members = fields.users("members", 1, GROUP_CHANGE_MEMBERS_MAX)?.ok_or_else(|| fields.missing("members"))?;
        let keys = Rekeyed::parse(fields, true)?.map(Box::new);
        Ok(Self { conversation_id, client_msg_id, members, keys })
    }
}

impl Rekeyed {
    /// Reads the commit of an `add` or a `remove`. Returns `None` if none of its fields is there.
    pub(crate) fn parse(fields: &Fields, welcomes: bool) -> Result<Option<Self>, Refusal> {
        let has = |field: &&str| fields.get(field).is_some();
        if !["epoch", "commit", "welcome", "group_info", "tree"].iter().any(has) {
            return Ok(None);
        }
        if !welcomes && fields.get("welcome").is_some() {
            return Err(fields.wrong("welcome", "must be left out: the commit adds no device"));
        }
        let epoch = fields.integer("epoch", 1, EPOCH_MAX - 1)?.ok_or_else(|| fields.missing("epoch"))?;
        let mut parts = CarriedParts::of(fields);
        Ok(Some(Self {
            epoch,
            commit: parts.take("commit")?,
            welcome: welcomes.then(|| parts.take("welcome")).transpose()?,
            group_info: parts.bytes("group_info")?,
            tree: parts.take("tree")?,
        }))
    }
}
