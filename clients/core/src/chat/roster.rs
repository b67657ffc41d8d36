//! The members of a group or a channel, as an interface shows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use wire::{ConversationId, GroupMember, MembersResult, Message, Role, Seq, Title, UserId};

use super::kept;
use super::names::Names;
use crate::store::{KnownMember, change_members, listed_members};
use crate::{Event, Moment, ReceiptKind};

/// A member of a group or a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberRow {
    /// The member.
    pub user_id: UserId,
    /// The rights of the member.
    pub role: Role,
    /// The entry with which the member joined.
    pub joined_seq: Seq,
    /// A device of the member has received every entry up to this one.
    pub delivered_seq: Seq,
    /// The member has read every entry up to this one.
    pub read_seq: Seq,
}

/// The content of the view of a conversation's members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RosterSnapshot {
    /// The group or the channel.
    pub conversation_id: ConversationId,
    /// The owner, the admins and then the others, each in the order of their ids. A row that did not change is the same
    /// object as in the snapshot before.
    pub members: Vec<Arc<MemberRow>>,
    /// The known names of the members, once the app shows names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<UserId, Title>,
}

/// The members, by the store, the pages of the server and the entries that came since.
#[derive(Debug)]
pub(crate) struct Roster {
    conversation_id: ConversationId,
    members: Vec<KnownMember>,
    /// The pages so far.
    pages: Vec<GroupMember>,
    /// Entries that came during the request. The pages can be older.
    since: Vec<Message>,
    is_asking: bool,
    /// The store or the server has been read once.
    is_loaded: bool,
    shown: Option<RosterSnapshot>,
}

impl Roster {
    pub(crate) fn new(conversation_id: ConversationId) -> Self {
        let (members, pages, since) = (Vec::new(), Vec::new(), Vec::new());
        Self { conversation_id, members, pages, since, is_asking: false, is_loaded: false, shown: None }
    }

    pub(crate) fn conversation_id(&self) -> &ConversationId {
        &self.conversation_id
    }

    /// Begins to ask the server. Returns `false` if the answer is under way.
    pub(crate) fn ask(&mut self) -> bool {
        self.pages.clear();
        !std::mem::replace(&mut self.is_asking, true)
    }

    /// The server has not answered.
    pub(crate) fn lost(&mut self) {
        self.is_asking = false;
        self.since.clear();
    }

    /// Takes the members of the store. An answer of the server is newer.
    pub(crate) fn loaded(&mut self, known: Vec<KnownMember>) {
        self.is_loaded = true;
        let is_new = |row: &KnownMember| self.members.iter().all(|known| known.user_id != row.user_id);
        let new: Vec<_> = known.into_iter().filter(|row| row.joined.is_some() && is_new(row)).collect();
        self.members.extend(new);
    }

    /// Takes a page of the server. Returns all members with the last one, for the store.
    pub(crate) fn page(&mut self, page: MembersResult) -> Option<Vec<GroupMember>> {
        self.pages.extend(page.members);
        if page.next_cursor.is_some() {
            return None;
        }
        self.members = listed_members(&self.members, &std::mem::take(&mut self.pages));
        (self.is_asking, self.is_loaded) = (false, true);
        for entry in std::mem::take(&mut self.since) {
            change_members(&mut self.members, &entry);
        }
        Some(
            self.rows()
                .map(|MemberRow { user_id, role, joined_seq, .. }| GroupMember {
                    user_id,
                    role,
                    joined_seq,
                    restricted_until: None,
                })
                .collect(),
        )
    }

    /// Takes any event of the client.
    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::Message { message, .. } if message.conversation_id == self.conversation_id => {
                if self.is_asking && message.system.is_some() {
                    self.since.push(message.clone());
                }
                change_members(&mut self.members, message);
            }
            Event::Receipt { kind, receipt } if receipt.conversation_id == self.conversation_id => {
                if let Some(row) = self.members.iter_mut().find(|row| row.user_id == receipt.user_id) {
                    row.delivered_seq = row.delivered_seq.max(receipt.seq);
                    if *kind == ReceiptKind::Read {
                        row.read_seq = row.read_seq.max(receipt.seq);
                    }
                }
            }
            // Events of other conversations, and those that change no member.
            _ => {}
        }
    }

    fn rows(&self) -> impl Iterator<Item = MemberRow> {
        self.members.iter().filter_map(|KnownMember { user_id, joined, delivered_seq, read_seq }| {
            let ((role, joined_seq), user_id) = ((*joined)?, user_id.clone());
            Some(MemberRow { user_id, role, joined_seq, delivered_seq: *delivered_seq, read_seq: *read_seq })
        })
    }

    /// Returns what an interface draws now, if it has changed.
    pub(crate) fn changed(&mut self, names: &mut Names, now: Moment) -> Option<RosterSnapshot> {
        if !self.is_loaded {
            return None;
        }
        let mut members: Vec<MemberRow> = self.rows().collect();
        members.sort_by(|one, other| (rank(one.role), &one.user_id).cmp(&(rank(other.role), &other.user_id)));
        let members = kept(self.shown.as_ref().map_or(&[], |shown| &shown.members), members, |row| &row.user_id);
        let names = names.of(members.iter().map(|member| &member.user_id), now);
        let snapshot = RosterSnapshot { conversation_id: self.conversation_id.clone(), members, names };
        if self.shown.as_ref() == Some(&snapshot) {
            return None;
        }
        self.shown = Some(snapshot.clone());
        Some(snapshot)
    }
}

fn rank(role: Role) -> u8 {
    match role {
        Role::Owner => 0,
        Role::Admin => 1,
        Role::Member => 2,
        Role::None => 3,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_roles_and_the_members_follow_the_entries() {
        let id = ConversationId::parse("gr_ab").unwrap();
        let mut roster = Roster::new(id.clone());
        roster.ask();
        let entry = |seq: u64, sender: &str, system: serde_json::Value| {
            Event::Message {
            message: serde_json::from_value(json!({"conversation_id": id, "seq": seq, "message_id": "x",
                "sender_id": sender, "kind": "system", "body": "", "system": system, "sent_at": "2026-11-20T10:00:00Z"}))
            .unwrap(),
            missed: false,
        }
        };
        roster.event(&entry(5, "alice", json!({"event": "members.added", "members": ["dave"]})));
        let page = json!({"members": [{"user_id": "alice", "role": "owner", "joined_seq": 1},
            {"user_id": "bob", "role": "member", "joined_seq": 1}, {"user_id": "carol", "role": "member", "joined_seq": 4}],
            "next_cursor": null});
        // An entry that came during the request is in what the store gets.
        let stored = roster.page(serde_json::from_value(page).unwrap()).unwrap();
        assert_eq!(
            stored.iter().map(|member| member.user_id.as_str()).collect::<Vec<_>>(),
            ["alice", "bob", "carol", "dave"]
        );
        roster.event(&entry(6, "alice", json!({"event": "role.changed", "user_id": "bob", "role": "owner"})));
        // An entry of an earlier membership.
        roster.event(&entry(3, "alice", json!({"event": "members.removed", "members": ["carol"]})));
        roster.event(&entry(7, "dave", json!({"event": "member.left"})));
        let shown = roster.changed(&mut Names::default(), Moment::default()).unwrap().members;
        let roles: Vec<_> = shown.iter().map(|row| (row.user_id.as_str(), row.role)).collect();
        assert_eq!(roles, [("bob", Role::Owner), ("alice", Role::Admin), ("carol", Role::Member)]);
    }
}
