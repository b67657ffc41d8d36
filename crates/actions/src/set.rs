//! What a user sets for a conversation or for another user.

use domain::{Failure, direct_conversation_id};
use store::Store;
use store::settings::{self, Set};
use wire::{Refusal, Settings, UserId};

use crate::retry::{Attempt, retry};

/// Sets it, until nobody else was writing the row. Setting the same again changes nothing.
pub async fn set(store: &Store, user: &UserId, wanted: &Settings) -> Result<(), Failure> {
    retry(&mut 0, async || {
        let set = match wanted {
            Settings::Conversation { conversation_id, set } => {
                settings::set_conversation(store, user, conversation_id, set).await?
            }
            Settings::User { user_id, .. } if user_id == user => {
                return Err(Refusal::bad_request("user_id", "must be another user").into());
            }
            Settings::User { user_id, set } => {
                let conversation = direct_conversation_id(user, user_id);
                settings::set_blocked(store, user, user_id, &conversation, set.blocked).await?
            }
        };
        match set {
            Set::Done => Ok(Attempt::Done(())),
            Set::NotMember => Err(Refusal::NotMember.into()),
            Set::Busy => Ok(Attempt::AgainAfterPause),
        }
    })
    .await
}
