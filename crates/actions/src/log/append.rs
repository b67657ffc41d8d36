//! An entry of a group or a channel: a message, a change of one, or of the group itself.

use domain::{Body, Content, Draft, Entry, Failure, Follows, GroupChange, Head, Place, RosterRow, Rules};
use store::entry_append::{self, GroupEntry};
use store::message_append::{self, AppendOutcome};
use store::{Store, channels, heads, media, messages};
use wire::{
    AddResult, Carried, ClientMsgId, ConversationId, ConversationKind, CreateRequest, MediaId, NotAdded, Refusal, Seq,
    System, UserId, channel_id, group_id,
};

use crate::Actions;
use crate::entry::{
    Appended, Commit, Concerned, FirstTry, StoredEntry, Tried, Writer, attempted, finished, random_bytes,
};
use crate::hook::{Judgement, judge};
use crate::log::plan::{Plan, Planned, plan};
use crate::log::writer::{Rows, is_author, rows};
use crate::retry::{Attempt, retry_times};

/// All members write at the same end of the log, so they meet more often than two do.
const GROUP_TRIES_MAX: u32 = 8;

/// The outcome of a change of a group.
#[derive(Debug)]
pub enum Changed {
    Entry(Box<Appended>),
    /// No entry, because no user is new. The users who could not be added.
    Nothing(Vec<NotAdded>),
}

impl Changed {
    /// Returns the entry of a change that always makes one.
    ///
    /// # Errors
    /// `not_member`: there is none.
    pub fn entry(self) -> Result<Appended, Refusal> {
        match self {
            Self::Entry(appended) => Ok(*appended),
            Self::Nothing(_) => Err(Refusal::NotMember),
        }
    }
}

/// Returns the change that creates a group or a channel, with its id and key.
pub fn creation(
    creator: &UserId,
    request: CreateRequest,
) -> Result<((ConversationId, ClientMsgId), GroupChange), Refusal> {
    let CreateRequest { client_msg_id, kind, title, members, history, post, add, join, rings, encrypted, look } =
        request;
    let (id, join) = match (kind, join) {
        (ConversationKind::Channel, join) => (channel_id(creator, &client_msg_id), Some(join.unwrap_or_default())),
        (ConversationKind::Direct | ConversationKind::Group, None) if rings.is_some() => {
            return Err(Refusal::bad_request("rings", "must be left out: this is not a channel"));
        }
        (ConversationKind::Direct | ConversationKind::Group, None) => (group_id(creator, &client_msg_id), None),
        (ConversationKind::Direct | ConversationKind::Group, Some(_)) => {
            return Err(Refusal::bad_request("join", "must be left out: this is not a channel"));
        }
    };
    let rules = Rules { history, post, add, join, rings: rings.unwrap_or_default() };
    Ok(((id, client_msg_id), GroupChange::Create { title, members, rules, encrypted, look }))
}

/// Returns the reply to `add`. Existing members stay as they are.
pub fn added(members: Vec<UserId>, changed: Changed) -> AddResult {
    let (appended, not_added) = match changed {
        Changed::Nothing(not_added) => (None, not_added),
        Changed::Entry(mut appended) => {
            let not_added = appended.take_not_added();
            (Some(*appended), not_added)
        }
    };
    let system = appended.as_ref().and_then(|appended| appended.entry.as_ref()?.system());
    let system = system.map(|body| &body.system);
    let is_new = |user: &UserId| matches!(system, Some(System::MembersAdded { members }) if members.contains(user));
    let (added, mut already): (Vec<UserId>, Vec<UserId>) = members.into_iter().partition(is_new);
    already.retain(|user| not_added.iter().all(|not_added| not_added.user_id != *user));
    AddResult { entry: appended.map(Appended::into_result), added, already, not_added }
}

