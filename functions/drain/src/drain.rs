//! A page of what is pending.

use actions::{backlog, tell_delivered};
use domain::Failure;
use lambda::{Caller, EventLine};
use wire::{DrainRequest, DrainResult, Reply};

use crate::Deps;
use crate::ack::{Raised, raise_all};

/// The acknowledgement of the page before, then the next page. The client sets the pace, and a page that was lost on the way comes
/// again, since nothing but an ack ends what is pending. The page is read while the others are told of the acknowledgement.
pub(crate) async fn drain(
    deps: &Deps,
    caller: &Caller,
    request: &DrainRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let Raised { rows, outcome } = raise_all(deps, caller, &request.ack).await;
    let told = tell_delivered(&deps.fanout, deps.clock.now(), &rows);
    let page = async {
        outcome?;
        backlog(&deps.store, &caller.user).await
    };
    let (delivered, page) = tokio::join!(told, page);
    line.frames(delivered.iter().map(|to| to.frames));
    let page = page?;
    line.measures.messages = Some(page.messages.len() as u64);
    line.unreadable(page.unreadable);
    Ok(DrainResult { messages: page.messages, more: page.more }.into())
}
