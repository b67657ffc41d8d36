//! Users who change their names. At the end each user sees the last name of all others.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use pigeonhole_client::{Error, Profile, ProfileChange, ProfileOf, Title, UserId};

use crate::user::User;

/// A user changes the name at one in this many events.
const RENAME_ONE_IN: u32 = 100;
/// Tries against failures of AWS.
const TRIES_MAX: usize = 20;

fn named(name: &str) -> ProfileChange {
    ProfileChange { name: Some(Some(Title::parse(name).expect("a name"))), data: None }
}

impl User {
    /// Changes the name now and then. A change that fails may have taken effect.
    pub(crate) fn may_rename(&mut self) {
        if self.rng.u32(..RENAME_ONE_IN) == 0 {
            let number = self.rng.u32(..);
            let rename = self.app.client.set_profile(named(&format!("{} {number}", self.name())));
            self.counts.renames.fetch_add(1, Relaxed);
            self.looking.spawn(async move { _ = rename.await });
        }
    }

    async fn set_last_name(&self) {
        until_ok(async || self.app.client.set_profile(named(&last_name(self.name()))).await).await;
    }

    async fn names(&self) -> BTreeMap<UserId, String> {
        let ids: Vec<UserId> = self.everybody.iter().map(|name| UserId::parse(name).expect("a name")).collect();
        let named = |profile: ProfileOf| match profile {
            ProfileOf::User(Profile { user_id, name, .. }) => Some((user_id, name?.as_str().to_owned())),
            ProfileOf::Conversation(_) => None,
        };
        let told = until_ok(async || self.app.client.profiles(ids.clone()).await).await;
        told.profiles.into_iter().filter_map(named).collect()
    }
}

/// Repeats a request that AWS fails.
async fn until_ok<T>(request: impl AsyncFn() -> Result<T, Error>) -> T {
    let mut last = None;
    for _ in 0..TRIES_MAX {
        match request().await {
            Ok(result) => return result,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("a request fails each time: {last:?}");
}

fn last_name(user: &str) -> String {
    format!("{user} at the end")
}

/// Returns the number of names that are not the last.
pub(crate) async fn check(users: &[User]) -> u64 {
    for user in users {
        user.set_last_name().await;
    }
    let mut wrong = 0;
    for user in users {
        let names = user.names().await;
        let is_last = |name: &&String| {
            let id = UserId::parse(name).expect("a name");
            names.get(&id).is_none_or(|told| *told != last_name(name))
        };
        wrong += user.everybody.iter().filter(is_last).count() as u64;
    }
    wrong
}