/// Reads the head of the log, then the writer's row, and writes behind that head, until no other writer did in between. So
/// what allowed the entry holds at its commit: whatever could have taken the permission away is an entry, and would have moved the head.
pub(crate) async fn append(
    actions: &Actions,
    writer: Writer<'_>,
    draft: Draft,
    read: Option<Seq>,
    conflicts: &mut u64,
) -> Result<Changed, Failure> {
    let mut draft = measured(&actions.store, draft).await?;
    let (store, conversation) = (&actions.store, &draft.conversation_id.clone());
    let mut is_judged = false;
    let written = retry_times(GROUP_TRIES_MAX, conflicts, async || {
        let head = heads::get(store, conversation).await?;
        // Only now: a removal before the head was read shows here, and one after it moves the head.
        let rows = rows(store, &draft, head.as_ref()).await?;
        let place = Place::following(head.as_ref().map(|head| head.end), actions.now(), random_bytes());
        let own = rows.own.clone();
        let outcome = match plan(actions, &draft, head.as_ref(), &rows, &place).await {
            Ok(Planned::Entry(plan)) => {
                let target = plan.target.as_ref().and_then(Entry::message).map(|target| target.message);
                match judge(actions, &mut is_judged, &mut draft, (None, target)).await? {
                    Judgement::ReadAgain => return Ok(Attempt::Anew),
                    Judgement::Stored(first) => first,
                    Judgement::Write => {
                        match commit(actions, writer, (&draft, read), head.as_ref(), rows, *plan).await? {
                            Committed::Stored(stored) => return Ok(Attempt::Done(Written::Entry(stored))),
                            Committed::Not(outcome) => outcome,
                        }
                    }
                }
            }
            // A stored request keeps its reply, whatever has happened since.
            Ok(Planned::Nothing(not_added)) => match message_append::find(store, &draft).await? {
                Some(first) => first,
                None => return Ok(Attempt::Done(Written::Nothing(not_added))),
            },
            Err(Failure::Refused(refusal)) => message_append::find(store, &draft).await?.ok_or(refusal)?,
            Err(failure) => return Err(failure),
        };
        let mut concerned = concerned(conversation, head.as_ref());
        let outcome = match outcome {
            AppendOutcome::Duplicate(place, version) => {
                if let Concerned::Group { tried, .. } = &mut concerned {
                    *tried = Some(Tried::Before(FirstTry { user: draft.sender_id.clone(), place: place.clone() }));
                }
                AppendOutcome::Duplicate(answered_place(store, &draft, own.as_ref(), place).await?, version)
            }
            other => other,
        };
        Ok(match attempted(outcome, place, Follows::default(), concerned)? {
            Attempt::Done(first) => Attempt::Done(Written::Entry(Box::new((first, None)))),
            Attempt::Anew => Attempt::Anew,
            Attempt::Again => Attempt::Again,
            Attempt::AgainAfterPause => Attempt::AgainAfterPause,
        })
    })
    .await?;
    match written {
        Written::Nothing(not_added) => Ok(Changed::Nothing(not_added)),
        Written::Entry(written) => {
            let (written, entry) = *written;
            let mut appended = finished(store, draft, written).await?;
            appended.entry = entry.or(appended.entry);
            Ok(Changed::Entry(Box::new(appended)))
        }
    }
}

/// Gives the files of a commit their length and digest. A file that does not exist gets none, and is refused when it is
/// attached: a repeated request gets its first reply all the same.
async fn measured(store: &Store, mut draft: Draft) -> Result<Draft, Failure> {
    let wanted: Vec<MediaId> = draft.content.attached().iter().map(|file| file.media_id().clone()).collect();
    let Some(keys) = draft.content.commit_mut().filter(|_| !wanted.is_empty()) else { return Ok(draft) };
    let rows = media::get_many(store, &wanted).await?;
    for part in keys.parts_mut() {
        if let Carried::File { media_id, bytes, sha256 } = part
            && let Some(row) = rows.iter().find(|row| row.media_id == *media_id)
        {
            (*bytes, *sha256) = (Some(row.bytes), Some(row.sha256.clone()));
        }
    }
    Ok(draft)
}

/// The outcome of all attempts.
enum Written {
    /// With the entry as it was written, unless it was stored before.
    Entry(Box<(StoredEntry, Option<Entry>)>),
    /// No member is new.
    Nothing(Vec<NotAdded>),
}

/// The outcome of one transaction.
enum Committed {
    Stored(Box<(StoredEntry, Option<Entry>)>),
    Not(AppendOutcome),
}

