//! Pictures, files and voice: what a message says of bytes that are stored beside it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use crate::bytes::Bytes;
use crate::fields::Fields;
use crate::ids::{InvalidId, MediaId};
use crate::kind::Kind;
use crate::limits::{
    DURATION_MS_MAX, FILE_NAME_BYTES_MAX, FRANK_BYTES, MEDIA_BYTES_MAX, MIME_CHARS_MAX, PIXELS_MAX,
    THUMBHASH_CHARS_MAX, THUMBNAIL_BYTES_MAX, WAVEFORM_CHARS_MAX,
};
use crate::refusal::Refusal;
use crate::text::{breaks_out, is_visible};

/// The types of an image. Browsers show each of them, and none can run code. An SVG can, so it is sent as a file.
pub(crate) const IMAGE_TYPES: [&str; 5] = ["image/jpeg", "image/png", "image/webp", "image/gif", "image/avif"];

/// The key of a file in an encrypted message.
const KEY_BYTES: usize = 32;

/// The media of a message. A message never contains a URL: `download` returns one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Media {
    /// The id of the upload. Clients use it as the key of a downloaded file.
    pub media_id: MediaId,
    pub mime: MimeType,
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = MEDIA_BYTES_MAX)))]
    pub bytes: u64,
    /// SHA-256 of the bytes, or of a file in parts that of its parts' digests, one after another.
    pub sha256: Digest,
    /// The name of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<FileName>,
    /// In pixels. An image has both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = PIXELS_MAX)))]
    pub width: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = PIXELS_MAX)))]
    pub height: Option<u64>,
    /// The length of a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = DURATION_MS_MAX)))]
    pub duration_ms: Option<u64>,
    /// The placeholder of an image until it is loaded: <https://evanw.github.io/thumbhash/>.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thumbhash: Option<Thumbhash>,
    /// The waveform of a voice note: 100 bars of 5 bits, packed from the first bit on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waveform: Option<Waveform>,
    /// In a client, of an encrypted message: the key of the file. A client reads it from no frame, so that no server can
    /// choose it.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub key: Option<Bytes>,
    /// In a client, of an encrypted message: a small image.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub thumbnail: Option<Bytes>,
}

/// The part of a message's media that the server sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Attached {
    Clear(Media),
    /// An upload of kind `sealed`. The rest is in the encrypted message.
    Sealed(SealedMedia),
}

/// An upload that only devices of the members can open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SealedMedia {
    pub media_id: MediaId,
    /// The length of the ciphertext. Left out of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = MEDIA_BYTES_MAX)))]
    pub bytes: Option<u64>,
}

impl Attached {
    pub fn media_id(&self) -> &MediaId {
        match self {
            Self::Clear(media) => &media.media_id,
            Self::Sealed(media) => &media.media_id,
        }
    }

    /// Returns the media of a message that is not sealed.
    pub fn clear(&self) -> Option<&Media> {
        match self {
            Self::Clear(media) => Some(media),
            Self::Sealed(_) => None,
        }
    }
}

impl SealedMedia {
    /// Reads the media of a sealed message, if it has any.
    pub(crate) fn parse(fields: &Fields) -> Result<Option<Self>, Refusal> {
        let Some(value) = fields.get("media") else { return Ok(None) };
        let object = value.as_object().ok_or_else(|| fields.wrong("media", "must be an object"))?;
        let media = Fields { object, path: "media." };
        let media_id = media.required("media_id", MediaId::parse)?;
        // The server must not learn them.
        for field in ["mime", "sha256", "name", "width", "height", "duration_ms", "thumbhash", "waveform"] {
            if media.get(field).is_some() {
                return Err(media.wrong(field, "must be left out: kind is \"sealed\""));
            }
        }
        Ok(Some(Self { media_id, bytes: None }))
    }
}

/// Reads the digest with which a member can prove a sealed message, if it has one.
pub(crate) fn frank(fields: &Fields) -> Result<Option<Bytes>, Refusal> {
    if fields.get("frank").is_none() {
        return Ok(None);
    }
    let frank = fields.bytes("frank", FRANK_BYTES)?;
    if frank.as_slice().len() == FRANK_BYTES {
        Ok(Some(frank))
    } else {
        Err(fields.wrong("frank", format!("must be {FRANK_BYTES} bytes")))
    }
}

