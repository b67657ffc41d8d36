//! The files of commits: the parts that have no room in a frame. The keyring names them, and the session carries them
//! from and to memory.

use std::collections::BTreeMap;

use pigeonhole_sealing::{Fetch, Upload};
use serde_json::Value;
use wire::{Digest, DownloadResult, Kind, MediaId, NewUpload, Target, UploadRequest, UploadResult};

use super::Core;
use super::reading::readable;
use super::requests::{Errand, Leg};
use super::sealing::millis;
use crate::Moment;
use crate::media::{Carry, CarryId};
use crate::turn::Output;

/// The files that are under way.
#[derive(Default)]
pub(super) struct Carrying {
    all: BTreeMap<CarryId, File>,
    last: CarryId,
}

enum File {
    /// With its id, once it is announced.
    Up(Box<Upload>, Option<MediaId>),
    Down(Fetch),
}

impl Core {
    /// Begins to carry the files that the keyring needs.
    pub(super) fn carry_due(&mut self, now: Moment) {
        let wall = millis(self.wall);
        let Some(keyring) = &mut self.keyring else { return };
        let up = keyring.uploads(wall).into_iter().map(|upload| File::Up(Box::new(upload), None));
        let files: Vec<File> = up.chain(keyring.fetches(wall).into_iter().map(File::Down)).collect();
        for file in files {
            self.carrying.last += 1;
            let carry = self.carrying.last;
            let leg = match &file {
                File::Up(upload, _) => announcement(upload).map(Leg::Announce),
                File::Down(fetch) => Some(Leg::Locate(fetch.media_id.clone())),
            };
            self.carrying.all.insert(carry, file);
            match leg {
                Some(leg) => self.ask(Errand::Carry(carry, Box::new(leg)), now),
                None => self.carry_failed(carry, now),
            }
        }
    }

    /// The server has replied. The bytes go to the URL of the reply, or come from there.
    pub(super) fn carry_answered(&mut self, carry: CarryId, leg: &Leg, result: Value, now: Moment) {
        let what = match (leg, self.carrying.all.get_mut(&carry)) {
            (Leg::Announce(_), Some(File::Up(upload, media_id))) => readable(result).and_then(|place: UploadResult| {
                *media_id = Some(place.media_id);
                let (bytes, headers) = (upload.bytes.clone(), place.headers.into_iter().collect());
                Some(Carry::Put { url: place.url?, headers, bytes })
            }),
            (Leg::Locate(_), Some(File::Down(fetch))) => readable(result).and_then(|located: DownloadResult| {
                Some(Carry::Get { url: located.items.into_iter().next()?.url, bytes: fetch.bytes })
            }),
            (Leg::Complete(_), Some(File::Up(_, media_id))) => {
                let media_id = media_id.clone();
                return self.carry_ended(carry, media_id, None, now);
            }
            _ => None,
        };
        match what {
            Some(what) => self.outputs.push(Output::Carry { carry, what }),
            None => self.carry_failed(carry, now),
        }
    }

    /// The bytes were put, or have come. `None`: neither.
    pub(super) fn carried(&mut self, carry: CarryId, bytes: Option<Vec<u8>>, now: Moment) {
        match (self.carrying.all.get(&carry), bytes) {
            (Some(File::Up(_, Some(media_id))), Some(_)) if self.links.current().is_some() => {
                let leg = Leg::Complete(media_id.clone());
                self.ask(Errand::Carry(carry, Box::new(leg)), now);
            }
            (Some(File::Down(_)), bytes @ Some(_)) => self.carry_ended(carry, None, bytes, now),
            _ => self.carry_failed(carry, now),
        }
    }

    /// The keyring asks for the file again later.
    pub(super) fn carry_failed(&mut self, carry: CarryId, now: Moment) {
        self.carry_ended(carry, None, None, now);
    }

    fn carry_ended(&mut self, carry: CarryId, media_id: Option<MediaId>, bytes: Option<Vec<u8>>, now: Moment) {
        let wall = millis(self.wall);
        let (Some(file), Some(keyring)) = (self.carrying.all.remove(&carry), &mut self.keyring) else { return };
        match file {
            File::Up(upload, _) => keyring.uploaded(&upload, media_id, wall),
            File::Down(fetch) => keyring.fetched(&fetch, bytes, wall),
        }
        self.show_waiting(now);
    }
}

fn announcement(upload: &Upload) -> Option<UploadRequest> {
    Some(UploadRequest::New(NewUpload {
        target: Target::Conversation(upload.conversation_id.clone()),
        kind: Kind::Sealed,
        mime: None,
        bytes: upload.bytes.len() as u64,
        sha256: Digest::parse(&upload.sha256()).ok()?,
        parts: vec![],
    }))
}
