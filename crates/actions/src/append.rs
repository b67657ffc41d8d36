//! A message, appended to a conversation.

use domain::{Audience, Content, Draft, Failure, Follows, Place, StoredMessage, direct_conversation_id, error_chain};
use futures_util::future::try_join_all;
use store::inbox::Standing;
use store::message_append::{self, Append, AppendOutcome, Entry, FirstMessage};
use store::{Store, connections, inbox, messages};
use wire::{ConversationId, Refusal, SendRequest, SendResult, Seq, Target, Timestamp, UserId};

use crate::group::{Writer, append_to_group};
use crate::retry::{Attempt, retry};
use crate::sends::{SendLimits, take};

/// What is stored now.
#[derive(Debug)]
pub struct Appended {
    pub conversation_id: ConversationId,
    pub place: Place,
    /// What is to be told of it. Of a duplicate, the entry as it is by now: it may have been edited or deleted since.
    pub entry: Option<StoredMessage>,
    pub concerned: Concerned,
    /// Of an edit: which version of the text it made.
    pub version: Option<u64>,
    /// It had been stored before, under the same idempotency key.
    pub duplicate: bool,
}

impl Appended {
    /// What is answered.
    pub fn into_result(self) -> SendResult {
        let Self { conversation_id, place: Place { seq, message_id, sent_at }, version, duplicate, .. } = self;
        SendResult { conversation_id, seq, message_id, sent_at, duplicate, version }
    }
}

/// Whom an entry concerns.
#[derive(Debug)]
pub enum Concerned {
    /// The members of a direct conversation: their rows have it.
    Audience(Audience),
    /// The members of a group: their rows follow its log.
    Group { member_count: u64 },
    /// Those who look at a channel: the stream of its head tells them.
    Channel,
}

/// The conversation that a message is for.
pub fn conversation_for(sender: &UserId, target: &Target) -> ConversationId {
    match target {
        Target::User(user) => direct_conversation_id(sender, user),
        Target::Conversation(conversation) => conversation.clone(),
    }
}

/// Reads where the conversation ends and writes behind it, until nobody else did in between: `conflicts` counts how often
/// somebody did.
pub async fn append(
    store: &Store,
    limits: &SendLimits,
    now: impl Fn() -> Timestamp,
    writer: Writer<'_>,
    request: SendRequest,
    conflicts: &mut u64,
) -> Result<Appended, Failure> {
    let sender = writer.user;
    let SendRequest { target, client_msg_id, kind, body, media, reply_to, mentions } = request;
    let conversation_id = conversation_for(sender, &target);
    let has_mentions = !mentions.is_empty();
    let content = Content::Message { kind, body, media, reply_to, mentions };
    let draft = Draft { conversation_id, sender_id: sender.clone(), client_msg_id, content };
    if has_mentions && !draft.conversation_id.is_group() {
        return Err(Refusal::bad_request("mentions", "must be left out: this is no group").into());
    }
    if draft.conversation_id.has_members() {
        let appended = append_to_group(store, limits, now, writer, draft, conflicts).await?;
        return appended.ok_or_else(|| Refusal::NotMember.into());
    }
    // Of a service's conversation only the user has a row, which says where it ends.
    let owner = match &target {
        Target::User(user) if sender.is_service() => user,
        Target::User(_) | Target::Conversation(_) => sender,
    };
    let written = retry(conflicts, async || {
        let now = now();
        let standing = inbox::standing(store, owner, &draft.conversation_id).await?;
        let previous = standing.membership.as_ref();
        let audience = match (&target, previous) {
            (Target::User(user), _) => Audience::direct(sender.clone(), user.clone()),
            (Target::Conversation(_), Some(row)) => row.audience(),
            (Target::Conversation(_), None) => return Err(Refusal::NotMember.into()),
        };
        let end = previous.map_or(Seq::ZERO, |row| row.end.seq);
        if reply_to.is_some_and(|reply_to| reply_to > end) {
            return Err(Refusal::bad_request("reply_to", "must be the seq of a message of this conversation").into());
        }
        let place = Place::following(previous.map(|row| row.end), now, random_bytes());
        let appended = match allow(store, limits, &standing, &audience, now).await? {
            Ok(Allowed { sends_until, first_message }) => {
                let entry = Entry {
                    draft: &draft,
                    place: &place,
                    audience: &audience,
                    sends_until,
                    follows: Follows::default(),
                };
                message_append::append(store, &Append { entry, previous, first_message }).await?
            }
            // What was stored before keeps its answer.
            Err(refusal) => message_append::find(store, &draft).await?.ok_or(refusal)?,
        };
        attempted(appended, place, Follows::default(), audience)
    })
    .await?;
    finished(store, draft, written).await
}

