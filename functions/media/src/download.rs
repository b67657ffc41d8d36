//! Where the bytes are that messages carry.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use actions::visible;
use domain::limits::DOWNLOAD_URL_TTL;
use domain::{Failure, MediaRow};
use futures_util::future::try_join_all;
use objects::Validity;
use store::media;
use wire::{ConversationId, Download, DownloadRequest, DownloadResult, Refusal, Reply, Seq, UserId};

use crate::Deps;

/// Who sees a message may have what it carries. The rows are read first, and what the user sees after that: a message that is there is
/// in it.
pub(crate) async fn download(deps: &Deps, user: &UserId, request: DownloadRequest) -> Result<Reply, Failure> {
    let DownloadRequest { media_ids } = request;
    let rows = media::get_many(&deps.store, &media_ids).await?;
    let conversations: BTreeSet<_> = rows.iter().map(|row| row.conversation_id.clone()).collect();
    let seen =
        try_join_all(conversations.into_iter().map(async |conversation| seen(deps, user, conversation).await)).await?;
    let seen: BTreeMap<_, _> = seen.into_iter().flatten().collect();
    let is_seen = |row: &&MediaRow| {
        let range = seen.get(&row.conversation_id);
        row.seq.is_some_and(|seq| range.is_some_and(|range| range.contains(&seq)))
    };
    let validity = Validity { from: deps.clock.now(), ttl: DOWNLOAD_URL_TTL };
    let expires_at = validity.from.plus(validity.ttl);
    let (mut items, mut gone) = (vec![], vec![]);
    for media_id in media_ids {
        match rows.iter().filter(is_seen).find(|row| row.media_id == media_id) {
            Some(row) => items.push(Download { url: deps.objects.get_url(row, validity).await?, media_id, expires_at }),
            None => gone.push(media_id),
        }
    }
    Ok(DownloadResult { items, gone }.into())
}

/// What the user sees of a conversation, if they see any of it.
async fn seen(
    deps: &Deps,
    user: &UserId,
    conversation: ConversationId,
) -> Result<Option<(ConversationId, RangeInclusive<Seq>)>, Failure> {
    match visible(&deps.store, user, &conversation).await {
        Ok(range) => Ok(Some((conversation, range))),
        Err(Failure::Refused(Refusal::NotMember)) => Ok(None),
        Err(failure) => Err(failure),
    }
}
