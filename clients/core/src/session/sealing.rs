//! The end-to-end encryption. The keyring makes all decisions. The session passes it the entries
//! of the log in order, sends its requests, and writes its rows with everything else of the turn.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use pigeonhole_sealing::{Envelope, Lock, Party, Prepared, Readiness, RequestKey, Roll, Sealed, Shown};
use serde_json::{Value, json};
use wire::limits::{HISTORY_LIMIT_MAX, INBOX_LIMIT_MAX};
use wire::{
    Action, Attached, ClientMsgId, Conversation, ConversationId, HistoryRequest, HistoryResult, InboxRequest,
    InboxResult, Kind, Message, PingResult, Problem, Rekeyed, Role, SendResult, Seq, Side, Target, Timestamp,
    direct_conversation_id,
};

use super::Core;
use super::own_entries::{Plaintext, own_entry, plaintext};
use super::requests::{Errand, REKEY_REQUIRED, Sending};
use crate::chat::{Found, Load, LoadId};
use crate::media::{Source, Upload};
use crate::saved::{Outgoing, Queued, StorageChange};
use crate::turn::{Output, Trust};
use crate::unreadable::Unreadable;
use crate::{Error, Event, Moment, Write};

/// While the keyring has this number of requests under way, it joins no further conversation of the chat list.
const MEETINGS_MAX: usize = 4;
/// Reads by the session have numbers from here on, and those of views lower ones.
const FIRST_LOAD: LoadId = 1 << 62;

#[derive(Default)]
pub(super) struct Sealing {
    /// Requests of the keyring whose connection ended before the reply.
    pub(super) again: Vec<(RequestKey, Action)>,
    /// Conversations whose next entry the keyring can't judge yet.
    pub(super) waiting: BTreeSet<ConversationId>,
    /// Conversations in which the keyring has taken less than the app has passed, and no request for it is under way.
    behind: BTreeSet<ConversationId>,
    /// Own messages with a reply whose place in the log has not come. The outbox keeps their text until then.
    stored: BTreeMap<ClientMsgId, Queued>,
    /// The ids of messages to which requests of the outbox refer, once the store was read.
    targets: BTreeMap<(ConversationId, Seq), Option<ClientMsgId>>,
    loads: BTreeMap<LoadId, (ConversationId, Seq)>,
    last_load: LoadId,
    /// The store's chat list was requested. Its rows have the peers of conversations.
    is_started: bool,
    /// The encrypted conversations of the chat list, in its order.
    met: VecDeque<Party>,
    /// The groups in the clear, by the server's chat list or an own request.
    plain: BTreeSet<ConversationId>,
    /// The groups in the clear by the store, until the server has listed what has changed since.
    stored_plain: BTreeSet<ConversationId>,
    is_listed: bool,
    /// The groups that the user has left, by the server's chat list. Their rows don't say whether they are encrypted.
    left: BTreeSet<ConversationId>,
    /// Groups of messages that wait for a row of the chat list.
    unknown: BTreeSet<ConversationId>,
    /// Rows are under way.
    looks_up: bool,
    look_up_at: Option<Moment>,
    /// The server's list of features.
    features: Option<BTreeSet<String>>,
}

/// After this time, the client looks again for the row of a new group.
const LOOK_UP_AGAIN: Duration = Duration::from_secs(2);
const GROUPS: &str = "encryption.groups";
const REPORTS: &str = "encryption.report";
/// A `send` takes a read mark.
const FUSE: &str = "fuse";
/// Users have names.
const PROFILES: &str = "profiles";

impl Sealing {
    /// Whether the next request for rows is due, or will be.
    fn wants_rows(&self) -> bool {
        !self.unknown.is_empty() && self.is_listed && !self.looks_up
    }

    fn is_plain(&self, id: &ConversationId) -> bool {
        self.plain.contains(id) || (self.is_listed && self.stored_plain.contains(id))
    }

