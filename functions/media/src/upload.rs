//! Where the bytes go of a message that is to be sent.

use std::time::Duration;

use std::collections::BTreeMap;

use actions::{Attempt, conversation_for, retry};
use domain::{Entry, Failure, MediaRow, PartOf, Parts, check_parts, media_id, parts_of, url_ttl};
use lambda::EventLine;
use objects::{Put, Validity};
use store::{Written, media, messages};
use wire::{
    CopyOf, MediaId, MimeType, NewUpload, Part, Refusal, Reply, Target, Timestamp, UploadRequest, UploadResult, UserId,
};

use crate::{Deps, MIB};

/// How long what is announced can be uploaded and sent.
const UPLOAD_TTL: Duration = Duration::from_hours(24);
/// Maximum of parts whose URLs one reply has: they must fit in a frame.
const PARTS_SHOWN_MAX: usize = 8;

pub(crate) async fn upload(
    deps: &Deps,
    user: &UserId,
    request: UploadRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let result = match request {
        UploadRequest::New(announced) => new(deps, user, announced, line).await?,
        UploadRequest::Copy { target, copy_of } => copy(deps, user, &target, &copy_of, line).await?,
        UploadRequest::Again { media_id } => again(deps, user, &media_id, line).await?,
    };
    Ok(result.into())
}

/// The row first: it is what removes whatever comes to be there.
async fn new(deps: &Deps, user: &UserId, announced: NewUpload, line: &mut EventLine) -> Result<UploadResult, Failure> {
    let NewUpload { target, kind, mime, bytes, sha256, parts } = announced;
    if bytes > deps.limits.bytes_max {
        let problem = format!("must be at most {} MiB on this server", deps.limits.bytes_max / MIB);
        return Err(Refusal::TooLarge { field: "bytes", problem: problem.into() }.into());
    }
    check_parts(bytes, &sha256, &parts)?;
    let conversation_id = line.conversation_id.insert(conversation_for(user, &target)).clone();
    let access = deps.actions.access(user, &conversation_id).await?;
    deps.actions.check_upload(&access, user, &target, &kind).await?;
    count(deps, user, bytes).await?;
    let now = deps.actions.clock.now();
    let mut row = MediaRow {
        media_id: media_id(fastrand::u128(..), &kind, bytes),
        owner_id: user.clone(),
        conversation_id,
        kind,
        mime: mime.unwrap_or_else(MimeType::bytes),
        bytes,
        sha256,
        parts: None,
        ready_at: None,
        seq: None,
        name: None,
        expires_at: Some(now.plus(UPLOAD_TTL)),
    };
    if !parts.is_empty() {
        // No client has a URL of an upload without a row, and the bucket's lifecycle ends the upload.
        let upload_id = deps.objects.begin_parts(&row).await?;
        row.parts = Some(Parts { upload_id, digests: parts });
    }
    media::create(&deps.actions.store, &row).await?;
    let missing = parts_of(row.bytes).collect();
    places(deps, row, missing, now).await
}

/// Fresh URLs, for what is not there yet.
async fn again(deps: &Deps, user: &UserId, media_id: &MediaId, line: &mut EventLine) -> Result<UploadResult, Failure> {
    let (now, row) = (deps.actions.clock.now(), media::get(&deps.actions.store, media_id).await?.ok_or(Refusal::Gone)?);
    row.check_waiting(user, now)?;
    line.conversation_id = Some(row.conversation_id.clone());
    let missing = match &row.parts {
        Some(parts) => match deps.objects.missing_parts(&row, parts).await? {
            Some(missing) => missing,
            // Put together, or given up by the bucket's lifecycle.
            None if deps.objects.is_there(&row).await? => vec![],
            None => return Err(Refusal::Gone.into()),
        },
        None => vec![],
    };
    places(deps, row, missing, now).await
}

