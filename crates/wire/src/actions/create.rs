//! `create`: a group, or a channel.

use serde::{Deserialize, Serialize};

use super::add::NotAdded;
use super::send::SendResult;
use crate::fields::Fields;
use crate::group::{AllowedTo, HistoryFrom, JoinBy, Rings, Title};
use crate::ids::ConversationKind;
use crate::ids::{ClientMsgId, UserId};
use crate::limits::GROUP_CHANGE_MEMBERS_MAX;
use crate::look::Look;
use crate::refusal::Refusal;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreateRequest {
    /// The idempotency key: unique per user.
    pub client_msg_id: ClientMsgId,
    /// A channel has any number of members, who read it on demand.
    #[serde(skip_serializing_if = "ConversationKind::is_group")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "String", extend("enum" = ["group", "channel"], "default" = "group"))
    )]
    pub kind: ConversationKind,
    /// At most 192 bytes of UTF-8.
    pub title: Title,
    /// The other members from the first entry on.
    #[cfg_attr(feature = "schema", schemars(length(max = GROUP_CHANGE_MEMBERS_MAX), extend("uniqueItems" = true)))]
    pub members: Vec<UserId>,
    /// The entries that a new member sees: those from the join on, or all.
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "left_out", extend("default" = "joined")))]
    pub history: HistoryFrom,
    /// The members who may write messages. Default: all in a group, admins in a channel.
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "left_out"))]
    pub post: AllowedTo,
    /// The members who may add others. Default: as for `post`.
    #[cfg_attr(feature = "schema", schemars(skip_serializing_if = "left_out"))]
    pub add: AllowedTo,
    /// In a channel only: the users who may join by themselves. Default: no user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinBy>,
    /// In a channel only: whether its messages send push notifications. Default: `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rings: Option<Rings>,
    /// In a group only: encrypted messages only, from the first on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub encrypted: bool,
    #[serde(flatten)]
    pub look: Box<Look>,
}

/// The group is there, and its first entry says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreateResult {
    #[serde(flatten)]
    pub entry: SendResult,
    /// The users who could not be added to a channel. Left out if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_added: Vec<NotAdded>,
}

impl CreateRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let client_msg_id = fields.required("client_msg_id", ClientMsgId::parse)?;
        let title = fields.required("title", Title::parse)?;
        let members = fields.users("members", 0, GROUP_CHANGE_MEMBERS_MAX)?.ok_or_else(|| fields.missing("members"))?;
        let kind = fields.optional("kind", kind)?.unwrap_or(ConversationKind::Group);
        let unsaid = match kind {
            ConversationKind::Channel => AllowedTo::Admins,
            ConversationKind::Direct | ConversationKind::Group => AllowedTo::All,
        };
        let encrypted = fields.boolean("encrypted")?.unwrap_or_default();
        if encrypted && !ConversationKind::is_group(&kind) {
            return Err(fields.wrong("encrypted", "must be left out: a channel is not encrypted"));
        }
        Ok(Self {
            client_msg_id,
            kind,
            title,
            members,
            history: history(fields)?.unwrap_or_default(),
            post: allowed_to(fields, "post")?.unwrap_or(unsaid),
            add: allowed_to(fields, "add")?.unwrap_or(unsaid),
            join: join_by(fields)?,
            rings: rings(fields)?,
            encrypted,
            look: Box::new(Look::parse(fields)?.first()),
        })
    }
}

fn kind(text: &str) -> Result<ConversationKind, &'static str> {
    match text {
        "group" => Ok(ConversationKind::Group),
        "channel" => Ok(ConversationKind::Channel),
        _ => Err("must be \"group\" or \"channel\""),
    }
}

pub(super) fn join_by(fields: &Fields) -> Result<Option<JoinBy>, Refusal> {
    fields.optional("join", |text| JoinBy::parse(text).ok_or("must be \"open\" or \"admins\""))
}

pub(super) fn rings(fields: &Fields) -> Result<Option<Rings>, Refusal> {
    fields.optional("rings", |text| Rings::parse(text).ok_or("must be \"off\" or \"mentions\""))
}

pub(super) fn history(fields: &Fields) -> Result<Option<HistoryFrom>, Refusal> {
    fields.optional("history", |text| HistoryFrom::parse(text).ok_or("must be \"joined\" or \"all\""))
}

pub(super) fn allowed_to(fields: &Fields, field: &str) -> Result<Option<AllowedTo>, Refusal> {
    fields.optional(field, |text| AllowedTo::parse(text).ok_or("must be \"all\" or \"admins\""))
}
