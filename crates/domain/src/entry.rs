//! An entry of a conversation's log, as it is stored, and, in `wire`, as a viewer sees it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use unicode_segmentation::UnicodeSegmentation as _;
use wire::limits::{CHANNEL_REACTIONS_MAX, PREVIEW_CHARS_MAX, REACTIONS_SHOWN_MAX};
use wire::{
    Attached, Bytes, Carried, ClientMsgId, ConversationId, Data, Emoji, HistoryFrom, Kind, Message, MessageId,
    NotAdded, Reaction, Refusal, Seq, System, Timestamp, UserId,
};

use crate::draft::{Change, Content, Draft, GroupChange, NewCommit};
use crate::erased::ErasedBody;
use crate::ids::{Origin, message_id};

/// Maximum of characters that a frame has for a file of a commit.
const FILE_CHARS_MAX: usize = 200;

/// Where and when an entry stands in its conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub seq: Seq,
    pub message_id: MessageId,
    pub sent_at: Timestamp,
}

/// The last entry of a conversation, of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub seq: Seq,
    pub sent_at: Timestamp,
}

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub conversation_id: ConversationId,
    pub place: Place,
    pub sender_id: UserId,
    /// The sender's idempotency key; an entry of a later version may have none.
    pub client_msg_id: Option<ClientMsgId>,
    /// Groups only: where it came from, which gets no copy.
    pub origin: Option<Origin>,
    /// Groups only: the author had read all entries before it.
    pub read_all: bool,
    /// Channels only: the number of messages up to this entry.
    pub counted: Option<u64>,
    pub body: Body,
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Message(Box<MessageBody>),
    /// The entry has its target's current text, so that a text is in one place.
    Edit {
        target: Target,
        text: String,
        data: Option<Data>,
        version: Option<u64>,
        /// Groups only: the `seq` of the target's last edit.
        edited_seq: Option<Seq>,
    },
    Delete {
        target: Target,
        /// The users whom the target mentioned.
        mentions: Vec<UserId>,
        /// Groups only: the target is silent, and did not count as unread.
        uncounted: bool,
    },
    Reaction {
        target: Target,
        /// `None` takes the reaction back.
        emoji: Option<Emoji>,
        /// The sender's reaction before this one.
        emoji_before: Option<Emoji>,
    },
    Pin {
        target: Target,
        /// `false` takes the pin off.
        pinned: bool,
    },
    System(Box<SystemBody>),
    Commit(Box<CommitBody>),
    Erased(Box<ErasedBody>),
    /// An entry of a kind that this version does not know. Clients get the part that looks like a message.
    Other {
        target_seq: Option<Seq>,
        message: Box<MessageBody>,
    },
}

/// The stored part of a commit. The group info and the tree of the newest epoch have a row of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitBody {
    /// The epoch that it begins.
    pub epoch: u64,
    pub commit: Option<Carried>,
    pub welcome: Option<Carried>,
    /// A device that joins by the welcome, however late, needs the tree of this epoch.
    pub tree: Option<Carried>,
    /// Groups only: the users who left, and whom it removes.
    pub removes: Vec<UserId>,
}

/// A message with its current content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageBody {
    pub kind: Kind,
    /// A sealed message's bytes, in base64.
    pub text: String,
    /// The epoch of a sealed message.
    pub epoch: Option<u64>,
    /// A sealed message that does not count.
    pub silent: bool,
    /// The digest with which a member can prove a sealed message. The digest stays when the message is deleted.
    pub frank: Option<Box<Bytes>>,
    pub media: Option<Box<Attached>>,
    /// The app's own.
    pub data: Option<Data>,
    pub reply_to: Option<Seq>,
    pub mentions: Vec<UserId>,
    /// The first version has no number.
    pub version: Option<u64>,
    pub edited_at: Option<Timestamp>,
    /// Groups only: the `seq` of the last edit.
    pub edited_seq: Option<Seq>,
    pub deleted: Option<Deleted>,
    /// Groups only: the `seq` of the delete.
    pub deleted_seq: Option<Seq>,
    /// Each member's last reaction, as it was stored. A channel's message has a tally instead.
    pub reactions: BTreeMap<UserId, Emoji>,
    pub tally: ReactionTally,
    /// The last reaction entry about this message.
    pub reactions_seq: Option<Seq>,
    /// The recipient of a service's message. A service has no inbox row, so a delete finds the recipient's row by this
    /// field.
    pub recipient: Option<UserId>,
}

