//! The plaintext of a message: one JSON object, padded with spaces.

use data_encoding::BASE64;
use serde_json::{Map, Value, json};
use wire::{Bytes, Kind, Media, MediaId};

use crate::error::{Error, Result, ensure};
use crate::file::sealed_file_bytes;
use crate::frank::{frank, is_frank};
use crate::strict_json;

/// The step of a plaintext's length, so that the server sees less of a text's length.
pub const PADDING_BYTES: usize = 256;
/// The version of the envelope.
const VERSION: u64 = 1;
/// The field with the key of a report.
const FRANK: &str = "frank";
/// The field with the file of a message.
const MEDIA: &str = "media";
const MALFORMED: Error = Error::Malformed("envelope");

/// A message as its author wrote it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Envelope {
    /// The kind, such as `text`.
    pub kind: String,
    /// The text.
    pub body: String,
    /// The author's time, in the form of the protocol.
    pub at: String,
    /// The `seq` up to which the author had read.
    pub after: u64,
    /// The fields of a kind, and those of later versions.
    pub fields: Map<String, Value>,
}

impl Envelope {
    /// Returns the plaintext.
    pub fn write(&self) -> Vec<u8> {
        let mut object = self.fields.clone();
        let texts = [("kind", &self.kind), ("body", &self.body), ("at", &self.at)];
        object.extend(texts.map(|(name, text)| (name.to_owned(), text.as_str().into())));
        object.extend([("v", VERSION), ("after", self.after)].map(|(name, number)| (name.to_owned(), number.into())));
        let mut bytes = Value::Object(object).to_string().into_bytes();
        bytes.resize(bytes.len().next_multiple_of(PADDING_BYTES), b' ');
        bytes
    }

    /// Returns the plaintext with the key of a report in it, and the digest for the entry beside it.
    pub fn write_franked(&self, key: &[u8; 32]) -> (Vec<u8>, [u8; 32]) {
        let mut franked = self.clone();
        franked.fields.insert(FRANK.to_owned(), BASE64.encode(key).into());
        let plaintext = franked.write();
        let digest = frank(key, &plaintext);
        (plaintext, digest)
    }

    /// Returns whether the plaintext and its entry both have their part of a report, and fitting, or both have none. An
    /// author could otherwise leave the proof out.
    pub fn is_franked_as(&self, plaintext: &[u8], told: Option<&[u8]>) -> bool {
        if !self.fields.contains_key(FRANK) {
            return told.is_none();
        }
        self.frank_key().zip(told).is_some_and(|(key, told)| is_frank(&key, plaintext, told))
    }

    /// Returns the key of a report.
    pub fn frank_key(&self) -> Option<[u8; 32]> {
        let key = Bytes::parse(self.fields.get(FRANK)?.as_str()?)?;
        key.as_slice().try_into().ok()
    }

    /// Sets the file, with its key.
    pub fn set_media(&mut self, media: &Media) {
        self.fields.insert(MEDIA.to_owned(), json!(media));
    }

    /// Returns the upload of the file, if there is one.
    pub fn media_id(&self) -> Option<MediaId> {
        MediaId::parse(self.fields.get(MEDIA)?.get("media_id")?.as_str()?).ok()
    }

    /// Returns the file of an image, a voice note or a file, and the kind by which it is shown. `attached`: the upload of
    /// the entry, which is the only one that the message can have.
    pub fn media(&self, attached: Option<&MediaId>) -> Result<(Kind, Media)> {
        let wrong = || Error::Malformed("media");
        let object = self.fields.get(MEDIA).and_then(Value::as_object).ok_or_else(wrong)?;
        let (kind, media) = Media::opened(object, &Kind::stored(&self.kind)).map_err(|_| wrong())?;
        ensure(attached == Some(&media.media_id) && sealed_file_bytes(media.bytes).is_some(), wrong())?;
        Ok((kind, media))
    }

    /// Reads a plaintext that has one reading: one object in which no name occurs twice, and then spaces alone.
    pub fn read(plaintext: &[u8]) -> Result<Self> {
        ensure(plaintext.first() == Some(&b'{'), MALFORMED)?;
        let (mut object, rest) = strict_json::object(plaintext, "envelope")?;
        ensure(rest.iter().all(|byte| *byte == b' '), MALFORMED)?;
        ensure(object.remove("v").and_then(|v| v.as_u64()) == Some(VERSION), Error::Malformed("a later envelope"))?;
        let mut text = |name| match object.remove(name) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(MALFORMED),
        };
        let (kind, body, at) = (text("kind")?, text("body")?, text("at")?);
        let after = object.remove("after").and_then(|after| after.as_u64()).ok_or(MALFORMED)?;
        Ok(Self { kind, body, at, after, fields: object })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn padded(json: &str) -> Vec<u8> {
        let mut bytes = json.as_bytes().to_vec();
        bytes.resize(PADDING_BYTES, b' ');
        bytes
    }

    const FIELDS: &str = r#""v":1,"kind":"text","body":"hi","at":"2026-11-25T10:00:00.000Z","after":41"#;

