//! The members of a group or a channel, as an interface shows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use wire::{ConversationId, GroupMember, MembersResult, Message, Role, Seq, System, UserId};

use super::kept;
use crate::group::{joiners, leavers};
use crate::store::KnownMember;
use crate::{Event, ReceiptKind};

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
}

/// The members, by the store, the pages of the server and the entries that came since.
#[derive(Debug)]
pub(crate) struct Roster {
    conversation_id: ConversationId,
    members: BTreeMap<UserId, MemberRow>,
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
        let (members, pages, since) = (BTreeMap::new(), Vec::new(), Vec::new());
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
        for KnownMember { user_id, joined, delivered_seq, read_seq } in known {
            let Some((role, joined_seq)) = joined else { continue };
            let row = MemberRow { user_id: user_id.clone(), role, joined_seq, delivered_seq, read_seq };
            self.members.entry(user_id).or_insert(row);
        }
    }

    /// Takes a page of the server. Returns all members with the last one, for the store.
    pub(crate) fn page(&mut self, page: MembersResult) -> Option<Vec<GroupMember>> {
        self.pages.extend(page.members);
        if page.next_cursor.is_some() {
            return None;
        }
        let all = std::mem::take(&mut self.pages);
        let before = std::mem::take(&mut self.members);
        for GroupMember { user_id, role, joined_seq } in all.clone() {
            let known = before.get(&user_id).map(|row| (row.delivered_seq, row.read_seq)).unwrap_or_default();
            self.join(user_id, role, joined_seq, known);
        }
        (self.is_asking, self.is_loaded) = (false, true);
        for entry in std::mem::take(&mut self.since) {
            self.entry(&entry);
        }
        Some(all)
    }

    /// Takes any event of the client.
    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::Message { message, .. } if message.conversation_id == self.conversation_id => {
                if self.is_asking && message.system.is_some() {
                    self.since.push(message.clone());
                }
                self.entry(message);
            }
            Event::Receipt { kind, receipt } if receipt.conversation_id == self.conversation_id => {
                if let Some(row) = self.members.get_mut(&receipt.user_id) {
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

    fn entry(&mut self, entry: &Message) {
        for user_id in joiners(entry) {
            let is_creator = matches!(entry.system, Some(System::Created { .. })) && *user_id == entry.sender_id;
            let role = if is_creator { Role::Owner } else { Role::Member };
            self.join(user_id.clone(), role, entry.seq, Default::default());
        }
        for user_id in leavers(entry) {
            self.leave(user_id, entry.seq);
        }
        if let Some(System::RoleChanged { user_id, role }) = &entry.system
            && let Some(row) = self.members.get_mut(user_id)
        {
            row.role = *role;
        }
    }

    fn join(&mut self, user_id: UserId, role: Role, joined_seq: Seq, (delivered_seq, read_seq): (Seq, Seq)) {
        let row = MemberRow { user_id: user_id.clone(), role, joined_seq, delivered_seq, read_seq };
        let known = self.members.entry(user_id).or_insert_with(|| row.clone());
        if known.joined_seq < joined_seq {
            *known = row;
        }
    }

    /// An older entry than the join is of an earlier membership.
    fn leave(&mut self, user_id: &UserId, seq: Seq) {
        if self.members.get(user_id).is_some_and(|row| row.joined_seq < seq) {
            self.members.remove(user_id);
        }
    }

    /// Returns what an interface draws now, if it has changed.
    pub(crate) fn changed(&mut self) -> Option<RosterSnapshot> {
        if !self.is_loaded {
            return None;
        }
        let mut members: Vec<MemberRow> = self.members.values().cloned().collect();
        members.sort_by_key(|row| rank(row.role));
        let members = kept(self.shown.as_ref().map_or(&[], |shown| &shown.members), members, |row| &row.user_id);
        let snapshot = RosterSnapshot { conversation_id: self.conversation_id.clone(), members };
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
