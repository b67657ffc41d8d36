//! Runs the timeline against conformance/timeline.yaml, whose README explains the steps, and against inputs in any
//! order.

use proptest::prelude::*;
use serde_json::{Value, json};
use wire::{ConversationId, Member, MessageId, Reaction, Target};

use super::*;
use crate::session::conformance::frames::check;
use crate::session::conformance::scenarios;
use crate::session::conformance::script::{queued_of, read, variants};

#[test]
fn the_scripts_for_the_timeline() {
    let start = Moment::default();
    for scenario in scenarios("timeline") {
        let mut timeline = Timeline::new(read(&scenario["user"]));
        for step in variants(&scenario).iter().flatten() {
            match step.get("expect") {
                Some(expected) => expect(&timeline, expected, start, &format!("{}: {step}", scenario["name"])),
                None => happen(&mut timeline, step, start),
            }
        }
    }
}

fn happen(timeline: &mut Timeline, step: &Value, start: Moment) {
    let (name, what) = step.as_object().unwrap().iter().next().unwrap();
    match name.as_str() {
        "history" => {
            check::<HistoryResult>(what);
            timeline.history(read(what));
        }
        "message" => {
            check::<Message>(what);
            timeline.message(read(what));
        }
        "queued" => {
            let mut fields = what.clone();
            fields["conversation_id"] = json!("dm_ab");
            timeline.queued(queued_of(&fields));
        }
        "receipts" => {
            check::<ReceiptsResult>(what);
            timeline.receipts(&read(what));
        }
        "typing" => timeline.typing(&read(&what["user_id"]), what["text"].as_str(), start + millis(&what["now"])),
        "uploading" => timeline.uploading(&read(&what["client_msg_id"]), read(&what["done"])),
        "failed" => timeline.failed(&read(&what["client_msg_id"]), read::<String>(&what["code"])),
        "dismiss" => timeline.dismiss(&read(what)),
        "receipt" => {
            let kind = if what["kind"] == "read" { ReceiptKind::Read } else { ReceiptKind::Delivered };
            timeline.receipt(kind, &read(&what["user_id"]), read(&what["seq"]));
        }
        "row" => {
            check::<Conversation>(what);
            timeline.row(&read(what));
        }
        "channel" => {
            check::<Channel>(what);
            timeline.channel(&read(what));
        }
        "reacted" => {
            let mut fields = what.clone();
            fields["conversation_id"] = json!("ch_n");
            timeline.reacted(&queued_of(&fields));
        }
        "open" => timeline.open(),
        "close" => timeline.close(),
        other => panic!("there is no step {other}"),
    }
}

fn millis(value: &Value) -> Duration {
    Duration::from_millis(value.as_u64().unwrap())
}

fn expect(timeline: &Timeline, expected: &Value, start: Moment, place: &str) {
    for (name, expected) in expected.as_object().unwrap() {
        let found = match name.as_str() {
            "entries" => timeline.entries(date).iter().map(brief).collect(),
            "missing" => json!(timeline.missing()),
            "more_before" => json!(timeline.more_before()),
            "unread" => json!(timeline.unread()),
            "read_up_to" => json!(timeline.read_up_to()),
            "mentions" => json!(timeline.mentions()),
            "closed" => json!(timeline.is_closed()),
            "readers" => {
                let Readers { read, delivered } = timeline.readers(read(&expected["seq"]));
                json!({"seq": expected["seq"], "read": read, "delivered": delivered})
            }
            "writing" => {
                let now = &expected["now"];
                json!({"now": now, "users": timeline.writing(start + millis(now))})
            }
            "texts" => {
                let now = &expected["now"];
                json!({"now": now, "by": timeline.texts(start + millis(now))})
            }
            other => panic!("a timeline has no {other}"),
        };
        assert_eq!(found, *expected, "{place}: {name}");
    }
}

fn date(at: Timestamp) -> String {
    at.to_string()[.."2026-11-20".len()].to_owned()
}

fn brief(entry: &TimelineEntry<'_, String>) -> String {
    match entry {
        TimelineEntry::Day(day) => format!("day {day}"),
        TimelineEntry::Unread(count) => format!("unread {count}"),
        TimelineEntry::Gap { after_seq, before_seq } => format!("gap {after_seq}..{before_seq}"),
        TimelineEntry::System { message, system } => {
            format!("{} {} {}", message.seq, message.sender_id, json!(system)["event"].as_str().unwrap())
        }
        TimelineEntry::Unreadable { message, why } => format!("{} {} {why:?}", message.seq, message.sender_id),
        TimelineEntry::Message { message, tick, quote, changing, refused, .. } => {
            let who = tick.map_or(message.sender_id.to_string(), |tick| format!("own {}", word(tick)));
            let changing = if *changing { " changing" } else { "" };
            let refused = refused.and_then(|unsent| unsent.error.clone());
            let refused = refused.map_or(String::new(), |error| format!(" refused {error}"));
            let (what, quote) = (said(message), quoted(message.reply_to, quote.as_deref()));
            format!("{} {who}{what}{quote}{changing}{refused}", message.seq)
        }
        TimelineEntry::Unsent { unsent, tick, quote, .. } => {
            let error = unsent.error.as_ref().map_or(String::new(), |error| format!(" {error}"));
            let Outgoing::Message { draft, .. } = &unsent.queued.outgoing else { panic!("no message: {unsent:?}") };
            let quote = quoted(draft.reply_to, quote.as_deref());
            let done =
                unsent.uploaded.filter(|_| *tick == Tick::Waiting).map_or(String::new(), |done| format!(" {done}"));
            format!("{} own {}{done}{error}{quote}", unsent.queued.client_msg_id, word(*tick))
        }
    }
}

