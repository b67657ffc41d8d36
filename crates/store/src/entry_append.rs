//! The transaction that appends an entry to the log of a group or a channel. The transaction writes the entry, its
//! idempotency row, the head, and the changed rows of members or of the target. All or nothing, and the same for any
//! number of members.

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::TransactWriteItem;
use domain::{Change, Draft, Entry, Head, MessageEntry, RosterRow, TREE_TTL};
use wire::{ConversationKind, Kind, MediaId, Timestamp};

use crate::message_append::{AppendOutcome, FirstMessage, begin, commit, first_messages_update};
use crate::message_change::{audit_put, carried_delete, target_update};
use crate::transaction::{put, update};
use crate::{Error, Store, channels, epochs, heads, media, profiles, roster};

/// An entry of a group, by the head as it was read before everything else that decided on it.
#[derive(Debug)]
pub struct GroupEntry<'a> {
    pub draft: &'a Draft,
    pub entry: &'a Entry,
    /// `None`: the group is new.
    pub previous: Option<&'a Head>,
    /// The head after the entry.
    pub head: &'a Head,
    /// The rows of the roster that it writes.
    pub roster: &'a [RosterRow],
    pub change: Option<ChangeOf<'a>>,
    /// Strangers who are added count as first messages to them do.
    pub first_messages: Option<FirstMessage>,
}

/// The new state of a target.
#[derive(Clone, Copy, Debug)]
pub struct ChangeOf<'a> {
    pub change: &'a Change,
    /// The message before.
    pub target: MessageEntry<'a>,
    /// The old text is kept for the operator until then, if at all.
    pub kept_until: Option<Timestamp>,
}

/// Appends the entry, if the log still ends where it did, and if its idempotency key is unused.
pub async fn append(store: &Store, entry: &GroupEntry<'_>) -> Result<AppendOutcome, Error> {
    commit(store, entry.draft, &entry.entry.place, writes(store, entry)).await
}

fn writes(store: &Store, group: &GroupEntry<'_>) -> Result<Vec<TransactWriteItem>, BuildError> {
    let GroupEntry { draft, entry, previous, head, roster, change, first_messages } = group;
    let mut writes = begin(store, draft, entry)?;
    writes.push(update(heads::head_update(store, *previous, head))?);
    if let (Some(look), Some(version)) = (draft.content.look(), head.group.info_seq)
        && version == entry.place.seq
    {
        writes.push(update(profiles::look_update(store, &draft.conversation_id, look, version))?);
    }
    let of_channel = match draft.conversation_id.kind() {
        ConversationKind::Channel => true,
        ConversationKind::Direct | ConversationKind::Group => false,
    };
    if let Some(commit) = draft.content.commit() {
        writes.push(update(epochs::update(store, entry, commit))?);
        // A commit with that file itself is refused. No transaction writes a row twice.
        let is_taken = |tree: &MediaId| draft.content.attached().iter().any(|file| file.media_id() == tree);
        let loose_tree = previous.and_then(|head| head.seal.loose_tree.as_ref());
        if let Some(tree) = loose_tree.filter(|tree| !is_taken(tree)) {
            writes.push(update(media::end_update(store, tree, entry.place.sent_at.plus(TREE_TTL)))?);
        }
    }
    for row in *roster {
        writes.push(if of_channel {
            channels::row_write(store, head, row, &entry.place, &entry.sender_id)?
        } else {
            put(roster::row_put(store, &draft.conversation_id, row))?
        });
        // A removal from a channel stays. A leave of a channel makes no entry.
        if let Some(removed) = row.left_seq.filter(|_| of_channel) {
            writes.push(put(channels::removed_put(store, &draft.conversation_id, &row.user_id, removed))?);
        }
    }
    if of_channel && entry.counts() {
        writes.push(update(channels::own_post_update(store, head, &entry.sender_id))?);
    }
    if let Some(ChangeOf { change, target, kept_until }) = change {
        let seq = Some(entry.place.seq);
        if let Some(target) = target_update(store, draft, &entry.place, *target, change, seq) {
            writes.push(update(target)?);
        }
        // The server can't read what is sealed.
        let is_of_text = matches!(change, Change::Edit { .. } | Change::Delete) && target.message.kind != Kind::Sealed;
        if let Some(until) = kept_until.filter(|_| is_of_text) {
            writes.push(put(audit_put(store, &entry.place, *target, until))?);
        }
        writes.extend(carried_delete(store, *target, change)?);
    }
    if let Some(first) = first_messages {
        writes.push(update(first_messages_update(store, &draft.sender_id, *first))?);
    }
    Ok(writes)
}
