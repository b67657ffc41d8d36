//! The log: the keyring takes each entry once, in the order of `seq`.

use wire::{ConversationId, Kind, Message, Seq, UserId};

use super::rows::{Aim, Work};
use super::said::{self, Notice, Shown, Taken, Why};
use super::{Keyring, files, roster, rows, sealed_name};
use crate::conversation::{Conversation, Entry};
use crate::envelope::Envelope;
use crate::error::Error;
use crate::tree::Tree;

impl Keyring {
    /// Takes the next entry of a conversation, in the order of `seq` and without a gap above
    /// [`position`](Self::position).
    pub fn take(&mut self, message: &Message, now_ms: u64) -> Taken {
        let shown = self.shown(message, now_ms);
        self.settle(&message.conversation_id, now_ms);
        self.advance(&message.conversation_id, now_ms);
        Taken { shown, notices: std::mem::take(&mut self.notices) }
    }

    /// Returns the entry up to which this device has taken the log of a conversation in which it has a part.
    pub fn position(&self, conversation: &ConversationId) -> Option<Seq> {
        let seat = self.seats.get(conversation).filter(|seat| seat.group.is_some())?;
        Seq::new(seat.row.position)
    }

    /// Returns the conversations whose log is due, behind the position and up to this entry at least.
    pub fn due(&self) -> Vec<(ConversationId, Seq)> {
        let due =
            |seat: &super::Seat| (seat.group.is_some() && seat.row.due > seat.row.position).then_some(seat.row.due);
        self.busy.iter().filter_map(|id| Some((id.clone(), Seq::new(due(self.seats.get(id)?)?)?))).collect()
    }

    fn shown(&mut self, message: &Message, now_ms: u64) -> Shown {
        let id = &message.conversation_id;
        let seq = message.seq.value();
        if id.is_channel() {
            return in_clear(message);
        }
        let begins = begins_epoch(message);
        let is_secret = begins || message.kind == Kind::Sealed;
        if is_secret {
            self.meet(message);
        }
        let is_own = message.kind == Kind::Sealed && self.is_own(message);
        let Some(seat) = self.seats.get_mut(id) else {
            return in_clear(message);
        };
        if seat.group.is_some() && seq > seat.row.position + 1 {
            seat.row.due = seat.row.due.max(seq - 1);
            self.touch(id);
            return Shown::Later;
        }
        if id.is_group() && !self.follows_group(message) {
            return Shown::Later;
        }
        let Some(seat) = self.seats.get_mut(id) else { return Shown::Nothing };
        if !is_secret {
            if seat.is_looking() {
                return Shown::Later;
            }
            let shown = plain(message, seat.row.sealed_from);
            self.passed(id, seq);
            return shown;
        }
        if is_own {
            self.passed(id, seq);
            return Shown::Own;
        }
        if seq <= seat.row.position && !seat.is_looking() {
            if message.kind == Kind::Sealed && seat.is_unsettled() {
                return Shown::Later;
            }
            let is_before = message.kind == Kind::Sealed && (seat.group.is_none() || seq <= seat.row.joined_at);
            return if is_before { Shown::Unreadable(Why::BeforeJoin) } else { of_commit(message, Shown::Nothing) };
        }
        if !begins {
            return self.message(message, now_ms);
        }
        let has_part = seat.group.is_some();
        let Ok(carried) = self.carried_in(message, has_part) else { return Shown::Later };
        let shown = self.commit(&carried, now_ms);
        if let Some(seat) = self.seats.get_mut(id).filter(|_| shown != Shown::Later) {
            seat.files.clear();
        }
        of_commit(message, shown)
    }

    /// Follows the members of a group. `false`: they are not loaded yet.
    fn follows_group(&mut self, message: &Message) -> bool {
        let id = &message.conversation_id;
        let seq = message.seq.value();
        let me = self.me().clone();
        let Some(seat) = self.seats.get_mut(id) else { return true };
        let is_out = seat.row.removed || (seat.group.is_none() && seq > seat.let_in);
        if is_out && roster::named(message).0.contains(&me) {
            // The user is a member again. A refusal from before says nothing now, and a later one stands.
            seat.row.removed = false;
            (seat.refused, seat.let_in) = (None, seq);
        }
        let upto = seat.roster.as_ref().map_or(0, |roster| roster.upto);
        if seat.group.is_none() && upto > 0 && seq > upto + 1 {
            // Entries between have not come.
            self.drop_roster(id);
        }
        let Some(seat) = self.seats.get_mut(id) else { return true };
        if seat.lacks_roster(id) {
            self.touch(id);
            return false;
        }
        if self.follow_roster(message) {
            self.out(id, seq);
        }
        true
    }

