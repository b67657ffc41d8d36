//! What outlives a restart: the messages and changes that were not answered yet, and how far each conversation has come.

mod file;
mod memory;

use std::collections::{BTreeMap, VecDeque};
use std::io;

use serde::{Deserialize, Serialize};
use wire::{ClientMsgId, ConversationId, Emoji, Info, MediaId, Role, Seq, Target, Timestamp, UserId};

use crate::group::{Draft, NewGroup};
use crate::media::Upload;

pub use file::FileStorage;
pub use memory::MemoryStorage;

/// A message, a change of one, or a change of a group, that waits for its answer.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Queued {
    /// The same at each try, so that the server stores it once.
    pub client_msg_id: ClientMsgId,
    /// What is to be stored.
    #[serde(flatten)]
    pub outgoing: Outgoing,
}

/// What the app wants stored.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outgoing {
    /// Another text for an own message.
    Edit {
        /// Where it is.
        conversation_id: ConversationId,
        /// The message.
        seq: Seq,
        /// What it is to say.
        body: String,
    },
    /// An own message, to be deleted for everybody.
    Delete {
        /// Where it is.
        conversation_id: ConversationId,
        /// The message.
        seq: Seq,
    },
    /// What the user reacts to a message with.
    React {
        /// Where it is.
        conversation_id: ConversationId,
        /// The message.
        seq: Seq,
        /// In the place of the one before. `None` takes that back.
        emoji: Option<Emoji>,
    },
    /// A group that is to be made.
    Create(NewGroup),
    /// More members of a group.
    Add {
        /// The group.
        conversation_id: ConversationId,
        /// Who is to be in it.
        members: Vec<UserId>,
    },
    /// A member that is to be removed from a group.
    Remove {
        /// The group.
        conversation_id: ConversationId,
        /// The member.
        user_id: UserId,
    },
    /// A group that the user leaves.
    Leave {
        /// The group.
        conversation_id: ConversationId,
    },
    /// What a member of a group may do.
    Role {
        /// The group.
        conversation_id: ConversationId,
        /// The member.
        user_id: UserId,
        /// With `owner`, the user hands the group over.
        role: Role,
    },
    /// What a group is called, and what its members may do.
    Update {
        /// The group.
        conversation_id: ConversationId,
        /// What is left out stays as it is.
        #[serde(flatten)]
        info: Info,
    },
    /// A message.
    #[serde(untagged)]
    Message {
        /// Whom it is for.
        target: Target,
        /// What it says.
        body: String,
        /// The message that it answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<Seq>,
        /// Whom it names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        mentions: Vec<UserId>,
        /// What it carries.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media: Option<Box<Upload>>,
    },
}

impl Outgoing {
    pub(crate) fn message(target: Target, Draft { body, reply_to, mentions }: Draft, media: Option<Upload>) -> Self {
        Self::Message { target, body, reply_to, mentions, media: media.map(Box::new) }
    }

    /// What it carries, if it is a message that does.
    pub fn upload(&self) -> Option<&Upload> {
        if let Self::Message { media, .. } = self { media.as_deref() } else { None }
    }

    pub(crate) fn upload_mut(&mut self) -> Option<&mut Upload> {
        if let Self::Message { media, .. } = self { media.as_deref_mut() } else { None }
    }

    /// Whom it is for. `None`: a group that is to be made.
    pub fn target(&self) -> Option<Target> {
        match self {
            Self::Message { target, .. } => Some(target.clone()),
            Self::Edit { conversation_id, .. }
            | Self::Delete { conversation_id, .. }
            | Self::React { conversation_id, .. }
            | Self::Add { conversation_id, .. }
            | Self::Remove { conversation_id, .. }
            | Self::Leave { conversation_id }
            | Self::Role { conversation_id, .. }
            | Self::Update { conversation_id, .. } => Some(Target::Conversation(conversation_id.clone())),
            Self::Create(_) => None,
        }
    }