/// The fields that each kind must and may have. `None`: must not.
struct Form {
    name: Option<Need>,
    size: Option<Need>,
    duration: Option<Need>,
    thumbhash: Option<Need>,
    waveform: Option<Need>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Must,
    May,
}

impl Form {
    const IMAGE: Self = Self {
        name: Some(Need::May),
        size: Some(Need::Must),
        duration: None,
        thumbhash: Some(Need::May),
        waveform: None,
    };
    const VOICE: Self =
        Self { name: None, size: None, duration: Some(Need::Must), thumbhash: None, waveform: Some(Need::May) };
    const FILE: Self = Self {
        name: Some(Need::Must),
        size: Some(Need::May),
        duration: Some(Need::May),
        thumbhash: Some(Need::May),
        waveform: None,
    };

    fn of(kind: &Kind) -> Option<Self> {
        match kind {
            Kind::Image => Some(Self::IMAGE),
            Kind::Voice => Some(Self::VOICE),
            Kind::File => Some(Self::FILE),
            Kind::Text
            | Kind::Edit
            | Kind::Delete
            | Kind::Reaction
            | Kind::Pin
            | Kind::System
            | Kind::Sealed
            | Kind::Commit
            | Kind::Erased
            | Kind::Own(_)
            | Kind::Other(_) => None,
        }
    }

    fn fields(&self) -> [(&'static str, Option<Need>); 6] {
        let Self { name, size, duration, thumbhash, waveform } = *self;
        [
            ("name", name),
            ("width", size),
            ("height", size),
            ("duration_ms", duration),
            ("thumbhash", thumbhash),
            ("waveform", waveform),
        ]
    }
}

impl Media {
    /// Reads what a message of this kind carries; `None` of a text, which carries nothing.
    pub(crate) fn parse(fields: &Fields, kind: &Kind) -> Result<Option<Self>, Refusal> {
        let value = fields.get("media");
        let Some(form) = Form::of(kind) else {
            let text = "must be left out: a text has none";
            return if value.is_some() { Err(fields.wrong("media", text)) } else { Ok(None) };
        };
        let object = value.ok_or_else(|| fields.missing("media"))?.as_object();
        let object = object.ok_or_else(|| fields.wrong("media", "must be an object"))?;
        let media = Fields { object, path: "media." };
        let read = Self::of_form(&media, kind, &form)?;
        let problem = read.mime.problem_in(kind);
        problem.map_or(Ok(Some(read)), |problem| Err(media.wrong("mime", problem)))
    }

    /// Reads the media of an opened message, and its kind: an image or a voice note of another type is only a file.
    ///
    /// # Errors
    /// The media is not as this kind has it, or lacks the key.
    pub fn opened(object: &Map<String, Value>, kind: &Kind) -> Result<(Kind, Self), Refusal> {
        let media = Fields { object, path: "media." };
        let form = Form::of(kind).ok_or_else(|| media.wrong("kind", "must have media"))?;
        let read = Self::of_form(&media, kind, &form)?;
        let shown = if read.mime.problem_in(kind).is_some() { Kind::File } else { kind.clone() };
        let key = media.bytes("key", KEY_BYTES)?;
        if key.as_slice().len() != KEY_BYTES {
            return Err(media.wrong("key", format!("must be {KEY_BYTES} bytes")));
        }
        let has_thumbnail = media.get("thumbnail").is_some();
        let thumbnail = has_thumbnail.then(|| media.bytes("thumbnail", THUMBNAIL_BYTES_MAX)).transpose()?;
        Ok((shown, Self { key: Some(key), thumbnail, ..read }))
    }

