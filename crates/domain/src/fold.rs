//! A member's row as a view of the log. The row applies each entry once, in order, from the member's join to the leave.

use wire::{ConversationId, HistoryFrom, Role, Seq, System, Timestamp, UserId};

use crate::entry::{Body, End, Entry, LastEntry, Target};
use crate::group::{EVERYBODY, first_seq};
use crate::limits::EARLIER_TIMES_MAX;
use crate::look::{Look, Wanted};
use crate::membership::{Marks, MemberSettings, Membership, News, View, With};

/// An entry of a group's log, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Logged {
    Entry(Box<Entry>),
    /// An entry of a later version. The entry does not count, and waits for a newer function.
    Unreadable(Seq),
}

/// A row that went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub row: Membership,
    /// The first entry for which the member gets an event.
    pub told_from: Seq,
}

impl Logged {
    pub fn seq(&self) -> Seq {
        match self {
            Self::Entry(entry) => entry.place.seq,
            Self::Unreadable(seq) => *seq,
        }
    }

    /// Returns the users who join with it.
    pub fn joiners(&self) -> &[UserId] {
        match self.system() {
            Some(System::Created { members, .. } | System::MembersAdded { members }) => members,
            _ => &[],
        }
    }

    fn system(&self) -> Option<&System> {
        match self {
            Self::Entry(entry) => entry.system().map(|body| &body.system),
            Self::Unreadable(_) => None,
        }
    }

    /// Whether the user left with it by themselves.
    pub fn is_own_leave(&self, user: &UserId) -> bool {
        matches!(self, Self::Entry(entry) if entry.is_leave_of(user))
    }

    fn is_the_end_for(&self, user: &UserId) -> bool {
        match self.system() {
            Some(System::MembersRemoved { members }) => members.contains(user),
            _ => self.is_own_leave(user),
        }
    }
}

impl Entry {
    /// Whether the user left with it by themselves.
    pub fn is_leave_of(&self, user: &UserId) -> bool {
        self.system().is_some_and(|body| body.system == System::MemberLeft {}) && self.sender_id == *user
    }
}

/// Returns the member's row after applying these entries; `None` if it stays as it is. The entries are in order,
/// without holes. Entries behind the row are skipped, and a missing entry ends the fold. `at`: the current time.
pub fn fold(
    user: &UserId,
    conversation: &ConversationId,
    row: Option<&Membership>,
    entries: &[Logged],
    at: Timestamp,
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
            now = Some(joined(user, conversation, now.as_ref(), entry, at));
            told_from = Some(seq);
            continue;
        }
        let Some(row) = now.as_mut().filter(|row| row.is_open()) else { continue };
        if row.end.seq.next() != seq {
            break;
        }
        step(row, entry, at);
        told_from = told_from.or(Some(seq));
    }
    Some(Moved { row: now?, told_from: told_from? })
}

fn entry_joins(entry: &Entry, user: &UserId) -> bool {
    match entry.system().map(|body| &body.system) {
        Some(System::Created { members, .. } | System::MembersAdded { members }) => members.contains(user),
        _ => false,
    }
}