    /// Makes the place of a conversation whose first sealed entry this is, and learns who its other user is.
    fn meet(&mut self, message: &Message) {
        let me = self.me().clone();
        let seat = self.seats.entry(message.conversation_id.clone()).or_default();
        if seat.row.sealed_from == 0 || message.seq.value() < seat.row.sealed_from {
            seat.row.sealed_from = message.seq.value();
            self.touch(&message.conversation_id);
        }
        let tree = files::here(message.tree.as_deref()).map(<[u8]>::to_vec);
        self.find_peer(&message.conversation_id, &[message.sender_id.clone(), me], tree.as_deref());
    }

    /// The other user is the one with whom the id is this one: of these, or of those with a leaf.
    pub(super) fn find_peer(&mut self, id: &ConversationId, users: &[UserId], tree: Option<&[u8]>) {
        let me = self.me().clone();
        let is_direct = !id.is_group();
        let Some(seat) = self.seats.get_mut(id).filter(|seat| is_direct && seat.row.peer.is_none()) else { return };
        let tree = tree.and_then(|tree| Tree::read(tree).ok());
        let leaves = tree.iter().flat_map(|tree| tree.leaves.values().map(|leaf| &leaf.credential.user));
        let is_peer = |user: &&UserId| Conversation::direct(&me, user).id() == id;
        if let Some(peer) = users.iter().chain(leaves).find(is_peer) {
            seat.row.peer = Some(peer.clone());
            self.touch(id);
        }
    }

    /// Returns the conversation with its members at the end of the log, as far as it is known.
    pub(super) fn conversation(&self, id: &ConversationId) -> Option<Conversation> {
        self.conversation_at(id, u64::MAX)
    }

    /// Returns the conversation with its members behind this entry.
    pub(super) fn conversation_at(&self, id: &ConversationId, seq: u64) -> Option<Conversation> {
        let seat = self.seats.get(id)?;
        if id.is_group() {
            let roster = seat.roster.as_ref()?;
            let group = Conversation::group(id.clone(), roster.members_at(seq)).ok()?;
            return Some(group.without(roster.former().clone()).behind_list(roster.is_new));
        }
        Some(Conversation::direct(self.me(), seat.row.peer.as_ref()?))
    }

    /// The entry has the bytes that this device sealed.
    fn is_own(&self, message: &Message) -> bool {
        let row = message.client_msg_id.as_ref().map(|id| sealed_name(&message.conversation_id, id));
        let row = row.and_then(|name| self.sealed.get(&name));
        message.sender_id == *self.me() && row.is_some_and(|row| row.sealed.body == message.body)
    }

    /// Moves the position over an entry.
    pub(super) fn passed(&mut self, id: &ConversationId, seq: u64) {
        let Some(seat) = self.seats.get_mut(id) else { return };
        if seat.row.sealed_from > 0 && seq > seat.row.position {
            seat.row.position = seq;
            self.touch(id);
        }
    }

    /// Passes over own messages and an own commit whose places are known: their entries come to other devices only.
    pub(super) fn settle(&mut self, id: &ConversationId, now_ms: u64) {
        while let Some(seat) = self.seats.get_mut(id) {
            let next = seat.row.position + 1;
            let landed = match seat.row.work {
                Work::Commit { landed, .. } => landed.filter(|seq| *seq == next || seat.group.is_none()),
                Work::Idle | Work::Look { .. } | Work::Birth { .. } | Work::Claim { .. } | Work::ClaimNew { .. } => {
                    None
                }
            };
            if let Some(seq) = landed
                && let Some(waiting) = seat.pending.take()
            {
                self.own_commit(id, waiting, seq, now_ms);
                continue;
            }
            let is_own = self.sealed.values().any(|row| row.conversation_id == *id && row.seq == Some(next));
            if seat.group.is_none() || !is_own {
                break;
            }
            seat.row.position = next;
            self.touch(id);
        }
        let position =
            self.seats.get(id).filter(|seat| seat.group.is_some()).map_or(u64::MAX, |seat| seat.row.position);
        let is_over = |row: &rows::SealedRow| row.conversation_id == *id && row.seq.is_some_and(|seq| seq <= position);
        let names: Vec<_> = self.sealed.iter().filter(|(_, row)| is_over(row)).map(|(name, _)| name.clone()).collect();
        for name in names {
            self.drop_sealed(&name);
        }
    }