/// The message that a change entry is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub seq: Seq,
    /// Groups only: its sender.
    pub sender_id: Option<UserId>,
}

/// An event of a group, with what a reader of the log needs besides. Clients get the event alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemBody {
    pub system: System,
    /// Additions only: the start of the new members' history.
    pub history: Option<HistoryFrom>,
    /// Additions only: the users who could not be added.
    pub not_added: Vec<NotAdded>,
    /// Leaves and removals only: the group just before.
    pub group: Option<GroupInfo>,
    /// Additions to a sealed group, and removals, only: the commit.
    pub keys: Option<CommitBody>,
}

/// The properties of a group that the chat list shows next to the last message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInfo {
    pub title: String,
    /// 0 in a channel, which does not count its members.
    pub member_count: u64,
    /// The last entry that set the title or the look. Unknown of a group that the member has left.
    pub info_seq: Option<Seq>,
}

/// Counts of reactions to a channel's message, and one member's own reaction. The other authors are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReactionTally {
    pub counts: BTreeMap<Emoji, u64>,
    pub own: Option<Emoji>,
}

/// An entry that is a message.
#[derive(Clone, Copy, Debug)]
pub struct MessageEntry<'a> {
    pub entry: &'a Entry,
    pub message: &'a MessageBody,
}

/// Values that a change entry takes from its target, as the target was just before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Follows {
    /// Edits only: the version number of the new text, and the data of the old one.
    pub version: Option<u64>,
    pub data: Option<Data>,
    /// Reactions only: the sender's reaction before this one.
    pub emoji_before: Option<Emoji>,
}

/// The part of a conversation that a viewer sees: its entries, and their later changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The viewer sees no entry below it.
    pub first: Seq,
    /// The last entry that the viewer is known to see. A change that a later entry made is not shown.
    pub last: Seq,
    /// The viewer left with the entry at `last`.
    pub has_left: bool,
}

/// When and by whom a message was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    pub at: Timestamp,
    pub by: UserId,
}

/// The newest entry that the chat list shows. Silent entries after it leave it where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastEntry {
    pub seq: Seq,
    pub message_id: MessageId,
    pub sender_id: UserId,
    pub kind: Kind,
    /// Empty if the message is deleted.
    pub preview: String,
    pub sent_at: Timestamp,
    pub deleted: bool,
    /// The event of a system entry, known to a reader of the entry.
    pub system: Option<System>,
}

impl LastEntry {
    /// Takes out what an erased user wrote, and who the user was.
    pub fn erase(&mut self, erased: &ErasedBody) {
        if erased.seqs.iter().any(|[first, last]| (first..=last).contains(&&self.seq)) {
            self.sender_id = erased.user.clone();
            if self.kind != Kind::System {
                (self.preview, self.deleted) = (String::new(), true);
            }
        }
    }
}

/// Returns the chat list's preview of a body: its first characters, without a cut grapheme.
pub fn preview(body: &str) -> String {
    let Some((cut, _)) = body.char_indices().nth(PREVIEW_CHARS_MAX) else { return body.to_owned() };
    let starts = body.grapheme_indices(true).map(|(start, _)| start);
    // A grapheme that is longer than the whole preview is cut.
    let end = starts.take_while(|start| *start <= cut).last().filter(|end| *end > 0).unwrap_or(cut);
    body.get(..end).unwrap_or_default().to_owned()
}

impl Draft {
    /// Returns the entry, once it has its place. A change of a group is as requested, until it is decided.
    #[must_use]
    pub fn stored(self, place: Place, follows: Follows) -> Entry {
        let Follows { version, data: kept_data, emoji_before } = follows;
        let Self { conversation_id, sender_id, client_msg_id, content, rewritten_from: _ } = self;
        let target = |seq| Target { seq, sender_id: None };
        let body = match content {
            Content::Message { kind, body, media, data, reply_to, mentions } => {
                Body::Message(Box::new(MessageBody { media, data, reply_to, mentions, ..MessageBody::new(kind, body) }))
            }
            Content::Sealed { epoch, silent, body, media, frank } => {
                let message = MessageBody::new(Kind::Sealed, body.to_text());
                Body::Message(Box::new(MessageBody { epoch: Some(epoch), silent, media, frank, ..message }))
            }
            Content::Commit(commit) => Body::Commit(Box::new(commit.into_body())),
            Content::Change { target: seq, change: Change::Edit { body, data } } => {
                let data = data.unwrap_or(kept_data);
                Body::Edit { target: target(seq), text: body, data, version, edited_seq: None }
            }
            Content::Change { target: seq, change: Change::Delete } => {
                Body::Delete { target: target(seq), mentions: vec![], uncounted: false }
            }
            Content::Change { target: seq, change: Change::React { emoji } } => {
                Body::Reaction { target: target(seq), emoji, emoji_before }
            }
            Content::Change { target: seq, change: Change::Pin { pinned } } => {
                Body::Pin { target: target(seq), pinned }
            }
            Content::Group(change) => Body::System(Box::new(SystemBody::of(change.requested(&sender_id)))),
            Content::Erased(erased) => Body::Erased(erased),
        };
        let client_msg_id = Some(client_msg_id);
        Entry { conversation_id, place, sender_id, client_msg_id, origin: None, read_all: false, counted: None, body }
    }
}

