//! An entry of a group or a channel: a message, a change of one, or of the group itself.

use domain::{
    Change, ChannelRow, ConnectionId, Content, Decided, Draft, Failure, Follows, GroupChange, Head, Place, Rights,
    RosterRow, Rules, StoredMessage, channel_id, error_chain, group_id, moderates,
};
use futures_util::future::try_join_all;
use store::entry_append::{ChangeOf, GroupEntry};
use store::inbox::Acquaintance;
use store::message_append::{self, AppendOutcome, FirstMessage};
use store::{Store, channels, entry_append, heads, inbox, messages, roster};
use wire::limits::CHANNELS_PER_USER_MAX;
use wire::{
    AddResult, ClientMsgId, ConversationId, ConversationKind, CreateRequest, Refusal, Seq, System, Timestamp, UserId,
};

use crate::append::{Appended, Concerned, StoredEntry, finished, random_bytes};
use crate::retry::{Attempt, retry_times};
use crate::sends::{SendLimits, take_many};

/// All members write at the same end of the log, so they meet more often than two do.
const GROUP_TRIES_MAX: u32 = 8;

/// Who writes, and from where.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    pub user: &'a UserId,
    /// The connection that gets no copy.
    pub connection: Option<&'a ConnectionId>,
}

/// Changes a group, or makes one. `None`: everybody who was to be added is a member already.
pub async fn change_group(
    store: &Store,
    limits: &SendLimits,
    now: impl Fn() -> Timestamp,
    writer: Writer<'_>,
    (conversation_id, client_msg_id): (ConversationId, ClientMsgId),
    change: GroupChange,
    conflicts: &mut u64,
) -> Result<Option<Appended>, Failure> {
    let content = Content::Group(change);
    let draft = Draft { conversation_id, sender_id: writer.user.clone(), client_msg_id, content };
    append_to_group(store, limits, now, writer, draft, conflicts).await
}

/// What is to be made, and under which id.
pub fn creation(
    creator: &UserId,
    request: CreateRequest,
) -> Result<((ConversationId, ClientMsgId), GroupChange), Refusal> {
    let CreateRequest { client_msg_id, kind, title, members, history, post, add, join } = request;
    let (id, join) = match (kind, join) {
        (ConversationKind::Channel, join) => (channel_id(creator, &client_msg_id), Some(join.unwrap_or_default())),
        (_, None) => (group_id(creator, &client_msg_id), None),
        (_, Some(_)) => return Err(Refusal::bad_request("join", "must be left out: this is no channel")),
    };
    let rules = Rules { history, post, add, join };
    Ok(((id, client_msg_id), GroupChange::Create { title, members, rules }))
}

/// What is answered to who wanted these added. Those who are members already stay as they are.
pub fn added(members: Vec<UserId>, appended: Option<Appended>) -> AddResult {
    let Some(appended) = appended else { return AddResult { entry: None, added: vec![], already: members } };
    let system = appended.entry.as_ref().and_then(|entry| entry.system.as_ref());
    let is_new = |user: &UserId| matches!(system, Some(System::MembersAdded { members }) if members.contains(user));
    let (added, already) = members.into_iter().partition(is_new);
    AddResult { entry: Some(appended.into_result()), added, already }
}

