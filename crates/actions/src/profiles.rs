//! Profiles of users.

use domain::{Failure, fit};
use store::profiles::{self, Put};
use wire::{Profile, ProfileChange, ProfileResult, ProfilesRequest, ProfilesResult, Timestamp, UserId};

use crate::Actions;
use crate::retry::{Attempt, retry};

/// When a profile was written.
#[derive(Clone, Copy, Debug)]
pub enum WrittenAt {
    Now,
    /// The time at which the queue took the change. The later of two changes stays.
    Sent(Timestamp),
}

/// Returns the requested profiles that exist, as many as fit a frame. Eventually consistent, at half the price.
pub(crate) async fn list(actions: &Actions, request: &ProfilesRequest) -> Result<ProfilesResult, Failure> {
    actions.limits.profiles.check_on()?;
    let found = profiles::get_many(&actions.store, &request.user_ids).await?;
    let ids: Vec<UserId> = found.iter().map(|profile| profile.user_id.clone()).collect();
    let profiles = fit(found);
    let left = ids.into_iter().skip(profiles.len()).collect();
    Ok(ProfilesResult { profiles, left })
}

/// Changes a profile: one write, unless the row has a version of this millisecond or later. A version is a time in
/// milliseconds, and above the one before.
pub(crate) async fn change(
    actions: &Actions,
    user: &UserId,
    set: &ProfileChange,
    written_at: WrittenAt,
) -> Result<ProfileResult, Failure> {
    let mut to = match written_at {
        WrittenAt::Now => actions.now(),
        WrittenAt::Sent(at) => at,
    };
    let result = |to: Timestamp| ProfileResult { version: u64::try_from(to.millis()).unwrap_or_default() };
    retry(&mut 0, async || {
        let was = match profiles::put(&actions.store, user, set, to).await? {
            Put::Done => return Ok(Attempt::Done(result(to))),
            Put::Newer(None) => return Ok(Attempt::AgainAfterPause),
            Put::Newer(Some(was)) => was,
        };
        if let WrittenAt::Sent(at) = written_at
            && (was.version > result(at).version || has(&was, set))
        {
            return Ok(Attempt::Done(ProfileResult { version: was.version }));
        }
        to = Timestamp::from_millis(i64::try_from(was.version).unwrap_or_default().saturating_add(1));
        Ok(Attempt::Again)
    })
    .await
}

/// Whether the change changes nothing.
fn has(was: &Profile, set: &ProfileChange) -> bool {
    let ProfileChange { name, data } = set;
    name.as_ref().is_none_or(|name| *name == was.name) && data.as_ref().is_none_or(|data| *data == was.data)
}
