//! A member's row as a view of the log: it goes over each entry once, in their order, from the one with which they join to the one with
//! which they leave.

use wire::{ConversationId, HistoryFrom, Kind, Role, Seq, System, UserId};

use crate::group::{EVERYBODY, first_seq};
use crate::membership::{End, LastEntry, Marks, MemberSettings, Membership, News, View, With};
use crate::message::StoredMessage;

/// An entry of a group's log, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Logged {
    Entry(Box<StoredMessage>),
    /// One of a later version. It counts for nothing, and waits for whoever can read it.
    Unreadable(Seq),
}

/// A row that went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub row: Membership,
    /// The first entry that the member is to be told of.
    pub told_from: Seq,
}

impl Logged {
    pub fn seq(&self) -> Seq {
        match self {
            Self::Entry(entry) => entry.place.seq,
            Self::Unreadable(seq) => *seq,
        }
    }

    /// Those who join with it.
    pub fn joiners(&self) -> &[UserId] {
        match self.system() {
            Some(System::Created { members, .. } | System::MembersAdded { members }) => members,
            _ => &[],
        }
    }

    fn system(&self) -> Option<&System> {
        match self {
            Self::Entry(entry) => entry.system.as_ref(),
            Self::Unreadable(_) => None,
        }
    }

    fn is_the_end_for(&self, user: &UserId) -> bool {
        match (self, self.system()) {
            (_, Some(System::MembersRemoved { members })) => members.contains(user),
            (Self::Entry(entry), Some(System::MemberLeft {})) => entry.sender_id == *user,
            _ => false,
        }
    }
}

/// The member's row once it has gone over those of these entries that concern it; `None` if it stays as it is. The entries are in
/// their order and have no holes. What the row has behind it is passed over, and where the next one is not there it ends.
pub fn fold(
    user: &UserId,
    conversation: &ConversationId,
    row: Option<&Membership>,
    entries: &[Logged],
) -> Option<Moved> {
    let (mut now, mut told_from) = (row.cloned(), None);
    for entry in entries {
        let seq = entry.seq();
        if now.as_ref().is_some_and(|row| seq <= row.end.seq) {
            continue;
        }
        if let Logged::Entry(entry) = entry
            && entry_joins(entry, user)
        {
            now = Some(joined(user, conversation, now.as_ref(), entry));
            told_from = Some(seq);
            continue;
        }
        let Some(row) = now.as_mut().filter(|row| row.is_open()) else { continue };
        if row.end.seq.next() != seq {
            break;
        }
        step(row, entry);
        told_from = told_from.or(Some(seq));
    }
    Some(Moved { row: now?, told_from: told_from? })
}

fn entry_joins(entry: &StoredMessage, user: &UserId) -> bool {
    match &entry.system {
        Some(System::Created { members, .. } | System::MembersAdded { members }) => members.contains(user),
        _ => false,
    }
}

/// The marks stand just before the join. What was left of a time before is nobody's any more.
fn joined(
    user: &UserId,
    conversation: &ConversationId,
    before: Option<&Membership>,
    entry: &StoredMessage,
) -> Membership {
    let seq = entry.place.seq;
    let is_own = entry.sender_id == *user;
    let mark = if is_own { seq } else { seq.previous() };
    let role = match &entry.system {
        Some(System::Created { .. }) if is_own => Role::Owner,
        _ => Role::Member,
    };
    let history = entry.aside.history.unwrap_or(HistoryFrom::Joined);
    Membership {
        user_id: user.clone(),
        conversation_id: conversation.clone(),
        with: With::Group(View {
            role,
            first_seq: first_seq(history, seq),
            left_seq: None,
            news: None,
            mentioned_seq: None,
            group: None,
            rules: None,
        }),
        end: End { seq, sent_at: entry.place.sent_at },
        last: line(entry),
        active_at: Membership::active_at_after(before, entry.place.sent_at),
        marks: Marks {
            delivered_seq: mark,
            read_seq: mark,
            unread: 0,
            mentions: 0,
            pending_from: if is_own { None } else { Some(seq) },
        },
        delivered_at: before.and_then(|row| row.delivered_at),
        read_at: before.and_then(|row| row.read_at),
        settings: before.map_or_else(MemberSettings::default, |row| row.settings),
        notified_seq: None,
    }
}

