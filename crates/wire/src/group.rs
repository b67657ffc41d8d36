//! Groups: who may do what in one, and what happened to it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actions::MutedUntil;
use crate::ids::{InvalidId, UserId};
use crate::limits::{TITLE_BYTES_MAX, TITLE_CHARS_MAX};
use crate::look::Look;
use crate::text::{breaks_out, is_visible};

/// The role of a member, which decides what the member may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum Role {
    // There is one.
    Owner,
    Admin,
    Member,
    // A user who was removed or has left.
    None,
}

/// The members of a group who may do something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum AllowedTo {
    #[default]
    All,
    // Admins and the owner.
    Admins,
}

/// The users who may join a channel whose id they know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum JoinBy {
    // Any user, without an invitation.
    Open,
    // Only users whom a member adds.
    #[default]
    Admins,
}

/// Whether messages of a channel send push notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum Rings {
    #[default]
    Off,
    // To the members whom a message mentions.
    Mentions,
}

/// The entries that a new member sees: those from the join on, or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum HistoryFrom {
    #[default]
    Joined,
    All,
}

/// The title of a group. A title of a stored entry is not checked: an earlier version accepted characters that are
/// forbidden now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transparent))]
pub struct Title(
    #[cfg_attr(
        feature = "schema",
        schemars(length(min = 1, max = TITLE_CHARS_MAX), regex(pattern = crate::text::schema::TITLE))
    )]
    String,
);

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
        if text.contains(breaks_out) || !is_visible(text) {
            let form =
                "must have a character that shows, and no control characters, line breaks and overrides of direction";
            return Err(InvalidId::new(form.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The event of a system entry, whose `sender_id` caused it.
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
        /// The parts of the look that were set.
        #[serde(flatten)]
        look: Box<Look>,
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
    /// The role of `user_id` changed. If `role` is `owner`, the former owner is an admin from then on.
    #[serde(rename = "role.changed")]
    RoleChanged { user_id: UserId, role: Role },
    /// `user_id` may only read until then. Without `until` the restriction ended.
    #[serde(rename = "member.restricted")]
    MemberRestricted {
        user_id: UserId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<MutedUntil>,
    },
    /// The new values of the changed properties.
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
        /// In a channel only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        join: Option<JoinBy>,
        /// In a channel only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rings: Option<Rings>,
        #[serde(flatten)]
        look: Box<Look>,
    },
    /// A system entry of a later version.
    #[serde(untagged)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    Later(Value),
}

/// The properties of a group that a request can change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Info {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Title>,
    /// For those who join from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryFrom>,
    /// The members who may write messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post: Option<AllowedTo>,
    /// The members who may add others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<AllowedTo>,
    /// In a channel only: the users who may join by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinBy>,
    /// In a channel only: whether its messages send push notifications.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rings: Option<Rings>,
    #[serde(flatten)]
    pub look: Box<Look>,
}

impl From<Info> for System {
    fn from(Info { title, history, post, add, join, rings, look }: Info) -> Self {
        Self::InfoChanged { title, history, post, add, join, rings, look }
    }
}

impl System {
    /// Returns the event as lists of conversations show it: without the app's data.
    #[must_use]
    pub fn listed(mut self) -> Self {
        match &mut self {
            Self::Created { look, .. } | Self::InfoChanged { look, .. } => look.data = None,
            Self::MembersAdded { .. }
            | Self::MembersRemoved { .. }
            | Self::MemberLeft {}
            | Self::RoleChanged { .. }
            | Self::MemberRestricted { .. }
            | Self::Later(_) => {}
        }
        self
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

impl Rings {
    /// Reads what a client wrote, or what was stored.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "off" => Some(Self::Off),
            "mentions" => Some(Self::Mentions),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Mentions => "mentions",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_off(&self) -> bool {
        *self == Self::Off
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
            json!({"event": "member.restricted", "user_id": "bob", "until": "2027-01-19T10:00:00.000Z"}),
            json!({"event": "member.restricted", "user_id": "bob", "until": "forever"}),
            json!({"event": "member.restricted", "user_id": "bob"}),
            json!({"event": "info.changed", "post": "admins"}),
            json!({"event": "info.changed", "join": "open"}),
            json!({"event": "info.changed", "about": "Two weeks", "data": null}),
            json!({"event": "created", "title": "Trip", "members": [], "about": "a\nb", "data": {"x": [1]}}),
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

    #[test]
    fn a_title_stays_in_its_line_and_shows() {
        for bad in
            ["x” \n alice removed bob", "\0", "a\u{202e}b", "a\u{2067}b", "   ", "\u{200b}", "\u{3164}", "a\u{85}"]
        {
            assert!(Title::parse(bad).is_err(), "{bad:?}");
        }
        for good in [" a ", "آش\u{200c}پز", "שלום\u{200f}!", "👩‍👩‍👧‍👧 ❤️"] {
            assert!(Title::parse(good).is_ok(), "{good:?}");
        }
        // An earlier version stored it: the log is read all the same.
        let system = json!({"event": "created", "title": "a\nb", "members": ["alice"]});
        assert!(matches!(serde_json::from_value(system).unwrap(), System::Created { .. }));
    }
}
