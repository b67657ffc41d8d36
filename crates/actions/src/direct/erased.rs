//! The entry about an erased user in a direct conversation.

use domain::{Audience, Content, Draft, ErasedBody, Failure, Follows, Place};
use store::{erase, inbox};
use wire::{ClientMsgId, ConversationId, Refusal, UserId};

use crate::Actions;
use crate::entry::{Appended, Concerned, attempted, finished, random_bytes};
use crate::retry::retry;

/// Appends the entry behind the end of the peer's row, until no other writer did in between. The erased user's row follows
/// while it is there.
pub(crate) async fn append_erased(
    actions: &Actions,
    conversation: &ConversationId,
    (user, peer): (&UserId, &UserId),
    (erased, key): (ErasedBody, ClientMsgId),
) -> Result<Option<Appended>, Failure> {
    let store = &actions.store;
    let content = Content::Erased(Box::new(erased));
    let draft = Draft::new(conversation.clone(), UserId::service_default(), key, content);
    let written = retry(&mut 0, async || {
        let row = inbox::get(store, peer, conversation).await?.ok_or(Refusal::Gone)?;
        let own = inbox::get(store, user, conversation).await?;
        let place = Place::following(Some(row.end), actions.now(), random_bytes());
        let rows: Vec<_> = std::iter::once(row).chain(own).collect();
        let outcome = erase::append(store, &draft, &place, &rows).await?;
        let told = Audience::direct(peer.clone(), peer.clone());
        attempted(outcome, place, Follows::default(), Concerned::Audience(told, None))
    })
    .await?;
    // The event of an entry that was stored before has been sent, or the entry is pending.
    if written.duplicate {
        return Ok(None);
    }
    finished(store, draft, written).await.map(Some)
}
