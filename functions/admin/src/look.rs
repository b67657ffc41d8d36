//! Lookups of an operator.

use domain::{Failure, Membership, With};
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use store::connections::Freshness;
use store::{inbox, messages};
use wire::{ConversationId, Refusal, Seq, Timestamp, UserId};

use crate::Deps;

/// Maximum of conversations in a reply of `pending`.
const PENDING_MAX: usize = 100;
/// Entries in a reply of `find`, and how many of them are older than the time.
const FOUND_MAX: usize = 20;
const FOUND_BEFORE: u64 = 10;

pub(crate) async fn connections(deps: &Deps, user: &UserId, now: Timestamp) -> Result<Value, Failure> {
    let listed = store::connections::list(&deps.actions.store, user, now, Freshness::Strong).await?;
    let connections: Vec<Value> = listed
        .open
        .iter()
        .map(|open| {
            let connection = &open.connection;
            json!({
                "connection_id": connection.id.as_str(), "device_id": open.device,
                "connected_at": connection.connected_at, "ends_at": connection.ends_at,
            })
        })
        .collect();
    Ok(json!({ "connections": connections, "suspended_until": listed.suspended_until }))
}

/// Returns pending conversations, the oldest first.
pub(crate) async fn pending(deps: &Deps, user: &UserId) -> Result<Value, Failure> {
    let found = inbox::pending(&deps.actions.store, user, PENDING_MAX, None).await?;
    let conversations: Vec<Value> = found
        .memberships
        .iter()
        .map(|row| {
            let peer_id = match &row.with {
                With::Peer { peer_id, .. } => Some(peer_id),
                With::Group(_) => None,
            };
            json!({
                "conversation_id": row.conversation_id, "peer_id": peer_id,
                "pending_from": row.marks.pending_from, "last_seq": row.end.seq, "last_sent_at": row.end.sent_at,
            })
        })
        .collect();
    Ok(json!({ "conversations": conversations, "more": found.next.is_some() }))
}

pub(crate) async fn conversation(
    deps: &Deps,
    users: &[UserId],
    conversation_id: &ConversationId,
) -> Result<Value, Failure> {
    let rows = try_join_all(users.iter().map(|user| inbox::get(&deps.actions.store, user, conversation_id))).await?;
    let rows: Vec<Value> = rows.iter().flatten().map(row).collect();
    Ok(json!({ "conversation_id": conversation_id, "rows": rows }))
}

/// Without what was written: not even its beginning.
fn row(row: &Membership) -> Value {
    let Membership { user_id, end, marks, settings, .. } = row;
    json!({
        "user_id": user_id, "last_seq": end.seq, "last_sent_at": end.sent_at,
        "delivered_seq": marks.delivered_seq, "delivered_at": row.delivered_at,
        "read_seq": marks.read_seq, "read_at": row.read_at,
        "unread": marks.unread, "pending_from": marks.pending_from,
        "muted_until": settings.muted_until, "archived": settings.archived,
        "marked_unread": settings.marked_unread, "pinned": settings.pinned, "blocked": settings.blocked,
    })
}

/// Returns the entries around a time, without texts.
pub(crate) async fn find(deps: &Deps, conversation: &ConversationId, at: Timestamp) -> Result<Value, Failure> {
    let first = first_since(deps, conversation, at).await?;
    let behind = behind(first.saturating_sub(FOUND_BEFORE))?;
    let found = messages::outlines(&deps.actions.store, conversation, behind, FOUND_MAX).await?;
    let entries: Vec<Value> = found
        .messages
        .iter()
        .map(|entry| {
            json!({
                "seq": entry.place.seq, "sender_id": entry.sender_id, "kind": entry.kind(),
                "sent_at": entry.place.sent_at,
            })
        })
        .collect();
    Ok(json!({ "conversation_id": conversation, "entries": entries }))
}

/// Returns the `seq` of the first entry at that time or later, or the one behind the last entry. A conversation's times
/// never go back, so a search by halves finds it: 2 reads for each doubling of the log.
async fn first_since(deps: &Deps, conversation: &ConversationId, at: Timestamp) -> Result<u64, Failure> {
    let is_since = async |seq: u64| {
        let next = messages::outlines(&deps.actions.store, conversation, behind(seq)?, 1).await?;
        Ok::<_, Failure>(match next.messages.first() {
            Some(entry) => entry.place.sent_at >= at,
            None => next.unreadable.is_empty(),
        })
    };
    let (mut older, mut since) = (0, 1);
    while !is_since(since).await? {
        (older, since) = (since, since * 2);
    }
    while since - older > 1 {
        let middle = older + (since - older) / 2;
        if is_since(middle).await? { since = middle } else { older = middle }
    }
    Ok(since)
}

/// Returns the place before this `seq`, from which the store reads on.
fn behind(seq: u64) -> Result<Seq, Refusal> {
    Seq::new(seq.saturating_sub(1)).ok_or_else(|| Refusal::bad_request("conversation_id", "has no such entry"))
}
