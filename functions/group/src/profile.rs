//! `profile`: changes the user's own name and data.

use domain::Failure;
use lambda::{Caller, Core, EventLine};
use wire::{ProfileRequest, ProfileResult, ServerEvent};

/// Stores the change, and notifies the user's other devices. Other users request the profile when they show it.
pub(crate) async fn profile(
    core: &Core,
    caller: &Caller,
    request: &ProfileRequest,
    line: &mut EventLine,
) -> Result<ProfileResult, Failure> {
    let result = core.actions.change_own_profile(&caller.user, &request.set).await?;
    let event = ServerEvent::Profile(result.clone());
    let delivered = core.actions.tell_own(&caller.user, event, caller.origin.as_ref()).await;
    line.frames(delivered.iter().map(|to| to.frames));
    Ok(result)
}
