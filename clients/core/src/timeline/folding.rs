//! Property tests: entries, pages and rows come in any order, each read at any time. Once all have come, the view
//! matches the log.

use proptest::prelude::*;
use serde_json::json;
use wire::{
    ConversationId, DeleteRequest, EditRequest, Emoji, HistoryFrom, Member, MessageId, ReactRequest, Reaction, Target,
};

use super::*;

const ME: &str = "alice";
const USERS: [&str; 4] = [ME, "bob", "carol", "dave"];
/// A service that deletes the messages of any user, and is a member of no conversation.
const OPERATOR: &str = "@system";
const EMOJIS: [&str; 3] = ["👍", "🎉", "｡"];

/// The next act of a user, if it is allowed then. Numbers are indexes, modulo the number of choices.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Say {
        reply_to: usize,
        mentions: usize,
    },
    Edit(usize),
    Delete(usize),
    React {
        pick: usize,
        emoji: usize,
    },
    // In groups.
    Add(usize),
    Remove(usize),
    Leave,
    Role(usize),
    /// Whether new members see earlier entries.
    History(HistoryFrom),
}

pub(crate) fn act() -> impl Strategy<Value = Act> {
    let pick = 0..1000_usize;
    prop_oneof![
        4 => (pick.clone(), 0..8_usize).prop_map(|(reply_to, mentions)| Act::Say { reply_to, mentions }),
        3 => pick.clone().prop_map(Act::Edit),
        1 => pick.clone().prop_map(Act::Delete),
        3 => (pick, 0..=EMOJIS.len()).prop_map(|(pick, emoji)| Act::React { pick, emoji }),
    ]
}

fn act_in_a_group() -> impl Strategy<Value = Act> {
    let user = 0..USERS.len();
    prop_oneof![
        10 => act(),
        3 => user.clone().prop_map(Act::Add),
        2 => user.clone().prop_map(Act::Remove),
        1 => Just(Act::Leave),
        1 => user.prop_map(Act::Role),
        1 => prop_oneof![Just(HistoryFrom::All), Just(HistoryFrom::Joined)].prop_map(Act::History),
    ]
}

/// Generates acts in a channel. Reactions are no entries there, and a leave without an admin sends no event.
fn act_in_a_channel() -> impl Strategy<Value = Act> {
    let (pick, other) = (0..1000_usize, 1..USERS.len());
    prop_oneof![
        4 => pick.clone().prop_map(|reply_to| Act::Say { reply_to, mentions: 0 }),
        3 => pick.clone().prop_map(Act::Edit),
        1 => pick.prop_map(Act::Delete),
        3 => other.clone().prop_map(Act::Add),
        2 => other.clone().prop_map(Act::Remove),
        1 => other.prop_map(Act::Role),
    ]
}

/// An input of the view; numbers are indexes, modulo the number of choices. `read_at`: when the server read it.
#[derive(Clone, Debug)]
enum Step {
    Entry {
        seq: usize,
        read_at: usize,
    },
    Page {
        from: usize,
        length: usize,
        read_at: usize,
    },
    Row {
        read_at: usize,
    },
    Queued(usize),
    /// An own change that is refused.
    Refused(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let any = 0..1000_usize;
    prop_oneof![
        4 => (any.clone(), any.clone()).prop_map(|(seq, read_at)| Step::Entry { seq, read_at }),
        2 => (any.clone(), 1..8_usize, any.clone())
            .prop_map(|(from, length, read_at)| Step::Page { from, length, read_at }),
        1 => any.clone().prop_map(|read_at| Step::Row { read_at }),
        2 => any.clone().prop_map(Step::Queued),
        1 => any.prop_map(Step::Refused),
    ]
}

/// The conversation as the server stores it: each entry as it was appended. Later entries determine its state at a
/// read.
pub(crate) struct Log {
    pub(crate) entries: Vec<Message>,
    is_group: bool,
    is_channel: bool,
    /// The users who join or leave with each entry, and the entries that new members see.
    turns: Vec<(Seq, UserId, Option<HistoryFrom>)>,
    history: HistoryFrom,
}

/// The part of the log that the viewer sees at some time.
pub(crate) struct View {
    first: Seq,
    /// Their own join.
    joined: Seq,
    /// The viewer has left with the last entry.
    is_over: bool,
    is_channel: bool,
    /// From `first` on, as they are then, or were when they left.
    entries: Vec<Message>,
    /// The entries as the server returns them: without texts that changed after the viewer left.
    given: Vec<Message>,
}

impl Log {
    fn new(is_group: bool) -> Self {
        Self { entries: Vec::new(), is_group, is_channel: false, turns: Vec::new(), history: HistoryFrom::Joined }
    }

