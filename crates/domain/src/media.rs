//! Media of messages, and their life: announced, uploaded, attached to a message, removed.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use wire::limits::{MEDIA_PART_BYTES, MEDIA_WHOLE_BYTES_MAX};
use wire::{
    Attached, ConversationId, Digest, FileName, Kind, Media, MediaId, MimeType, Refusal, Seq, Timestamp, UserId,
};

/// Time for which an upload URL is valid. The function's credentials sign the URL, and can expire before a longer one.
const UPLOAD_URL_TTL: Duration = Duration::from_mins(15);
/// Time after which an upload that began with a valid URL is over: the URL's time counts only at the request's start.
const UPLOAD_SLOWEST: Duration = Duration::from_hours(1);

/// The row of an object in S3. The object is there no longer than the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaRow {
    pub media_id: MediaId,
    /// The user who announced it, and may send it.
    pub owner_id: UserId,
    /// Where it may be sent, and is seen then.
    pub conversation_id: ConversationId,
    pub kind: Kind,
    pub mime: MimeType,
    pub bytes: u64,
    pub sha256: Digest,
    /// While it is uploaded in parts.
    pub parts: Option<Parts>,
    /// When all of it was seen in S3.
    pub ready_at: Option<Timestamp>,
    /// The message that carries it.
    pub seq: Option<Seq>,
    /// The message's name for the file.
    pub name: Option<FileName>,
    /// Until then it can be sent. Attached media do not expire by themselves.
    pub expires_at: Option<Timestamp>,
}

/// How a large file is uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// What S3 calls the upload.
    pub upload_id: String,
    pub digests: Vec<Digest>,
}

/// A part's place in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartOf {
    /// From 1 on.
    pub number: u64,
    pub offset: u64,
    pub bytes: u64,
}

impl MediaRow {
    /// Checks that the media are the user's, are not sent yet, and have not expired.
    ///
    /// # Errors
    /// Foreign, sent and expired media give the same error as missing ones.
    pub fn check_waiting(&self, user: &UserId, now: Timestamp) -> Result<(), Refusal> {
        let has_time = self.expires_at.is_some_and(|end| end > now);
        if self.owner_id == *user && self.seq.is_none() && has_time { Ok(()) } else { Err(Refusal::Gone) }
    }

    /// Whether a message of the user's in that conversation may carry it: a reason against it, if there is one.
    pub fn refuses(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        kind: &Kind,
        media: &Attached,
        now: Timestamp,
    ) -> Refusal {
        if self.check_waiting(user, now).is_err() || self.conversation_id != *conversation {
            return Refusal::Gone;
        }
        if self.kind != *kind {
            return differs("kind");
        }
        // Clients of the members check the rest of what is sealed.
        media.clear().and_then(|media| self.differs(media)).unwrap_or_else(|| {
            // The check of all else passed a moment ago.
            if self.ready_at.is_none() { Refusal::NotReady } else { Refusal::Conflict }
        })
    }

    /// The field of a message that is not what was uploaded, if there is one.
    fn differs(&self, media: &Media) -> Option<Refusal> {
        let field = if self.mime != media.mime {
            "media.mime"
        } else if self.bytes != media.bytes {
            "media.bytes"
        } else if self.sha256 != media.sha256 {
            "media.sha256"
        } else {
            return None;
        };
        Some(differs(field))
    }

    /// Where the object is. By kind, so that rules of the bucket can be about files only.
    pub fn key(&self) -> String {
        object_key(&self.kind, &self.media_id)
    }
}

fn differs(field: &str) -> Refusal {
    Refusal::bad_request(field, "must be what was uploaded")
}

/// Time for which the file of a tree stays after the next commit: a device can have its id from before.
pub const TREE_TTL: Duration = Duration::from_hours(24);

/// When the last PUT can have ended whose URL was signed for a row. None is signed once it is ready, nor beyond its own
/// end.
pub fn puts_end(ready_at: Option<Timestamp>, expires_at: Option<Timestamp>) -> Timestamp {
    let signed_until = ready_at.map(|at| at.plus(UPLOAD_URL_TTL)).or(expires_at);
    signed_until.unwrap_or_default().plus(UPLOAD_SLOWEST)
}

pub fn object_key(kind: &Kind, media_id: &MediaId) -> String {
    format!("media/{kind}/{media_id}")
}

/// Returns an id for an upload: 128 bits in base32. The id is no secret, only unique.
///
/// The id of a sealed upload ends with its length. So `send` has the length without reading the upload's row, and the
/// condition on that row checks it.
#[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "lower-case Base32 and a number are an id")]
pub fn media_id(random: u128, kind: &Kind, bytes: u64) -> MediaId {
    let digits = data_encoding::BASE32_NOPAD.encode(&random.to_be_bytes()).to_ascii_lowercase();
    let id = if *kind == Kind::Sealed { format!("m_{digits}_{bytes}") } else { format!("m_{digits}") };
    MediaId::parse(&id).expect("it is an id")
}

