//! The conversation of an input, and its members.

use std::collections::BTreeSet;

use wire::{ClientMsgId, ConversationId, UserId, direct_conversation_id};

use crate::error::{Error, Result, ensure};

/// The bytes of a mark.
pub const MARK_BYTES: usize = 8;
/// The first eight bytes of an exported secret of an epoch. The server can read it, and learns who shares an epoch.
pub type Mark = [u8; MARK_BYTES];
/// The mark of a join, whose epoch the joiner can't know.
pub(crate) const NO_MARK: Mark = [0; MARK_BYTES];

/// A conversation and its members at the entry in question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    id: ConversationId,
    members: BTreeSet<UserId>,
    former: BTreeSet<UserId>,
    is_direct: bool,
    is_behind_list: bool,
}

impl Conversation {
    /// Returns the direct conversation of two users, or the note of one. Its id follows from them, whatever the server
    /// says.
    pub fn direct(one: &UserId, other: &UserId) -> Self {
        let members = BTreeSet::from([one.clone(), other.clone()]);
        let (id, former) = (direct_conversation_id(one, other), BTreeSet::new());
        Self { id, members, former, is_direct: true, is_behind_list: false }
    }

    /// Returns a group with its members, as the log has them at the entry in question.
    pub fn group(id: ConversationId, members: BTreeSet<UserId>) -> Result<Self> {
        ensure(id.is_group(), Error::Misplaced("the conversation is no group"))?;
        Ok(Self { id, members, former: BTreeSet::new(), is_direct: false, is_behind_list: false })
    }

    /// Names users who have left the group before the entry in question, as far as this device has seen it.
    #[must_use]
    pub fn without(self, former: BTreeSet<UserId>) -> Self {
        Self { former, ..self }
    }

    /// Names whether the list of members may be of a later entry.
    #[must_use]
    pub(crate) fn behind_list(self, is_behind_list: bool) -> Self {
        Self { is_behind_list, ..self }
    }

    /// Adds members, as an entry that this device makes does.
    #[must_use]
    pub(crate) fn with(mut self, users: &[UserId]) -> Self {
        self.members.extend(users.iter().cloned());
        self
    }

    /// Returns the id.
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// Returns whether the user is a member.
    pub fn has(&self, user: &UserId) -> bool {
        self.members.contains(user)
    }

    /// Returns whether the log of this device shows that the user left.
    pub(crate) fn has_lost(&self, user: &UserId) -> bool {
        self.former.contains(user)
    }

    pub(crate) fn is_behind_list(&self) -> bool {
        self.is_behind_list
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Returns the MLS group's id. `before`: the conversation's epoch before the birth of the group.
    pub(crate) fn group_id(&self, before: u64) -> Vec<u8> {
        format!("{}/{before}", self.id).into_bytes()
    }

    /// Returns the conversation's epoch before the birth of the group with this id.
    pub(crate) fn epoch_before(&self, group_id: &[u8]) -> Result<u64> {
        let foreign = || Error::Misplaced("the group is of another conversation");
        let rest = group_id.strip_prefix(self.id.as_str().as_bytes()).and_then(|rest| rest.strip_prefix(b"/"));
        let before = rest.and_then(|digits| str::from_utf8(digits).ok()).and_then(|digits| digits.parse().ok());
        let before = before.ok_or_else(foreign)?;
        // A number has one form: `+1` and `01` are none.
        ensure(self.group_id(before) == group_id, foreign())?;
        Ok(before)
    }
}

/// The fields of the log's entry whose bytes are an input.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The conversation of the entry, with its members at the entry.
    pub conversation: &'a Conversation,
    /// The sender.
    pub sender_id: &'a UserId,
    /// The idempotency key, which the server shows to the sender's devices only.
    pub client_msg_id: Option<&'a ClientMsgId>,
    /// The epoch: of a commit the one that begins.
    pub epoch: u64,
}

