//! `channels`: lists the user's channels. A channel's title, last message and count are in its head, once for all
//! members.

use std::collections::HashMap;

use domain::{ChannelRow, Entry, Failure, Head, fit};
use lambda::{Core, EventLine};
use store::pinned::{self, List};
use store::{channels, heads, messages};
use wire::limits::CHANNELS_PER_USER_MAX;
use wire::{Channel, ChannelsRequest, ChannelsResult, ConversationId, Kind, Refusal, Seq, UserId};

/// Channels of which one page is made: more of them than fit a frame.
const PAGE_MAX: usize = 100;
const _: () = assert!(PAGE_MAX <= CHANNELS_PER_USER_MAX);

/// Reads the rows, then the heads, then the rows again. A user with a row in both reads was a member at the time of the
/// head.
pub(crate) async fn channels(
    core: &Core,
    user: &UserId,
    request: ChannelsRequest,
    line: &mut EventLine,
) -> Result<ChannelsResult, Failure> {
    let behind = request.cursor.as_ref();
    if behind.is_some_and(|id| !id.is_channel()) {
        return Err(Refusal::bad_request("cursor", "must be a next_cursor, or left out").into());
    }
    let pinned =
        if request.pinned { Some(pinned::get(&core.actions.store, user, List::Channels).await?.ids) } else { None };
    let page = async || match &pinned {
        Some(ids) => channels::pinned(&core.actions.store, user, ids).await,
        None => channels::list(&core.actions.store, user, PAGE_MAX, behind).await,
    };
    let found = page().await?;
    if found.rows.is_empty() && found.next.is_none() {
        line.unreadable(found.unreadable);
        return Ok(ChannelsResult { conversations: vec![], next_cursor: None });
    }
    let ids: Vec<ConversationId> = found.rows.iter().map(|row| row.conversation_id.clone()).collect();
    let (heads, failed) = if ids.is_empty() { (vec![], 0) } else { heads::get_many(&core.actions.store, &ids).await? };
    let heads: HashMap<ConversationId, Head> =
        heads.into_iter().map(|head| (head.conversation_id.clone(), head)).collect();
    let lines = lines(core, heads.values()).await?;
    let again = page().await?;
    line.unreadable(again.unreadable + failed);
    let now = core.actions.clock.now();
    let shown = |row: ChannelRow| {
        let is_same = |was: &&ChannelRow| was.conversation_id == row.conversation_id && was.joined_at == row.joined_at;
        found.rows.iter().find(is_same)?;
        let head = heads.get(&row.conversation_id)?;
        Some(with_system(row.shown(head, now), &lines))
    };
    let all: Vec<Channel> = again.rows.into_iter().filter_map(shown).collect();
    let count = all.len();
    let conversations = fit(all);
    let is_cut = conversations.len() < count;
    let cut = conversations.last().map(|last| last.conversation_id.clone()).filter(|_| is_cut);
    Ok(ChannelsResult { conversations, next_cursor: cut.or(found.next) })
}

/// Reads the system entries that are the last message of a channel.
async fn lines(
    core: &Core,
    heads: impl Iterator<Item = &Head>,
) -> Result<HashMap<(ConversationId, Seq), Entry>, Failure> {
    let wanted: Vec<(ConversationId, Seq)> = heads
        .filter(|head| head.line.kind == Kind::System)
        .map(|head| (head.conversation_id.clone(), head.line.seq))
        .collect();
    let found = if wanted.is_empty() { vec![] } else { messages::get_many(&core.actions.store, &wanted).await? };
    Ok(found.into_iter().map(|entry| ((entry.conversation_id.clone(), entry.place.seq), entry)).collect())
}

fn with_system(mut channel: Channel, lines: &HashMap<(ConversationId, Seq), Entry>) -> Channel {
    if let Some(last) = &mut channel.last_message
        && let Some(entry) = lines.get(&(channel.conversation_id.clone(), last.seq))
    {
        last.system = entry.system().map(|body| body.system.clone().listed());
    }
    channel
}