    /// The user has come into the group or left it: its members can have begun to encrypt, or will.
    pub(super) fn turned(&mut self, id: &ConversationId) {
        self.plain.remove(id);
        self.stored_plain.remove(id);
        self.left.remove(id);
    }
}

/// The users who may read a request.
#[derive(PartialEq)]
pub(super) enum Reader {
    Any,
    /// The other user, or the members of this group.
    Of(Party),
    /// A user whose row of the chat list has not come.
    Unknown,
}

/// How a request of the outbox leaves.
pub(super) enum Form {
    Clear,
    Sealed(Sealed),
    /// A change of a group's members, with its commit.
    Rekeyed(Box<Rekeyed>),
    /// Not now. The next turn tries again.
    Waits,
    Refused(Error),
}

pub(super) fn millis(wall: Timestamp) -> u64 {
    u64::try_from(wall.millis()).unwrap_or_default()
}

impl Core {
    /// Makes the requests of the keyring that are due.
    pub(super) fn keyring_due(&mut self, now: Moment) {
        let wall = millis(self.wall);
        let Some(keyring) = &mut self.keyring else { return };
        let mut due = std::mem::take(&mut self.sealing.again);
        due.extend(keyring.requests(wall));
        while self.requests.of_keyring() + due.len() < MEETINGS_MAX
            && let Some(party) = self.sealing.met.pop_front()
        {
            keyring.met(party, wall);
            due.extend(keyring.requests(wall));
        }
        for (key, action) in due {
            self.ask(Errand::Keyring(key, Box::new(action)), now);
        }
        self.carry_due(now);
        self.fetch_due(now);
        self.look_up_due(now);
    }

    /// The user has decided.
    pub(super) fn trust(&mut self, trust: Trust) {
        let Some(keyring) = &mut self.keyring else { return };
        let now_ms = millis(self.wall);
        match trust {
            Trust::Verify(user) => keyring.verify(&user),
            Trust::Accept(user) => keyring.accept(&user),
            Trust::Reset(user) => keyring.reset(&user, now_ms),
            Trust::ResetGroup(group) => keyring.reset(&group, now_ms),
            Trust::Remove(device) => keyring.remove_device(&device, now_ms),
        }
    }

    /// A connection is there.
    pub(super) fn keyring_connected(&mut self, now: Moment) {
        if let Some(keyring) = &mut self.keyring {
            keyring.connected();
            self.find_behind();
            self.ask(Errand::Features, now);
        }
    }

    pub(super) fn keyring_answered(&mut self, key: &RequestKey, result: Result<Value, Problem>, now: Moment) {
        let Some(keyring) = &mut self.keyring else { return };
        let answered = keyring.answered(key, result, millis(self.wall));
        for notice in answered.notices {
            self.tell(Event::Security(notice));
        }
        if let Some(entry) = answered.entry {
            self.arrived(*entry, false, now);
        }
        self.find_behind();
        self.show_waiting(now);
    }

    /// Shows the entries that waited for the keyring.
    pub(super) fn show_waiting(&mut self, now: Moment) {
        for id in std::mem::take(&mut self.sealing.waiting) {
            self.show(&id, now);
        }
    }

    /// Ends the turn: what the keyring has changed is committed with the rest, before anything leaves.
    pub(super) fn write_keyring(&mut self) {
        let Some(keyring) = &mut self.keyring else { return };
        let changes = keyring.take_changes();
        self.lasting |= !changes.is_empty();
        self.writes.extend(changes.into_iter().map(|(key, value)| Write::Sealing { key, value }));
    }

    pub(super) fn keyring_wakes(&self) -> Option<Moment> {
        let at = self.keyring.as_ref()?.wake_at();
        let at = at.map(|at| self.now + Duration::from_millis(at.saturating_sub(millis(self.wall))));
        at.into_iter().chain(self.sealing.look_up_at.filter(|_| self.sealing.wants_rows())).min()
    }

