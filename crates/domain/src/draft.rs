//! An entry that a sender wants to store, before it has its place.

use wire::{
    AllowedTo, Attached, Bytes, Carried, ClientMsgId, ConversationId, Data, Emoji, HistoryFrom, Info, JoinBy, Kind,
    Look, MediaId, MutedUntil, Rings, Role, SERVICE_DEFAULT, SealedMedia, Seq, Title, UserId,
};

use crate::erased::ErasedBody;

/// An entry that a sender wants to store. A draft has no `seq` yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub conversation_id: ConversationId,
    pub sender_id: UserId,
    /// The idempotency key.
    pub client_msg_id: ClientMsgId,
    pub content: Content,
    /// The digest of what the user wrote, if the team's filter rewrote it.
    pub rewritten_from: Option<String>,
}

/// The content of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Message {
        kind: Kind,
        body: String,
        /// The media. Its row is written, too.
        media: Option<Box<Attached>>,
        /// The app's own.
        data: Option<Data>,
        reply_to: Option<Seq>,
        /// The mentioned users. Groups only.
        mentions: Vec<UserId>,
    },
    /// A message that the server can't read.
    Sealed {
        /// The epoch in which it was encrypted.
        epoch: u64,
        silent: bool,
        body: Bytes,
        media: Option<Box<Attached>>,
        /// The digest with which a member can prove the message.
        frank: Option<Box<Bytes>>,
    },
    /// A change of a conversation's keys: a silent entry.
    Commit(Box<NewCommit>),
    /// A silent entry, about the message at `target`.
    Change { target: Seq, change: Change },
    /// A change of a group. A system entry has its outcome.
    Group(GroupChange),
    /// A silent entry of the system, about a user who was erased.
    Erased(Box<ErasedBody>),
}

/// A commit before it has its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCommit {
    /// The epoch that ends.
    pub epoch: u64,
    /// `None`: a birth.
    pub commit: Option<Carried>,
    pub welcome: Option<Carried>,
    pub group_info: Bytes,
    pub tree: Carried,
    /// Groups only: the users who left, and whom it removes.
    pub removes: Vec<UserId>,
}

/// A requested change of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Edit {
        body: String,
        /// `None`: the message keeps its data. `Some(None)`: the data goes.
        data: Option<Option<Data>>,
    },
    Delete,
    /// `None` takes back what the user reacted with.
    React {
        emoji: Option<Emoji>,
    },
    Pin {
        /// `false` takes the pin off.
        pinned: bool,
    },
}

/// A requested change of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupChange {
    Create {
        title: Title,
        members: Vec<UserId>,
        rules: Rules,
        /// Without anything in the clear, from its start.
        encrypted: bool,
        look: Box<Look>,
    },
    Add {
        members: Vec<UserId>,
        /// The commit, in a sealed group.
        keys: Option<Box<NewCommit>>,
    },
    Remove {
        user: UserId,
        /// The commit, in a sealed group.
        keys: Option<Box<NewCommit>>,
    },
    Leave,
    /// The user comes back to a group that they left by themselves.
    Return,
    Role {
        user: UserId,
        role: Role,
    },
    /// The member may only read until then.
    Restrict {
        user: UserId,
        until: Option<MutedUntil>,
    },
    Update {
        info: Info,
    },
}

/// The rules that admins set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub history: HistoryFrom,
    pub post: AllowedTo,
    pub add: AllowedTo,
    /// Channels only.
    pub join: Option<JoinBy>,
    /// Channels only.
    pub rings: Rings,
}

impl Content {
    pub fn kind(&self) -> &Kind {
        match self {
            Self::Message { kind, .. } => kind,
            Self::Sealed { .. } => &Kind::Sealed,
            Self::Commit(_) => &Kind::Commit,
            Self::Change { change, .. } => change.kind(),
            Self::Group(_) => &Kind::System,
            Self::Erased(_) => &Kind::Erased,
        }
    }

    /// Returns the uploads that the entry attaches: the media of a message, or the files of a commit.
    pub fn attached(&self) -> Vec<Attached> {
        match self {
            Self::Message { media, .. } | Self::Sealed { media, .. } => media.as_deref().cloned().into_iter().collect(),
            Self::Commit(_) | Self::Change { .. } | Self::Group(_) | Self::Erased(_) => {
                self.commit().map(NewCommit::files).unwrap_or_default()
            }
        }
    }