/// Returns the changes of a message, as text.
fn said(message: &Message) -> String {
    let mut text = message.version.map_or(String::new(), |_| format!(" edited {}", message.body));
    if message.deleted_at.is_some() {
        assert!(message.deleted_by.is_some() && message.body.is_empty() && message.version.is_none(), "{message:?}");
        text.push_str(" deleted");
    }
    let reaction = |Reaction { emoji, count, mine }: &Reaction| {
        let mine = if *mine { ":mine" } else { "" };
        format!("{}:{count}{mine}", emoji.as_str())
    };
    let reactions: Vec<String> = message.reactions.iter().map(reaction).collect();
    if !reactions.is_empty() {
        text = format!("{text} with {}", reactions.join("+"));
    }
    text
}

fn quoted(reply_to: Option<Seq>, quote: Option<&Message>) -> String {
    match (reply_to, quote) {
        (None, None) => String::new(),
        (Some(_), None) => " to nothing".to_owned(),
        (seq, Some(quote)) => {
            assert_eq!(seq, Some(quote.seq));
            let says = if quote.deleted_at.is_some() { "deleted" } else { &*quote.body };
            format!(" to {} {says}", quote.seq)
        }
    }
}

fn word(tick: Tick) -> String {
    format!("{tick:?}").to_lowercase()
}

/// The largest seq in the property test.
const LAST: u64 = 12;

#[derive(Clone, Debug)]
enum Step {
    Message(u64),
    Page { from: u64, length: u64 },
    Receipt { read: bool, own: bool, seq: u64 },
    Queued(u64),
    Failed(u64),
    Row { last: u64, read: u64 },
    Open,
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let seq = 1..=LAST;
    prop_oneof![
        6 => seq.clone().prop_map(Step::Message),
        2 => (seq.clone(), 1..4_u64).prop_map(|(from, length)| Step::Page { from, length }),
        3 => (any::<bool>(), any::<bool>(), seq.clone()).prop_map(|(read, own, seq)| Step::Receipt { read, own, seq }),
        2 => seq.clone().prop_map(Step::Queued),
        1 => seq.clone().prop_map(Step::Failed),
        1 => (seq.clone(), seq).prop_map(|(last, read)| Step::Row { last, read: read.min(last) }),
        1 => Just(Step::Open),
        1 => Just(Step::Close),
    ]
}

fn seq(number: u64) -> Seq {
    Seq::new(number).unwrap()
}

fn user(name: &str) -> UserId {
    UserId::parse(name).unwrap()
}

fn own_id(number: u64) -> ClientMsgId {
    ClientMsgId::parse(&format!("m{number}")).unwrap()
}

/// Bit by bit who wrote which message.
fn is_own(own: u16, number: u64) -> bool {
    own >> number & 1 == 1
}

fn message(own: u16, number: u64) -> Message {
    let own = is_own(own, number);
    Message {
        client_msg_id: if own { Some(own_id(number)) } else { None },
        ..Message::text(
            ConversationId::parse("dm_ab").unwrap(),
            seq(number),
            MessageId::stored("x"),
            user(if own { "alice" } else { "bob" }),
            number.to_string(),
            Timestamp::from_millis(i64::try_from(number).unwrap()),
        )
    }
}

fn queued_message(client_msg_id: ClientMsgId, reply_to: Option<Seq>) -> Queued {
    let target = Target::Conversation(ConversationId::parse("dm_ab").unwrap());
    Queued {
        client_msg_id,
        outgoing: Outgoing::Message { target, draft: Draft { reply_to, ..Draft::new("hi") }, media: None },
        made_at: Timestamp::default(),
    }
}

fn page(own: u16, from: u64, length: u64, last: u64) -> HistoryResult {
    let until = (from + length - 1).min(last);
    HistoryResult {
        first_seq: None,
        messages: (from..=until).map(|number| message(own, number)).collect(),
        more: false,
        last_seq: seq(last),
        members: vec![Member { user_id: user("bob"), delivered_seq: Seq::ZERO, read_seq: Seq::ZERO }],
        pins: vec![],
    }
}

fn row(own: u16, last: u64, read: u64) -> Conversation {
    serde_json::from_value(json!({"conversation_id": "dm_ab", "kind": "direct", "peer_id": "bob",
        "unread": (read + 1..=last).filter(|number| !is_own(own, *number)).count(),
        "last_message": {"seq": last, "sender_id": "bob", "kind": "text", "preview": "", "sent_at": "2026-11-20T10:00:00.000Z"},
        "delivered_seq": last, "read_seq": read, "last_seq": last}))
    .unwrap()
}

