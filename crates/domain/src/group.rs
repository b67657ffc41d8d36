//! Groups and channels: their state, the permissions of members, and the effect of an entry.
//!
//! The log head has the last `seq` of a group's log and the group's state there. A row of the member list records one
//! member. A writer reads the head first and then the member list, and its write requires that the log still ends
//! there. So the decisions here still hold at the commit.

use serde::{Deserialize, Serialize};
use wire::limits::GROUP_CHANGE_MEMBERS_MAX;
use wire::{
    AllowedTo, ConversationId, ConversationKind, HistoryFrom, Info, Look, MutedUntil, NotAdded, Refusal, Rings, Role,
    Seq, System, Timestamp, Title, UserId,
};

use crate::change::pins_after;
use crate::draft::{Content, GroupChange, NewCommit, Rules};
use crate::encryption::Encryption;
use crate::entry::{Body, End, Entry, GroupInfo, LastEntry, Place, SystemBody, preview};
use crate::seal::Seal;

/// The mention that means all members.
pub(crate) const EVERYBODY: &str = "*";

/// A group or a channel, as its log has it up to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub conversation_id: ConversationId,
    pub group: GroupInfo,
    pub rules: Rules,
    pub end: End,
    /// The last message, which the chat list shows.
    pub line: LastEntry,
    /// The last entry that added a member, removed one, or changed a role.
    pub roster_seq: Seq,
    /// Channels only: the number of messages, including deleted ones.
    pub counted: u64,
    /// Groups only.
    pub seal: Seal,
    /// The pinned messages, the last pinned first.
    pub pins: Vec<Seq>,
}

/// A member of a group. The row of a user who left remains until the user's inbox row records that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RosterRow {
    pub user_id: UserId,
    pub role: Role,
    pub joined_seq: Seq,
    /// Below it they see nothing.
    pub from_seq: Seq,
    pub left_seq: Option<Seq>,
    /// How often they left the group by themselves since they last came by themselves.
    pub leaves: u64,
    /// Until then they may only read. A former member keeps it, for a return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restricted_until: Option<MutedUntil>,
}

/// A user who is to be added, as the group or the channel knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newcomer {
    pub user_id: UserId,
    /// As in their row of the roster, or in their view once they are in none.
    pub leaves: u64,
    /// An admin removed them from the channel.
    pub is_removed: bool,
    /// Others have added them to as many channels as they may.
    pub is_full: bool,
}

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    pub body: SystemBody,
    /// The group after the change.
    pub group: GroupInfo,
    pub rules: Rules,
    /// The rows of the roster that it writes.
    pub roster: Vec<RosterRow>,
}

impl RosterRow {
    pub fn is_member(&self) -> bool {
        self.left_seq.is_none()
    }

    /// Returns the row of a user who is no member. Such a user may delete their own messages.
    pub fn of_author(user_id: UserId) -> Self {
        let end = Seq::MAX;
        let left_seq = Some(end);
        Self { role: Role::None, left_seq, ..Self::joined(user_id, Role::None, end, HistoryFrom::Joined) }
    }

    /// Returns the row of an operator, who is in no member list, sees everything and may delete any message.
    pub fn of_operator(user_id: UserId) -> Self {
        Self::joined(user_id, Role::Admin, Seq::FIRST, HistoryFrom::All)
    }

    pub(crate) fn joined(user_id: UserId, role: Role, seq: Seq, history: HistoryFrom) -> Self {
        let from_seq = first_seq(history, seq);
        Self { user_id, role, joined_seq: seq, from_seq, left_seq: None, leaves: 0, restricted_until: None }
    }

    /// Checks whether the member may do more than read at this time.
    ///
    /// # Errors
    /// `forbidden`
    pub fn check_unrestricted(&self, at: Timestamp) -> Result<(), Refusal> {
        if self.restricted_until.is_some_and(|until| until.is_after(at)) { Err(Refusal::Forbidden) } else { Ok(()) }
    }
}