/// Where what is missing is to be put.
async fn places(deps: &Deps, row: MediaRow, missing: Vec<PartOf>, now: Timestamp) -> Result<UploadResult, Failure> {
    let validity = Validity { from: now, ttl: url_ttl(now, row.expires_at.unwrap_or_default()) };
    let expires_at = now.plus(validity.ttl);
    let (mut url, mut headers, mut parts) = (None, BTreeMap::new(), vec![]);
    match &row.parts {
        Some(of) => {
            for part in missing.into_iter().take(PARTS_SHOWN_MAX) {
                let PartOf { number, offset, bytes } = part;
                let Put { url, headers } = deps.objects.part_url(&row, of, part, validity).await?;
                parts.push(Part { number, offset, bytes, url, headers });
            }
        }
        None if row.ready_at.is_none() => {
            let put = deps.objects.put_url(&row, validity).await?;
            (url, headers) = (Some(put.url), put.headers);
        }
        None => {}
    }
    Ok(UploadResult { media_id: row.media_id, url, headers, parts, expires_at })
}

/// Copies the media of another message to a new object. So each object has one owner and one message, and no object
/// remains after a delete because of another message.
async fn copy(
    deps: &Deps,
    user: &UserId,
    target: &Target,
    copy_of: &CopyOf,
    line: &mut EventLine,
) -> Result<UploadResult, Failure> {
    let CopyOf { conversation_id: source, seq } = copy_of;
    let conversation_id = line.conversation_id.insert(conversation_for(user, target)).clone();
    let access = deps.actions.access(user, &conversation_id).await?;
    if !deps.actions.visible(user, source).await?.contains(*seq) {
        return Err(Refusal::Gone.into());
    }
    let found = messages::get(&deps.actions.store, source, *seq).await?;
    let message = found.as_ref().and_then(Entry::message).map(|found| found.message);
    let carried = message.filter(|message| message.deleted.is_none()).and_then(|message| message.media.as_ref());
    let from = carried.ok_or(Refusal::Gone)?.media_id();
    let from = media::get(&deps.actions.store, from).await?.ok_or(Refusal::Gone)?;
    deps.actions.check_upload(&access, user, target, &from.kind).await?;
    count(deps, user, from.bytes).await?;
    let now = deps.actions.clock.now();
    let row = MediaRow {
        media_id: media_id(fastrand::u128(..), &from.kind, from.bytes),
        owner_id: user.clone(),
        conversation_id,
        parts: None,
        ready_at: None,
        seq: None,
        name: None,
        expires_at: Some(now.plus(UPLOAD_TTL)),
        ..from.clone()
    };
    media::create(&deps.actions.store, &row).await?;
    if !deps.objects.copy(&from, &row).await? {
        return Err(Refusal::Gone.into());
    }
    let ready_at = deps.actions.clock.now();
    if media::note_ready(&deps.actions.store, &row.media_id, ready_at).await? == Written::Lost {
        return Err(Refusal::Conflict.into());
    }
    places(deps, MediaRow { ready_at: Some(ready_at), ..row }, vec![], now).await
}

/// Counts the bytes for the user, or refuses them above the rate. The count comes first. A function that dies here
/// costs the user a part of the rate, and no upload is uncounted.
async fn count(deps: &Deps, user: &UserId, bytes: u64) -> Result<(), Failure> {
    let rate = deps.limits.mib;
    if rate.is_unlimited() {
        return Ok(());
    }
    let mib = u32::try_from(bytes.div_ceil(MIB)).unwrap_or(u32::MAX);
    retry(&mut 0, async || {
        let was_until = media::uploads_until(&deps.actions.store, user).await?;
        let until = rate.take_whole(was_until, deps.actions.clock.now(), mib).map_err(Refusal::rate_limited)?;
        match media::count_upload(&deps.actions.store, user, was_until, until).await? {
            Written::Done => Ok(Attempt::Done(())),
            Written::Lost => Ok(Attempt::AgainAfterPause),
        }
    })
    .await
}
