//! Replays: which entries of a conversation go to the team's own servers again. Rows of the operator's table `audit`,
//! whose stream brings each to `publish`, as does each step that is noted in it.

use wire::{ConversationId, Seq, Timestamp};

use crate::error::{CallResult as _, written};
use crate::item::{Item, Reader, VERSION, number, text, version};
use crate::{Error, Store, Written};

/// Before a job's id in the key. No conversation's id has a space.
pub(crate) const PREFIX: &str = "job ";
/// The sort key of the row of a job.
pub(crate) const STATE: &str = "state";

/// The kind of these jobs.
pub(crate) const OP: &str = "replay";

/// A replay, with the entries that are left to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    pub job_id: String,
    pub conversation_id: ConversationId,
    /// The first entry that is left.
    pub next_seq: Seq,
    pub to_seq: Seq,
}

/// Begins a replay. Its row expires at `until`.
pub async fn put(store: &Store, replay: &Replay, until: Timestamp) -> Result<(), Error> {
    let table = &store.tables.audit;
    let put = store
        .client
        .put_item()
        .table_name(table)
        .set_item(Some(key(&replay.job_id)))
        .item("op", text(OP))
        .item("of", text(replay.conversation_id.as_str()))
        .item("next_seq", number(replay.next_seq))
        .item("to_seq", number(replay.to_seq))
        .item("expires_at", number(until.seconds()))
        .item(VERSION, version());
    put.send().await.of_call("PutItem", table).map(drop)
}

/// Returns a replay with something left to send.
pub async fn get(store: &Store, job_id: &str) -> Result<Option<Replay>, Error> {
    let table = &store.tables.audit;
    let get = store.client.get_item().table_name(table).consistent_read(true).set_key(Some(key(job_id)));
    let Some(item) = get.send().await.of_call("GetItem", table)?.item else { return Ok(None) };
    let row = Reader { item: &item, table };
    // Another job, which is not for `publish`.
    if row.text("op")? != OP {
        return Ok(None);
    }
    let replay = Replay {
        job_id: job_id.to_owned(),
        conversation_id: row.parsed("of", ConversationId::parse)?,
        next_seq: row.seq("next_seq")?,
        to_seq: row.seq("to_seq")?,
    };
    Ok(Some(replay).filter(|replay| replay.next_seq <= replay.to_seq))
}

/// Notes that everything below `next` is sent. `Lost`: another run of this step has noted it.
pub async fn advance(store: &Store, replay: &Replay, next: Seq) -> Result<Written, Error> {
    let table = &store.tables.audit;
    let update = store
        .client
        .update_item()
        .table_name(table)
        .set_key(Some(key(&replay.job_id)))
        .update_expression("SET next_seq = :next")
        .condition_expression("next_seq = :was")
        .expression_attribute_values(":next", number(next))
        .expression_attribute_values(":was", number(replay.next_seq));
    written(update.send().await.of_call("UpdateItem", table))
}

fn key(job_id: &str) -> Item {
    let key = [("conversation_id", format!("{PREFIX}{job_id}")), ("seq_version", STATE.to_owned())];
    key.map(|(name, value)| (name.to_owned(), text(value))).into()
}
