//! The members whom a message of a channel mentions.

use domain::{Failure, Mention, error_chain, moderates};
use futures_util::future::join_all;
use store::channels::{self, Mentioned};
use wire::{ConversationId, UserId};

use crate::Actions;
use crate::entry::Appended;
use crate::retry::{Attempt, retry};

/// Records the mentions in the members' rows, after the commit. The post's transaction does not contain them: members
/// who read all the time would cancel it. If this process ends first, the repetition of the request records them.
pub(crate) async fn mention(actions: &Actions, author: &UserId, appended: &Appended, mentions: &[UserId]) {
    let (channel, place) = (&appended.conversation_id, &appended.place);
    let is_loud = match is_loud(actions, author, channel).await {
        Ok(is_loud) => is_loud,
        Err(error) => {
            tracing::warn!(
                error = error_chain(&error),
                "the author's role was not read; a muted channel sends no push"
            );
            false
        }
    };
    let mention = Mention { seq: place.seq, at: place.sent_at, is_loud };
    let others = mentions.iter().filter(|user| *user != author);
    join_all(others.map(async |user| {
        if let Err(error) = one(actions, user, channel, mention).await {
            tracing::warn!(error = error_chain(&error), "a mention was not recorded");
        }
    }))
    .await;
}

/// Whether the author's mentions send pushes although the channel is muted. Otherwise any user could notify all members
/// of an open channel.
async fn is_loud(actions: &Actions, author: &UserId, channel: &ConversationId) -> Result<bool, store::Error> {
    if author.is_service() {
        return Ok(true);
    }
    let row = channels::get(&actions.store, author, channel).await?;
    Ok(row.is_some_and(|row| moderates(row.role)))
}

async fn one(actions: &Actions, user: &UserId, channel: &ConversationId, mention: Mention) -> Result<(), Failure> {
    retry(&mut 0, async || match channels::mention(&actions.store, user, channel, mention).await? {
        Mentioned::Done | Mentioned::Passed => Ok(Attempt::Done(())),
        Mentioned::Busy => Ok(Attempt::AgainAfterPause),
    })
    .await
}
