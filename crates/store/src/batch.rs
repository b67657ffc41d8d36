//! Many rows in one call.

use std::time::Duration;

use aws_sdk_dynamodb::types::KeysAndAttributes;

use crate::error::CallResult as _;
use crate::item::Item;
use crate::{Error, Store};

/// As many rows as `DynamoDB` reads in one call.
const KEYS_MAX: usize = 100;
/// Times that rows are asked for which the table did not take at once.
const READS_MAX: u32 = 5;
/// The pause before the second time; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(20);

/// The rows with these keys that there are, in no order. Each key once.
pub(crate) async fn rows(store: &Store, table: &str, keys: Vec<Item>, consistent: bool) -> Result<Vec<Item>, Error> {
    let mut found = vec![];
    for chunk in keys.chunks(KEYS_MAX) {
        let mut left = chunk.to_vec();
        for tries in 0..READS_MAX {
            let keys = KeysAndAttributes::builder().consistent_read(consistent).set_keys(Some(left)).build();
            let operation = "BatchGetItem";
            let keys =
                keys.map_err(|error| Error::Call { operation, table: table.to_owned(), source: error.into() })?;
            let got =
                store.client.batch_get_item().request_items(table, keys).send().await.of_call(operation, table)?;
            found.extend(got.responses.and_then(|mut tables| tables.remove(table)).unwrap_or_default());
            left = got
                .unprocessed_keys
                .and_then(|mut tables| tables.remove(table))
                .map(|keys| keys.keys)
                .unwrap_or_default();
            if left.is_empty() {
                break;
            }
            tokio::time::sleep(PAUSE * 2_u32.pow(tries)).await;
        }
        if !left.is_empty() {
            let source = "the table does not take all reads of a batch".into();
            return Err(Error::Call { operation: "BatchGetItem", table: table.to_owned(), source });
        }
    }
    Ok(found)
}
