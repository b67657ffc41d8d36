//! `media`: the life of a message's media. Each object in S3 has a row, and is removed soon after it; each user has a
//! row with the bytes uploaded.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::builders::{DeleteBuilder, UpdateBuilder};
use aws_sdk_dynamodb::types::{AttributeValue, Delete, ReturnValuesOnConditionCheckFailure, Update};
use domain::{Draft, MediaRow, Parts, Place};
use wire::{Attached, ConversationId, Digest, FileName, Kind, MediaId, MimeType, Refusal, Timestamp, UserId};

use crate::error::{CallResult as _, written};
use crate::item::{Item, Reader, VERSION, number, readable, text, version};
use crate::stream::{Removed, TOMBSTONE};
use crate::{Error, Store, Written, batch};

/// Notes what is announced.
pub async fn create(store: &Store, row: &MediaRow) -> Result<(), Error> {
    let table = &store.tables.media;
    let MediaRow { media_id, owner_id, conversation_id, kind, mime, bytes, sha256, parts, expires_at, .. } = row;
    let mut put = store
        .client
        .put_item()
        .table_name(table)
        .set_item(Some(key(media_id)))
        .item("owner_id", text(owner_id.as_str()))
        .item("conversation_id", text(conversation_id.as_str()))
        .item("kind", text(kind.as_str()))
        .item("mime", text(mime.as_str()))
        .item("bytes", number(bytes))
        .item("sha256", text(sha256.as_str()))
        .item("expires_at", number(expires_at.unwrap_or_default().seconds()))
        .item(VERSION, version())
        .condition_expression("attribute_not_exists(media_id)");
    if let Some(Parts { upload_id, digests }) = parts {
        put = put.item("upload_id", text(upload_id)).item("parts", packed(digests));
    }
    match put.send().await.of_call("PutItem", table) {
        // The id is random, so the row is from an earlier try whose reply was lost.
        Err(error) if error.is_refused() => Ok(()),
        // All else has left no row, perhaps: what was put without one would stay for ever.
        put => put.map(drop),
    }
}

/// Returns a row, if it exists.
pub async fn get(store: &Store, media_id: &MediaId) -> Result<Option<MediaRow>, Error> {
    let table = &store.tables.media;
    let get = store.client.get_item().table_name(table).consistent_read(true).set_key(Some(key(media_id)));
    let found = get.send().await.of_call("GetItem", table)?.item;
    found.filter(|item| !is_tombstone(item)).map(|item| read(table, &item)).transpose()
}

/// Returns the existing and readable ones of these rows.
pub async fn get_many(store: &Store, media_ids: &[MediaId]) -> Result<Vec<MediaRow>, Error> {
    let table = &store.tables.media;
    let items = batch::all(store, table, media_ids.iter().map(key).collect(), true).await?;
    Ok(readable(items.iter().filter(|item| !is_tombstone(item)).map(|item| read(table, item))).0)
}

/// Notes that all of it is there, if it still waits for that.
pub async fn note_ready(store: &Store, media_id: &MediaId, now: Timestamp) -> Result<Written, Error> {
    let table = &store.tables.media;
    let update = store
        .client
        .update_item()
        .table_name(table)
        .set_key(Some(key(media_id)))
        .update_expression("SET ready_at = :now REMOVE upload_id, parts")
        .condition_expression("attribute_not_exists(ready_at) AND expires_at > :now_s AND attribute_exists(owner_id)")
        .expression_attribute_values(":now", number(now.millis()))
        .expression_attribute_values(":now_s", number(now.seconds()));
    written(update.send().await.of_call("UpdateItem", table))
}