impl Newcomer {
    pub fn of(user_id: UserId) -> Self {
        Self { user_id, leaves: 0, is_removed: false, is_full: false }
    }

    /// Returns the reason why a member with this role can't add the user, or `None`. After a user's first leave, only
    /// an admin can add them, once. After the second leave, only they themselves come back.
    pub fn barred(&self, role: Role) -> Option<NotAdded> {
        let reason = if self.leaves > 1 || (self.leaves == 1 && !moderates(role)) {
            "left"
        } else if self.is_removed && !moderates(role) {
            "removed"
        } else if self.is_full {
            "limit_reached"
        } else {
            return None;
        };
        Some(NotAdded { user_id: self.user_id.clone(), reason: reason.to_owned() })
    }
}

/// Returns the first entry that a member sees who joined with the entry at `joined`.
pub(crate) fn first_seq(history: HistoryFrom, joined: Seq) -> Seq {
    match history {
        HistoryFrom::Joined => joined,
        HistoryFrom::All => Seq::FIRST,
    }
}

/// Whether this role may delete messages of others, change the group, and mention all members.
pub fn moderates(role: Role) -> bool {
    match role {
        Role::Owner | Role::Admin => true,
        Role::Member | Role::None => false,
    }
}

fn allows(who: AllowedTo, role: Role) -> bool {
    match who {
        AllowedTo::All => true,
        AllowedTo::Admins => moderates(role),
    }
}

impl Head {
    /// Whether a member with that role may add others.
    pub fn may_add(&self, role: Role) -> bool {
        allows(self.rules.add, role)
    }

    /// Whether a member with that role may write this message.
    ///
    /// # Errors
    /// `forbidden`, and `bad_request` for mentions in a channel that does not send push notifications.
    pub fn check_message(&self, role: Role, mentions: &[UserId]) -> Result<(), Refusal> {
        if self.rules.join.is_some() && !mentions.is_empty() && self.rules.rings == Rings::Off {
            return Err(Refusal::bad_request("mentions", "must be left out: rings of this channel is off"));
        }
        let calls_everybody = mentions.iter().any(|id| *id == EVERYBODY);
        if allows(self.rules.post, role) && (moderates(role) || !calls_everybody) {
            Ok(())
        } else {
            Err(Refusal::Forbidden)
        }
    }

    /// Returns the head after this entry, which changes the group as `decided` describes.
    #[must_use]
    pub fn after(&self, entry: &Entry, decided: Option<&Decided>) -> Self {
        let mut head = self.clone();
        head.end = End { seq: entry.place.seq, sent_at: entry.place.sent_at };
        match self.conversation_id.kind() {
            ConversationKind::Channel => head.counted += u64::from(entry.counts()),
            ConversationKind::Direct | ConversationKind::Group => {}
        }
        match &entry.body {
            Body::Message(message) if !message.counts() => {}
            Body::Message(_) | Body::System(_) => head.line = entry.line(),
            Body::Edit { target, text, .. } if target.seq == head.line.seq => head.line.preview = preview(text),
            Body::Delete { target, .. } if target.seq == head.line.seq => {
                (head.line.preview, head.line.deleted) = (String::new(), true);
            }
            Body::Pin { target, pinned } => head.pins = pins_after(&self.pins, target.seq, *pinned),
            Body::Erased(erased) => head.line.erase(erased),
            Body::Edit { .. } | Body::Delete { .. } | Body::Reaction { .. } | Body::Commit(_) | Body::Other { .. } => {}
        }
        head.seal = self.seal.after(entry);
        if let Some(decided) = decided {
            head.group = decided.group.clone();
            head.rules = decided.rules;
            if !decided.roster.is_empty() {
                head.roster_seq = entry.place.seq;
            }
        }
        head
    }

