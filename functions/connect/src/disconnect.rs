//! A socket that closes.

use actions::forget_watched;
use domain::Failure;
use lambda::{Diagnostic, InvocationEvent, NotFromApiGateway, Response, caller, line, respond};
use store::connections;

use crate::{Deps, presence, status};

/// Best effort on API Gateway's side, and so on ours: a row that stays falls to a 410 or to its TTL.
pub(crate) async fn disconnect(deps: &Deps, event: &InvocationEvent) -> Result<Response, Diagnostic> {
    let caller = caller(&event.payload)?;
    let connection = caller.connection().map_err(|_| NotFromApiGateway("requestContext.connectionId"))?;
    let mut line = line(event, &caller, deps.actions.clock.now());
    let forgotten = connections::forget(&deps.actions.store, &caller.user, connection).await;
    // Only now: a request that watches the user reads the connections, and this write shows that they changed.
    presence::closed(deps, &caller.user, &mut line).await;
    if let Ok(watched) = &forgotten {
        forget_watched(&deps.actions.store, connection, watched).await;
    }
    let outcome = forgotten.map_err(Failure::from);
    let status = status(&outcome);
    line.status = Some(status);
    line.write(&outcome, deps.actions.clock.now());
    Ok(respond(status, None))
}
