//! The copies that a report has of messages.

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Map, Value};
use sha2::Sha256;
use wire::{Kind, Opened, Refusal, Timestamp, UserId};

use crate::entry::{Entry, Sight};
use crate::limits::REPORTED_BODY_BYTES_MAX;
use crate::rate::Rate;

/// Reports of a user.
pub const REPORTS: Rate = Rate { burst: 10, pause: Duration::from_mins(10) };

/// The prefix of a plaintext keeps its digest apart from any other use of the key.
const FRANK_PREFIX: &[u8] = b"pigeonhole frank 1\0";

/// Returns copies of entries for the operator, each as its reporter sees it, with what proves the sealed ones.
///
/// # Errors
/// As [`check_opened`].
pub fn reported(entries: &[Entry], sight: &Sight, opened: &[Opened]) -> Result<Vec<Map<String, Value>>, Refusal> {
    let copy = |entry: &Entry| {
        let opened = opened.iter().find(|opened| opened.seq == entry.place.seq);
        opened.map_or(Ok(()), |opened| check_opened(entry, opened))?;
        Ok(copied(entry, sight, opened))
    };
    entries.iter().map(copy).collect()
}

/// Leaves out what belongs to a device or only to clients. A sealed entry has no body.
fn copied(entry: &Entry, sight: &Sight, opened: Option<&Opened>) -> Map<String, Value> {
    let mut shown = entry.seen_by(&UserId::service_default(), sight);
    (shown.client_msg_id, shown.commit, shown.welcome, shown.tree) = (None, None, None, None);
    shown.body.truncate(shown.body.floor_char_boundary(REPORTED_BODY_BYTES_MAX));
    let is_sealed = matches!(shown.kind, Kind::Sealed | Kind::Commit);
    let Ok(Value::Object(mut copy)) = serde_json::to_value(shown) else { return Map::new() };
    if is_sealed {
        copy.remove("body");
    }
    if let Some(opened) = opened {
        copy.insert("plaintext".to_owned(), opened.plaintext.to_text().into());
        copy.insert("verified".to_owned(), true.into());
    }
    copy
}

/// Checks that the author of the entry sealed this. The digest of a deleted message is still in its row.
///
/// # Errors
/// `gone` for an entry without a digest; `bad_request` for a key and a plaintext that it is not of.
fn check_opened(entry: &Entry, opened: &Opened) -> Result<(), Refusal> {
    let frank = entry.message().and_then(|entry| entry.message.frank.as_deref()).ok_or(Refusal::Gone)?;
    let mac = Hmac::<Sha256>::new_from_slice(opened.key.as_slice()).ok();
    let mac = mac.map(|mac| mac.chain_update(FRANK_PREFIX).chain_update(opened.plaintext.as_slice()));
    if mac.is_some_and(|mac| mac.verify_slice(frank.as_slice()).is_ok()) {
        Ok(())
    } else {
        let problem = format!("key and plaintext must be those of the entry {}", opened.seq);
        Err(Refusal::bad_request("opened", problem))
    }
}

/// Returns the month of a report, such as `2026-11`. Reports are listed by it.
pub fn month(at: Timestamp) -> String {
    at.to_string().chars().take(7).collect()
}

/// Whether a text is such a month.
pub fn is_month(text: &str) -> bool {
    let digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    text.len() == 7 && text.as_bytes().get(4) == Some(&b'-') && [0, 1, 2, 3, 5, 6].into_iter().all(digit)
}
