//! A message, appended to a direct conversation.

use domain::{Audience, Content, Draft, Encryption, Failure, Follows, Membership, Place, error_chain};
use futures_util::future::try_join_all;
use store::connections::Freshness;
use store::inbox::Standing;
use store::message_append::{self, Append, AppendOutcome, FirstMessage, NewEntry};
use store::{Store, connections, inbox};
use wire::{Kind, Member, Refusal, Seq, Target, Timestamp, UserId, direct_conversation_id};

use crate::Actions;
use crate::entry::{Appended, Concerned, attempted, finished, random_bytes};
use crate::hook::{Judgement, judge};
use crate::retry::{Attempt, retry};
use crate::sends::{SendLimits, take, take_many};

/// The sends that a silent entry is to a user who never wrote.
const UNSEEN_WEIGHT: u32 = 20;

/// Reads where the conversation ends and writes behind it, until no other writer did in between.
pub(crate) async fn append(
    actions: &Actions,
    target: &Target,
    mut draft: Draft,
    (reply_to, read): (Option<Seq>, Option<Seq>),
    conflicts: &mut u64,
) -> Result<Appended, Failure> {
    let Actions { store, limits, .. } = actions;
    let sender = &draft.sender_id.clone();
    // In a service's conversation only the user has a row, which records the end.
    let owner = match target {
        Target::User(user) if sender.is_service() => user,
        Target::User(_) | Target::Conversation(_) => sender,
    };
    let (mut read_seq, mut is_judged) = (None, false);
    // A service reads nothing.
    let read = read.filter(|_| !sender.is_service());
    let written = retry(conflicts, async || {
        let now = actions.now();
        let standing = inbox::standing(store, owner, &draft.conversation_id).await?;
        let previous = standing.membership.as_ref();
        let audience = match (target, previous) {
            (Target::User(user), _) => Audience::direct(sender.clone(), user.clone()),
            (Target::Conversation(_), Some(row)) => row.audience(),
            (Target::Conversation(_), None) => return Err(Refusal::NotMember.into()),
        };
        let end = previous.map_or(Seq::ZERO, |row| row.end.seq);
        if reply_to.is_some_and(|reply_to| reply_to > end) {
            return Err(Refusal::bad_request("reply_to", "must be the seq of a message of this conversation").into());
        }
        let place = Place::following(previous.map(|row| row.end), now, random_bytes());
        let mut reads_all = false;
        let appended = match admit(store, limits, &standing, &audience, &draft.content, now).await? {
            Admission::Granted(counts) => {
                let peer = audience.others().first().unwrap_or(sender);
                match judge(actions, &mut is_judged, &mut draft, (Some(peer), None)).await? {
                    Judgement::Write => {
                        let Counts { sends_until, first_message, commits_until, births_until } = counts;
                        let entry = NewEntry {
                            draft: &draft,
                            place: &place,
                            audience: &audience,
                            sends_until,
                            follows: Follows::default(),
                        };
                        let append = Append { entry, previous, read, first_message, commits_until, births_until };
                        reads_all = append.reads_all();
                        message_append::append(store, &append).await?
                    }
                    Judgement::ReadAgain => return Ok(Attempt::Anew),
                    Judgement::Stored(first) => first,
                }
            }
            // A stored message keeps its reply. A copy can be stored after the row was read, with the epoch in it: so the
            // idempotency row is read after that.
            Admission::Refused(refusal) => message_append::find(store, &draft).await?.ok_or(refusal)?,
        };
        let (marks, moved) = own_marks(&appended, previous, &place, reads_all);
        read_seq = read.map(|_| marks);
        let moved = moved.filter(|_| read.is_some());
        attempted(appended, place, Follows::default(), Concerned::Audience(audience, moved))
    })
    .await?;
    Ok(Appended { read_seq, ..finished(store, draft, written).await? })
}

/// Returns the read mark of the sender after this outcome, and both marks for the event, if the entry moved them. Marks of a
/// duplicate are as they were read: a process that died between its commit and its post owes them.
fn own_marks(
    appended: &AppendOutcome,
    previous: Option<&Membership>,
    place: &Place,
    reads_all: bool,
) -> (Seq, Option<Member>) {
    let Some(row) = previous else { return (place.seq, None) };
    match appended {
        AppendOutcome::Duplicate(first, _) => {
            let is_told = !row.told_of_marks().others().is_empty();
            let moved = is_told && row.marks.read_seq >= first.seq;
            (row.marks.read_seq, moved.then(|| row.member()))
        }
        AppendOutcome::Stored
        | AppendOutcome::IdReused
        | AppendOutcome::MediaRefused(_)
        | AppendOutcome::Taken
        | AppendOutcome::Full => {
            let marks = row.marks.with_own(row.end.seq, place.seq, reads_all);
            let member = Member { delivered_seq: marks.delivered_seq, read_seq: marks.read_seq, ..row.member() };
            (marks.read_seq, reads_all.then_some(member))
        }
    }
}

/// Whether the sender may write a message now.
enum Admission {
    /// With what the limits count once the message is sent.
    Granted(Counts),
    /// Unless the message was stored before.
    Refused(Refusal),
}

/// The times until which the sender's rates are filled, with this entry.
#[derive(Default)]
struct Counts {
    sends_until: Option<Timestamp>,
    first_message: Option<FirstMessage>,
    commits_until: Option<Timestamp>,
    births_until: Option<Timestamp>,
}

