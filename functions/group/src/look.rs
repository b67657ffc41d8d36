//! Who is in a group, how far they have come, and who reacted to a message. A page of each, in the order of the users' ids.

use std::collections::HashMap;

use domain::{Failure, Membership, RosterRow};
use lambda::{Caller, EventLine};
use store::roster::Page;
use store::{channels, heads, inbox, messages, roster, views};
use wire::{
    ConversationId, GroupMember, Member, MembersRequest, MembersResult, ReactionsRequest, ReactionsResult, Reactor,
    ReceiptsRequest, ReceiptsResult, Refusal, Seq, UserId,
};

use crate::Deps;

pub(crate) async fn members(
    deps: &Deps,
    caller: &Caller,
    request: MembersRequest,
    line: &mut EventLine,
) -> Result<MembersResult, Failure> {
    let MembersRequest { conversation_id, limit, cursor } = request;
    let group = line.conversation_id.insert(conversation_id);
    own_row(deps, caller, group).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let page = async |behind: Option<&UserId>| {
        if group.is_channel() {
            channels::members(&deps.store, group, limit, behind).await
        } else {
            roster::page(&deps.store, group, limit, behind).await
        }
    };
    let mut found = page(cursor.as_ref()).await?;
    // All of them have left, or can't be read: an empty page would say nothing.
    while found.members.is_empty() && found.next.is_some() {
        let next = page(found.next.as_ref()).await?;
        found = Page { unreadable: found.unreadable + next.unreadable, ..next };
    }
    line.unreadable(found.unreadable);
    let shown =
        |row: &RosterRow| GroupMember { user_id: row.user_id.clone(), role: row.role, joined_seq: row.joined_seq };
    Ok(MembersResult { members: found.members.iter().map(shown).collect(), next_cursor: found.next })
}

pub(crate) async fn receipts(
    deps: &Deps,
    caller: &Caller,
    request: ReceiptsRequest,
    line: &mut EventLine,
) -> Result<ReceiptsResult, Failure> {
    let ReceiptsRequest { conversation_id, limit, cursor } = request;
    let group = line.conversation_id.insert(conversation_id);
    not_of_channel(group)?;
    let head = heads::get(&deps.store, group).await?.ok_or(Refusal::NotMember)?;
    let (members, _) = roster::list(&deps.store, group, true).await?;
    let is_there = |row: &RosterRow| row.user_id == caller.user && row.is_member();
    if !members.iter().any(is_there) {
        return Err(Refusal::NotMember.into());
    }
    let is_other = |row: &RosterRow| row.is_member() && row.user_id != caller.user && !row.user_id.is_service();
    let others = members.into_iter().filter(is_other);
    let others: Vec<RosterRow> = others.collect();
    let users: Vec<UserId> = others.iter().map(|row| row.user_id.clone()).collect();
    let found = views::glance(&deps.store, group, &users).await?;
    line.unreadable(found.unreadable.len() as u64);
    let rows: HashMap<&UserId, &Membership> = found.rows.iter().map(|row| (&row.user_id, row)).collect();
    let mut marks: Vec<Member> = others.iter().map(|member| mark(member, rows.get(&member.user_id).copied())).collect();
    let lowest = |of: fn(&Member) -> Seq| marks.iter().map(of).min().unwrap_or(head.end.seq);
    let (delivered_seq, read_seq) = (lowest(|member| member.delivered_seq), lowest(|member| member.read_seq));
    marks.sort_by(|one, other| one.user_id.cmp(&other.user_id));
    let (members, next_cursor) = page(marks, limit, cursor.as_ref(), |member| &member.user_id);
    Ok(ReceiptsResult { delivered_seq, read_seq, members, next_cursor })
}

/// Whose row has not come to their join yet has seen nothing.
fn mark(member: &RosterRow, row: Option<&Membership>) -> Member {
    let before = member.joined_seq.previous();
    let row = row.filter(|row| row.is_open() && row.end.seq >= member.joined_seq);
    let (delivered_seq, read_seq) = row.map_or((before, before), |row| (row.marks.delivered_seq, row.marks.read_seq));
    Member { user_id: member.user_id.clone(), delivered_seq, read_seq }
}

pub(crate) async fn reactions(
    deps: &Deps,
    caller: &Caller,
    request: ReactionsRequest,
    line: &mut EventLine,
) -> Result<ReactionsResult, Failure> {
    let ReactionsRequest { conversation_id, seq, limit, cursor } = request;
    let conversation = line.conversation_id.insert(conversation_id);
    not_of_channel(conversation)?;
    let first_seq = if conversation.is_group() {
        own_row(deps, caller, conversation).await?.from_seq
    } else {
        inbox::get(&deps.store, &caller.user, conversation).await?.ok_or(Refusal::NotMember)?.first_seq()
    };
    let found = messages::get(&deps.store, conversation, seq).await?;
    let is_visible = found.filter(|message| message.kind.counts() && message.deleted.is_none() && seq >= first_seq);
    let message = is_visible.ok_or(Refusal::Gone)?;
    let reactors = message.reactions.into_iter().map(|(user_id, emoji)| Reactor { user_id, emoji }).collect();
    let (reactions, next_cursor) = page(reactors, limit, cursor.as_ref(), |reactor| &reactor.user_id);
    Ok(ReactionsResult { reactions, next_cursor })
}

/// How far the members of a channel have come, and who reacted, is nobody's to know.
fn not_of_channel(conversation: &ConversationId) -> Result<(), Refusal> {
    let problem = || Refusal::bad_request("conversation_id", "must not be a channel's");
    if conversation.is_channel() { Err(problem()) } else { Ok(()) }
}

async fn own_row(deps: &Deps, caller: &Caller, group: &ConversationId) -> Result<RosterRow, Failure> {
    if group.is_channel() {
        let row = channels::get(&deps.store, &caller.user, group).await?.ok_or(Refusal::NotMember)?;
        return Ok(row.as_member());
    }
    let row = if group.is_group() { roster::get(&deps.store, group, &caller.user).await? } else { None };
    row.filter(RosterRow::is_member).ok_or_else(|| Refusal::NotMember.into())
}

/// Those behind the cursor, and where the next page begins.
fn page<T>(all: Vec<T>, limit: u64, cursor: Option<&UserId>, user: impl Fn(&T) -> &UserId) -> (Vec<T>, Option<UserId>) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut behind: Vec<T> = all.into_iter().filter(|one| cursor.is_none_or(|cursor| user(one) > cursor)).collect();
    let has_more = behind.len() > limit;
    behind.truncate(limit);
    let next = behind.last().filter(|_| has_more).map(|last| user(last).clone());
    (behind, next)
}
