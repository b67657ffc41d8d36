//! What a message carries beside its text: as the app says it, and as the outbox keeps it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wire::{ConversationId, Digest, FileName, Kind, Media, MediaId, MimeType, Seq, Thumbhash, Waveform};

/// What may be known of a file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct About {
    /// What it is called.
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
    /// What is shown until it is there: <https://evanw.github.io/thumbhash/>.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thumbhash: Option<Thumbhash>,
    /// Of a voice note: 100 bars of 5 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waveform: Option<Waveform>,
}

/// A file on its way to where a message says that it is.
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
    /// What the message says of it.
    #[serde(flatten)]
    pub about: About,
    /// What it is called, once it has been announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_id: Option<MediaId>,
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
    /// What another message carries, for a message of one's own.
    pub(crate) fn copy(conversation_id: &ConversationId, seq: Seq, kind: &Kind, media: &Media) -> Self {
        let Media { mime, bytes, sha256, name, width, height, duration_ms, thumbhash, waveform, .. } = media.clone();
        Self {
            source: Source::CopyOf { conversation_id: conversation_id.clone(), seq },
            kind: kind.clone(),
            mime,
            bytes,
            sha256,
            parts: vec![],
            about: About { name, width, height, duration_ms, thumbhash, waveform },
            media_id: None,
        }
    }

    /// What the message says of it, once it has been announced.
    pub(crate) fn media(&self) -> Option<Media> {
        let About { name, width, height, duration_ms, thumbhash, waveform } = self.about.clone();
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
        })
    }
}

/// Bytes of a file that are to be put somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Put {
    pub path: PathBuf,
    pub offset: u64,
    pub bytes: u64,
    pub url: String,
    /// With exactly these.
    pub headers: Vec<(String, String)>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(any(feature = "media", test)), expect(dead_code, reason = "nothing is put without it"))]
pub(crate) enum PutEnd {
    /// An answer, with HTTP's status code.
    Status(u16),
    /// No answer: it may work later.
    Lost,
    /// The file can't be read: it will not work later either.
    Unreadable(String),
}
