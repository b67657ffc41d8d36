//! The attachment of a message: as the app describes it, and as the outbox saves it.

use std::io::{self, ErrorKind, Read, Seek};
use std::path::PathBuf;

use pigeonhole_sealing::{FileCipher, FileDigest, FileKey, FileOpener, sealed_file_bytes};
use serde::{Deserialize, Serialize};
use wire::limits::MEDIA_PART_BYTES;
use wire::{Bytes, ConversationId, Digest, FileName, Kind, Media, MediaId, MimeType, Seq, Thumbhash, Waveform};

/// Optional properties of a file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct About {
    /// The name of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<FileName>,
    /// In pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u64>,
    /// In pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u64>,
    /// How long it plays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// A preview to show until the file is loaded: <https://evanw.github.io/thumbhash/>.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thumbhash: Option<Thumbhash>,
    /// The shape of a voice note: 100 bars of 5 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waveform: Option<Waveform>,
    /// A small image of at most 4 KiB, only in encrypted messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thumbnail: Option<Bytes>,
}

/// An attachment, from the upload to the message.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Upload {
    /// Where its bytes are.
    pub source: Source,
    /// An image, a voice note or a file.
    pub kind: Kind,
    /// Its media type.
    pub mime: MimeType,
    /// How many bytes there are.
    pub bytes: u64,
    /// SHA-256 of the bytes, or of a file in parts that of its parts' digests, one after another.
    pub sha256: Digest,
    /// SHA-256 of each 8 MiB of a file above 16 MiB.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Digest>,
    /// The properties that the message has.
    #[serde(flatten)]
    pub about: About,
    /// The server's id for the file, once announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_id: Option<MediaId>,
    /// The ciphertext of the file, for an encrypted conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Box<SealedFile>>,
}

/// The ciphertext of a file. Each part of an upload makes its bytes again, from the file and the key.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct SealedFile {
    /// The key, for these bytes alone.
    pub key: Bytes,
    /// SHA-256 of the ciphertext, as [`Upload::sha256`].
    pub sha256: Digest,
    /// SHA-256 of each 8 MiB of a ciphertext above 16 MiB.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Digest>,
}

impl SealedFile {
    /// Makes a key, and reads all of the file, of this length, for the digests.
    ///
    /// # Errors
    /// The file can't be read, is shorter, or is too large with its padding. Or the system has no random numbers.
    pub fn of(file: &mut (impl Read + Seek), bytes: u64) -> io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        let cipher = FileCipher::new(&FileKey::new(key), bytes).map_err(io::Error::other)?;
        let (sha256, parts) = cipher.digest(file)?;
        let digests = parts.into_iter().map(digest_of);
        Ok(Self { key: key.to_vec().into(), sha256: digest_of(sha256)?, parts: digests.collect::<Result<_, _>>()? })
    }
}

fn digest_of(sha256: [u8; 32]) -> io::Result<Digest> {
    Digest::parse(&Bytes::from(sha256.to_vec()).to_text()).map_err(io::Error::other)
}

fn cipher(key: &Bytes, bytes: u64) -> io::Result<FileCipher> {
    let key = <[u8; 32]>::try_from(key.as_slice()).map_err(io::Error::other)?;
    FileCipher::new(&FileKey::new(key), bytes).map_err(io::Error::other)
}

/// Returns what opens the download of an encrypted message's file.
///
/// # Errors
/// The media has no key, or is none of an encrypted message.
pub fn opener_of(media: &Media) -> io::Result<FileOpener> {
    let key = media.key.as_ref().ok_or_else(|| io::Error::other("there is no key"))?;
    let sha256 = Bytes::parse(media.sha256.as_str()).unwrap_or_else(|| Vec::new().into());
    let bytes = |bytes: &Bytes| <[u8; 32]>::try_from(bytes.as_slice()).map_err(io::Error::other);
    FileOpener::new(&FileKey::new(bytes(key)?), media.bytes, bytes(&sha256)?).map_err(io::Error::other)
}

/// Where the bytes of an upload are.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// In this file of the app's.
    File(PathBuf),
    /// With another message, so nothing is put.
    CopyOf {
        /// Where that is.
        conversation_id: ConversationId,
        /// The message.
        seq: Seq,
    },
}

impl Upload {
    /// Describes the attachment of another message, for a copy in the user's own message.
    pub fn copy(conversation_id: &ConversationId, seq: Seq, kind: &Kind, media: &Media) -> Self {
        let Media {
            media_id: _,
            mime,
            bytes,
            sha256,
            name,
            width,
            height,
            duration_ms,
            thumbhash,
            waveform,
            key,
            thumbnail,
        } = media.clone();
        Self {
            source: Source::CopyOf { conversation_id: conversation_id.clone(), seq },
            kind: kind.clone(),
            mime,
            bytes,
            sha256: sha256.clone(),
            parts: vec![],
            about: About { name, width, height, duration_ms, thumbhash, waveform, thumbnail },
            media_id: None,
            sealed: key.map(|key| Box::new(SealedFile { key, sha256, parts: vec![] })),
        }
    }

