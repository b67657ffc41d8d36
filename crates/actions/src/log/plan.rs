//! Decides on a draft in a group or a channel, by its log.

use domain::{
    Body, Change, ChannelRow, Content, Decided, Draft, Entry, Failure, Follows, GroupChange, Head, Place, Rights,
    RosterRow, Rules, moderates,
};
use store::entry_append::ChangeOf;
use store::inbox::Acquaintance;
use store::message_append::FirstMessage;
use store::{Store, channels, roster};
use wire::{ConversationId, ConversationKind, Look, NotAdded, Refusal, Role, Seq, Timestamp, Title, UserId};

use crate::Actions;
use crate::entry::changeable;
use crate::log::newcomers::{barred, first_messages, has_room, known, meet, of_channel};
use crate::log::writer::{Rows, is_author};
use crate::sends::SendLimits;

/// The writes for an entry.
pub(crate) struct Plan {
    pub(crate) entry: Entry,
    pub(crate) decided: Option<Decided>,
    /// The message that it changes.
    pub(crate) target: Option<Entry>,
    /// The count of strangers whom the entry adds.
    pub(crate) first_messages: Option<FirstMessage>,
}

impl Plan {
    fn of(entry: Entry) -> Self {
        Self { entry, decided: None, target: None, first_messages: None }
    }

    fn decide(&mut self, decided: Decided) {
        self.entry.body = Body::System(Box::new(decided.body.clone()));
        self.decided = Some(decided);
    }

    pub(crate) fn first_head(&self, draft: &Draft) -> Result<Head, Refusal> {
        let encrypted = matches!(draft.content, Content::Group(GroupChange::Create { encrypted: true, .. }));
        let decided = self.decided.as_ref().ok_or(Refusal::NotMember)?;
        Ok(Head::first(&self.entry, decided, encrypted))
    }

    pub(crate) fn change_of<'a>(&'a self, draft: &'a Draft, limits: &SendLimits) -> Option<ChangeOf<'a>> {
        let Content::Change { change, .. } = &draft.content else { return None };
        let target = self.target.as_ref()?.message()?;
        let kept_until = (!limits.kept_for.is_zero()).then(|| self.entry.place.sent_at.plus(limits.kept_for));
        Some(ChangeOf { change, target, kept_until })
    }
}

/// The decision on a draft.
pub(crate) enum Planned {
    Entry(Box<Plan>),
    /// No member is new. The users who could not be added.
    Nothing(Vec<NotAdded>),
}

/// Decides whether the writer may write the draft now, and plans the writes. All reads come after that of the head.
pub(crate) async fn plan(
    actions: &Actions,
    draft: &Draft,
    head: Option<&Head>,
    rows: &Rows,
    place: &Place,
) -> Result<Planned, Failure> {
    let (user, now) = (&draft.sender_id, actions.now());
    if draft.content.look().is_some_and(|look| !look.is_empty()) {
        actions.limits.profiles.check_on()?;
    }
    if let Content::Group(GroupChange::Create { title, members, rules, encrypted, look }) = &draft.content {
        // Made before, by the same request or, with the same key, by another.
        if head.is_some() {
            return Err(Refusal::IdReused.into());
        }
        if *encrypted {
            check_encrypted(actions, user, members)?;
        }
        let plan = create(actions, draft, ((title, look), members, *rules), place, now).await?;
        return Ok(Planned::Entry(Box::new(plan)));
    }
    let (Some(head), Some(own)) = (head, rows.own.as_ref()) else { return Err(Refusal::NotMember.into()) };
    let mut plan = Plan::of(draft.clone().stored(place.clone(), Follows::default()));
    match &draft.content {
        Content::Message { reply_to, mentions, .. } => {
            check_message(head, own, reply_to.as_ref(), mentions)?;
            own.check_unrestricted(place.sent_at)?;
            crate::check_clear(actions, draft, head)?;
        }
        Content::Sealed { .. } | Content::Commit(_) => {
            actions.limits.encryption.check_on()?;
            actions.limits.check_features(&draft.content)?;
            // A restricted member's devices still take part in the keys.
            if draft.content.commit().is_none() {
                own.check_unrestricted(place.sent_at)?;
            }
            head.check_sealed(own.role, &draft.content)?;
            if !head.seal.encrypted {
                no_services(&actions.store, &draft.conversation_id, rows).await?;
            }
        }
        Content::Change { target, change } => {
            let found = changeable(&actions.store, &draft.conversation_id, *target).await?;
            let encrypted = crate::check_clear(actions, draft, head).is_err();
            plan = plan_change(draft, (head, own), (change, found, encrypted), place)?;
        }
        // The messages that it names are empty already.
        Content::Erased(_) => {}
        Content::Group(change) => {
            if let Err(not_added) = plan_group(actions, draft, change, (head, own, rows), &mut plan).await? {
                return Ok(Planned::Nothing(not_added));
            }
        }
    }
    actions.limits.admit(draft, now)?;
    if draft.content.commit().is_some() {
        actions.limits.count_commit(draft, &mut head.seal.clone(), now)?;
    }
    Ok(Planned::Entry(Box::new(plan)))
}

fn check_message(head: &Head, own: &RosterRow, reply_to: Option<&Seq>, mentions: &[UserId]) -> Result<(), Refusal> {
    let is_visible = |seq: &Seq| (own.from_seq..=head.end.seq).contains(seq);
    if !reply_to.is_none_or(is_visible) {
        return Err(Refusal::bad_request("reply_to", "must be the seq of a message of this conversation"));
    }
    head.check_message(own.role, mentions)
}

