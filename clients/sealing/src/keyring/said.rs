//! The words of a [`Keyring`](super::Keyring): its requests, its outcomes and its notices.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wire::{
    Attached, Bytes, ClientMsgId, ConversationId, Data, DeviceId, Emoji, Kind, MediaId, Message, Rekeyed, Seq,
    Timestamp, UserId,
};

pub use super::rows::Part;
use crate::envelope::Envelope;
use crate::error::Result;
use crate::group::Opened;

/// The name of a request, for its answer. A repetition has the same name and the same fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RequestKey {
    /// `list_keys`.
    ListKeys,
    /// `publish_keys`.
    PublishKeys,
    /// `remove_keys` of this device.
    RemoveKeys(DeviceId),
    /// `group_info` of this conversation.
    GroupInfo(ConversationId),
    /// `history` with the last birth of this conversation.
    Birth(ConversationId, Seq),
    /// `claim_keys` for a birth in this conversation.
    Claim(ConversationId, ClientMsgId),
    /// `commit` in this conversation.
    Commit(ConversationId, ClientMsgId),
    /// `members` of this group, from here on.
    Members(ConversationId, Option<UserId>),
}

impl RequestKey {
    /// Returns the conversation of the request.
    pub fn conversation(&self) -> Option<&ConversationId> {
        match self {
            Self::ListKeys | Self::PublishKeys | Self::RemoveKeys(_) => None,
            Self::GroupInfo(id)
            | Self::Birth(id, _)
            | Self::Claim(id, _)
            | Self::Commit(id, _)
            | Self::Members(id, _) => Some(id),
        }
    }
}

/// A conversation, by its other user or by its id.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Party {
    /// The direct conversation with this user.
    User(UserId),
    /// The conversation with this id, such as a group.
    Conversation(ConversationId),
}

impl From<&UserId> for Party {
    fn from(user: &UserId) -> Self {
        Self::User(user.clone())
    }
}

impl From<&ConversationId> for Party {
    fn from(id: &ConversationId) -> Self {
        Self::Conversation(id.clone())
    }
}

/// A change of a group's members.
#[derive(Clone, Copy, Debug)]
pub enum Roll<'a> {
    /// Adds users.
    Add(&'a [UserId]),
    /// Removes a member.
    Remove(&'a UserId),
}

/// How a change of a group's members leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prepared {
    /// As it is: the group is not encrypted, or this device has no part in it.
    Plain,
    /// With this commit.
    Ready(Box<Rekeyed>),
    /// Not now: requests are under way.
    Waits,
    /// Not before the user accepts the new identity of this verified user.
    Held(UserId),
    /// Never. The code, such as `no_keys`, and the users whom it is about.
    Refused(String, Vec<UserId>),
}

/// A part of a commit, for an upload of kind `sealed`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Upload {
    /// The conversation.
    pub conversation_id: ConversationId,
    /// The commit.
    pub client_msg_id: ClientMsgId,
    /// The part.
    pub part: Part,
    /// The bytes, as they are.
    pub bytes: Vec<u8>,
}

/// A file to download.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fetch {
    /// The conversation.
    pub conversation_id: ConversationId,
    /// The file.
    pub media_id: MediaId,
    /// Its length.
    pub bytes: u64,
    /// The digest of its bytes, in base64.
    pub sha256: String,
}

/// The outcome of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Taken {
    /// The entry's place in the app.
    pub shown: Shown,
    /// The changes that the client tells its user.
    pub notices: Vec<Notice>,
}

/// The outcome of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answered {
    /// The changes that the client tells its user.
    pub notices: Vec<Notice>,
    /// The entry of an own commit. The server sends it to other connections only, so the client puts it into the log itself.
    pub entry: Option<Box<Message>>,
}

/// The outcome of an entry for the app.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// A message, an edit or a reaction. A sealed one has an `epoch`, and the `client_msg_id` that its author signed.
    Plain {
        /// The entry, in the form of a plain one.
        message: Box<Message>,
        /// The `client_msg_id` of the target, as the author of an edit or a reaction names it.
        names: Option<ClientMsgId>,
        /// The proof for a report. The keys are gone, so the client keeps the proof with the message.
        proof: Option<Box<wire::Opened>>,
    },
    /// A message that this device sealed: the client has its text.
    Own,
    /// A commit, or an entry that the keyring has taken before.
    Nothing,
    /// An entry that can't be judged yet, or one behind a gap. The client takes the same entry again after the next
    /// answer, or after the entries between.
    Later,
    /// An entry without a text.
    Unreadable(Why),
}

/// The reason why an entry has no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The device joined later.
    BeforeJoin,
    /// The entry does not open, or its bytes are of another place: any user or the server can have made it.
    Forged,
    /// A commit before this entry can't be followed, or the opened plaintext is no envelope.
    Broken,
    /// The entry is plain, in a conversation that takes sealed entries only.
    PlainBehindBirth,
}

