//! What a group is, who may do what in it, and what an entry makes of it.
//!
//! A group's head says where its log ends and what it is by then; a roster row, who is a member. Whoever writes reads the head first and
//! the roster then, and writes only if the log still ends there: so what is decided here is right at the commit.

use wire::limits::GROUP_CHANGE_MEMBERS_MAX;
use wire::{AllowedTo, ConversationId, HistoryFrom, Info, JoinBy, Kind, Refusal, Role, Seq, System, Title, UserId};

use crate::membership::{End, LastEntry};
use crate::message::{Aside, Place, StoredMessage, preview};

/// The mention that means all members.
pub(crate) const EVERYBODY: &str = "*";

/// A group or a channel, as its log has it up to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub conversation_id: ConversationId,
    pub group: GroupInfo,
    pub rules: Rules,
    pub end: End,
    /// What the chat list shows.
    pub line: LastEntry,
    /// The last entry with which somebody joined, left, or got another role.
    pub roster_seq: Seq,
    /// Of a channel: how many messages there are, also those that are deleted by now.
    pub counted: u64,
}

/// What the chat list shows of a group, beside its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInfo {
    pub title: String,
    /// Nobody counts those of a channel.
    pub member_count: u64,
}

/// What admins decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub history: HistoryFrom,
    pub post: AllowedTo,
    pub add: AllowedTo,
    /// Of a channel, and of nothing else.
    pub join: Option<JoinBy>,
}

/// A member of a group. Who left stays until their own row says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RosterRow {
    pub user_id: UserId,
    pub role: Role,
    pub joined_seq: Seq,
    /// Below it they see nothing.
    pub from_seq: Seq,
    pub left_seq: Option<Seq>,
}

/// What somebody wants changed of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupChange {
    Create { title: Title, members: Vec<UserId>, rules: Rules },
    Add { members: Vec<UserId> },
    Remove { user: UserId },
    Leave,
    Role { user: UserId, role: Role },
    Update { info: Info },
}

/// What a change comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    pub system: System,
    pub aside: Aside,
    /// What the group is with it.
    pub group: GroupInfo,
    pub rules: Rules,
    /// The rows of the roster that it writes.
    pub roster: Vec<RosterRow>,
}

impl RosterRow {
    pub fn is_member(&self) -> bool {
        self.left_seq.is_none()
    }

    /// An operator's, who is in no roster, sees everything and may delete what anybody wrote.
    pub fn of_operator(user_id: UserId) -> Self {
        Self::joined(user_id, Role::Admin, Seq::FIRST, HistoryFrom::All)
    }

    pub(crate) fn joined(user_id: UserId, role: Role, seq: Seq, history: HistoryFrom) -> Self {
        Self { user_id, role, joined_seq: seq, from_seq: first_seq(history, seq), left_seq: None }
    }
}

/// From where on somebody who joins with that entry sees what was said.
pub(crate) fn first_seq(history: HistoryFrom, joined: Seq) -> Seq {
    match history {
        HistoryFrom::Joined => joined,
        HistoryFrom::All => Seq::FIRST,
    }
}

/// Whether somebody may delete what others wrote, change what the group is, and call everybody.
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
    pub fn is_channel(&self) -> bool {
        self.rules.join.is_some()
    }

    /// Whether a member with that role may write this message.
    ///
    /// # Errors
    /// `forbidden`.
    pub fn check_message(&self, role: Role, mentions: &[UserId]) -> Result<(), Refusal> {
        let calls_everybody = mentions.iter().any(|id| *id == EVERYBODY);
        if allows(self.rules.post, role) && (moderates(role) || !calls_everybody) {
            Ok(())
        } else {
            Err(Refusal::Forbidden)
        }
    }

    /// What the group is once this entry stands behind its end, as `decided` has it if that changes the group.
    #[must_use]
    pub fn after(&self, entry: &StoredMessage, decided: Option<&Decided>) -> Self {
        let mut head = self.clone();
        head.end = End { seq: entry.place.seq, sent_at: entry.place.sent_at };
        if self.is_channel() && entry.kind.counts() {
            head.counted += 1;
        }
        if entry.kind.is_listed() {
            head.line = line(entry);
        } else if entry.target_seq == Some(head.line.seq) {
            match entry.kind {
                Kind::Edit => head.line.preview = preview(&entry.body),
                Kind::Delete => (head.line.preview, head.line.deleted) = (String::new(), true),
                Kind::Text
                | Kind::Image
                | Kind::File
                | Kind::Voice
                | Kind::Reaction
                | Kind::System
                | Kind::Other(_) => {}
            }
        }
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
    pub fn first(entry: &StoredMessage, decided: &Decided) -> Self {
        Self {
            conversation_id: entry.conversation_id.clone(),
            group: decided.group.clone(),
            rules: decided.rules,
            end: End { seq: entry.place.seq, sent_at: entry.place.sent_at },
            line: line(entry),
            roster_seq: entry.place.seq,
            counted: 0,
        }
    }
}