    #[test]
    fn an_envelope_with_two_readings_is_none() {
        assert_eq!(Envelope::read(&padded(&format!("{{{FIELDS}}}"))).unwrap().body, "hi");
        let wrong = [
            format!(r#"{{{FIELDS},"body":"bye"}}"#),
            format!(r#"{{{FIELDS},"to":{{"seq":1,"seq":2}}}}"#),
            format!(r#"{{{FIELDS},"to":[{{"seq":1,"seq":2}}]}}"#),
            format!(r#"{{{FIELDS},"b\u006fdy":"bye"}}"#),
            format!("{{{FIELDS}}}{{{FIELDS}}}"),
            format!("{{{FIELDS}}} {{{FIELDS}}}"),
            format!("{{{FIELDS}}}\n"),
            format!("{{{FIELDS}}}\0"),
            format!(" {{{FIELDS}}}"),
            format!("\u{feff}{{{FIELDS}}}"),
            format!("[{{{FIELDS}}}]"),
            format!("{{{FIELDS}"),
            FIELDS.to_owned(),
            String::new(),
            format!("{{{}}}", FIELDS.replace(":1,", ":2,")),
            format!("{{{}}}", FIELDS.replace("41", "-1")),
            format!("{{{}}}", FIELDS.replace("\"hi\"", "7")),
            format!("{{{}}}", FIELDS.replace("\"kind\":\"text\",", "")),
        ];
        for json in wrong {
            assert!(Envelope::read(&padded(&json)).is_err(), "{json}");
        }
        let mut no_text = padded(&format!("{{{FIELDS}}}"));
        let place = no_text.windows(2).position(|two| two == b"hi").unwrap();
        no_text[place] = 0xff;
        assert!(Envelope::read(&no_text).is_err());
    }

    #[test]
    fn an_envelope_and_its_entry_both_have_their_part_of_a_report() {
        let plain = Envelope::read(&padded(&format!("{{{FIELDS}}}"))).unwrap();
        let (plaintext, digest) = plain.write_franked(&[9; 32]);
        let franked = Envelope::read(&plaintext).unwrap();
        assert!(franked.is_franked_as(&plaintext, Some(&digest)));
        assert!(plain.is_franked_as(&plain.write(), None));
        assert!(!franked.is_franked_as(&plaintext, None), "the entry has none");
        assert!(!franked.is_franked_as(&plaintext, Some(&[0; 32])), "a false one");
        assert!(!franked.is_franked_as(&plaintext[..plaintext.len() - 1], Some(&digest)), "a space fewer");
        assert!(!plain.is_franked_as(&plain.write(), Some(&digest)), "the envelope has none");
        for key in ["null", "7", "\"\"", "\"CQk=\""] {
            let plaintext = padded(&format!("{{{FIELDS},\"frank\":{key}}}"));
            let envelope = Envelope::read(&plaintext).unwrap();
            assert!(!envelope.is_franked_as(&plaintext, None), "{key}");
            assert!(!envelope.is_franked_as(&plaintext, Some(&frank(&[9; 32], &plaintext))), "{key}");
        }
    }

    #[test]
    fn a_file_is_that_of_its_entry_and_has_its_key() {
        let digest = "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=";
        let right = json!({"media_id": "m_1", "mime": "image/png", "bytes": 5, "sha256": digest, "key": digest,
            "width": 1, "height": 2, "thumbnail": "CQk=", "of_later": {}});
        let read = |kind: &str, change: &Value, attached: Option<&str>| {
            let mut media = right.clone();
            media.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let fields = Map::from_iter([("media".to_owned(), media)]);
            let envelope = Envelope { kind: kind.to_owned(), fields, ..Envelope::default() };
            envelope.media(attached.map(|id| MediaId::parse(id).unwrap()).as_ref())
        };
        let (kind, media) = read("image", &json!({}), Some("m_1")).unwrap();
        assert_eq!((kind, media.key.as_ref().unwrap().as_slice().len()), (Kind::Image, 32));
        let mut envelope = Envelope { kind: "image".to_owned(), ..Envelope::default() };
        envelope.set_media(&media);
        assert_eq!(envelope.media(Some(&media.media_id)).unwrap(), (Kind::Image, media));
        // An SVG can run code, so it is only saved.
        assert_eq!(read("image", &json!({"mime": "image/svg+xml"}), Some("m_1")).unwrap().0, Kind::File);
        let too_much = BASE64.encode(&[0; 4097]);
        let wrong = [
            json!({"key": null}),
            json!({"key": "CQk="}),
            json!({"key": digest.trim_end_matches('=')}),
            json!({"sha256": "CQk="}),
            json!({"bytes": 0}),
            json!({"bytes": wire::limits::MEDIA_BYTES_MAX}),
            json!({"mime": "image"}),
            json!({"name": "../a"}),
            json!({"width": null}),
            json!({"thumbnail": too_much}),
            json!({"duration_ms": 1}),
        ];
        for change in wrong {
            assert!(read("image", &change, Some("m_1")).is_err(), "{change}");
        }
        assert!(read("image", &json!({}), Some("m_2")).is_err(), "another upload");
        assert!(read("image", &json!({}), None).is_err(), "no upload");
        assert!(read("text", &json!({}), Some("m_1")).is_err());
    }

    proptest! {
        #[test]
        fn an_envelope_returns_as_it_went_in(body in ".{0,300}", after in 0..1_u64 << 53, emoji in "[a-z]{1,3}") {
            let fields = Map::from_iter([(format!("x_{emoji}"), Value::from(body.len()))]);
            let envelope = Envelope { kind: "text".into(), body, at: "now".into(), after, fields };
            let plaintext = envelope.write();
            prop_assert_eq!(plaintext.len() % PADDING_BYTES, 0);
            prop_assert_eq!(Envelope::read(&plaintext).unwrap(), envelope);
        }
    }
}
