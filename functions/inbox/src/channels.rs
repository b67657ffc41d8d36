//! The channels whose member a user is. Each one's title, line and count are in its head, once for all members.

use std::collections::HashMap;

use domain::{ChannelRow, Failure, Head, StoredMessage, fit};
use lambda::EventLine;
use store::{channels, heads, messages};
use wire::limits::CHANNELS_PER_USER_MAX;
use wire::{Channel, ChannelsRequest, ChannelsResult, ConversationId, Kind, Refusal, Seq, UserId};

use crate::Deps;

/// Channels of which one page is made: more of them than fit a frame.
const PAGE_MAX: usize = 100;
const _: () = assert!(PAGE_MAX <= CHANNELS_PER_USER_MAX);

/// The rows, then the heads, then the rows again: whose row is there in the end was a member when the head was as it is shown.
pub(crate) async fn channels(
    deps: &Deps,
    user: &UserId,
    request: ChannelsRequest,
    line: &mut EventLine,
) -> Result<ChannelsResult, Failure> {
    let behind = request.cursor.as_ref();
    if behind.is_some_and(|id| !id.is_channel()) {
        return Err(Refusal::bad_request("cursor", "must be a next_cursor, or left out").into());
    }
    let found = channels::list(&deps.store, user, PAGE_MAX, behind).await?;
    if found.rows.is_empty() && found.next.is_none() {
        line.unreadable(found.unreadable);
        return Ok(ChannelsResult { conversations: vec![], next_cursor: None });
    }
    let ids: Vec<ConversationId> = found.rows.iter().map(|row| row.conversation_id.clone()).collect();
    let (heads, failed) = if ids.is_empty() { (vec![], 0) } else { heads::get_many(&deps.store, &ids).await? };
    let heads: HashMap<ConversationId, Head> =
        heads.into_iter().map(|head| (head.conversation_id.clone(), head)).collect();
    let lines = lines(deps, heads.values()).await?;
    let again = channels::list(&deps.store, user, PAGE_MAX, behind).await?;
    line.unreadable(again.unreadable + failed);
    let shown = |row: ChannelRow| {
        let is_same = |was: &&ChannelRow| was.conversation_id == row.conversation_id && was.joined_at == row.joined_at;
        found.rows.iter().find(is_same)?;
        let head = heads.get(&row.conversation_id)?;
        Some(with_system(row.shown(head), &lines))
    };
    let all: Vec<Channel> = again.rows.into_iter().filter_map(shown).collect();
    let count = all.len();
    let conversations = fit(all);
    let is_cut = conversations.len() < count;
    let cut = conversations.last().map(|last| last.conversation_id.clone()).filter(|_| is_cut);
    Ok(ChannelsResult { conversations, next_cursor: cut.or(found.next) })
}

/// What happened, where that is a channel's line.
async fn lines(
    deps: &Deps,
    heads: impl Iterator<Item = &Head>,
) -> Result<HashMap<(ConversationId, Seq), StoredMessage>, Failure> {
    let wanted: Vec<(ConversationId, Seq)> = heads
        .filter(|head| head.line.kind == Kind::System)
        .map(|head| (head.conversation_id.clone(), head.line.seq))
        .collect();
    let found = if wanted.is_empty() { vec![] } else { messages::get_many(&deps.store, &wanted).await? };
    Ok(found.into_iter().map(|entry| ((entry.conversation_id.clone(), entry.place.seq), entry)).collect())
}

fn with_system(mut channel: Channel, lines: &HashMap<(ConversationId, Seq), StoredMessage>) -> Channel {
    if let Some(last) = &mut channel.last_message
        && let Some(entry) = lines.get(&(channel.conversation_id.clone(), last.seq))
    {
        last.system.clone_from(&entry.system);
    }
    channel
}
