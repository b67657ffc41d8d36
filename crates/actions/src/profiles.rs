//! Profiles of users, and the looks of groups and channels.

use domain::{Failure, Head, fit};
use futures_util::future::try_join_all;
use store::profiles::{self, Put};
use store::{channels, heads, roster};
use wire::{
    ConversationId, ConversationKind, ConversationProfile, JoinBy, Profile, ProfileChange, ProfileOf, ProfileResult,
    ProfilesRequest, ProfilesResult, Timestamp, UserId,
};

use crate::Actions;
use crate::retry::{Attempt, retry};

/// When a profile was written.
#[derive(Clone, Copy, Debug)]
pub enum WrittenAt {
    Now,
    /// The time at which the queue took the change. The later of two changes stays.
    Sent(Timestamp),
}

/// Returns the requested profiles that exist, as many as fit a frame. The profiles are eventually consistent, at half the
/// price.
pub(crate) async fn list(
    actions: &Actions,
    user: &UserId,
    request: &ProfilesRequest,
) -> Result<ProfilesResult, Failure> {
    actions.limits.profiles.check_on()?;
    let ProfilesRequest { user_ids, conversation_ids } = request;
    let mut found: Vec<ProfileOf> = vec![];
    if !user_ids.is_empty() {
        found.extend(profiles::get_many(&actions.store, user_ids).await?.into_iter().map(ProfileOf::User));
    }
    if !conversation_ids.is_empty() {
        let looks = seen_looks(actions, user, conversation_ids).await?;
        found.extend(looks.into_iter().map(ProfileOf::Conversation));
    }
    let id = |profile: &ProfileOf| match profile {
        ProfileOf::User(profile) => profile.user_id.to_string(),
        ProfileOf::Conversation(look) => look.conversation_id.to_string(),
    };
    let ids: Vec<String> = found.iter().map(id).collect();
    let profiles = fit(found);
    let left = ids.into_iter().skip(profiles.len()).collect();
    Ok(ProfilesResult { profiles, left })
}

/// Returns the looks that the user sees: of groups and channels with the user as a member, and of open channels. The
/// function reads the looks first: a user who is a member after that may see them.
async fn seen_looks(
    actions: &Actions,
    user: &UserId,
    conversations: &[ConversationId],
) -> Result<Vec<ConversationProfile>, Failure> {
    let looks = profiles::looks(&actions.store, conversations).await?;
    let of_kind = |kind: ConversationKind| -> Vec<ConversationId> {
        let of_kind = looks.iter().filter(|look| look.conversation_id.kind() == kind);
        of_kind.map(|look| look.conversation_id.clone()).collect()
    };
    let (groups, channels) = (of_kind(ConversationKind::Group), of_kind(ConversationKind::Channel));
    let mut seen: Vec<ConversationId> = vec![];
    if !groups.is_empty() {
        let rows = roster::of_user(&actions.store, user, &groups, true).await?;
        seen.extend(rows.into_iter().filter(|(_, row)| row.is_member()).map(|(group, _)| group));
    }
    let channels = channels.iter().map(async |channel| sees_channel(actions, user, channel).await);
    seen.extend(try_join_all(channels).await?.into_iter().flatten());
    Ok(looks.into_iter().filter(|look| seen.contains(&look.conversation_id)).collect())
}

/// Returns the channel if the user is a member, or may join.
async fn sees_channel(
    actions: &Actions,
    user: &UserId,
    channel: &ConversationId,
) -> Result<Option<ConversationId>, Failure> {
    let is_member = channels::get(&actions.store, user, channel).await?.is_some();
    let is_open = |head: Head| head.rules.join == Some(JoinBy::Open);
    let is_seen = is_member || heads::glance(&actions.store, channel).await?.is_some_and(is_open);
    Ok(is_seen.then(|| channel.clone()))
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