/// Returns the write that attaches the media, with its conditions. The write belongs to the message's transaction.
pub(crate) fn attach_update(store: &Store, draft: &Draft, place: &Place, media: &Attached) -> UpdateBuilder {
    let update = Update::builder()
        .table_name(&store.tables.media)
        .set_key(Some(key(media.media_id())))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .expression_attribute_names("#bytes", "bytes")
        .expression_attribute_values(":owner", text(draft.sender_id.as_str()))
        .expression_attribute_values(":conversation", text(draft.conversation_id.as_str()))
        .expression_attribute_values(":kind", text(kind(draft).as_str()))
        .expression_attribute_values(":now", number(place.sent_at.seconds()))
        .expression_attribute_values(":seq", number(place.seq));
    let media = match media {
        Attached::Clear(media) => media,
        Attached::Sealed(sealed) => {
            return update
                .update_expression("SET seq = :seq REMOVE expires_at")
                .condition_expression(ATTACHABLE)
                // No upload is empty.
                .expression_attribute_values(":bytes", number(sealed.bytes.unwrap_or_default()));
        }
    };
    let named = if media.name.is_some() { ", #name = :name" } else { "" };
    let update = update
        .update_expression(format!("SET seq = :seq{named} REMOVE expires_at"))
        .condition_expression(format!("{ATTACHABLE} AND mime = :mime AND sha256 = :sha256"))
        .expression_attribute_values(":mime", text(media.mime.as_str()))
        .expression_attribute_values(":bytes", number(media.bytes))
        .expression_attribute_values(":sha256", text(media.sha256.as_str()));
    match &media.name {
        None => update,
        Some(name) => {
            update.expression_attribute_names("#name", "name").expression_attribute_values(":name", text(name.as_str()))
        }
    }
}

/// Conditions: the user's own media, for this conversation, as announced, complete, in no other message, and not about
/// to be removed.
const ATTACHABLE: &str = "owner_id = :owner AND conversation_id = :conversation AND kind = :kind AND #bytes = :bytes \
                          AND attribute_exists(ready_at) AND attribute_not_exists(seq) AND expires_at > :now";

/// Why a message could not take it, by the row as it was then.
pub(crate) fn refusal(
    store: &Store,
    draft: &Draft,
    media: &Attached,
    now: Timestamp,
    item: Option<&Item>,
) -> Result<Refusal, Error> {
    let Some(item) = item.filter(|item| !is_tombstone(item)) else { return Ok(Refusal::Gone) };
    let row = read(&store.tables.media, item)?;
    // A commit names no kind.
    if draft.content.commit().is_some() && row.kind != Kind::Sealed {
        return Ok(Refusal::Gone);
    }
    Ok(row.refuses(&draft.sender_id, &draft.conversation_id, kind(draft), media, now))
}

/// Returns the kind of the uploads that this entry attaches.
fn kind(draft: &Draft) -> &Kind {
    if draft.content.commit().is_some() { &Kind::Sealed } else { draft.content.kind() }
}

/// Returns the write with which a file without an entry ends at this time.
pub(crate) fn end_update(store: &Store, media_id: &MediaId, end: Timestamp) -> UpdateBuilder {
    Update::builder()
        .table_name(&store.tables.media)
        .set_key(Some(key(media_id)))
        .update_expression("SET expires_at = :end")
        .expression_attribute_values(":end", number(end.seconds()))
}

/// The write with which a message that is deleted leaves what it carries.
pub(crate) fn media_delete(store: &Store, media_id: &MediaId) -> DeleteBuilder {
    Delete::builder().table_name(&store.tables.media).set_key(Some(key(media_id)))
}

/// Replaces a removed row while a client can still put the object: with the end of that row the object is removed
/// again.
pub async fn leave_tombstone(store: &Store, removed: &Removed, until: Timestamp, now: Timestamp) -> Result<(), Error> {
    let table = &store.tables.media;
    let put = store
        .client
        .put_item()
        .table_name(table)
        .set_item(Some(key(&removed.media_id)))
        .item("kind", text(removed.kind.as_str()))
        .item(TOMBSTONE, number(now.millis()))
        .item("expires_at", number(until.seconds() + 1))
        .item(VERSION, version());
    put.send().await.of_call("PutItem", table)?;
    Ok(())
}