    /// Returns the attachment as an encrypted message has it, with its key.
    pub fn sealed_media(&self) -> Option<Media> {
        let SealedFile { key, sha256, .. } = self.sealed.as_deref()?.clone();
        Some(Media { sha256, key: Some(key), thumbnail: self.about.thumbnail.clone(), ..self.media()? })
    }

    /// Returns the length of what is uploaded.
    pub(crate) fn put_bytes(&self, is_sealed: bool) -> u64 {
        if is_sealed { sealed_file_bytes(self.bytes).unwrap_or(self.bytes) } else { self.bytes }
    }

    /// Returns the digests of what is uploaded.
    pub(crate) fn digests(&self, is_sealed: bool) -> (&Digest, &[Digest]) {
        let sealed = self.sealed.as_deref().filter(|_| is_sealed);
        sealed.map_or((&self.sha256, &self.parts), |sealed| (&sealed.sha256, &sealed.parts))
    }

    /// Returns what makes the ciphertext from this offset on.
    pub(crate) fn sealed_put(&self, offset: u64) -> Option<SealedPut> {
        let SealedFile { key, sha256, parts } = self.sealed.as_deref()?;
        let part = usize::try_from(offset / MEDIA_PART_BYTES).ok()?;
        let sha256 = if parts.is_empty() { sha256 } else { parts.get(part)? };
        Some(SealedPut { key: key.clone(), bytes: self.bytes, sha256: sha256.clone() })
    }

    /// Returns the attachment as the message has it, once the file has been announced.
    pub fn media(&self) -> Option<Media> {
        let About { name, width, height, duration_ms, thumbhash, waveform, thumbnail: _ } = self.about.clone();
        Some(Media {
            media_id: self.media_id.clone()?,
            mime: self.mime.clone(),
            bytes: self.bytes,
            sha256: self.sha256.clone(),
            name,
            width,
            height,
            duration_ms,
            thumbhash,
            waveform,
            key: None,
            thumbnail: None,
        })
    }
}

/// Bytes of a file that are to be put somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The file.
    pub path: PathBuf,
    /// The first byte.
    pub offset: u64,
    /// How many bytes there are.
    pub bytes: u64,
    /// Where they go.
    pub url: String,
    /// The headers of the request, without others.
    pub headers: Vec<(String, String)>,
    /// The bytes are of the ciphertext, which [`read`](SealedPut::read) makes from the file.
    pub sealed: Option<SealedPut>,
}

/// How a part of a file is encrypted.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct SealedPut {
    /// The key of the file.
    pub key: Bytes,
    /// The length of the file.
    pub bytes: u64,
    /// SHA-256 of the ciphertext that is put.
    pub sha256: Digest,
}

impl SealedPut {
    /// Returns this part of the ciphertext. `file`: the app's file.
    ///
    /// # Errors
    /// The file can't be read. `InvalidData`: the file has changed. Its new bytes must not leave under the old key: both
    /// together would give away the contents.
    pub fn read(&self, file: &mut (impl Read + Seek), offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let ciphertext = cipher(&self.key, self.bytes)?.read(file, offset, bytes)?;
        let mut digest = FileDigest::new(bytes);
        digest.update(&ciphertext);
        if digest_of(digest.end())? == self.sha256 {
            Ok(ciphertext)
        } else {
            Err(io::Error::new(ErrorKind::InvalidData, "the file is not what it was when it was announced"))
        }
    }
}

/// The number of a [`Carry`].
pub type CarryId = u64;

/// The way of a file of the encryption, which is in memory: at most some 100 KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carry {
    /// Upload these bytes with HTTP PUT. HTTP's status 412 is a success, too: an earlier try has put them.
    Put {
        /// Where they go.
        url: String,
        /// The headers of the request, without others.
        headers: Vec<(String, String)>,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Download bytes with HTTP GET.
    Get {
        /// Where they are.
        url: String,
        /// Their number. More are none.
        bytes: u64,
    },
}

/// News of a [`Put`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutNews {
    /// This number of bytes has been sent.
    Sent(u64),
    /// The upload has ended.
    Ended(PutEnd),
}

/// The result of the upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutEnd {
    /// A response, with its HTTP status code.
    Status(u16),
    /// No response: a retry may work.
    Lost,
    /// The file can't be read: it will not work later either.
    Unreadable(String),
}
