//! Invariants of a channel at any moment.

use serde_json::Value;

use crate::invariants::{Held, Tables, counts, ensure, number, string};

impl Tables {
    pub(crate) fn is_channel(&self) -> bool {
        self.heads.iter().any(|head| string(head, "conversation_id").starts_with("ch_"))
    }

    pub(crate) fn check_channel(&self, before: &Self, held: &Held) -> Result<(), String> {
        self.channel_is_its_log()?;
        for row in &self.channel_rows {
            self.mark_says_what_is_unread(row)?;
        }
        for (user, held) in held {
            let removed = self.removed_with(user);
            let outside: Vec<_> = held.iter().filter(|seq| removed.is_some_and(|removed| **seq >= removed)).collect();
            ensure!(outside.is_empty(), "{user} was removed with {removed:?}, and got {outside:?}");
        }
        for old in &before.channel_rows {
            let same = |row: &&Value| row["user_id"] == old["user_id"] && row["joined_at"] == old["joined_at"];
            if let Some(new) = self.channel_rows.iter().find(same) {
                ensure!(number(new, "read_seq") >= number(old, "read_seq"), "marks only rise: {new}, before {old}");
            }
        }
        Ok(())
    }

    /// The entry with which an admin removed the user, unless they were added again.
    fn removed_with(&self, user: &str) -> Option<u64> {
        let names = |entry: &&Value, event: &str| {
            let system = entry["system"].as_str().map(|text| serde_json::from_str::<Value>(text).unwrap());
            system.is_some_and(|system| {
                system["event"] == event
                    && system["members"].as_array().is_some_and(|all| all.contains(&Value::from(user)))
            })
        };
        self.messages.iter().rfind(|entry| names(entry, "members.removed")).map(|entry| number(entry, "seq"))
    }

    /// Whether an admin restricted the user in an entry before this one.
    fn is_restricted(&self, user: &str, seq: u64) -> bool {
        let before = self.messages.iter().filter(|entry| number(entry, "seq") < seq);
        let mut told = before.filter_map(|entry| serde_json::from_str::<Value>(entry["system"].as_str()?).ok());
        told.any(|system| system["event"] == "member.restricted" && system["user_id"] == user)
    }

    fn channel_is_its_log(&self) -> Result<(), String> {
        let last = self.messages.len() as u64;
        let head = self.heads.first().expect("a channel has a head");
        ensure!(number(head, "last_seq") == last, "all or nothing: the head does not say {last}: {head}");
        ensure!(self.idempotency.len() as u64 == last, "all or nothing: {} idempotency rows", self.idempotency.len());
        let mut counted = 0;
        for entry in &self.messages {
            counted += u64::from(counts(entry));
            ensure!(number(entry, "counted") == counted, "there are {counted} messages up to {entry}");
            let (seq, sender) = (number(entry, "seq"), string(entry, "sender_id"));
            let removed = self.removed_with(sender);
            let takes_back = entry["kind"] == "delete" && entry["target_sender"] == sender;
            ensure!(takes_back || removed.is_none_or(|removed| removed > seq), "permitted at its commit: {entry}");
            let writes = ["text", "edit"].into_iter().any(|kind| entry["kind"] == kind);
            ensure!(!writes || !self.is_restricted(sender, seq), "permitted at its commit: restricted: {entry}");
        }
        ensure!(number(head, "counted") == counted, "there are {counted} messages: {head}");
        for row in &self.channel_rows {
            let user = string(row, "user_id");
            ensure!(self.removed_with(user).is_none(), "{user} was removed, and has a row: {row}");
            let is_listed = self.members.iter().any(|member| member["user_id"] == user);
            ensure!(is_listed, "{user} is a member, and not in the directory: {:#?}", self.members);
        }
        Ok(())
    }

    fn mark_says_what_is_unread(&self, row: &Value) -> Result<(), String> {
        let (user, read) = (string(row, "user_id"), number(row, "read_seq"));
        ensure!(read <= self.messages.len() as u64, "a mark beyond the log: {row}");
        let counted = self.messages.iter().filter(|entry| number(entry, "seq") <= read && counts(entry)).count();
        ensure!(number(row, "read_counted") == counted as u64, "{counted} messages up to {read}: {row}");
        let own = |entry: &&Value| number(entry, "seq") > read && counts(entry) && entry["sender_id"] == user;
        let own = self.messages.iter().find(own);
        ensure!(own.is_none(), "one's own is never unread: {own:?}: {row}");
        Ok(())
    }
}
