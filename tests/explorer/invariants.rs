//! Invariants of the tables at any moment.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The tables as plain JSON.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tables {
    /// In the order of their seqs.
    pub(crate) messages: Vec<Value>,
    pub(crate) idempotency: Vec<Value>,
    pub(crate) epochs: Vec<Value>,
    pub(crate) inbox: Vec<Value>,
    /// Members' rows of a channel.
    pub(crate) channel_rows: Vec<Value>,
    /// Whether one of the two blocks the other.
    pub(crate) blocked: bool,
    /// Log heads of groups, and the member lists.
    pub(crate) heads: Vec<Value>,
    pub(crate) members: Vec<Value>,
}

/// The seqs of what a user's devices have received.
pub(crate) type Held = BTreeMap<String, BTreeSet<u64>>;

macro_rules! ensure {
    ($holds:expr, $($broken:tt)+) => {
        if !$holds {
            return Err(format!($($broken)+));
        }
    };
}
pub(crate) use ensure;

pub(crate) fn number(row: &Value, attribute: &str) -> u64 {
    row[attribute].as_u64().unwrap_or_else(|| panic!("no {attribute} in {row}"))
}

pub(crate) fn string<'a>(row: &'a Value, attribute: &str) -> &'a str {
    row[attribute].as_str().unwrap_or_else(|| panic!("no {attribute} in {row}"))
}

impl Tables {
    /// All that holds at any moment.
    pub(crate) fn check(&self, before: &Self, held: &Held) -> Result<(), String> {
        self.dense()?;
        self.pinned()?;
        self.data_is_of_its_version()?;
        if self.is_channel() {
            return self.check_channel(before, held);
        }
        if !self.heads.is_empty() {
            return self.check_group(before, held);
        }
        self.all_or_nothing()?;
        self.epochs()?;
        for row in &self.inbox {
            self.epoch_of(row)?;
            self.marks(row)?;
            self.pending(row)?;
            self.unread(row)?;
            self.acknowledged(row, held)?;
        }
        self.risen(before)
    }

    /// Others' messages, by their seqs.
    pub(crate) fn by_others<'a>(&'a self, user: &'a str) -> impl Iterator<Item = u64> + 'a {
        let others = self.messages.iter().filter(move |message| message["sender_id"] != user);
        others.map(|message| number(message, "seq"))
    }

