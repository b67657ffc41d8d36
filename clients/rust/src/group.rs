//! What an app says of a message and of a group, before it is in the outbox.

use serde::{Deserialize, Serialize};
use wire::limits::{GROUP_CHANGE_MEMBERS_MAX, MENTIONS_MAX};
use wire::{
    AllowedTo, ConversationKind, HistoryFrom, JoinBy, Message, Seq, System, Target, Title, UserId, body_fits,
    mentions_fit,
};

use crate::Error;

/// Mentioned in a group, it names all members. Admins and the owner may.
pub const EVERYBODY: &str = "*";

/// A message that is to be sent. A text is one, too.
///
/// ```
/// use pigeonhole_client::{Draft, UserId};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let draft = Draft::new("hi @bob").mentions([UserId::parse("bob")?]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub(crate) body: String,
    pub(crate) reply_to: Option<Seq>,
    pub(crate) mentions: Vec<UserId>,
}

impl Draft {
    /// A message that says this.
    pub fn new(body: impl Into<String>) -> Self {
        Self { body: body.into(), reply_to: None, mentions: vec![] }
    }

    /// In answer to the message at `seq`.
    #[must_use]
    pub fn reply_to(mut self, seq: Seq) -> Self {
        self.reply_to = Some(seq);
        self
    }

    /// In a group: whom it names, at most 20, or [`EVERYBODY`].
    #[must_use]
    pub fn mentions(mut self, users: impl IntoIterator<Item = UserId>) -> Self {
        self.mentions = users.into_iter().collect();
        self
    }

    pub(crate) fn check(&self, target: &Target) -> Result<(), Error> {
        if !body_fits(&self.body) {
            return Err(Error::TooLarge);
        }
        if !self.mentions.is_empty()
            && let Target::Conversation(id) = target
            && id.is_channel()
        {
            let problem = "must be left out: this is a channel".to_owned();
            return Err(Error::Invalid { field: "mentions", problem });
        }
        check_users("mentions", &self.mentions, 0, MENTIONS_MAX)?;
        if mentions_fit(&self.mentions) {
            Ok(())
        } else {
            Err(Error::Invalid { field: "mentions", problem: "must be at most 3 KiB once written as JSON".to_owned() })
        }
    }
}

impl From<&str> for Draft {
    fn from(body: &str) -> Self {
        Self::new(body)
    }
}

impl From<String> for Draft {
    fn from(body: String) -> Self {
        Self::new(body)
    }
}

/// A group or a channel that is to be made.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct NewGroup {
    /// Which of the two.
    #[serde(default = "group", skip_serializing_if = "is_of_group")]
    pub kind: ConversationKind,
    /// What it is called.
    pub title: Title,
    /// Whoever else is in it from the beginning, at most 50.
    pub members: Vec<UserId>,
    /// From where on those who join see what was said.
    #[serde(default)]
    pub history: HistoryFrom,
    /// Who may write messages.
    #[serde(default)]
    pub post: AllowedTo,
    /// Who may add members.
    #[serde(default)]
    pub add: AllowedTo,
    /// Of a channel: who may join by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinBy>,
}

fn group() -> ConversationKind {
    ConversationKind::Group
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_of_group(kind: &ConversationKind) -> bool {
    *kind == ConversationKind::Group
}

impl NewGroup {
    /// One in which all may write and add, and who joins sees what comes from then on.
    pub fn new(title: Title, members: impl IntoIterator<Item = UserId>) -> Self {
        Self {
            kind: ConversationKind::Group,
            title,
            members: members.into_iter().collect(),
            history: HistoryFrom::default(),
            post: AllowedTo::default(),
            add: AllowedTo::default(),
            join: None,
        }
    }

    /// A channel, in which admins write and add, and nobody joins by themselves.
    pub fn channel(title: Title, members: impl IntoIterator<Item = UserId>) -> Self {
        Self {
            kind: ConversationKind::Channel,
            post: AllowedTo::Admins,
            add: AllowedTo::Admins,
            join: Some(JoinBy::Admins),
            ..Self::new(title, members)
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let invalid = |field, problem: &str| Err(Error::Invalid { field, problem: problem.to_owned() });
        if self.kind == ConversationKind::Direct {
            return invalid("kind", "must be that of a group or a channel");
        }
        if self.kind == ConversationKind::Group && self.join.is_some() {
            return invalid("join", "must be left out: this is no channel");
        }
        check_users("members", &self.members, 0, GROUP_CHANGE_MEMBERS_MAX)
    }
}

pub(crate) fn check_users(field: &'static str, users: &[UserId], min: usize, max: usize) -> Result<(), Error> {
    let is_repeated = users.iter().enumerate().any(|(place, user)| users.iter().skip(place + 1).any(|it| it == user));
    if is_repeated || !(min..=max).contains(&users.len()) {
        let problem = format!("must be {min} to {max} user ids, each of them once");
        return Err(Error::Invalid { field, problem });
    }
    Ok(())
}

/// What an entry of a group says of who is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Joins,
    Leaves,
}

/// Whether the user joins or leaves with this entry.
pub(crate) fn turn_of(entry: &Message, user: &UserId) -> Option<Turn> {
    match entry.system.as_ref()? {
        System::Created { members, .. } | System::MembersAdded { members } if members.contains(user) => {
            Some(Turn::Joins)
        }
        System::MembersRemoved { members } if members.contains(user) => Some(Turn::Leaves),
        System::MemberLeft {} if entry.sender_id == *user => Some(Turn::Leaves),
        System::Created { .. }
        | System::MembersAdded { .. }
        | System::MembersRemoved { .. }
        | System::MemberLeft {}
        | System::RoleChanged { .. }
        | System::InfoChanged { .. }
        | System::Later(_) => None,
    }
}