impl GroupChange {
    /// Returns the event of the change, if it is decided as it was requested.
    fn requested(self, by: &UserId) -> System {
        match self {
            Self::Create { title, members, look, .. } => System::Created { title, members, look },
            Self::Add { members, .. } => System::MembersAdded { members },
            Self::Return => System::MembersAdded { members: vec![by.clone()] },
            Self::Remove { user, .. } => System::MembersRemoved { members: vec![user] },
            Self::Leave => System::MemberLeft {},
            Self::Role { user, role } => System::RoleChanged { user_id: user, role },
            Self::Restrict { user, until } => System::MemberRestricted { user_id: user, until },
            Self::Update { info } => info.into(),
        }
    }
}

impl SystemBody {
    pub fn of(system: System) -> Self {
        Self { system, history: None, not_added: vec![], group: None, keys: None }
    }
}

impl NewCommit {
    /// Returns the part that its entry has.
    pub(crate) fn into_body(self) -> CommitBody {
        let epoch = self.begins();
        let Self { commit, welcome, tree, removes, .. } = self;
        let tree = welcome.is_some().then_some(tree);
        CommitBody { epoch, commit, welcome, tree, removes }
    }
}

impl CommitBody {
    /// Returns the number of characters in a frame.
    fn written_bytes(&self) -> usize {
        let parts = [&self.commit, &self.welcome, &self.tree];
        let chars = |part: &Carried| part.here().map_or(FILE_CHARS_MAX, |bytes| bytes.len().div_ceil(3) * 4);
        parts.into_iter().flatten().map(chars).sum()
    }

    fn shown(&self, shown: Message) -> Message {
        let Self { epoch, commit, welcome, tree, removes } = self.clone();
        let [commit, welcome, tree] = [commit, welcome, tree].map(|part| part.map(Box::new));
        let removes = (!removes.is_empty()).then(|| Box::new(removes));
        Message { epoch: Some(epoch), commit, welcome, tree, removes, ..shown }
    }
}

impl MessageBody {
    /// Returns the first version.
    pub fn new(kind: Kind, text: String) -> Self {
        Self {
            kind,
            text,
            epoch: None,
            silent: false,
            frank: None,
            media: None,
            data: None,
            reply_to: None,
            mentions: vec![],
            version: None,
            edited_at: None,
            edited_seq: None,
            deleted: None,
            deleted_seq: None,
            reactions: BTreeMap::new(),
            tally: ReactionTally::default(),
            reactions_seq: None,
            recipient: None,
        }
    }

    /// Whether it counts as unread, unless it is deleted.
    pub fn counts(&self) -> bool {
        !self.silent && (self.kind.counts() || self.kind == Kind::Sealed)
    }

    /// Returns the number of the current version.
    pub fn version_number(&self) -> u64 {
        self.version.unwrap_or(1)
    }

    /// Returns the most frequent reactions. Equally frequent ones are in the order of their characters, so that they
    /// keep their places.
    fn shown_reactions(&self, viewer: &UserId) -> Vec<Reaction> {
        let own = self.tally.own.as_ref();
        let by_user = self.reactions.iter().map(|(user, emoji)| (emoji, 1, user == viewer));
        let tallied = self.tally.counts.iter().map(|(emoji, count)| (emoji, *count, own == Some(emoji)));
        let mut counts = BTreeMap::<Emoji, (u64, bool)>::new();
        // An earlier version stored one emoji in several spellings.
        for (emoji, more, is_own) in by_user.chain(tallied) {
            let (count, mine) = counts.entry(emoji.canonical()).or_default();
            *count += more;
            *mine |= is_own;
        }
        let shown = |(emoji, (count, mine))| Reaction { emoji, count, mine };
        let mut reactions: Vec<Reaction> = counts.into_iter().map(shown).collect();
        reactions.sort_by_key(|reaction| Reverse(reaction.count));
        reactions.truncate(REACTIONS_SHOWN_MAX);
        reactions
    }
}