    pub(crate) fn by_client_msg_id<'a>(&'a self, sender: &'a str, id: &'a str) -> impl Iterator<Item = &'a Value> {
        let messages = self.messages.iter();
        messages.filter(move |message| message["sender_id"] == sender && message["client_msg_id"] == id)
    }

    fn dense(&self) -> Result<(), String> {
        let seqs: Vec<_> = self.messages.iter().map(|message| number(message, "seq")).collect();
        let wanted: Vec<_> = (1..=self.messages.len() as u64).collect();
        ensure!(seqs == wanted, "dense order: the seqs are {seqs:?}");
        let rises = self.messages.is_sorted_by(|a, b| {
            number(a, "sent_at") < number(b, "sent_at") && string(a, "message_id") < string(b, "message_id")
        });
        ensure!(rises, "dense order: sent_at or message_id falls: {:#?}", self.messages);
        Ok(())
    }

    /// The rows of a direct conversation, and the head of a group, have the pins of all entries, the last first.
    fn pinned(&self) -> Result<(), String> {
        let mut pins: Vec<&Value> = vec![];
        for entry in self.messages.iter().filter(|entry| entry["kind"] == "pin") {
            pins.retain(|seq| **seq != entry["target_seq"]);
            if entry["pinned"] == true {
                pins.insert(0, &entry["target_seq"]);
            }
        }
        let rows = if self.heads.is_empty() { &self.inbox } else { &self.heads };
        for row in rows {
            let has = row.get("pins").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            ensure!(has.iter().eq(pins.iter().copied()), "the pins are {pins:?}: {row}");
        }
        Ok(())
    }

    /// Data is the text of its message, or the id of a silent entry. A deleted entry has no data.
    fn data_is_of_its_version(&self) -> Result<(), String> {
        for entry in self.messages.iter().filter(|entry| entry.get("data").is_some()) {
            let data: Value = serde_json::from_str(string(entry, "data")).expect("data is JSON");
            let of = if entry["kind"] == "xs-note" { &entry["client_msg_id"] } else { &entry["body"] };
            ensure!(data["of"] == *of && !is_deleted(entry), "the data is another version's: {entry}");
        }
        Ok(())
    }

    fn all_or_nothing(&self) -> Result<(), String> {
        let last = self.messages.len();
        ensure!(self.idempotency.len() == last, "all or nothing: {} idempotency rows", self.idempotency.len());
        for message in &self.messages {
            let (sender, id) = (string(message, "sender_id"), string(message, "client_msg_id"));
            let row = self.idempotency.iter().find(|row| row["sender_key"] == format!("{sender} {id}").as_str());
            ensure!(
                row.is_some_and(|row| row["seq"] == message["seq"] && row["message_id"] == message["message_id"]),
                "all or nothing: the idempotency row of {id} is {row:?}"
            );
        }
        // A service has no row.
        let is_alone = |row: &Value| row["user_id"] == row["peer_id"] || string(row, "peer_id").starts_with('@');
        let members = self.inbox.first().map_or(0, |row| if is_alone(row) { 1 } else { 2 });
        ensure!(self.inbox.len() == members, "all or nothing: {} inbox rows", self.inbox.len());
        for row in &self.inbox {
            let user = string(row, "user_id");
            ensure!(number(row, "last_seq") == last as u64, "all or nothing: {user}'s last_seq is not {last}: {row}");
            let end = &self.messages[last - 1];
            let Some(message) = self.messages.iter().rfind(|message| counts(message)) else {
                ensure!(
                    row.get("active_at").is_none() && row["silent_seq"] == end["seq"],
                    "the chat list has a conversation in which nothing counts: {row}"
                );
                continue;
            };
            ensure!(row.get("active_at").is_some(), "the chat list lacks a conversation: {row}");
            ensure!(
                row["last_message_id"] == message["message_id"] && row["last_at"] == message["sent_at"],
                "all or nothing: {user}'s last message is not {message}: {row}"
            );
            let preview = if message["kind"] == "sealed" { "" } else { string(message, "body") };
            ensure!(row["last_preview"] == preview, "content is in one place: {row} shows not {message}");
            let silent = row.get("silent_seq").is_some_and(|seq| *seq == end["seq"]);
            ensure!(silent != counts(end), "where the conversation ends is not {end}: {row}");
            if silent {
                ensure!(
                    row["silent_at"] == end["sent_at"] && row["shown_seq"] == message["seq"],
                    "where the conversation ends is not {end}, and shown {message}: {row}"
                );
            }
            let deleted = row.get("deleted_seq").is_some_and(|seq| *seq == message["seq"]);
            ensure!(deleted == is_deleted(message), "whether {message} is deleted: {row}");
        }
        Ok(())
    }

    fn marks(&self, row: &Value) -> Result<(), String> {
        let (delivered, read) = (number(row, "delivered_seq"), number(row, "read_seq"));
        ensure!(read <= delivered && delivered <= self.messages.len() as u64, "watermarks: {row}");
        Ok(())
    }

    fn pending(&self, row: &Value) -> Result<(), String> {
        let delivered = number(row, "delivered_seq");
        let waits = self.by_others(string(row, "user_id")).find(|seq| *seq > delivered);
        let marked = row.get("pending_from").map(|from| from.as_u64().unwrap());
        ensure!(row.get("pending_since").is_some() == marked.is_some(), "pending: half a marker: {row}");
        ensure!(
            waits.is_none_or(|seq| marked.is_some_and(|from| from <= seq)),
            "pending until acknowledged: {waits:?} waits, and the marker says {marked:?}: {row}"
        );
        let last = number(row, "last_seq");
        ensure!(
            marked.is_none_or(|from| delivered < from && from <= last),
            "pending: the marker is not between delivered_seq and last_seq: {row}"
        );
        Ok(())
    }

    fn unread(&self, row: &Value) -> Result<(), String> {
        let read = number(row, "read_seq");
        let unread = |message: &&Value| {
            message["sender_id"] != row["user_id"]
                && number(message, "seq") > read
                && counts(message)
                && !is_deleted(message)
        };
        let counted = self.messages.iter().filter(unread).count();
        ensure!(number(row, "unread") == counted as u64, "unread is not {counted}: {row}");
        Ok(())
    }

    /// No watermark covers a message that no device has received.
    fn acknowledged(&self, row: &Value, held: &Held) -> Result<(), String> {
        let (user, delivered) = (string(row, "user_id"), number(row, "delivered_seq"));
        let holds = |seq| held.get(user).is_some_and(|held| held.contains(&seq));
        let lost = self.by_others(user).find(|seq| *seq <= delivered && !holds(*seq));
        ensure!(lost.is_none(), "message {lost:?} counts as delivered, and no device of {user} has it: {row}");
        Ok(())
    }

    pub(crate) fn risen(&self, before: &Self) -> Result<(), String> {
        for old in &before.inbox {
            let new = self.inbox.iter().find(|row| row["user_id"] == old["user_id"]);
            let Some(new) = new else { return Err(format!("a row went away: {old}")) };
            for mark in ["last_seq", "delivered_seq", "read_seq"] {
                ensure!(number(new, mark) >= number(old, mark), "watermarks only rise: {mark} of {new}, before {old}");
            }
        }
        let grown = self.messages.len() > before.messages.len();
        let beyond = grown && self.messages.last().is_some_and(|last| last["kind"] != "delete");
        ensure!(!(before.blocked && beyond), "a message beyond a block: {:#?}", self.messages.last());
        self.kept(before)
    }

    /// Checks that stored entries stay, except for the attributes that changes write.
    fn kept(&self, before: &Self) -> Result<(), String> {
        for (old, new) in before.messages.iter().zip(&self.messages) {
            let mut told = old.as_object().expect("a row").keys().filter(|name| !MAY_CHANGE.contains(&name.as_str()));
            ensure!(told.all(|name| old[name] == new[name]), "a message was changed: {old} is {new}");
            let by: Vec<_> = self
                .messages
                .iter()
                .filter(|entry| entry.get("target_seq").is_some_and(|seq| *seq == new["seq"]))
                .collect();
            let edits = by.iter().filter(|entry| entry["kind"] == "edit").count() as u64;
            let deletes = by.iter().filter(|entry| entry["kind"] == "delete").count();
            ensure!(!is_deleted(old) || is_deleted(new), "a deleted message came back: {new}");
            ensure!(deletes == usize::from(is_deleted(new)), "deleted by {deletes} entries: {new}");
            ensure!(
                !is_deleted(new) || (new["body"] == "" && new.get("reactions").is_none()),
                "deleted, and there: {new}"
            );
            let version = new.get("version").map_or(1, |version| version.as_u64().unwrap_or_default());
            ensure!(is_deleted(new) || version == edits + 1, "{edits} edits made version {version}: {new}");
            let (mut last_by, mut last_seq) = (BTreeMap::new(), None);
            for entry in by.iter().filter(|entry| entry["kind"] == "reaction") {
                let before = last_by.insert(string(entry, "sender_id"), &entry["emoji"]);
                ensure!(entry.get("emoji_before") == before, "before it was {before:?}: {entry}");
                last_seq = Some(&entry["seq"]);
            }
            let expected = last_seq.filter(|_| !is_deleted(new));
            ensure!(new.get("reactions_seq") == expected, "the last reaction is {expected:?}: {new}");
            let reactions = new.get("reactions").and_then(Value::as_object);
            let same = last_by.iter().all(|(user, emoji)| reactions.is_some_and(|map| map.get(*user) == Some(*emoji)));
            ensure!(is_deleted(new) || same, "the reactions are not {last_by:?}: {new}");
        }
        Ok(())
    }
}

/// Attributes of a message's row that changes write.
const MAY_CHANGE: [&str; 11] = [
    "body",
    "data",
    "version",
    "edited_at",
    "edited_seq",
    "deleted_at",
    "deleted_by",
    "deleted_seq",
    "reactions",
    "reactions_seq",
    "media",
];

/// Whether it is the chat list's line, and counts as unread.
pub(crate) fn counts(message: &Value) -> bool {
    let is_sealed = message["kind"] == "sealed" && message.get("silent").is_none();
    is_sealed || message["kind"] == "text" || message["kind"] == "image"
}

pub(crate) fn is_deleted(message: &Value) -> bool {
    message.get("deleted_at").is_some()
}
