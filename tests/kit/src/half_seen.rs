//! Group transactions of which a query shows only a part. A transaction and a query are not isolated from each other.
//! For a while, a query may find the new head without the entry or the member's row. A query never loses an item that
//! it has found.
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html#transaction-isolation>

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use crate::{AwsCall, Fault};

/// Number of transactions whose writes are remembered.
const REMEMBERED: usize = 8;

/// A row that a query may not find yet.
#[derive(Debug, Clone)]
struct Written {
    table: String,
    key: Map<String, Value>,
    /// As the query then finds it.
    before: Option<Value>,
}

/// Items that no query finds before the first actor has finished.
#[derive(Debug, Clone)]
struct Hidden {
    actor: usize,
    transaction: u64,
    /// The transaction's items in this table are hidden.
    table: String,
}

#[derive(Debug, Default, Clone)]
pub struct HalfSeen {
    /// The last ones, oldest first, without what a query has found; each with its number.
    transactions: VecDeque<(u64, Vec<Written>)>,
    hidden: Option<Hidden>,
}

impl HalfSeen {
    /// The faults that this call can meet.
    pub(crate) fn faults(&self, call: &AwsCall) -> Vec<Fault> {
        let is_query = call.operation() == "Query" && !call.is_stale_read();
        let meets =
            |fault: &Fault| self.of(*fault).is_some_and(|(_, rows)| rows.iter().any(|row| row.is_in(call.body())));
        [Fault::Unseen, Fault::Hole].into_iter().filter(|fault| is_query && meets(fault)).collect()
    }

    pub(crate) fn hide(&mut self, actor: usize, fault: Fault, call: &AwsCall) {
        let table = call.body()["TableName"].as_str().unwrap_or_default().to_owned();
        self.hidden = self.of(fault).map(|(transaction, _)| Hidden { actor, transaction: *transaction, table });
    }

    /// All transactions so far show everywhere: their writers have the reply.
    pub fn settle(&mut self) {
        self.transactions.iter_mut().for_each(|(_, rows)| rows.clear());
    }

    /// Everything shows again that this actor did not find.
    pub(crate) fn reveal(&mut self, actor: usize) {
        self.hidden.take_if(|hidden| hidden.actor == actor);
    }

    /// Returns the items that a group's transaction is about to write, in their old form.
    pub(crate) fn about_to_write(call: &AwsCall) -> Vec<(String, Map<String, Value>)> {
        let writes = call.body()["TransactItems"].as_array().into_iter().flatten();
        let writes: Vec<&Value> = writes.filter_map(|write| write.as_object()?.values().next()).collect();
        if !writes.iter().any(|write| write["TableName"] == "ConversationsTable") {
            return vec![];
        }
        let keys = writes.into_iter().filter_map(|write| {
            let table = write["TableName"].as_str()?;
            let sort = match table {
                "MessagesTable" => "seq",
                "MembersTable" => "user_id",
                _ => return None,
            };
            let all = write.get("Key").or_else(|| write.get("Item"))?;
            let key = ["conversation_id", sort].map(|name| (name.to_owned(), all[name].clone()));
            Some((table.to_owned(), key.into_iter().collect()))
        });
        keys.collect()
    }

    /// A transaction has written these.
    pub(crate) fn wrote(&mut self, rows: impl Iterator<Item = ((String, Map<String, Value>), Option<Value>)>) {
        let rows = rows.map(|((table, key), before)| Written { table, key, before });
        let number = self.transactions.back().map_or(0, |(last, _)| last + 1);
        self.transactions.push_back((number, rows.collect()));
        while self.transactions.len() > REMEMBERED {
            self.transactions.pop_front();
        }
    }

    /// The answer to a query, as long as a part is hidden.
    pub(crate) fn answer(&mut self, call: &AwsCall, answer: String) -> String {
        let mut body: Value = serde_json::from_str(&answer).expect("an answer is JSON");
        let Some(items) = body["Items"].as_array_mut() else { return answer };
        let hidden = self.hidden.iter().flat_map(|hidden| {
            let of = self.transactions.iter().filter(|(number, _)| *number == hidden.transaction);
            of.flat_map(|(_, rows)| rows).filter(|row| row.table == hidden.table && row.is_in(call.body()))
        });
        for row in hidden {
            let Some(place) = items.iter().position(|item| row.is(item)) else { continue };
            match &row.before {
                Some(before) => items[place] = before.clone(),
                None => drop(items.remove(place)),
            }
        }
        let items = std::mem::take(items);
        for (_, rows) in &mut self.transactions {
            rows.retain(|row| {
                !(row.is_in(call.body()) && items.iter().any(|item| row.is(item) && row.before.as_ref() != Some(item)))
            });
        }
        (body["Count"], body["Items"]) = (json!(items.len()), json!(items));
        body.to_string()
    }

    fn of(&self, fault: Fault) -> Option<&(u64, Vec<Written>)> {
        match fault {
            Fault::Hole => self.transactions.iter().nth_back(1),
            _ => self.transactions.back(),
        }
    }
}

impl Written {
    fn is_in(&self, query: &Value) -> bool {
        query["TableName"] == self.table.as_str()
            && query["ExpressionAttributeValues"][":conversation"] == self.key["conversation_id"]
    }

    fn is(&self, item: &Value) -> bool {
        self.key.iter().all(|(name, value)| item[name] == *value)
    }
}
