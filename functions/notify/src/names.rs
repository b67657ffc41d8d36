//! The names that previews show: who wrote the message, and the title of the group.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::{Device, LastEntry, Membership, error_chain};
use store::{heads, profiles};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use wire::{ConversationId, Title, UserId};

use crate::Deps;
use crate::outcome::Cause;

/// A push without names is better than a late one.
const READ_TIMEOUT: Duration = Duration::from_millis(500);

/// The names of a batch. Each is read once, because the members of a group get one message.
#[derive(Debug, Default)]
pub(crate) struct Names {
    senders: Known<UserId>,
    groups: Known<ConversationId>,
}

impl Names {
    /// Returns what the previews of these phones show. Without a preview, nothing is read.
    pub(crate) async fn of(&self, deps: &Deps, row: &Membership, last: &LastEntry, devices: &[&Device]) -> push::Names {
        if !devices.iter().any(|device| device.registration.preview) {
            return push::Names::default();
        }
        let sender = async {
            let id = Some(&last.sender_id).filter(|_| deps.has_profiles)?;
            self.senders.get(id, async || name_of(deps, id).await).await
        };
        let conversation = async {
            row.view()?;
            let id = &row.conversation_id;
            self.groups.get(id, async || title_of(deps, id).await).await
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

#[derive(Debug)]
struct Known<K>(Mutex<HashMap<K, Arc<OnceCell<Option<Title>>>>>);

impl<K> Default for Known<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> Known<K> {
    /// A failed read sends the pushes of the batch without this name.
    async fn get(&self, id: &K, read: impl AsyncFnOnce() -> Result<Option<Title>, Cause>) -> Option<Title> {
        let cell = Arc::clone(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(id.clone()).or_default());
        let read = async || {
            let name = timeout(READ_TIMEOUT, read()).await.unwrap_or_else(|elapsed| Err(elapsed.into()));
            name.inspect_err(|error| tracing::warn!(error = error_chain(&**error), "a name was not read"))
                .ok()
                .flatten()
        };
        cell.get_or_init(read).await.clone()
    }
}
