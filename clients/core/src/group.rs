//! Drafts of messages and the settings of groups, before they enter the outbox.

use serde::{Deserialize, Serialize};
use wire::limits::{GROUP_CHANGE_MEMBERS_MAX, MENTIONS_MAX, THUMBNAIL_BYTES_MAX};
use wire::{
    AllowedTo, ClientMsgId, ConversationKind, CreateRequest, Data, HistoryFrom, JoinBy, Kind, Look, Message, Rings,
    Role, Seq, System, Target, Title, UserId, body_fits, check_own, mentions_fit,
};

use crate::Error;
use crate::media::About;

/// Mentioned in a group, it names all members. Admins and the owner may.
pub const EVERYBODY: &str = "*";

/// A message that is to be sent. A text is one, too.
///
/// ```
/// use pigeonhole_core::Draft;
/// use wire::UserId;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let draft = Draft::new("hi @bob").mentions([UserId::parse("bob")?]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Draft {
    /// The text. Apps that do not know an own kind show it. A silent one has none.
    pub body: String,
    /// The message that this one replies to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Seq>,
    /// The mentioned users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<UserId>,
    /// The app's own kind. `None`: a text, or the kind of the attachment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// The app's own object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
}

impl Draft {
    /// Creates a message with this text.
    pub fn new(body: impl Into<String>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    /// Creates a message of the app's own kind: `x-NAME`, or `xs-NAME`, which is silent and has no text. Apps that do not
    /// know the kind show `body`.
    ///
    /// ```
    /// use pigeonhole_core::Draft;
    /// use serde_json::json;
    ///
    /// let data = json!({"options": ["tea", "coffee"]});
    /// let poll = Draft::own("x-poll", "Tea or coffee?", data.as_object().cloned().unwrap_or_default());
    /// ```
    pub fn own(kind: &str, body: impl Into<String>, data: impl Into<Data>) -> Self {
        Self { kind: Some(Kind::stored(kind)), ..Self::new(body).data(data) }
    }

    /// Adds the app's own object, at most 2,048 bytes of JSON.
    #[must_use]
    pub fn data(mut self, data: impl Into<Data>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// Makes the message a reply to the message at `seq`.
    #[must_use]
    pub fn reply_to(mut self, seq: Seq) -> Self {
        self.reply_to = Some(seq);
        self
    }

    /// Sets the mentioned users, in a group: at most 20, or [`EVERYBODY`].
    #[must_use]
    pub fn mentions(mut self, users: impl IntoIterator<Item = UserId>) -> Self {
        self.mentions = users.into_iter().collect();
        self
    }

    /// Checks the limits of the text, the mentions, the kind and the data.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Invalid`], or a refusal as the server's.
    pub fn check(&self, target: &Target) -> Result<(), Error> {
        if !body_fits(&self.body) {
            return Err(Error::TooLarge);
        }
        if let Some(kind) = &self.kind {
            if !matches!(kind, Kind::Own(_)) {
                let problem = "must be x- or xs-, and a name of 1 to 29 of a-z0-9.-".to_owned();
                return Err(Error::Invalid { field: "kind", problem });
            }
            check_own(kind, &self.body, self.data.as_ref())?;
        }
        if let Some(data) = &self.data {
            data.check(&self.body)?;
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

impl Draft {
    /// As [`check`](Self::check), for the text beside an attachment.
    ///
    /// # Errors
    /// Also [`Error::Invalid`]: it has a kind of the app's own, or the file's thumbnail is too large.
    pub fn check_beside_media(&self, about: &About, target: &Target) -> Result<(), Error> {
        if self.kind.is_some() {
            return Err(Error::Invalid { field: "media", problem: "must be left out of an own kind".to_owned() });
        }
        // Its readers would not show the message.
        if about.thumbnail.as_ref().is_some_and(|image| !(1..=THUMBNAIL_BYTES_MAX).contains(&image.as_slice().len())) {
            let problem = format!("must be 1 to {THUMBNAIL_BYTES_MAX} bytes");
            return Err(Error::Invalid { field: "thumbnail", problem });
        }
        self.check(target)
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

/// The new content of a message. A text alone keeps the message's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edited {
    /// The text.
    pub body: String,
    /// The app's own object. `None`: the message keeps it; `Some(None)`: the message has none from now on.
    pub data: Option<Option<Data>>,
}

impl From<&str> for Edited {
    fn from(body: &str) -> Self {
        Self { body: body.to_owned(), data: None }
    }
}

impl From<String> for Edited {
    fn from(body: String) -> Self {
        Self { body, data: None }
    }
}

/// A group or a channel that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGroup {
    /// Which of the two.
    pub kind: ConversationKind,
    /// The group's title.
    pub title: Title,
    /// The other members at the start, at most 50.
    pub members: Vec<UserId>,
    /// Whether new members see earlier entries.
    pub history: HistoryFrom,
    /// The members who may write messages.
    pub post: AllowedTo,
    /// The members who may add members.
    pub add: AllowedTo,
    /// In a channel: whether users may join without an admin.
    pub join: Option<JoinBy>,
    /// In a channel: whether its messages send push notifications.
    pub rings: Option<Rings>,
    /// Whether a group is encrypted, which a channel is not. `None`: if the client has keys.
    pub encrypted: Option<bool>,
    /// The description, and the app's own data.
    pub look: Look,
}

impl NewGroup {
    /// Creates a group in which all members may write and add members, and new members see only later entries.
    pub fn new(title: Title, members: impl IntoIterator<Item = UserId>) -> Self {
        Self {
            kind: ConversationKind::Group,
            title,
            members: members.into_iter().collect(),
            history: HistoryFrom::default(),
            post: AllowedTo::default(),
            add: AllowedTo::default(),
            join: None,
            rings: None,
            encrypted: None,
            look: Look::default(),
        }
    }

    /// Creates a channel in which only admins write and add members, and no user can join without an admin.
    pub fn channel(title: Title, members: impl IntoIterator<Item = UserId>) -> Self {
        Self {
            kind: ConversationKind::Channel,
            post: AllowedTo::Admins,
            add: AllowedTo::Admins,
            join: Some(JoinBy::Admins),
            encrypted: Some(false),
            ..Self::new(title, members)
        }
    }

    /// Returns the request that creates it. `has_keys`: the client has encryption.
    pub fn request(self, client_msg_id: ClientMsgId, has_keys: bool) -> CreateRequest {
        let encrypted = self.is_encrypted(has_keys);
        let Self { kind, title, members, history, post, add, join, rings, encrypted: _, look } = self;
        let look = Box::new(look);
        CreateRequest { client_msg_id, kind, title, members, history, post, add, join, rings, encrypted, look }
    }

    fn is_encrypted(&self, has_keys: bool) -> bool {
        self.encrypted.unwrap_or(has_keys)
    }

    /// Checks what the server would refuse. `has_keys`: the client has encryption.
    ///
    /// # Errors
    /// [`Error::Invalid`]. [`Error::Config`]: the group is to be encrypted, and the client has no keys.
    pub fn check(&self, has_keys: bool) -> Result<(), Error> {
        let invalid = |field, problem: &str| Err(Error::Invalid { field, problem: problem.to_owned() });
        if self.kind == ConversationKind::Direct {
            return invalid("kind", "must be that of a group or a channel");
        }
        if self.kind == ConversationKind::Group && (self.join.is_some() || self.rings.is_some()) {
            let field = if self.join.is_some() { "join" } else { "rings" };
            return invalid(field, "must be left out: this is no channel");
        }
        if self.is_encrypted(has_keys) {
            if self.kind == ConversationKind::Channel {
                return invalid("encrypted", "must be false: a channel is not encrypted");
            }
            if self.members.iter().any(UserId::is_service) {
                return invalid("members", "must be no services, unless `encrypted` is false");
            }
            if !has_keys {
                return Err(Error::Config("the client has no keys for an encrypted group".to_owned()));
            }
        }
        check_users("members", &self.members, 0, GROUP_CHANGE_MEMBERS_MAX)
    }
}

/// Checks that a list has `min` to `max` users, and each of them once.
///
/// # Errors
/// [`Error::Invalid`], with the name of the field.
pub fn check_users(field: &'static str, users: &[UserId], min: usize, max: usize) -> Result<(), Error> {
    let is_repeated = users.iter().enumerate().any(|(place, user)| users.iter().skip(place + 1).any(|it| it == user));
    if is_repeated || !(min..=max).contains(&users.len()) {
        let problem = format!("must be {min} to {max} user ids, each of them once");
        return Err(Error::Invalid { field, problem });
    }
    Ok(())
}

/// The change of membership that an entry of a group records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Joins,
    Leaves,
}

/// Whether the user joins or leaves with this entry.
pub(crate) fn turn_of(entry: &Message, user: &UserId) -> Option<Turn> {
    if joiners(entry).contains(user) {
        return Some(Turn::Joins);
    }
    leavers(entry).contains(user).then_some(Turn::Leaves)
}

/// Returns the users who join with this entry.
pub(crate) fn joiners(entry: &Message) -> &[UserId] {
    match &entry.system {
        Some(System::Created { members, .. } | System::MembersAdded { members }) => members,
        _ => &[],
    }
}

/// Returns the users who leave with this entry.
pub(crate) fn leavers(entry: &Message) -> &[UserId] {
    match &entry.system {
        Some(System::MembersRemoved { members }) => members,
        Some(System::MemberLeft {}) => std::slice::from_ref(&entry.sender_id),
        _ => &[],
    }
}

/// Returns the users whose role an entry of a group changes, with their new roles. Users who leave have none then.
pub(crate) fn roles_of(entry: &Message) -> Vec<(&UserId, Role)> {
    if let Some(System::RoleChanged { user_id, role }) = &entry.system {
        // The owner who makes another member the owner is an admin then.
        let before = (*role == Role::Owner).then_some((&entry.sender_id, Role::Admin));
        return std::iter::once((user_id, *role)).chain(before).collect();
    }
    let is_creator = |user: &UserId| matches!(entry.system, Some(System::Created { .. })) && *user == entry.sender_id;
    let role_of = |user| if is_creator(user) { Role::Owner } else { Role::Member };
    let joined = joiners(entry).iter().map(|user| (user, role_of(user)));
    joined.chain(leavers(entry).iter().map(|user| (user, Role::None))).collect()
}