    /// A group that begins with this entry.
    pub fn first(entry: &Entry, decided: &Decided, encrypted: bool) -> Self {
        Self {
            conversation_id: entry.conversation_id.clone(),
            group: decided.group.clone(),
            rules: decided.rules,
            end: End { seq: entry.place.seq, sent_at: entry.place.sent_at },
            line: entry.line(),
            roster_seq: entry.place.seq,
            counted: 0,
            seal: Seal { encrypted, ..Seal::default() },
            pins: vec![],
        }
    }
}

/// Returns the number of members that the head has.
fn counted(rules: Rules, member_count: u64) -> u64 {
    if rules.join.is_some() { 0 } else { member_count }
}

impl GroupChange {
    /// Returns the users whose rows of the member list the decision needs, in addition to the caller's own.
    pub fn subjects(&self) -> &[UserId] {
        match self {
            Self::Add { members, .. } => members,
            Self::Remove { user, .. } | Self::Role { user, .. } | Self::Restrict { user, .. } => {
                std::slice::from_ref(user)
            }
            Self::Create { .. } | Self::Leave | Self::Return | Self::Update { .. } => &[],
        }
    }

    /// Returns the users who would be new in the group, by the rows of [`Self::subjects`].
    pub fn newcomers(&self, creator: &UserId, subjects: &[RosterRow]) -> Vec<UserId> {
        let is_member = |user: &UserId| subjects.iter().any(|row| row.user_id == *user && row.is_member());
        match self {
            Self::Create { members, .. } => members.iter().filter(|user| *user != creator).cloned().collect(),
            Self::Add { members, .. } => members.iter().filter(|user| !is_member(user)).cloned().collect(),
            Self::Remove { .. }
            | Self::Leave
            | Self::Return
            | Self::Role { .. }
            | Self::Restrict { .. }
            | Self::Update { .. } => vec![],
        }
    }

    /// Returns the outcome of creating a group.
    pub fn create(
        creator: &UserId,
        (title, look): (&Title, &Look),
        members: &[UserId],
        rules: Rules,
        place: &Place,
    ) -> Decided {
        let others = members.iter().filter(|user| *user != creator).map(|user| (user.clone(), Role::Member));
        let all: Vec<_> = std::iter::once((creator.clone(), Role::Owner)).chain(others).collect();
        let names = all.iter().map(|(user, _)| user.clone()).collect();
        let roster: Vec<_> =
            all.into_iter().map(|(user, role)| RosterRow::joined(user, role, place.seq, rules.history)).collect();
        Decided {
            body: SystemBody {
                history: Some(rules.history),
                ..SystemBody::of(System::Created { title: title.clone(), members: names, look: Box::new(look.clone()) })
            },
            group: GroupInfo {
                title: title.as_str().to_owned(),
                member_count: counted(rules, roster.len() as u64),
                info_seq: None,
            },
            rules,
            roster,
        }
    }

