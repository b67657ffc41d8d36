//! The text of frames.

use serde::Serialize;

/// Returns the frame's JSON. Our own types have string keys and no fallible serializers, so this can't fail; an empty
/// frame is not sent.
pub(crate) fn to_json(frame: &impl Serialize) -> String {
    serde_json::to_string(frame).unwrap_or_default()
}

/// The length of a text written as a JSON string, quotes included, as `serde_json` writes it.
pub(crate) fn json_bytes(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0x00..=0x1f => 6,
        _ => 1,
    };
    2 + text.bytes().map(escaped).sum::<usize>()
}