    /// By the first two users, and the operator.
    pub(crate) fn direct(acts: &[(usize, Act)]) -> Self {
        let mut log = Self::new(false);
        log.append("bob", &Act::Say { reply_to: 0, mentions: 0 });
        for (who, act) in acts {
            log.append([ME, "bob", OPERATOR][*who], act);
        }
        log
    }

    fn group(acts: &[(usize, Act)]) -> Self {
        Self::new(true).begun(acts)
    }

    /// The viewer is in it to the end.
    fn channel(acts: &[(usize, Act)]) -> Self {
        Self { is_channel: true, ..Self::new(true) }.begun(acts)
    }

    /// The first two are in it from the beginning.
    fn begun(self, acts: &[(usize, Act)]) -> Self {
        let mut log = self;
        let members = USERS[..2].iter().map(|user| id(user)).collect::<Vec<_>>();
        let mut entry = log.blank(ME);
        let title = wire::Title::parse("Trip").unwrap();
        log.turns = members.iter().map(|user| (Seq::FIRST, user.clone(), Some(HistoryFrom::Joined))).collect();
        (entry.kind, entry.system) = (Kind::System, Some(System::Created { title, members, look: Box::default() }));
        log.entries.push(entry);
        for (who, act) in acts {
            let who = USERS.get(*who).copied().unwrap_or(OPERATOR);
            if who == OPERATOR || log.is_member(who) {
                log.append(who, act);
            }
        }
        log
    }

    fn is_member(&self, user: &str) -> bool {
        self.turns.iter().rfind(|(_, who, _)| *who == *user).is_some_and(|(_, _, joins)| joins.is_some())
    }

    fn blank(&self, sender: &str) -> Message {
        let seq = self.entries.len() as u64 + 1;
        let conversation = match (self.is_channel, self.is_group) {
            (true, _) => "ch_n",
            (false, true) => "gr_ab",
            (false, false) => "dm_ab",
        };
        Message {
            client_msg_id: if sender == ME { ClientMsgId::parse(&format!("c{seq}")).ok() } else { None },
            ..Message::text(
                ConversationId::parse(conversation).unwrap(),
                Seq::new(seq).unwrap(),
                MessageId::stored("x"),
                id(sender),
                String::new(),
                Timestamp::from_millis(i64::try_from(seq).unwrap()),
            )
        }
    }