    /// Returns what the app gets of an entry. `None`: the client has no encryption.
    pub(super) fn content(&mut self, message: Message, shown: Option<Shown>) -> Message {
        match shown {
            None => message,
            Some(Shown::Plain { message, proof, .. }) => Message { proof, ..*message },
            Some(Shown::Own) => self.own_text(&message).unwrap_or_else(|| Unreadable::Broken.of(message)),
            Some(Shown::Unreadable(why)) => Unreadable::from(why).of(message),
            Some(Shown::Nothing | Shown::Later) => without_bytes(message),
        }
    }

    /// Returns the own message that this device sealed, from the outbox: an author can't open the bytes.
    fn own_text(&mut self, entry: &Message) -> Option<Message> {
        let id = entry.client_msg_id.as_ref()?;
        let queued = match self.sealing.stored.remove(id) {
            Some(queued) => {
                self.settle(&queued, entry.seq);
                queued
            }
            None => self.outbox.find(id)?.clone(),
        };
        let is_edit = plaintext(&queued.outgoing).is_some_and(|plaintext| plaintext.kind == Kind::Edit);
        let file = queued.outgoing.upload().and_then(Upload::sealed_media);
        let stored = SendResult {
            conversation_id: entry.conversation_id.clone(),
            seq: entry.seq,
            message_id: entry.message_id.clone(),
            sent_at: entry.sent_at,
            duplicate: false,
            version: is_edit.then_some(entry.seq.value()),
            read_seq: None,
            message: None,
        };
        let own = own_entry(queued, stored, vec![], self.me.clone());
        let media = file.map(Attached::Clear).map(Box::new);
        Some(Message { epoch: entry.epoch, silent: entry.silent, media, ..own })
    }

    /// The server has stored a sealed message. The app gets the text at its place in the log.
    pub(super) fn stored_sealed(&mut self, queued: Queued, sealed: &Sealed, stored: SendResult, now: Moment) {
        if self.conversations.shown(&stored.conversation_id) >= stored.seq {
            return self.settle(&queued, stored.seq);
        }
        let SendResult { conversation_id, seq, message_id, sent_at, .. } = stored;
        let body = sealed.body.clone();
        let (id, me) = (queued.client_msg_id.clone(), self.me.clone());
        let entry = Message::text(conversation_id, seq, message_id, me, body, sent_at);
        let (epoch, silent) = (Some(sealed.epoch), sealed.silent);
        self.sealing.stored.insert(id.clone(), queued);
        self.arrived(Message { kind: Kind::Sealed, client_msg_id: Some(id), epoch, silent, ..entry }, false, now);
    }

    /// The message is stored and told: nothing of it need be kept.
    fn settle(&mut self, queued: &Queued, seq: Seq) {
        self.forget_sealed(queued, Some(seq));
        self.save(StorageChange::Done(queued.client_msg_id.clone()));
    }

    /// The bytes of this message leave no more. `seq`: its place, unless the server refused it for good.
    pub(super) fn forget_sealed(&mut self, queued: &Queued, seq: Option<Seq>) {
        if let (Some(party), Some(keyring)) = (self.party_of(queued), &mut self.keyring) {
            keyring.sent(party, &queued.client_msg_id, seq, millis(self.wall));
        }
    }

    /// The server has not stored it, since the conversation has another epoch, or users have left. The message is sent again once
    /// the log has come up to its end, and a commit removes the users who left.
    pub(super) fn send_stale(&mut self, queued: &Queued, problem: &Problem, now: Moment) {
        let (epoch, last_seq) = (problem.epoch.unwrap_or_default(), problem.last_seq.unwrap_or_default());
        let (id, wall) = (&queued.client_msg_id, millis(self.wall));
        if let (Some(party), Some(keyring)) = (self.party_of(queued), &mut self.keyring) {
            match (&party, roll_of(queued)) {
                (Party::Conversation(group), Some(_)) => keyring.rolled(group, id, Err(problem), wall),
                _ if problem.code == REKEY_REQUIRED => keyring.rekey(party, id, &problem.members, wall),
                _ => keyring.stale(party, id, epoch, last_seq, wall),
            }
        }
        self.outbox.unsend(queued);
        if let Some(id) = &problem.conversation_id {
            self.ends_at(id, last_seq, now);
        }
    }

