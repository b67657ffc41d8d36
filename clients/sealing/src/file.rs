//! The bytes of a sealed attachment: padded, in segments, each by AES-256-GCM.

use std::io::{self, Read, Seek, SeekFrom};

use aes_gcm::aead::{AeadInOut, KeyInit, Nonce};
use aes_gcm::{Aes256Gcm, Key};
use sha2::{Digest, Sha256};
use wire::limits::{MEDIA_BYTES_MAX, MEDIA_PART_BYTES, MEDIA_WHOLE_BYTES_MAX};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::error::{Error, Result, ensure};

/// The plaintext of a segment, in bytes. The last segment can have fewer.
pub const SEGMENT_BYTES: u64 = 1024 * 1024;
/// The tag behind each segment, in bytes.
pub const TAG_BYTES: u64 = 16;
/// The smallest padded file, in bytes.
const PADDED_BYTES_MIN: u64 = 256;
const OTHER_FILE: Error = Error::Malformed("the file is another than its message says");
const NO_SEGMENT: Error = Error::Malformed("a segment of another place");

/// The key of one file. A key with two files gives away both: other bytes need another key.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct FileKey([u8; 32]);

impl FileKey {
    /// Takes the 32 random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for the message and the client's store.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Hides the key from logs.
impl std::fmt::Debug for FileKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileKey")
    }
}

/// Returns the length of the padded plaintext (Padmé), or `None` above the limit of an upload.
fn padded_bytes(bytes: u64) -> Option<u64> {
    let bytes = bytes.max(PADDED_BYTES_MIN);
    let exponent = bytes.ilog2();
    let kept = exponent.ilog2() + 1;
    let padded = bytes.checked_next_multiple_of(1 << (exponent - kept))?;
    (padded <= MEDIA_BYTES_MAX).then_some(padded)
}

/// Returns the length of the ciphertext of a file, or `None` above the limit of an upload.
pub fn sealed_file_bytes(bytes: u64) -> Option<u64> {
    let padded = padded_bytes(bytes)?;
    let sealed = padded + padded.div_ceil(SEGMENT_BYTES) * TAG_BYTES;
    (sealed <= MEDIA_BYTES_MAX).then_some(sealed)
}

/// The cipher of one file. Each segment is made alone, so an upload can go on anywhere.
pub struct FileCipher {
    cipher: Aes256Gcm,
    bytes: u64,
    padded: u64,
}

impl FileCipher {
    /// Begins a file with this many bytes of plaintext.
    pub fn new(key: &FileKey, bytes: u64) -> Result<Self> {
        ensure(sealed_file_bytes(bytes).is_some(), Error::Malformed("the file is too large"))?;
        let padded = padded_bytes(bytes).ok_or(OTHER_FILE)?;
        Ok(Self { cipher: Aes256Gcm::new(&Key::<Aes256Gcm>::from(key.0)), bytes, padded })
    }

    /// Returns how many segments the file has.
    pub fn segments(&self) -> u64 {
        self.padded.div_ceil(SEGMENT_BYTES)
    }

    /// Returns how many bytes of the file are in a segment. A segment of padding alone has none.
    pub fn plaintext_bytes(&self, segment: u64) -> u64 {
        self.bytes.saturating_sub(segment.saturating_mul(SEGMENT_BYTES)).min(SEGMENT_BYTES)
    }

    /// Returns the length of a segment's ciphertext, with its tag.
    pub fn ciphertext_bytes(&self, segment: u64) -> u64 {
        self.padded_in(segment) + TAG_BYTES
    }

    /// Seals a segment: all bytes of the file that are in it.
    pub fn seal(&self, segment: u64, mut plaintext: Vec<u8>) -> Result<Vec<u8>> {
        let nonce = self.nonce(segment)?;
        ensure(plaintext.len() as u64 == self.plaintext_bytes(segment), NO_SEGMENT)?;
        plaintext.resize(usize::try_from(self.padded_in(segment)).map_err(|_| NO_SEGMENT)?, 0);
        self.cipher.encrypt_in_place(&nonce, b"", &mut plaintext).map_err(|_| NO_SEGMENT)?;
        Ok(plaintext)
    }

    /// Opens a segment and returns the bytes of the file that are in it. Padding other than zeros is refused.
    pub fn open(&self, segment: u64, mut ciphertext: Vec<u8>) -> Result<Vec<u8>> {
        let nonce = self.nonce(segment)?;
        ensure(ciphertext.len() as u64 == self.ciphertext_bytes(segment), OTHER_FILE)?;
        self.cipher.decrypt_in_place(&nonce, b"", &mut ciphertext).map_err(|_| OTHER_FILE)?;
        let bytes = usize::try_from(self.plaintext_bytes(segment)).map_err(|_| OTHER_FILE)?;
        ensure(ciphertext.iter().skip(bytes).all(|byte| *byte == 0), OTHER_FILE)?;
        ciphertext.truncate(bytes);
        Ok(ciphertext)
    }