/// Reads the head of the group's log, then who the writer is in it, and writes behind that head, until nobody else did in between. So
/// what allowed it holds at its commit: whatever could have taken it away is an entry, and would have moved the head.
pub(crate) async fn append_to_group(
    store: &Store,
    limits: &SendLimits,
    now: impl Fn() -> Timestamp,
    writer: Writer<'_>,
    draft: Draft,
    conflicts: &mut u64,
) -> Result<Option<Appended>, Failure> {
    let conversation = &draft.conversation_id;
    let written = retry_times(GROUP_TRIES_MAX, conflicts, async || {
        let now = now();
        let head = heads::get(store, conversation).await?;
        // Only now: a removal before the head was read shows here, and one after it moves the head.
        let own = member(store, &draft).await?;
        let place = Place::following(head.as_ref().map(|head| head.end), now, random_bytes());
        let outcome = match plan(store, limits, &draft, head.as_ref(), own.as_ref(), &place, now).await {
            Ok(Some(mut plan)) => {
                plan.entry.aside.origin = writer.connection.cloned();
                let head_after = match &head {
                    Some(head) => head.after(&plan.entry, plan.decided.as_ref()),
                    None => plan.first_head()?,
                };
                let roster = plan.decided.as_ref().map(|decided| decided.roster.as_slice()).unwrap_or_default();
                let mut first = None;
                if head_after.is_channel() {
                    plan.entry.aside.counted = Some(head_after.counted);
                    first = list_joiners(store, &draft, head.as_ref(), roster, &place).await?;
                }
                let change = plan.change_of(&draft, limits);
                let (entry, previous, first_messages) = (&plan.entry, head.as_ref(), plan.first_messages);
                let group =
                    GroupEntry { draft: &draft, entry, previous, head: &head_after, roster, change, first_messages };
                let outcome = match first {
                    Some(first) => first,
                    None => entry_append::append(store, &group).await?,
                };
                match outcome {
                    AppendOutcome::Stored => {
                        limits.count(writer.user, conversation, now);
                        unlist(store, conversation, &plan.removed).await;
                        let concerned = concerned(&head_after);
                        let follows = Follows { version: plan.entry.version, emoji_before: None };
                        let written = StoredEntry { place, follows, concerned, duplicate: false };
                        return Ok(Attempt::Done(Some((written, Some(plan.entry)))));
                    }
                    other => other,
                }
            }
            // What was stored before keeps its answer, whatever has happened since.
            Ok(None) => match message_append::find(store, &draft).await? {
                Some(first) => first,
                None => return Ok(Attempt::Done(None)),
            },
            Err(Failure::Refused(refusal)) => message_append::find(store, &draft).await?.ok_or(refusal)?,
            Err(failure) => return Err(failure),
        };
        let concerned = head.as_ref().map_or(Concerned::Channel, concerned);
        match outcome {
            AppendOutcome::Duplicate(place, version) => {
                let follows = Follows { version, emoji_before: None };
                Ok(Attempt::Done(Some((StoredEntry { place, follows, concerned, duplicate: true }, None))))
            }
            AppendOutcome::IdReused => Err(Refusal::IdReused.into()),
            AppendOutcome::MediaRefused(refusal) => Err(refusal.into()),
            AppendOutcome::Full => Err(Refusal::LimitReached.into()),
            AppendOutcome::Stored | AppendOutcome::Taken => Ok(Attempt::AgainAfterPause),
        }
    })
    .await?;
    let Some((written, entry)) = written else { return Ok(None) };
    let mut appended = finished(store, draft, written).await?;
    if entry.is_some() {
        appended.entry = entry;
    }
    Ok(Some(appended))
}

fn concerned(head: &Head) -> Concerned {
    if head.is_channel() { Concerned::Channel } else { Concerned::Group { member_count: head.group.member_count } }
}

/// Names who joins a channel in its directory: before they are members. With an id that was used before nobody joins, and a name in the
/// directory would stay there: then this gives what was stored.
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

/// The writer's row of the roster; in a channel that is their own row. An operator needs none.
async fn member(store: &Store, draft: &Draft) -> Result<Option<RosterRow>, Failure> {
    let (conversation, user) = (&draft.conversation_id, &draft.sender_id);
    if draft.is_by_operator() {
        return Ok(Some(RosterRow::of_operator(user.clone())));
    }
    if conversation.is_channel() {
        return Ok(channels::get(store, user, conversation).await?.as_ref().map(ChannelRow::as_member));
    }
    Ok(roster::get(store, conversation, user).await?.filter(RosterRow::is_member))
}

/// Who is no member of a channel any more need not be looked up in its directory. What stays there does no harm.
pub(crate) async fn unlist(store: &Store, channel: &ConversationId, removed: &[ChannelRow]) {
    for row in removed {
        if let Err(error) = channels::unlist_member(store, channel, &row.user_id, row.joined_at).await {
            tracing::warn!(error = error_chain(&error), "somebody who is no member stays in the directory");
        }
    }
}

