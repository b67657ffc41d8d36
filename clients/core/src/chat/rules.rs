//! The rules, the role and the members of a group or a channel, by rows and entries that come in any order.

use serde::Serialize;
use wire::{
    AllowedTo, Channel, Conversation, CreateRequest, HistoryFrom, JoinBy, Message, MutedUntil, Rings, Role, Seq,
    System, UserId,
};

use crate::group::{joiners, leavers, roles_of};

/// The rules of a group or a channel. A rule is left out until the server's row or an entry has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rules {
    /// Where a new member's history begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryFrom>,
    /// The members who may send messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post: Option<AllowedTo>,
    /// The members who may add others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add: Option<AllowedTo>,
    /// The users who may join a channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinBy>,
    /// Whether messages of a channel send push notifications.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rings: Option<Rings>,
}

/// A value, by the newest row or entry that sets it.
#[derive(Clone, Copy, Debug)]
struct Newest<T>(Seq, Option<T>);

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self(Seq::ZERO, None)
    }
}

impl<T> Newest<T> {
    fn set(&mut self, as_of: Seq, value: Option<T>) {
        if value.is_some() && as_of >= self.0 {
            *self = Self(as_of, value);
        }
    }
}

/// The rules, the user's role and the number of members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    history: Newest<HistoryFrom>,
    post: Newest<AllowedTo>,
    add: Newest<AllowedTo>,
    join: Newest<JoinBy>,
    rings: Newest<Rings>,
    role: Newest<Role>,
    count: Newest<u64>,
    /// The end of a restriction of the user.
    restricted_until: Newest<Option<MutedUntil>>,
}

impl Standing {
    /// Takes the rules of a group that the user creates.
    pub(crate) fn begins(&mut self, CreateRequest { history, post, add, join, rings, .. }: &CreateRequest) {
        let rules = Rules { history: Some(*history), post: Some(*post), add: Some(*add), join: *join, rings: *rings };
        self.set(Seq::ZERO, rules, Some(Role::Owner));
    }

    /// Takes a row of the chat list.
    pub(crate) fn row(&mut self, row: &Conversation) {
        let rules = Rules { history: row.history, post: row.post, add: row.add, join: None, rings: None };
        self.set(row.last_seq, rules, row.role);
        self.count.set(row.last_seq, row.member_count);
        self.restricted_until.set(row.last_seq, Some(row.restricted_until));
    }

    /// Takes a row of the list of channels.
    pub(crate) fn channel(&mut self, row: &Channel) {
        let rules = Rules {
            history: Some(row.history),
            post: Some(row.post),
            add: Some(row.add),
            join: Some(row.join),
            rings: Some(row.rings),
        };
        self.set(row.last_seq, rules, Some(row.role));
        self.restricted_until.set(row.last_seq, Some(row.restricted_until));
    }

    fn set(&mut self, as_of: Seq, Rules { history, post, add, join, rings }: Rules, role: Option<Role>) {
        self.history.set(as_of, history);
        self.post.set(as_of, post);
        self.add.set(as_of, add);
        self.join.set(as_of, join);
        self.rings.set(as_of, rings);
        self.role.set(as_of, role);
    }

    /// Takes an entry.
    pub(crate) fn entry(&mut self, entry: &Message, me: &UserId) {
        let Some(system) = &entry.system else { return };
        let own = roles_of(entry).into_iter().find(|(user_id, _)| *user_id == me);
        self.role.set(entry.seq, own.map(|(_, role)| role));
        // A user who comes back by themselves stays restricted.
        if entry.sender_id != *me && joiners(entry).contains(me) {
            self.restricted_until.set(entry.seq, Some(None));
        }
        match system {
            System::Created { .. }
            | System::MembersAdded { .. }
            | System::MembersRemoved { .. }
            | System::MemberLeft {} => self.counted(entry, matches!(system, System::Created { .. })),
            System::InfoChanged { history, post, add, join, rings, .. } => {
                let rules = Rules { history: *history, post: *post, add: *add, join: *join, rings: *rings };
                self.set(entry.seq, rules, None);
            }
            System::MemberRestricted { user_id, until } if user_id == me => {
                self.restricted_until.set(entry.seq, Some(*until));
            }
            System::RoleChanged { .. } | System::MemberRestricted { .. } | System::Later(_) => {}
        }
    }