/// The chat list's line: what it says is with the group, once for all members.
fn line(entry: &StoredMessage) -> LastEntry {
    LastEntry {
        seq: entry.place.seq,
        message_id: entry.place.message_id.clone(),
        sender_id: entry.sender_id.clone(),
        kind: entry.kind.clone(),
        preview: String::new(),
        sent_at: entry.place.sent_at,
        deleted: false,
        system: None,
    }
}

fn step(row: &mut Membership, logged: &Logged) {
    let before = (row.end.seq, row.marks);
    row.end.seq = logged.seq();
    let mut is_own = false;
    if let Logged::Entry(entry) = logged {
        is_own = entry.sender_id == row.user_id;
        row.end.sent_at = entry.place.sent_at;
        if entry.kind.is_listed() {
            row.active_at = Membership::active_at_after(Some(row), entry.place.sent_at);
            row.last = line(entry);
        }
        if entry.kind.counts() {
            row.settings.archived = false;
            if !is_own {
                count(row, entry);
            }
        }
        if entry.kind == Kind::Delete {
            discount(row, entry);
        }
    }
    note_role(row, logged);
    let (end, marks) = before;
    // Whoever had not caught up must still be able to drain.
    if is_own && marks.delivered_seq == end {
        row.marks.delivered_seq = row.end.seq;
    }
    if is_own && marks.read_seq == end {
        row.marks.read_seq = row.end.seq;
    }
    if row.marks.delivered_seq < row.end.seq && row.marks.pending_from.is_none() {
        row.marks.pending_from = Some(row.marks.delivered_seq.next());
    }
}

fn count(row: &mut Membership, entry: &StoredMessage) {
    row.marks.unread += 1;
    let is_named = names(&entry.mentions, &row.user_id);
    row.marks.mentions += u64::from(is_named);
    let seq = entry.place.seq;
    if let With::Group(view) = &mut row.with {
        view.news = Some(News { seq, at: entry.place.sent_at, deleted: false });
        if is_named {
            view.mentioned_seq = Some(seq);
        }
    }
}

/// A message that is deleted is unread no more, and no phone shows it.
fn discount(row: &mut Membership, entry: &StoredMessage) {
    let Some(target) = entry.target_seq else { return };
    let is_own = entry.aside.target_sender.as_ref() == Some(&row.user_id);
    if target > row.marks.read_seq && !is_own {
        row.marks.unread = row.marks.unread.saturating_sub(1);
        row.marks.mentions = row.marks.mentions.saturating_sub(u64::from(names(&entry.mentions, &row.user_id)));
    }
    if row.notified_seq == Some(target) {
        row.notified_seq = None;
    }
    if let With::Group(view) = &mut row.with {
        if let Some(news) = view.news.as_mut().filter(|news| news.seq == target) {
            news.deleted = true;
        }
        if view.mentioned_seq == Some(target) {
            view.mentioned_seq = None;
        }
    }
}

/// Whether a message with these mentions names the user.
pub fn names(mentions: &[UserId], user: &UserId) -> bool {
    mentions.iter().any(|id| id == user || *id == EVERYBODY)
}