/// The marks start just before the join. Pending entries of an earlier membership stay pending: no device has them.
fn joined(
    user: &UserId,
    conversation: &ConversationId,
    before: Option<&Membership>,
    entry: &Entry,
    at: Timestamp,
) -> Membership {
    let seq = entry.place.seq;
    let is_own = entry.sender_id == *user;
    // A user who is added again gets the event too: no request of the user's device became this entry.
    let system = entry.system();
    let creates = is_own && system.is_some_and(|body| matches!(body.system, System::Created { .. }));
    let mark = if creates { seq } else { seq.previous() };
    let role = if creates { Role::Owner } else { Role::Member };
    let leaves = before.and_then(Membership::view).map_or(0, |view| view.leaves);
    // A user who comes back by themselves stays restricted.
    let restricted_until = before.and_then(Membership::view).filter(|_| is_own).and_then(|view| view.restricted_until);
    let history = system.and_then(|body| body.history).unwrap_or(HistoryFrom::Joined);
    let mut earlier = before.map(Membership::waiting).unwrap_or_default();
    earlier.truncate(EARLIER_TIMES_MAX);
    let waits = earlier.first().map(|(first, _)| *first);
    Membership {
        user_id: user.clone(),
        conversation_id: conversation.clone(),
        with: With::Group(View {
            role,
            first_seq: first_seq(history, seq),
            left_seq: None,
            news: None,
            mentioned_seq: None,
            leaves: if is_own { 0 } else { leaves },
            restricted_until,
            earlier,
            moved_by: None,
            group: None,
            rules: None,
            encrypted: false,
        }),
        end: End { seq, sent_at: entry.place.sent_at },
        last: line(entry),
        active_at: Membership::active_at_on_arrival(before, entry.place.sent_at, at),
        marks: Marks {
            delivered_seq: mark,
            read_seq: mark,
            unread: 0,
            mentions: 0,
            pending_from: if creates { None } else { waits.or(Some(seq)) },
        },
        delivered_at: before.and_then(|row| row.delivered_at),
        read_at: before.and_then(|row| row.read_at),
        settings: before.map_or_else(MemberSettings::default, |row| row.settings),
        epoch: 0,
        pins: vec![],
        notified_seq: None,
        is_badged: before.is_some_and(|row| row.is_badged),
        look: None,
    }
}

/// Returns the chat list's line without the text, which the group's head has once for all members.
fn line(entry: &Entry) -> LastEntry {
    LastEntry { preview: String::new(), system: None, ..entry.line() }
}

fn step(row: &mut Membership, logged: &Logged, at: Timestamp) {
    let end = row.end.seq;
    row.end.seq = logged.seq();
    let mut is_own = false;
    if let Logged::Entry(entry) = logged {
        is_own = entry.sender_id == row.user_id;
        row.end.sent_at = entry.place.sent_at;
        match &entry.body {
            Body::Message(message) if message.counts() => {
                list(row, entry, at);
                row.settings.archived = false;
                if !is_own {
                    count(row, entry);
                }
            }
            Body::System(_) => list(row, entry, at),
            Body::Edit { target, .. } => note_edit(row, entry, target),
            Body::Delete { target, mentions, uncounted: false } => discount(row, entry, target, mentions),
            Body::Message(_)
            | Body::Delete { .. }
            | Body::Reaction { .. }
            | Body::Pin { .. }
            | Body::Commit(_)
            | Body::Erased(_)
            | Body::Other { .. } => {}
        }
    }
    note_own(row, logged);
    if is_own {
        let reads_all = matches!(logged, Logged::Entry(entry) if entry.read_all);
        row.marks = row.marks.with_own(end, row.end.seq, reads_all);
        if reads_all {
            row.read_at = Some(at);
            row.settings.marked_unread = false;
            (row.notified_seq, row.is_badged, row.look) = (None, false, None);
        }
    }
    if row.marks.delivered_seq < row.end.seq && row.marks.pending_from.is_none() {
        row.marks.pending_from = Some(row.marks.delivered_seq.next());
    }
}

fn list(row: &mut Membership, entry: &Entry, at: Timestamp) {
    row.active_at = Membership::active_at_on_arrival(Some(row), entry.place.sent_at, at);
    row.last = line(entry);
}