/// Reads a row that does not exist, to see that the table replies.
pub async fn answers(store: &Store) -> Result<(), Error> {
    let table = &store.tables.media;
    let get = store.client.get_item().table_name(table).consistent_read(true).key("media_id", text("-"));
    get.send().await.of_call("GetItem", table).map(drop)
}

/// A row of another form: only its key is left.
fn is_tombstone(item: &Item) -> bool {
    item.contains_key(TOMBSTONE)
}

/// Until when what the user has uploaded fills the rate.
pub async fn uploads_until(store: &Store, user: &UserId) -> Result<Option<Timestamp>, Error> {
    let table = &store.tables.media;
    let get = store.client.get_item().table_name(table).consistent_read(true).set_key(Some(count_key(user)));
    let Some(item) = get.send().await.of_call("GetItem", table)?.item else { return Ok(None) };
    Reader { item: &item, table }.optional("uploads_until", Reader::time)
}

/// Counts an upload, if no other upload was counted meanwhile.
pub async fn count_upload(
    store: &Store,
    user: &UserId,
    was_until: Option<Timestamp>,
    until: Timestamp,
) -> Result<Written, Error> {
    let table = &store.tables.media;
    let put = store
        .client
        .put_item()
        .table_name(table)
        .set_item(Some(count_key(user)))
        .item("uploads_until", number(until.millis()))
        // Once the rate is empty again there is nothing to remember.
        .item("expires_at", number(until.seconds() + 1))
        .item(VERSION, version());
    let put = match was_until {
        None => put.condition_expression("attribute_not_exists(uploads_until)"),
        Some(was) => {
            put.condition_expression("uploads_until = :was").expression_attribute_values(":was", number(was.millis()))
        }
    };
    written(put.send().await.of_call("PutItem", table))
}

/// No upload's id has a space.
pub(crate) fn count_key(user: &UserId) -> Item {
    Item::from([("media_id".to_owned(), text(format!("uploads {user}")))])
}

pub(crate) fn key(media_id: &MediaId) -> Item {
    Item::from([("media_id".to_owned(), text(media_id.as_str()))])
}

/// As bytes they are two thirds as long, and a row stays within the KiB that a write unit pays for.
fn packed(digests: &[Digest]) -> AttributeValue {
    let bytes = digests.iter().filter_map(|digest| data_encoding::BASE64.decode(digest.as_str().as_bytes()).ok());
    AttributeValue::B(Blob::new(bytes.flatten().collect::<Vec<u8>>()))
}

fn read(table: &str, item: &Item) -> Result<MediaRow, Error> {
    let row = Reader { item, table };
    Ok(MediaRow {
        media_id: row.parsed("media_id", MediaId::parse)?,
        owner_id: row.parsed("owner_id", UserId::parse)?,
        conversation_id: row.parsed("conversation_id", ConversationId::parse)?,
        kind: Kind::stored(row.text("kind")?),
        mime: row.parsed("mime", MimeType::parse)?,
        bytes: row.count("bytes")?,
        sha256: row.parsed("sha256", Digest::parse)?,
        parts: row.optional("upload_id", parts)?,
        ready_at: row.optional("ready_at", Reader::time)?,
        seq: row.optional("seq", Reader::seq)?,
        name: row.optional("name", |row, name| row.parsed(name, FileName::parse))?,
        expires_at: row.optional("expires_at", Reader::seconds)?,
    })
}

fn parts(row: &Reader, attribute: &'static str) -> Result<Parts, Error> {
    let packed = row.item.get("parts").and_then(|value| value.as_b().ok()).ok_or_else(|| row.unusable("parts"))?;
    let digests = packed.as_ref().chunks(32).map(|bytes| Digest::parse(&data_encoding::BASE64.encode(bytes)));
    let digests = digests.collect::<Result<_, _>>().map_err(|_| row.unusable("parts"))?;
    Ok(Parts { upload_id: row.text(attribute)?.to_owned(), digests })
}