    fn append(&mut self, sender: &str, act: &Act) {
        if sender == OPERATOR && !matches!(act, Act::Delete(_)) {
            return;
        }
        let now = self.read_at(self.entries.len());
        let open = now.iter().filter(|message| message.kind.counts() && message.deleted_at.is_none());
        let target = |pick: usize, own: bool| {
            let open: Vec<&Message> = open.clone().filter(|message| !own || message.sender_id == *sender).collect();
            open.get(pick.checked_rem(open.len())?).copied()
        };
        let mut entry = self.blank(sender);
        let target = match act {
            Act::Say { reply_to, mentions } => {
                entry.body = format!("said {}", entry.seq);
                // Half of all replies are to nothing.
                entry.reply_to = now.get(reply_to % (2 * now.len() + 1)).map(|message| message.seq);
                if self.is_group && !self.is_channel {
                    entry.mentions = [USERS.get(*mentions), Some(&EVERYBODY).filter(|_| *mentions == 7)]
                        .into_iter()
                        .flatten()
                        .map(|user| id(user))
                        .collect();
                }
                return self.entries.push(entry);
            }
            Act::Edit(pick) => target(*pick, true),
            // In groups, also what others wrote.
            Act::Delete(pick) => target(*pick, !self.is_group && sender != OPERATOR),
            Act::React { pick, .. } => target(*pick, false),
            Act::Add(_) | Act::Remove(_) | Act::Leave | Act::Role(_) | Act::History(_) => {
                return self.append_system(entry, act);
            }
        };
        let Some(target) = target.cloned() else { return };
        entry.target_seq = Some(target.seq);
        match act {
            Act::Edit(_) => {
                entry.kind = Kind::Edit;
                entry.body = format!("edited {}", entry.seq);
                entry.version = Some(target.version.unwrap_or(1) + 1);
            }
            Act::Delete(_) => entry.kind = Kind::Delete,
            Act::React { emoji, .. } => {
                entry.kind = Kind::Reaction;
                entry.emoji = EMOJIS.get(*emoji).and_then(|emoji| Emoji::parse(emoji).ok());
                let of_target = self.entries.iter().filter(|it| it.target_seq == Some(target.seq));
                let own = of_target.filter(|it| it.kind == Kind::Reaction && it.sender_id == *sender);
                entry.emoji_before = { own }.next_back().and_then(|it| it.emoji.clone());
            }
            _ => {}
        }
        self.entries.push(entry);
    }

    fn append_system(&mut self, mut entry: Message, act: &Act) {
        let sender = entry.sender_id.clone();
        let (turn, system) = match act {
            Act::Add(user) if !self.is_member(USERS[*user]) => {
                let user = id(USERS[*user]);
                (Some((user.clone(), Some(self.history))), System::MembersAdded { members: vec![user] })
            }
            Act::Remove(user) if self.is_member(USERS[*user]) && sender != *USERS[*user] => {
                let user = id(USERS[*user]);
                (Some((user.clone(), None)), System::MembersRemoved { members: vec![user] })
            }
            Act::Leave if USERS.iter().filter(|user| self.is_member(user)).count() > 1 => {
                (Some((sender, None)), System::MemberLeft {})
            }
            Act::Role(user) => (None, System::RoleChanged { user_id: id(USERS[*user]), role: Role::Admin }),
            Act::History(history) => {
                self.history = *history;
                let history = Some(*history);
                (None, wire::Info { history, ..wire::Info::default() }.into())
            }
            _ => return,
        };
        self.turns.extend(turn.map(|(user, joins)| (entry.seq, user, joins)));
        (entry.kind, entry.system) = (Kind::System, Some(system));
        self.entries.push(entry);
    }

    /// Returns all entries up to `last`, as a member reads them at that time.
    pub(crate) fn read_at(&self, last: usize) -> Vec<Message> {
        let log = &self.entries[..last];
        let mut now = log.to_vec();
        for message in now.iter_mut().filter(|message| message.kind.counts()) {
            let mut reactions = BTreeMap::new();
            for entry in log.iter().filter(|entry| entry.target_seq == Some(message.seq)) {
                match entry.kind {
                    Kind::Edit => {
                        (message.version, message.edited_at) = (entry.version, Some(entry.sent_at));
                        message.body.clone_from(&entry.body);
                    }
                    Kind::Delete => {
                        message.body.clear();
                        message.mentions.clear();
                        (message.version, message.edited_at, message.reactions_seq) = (None, None, None);
                        (message.deleted_at, message.deleted_by) = (Some(entry.sent_at), Some(entry.sender_id.clone()));
                        reactions.clear();
                    }
                    _ => {
                        message.reactions_seq = Some(entry.seq);
                        reactions.insert(entry.sender_id.clone(), entry.emoji.clone());
                    }
                }
            }
            message.reactions = counted(&reactions);
        }
        let by_seq: BTreeMap<Seq, Message> = now.iter().map(|message| (message.seq, message.clone())).collect();
        for edit in now.iter_mut().filter(|entry| entry.kind == Kind::Edit) {
            let target = &by_seq[&edit.target_seq.unwrap()];
            edit.version = target.version;
            edit.body.clone_from(&target.body);
        }
        now
    }

