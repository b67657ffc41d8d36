//! Whatever order entries, pages and rows come in, and whenever each was read: once everything has come, the view is what the log
//! says.

use proptest::prelude::*;
use serde_json::json;
use wire::{ConversationId, Emoji, Member, MessageId, Reaction, Target};

use super::*;

const ME: &str = "alice";
const EMOJIS: [&str; 3] = ["👍", "🎉", "｡"];

/// What somebody does next, as far as it is allowed then.
#[derive(Clone, Debug)]
enum Act {
    Say { reply_to: usize },
    Edit(usize),
    Delete(usize),
    React { pick: usize, emoji: usize },
}

fn act() -> impl Strategy<Value = (bool, Act)> {
    let pick = 0..1000_usize;
    let act = prop_oneof![
        4 => pick.clone().prop_map(|reply_to| Act::Say { reply_to }),
        3 => pick.clone().prop_map(Act::Edit),
        1 => pick.clone().prop_map(Act::Delete),
        3 => (pick, 0..=EMOJIS.len()).prop_map(|(pick, emoji)| Act::React { pick, emoji }),
    ];
    (any::<bool>(), act)
}

/// What comes to the view; numbers are taken modulo what there is. `read_at`: when the server read it.
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

/// The conversation as the server stores it: each entry as it was appended. What it says later follows from those behind it.
struct Log(Vec<Message>);

impl Log {
    fn new(acts: &[(bool, Act)]) -> Self {
        let mut log = Self(Vec::new());
        log.append("bob", &Act::Say { reply_to: 0 });
        for (own, act) in acts {
            log.append(if *own { ME } else { "bob" }, act);
        }
        log
    }

