//! Uploads of attachments: announce, PUT, confirm. Then the message enters its send queue, behind the messages that
//! were sent meanwhile.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use wire::{ClientMsgId, CopyOf, Kind, MediaId, NewUpload, Problem, UploadRequest, UploadResult};

use super::requests::Errand;
use super::waiting::Waiting;
use super::{Core, Output, jitter};
use crate::media::{Put, PutEnd, Source, Upload};
use crate::saved::{Outgoing, Queued, StorageChange};
use crate::{Error, Event, Moment};

/// The limit of concurrent uploads.
const UPLOADS_MAX: usize = 2;
/// After this number of refusals by S3 in a row, the bytes are not those that were announced.
const REFUSED_MAX: u32 = 3;
/// The first pause after a PUT that failed is up to this, each further one up to twice the one before, to 30 s.
const PUT_RETRY: Duration = Duration::from_secs(1);

pub(super) struct Uploading {
    pub entry: Waiting,
    step: Step,
    /// An earlier run announced the file, so the message may have been sent and its reply lost.
    pub may_be_sent: bool,
    /// The ciphertext is uploaded.
    is_sealed: bool,
    /// Something was there before it was put.
    was_there: bool,
    fails: u32,
    refused: u32,
}

#[derive(PartialEq)]
enum Step {
    /// To be announced, or announced again, not before this.
    Begin(Option<Moment>),
    Asked,
    /// The first is under way.
    Putting(VecDeque<Put>),
    /// All of it has been put: the server is to look.
    Look,
    Looking,
}

impl Uploading {
    pub(super) fn new(entry: Waiting) -> Self {
        let may_be_sent = entry.queued.outgoing.upload().is_some_and(|upload| upload.media_id.is_some());
        Self { entry, step: Step::Begin(None), may_be_sent, is_sealed: false, was_there: false, fails: 0, refused: 0 }
    }

    fn is(&self, client_msg_id: &ClientMsgId) -> bool {
        self.entry.queued.client_msg_id == *client_msg_id
    }

    fn is_due(&self, now: Moment) -> bool {
        matches!(self.step, Step::Begin(at) if at.is_none_or(|at| at <= now))
    }

    fn is_under_way(&self) -> bool {
        !matches!(self.step, Step::Begin(_))
    }

    fn media_id(&self) -> Option<&MediaId> {
        self.entry.queued.outgoing.upload()?.media_id.as_ref()
    }

    fn request(&self) -> Option<UploadRequest> {
        let (upload, target) = (self.entry.queued.outgoing.upload()?, self.entry.queued.outgoing.target()?);
        Some(match (&upload.media_id, &upload.source) {
            (Some(media_id), _) => UploadRequest::Again { media_id: media_id.clone() },
            (None, Source::CopyOf { conversation_id, seq }) => {
                let copy_of = CopyOf { conversation_id: conversation_id.clone(), seq: *seq };
                UploadRequest::Copy { target, copy_of }
            }
            (None, Source::File(_)) => {
                let (sha256, parts) = upload.digests(self.is_sealed);
                let (sha256, parts, bytes) = (sha256.clone(), parts.to_vec(), upload.put_bytes(self.is_sealed));
                let Upload { kind, mime, .. } = upload.clone();
                let (kind, mime) = if self.is_sealed { (Kind::Sealed, None) } else { (kind, Some(mime)) };
                UploadRequest::New(NewUpload { target, kind, mime, bytes, sha256, parts })
            }
        })
    }
}

impl Core {
    pub(super) fn next_upload(&self) -> Option<Moment> {
        let uploads = &self.outbox.uploads;
        if uploads.iter().filter(|upload| upload.is_under_way()).count() >= UPLOADS_MAX {
            return None;
        }
        uploads.iter().filter_map(|upload| if let Step::Begin(at) = upload.step { at } else { None }).min()
    }

    /// Decides for each file that is due whether it is encrypted, and returns those that can be uploaded. In the clear, no
    /// byte of a file for members alone leaves.
    fn decided_uploads(&mut self, now: Moment) -> BTreeSet<ClientMsgId> {
        let due = self.outbox.uploads.iter().filter(|upload| upload.is_due(now));
        let due: Vec<Queued> = due.map(|upload| upload.entry.queued.clone()).collect();
        let mut decided = BTreeSet::new();
        for queued in due {
            match self.seals_file(&queued) {
                Ok(None) => {}
                Ok(Some(is_sealed)) => {
                    if let Some(upload) = self.uploading(&queued.client_msg_id) {
                        upload.is_sealed = is_sealed;
                    }
                    decided.insert(queued.client_msg_id);
                }
                Err(error) => self.upload_failed(&queued.client_msg_id, error),
            }
        }
        decided
    }

