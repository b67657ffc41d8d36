//! What a user sets for a conversation, or for another user.

use actions::{set, tell_own};
use domain::Failure;
use lambda::{Caller, EventLine};
use wire::{Reply, ServerEvent, Settings, SettingsResult};

use crate::Deps;

/// Sets it, and tells the user's own devices. Nobody else learns of it.
pub(crate) async fn settings(
    deps: &Deps,
    caller: &Caller,
    request: Settings,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    if let Settings::Conversation { conversation_id, .. } = &request {
        line.conversation_id = Some(conversation_id.clone());
    }
    set(&deps.store, &deps.fanout, deps.clock.now(), &caller.user, &request).await?;
    let (now, event) = (deps.clock.now(), ServerEvent::Settings(request));
    let delivered = tell_own(&deps.fanout, now, &caller.user, event, Some(&caller.connection)).await;
    line.frames(delivered.iter().map(|to| to.frames));
    Ok(SettingsResult {}.into())
}