impl ReactionTally {
    /// Whether the member may react with this.
    ///
    /// # Errors
    /// `limit_reached`: the message has the maximum of different reactions.
    pub fn check(&self, emoji: Option<&Emoji>) -> Result<(), Refusal> {
        let Some(emoji) = emoji else { return Ok(()) };
        let is_last = self.own.as_ref().is_some_and(|own| self.counts.get(own) == Some(&1));
        let left = self.counts.len().saturating_sub(usize::from(is_last));
        if self.counts.contains_key(emoji) || left < CHANNEL_REACTIONS_MAX {
            Ok(())
        } else {
            Err(Refusal::LimitReached)
        }
    }
}

impl Place {
    /// Returns the place after the end of the conversation, or the first. Times rise strictly within a conversation, so
    /// that message ids sort as seqs do, even if the machines' clocks differ.
    pub fn following(end: Option<End>, now: Timestamp, random: [u8; 10]) -> Self {
        let (seq, sent_at) = match end {
            None => (Seq::FIRST, now),
            Some(end) => (end.seq.next(), now.max(Timestamp::from_millis(end.sent_at.millis() + 1))),
        };
        Self { seq, message_id: message_id(sent_at, random), sent_at }
    }
}

impl Sight {
    /// A direct conversation. No member leaves it.
    pub const WHOLE: Self = Self { first: Seq::FIRST, last: Seq::MAX, has_left: false };

    pub fn contains(&self, seq: Seq) -> bool {
        (self.first..=self.last).contains(&seq)
    }

    /// Whether a change of the message is hidden that the viewer may see if they are still a member.
    pub fn is_short_of(&self, entry: &Entry) -> bool {
        let changes = match &entry.body {
            Body::Message(message) | Body::Other { message, .. } => {
                [message.edited_seq, message.deleted_seq, message.reactions_seq]
            }
            Body::Edit { edited_seq, .. } => [*edited_seq, None, None],
            Body::Delete { .. }
            | Body::Reaction { .. }
            | Body::Pin { .. }
            | Body::System(_)
            | Body::Commit(_)
            | Body::Erased(_) => [None; 3],
        };
        !self.has_left && changes.iter().flatten().any(|seq| *seq > self.last)
    }

    /// Whether the viewer sees this version of a text. A text that an earlier version of the server edited does not
    /// record when: a viewer who has left does not see it.
    fn has_text(&self, version: Option<u64>, edited_seq: Option<Seq>) -> bool {
        edited_seq.map_or(version.is_none() || !self.has_left, |edited| edited <= self.last)
    }
}

impl Entry {
    pub fn kind(&self) -> &Kind {
        match &self.body {
            Body::Message(message) | Body::Other { message, .. } => &message.kind,
            Body::Edit { .. } => &Kind::Edit,
            Body::Delete { .. } => &Kind::Delete,
            Body::Reaction { .. } => &Kind::Reaction,
            Body::Pin { .. } => &Kind::Pin,
            Body::System(_) => &Kind::System,
            Body::Commit(_) => &Kind::Commit,
            Body::Erased(_) => &Kind::Erased,
        }
    }

