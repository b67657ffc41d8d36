//! What a message carries beside its text: as the app says it, and as the outbox keeps it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wire::limits::{DURATION_MS_MAX, MEDIA_BYTES_MAX, PIXELS_MAX};
use wire::{ConversationId, Digest, FileName, Kind, Media, MediaId, MimeType, Seq, Thumbhash, Waveform};

use crate::{Draft, Error};

/// A picture, a voice note or any other file that is to be sent: a file of the app's, which must stay as it is until the message is
/// stored. What is not said here is not known to the others: the client looks at no file's inside.
///
/// ```
/// use pigeonhole_client::{Attachment, MimeType};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let picture = Attachment::image("us.jpg", MimeType::parse("image/jpeg")?, 1600, 1200).caption("us, at last");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    pub(crate) mime: MimeType,
    pub(crate) about: About,
    pub(crate) draft: Draft,
}

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

impl Attachment {
    fn new(path: impl Into<PathBuf>, kind: Kind, mime: MimeType, about: About) -> Self {
        Self { path: path.into(), kind, mime, about, draft: Draft::new("") }
    }

    /// A picture: JPEG, PNG, WebP, GIF or AVIF. Make it small, and free of where it was taken, before.
    pub fn image(path: impl Into<PathBuf>, mime: MimeType, width: u64, height: u64) -> Self {
        let about = About { width: Some(width), height: Some(height), ..About::default() };
        Self::new(path, Kind::Image, mime, about)
    }

    /// A recording of somebody who speaks.
    pub fn voice(path: impl Into<PathBuf>, mime: MimeType, duration_ms: u64) -> Self {
        Self::new(path, Kind::Voice, mime, About { duration_ms: Some(duration_ms), ..About::default() })
    }

    /// Any other file, a video too, with the name that the others see.
    pub fn file(path: impl Into<PathBuf>, mime: MimeType, name: FileName) -> Self {
        Self::new(path, Kind::File, mime, About { name: Some(name), ..About::default() })
    }

    /// What else is known of it: of an image `name` and `thumbhash`, of a voice note `waveform`, of a file all but that.
    #[must_use]
    pub fn about(mut self, change: impl FnOnce(&mut About)) -> Self {
        change(&mut self.about);
        self
    }

    /// With a text beside it, which may answer a message, and name members.
    #[must_use]
    pub fn caption(mut self, draft: impl Into<Draft>) -> Self {
        self.draft = draft.into();
        self
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        self.draft.check()?;
        let About { width, height, duration_ms, .. } = self.about;
        for (field, value, max) in [
            ("width", width, PIXELS_MAX),
            ("height", height, PIXELS_MAX),
            ("duration_ms", duration_ms, DURATION_MS_MAX),
        ] {
            if value.is_some_and(|value| !(1..=max).contains(&value)) {
                return Err(Error::Invalid { field, problem: format!("must be 1 to {max}") });
            }
        }
        Ok(())
    }
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
pub(crate) enum PutEnd {
    /// An answer, with HTTP's status code.
    Status(u16),
    /// No answer: it may work later.
    Lost,
    /// The file can't be read: it will not work later either.
    Unreadable(String),
}

#[cfg_attr(not(feature = "media"), expect(dead_code, reason = "nothing is read without it"))]
pub(crate) fn check_length(path: &Path, bytes: u64) -> Result<(), Error> {
    if (1..=MEDIA_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    let problem = format!("of {} must be 1 to {MEDIA_BYTES_MAX}", path.display());
    Err(Error::Invalid { field: "bytes", problem })
}
