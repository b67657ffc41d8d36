//! The members of a group. A device loads them once, with the entries by which they joined, and then follows the log.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use wire::limits::MEMBERS_LIMIT_MAX;
use wire::{Action, ConversationId, GroupMember, MembersRequest, MembersResult, Message, Role, System, UserId};

use super::Keyring;
use super::rows;
use super::said::RequestKey;
use super::work::Answer;

/// The pages of one list of members: a group has at most 500.
const PAGES_MAX: usize = 20;

/// The members, as of the end of the log when the list was made. Entries before that end repeat what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Roster {
    /// The members, and the entry by which each joined.
    members: BTreeMap<UserId, u64>,
    /// The users who left, and have devices in the group.
    former: BTreeSet<UserId>,
    /// This user may make the first commit.
    #[serde(default)]
    leads: bool,
    /// Entries are missing in it. The list serves until there is another, which a former member does not get.
    #[serde(default)]
    pub(super) lags: bool,
    /// The device may not have taken all entries that the list has.
    #[serde(default)]
    pub(super) is_new: bool,
    /// The last entry that this device has passed.
    #[serde(skip)]
    pub(super) upto: u64,
}

/// A list of members that is not complete.
#[derive(Default)]
pub(super) struct Pages {
    found: Vec<GroupMember>,
    cursor: Option<UserId>,
    count: usize,
}

impl Roster {
    /// Returns the list of a device that has passed the entries up to this one.
    pub(super) fn from(self, upto: u64) -> Self {
        Self { upto, ..self }
    }

    /// Returns the members behind this entry.
    pub(super) fn members_at(&self, seq: u64) -> BTreeSet<UserId> {
        self.members.iter().filter(|(_, since)| **since <= seq).map(|(user, _)| user.clone()).collect()
    }

    pub(super) fn has(&self, user: &UserId) -> bool {
        self.members.contains_key(user)
    }

    pub(super) fn users(&self) -> impl Iterator<Item = &UserId> {
        self.members.keys()
    }

    pub(super) fn leads(&self) -> bool {
        self.leads
    }

    pub(super) fn former(&self) -> &BTreeSet<UserId> {
        &self.former
    }

    /// Follows a system entry. Returns whether that changed the members.
    pub(super) fn follow(&mut self, message: &Message) -> bool {
        let seq = message.seq.value();
        match &message.system {
            Some(System::Created { members, .. } | System::MembersAdded { members }) => self.add(members, seq),
            Some(System::MembersRemoved { members }) => self.remove(members, seq),
            Some(System::MemberLeft {}) => self.remove(std::slice::from_ref(&message.sender_id), seq),
            Some(
                System::RoleChanged { .. }
                | System::MemberRestricted { .. }
                | System::InfoChanged { .. }
                | System::Later(_),
            )
            | None => return false,
        }
        true
    }

    pub(super) fn add(&mut self, users: &[UserId], seq: u64) {
        for user in users {
            self.members.insert(user.clone(), seq);
            self.former.remove(user);
        }
    }

    pub(super) fn remove(&mut self, users: &[UserId], seq: u64) {
        for user in users {
            // By the list, the user came back later.
            let is_back = self.members.get(user).is_some_and(|since| *since > seq);
            if !is_back {
                self.members.remove(user);
            }
            self.former.insert(user.clone());
        }
    }

    /// Forgets former members who have no device in the group.
    pub(super) fn keep(&mut self, has_device: impl Fn(&UserId) -> bool) {
        self.former.retain(has_device);
    }
}

/// The first commit is for those who may change the group.
fn may_begin(role: Role) -> bool {
    matches!(role, Role::Owner | Role::Admin)
}

/// Returns the users that a system entry adds, and those that it removes.
pub(super) fn named(message: &Message) -> (BTreeSet<UserId>, BTreeSet<UserId>) {
    let set = |users: &[UserId]| users.iter().cloned().collect();
    match &message.system {
        Some(System::Created { members, .. } | System::MembersAdded { members }) => (set(members), BTreeSet::new()),
        Some(System::MembersRemoved { members }) => (BTreeSet::new(), set(members)),
        Some(System::MemberLeft {}) => (BTreeSet::new(), BTreeSet::from([message.sender_id.clone()])),
        Some(
            System::RoleChanged { .. }
            | System::MemberRestricted { .. }
            | System::InfoChanged { .. }
            | System::Later(_),
        )
        | None => Default::default(),
    }
}

impl Keyring {
    pub(super) fn members_request(&self, id: &ConversationId) -> Option<(RequestKey, Action)> {
        let cursor = self.seats.get(id)?.pages.cursor.clone();
        let key = RequestKey::Members(id.clone(), cursor.clone());
        let request = MembersRequest { conversation_id: id.clone(), limit: MEMBERS_LIMIT_MAX, cursor };
        Some((key, Action::Members(request)))
    }

    pub(super) fn listed_members(&mut self, id: &ConversationId, result: Answer<MembersResult>, now_ms: u64) {
        let me = self.me().clone();
        let Some(seat) = self.seats.get_mut(id) else { return };
        let mut pages = std::mem::take(&mut seat.pages);
        match result {
            Ok(page) => {
                pages.found.extend(page.members);
                pages.count += 1;
                pages.cursor = page.next_cursor;
                if pages.cursor.is_some() && pages.count < PAGES_MAX {
                    seat.pages = pages;
                    return;
                }
                let leads = pages.found.iter().any(|member| member.user_id == me && may_begin(member.role));
                let members = pages.found.into_iter().map(|member| (member.user_id, member.joined_seq.value()));
                let upto = if seat.group.is_some() { seat.row.position } else { 0 };
                seat.roster = Some(Roster {
                    members: members.collect(),
                    former: BTreeSet::new(),
                    leads,
                    lags: false,
                    is_new: true,
                    upto,
                });
                seat.count_strangers();
                self.changed.insert(format!("{}{id}", rows::ROSTER));
            }
            Err(problem) => seat.refuse(problem.code, now_ms),
        }
    }

    /// Follows an entry of a group. Returns whether this device's user is a member no longer.
    pub(super) fn follow_roster(&mut self, message: &Message) -> bool {
        let id = &message.conversation_id;
        let seq = message.seq.value();
        let me = self.me().clone();
        let Some(seat) = self.seats.get_mut(id) else { return false };
        let is_new = if seat.group.is_some() { seq > seat.row.position } else { true };
        let Some(roster) = seat.roster.as_mut().filter(|roster| is_new && seq > roster.upto) else { return false };
        roster.upto = seq;
        if let Some(System::RoleChanged { user_id, role }) = &message.system
            && *user_id == me
        {
            roster.leads = may_begin(*role);
            self.changed.insert(format!("{}{id}", rows::ROSTER));
        }
        if !roster.follow(message) {
            return false;
        }
        let (added, removed) = named(message);
        let is_out = removed.contains(&me);
        seat.row.removed &= !added.contains(&me);
        seat.count_strangers();
        self.changed.insert(format!("{}{id}", rows::ROSTER));
        is_out
    }
}