    /// Returns the message, if the entry is one.
    pub fn message(&self) -> Option<MessageEntry<'_>> {
        match &self.body {
            Body::Message(message) => Some(MessageEntry { entry: self, message }),
            Body::Edit { .. }
            | Body::Delete { .. }
            | Body::Reaction { .. }
            | Body::Pin { .. }
            | Body::System(_)
            | Body::Commit(_)
            | Body::Erased(_)
            | Body::Other { .. } => None,
        }
    }

    pub fn message_mut(&mut self) -> Option<&mut MessageBody> {
        match &mut self.body {
            Body::Message(message) => Some(message),
            Body::Edit { .. }
            | Body::Delete { .. }
            | Body::Reaction { .. }
            | Body::Pin { .. }
            | Body::System(_)
            | Body::Commit(_)
            | Body::Erased(_)
            | Body::Other { .. } => None,
        }
    }

    /// Whether it counts: as unread, and as the last message.
    pub fn counts(&self) -> bool {
        self.message().is_some_and(|MessageEntry { message, .. }| message.counts())
    }

    /// Returns the event of a group.
    pub fn system(&self) -> Option<&SystemBody> {
        match &self.body {
            Body::System(system) => Some(system),
            Body::Message(_)
            | Body::Edit { .. }
            | Body::Delete { .. }
            | Body::Reaction { .. }
            | Body::Pin { .. }
            | Body::Commit(_)
            | Body::Erased(_)
            | Body::Other { .. } => None,
        }
    }

    pub fn system_mut(&mut self) -> Option<&mut SystemBody> {
        match &mut self.body {
            Body::System(system) => Some(system),
            Body::Message(_)
            | Body::Edit { .. }
            | Body::Delete { .. }
            | Body::Reaction { .. }
            | Body::Pin { .. }
            | Body::Commit(_)
            | Body::Erased(_)
            | Body::Other { .. } => None,
        }
    }

    /// Returns the message that a change entry is about.
    pub fn target(&self) -> Option<&Target> {
        match &self.body {
            Body::Edit { target, .. }
            | Body::Delete { target, .. }
            | Body::Reaction { target, .. }
            | Body::Pin { target, .. } => Some(target),
            Body::Message(_) | Body::System(_) | Body::Commit(_) | Body::Erased(_) | Body::Other { .. } => None,
        }
    }

    /// Returns the users whom a message mentions, or mentioned until it was deleted.
    pub fn mentions(&self) -> &[UserId] {
        match &self.body {
            Body::Message(message) | Body::Other { message, .. } => &message.mentions,
            Body::Delete { mentions, .. } => mentions,
            Body::Edit { .. }
            | Body::Reaction { .. }
            | Body::Pin { .. }
            | Body::System(_)
            | Body::Commit(_)
            | Body::Erased(_) => &[],
        }
    }

    /// Returns the text of a message, or of an edit's target.
    pub fn text(&self) -> &str {
        match &self.body {
            Body::Message(message) | Body::Other { message, .. } => &message.text,
            Body::Edit { text, .. } => text,
            Body::Delete { .. }
            | Body::Reaction { .. }
            | Body::Pin { .. }
            | Body::System(_)
            | Body::Commit(_)
            | Body::Erased(_) => "",
        }
    }

    /// Returns the data of a message, or of an edit's target.
    fn data(&self) -> Option<&Data> {
        match &self.body {
            Body::Message(message) | Body::Other { message, .. } => message.data.as_ref(),
            Body::Edit { data, .. } => data.as_ref(),
            Body::Delete { .. }
            | Body::Reaction { .. }
            | Body::Pin { .. }
            | Body::System(_)
            | Body::Commit(_)
            | Body::Erased(_) => None,
        }
    }

    /// Returns the number of bytes in a frame of what its author wrote.
    pub fn written_bytes(&self) -> usize {
        match &self.body {
            Body::Commit(body) => body.written_bytes(),
            Body::System(body) => body.keys.as_ref().map_or(0, CommitBody::written_bytes),
            Body::Message(_)
            | Body::Edit { .. }
            | Body::Delete { .. }
            | Body::Reaction { .. }
            | Body::Pin { .. }
            | Body::Erased(_)
            | Body::Other { .. } => self.text().len() + self.data().map_or(0, |data| data.to_text().len()),
        }
    }

    /// Returns the entry as the chat list shows it.
    pub fn line(&self) -> LastEntry {
        LastEntry {
            seq: self.place.seq,
            message_id: self.place.message_id.clone(),
            sender_id: self.sender_id.clone(),
            kind: self.kind().clone(),
            // The bytes of a sealed message are no text.
            preview: if *self.kind() == Kind::Sealed { String::new() } else { preview(self.text()) },
            sent_at: self.place.sent_at,
            deleted: false,
            system: self.system().map(|body| body.system.clone()),
        }
    }

    /// Returns what every entry shows.
    fn outline(&self, viewer: &UserId) -> Message {
        let Self { conversation_id, place: Place { seq, message_id, sent_at }, sender_id, .. } = self.clone();
        Message {
            conversation_id,
            seq,
            message_id,
            client_msg_id: self.client_msg_id.clone().filter(|_| sender_id == *viewer),
            sender_id,
            kind: self.kind().clone(),
            body: String::new(),
            sent_at,
            frank: None,
            media: None,
            data: None,
            reply_to: None,
            version: None,
            edited_at: None,
            deleted_at: None,
            deleted_by: None,
            reactions: vec![],
            reactions_seq: None,
            target_seq: None,
            emoji: None,
            emoji_before: None,
            pinned: None,
            mentions: vec![],
            system: None,
            silent: false,
            epoch: None,
            commit: None,
            welcome: None,
            tree: None,
            target_id: None,
            keeps_data: false,
            proof: None,
            removes: None,
            user_id: None,
            seqs: None,
        }
    }

    /// Returns the entry as `viewer` sees it. The idempotency key is for the sender alone. An entry about a message
    /// below `sight.first` has no content. A message that was changed behind `sight.last` has neither text, version nor
    /// reactions: its earlier content is not kept.
    pub fn seen_by(&self, viewer: &UserId, sight: &Sight) -> Message {
        let shown = self.outline(viewer);
        let is_below = |target: Seq| target < sight.first;
        match &self.body {
            Body::Message(message) => message.shown(shown, viewer, sight, false),
            Body::Edit { target, text, data, version, edited_seq } => {
                let is_hidden = is_below(target.seq) || !sight.has_text(*version, *edited_seq);
                let shown = Message { target_seq: Some(target.seq), ..shown };
                if is_hidden {
                    return shown;
                }
                Message { body: text.clone(), data: data.clone(), version: *version, ..shown }
            }
            Body::Delete { target, .. } => Message { target_seq: Some(target.seq), ..shown },
            Body::Reaction { target, emoji, emoji_before } => Message {
                target_seq: Some(target.seq),
                emoji: emoji.clone(),
                emoji_before: emoji_before.clone(),
                ..shown
            },
            Body::Pin { target, pinned } => Message { target_seq: Some(target.seq), pinned: Some(*pinned), ..shown },
            Body::System(body) => {
                let shown = Message { system: Some(body.system.clone()), ..shown };
                body.keys.iter().fold(shown, |shown, keys| keys.shown(shown))
            }
            Body::Commit(body) => body.shown(Message { silent: true, ..shown }),
            Body::Erased(body) => body.shown(shown),
            Body::Other { target_seq, message } => {
                let is_hidden = target_seq.is_some_and(is_below);
                let mut shown = message.shown(shown, viewer, sight, is_hidden);
                shown.target_seq = *target_seq;
                if target_seq.is_some() {
                    shown.mentions.clear();
                }
                shown
            }
        }
    }

    /// Gives an edit the current text of its target, or no text if the target is deleted. An edit without a version has
    /// nothing to show. Other entries stay as they are.
    #[must_use]
    pub fn of_target(mut self, target: Option<&Self>) -> Self {
        if let Body::Edit { text, data, version, edited_seq, .. } = &mut self.body {
            let current = target.and_then(Self::message).map(|target| target.message);
            let current = current.filter(|message| message.deleted.is_none());
            *version = current.and_then(|message| message.version);
            *edited_seq = current.and_then(|message| message.edited_seq);
            *data = current.and_then(|message| message.data.clone());
            *text = current.map(|message| message.text.clone()).unwrap_or_default();
        }
        self
    }
}