    pub(super) fn uploads_due(&mut self, now: Moment) {
        let decided = self.decided_uploads(now);
        let mut under_way = self.outbox.uploads.iter().filter(|upload| upload.is_under_way()).count();
        let mut errands = Vec::new();
        for upload in &mut self.outbox.uploads {
            let client_msg_id = upload.entry.queued.client_msg_id.clone();
            match &upload.step {
                Step::Begin(_) if under_way < UPLOADS_MAX && decided.contains(&client_msg_id) => {
                    let Some(request) = upload.request() else { continue };
                    under_way += 1;
                    upload.step = Step::Asked;
                    errands.push(Errand::Upload(client_msg_id, Box::new(request)));
                }
                Step::Look => {
                    let Some(media_id) = upload.media_id().cloned() else { continue };
                    upload.step = Step::Looking;
                    errands.push(Errand::Uploaded(client_msg_id, media_id));
                }
                Step::Begin(_) | Step::Asked | Step::Putting(_) | Step::Looking => {}
            }
        }
        for errand in errands {
            self.ask(errand, now);
        }
    }

    fn uploading(&mut self, client_msg_id: &ClientMsgId) -> Option<&mut Uploading> {
        self.outbox.uploads.iter_mut().find(|upload| upload.is(client_msg_id))
    }

    /// Starts the PUTs of an announced file, at the URLs of the reply.
    pub(super) fn upload_answered(&mut self, client_msg_id: &ClientMsgId, result: UploadResult) {
        self.keep_media_id(client_msg_id, Some(&result.media_id));
        let Some(upload) = self.uploading(client_msg_id) else { return };
        let path = match upload.entry.queued.outgoing.upload().map(|upload| &upload.source) {
            Some(Source::File(path)) => path.clone(),
            // No part is left to upload.
            _ => return self.enter_lane(client_msg_id),
        };
        let is_sealed = upload.is_sealed;
        let file = upload.entry.queued.outgoing.upload();
        let all = file.map_or(0, |file| file.put_bytes(is_sealed));
        let put = |url, headers: std::collections::BTreeMap<_, _>, offset, bytes| Put {
            path: path.clone(),
            offset,
            bytes,
            url,
            headers: headers.into_iter().collect(),
            sealed: file.filter(|_| is_sealed).and_then(|file| file.sealed_put(offset)),
        };
        let whole = result.url.map(|url| put(url, result.headers, 0, all));
        let parts = result.parts.into_iter().map(|part| put(part.url, part.headers, part.offset, part.bytes));
        let puts: VecDeque<Put> = whole.into_iter().chain(parts).collect();
        let Some(first) = puts.front().cloned() else {
            upload.step = Step::Look;
            return;
        };
        upload.step = Step::Putting(puts);
        self.outputs.push(Output::Put { client_msg_id: client_msg_id.clone(), put: first });
    }

    /// Cancels an upload. Returns whether that was in time, before the file was complete.
    pub(super) fn cancel(&mut self, client_msg_id: &ClientMsgId) -> bool {
        let is_uploading = self.uploading(client_msg_id).is_some();
        if is_uploading {
            self.outputs.push(Output::Abort { client_msg_id: client_msg_id.clone() });
            self.requests.withdraw_upload(client_msg_id);
            self.upload_failed(client_msg_id, Error::Cancelled);
        }
        is_uploading
    }

    /// Records the number of bytes of a PUT that have been sent.
    pub(super) fn put_progress(&mut self, client_msg_id: &ClientMsgId, bytes: u64) {
        let Some(upload) = self.uploading(client_msg_id) else { return };
        let Step::Putting(puts) = &upload.step else { return };
        let done = puts.front().map_or(0, |put| put.offset + bytes.min(put.bytes));
        let file = upload.entry.queued.outgoing.upload();
        let (bytes, all) = file.map_or((0, 1), |file| (file.bytes, file.put_bytes(upload.is_sealed)));
        // The app knows the length of its file, and not that of the ciphertext.
        let done = done.min(all) * bytes / all.max(1);
        self.tell(Event::Uploading { client_msg_id: client_msg_id.clone(), done, bytes });
    }

