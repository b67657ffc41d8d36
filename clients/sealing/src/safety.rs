//! The safety number of two users.

use std::fmt;

use sha2::{Digest, Sha512};
use wire::UserId;

use crate::identity::PublicKey;

/// A number that two people compare. If the server gave one of them another key, their numbers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SafetyNumber([u8; 64]);

/// Returns the safety number of two users. Each side computes the same.
pub fn safety_number(one: (&UserId, &PublicKey), other: (&UserId, &PublicKey)) -> SafetyNumber {
    let mut users = [one, other];
    users.sort();
    let mut digest = Sha512::new_with_prefix("pigeonhole safety 1");
    for (user, key) in users {
        // A user id has no zero byte, and a key has 32 bytes, so nothing else has the same bytes.
        digest.update([0]);
        digest.update(user.as_str());
        digest.update([0]);
        digest.update(key);
    }
    SafetyNumber(digest.finalize().into())
}

impl SafetyNumber {
    /// The bytes of a QR code.
    pub fn bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

/// Writes 12 groups of 5 digits.
impl fmt::Display for SafetyNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, group) in self.0.chunks_exact(5).enumerate() {
            let number = group.iter().fold(0, |value: u64, byte| value << 8 | u64::from(*byte));
            let space = if place == 0 { "" } else { " " };
            write!(f, "{space}{:05}", number % 100_000)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_safety_number_is_one_from_both_sides_and_is_of_these_keys() {
        let (alice, bob) = (UserId::parse("alice").unwrap(), UserId::parse("bob").unwrap());
        let (ours, theirs) = ([1; 32], [2; 32]);
        let number = safety_number((&alice, &ours), (&bob, &theirs));
        assert_eq!(number, safety_number((&bob, &theirs), (&alice, &ours)));
        assert_ne!(number, safety_number((&alice, &theirs), (&bob, &ours)));
        assert_ne!(number, safety_number((&alice, &ours), (&bob, &[3; 32])));
        // People compare it across versions: this one is pinned.
        assert_eq!(number.to_string(), "78503 24402 61232 97792 70838 02060 34270 14986 78624 43877 01293 94318");
        let groups: Vec<usize> = number.to_string().split(' ').map(str::len).collect();
        assert_eq!(groups, [5; 12]);
    }
}
