//! Reads the encoding of RFC 9420 (section 2.1), as far as the checks need it.

use crate::error::{Error, Result};

/// The bytes that are left.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, what }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(Error::Malformed(self.what))?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(u8::try_from(self.uint(1)?).unwrap_or_default())
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::try_from(self.uint(2)?).unwrap_or_default())
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.uint(8)
    }

    /// Reads a vector: its length of one, two or four bytes, in the shortest form, and its content.
    pub(crate) fn vector(&mut self) -> Result<&'a [u8]> {
        let first = self.u8()?;
        let low = u64::from(first & 0x3f);
        let (length, shortest) = match first >> 6 {
            0 => (low, 0),
            1 => (low << 8 | self.uint(1)?, 1 << 6),
            2 => (low << 24 | self.uint(3)?, 1 << 14),
            _ => return Err(Error::Malformed(self.what)),
        };
        match usize::try_from(length) {
            Ok(length_fits) if length >= shortest => self.take(length_fits),
            _ => Err(Error::Malformed(self.what)),
        }
    }

    /// Succeeds at the end of the bytes alone: what is behind would be read differently by another reader.
    pub(crate) fn end(&self) -> Result<()> {
        if self.is_empty() { Ok(()) } else { Err(Error::Malformed(self.what)) }
    }

    fn uint(&mut self, length: usize) -> Result<u64> {
        Ok(self.take(length)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }
}