/// What is to be written.
struct Plan {
    entry: StoredMessage,
    decided: Option<Decided>,
    /// The message that it changes.
    target: Option<StoredMessage>,
    /// What is counted of strangers whom it adds.
    first_messages: Option<FirstMessage>,
    /// Of a channel: the rows that it removes.
    removed: Vec<ChannelRow>,
}

impl Plan {
    fn of(entry: StoredMessage) -> Self {
        Self { entry, decided: None, target: None, first_messages: None, removed: vec![] }
    }

    fn decide(&mut self, decided: Decided) {
        self.entry.system = Some(decided.system.clone());
        self.entry.aside = decided.aside.clone();
        self.decided = Some(decided);
    }

    fn first_head(&self) -> Result<Head, Refusal> {
        let decided = self.decided.as_ref().ok_or(Refusal::NotMember)?;
        Ok(Head::first(&self.entry, decided))
    }

    fn change_of<'a>(&'a self, draft: &'a Draft, limits: &SendLimits) -> Option<ChangeOf<'a>> {
        let Content::Change { change, .. } = &draft.content else { return None };
        let target = self.target.as_ref()?;
        let kept_until = (!limits.kept_for.is_zero()).then(|| self.entry.place.sent_at.plus(limits.kept_for));
        Some(ChangeOf { change, target, kept_until })
    }
}

/// Whether the writer may write that now, and what it comes to; `None`: nothing. What it reads, it reads after the head.
async fn plan(
    store: &Store,
    limits: &SendLimits,
    draft: &Draft,
    head: Option<&Head>,
    own: Option<&RosterRow>,
    place: &Place,
    now: Timestamp,
) -> Result<Option<Plan>, Failure> {
    let user = &draft.sender_id;
    if let Content::Group(GroupChange::Create { .. }) = draft.content {
        return create(store, limits, draft, head, place, now).await.map(Some);
    }
    let (Some(head), Some(own)) = (head, own) else { return Err(Refusal::NotMember.into()) };
    let mut plan = Plan::of(draft.clone().stored(place.clone(), Follows::default()));
    match &draft.content {
        Content::Message { reply_to, mentions, .. } => {
            let is_visible = |seq: &Seq| (own.from_seq..=head.end.seq).contains(seq);
            if !reply_to.as_ref().is_none_or(is_visible) {
                return Err(
                    Refusal::bad_request("reply_to", "must be the seq of a message of this conversation").into()
                );
            }
            head.check_message(own.role, mentions)?;
        }
        Content::Change { target, change } => {
            let found = messages::get(store, &draft.conversation_id, *target).await?;
            let found = found.filter(|found| found.place.seq >= own.from_seq);
            let rights = Rights { blocked: false, moderates: moderates(own.role) };
            let target = change.check(user, found.as_ref(), rights)?.clone();
            plan.entry = draft.clone().stored(place.clone(), change.follows(user, &target));
            plan.entry.aside.target_sender = Some(target.sender_id.clone());
            if matches!(change, Change::Delete) {
                plan.entry.mentions.clone_from(&target.mentions);
            }
            plan.target = Some(target);
        }
        Content::Group(change) => {
            let (subjects, members_max) = if head.is_channel() {
                let rows = subjects_of_channel(store, draft, change).await?;
                let subjects = rows.iter().map(ChannelRow::as_member).collect();
                plan.removed = if matches!(change, GroupChange::Remove { .. }) { rows } else { vec![] };
                (subjects, u64::MAX)
            } else {
                let subjects = roster::get_many(store, &draft.conversation_id, change.subjects()).await?;
                (subjects, limits.group_members_max)
            };
            let newcomers = change.newcomers(user, &subjects);
            let met = if newcomers.is_empty() { None } else { meet(store, limits, user, &newcomers).await? };
            let decided = change.decide(head, own, &subjects, place, members_max)?;
            if head.is_channel() {
                everybody_has_room(store, &newcomers).await?;
            }
            let Some(decided) = decided else { return Ok(None) };
            plan.decide(decided);
            plan.first_messages = first_messages(limits, met, now)?;
        }
    }
    limits.admit(user, &draft.conversation_id, now)?;
    Ok(Some(plan))
}