    /// Decides the change for the member `own`. Returns `None` if no user is new. `subjects` are the existing rows of
    /// [`Self::subjects`], `newcomers` those of [`Self::newcomers`]. For a user who comes back, `own` is their row
    /// since they left.
    ///
    /// # Errors
    /// The first reason against it, in the order that the protocol names.
    pub fn decide(
        &self,
        head: &Head,
        own: &RosterRow,
        (subjects, newcomers): (&[RosterRow], &[Newcomer]),
        place: &Place,
        members_max: u64,
    ) -> Result<Option<Decided>, Refusal> {
        let (mut group, mut rules) = (head.group.clone(), head.rules);
        let (mut history, mut not_added, mut before) = (None, vec![], None);
        let subject = || subjects.iter().find(|row| row.is_member()).ok_or(Refusal::Gone);
        let left = |row: &RosterRow| RosterRow { left_seq: Some(place.seq), role: Role::None, ..row.clone() };
        let permitted = |holds: bool| if holds { Ok(()) } else { Err(Refusal::Forbidden) };
        let (system, roster) = match self {
            Self::Create { .. } => return Err(Refusal::IdReused),
            Self::Add { .. } | Self::Return => {
                let roster = self.joining(head, own, newcomers, place)?;
                self.check_keys(head, roster.len())?;
                if roster.is_empty() {
                    return Ok(None);
                }
                debug_assert!(roster.len() <= GROUP_CHANGE_MEMBERS_MAX);
                group.member_count = counted(rules, group.member_count + roster.len() as u64);
                if group.member_count > members_max {
                    return Err(Refusal::LimitReached);
                }
                history = Some(rules.history);
                not_added = newcomers.iter().filter_map(|newcomer| newcomer.barred(own.role)).collect();
                let members = roster.iter().map(|row| row.user_id.clone()).collect();
                (System::MembersAdded { members }, roster)
            }
            Self::Remove { user, .. } => {
                let row = subject()?;
                permitted(*user != own.user_id && may_remove(own.role, row.role))?;
                self.check_keys(head, 0)?;
                before = Some(group.clone());
                group.member_count = group.member_count.saturating_sub(1);
                (System::MembersRemoved { members: vec![user.clone()] }, vec![left(row)])
            }
            Self::Leave => {
                permitted(own.role != Role::Owner || group.member_count <= 1)?;
                before = Some(group.clone());
                group.member_count = group.member_count.saturating_sub(1);
                (System::MemberLeft {}, vec![RosterRow { leaves: own.leaves + 1, ..left(own) }])
            }
            Self::Role { user, role } => {
                let row = subject()?;
                permitted(own.role == Role::Owner && *user != own.user_id)?;
                let mut roster = vec![RosterRow { role: *role, ..row.clone() }];
                if *role == Role::Owner {
                    roster.push(RosterRow { role: Role::Admin, ..own.clone() });
                }
                (System::RoleChanged { user_id: user.clone(), role: *role }, roster)
            }
            Self::Restrict { until, .. } => restrict(own, subject, *until, place.sent_at)?,
            Self::Update { info } => {
                permitted(moderates(own.role))?;
                if let Some(title) = &info.title {
                    title.as_str().clone_into(&mut group.title);
                }
                if rules.join.is_none() {
                    only_of_channels(info)?;
                }
                rules = Rules {
                    join: info.join.or(rules.join),
                    rings: info.rings.unwrap_or(rules.rings),
                    history: info.history.unwrap_or(rules.history),
                    post: info.post.unwrap_or(rules.post),
                    add: info.add.unwrap_or(rules.add),
                };
                (info.clone().into(), vec![])
            }
        };
        let keys = self.keys().cloned().map(NewCommit::into_body);
        let body = SystemBody { system, history, not_added, group: before, keys };
        Ok(Some(Decided { body, group, rules, roster }))
    }
}

fn only_of_channels(info: &Info) -> Result<(), Refusal> {
    let fields = [("join", info.join.is_some()), ("rings", info.rings.is_some())];
    match fields.into_iter().find(|(_, is_set)| *is_set) {
        Some((field, _)) => Err(Refusal::bad_request(field, "must be left out: this is not a channel")),
        None => Ok(()),
    }
}

impl GroupChange {
    /// The rows of those who join with it.
    fn joining(
        &self,
        head: &Head,
        own: &RosterRow,
        newcomers: &[Newcomer],
        place: &Place,
    ) -> Result<Vec<RosterRow>, Refusal> {
        let joined = |user: &UserId| RosterRow::joined(user.clone(), Role::Member, place.seq, head.rules.history);
        match self {
            Self::Return if own.is_member() => Ok(vec![]),
            Self::Return => {
                let restricted_until = own.restricted_until;
                Ok(vec![RosterRow { restricted_until, ..joined(&own.user_id) }])
            }
            _ if !head.may_add(own.role) => Err(Refusal::Forbidden),
            _ => {
                own.check_unrestricted(place.sent_at)?;
                let joining = newcomers.iter().filter(|newcomer| newcomer.barred(own.role).is_none());
                let row = |newcomer: &Newcomer| RosterRow { leaves: newcomer.leaves, ..joined(&newcomer.user_id) };
                Ok(joining.map(row).collect())
            }
        }
    }
}