    /// The server has stored a change of a group's members, with its commit, or refused it for good.
    pub(super) fn rolled(&mut self, queued: &Queued, result: Result<Seq, &Problem>) {
        let (Some(Party::Conversation(id)), Some(_)) = (self.party_of(queued), roll_of(queued)) else { return };
        if let Some(keyring) = &mut self.keyring {
            keyring.rolled(&id, &queued.client_msg_id, result, millis(self.wall));
        }
    }

    /// Returns the conversation of a request, as the keyring names it.
    fn party_of(&self, queued: &Queued) -> Option<Party> {
        match queued.outgoing.target()? {
            Target::Conversation(id) if id.is_group() => Some(Party::Conversation(id)),
            Target::User(_) | Target::Conversation(_) => self.outbox.recipient(queued).map(|peer| Party::from(&peer)),
        }
    }

    /// Returns who alone may read a request. A service has no keys.
    pub(super) fn reader_of(&self, queued: &Queued) -> Reader {
        let Some(keyring) = &self.keyring else { return Reader::Any };
        match queued.outgoing.target() {
            Some(Target::Conversation(id)) if id.is_group() => {
                if keyring.lock(&id) != Lock::Plain {
                    Reader::Of(Party::Conversation(id))
                } else if self.sealing.is_plain(&id) {
                    Reader::Any
                } else {
                    Reader::Unknown
                }
            }
            Some(Target::Conversation(id)) if id.has_members() => Reader::Any,
            Some(_) => match self.outbox.recipient(queued) {
                Some(peer) if peer.is_service() => Reader::Any,
                Some(peer) => Reader::Of(Party::User(peer)),
                None => Reader::Unknown,
            },
            None => Reader::Any,
        }
    }

    /// Returns how a change of a group's members leaves: an encrypted group needs a commit with it.
    fn form_of_roll(&mut self, queued: &Queued, roll: Roll<'_>) -> Form {
        let id = match self.reader_of(queued) {
            Reader::Of(Party::Conversation(id)) => id,
            Reader::Any | Reader::Of(Party::User(_)) => return Form::Clear,
            Reader::Unknown => return self.waits_for_row(queued),
        };
        let Some(keyring) = &mut self.keyring else { return Form::Clear };
        match keyring.roll(&id, &queued.client_msg_id, roll, millis(self.wall)) {
            Prepared::Plain => Form::Clear,
            Prepared::Ready(keys) => Form::Rekeyed(keys),
            Prepared::Waits | Prepared::Held(_) => Form::Waits,
            Prepared::Refused(code, _) => {
                let message = "the members can't be added to an encrypted group".to_owned();
                Form::Refused(Error::Refused { code, message })
            }
        }
    }

    /// Returns whether a message can be sealed now, and begins what is missing.
    fn prepare(&mut self, party: &Party) -> Result<bool, Error> {
        let Some(keyring) = &mut self.keyring else { return Ok(false) };
        match keyring.prepare(party.clone(), millis(self.wall)) {
            Readiness::Ready => Ok(true),
            Readiness::Waits | Readiness::Held(_) => Ok(false),
            Readiness::Refused(code) => {
                Err(Error::Refused { code, message: "the message can't be encrypted".to_owned() })
            }
        }
    }