fn take(timeline: &mut Timeline, own: u16, step: &Step) {
    match *step {
        Step::Message(number) => timeline.message(message(own, number)),
        Step::Page { from, length } => timeline.history(page(own, from, length, LAST)),
        Step::Receipt { read, own, seq: number } => {
            let kind = if read { ReceiptKind::Read } else { ReceiptKind::Delivered };
            timeline.receipt(kind, &user(if own { "alice" } else { "bob" }), seq(number));
        }
        Step::Queued(number) => timeline.queued(queued_message(own_id(number), None)),
        Step::Failed(number) => timeline.failed(&own_id(number), "id_reused"),
        Step::Row { last, read } => timeline.row(&row(own, last, read)),
        Step::Open => timeline.open(),
        Step::Close => timeline.close(),
    }
}

/// Everything once, in order, with a gap wherever something is missing and nowhere else.
fn check_entries(timeline: &Timeline, ticks: &mut BTreeMap<Seq, Tick>) {
    let (mut last, mut gap, mut unsent_seen) = (None::<Seq>, None, BTreeSet::new());
    for entry in timeline.entries(|_| ()) {
        match entry {
            TimelineEntry::Day(()) | TimelineEntry::Unread(_) | TimelineEntry::System { .. } => {}
            TimelineEntry::Unreadable { .. } => panic!("nothing is encrypted"),
            TimelineEntry::Gap { after_seq, before_seq } => gap = Some((after_seq, before_seq)),
            TimelineEntry::Message { message, tick, .. } => {
                assert!(last < Some(message.seq) && unsent_seen.is_empty());
                let expected = last.filter(|last| last.next() != message.seq).map(|last| (last, message.seq));
                assert_eq!(gap.take(), expected);
                last = Some(message.seq);
                if let Some(tick) = tick {
                    let known = ticks.entry(message.seq).or_insert(tick);
                    assert!(tick >= *known, "a tick falls");
                    *known = tick;
                }
            }
            TimelineEntry::Unsent { unsent, .. } => {
                assert!(unsent_seen.insert(unsent.queued.client_msg_id.clone()), "twice");
                let held = timeline
                    .held
                    .values()
                    .any(|message| message.client_msg_id.as_ref() == Some(&unsent.queued.client_msg_id));
                assert!(!held, "stored, and still shown as not stored");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anything_in_any_order(own: u16, steps in prop::collection::vec(step(), 0..60)) {
        let mut timeline = Timeline::new(user("alice"));
        let mut ticks = BTreeMap::new();
        for step in &steps {
            take(&mut timeline, own, step);
            check_entries(&timeline, &mut ticks);
            if let Some(read) = timeline.read_up_to() {
                prop_assert!(read > timeline.own_read() && timeline.held.contains_key(&read));
            }
            prop_assert!(timeline.unread() <= timeline.last_seq.above(timeline.own_read()));
        }
        // The requests of `missing` fill all gaps, and scrolling up shows the rest.
        let last = timeline.last_seq.value();
        let mut asked = 0;
        while let Some(side) = timeline.missing().or_else(|| timeline.more_before()) {
            let from = match side {
                Side::Newest => last,
                Side::After(after) => after.value() + 1,
                Side::Before(before) => before.value().saturating_sub(2).max(1),
            };
            timeline.history(page(own, from, 2, last));
            asked += 1;
            prop_assert!(asked <= 2 * LAST);
        }
        check_entries(&timeline, &mut ticks);
        prop_assert_eq!(timeline.held.len() as u64, last);
        let unread = (timeline.own_read().value() + 1..=last).filter(|number| !is_own(own, *number));
        prop_assert_eq!(timeline.unread(), unread.clone().count() as u64);
        prop_assert_eq!(timeline.read_up_to().map(Seq::value), unread.max());
    }
}

#[test]
fn the_pins_are_those_of_the_newest_page_and_of_later_entries_in_any_order() {
    let pin = |number, target, pinned| {
        let kind = Kind::Pin;
        Message { kind, target_seq: Seq::new(target), pinned: Some(pinned), ..message(0, number) }
    };
    let entries = [pin(11, 3, true), pin(12, 4, true), pin(13, 2, false)];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut timeline = Timeline::new(user("alice"));
        for at in order {
            timeline.message(entries[at].clone());
        }
        timeline.history(HistoryResult { pins: vec![seq(2), seq(1)], ..page(0, 1, 1, 10) });
        timeline.history(HistoryResult { pins: vec![seq(7)], ..page(0, 1, 1, 9) });
        assert_eq!(timeline.pins(), [seq(4), seq(3), seq(1)]);
        timeline.history(HistoryResult { pins: vec![seq(4)], ..page(0, 1, 1, 14) });
        assert_eq!(timeline.pins(), [seq(4)]);
        timeline.message(entries[0].clone());
        assert_eq!(timeline.pins(), [seq(4)], "an entry that comes again changes nothing");
    }
}
