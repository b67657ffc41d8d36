//! The mapping that delivers a queue's messages to a function.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use template::QueueMapping;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::PartialAnswer;
use crate::functions::Functions;
use crate::logs::Log;
use crate::queues::{Message, Queue, Queues};
use crate::sqs;

/// Lambda's own limit, where the template sets none.
const CONCURRENCY_MAX: usize = 1_000;

#[derive(Clone)]
pub(crate) struct QueuePoller {
    mapping: QueueMapping,
    queue: Arc<Queue>,
    functions: Arc<Functions>,
    visibility_max: Duration,
    log: Log,
}

impl QueuePoller {
    pub(crate) fn new(
        mapping: &QueueMapping,
        queues: &Queues,
        functions: &Arc<Functions>,
        visibility_max: Duration,
        log: &Log,
    ) -> anyhow::Result<Self> {
        let queue = queues.get(&mapping.queue).with_context(|| format!("{} is no queue", mapping.queue))?;
        let (mapping, functions) = (mapping.clone(), Arc::clone(functions));
        Ok(Self { mapping, queue: Arc::clone(queue), functions, visibility_max, log: log.clone() })
    }

    /// Runs until the server stops. A message group has one batch under way.
    pub(crate) async fn run(self) {
        let turns = Arc::new(Semaphore::new(self.mapping.concurrency_max.unwrap_or(CONCURRENCY_MAX)));
        let mut batches = JoinSet::new();
        loop {
            // The semaphore is never closed.
            let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
            let messages = self.queue.wait(self.mapping.batch_size, self.queue.settings.visibility).await;
            let poller = self.clone();
            batches.spawn(async move {
                poller.deliver(&messages).await;
                drop(turn);
            });
            while batches.try_join_next().is_some() {}
        }
    }

    /// Deletes successful messages; the others become visible again after their timeout.
    async fn deliver(&self, messages: &[Message]) {
        let records: Vec<_> = messages.iter().map(|message| sqs::record(&self.queue, message)).collect();
        let failed = match self.functions.invoke(&self.mapping.function, &json!({ "Records": records })).await {
            Ok(answer) if self.mapping.reports_failures => failed(&answer, messages),
            Ok(_) => vec![],
            Err(error) => {
                let line = json!({ "level": "ERROR", "message": error.to_string() });
                self.log.line(&self.mapping.function, &line.to_string());
                messages.iter().map(|message| message.sent.id.as_str()).collect()
            }
        };
        for message in messages {
            if !failed.contains(&message.sent.id.as_str()) {
                self.queue.delete(&message.receipt);
            } else if self.visibility_max < self.queue.settings.visibility {
                self.queue.change_visibility(&message.receipt, self.visibility_max);
            }
        }
    }
}

/// The ids of those that failed. An answer that is none, or names a message that was not there or none at all, says that all did.
fn failed<'a>(answer: &[u8], messages: &'a [Message]) -> Vec<&'a str> {
    let all = || messages.iter().map(|message| message.sent.id.as_str()).collect();
    let Ok(answer) = serde_json::from_slice::<Option<PartialAnswer>>(answer) else { return all() };
    let named = answer.unwrap_or_default().batch_item_failures.into_iter().map(|failure| {
        let id = failure.item_identifier.unwrap_or_default();
        messages.iter().map(|message| message.sent.id.as_str()).find(|known| *known == id)
    });
    named.collect::<Option<Vec<_>>>().unwrap_or_else(all)
}
