//! What an app says of a file that is to be sent.

use std::path::{Path, PathBuf};

use wire::limits::{DURATION_MS_MAX, MEDIA_BYTES_MAX, PIXELS_MAX};
use wire::{FileName, Kind, MimeType, Target};

use crate::media::About;
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

    /// What can be said before all of the file is read.
    pub(crate) fn check(&self, target: &Target) -> Result<(), Error> {
        self.draft.check(target)?;
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
        assert_eq!(voice.as_deref(), Some("mime must begin with audio/"));
        let empty = check_length(Path::new("a"), 0).unwrap_err();
        assert!(matches!(empty, Error::Invalid { field: "bytes", .. }));
    }
}
