//! A page of what is pending.

use std::collections::BTreeMap;

use actions::{backlog, tell_delivered};
use domain::Failure;
use lambda::{Caller, EventLine, UpTo};
use wire::{DrainRequest, DrainResult, Message, Reply};

use crate::Deps;
use crate::ack::{Acked, raise_all};

/// The acknowledgement of the page before, then the next page. The client sets the pace, and a page that was lost on the way comes
/// again, since nothing but an ack ends what is pending. The page is read while the others are told of the acknowledgement.
pub(crate) async fn drain(
    deps: &Deps,
    caller: &Caller,
    request: &DrainRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let Acked { raised, outcome } = raise_all(deps, caller, &request.ack, line).await;
    let told = tell_delivered(&deps.store, &deps.fanout, deps.clock.now(), &raised);
    let page = async {
        outcome?;
        backlog(&deps.store, &caller.user).await
    };
    let (delivered, page) = tokio::join!(told, page);
    line.frames(delivered.iter().map(|to| to.frames));
    let page = page?;
    line.measures.messages = Some(page.messages.len() as u64);
    line.drained = ends(&page.messages);
    line.unreadable(page.unreadable);
    Ok(DrainResult { messages: page.messages, more: page.more }.into())
}

/// The last message of each conversation.
fn ends(messages: &[Message]) -> Vec<UpTo> {
    let ends: BTreeMap<_, _> = messages.iter().map(|message| (&message.conversation_id, message.seq)).collect();
    ends.into_iter().map(|(id, seq)| UpTo { conversation_id: id.clone(), seq }).collect()
}
