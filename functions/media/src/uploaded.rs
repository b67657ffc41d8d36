//! `uploaded`: the client reports that the bytes are in S3.

use actions::{Attempt, retry};
use domain::Failure;
use store::{Written, media};
use wire::{Refusal, Reply, UploadedRequest, UploadedResult, UserId};

use crate::Deps;

/// Checks that the bytes are stored, and are the announced ones. An event of S3 would be too late, since it "can sometimes
/// take a minute or longer":
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/EventNotifications.html>.
pub(crate) async fn uploaded(deps: &Deps, user: &UserId, request: UploadedRequest) -> Result<Reply, Failure> {
    let media_id = request.media_id;
    retry(&mut 0, async || {
        let row = media::get(&deps.actions.store, &media_id).await?.ok_or(Refusal::Gone)?;
        if row.owner_id == *user && (row.ready_at.is_some() || row.seq.is_some()) {
            return Ok(Attempt::Done(()));
        }
        let now = deps.actions.clock.now();
        row.check_waiting(user, now)?;
        if let Some(parts) = &row.parts {
            deps.objects.finish_parts(&row, parts).await?;
        }
        if !deps.objects.is_there(&row).await? {
            return Err(Refusal::NotReady.into());
        }
        match media::note_ready(&deps.actions.store, &media_id, now).await? {
            Written::Done => Ok(Attempt::Done(())),
            Written::Lost => Ok(Attempt::AgainAfterPause),
        }
    })
    .await?;
    Ok(UploadedResult { media_id }.into())
}