    /// Returns these bytes of the ciphertext. `file`: the file in the clear.
    pub fn read(&self, file: &mut (impl Read + Seek), offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let place = |at: u64| usize::try_from(at).map_err(io::Error::other);
        let whole = SEGMENT_BYTES + TAG_BYTES;
        let (mut next, mut ciphertext) = (offset / whole, Vec::new());
        let skipped = place(offset % whole)?;
        let end = skipped + place(bytes)?;
        while ciphertext.len() < end {
            let mut plaintext = vec![0; place(self.plaintext_bytes(next))?];
            file.seek(SeekFrom::Start(next.saturating_mul(SEGMENT_BYTES)))?;
            file.read_exact(&mut plaintext)?;
            ciphertext.extend(self.seal(next, plaintext).map_err(io::Error::other)?);
            next += 1;
        }
        ciphertext.truncate(end);
        ciphertext.drain(..skipped);
        Ok(ciphertext)
    }

    /// Returns the digest of the ciphertext, and those of its parts, as an `upload` has them. `file`: the file in the clear.
    pub fn digest(&self, file: &mut (impl Read + Seek)) -> io::Result<([u8; 32], Vec<[u8; 32]>)> {
        let mut digest = FileDigest::new(self.padded + self.segments() * TAG_BYTES);
        for segment in 0..self.segments() {
            let offset = segment * (SEGMENT_BYTES + TAG_BYTES);
            digest.update(&self.read(file, offset, self.ciphertext_bytes(segment))?);
        }
        Ok(digest.end_in_parts())
    }

    fn padded_in(&self, segment: u64) -> u64 {
        self.padded.saturating_sub(segment.saturating_mul(SEGMENT_BYTES)).min(SEGMENT_BYTES)
    }

    /// The number stops a swap of segments, and the flag of the last a cut behind a segment.
    fn nonce(&self, segment: u64) -> Result<Nonce<Aes256Gcm>> {
        ensure(segment < self.segments(), NO_SEGMENT)?;
        let [a, b, c, d] = u32::try_from(segment).map_err(|_| NO_SEGMENT)?.to_be_bytes();
        let last = u8::from(segment + 1 == self.segments());
        Ok([0, 0, 0, 0, 0, 0, 0, a, b, c, d, last].into())
    }
}

/// A download on its way: ciphertext goes in by pieces of any length, and the file's bytes come out.
///
/// The bytes are the sender's only once [`end`](Self::end) has returned: the key alone does not fix a file.
pub struct FileOpener {
    cipher: FileCipher,
    digest: FileDigest,
    sha256: [u8; 32],
    held: Vec<u8>,
    next: u64,
}

impl FileOpener {
    /// Begins a download, with the plaintext's length and the ciphertext's digest of the message.
    pub fn new(key: &FileKey, bytes: u64, sha256: [u8; 32]) -> Result<Self> {
        let cipher = FileCipher::new(key, bytes)?;
        let digest = FileDigest::new(sealed_file_bytes(bytes).ok_or(OTHER_FILE)?);
        Ok(Self { cipher, digest, sha256, held: Vec::new(), next: 0 })
    }

    /// Takes the next ciphertext and returns the bytes of the segments that are whole now.
    pub fn push(&mut self, mut ciphertext: &[u8]) -> Result<Vec<u8>> {
        self.digest.update(ciphertext);
        let mut out = Vec::new();
        while !ciphertext.is_empty() {
            ensure(self.next < self.cipher.segments(), OTHER_FILE)?;
            let whole = usize::try_from(self.cipher.ciphertext_bytes(self.next)).map_err(|_| OTHER_FILE)?;
            let (taken, rest) = ciphertext.split_at(ciphertext.len().min(whole - self.held.len()));
            self.held.extend_from_slice(taken);
            ciphertext = rest;
            if self.held.len() == whole {
                out.extend(self.cipher.open(self.next, std::mem::take(&mut self.held))?);
                self.next += 1;
            }
        }
        Ok(out)
    }

    /// Ends the download, or refuses a file that is cut or has another digest.
    pub fn end(self) -> Result<()> {
        ensure(self.next == self.cipher.segments(), OTHER_FILE)?;
        ensure(self.digest.end() == self.sha256, OTHER_FILE)
    }
}

/// SHA-256 as an `upload` has it: of the whole, or above 16 MiB of the digests of its parts.
pub struct FileDigest {
    in_parts: bool,
    part: Sha256,
    left: u64,
    parts: Vec<[u8; 32]>,
}