/// Writes what is planned, in one transaction.
async fn commit(
    actions: &Actions,
    writer: Writer<'_>,
    (draft, read): (&Draft, Option<Seq>),
    previous: Option<&Head>,
    rows: Rows,
    mut plan: Plan,
) -> Result<Committed, Failure> {
    let (store, place) = (&actions.store, plan.entry.place.clone());
    plan.entry.origin = writer.origin.cloned();
    let mut head = match previous {
        Some(head) => head.after(&plan.entry, plan.decided.as_ref()),
        None => plan.first_head(draft)?,
    };
    if actions.limits.profiles.is_on() && draft.content.look().is_some() {
        head.group.info_seq = Some(place.seq);
    }
    if let Some(keys) = draft.content.commit() {
        head.seal.loose_tree = keys.loose_tree().cloned();
        actions.limits.count_commit(draft, &mut head.seal, actions.now())?;
    }
    let roster = plan.decided.as_ref().map(|decided| decided.roster.clone()).unwrap_or_default();
    match draft.conversation_id.kind() {
        ConversationKind::Channel => {
            plan.entry.counted = Some(head.counted);
            if let Some(first) = list_joiners(store, draft, previous, &roster, &place).await? {
                return Ok(Committed::Not(first));
            }
        }
        ConversationKind::Direct | ConversationKind::Group => {
            // A fact of the log: each row that applies the entry moves its author's marks by it.
            plan.entry.read_all = read.zip(previous).is_some_and(|(read, head)| read >= head.end.seq);
        }
    }
    let (entry, change, first_messages) = (&plan.entry, plan.change_of(draft, &actions.limits), plan.first_messages);
    let entry = GroupEntry { draft, entry, previous, head: &head, roster: &roster, change, first_messages };
    match entry_append::append(store, &entry).await? {
        AppendOutcome::Stored => {}
        other => return Ok(Committed::Not(other)),
    }
    actions.limits.count(draft, actions.now());
    let roster = rows.roster.map(|before| roster_after(before, &roster));
    let concerned = match concerned(&draft.conversation_id, Some(&head)) {
        Concerned::Group { member_count, .. } => {
            Concerned::Group { member_count, tried: Some(Tried::Now(Box::new(Commit { head, roster }))) }
        }
        other => other,
    };
    // As a reader finds it: an edit shows its target, which records the entry that edited it.
    let mut follows = Follows::default();
    if let Body::Edit { version, edited_seq, .. } = &mut plan.entry.body {
        (follows.version, *edited_seq) = (*version, Some(place.seq));
    }
    let place = plan.target.filter(|_| is_author(rows.own.as_ref())).map_or(place, |target| target.place);
    let stored = StoredEntry { place, follows, concerned, duplicate: false };
    Ok(Committed::Stored(Box::new((stored, Some(plan.entry)))))
}

/// The users whom an entry concerns. `head`: what the conversation was just before it, or is with it.
fn concerned(conversation: &ConversationId, head: Option<&Head>) -> Concerned {
    match (conversation.kind(), head) {
        (ConversationKind::Group, Some(head)) => {
            Concerned::Group { member_count: head.group.member_count, tried: None }
        }
        // A group that does not exist concerns no user.
        (ConversationKind::Direct | ConversationKind::Group | ConversationKind::Channel, _) => Concerned::Channel,
    }
}

/// Returns the place for the reply to a delete. A writer who is no member gets the place of the message, and not the
/// log's end.
async fn answered_place(store: &Store, draft: &Draft, own: Option<&RosterRow>, place: Place) -> Result<Place, Failure> {
    match &draft.content {
        Content::Change { target, .. } if is_author(own) => {
            Ok(messages::get(store, &draft.conversation_id, *target).await?.map_or(place, |target| target.place))
        }
        _ => Ok(place),
    }
}

/// The member list once these of its rows are written.
fn roster_after(mut roster: Vec<RosterRow>, written: &[RosterRow]) -> Vec<RosterRow> {
    roster.retain(|row| written.iter().all(|written| written.user_id != row.user_id));
    roster.extend_from_slice(written);
    roster
}

/// Writes joining users to a channel's member index, before they are members. With a used key no user joins, and a row
/// in the index would stay, so the function returns the stored outcome instead.
async fn list_joiners(
    store: &Store,
    draft: &Draft,
    head: Option<&Head>,
    roster: &[RosterRow],
    place: &Place,
) -> Result<Option<AppendOutcome>, Failure> {
    let joins = |row: &&RosterRow| row.left_seq.is_none() && row.joined_seq == place.seq;
    let joiners: Vec<UserId> = roster.iter().filter(joins).map(|row| row.user_id.clone()).collect();
    if !joiners.is_empty() && head.is_some() {
        let first = message_append::find(store, draft).await?;
        if first.is_some() {
            return Ok(first);
        }
    }
    channels::list_members(store, &draft.conversation_id, &joiners, place.sent_at).await?;
    Ok(None)
}
