//! The messages that go first when a store is too large.

use pigeonhole_core::Write;
use rusqlite::{Connection, OptionalExtension, params};
use wire::{ConversationId, Seq};

use crate::Error;
use crate::rows::{REMOVED_MAX, channel_of, id_of, key_of, number_of, row_of, seq_of};

/// The number of a conversation's newest messages that always stay.
const KEPT_MIN: usize = 200;

/// Returns what to remove next. `None`: the store is small enough, or nothing may go.
pub(crate) fn next(connection: &Connection, messages_max: usize) -> Result<Option<Write>, Error> {
    let count: usize = connection.query_row("SELECT count(*) FROM message", (), |row| row.get(0))?;
    let excess = count.saturating_sub(messages_max).min(REMOVED_MAX);
    if excess == 0 {
        return Ok(None);
    }
    // A conversation without a row has no read mark.
    let mut list = connection.prepare("SELECT id FROM conversation WHERE sent_at IS NOT NULL ORDER BY sent_at, id")?;
    let mut list = list.query(())?;
    while let Some(row) = list.next()? {
        let conversation_id = id_of(&row.get::<_, String>(0)?)?;
        let read_seq = match row_of(connection, &conversation_id)? {
            Some(row) => Some(row.read_seq),
            None => channel_of(connection, &conversation_id)?.map(|row| row.read_seq),
        };
        let first_seq = first_to_stay(connection, &conversation_id, read_seq.unwrap_or_default(), excess)?;
        if let Some(first_seq) = first_seq {
            return Ok(Some(Write::Trim { conversation_id, first_seq }));
        }
    }
    Ok(None)
}

/// Returns the first message that stays when `excess` messages go, or as many as may. `None`: no message may go.
fn first_to_stay(
    connection: &Connection,
    id: &ConversationId,
    read_seq: Seq,
    excess: usize,
) -> Result<Option<Seq>, Error> {
    let Some(num) = number_of(connection, id)? else { return Ok(None) };
    let (first, end) = (key_of(num, 0), key_of(num + 1, 0));
    let key_at = |order: &str, below: i64, offset: usize| {
        let select =
            format!("SELECT key FROM message WHERE key >= ? AND key < ? ORDER BY key {order} LIMIT 1 OFFSET ?");
        connection.query_row(&select, params![first, below, offset], |row| row.get::<_, i64>(0)).optional()
    };
    let Some(newest) = key_at("DESC", end, KEPT_MIN - 1)? else { return Ok(None) };
    let stays = newest.min(key_of(num, read_seq.next().value()));
    if key_at("ASC", stays, 0)?.is_none() {
        return Ok(None);
    }
    let key = key_at("ASC", stays, excess)?.unwrap_or(stays);
    seq_of(key - first).map(Some)
}