impl FileDigest {
    /// Begins the digest of this many bytes.
    pub fn new(bytes: u64) -> Self {
        let in_parts = bytes > MEDIA_WHOLE_BYTES_MAX;
        Self { in_parts, part: Sha256::new(), left: MEDIA_PART_BYTES, parts: Vec::new() }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while self.in_parts && bytes.len() as u64 >= self.left {
            let (part, rest) = bytes.split_at(usize::try_from(self.left).unwrap_or(bytes.len()));
            self.part.update(part);
            self.parts.push(self.part.finalize_reset().into());
            (self.left, bytes) = (MEDIA_PART_BYTES, rest);
        }
        self.part.update(bytes);
        self.left -= if self.in_parts { bytes.len() as u64 } else { 0 };
    }

    /// Returns the digest.
    pub fn end(self) -> [u8; 32] {
        self.end_in_parts().0
    }

    /// Returns the digest, and those of the parts.
    pub fn end_in_parts(mut self) -> ([u8; 32], Vec<[u8; 32]>) {
        if !self.in_parts {
            return (self.part.finalize().into(), Vec::new());
        }
        if self.left < MEDIA_PART_BYTES {
            self.parts.push(self.part.finalize_reset().into());
        }
        (Sha256::digest(self.parts.concat()).into(), self.parts)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEGMENT: usize = 1024 * 1024;

    fn key() -> FileKey {
        FileKey::new([7; 32])
    }

    fn file(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|place| u8::try_from(place % 251).unwrap()).collect()
    }

    fn seal(file: &[u8]) -> (Vec<u8>, [u8; 32]) {
        let cipher = FileCipher::new(&key(), file.len() as u64).unwrap();
        let mut left = file;
        let mut sealed = Vec::new();
        for segment in 0..cipher.segments() {
            let (now, rest) = left.split_at(usize::try_from(cipher.plaintext_bytes(segment)).unwrap());
            sealed.extend(cipher.seal(segment, now.to_vec()).unwrap());
            left = rest;
        }
        assert!(left.is_empty());
        let mut digest = FileDigest::new(sealed.len() as u64);
        digest.update(&sealed);
        (sealed, digest.end())
    }

    fn open(sealed: &[u8], bytes: usize, sha256: [u8; 32], piece: usize) -> Result<Vec<u8>> {
        let mut opener = FileOpener::new(&key(), bytes as u64, sha256)?;
        let mut out = Vec::new();
        for piece in sealed.chunks(piece) {
            out.extend(opener.push(piece)?);
        }
        opener.end()?;
        Ok(out)
    }

    #[test]
    fn a_file_has_the_length_of_the_protocol() {
        assert_eq!(sealed_file_bytes(284_113), Some(286_736));
        for small in [0, 1, 255, 256] {
            assert_eq!(sealed_file_bytes(small), Some(272));
        }
        assert_eq!(sealed_file_bytes(257), Some(272 + 16));
        assert_eq!(sealed_file_bytes(SEGMENT_BYTES), Some(SEGMENT_BYTES + 16));
        assert_eq!(sealed_file_bytes(SEGMENT_BYTES + 1), Some(SEGMENT_BYTES + 32_768 + 32));
        assert_eq!(sealed_file_bytes(MEDIA_BYTES_MAX), None);
        assert!(FileCipher::new(&key(), u64::MAX).is_err());
    }

    #[test]
    fn the_bytes_of_a_sealed_file_are_pinned() {
        // The web client seals the same bytes by WebCrypto.
        let (sealed, sha256) = seal(&file(SEGMENT + 1));
        assert_eq!(sealed.len(), SEGMENT + 32_768 + 32);
        assert_eq!(
            data_encoding::HEXLOWER.encode(&sha256),
            "9bf29254ba67ea5e298cedbbb9955db5374992bf6440ad522a934c6f58752a5a"
        );
        let (sealed, sha256) = seal(b"hello");
        assert_eq!(data_encoding::HEXLOWER.encode(&sealed[..16]), "582dd50c5b40e2072dbb75425ef9747e");
        assert_eq!(
            data_encoding::HEXLOWER.encode(&sha256),
            "6f138d4622eea78159761a7c7bb5a4c68f7aefa3bfb52a27a0d6e9add18457e1"
        );
    }

