//! Property tests of the view: the order of its inputs does not matter, its keys stay, and its requests end.

pub(crate) mod conformance;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use wire::{Conversation, ConversationId, HistoryResult, Member, Message, MessageId, Seq, Side, Timestamp, UserId};

use super::*;
use crate::store::{MemStore, Write};
use crate::timeline::folding::{Log, act, queued};
use crate::{Event, Moment, State};

const ME: &str = "alice";

fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

fn id() -> ConversationId {
    ConversationId::parse("dm_ab").unwrap()
}

fn seq(number: usize) -> Seq {
    Seq::new(number as u64).unwrap()
}

fn view(at: At) -> Messages {
    Messages::new(user(ME), id(), at, Zone::default())
}

fn came(view: &mut Messages, message: Message) {
    view.event(&Event::Message { message, missed: false }, Moment::default());
}

/// One input of a view, of a log. Numbers are indexes, modulo the number of choices. `read_at`: when the server read it.
#[derive(Clone, Debug)]
enum Step {
    Entry {
        index: usize,
        read_at: usize,
    },
    Page {
        from: usize,
        length: usize,
        read_at: usize,
    },
    Queued(usize),
    /// The interface draws.
    Draw,
}

fn step() -> impl Strategy<Value = Step> {
    let any = 0..1000_usize;
    prop_oneof![
        4 => (any.clone(), any.clone()).prop_map(|(index, read_at)| Step::Entry { index, read_at }),
        2 => (any.clone(), 1..8_usize, any.clone())
            .prop_map(|(from, length, read_at)| Step::Page { from, length, read_at }),
        2 => any.prop_map(Step::Queued),
        1 => Just(Step::Draw),
    ]
}

fn take(view: &mut Messages, log: &Log, mark: Seq, step: &Step) {
    let end = log.entries.len();
    match *step {
        Step::Entry { index, read_at } => {
            let index = index % end;
            came(view, log.read_at((read_at % end).max(index) + 1).swap_remove(index));
        }
        Step::Page { from, length, read_at } => {
            let last = read_at % end + 1;
            let messages = log.read_at(last).into_iter().skip(from % end).take(length).collect();
            let members = vec![Member { user_id: user(ME), delivered_seq: mark, read_seq: mark.min(seq(last)) }];
            view.page(
                Side::Newest,
                HistoryResult { messages, more: false, last_seq: seq(last), first_seq: None, members, pins: vec![] },
            );
        }
        Step::Queued(index) => {
            let entry = &log.entries[index % end];
            if entry.sender_id == *ME
                && let Some(queued) = queued(entry)
            {
                view.timeline_mut().queued(queued);
            }
        }
        Step::Draw => drop(view.snapshot().clone()),
    }
}

/// Checks the keys of a snapshot, and that it keeps the items of the one before that did not change.
fn check(before: &Snapshot, now: &Snapshot, keys: &mut BTreeMap<Seq, String>) -> Result<(), TestCaseError> {
    let all: BTreeSet<&str> = now.items.iter().map(|item| &*item.key).collect();
    prop_assert_eq!(all.len(), now.items.len(), "a key is there twice: {:?}", now);
    let mut last = Seq::ZERO;
    for item in &now.items {
        if let Content::Message(message) = &item.content
            && let Some(seq) = message.seq
        {
            prop_assert!(last < seq);
            last = seq;
            let key = keys.entry(seq).or_insert_with(|| item.key.clone());
            prop_assert_eq!(key, &item.key, "the key of {} changed", seq);
        }
        let old = before.items.iter().find(|old| old.key == item.key);
        prop_assert!(old.is_none_or(|old| Arc::ptr_eq(old, item) == (old == item)), "{:?}", item);
    }
    let is_same = Snapshot { version: 0, ..before.clone() } == Snapshot { version: 0, ..now.clone() };
    prop_assert_eq!(now.version > before.version, !is_same);
    Ok(())
}

/// All entries of a log of direct messages, with those of `steps` before, and then all in the order of `keys`.
fn play(log: &Log, mark: Seq, steps: &[Step], order: &[(u64, usize)]) -> Result<Snapshot, TestCaseError> {
    let end = log.entries.len();
    let mut view = view(At::Newest);
    if let Some(row) = log.seen_at(end).row(false, mark) {
        view.timeline_mut().row(&row);
    }
    let mut rest: Vec<(u64, Step)> =
        (0..end).zip(order).map(|(index, (key, read_at))| (*key, Step::Entry { index, read_at: *read_at })).collect();
    rest.sort_by_key(|(key, _)| *key);
    let (mut before, mut keys) = (Snapshot::default(), BTreeMap::new());
    for step in steps.iter().cloned().chain(rest.into_iter().map(|(_, step)| step)) {
        take(&mut view, log, mark, &step);
        if matches!(step, Step::Draw) {
            let now = view.snapshot().clone();
            check(&before, &now, &mut keys)?;
            before = now;
        }
    }
    let now = view.snapshot().clone();
    check(&before, &now, &mut keys)?;
    prop_assert!(!now.items.iter().any(|item| matches!(item.content, Content::Gap { .. })), "{:?}", now);
    Ok(now)
}

