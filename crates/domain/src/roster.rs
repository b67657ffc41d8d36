//! The member list as a replay of the log from its start derives it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wire::{HistoryFrom, Role, Seq, System, UserId};

use crate::entry::Entry;
use crate::fold::Logged;
use crate::group::RosterRow;

/// The present and former members, up to the last entry that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedRoster {
    rows: BTreeMap<UserId, RosterRow>,
    /// Entries that only a later version can read. Their changes of the member list are missing here.
    pub unknown: u64,
}

impl LoggedRoster {
    /// Goes over the next entry.
    pub fn step(&mut self, logged: &Logged) {
        let Logged::Entry(entry) = logged else {
            self.unknown += 1;
            return;
        };
        let (seq, sender) = (entry.place.seq, &entry.sender_id);
        match entry.system().map(|body| &body.system) {
            Some(System::Created { members, .. }) => self.join(entry, members, Some(sender)),
            Some(System::MembersAdded { members }) => self.join(entry, members, None),
            Some(System::MembersRemoved { members }) => members.iter().for_each(|user| self.leave(user, seq)),
            Some(System::MemberLeft {}) => {
                self.leave(sender, seq);
                self.rows.entry(sender.clone()).and_modify(|row| row.leaves += 1);
            }
            Some(System::RoleChanged { user_id, role }) => {
                self.give(user_id, *role);
                if *role == Role::Owner {
                    self.give(sender, Role::Admin);
                }
            }
            Some(System::MemberRestricted { user_id, until }) => {
                self.rows.entry(user_id.clone()).and_modify(|row| row.restricted_until = *until);
            }
            Some(System::Later(_)) => self.unknown += 1,
            Some(System::InfoChanged { .. }) | None => {}
        }
    }

    /// In the order of their ids.
    pub fn rows(&self) -> impl Iterator<Item = &RosterRow> {
        self.rows.values()
    }

    pub fn get(&self, user: &UserId) -> Option<&RosterRow> {
        self.rows.get(user)
    }

    fn join(&mut self, entry: &Entry, members: &[UserId], owner: Option<&UserId>) {
        let history = entry.system().and_then(|body| body.history).unwrap_or(HistoryFrom::Joined);
        for user in members {
            let role = if owner == Some(user) { Role::Owner } else { Role::Member };
            let is_own = entry.sender_id == *user;
            let leaves = self.rows.get(user).filter(|_| !is_own).map_or(0, |row| row.leaves);
            // A user who comes back by themselves stays restricted.
            let restricted_until = self.rows.get(user).filter(|_| is_own).and_then(|row| row.restricted_until);
            let row = RosterRow {
                leaves,
                restricted_until,
                ..RosterRow::joined(user.clone(), role, entry.place.seq, history)
            };
            self.rows.insert(user.clone(), row);
        }
    }

    fn leave(&mut self, user: &UserId, seq: Seq) {
        if let Some(row) = self.rows.get_mut(user) {
            (row.role, row.left_seq) = (Role::None, Some(seq));
        }
    }

    fn give(&mut self, user: &UserId, role: Role) {
        if let Some(row) = self.rows.get_mut(user) {
            row.role = role;
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::{ClientMsgId, ConversationId, MutedUntil, Timestamp, Title};

    use super::*;
    use crate::draft::{Content, Draft, GroupChange, Rules};
    use crate::entry::{Body, End, Follows, Place};
    use crate::group::Newcomer;
    use crate::group::tests::user;

    /// Each change writes the rows that its entry produces when the log is applied.
    #[test]
    fn the_log_says_what_the_changes_wrote() {
        let all = Rules { history: HistoryFrom::All, ..Rules::default() };
        let (title, members) = (Title::parse("Trip").unwrap(), ["max", "mia"].map(user).to_vec());
        let create =
            GroupChange::Create { title, members: members.clone(), rules: all, encrypted: false, look: Box::default() };
        let restrict = |who| GroupChange::Restrict { user: user(who), until: Some(MutedUntil::Forever) };
        let changes = [
            ("olga", create),
            ("max", GroupChange::Add { members: ["ann", "mia"].map(user).to_vec(), keys: None }),
            ("olga", GroupChange::Role { user: user("ann"), role: Role::Admin }),
            ("ann", GroupChange::Remove { user: user("mia"), keys: None }),
            ("olga", GroupChange::Role { user: user("ann"), role: Role::Owner }),
            ("olga", GroupChange::Leave),
            ("max", GroupChange::Add { members: vec![user("mia")], keys: None }),
            ("max", GroupChange::Leave),
            ("ann", GroupChange::Add { members: vec![user("max")], keys: None }),
            ("ann", restrict("max")),
            ("max", GroupChange::Leave),
            ("max", GroupChange::Return),
            ("max", GroupChange::Leave),
            ("ann", GroupChange::Add { members: vec![user("max")], keys: None }),
        ];
        let (mut written, mut logged) = (BTreeMap::<UserId, RosterRow>::new(), LoggedRoster::default());
        let (mut end, mut head) = (None, None);
        for (who, change) in changes {
            let who = user(who);
            let now = Timestamp::from_millis(1);
            let place = Place::following(end, now, [0; 10]);
            let subjects: Vec<_> = change.subjects().iter().filter_map(|user| written.get(user).cloned()).collect();
            let decided = match (&change, &head) {
                (GroupChange::Create { title, members, rules, look, .. }, _) => {
                    GroupChange::create(&who, (title, look), members, *rules, &place)
                }
                (change, Some(head)) => {
                    let known = |user: UserId| {
                        let leaves = written.get(&user).map_or(0, |row| row.leaves);
                        Newcomer { leaves, ..Newcomer::of(user) }
                    };
                    let newcomers: Vec<_> = change.newcomers(&who, &subjects).into_iter().map(known).collect();
                    change.decide(head, &written[&who], (&subjects, &newcomers), &place, 9).unwrap().unwrap()
                }
                (_, None) => panic!("a group begins with create"),
            };
            let draft = Draft {
                conversation_id: ConversationId::parse("gr_x").unwrap(),
                sender_id: who,
                client_msg_id: ClientMsgId::parse("c1").unwrap(),
                content: Content::Group(change),
                rewritten_from: None,
            };
            let mut entry = draft.stored(place.clone(), Follows::default());
            entry.body = Body::System(Box::new(decided.body.clone()));
            end = Some(End { seq: place.seq, sent_at: place.sent_at });
            head = Some(crate::group::Head::first(&entry, &decided, false));
            written.extend(decided.roster.into_iter().map(|row| (row.user_id.clone(), row)));
            logged.step(&Logged::Entry(Box::new(entry)));
            assert_eq!(logged.rows, written, "after {place:?}");
        }
        assert_eq!((logged.rows().count(), logged.unknown), (4, 0));
        logged.step(&Logged::Unreadable(Seq::new(8).unwrap()));
        assert_eq!(logged.unknown, 1);
    }
}