    /// Ends a PUT.
    pub(super) fn put_ended(&mut self, client_msg_id: &ClientMsgId, end: PutEnd, now: Moment) {
        let Some(at) = self.outbox.uploads.iter().position(|upload| upload.is(client_msg_id)) else { return };
        let (status, lost) = match end {
            PutEnd::Status(status) => (status, false),
            PutEnd::Lost => (0, true),
            PutEnd::Unreadable(what) => {
                self.upload_failed(client_msg_id, Error::File(what));
                return;
            }
        };
        let Some(upload) = self.outbox.uploads.get_mut(at) else { return };
        let Step::Putting(puts) = &mut upload.step else { return };
        if matches!(status, 200..=299 | 412) {
            upload.was_there |= status == 412;
            (upload.fails, upload.refused) = (0, 0);
            puts.pop_front();
            let file = upload.entry.queued.outgoing.upload();
            let in_parts = file.is_some_and(|file| !file.digests(upload.is_sealed).1.is_empty());
            match puts.front().cloned() {
                Some(put) => self.outputs.push(Output::Put { client_msg_id: client_msg_id.clone(), put }),
                // The reply had only some of the parts. The next request returns the others, if any.
                None if in_parts => upload.step = Step::Begin(None),
                None => upload.step = Step::Look,
            }
            return;
        }
        upload.refused = if !lost && status == 400 { upload.refused + 1 } else { 0 };
        if upload.refused >= REFUSED_MAX {
            let error = Error::File("the file is not what it was when it was announced".to_owned());
            self.upload_failed(client_msg_id, error);
            return;
        }
        // The URL may have expired: the client requests another one.
        let max = self.timing.reconnect_max;
        upload.step = Step::Begin(Some(now + jitter(&mut self.rng, PUT_RETRY, max, upload.fails)));
        upload.fails = upload.fails.saturating_add(1);
    }

    /// The file is complete: sends the message.
    pub(super) fn enter_lane(&mut self, client_msg_id: &ClientMsgId) {
        let Some(at) = self.outbox.uploads.iter().position(|upload| upload.is(client_msg_id)) else { return };
        if let Some(upload) = self.outbox.uploads.remove(at) {
            self.outbox.enter(upload);
        }
    }

    /// The upload continues on the next connection.
    pub(super) fn upload_lost(&mut self, client_msg_id: &ClientMsgId) {
        if let Some(upload) = self.uploading(client_msg_id) {
            upload.step = if upload.step == Step::Looking { Step::Look } else { Step::Begin(None) };
        }
    }

    /// Handles `not_ready`: the object is missing or different. Only a new PUT, to other URLs, fixes this.
    pub(super) fn not_ready(&mut self, client_msg_id: &ClientMsgId, problem: &Problem, now: Moment) {
        let pause = Duration::from_millis(problem.retry_after_ms.unwrap_or(0)).clamp(PUT_RETRY, PUT_RETRY * 60);
        let Some(upload) = self.uploading(client_msg_id) else { return };
        upload.step = Step::Begin(Some(now + pause));
        if std::mem::take(&mut upload.was_there) {
            self.keep_media_id(client_msg_id, None);
        }
    }

    pub(super) fn upload_refused(&mut self, client_msg_id: &ClientMsgId, error: Error) {
        let Some(upload) = self.uploading(client_msg_id) else { return };
        let is_gone = matches!(&error, Error::Refused { code, .. } if code == "gone");
        if !is_gone || upload.media_id().is_none() {
            return self.upload_failed(client_msg_id, error);
        }
        if upload.may_be_sent {
            // The message was sent, or the announcement has expired. The reply to `send` tells which.
            return self.enter_lane(client_msg_id);
        }
        upload.step = Step::Begin(None);
        self.keep_media_id(client_msg_id, None);
    }

    /// Uploads from the start: the server did not store the message, and the announcement has expired.
    pub(super) fn upload_anew(&mut self, mut entry: Waiting) {
        let client_msg_id = entry.queued.client_msg_id.clone();
        if let Some(upload) = entry.queued.outgoing.upload_mut() {
            upload.media_id = None;
        }
        entry.set_unsent();
        // The sealed bytes name the upload that is gone.
        self.forget_sealed(&entry.queued, None);
        self.outbox.uploads.push_back(Uploading::new(entry));
        self.save(StorageChange::Uploading { client_msg_id, media_id: None });
    }

    fn upload_failed(&mut self, client_msg_id: &ClientMsgId, error: Error) {
        let Some(at) = self.outbox.uploads.iter().position(|upload| upload.is(client_msg_id)) else { return };
        let Some(Uploading { entry, .. }) = self.outbox.uploads.remove(at) else { return };
        self.failed(entry, error);
    }

    fn keep_media_id(&mut self, client_msg_id: &ClientMsgId, media_id: Option<&MediaId>) {
        let Some(Uploading { entry, may_be_sent, .. }) = self.uploading(client_msg_id) else { return };
        let Queued { outgoing: Outgoing::Message { media: Some(upload), .. }, .. } = &mut entry.queued else { return };
        if upload.media_id.as_ref() == media_id {
            return;
        }
        upload.media_id = media_id.cloned();
        *may_be_sent = false;
        let queued = entry.queued.clone();
        if media_id.is_none() {
            self.forget_sealed(&queued, None);
        }
        let (client_msg_id, media_id) = (client_msg_id.clone(), media_id.cloned());
        self.save(StorageChange::Uploading { client_msg_id, media_id });
    }
}