/// The chat list after the row, as the server read it last, and all entries in the order of `keys`.
fn list(log: &Log, mark: Seq, row_at: usize, order: &[(u64, usize)]) -> (ChatRow, u64) {
    let end = log.entries.len();
    let mut list = Conversations::new(user(ME));
    let mut entries: Vec<(u64, usize, usize)> =
        (0..end).zip(order).map(|(index, (key, read_at))| (*key, index, *read_at)).collect();
    entries.sort_unstable();
    for (at, (_, index, read_at)) in entries.into_iter().enumerate() {
        if at == row_at % end {
            list.row(&log.seen_at(end).row(false, mark).unwrap());
        }
        let message = log.read_at((read_at % end).max(index) + 1).swap_remove(index);
        list.event(&Event::Message { message, missed: false }, Moment::default());
    }
    let snapshot = list.snapshot(&ListSnapshot::default(), &Filter::default(), Moment::default(), Timestamp::default());
    assert_eq!(snapshot.rows.len(), 1, "{snapshot:?}");
    // The row names the peer, or an own entry the conversation.
    (ChatRow { key: String::new(), ..snapshot.rows[0].as_ref().clone() }, snapshot.unread)
}

/// A conversation at the server, in which only bob writes, and this device's store of it.
struct World {
    last: usize,
    store: MemStore,
    /// The server can't be reached.
    is_offline: bool,
    requests: usize,
}

impl World {
    fn entries(from: usize, to: usize) -> Vec<Message> {
        let text = |number: usize| {
            let at = Timestamp::from_millis(i64::try_from(number).unwrap());
            Message::text(id(), seq(number), MessageId::stored("x"), user("bob"), number.to_string(), at)
        };
        (from..=to).map(text).collect()
    }

    fn page(&self, side: Side) -> HistoryResult {
        let number = |seq: Seq| usize::try_from(seq.value()).unwrap();
        let (from, to) = match side {
            Side::Newest => (self.last.saturating_sub(PAGE - 1), self.last),
            Side::Before(seq) => (number(seq).saturating_sub(PAGE), number(seq.previous()).min(self.last)),
            Side::After(seq) => (number(seq) + 1, (number(seq) + PAGE).min(self.last)),
        };
        let from = from.max(1);
        let more = if let Side::After(_) = side { to < self.last } else { from > 1 };
        let mark = |id: &str| Member { user_id: user(id), delivered_seq: Seq::ZERO, read_seq: Seq::ZERO };
        let (last_seq, members) = (seq(self.last), vec![mark(ME), mark("bob")]);
        HistoryResult { messages: Self::entries(from, to), more, last_seq, first_seq: None, members, pins: vec![] }
    }

    fn row(&self) -> Conversation {
        serde_json::from_value(json!({"conversation_id": id(), "kind": "direct", "peer_id": "bob", "unread": self.last,
            "last_message": {"seq": self.last, "sender_id": "bob", "kind": "text", "preview": "",
                "sent_at": Timestamp::from_millis(0)},
            "delivered_seq": self.last, "read_seq": 0, "last_seq": self.last}))
        .unwrap()
    }

