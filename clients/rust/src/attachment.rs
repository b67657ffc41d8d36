//! The description of a file that an app sends.

use std::path::{Path, PathBuf};

use pigeonhole_core::About;
use wire::limits::{DURATION_MS_MAX, MEDIA_BYTES_MAX, PIXELS_MAX};
use wire::{FileName, Kind, MimeType, Target};

use crate::{Draft, Error};

/// A picture, a voice note or any other file of the app, to send. The app must not change the file until the message is
/// stored.
///
/// Recipients know of the file only what this type contains: the client does not look inside a file.
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

impl Attachment {
    fn new(path: impl Into<PathBuf>, kind: Kind, mime: MimeType, about: About) -> Self {
        Self { path: path.into(), kind, mime, about, draft: Draft::new("") }
    }

    /// Describes a picture: JPEG, PNG, WebP, GIF or AVIF. Before this call, make the file small and remove its location
    /// from the metadata.
    pub fn image(path: impl Into<PathBuf>, mime: MimeType, width: u64, height: u64) -> Self {
        let about = About { width: Some(width), height: Some(height), ..About::default() };
        Self::new(path, Kind::Image, mime, about)
    }

    /// Describes a recording of speech.
    pub fn voice(path: impl Into<PathBuf>, mime: MimeType, duration_ms: u64) -> Self {
        Self::new(path, Kind::Voice, mime, About { duration_ms: Some(duration_ms), ..About::default() })
    }

    /// Any other file, a video too, with the name that the others see.
    pub fn file(path: impl Into<PathBuf>, mime: MimeType, name: FileName) -> Self {
        Self::new(path, Kind::File, mime, About { name: Some(name), ..About::default() })
    }

    /// Adds more fields: `name` and `thumbhash` of an image, `waveform` of a voice note, and of a file all fields
    /// except `waveform`. An encrypted message can also have a `thumbnail`, at most 4 KiB of a small image for the time
    /// before the file is loaded. No message in the clear has it.
    #[must_use]
    pub fn about(mut self, change: impl FnOnce(&mut About)) -> Self {
        change(&mut self.about);
        self
    }

    /// Adds a text next to the file. The text may reply to a message, and mention members.
    #[must_use]
    pub fn caption(mut self, draft: impl Into<Draft>) -> Self {
        self.draft = draft.into();
        self
    }

    /// Checks all limits that need only the description, before the client reads the whole file.
    pub(crate) fn check(&self, target: &Target) -> Result<(), Error> {
        self.draft.check_beside_media(&self.about, target)?;
        if let Some(problem) = self.mime.problem_in(&self.kind) {
            return Err(Error::Invalid { field: "mime", problem: problem.to_owned() });
        }
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

pub(crate) fn check_length(path: &Path, bytes: u64) -> Result<(), Error> {
    if (1..=MEDIA_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    let problem = format!("of {} must be 1 to {MEDIA_BYTES_MAX}", path.display());
    Err(Error::Invalid { field: "bytes", problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_image_or_voice_note_is_refused_before_it_is_read() {
        let mime = |text: &str| MimeType::parse(text).unwrap();
        let target = Target::User(wire::UserId::parse("bob").unwrap());
        let problem = |attachment: Attachment| attachment.check(&target).err().map(|error| error.to_string());
        assert_eq!(problem(Attachment::image("a", mime("image/avif"), 1, 1)), None);
        assert_eq!(problem(Attachment::voice("a", mime("audio/webm"), 1)), None);
        assert_eq!(problem(Attachment::file("a", mime("image/svg+xml"), FileName::parse("a").unwrap())), None);
        let image = problem(Attachment::image("a", mime("image/svg+xml"), 1, 1)).unwrap();
        assert!(image.starts_with("mime must be image/jpeg, image/png, "), "{image}");
        let voice = problem(Attachment::voice("a", mime("video/webm"), 1));
        assert_eq!(voice.as_deref(), Some("mime must begin with audio/, without a + or ml in what follows"));
        let small = |bytes: usize| {
            Attachment::image("a", mime("image/png"), 1, 1).about(|about| about.thumbnail = Some(vec![7; bytes].into()))
        };
        assert_eq!(problem(small(4096)), None);
        assert_eq!(problem(small(4097)).as_deref(), Some("thumbnail must be 1 to 4096 bytes"));
        let empty = check_length(Path::new("a"), 0).unwrap_err();
        assert!(matches!(empty, Error::Invalid { field: "bytes", .. }));
    }
}
