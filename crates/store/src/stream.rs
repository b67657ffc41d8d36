//! The streams of `inbox`, `conversations` and `media`, as Lambda hands them on: what rows were and what they are, which groups have
//! moved, and which media rows are gone.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{object_key, puts_end};
use serde::Deserialize;
use wire::{ConversationId, Kind, MediaId, Seq, Timestamp, UserId};

use crate::Error;
use crate::inbox::is_silent;
use crate::item::{Item, Reader, readable};
use crate::media::TOMBSTONE;

/// What happened to a member's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    pub user_id: UserId,
    pub conversation_id: ConversationId,
    /// What phones were rung for, up to here, is read or deleted, or the conversation is gone. The same write can have brought news: a
    /// group's row goes over several entries at once.
    pub read: Option<Seq>,
    pub news: Option<Said>,
    /// What Lambda calls the record.
    pub sequence_number: String,
}

/// Somebody else wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    pub seq: Seq,
    pub at: Timestamp,
}

/// The changes of a batch, in their order, and how many records can't be read.
pub fn changes(batch: Batch) -> (Vec<RowChange>, u64) {
    readable(batch.records.into_iter().map(|record| {
        // The cause may quote what people wrote.
        let record = serde_json::from_value(record).map_err(|_| unusable("record"))?;
        read(record)
    }))
}

/// As Lambda hands it to a function: <https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html>.
#[derive(Debug, Deserialize)]
pub struct Batch {
    #[serde(rename = "Records")]
    records: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Record {
    dynamodb: Images,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Images {
    keys: HashMap<String, Attribute>,
    old_image: Option<HashMap<String, Attribute>>,
    new_image: Option<HashMap<String, Attribute>>,
    sequence_number: String,
}

/// The types that are looked at here.
#[derive(Deserialize)]
struct Attribute {
    #[serde(rename = "S")]
    text: Option<String>,
    #[serde(rename = "N")]
    number: Option<String>,
}

fn read(record: Record) -> Result<RowChange, Error> {
    let Images { keys, old_image, new_image, sequence_number } = record.dynamodb;
    let (keys, old, new) = (item(keys), old_image.map(item), new_image.map(item));
    let keys = reader(&keys);
    let user_id = keys.parsed("user_id", UserId::parse)?;
    let conversation_id = keys.parsed("conversation_id", ConversationId::parse)?;
    let (old, new) = (old.as_ref().map(reader), new.as_ref().map(reader));
    let (old, new) = (old.as_ref(), new.as_ref());
    let (rung, still_rung) = (seq_of(old, "notified_seq")?, seq_of(new, "notified_seq")?);
    let read = rung.filter(|_| still_rung.is_none());
    let news = news(&user_id, old, new)?;
    Ok(RowChange { user_id, conversation_id, read, news, sequence_number })
}

fn seq_of(row: Option<&Reader>, name: &'static str) -> Result<Option<Seq>, Error> {
    row.map_or(Ok(None), |row| row.optional(name, Reader::seq))
}

fn news(user: &UserId, old: Option<&Reader>, new: Option<&Reader>) -> Result<Option<Said>, Error> {
    let (Some(row), Some(seq)) = (new, seq_of(new, "last_seq")?) else { return Ok(None) };
    // A group's row says which of the entries rings.
    if row.item.contains_key("first_seq") {
        let before = seq_of(old, "news_seq").ok().flatten();
        let news = seq_of(new, "news_seq")?.filter(|now| before < Some(*now));
        return news.map(|seq| Ok(Said { seq, at: row.time("news_at")? })).transpose();
    }
    let is_new = seq_of(old, "last_seq")?.is_none_or(|before| before < seq);
    if !is_new || is_silent(row)? || row.text("last_sender_id")? == user.as_str() {
        return Ok(None);
    }
    Ok(Some(Said { seq, at: row.time("last_at")? }))
}

/// Others are left out: nothing of them is read.
fn item(image: HashMap<String, Attribute>) -> Item {
    let value = |Attribute { text, number }| text.map(AttributeValue::S).or_else(|| number.map(AttributeValue::N));
    image.into_iter().filter_map(|(name, attribute)| Some((name, value(attribute)?))).collect()
}

fn reader(item: &Item) -> Reader<'_> {
    Reader { item, table: STREAM }
}

const STREAM: &str = "a stream";

/// The groups whose heads a batch of the stream of `conversations` is about, each with what Lambda calls its record; and how many
/// records can't be read.
pub fn groups(batch: Batch) -> (Vec<(ConversationId, String)>, u64) {
    readable(batch.records.into_iter().map(|record| {
        let record: Record = serde_json::from_value(record).map_err(|_| unusable("record"))?;
        let keys = item(record.dynamodb.keys);
        Ok((reader(&keys).parsed("conversation_id", ConversationId::parse)?, record.dynamodb.sequence_number))
    }))
}

/// A media row that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    pub media_id: MediaId,
    pub kind: Kind,
    /// What S3 calls the upload that was not finished.
    pub upload_id: Option<String>,
    /// When the last PUT can have ended that was allowed. `None`: this is known to have passed.
    pub puts_end: Option<Timestamp>,
    /// What Lambda calls the record.
    pub sequence_number: String,
}

impl Removed {
    /// Where the object is.
    pub fn key(&self) -> String {
        object_key(&self.kind, &self.media_id)
    }
}

/// The rows that a batch of the stream of `media` says are gone, and how many records can't be read.
pub fn removed(batch: Batch) -> (Vec<Removed>, u64) {
    readable(batch.records.into_iter().map(|record| {
        let record: Record = serde_json::from_value(record).map_err(|_| unusable("record"))?;
        let Images { keys, old_image, sequence_number, .. } = record.dynamodb;
        let (keys, old) = (item(keys), item(old_image.unwrap_or_default()));
        let (row, keys) = (reader(&old), reader(&keys));
        let is_tombstone = old.contains_key(TOMBSTONE);
        let (ready_at, end) = (row.optional("ready_at", Reader::time)?, row.optional("expires_at", Reader::seconds)?);
        Ok(Removed {
            media_id: keys.parsed("media_id", MediaId::parse)?,
            kind: Kind::stored(row.text("kind")?),
            upload_id: row.optional("upload_id", Reader::text)?.map(str::to_owned),
            puts_end: (!is_tombstone).then(|| puts_end(ready_at, end)),
            sequence_number,
        })
    }))
}

fn unusable(attribute: &'static str) -> Error {
    Error::Item { table: STREAM.to_owned(), attribute }
}