    /// Takes the number of users who join or leave with an entry, once.
    fn counted(&mut self, entry: &Message, is_new: bool) {
        let before = if is_new { Some(0) } else { self.count.1 };
        if self.count.0 != entry.seq {
            let (joined, left) = (joiners(entry).len() as u64, leavers(entry).len() as u64);
            self.count.set(entry.seq, before.map(|count| (count + joined).saturating_sub(left)));
        }
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules { history: self.history.1, post: self.post.1, add: self.add.1, join: self.join.1, rings: self.rings.1 }
    }

    pub(crate) fn restricted_until(&self) -> Option<MutedUntil> {
        self.restricted_until.1.flatten()
    }

    pub(crate) fn role(&self) -> Option<Role> {
        self.role.1
    }

    pub(crate) fn member_count(&self) -> Option<u64> {
        self.count.1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn entry(seq: u64, sender: &str, system: &serde_json::Value) -> Message {
        serde_json::from_value(json!({"conversation_id": "gr_ab", "seq": seq, "message_id": "x", "sender_id": sender,
            "kind": "system", "body": "", "system": system, "sent_at": "2026-11-20T10:00:00.000Z"}))
        .unwrap()
    }

    fn entries() -> Vec<Message> {
        let of = |(seq, (sender, system)): (u64, (&str, serde_json::Value))| entry(seq, sender, &system);
        let all = [
            ("bob", json!({"event": "created", "title": "Trip", "members": ["bob", "alice"]})),
            ("bob", json!({"event": "role.changed", "user_id": "alice", "role": "owner"})),
            ("alice", json!({"event": "info.changed", "post": "admins"})),
            ("alice", json!({"event": "role.changed", "user_id": "bob", "role": "owner"})),
            ("bob", json!({"event": "info.changed", "post": "all", "add": "admins"})),
        ];
        (1..).zip(all).map(of).collect()
    }

    #[test]
    fn a_restriction_of_the_user_ends_with_an_addition_by_another_member() {
        let me = UserId::parse("alice").unwrap();
        let restricted = |user| ("bob", json!({"event": "member.restricted", "user_id": user, "until": "forever"}));
        let added = |by| (by, json!({"event": "members.added", "members": ["alice"]}));
        let until = |entries: &[(&str, serde_json::Value)]| {
            let mut standing = Standing::default();
            (1..).zip(entries).for_each(|(seq, (by, system))| standing.entry(&entry(seq, by, system), &me));
            standing.restricted_until()
        };
        let forever = Some(MutedUntil::Forever);
        assert_eq!(until(&[restricted("carol")]), None);
        assert_eq!(until(&[restricted("alice"), added("alice")]), forever);
        assert_eq!(until(&[restricted("alice"), added("bob")]), None);
        let lifted = ("bob", json!({"event": "member.restricted", "user_id": "alice"}));
        assert_eq!(until(&[restricted("alice"), lifted]), None);
    }

    #[test]
    fn the_role_and_the_number_follow_the_entries() {
        let (me, mut standing) = (UserId::parse("alice").unwrap(), Standing::default());
        let roles = entries().into_iter().map(|entry| {
            standing.entry(&entry, &me);
            (standing.role(), standing.member_count())
        });
        let [member, owner, admin] = [Role::Member, Role::Owner, Role::Admin].map(|role| (Some(role), Some(2)));
        assert_eq!(roles.collect::<Vec<_>>(), [member, owner, owner, admin, admin]);
        let added = json!({"event": "members.added", "members": ["carol", "dave"]});
        standing.entry(&entry(6, "bob", &added), &me);
        standing.entry(&entry(6, "bob", &added), &me);
        standing.entry(&entry(7, "dave", &json!({"event": "member.left"})), &me);
        assert_eq!(standing.member_count(), Some(3));
        standing.entry(&entry(8, "bob", &json!({"event": "members.removed", "members": ["alice"]})), &me);
        assert_eq!((standing.role(), standing.member_count()), (Some(Role::None), Some(2)));
    }

    proptest! {
        #[test]
        fn rules_and_role_are_those_of_the_newest_entry_in_any_order(order in Just(entries()).prop_shuffle()) {
            let (me, mut standing) = (UserId::parse("alice").unwrap(), Standing::default());
            for entry in &order {
                standing.entry(entry, &me);
            }
            let (post, add) = (Some(AllowedTo::All), Some(AllowedTo::Admins));
            prop_assert_eq!(standing.rules(), Rules { post, add, ..Rules::default() });
            prop_assert_eq!(standing.role(), Some(Role::Admin));
        }
    }
}