impl MessageBody {
    /// Adds what `viewer` sees of the message.
    fn shown(&self, shown: Message, viewer: &UserId, sight: &Sight, is_hidden: bool) -> Message {
        let Self { text, media, frank, data, version, edited_at, deleted, reactions_seq, mentions, .. } = self.clone();
        let is_hidden = is_hidden || !sight.has_text(version, self.edited_seq);
        let (body, data, version, edited_at) =
            if is_hidden { (String::new(), None, None, None) } else { (text, data, version, edited_at) };
        let has_reactions = reactions_seq.is_none_or(|seq| seq <= sight.last);
        let has_deleter = self.deleted_seq.is_none_or(|seq| seq <= sight.last);
        let is_deleted = deleted.is_some();
        let (deleted_at, deleted_by) = deleted.map(|deleted| (deleted.at, deleted.by)).unzip();
        Message {
            body,
            silent: self.silent,
            epoch: self.epoch,
            media: media.filter(|_| !is_deleted),
            frank: frank.filter(|_| !is_deleted),
            data: data.filter(|_| !is_deleted),
            reply_to: self.reply_to,
            version,
            edited_at,
            deleted_at,
            deleted_by: deleted_by.filter(|_| has_deleter),
            reactions: if has_reactions { self.shown_reactions(viewer) } else { vec![] },
            reactions_seq: reactions_seq.filter(|_| has_reactions),
            mentions: if is_deleted { vec![] } else { mentions },
            ..shown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::tests::row;
    use proptest::prelude::*;

    fn draft(body: &str) -> Draft {
        Draft {
            conversation_id: ConversationId::parse("dm_x").unwrap(),
            sender_id: UserId::parse("alice").unwrap(),
            client_msg_id: ClientMsgId::parse("m1").unwrap(),
            content: Content::Message {
                kind: Kind::Text,
                body: body.to_owned(),
                media: None,
                data: None,
                reply_to: None,
                mentions: vec![],
            },
            rewritten_from: None,
        }
    }

    #[test]
    fn the_first_message_is_number_one_and_time_never_goes_back() {
        let place = |end: Option<End>, now| {
            let Place { seq, sent_at, .. } = Place::following(end, now, [0; 10]);
            (seq.value(), sent_at)
        };
        let now = Timestamp::from_millis(5);
        assert_eq!(place(None, now), (1, now));
        let row = row(7, 7, 7, 0, None);
        // A clock that is behind, or a message in the same millisecond, comes out one millisecond later.
        assert_eq!(place(Some(row.end), now), (8, Timestamp::from_millis(1_000_001)));
        assert_eq!(place(Some(row.end), row.end.sent_at), (8, Timestamp::from_millis(1_000_001)));
        let later = Timestamp::from_millis(2_000_000);
        assert_eq!(place(Some(row.end), later), (8, later));
    }

    #[test]
    fn the_idempotency_key_is_for_its_sender_alone() {
        let message =
            draft("hi").stored(Place::following(None, Timestamp::from_millis(5), [0; 10]), Follows::default());
        let [alice, bob] = ["alice", "bob"].map(|id| UserId::parse(id).unwrap());
        assert_eq!(message.seen_by(&alice, &Sight::WHOLE).client_msg_id, message.client_msg_id);
        assert_eq!(message.seen_by(&bob, &Sight::WHOLE).client_msg_id, None);
    }

    #[test]
    fn a_former_member_sees_nothing_that_came_of_a_message_after_the_leave() {
        let [alice, bob] = ["alice", "bob"].map(|id| UserId::parse(id).unwrap());
        let seq = |value| Seq::new(value).unwrap();
        let mut entry =
            draft("now").stored(Place::following(None, Timestamp::from_millis(5), [0; 10]), Follows::default());
        let message = entry.message_mut().unwrap();
        message.version = Some(2);
        message.edited_at = Some(Timestamp::from_millis(9));
        message.edited_seq = Some(seq(4));
        message.reactions = BTreeMap::from([(alice, Emoji::parse("👍").unwrap())]);
        message.reactions_seq = Some(seq(6));
        let shown = |message: &Entry, last, has_left| {
            let sight = Sight { first: seq(1), last: seq(last), has_left };
            let shown = message.seen_by(&bob, &sight);
            assert_eq!(shown.version.is_some(), shown.edited_at.is_some());
            assert_eq!(shown.reactions.is_empty(), shown.reactions_seq.is_none());
            (shown.body, shown.version, shown.reactions_seq, sight.is_short_of(message))
        };
        let nothing = || String::new();
        for has_left in [true, false] {
            assert_eq!(shown(&entry, 3, has_left), (nothing(), None, None, !has_left));
            assert_eq!(shown(&entry, 5, has_left), ("now".to_owned(), Some(2), None, !has_left));
            assert_eq!(shown(&entry, 6, has_left), ("now".to_owned(), Some(2), Some(seq(6)), false));
        }
        let edit =
            Content::Change { target: Seq::FIRST, change: Change::Edit { body: "first".to_owned(), data: None } };
        let place = Place { seq: seq(2), ..entry.place.clone() };
        let edit = Draft { content: edit, ..draft("") }.stored(place, Follows::default()).of_target(Some(&entry));
        assert_eq!(shown(&edit, 3, true), (nothing(), None, None, false), "an edit has what its target says");
        // An edit by an earlier version recorded no `edited_seq`.
        entry.message_mut().unwrap().edited_seq = None;
        assert_eq!(shown(&entry, 9, true).0, "");
        assert_eq!(shown(&entry, 9, false).0, "now");
        let message = entry.message_mut().unwrap();
        message.deleted = Some(Deleted { at: Timestamp::from_millis(9), by: bob.clone() });
        message.deleted_seq = Some(seq(7));
        let by = |last| entry.seen_by(&bob, &Sight { first: seq(1), last: seq(last), has_left: true });
        assert_eq!((by(6).deleted_at.is_some(), by(6).deleted_by), (true, None), "it is deleted for everybody");
        assert_eq!(by(7).deleted_by, Some(bob.clone()));
    }

    #[test]
    fn an_edit_says_what_its_target_says_now() {
        let now = Timestamp::from_millis(5);
        let place = || Place::following(None, now, [0; 10]);
        let second = || Follows { version: Some(2), ..Follows::default() };
        let mut target = draft("second").stored(place(), second());
        target.message_mut().unwrap().version = Some(2);
        let edit =
            Content::Change { target: Seq::FIRST, change: Change::Edit { body: "first".to_owned(), data: None } };
        let edit = Draft { content: edit, ..draft("") }.stored(place(), second());
        let shown = |target: Option<&Entry>| {
            let shown = edit.clone().of_target(target).seen_by(&edit.sender_id, &Sight::WHOLE);
            (shown.body, shown.version)
        };
        assert_eq!(shown(Some(&target)), ("second".to_owned(), Some(2)));
        let by = target.sender_id.clone();
        target.message_mut().unwrap().deleted = Some(Deleted { at: now, by });
        for target in [Some(&target), None] {
            assert_eq!(shown(target), (String::new(), None));
        }
    }

    #[test]
    fn the_most_frequent_reactions_are_shown_and_one_s_own_is_marked() {
        let mut entry =
            draft("hi").stored(Place::following(None, Timestamp::from_millis(5), [0; 10]), Follows::default());
        let message = entry.message_mut().unwrap();
        let alice = UserId::parse("alice").unwrap();
        for number in 0..60 {
            let user = if number == 7 { alice.clone() } else { UserId::parse(&format!("u{number}")).unwrap() };
            // Each of thirty twice, and one of them once more.
            message.reactions.insert(user, Emoji::parse(&format!("e{:02}", number % 30)).unwrap());
        }
        message.reactions.insert(UserId::parse("bob").unwrap(), Emoji::parse("e29").unwrap());
        let shown = entry.seen_by(&alice, &Sight::WHOLE).reactions;
        assert_eq!(shown.len(), REACTIONS_SHOWN_MAX);
        assert_eq!((shown[0].emoji.as_str(), shown[0].count, shown[0].mine), ("e29", 3, false));
        assert_eq!((shown[8].emoji.as_str(), shown[8].count, shown[8].mine), ("e07", 2, true));
        assert_eq!(shown.iter().filter(|reaction| reaction.mine).count(), 1);
    }

    #[test]
    fn a_message_has_so_many_different_reactions() {
        let emoji = |number: usize| Emoji::parse(&format!("e{number}")).unwrap();
        let mut tally = ReactionTally::default();
        for number in 0..CHANNEL_REACTIONS_MAX {
            assert!(tally.check(Some(&emoji(number))).is_ok());
            tally.counts.insert(emoji(number), 1);
        }
        assert_eq!(tally.check(Some(&emoji(99))), Err(Refusal::LimitReached));
        assert!(tally.check(Some(&emoji(7))).is_ok() && tally.check(None).is_ok());
        tally.own = Some(emoji(3));
        assert!(tally.check(Some(&emoji(99))).is_ok(), "in the place of one that goes");
        tally.counts.insert(emoji(3), 2);
        assert_eq!(tally.check(Some(&emoji(99))), Err(Refusal::LimitReached));
    }

    #[test]
    fn a_preview_ends_between_what_readers_take_for_characters() {
        let family = "👩🏽‍👩🏽‍👧🏽";
        let body = format!("{}{family}", "x".repeat(95));
        assert_eq!(preview(&body), "x".repeat(95));
        assert_eq!(preview(&"🇨🇭".repeat(60)), "🇨🇭".repeat(50));
        assert_eq!(preview(&format!("e{}", "\u{301}".repeat(300))).chars().count(), 100, "longer than a preview");
        assert_eq!(preview(family), family);
    }

    proptest! {
        #[test]
        fn a_preview_is_as_much_as_a_hundred_characters_hold(body in "(\\PC|👩🏽‍👩🏽‍👧🏽|e\u{301}|🇨🇭|\r\n){0,120}") {
            let preview = preview(&body);
            prop_assert!(body.starts_with(&preview) && preview.chars().count() <= 100);
            let rest = &body[preview.len()..];
            let whole = |text: &str| text.graphemes(true).count();
            prop_assert_eq!(whole(&preview) + whole(rest), whole(&body), "no grapheme is cut");
            let next = rest.graphemes(true).next().map_or(0, |next| next.chars().count());
            prop_assert!(rest.is_empty() || preview.chars().count() + next > 100, "nor left out");
        }
    }
}
