//! A user's access to a conversation, by the user's own row of it.

use domain::{ChannelRow, Encryption, Entry, Failure, Membership, RosterRow, Sight};
use store::inbox::Standing;
use store::{Store, channels, heads, inbox, roster};
use wire::{ConversationId, ConversationKind, Kind, Refusal, Seq, Target, Timestamp, UserId};

/// The user's own row, as it was read just now.
#[derive(Debug)]
pub enum Access {
    Direct(Box<Standing>),
    /// The row of the member list, also of a user who has just left.
    Group(Option<RosterRow>),
    Channel(Option<ChannelRow>),
}

/// Reads the row: one call, whatever the kind.
pub(crate) async fn own(store: &Store, user: &UserId, conversation: &ConversationId) -> Result<Access, Failure> {
    Ok(match conversation.kind() {
        ConversationKind::Direct => Access::Direct(Box::new(inbox::standing(store, user, conversation).await?)),
        ConversationKind::Group => Access::Group(roster::get(store, conversation, user).await?),
        ConversationKind::Channel => Access::Channel(channels::get(store, user, conversation).await?),
    })
}

impl Access {
    /// Returns the first entry that the user sees as a member.
    ///
    /// # Errors
    /// `not_member`
    pub fn first_seq(&self) -> Result<Seq, Refusal> {
        let first = match self {
            Self::Direct(standing) => standing.membership.as_ref().map(Membership::first_seq),
            Self::Group(own) => own.as_ref().filter(|own| own.is_member()).map(|own| own.from_seq),
            Self::Channel(own) => own.as_ref().map(|own| own.first_seq),
        };
        first.ok_or(Refusal::NotMember)
    }

    /// Decides it by the row alone, which has no epoch of a group.
    ///
    /// # Errors
    /// `not_member`; in a direct conversation also `forbidden`; `encryption_required` where nothing may be in the clear;
    /// `bad_request` where nothing may be sealed.
    pub(crate) fn check_upload(
        &self,
        user: &UserId,
        target: &Target,
        kind: &Kind,
        (encryption, now): (Encryption, Timestamp),
    ) -> Result<(), Refusal> {
        let not_sealed = |problem: &str| Refusal::bad_request("kind", problem);
        let is_sealed = *kind == Kind::Sealed;
        if is_sealed && !encryption.is_on() {
            return Err(not_sealed("must not be \"sealed\": this server has no encryption.media"));
        }
        let standing = match self {
            Self::Direct(standing) => standing,
            Self::Channel(_) if is_sealed => return Err(not_sealed("must not be \"sealed\": this is a channel")),
            Self::Group(own) => {
                self.first_seq()?;
                own.as_ref().map_or(Ok(()), |own| own.check_unrestricted(now))?;
                // The first keys of a group can be an upload.
                return if is_sealed { Ok(()) } else { encryption.check_clear(user, 0) };
            }
            Self::Channel(own) => {
                self.first_seq()?;
                return own.as_ref().map_or(Ok(()), |own| own.as_member().check_unrestricted(now));
            }
        };
        // A service reads nothing.
        let is_to_service = match (target, &standing.membership) {
            (Target::User(to), _) => to.is_service(),
            (Target::Conversation(_), Some(own)) => own.audience().others().iter().any(UserId::is_service),
            (Target::Conversation(_), None) => return Err(Refusal::NotMember),
        };
        if standing.blocked || is_to_service {
            return Err(Refusal::Forbidden);
        }
        let epoch = standing.membership.as_ref().map_or(0, |row| row.epoch);
        match (is_sealed, epoch) {
            (true, 0) => Err(not_sealed("must not be \"sealed\": the conversation is not")),
            (true, _) => Ok(()),
            (false, epoch) => encryption.check_clear(user, epoch),
        }
    }

    /// The row of the member list that a writer in a group or a channel has.
    pub(crate) fn into_member(self) -> Option<RosterRow> {
        match self {
            Self::Direct(_) => None,
            Self::Group(own) => own,
            Self::Channel(own) => own.as_ref().map(ChannelRow::as_member),
        }
    }

    /// Returns the visible part of a conversation whose log ended at `end` before the row was read. Returns `None`
    /// without a row.
    fn sight(&self, end: Option<Seq>) -> Option<Sight> {
        match self {
            Self::Direct(standing) => {
                standing.membership.as_ref().map(|row| Sight { last: row.end.seq, ..Sight::WHOLE })
            }
            Self::Group(own) => {
                let own = own.as_ref()?;
                Some(Sight { first: own.from_seq, last: own.left_seq.or(end)?, has_left: !own.is_member() })
            }
            Self::Channel(own) => Some(Sight { first: own.as_ref()?.first_seq, last: end?, has_left: false }),
        }
    }
}

/// Returns what a member sees of the conversation, or a user who was one.
pub(crate) async fn visible(store: &Store, user: &UserId, conversation: &ConversationId) -> Result<Sight, Failure> {
    Ok(visible_with_pins(store, user, conversation).await?.0)
}

/// Returns the same with the pinned messages of a group or a channel, as they are at the end of the sight. A former
/// member gets none: nothing records which messages were pinned at the leave.
pub(crate) async fn visible_with_pins(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
) -> Result<(Sight, Vec<Seq>), Failure> {
    let head = match conversation.kind() {
        ConversationKind::Direct => None,
        // The head first: a user who is a member after that may see everything up to there.
        ConversationKind::Group | ConversationKind::Channel => {
            Some(heads::get(store, conversation).await?.ok_or(Refusal::NotMember)?)
        }
    };
    let access = own(store, user, conversation).await?;
    if let Some(sight) = access.sight(head.as_ref().map(|head| head.end.seq)) {
        let mut pins = if sight.has_left { vec![] } else { head.map(|head| head.pins).unwrap_or_default() };
        pins.retain(|seq| *seq >= sight.first);
        return Ok((sight, pins));
    }
    let Access::Group(_) = access else { return Err(Refusal::NotMember.into()) };
    // Once the member list has no row of a former member, the inbox row records the leave.
    let row = inbox::get(store, user, conversation).await?;
    let sight = row.as_ref().filter(|row| !row.is_open()).map(Membership::sight);
    sight.map(|sight| (sight, vec![])).ok_or_else(|| Refusal::NotMember.into())
}

/// Returns what the user sees of entries that were read after `sight`. A message that was changed behind the end of `sight` takes a
/// second look: the user is still a member, or left before the change.
pub(crate) async fn seen_again(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
    sight: Sight,
    entries: &[&Entry],
) -> Result<Sight, Failure> {
    if !entries.iter().any(|entry| sight.is_short_of(entry)) {
        return Ok(sight);
    }
    let now = visible(store, user, conversation).await?;
    // The new row is of a later membership, and these entries are from before it.
    if now.first > sight.first { Ok(sight) } else { Ok(Sight { first: sight.first, ..now }) }
}
