//! Groups: who may do what in one, and what happened to it.

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use crate::ids::{InvalidId, UserId};
use crate::limits::{TITLE_BYTES_MAX, TITLE_CHARS_MAX};

/// What a member of a group may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum Role {
    // There is one.
    Owner,
    Admin,
    Member,
    // Who was removed or has left.
    None,
}

/// Who of a group may do something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum AllowedTo {
    #[default]
    All,
    // Admins and the owner.
    Admins,
}

/// Who of those who know a channel's id may join it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum JoinBy {
    // Everybody, by themselves.
    Open,
    // Those whom somebody adds.
    #[default]
    Admins,
}

/// From where on those who join see what was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum HistoryFrom {
    #[default]
    Joined,
    All,
}

/// What a group is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transparent))]
pub struct Title(#[cfg_attr(feature = "schema", schemars(length(min = 1, max = TITLE_CHARS_MAX)))] String);

impl Title {
    /// Takes the text if it has the form that the type promises.
    ///
    /// # Errors
    /// [`InvalidId`] says what the form is.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let chars = text.chars().take(TITLE_CHARS_MAX + 1).count();
        if !(1..=TITLE_CHARS_MAX).contains(&chars) || text.len() > TITLE_BYTES_MAX {
            let form =
                format!("must be 1 to {TITLE_CHARS_MAX} characters, and at most {TITLE_BYTES_MAX} bytes of UTF-8");
            return Err(InvalidId::new(form));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Title {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// What happened to a group: the entry's `sender_id` did it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum System {
    /// The creator is the first of the members.
    #[serde(rename = "created")]
    Created {
        title: Title,
        #[cfg_attr(feature = "schema", schemars(length(min = 1, max = crate::limits::GROUP_CHANGE_MEMBERS_MAX + 1)))]
        members: Vec<UserId>,
    },
    #[serde(rename = "members.added")]
    MembersAdded {
        #[cfg_attr(feature = "schema", schemars(length(min = 1, max = crate::limits::GROUP_CHANGE_MEMBERS_MAX)))]
        members: Vec<UserId>,
    },
    #[serde(rename = "members.removed")]
    MembersRemoved {
        #[cfg_attr(feature = "schema", schemars(length(min = 1, max = crate::limits::GROUP_CHANGE_MEMBERS_MAX)))]
        members: Vec<UserId>,
    },
    #[serde(rename = "member.left")]
    MemberLeft {},
    /// Who gives the group away, `role` being `owner`, is an admin from then on.
    #[serde(rename = "role.changed")]
    RoleChanged { user_id: UserId, role: Role },
    /// What it has now of that which was changed.
    #[serde(rename = "info.changed")]
    InfoChanged {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<Title>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        history: Option<HistoryFrom>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        post: Option<AllowedTo>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        add: Option<AllowedTo>,
        /// Of a channel.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        join: Option<JoinBy>,
    },
    /// One that came later.
    #[serde(untagged)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Later(Value),
}

/// What can be changed of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Info {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Title>,
    /// For those who join from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryFrom>,
    /// Who may write messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post: Option<AllowedTo>,
    /// Who may add members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<AllowedTo>,
    /// Of a channel: who may join by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinBy>,
}

impl From<Info> for System {
    fn from(Info { title, history, post, add, join }: Info) -> Self {
        Self::InfoChanged { title, history, post, add, join }
    }
}

impl Role {
    /// Reads what a client wrote.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "owner" => Some(Self::Owner),
            "admin" => Some(Self::Admin),
            "member" => Some(Self::Member),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Admin => "admin",
            Self::Member => "member",
            Self::None => "none",
        }
    }
}

impl AllowedTo {
    /// Reads what a client wrote, or what was stored.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "all" => Some(Self::All),
            "admins" => Some(Self::Admins),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Admins => "admins",
        }
    }
}

impl JoinBy {
    /// Reads what a client wrote, or what was stored.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "open" => Some(Self::Open),
            "admins" => Some(Self::Admins),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Admins => "admins",
        }
    }
}

impl HistoryFrom {
    /// Reads what a client wrote, or what was stored.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "joined" => Some(Self::Joined),
            "all" => Some(Self::All),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::All => "all",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_happened_is_read_as_it_is_written_and_a_later_event_is_kept() {
        for system in [
            json!({"event": "created", "title": "Trip", "members": ["alice", "bob"]}),
            json!({"event": "member.left"}),
            json!({"event": "role.changed", "user_id": "bob", "role": "admin"}),
            json!({"event": "info.changed", "post": "admins"}),
            json!({"event": "info.changed", "join": "open"}),
            json!({"event": "picture.changed", "url": "x"}),
        ] {
            let read: System = serde_json::from_value(system.clone()).unwrap();
            assert_eq!(matches!(read, System::Later(_)), system["event"] == "picture.changed");
            assert_eq!(serde_json::to_value(read).unwrap(), system);
        }
    }

    #[test]
    fn a_title_has_so_many_characters_and_bytes() {
        assert!(Title::parse("").is_err());
        assert!(Title::parse(&"x".repeat(64)).is_ok());
        assert!(Title::parse(&"x".repeat(65)).is_err());
        assert!(Title::parse(&"€".repeat(64)).is_ok());
        assert!(Title::parse(&"👍".repeat(48)).is_ok());
        assert!(Title::parse(&"👍".repeat(49)).is_err());
    }
}
