//! The attachment of a message: as the app describes it, and as the outbox saves it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wire::{ConversationId, Digest, FileName, Kind, Media, MediaId, MimeType, Seq, Thumbhash, Waveform};

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

    /// Returns the attachment as the message has it, once the file has been announced.
    pub fn media(&self) -> Option<Media> {
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
