//! The rows that allow a writer to append to a log.

use domain::{Change, Content, Draft, Failure, GroupChange, Head, Membership, RosterRow};
use store::{Store, inbox, messages, roster};
use wire::limits::SMALL_GROUP_MEMBERS_MAX;
use wire::{ConversationId, ConversationKind, Role, UserId};

use crate::access;

/// The writer's part of the member list.
pub(crate) struct Rows {
    pub(crate) own: Option<RosterRow>,
    /// The whole list of a small group, to whose members the writer posts the entry.
    pub(crate) roster: Option<Vec<RosterRow>>,
}

impl Rows {
    /// The rows of these users, as far as they have one.
    pub(crate) async fn of(
        &self,
        store: &Store,
        group: &ConversationId,
        users: &[UserId],
    ) -> Result<Vec<RosterRow>, Failure> {
        match &self.roster {
            Some(roster) => Ok(roster.iter().filter(|row| users.contains(&row.user_id)).cloned().collect()),
            None => Ok(roster::get_many(store, group, users).await?),
        }
    }
}

/// The writer's row of the member list; in a channel that is their own row. An operator needs none. A user who is no member may delete
/// what they wrote, and come back to a group that they left by themselves.
pub(crate) async fn rows(store: &Store, draft: &Draft, head: Option<&Head>) -> Result<Rows, Failure> {
    let (conversation, user) = (&draft.conversation_id, &draft.sender_id);
    if draft.is_by_operator() {
        return Ok(Rows { own: Some(RosterRow::of_operator(user.clone())), roster: None });
    }
    let Rows { own, roster } = match (conversation.kind(), head) {
        // A conversation that does not exist has no rows.
        (ConversationKind::Group, None) => Rows { own: None, roster: Some(vec![]) },
        (ConversationKind::Group, Some(head)) if head.group.member_count <= SMALL_GROUP_MEMBERS_MAX => {
            rows_of_small_group(store, user, conversation).await?
        }
        (ConversationKind::Direct | ConversationKind::Group | ConversationKind::Channel, _) => {
            Rows { own: access::own(store, user, conversation).await?.into_member(), roster: None }
        }
    };
    let own = match &draft.content {
        _ if own.as_ref().is_some_and(RosterRow::is_member) => own,
        Content::Group(GroupChange::Return) => former(store, draft, own).await?,
        Content::Change { change: Change::Delete, .. } => Some(RosterRow::of_author(user.clone())),
        Content::Message { .. }
        | Content::Sealed { .. }
        | Content::Commit(_)
        | Content::Change { .. }
        | Content::Group(_)
        | Content::Erased(_) => None,
    };
    Ok(Rows { own, roster })
}

/// Reads the whole list instead of the writer's row: it is needed after the commit, and a page of it costs what a row does.
async fn rows_of_small_group(store: &Store, user: &UserId, group: &ConversationId) -> Result<Rows, Failure> {
    let (roster, unreadable) = roster::list(store, group, true).await?;
    if unreadable > 0 {
        // A row that can't be read may be the writer's.
        let own = access::own(store, user, group).await?.into_member();
        return Ok(Rows { own, roster: None });
    }
    let own = roster.iter().find(|row| row.user_id == *user).cloned();
    Ok(Rows { own, roster: Some(roster) })
}

/// The user's row as they left the group, if they did so by themselves.
async fn former(store: &Store, draft: &Draft, row: Option<RosterRow>) -> Result<Option<RosterRow>, Failure> {
    let (group, user) = (&draft.conversation_id, &draft.sender_id);
    let (left_seq, restricted_until) = if let Some(row) = row {
        (row.left_seq, row.restricted_until)
    } else {
        // A former member who is no longer in the list has an inbox row that records the leave.
        let row = inbox::get(store, user, group).await?;
        let view = row.as_ref().and_then(Membership::view);
        view.map(|view| (view.left_seq, view.restricted_until)).unwrap_or_default()
    };
    let Some(left_seq) = left_seq else { return Ok(None) };
    let entry = messages::get(store, group, left_seq).await?;
    let left = entry.filter(|entry| entry.is_leave_of(user));
    Ok(left.map(|_| RosterRow { left_seq: Some(left_seq), restricted_until, ..RosterRow::of_author(user.clone()) }))
}

/// Whether the writer is no member, and may only delete what they wrote.
pub(crate) fn is_author(own: Option<&RosterRow>) -> bool {
    own.is_some_and(|own| own.role == Role::None)
}
