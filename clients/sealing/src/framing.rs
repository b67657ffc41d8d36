//! The outside of a message, read before the library sees it: what does not even claim to fit is not tried.

use crate::error::{Error, Result, ensure};
use crate::reader::Reader;

const VERSION: u16 = 1;
const PUBLIC_MESSAGE: u16 = 1;
const PRIVATE_MESSAGE: u16 = 2;
const APPLICATION: u8 = 1;
const COMMIT: u8 = 3;
const NEW_MEMBER_COMMIT: u8 = 4;

/// The kinds of messages that the profile has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framed {
    /// A `PrivateMessage` with what a member wrote.
    Application,
    /// A `PrivateMessage` with a member's commit.
    Commit,
    /// A `PublicMessage` with the commit of a device that joins by itself.
    Join,
}

/// The outside of a message.
pub(crate) struct Framing<'a> {
    pub(crate) kind: Framed,
    pub(crate) group_id: &'a [u8],
    pub(crate) epoch: u64,
    pub(crate) authenticated: &'a [u8],
}

impl<'a> Framing<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes, "message");
        ensure(reader.u16()? == VERSION, Error::Malformed("message"))?;
        match reader.u16()? {
            PRIVATE_MESSAGE => Self::private(reader),
            PUBLIC_MESSAGE => Self::public(reader),
            _ => Err(Error::Malformed("message")),
        }
    }

    fn private(mut reader: Reader<'a>) -> Result<Self> {
        let (group_id, epoch) = (reader.vector()?, reader.u64()?);
        let kind = match reader.u8()? {
            APPLICATION => Framed::Application,
            COMMIT => Framed::Commit,
            _ => return Err(Error::Profile("a proposal has no commit")),
        };
        let authenticated = reader.vector()?;
        // The encrypted data of the sender, and the ciphertext.
        reader.vector()?;
        reader.vector()?;
        reader.end()?;
        Ok(Self { kind, group_id, epoch, authenticated })
    }

    fn public(mut reader: Reader<'a>) -> Result<Self> {
        let (group_id, epoch) = (reader.vector()?, reader.u64()?);
        ensure(reader.u8()? == NEW_MEMBER_COMMIT, Error::Profile("a member's message is public"))?;
        let authenticated = reader.vector()?;
        ensure(reader.u8()? == COMMIT, Error::Profile("a public message is no commit"))?;
        // The library reads the rest, and refuses bytes behind it.
        Ok(Self { kind: Framed::Join, group_id, epoch, authenticated })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version, wire format, group id, epoch; then what the format has.
    fn bytes(version: u8, format: u8, rest: &[u8]) -> Vec<u8> {
        [&[0, version, 0, format, 2, b'g', b'1', 0, 0, 0, 0, 0, 0, 0, 9], rest].concat()
    }

    #[test]
    fn a_frame_is_one_of_three_and_has_one_length() {
        let read = |version, format, rest: &[u8]| {
            Framing::read(&bytes(version, format, rest)).map(|framing| (framing.kind, framing.authenticated.to_vec()))
        };
        let (message, commit, join) = ([1, 1, 7, 1, 0, 1, 0], [3, 1, 7, 1, 0, 1, 0], [4, 1, 7, 3, 0]);
        assert_eq!(read(1, 2, &message).unwrap(), (Framed::Application, vec![7]));
        assert_eq!(read(1, 2, &commit).unwrap(), (Framed::Commit, vec![7]));
        assert_eq!(read(1, 1, &join).unwrap(), (Framed::Join, vec![7]));
        let wrong = [
            read(2, 2, &message),
            read(1, 3, &message),
            read(1, 2, &[2, 1, 7, 1, 0, 1, 0]),
            read(1, 2, &[1, 1, 7, 1, 0, 1, 0, 0]),
            read(1, 2, &[1, 1, 7, 1, 0, 1]),
            // A length of two bytes that fits in one, and one of 2^30 and more.
            read(1, 2, &[1, 0x40, 1, 7, 1, 0, 1, 0]),
            read(1, 2, &[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            read(1, 1, &[1, 0, 0, 0, 1, 1, 7, 3, 0]),
            read(1, 1, &[4, 1, 7, 1, 0]),
            read(1, 1, &[4, 1, 7, 2, 0]),
        ];
        assert!(wrong.iter().all(Result::is_err), "{wrong:?}");
    }
}
