//! Items to values and back.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use wire::{Bytes, Carried, ConversationId, Seq, Timestamp, UserId};

use crate::Error;

pub(crate) type Item = HashMap<String, AttributeValue>;

/// The attribute with the version of a row's shape. A row of a later version is read as far as this
/// version understands it, and an update leaves alone what it does not name.
pub(crate) const VERSION: &str = "v";

/// The version that this code writes.
pub(crate) fn version() -> AttributeValue {
    number(1)
}

pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass numbers, which are as cheap as references to them")]
pub(crate) fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Returns a list of user ids.
pub(crate) fn users(users: &[UserId]) -> AttributeValue {
    AttributeValue::L(users.iter().map(|user| text(user.as_str())).collect())
}

/// Returns a list of entries.
pub(crate) fn seqs(seqs: &[Seq]) -> AttributeValue {
    AttributeValue::L(seqs.iter().map(number).collect())
}

pub(crate) fn binary(bytes: &Bytes) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes.as_slice()))
}

/// Returns a part of a commit: its bytes, or a text about its file.
pub(crate) fn carried(part: &Carried) -> Option<AttributeValue> {
    match part {
        Carried::Bytes(bytes) => Some(binary(bytes)),
        Carried::File { .. } => serde_json::to_string(part).ok().map(text),
    }
}

/// The write of an attribute.
pub(crate) enum Value {
    Set(AttributeValue),
    Removed,
    Left,
}

impl Value {
    pub(crate) fn of(value: Option<AttributeValue>) -> Self {
        value.map_or(Self::Removed, Self::Set)
    }
}

/// Returns the readable rows, and the number of the others, which a later version wrote. Those stay as they are, and
/// affect no other row.
pub(crate) fn readable<T>(rows: impl Iterator<Item = Result<T, Error>>) -> (Vec<T>, u64) {
    let mut unreadable = 0;
    let read = rows.filter_map(|row| {
        row.inspect_err(|error| {
            unreadable += 1;
            tracing::error!(%error, "skipped an unreadable row");
        })
        .ok()
    });
    (read.collect(), unreadable)
}

/// An item being read. A missing attribute, or one of another type, is an [`Error::Item`] that names it.
pub(crate) struct Reader<'a> {
    pub(crate) item: &'a Item,
    pub(crate) table: &'a str,
}

impl<'a> Reader<'a> {
    pub(crate) fn text(&self, attribute: &'static str) -> Result<&'a str, Error> {
        let value = self.item.get(attribute).and_then(|value| value.as_s().ok());
        value.map(String::as_str).ok_or_else(|| self.unusable(attribute))
    }

    pub(crate) fn bytes(&self, attribute: &'static str) -> Result<Bytes, Error> {
        let value = self.item.get(attribute).and_then(|value| value.as_b().ok());
        value.map(|blob| Bytes::from(blob.as_ref().to_vec())).ok_or_else(|| self.unusable(attribute))
    }

    /// Reads a part of a commit.
    pub(crate) fn carried(&self, attribute: &'static str) -> Result<Carried, Error> {
        self.bytes(attribute).map(Carried::Bytes).or_else(|_| self.parsed(attribute, serde_json::from_str))
    }

    /// Text that has a form of its own.
    pub(crate) fn parsed<T, E>(
        &self,
        attribute: &'static str,
        parse: impl FnOnce(&'a str) -> Result<T, E>,
    ) -> Result<T, Error> {
        parse(self.text(attribute)?).map_err(|_| self.unusable(attribute))
    }

    pub(crate) fn number(&self, attribute: &'static str) -> Result<i64, Error> {
        let value = self.item.get(attribute).and_then(|value| value.as_n().ok());
        value.and_then(|digits| digits.parse().ok()).ok_or_else(|| self.unusable(attribute))
    }

    pub(crate) fn count(&self, attribute: &'static str) -> Result<u64, Error> {
        u64::try_from(self.number(attribute)?).map_err(|_| self.unusable(attribute))
    }

    pub(crate) fn seq(&self, attribute: &'static str) -> Result<Seq, Error> {
        Seq::new(self.count(attribute)?).ok_or_else(|| self.unusable(attribute))
    }

    pub(crate) fn time(&self, attribute: &'static str) -> Result<Timestamp, Error> {
        self.number(attribute).map(Timestamp::from_millis)
    }

    /// A time to the second, as a TTL has it.
    pub(crate) fn seconds(&self, attribute: &'static str) -> Result<Timestamp, Error> {
        Ok(Timestamp::from_millis(self.number(attribute)?.saturating_mul(1000)))
    }

    /// Set or absent.
    /// Reads a list of user ids. The list leaves out an id of a later form.
    pub(crate) fn users(&self, attribute: &'static str) -> Result<Vec<UserId>, Error> {
        let list = self.item.get(attribute).and_then(|value| value.as_l().ok());
        let list = list.ok_or_else(|| self.unusable(attribute))?;
        Ok(list.iter().filter_map(|id| UserId::parse(id.as_s().ok()?).ok()).collect())
    }

    /// Reads a list of conversations. The list leaves out an id of a later form.
    pub(crate) fn conversations(&self, attribute: &'static str) -> Result<Vec<ConversationId>, Error> {
        let list = self.item.get(attribute).and_then(|value| value.as_l().ok());
        let list = list.ok_or_else(|| self.unusable(attribute))?;
        Ok(list.iter().filter_map(|id| ConversationId::parse(id.as_s().ok()?).ok()).collect())
    }

    /// Reads a list of entries. The list leaves out what is none.
    pub(crate) fn seqs(&self, attribute: &'static str) -> Result<Vec<Seq>, Error> {
        let list = self.item.get(attribute).and_then(|value| value.as_l().ok());
        let list = list.ok_or_else(|| self.unusable(attribute))?;
        Ok(list.iter().filter_map(|seq| Seq::new(seq.as_n().ok()?.parse().ok()?)).collect())
    }

    /// Reads a time of each user. The map leaves out an id of a later form.
    pub(crate) fn times(&self, attribute: &'static str) -> Result<BTreeMap<UserId, Timestamp>, Error> {
        let map = self.item.get(attribute).and_then(|value| value.as_m().ok());
        let map = map.ok_or_else(|| self.unusable(attribute))?;
        let time = |at: &AttributeValue| at.as_n().ok()?.parse().ok().map(Timestamp::from_millis);
        Ok(map.iter().filter_map(|(id, at)| Some((UserId::parse(id).ok()?, time(at)?))).collect())
    }

    pub(crate) fn flag(&self, attribute: &'static str) -> Result<bool, Error> {
        let flag = |row: &Self, name| {
            row.item.get(name).and_then(|value| value.as_bool().ok()).copied().ok_or_else(|| row.unusable(name))
        };
        Ok(self.optional(attribute, flag)?.unwrap_or(false))
    }

    /// `None` where the attribute is absent; still an error where it is of another type.
    pub(crate) fn optional<T>(
        &self,
        attribute: &'static str,
        read: impl FnOnce(&Self, &'static str) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        self.item.contains_key(attribute).then(|| read(self, attribute)).transpose()
    }

    pub(crate) fn unusable(&self, attribute: &'static str) -> Error {
        Error::Item { table: self.table.to_owned(), attribute }
    }
}