    /// Returns whether a message's file is uploaded encrypted. `None`: not decided yet. The upload waits until the
    /// conversation is encrypted: the server takes no ciphertext before.
    pub(super) fn seals_file(&mut self, queued: &Queued) -> Result<Option<bool>, Error> {
        let Some(upload) = queued.outgoing.upload() else { return Ok(Some(false)) };
        let is_copy = matches!(upload.source, Source::CopyOf { .. });
        match self.reader_of(queued) {
            Reader::Unknown => match self.waits_for_row(queued) {
                Form::Refused(error) => Err(error),
                _ => Ok(None),
            },
            Reader::Any if is_copy && upload.sealed.is_some() => {
                let problem = "an encrypted file can't be copied into a conversation in the clear".to_owned();
                Err(Error::Invalid { field: "copy_of", problem })
            }
            Reader::Any => Ok(Some(false)),
            Reader::Of(_) if upload.sealed.is_none() => Err(not_encrypted()),
            Reader::Of(party) => Ok(self.prepare(&party)?.then_some(true)),
        }
    }

    /// Returns how a request leaves. With encryption, nothing that a person reads leaves in the clear.
    pub(super) fn form_of(&mut self, queued: &Queued) -> Form {
        if let Some(roll) = roll_of(queued) {
            return self.form_of_roll(queued, roll);
        }
        if let Outgoing::Request(Action::Create(request)) = &queued.outgoing
            && request.encrypted
        {
            return self.form_of_create();
        }
        let Some(plaintext) = plaintext(&queued.outgoing) else { return Form::Clear };
        let party = match self.reader_of(queued) {
            Reader::Any => return Form::Clear,
            Reader::Of(party) => party,
            Reader::Unknown => return self.waits_for_row(queued),
        };
        let Some(keyring) = &mut self.keyring else { return Form::Clear };
        if let Some(sealed) = keyring.sealed(party.clone(), &queued.client_msg_id) {
            return Form::Sealed(sealed);
        }
        // Whether the message needs a digest for reports.
        if self.sealing.features.is_none() {
            return Form::Waits;
        }
        match self.prepare(&party) {
            Ok(true) => {}
            Ok(false) => return Form::Waits,
            Err(error) => return Form::Refused(error),
        }
        let Some(mut envelope) = self.envelope(&party, queued.made_at, plaintext) else { return Form::Waits };
        match queued.outgoing.upload().map(Upload::sealed_media) {
            None => {}
            Some(Some(media)) => envelope.set_media(&media),
            Some(None) => return Form::Refused(not_encrypted()),
        }
        let Some(keyring) = &mut self.keyring else { return Form::Waits };
        match keyring.seal(party, &queued.client_msg_id, &envelope) {
            Ok(sealed) => Form::Sealed(sealed),
            Err(_) => Form::Refused(Error::TooLarge),
        }
    }

    /// Returns what is sealed, or `None` while the store is read for the message to which it refers.
    fn envelope(&mut self, party: &Party, made_at: Timestamp, plaintext: Plaintext) -> Option<Envelope> {
        let id = match party {
            Party::User(peer) => direct_conversation_id(&self.me, peer),
            Party::Conversation(id) => id.clone(),
        };
        let Plaintext { kind, body, mut fields, refers_to } = plaintext;
        if let Some((name, seq)) = refers_to {
            fields.insert(name.to_owned(), self.target(&id, seq)?);
        }
        let after = self.conversations.shown(&id).value();
        let at = json!(made_at).as_str().unwrap_or_default().to_owned();
        Some(Envelope { kind: kind.as_str().to_owned(), body, at, after, fields })
    }

    /// Returns the name of a message: its `seq`, and the id that its author signed, if the store has that. `None`: the store
    /// is being read.
    fn target(&mut self, id: &ConversationId, seq: Seq) -> Option<Value> {
        let key = (id.clone(), seq);
        if let Some(known) = self.sealing.targets.remove(&key) {
            let Some(client_msg_id) = known else { return Some(json!({"seq": seq})) };
            return Some(json!({"seq": seq, "client_msg_id": client_msg_id}));
        }
        if !self.sealing.loads.values().any(|asked| *asked == key) {
            let what = Load::Window { conversation_id: id.clone(), side: Side::After(seq.previous()) };
            let load = self.load(what);
            self.sealing.loads.insert(load, key);
        }
        None
    }

