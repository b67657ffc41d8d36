//! The streams of `inbox`, `conversations`, `media`, `messages` and `audit`, as Lambda delivers them. Records have old
//! and new rows, moved groups, removed media rows, and news for the team's own servers.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{Look, object_key, puts_end};
use serde::Deserialize;
use serde_json::json;
use wire::{ConversationId, Kind, MediaId, ReportId, Seq, Timestamp, UserId};

use crate::inbox::is_silent;
use crate::item::{Item, Reader, readable};
use crate::{Error, replays, reports};

/// A change of a member's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    pub user_id: UserId,
    pub conversation_id: ConversationId,
    /// Pushes up to here are read or deleted, or the conversation is gone. The same write can contain news: a group's
    /// row applies several entries together.
    pub read: Option<Seq>,
    pub news: Option<Said>,
    /// Why `notify` must read the row again.
    pub look: Option<Look>,
    /// A badge counted the conversation, which is read now.
    pub uncounted: bool,
    /// What Lambda calls the record.
    pub sequence_number: String,
}

/// A message of another user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    pub seq: Seq,
    pub at: Timestamp,
}

/// The changes of a batch, in their order, and how many records can't be read.
pub fn changes(event: Looks) -> (Vec<RowChange>, u64) {
    let records = event.records.into_iter().map(|record| {
        // The cause may quote what people wrote.
        let record = serde_json::from_value(record).map_err(|_| unusable("record"))?;
        read(record)
    });
    let given_up = event.looks.into_iter().map(|Left { user_id, conversation_id, look }| {
        let look = Some(Look::parse(&look).ok_or_else(|| unusable("look"))?);
        Ok(RowChange {
            user_id,
            conversation_id,
            read: None,
            news: None,
            look,
            uncounted: false,
            sequence_number: String::new(),
        })
    });
    readable(records.chain(given_up))
}

/// What `notify` is invoked with: a batch of the stream of `inbox`, or what it gave up before.
#[derive(Debug, Deserialize)]
pub struct Looks {
    #[serde(rename = "Records", default)]
    records: Vec<serde_json::Value>,
    #[serde(default)]
    looks: Vec<Left>,
}

#[derive(Debug, Deserialize)]
struct Left {
    user_id: UserId,
    conversation_id: ConversationId,
    look: String,
}

/// Returns the event that makes `notify` try this task once more.
pub fn given_up(user: &UserId, conversation: &ConversationId, look: &Look) -> String {
    json!({"looks": [{"user_id": user, "conversation_id": conversation, "look": look.stored()}]}).to_string()
}