    /// Returns the data that goes with the text, as JSON. `null`: an edit takes it away.
    pub(crate) fn data(&self) -> Option<String> {
        let text = |data: &Option<Data>| data.as_ref().map_or_else(|| "null".to_owned(), Data::to_text);
        match self {
            Self::Message { data, .. } => data.as_ref().map(Data::to_text),
            Self::Change { change: Change::Edit { data, .. }, .. } => data.as_ref().map(text),
            Self::Sealed { .. } | Self::Commit(_) | Self::Change { .. } | Self::Group(_) | Self::Erased(_) => None,
        }
    }

    /// Returns the commit that it is, or has.
    pub fn commit_mut(&mut self) -> Option<&mut NewCommit> {
        match self {
            Self::Commit(commit) => Some(commit),
            Self::Group(GroupChange::Add { keys, .. } | GroupChange::Remove { keys, .. }) => keys.as_deref_mut(),
            Self::Group(
                GroupChange::Create { .. }
                | GroupChange::Leave
                | GroupChange::Return
                | GroupChange::Role { .. }
                | GroupChange::Restrict { .. }
                | GroupChange::Update { .. },
            )
            | Self::Message { .. }
            | Self::Sealed { .. }
            | Self::Change { .. }
            | Self::Erased(_) => None,
        }
    }

    /// Returns the commit that it is, or has.
    pub fn commit(&self) -> Option<&NewCommit> {
        match self {
            Self::Commit(commit) => Some(commit),
            Self::Group(change) => change.keys(),
            Self::Message { .. } | Self::Sealed { .. } | Self::Change { .. } | Self::Erased(_) => None,
        }
    }

    /// Returns the change of the look of a group that this entry sets, or whose title it sets. A new group without a look
    /// has none.
    pub fn look(&self) -> Option<&Look> {
        match self {
            Self::Group(GroupChange::Create { look, .. }) => Some(&**look).filter(|look| !look.is_empty()),
            Self::Group(GroupChange::Update { info: Info { title, look, .. } }) => {
                Some(&**look).filter(|look| title.is_some() || !look.is_empty())
            }
            Self::Message { .. }
            | Self::Sealed { .. }
            | Self::Commit(_)
            | Self::Change { .. }
            | Self::Group(_)
            | Self::Erased(_) => None,
        }
    }

    /// Whether a new entry counts: as unread, and as the last message.
    pub fn counts(&self) -> bool {
        match self {
            Self::Message { kind, .. } => kind.counts(),
            Self::Sealed { silent, .. } => !silent,
            Self::Commit(_) | Self::Change { .. } | Self::Group(_) | Self::Erased(_) => false,
        }
    }
}

impl NewCommit {
    /// The epoch that begins.
    pub fn begins(&self) -> u64 {
        self.epoch + 1
    }

    pub fn is_birth(&self) -> bool {
        self.commit.is_none()
    }

    /// Returns the parts, each of which may be a file.
    pub fn parts_mut(&mut self) -> impl Iterator<Item = &mut Carried> {
        let Self { commit, welcome, tree, .. } = self;
        commit.iter_mut().chain(welcome).chain([tree])
    }

    fn files(&self) -> Vec<Attached> {
        let parts = self.commit.iter().chain(&self.welcome).chain([&self.tree]);
        let files = parts.filter_map(|part| match part {
            Carried::Bytes(_) => None,
            Carried::File { media_id, bytes, .. } => {
                Some(Attached::Sealed(SealedMedia { media_id: media_id.clone(), bytes: *bytes }))
            }
        });
        files.collect()
    }

    /// Returns the file of a tree that no entry has.
    pub fn loose_tree(&self) -> Option<&MediaId> {
        if self.welcome.is_none() { self.tree.file() } else { None }
    }
}

impl Draft {
    pub fn new(
        conversation_id: ConversationId,
        sender_id: UserId,
        client_msg_id: ClientMsgId,
        content: Content,
    ) -> Self {
        Self { conversation_id, sender_id, client_msg_id, content, rewritten_from: None }
    }

    /// Whether an operator wants that, who need not be a member.
    pub fn is_by_operator(&self) -> bool {
        let is_theirs = matches!(self.content, Content::Change { change: Change::Delete, .. } | Content::Erased(_));
        is_theirs && self.sender_id == SERVICE_DEFAULT
    }
}

impl Change {
    pub fn kind(&self) -> &'static Kind {
        match self {
            Self::Edit { .. } => &Kind::Edit,
            Self::Delete => &Kind::Delete,
            Self::React { .. } => &Kind::Reaction,
            Self::Pin { .. } => &Kind::Pin,
        }
    }
}
