//! The parts of a commit that don't fit in a frame: the caller uploads and downloads them, the keyring checks the bytes.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::BASE64;
use sha2::{Digest as _, Sha256};
use wire::{Carried, ConversationId, MediaId, Message};

use super::Keyring;
use super::rows::{self, Part};
use super::said::{Fetch, Upload};

/// The time after which a download that failed is due again.
const AGAIN_MS: u64 = 5_000;

/// The files of a seat. A restart begins anew.
#[derive(Default)]
pub(super) struct Files {
    /// The downloaded bytes by their digest, in base64.
    found: BTreeMap<String, Vec<u8>>,
    wanted: BTreeSet<Fetch>,
    asked: BTreeSet<Fetch>,
    uploading: BTreeSet<Part>,
    not_before: u64,
}

impl Files {
    /// The next step waits for a download.
    pub(super) fn are_missing(&self) -> bool {
        !self.wanted.is_empty() || !self.asked.is_empty()
    }

    pub(super) fn wake_at(&self) -> Option<u64> {
        let waits = !self.wanted.is_empty() || self.not_before > 0;
        waits.then_some(self.not_before)
    }

    pub(super) fn tick(&mut self, now_ms: u64) {
        if self.not_before <= now_ms {
            self.not_before = 0;
        }
    }

    pub(super) fn clear(&mut self) {
        let uploading = std::mem::take(&mut self.uploading);
        *self = Self { uploading, ..Self::default() };
    }
}

impl Upload {
    /// Returns the digest of the bytes, in base64.
    pub fn sha256(&self) -> String {
        digest(&self.bytes)
    }
}

impl Keyring {
    /// Returns the bytes to upload, each once, as files of kind `sealed` in this conversation.
    pub fn uploads(&mut self, now_ms: u64) -> Vec<Upload> {
        let mut due = Vec::new();
        if !self.carries_files {
            return due;
        }
        for id in &self.busy {
            let Some(seat) = self.seats.get_mut(id).filter(|seat| seat.files.not_before <= now_ms) else { continue };
            let Some(waiting) = &seat.pending else { continue };
            let files = waiting.files.iter().filter(|(_, media_id)| media_id.is_none()).map(|(part, _)| *part);
            for part in files {
                if seat.files.uploading.insert(part) {
                    let bytes = waiting.part(part).unwrap_or_default().to_vec();
                    let client_msg_id = waiting.commit.client_msg_id.clone();
                    due.push(Upload { conversation_id: id.clone(), client_msg_id, part, bytes });
                }
            }
        }
        due
    }

    /// Takes the outcome of an upload. `None`: it failed, and is due again later.
    pub fn uploaded(&mut self, upload: &Upload, media_id: Option<MediaId>, now_ms: u64) {
        let id = &upload.conversation_id;
        let Some(seat) = self.seats.get_mut(id) else { return };
        seat.files.uploading.remove(&upload.part);
        let waiting = seat.pending.as_mut().filter(|waiting| waiting.commit.client_msg_id == upload.client_msg_id);
        match (waiting.and_then(|waiting| waiting.files.get_mut(&upload.part)), media_id) {
            (Some(file), Some(media_id)) => *file = Some(media_id),
            (Some(_), None) => seat.files.not_before = now_ms.saturating_add(AGAIN_MS),
            (None, _) => {}
        }
        self.changed.insert(format!("{}{id}", rows::PENDING));
        self.touch(&upload.conversation_id);
    }

    /// Returns the files to download, each once.
    pub fn fetches(&mut self, now_ms: u64) -> Vec<Fetch> {
        let mut due = Vec::new();
        for id in &self.busy {
            let Some(seat) = self.seats.get_mut(id).filter(|seat| seat.files.not_before <= now_ms) else { continue };
            due.extend(seat.files.wanted.iter().cloned());
            seat.files.asked.append(&mut seat.files.wanted);
        }
        due
    }

    /// Takes the bytes of a file. Others than those of its digest count as none: the file is due again later.
    pub fn fetched(&mut self, fetch: &Fetch, bytes: Option<Vec<u8>>, now_ms: u64) {
        let Some(seat) = self.seats.get_mut(&fetch.conversation_id) else { return };
        if !seat.files.asked.remove(fetch) {
            return;
        }
        let is_it = |bytes: &Vec<u8>| digest(bytes) == fetch.sha256 && bytes.len() as u64 == fetch.bytes;
        if let Some(bytes) = bytes.filter(is_it) {
            seat.files.found.insert(fetch.sha256.clone(), bytes);
        } else {
            seat.files.wanted.insert(fetch.clone());
            seat.files.not_before = now_ms.saturating_add(AGAIN_MS);
        }
        self.touch(&fetch.conversation_id);
    }

    /// Returns the bytes of a part, or asks for its file. `Err`: the file has not come.
    pub(super) fn bytes_of(
        &mut self,
        id: &ConversationId,
        carried: Option<&Carried>,
    ) -> Result<Option<Vec<u8>>, Missing> {
        let (media_id, bytes, sha256) = match carried {
            None => return Ok(None),
            Some(Carried::Bytes(bytes)) => return Ok(Some(bytes.as_slice().to_vec())),
            Some(Carried::File { media_id, bytes, sha256 }) => (media_id, bytes, sha256),
        };
        let seat = self.seats.get_mut(id).ok_or(Missing)?;
        let sha256 = sha256.as_ref().map(|sha256| sha256.as_str().to_owned()).unwrap_or_default();
        if let Some(found) = seat.files.found.get(&sha256) {
            return Ok(Some(found.clone()));
        }
        // The own commit is there already.
        let own = seat.pending.iter().flat_map(|waiting| {
            [Part::Commit, Part::Welcome, Part::Tree].into_iter().filter_map(|part| waiting.part(part))
        });
        if let Some(own) = own.into_iter().find(|own| digest(own) == sha256) {
            return Ok(Some(own.to_vec()));
        }
        let fetch =
            Fetch { conversation_id: id.clone(), media_id: media_id.clone(), bytes: bytes.unwrap_or_default(), sha256 };
        if !seat.files.asked.contains(&fetch) {
            seat.files.wanted.insert(fetch);
        }
        self.touch(id);
        Err(Missing)
    }

    /// Returns the entry with its bytes, as far as this device needs them.
    pub(super) fn carried_in(&mut self, message: &Message, has_part: bool) -> Result<Message, Missing> {
        let id = &message.conversation_id;
        let mut message = message.clone();
        let follows = has_part && message.commit.is_some();
        let commit = if has_part { self.bytes_of(id, message.commit.as_deref()) } else { Ok(None) };
        let welcome = if follows { Ok(None) } else { self.bytes_of(id, message.welcome.as_deref()) };
        let tree = if follows { Ok(None) } else { self.bytes_of(id, message.tree.as_deref()) };
        let here = |bytes: Option<Vec<u8>>, carried: Option<Box<Carried>>| {
            bytes.map(|bytes| Box::new(Carried::Bytes(bytes.into()))).or(carried)
        };
        message.commit = here(commit?, message.commit);
        message.welcome = here(welcome?, message.welcome);
        message.tree = here(tree?, message.tree);
        Ok(message)
    }
}

/// A file has not come.
#[derive(Debug)]
pub(super) struct Missing;

fn digest(bytes: &[u8]) -> String {
    BASE64.encode(&Sha256::digest(bytes))
}

/// Returns bytes that are in the frame.
pub(super) fn here(carried: Option<&Carried>) -> Option<&[u8]> {
    match carried {
        Some(Carried::Bytes(bytes)) => Some(bytes.as_slice()),
        Some(Carried::File { .. }) | None => None,
    }
}