    pub(super) fn load(&mut self, what: Load) -> LoadId {
        self.sealing.last_load += 1;
        let load = FIRST_LOAD + self.sealing.last_load;
        self.outputs.push(Output::Load { load, what });
        load
    }

    /// Reads the peers of all conversations from the store, once.
    pub(super) fn start_keyring(&mut self) {
        if self.keyring.is_some() && !std::mem::replace(&mut self.sealing.is_started, true) {
            self.load(Load::Start);
        }
    }

    /// Takes what the session has read. Returns what is for a view.
    pub(super) fn read_for_keyring(&mut self, load: LoadId, found: Found) -> Option<Found> {
        if load < FIRST_LOAD {
            return Some(found);
        }
        let found = self.read_for_report(load, found)?;
        match (self.sealing.loads.remove(&load), found) {
            (None, Found::Start { chats, .. }) => {
                self.outbox.remember_rows(&chats);
                let groups = chats.iter().filter(|row| row.conversation_id.is_group() && says_how(row));
                let (encrypted, plain): (Vec<_>, Vec<_>) = groups.partition(|row| row.encrypted);
                self.sealing.stored_plain.extend(plain.into_iter().map(|row| row.conversation_id.clone()));
                for row in encrypted {
                    self.group_created(&row.conversation_id, true);
                }
            }
            (Some((id, seq)), found) => {
                let messages = if let Found::Window { window, .. } = found { window.messages } else { vec![] };
                let target = messages.into_iter().find(|message| message.seq == seq);
                self.sealing.targets.insert((id, seq), target.and_then(|target| target.client_msg_id));
            }
            (None, _) => {}
        }
        None
    }

    /// Replaces the bytes of sealed entries in a page. The entries come in their order, once the keyring has opened them,
    /// and until then the page shows their places.
    pub(super) fn hide_bytes(&mut self, page: &mut HistoryResult, id: &ConversationId, now: Moment) {
        let is_secret = |message: &Message| matches!(message.kind, Kind::Sealed | Kind::Commit);
        if self.keyring.is_none() || !page.messages.iter().any(is_secret) {
            return;
        }
        let shown = self.conversations.shown(id);
        let position = self.keyring.as_ref().and_then(|keyring| keyring.position(id));
        for message in &mut page.messages {
            // Without a part in the conversation, no entry need come in its order.
            let is_passed = message.seq <= shown || position.is_none_or(|position| message.seq <= position);
            match message.kind {
                Kind::Sealed if is_passed => Unreadable::BeforeJoin.replace(message),
                Kind::Sealed => Unreadable::Later.replace(message),
                Kind::Commit => *message = without_bytes(message.clone()),
                _ => {}
            }
        }
        self.ends_at(id, page.last_seq, now);
    }

    /// Takes the rows of the chat list: a conversation that is encrypted needs this device in it.
    pub(super) fn meet(&mut self, row: &Conversation) {
        if self.keyring.is_none() {
            return;
        }
        let is_group = row.conversation_id.is_group();
        if is_group && says_how(row) {
            self.sealing.left.remove(&row.conversation_id);
            self.group_created(&row.conversation_id, row.encrypted);
        } else if is_group && row.role == Some(Role::None) {
            self.sealing.turned(&row.conversation_id);
            self.sealing.unknown.remove(&row.conversation_id);
            self.sealing.left.insert(row.conversation_id.clone());
        }
        if !row.encrypted {
            return;
        }
        if is_group {
            // A group that was created encrypted begins with a commit of its owner.
            if row.epoch > Some(0) {
                self.sealing.met.push_back(Party::from(&row.conversation_id));
            }
        } else if let Some(peer) = &row.peer_id {
            self.sealing.met.push_back(Party::from(peer));
        }
    }

    /// Takes whether a group is encrypted from its start.
    pub(super) fn group_created(&mut self, id: &ConversationId, is_encrypted: bool) {
        let Some(keyring) = &mut self.keyring else { return };
        self.sealing.unknown.remove(id);
        if is_encrypted {
            keyring.created(id);
        } else {
            self.sealing.plain.insert(id.clone());
        }
    }