/// Returns the data that MLS authenticates beside what it seals.
pub(crate) fn authenticated(conversation: &ConversationId, client_msg_id: &ClientMsgId, mark: Mark) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        [conversation.as_str(), client_msg_id.as_str()].iter().flat_map(|text| text.bytes().chain([0])).collect();
    bytes.extend(mark);
    bytes
}

impl Entry<'_> {
    /// Checks the authenticated data against the entry, and returns the author's idempotency key with the mark.
    ///
    /// The mark has a fixed length and an id of a conversation no zero byte, so the data has one reading.
    pub(crate) fn check_authenticated(&self, data: &[u8]) -> Result<(ClientMsgId, Mark)> {
        const MALFORMED: Error = Error::Malformed("authenticated data");
        let (rest, mark) = data.split_last_chunk().ok_or(MALFORMED)?;
        let rest = rest.strip_suffix(&[0]).ok_or(MALFORMED)?;
        let place = rest.iter().position(|byte| *byte == 0).ok_or(MALFORMED)?;
        let (conversation, id) = rest.split_at(place);
        let id = id.strip_prefix(&[0]).and_then(|id| str::from_utf8(id).ok()).ok_or(MALFORMED)?;
        let id = ClientMsgId::parse(id).map_err(|_| MALFORMED)?;
        let is_here = conversation == self.conversation.id().as_str().as_bytes();
        ensure(is_here, Error::Misplaced("the bytes are of another conversation"))?;
        let is_this = self.client_msg_id.is_none_or(|ours| *ours == id);
        ensure(is_this, Error::Misplaced("the bytes have another client_msg_id"))?;
        Ok((id, *mark))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_id_has_one_form() {
        let (alice, bob) = (UserId::parse("alice").unwrap(), UserId::parse("bob").unwrap());
        let direct = Conversation::direct(&alice, &bob);
        // Members of every version compute it: this one is pinned.
        assert_eq!(direct.group_id(41), b"dm_cqnezuscwz7if3puu6f3iggubjvdq4gs/41");
        assert_eq!(direct.epoch_before(&direct.group_id(41)).unwrap(), 41);
        let wrong = ["/+1", "/01", "/", "", "//1", "/1 ", "/-1", "/18446744073709551616", "x/1"];
        for end in wrong {
            assert!(direct.epoch_before(format!("{}{end}", direct.id()).as_bytes()).is_err(), "{end}");
        }
    }

    #[test]
    fn a_direct_conversation_is_no_group_and_has_the_id_of_its_users() {
        let (alice, bob) = (UserId::parse("alice").unwrap(), UserId::parse("bob").unwrap());
        let direct = Conversation::direct(&bob, &alice);
        assert!(direct.has(&alice) && direct.has(&bob) && !direct.has(&UserId::parse("carol").unwrap()));
        assert!(Conversation::group(direct.id().clone(), [alice, bob].into()).is_err());
    }

    #[test]
    fn authenticated_data_has_one_form() {
        let alice = UserId::parse("alice").unwrap();
        let note = Conversation::direct(&alice, &alice);
        let id = ClientMsgId::parse("c1").unwrap();
        let entry = Entry { conversation: &note, sender_id: &alice, client_msg_id: None, epoch: 1 };
        let data = authenticated(note.id(), &id, [0, 1, 2, 0, 4, 5, 6, 0]);
        assert_eq!(entry.check_authenticated(&data).unwrap(), (id, [0, 1, 2, 0, 4, 5, 6, 0]));
        let wrong = [
            data[1..].to_vec(),
            data[..data.len() - 1].to_vec(),
            [&data[..], &[0]].concat(),
            [note.id().as_str().as_bytes(), &[0, 0], &[7; 8]].concat(),
            [note.id().as_str().as_bytes(), &[0], b"c\0d", &[0], &[7; 8]].concat(),
            [note.id().as_str().as_bytes(), &[0], b"c1", &[7; 8]].concat(),
            vec![7; 8],
            Vec::new(),
        ];
        for data in wrong {
            assert!(entry.check_authenticated(&data).is_err(), "{data:?}");
        }
    }
}