fn count(row: &mut Membership, entry: &Entry) {
    row.marks.unread += 1;
    let is_named = names(entry.mentions(), &row.user_id);
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
fn discount(row: &mut Membership, entry: &Entry, target: &Target, mentions: &[UserId]) {
    let is_own = target.sender_id.as_ref() == Some(&row.user_id);
    let target = target.seq;
    let is_unread = target > row.marks.read_seq && !is_own;
    if is_unread {
        row.marks.unread = row.marks.unread.saturating_sub(1);
        row.marks.mentions = row.marks.mentions.saturating_sub(u64::from(names(mentions, &row.user_id)));
    }
    if row.notified_seq == Some(target) {
        row.notified_seq = None;
    } else if is_unread && row.look.is_none() {
        row.look = Some(Look::new(Wanted::Badge, entry.place.sent_at));
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

/// Notes that phones may show the message's earlier text.
fn note_edit(row: &mut Membership, entry: &Entry, target: &Target) {
    if row.notified_seq == Some(target.seq) {
        row.look = Some(Look::new(Wanted::Edited(target.seq), entry.place.sent_at));
    }
}

/// Whether a message with these mentions names the user.
pub fn names(mentions: &[UserId], user: &UserId) -> bool {
    mentions.iter().any(|id| id == user || *id == EVERYBODY)
}

fn note_own(row: &mut Membership, logged: &Logged) {
    let With::Group(view) = &mut row.with else { return };
    if let Some(System::RoleChanged { user_id, role }) = logged.system() {
        let gives = matches!(logged, Logged::Entry(entry) if entry.sender_id == row.user_id) && *role == Role::Owner;
        if *user_id == row.user_id {
            view.role = *role;
        } else if gives {
            view.role = Role::Admin;
        }
    }
    if let Some(System::MemberRestricted { user_id, until }) = logged.system()
        && *user_id == row.user_id
    {
        view.restricted_until = *until;
    }
    if logged.is_the_end_for(&row.user_id) {
        (view.role, view.left_seq) = (Role::None, Some(logged.seq()));
        view.leaves += u64::from(logged.is_own_leave(&row.user_id));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;
    use wire::{Kind, Timestamp, Title, When};

    use super::*;
    use crate::entry::{MessageBody, Place, SystemBody};
    use crate::membership::Counted;

    const USERS: [&str; 4] = ["ann", "bob", "cat", "dan"];
    /// Before every entry: none is late.
    const ON_TIME: Timestamp = Timestamp::from_millis(0);

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    fn conversation() -> ConversationId {
        ConversationId::parse("gr_x").unwrap()
    }

    /// A possible next entry: author, kind, subject, target.
    type Wish = (usize, u8, usize, usize);

    /// A log, and the values that the test derives from it by hand.
    #[derive(Clone, Debug, Default)]
    struct Log {
        entries: Vec<Entry>,
        members: BTreeSet<usize>,
        all: bool,
        /// Deleted messages, and by which entry.
        deleted: BTreeMap<u64, u64>,
    }

    impl Log {
        fn of(wishes: &[Wish]) -> Self {
            let mut log = Self::default();
            let members = [0, 1].map(|n| user(USERS[n])).to_vec();
            log.tell(0, System::Created { title: Title::parse("x").unwrap(), members, look: Box::default() });
            log.members = BTreeSet::from([0, 1]);
            for wish in wishes {
                log.wish(*wish);
            }
            log
        }

        fn write(&mut self, who: usize, body: Body) {
            let end = self.entries.last().map(|entry| End { seq: entry.place.seq, sent_at: entry.place.sent_at });
            let now = Timestamp::from_millis(40_000 * i64::try_from(self.entries.len()).unwrap());
            self.entries.push(Entry {
                conversation_id: conversation(),
                place: Place::following(end, now, [0; 10]),
                sender_id: user(USERS[who]),
                client_msg_id: None,
                origin: None,
                read_all: false,
                counted: None,
                body,
            });
        }

        fn tell(&mut self, who: usize, system: System) {
            let history = Some(if self.all { HistoryFrom::All } else { HistoryFrom::Joined });
            self.write(who, Body::System(Box::new(SystemBody { history, ..SystemBody::of(system) })));
        }

        fn wish(&mut self, (who, what, whom, which): Wish) {
            if !self.members.contains(&who) {
                return;
            }
            let subject = user(USERS[whom]);
            match what {
                0..=2 => {
                    let mentions = [vec![], vec![subject], vec![user(EVERYBODY)]][usize::from(what)].clone();
                    let message = MessageBody { mentions, ..MessageBody::new(Kind::Text, "x".to_owned()) };
                    self.write(who, Body::Message(Box::new(message)));
                }
                3 if self.members.insert(whom) => {
                    self.tell(who, System::MembersAdded { members: vec![subject] });
                }
                4 if whom != who && self.members.len() > 1 && self.members.remove(&whom) => {
                    self.tell(who, System::MembersRemoved { members: vec![subject] });
                }
                5 if self.members.len() > 1 => {
                    self.members.remove(&who);
                    self.tell(who, System::MemberLeft {});
                }
                6 | 7 => {
                    let texts = self.entries.iter().filter(|entry| entry.message().is_some());
                    let left: Vec<_> =
                        texts.filter(|entry| !self.deleted.contains_key(&entry.place.seq.value())).collect();
                    let Some(target) = left.get(which % left.len().max(1)).map(|entry| (*entry).clone()) else {
                        return;
                    };
                    self.deleted.insert(target.place.seq.value(), self.entries.len() as u64 + 1);
                    let (mentions, uncounted) = (target.mentions().to_vec(), !target.counts());
                    let target = Target { seq: target.place.seq, sender_id: Some(target.sender_id) };
                    self.write(who, Body::Delete { target, mentions, uncounted });
                }
                8 => {
                    let target = Target { seq: Seq::FIRST, sender_id: None };
                    self.write(
                        who,
                        Body::Edit { target, text: String::new(), data: None, version: None, edited_seq: None },
                    );
                }
                9 => self.all = !self.all,
                10 => {
                    self.tell(who, System::RoleChanged { user_id: subject, role: Role::Admin });
                }
                11 => {
                    let silent = MessageBody::new(Kind::Own("xs-vote".to_owned()), String::new());
                    self.write(who, Body::Message(Box::new(silent)));
                }
                12 => {
                    self.write(who, Body::Message(Box::new(MessageBody::new(Kind::Text, "x".to_owned()))));
                    self.entries.iter_mut().next_back().unwrap().read_all = true;
                }
                _ => {}
            }
        }

        fn logged(&self, from: u64, to: u64) -> Vec<Logged> {
            let of = |entry: &Entry| (from..=to).contains(&entry.place.seq.value());
            self.entries.iter().filter(|entry| of(entry)).cloned().map(|entry| Logged::Entry(Box::new(entry))).collect()
        }

        /// Returns the user's memberships by first and last entry, with the first visible entry of each.
        fn intervals(&self, who: usize) -> Vec<(u64, u64, Option<u64>)> {
            let (id, mut all) = (user(USERS[who]), Vec::<(u64, u64, Option<u64>)>::new());
            for entry in &self.entries {
                let seq = entry.place.seq.value();
                let logged = Logged::Entry(Box::new(entry.clone()));
                if logged.joiners().contains(&id) {
                    let first = if entry.system().unwrap().history == Some(HistoryFrom::All) { 1 } else { seq };
                    all.push((seq, first, None));
                } else if logged.is_the_end_for(&id) {
                    all.last_mut().unwrap().2 = Some(seq);
                }
            }
            all
        }

        /// Checks the invariants of a row that has applied the log up to here.
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
            let counted = |entry: &&Entry| {
                let seq = entry.place.seq.value();
                entry.counts()
                    && entry.sender_id != id
                    && (read_seq.value() + 1..=end).contains(&seq)
                    && self.deleted.get(&seq).is_none_or(|by| *by > end)
            };
            let counted: Vec<_> = self.entries.iter().filter(counted).collect();
            prop_assert_eq!(unread, counted.len() as u64);
            prop_assert_eq!(mentions, counted.iter().filter(|entry| names(entry.mentions(), &id)).count() as u64);
            let owed = row.owed();
            prop_assert_eq!(pending_from.is_some(), delivered_seq.value() < end || !owed.is_empty());
            let is_owed = |from: Seq| owed.first().is_some_and(|(first, last)| *first == from && from <= *last);
            prop_assert!(pending_from.is_none_or(|from| is_owed(from) || from > delivered_seq && from.value() <= end));
            // Pending entries of earlier memberships, each apart.
            let times = intervals.iter().filter(|(begun, ..)| *begun < joined);
            let times: Vec<_> = times.map(|(begun, _, left)| (*begun, left.unwrap())).collect();
            for (first, last) in &owed {
                let is_of = |(begun, left): &(u64, u64)| *begun <= first.value() && last.value() <= *left;
                prop_assert!(first <= last && times.iter().any(is_of), "{:?} of {:?}", owed, times);
            }
            let listed = |entry: &&Entry| entry.place.seq.value() <= end && entry.kind().is_listed();
            prop_assert_eq!(row.last.seq, self.entries.iter().rfind(listed).unwrap().place.seq);
            prop_assert!(row.last.sent_at.since(row.active_at) < crate::limits::ACTIVE_AT_STEP);
            prop_assert_eq!(view.role == Role::None, left.is_some());
            Ok(())
        }

        /// How many of others' messages in the range count, as of an end of the log.
        fn count(&self, id: &UserId, range: &std::ops::RangeInclusive<u64>, end: u64) -> Counted {
            let counts = |entry: &&Entry| {
                let seq = entry.place.seq.value();
                let is_deleted = self.deleted.get(&seq).is_some_and(|by| *by <= end);
                range.contains(&seq) && entry.counts() && entry.sender_id != *id && !is_deleted
            };
            let counted: Vec<_> = self.entries.iter().filter(counts).collect();
            let mentions = counted.iter().filter(|entry| names(entry.mentions(), id)).count();
            Counted { messages: counted.len() as u64, mentions: mentions as u64 }
        }
    }

    /// A row's next step: it applies a number of entries, or a device acknowledges or reads up to there.
    type Move = (u8, u64);

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// A view depends only on the log, not on the steps in which it was derived.
        #[test]
        fn a_view_is_a_fold_of_the_log(
            wishes in prop::collection::vec((0usize..4, 0u8..13, 0usize..4, 0usize..9), 0..60),
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
                        // Some entries come again, as after a concurrent catch-up.
                        let entries = log.logged((upto + 1).saturating_sub(number.min(3)), to);
                        let at = Timestamp::from_millis(number.saturating_mul(20_000).min(1_000_000).try_into().unwrap());
                        let moved = fold(&id, &conversation(), row.as_ref(), &entries, at);
                        upto = to;
                        if let Some(Moved { row: next, told_from }) = moved {
                            let is_new = was.as_ref().is_none_or(|row| row.last.seq < next.last.seq);
                            let found_until = next.moved_up_at().plus(crate::limits::ACTIVE_AT_STEP);
                            prop_assert!(!is_new || found_until > at, "a `since` of a minute ago must find the row");
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
        let row = fold(&bob, &conversation(), None, &entries, ON_TIME).unwrap().row;
        assert_eq!((row.end.seq.value(), row.marks.unread), (2, 1));
        let entries = [Logged::Unreadable(hole.seq()), entries.remove(2)];
        let row = fold(&bob, &conversation(), Some(&row), &entries, ON_TIME).unwrap().row;
        assert_eq!((row.end.seq.value(), row.marks.unread, row.marks.pending_from), (4, 2, Some(Seq::ZERO.next())));
    }

    #[test]
    fn who_hands_a_group_over_is_an_admin_then() {
        let mut log = Log::of(&[(0, 10, 1, 0)]);
        let system = System::RoleChanged { user_id: user("bob"), role: Role::Owner };
        log.entries[1].body = Body::System(Box::new(SystemBody::of(system)));
        let role = |id: &str| {
            fold(&user(id), &conversation(), None, &log.logged(1, 2), ON_TIME).unwrap().row.view().unwrap().role
        };
        assert_eq!((role("ann"), role("bob")), (Role::Admin, Role::Owner));
    }

    #[test]
    fn what_rings_is_the_last_message_of_others_and_a_mention_rings_through_a_mute() {
        let log = Log::of(&[(0, 0, 0, 0), (0, 1, 1, 0), (0, 0, 0, 0), (1, 0, 0, 0), (0, 8, 0, 0)]);
        let mut row = fold(&user("bob"), &conversation(), None, &log.logged(1, 6), ON_TIME).unwrap().row;
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
