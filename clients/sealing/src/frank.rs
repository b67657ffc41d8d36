//! The proof in a report: a digest beside a sealed message, which commits its author to the plaintext.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The prefix keeps the digest apart from any other use of the key.
const PREFIX: &[u8] = b"pigeonhole frank 1\0";

/// Returns the digest of a plaintext, with its spaces, under the key in its envelope.
pub fn frank(key: &[u8; 32], plaintext: &[u8]) -> [u8; 32] {
    mac(key, plaintext).finalize().into_bytes().into()
}

/// Returns whether the digest is that of a plaintext, in constant time.
pub fn is_frank(key: &[u8; 32], plaintext: &[u8], frank: &[u8]) -> bool {
    mac(key, plaintext).verify_slice(frank).is_ok()
}

fn mac(key: &[u8; 32], plaintext: &[u8]) -> Hmac<Sha256> {
    // A key of 32 bytes is shorter than a block, which HMAC fills with zeros.
    let mut block = [0; 64];
    for (place, byte) in block.iter_mut().zip(key) {
        *place = *byte;
    }
    Hmac::<Sha256>::new(&block.into()).chain_update(PREFIX).chain_update(plaintext)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frank_is_of_its_key_and_of_each_byte() {
        let digest = frank(&[9; 32], b"{}  ");
        // Servers and other clients compute it: this one is pinned.
        assert_eq!(
            data_encoding::HEXLOWER.encode(&digest),
            "a8a80cba3de787fe678ed089ea07922484dd04f2e325592bf819739c0bf406ae"
        );
        assert!(is_frank(&[9; 32], b"{}  ", &digest));
        assert!(!is_frank(&[9; 32], b"{} ", &digest));
        assert!(!is_frank(&[8; 32], b"{}  ", &digest));
        assert!(!is_frank(&[9; 32], b"{}  ", &digest[..31]));
        assert!(!is_frank(&[9; 32], b"{}  ", &[]));
    }
}