    fn of_form(media: &Fields, kind: &Kind, form: &Form) -> Result<Self, Refusal> {
        for (field, need) in form.fields() {
            match (need, media.get(field)) {
                (None, Some(_)) => return Err(media.wrong(field, format!("must be left out: kind is \"{kind}\""))),
                (Some(Need::Must), None) => return Err(media.missing(field)),
                _ => {}
            }
        }
        Ok(Self {
            media_id: media.required("media_id", MediaId::parse)?,
            mime: media.required("mime", MimeType::parse)?,
            bytes: bytes(media)?,
            sha256: media.required("sha256", Digest::parse)?,
            name: media.optional("name", FileName::of_request)?,
            width: media.integer("width", 1, PIXELS_MAX)?,
            height: media.integer("height", 1, PIXELS_MAX)?,
            duration_ms: media.integer("duration_ms", 1, DURATION_MS_MAX)?,
            thumbhash: media.optional("thumbhash", Thumbhash::parse)?,
            waveform: media.optional("waveform", Waveform::parse)?,
            key: None,
            thumbnail: None,
        })
    }
}

/// How many bytes there are.
pub(crate) fn bytes(fields: &Fields) -> Result<u64, Refusal> {
    let bytes = fields.integer("bytes", 1, u64::MAX)?.ok_or_else(|| fields.missing("bytes"))?;
    if bytes > MEDIA_BYTES_MAX {
        return Err(Refusal::TooLarge { field: "bytes", problem: "must be at most 100 MiB".into() });
    }
    Ok(bytes)
}

macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident { $(#[$schema:meta])* } $fits:expr, $form:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transparent))]
        pub struct $name($(#[$schema])* String);

        impl $name {
            /// Takes the text if it has the form that the type promises.
            ///
            /// # Errors
            /// [`InvalidId`] says what the form is.
            pub fn parse(text: &str) -> Result<Self, InvalidId> {
                let fits: fn(&str) -> bool = $fits;
                if fits(text) { Ok(Self(text.to_owned())) } else { Err(InvalidId::new($form)) }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

checked_text! {
    /// A media type such as `image/jpeg`, in lower case and without parameters.
    MimeType {
    #[cfg_attr(
        feature = "schema",
        schemars(length(max = MIME_CHARS_MAX), regex(pattern = r"^[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9][a-z0-9!#$&^_.+-]*$"))
    )]
    }
    |text| text.len() <= MIME_CHARS_MAX && text.split_once('/').is_some_and(|(kind, of)| is_token(kind) && is_token(of)),
    format!("must be a media type such as image/jpeg: at most {MIME_CHARS_MAX} characters, in lower case, without parameters")
}

checked_text! {
    /// A SHA-256 digest in base64, with its padding.
    Digest {
    #[cfg_attr(feature = "schema", schemars(regex(pattern = crate::bytes::DIGEST_PATTERN)))]
    }
    is_digest,
    "must be a SHA-256 digest in base64: 44 characters".to_owned()
}

checked_text! {
    /// The name of a file: a name that can be saved, and no path to another folder. Characters that override the
    /// direction of a text would show `exe.jpg` for a name that ends in `gpj.exe`.
    FileName {
    #[cfg_attr(
        feature = "schema",
        schemars(
            length(min = 1, max = FILE_NAME_BYTES_MAX),
            regex(pattern = crate::text::schema::FILE_NAME)
        )
    )]
    }
    is_file_name,
    format!("must be 1 to {FILE_NAME_BYTES_MAX} bytes of UTF-8, without slashes, control characters and overrides of direction")
}

checked_text! {
    /// A thumbhash in base64.
    Thumbhash {
    #[cfg_attr(
        feature = "schema",
        schemars(length(min = 1, max = THUMBHASH_CHARS_MAX), regex(pattern = "^[A-Za-z0-9+/]+={0,2}$"))
    )]
    }
    |text| text.len() <= THUMBHASH_CHARS_MAX && is_base64(text),
    format!("must be at most {THUMBHASH_CHARS_MAX} characters of base64")
}

checked_text! {
    /// The bars of a voice note in base64.
    Waveform {
    #[cfg_attr(
        feature = "schema",
        schemars(length(min = 1, max = WAVEFORM_CHARS_MAX), regex(pattern = "^[A-Za-z0-9+/]+={0,2}$"))
    )]
    }
    |text| text.len() <= WAVEFORM_CHARS_MAX && is_base64(text),
    format!("must be at most {WAVEFORM_CHARS_MAX} characters of base64")
}

impl FileName {
    /// A name that a client sends. An earlier version stored one that does not show.
    fn of_request(text: &str) -> Result<Self, InvalidId> {
        let name = Self::parse(text)?;
        if is_visible(text) { Ok(name) } else { Err(InvalidId::new("must have a character that shows".to_owned())) }
    }
}

