//! An entry that is appended, whatever the kind of the conversation.

use domain::{Audience, Change, Draft, Entry, Failure, Follows, Head, Origin, Place, RosterRow, Sight};
use store::message_append::AppendOutcome;
use store::{Store, messages};
use wire::{
    ClientMsgId, ConversationId, Member, NotAdded, Refusal, SendResult, Seq, Target, UserId, direct_conversation_id,
};

use crate::retry::Attempt;

/// The user who writes, and from where.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    pub user: &'a UserId,
    /// Where the reply goes, and so no copy.
    pub origin: Option<&'a Origin>,
}

/// A change of a message that a user wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub conversation_id: ConversationId,
    /// The message.
    pub target: Seq,
    pub client_msg_id: ClientMsgId,
    pub change: Change,
}

/// A stored entry.
#[derive(Debug)]
pub struct Appended {
    pub conversation_id: ConversationId,
    pub place: Place,
    /// The entry for the events. A duplicate is the entry as it is by now: it may have been edited or deleted since.
    pub entry: Option<Entry>,
    pub concerned: Concerned,
    /// The number of the version of the text that an edit made.
    pub version: Option<u64>,
    /// The writer's read mark then, if the request has `read`.
    pub read_seq: Option<Seq>,
    /// The stored text or data is not what the user wrote.
    pub is_other: bool,
    /// The entry had been stored before, under the same idempotency key.
    pub duplicate: bool,
}

impl Appended {
    /// Takes out the users who could not be added, for the reply.
    pub fn take_not_added(&mut self) -> Vec<NotAdded> {
        let body = self.entry.as_mut().and_then(Entry::system_mut);
        body.map(|body| std::mem::take(&mut body.not_added)).unwrap_or_default()
    }

    /// Returns the reply.
    pub fn into_result(self) -> SendResult {
        let message = self.entry.as_ref().filter(|_| self.is_other);
        let message = message.map(|entry| Box::new(entry.seen_by(&entry.sender_id, &Sight::WHOLE)));
        let Self { conversation_id, place: Place { seq, message_id, sent_at }, version, read_seq, duplicate, .. } =
            self;
        SendResult { conversation_id, seq, message_id, sent_at, duplicate, version, read_seq, message }
    }
}

/// The users whom an entry concerns.
#[derive(Debug)]
pub enum Concerned {
    /// The members of a direct conversation: their inbox rows are written in the same transaction. With the writer's
    /// marks, if the entry moved both.
    Audience(Audience, Option<Member>),
    /// The members of a group: their inbox rows follow the log. `tried`: the try that stored the entry, if it is known.
    Group { member_count: u64, tried: Option<Tried> },
    /// The subscribers of a channel: the stream of its head invokes `fanout`.
    Channel,
}

/// The try that stored an entry of a group.
#[derive(Debug)]
pub enum Tried {
    /// The one of this process, just now.
    Now(Box<Commit>),
    /// An earlier one: the request comes again.
    Before(FirstTry),
}

/// The try that stored a duplicate.
#[derive(Debug)]
pub struct FirstTry {
    pub(crate) user: UserId,
    /// The place of the entry, which the reply does not name to a writer who is no member.
    pub(crate) place: Place,
}

/// A group just after the transaction that stored an entry.
#[derive(Debug)]
pub struct Commit {
    pub(crate) head: Head,
    /// The whole member list. The log head was read before the list and did not move until the commit, so the list did
    /// not change either. `None`: the list was not read.
    pub(crate) roster: Option<Vec<RosterRow>>,
}

/// A user who is a member now.
#[derive(Debug)]
pub struct Joined {
    /// The end of the log.
    pub last_seq: Seq,
    /// The entry of a user who came back to a group.
    pub entry: Option<Box<Appended>>,
}

/// Returns the conversation that a message is for.
pub fn conversation_for(sender: &UserId, target: &Target) -> ConversationId {
    match target {
        Target::User(user) => direct_conversation_id(sender, user),
        Target::Conversation(conversation) => conversation.clone(),
    }
}

/// An entry that is stored, now or before.
pub(crate) struct StoredEntry {
    pub(crate) place: Place,
    pub(crate) follows: Follows,
    pub(crate) concerned: Concerned,
    pub(crate) duplicate: bool,
}

/// Returns the outcome of an attempt at an entry in this `place`.
pub(crate) fn attempted(
    appended: AppendOutcome,
    place: Place,
    follows: Follows,
    concerned: Concerned,
) -> Result<Attempt<StoredEntry>, Failure> {
    match appended {
        AppendOutcome::Stored => Ok(Attempt::Done(StoredEntry { place, follows, concerned, duplicate: false })),
        AppendOutcome::Duplicate(place, version) => {
            let follows = Follows { version, ..Follows::default() };
            Ok(Attempt::Done(StoredEntry { place, follows, concerned, duplicate: true }))
        }
        AppendOutcome::IdReused => Err(Refusal::IdReused.into()),
        AppendOutcome::MediaRefused(refusal) => Err(refusal.into()),
        AppendOutcome::Full => Err(Refusal::LimitReached.into()),
        AppendOutcome::Taken => Ok(Attempt::AgainAfterPause),
    }
}

/// Adds the entry for the events. A duplicate is read: what the request contains may be deleted by now.
pub(crate) async fn finished(store: &Store, draft: Draft, written: StoredEntry) -> Result<Appended, Failure> {
    let StoredEntry { place, follows, concerned, duplicate } = written;
    let version = follows.version;
    let conversation_id = draft.conversation_id.clone();
    let entry = if duplicate {
        // An unreadable entry gets a reply, and no second event.
        store::if_readable(messages::get(store, &conversation_id, place.seq).await, "a message")?.flatten()
    } else {
        Some(draft.stored(place.clone(), follows))
    };
    Ok(Appended { conversation_id, place, entry, concerned, version, read_seq: None, is_other: false, duplicate })
}

/// Reads the message that is to be changed. The reply for an unreadable one is that of a missing one. A client would
/// repeat the request after `unavailable`, and all later requests of the conversation would wait.
pub(crate) async fn changeable(
    store: &Store,
    conversation: &ConversationId,
    target: Seq,
) -> Result<Option<Entry>, Failure> {
    Ok(store::if_readable(messages::get(store, conversation, target).await, "a message that is to be changed")?
        .flatten())
}

/// For [`domain::message_id`].
pub fn random_bytes() -> [u8; 10] {
    std::array::from_fn(|_| fastrand::u8(..))
}