    #[test]
    fn a_file_that_is_cut_swapped_or_another_is_refused() {
        let file = file(2 * SEGMENT + SEGMENT / 2);
        let (sealed, sha256) = seal(&file);
        assert_eq!(open(&sealed, file.len(), sha256, 100_000).unwrap(), file);
        let one = SEGMENT + 16;
        // Each digest here fits its bytes, so that the segments themselves refuse.
        let refused = |bytes: Vec<u8>, length: usize, what: &str| {
            let mut digest = FileDigest::new(bytes.len() as u64);
            digest.update(&bytes);
            assert!(open(&bytes, length, digest.end(), one).is_err(), "{what}");
        };
        refused([&sealed[one..2 * one], &sealed[..one], &sealed[2 * one..]].concat(), file.len(), "swapped");
        refused(sealed[..2 * one].to_vec(), file.len(), "the last segment gone");
        refused(sealed[..2 * one].to_vec(), 2 * SEGMENT, "cut, with a length that fits");
        refused(sealed[..sealed.len() - 1].to_vec(), file.len(), "the last byte gone");
        refused([&sealed[..], &[0]].concat(), file.len(), "a byte too many");
        refused(sealed.clone(), file.len() - 1, "another length: the padding is not of zeros");
        let mut turned = sealed.clone();
        turned[one + 5] ^= 1;
        refused(turned, file.len(), "a bit turned");
        refused(Vec::new(), 0, "nothing");
        let mut other = sha256;
        other[0] ^= 1;
        assert!(open(&sealed, file.len(), other, one).is_err(), "another digest");
    }

    #[test]
    fn a_segment_is_sealed_at_its_own_place_only() {
        let cipher = FileCipher::new(&key(), SEGMENT_BYTES + 5).unwrap();
        assert_eq!(cipher.segments(), 2);
        let longer = FileCipher::new(&key(), 300).unwrap().seal(0, vec![0; 300]).unwrap();
        assert!(FileCipher::new(&key(), 5).unwrap().open(0, longer).is_err(), "of another length, with the same key");
        assert!(FileCipher::new(&key(), MEDIA_BYTES_MAX).is_err(), "longer than an upload");
        assert!(cipher.seal(0, vec![0; 5]).is_err());
        assert!(cipher.seal(1, vec![0; 6]).is_err());
        assert!(cipher.seal(2, Vec::new()).is_err());
        assert!(cipher.seal(u64::MAX, Vec::new()).is_err());
    }

    #[test]
    fn a_digest_in_parts_is_that_of_the_parts_digests() {
        let bytes = vec![3; usize::try_from(MEDIA_WHOLE_BYTES_MAX).unwrap() + 5];
        let mut digest = FileDigest::new(bytes.len() as u64);
        bytes.chunks(3_000_001).for_each(|piece| digest.update(piece));
        let parts: Vec<_> = bytes.chunks(usize::try_from(MEDIA_PART_BYTES).unwrap()).map(Sha256::digest).collect();
        let (whole, of_parts) = digest.end_in_parts();
        assert_eq!(whole[..], Sha256::digest(parts.concat())[..]);
        assert_eq!(of_parts, parts.into_iter().map(<[u8; 32]>::from).collect::<Vec<_>>());
    }

    #[test]
    fn any_range_of_the_ciphertext_is_read_from_the_file_in_the_clear() {
        let file = file(2 * SEGMENT + 5);
        let (sealed, sha256) = seal(&file);
        let cipher = FileCipher::new(&key(), file.len() as u64).unwrap();
        let mut file = io::Cursor::new(file);
        assert_eq!(cipher.digest(&mut file).unwrap(), (sha256, vec![]));
        let one = SEGMENT + 16;
        for (from, to) in [(0, sealed.len()), (0, 1), (one - 1, one + 1), (one, 2 * one), (2 * one, sealed.len())] {
            let read = cipher.read(&mut file, from as u64, (to - from) as u64).unwrap();
            assert_eq!(read, sealed[from..to], "{from} {to}");
        }
        assert!(cipher.read(&mut file, sealed.len() as u64, 1).is_err(), "behind the end");
        let mut shorter = io::Cursor::new(vec![0; SEGMENT]);
        assert_eq!(cipher.digest(&mut shorter).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    proptest! {
        #[test]
        fn padding_is_at_most_an_eighth_and_grows_with_the_file(bytes in 256..MEDIA_BYTES_MAX / 2) {
            let padded = padded_bytes(bytes).unwrap();
            prop_assert!(padded >= bytes && padded - bytes <= bytes / 8);
            prop_assert!(padded_bytes(bytes + 1).unwrap() >= padded);
            prop_assert_eq!(padded_bytes(padded), Some(padded));
        }

        #[test]
        fn a_file_returns_as_it_went_in(bytes in 0..3000_usize, piece in 1..500_usize) {
            let file = file(bytes);
            let (sealed, sha256) = seal(&file);
            prop_assert_eq!(Some(sealed.len() as u64), sealed_file_bytes(bytes as u64));
            prop_assert_eq!(open(&sealed, bytes, sha256, piece).unwrap(), file);
        }
    }
}