    fn append(&mut self, sender: &str, act: &Act) {
        let now = self.read_at(self.0.len());
        let open = now.iter().filter(|message| message.kind.counts() && message.deleted_at.is_none());
        let target = |pick: usize, own: bool| {
            let open: Vec<&Message> = open.clone().filter(|message| !own || message.sender_id == *sender).collect();
            open.get(pick.checked_rem(open.len())?).copied()
        };
        let mut entry = blank(self.0.len() as u64 + 1, sender);
        let target = match act {
            Act::Say { reply_to } => {
                entry.body = format!("said {}", entry.seq);
                // Half of all replies are to nothing.
                entry.reply_to = now.get(reply_to % (2 * now.len() + 1)).map(|message| message.seq);
                return self.0.push(entry);
            }
            Act::Edit(pick) | Act::Delete(pick) => target(*pick, true),
            Act::React { pick, .. } => target(*pick, false),
        };
        let Some(target) = target else { return };
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
            }
            Act::Say { .. } => {}
        }
        self.0.push(entry);
    }

    /// All entries up to there, as somebody sees them who reads them then.
    fn read_at(&self, last: usize) -> Vec<Message> {
        let log = &self.0[..last];
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
                        (message.version, message.edited_at) = (None, None);
                        (message.deleted_at, message.deleted_by) = (Some(entry.sent_at), Some(entry.sender_id.clone()));
                        reactions.clear();
                    }
                    _ => {
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

fn blank(seq: u64, sender: &str) -> Message {
    Message {
        client_msg_id: if sender == ME { ClientMsgId::parse(&format!("c{seq}")).ok() } else { None },
        ..Message::text(
            ConversationId::parse("dm_ab").unwrap(),
            Seq::new(seq).unwrap(),
            MessageId::stored("x"),
            UserId::parse(sender).unwrap(),
            String::new(),
            Timestamp::from_millis(i64::try_from(seq).unwrap()),
        )
    }
}

fn unread(now: &[Message], mark: Seq) -> impl DoubleEndedIterator<Item = Seq> {
    let counts = move |message: &&Message| {
        message.seq > mark && message.kind.counts() && message.sender_id != *ME && message.deleted_at.is_none()
    };
    now.iter().filter(counts).map(|message| message.seq)
}

fn row(now: &[Message], mark: Seq) -> Option<Conversation> {
    let line = now.iter().rfind(|message| message.kind.counts())?;
    let last_message = json!({"seq": line.seq, "sender_id": line.sender_id, "kind": "text", "preview": line.body, "sent_at": line.sent_at});
    let last_seq = now.last()?.seq;
    serde_json::from_value(json!({"conversation_id": "dm_ab", "kind": "direct", "peer_id": "bob",
        "unread": unread(now, mark).count(), "last_message": last_message,
        "delivered_seq": last_seq, "read_seq": mark.min(last_seq), "last_seq": last_seq}))
    .ok()
}

/// The request that became this own entry.
fn queued(entry: &Message) -> Queued {
    let (conversation_id, seq) = (entry.conversation_id.clone(), entry.target_seq.unwrap_or(entry.seq));
    let outgoing = match entry.kind {
        Kind::Edit => Outgoing::Edit { conversation_id, seq, body: entry.body.clone() },
        Kind::Delete => Outgoing::Delete { conversation_id, seq },
        Kind::Reaction => Outgoing::React { conversation_id, seq, emoji: entry.emoji.clone() },
        Kind::Text | Kind::Image | Kind::File | Kind::Voice | Kind::System | Kind::Other(_) => Outgoing::Message {
            target: Target::Conversation(conversation_id),
            body: entry.body.clone(),
            reply_to: entry.reply_to,
        },
    };
    Queued { client_msg_id: entry.client_msg_id.clone().unwrap(), outgoing }
}

fn take(timeline: &mut Timeline, log: &Log, mark: Seq, step: &Step) {
    // From 1 to the length of the log.
    let number = |any: usize| any % log.0.len() + 1;
    match *step {
        Step::Entry { seq, read_at } => {
            let seq = number(seq);
            let read_at = number(read_at).max(seq);
            timeline.message(log.read_at(read_at)[seq - 1].clone());
        }
        Step::Page { from, length, read_at } => {
            let read_at = number(read_at);
            let messages: Vec<Message> = log.read_at(read_at).into_iter().skip(number(from) - 1).take(length).collect();
            let last_seq = log.0[read_at - 1].seq;
            let own = Member { user_id: UserId::parse(ME).unwrap(), delivered_seq: mark, read_seq: mark };
            timeline.history(HistoryResult { messages, more: false, last_seq, first_seq: None, members: vec![own] });
        }
        Step::Row { read_at } => {
            if let Some(row) = row(&log.read_at(number(read_at)), mark) {
                timeline.row(&row);
            }
        }
        Step::Queued(seq) => {
            let entry = &log.0[number(seq) - 1];
            if entry.sender_id == *ME {
                timeline.queued(queued(entry), entry.sent_at);
            }
        }
        Step::Refused(seq) => {
            let mut entry = log.0[number(seq) - 1].clone();
            entry.client_msg_id = ClientMsgId::parse(&format!("refused-{seq}")).ok();
            let queued = queued(&entry);
            timeline.queued(queued.clone(), entry.sent_at);
            timeline.failed(&queued.client_msg_id, "gone");
        }
    }
}

/// Each message as it is shown: nothing that was shown as deleted says anything again, and no version falls.
fn check_progress(timeline: &Timeline, before: &mut BTreeMap<Seq, (bool, Option<u64>)>) {
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
        assert!(!format!("{entry:?}").contains("edited "), "what is deleted is kept: {text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn once_everything_has_come_the_view_is_what_the_log_says(
        acts in prop::collection::vec(act(), 0..30),
        steps in prop::collection::vec(step(), 0..40),
        last in prop::collection::vec((any::<u64>(), 0..1000_usize), 30),
        mark in 0..30_u64,
    ) {
        let log = Log::new(&acts);
        let end = log.0.len();
        let mark = Seq::new(mark.min(end as u64)).unwrap_or_default();
        let mut timeline = Timeline::new(UserId::parse(ME).unwrap());
        timeline.receipt(ReceiptKind::Read, &UserId::parse(ME).unwrap(), mark);
        // Then each entry, in any order, as it was at any time.
        let mut rest: Vec<(u64, Step)> = (0..end)
            .zip(&last)
            .map(|(seq, (key, read_at))| (*key, Step::Entry { seq, read_at: *read_at }))
            .collect();
        rest.sort_by_key(|(key, _)| *key);
        let mut before = BTreeMap::new();
        for step in steps.iter().chain(rest.iter().map(|(_, step)| step)) {
            take(&mut timeline, &log, mark, step);
            check_progress(&timeline, &mut before);
        }

        let now = log.read_at(end);
        let mut shown = Vec::new();
        for entry in timeline.entries(|_| ()) {
            match entry {
                TimelineEntry::Message { message, quote, changing, .. } => {
                    prop_assert!(!changing);
                    let quoted = message.reply_to.and_then(|seq| now.iter().find(|message| message.seq == seq));
                    prop_assert_eq!(quote.as_deref(), quoted.filter(|message| message.kind.counts()));
                    shown.push(message.into_owned());
                }
                TimelineEntry::Gap { .. } => prop_assert!(false, "nothing is missing"),
                TimelineEntry::Unsent { tick, .. } => prop_assert_eq!(tick, Tick::Failed),
                TimelineEntry::Day(()) | TimelineEntry::Unread(_) => {}
            }
        }
        let expected: Vec<Message> = now.iter().filter(|message| message.kind.counts()).cloned().collect();
        prop_assert_eq!(shown, expected);
        prop_assert_eq!(timeline.missing(), None);
        prop_assert_eq!(timeline.unread(), unread(&now, mark).count() as u64);
        prop_assert_eq!(timeline.read_up_to(), unread(&now, mark).next_back());
    }

    /// From a row, some of what was before it, and what came since in order: the number that the server has.
    #[test]
    fn unread_is_what_the_server_counts_while_older_messages_are_missing(
        acts in prop::collection::vec(act(), 0..30),
        early in prop::collection::vec((0..1000_usize, 0..1000_usize), 0..6),
        read_at in 0..1000_usize,
        mark in 0..30_u64,
    ) {
        let log = Log::new(&acts);
        let read_at = read_at % log.0.len() + 1;
        let mark = Seq::new(mark.min(read_at as u64)).unwrap_or_default();
        let mut timeline = Timeline::new(UserId::parse(ME).unwrap());
        let Some(row) = row(&log.read_at(read_at), mark) else { return Ok(()) };
        for (seq, then) in early {
            let seq = seq % read_at;
            let then = (then % read_at).max(seq) + 1;
            timeline.message(log.read_at(then)[seq].clone());
        }
        timeline.row(&row);
        prop_assert_eq!(timeline.unread(), row.unread);
        for last in read_at + 1..=log.0.len() {
            let now = log.read_at(last);
            timeline.message(now[last - 1].clone());
            prop_assert_eq!(timeline.unread(), unread(&now, mark).count() as u64, "up to {}", last);
        }
    }
}