/// Decides a restriction, which `own` may set for the same users as a removal.
fn restrict<'a>(
    own: &RosterRow,
    subject: impl FnOnce() -> Result<&'a RosterRow, Refusal>,
    until: Option<MutedUntil>,
    at: Timestamp,
) -> Result<(System, Vec<RosterRow>), Refusal> {
    if until.is_some_and(|until| !until.is_after(at)) {
        return Err(Refusal::bad_request("until", "must be a time to come, \"forever\" or null"));
    }
    let row = subject()?;
    if row.user_id == own.user_id || !may_remove(own.role, row.role) {
        return Err(Refusal::Forbidden);
    }
    let system = System::MemberRestricted { user_id: row.user_id.clone(), until };
    Ok((system, vec![RosterRow { restricted_until: until, ..row.clone() }]))
}

fn may_remove(own: Role, other: Role) -> bool {
    match own {
        Role::Owner => true,
        Role::Admin => !moderates(other),
        Role::Member | Role::None => false,
    }
}

impl Head {
    /// Checks whether the user may write in the clear here.
    ///
    /// # Errors
    /// `encryption_required`
    pub fn check_clear(&self, encryption: Encryption, user: &UserId) -> Result<(), Refusal> {
        if self.seal.encrypted { Err(Refusal::EncryptionRequired) } else { encryption.check_clear(user, 0) }
    }

    /// Checks a sealed message, or a commit, of a member with this role. The first commit is for those who may change
    /// the group.
    ///
    /// # Errors
    /// `forbidden`, `stale_epoch` or `rekey_required`
    pub fn check_sealed(&self, role: Role, content: &Content) -> Result<(), Refusal> {
        self.check_message(role, &[])?;
        match content {
            Content::Sealed { epoch, .. } => self.check_epoch(*epoch).and_then(|()| self.seal.check_named()),
            Content::Commit(_) if self.seal.epoch == 0 && !moderates(role) => Err(Refusal::Forbidden),
            Content::Commit(commit) => self.check_epoch(commit.epoch),
            Content::Message { .. } | Content::Change { .. } | Content::Group(_) | Content::Erased(_) => Ok(()),
        }
    }

    fn check_epoch(&self, epoch: u64) -> Result<(), Refusal> {
        if epoch == self.seal.epoch {
            return Ok(());
        }
        Err(Refusal::StaleEpoch {
            conversation_id: Some(self.conversation_id.clone()),
            epoch: self.seal.epoch,
            last_seq: self.end.seq,
        })
    }
}

impl GroupChange {
    /// The commit of an addition or a removal.
    pub fn keys(&self) -> Option<&NewCommit> {
        match self {
            Self::Add { keys, .. } | Self::Remove { keys, .. } => keys.as_deref(),
            Self::Create { .. }
            | Self::Leave
            | Self::Return
            | Self::Role { .. }
            | Self::Restrict { .. }
            | Self::Update { .. } => None,
        }
    }