/// A change that the user of this device should know of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// The user has another identity. If the former was verified, messages wait for the user of this device.
    IdentityChanged {
        /// The user.
        user: UserId,
    },
    /// A device has come into the conversation.
    DeviceAdded {
        /// The conversation.
        conversation_id: ConversationId,
        /// The user of the device.
        user: UserId,
        /// The device.
        device: DeviceId,
    },
    /// A device has left the conversation.
    DeviceRemoved {
        /// The conversation.
        conversation_id: ConversationId,
        /// The user of the device.
        user: UserId,
        /// The device.
        device: DeviceId,
    },
    /// This device reads the entries behind this one.
    Joined {
        /// The conversation.
        conversation_id: ConversationId,
        /// The entry by which the device joined.
        from_seq: Seq,
    },
    /// The conversation has begun with new keys, by this user.
    Reset {
        /// The conversation.
        conversation_id: ConversationId,
        /// The user.
        by: UserId,
    },
    /// The device can't follow the commit of this entry. The device resets the conversation, at most once a day.
    Broken {
        /// The conversation.
        conversation_id: ConversationId,
        /// The entry.
        seq: Seq,
    },
    /// A message had the mark of another epoch: a sign of a fork, or a forgery.
    WrongMark {
        /// The conversation.
        conversation_id: ConversationId,
        /// How many there were.
        count: u64,
    },
    /// These members have no device with keys, and can't read the group.
    WithoutKeys {
        /// The group.
        conversation_id: ConversationId,
        /// The members.
        users: Vec<UserId>,
    },
    /// The device joined by its last resort, while the directory had other packages of it.
    LastResort {
        /// The conversation.
        conversation_id: ConversationId,
    },
    /// The keys directory has a device of this user with another identity.
    UnknownDevice {
        /// The device.
        device: DeviceId,
    },
    /// The server refuses the keys of this device.
    KeysRefused {
        /// The error's code, such as `device_limit`.
        code: String,
    },
}

/// Whether a message can be sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Readiness {
    /// Now.
    Ready,
    /// Requests are under way, or the log goes on behind the position.
    Waits,
    /// Not before the user accepts the new identity of this verified user.
    Held(UserId),
    /// The server refused with this code, such as `no_keys`. The next connection, or a few minutes, begin again.
    Refused(String),
}

/// A sealed message, as the request has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// The epoch.
    pub epoch: u64,
    /// The bytes, in base64.
    pub body: String,
    /// The entry does not count: it is an edit or a reaction.
    pub silent: bool,
    /// The digest for a report, where the server asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frank: Option<Bytes>,
    /// The upload of the message's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_id: Option<MediaId>,
}

/// The state of a conversation, for its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lock {
    /// The messages are in the clear.
    Plain,
    /// New messages are sealed.
    Sealed,
    /// A verified user has another identity.
    Changed,
    /// The conversation is sealed, and this device has no part in it yet.
    Joining,
}

/// A device of this user, by the keys directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnDevice {
    /// The device.
    pub device: DeviceId,
    /// The credential has this user's identity. Members verify its signature when the device joins.
    pub known: bool,
    /// The packages that it has left.
    pub left: u64,
    /// The day on which the device last came.
    pub seen_at: Timestamp,
}

const DATA: &str = "data";

/// Returns the app's own object. One beyond the limits, which no client of ours sends, is none.
fn data(envelope: &Envelope) -> Option<Data> {
    let data = Data::from(envelope.fields.get(DATA)?.as_object()?.clone());
    data.check(&envelope.body).is_ok().then_some(data)
}

/// Returns the entry with the content of an opened envelope, and the `client_msg_id` of its target.
///
/// # Errors
/// The message has no file, or not that of its entry.
pub(super) fn plain(
    entry: &Message,
    envelope: &Envelope,
    Opened { client_msg_id: id, plaintext, .. }: Opened,
) -> Result<Shown> {
    let object = |name: &str| envelope.fields.get(name).and_then(Value::as_object);
    let seq = |name| object(name)?.get("seq")?.as_u64().and_then(Seq::new);
    let names = object("to").and_then(|to| ClientMsgId::parse(to.get("client_msg_id")?.as_str()?).ok());
    // A change that names none has its own id here, which is no target's.
    let target_id = Some(Box::new(names.clone().unwrap_or_else(|| id.clone())));
    let mut message = Message::text(
        entry.conversation_id.clone(),
        entry.seq,
        entry.message_id.clone(),
        entry.sender_id.clone(),
        envelope.body.clone(),
        entry.sent_at,
    );
    message.client_msg_id = Some(id);
    message.epoch = entry.epoch;
    message.silent = entry.silent;
    message.kind = Kind::stored(&envelope.kind);
    match message.kind {
        Kind::Text | Kind::Image | Kind::Voice | Kind::File | Kind::Own(_) => {
            message.reply_to = seq("reply_to");
            message.data = data(envelope);
            let mentions = envelope.fields.get("mentions").and_then(Value::as_array).into_iter().flatten();
            message.mentions = mentions.filter_map(|user| UserId::parse(user.as_str()?).ok()).collect();
            if !matches!(message.kind, Kind::Text | Kind::Own(_)) {
                let (kind, media) = envelope.media(entry.media.as_deref().map(Attached::media_id))?;
                (message.kind, message.media) = (kind, Some(Box::new(Attached::Clear(media))));
            }
        }
        Kind::Edit => {
            message.target_seq = seq("to");
            message.target_id.clone_from(&target_id);
            message.data = data(envelope);
            message.keeps_data = !envelope.fields.contains_key(DATA);
            message.version = Some(entry.seq.value());
            message.edited_at = Some(entry.sent_at);
        }
        Kind::Reaction => {
            message.target_seq = seq("to");
            message.target_id.clone_from(&target_id);
            let emoji = envelope.fields.get("emoji").and_then(Value::as_str);
            message.emoji = emoji.and_then(|emoji| Emoji::parse(emoji).ok());
        }
        // A kind of a later version is shown by none. `delete` and `system` are the server's, never an author's.
        _ => message.kind = Kind::Other(envelope.kind.clone()),
    }
    let key = envelope.frank_key().map(|key| Bytes::from(key.to_vec()));
    let proof = key.map(|key| Box::new(wire::Opened { seq: entry.seq, key, plaintext: plaintext.into() }));
    Ok(Shown::Plain { message: Box::new(message), names, proof })
}