    /// Of a change of a message: the seq of that.
    pub fn target_seq(&self) -> Option<Seq> {
        match self {
            Self::Edit { seq, .. } | Self::Delete { seq, .. } | Self::React { seq, .. } => Some(*seq),
            Self::Message { .. }
            | Self::Create(_)
            | Self::Add { .. }
            | Self::Remove { .. }
            | Self::Leave { .. }
            | Self::Role { .. }
            | Self::Update { .. } => None,
        }
    }

    /// What it says, if it is a text.
    pub fn body(&self) -> Option<&str> {
        match self {
            Self::Message { body, .. } | Self::Edit { body, .. } => Some(body),
            Self::Delete { .. }
            | Self::React { .. }
            | Self::Create(_)
            | Self::Add { .. }
            | Self::Remove { .. }
            | Self::Leave { .. }
            | Self::Role { .. }
            | Self::Update { .. } => None,
        }
    }
}

/// One thing to remember.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageChange {
    /// This message or change waits, after those that wait already.
    Queued(Queued),
    /// What has this `client_msg_id` no longer waits.
    Done(ClientMsgId),
    /// What the message with this `client_msg_id` carries is called so from now on.
    Uploading {
        /// The message.
        client_msg_id: ClientMsgId,
        /// `None`: it has to be uploaded anew.
        media_id: Option<MediaId>,
    },
    /// The app is done with everything of this conversation up to here. Only rises.
    Held {
        /// The conversation.
        conversation_id: ConversationId,
        /// Up to here, this one included.
        seq: Seq,
    },
    /// A time of the server's, up to which nothing is missing.
    CaughtUp(Timestamp),
}

/// All that is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Messages and changes that wait, oldest first.
    pub outbox: VecDeque<Queued>,
    /// For each conversation, the last seq that the app is done with.
    pub held: BTreeMap<ConversationId, Seq>,
    /// The last [`StorageChange::CaughtUp`].
    pub caught_up: Option<Timestamp>,
}

impl Saved {
    /// Brings one change in.
    pub fn apply(&mut self, change: &StorageChange) {
        match change {
            StorageChange::Queued(queued) => self.outbox.push_back(queued.clone()),
            StorageChange::Done(id) => {
                // Nearly always the first one.
                if let Some(at) = self.outbox.iter().position(|queued| queued.client_msg_id == *id) {
                    self.outbox.remove(at);
                }
            }
            StorageChange::Uploading { client_msg_id, media_id } => {
                let queued = self.outbox.iter_mut().find(|queued| queued.client_msg_id == *client_msg_id);
                if let Some(upload) = queued.and_then(|queued| queued.outgoing.upload_mut()) {
                    upload.media_id.clone_from(media_id);
                }
            }
            StorageChange::Held { conversation_id, seq } => {
                let held = self.held.entry(conversation_id.clone()).or_default();
                *held = (*held).max(*seq);
            }
            StorageChange::CaughtUp(at) => self.caught_up = Some(*at),
        }
    }
}

/// Where the client keeps what must outlive it. One client uses it at a time.
pub trait Storage: Send + 'static {
    /// Everything that was written before.
    ///
    /// # Errors
    /// Whatever keeps it from being read; there is no client then.
    fn load(&mut self) -> io::Result<Saved>;

    /// Where that has been put which could not be read; [`load`](Self::load) gives nothing then.
    fn set_aside(&self) -> Option<String> {
        None
    }

    /// Remembers these, in this order. Where one of them is [`StorageChange::Queued`], all are on the disk once this returns:
    /// what is lost of the others costs a message that is sent or shown a second time, never one that is lost.
    ///
    /// Runs where it may block.
    ///
    /// # Errors
    /// Whatever keeps them from being written. All of them are written again, with the next ones; a message is refused
    /// instead.
    fn write(&mut self, changes: &[StorageChange]) -> io::Result<()>;
}
