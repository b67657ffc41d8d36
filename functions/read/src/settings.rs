//! `settings`: stores a user's settings for a conversation or for another user.

use domain::Failure;
use lambda::{Caller, Core, EventLine};
use wire::{Reply, ServerEvent, Settings, SettingsResult};

/// Stores the settings, and notifies the user's other devices. No other user gets an event.
pub(crate) async fn settings(
    core: &Core,
    caller: &Caller,
    request: Settings,
    line: &mut EventLine,
) -> Result<Reply, Failure> {
    if let Settings::Conversation { conversation_id, .. } = &request {
        line.conversation_id = Some(conversation_id.clone());
    }
    core.actions.set(&caller.user, &request).await?;
    let event = ServerEvent::Settings(request);
    let delivered = core.actions.tell_own(&caller.user, event, caller.origin.as_ref()).await;
    line.frames(delivered.iter().map(|to| to.frames));
    Ok(SettingsResult {}.into())
}
