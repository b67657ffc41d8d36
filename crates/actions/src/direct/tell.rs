//! The events of a direct conversation.

use deliver::{Delivered, Delivery};
use domain::{Audience, Failure, Origin, Sight};
use store::{Store, inbox};
use wire::{ConversationId, Member, Refusal, ServerEvent, UserId};

use crate::Actions;
use crate::entry::Appended;

/// Sends a new entry to both members, but not to where the request came from. The marks that the entry moved go with it.
pub(crate) async fn tell_appended(
    actions: &Actions,
    appended: &Appended,
    (audience, marks): (&Audience, Option<&Member>),
    from: Option<&Origin>,
) -> Vec<Delivered> {
    let Some(entry) = &appended.entry else { return vec![] };
    let event = |user: &UserId| ServerEvent::MessagesNew {
        conversation_id: entry.conversation_id.clone(),
        messages: vec![entry.seen_by(user, &Sight::WHOLE)],
        marks: marks.cloned().into_iter().collect(),
    };
    let except = |user: &UserId| from.filter(|_| user == audience.own());
    let to = |user| Delivery { user, event: event(user), except: except(user) };
    let deliveries: Vec<Delivery> = audience.people().map(to).collect();
    actions.fanout.deliver(actions.now(), &deliveries).await
}

/// Returns the user who gets `typing`.
pub(crate) async fn told_of_typing(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
) -> Result<Vec<UserId>, Failure> {
    let row = inbox::get(store, user, conversation).await?.ok_or(Refusal::NotMember)?;
    Ok(row.told_of_typing().others().to_vec())
}

/// Returns the user who gets the text of a service: no user without a conversation. The row is the user's own, because a
/// service has none, and no user blocks a service.
pub(crate) async fn told_of_text(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
) -> Result<Vec<UserId>, Failure> {
    let row = inbox::get(store, user, conversation).await?;
    Ok(row.map(|row| row.user_id).into_iter().collect())
}