impl MimeType {
    /// The type of bytes that only members' devices can open.
    pub fn bytes() -> Self {
        Self("application/octet-stream".to_owned())
    }

    /// The type of what a message of that kind carries.
    pub(crate) fn of(fields: &Fields, kind: &Kind) -> Result<Self, Refusal> {
        let mime = fields.required("mime", Self::parse)?;
        mime.problem_in(kind).map_or(Ok(mime), |problem| Err(fields.wrong("mime", problem)))
    }

    /// Why it can't be the type of what a message of that kind carries, if so.
    pub fn problem_in(&self, kind: &Kind) -> Option<&'static str> {
        match kind {
            Kind::Image if !IMAGE_TYPES.contains(&self.as_str()) => {
                Some("must be image/jpeg, image/png, image/webp, image/gif or image/avif; send others as a file")
            }
            // Browsers run what is XML or HTML by its type.
            Kind::Voice
                if !self.as_str().strip_prefix("audio/").is_some_and(|of| !of.contains('+') && !of.contains("ml")) =>
            {
                Some("must begin with audio/, without a + or ml in what follows")
            }
            _ => None,
        }
    }
}

/// As RFC 6838 writes the two parts of a type, in lower case.
fn is_token(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().next().is_some_and(is_letter)
        && text.bytes().all(|byte| is_letter(byte) || b"!#$&^_.+-".contains(&byte))
}

fn is_of_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/'
}

/// 32 bytes are 43 characters, of which the last has but four bits.
fn is_digest(text: &str) -> bool {
    let digits = text.strip_suffix('=').filter(|digits| digits.len() == 43).map(str::as_bytes);
    digits
        .and_then(<[u8]>::split_last)
        .is_some_and(|(last, first)| b"AEIMQUYcgkosw048".contains(last) && first.iter().copied().all(is_of_base64))
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    !digits.is_empty() && text.len() - digits.len() <= 2 && digits.bytes().all(is_of_base64)
}

fn is_file_name(text: &str) -> bool {
    let is_dangerous = |c: char| breaks_out(c) || matches!(c, '/' | '\\');
    (1..=FILE_NAME_BYTES_MAX).contains(&text.len()) && !matches!(text, "." | "..") && !text.contains(is_dangerous)
}

/// The rules for each `kind` in the JSON schema of a request.
#[cfg(feature = "schema")]
pub(crate) mod schema {
    use serde_json::{Map, Value, json};

    use super::{Form, IMAGE_TYPES, Need};
    use crate::bytes::BASE64_PATTERN;
    use crate::limits::SEALED_BYTES_MAX;

    fn mime(kind: &str) -> Value {
        match kind {
            "image" => json!({"enum": IMAGE_TYPES}),
            "voice" => json!({"pattern": r"^audio/(?!.*(\+|ml))"}),
            _ => json!({}),
        }
    }

    fn media(kind: &str, form: &Form) -> Value {
        let named = |need: Option<Need>| {
            form.fields().into_iter().filter(move |(_, found)| *found == need).map(|(name, _)| name).collect::<Vec<_>>()
        };
        let mut media = Map::from_iter([
            ("required".to_owned(), json!([&["mime", "bytes", "sha256"], &*named(Some(Need::Must))].concat())),
            ("properties".to_owned(), json!({"mime": mime(kind)})),
            ("allOf".to_owned(), json!([{"$ref": "#/definitions/Media"}])),
        ]);
        let refused: Vec<Value> = named(None).iter().map(|name| json!({"required": [name]})).collect();
        if !refused.is_empty() {
            media.extend([("not".to_owned(), json!({"anyOf": refused}))]);
        }
        Value::Object(media)
    }

    fn by_kind(schema: &mut schemars::Schema, cases: Vec<(&str, Value)>) {
        let nested = cases.into_iter().rev().fold(json!({}), |otherwise, (kind, then)| {
            json!({"if": {"properties": {"kind": {"const": kind}}}, "then": then, "else": otherwise})
        });
        for (keyword, value) in nested.as_object().cloned().unwrap_or_default() {
            schema.insert(keyword, value);
        }
    }

