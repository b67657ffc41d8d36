//! A user looks at a channel.

use actions::{unwatch as end, watch as begin};
use domain::Failure;
use lambda::{Caller, EventLine};
use store::connections::Connection;
use wire::{Refusal, Reply, UnwatchRequest, UnwatchResult, WatchRequest};

use crate::Deps;

/// Has its entries come over this connection, for as long as that lives: pings keep it open, and with it the watch.
pub(crate) async fn watch(
    deps: &Deps,
    caller: &Caller,
    request: WatchRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let channel = line.conversation_id.insert(request.conversation_id);
    if !channel.is_channel() {
        return Err(Refusal::bad_request("conversation_id", "must be a channel's").into());
    }
    let Caller { user, connection, connected_at, token_expires_at, .. } = caller;
    let connection = Connection::new(connection.clone(), *connected_at, *token_expires_at);
    Ok(begin(&deps.store, deps.clock.now(), user, &connection, channel).await?.into())
}

pub(crate) async fn unwatch(
    deps: &Deps,
    caller: &Caller,
    request: UnwatchRequest,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    let channel = line.conversation_id.insert(request.conversation_id);
    end(&deps.store, &caller.user, &caller.connection, channel).await?;
    Ok(UnwatchResult {}.into())
}
