//! A user's settings for a conversation or for another user.

use domain::Failure;
use store::pinned::{self, List, Pins};
use store::settings::{self, Block, Set};
use store::{Store, channels, heads, inbox};
use wire::limits::PINNED_CONVERSATIONS_MAX;
use wire::{ConversationId, ConversationKind, ConversationSettings, Refusal, Settings, UserId, direct_conversation_id};

use crate::retry::{Attempt, retry};
use crate::{Actions, group};

/// Sets it, until no other writer was writing the row. The same setting again changes nothing.
pub(crate) async fn set(actions: &Actions, user: &UserId, wanted: &Settings) -> Result<(), Failure> {
    match wanted {
        Settings::Conversation { conversation_id, set } => of_conversation(actions, user, conversation_id, set).await,
        Settings::User { user_id, .. } if user_id == user => {
            Err(Refusal::bad_request("user_id", "must be another user").into())
        }
        // A user can mute a service, and not block it.
        Settings::User { user_id, .. } if user_id.is_service() => Err(Refusal::Forbidden.into()),
        Settings::User { user_id, set } => {
            until_set(async || set_blocked(actions, user, user_id, set.blocked).await).await
        }
    }
}

async fn of_conversation(
    actions: &Actions,
    user: &UserId,
    conversation: &ConversationId,
    set: &ConversationSettings,
) -> Result<(), Failure> {
    let store = &actions.store;
    let of_row = async || {
        let still = async |ids: &[ConversationId]| {
            let rows = inbox::pinned(store, user, ids).await?.0;
            Ok(rows.into_iter().map(|row| row.conversation_id).collect())
        };
        let pins = pins(store, user, conversation, (set, List::Chats), still).await?;
        Ok(settings::set_conversation(store, user, conversation, set, actions.now(), pins.as_ref()).await?)
    };
    match conversation.kind() {
        ConversationKind::Group => {
            let mut is_touched = false;
            until_set(async || match of_row().await? {
                // A user who has just joined may have no row yet.
                Set::NotMember if !is_touched => {
                    is_touched = true;
                    group::touch(actions, user, conversation, None).await?;
                    Ok(of_row().await?)
                }
                done => Ok(done),
            })
            .await
        }
        ConversationKind::Direct | ConversationKind::Channel if set.mute_mentions.is_some() => {
            Err(Refusal::bad_request("set.mute_mentions", "must be left out: this is not a group").into())
        }
        ConversationKind::Direct => until_set(of_row).await,
        ConversationKind::Channel => {
            until_set(async || {
                let head = heads::get(store, conversation).await?.ok_or(Refusal::NotMember)?;
                let still = async |ids: &[ConversationId]| {
                    let rows = channels::pinned(store, user, ids).await?.rows;
                    Ok(rows.into_iter().map(|row| row.conversation_id).collect())
                };
                let pins = pins(store, user, conversation, (set, List::Channels), still).await?;
                Ok(channels::set(store, user, conversation, set, head.counted, pins.as_ref()).await?)
            })
            .await
        }
    }
}

/// Returns the list of what is pinned with or without this conversation, if that is to be set. `still`: those that the
/// user has not left. The others leave a full list.
async fn pins(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
    (set, list): (&ConversationSettings, List),
    still: impl AsyncFn(&[ConversationId]) -> Result<Vec<ConversationId>, Failure>,
) -> Result<Option<Pins>, Failure> {
    let Some(is_pinned) = set.pinned else { return Ok(None) };
    let was = pinned::get(store, user, list).await?;
    let mut ids: Vec<ConversationId> = was.ids.iter().filter(|id| *id != conversation).cloned().collect();
    if is_pinned && ids.len() >= PINNED_CONVERSATIONS_MAX {
        ids = still(&ids).await?;
    }
    if is_pinned && ids.len() >= PINNED_CONVERSATIONS_MAX {
        return Err(Refusal::LimitReached.into());
    }
    if is_pinned {
        ids.insert(0, conversation.clone());
    }
    Ok(Some(Pins { ids, was }))
}

async fn until_set(mut set: impl AsyncFnMut() -> Result<Set, Failure>) -> Result<(), Failure> {
    retry(&mut 0, async || match set().await? {
        Set::Done => Ok(Attempt::Done(())),
        Set::NotMember => Err(Refusal::NotMember.into()),
        Set::Busy => Ok(Attempt::AgainAfterPause),
    })
    .await
}

/// Sets or ends a block. A block of a stranger writes rows for an id that perhaps no user has, so it counts as a first
/// message.
async fn set_blocked(actions: &Actions, user: &UserId, peer: &UserId, blocked: bool) -> Result<Set, Failure> {
    let Actions { store, limits, .. } = actions;
    let conversation = &direct_conversation_id(user, peer);
    let was = settings::relation(store, user, conversation).await?;
    if was.is_gone {
        return Err(Refusal::Forbidden.into());
    }
    if was.is_set(blocked) {
        return Ok(Set::Done);
    }
    let mut block = Block { user, peer, conversation, was, first_message: None };
    if !blocked {
        return Ok(settings::unblock(store, &block).await?);
    }
    if !was.has_conversation && !was.blocked && !limits.first_messages.is_unlimited() {
        limits.admit_first(user, actions.now())?;
        let was_until = inbox::first_messages_until(store, user).await?;
        block.first_message = limits.take_first(user, was_until, actions.now(), 1)?;
    }
    Ok(settings::block(store, &block).await?)
}