    /// Checks the commit of a change that may be made otherwise. `joining`: the number of users who join with it.
    ///
    /// # Errors
    /// `forbidden`, `encryption_required`, `stale_epoch` or `rekey_required`
    pub(crate) fn check_keys(&self, head: &Head, joining: usize) -> Result<(), Refusal> {
        let stale = || self.keys().map_or(Ok(()), |keys| head.check_epoch(keys.epoch));
        let Self::Add { members, keys } = self else { return stale() };
        // The commit adds all of them, and the entry names the same.
        let is_partial = keys.is_some() && joining < members.len();
        if is_partial || (head.seal.encrypted && members.iter().any(UserId::is_service)) {
            return Err(Refusal::Forbidden);
        }
        if head.seal.epoch > 0 && keys.is_none() {
            return Err(Refusal::EncryptionRequired);
        }
        stale()?;
        if members.iter().any(|user| head.seal.unnamed.contains(user)) {
            return Err(head.seal.rekey_required());
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use wire::{ClientMsgId, Info, Timestamp};

    use super::*;
    use crate::draft::{Content, Draft};
    use crate::entry::Follows;

    pub(crate) fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    fn seq(value: u64) -> Seq {
        Seq::new(value).unwrap()
    }

    fn place(value: u64) -> Place {
        Place::following(
            Some(End { seq: seq(value - 1), sent_at: Timestamp::from_millis(0) }),
            Timestamp::from_millis(1),
            [0; 10],
        )
    }

    fn title() -> Title {
        Title::parse("Trip").unwrap()
    }

    /// A group of an owner, two admins and two members.
    fn group(rules: Rules) -> (Head, Vec<RosterRow>) {
        let members = ["ann", "abe", "max", "mia"].map(user);
        let change = GroupChange::Create {
            title: title(),
            members: members.to_vec(),
            rules,
            encrypted: false,
            look: Box::default(),
        };
        let mut decided = GroupChange::create(&user("olga"), (&title(), &Look::default()), &members, rules, &place(1));
        for row in &mut decided.roster {
            if row.user_id.as_str().starts_with('a') {
                row.role = Role::Admin;
            }
        }
        let draft = Draft {
            conversation_id: ConversationId::parse("gr_x").unwrap(),
            sender_id: user("olga"),
            client_msg_id: ClientMsgId::parse("c1").unwrap(),
            content: Content::Group(change),
            rewritten_from: None,
        };
        (Head::first(&draft.stored(place(1), Follows::default()), &decided, false), decided.roster)
    }

    fn decide(rules: Rules, who: &str, change: &GroupChange) -> Result<Option<Decided>, Refusal> {
        let (head, roster) = group(rules);
        let row = |id: &UserId| roster.iter().find(|row| row.user_id == *id).cloned();
        let subjects: Vec<_> = change.subjects().iter().filter_map(row).collect();
        let newcomers: Vec<_> = change.newcomers(&user(who), &subjects).into_iter().map(Newcomer::of).collect();
        change.decide(&head, &row(&user(who)).unwrap(), (&subjects, &newcomers), &place(2), 7)
    }

    #[test]
    fn who_left_by_themselves_is_added_once_by_an_admin_and_then_comes_back_by_themselves() {
        let newcomer =
            |leaves, is_removed, is_full| Newcomer { leaves, is_removed, is_full, ..Newcomer::of(user("x")) };
        let barred = |newcomer: Newcomer| {
            [Role::Owner, Role::Admin, Role::Member].map(|role| newcomer.barred(role).map(|not_added| not_added.reason))
        };
        let [left, removed, full] = ["left", "removed", "limit_reached"].map(|reason| Some(reason.to_owned()));
        assert_eq!(barred(newcomer(0, false, false)), [None, None, None]);
        assert_eq!(barred(newcomer(1, false, false)), [None, None, left.clone()]);
        assert_eq!(barred(newcomer(2, true, true)), [left.clone(), left.clone(), left]);
        assert_eq!(barred(newcomer(0, true, false)), [None, None, removed.clone()]);
        assert_eq!(barred(newcomer(0, true, true)), [full.clone(), full, removed]);

        let (head, roster) = group(Rules::default());
        let mia = roster.iter().find(|row| row.user_id == *"mia").unwrap();
        let left = GroupChange::Leave.decide(&head, mia, (&[], &[]), &place(2), 7).unwrap().unwrap();
        assert_eq!((left.roster[0].leaves, left.roster[0].left_seq), (1, Some(seq(2))));
        assert_eq!(GroupChange::Return.decide(&head, mia, (&[], &[]), &place(2), 7), Ok(None), "she is there");
        let back = |max| GroupChange::Return.decide(&head, &left.roster[0], (&[], &[]), &place(3), max);
        assert_eq!(back(5), Err(Refusal::LimitReached));
        let back = back(7).unwrap().unwrap();
        assert_eq!(back.body.system, System::MembersAdded { members: vec![user("mia")] });
        assert_eq!((back.roster[0].leaves, back.roster[0].joined_seq, back.group.member_count), (0, seq(3), 6));
        // The change adds two users, and not the third, who has left twice.
        let newcomers = [newcomer(2, false, false), Newcomer::of(user("y")), Newcomer::of(user("z"))];
        let add = GroupChange::Add { members: ["x", "y", "z"].map(user).to_vec(), keys: None };
        let added = add.decide(&head, &roster[0], (&[], &newcomers), &place(2), 7).unwrap().unwrap();
        assert_eq!(added.body.system, System::MembersAdded { members: ["y", "z"].map(user).to_vec() });
        assert_eq!(added.body.not_added.len(), 1);
        assert_eq!(add.decide(&head, &roster[0], (&[], &newcomers[..1]), &place(2), 7), Ok(None));
    }

    #[test]
    fn the_roles_may_what_the_protocol_says() {
        let (open, closed) =
            (Rules::default(), Rules { post: AllowedTo::Admins, add: AllowedTo::Admins, ..Rules::default() });
        let add = GroupChange::Add { members: vec![user("new")], keys: None };
        let remove = |id: &str| GroupChange::Remove { user: user(id), keys: None };
        let role = |id: &str, role| GroupChange::Role { user: user(id), role };
        let restrict = |id: &str| GroupChange::Restrict { user: user(id), until: Some(MutedUntil::Forever) };
        let update = GroupChange::Update { info: Info { title: Some(title()), ..Info::default() } };
        for (rules, change, may) in [
            (open, add.clone(), ["olga", "ann", "max"].as_slice()),
            (closed, add, &["olga", "ann"]),
            (open, remove("mia"), &["olga", "ann"]),
            (open, remove("abe"), &["olga"]),
            (open, remove("olga"), &[]),
            (open, restrict("mia"), &["olga", "ann"]),
            (open, restrict("abe"), &["olga"]),
            (open, restrict("olga"), &[]),
            (open, role("mia", Role::Admin), &["olga"]),
            (open, role("abe", Role::Owner), &["olga"]),
            (open, role("olga", Role::Member), &[]),
            (open, update, &["olga", "ann"]),
            (open, GroupChange::Leave, &["ann", "max"]),
        ] {
            for who in ["olga", "ann", "max"] {
                let decided = decide(rules, who, &change);
                assert_eq!(decided.is_ok(), may.contains(&who), "{who} {change:?}");
                assert!(decided.is_ok() || decided == Err(Refusal::Forbidden), "{who} {change:?}");
            }
        }
        let message = |rules, role, mentions: &[UserId]| group(rules).0.check_message(role, mentions).is_ok();
        for role in [Role::Owner, Role::Admin, Role::Member] {
            assert!(message(open, role, &[user("mia")]));
            assert_eq!(message(closed, role, &[]), moderates(role));
            assert_eq!(message(open, role, &[user(EVERYBODY)]), moderates(role));
        }
    }

    #[test]
    fn who_is_no_member_is_gone_before_it_is_forbidden_and_a_full_group_comes_last() {
        for change in [
            GroupChange::Remove { user: user("stranger"), keys: None },
            GroupChange::Role { user: user("stranger"), role: Role::Admin },
            GroupChange::Restrict { user: user("stranger"), until: None },
        ] {
            assert_eq!(decide(Rules::default(), "max", &change), Err(Refusal::Gone));
        }
        let three = GroupChange::Add { members: ["x", "y", "z"].map(user).to_vec(), keys: None };
        assert_eq!(decide(Rules::default(), "olga", &three), Err(Refusal::LimitReached));
        let closed = Rules { add: AllowedTo::Admins, ..Rules::default() };
        assert_eq!(decide(closed, "max", &three), Err(Refusal::Forbidden));
        let known = GroupChange::Add { members: ["mia", "max"].map(user).to_vec(), keys: None };
        assert_eq!(decide(Rules::default(), "olga", &known), Ok(None));
    }

    #[test]
    fn a_restriction_lasts_until_its_time_and_none_adds_meanwhile() {
        let at = |millis| Some(MutedUntil::At(Timestamp::from_millis(millis)));
        let restrict = |until| decide(Rules::default(), "ann", &GroupChange::Restrict { user: user("mia"), until });
        let past = Refusal::bad_request("until", "must be a time to come, \"forever\" or null");
        assert_eq!(restrict(at(1)), Err(past), "the time of its entry");
        let row = restrict(at(2)).unwrap().unwrap().roster.remove(0);
        let check = |millis| row.check_unrestricted(Timestamp::from_millis(millis));
        assert_eq!([check(1), check(2)], [Err(Refusal::Forbidden), Ok(())]);
        let (head, _) = group(Rules::default());
        let add = GroupChange::Add { members: vec![user("x")], keys: None };
        let added = |row: &RosterRow| add.decide(&head, row, (&[], &[Newcomer::of(user("x"))]), &place(2), 9).is_ok();
        let lifted = restrict(None).unwrap().unwrap().roster.remove(0);
        assert_eq!((added(&row), added(&lifted)), (false, true));
    }

    #[test]
    fn a_change_says_what_the_group_is_then() {
        let (mut head, _) = group(Rules::default());
        assert_eq!((head.group.member_count, head.roster_seq), (5, seq(1)));
        let removed =
            decide(Rules::default(), "ann", &GroupChange::Remove { user: user("mia"), keys: None }).unwrap().unwrap();
        assert_eq!(removed.group.member_count, 4);
        assert_eq!(removed.body.group.as_ref().unwrap().member_count, 5);
        assert_eq!((removed.roster[0].left_seq, removed.roster[0].role), (Some(seq(2)), Role::None));
        let handed = decide(Rules::default(), "olga", &GroupChange::Role { user: user("ann"), role: Role::Owner });
        let roles: Vec<_> = handed.unwrap().unwrap().roster.into_iter().map(|row| (row.user_id, row.role)).collect();
        assert_eq!(roles, [(user("ann"), Role::Owner), (user("olga"), Role::Admin)]);
        let added =
            decide(Rules::default(), "max", &GroupChange::Add { members: vec![user("mia"), user("new")], keys: None });
        let added = added.unwrap().unwrap();
        assert_eq!(added.body.system, System::MembersAdded { members: vec![user("new")] });
        assert_eq!((added.roster[0].joined_seq, added.roster[0].from_seq), (seq(2), seq(2)));
        head.rules.history = HistoryFrom::All;
        let all = RosterRow::joined(user("new"), Role::Member, seq(9), HistoryFrom::All);
        assert_eq!((all.joined_seq, all.from_seq), (seq(9), seq(1)));
    }

    #[test]
    fn the_last_owner_can_leave() {
        let decided = GroupChange::create(
            &user("olga"),
            (&title(), &Look::default()),
            &[user("olga")],
            Rules::default(),
            &place(1),
        );
        assert_eq!(decided.group.member_count, 1, "whoever names themselves is there once");
        let (mut head, _) = group(Rules::default());
        head.group.member_count = 1;
        assert!(GroupChange::Leave.decide(&head, &decided.roster[0], (&[], &[]), &place(2), 7).is_ok());
    }
}
