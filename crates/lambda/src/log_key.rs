//! Ids of users and conversations in logs.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Map, Value};
use sha2::Sha256;

use crate::env::{BadVariable, env};

/// The stack's own key for digests of ids in logs. An operator can compute a user's digest; a reader of the logs with a
/// list of users can't. A conversation's id is a digest of its members' ids too, but without a key.
#[derive(Clone)]
pub struct LogKey(Hmac<Sha256>);

impl LogKey {
    #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "a key of any length will do")]
    pub fn new(key: &str) -> Self {
        Self(Hmac::new_from_slice(key.as_bytes()).expect("HMAC takes every key"))
    }

    /// The one that `LOG_KEY` holds.
    ///
    /// # Errors
    /// [`BadVariable`] if there is none.
    pub fn from_env() -> Result<Self, BadVariable> {
        env("LOG_KEY").map(|key| Self::new(&key))
    }

    /// Returns an id's digest for the log: 16 hexadecimal digits. 64 of the 256 bits distinguish more ids than any log
    /// has.
    pub fn logged_as(&self, id: &str) -> String {
        let digest = self.0.clone().chain_update(id).finalize().into_bytes();
        digest.first_chunk().map(|head| format!("{:016x}", u64::from_be_bytes(*head))).unwrap_or_default()
    }

    /// Replaces a line's ids by digests, under other names.
    pub(crate) fn replace_ids(&self, fields: &mut Map<String, Value>) {
        for (name, logged) in [("user_id", "user"), ("conversation_id", "conversation")] {
            if let Some(Value::String(id)) = fields.remove(name) {
                fields.insert(logged.to_owned(), self.logged_as(&id).into());
            }
        }
        for name in ["acked", "drained"] {
            if let Some(Value::Array(entries)) = fields.get_mut(name) {
                for entry in entries {
                    let id = entry["conversation_id"].as_str().unwrap_or_default();
                    *entry = format!("{}:{}", self.logged_as(id), entry["seq"]).into();
                }
            }
        }
    }
}

/// Without the key.
impl fmt::Debug for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogKey")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_is_logged_the_same_each_time_and_otherwise_with_another_key() {
        let key = LogKey::new("of this stack");
        assert_eq!(key.logged_as("alice"), LogKey::new("of this stack").logged_as("alice"));
        assert_ne!(key.logged_as("alice"), key.logged_as("bob"));
        assert_ne!(key.logged_as("alice"), LogKey::new("of another stack").logged_as("alice"));
    }

    /// RFC 4231, test case 2, cut. `openssl dgst -sha256 -hmac Jefe` prints the same.
    #[test]
    fn it_is_hmac_sha256() {
        assert_eq!(LogKey::new("Jefe").logged_as("what do ya want for nothing?"), "5bdcc146bf60754e");
    }

    #[test]
    fn no_id_stays_in_a_line() {
        let line = json!({
            "user_id": "alice", "conversation_id": "dm_1", "route": "ack",
            "acked": [{"conversation_id": "dm_1", "seq": 7}, {"conversation_id": "dm_2", "seq": 8}],
        });
        let Value::Object(mut fields) = line else { unreachable!() };
        let key = LogKey::new("of this stack");
        key.replace_ids(&mut fields);
        let [alice, one, two] = ["alice", "dm_1", "dm_2"].map(|id| key.logged_as(id));
        let logged = json!({
            "user": alice, "conversation": one, "route": "ack", "acked": [format!("{one}:7"), format!("{two}:8")],
        });
        assert_eq!(Value::Object(fields), logged);
    }
}
