//! Where the bytes are that messages carry.

use std::time::Duration;

use std::collections::{BTreeMap, BTreeSet};

use domain::{Failure, MediaRow, Sight, error_chain};
use futures_util::future::try_join_all;
use objects::Validity;
use store::{epochs, media};
use wire::{ConversationId, Download, DownloadRequest, DownloadResult, Kind, Refusal, Reply, UserId};

use crate::Deps;

/// How long a URL is good to get something.
const DOWNLOAD_URL_TTL: Duration = Duration::from_mins(5);

/// Returns URLs for media of messages that the user sees. The function reads the rows first, and the user's view after
/// that, so that the view includes each message of a row. Each member may have the newest tree of a group: a member who
/// came back sees no entry with it.
pub(crate) async fn download(deps: &Deps, user: &UserId, request: DownloadRequest) -> Result<Reply, Failure> {
    let DownloadRequest { media_ids } = request;
    let rows = media::get_many(&deps.actions.store, &media_ids).await?;
    let conversations: BTreeSet<_> = rows.iter().map(|row| row.conversation_id.clone()).collect();
    let seen =
        try_join_all(conversations.into_iter().map(async |conversation| seen(deps, user, conversation).await)).await?;
    let seen: BTreeMap<_, _> = seen.into_iter().flatten().collect();
    let is_seen = |row: &MediaRow| {
        let sight = seen.get(&row.conversation_id);
        row.seq.is_some_and(|seq| sight.is_some_and(|sight| sight.contains(seq)))
    };
    let unseen = rows.iter().filter(|row| row.kind == Kind::Sealed && row.seq.is_some() && !is_seen(row));
    let of_members: BTreeSet<_> = unseen.map(|row| &row.conversation_id).collect();
    let is_member = |id: &&ConversationId| seen.get(*id).is_some_and(|sight| !sight.has_left);
    let newest = of_members.into_iter().filter(is_member).map(|id| epochs::get(&deps.actions.store, id));
    let newest = try_join_all(newest).await?;
    let is_tree = |row: &MediaRow| {
        let trees = newest.iter().flatten().filter_map(|epoch| epoch.tree.file());
        trees.into_iter().any(|media_id| *media_id == row.media_id)
    };
    let validity = Validity { from: deps.actions.clock.now(), ttl: DOWNLOAD_URL_TTL };
    let expires_at = validity.from.plus(validity.ttl);
    let (mut items, mut gone) = (vec![], vec![]);
    for media_id in media_ids {
        match rows.iter().find(|row| row.media_id == media_id && (is_seen(row) || is_tree(row))) {
            Some(row) => items.push(Download { url: deps.objects.get_url(row, validity).await?, media_id, expires_at }),
            None => gone.push(media_id),
        }
    }
    Ok(DownloadResult { items, gone }.into())
}

/// Returns the user's view of a conversation, if there is one.
async fn seen(
    deps: &Deps,
    user: &UserId,
    conversation: ConversationId,
) -> Result<Option<(ConversationId, Sight)>, Failure> {
    match deps.actions.visible(user, &conversation).await {
        Ok(sight) => Ok(Some((conversation, sight))),
        Err(Failure::Refused(Refusal::NotMember)) => Ok(None),
        // The failure does not affect media of other conversations.
        Err(Failure::Unreadable(error)) => {
            tracing::error!(error = error_chain(&*error), "skipped a conversation whose inbox row is unreadable");
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}
