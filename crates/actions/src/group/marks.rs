//! A mark in a group.

use domain::{Failure, error_chain};
use store::heads;
use store::inbox::Mark;
use wire::{ConversationId, Seq, UserId};

use crate::Actions;
use crate::group::touch;
use crate::marks::{self, Raised};

/// Raises a mark. A device may have saved entries that the user's row has not reached: then the row catches up first.
/// So does the row of a user who left, because another member may have added the user again.
pub(crate) async fn raise(
    actions: &Actions,
    user: &UserId,
    conversation: &ConversationId,
    mark: (Seq, Mark),
) -> Result<Raised, Failure> {
    let touch = async |row| touch(actions, user, conversation, row).await;
    at_the_end(actions, marks::raise(actions, user, conversation, mark, touch).await?).await
}

/// Reads the group's head, which the receipts need in any case. If the log has moved on, the row catches up too, so the
/// reply covers entries that the server has just confirmed to other members.
async fn at_the_end(actions: &Actions, mut raised: Raised) -> Result<Raised, Failure> {
    let row = &raised.row;
    if !row.is_open() {
        return Ok(raised);
    }
    raised.head = heads::glance(&actions.store, &row.conversation_id).await.unwrap_or_else(|error| {
        tracing::warn!(error = error_chain(&error), "the log head was not read; no receipt was sent");
        None
    });
    if raised.head.as_ref().is_some_and(|head| head.end.seq > row.end.seq) {
        let moved = touch(actions, &row.user_id, &row.conversation_id, Some(row.clone())).await?;
        raised.row = moved.unwrap_or(raised.row);
    }
    Ok(raised)
}
