//! A message, appended to a conversation.

use domain::{Audience, Draft, Failure, Place, StoredMessage, direct_conversation_id};
use store::message_append::{self, Append};
use store::{Store, inbox};
use wire::{ConversationId, Refusal, SendRequest, Target, Timestamp, UserId};

use crate::retry::{Attempt, retry};

/// What is stored now.
#[derive(Debug)]
pub struct Appended {
    pub message: StoredMessage,
    pub audience: Audience,
    /// It had been stored before, under the same idempotency key.
    pub duplicate: bool,
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
    now: impl Fn() -> Timestamp,
    sender: &UserId,
    request: SendRequest,
    conflicts: &mut u64,
) -> Result<Appended, Failure> {
    let SendRequest { target, client_msg_id, kind, body } = request;
    let conversation_id = conversation_for(sender, &target);
    let draft = Draft { conversation_id, sender_id: sender.clone(), client_msg_id, kind, body };
    let (place, audience, duplicate) = retry(conflicts, async || {
        let previous = inbox::get(store, sender, &draft.conversation_id).await?;
        let audience = match (&target, &previous) {
            (Target::User(user), _) => Audience::direct(sender.clone(), user.clone()),
            (Target::Conversation(_), Some(row)) => row.audience(),
            (Target::Conversation(_), None) => return Err(Refusal::NotMember.into()),
        };
        let place = Place::following(previous.as_ref(), now(), random_bytes());
        let append = Append { draft: &draft, place: &place, audience: &audience, previous: previous.as_ref() };
        match message_append::append(store, &append).await? {
            message_append::Appended::Stored => Ok(Attempt::Done((place, audience, false))),
            message_append::Appended::Duplicate(first) => Ok(Attempt::Done((first, audience, true))),
            message_append::Appended::IdReused => Err(Refusal::IdReused.into()),
            message_append::Appended::Taken => Ok(Attempt::AgainAfterPause),
        }
    })
    .await?;
    Ok(Appended { message: draft.stored(place), audience, duplicate })
}

fn random_bytes() -> [u8; 10] {
    std::array::from_fn(|_| fastrand::u8(..))
}