/// Decides whether the sender may write this now, by the sender's own row. A first message to another user also depends
/// on that user's suspension, and on the count of first messages. A service's messages have no limit, and wait for a
/// user who is suspended.
async fn admit(
    store: &Store,
    limits: &SendLimits,
    standing: &Standing,
    audience: &Audience,
    content: &Content,
    now: Timestamp,
) -> Result<Admission, Failure> {
    if audience.own().is_service() {
        let is_barred = async |user: &UserId| connections::is_barred(store, user).await;
        let gone = match audience.others() {
            // Without a row, the first message would make one anew.
            [user] if standing.membership.is_none() => is_barred(user).await?,
            _ => standing.erased,
        };
        let refused = || Admission::Refused(Refusal::Forbidden);
        return Ok(if gone { refused() } else { Admission::Granted(Counts::default()) });
    }
    if let Err(refusal) = limits.check_features(content) {
        return Ok(Admission::Refused(refusal));
    }
    // A service reads nothing.
    let is_off = is_sealed(content) && !limits.encryption.is_on();
    if standing.blocked || is_off || audience.others().iter().any(UserId::is_service) {
        return Ok(Admission::Refused(Refusal::Forbidden));
    }
    let fits = check_epoch(limits.encryption, standing, audience.own(), content);
    let is_first = standing.membership.is_none() && !audience.others().is_empty();
    let counted = is_first && fits.is_ok() && !limits.first_messages.is_unlimited();
    if counted {
        // Nothing was stored when the row was read, so no earlier reply exists.
        limits.admit_first(audience.own(), now)?;
    }
    let (suspended, was_until) = tokio::join!(async { is_first && any_suspended(store, audience, now).await }, async {
        if counted { inbox::first_messages_until(store, audience.own()).await } else { Ok(None) }
    },);
    let was_until = was_until?;
    if suspended {
        return Ok(Admission::Refused(Refusal::Forbidden));
    }
    let take = || {
        fits?;
        let weight = weight(standing, audience, content)?;
        let sends_until = take_many(&limits.sends, standing.sends_until, now, weight)?;
        let mut counts = Counts { sends_until, ..Counts::default() };
        if let Content::Commit(commit) = content {
            counts.commits_until = take(&limits.commits, standing.commits_until, now)?;
            if commit.is_birth() {
                counts.births_until = take(&limits.births, standing.births_until, now)?;
            }
        }
        if counted {
            counts.first_message = limits.take_first(audience.own(), was_until, now, 1)?;
        }
        Ok(counts)
    };
    Ok(match take() {
        Ok(counts) => Admission::Granted(counts),
        Err(refusal) => Admission::Refused(refusal),
    })
}

/// Returns the number of sends that this entry is. A silent one of the app's own begins no conversation. To a
/// user who never wrote, it is many: such a user sees nothing to block.
fn weight(standing: &Standing, audience: &Audience, content: &Content) -> Result<u32, Refusal> {
    match content {
        Content::Message { kind: Kind::Own(_), .. } if !content.counts() => match &standing.membership {
            None => Err(Refusal::bad_request("kind", "must count: a silent entry can't begin a conversation")),
            Some(row) if row.sees_peer() || audience.others().is_empty() => Ok(1),
            Some(_) => Ok(UNSEEN_WEIGHT),
        },
        _ => Ok(1),
    }
}

fn is_sealed(content: &Content) -> bool {
    match content {
        Content::Sealed { .. } | Content::Commit(_) => true,
        Content::Message { .. } | Content::Change { .. } | Content::Group(_) | Content::Erased(_) => false,
    }
}

/// Checks that what is sealed is of the conversation's epoch, and that nothing is in the clear where it must not be.
fn check_epoch(encryption: Encryption, standing: &Standing, user: &UserId, content: &Content) -> Result<(), Refusal> {
    let row = standing.membership.as_ref();
    let now = row.map_or(0, |row| row.epoch);
    let epoch = match content {
        Content::Sealed { epoch, .. } => *epoch,
        Content::Commit(commit) => commit.epoch,
        Content::Message { .. } | Content::Change { .. } | Content::Group(_) | Content::Erased(_) => {
            return encryption.check_clear(user, now);
        }
    };
    if epoch == now {
        return Ok(());
    }
    let conversation_id = row.map(|row| row.conversation_id.clone());
    Err(Refusal::StaleEpoch { conversation_id, epoch: now, last_seq: row.map_or(Seq::ZERO, |row| row.end.seq) })
}

/// Whether `user` may write to each of these users.
///
/// # Errors
/// `forbidden`, or a row that was not read.
pub(crate) async fn check_reach(actions: &Actions, user: &UserId, others: &[&UserId]) -> Result<(), Failure> {
    let Actions { store, .. } = actions;
    if others.iter().any(|other| other.is_service()) {
        return Err(Refusal::Forbidden.into());
    }
    let now = actions.now();
    let reach = others.iter().map(|other| async move {
        let standing = inbox::standing(store, user, &direct_conversation_id(user, other)).await?;
        let audience = Audience::direct(user.clone(), (*other).clone());
        let is_first = standing.membership.is_none();
        let is_refused = standing.blocked || (is_first && any_suspended(store, &audience, now).await);
        if is_refused { Err(Failure::Refused(Refusal::Forbidden)) } else { Ok(()) }
    });
    try_join_all(reach).await.map(drop)
}

/// Whether a recipient of a first message is suspended. If that can't be read, the message is stored: it waits, as all
/// messages do for a user who can't connect.
async fn any_suspended(store: &Store, audience: &Audience, now: Timestamp) -> bool {
    let looks =
        audience.others().iter().map(|other| connections::suspended_until(store, other, now, Freshness::Strong));
    match try_join_all(looks).await {
        Ok(until) => until.iter().any(Option::is_some),
        Err(error) => {
            tracing::warn!(
                error = error_chain(&error),
                "the suspension of a recipient was not read; the recipient counts as not suspended"
            );
            false
        }
    }
}