fn note_role(row: &mut Membership, logged: &Logged) {
    let With::Group(view) = &mut row.with else { return };
    if let Some(System::RoleChanged { user_id, role }) = logged.system() {
        let gives = matches!(logged, Logged::Entry(entry) if entry.sender_id == row.user_id) && *role == Role::Owner;
        if *user_id == row.user_id {
            view.role = *role;
        } else if gives {
            view.role = Role::Admin;
        }
    }
    if logged.is_the_end_for(&row.user_id) {
        (view.role, view.left_seq) = (Role::None, Some(logged.seq()));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;
    use wire::{ClientMsgId, Timestamp, Title, When};

    use super::*;
    use crate::membership::Counted;
    use crate::message::{Aside, Content, Draft, Follows, Place};

    const USERS: [&str; 4] = ["ann", "bob", "cat", "dan"];

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    fn conversation() -> ConversationId {
        ConversationId::parse("gr_x").unwrap()
    }

    /// An entry that somebody could write next: who, what, about whom or which.
    type Wish = (usize, u8, usize, usize);

    /// A log, and what is needed to tell from it by hand.
    #[derive(Clone, Debug, Default)]
    struct Log {
        entries: Vec<StoredMessage>,
        members: BTreeSet<usize>,
        all: bool,
        /// Deleted messages, and by which entry.
        deleted: BTreeMap<u64, u64>,
    }

    impl Log {
        fn of(wishes: &[Wish]) -> Self {
            let mut log = Self::default();
            log.write(0, Kind::System, |entry| {
                entry.system = Some(System::Created {
                    title: Title::parse("x").unwrap(),
                    members: [0, 1].map(|n| user(USERS[n])).to_vec(),
                });
            });
            log.members = BTreeSet::from([0, 1]);
            for wish in wishes {
                log.wish(*wish);
            }
            log
        }

        fn write(&mut self, who: usize, kind: Kind, more: impl FnOnce(&mut StoredMessage)) {
            let draft = Draft {
                conversation_id: conversation(),
                sender_id: user(USERS[who]),
                client_msg_id: ClientMsgId::parse("m").unwrap(),
                content: Content::Message { kind, body: "x".to_owned(), media: None, reply_to: None, mentions: vec![] },
            };
            let end = self.entries.last().map(|entry| End { seq: entry.place.seq, sent_at: entry.place.sent_at });
            let now = Timestamp::from_millis(40_000 * i64::try_from(self.entries.len()).unwrap());
            let mut entry = draft.stored(Place::following(end, now, [0; 10]), Follows::default());
            let history = if self.all { HistoryFrom::All } else { HistoryFrom::Joined };
            entry.aside = Aside { history: Some(history), ..Aside::default() };
            more(&mut entry);
            self.entries.push(entry);
        }

        fn wish(&mut self, (who, what, whom, which): Wish) {
            if !self.members.contains(&who) {
                return;
            }
            let subject = user(USERS[whom]);
            let system = |system| move |entry: &mut StoredMessage| entry.system = Some(system);
            match what {
                0..=2 => self.write(who, Kind::Text, |entry| {
                    entry.mentions = [vec![], vec![subject], vec![user(EVERYBODY)]][usize::from(what)].clone();
                }),
                3 if self.members.insert(whom) => {
                    self.write(who, Kind::System, system(System::MembersAdded { members: vec![subject] }));
                }
                4 if whom != who && self.members.len() > 1 && self.members.remove(&whom) => {
                    self.write(who, Kind::System, system(System::MembersRemoved { members: vec![subject] }));
                }
                5 if self.members.len() > 1 => {
                    self.members.remove(&who);
                    self.write(who, Kind::System, system(System::MemberLeft {}));
                }
                6 | 7 => {
                    let texts = self.entries.iter().filter(|entry| entry.kind == Kind::Text);
                    let left: Vec<_> =
                        texts.filter(|entry| !self.deleted.contains_key(&entry.place.seq.value())).collect();
                    let Some(target) = left.get(which % left.len().max(1)).map(|entry| (*entry).clone()) else {
                        return;
                    };
                    self.deleted.insert(target.place.seq.value(), self.entries.len() as u64 + 1);
                    self.write(who, Kind::Delete, |entry| {
                        entry.target_seq = Some(target.place.seq);
                        entry.mentions = target.mentions;
                        entry.aside.target_sender = Some(target.sender_id);
                    });
                }
                8 => self.write(who, Kind::Edit, |entry| entry.target_seq = Some(Seq::ZERO.next())),
                9 => self.all = !self.all,
                10 => {
                    self.write(who, Kind::System, system(System::RoleChanged { user_id: subject, role: Role::Admin }));
                }
                _ => {}
            }
        }

        fn logged(&self, from: u64, to: u64) -> Vec<Logged> {
            let of = |entry: &StoredMessage| (from..=to).contains(&entry.place.seq.value());
            self.entries.iter().filter(|entry| of(entry)).cloned().map(|entry| Logged::Entry(Box::new(entry))).collect()
        }

        /// From which entry to which the user was a member, and from where on they saw what was said.
        fn intervals(&self, who: usize) -> Vec<(u64, u64, Option<u64>)> {
            let (id, mut all) = (user(USERS[who]), Vec::<(u64, u64, Option<u64>)>::new());
            for entry in &self.entries {
                let seq = entry.place.seq.value();
                let logged = Logged::Entry(Box::new(entry.clone()));
                if logged.joiners().contains(&id) {
                    let first = if entry.aside.history == Some(HistoryFrom::All) { 1 } else { seq };
                    all.push((seq, first, None));
                } else if logged.is_the_end_for(&id) {
                    all.last_mut().unwrap().2 = Some(seq);
                }
            }
            all
        }

        /// What must hold of a row that has gone over the log up to here.
        fn check(&self, who: usize, upto: u64, row: Option<&Membership>) -> Result<(), TestCaseError> {
            let intervals = self.intervals(who);
            let last = intervals.iter().rfind(|(joined, ..)| *joined <= upto);
            let Some((joined, first, left)) = last.copied() else {
                prop_assert!(row.is_none());
                return Ok(());
            };
            let (row, id) = (row.unwrap(), user(USERS[who]));
            let left = left.filter(|left| *left <= upto);
            let end = left.unwrap_or(upto);
            let view = row.view().unwrap();
            prop_assert_eq!(row.end.seq.value(), end);
            prop_assert_eq!((view.first_seq.value(), view.left_seq.map(Seq::value)), (first, left));
            let Marks { delivered_seq, read_seq, unread, mentions, pending_from } = row.marks;
            prop_assert!(joined - 1 <= read_seq.value() && read_seq <= delivered_seq && delivered_seq.value() <= end);
            let counted = |entry: &&StoredMessage| {
                let seq = entry.place.seq.value();
                entry.kind == Kind::Text
                    && entry.sender_id != id
                    && (read_seq.value() + 1..=end).contains(&seq)
                    && self.deleted.get(&seq).is_none_or(|by| *by > end)
            };
            let counted: Vec<_> = self.entries.iter().filter(counted).collect();
            prop_assert_eq!(unread, counted.len() as u64);
            prop_assert_eq!(mentions, counted.iter().filter(|entry| names(&entry.mentions, &id)).count() as u64);
            prop_assert_eq!(pending_from.is_some(), delivered_seq.value() < end);
            prop_assert!(pending_from.is_none_or(|from| from > delivered_seq && from.value() <= end));
            let listed = |entry: &&StoredMessage| entry.place.seq.value() <= end && entry.kind.is_listed();
            prop_assert_eq!(row.last.seq, self.entries.iter().rfind(listed).unwrap().place.seq);
            prop_assert!(row.last.sent_at.since(row.active_at) < crate::limits::ACTIVE_AT_STEP);
            prop_assert_eq!(view.role == Role::None, left.is_some());
            Ok(())
        }

        /// How many of others' messages in the range count, as of an end of the log.
        fn count(&self, id: &UserId, range: &std::ops::RangeInclusive<u64>, end: u64) -> Counted {
            let counts = |entry: &&StoredMessage| {
                let seq = entry.place.seq.value();
                let is_deleted = self.deleted.get(&seq).is_some_and(|by| *by <= end);
                range.contains(&seq) && entry.kind == Kind::Text && entry.sender_id != *id && !is_deleted
            };
            let counted: Vec<_> = self.entries.iter().filter(counts).collect();
            let mentions = counted.iter().filter(|entry| names(&entry.mentions, id)).count();
            Counted { messages: counted.len() as u64, mentions: mentions as u64 }
        }
    }

    /// What a view does next: it goes on by so many entries, or a device acknowledges or reads up to there.
    type Move = (u8, u64);

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// However a view comes to where it is, it is what the log says of its member.
        #[test]
        fn a_view_is_a_fold_of_the_log(
            wishes in prop::collection::vec((0usize..4, 0u8..12, 0usize..4, 0usize..9), 0..60),
            moves in prop::collection::vec((0u8..4, 0u64..12), 1..60),
            who in 0usize..4,
        ) {
            let (log, id) = (Log::of(&wishes), user(USERS[who]));
            let (mut row, mut upto) = (None::<Membership>, 0u64);
            for (what, number) in moves.into_iter().chain([(0, u64::MAX)]) {
                let step: Move = (what, number);
                let was = row.clone();
                match (step, row.as_ref()) {
                    ((0 | 1, by), _) => {
                        let to = upto.saturating_add(by).min(log.entries.len() as u64);
                        // Some that were passed before, as when another was behind.
                        let entries = log.logged((upto + 1).saturating_sub(number.min(3)), to);
                        let moved = fold(&id, &conversation(), row.as_ref(), &entries);
                        upto = to;
                        if let Some(Moved { row: next, told_from }) = moved {
                            let first = next.first_seq().max(was.as_ref().map_or(Seq::ZERO, |row| row.end.seq.next()));
                            prop_assert!(first <= told_from && told_from <= next.end.seq);
                            row = Some(next);
                        }
                    }
                    ((2, number), Some(now)) => {
                        let seq = Seq::new(now.marks.delivered_seq.value() + number).unwrap();
                        if let Some(marks) = now.acked(seq) {
                            row = Some(Membership { marks, ..now.clone() });
                        }
                    }
                    ((_, number), Some(now)) => {
                        let seq = Seq::new(now.marks.read_seq.value() + number).unwrap();
                        if let Some(reading) = now.reading(seq) {
                            let counted = reading.range().map(|range| log.count(&id, range, now.end.seq.value()));
                            let marks = reading.marks(counted.unwrap_or_default());
                            row = Some(Membership { marks, ..now.clone() });
                        }
                    }
                    (_, None) => {}
                }
                for (old, new) in was.iter().zip(&row) {
                    prop_assert!(old.end.seq <= new.end.seq);
                    prop_assert!(old.marks.delivered_seq <= new.marks.delivered_seq);
                    prop_assert!(old.marks.read_seq <= new.marks.read_seq);
                }
                log.check(who, upto, row.as_ref())?;
            }
        }
    }

    #[test]
    fn a_view_ends_at_a_hole_and_goes_over_what_it_cannot_read() {
        let log = Log::of(&[(0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0)]);
        let bob = user("bob");
        let mut entries = log.logged(1, 4);
        let hole = entries.remove(2);
        let row = fold(&bob, &conversation(), None, &entries).unwrap().row;
        assert_eq!((row.end.seq.value(), row.marks.unread), (2, 1));
        let entries = [Logged::Unreadable(hole.seq()), entries.remove(2)];
        let row = fold(&bob, &conversation(), Some(&row), &entries).unwrap().row;
        assert_eq!((row.end.seq.value(), row.marks.unread, row.marks.pending_from), (4, 2, Some(Seq::ZERO.next())));
    }

    #[test]
    fn who_hands_a_group_over_is_an_admin_then() {
        let mut log = Log::of(&[(0, 10, 1, 0)]);
        log.entries[1].system = Some(System::RoleChanged { user_id: user("bob"), role: Role::Owner });
        let role =
            |id: &str| fold(&user(id), &conversation(), None, &log.logged(1, 2)).unwrap().row.view().unwrap().role;
        assert_eq!((role("ann"), role("bob")), (Role::Admin, Role::Owner));
    }

    #[test]
    fn what_rings_is_the_last_message_of_others_and_a_mention_rings_through_a_mute() {
        let log = Log::of(&[(0, 0, 0, 0), (0, 1, 1, 0), (0, 0, 0, 0), (1, 0, 0, 0), (0, 8, 0, 0)]);
        let mut row = fold(&user("bob"), &conversation(), None, &log.logged(1, 6)).unwrap().row;
        let seq = |value| Seq::new(value).unwrap();
        let view = row.view().unwrap();
        assert_eq!((view.news.unwrap().seq, view.mentioned_seq), (seq(4), Some(seq(3))));
        assert_eq!(row.rings_up_to(seq(4)), seq(4));
        let now = Timestamp::from_millis(0);
        assert!(!row.is_quiet(When::Unread, now));
        row.settings.muted_until = Some(wire::MutedUntil::Forever);
        assert!(!row.is_quiet(When::Unread, now), "it was named");
        row.notified_seq = Some(seq(4));
        assert!(row.is_quiet(When::Unread, now), "phones have rung for that");
        row.notified_seq = None;
        row.marks.delivered_seq = seq(3);
        assert!(row.is_quiet(When::Pending, now), "a device has what named it");
        assert!(!row.is_quiet(When::Unread, now), "and its user has not seen it");
        row.marks.read_seq = seq(3);
        assert!(row.is_quiet(When::Unread, now));
    }
}