fn info(title: &str, rules: Rules, member_count: u64) -> GroupInfo {
    let member_count = if rules.join.is_some() { 0 } else { member_count };
    GroupInfo { title: title.to_owned(), member_count }
}

fn line(entry: &StoredMessage) -> LastEntry {
    LastEntry {
        seq: entry.place.seq,
        message_id: entry.place.message_id.clone(),
        sender_id: entry.sender_id.clone(),
        kind: entry.kind.clone(),
        preview: preview(&entry.body),
        sent_at: entry.place.sent_at,
        deleted: false,
        system: entry.system.clone(),
    }
}

impl GroupChange {
    /// Whose rows of the roster must be known to decide it, beside the user's own.
    pub fn subjects(&self) -> &[UserId] {
        match self {
            Self::Add { members } => members,
            Self::Remove { user } | Self::Role { user, .. } => std::slice::from_ref(user),
            Self::Create { .. } | Self::Leave | Self::Update { .. } => &[],
        }
    }

    /// Who would be new in the group, by the rows of [`Self::subjects`].
    pub fn newcomers(&self, creator: &UserId, subjects: &[RosterRow]) -> Vec<UserId> {
        let is_member = |user: &UserId| subjects.iter().any(|row| row.user_id == *user && row.is_member());
        match self {
            Self::Create { members, .. } => members.iter().filter(|user| *user != creator).cloned().collect(),
            Self::Add { members } => members.iter().filter(|user| !is_member(user)).cloned().collect(),
            Self::Remove { .. } | Self::Leave | Self::Role { .. } | Self::Update { .. } => vec![],
        }
    }

    /// What a new group is.
    pub fn create(creator: &UserId, title: &Title, members: &[UserId], rules: Rules, place: &Place) -> Decided {
        let others = members.iter().filter(|user| *user != creator).map(|user| (user.clone(), Role::Member));
        let all: Vec<_> = std::iter::once((creator.clone(), Role::Owner)).chain(others).collect();
        let names = all.iter().map(|(user, _)| user.clone()).collect();
        let roster: Vec<_> =
            all.into_iter().map(|(user, role)| RosterRow::joined(user, role, place.seq, rules.history)).collect();
        Decided {
            system: System::Created { title: title.clone(), members: names },
            aside: Aside { history: Some(rules.history), ..Aside::default() },
            group: info(title.as_str(), rules, roster.len() as u64),
            rules,
            roster,
        }
    }

    /// What it comes to, done by this member; `None`: nobody is new. `subjects` are the rows of [`Self::subjects`] that there are.
    ///
    /// # Errors
    /// The first reason against it, in the order that the protocol names.
    pub fn decide(
        &self,
        head: &Head,
        own: &RosterRow,
        subjects: &[RosterRow],
        place: &Place,
        members_max: u64,
    ) -> Result<Option<Decided>, Refusal> {
        let (mut group, mut rules, mut aside) = (head.group.clone(), head.rules, Aside::default());
        let subject = || subjects.iter().find(|row| row.is_member()).ok_or(Refusal::Gone);
        let left = |row: &RosterRow| RosterRow { left_seq: Some(place.seq), role: Role::None, ..row.clone() };
        let permitted = |holds: bool| if holds { Ok(()) } else { Err(Refusal::Forbidden) };
        let (system, roster) = match self {
            Self::Create { .. } => return Err(Refusal::IdReused),
            Self::Add { .. } => {
                permitted(allows(rules.add, own.role))?;
                let members = self.newcomers(&own.user_id, subjects);
                if members.is_empty() {
                    return Ok(None);
                }
                debug_assert!(members.len() <= GROUP_CHANGE_MEMBERS_MAX);
                group = info(&group.title, rules, group.member_count + members.len() as u64);
                if group.member_count > members_max {
                    return Err(Refusal::LimitReached);
                }
                aside.history = Some(rules.history);
                let join = |user: &UserId| RosterRow::joined(user.clone(), Role::Member, place.seq, rules.history);
                let roster = members.iter().map(join).collect();
                (System::MembersAdded { members }, roster)
            }
            Self::Remove { user } => {
                let row = subject()?;
                permitted(*user != own.user_id && may_remove(own.role, row.role))?;
                aside.group = Some(group.clone());
                group.member_count = group.member_count.saturating_sub(1);
                (System::MembersRemoved { members: vec![user.clone()] }, vec![left(row)])
            }
            Self::Leave => {
                permitted(own.role != Role::Owner || group.member_count <= 1)?;
                aside.group = Some(group.clone());
                group.member_count = group.member_count.saturating_sub(1);
                (System::MemberLeft {}, vec![left(own)])
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
            Self::Update { info } => {
                permitted(moderates(own.role))?;
                if let Some(title) = &info.title {
                    title.as_str().clone_into(&mut group.title);
                }
                let of_channel = Refusal::bad_request("join", "must be left out: this is no channel");
                let join = match (rules.join, info.join) {
                    (None, Some(_)) => return Err(of_channel),
                    (join, changed) => changed.or(join),
                };
                rules = Rules {
                    join,
                    history: info.history.unwrap_or(rules.history),
                    post: info.post.unwrap_or(rules.post),
                    add: info.add.unwrap_or(rules.add),
                };
                (info.clone().into(), vec![])
            }
        };
        Ok(Some(Decided { system, aside, group, rules, roster }))
    }
}

fn may_remove(own: Role, other: Role) -> bool {
    match own {
        Role::Owner => true,
        Role::Admin => !moderates(other),
        Role::Member | Role::None => false,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use wire::{ClientMsgId, Timestamp};

    use super::*;
    use crate::message::{Content, Draft, Follows};

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
        let change = GroupChange::Create { title: title(), members: members.to_vec(), rules };
        let mut decided = GroupChange::create(&user("olga"), &title(), &members, rules, &place(1));
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
        };
        (Head::first(&draft.stored(place(1), Follows::default()), &decided), decided.roster)
    }