    /// Begins the encryption of an own group. The members then need no administrator for a first message.
    pub(super) fn begin_group(&mut self, id: &ConversationId) {
        if let Some(keyring) = &mut self.keyring {
            let _ = keyring.prepare(id, millis(self.wall));
        }
    }

    /// The server has listed all conversations that have changed while the client had no connection.
    pub(super) fn keyring_listed(&mut self) {
        self.sealing.is_listed = true;
    }

    /// Takes the server's list of features.
    pub(super) fn features_came(&mut self, result: Option<PingResult>) {
        let features = result.and_then(|result| result.features).unwrap_or_default();
        let features: BTreeSet<String> = features.into_iter().collect();
        if let Some(keyring) = &mut self.keyring {
            keyring.set_franking(features.contains(REPORTS));
        }
        self.reports.set_fuses(Some(features.contains(FUSE)));
        self.views.set_has_profiles(Some(features.contains(PROFILES)));
        self.sealing.features = Some(features);
    }

    /// Returns whether the server checks the proofs of a report, once it has listed its features.
    pub(super) fn checks_proofs(&self) -> Option<bool> {
        self.sealing.features.as_ref().map(|features| features.contains(REPORTS))
    }

    /// Returns how the request for an encrypted group leaves. Another server would make a group in the clear.
    fn form_of_create(&self) -> Form {
        match &self.sealing.features {
            None if self.keyring.is_some() => Form::Waits,
            Some(features) if !features.contains(GROUPS) => {
                let (code, message) = ("forbidden".to_owned(), "the server has no encrypted groups".to_owned());
                Form::Refused(Error::Refused { code, message })
            }
            None | Some(_) => Form::Clear,
        }
    }

    /// A message waits for the row of its group, which is new on this device.
    fn waits_for_row(&mut self, queued: &Queued) -> Form {
        if let Some(Party::Conversation(id)) = self.party_of(queued) {
            if self.sealing.left.contains(&id) {
                let (code, message) = ("not_member".to_owned(), "the user has left the group".to_owned());
                return Form::Refused(Error::Refused { code, message });
            }
            self.sealing.unknown.insert(id);
        }
        Form::Waits
    }

    /// Requests the chat list for groups that are new on this device.
    fn look_up_due(&mut self, now: Moment) {
        if self.sealing.wants_rows() && self.sealing.look_up_at.is_none_or(|at| at <= now) {
            self.look_up(None, now);
        }
    }

    fn look_up(&mut self, cursor: Option<String>, now: Moment) {
        (self.sealing.looks_up, self.sealing.look_up_at) = (true, None);
        self.ask(Errand::Rows(InboxRequest { limit: INBOX_LIMIT_MAX, cursor, since: None, pinned: false }), now);
    }

    pub(super) fn rows_came(&mut self, page: Option<InboxResult>, now: Moment) {
        self.rows_lost();
        let Some(page) = page else { return self.rows_ended(now) };
        self.outbox.remember_rows(&page.conversations);
        for row in page.conversations {
            self.store(|| Write::Row(row.clone()));
            self.meet(&row);
            self.tell(Event::ConversationChanged(row));
        }
        match page.next_cursor {
            _ if self.sealing.unknown.is_empty() => {}
            Some(cursor) => self.look_up(Some(cursor), now),
            None => self.rows_ended(now),
        }
    }

    fn rows_ended(&mut self, now: Moment) {
        self.sealing.look_up_at = Some(now + LOOK_UP_AGAIN);
    }

    pub(super) fn rows_lost(&mut self) {
        (self.sealing.looks_up, self.sealing.look_up_at) = (false, None);
    }

    /// The server has refused a message in the clear, since its group was sealed before. Returns whether it leaves sealed.
    pub(super) fn seals_after_all(&mut self, sending: &Sending) -> bool {
        let party = self.party_of(&sending.queued);
        let (Some(keyring), Some(Party::Conversation(id))) = (&mut self.keyring, party) else { return false };
        if sending.sealed.is_some() || plaintext(&sending.queued.outgoing).is_none() {
            return false;
        }
        keyring.created(&id);
        self.outbox.unsend(&sending.queued);
        true
    }

