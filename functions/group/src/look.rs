//! Looks up a group's members, their marks, and the reactions to a message, page by page in the order of the users'
//! ids.

use std::collections::HashMap;

use domain::{Entry, Failure, Membership, RosterRow, fit};
use lambda::{Caller, Core, EventLine};
use serde::Serialize;
use store::roster::Page;
use store::{channels, connections, heads, inbox, messages, roster, views};
use wire::{
    ConversationId, ConversationKind, Emoji, GroupMember, Member, MembersRequest, MembersResult, ReactionsRequest,
    ReactionsResult, Reactor, ReceiptsRequest, ReceiptsResult, Refusal, Seq, UserId,
};

pub(crate) async fn members(
    core: &Core,
    caller: &Caller,
    request: MembersRequest,
    line: &mut EventLine,
) -> Result<MembersResult, Failure> {
    let MembersRequest { conversation_id, limit, cursor } = request;
    let group = line.conversation_id.insert(conversation_id);
    core.actions.access(&caller.user, group).await?.first_seq()?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let page = async |behind: Option<&UserId>| match group.kind() {
        ConversationKind::Direct => Err(Failure::from(Refusal::NotMember)),
        ConversationKind::Group => Ok(roster::page(&core.actions.store, group, limit, behind).await?),
        ConversationKind::Channel => Ok(channels::members(&core.actions.store, group, limit, behind).await?),
    };
    let mut found = page(cursor.as_ref()).await?;
    // All members of the page have left, or can't be read. The client would get an empty page, so read the next.
    while found.members.is_empty() && found.next.is_some() {
        let next = page(found.next.as_ref()).await?;
        found = Page { unreadable: found.unreadable + next.unreadable, ..next };
    }
    line.unreadable(found.unreadable);
    let now = core.actions.clock.now();
    let shown = |row: &RosterRow| GroupMember {
        user_id: row.user_id.clone(),
        role: row.role,
        joined_seq: row.joined_seq,
        restricted_until: row.restricted_until.filter(|until| until.is_after(now)),
    };
    let count = found.members.len();
    let members = fit(found.members.iter().map(shown).collect());
    let cut = members.last().filter(|_| members.len() < count).map(|last| last.user_id.clone());
    Ok(MembersResult { members, next_cursor: cut.or(found.next) })
}

pub(crate) async fn receipts(
    core: &Core,
    caller: &Caller,
    request: ReceiptsRequest,
    line: &mut EventLine,
) -> Result<ReceiptsResult, Failure> {
    let ReceiptsRequest { conversation_id, limit, cursor } = request;
    let group = line.conversation_id.insert(conversation_id);
    not_of_channel(group)?;
    let head = heads::get(&core.actions.store, group).await?.ok_or(Refusal::NotMember)?;
    let (members, _) = roster::list(&core.actions.store, group, true).await?;
    let is_there = |row: &RosterRow| row.user_id == caller.user && row.is_member();
    if !members.iter().any(is_there) {
        return Err(Refusal::NotMember.into());
    }
    let is_other = |row: &RosterRow| row.is_member() && row.user_id != caller.user && !row.user_id.is_service();
    let others = members.into_iter().filter(is_other);
    let mut others: Vec<RosterRow> = others.collect();
    let mut users: Vec<UserId> = others.iter().map(|row| row.user_id.clone()).collect();
    if connections::blocks(&core.actions.store, &caller.user).await? > 0 {
        let blocked = inbox::blocked_with(&core.actions.store, &caller.user, &users).await?;
        others.retain(|row| !blocked.contains(&row.user_id));
        users.retain(|user| !blocked.contains(user));
    }
    let found = views::glance(&core.actions.store, group, &users).await?;
    line.unreadable(found.unreadable.len() as u64);
    let rows: HashMap<&UserId, &Membership> = found.rows.iter().map(|row| (&row.user_id, row)).collect();
    let mut marks: Vec<Member> = others.iter().map(|member| mark(member, rows.get(&member.user_id).copied())).collect();
    let lowest = |of: fn(&Member) -> Seq| marks.iter().map(of).min().unwrap_or(head.end.seq);
    let (delivered_seq, read_seq) = (lowest(|member| member.delivered_seq), lowest(|member| member.read_seq));
    marks.sort_by(|one, other| one.user_id.cmp(&other.user_id));
    let (members, next_cursor) = page(marks, limit, cursor.as_ref(), |member| &member.user_id);
    Ok(ReceiptsResult { delivered_seq, read_seq, members, next_cursor })
}

/// Returns the marks of a member. Without an inbox row that has applied their addition, the marks are just before it.
fn mark(member: &RosterRow, row: Option<&Membership>) -> Member {
    let before = member.joined_seq.previous();
    let row = row.filter(|row| row.is_open() && row.end.seq >= member.joined_seq);
    let (delivered_seq, read_seq) = row.map_or((before, before), |row| {
        // No device of the member has the messages that are pending from an earlier membership.
        let held = row.owed().first().map_or(row.marks.delivered_seq, |(first, _)| first.previous());
        (held, row.marks.read_seq.min(held))
    });
    Member { user_id: member.user_id.clone(), delivered_seq, read_seq }
}

pub(crate) async fn reactions(
    core: &Core,
    caller: &Caller,
    request: ReactionsRequest,
    line: &mut EventLine,
) -> Result<ReactionsResult, Failure> {
    let ReactionsRequest { conversation_id, seq, limit, cursor } = request;
    let conversation = line.conversation_id.insert(conversation_id);
    not_of_channel(conversation)?;
    // The message first: who is a member after that may see who had reacted by then.
    let found = messages::get(&core.actions.store, conversation, seq).await?;
    let first_seq = core.actions.access(&caller.user, conversation).await?.first_seq()?;
    let message = found.as_ref().and_then(Entry::message).map(|found| found.message);
    let message = message.filter(|message| message.deleted.is_none() && seq >= first_seq).ok_or(Refusal::Gone)?;
    let reactor = |(user_id, emoji): (&UserId, &Emoji)| Reactor { user_id: user_id.clone(), emoji: emoji.clone() };
    let reactors = message.reactions.iter().map(reactor).collect();
    let (reactions, next_cursor) = page(reactors, limit, cursor.as_ref(), |reactor| &reactor.user_id);
    Ok(ReactionsResult { reactions, next_cursor })
}

/// Refuses a channel, whose marks and reactors no member may see.
fn not_of_channel(conversation: &ConversationId) -> Result<(), Refusal> {
    let problem = || Refusal::bad_request("conversation_id", "must not be a channel");
    match conversation.kind() {
        ConversationKind::Channel => Err(problem()),
        ConversationKind::Direct | ConversationKind::Group => Ok(()),
    }
}

/// Returns the items after the cursor, up to `limit` and to the size of a frame, and the cursor of the next page.
fn page<T: Serialize>(
    all: Vec<T>,
    limit: u64,
    cursor: Option<&UserId>,
    user: impl Fn(&T) -> &UserId,
) -> (Vec<T>, Option<UserId>) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut behind: Vec<T> = all.into_iter().filter(|one| cursor.is_none_or(|cursor| user(one) > cursor)).collect();
    let count = behind.len();
    behind.truncate(limit);
    let shown = fit(behind);
    let next = shown.last().filter(|_| shown.len() < count).map(|last| user(last).clone());
    (shown, next)
}