fn plan_change(
    draft: &Draft,
    (head, own): (&Head, &RosterRow),
    (change, found, encrypted): (&Change, Option<Entry>, bool),
    place: &Place,
) -> Result<Plan, Refusal> {
    let user = &draft.sender_id;
    // An author can always delete a message.
    let takes_back = |found: &Entry| matches!(change, Change::Delete) && found.sender_id == *user;
    let found = found.filter(|found| found.place.seq >= own.from_seq || takes_back(found));
    if found.is_none() && is_author(Some(own)) {
        return Err(Refusal::NotMember);
    }
    let blocked = own.check_unrestricted(place.sent_at).is_err();
    let moderates = moderates(own.role);
    let rights = Rights { blocked, moderates, encrypted, pins: moderates.then_some(&*head.pins) };
    let target = change.check(user, found.as_ref(), rights)?;
    let mut plan = Plan::of(draft.clone().stored(place.clone(), change.follows(user, target)));
    if let Body::Edit { target: of, .. }
    | Body::Delete { target: of, .. }
    | Body::Reaction { target: of, .. }
    | Body::Pin { target: of, .. } = &mut plan.entry.body
    {
        of.sender_id = Some(target.entry.sender_id.clone());
    }
    if let Body::Delete { mentions, uncounted, .. } = &mut plan.entry.body {
        mentions.clone_from(&target.message.mentions);
        *uncounted = !target.message.counts();
    }
    plan.target = found;
    Ok(plan)
}

/// `Err`: nothing, since no member is new. The users who can't be added.
async fn plan_group(
    actions: &Actions,
    draft: &Draft,
    change: &GroupChange,
    (head, own, rows): (&Head, &RosterRow, &Rows),
    plan: &mut Plan,
) -> Result<Result<(), Vec<NotAdded>>, Failure> {
    let Actions { store, limits, .. } = actions;
    let (user, conversation, now) = (&draft.sender_id, &draft.conversation_id, actions.now());
    if change.keys().is_some() {
        actions.limits.encryption.check_on()?;
    }
    let (subjects, members_max) = match conversation.kind() {
        ConversationKind::Channel if change.keys().is_some() => {
            crate::check_sealable(conversation).map(|()| (vec![], 0))?
        }
        ConversationKind::Channel => (subjects_of_channel(store, conversation, change).await?, u64::MAX),
        ConversationKind::Direct | ConversationKind::Group => {
            (rows.of(store, conversation, change.subjects()).await?, limits.group_members_max)
        }
    };
    let users = change.newcomers(user, &subjects);
    let newcomers = if head.may_add(own.role) { known(store, head, &subjects, users).await? } else { vec![] };
    let (not_added, joining) = barred(&newcomers, own.role);
    let met = if joining.is_empty() { None } else { meet(store, limits, user, &joining).await? };
    let place = plan.entry.place.clone();
    let Some(decided) = change.decide(head, own, (&subjects, &newcomers), &place, members_max)? else {
        return Ok(Err(not_added));
    };
    plan.decide(decided);
    plan.first_messages = first_messages(limits, user, met, now)?;
    Ok(Ok(()))
}

/// Checks a group that takes nothing in the clear from its start. A service could neither read nor write there.
fn check_encrypted(actions: &Actions, creator: &UserId, members: &[UserId]) -> Result<(), Refusal> {
    actions.limits.encryption.check_on()?;
    if creator.is_service() || members.iter().any(UserId::is_service) { Err(Refusal::Forbidden) } else { Ok(()) }
}

/// Checks that no service is a member of a group that becomes sealed. From then on none can be added.
async fn no_services(store: &Store, group: &ConversationId, rows: &Rows) -> Result<(), Failure> {
    let has_service = |roster: &[RosterRow]| roster.iter().any(|row| row.is_member() && row.user_id.is_service());
    let found = match &rows.roster {
        Some(roster) => has_service(roster),
        None => has_service(&roster::list(store, group, true).await?.0),
    };
    if found { Err(Refusal::Forbidden.into()) } else { Ok(()) }
}

async fn create(
    actions: &Actions,
    draft: &Draft,
    (named, members, rules): ((&Title, &Look), &[UserId], Rules),
    place: &Place,
    now: Timestamp,
) -> Result<Plan, Failure> {
    let Actions { store, limits, .. } = actions;
    let mut not_added = vec![];
    let mut members = members.to_vec();
    members.retain(|user| *user != draft.sender_id);
    if rules.join.is_some() {
        has_room(store, &draft.sender_id).await?;
        (not_added, members) = barred(&of_channel(store, members, &[]).await?, Role::Owner);
    }
    let members = &members;
    let mut decided = GroupChange::create(&draft.sender_id, named, members, rules, place);
    decided.body.not_added = not_added;
    // Others are or become members, so the group counts as a first message to at least one user.
    let met = meet(store, limits, &draft.sender_id, members).await?;
    let met = met.map(|met| Acquaintance { strangers: met.strangers.max(1), ..met });
    if decided.group.member_count > limits.group_members_max {
        return Err(Refusal::LimitReached.into());
    }
    let mut plan = Plan::of(draft.clone().stored(place.clone(), Follows::default()));
    plan.decide(decided);
    plan.first_messages = first_messages(limits, &draft.sender_id, met, now)?;
    Ok(plan)
}

async fn subjects_of_channel(
    store: &Store,
    channel: &ConversationId,
    change: &GroupChange,
) -> Result<Vec<RosterRow>, Failure> {
    if change.subjects().is_empty() {
        return Ok(vec![]);
    }
    let (rows, _) = channels::get_many(store, channel, change.subjects()).await?;
    Ok(rows.iter().map(ChannelRow::as_member).collect())
}
