//! The files of encrypted messages: the caller moves ciphertext, and the file in the clear stays on the device.

use std::fs::File;
use std::io::{self, Read, Write};

use pigeonhole_core::{FileOpener, SealedFile, SealedPut};
use serde_json::json;
use wire::Media;

use crate::edge::read_json;
use crate::fault::Fault;

/// The size of one read, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;

/// Makes the key of a file, and reads all of the file. Returns the JSON of `sealed` in the `media` of a message. An engine
/// with encryption needs the value for each file.
///
/// # Errors
/// `file`: the file can't be read, or it is too large with its padding.
#[uniffi::export]
#[expect(clippy::needless_pass_by_value, reason = "as uniffi passes it")]
pub fn seal_file(path: String) -> Result<String, Fault> {
    let sealed = File::open(&path).and_then(|mut file| {
        let bytes = file.metadata()?.len();
        SealedFile::of(&mut file, bytes)
    });
    sealed.map(|sealed| json!(sealed).to_string()).map_err(failed)
}

/// Returns the bytes of an [`EdgeOutput::Put`](crate::EdgeOutput::Put) with `sealed`: at most 16 MiB.
///
/// # Errors
/// `file`: the file can't be read, or it has changed. `bad_request`.
#[uniffi::export]
#[expect(clippy::needless_pass_by_value, reason = "as uniffi passes it")]
pub fn sealed_part(path: String, offset: u64, bytes: u64, sealed: String) -> Result<Vec<u8>, Fault> {
    let sealed: SealedPut = read_json(&sealed)?;
    File::open(&path).and_then(|mut file| sealed.read(&mut file, offset, bytes)).map_err(failed)
}

/// Returns the length of a downloaded file before [`open_file`]. `media`: the JSON of a message's `media`, with its `key`.
///
/// # Errors
/// `bad_request`.
#[uniffi::export]
#[expect(clippy::needless_pass_by_value, reason = "as uniffi passes it")]
pub fn sealed_bytes(media: String) -> Result<u64, Fault> {
    Ok(pigeonhole_core::sealed_file_bytes(opened(&media)?.0.bytes).unwrap_or_default())
}

/// Opens a downloaded file into another file.
///
/// # Errors
/// `file`: a file can't be read or written, or the file is not what the message says. The caller then removes the other
/// file. `bad_request`.
#[uniffi::export]
#[expect(clippy::needless_pass_by_value, reason = "as uniffi passes it")]
pub fn open_file(sealed: String, to: String, media: String) -> Result<(), Fault> {
    let (_, mut opener) = opened(&media)?;
    let mut from = File::open(&sealed).map_err(failed)?;
    let mut to = File::create(&to).map_err(failed)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = from.read(&mut chunk).map_err(failed)?;
        if count == 0 {
            break;
        }
        let bytes = opener.push(chunk.get(..count).unwrap_or_default()).map_err(|_| other_file())?;
        to.write_all(&bytes).map_err(failed)?;
    }
    opener.end().map_err(|_| other_file())?;
    to.sync_all().map_err(failed)
}

fn opened(media: &str) -> Result<(Media, FileOpener), Fault> {
    #[derive(serde::Deserialize)]
    struct Key {
        key: wire::Bytes,
    }
    let (Key { key }, mut read): (Key, Media) = (read_json(media)?, read_json(media)?);
    read.key = Some(key);
    let opener = pigeonhole_core::opener_of(&read).map_err(|_| other_file())?;
    Ok((read, opener))
}

fn other_file() -> Fault {
    Fault::new("file", "the file is not what the message says")
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn failed(error: io::Error) -> Fault {
    Fault::new("file", error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::Value;

    use super::*;

    #[test]
    fn a_file_leaves_by_parts_and_comes_back_as_it_was() {
        let path = |name: &str| {
            let name = format!("pigeonhole-ffi-{}-{name}", std::process::id());
            std::env::temp_dir().join(name).to_str().unwrap().to_owned()
        };
        let (file, stored, got) = (path("file"), path("stored"), path("got"));
        let bytes = b"some bytes".repeat(200_000);
        fs::write(&file, &bytes).unwrap();
        let sealed: Value = serde_json::from_str(&seal_file(file.clone()).unwrap()).unwrap();
        let media = json!({"media_id": "m_1", "mime": "x/y", "bytes": bytes.len(), "sha256": sealed["sha256"],
            "key": sealed["key"]});
        let length = sealed_bytes(media.to_string()).unwrap();
        let put = json!({"key": sealed["key"], "bytes": bytes.len(), "sha256": sealed["sha256"]});
        let part = || sealed_part(file.clone(), 0, length, put.to_string());
        fs::write(&stored, part().unwrap()).unwrap();
        open_file(stored.clone(), got.clone(), media.to_string()).unwrap();
        assert!(fs::read(&got).unwrap() == bytes);

        // Other bytes under the same key would give both away.
        fs::write(&file, b"other bytes".repeat(200_000)).unwrap();
        assert!(matches!(part(), Err(Fault::Failed { code, .. }) if code == "file"));
        let mut turned = fs::read(&stored).unwrap();
        turned[1_500_000] ^= 1;
        fs::write(&stored, turned).unwrap();
        let refused = open_file(stored.clone(), got.clone(), media.to_string());
        assert!(matches!(refused, Err(Fault::Failed { code, .. }) if code == "file"));
        for path in [file, stored, got] {
            fs::remove_file(path).unwrap();
        }
    }
}
