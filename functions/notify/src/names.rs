//! The names that previews show: who wrote the message, and the title of the group.

use std::time::Duration;

use domain::{Device, LastEntry};
use store::{heads, profiles};
use tokio::time::timeout;
use wire::{ConversationId, Title, UserId};

use crate::Deps;
use crate::once::Once;
use crate::outcome::Cause;

/// A push without names is better than a late one.
const READ_TIMEOUT: Duration = Duration::from_millis(500);
const FAILURE: &str = "a name was not read";

/// The names of a batch. Each is read once, because the members of a group get one message.
#[derive(Debug, Default)]
pub(crate) struct Names {
    senders: Once<UserId, Title>,
    groups: Once<ConversationId, Title>,
}

impl Names {
    /// Returns what the previews of these phones show. Without a preview, nothing is read.
    /// `titled`: the group or the channel, which has a title.
    pub(crate) async fn of(
        &self,
        deps: &Deps,
        titled: Option<&ConversationId>,
        last: &LastEntry,
        devices: &[&Device],
    ) -> push::Names {
        if !devices.iter().any(|device| device.registration.preview) {
            return push::Names::default();
        }
        let sender = async {
            let id = Some(&last.sender_id).filter(|_| deps.has_profiles)?;
            self.senders.get(id, FAILURE, async || in_time(name_of(deps, id)).await).await
        };
        let conversation = async {
            let id = titled?;
            self.groups.get(id, FAILURE, async || in_time(title_of(deps, id)).await).await
        };
        let (sender, conversation) = tokio::join!(sender, conversation);
        push::Names { sender, conversation }
    }
}

async fn name_of(deps: &Deps, user: &UserId) -> Result<Option<Title>, Cause> {
    Ok(profiles::get_many(&deps.store, std::slice::from_ref(user)).await?.pop().and_then(|profile| profile.name))
}

async fn title_of(deps: &Deps, group: &ConversationId) -> Result<Option<Title>, Cause> {
    Ok(heads::glance(&deps.store, group).await?.and_then(|head| Title::parse(&head.group.title).ok()))
}

async fn in_time(read: impl Future<Output = Result<Option<Title>, Cause>>) -> Result<Option<Title>, Cause> {
    timeout(READ_TIMEOUT, read).await?
}