/// Returns the length of a sealed upload with this id. Without an upload of this id and length, nothing is attached.
pub fn sealed_bytes(media_id: &MediaId) -> Option<u64> {
    media_id.as_str().strip_prefix("m_")?.split_once('_')?.1.parse().ok()
}

/// Returns the parts of a file of this size; none for an upload as a whole.
pub fn parts_of(bytes: u64) -> impl Iterator<Item = PartOf> {
    let count = if bytes > MEDIA_WHOLE_BYTES_MAX { bytes.div_ceil(MEDIA_PART_BYTES) } else { 0 };
    (0..count).map(move |part| {
        let offset = part * MEDIA_PART_BYTES;
        PartOf { number: part + 1, offset, bytes: MEDIA_PART_BYTES.min(bytes - offset) }
    })
}

/// Whether a file is announced with the digests of its parts, if it has parts, and with the digest that follows from
/// them.
///
/// # Errors
/// The refusal names the field.
pub fn check_parts(bytes: u64, sha256: &Digest, parts: &[Digest]) -> Result<(), Refusal> {
    let count = parts_of(bytes).count();
    if parts.len() != count {
        let problem = match count {
            0 => "must be left out: up to 16 MiB are uploaded as a whole".to_owned(),
            count => format!("must be {count} digests, one for each 8 MiB"),
        };
        return Err(Refusal::bad_request("parts", problem));
    }
    if count > 0 && digest_of_parts(parts) != *sha256.as_str() {
        return Err(Refusal::bad_request("sha256", "must be the digest of the parts' digests, one after another"));
    }
    Ok(())
}

/// Returns the digest of the parts' digests, one after another.
fn digest_of_parts(parts: &[Digest]) -> String {
    let bytes = parts.iter().filter_map(|part| data_encoding::BASE64.decode(part.as_str().as_bytes()).ok());
    let digest = bytes.fold(Sha256::new(), Sha256::chain_update).finalize();
    data_encoding::BASE64.encode(&digest)
}

/// Characters of a file name for clients that read only plain names. Ten signed URLs must fit a frame. In them each
/// character takes up to three bytes here, and five in the whole name.
const PLAIN_NAME_CHARS_MAX: usize = 64;

