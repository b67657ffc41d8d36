//! How much users write in groups, as far as one process can count.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::{Content, Draft, Encryption, Filled, Profiles, Rate, Seal};
use store::message_append::FirstMessage;
use wire::{ConversationId, Refusal, Timestamp, UserId};

/// A user's limits on writing.
#[derive(Debug)]
pub struct SendLimits {
    /// Entries in each conversation.
    pub sends: Rate,
    /// First messages to others, and others whom the user brings into a group without ever having written with them.
    pub first_messages: Rate,
    /// How long the operator can read the earlier text of a changed message. Zero: not at all.
    pub kept_for: Duration,
    /// Members of a group.
    pub group_members_max: u64,
    /// Whether users encrypt.
    pub encryption: Encryption,
    /// Whether each sealed message has a digest with which a member can prove it.
    pub sealed_reports: bool,
    /// More features of the deployment, by their names in `ping`.
    pub features: Vec<&'static str>,
    /// Whether the team's own servers get events.
    pub published: bool,
    /// Whether users have profiles.
    pub profiles: Profiles,
    /// How long the operator can read a report.
    pub reports_kept_for: Duration,
    /// Commits in each conversation, and births among them.
    pub commits: Rate,
    pub births: Rate,
    /// Counts of what users wrote in groups. In a direct conversation, a row that is written anyway has the count, and so
    /// has the head of a group for commits.
    in_groups: Mutex<Filled<(UserId, ConversationId)>>,
    /// The times of the users whom this process has refused a first message.
    strangers: Mutex<Filled<UserId>>,
}

/// No limit: of a function that writes nothing for users, and of a service, which writes what its owner likes.
impl Default for SendLimits {
    fn default() -> Self {
        Self::new(Rate::UNLIMITED, Rate::UNLIMITED, Duration::ZERO, 0)
    }
}

impl SendLimits {
    pub fn new(sends: Rate, first_messages: Rate, kept_for: Duration, group_members_max: u64) -> Self {
        let (in_groups, strangers) = (Mutex::default(), Mutex::default());
        Self {
            sends,
            first_messages,
            kept_for,
            group_members_max,
            encryption: Encryption::default(),
            sealed_reports: false,
            published: false,
            features: vec![],
            profiles: Profiles::default(),
            reports_kept_for: Duration::ZERO,
            commits: Rate::UNLIMITED,
            births: Rate::UNLIMITED,
            in_groups,
            strangers,
        }
    }

    /// Checks that a sealed message has media and a digest only where the server has the feature, and a digest where
    /// each must have one.
    pub(crate) fn check_features(&self, content: &Content) -> Result<(), Refusal> {
        let (media, frank) = match content {
            Content::Sealed { media, frank, .. } => (media, frank),
            Content::Message { .. }
            | Content::Commit(_)
            | Content::Change { .. }
            | Content::Group(_)
            | Content::Erased(_) => return Ok(()),
        };
        let is_on = self.encryption.is_on();
        let has_reports = is_on && self.sealed_reports;
        let problem = |feature| format!("must be left out: this server has no encryption.{feature}");
        if media.is_some() && !is_on {
            return Err(Refusal::bad_request("media", problem("media")));
        }
        if frank.is_some() && !has_reports {
            return Err(Refusal::bad_request("frank", problem("report")));
        }
        if has_reports && frank.is_none() { Err(Refusal::Forbidden) } else { Ok(()) }
    }

    /// Whether the entry of a group is within the rate of this process.
    pub(crate) fn admit(&self, draft: &Draft, now: Timestamp) -> Result<(), Refusal> {
        locked(&self.in_groups).admit(&self.sends, &key(draft), now).map_err(Refusal::rate_limited)
    }

    /// Counts an entry that was written.
    pub(crate) fn count(&self, draft: &Draft, now: Timestamp) {
        // An entry beyond the rate, admitted concurrently with another, does not count.
        let _ = locked(&self.in_groups).count(&self.sends, &key(draft), now);
    }

    /// Counts a commit in the group's head, where each process finds it.
    pub(crate) fn count_commit(&self, draft: &Draft, seal: &mut Seal, now: Timestamp) -> Result<(), Refusal> {
        let Some(commit) = draft.content.commit() else { return Ok(()) };
        let births = commit.is_birth().then_some((&self.births, &mut seal.births_until));
        for (rate, filled) in std::iter::once((&self.commits, &mut seal.commits_until)).chain(births) {
            if let Some(until) = take(rate, filled.get(&draft.sender_id).copied(), now)? {
                filled.insert(draft.sender_id.clone(), until);
            }
        }
        Ok(())
    }

    /// Refuses a first message if this process knows without a call that the rate is full. The time in the user's row
    /// only rises, so an earlier refusal holds until its wait ends.
    pub(crate) fn admit_first(&self, user: &UserId, now: Timestamp) -> Result<(), Refusal> {
        locked(&self.strangers).admit(&self.first_messages, user, now).map_err(Refusal::rate_limited)
    }

    /// Takes first messages to this number of strangers, by the time in the user's row. Remembers the time if the rate
    /// is full.
    pub(crate) fn take_first(
        &self,
        user: &UserId,
        was_until: Option<Timestamp>,
        now: Timestamp,
        strangers: u32,
    ) -> Result<Option<FirstMessage>, Refusal> {
        let rate = &self.first_messages;
        let taken = take_many(rate, was_until, now, strangers);
        if let (Err(_), Some(until)) = (&taken, was_until) {
            locked(&self.strangers).note(user, until);
        }
        Ok(taken?.map(|until| match was_until.filter(|was| *was > now) {
            Some(was) => FirstMessage::Further { filled_for: until.since(was), latest: rate.latest(now) },
            None => FirstMessage::AfterRest { was_until, until },
        }))
    }
}

fn key(draft: &Draft) -> (UserId, ConversationId) {
    (draft.sender_id.clone(), draft.conversation_id.clone())
}

/// Locks the counts, never across an await. After a panic, the value is still a count.
fn locked<T>(counts: &Mutex<T>) -> MutexGuard<'_, T> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nothing is kept of what has no limit.
pub(crate) fn take(rate: &Rate, filled_until: Option<Timestamp>, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
    take_many(rate, filled_until, now, 1)
}

/// Takes this number of entries in one step.
pub(crate) fn take_many(
    rate: &Rate,
    filled_until: Option<Timestamp>,
    now: Timestamp,
    count: u32,
) -> Result<Option<Timestamp>, Refusal> {
    if rate.is_unlimited() {
        return Ok(None);
    }
    rate.take_many(filled_until, now, count).map(Some).map_err(Refusal::rate_limited)
}