    /// Everything that was stored until now has come.
    pub(super) fn keyring_caught_up(&mut self) {
        if let Some(keyring) = &mut self.keyring {
            keyring.caught_up(millis(self.wall));
        }
    }

    /// Requests the entries that the keyring needs.
    fn fetch_due(&mut self, now: Moment) {
        let due = self.keyring.as_ref().map_or(vec![], |keyring| keyring.due());
        for (id, seq) in due {
            self.ends_at(&id, seq, now);
        }
        self.open_due(now);
    }

    /// Finds the conversations that the keyring has joined below what the app has passed.
    fn find_behind(&mut self) {
        let Some(keyring) = &self.keyring else { return };
        let behind = self.conversations.known().filter(|id| {
            let position = keyring.position(id);
            position.is_some_and(|position| position < self.conversations.shown(id))
        });
        self.sealing.behind = behind.cloned().collect();
    }

    /// Requests entries that the keyring has not taken, although the app has passed them.
    fn open_due(&mut self, now: Moment) {
        for id in std::mem::take(&mut self.sealing.behind) {
            let position = self.keyring.as_ref().and_then(|keyring| keyring.position(&id));
            let is_behind =
                |position: &Seq| *position < self.conversations.shown(&id) && !self.requests.is_opening(&id);
            if let Some(position) = position.filter(is_behind) {
                let (side, limit) = (Side::After(position), HISTORY_LIMIT_MAX);
                self.ask(Errand::Open(HistoryRequest { conversation_id: id, side, limit }), now);
            }
        }
    }

    pub(super) fn open_lost(&mut self, id: ConversationId) {
        self.sealing.behind.insert(id);
    }

    /// Opens entries that the app has passed. The app gets them from the store and in views, and not as events.
    pub(super) fn opened_page(&mut self, id: &ConversationId, page: HistoryResult, now: Moment) {
        let shown = self.conversations.shown(id);
        let before = self.keyring.as_ref().and_then(|keyring| keyring.position(id));
        for message in page.messages.into_iter().filter(|message| message.seq <= shown) {
            let Some(keyring) = &mut self.keyring else { return };
            let taken = keyring.take(&message, millis(self.wall));
            for notice in taken.notices {
                self.tell(Event::Security(notice));
            }
            if matches!(taken.shown, Shown::Later) {
                break;
            }
            let message = self.content(message, Some(taken.shown));
            self.pass(message);
        }
        let after = self.keyring.as_ref().and_then(|keyring| keyring.position(id));
        if after > before && after < Some(shown) {
            self.sealing.behind.insert(id.clone());
        }
        self.show(id, now);
    }
}

/// Returns whether the row of a group says how the group is encrypted: with the rules, which only members see.
fn says_how(row: &Conversation) -> bool {
    row.encrypted || row.history.is_some()
}

/// Returns the change of a group's members that a request makes.
fn roll_of(queued: &Queued) -> Option<Roll<'_>> {
    match &queued.outgoing {
        Outgoing::Request(Action::Add(request)) if request.conversation_id.is_group() => {
            Some(Roll::Add(&request.members))
        }
        Outgoing::Request(Action::Remove(request)) if request.conversation_id.is_group() => {
            Some(Roll::Remove(&request.user_id))
        }
        Outgoing::Request(_) | Outgoing::Message { .. } => None,
    }
}

fn not_encrypted() -> Error {
    let (code, message) = ("encryption_required".to_owned(), "the file is in the clear: send it anew".to_owned());
    Error::Refused { code, message }
}

/// Returns the entry of a commit without what only the keyring needs.
fn without_bytes(message: Message) -> Message {
    Message { body: String::new(), commit: None, welcome: None, tree: None, removes: None, ..message }
}