/// An entry that is stored, now or before.
pub(crate) struct StoredEntry {
    pub(crate) place: Place,
    pub(crate) follows: Follows,
    pub(crate) concerned: Concerned,
    pub(crate) duplicate: bool,
}

/// What an attempt at an entry came to, if it is this `place` that it tried, with what follows from its target.
pub(crate) fn attempted(
    appended: AppendOutcome,
    place: Place,
    follows: Follows,
    audience: Audience,
) -> Result<Attempt<StoredEntry>, Failure> {
    let concerned = Concerned::Audience(audience);
    match appended {
        AppendOutcome::Stored => Ok(Attempt::Done(StoredEntry { place, follows, concerned, duplicate: false })),
        AppendOutcome::Duplicate(place, version) => {
            let follows = Follows { version, emoji_before: None };
            Ok(Attempt::Done(StoredEntry { place, follows, concerned, duplicate: true }))
        }
        AppendOutcome::IdReused => Err(Refusal::IdReused.into()),
        AppendOutcome::MediaRefused(refusal) => Err(refusal.into()),
        AppendOutcome::Full => Err(Refusal::LimitReached.into()),
        AppendOutcome::Taken => Ok(Attempt::AgainAfterPause),
    }
}

/// With what is to be told. A duplicate is read: what the request says may be deleted by now.
pub(crate) async fn finished(store: &Store, draft: Draft, written: StoredEntry) -> Result<Appended, Failure> {
    let StoredEntry { place, follows, concerned, duplicate } = written;
    let version = follows.version;
    let conversation_id = draft.conversation_id.clone();
    let entry = if duplicate {
        // Where it can't be read it is answered, and told to nobody again.
        store::if_readable(messages::get(store, &conversation_id, place.seq).await, "a message")?.flatten()
    } else {
        Some(draft.stored(place.clone(), follows))
    };
    Ok(Appended { conversation_id, place, entry, concerned, version, duplicate })
}

/// What the limits say once the message is sent.
struct Allowed {
    sends_until: Option<Timestamp>,
    first_message: Option<FirstMessage>,
}

/// Whether the sender may write this now, by their own row; of a first message to somebody else, also by whether they may be written
/// to, and by the count of first messages. What a service writes is its owner's affair, and waits for who is suspended.
async fn allow(
    store: &Store,
    limits: &SendLimits,
    standing: &Standing,
    audience: &Audience,
    now: Timestamp,
) -> Result<Result<Allowed, Refusal>, Failure> {
    if audience.own().is_service() {
        return Ok(Ok(Allowed { sends_until: None, first_message: None }));
    }
    // Nobody reads what a service is told.
    if standing.blocked || audience.others().iter().any(UserId::is_service) {
        return Ok(Err(Refusal::Forbidden));
    }
    let is_first = standing.membership.is_none() && !audience.others().is_empty();
    let counted = is_first && !limits.first_messages.is_unlimited();
    let (suspended, was_until) = tokio::join!(async { is_first && any_suspended(store, audience, now).await }, async {
        if counted { inbox::first_messages_until(store, audience.own()).await } else { Ok(None) }
    },);
    let was_until = was_until?;
    if suspended {
        return Ok(Err(Refusal::Forbidden));
    }
    let take = || {
        let sends_until = take(&limits.sends, standing.sends_until, now)?;
        let until = if counted { take(&limits.first_messages, was_until, now)? } else { None };
        let first_message = until.map(|until| FirstMessage { was_until, until });
        Ok(Allowed { sends_until, first_message })
    };
    Ok(take())
}

/// Whether one of those who would get a first message may not use the service now. Where that can't be read it is stored all the
/// same: it waits, as everything does for somebody who can't connect.
async fn any_suspended(store: &Store, audience: &Audience, now: Timestamp) -> bool {
    let looks = audience.others().iter().map(|other| connections::suspended_until(store, other, now));
    match try_join_all(looks).await {
        Ok(until) => until.iter().any(Option::is_some),
        Err(error) => {
            tracing::warn!(error = error_chain(&error), "whether a recipient is suspended is unknown");
            false
        }
    }
}

pub(crate) fn random_bytes() -> [u8; 10] {
    std::array::from_fn(|_| fastrand::u8(..))
}
