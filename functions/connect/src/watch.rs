//! `watch` and `unwatch`: a connection subscribes to a channel.

use domain::Failure;
use lambda::{Caller, EventLine};
use store::connections::Connection;
use wire::{Reply, UnwatchRequest, UnwatchResult, WatchRequest};

use crate::Deps;

/// Has its entries come over this connection, for as long as that lives: pings keep it open, and with it the watch.
pub(crate) async fn watch(
    deps: &Deps,
    caller: &Caller,
    request: WatchRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let channel = line.conversation_id.insert(request.conversation_id);
    let Caller { user, connected_at, token_expires_at, .. } = caller;
    let connection = Connection::new(caller.connection()?.clone(), *connected_at, *token_expires_at);
    Ok(deps.actions.watch(user, &connection, channel).await?.into())
}

pub(crate) async fn unwatch(
    deps: &Deps,
    caller: &Caller,
    request: UnwatchRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let channel = line.conversation_id.insert(request.conversation_id);
    deps.actions.unwatch(&caller.user, caller.connection()?, channel).await?;
    Ok(UnwatchResult {}.into())
}
