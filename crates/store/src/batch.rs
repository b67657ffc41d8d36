//! Many rows in one call.

use std::time::Duration;

use aws_sdk_dynamodb::types::KeysAndAttributes;
use futures_util::future::join_all;
use tokio::time::timeout;

use crate::error::CallResult as _;
use crate::item::Item;
use crate::{Error, Store};

/// As many rows as `DynamoDB` reads in one call.
pub(crate) const KEYS_MAX: usize = 100;
/// Maximum of requests for rows that the table did not process.
pub(crate) const READS_MAX: u32 = 5;
/// The pause before the second time; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a batch may take before its parts are read by themselves, and then each part.
const IN_TIME: Duration = Duration::from_millis(800);
/// Parts of a batch that took longer.
const PARTS: usize = 8;

/// Some rows, by their keys.
#[derive(Default)]
pub(crate) struct Rows {
    /// The rows found, in no order.
    pub(crate) found: Vec<Item>,
    /// The keys that the table does not take at the moment: a hot partition holds up the others of its batch no longer.
    pub(crate) left: Vec<Item>,
}

/// The rows with these keys that there are, in no order, where each of them decides. Each key once.
///
/// # Errors
/// Also where the table does not take all of the keys.
pub(crate) async fn all(store: &Store, table: &str, keys: Vec<Item>, consistent: bool) -> Result<Vec<Item>, Error> {
    let rows = rows(store, table, &keys, consistent, READS_MAX).await?;
    if rows.left.is_empty() {
        return Ok(rows.found);
    }
    let source = "the table does not take all reads of a batch".into();
    Err(Error::Call { operation: "BatchGetItem", table: table.to_owned(), source })
}

/// Reads the rows with these keys, each key once. Keys that the table does not process are requested again, `reads_max`
/// times in all.
pub(crate) async fn rows(
    store: &Store,
    table: &str,
    keys: &[Item],
    consistent: bool,
    reads_max: u32,
) -> Result<Rows, Error> {
    let mut rows = Rows::default();
    for chunk in keys.chunks(KEYS_MAX) {
        let mut left = chunk.to_vec();
        for tries in 0..reads_max {
            if tries > 0 {
                tokio::time::sleep(PAUSE * 2_u32.pow(tries - 1)).await;
            }
            let keys = KeysAndAttributes::builder().consistent_read(consistent).set_keys(Some(left)).build();
            let operation = "BatchGetItem";
            let keys =
                keys.map_err(|error| Error::Call { operation, table: table.to_owned(), source: error.into() })?;
            let got =
                store.client.batch_get_item().request_items(table, keys).send().await.of_call(operation, table)?;
            rows.found.extend(got.responses.and_then(|mut tables| tables.remove(table)).unwrap_or_default());
            left = got
                .unprocessed_keys
                .and_then(|mut tables| tables.remove(table))
                .map(|keys| keys.keys)
                .unwrap_or_default();
            if left.is_empty() {
                break;
            }
        }
        rows.left.extend(left);
    }
    Ok(rows)
}

/// Reads as [`rows`] does. If the batch takes too long, reads its parts concurrently, and then the parts of those that
/// take too long again. So one slow key of a full batch holds up itself alone. A table that is slow as a whole gets
/// nine calls, and leaves all keys.
pub(crate) async fn rows_in_time(
    store: &Store,
    table: &str,
    keys: &[Item],
    consistent: bool,
    reads_max: u32,
) -> Result<Rows, Error> {
    let (mut all, mut reading, mut tries) = (Rows::default(), vec![keys], reads_max);
    loop {
        let parts = reading.iter().map(|part| timeout(IN_TIME, rows(store, table, part, consistent, tries)));
        let (count, mut slow) = (reading.len(), vec![]);
        for (part, read) in reading.iter().zip(join_all(parts).await) {
            let Ok(read) = read else {
                slow.push(*part);
                continue;
            };
            let read = read?;
            all.found.extend(read.found);
            all.left.extend(read.left);
        }
        let is_table = count > 1 && slow.len() > count / 2;
        if is_table || slow.iter().all(|part| part.len() <= 1) {
            all.left.extend(slow.into_iter().flatten().cloned());
            return Ok(all);
        }
        let parts = slow.into_iter().flat_map(|part| part.chunks(part.len().div_ceil(PARTS)));
        (reading, tries) = (parts.collect(), 1);
    }
}
