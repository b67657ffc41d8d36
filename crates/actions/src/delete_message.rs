//! A message that an operator deletes, whoever wrote it.

use domain::{Change, Content, Draft, Failure, Follows, Place, Rights};
use futures_util::future::try_join_all;
use store::message_append::{self, Entry};
use store::message_change::{self, Alter};
use store::{Store, inbox, messages};
use wire::{ClientMsgId, ConversationId, Refusal, Seq, Timestamp, UserId};

use crate::append::{Appended, attempted, finished, random_bytes};
use crate::group::{Writer, append_to_group};
use crate::retry::retry;
use crate::sends::SendLimits;

/// Deletes it, as whoever wrote it could. The entry that says so is the system's, who is no member.
pub async fn delete_message(
    store: &Store,
    limits: &SendLimits,
    now: impl Fn() -> Timestamp,
    (conversation_id, seq): (ConversationId, Seq),
    conflicts: &mut u64,
) -> Result<Appended, Failure> {
    let operator = UserId::service_default();
    // Services have the same name: not what one of them would think of.
    let client_msg_id = ClientMsgId::parse(&format!("operator:delete:{seq}"));
    let client_msg_id = client_msg_id.map_err(|invalid| Failure::Unavailable(invalid.into()))?;
    let change = Change::Delete;
    let content = Content::Change { target: seq, change: change.clone() };
    let draft = Draft { conversation_id, sender_id: operator.clone(), client_msg_id, content };
    if draft.conversation_id.has_members() {
        let writer = Writer { user: &operator, connection: None };
        let appended = append_to_group(store, limits, now, writer, draft, conflicts).await?;
        return appended.ok_or_else(|| Refusal::Gone.into());
    }
    let found = messages::get(store, &draft.conversation_id, seq).await?.ok_or(Refusal::Gone)?;
    let member = found.aside.recipient.unwrap_or(found.sender_id);
    let written = retry(conflicts, async || {
        let previous = inbox::get(store, &member, &draft.conversation_id).await?.ok_or(Refusal::Gone)?;
        let audience = previous.audience().seen_from_outside(operator.clone());
        // Only now: whoever changes it after the row was read moves the end of the conversation.
        let found = messages::get(store, &draft.conversation_id, seq).await?;
        let others = audience.others().iter().map(|other| inbox::get(store, other, &draft.conversation_id));
        let others: Vec<_> = try_join_all(others).await?.into_iter().flatten().collect();
        let place = Place::following(Some(previous.end), now(), random_bytes());
        let appended = match change.check(&operator, found.as_ref(), Rights { blocked: false, moderates: true }) {
            Ok(target) => {
                let kept_until = (!limits.kept_for.is_zero()).then(|| place.sent_at.plus(limits.kept_for));
                let entry = Entry {
                    draft: &draft,
                    place: &place,
                    audience: &audience,
                    sends_until: None,
                    follows: Follows::default(),
                };
                let previous = &previous;
                message_change::change(
                    store,
                    &Alter { entry, change: &change, previous, target, others: &others, kept_until },
                )
                .await?
            }
            // What was stored before keeps its answer.
            Err(refusal) => message_append::find(store, &draft).await?.ok_or(refusal)?,
        };
        attempted(appended, place, Follows::default(), audience)
    })
    .await?;
    finished(store, draft, written).await
}
