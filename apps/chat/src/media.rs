//! Pictures and other files: in words, from a path, and to one.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use imagesize::ImageType;
use pigeonhole_client::{Attachment, FileName, Kind, Message, MimeType, Upload};

/// What a message carries, in words.
pub(crate) fn carried(message: &Message) -> Option<String> {
    let media = message.media.as_ref()?;
    Some(in_words(&message.kind, media.name.as_ref(), media.bytes))
}

pub(crate) fn carries(upload: &Upload) -> String {
    in_words(&upload.kind, upload.about.name.as_ref(), upload.bytes)
}

fn in_words(kind: &Kind, name: Option<&FileName>, bytes: u64) -> String {
    let what = match kind {
        Kind::Image => "picture",
        Kind::Voice => "voice",
        _ => "file",
    };
    let name = name.map_or(String::new(), |name| format!(" {name}"));
    let size = match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{}.{} MiB", bytes / 1_048_576, bytes % 1_048_576 * 10 / 1_048_576),
    };
    format!("[{what}{name}, {size}]")
}

/// What is in words and what was said beside it.
pub(crate) fn with_caption(carried: Option<String>, body: &str) -> String {
    match carried {
        Some(carried) if body.is_empty() => carried,
        Some(carried) => format!("{carried} {body}"),
        None => body.to_owned(),
    }
}

/// `PATH caption`, or `"A PATH" caption`.
pub(crate) fn path_and_rest(text: &str) -> Option<(PathBuf, String)> {
    let (path, rest) = match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => text.split_once(char::is_whitespace).unwrap_or((text, "")),
    };
    (!path.is_empty()).then(|| (PathBuf::from(path), rest.trim().to_owned()))
}

/// A picture, if it is one that can be shown, or a file. Its inside says which, not its name.
pub(crate) fn attachment(path: &Path) -> Result<Attachment, String> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = FileName::parse(name).map_err(|error| format!("the file's name {error}"))?;
    let mime = |text| MimeType::parse(text).map_err(|error| error.to_string());
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let image = match imagesize::reader_type(BufReader::new(file)) {
        Ok(ImageType::Jpeg) => "image/jpeg",
        Ok(ImageType::Png) => "image/png",
        Ok(ImageType::Gif) => "image/gif",
        Ok(ImageType::Webp) => "image/webp",
        _ => return Ok(Attachment::file(path, mime("application/octet-stream")?, name)),
    };
    match imagesize::size(path) {
        Ok(size) => Ok(Attachment::image(path, mime(image)?, size.width as u64, size.height as u64)
            .about(|about| about.name = Some(name))),
        Err(_) => Ok(Attachment::file(path, mime("application/octet-stream")?, name)),
    }
}

/// Where what a message carries is saved, if nothing else is said: here, by its name.
pub(crate) fn place(message: &Message) -> Option<PathBuf> {
    let media = message.media.as_ref()?;
    let ending = if message.kind == Kind::Image { media.mime.as_str().trim_start_matches("image/") } else { "bin" };
    // A name that begins with a dot is one that programs look for.
    let named = |name: &FileName| name.as_str().trim_start_matches('.').to_owned();
    let name = media.name.as_ref().map(named).filter(|name| !name.is_empty());
    Some(name.unwrap_or_else(|| format!("{}.{ending}", media.media_id)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_said_in_words() {
        let name = FileName::parse("us.jpg").ok();
        assert_eq!(in_words(&Kind::Image, name.as_ref(), 284_113), "[picture us.jpg, 278 KiB]");
        assert_eq!(in_words(&Kind::Voice, None, 12), "[voice, 12 B]");
        assert_eq!(in_words(&Kind::File, name.as_ref(), 1_600_000), "[file us.jpg, 1.5 MiB]");
        assert_eq!(with_caption(Some("[x]".to_owned()), "hi"), "[x] hi");
        assert_eq!(with_caption(Some("[x]".to_owned()), ""), "[x]");
    }

    #[test]
    fn a_path_with_spaces_is_quoted() {
        let parsed = |text| path_and_rest(text).map(|(path, rest)| (path.display().to_string(), rest));
        assert_eq!(parsed("a.jpg us, at last"), Some(("a.jpg".to_owned(), "us, at last".to_owned())));
        assert_eq!(parsed("\"a b.jpg\" us"), Some(("a b.jpg".to_owned(), "us".to_owned())));
        assert_eq!((parsed(""), parsed("\"a b")), (None, None));
    }

    #[test]
    fn the_inside_of_a_file_says_whether_it_is_a_picture() {
        let folder = std::env::temp_dir();
        let (picture, page) = (folder.join("chat-test-picture.txt"), folder.join("chat-test-page.png"));
        std::fs::write(&picture, b"GIF89a\x04\x00\x03\x00\x00\x00\x00").unwrap();
        std::fs::write(&page, b"<!doctype html>").unwrap();
        let said = |path: &Path| format!("{:?}", attachment(path).unwrap());
        assert!(
            said(&picture).contains("image/gif") && said(&picture).contains("width: Some(4)"),
            "{}",
            said(&picture)
        );
        assert!(said(&page).contains("application/octet-stream"), "{}", said(&page));
        for path in [picture, page] {
            std::fs::remove_file(path).unwrap();
        }
    }
}