    /// Carries out all requests of the view, until there are none.
    fn serve(&mut self, view: &mut Messages) -> Result<(), TestCaseError> {
        loop {
            let requests = view.requests();
            if requests.is_empty() {
                return Ok(());
            }
            for request in requests {
                self.requests += 1;
                prop_assert!(self.requests < 1000, "the requests have no end: {:?}", request);
                match request {
                    Request::Load(side) => view.loaded(side, self.store.window(&id(), side, PAGE)),
                    Request::History(side) if self.is_offline => view.lost(side),
                    Request::History(side) => {
                        let page = self.page(side);
                        self.store.apply(&[Write::Page { conversation_id: id(), side, page: page.clone() }]);
                        view.page(side, page);
                    }
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Move {
    Older,
    Newer,
    Jump(usize),
    JumpToNewest,
    /// Bob writes while this device is connected.
    Live,
    /// Bob writes, and nothing of it comes here.
    Missed(usize),
    Offline,
    Online,
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        4 => Just(Move::Older),
        4 => Just(Move::Newer),
        2 => (1..500_usize).prop_map(Move::Jump),
        1 => Just(Move::JumpToNewest),
        2 => Just(Move::Live),
        1 => (1..200_usize).prop_map(Move::Missed),
        1 => Just(Move::Offline),
        1 => Just(Move::Online),
    ]
}

fn go(world: &mut World, view: &mut Messages, one: &Move) {
    match *one {
        Move::Older => view.older(),
        Move::Newer => view.newer(),
        Move::Jump(number) => view.jump(At::Seq(seq(number.min(world.last)))),
        Move::JumpToNewest => view.jump(At::Newest),
        Move::Live if !world.is_offline => {
            world.last += 1;
            let message = World::entries(world.last, world.last).remove(0);
            world.store.apply(&[Write::Entry(message.clone())]);
            came(view, message);
        }
        Move::Live => world.last += 1,
        Move::Missed(count) => world.last += count,
        Move::Offline => world.is_offline = true,
        Move::Online => {
            world.is_offline = false;
            view.event(&Event::ConversationChanged(world.row()), Moment::default());
            view.event(&Event::State(State::CaughtUp), Moment::default());
        }
    }
}

fn numbers(snapshot: &Snapshot) -> Vec<u64> {
    let number = |item: &Arc<Item>| if let Content::Message(message) = &item.content { message.seq } else { None };
    snapshot.items.iter().filter_map(number).map(Seq::value).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_order_and_grouping_of_the_same_entries_gives_the_same_view(
        acts in prop::collection::vec((0..3_usize, act()), 0..40),
        steps in prop::collection::vec(step(), 0..40),
        order in prop::collection::vec((any::<u64>(), 0..1000_usize), 50),
        mark in 0..30_u64,
    ) {
        let log = Log::direct(&acts);
        let end = log.entries.len();
        let mark = Seq::new(mark.min(end as u64)).unwrap_or_default();
        let in_order: Vec<(u64, usize)> = (0..end as u64).map(|key| (key, end - 1)).collect();
        let expected = play(&log, mark, &[], &in_order)?;
        let found = play(&log, mark, &steps, &order)?;
        prop_assert_eq!(found.items, expected.items);
        prop_assert_eq!((found.has_older, found.has_newer, found.unread), (false, false, expected.unread));
    }

    #[test]
    fn any_order_of_the_same_entries_gives_the_same_row(
        acts in prop::collection::vec((0..3_usize, act()), 0..40),
        order in prop::collection::vec((any::<u64>(), 0..1000_usize), 50),
        row_at in 0..1000_usize,
        mark in 0..30_u64,
    ) {
        let log = Log::direct(&acts);
        let end = log.entries.len();
        let mark = Seq::new(mark.min(end as u64)).unwrap_or_default();
        let in_order: Vec<(u64, usize)> = (0..end as u64).map(|key| (key, end - 1)).collect();
        let expected = list(&log, mark, 0, &in_order);
        let (now, entries) = (log.seen_at(end), log.read_at(end));
        let line = entries.iter().rfind(|entry| entry.kind.counts()).unwrap();
        prop_assert_eq!(expected.0.line.as_ref().map(|line| (line.seq, &*line.text)), Some((Some(line.seq), &*line.body)));
        prop_assert_eq!(expected.1, now.row(false, mark).unwrap().unread);
        prop_assert_eq!(list(&log, mark, row_at, &order), expected);
    }

    #[test]
    fn the_requests_of_a_view_end_and_make_its_window_whole(
        last in 1..500_usize,
        held in prop::collection::vec((1..500_usize, 1..60_usize), 0..6),
        moves in prop::collection::vec(any_move(), 0..25),
        at in prop_oneof![Just(At::Newest), Just(At::FirstUnread), (1..500_u64).prop_map(|seq| At::Seq(Seq::new(seq).unwrap()))],
    ) {
        let mut world = World { last, store: MemStore::new(user(ME)), is_offline: false, requests: 0 };
        for (from, length) in held {
            for message in World::entries(from, (from + length).min(last)) {
                world.store.apply(&[Write::Entry(message)]);
            }
        }
        let mut view = view(at);
        let (mut before, mut keys) = (Snapshot::default(), BTreeMap::new());
        for one in moves.iter().chain([&Move::Online, &Move::Older]) {
            go(&mut world, &mut view, one);
            world.serve(&mut view)?;
            let now = view.snapshot().clone();
            check(&before, &now, &mut keys)?;
            prop_assert!(numbers(&now).len() <= ITEMS_MAX);
            before = now;
        }
        let shown = numbers(&before);
        let (first, end) = (shown.first().copied().unwrap(), shown.last().copied().unwrap());
        prop_assert_eq!(&shown, &(first..=end).collect::<Vec<_>>(), "a gap in {:?}", before);
        prop_assert_eq!(before.has_older, first > 1);
        prop_assert!(before.has_newer || end == world.last as u64, "{} of {}", end, world.last);
        prop_assert!(shown.len() >= (PAGE / 2).min(world.last), "{} of {}", shown.len(), world.last);
    }
}

#[test]
fn a_view_that_opened_without_a_network_gets_the_entries_below_those_of_the_store() {
    let mut world = World { last: 85, store: MemStore::new(user(ME)), is_offline: true, requests: 0 };
    for message in World::entries(2, 3) {
        world.store.apply(&[Write::Entry(message)]);
    }
    let mut view = view(At::FirstUnread);
    world.serve(&mut view).unwrap();
    assert_eq!(numbers(view.snapshot()), [2, 3]);
    go(&mut world, &mut view, &Move::Online);
    world.serve(&mut view).unwrap();
    assert_eq!(numbers(view.snapshot()).first(), Some(&1));
    assert!(!view.snapshot().has_older);
}