    fn decide(rules: Rules, who: &str, change: &GroupChange) -> Result<Option<Decided>, Refusal> {
        let (head, roster) = group(rules);
        let row = |id: &UserId| roster.iter().find(|row| row.user_id == *id).cloned();
        let subjects: Vec<_> = change.subjects().iter().filter_map(row).collect();
        change.decide(&head, &row(&user(who)).unwrap(), &subjects, &place(2), 7)
    }

    #[test]
    fn the_roles_may_what_the_protocol_says() {
        let (open, closed) =
            (Rules::default(), Rules { post: AllowedTo::Admins, add: AllowedTo::Admins, ..Rules::default() });
        let add = GroupChange::Add { members: vec![user("new")] };
        let remove = |id: &str| GroupChange::Remove { user: user(id) };
        let role = |id: &str, role| GroupChange::Role { user: user(id), role };
        let update = GroupChange::Update { info: Info { title: Some(title()), ..Info::default() } };
        for (rules, change, may) in [
            (open, add.clone(), ["olga", "ann", "max"].as_slice()),
            (closed, add, &["olga", "ann"]),
            (open, remove("mia"), &["olga", "ann"]),
            (open, remove("abe"), &["olga"]),
            (open, remove("olga"), &[]),
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
            GroupChange::Remove { user: user("nobody") },
            GroupChange::Role { user: user("nobody"), role: Role::Admin },
        ] {
            assert_eq!(decide(Rules::default(), "max", &change), Err(Refusal::Gone));
        }
        let three = GroupChange::Add { members: ["x", "y", "z"].map(user).to_vec() };
        assert_eq!(decide(Rules::default(), "olga", &three), Err(Refusal::LimitReached));
        let closed = Rules { add: AllowedTo::Admins, ..Rules::default() };
        assert_eq!(decide(closed, "max", &three), Err(Refusal::Forbidden));
        let known = GroupChange::Add { members: ["mia", "max"].map(user).to_vec() };
        assert_eq!(decide(Rules::default(), "olga", &known), Ok(None));
    }

    #[test]
    fn a_change_says_what_the_group_is_then() {
        let (mut head, _) = group(Rules::default());
        assert_eq!((head.group.member_count, head.roster_seq), (5, seq(1)));
        let removed = decide(Rules::default(), "ann", &GroupChange::Remove { user: user("mia") }).unwrap().unwrap();
        assert_eq!(removed.group.member_count, 4);
        assert_eq!(removed.aside.group.as_ref().unwrap().member_count, 5);
        assert_eq!((removed.roster[0].left_seq, removed.roster[0].role), (Some(seq(2)), Role::None));
        let handed = decide(Rules::default(), "olga", &GroupChange::Role { user: user("ann"), role: Role::Owner });
        let roles: Vec<_> = handed.unwrap().unwrap().roster.into_iter().map(|row| (row.user_id, row.role)).collect();
        assert_eq!(roles, [(user("ann"), Role::Owner), (user("olga"), Role::Admin)]);
        let added = decide(Rules::default(), "max", &GroupChange::Add { members: vec![user("mia"), user("new")] });
        let added = added.unwrap().unwrap();
        assert_eq!(added.system, System::MembersAdded { members: vec![user("new")] });
        assert_eq!((added.roster[0].joined_seq, added.roster[0].from_seq), (seq(2), seq(2)));
        head.rules.history = HistoryFrom::All;
        let all = RosterRow::joined(user("new"), Role::Member, seq(9), HistoryFrom::All);
        assert_eq!((all.joined_seq, all.from_seq), (seq(9), seq(1)));
    }

    #[test]
    fn the_last_owner_can_leave() {
        let decided = GroupChange::create(&user("olga"), &title(), &[user("olga")], Rules::default(), &place(1));
        assert_eq!(decided.group.member_count, 1, "whoever names themselves is there once");
        let (mut head, _) = group(Rules::default());
        head.group.member_count = 1;
        assert!(GroupChange::Leave.decide(&head, &decided.roster[0], &[], &place(2), 7).is_ok());
    }
}