async fn create(
    store: &Store,
    limits: &SendLimits,
    draft: &Draft,
    head: Option<&Head>,
    place: &Place,
    now: Timestamp,
) -> Result<Plan, Failure> {
    let Content::Group(GroupChange::Create { title, members, rules }) = &draft.content else {
        return Err(Refusal::UnknownAction.into());
    };
    // Made before, by the same request or, with the same key, by another.
    if head.is_some() {
        return Err(Refusal::IdReused.into());
    }
    let decided = GroupChange::create(&draft.sender_id, title, members, *rules, place);
    // Others find themselves in it, now or later, whoever they are: it counts as a first message to one at least.
    let met = meet(store, limits, &draft.sender_id, members).await?;
    let met = met.map(|met| Acquaintance { strangers: met.strangers.max(1), ..met });
    if decided.rules.join.is_some() {
        let all: Vec<UserId> = decided.roster.iter().map(|row| row.user_id.clone()).collect();
        everybody_has_room(store, &all).await?;
    } else if decided.group.member_count > limits.group_members_max {
        return Err(Refusal::LimitReached.into());
    }
    let mut plan = Plan::of(draft.clone().stored(place.clone(), Follows::default()));
    plan.decide(decided);
    plan.first_messages = first_messages(limits, met, now)?;
    Ok(plan)
}

async fn subjects_of_channel(store: &Store, draft: &Draft, change: &GroupChange) -> Result<Vec<ChannelRow>, Failure> {
    if change.subjects().is_empty() {
        return Ok(vec![]);
    }
    Ok(channels::get_many(store, &draft.conversation_id, change.subjects()).await?.0)
}

/// Nobody gets more channels than they can list.
pub(crate) async fn everybody_has_room(store: &Store, users: &[UserId]) -> Result<(), Failure> {
    let counts = try_join_all(users.iter().map(|user| channels::count(store, user))).await?;
    if counts.iter().any(|count| *count >= CHANNELS_PER_USER_MAX) {
        return Err(Refusal::LimitReached.into());
    }
    Ok(())
}

/// How the user stands with those whom they bring along. Nobody is brought together with somebody whom they block. No condition of the
/// transaction says so: one for each newcomer would cost as much as the newcomer does, and of fifty make it too long. Who blocks between
/// this look and the commit might as well have come just after it, since nothing of the group moved in between.
async fn meet(
    store: &Store,
    limits: &SendLimits,
    user: &UserId,
    newcomers: &[UserId],
) -> Result<Option<Acquaintance>, Failure> {
    // A service knows nobody, and nobody can block it.
    if user.is_service() {
        return Ok(None);
    }
    // What it may be told is for whoever runs it to decide.
    if newcomers.iter().any(UserId::is_service) {
        return Err(Refusal::Forbidden.into());
    }
    let others: Vec<&UserId> = newcomers.iter().filter(|other| *other != user).collect();
    let met = inbox::acquaintance(store, user, &others, !limits.first_messages.is_unlimited()).await?;
    if met.blocked { Err(Refusal::Forbidden.into()) } else { Ok(Some(met)) }
}

/// Strangers in a new group hear of somebody whom they don't know, as by a first message.
fn first_messages(
    limits: &SendLimits,
    met: Option<Acquaintance>,
    now: Timestamp,
) -> Result<Option<FirstMessage>, Refusal> {
    let Some(Acquaintance { strangers: strangers @ 1.., first_messages_until: was_until, .. }) = met else {
        return Ok(None);
    };
    let until = take_many(&limits.first_messages, was_until, now, strangers)?;
    Ok(until.map(|until| FirstMessage { was_until, until }))
}
