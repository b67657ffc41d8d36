//! A page of what is pending.

use std::collections::BTreeMap;

use actions::PageBefore;
use domain::Failure;
use lambda::{Caller, Core, EventLine, UpTo};
use wire::{DrainRequest, DrainResult, Message, Reply};

use crate::ack::{Acked, raise_all};

/// Applies the request's `ack`, then returns the next page of pending messages.
///
/// If an entry of `ack` fails, the reply is that error and there is no page. The client sets the pace. A client that
/// lost the reply gets the same messages again, because only an `ack` ends pending. The page is read while the receipts
/// are sent.
pub(crate) async fn drain(
    core: &Core,
    caller: &Caller,
    request: &DrainRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let Acked { raised, outcome } = raise_all(core, caller, ("ack", &request.ack), line).await;
    let before = PageBefore::of(&raised);
    let told = core.actions.tell_delivered(raised);
    let page = async {
        outcome?;
        core.actions.backlog(&caller.user, before).await
    };
    let (delivered, page) = tokio::join!(told, page);
    line.frames(delivered.iter().map(|to| to.frames));
    let page = page?;
    line.measures.messages = Some(page.messages.len() as u64);
    line.drained = ends(&page.messages);
    line.unreadable(page.unreadable);
    line.has_hole = page.has_hole;
    Ok(DrainResult { messages: page.messages, more: page.more }.into())
}

/// The last message of each conversation.
fn ends(messages: &[Message]) -> Vec<UpTo> {
    let ends: BTreeMap<_, _> = messages.iter().map(|message| (&message.conversation_id, message.seq)).collect();
    ends.into_iter().map(|(id, seq)| UpTo { conversation_id: id.clone(), seq }).collect()
}