    // -- Messages -----------------------------------------------------------------------------------------------------

    fn message(&mut self, message: &Message, now_ms: u64) -> Shown {
        let id = &message.conversation_id;
        let conversation = self.conversation_at(id, message.seq.value());
        let Some(seat) = self.seats.get_mut(id) else { return Shown::Nothing };
        let Some(group) = &seat.group else {
            if seat.is_idle() && !seat.row.broken && !seat.row.removed && seat.refusal(now_ms).is_none() {
                seat.look(Aim::Join);
                self.touch(id);
            }
            return self.outside(message);
        };
        if message.deleted_at.is_some() {
            self.passed(id, message.seq.value());
            let message = Message { kind: Kind::Text, body: String::new(), ..message.clone() };
            return if message.silent {
                Shown::Nothing
            } else {
                Shown::Plain { message: Box::new(message), names: None, proof: None }
            };
        }
        let (Some(conversation), Some(epoch)) = (conversation, message.epoch) else {
            self.passed(id, message.seq.value());
            return Shown::Unreadable(Why::Forged);
        };
        let body = wire::Bytes::parse(&message.body).map(|body| body.as_slice().to_vec()).unwrap_or_default();
        let opened = group.open(entry(&conversation, message, epoch), &body);
        let shown = match opened {
            Ok((moved, opened)) => {
                seat.group = Some(moved);
                let frank = message.frank.as_ref().map(|frank| frank.as_slice());
                let envelope = Envelope::read(&opened.plaintext).ok();
                let envelope = envelope.filter(|envelope| envelope.is_franked_as(&opened.plaintext, frank));
                let shown = envelope.and_then(|envelope| said::plain(message, &envelope, opened).ok());
                shown.unwrap_or(Shown::Unreadable(Why::Broken))
            }
            Err(error) => {
                let is_marked = matches!(error, Error::Unopened { own_mark: false, .. } | Error::Profile(_));
                if is_marked {
                    seat.row.wrong_marks += 1;
                    let count = seat.row.wrong_marks;
                    self.notices.push(Notice::WrongMark { conversation_id: id.clone(), count });
                }
                Shown::Unreadable(Why::Forged)
            }
        };
        self.passed(id, message.seq.value());
        shown
    }

    /// The outcome of an entry of a conversation in which this device has no part.
    pub(super) fn outside(&mut self, message: &Message) -> Shown {
        let id = &message.conversation_id;
        let Some(seat) = self.seats.get(id) else { return Shown::Nothing };
        if seat.is_unsettled() {
            return Shown::Later;
        }
        if begins_epoch(message) {
            self.passed(id, message.seq.value());
            return Shown::Nothing;
        }
        let why = if seat.row.broken { Why::Broken } else { Why::BeforeJoin };
        self.passed(id, message.seq.value());
        Shown::Unreadable(why)
    }
}

/// The entry has a commit, or is a birth.
fn begins_epoch(message: &Message) -> bool {
    message.kind == Kind::Commit || (message.kind == Kind::System && message.commit.is_some())
}

/// A system entry is shown, whatever its commit is. The bytes are the keyring's.
fn of_commit(message: &Message, shown: Shown) -> Shown {
    if message.kind != Kind::System || shown == Shown::Later {
        return shown;
    }
    let message = Message { commit: None, welcome: None, tree: None, ..message.clone() };
    Shown::Plain { message: Box::new(message), names: None, proof: None }
}

/// An entry as it is. With an `epoch` the app would show it as one that was sealed.
fn in_clear(message: &Message) -> Shown {
    Shown::Plain { message: Box::new(Message { epoch: None, ..message.clone() }), names: None, proof: None }
}

/// A plain entry. Behind the first birth, the server takes only a `delete`, a pin, the end of a reaction, and system
/// entries of groups.
fn plain(message: &Message, sealed_from: u64) -> Shown {
    let is_quiet = match message.kind {
        Kind::Delete | Kind::Pin => true,
        Kind::System => message.conversation_id.is_group(),
        Kind::Reaction => message.emoji.is_none(),
        _ => false,
    };
    if sealed_from == 0 || message.seq.value() < sealed_from || is_quiet {
        return in_clear(message);
    }
    Shown::Unreadable(Why::PlainBehindBirth)
}

pub(super) fn entry<'a>(conversation: &'a Conversation, message: &'a Message, epoch: u64) -> Entry<'a> {
    Entry { conversation, sender_id: &message.sender_id, client_msg_id: message.client_msg_id.as_ref(), epoch }
}
