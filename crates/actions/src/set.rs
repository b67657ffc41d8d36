//! What a user sets for a conversation or for another user.

use deliver::Fanout;
use domain::{Failure, direct_conversation_id};
use store::settings::{self, Set};
use store::{Store, channels, heads};
use wire::{Refusal, Settings, Timestamp, UserId};

use crate::reconcile::touch;
use crate::retry::{Attempt, retry};

/// Sets it, until nobody else was writing the row. Setting the same again changes nothing.
pub async fn set(
    store: &Store,
    fanout: &Fanout,
    now: Timestamp,
    user: &UserId,
    wanted: &Settings,
) -> Result<(), Failure> {
    let mut is_touched = false;
    retry(&mut 0, async || {
        let set = match wanted {
            Settings::Conversation { conversation_id, set } if conversation_id.is_channel() => {
                let head = heads::get(store, conversation_id).await?.ok_or(Refusal::NotMember)?;
                channels::set(store, user, conversation_id, set, head.counted).await?
            }
            Settings::Conversation { conversation_id, set } => {
                settings::set_conversation(store, user, conversation_id, set).await?
            }
            Settings::User { user_id, .. } if user_id == user => {
                return Err(Refusal::bad_request("user_id", "must be another user").into());
            }
            // It can be muted.
            Settings::User { user_id, .. } if user_id.is_service() => return Err(Refusal::Forbidden.into()),
            Settings::User { user_id, set } => {
                let conversation = direct_conversation_id(user, user_id);
                settings::set_blocked(store, user, user_id, &conversation, set.blocked).await?
            }
        };
        match set {
            Set::Done => Ok(Attempt::Done(())),
            // Who has just joined a group may have no row of it yet.
            Set::NotMember => match wanted {
                Settings::Conversation { conversation_id, .. } if conversation_id.is_group() && !is_touched => {
                    is_touched = true;
                    touch(store, fanout, now, user, conversation_id, None).await?;
                    Ok(Attempt::Again)
                }
                Settings::Conversation { .. } | Settings::User { .. } => Err(Refusal::NotMember.into()),
            },
            Set::Busy => Ok(Attempt::AgainAfterPause),
        }
    })
    .await
}