    /// All that the viewer sees then. In a group they are a member from the beginning, and perhaps not to its end.
    pub(crate) fn seen_at(&self, last: usize) -> View {
        let until = Seq::new(last as u64).unwrap();
        let own = self.turns.iter().filter(|(seq, user, _)| *user == *ME && *seq <= until);
        let joined = own.clone().rfind(|(_, _, joins)| joins.is_some());
        let (joined, history) = joined.map_or((Seq::ZERO, HistoryFrom::All), |(seq, _, joins)| (*seq, joins.unwrap()));
        let left = own.clone().next_back().filter(|(_, _, joins)| joins.is_none()).map(|(seq, _, _)| *seq);
        let first = if history == HistoryFrom::All { Seq::FIRST } else { joined };
        // A former member gets no changes of a message after the leave.
        let end = left.map_or(last, |left| usize::try_from(left.value()).unwrap());
        let mut entries = self.read_at(end);
        entries.retain(|entry| first <= entry.seq);
        for entry in entries.iter_mut().filter(|entry| entry.target_seq.is_some_and(|target| target < first)) {
            entry.body.clear();
            entry.version = None;
        }
        let mut given = entries.clone();
        for message in &mut given {
            without_later(message, &self.entries[end..last]);
        }
        View { first, joined, is_over: left.is_some(), is_channel: self.is_channel, entries, given }
    }
}

/// Makes the message as the server returns it to a former member, when these entries have come after the leave.
fn without_later(message: &mut Message, later: &[Message]) {
    let about = message.target_seq.unwrap_or(message.seq);
    for entry in later.iter().filter(|entry| entry.target_seq == Some(about)) {
        match entry.kind {
            Kind::Edit | Kind::Delete => {
                message.body.clear();
                (message.version, message.edited_at) = (None, None);
                if entry.kind == Kind::Delete && message.target_seq.is_none() {
                    message.mentions.clear();
                    message.reactions.clear();
                    message.reactions_seq = None;
                    message.deleted_at = Some(entry.sent_at);
                }
            }
            _ if message.target_seq.is_none() => {
                message.reactions.clear();
                message.reactions_seq = None;
            }
            _ => {}
        }
    }
}

fn id(user: &str) -> UserId {
    UserId::parse(user).unwrap()
}

fn counted(by_user: &BTreeMap<UserId, Option<Emoji>>) -> Vec<Reaction> {
    let mut counts = BTreeMap::<&Emoji, (u64, bool)>::new();
    for (user_id, emoji) in by_user {
        if let Some(emoji) = emoji {
            let (count, mine) = counts.entry(emoji).or_default();
            *count += 1;
            *mine |= *user_id == *ME;
        }
    }
    let mut reactions: Vec<Reaction> =
        counts.into_iter().map(|(emoji, (count, mine))| Reaction { emoji: emoji.clone(), count, mine }).collect();
    reactions.sort_by_key(|reaction| std::cmp::Reverse(reaction.count));
    reactions
}

impl View {
    fn end(&self) -> Seq {
        self.entries.last().unwrap().seq
    }

    fn unread(&self, mark: Seq) -> impl DoubleEndedIterator<Item = &Message> {
        let mark = self.read_up_to(mark);
        let counts = move |message: &&Message| {
            let counts = message.kind.counts() && (message.deleted_at.is_none() || self.is_channel);
            message.seq > mark && counts && message.sender_id != *ME
        };
        self.entries.iter().filter(counts)
    }

    /// Returns the read mark: the author of a post in a channel has read everything up to it.
    fn read_up_to(&self, mark: Seq) -> Seq {
        let mut posts = self.entries.iter().filter(|entry| entry.sender_id == *ME && entry.kind.counts());
        let posted = if self.is_channel { posts.next_back().map(|post| post.seq) } else { None };
        mark.max(self.joined.previous()).max(posted.unwrap_or_default())
    }

