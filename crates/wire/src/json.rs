//! The text of frames.

use serde::Serialize;

/// Returns the frame's JSON. Our own types have string keys and no fallible serializers, so this can't fail; an empty
/// frame is not sent.
pub(crate) fn to_json(frame: &impl Serialize) -> String {
    serde_json::to_string(frame).unwrap_or_default()
}