/// Returns the header that makes a browser save a download, under this name. RFC 6266, with the name twice, since some
/// clients read only the first.
pub fn disposition(name: Option<&FileName>) -> String {
    let Some(name) = name else { return "attachment".to_owned() };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.' | '(' | ')');
    let shown = name.as_str().chars().take(PLAIN_NAME_CHARS_MAX);
    let plain: String = shown.map(|c| if is_plain(c) { c } else { '_' }).collect();
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encoded: String = name
        .as_str()
        .bytes()
        .map(|byte| if is_unreserved(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

/// Returns the type of a download. A file could contain a script, which browsers may run despite the header.
pub fn served_as<'a>(kind: &Kind, mime: &'a MimeType) -> &'a str {
    match kind {
        Kind::Image | Kind::Voice => mime.as_str(),
        _ => "application/octet-stream",
    }
}

/// How long a URL to put something may be good that is signed now, for what ends then.
pub fn url_ttl(now: Timestamp, expires_at: Timestamp) -> Duration {
    UPLOAD_URL_TTL.min(expires_at.since(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1024 * 1024;

    fn digest(byte: u8) -> Digest {
        Digest::parse(&data_encoding::BASE64.encode(&[byte; 32])).unwrap()
    }

    fn row() -> MediaRow {
        MediaRow {
            media_id: media_id(7, &Kind::Image, 5),
            owner_id: UserId::parse("alice").unwrap(),
            conversation_id: ConversationId::parse("dm_x").unwrap(),
            kind: Kind::Image,
            mime: MimeType::parse("image/png").unwrap(),
            bytes: 5,
            sha256: digest(1),
            parts: None,
            ready_at: Some(Timestamp::from_millis(1_000)),
            seq: None,
            name: None,
            expires_at: Some(Timestamp::from_millis(100_000)),
        }
    }

    fn media() -> Media {
        Media {
            media_id: media_id(7, &Kind::Image, 5),
            mime: MimeType::parse("image/png").unwrap(),
            bytes: 5,
            sha256: digest(1),
            name: None,
            width: Some(1),
            height: Some(1),
            duration_ms: None,
            thumbhash: None,
            waveform: None,
            key: None,
            thumbnail: None,
        }
    }

    #[test]
    fn a_refusal_names_what_differs_and_says_nothing_of_what_is_not_one_s_own() {
        let [alice, bob] = ["alice", "bob"].map(|id| UserId::parse(id).unwrap());
        let [here, elsewhere] = ["dm_x", "dm_y"].map(|id| ConversationId::parse(id).unwrap());
        let (now, late) = (Timestamp::from_millis(5_000), Timestamp::from_millis(100_000));
        let of = |row: MediaRow, user, place, media: &Media, now| {
            let media = Attached::Clear(media.clone());
            let refusal = row.refuses(user, place, &Kind::Image, &media, now);
            format!("{} {refusal}", refusal.code())
        };
        let gone = "gone the message or upload does not exist; do not send it again";
        assert_eq!(of(row(), &bob, &here, &media(), now), gone);
        assert_eq!(of(row(), &alice, &elsewhere, &media(), now), gone);
        assert_eq!(of(row(), &alice, &here, &media(), late), gone);
        assert_eq!(of(MediaRow { seq: Some(Seq::FIRST), ..row() }, &alice, &here, &media(), now), gone);
        let differs = |field: &str| format!("bad_request {field}: must be what was uploaded");
        let other = Media { bytes: 6, ..media() };
        assert_eq!(of(row(), &alice, &here, &other, now), differs("media.bytes"));
        let other = Media { sha256: digest(2), ..media() };
        assert_eq!(of(row(), &alice, &here, &other, now), differs("media.sha256"));
        let other = Media { mime: MimeType::parse("image/gif").unwrap(), ..media() };
        assert_eq!(of(row(), &alice, &here, &other, now), differs("media.mime"));
        assert_eq!(of(MediaRow { kind: Kind::File, ..row() }, &alice, &here, &media(), now), differs("kind"));
        let waiting = MediaRow { ready_at: None, ..row() };
        assert!(of(waiting, &alice, &here, &media(), now).starts_with("not_ready"));
    }

    #[test]
    fn a_name_is_one_header_and_one_file() {
        let of = |name: &str| disposition(Some(&FileName::parse(name).unwrap()));
        assert_eq!(of("a b.pdf"), "attachment; filename=\"a b.pdf\"; filename*=UTF-8''a%20b.pdf");
        assert_eq!(of("a\"; x=\"y"), "attachment; filename=\"a__ x__y\"; filename*=UTF-8''a%22%3B%20x%3D%22y");
        assert_eq!(of("ü.png"), "attachment; filename=\"_.png\"; filename*=UTF-8''%C3%BC.png");
        assert_eq!(disposition(None), "attachment");
        let html = MimeType::parse("text/html").unwrap();
        assert_eq!(served_as(&Kind::File, &html), "application/octet-stream");
    }

    #[test]
    fn a_large_file_is_announced_with_its_parts() {
        let told =
            |bytes, sha256: &Digest, parts: &[Digest]| check_parts(bytes, sha256, parts).map_err(|no| no.to_string());
        assert_eq!(told(16 * MIB, &digest(1), &[]), Ok(()));
        let left_out = "parts: must be left out: up to 16 MiB are uploaded as a whole";
        assert_eq!(told(16 * MIB, &digest(1), &[digest(1)]), Err(left_out.to_owned()));
        let parts = [digest(1), digest(2), digest(3)];
        let all = Digest::parse(&digest_of_parts(&parts)).unwrap();
        assert_eq!(told(16 * MIB + 1, &all, &parts), Ok(()));
        let three = "parts: must be 3 digests, one for each 8 MiB";
        assert_eq!(told(16 * MIB + 1, &all, &parts[..2]), Err(three.to_owned()));
        let of_parts = "sha256: must be the digest of the parts' digests, one after another";
        assert_eq!(told(16 * MIB + 1, &digest(1), &parts), Err(of_parts.to_owned()));
        assert_eq!(parts_of(100 * MIB).count(), wire::limits::MEDIA_PARTS_MAX);
    }

    proptest! {
        #[test]
        fn parts_tile_the_file(bytes in 1..=wire::limits::MEDIA_BYTES_MAX) {
            let mut end = 0;
            for (place, part) in (1..).zip(parts_of(bytes)) {
                prop_assert_eq!((part.number, part.offset), (place, end));
                prop_assert!((1..=MEDIA_PART_BYTES).contains(&part.bytes));
                end += part.bytes;
            }
            prop_assert_eq!(end, if bytes > MEDIA_WHOLE_BYTES_MAX { bytes } else { 0 });
        }

        #[test]
        fn a_disposition_is_plain_ascii_on_one_line(name in "\\PC{1,100}") {
            if let Ok(name) = FileName::parse(&name) {
                let header = disposition(Some(&name));
                prop_assert!(header.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
                prop_assert_eq!(header.matches('"').count(), 2);
            }
        }
    }
}