/// As Lambda hands it to a function: <https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html>.
#[derive(Debug, Deserialize)]
pub struct Batch {
    #[serde(rename = "Records")]
    records: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Record {
    #[serde(rename = "eventName", default)]
    event_name: String,
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

/// The attribute types that this file reads.
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
    let look = look(old, new)?;
    let is_badged = |row: Option<&Reader>| row.is_some_and(|row| row.item.contains_key("badged_at"));
    let uncounted = is_badged(old) && !is_badged(new);
    Ok(RowChange { user_id, conversation_id, read, news, look, uncounted, sequence_number })
}

/// Returns the job of this write.
fn look(old: Option<&Reader>, new: Option<&Reader>) -> Result<Option<Look>, Error> {
    let look_of = |row: Option<&Reader>| {
        row.map_or(Ok(None), |row| row.optional("look", Reader::text).map(|text| text.map(str::to_owned)))
    };
    let (before, now) = (look_of(old)?, look_of(new)?);
    Ok(now.filter(|now| before.as_ref() != Some(now)).and_then(|text| Look::parse(&text)))
}

fn seq_of(row: Option<&Reader>, name: &'static str) -> Result<Option<Seq>, Error> {
    row.map_or(Ok(None), |row| row.optional(name, Reader::seq))
}

fn news(user: &UserId, old: Option<&Reader>, new: Option<&Reader>) -> Result<Option<Said>, Error> {
    // A row of a channel has no entries.
    let (Some(row), Some(seq)) = (new, seq_of(new, "last_seq")?) else { return mention(old, new) };
    // A group's row names the entry that causes a push.
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

/// Returns the message of a channel that mentions the member.
fn mention(old: Option<&Reader>, new: Option<&Reader>) -> Result<Option<Said>, Error> {
    let before = seq_of(old, "mentioned_seq").ok().flatten();
    let mention = seq_of(new, "mentioned_seq")?.filter(|now| before < Some(*now)).zip(new);
    mention.map(|(seq, row)| Ok(Said { seq, at: row.time("mentioned_at")? })).transpose()
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

/// Digits that tell a stream record from the others of its shard.
const RECORD_DIGITS: usize = 9;

/// Returns a short form of Lambda's id of a record, which is the same when Lambda retries the record.
pub fn record_number(sequence_number: &str) -> Option<u64> {
    let start = sequence_number.len().saturating_sub(RECORD_DIGITS);
    sequence_number.get(start..)?.parse().ok()
}

/// Returns the groups in a batch of the stream of `conversations`, with Lambda's ids of their records. Also returns the
/// number of unreadable records.
pub fn groups(batch: Batch) -> (Vec<(ConversationId, String)>, u64) {
    readable(batch.records.into_iter().map(|record| {
        let record: Record = serde_json::from_value(record).map_err(|_| unusable("record"))?;
        let keys = item(record.dynamodb.keys);
        Ok((reader(&keys).parsed("conversation_id", ConversationId::parse)?, record.dynamodb.sequence_number))
    }))
}

/// News for the team's own servers: a key, and nothing of the row's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum New {
    Entry(ConversationId, Seq),
    Report {
        month: String,
        report_id: ReportId,
    },
    /// A step of a replay is due.
    Replay {
        job_id: String,
    },
}

/// Returns what is new in a batch of the stream of `messages` or of `audit`, with Lambda's ids of the records. Also
/// returns the number of unreadable records.
pub fn new(batch: Batch) -> (Vec<(New, String)>, u64) {
    let (new, unreadable) = readable(batch.records.into_iter().map(|record| {
        let record: Record = serde_json::from_value(record).map_err(|_| unusable("record"))?;
        let keys = item(record.dynamodb.keys);
        let new = new_by(&reader(&keys), record.event_name == "INSERT", record.event_name == "REMOVE")?;
        Ok(new.map(|new| (new, record.dynamodb.sequence_number)))
    }));
    (new.into_iter().flatten().collect(), unreadable)
}

/// An entry and a report are news once, and each write of a job is a step. The mappings' filters say the same.
fn new_by(keys: &Reader, is_insert: bool, is_remove: bool) -> Result<Option<New>, Error> {
    let partition = keys.text("conversation_id")?;
    if let Some(job_id) = partition.strip_prefix(replays::PREFIX) {
        return Ok((!is_remove).then(|| New::Replay { job_id: job_id.to_owned() }));
    }
    if !is_insert {
        return Ok(None);
    }
    if let Some(month) = partition.strip_prefix(reports::PREFIX) {
        let report_id = keys.parsed("seq_version", ReportId::parse)?;
        return Ok(Some(New::Report { month: month.to_owned(), report_id }));
    }
    // An earlier text in `audit` has another sort key.
    if !keys.item.contains_key("seq") {
        return Ok(None);
    }
    Ok(Some(New::Entry(keys.parsed("conversation_id", ConversationId::parse)?, keys.seq("seq")?)))
}

/// What `jobs` is invoked with: a batch of the stream of `audit`, or the daily rule.
#[derive(Debug, Deserialize)]
pub struct Due {
    #[serde(rename = "Records", default)]
    records: Vec<serde_json::Value>,
    /// Look after all jobs under way.
    #[serde(default)]
    pub daily: bool,
}

/// Returns the jobs in a batch of the stream of `audit`, with Lambda's ids of their records. Also returns the number of
/// unreadable records. A row that is gone is no job any more.
pub fn jobs(due: Due) -> (Vec<(String, String)>, u64) {
    let (jobs, unreadable) = readable(due.records.into_iter().map(|record| {
        let record: Record = serde_json::from_value(record).map_err(|_| unusable("record"))?;
        let keys = item(record.dynamodb.keys);
        let job = reader(&keys).text("conversation_id")?.strip_prefix(replays::PREFIX).map(str::to_owned);
        let job = job.filter(|_| record.event_name != "REMOVE");
        Ok(job.map(|job| (job, record.dynamodb.sequence_number)))
    }));
    (jobs.into_iter().flatten().collect(), unreadable)
}

pub(crate) const TOMBSTONE: &str = "removed_at";

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

/// What `media` is invoked with: a batch of the stream of `media`, or what it gave up before.
#[derive(Debug, Deserialize)]
pub struct Removals {
    #[serde(rename = "Records", default)]
    records: Vec<serde_json::Value>,
    #[serde(default)]
    removed: Vec<LeftBehind>,
}

#[derive(Debug, Deserialize)]
struct LeftBehind {
    media_id: MediaId,
    kind: String,
    upload_id: Option<String>,
    puts_end_ms: Option<i64>,
}

/// The event with which `media` removes this once more.
pub fn left_behind(row: &Removed) -> String {
    let Removed { media_id, kind, upload_id, puts_end, .. } = row;
    let puts_end_ms = puts_end.map(Timestamp::millis);
    let removed =
        json!({"media_id": media_id, "kind": kind.as_str(), "upload_id": upload_id, "puts_end_ms": puts_end_ms});
    json!({ "removed": [removed] }).to_string()
}

/// Returns the rows that an event reports as removed, and the number of unreadable records.
pub fn removed(event: Removals) -> (Vec<Removed>, u64) {
    let given_up = event.removed.into_iter().map(|LeftBehind { media_id, kind, upload_id, puts_end_ms }| {
        let (kind, puts_end) = (Kind::stored(&kind), puts_end_ms.map(Timestamp::from_millis));
        Ok(Removed { media_id, kind, upload_id, puts_end, sequence_number: String::new() })
    });
    let records = event.records.into_iter().map(|record| {
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
    });
    readable(records.chain(given_up))
}

fn unusable(attribute: &'static str) -> Error {
    Error::Item { table: STREAM.to_owned(), attribute }
}
