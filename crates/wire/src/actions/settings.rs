//! `settings`: what a user has set for a conversation, or for another user.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::fields::Fields;
use crate::ids::{ConversationId, UserId};
use crate::refusal::Refusal;
use crate::time::Timestamp;

/// The conversation or the user that the settings are for, and the settings. A setting that is left out stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Settings {
    /// For a conversation that the user is a member of.
    #[cfg_attr(feature = "schema", schemars(extend("not" = {"required": ["user_id"]})))]
    Conversation { conversation_id: ConversationId, set: ConversationSettings },
    /// For another user, also before the first message.
    #[cfg_attr(feature = "schema", schemars(extend("not" = {"required": ["conversation_id"]})))]
    User { user_id: UserId, set: UserSettings },
}

/// Settings for a conversation: at least one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(extend("minProperties" = 1)))]
pub struct ConversationSettings {
    /// Until then the conversation sends no push, except for mentions. `null`: not muted.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("nullable" = true)))]
    pub muted_until: Option<Option<MutedUntil>>,
    /// While the group is muted, a message that mentions the user sends no push either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mute_mentions: Option<bool>,
    /// Hidden in the chat list until the next message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    /// Shown as unread until the next `read`, whatever the marks are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<bool>,
    /// At the top of the chat list, the one pinned last first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
}

/// Settings for another user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UserSettings {
    /// Neither can write to the other, nor see the other's ticks.
    pub blocked: bool,
}

/// How long a conversation is muted, or a member restricted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MutedUntil {
    At(Timestamp),
    Forever,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingsResult {}

impl Settings {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let user = fields.optional("user_id", UserId::parse)?;
        let conversation = fields.optional("conversation_id", ConversationId::parse)?;
        let object = fields.get("set").ok_or_else(|| fields.missing("set"))?.as_object();
        let set = Fields { object: object.ok_or_else(|| fields.wrong("set", "must be an object"))?, path: "set." };
        match (user, conversation) {
            (Some(user_id), None) => {
                let blocked = set.boolean("blocked")?.ok_or_else(|| set.missing("blocked"))?;
                Ok(Self::User { user_id, set: UserSettings { blocked } })
            }
            (None, Some(conversation_id)) => {
                let (muted_until, mute_mentions) = (muted_until(&set)?, set.boolean("mute_mentions")?);
                let (archived, unread, pinned) =
                    (set.boolean("archived")?, set.boolean("unread")?, set.boolean("pinned")?);
                let set = ConversationSettings { muted_until, mute_mentions, archived, unread, pinned };
                if set == ConversationSettings::default() {
                    return Err(fields.wrong("set", "must have muted_until, mute_mentions, archived, unread or pinned"));
                }
                Ok(Self::Conversation { conversation_id, set })
            }
            (Some(_), Some(_)) => Err(fields.wrong("user_id", "must be left out if conversation_id is set")),
            (None, None) => Err(fields.wrong("user_id", "is missing; set it to a user, or set conversation_id")),
        }
    }
}

#[expect(clippy::option_option, reason = "left out, null and a time are three things")]
fn muted_until(set: &Fields) -> Result<Option<Option<MutedUntil>>, Refusal> {
    if !set.object.contains_key("muted_until") {
        return Ok(None);
    }
    let problem = "must be a time in RFC 3339, \"forever\" or null";
    set.optional("muted_until", |text| MutedUntil::parse(text).ok_or(problem)).map(Some)
}

impl MutedUntil {
    /// Whether it lasts beyond that time.
    pub fn is_after(self, now: Timestamp) -> bool {
        match self {
            Self::At(until) => until > now,
            Self::Forever => true,
        }
    }

    /// Reads what a client wrote, or what was stored.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "forever" { Some(Self::Forever) } else { Timestamp::parse(text).map(Self::At) }
    }
}

impl fmt::Display for MutedUntil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(at) => at.fmt(f),
            Self::Forever => f.write_str("forever"),
        }
    }
}

impl Serialize for MutedUntil {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MutedUntil {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("must be a time in RFC 3339 or \"forever\""))
    }
}

/// Tells a `null` from what was left out.
pub(crate) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for MutedUntil {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MutedUntil".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let at = generator.subschema_for::<Timestamp>();
        schemars::json_schema!({"description": "How long a conversation is muted, or a member restricted.", "oneOf": [at, {"type": "string", "const": "forever"}]})
    }
}