    fn with_media(kind: &'static str, form: &Form) -> (&'static str, Value) {
        let media = json!({"media": media(kind, form)});
        (kind, json!({"required": ["media"], "properties": media, "not": without(&["epoch", "silent", "frank"])}))
    }

    /// Returns a schema of which none of these fields is a part.
    fn without(fields: &[&str]) -> Value {
        let each: Vec<Value> = fields.iter().map(|field| json!({"required": [field]})).collect();
        json!({"anyOf": each})
    }

    /// Adds the rules of a message.
    pub(crate) fn of_message(schema: &mut schemars::Schema) {
        let text =
            json!({"properties": {"body": {"minLength": 1}}, "not": without(&["media", "epoch", "silent", "frank"])});
        let body = json!({"minLength": 1, "maxLength": SEALED_BYTES_MAX.div_ceil(3) * 4, "pattern": BASE64_PATTERN});
        let refused = without(&["reply_to", "mentions", "data"]);
        let media = json!({"not": without(&["mime", "sha256"])});
        let sealed = json!({"required": ["epoch"], "properties": {"body": body, "media": media}, "not": refused});
        let kinds = [("image", &Form::IMAGE), ("voice", &Form::VOICE), ("file", &Form::FILE)];
        let with = kinds.into_iter().map(|(kind, form)| with_media(kind, form));
        by_kind(schema, [("text", text), ("sealed", sealed)].into_iter().chain(with).collect());
    }

    /// Adds the rules of an upload.
    pub(crate) fn of_upload(schema: &mut schemars::Schema) {
        let case = |kind| (kind, json!({"required": ["mime"], "properties": {"mime": mime(kind)}}));
        let sealed = ("sealed", json!({"not": without(&["mime", "name"])}));
        by_kind(schema, vec![case("image"), case("voice"), case("file"), sealed]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_can_be_saved_and_leads_nowhere_else() {
        for bad in
            ["", ".", "..", "a/b", "..\\b", "a\nb", "a\u{0}", "photo\u{202e}gpj.exe", "a\u{7f}", &"ü".repeat(128)]
        {
            assert!(FileName::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "...", "report (2).pdf", "Ünïcode 写真.jpg", "a\"b;c.txt", &"x".repeat(255)] {
            assert!(FileName::parse(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn a_type_is_in_lower_case_and_has_no_parameters() {
        for bad in
            ["", "image", "image/", "/png", "Image/PNG", "a/b/c", "audio/webm;codecs=opus", "a b/c", "text/html\r\n"]
        {
            assert!(MimeType::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["image/jpeg", "application/vnd.ms-excel", "image/svg+xml", "x/y"] {
            assert!(MimeType::parse(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn no_frame_says_the_key_of_a_file() {
        let media = r#"{"media_id":"m_1","mime":"x/y","bytes":5,"sha256":"n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=",
            "key":"CQk=","thumbnail":"CQk="}"#;
        let media: Media = serde_json::from_str(media).unwrap();
        assert_eq!((media.key, media.thumbnail), (None, None));
    }

    #[test]
    fn a_digest_is_32_bytes_in_one_form() {
        let digest = "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=";
        assert!(Digest::parse(digest).is_ok());
        // The same bytes in another form would be another text, and no text is compared twice.
        for bad in
            ["", &digest[..43], &digest.replace('=', "A"), &digest.replace("g=", "h="), &digest.replace('+', "-")]
        {
            assert!(Digest::parse(bad).is_err(), "{bad}");
        }
        assert!(Thumbhash::parse("1QcSHQRnh493V4dIh4eXh1h4kJUI").is_ok());
        assert!(Thumbhash::parse(&"A".repeat(45)).is_err());
        assert!(Waveform::parse("====").is_err());
    }

    proptest! {
        #[test]
        fn a_name_that_is_taken_stays_on_one_line_and_in_one_folder(text in "\\PC*|.*") {
            if let Ok(name) = FileName::parse(&text) {
                let is_one = |path: &std::path::Path| path.components().count() == 1 && path.file_name().is_some();
                prop_assert!(is_one(std::path::Path::new(name.as_str())));
                prop_assert_eq!(name.as_str().lines().count(), 1);
            }
        }
    }
}