    fn channel_row(&self, mark: Seq) -> Channel {
        let last_seq = self.end();
        let row = json!({"conversation_id": "ch_n", "kind": "channel", "title": "News", "role": "admin",
            "first_seq": self.first, "history": "all", "post": "admins", "add": "admins", "join": "open", "unread": self.unread(mark).count(),
            "read_seq": self.read_up_to(mark).min(last_seq), "last_seq": last_seq});
        serde_json::from_value(row).unwrap()
    }

    fn mentions(&self, mark: Seq) -> u64 {
        let names_me = |message: &&Message| message.mentions.iter().any(|user| *user == *ME || *user == EVERYBODY);
        self.unread(mark).filter(names_me).count() as u64
    }

    pub(crate) fn row(&self, is_group: bool, mark: Seq) -> Option<Conversation> {
        let line = self.entries.iter().rfind(|message| message.kind.counts() || message.kind == Kind::System)?;
        let last_message = json!({"seq": line.seq, "sender_id": line.sender_id, "kind": line.kind, "preview": line.body, "sent_at": line.sent_at});
        let last_seq = self.end();
        let mut row = json!({"conversation_id": "dm_ab", "kind": "direct", "peer_id": "bob",
            "unread": self.unread(mark).count(), "last_message": last_message,
            "delivered_seq": last_seq, "read_seq": mark.max(self.joined.previous()).min(last_seq), "last_seq": last_seq});
        if is_group {
            let role = if self.is_over { "none" } else { "member" };
            row = json!({"conversation_id": "gr_ab", "kind": "group", "title": "Trip", "role": role, "member_count": 2,
                "first_seq": self.first, "unread": row["unread"], "mentions": self.mentions(mark),
                "last_message": row["last_message"], "delivered_seq": last_seq, "read_seq": row["read_seq"],
                "last_seq": last_seq});
        }
        serde_json::from_value(row).ok()
    }
}

/// The request that became this own entry.
pub(crate) fn queued(entry: &Message) -> Option<Queued> {
    let (conversation_id, seq) = (entry.conversation_id.clone(), entry.target_seq.unwrap_or(entry.seq));
    let client_msg_id = entry.client_msg_id.clone().unwrap();
    let outgoing = match entry.kind {
        Kind::Edit => Outgoing::Request(
            EditRequest {
                conversation_id,
                seq,
                client_msg_id: client_msg_id.clone(),
                body: entry.body.clone(),
                data: None,
            }
            .into(),
        ),
        Kind::Delete => {
            Outgoing::Request(DeleteRequest { conversation_id, seq, client_msg_id: client_msg_id.clone() }.into())
        }
        Kind::Reaction => Outgoing::Request(
            ReactRequest { conversation_id, seq, client_msg_id: client_msg_id.clone(), emoji: entry.emoji.clone() }
                .into(),
        ),
        Kind::Text | Kind::Image | Kind::File | Kind::Voice => Outgoing::Message {
            target: Target::Conversation(conversation_id),
            draft: Draft {
                reply_to: entry.reply_to,
                mentions: entry.mentions.clone(),
                ..Draft::new(entry.body.clone())
            },
            media: None,
        },
        Kind::System | Kind::Pin | Kind::Sealed | Kind::Commit | Kind::Erased | Kind::Own(_) | Kind::Other(_) => {
            return None;
        }
    };
    Some(Queued { client_msg_id, outgoing, made_at: entry.sent_at })
}

fn take(timeline: &mut Timeline, log: &Log, mark: Seq, step: &Step) {
    // From 1 to the length of the log.
    let number = |any: usize| any % log.entries.len() + 1;
    match *step {
        Step::Entry { seq, read_at } => {
            let seq = number(seq);
            let mut read_at = number(read_at).max(seq);
            // Each entry came to the viewer at some time, if it ever did.
            let is_seen = |at: usize| log.seen_at(at).entries.iter().any(|entry| entry.seq.value() == seq as u64);
            if !is_seen(read_at) {
                read_at = if is_seen(seq) { seq } else { log.entries.len() };
            }
            let mut seen = log.seen_at(read_at).given;
            let Some(at) = seen.iter().position(|entry| entry.seq.value() == seq as u64) else { return };
            let mut entry = seen.swap_remove(at);
            if entry.sender_id == *ME && read_at == seq {
                // The client made this entry from the reply, which does not contain the earlier reaction.
                entry.emoji_before = None;
            }
            timeline.message(entry);
        }
        Step::Page { from, length, read_at } => {
            let view = log.seen_at(number(read_at));
            let last_seq = view.end();
            let is_of_page = |message: &Message| message.seq.value() >= number(from) as u64;
            let messages: Vec<Message> = view.given.into_iter().filter(is_of_page).take(length).collect();
            let own = Member { user_id: id(ME), delivered_seq: mark, read_seq: mark };
            let first_seq = Some(view.first).filter(|_| log.is_group);
            let members = if log.is_group { vec![] } else { vec![own] };
            timeline.history(HistoryResult { messages, more: false, last_seq, first_seq, members, pins: vec![] });
        }
        Step::Row { read_at } if log.is_channel => {
            timeline.channel(&log.seen_at(number(read_at)).channel_row(mark));
        }
        Step::Row { read_at } => {
            if let Some(row) = log.seen_at(number(read_at)).row(log.is_group, mark) {
                timeline.row(&row);
            }
        }
        Step::Queued(seq) => {
            let entry = &log.entries[number(seq) - 1];
            if entry.sender_id == *ME
                && let Some(queued) = queued(entry)
            {
                timeline.queued(queued);
            }
        }
        Step::Refused(seq) => {
            let mut entry = log.entries[number(seq) - 1].clone();
            entry.client_msg_id = ClientMsgId::parse(&format!("refused-{seq}")).ok();
            if let Some(queued) = queued(&entry) {
                timeline.queued(queued.clone());
                timeline.failed(&queued.client_msg_id, "gone");
            }
        }
    }
}

/// Checks each shown message: a deleted one has no content again, and no version falls.
fn check_progress(timeline: &Timeline, before: &mut BTreeMap<Seq, (bool, Option<u64>)>) {
    // An entry that the user may no longer see can come again.
    before.retain(|seq, _| timeline.held.contains_key(seq));
    for message in timeline.held.values().filter(|message| message.kind.counts()) {
        let now = (message.deleted_at.is_some(), message.version);
        let was = before.insert(message.seq, now).unwrap_or_default();
        assert!(!was.0 || now.0, "a delete is undone: {message:?}");
        assert!(now.0 || was.1 <= now.1, "a version falls: {message:?}");
        assert!(!now.0 || (message.body.is_empty() && message.reactions.is_empty() && now.1.is_none()), "{message:?}");
    }
    let text = format!("{:?}", timeline.changes);
    let deleted = before.iter().filter(|(_, (deleted, _))| *deleted).map(|(seq, _)| seq);
    for entry in deleted.filter_map(|seq| timeline.changes.get(seq)) {
        let entry = format!("{entry:?}");
        assert!(!entry.contains("edited ") && !entry.contains("mine"), "what is deleted is kept: {text}");
    }
}

/// Passes some of the inputs, and then all, each in any order and as read at any time. Checks that the view matches the
/// log.
fn check(
    log: &Log,
    steps: &[Step],
    last: &[(u64, usize)],
    mark: u64,
    marks: &[(u64, u64)],
) -> Result<(), TestCaseError> {
    let end = log.entries.len();
    let mark = Seq::new(mark.min(end as u64)).unwrap_or_default();
    let mut timeline = Timeline::new(id(ME));
    timeline.receipt(ReceiptKind::Read, &id(ME), mark);
    let mut rest: Vec<(u64, Step)> =
        (0..end).zip(last).map(|(seq, (key, read_at))| (*key, Step::Entry { seq, read_at: *read_at })).collect();
    rest.sort_by_key(|(key, _)| *key);
    let rest = rest.into_iter().map(|(_, step)| step);
    // A user who is added again requests the entries that are visible now.
    let joins = log.turns.iter().filter(|(_, user, joins)| *user == *ME && joins.is_some()).count();
    let length = if joins > 1 { end } else { 0 };
    let seen = [Step::Page { from: 0, length, read_at: end - 1 }, Step::Row { read_at: end - 1 }];
    let seen = seen.into_iter().filter(|_| log.is_group);
    let mut before = BTreeMap::new();
    for step in steps.iter().cloned().chain(rest).chain(seen) {
        take(&mut timeline, log, mark, &step);
        check_progress(&timeline, &mut before);
        let (mentions, unread) = (timeline.mentions(), timeline.unread());
        prop_assert!(mentions <= unread, "{mentions} of {unread} unread messages name the user");
    }

    let now = log.seen_at(end);
    let all = receipts(log, marks);
    if log.is_group && !log.is_channel {
        timeline.receipts(&all);
    }
    let of_others = |mark: fn(&Member) -> Seq| all.members.iter().map(mark).min().unwrap_or_default();
    let (delivered, read) = (of_others(|member| member.delivered_seq), of_others(|member| member.read_seq));
    let mut shown = Vec::new();
    for entry in timeline.entries(|_| ()) {
        match entry {
            TimelineEntry::Message { message, own, tick, quote, changing, .. } => {
                prop_assert!(!changing);
                let quoted = message.reply_to.and_then(|seq| now.entries.iter().find(|message| message.seq == seq));
                let quoted = quoted.filter(|message| message.kind.counts());
                prop_assert_eq!(quote.as_ref().map(|quote| quote.seq), quoted.map(|quoted| quoted.seq));
                if let (Some(quote), Some(quoted)) = (&quote, quoted) {
                    check_shown(log, &now, quote, quoted)?;
                }
                if own && log.is_channel {
                    prop_assert_eq!(tick, Some(Tick::Stored));
                } else if own && log.is_group && !now.is_over {
                    let reached = if message.seq <= delivered { Tick::Delivered } else { Tick::Stored };
                    prop_assert_eq!(tick, Some(if message.seq <= read { Tick::Read } else { reached }));
                }
                shown.push(message.into_owned());
            }
            TimelineEntry::System { message, .. } => shown.push(message.clone()),
            TimelineEntry::Gap { .. } => prop_assert!(false, "nothing is missing"),
            TimelineEntry::Unreadable { .. } => prop_assert!(false, "nothing is encrypted"),
            TimelineEntry::Unsent { tick, .. } => prop_assert_eq!(tick, Tick::Failed),
            TimelineEntry::Day(()) | TimelineEntry::Unread(_) => {}
        }
    }
    let is_shown = |message: &&Message| message.kind.counts() || message.kind == Kind::System;
    let expected: Vec<Message> = now.entries.iter().filter(is_shown).cloned().collect();
    let seqs = |messages: &[Message]| messages.iter().map(|message| message.seq).collect::<Vec<_>>();
    prop_assert_eq!(seqs(&shown), seqs(&expected));
    for (shown, expected) in shown.iter().zip(&expected) {
        check_shown(log, &now, shown, expected)?;
    }
    prop_assert_eq!(timeline.missing(), None);
    prop_assert_eq!(timeline.more_before(), None);
    if now.entries.iter().zip(&now.given).all(|(entry, given)| entry.deleted_at == given.deleted_at) {
        prop_assert_eq!(timeline.unread(), now.unread(mark).count() as u64);
        prop_assert_eq!(timeline.mentions(), now.mentions(mark));
        prop_assert_eq!(timeline.read_up_to(), now.unread(mark).next_back().map(|message| message.seq));
    }
    prop_assert_eq!(timeline.is_closed(), now.is_over);
    Ok(())
}

/// Checks that a message matches the log. If it changed after the viewer left, it may have any earlier state, or no
/// content, but no later state.
fn check_shown(log: &Log, now: &View, shown: &Message, expected: &Message) -> Result<(), TestCaseError> {
    let given = now.given.iter().find(|given| given.seq == expected.seq).unwrap();
    if given == expected {
        prop_assert_eq!(shown, expected);
        return Ok(());
    }
    let end = now.end();
    let changes = log.entries.iter().filter(|entry| entry.target_seq == Some(shown.seq) && entry.seq <= end);
    let edits = changes.filter(|entry| entry.kind == Kind::Edit).map(|entry| &entry.body);
    let said = log.entries.iter().find(|entry| entry.seq == shown.seq).map(|entry| &entry.body);
    let is_of_their_time = shown.body.is_empty() || edits.chain(said).any(|text| *text == shown.body);
    prop_assert!(is_of_their_time, "{:?} has what was written after {}", shown, end);
    prop_assert!(shown.reactions_seq.is_none_or(|seq| seq <= end), "{:?} was reacted to after {}", shown, end);
    Ok(())
}

/// The marks of those who are in the group with the viewer: no lower than just before they joined.
fn receipts(log: &Log, marks: &[(u64, u64)]) -> ReceiptsResult {
    let end = log.entries.len() as u64;
    let member = |(user, (delivered, read)): (&&str, &(u64, u64))| {
        let joined = log.turns.iter().rfind(|(_, who, _)| *who == **user)?.0.previous();
        let mark = |mark: u64| Seq::new(mark.min(end)).unwrap_or_default().max(joined);
        Some(Member { user_id: id(user), delivered_seq: mark((*delivered).max(*read)), read_seq: mark(*read) })
    };
    let others = USERS.iter().zip(marks).filter(|(user, _)| **user != ME && log.is_member(user));
    let (members, nothing) = (others.filter_map(member).collect(), Seq::ZERO);
    ReceiptsResult { delivered_seq: nothing, read_seq: nothing, members, next_cursor: None }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn once_everything_has_come_the_view_is_what_the_log_says(
        acts in prop::collection::vec((0..3_usize, act()), 0..30),
        steps in prop::collection::vec(step(), 0..40),
        last in prop::collection::vec((any::<u64>(), 0..1000_usize), 40),
        mark in 0..30_u64,
    ) {
        check(&Log::direct(&acts), &steps, &last, mark, &[])?;
    }

    #[test]
    fn a_group_is_what_its_log_says_to_the_one_who_looks_at_it(
        acts in prop::collection::vec((0..=USERS.len(), act_in_a_group()), 0..40),
        steps in prop::collection::vec(step(), 0..40),
        last in prop::collection::vec((any::<u64>(), 0..1000_usize), 50),
        mark in 0..40_u64,
        marks in prop::collection::vec((0..40_u64, 0..40_u64), USERS.len()),
    ) {
        check(&Log::group(&acts), &steps, &last, mark, &marks)?;
    }

    #[test]
    fn a_channel_is_what_its_log_says(
        acts in prop::collection::vec((0..=USERS.len(), act_in_a_channel()), 0..40),
        steps in prop::collection::vec(step(), 0..40),
        last in prop::collection::vec((any::<u64>(), 0..1000_usize), 50),
        mark in 0..40_u64,
    ) {
        check(&Log::channel(&acts), &steps, &last, mark, &[])?;
    }

    /// Checks the unread count from a row, some entries before it, and all later ones in order: it is the server's
    /// number. Skips what a service deletes: its author is unknown while the message is missing.
    #[test]
    fn unread_is_what_the_server_counts_while_older_messages_are_missing(
        acts in prop::collection::vec((0..2_usize, act()), 0..30),
        early in prop::collection::vec((0..1000_usize, 0..1000_usize), 0..6),
        read_at in 0..1000_usize,
        mark in 0..30_u64,
    ) {
        let log = Log::direct(&acts);
        let read_at = read_at % log.entries.len() + 1;
        let mark = Seq::new(mark.min(read_at as u64)).unwrap_or_default();
        let mut timeline = Timeline::new(id(ME));
        let Some(row) = log.seen_at(read_at).row(false, mark) else { return Ok(()) };
        for (seq, then) in early {
            let seq = seq % read_at;
            let then = (then % read_at).max(seq) + 1;
            timeline.message(log.read_at(then)[seq].clone());
        }
        timeline.row(&row);
        prop_assert_eq!(timeline.unread(), row.unread);
        for last in read_at + 1..=log.entries.len() {
            let now = log.seen_at(last);
            timeline.message(now.entries[last - 1].clone());
            prop_assert_eq!(timeline.unread(), now.unread(mark).count() as u64, "up to {}", last);
        }
    }
}
