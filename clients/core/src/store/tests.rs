//! The rules of the store: any order gives the same result, and the spans show what is missing.

use proptest::prelude::*;
use serde_json::json;
use wire::{ConversationKind, Emoji, MessageId, Timestamp};

use super::*;
use crate::unreadable::Unreadable;

fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

fn id() -> ConversationId {
    ConversationId::parse("dm_ab").unwrap()
}

fn seq(value: u64) -> Seq {
    Seq::new(value).unwrap()
}

fn text(number: u64, sender: &str, body: &str) -> Message {
    let sent_at = Timestamp::from_millis(1_763_632_800_000 + i64::try_from(number).unwrap());
    Message::text(id(), seq(number), MessageId::stored("x"), user(sender), body.to_owned(), sent_at)
}

fn change(number: u64, sender: &str, kind: Kind, target: u64) -> Message {
    Message { kind, target_seq: Some(seq(target)), ..text(number, sender, "") }
}

fn page(messages: Vec<Message>, more: bool, last: u64) -> HistoryResult {
    HistoryResult { messages, more, last_seq: seq(last), first_seq: None, members: vec![], pins: vec![] }
}

fn page_of(side: Side, messages: Vec<Message>, more: bool, last: u64) -> Write {
    Write::Page { conversation_id: id(), side, page: page(messages, more, last) }
}

fn spans(store: &MemStore) -> Vec<(u64, u64)> {
    let window = store.window(&id(), Side::Newest, 0);
    window.spans.iter().map(|span| (span.from.value(), span.to.value())).collect()
}

#[test]
fn spans_meet_and_show_what_is_missing() {
    let mut store = MemStore::new(user("alice"));
    store.apply(&[Write::Entry(text(20, "bob", "hi")), Write::Entry(text(21, "bob", "ho"))]);
    assert_eq!(spans(&store), [(20, 21)]);
    store.apply(&[page_of(Side::Before(seq(15)), vec![text(12, "bob", "a"), text(14, "bob", "b")], true, 21)]);
    assert_eq!(spans(&store), [(12, 14), (20, 21)]);
    store.apply(&[page_of(Side::After(seq(14)), vec![text(15, "bob", "c")], true, 21)]);
    assert_eq!(spans(&store), [(12, 15), (20, 21)]);
    // An entry that can't be read leaves no gap: the server has no other.
    store.apply(&[page_of(Side::Newest, vec![text(16, "bob", "d"), text(22, "bob", "e")], true, 22)]);
    assert_eq!(spans(&store), [(12, 22)]);
    store.apply(&[page_of(Side::Before(seq(12)), vec![text(3, "bob", "f")], false, 22)]);
    assert_eq!(spans(&store), [(1, 22)]);
    let seqs = |window: Window| window.messages.iter().map(|message| message.seq.value()).collect::<Vec<_>>();
    assert_eq!(seqs(store.window(&id(), Side::Newest, 2)), [21, 22]);
    assert_eq!(seqs(store.window(&id(), Side::Before(seq(15)), 2)), [12, 14]);
    assert_eq!(seqs(store.window(&id(), Side::After(seq(15)), 2)), [16, 20]);
}

/// Returns the server's row while this is the last message.
fn row(last: &Message) -> Conversation {
    Conversation {
        conversation_id: id(),
        kind: ConversationKind::Direct,
        peer_id: Some(user("bob")),
        title: None,
        role: None,
        member_count: None,
        first_seq: None,
        history: None,
        post: None,
        add: None,
        last_message: last_message(last),
        unread: 1,
        mentions: None,
        delivered_seq: Seq::ZERO,
        read_seq: Seq::ZERO,
        last_seq: last.seq,
        muted_until: None,
        mute_mentions: false,
        archived: false,
        marked_unread: false,
        pinned: false,
        restricted_until: None,
        info_seq: None,
        blocked: false,
        encrypted: false,
        epoch: None,
    }
}

#[test]
fn the_chat_list_follows_the_entries() {
    let mut store = MemStore::new(user("alice"));
    store.apply(&[Write::Row(row(&text(1, "bob", "one"))), Write::Entry(text(2, "bob", "two"))]);
    let line = |store: &MemStore| {
        let row = store.chats().remove(0);
        (row.last_message.preview, row.last_message.deleted, row.unread, row.last_seq.value())
    };
    assert_eq!(line(&store), ("two".to_owned(), false, 2, 2));
    let edit = Message { body: "2".to_owned(), version: Some(2), ..change(3, "bob", Kind::Edit, 2) };
    store.apply(&[Write::Entry(edit)]);
    assert_eq!(line(&store), ("2".to_owned(), false, 2, 3));
    store.apply(&[Write::Read { conversation_id: id(), seq: seq(3), unread: 0, mentions: None }]);
    store.apply(&[Write::Entry(change(4, "bob", Kind::Delete, 2))]);
    assert_eq!(line(&store), (String::new(), true, 0, 4));
    // The server's row from before the delete.
    let mut old = store.chats().remove(0);
    (old.last_seq, old.last_message.preview) = (seq(3), "2".to_owned());
    store.apply(&[Write::Row(old.clone())]);
    assert_eq!(line(&store), (String::new(), true, 0, 4));
    // A row whose message the store lacks.
    let mut store = MemStore::new(user("alice"));
    store.apply(&[Write::Row(old), Write::Entry(change(4, "bob", Kind::Delete, 2))]);
    assert_eq!(line(&store), (String::new(), true, 0, 4));
}

#[test]
fn a_text_that_comes_after_its_delete_is_not_kept() {
    let mut store = MemStore::new(user("alice"));
    store.apply(&[Write::Entry(change(4, "bob", Kind::Delete, 2))]);
    store.apply(&[page_of(Side::Newest, vec![text(2, "bob", "secret")], true, 3)]);
    let found = store.window(&id(), Side::Newest, 9).messages;
    assert_eq!((found.len(), found[0].body.as_str(), found[0].deleted_at.is_some()), (1, "", true));
    assert_eq!(store.search("secret", 9), []);
    let mut folded = Folded::default();
    folded.change(&change(4, "bob", Kind::Delete, 2), &user("alice"));
    folded.hold(text(2, "bob", "secret"), true);
    assert!(!json!(folded).to_string().contains("secret"));
}

#[test]
fn entries_of_a_group_change_its_row() {
    let mut store = MemStore::new(user("alice"));
    let group = ConversationId::parse("gr_ab").unwrap();
    let row = json!({"conversation_id": group, "kind": "group", "title": "Trip", "role": "member", "member_count": 3,
        "history": "joined", "post": "all", "add": "all", "unread": 0, "delivered_seq": 1, "read_seq": 1, "last_seq": 1,
        "last_message": {"seq": 1, "sender_id": "bob", "kind": "text", "preview": "hi", "sent_at": "2026-11-20T10:00:00Z"}});
    store.apply(&[Write::Row(serde_json::from_value(row).unwrap())]);
    let systems = [
        json!({"event": "info.changed", "title": "Sea", "post": "admins"}),
        json!({"event": "members.added", "members": ["dave", "erin"]}),
        json!({"event": "role.changed", "user_id": "alice", "role": "admin"}),
    ];
    for (number, system) in (2..).zip(systems) {
        let system = Some(serde_json::from_value(system).unwrap());
        let entry = Message { conversation_id: group.clone(), kind: Kind::System, system, ..text(number, "bob", "") };
        // A repetition changes nothing.
        store.apply(&[Write::Entry(entry.clone()), Write::Entry(entry)]);
    }
    let row = store.chats().remove(0);
    assert_eq!((row.title.as_deref(), row.role, row.member_count), (Some("Sea"), Some(Role::Admin), Some(5)));
    assert_eq!((row.post, row.add), (Some(wire::AllowedTo::Admins), Some(wire::AllowedTo::All)));
}

#[test]
fn entries_of_a_group_change_its_members() {
    let mut store = MemStore::new(user("alice"));
    let group = ConversationId::parse("gr_ab").unwrap();
    let entry = |number: u64, sender: &str, system: serde_json::Value| {
        let system = Some(serde_json::from_value(system).unwrap());
        Write::Entry(Message { conversation_id: group.clone(), kind: Kind::System, system, ..text(number, sender, "") })
    };
    let marks = |user_id| Member { user_id, delivered_seq: seq(1), read_seq: seq(1) };
    // Without a list, nothing is known of the others.
    store.apply(&[
        Write::Marks { conversation_id: group.clone(), members: vec![marks(user("bob"))] },
        entry(2, "bob", json!({"event": "members.added", "members": ["carol"]})),
    ]);
    assert_eq!(store.members(&group).len(), 1);
    let member = |id, role| GroupMember { user_id: user(id), role, joined_seq: seq(1), restricted_until: None };
    let listed = vec![member("alice", Role::Member), member("bob", Role::Owner), member("carol", Role::Member)];
    store.apply(&[
        Write::Members { conversation_id: group.clone(), members: listed },
        entry(3, "bob", json!({"event": "members.removed", "members": ["carol"]})),
        entry(4, "bob", json!({"event": "members.added", "members": ["dave"]})),
        entry(5, "bob", json!({"event": "role.changed", "user_id": "alice", "role": "owner"})),
        entry(6, "dave", json!({"event": "member.left"})),
        entry(7, "alice", json!({"event": "members.added", "members": ["dave"]})),
    ]);
    let known: Vec<_> = store.members(&group).into_iter().map(|it| (it.user_id, it.joined, it.read_seq)).collect();
    let of = |id, role, joined, read| (user(id), Some((role, seq(joined))), seq(read));
    let [alice, bob] = [of("alice", Role::Owner, 1, 0), of("bob", Role::Admin, 1, 1)];
    assert_eq!(known, [alice, bob, of("dave", Role::Member, 7, 0)]);
}

/// A log in which each change is possible when it comes: a message, then changes of it.
fn log(acts: &[(u8, u8)]) -> Vec<Message> {
    let emojis = ["👍", "🎉"].map(|emoji| Emoji::parse(emoji).unwrap());
    let mut log = vec![text(1, "bob", "one"), text(2, "alice", "two")];
    let mut version = [1_u64; 2];
    let mut deleted = [false; 2];
    let mut reacted = std::collections::BTreeMap::new();
    for (act, pick) in acts {
        let (number, target) = (log.len() as u64 + 1, usize::from(pick % 2));
        let author = ["bob", "alice"][target];
        let of_target = target as u64 + 1;
        log.push(match act {
            _ if deleted[target] => text(number, author, "more"),
            0 => {
                version[target] += 1;
                let body = format!("edit {number}");
                let edit = change(number, author, Kind::Edit, of_target);
                Message { body, version: Some(version[target]), ..edit }
            }
            1 => {
                deleted[target] = true;
                change(number, author, Kind::Delete, of_target)
            }
            _ => {
                let who = ["alice", "bob"][usize::from(pick / 2 % 2)];
                let emoji = emojis.get(usize::from(*act) - 2).cloned();
                let emoji_before = match &emoji {
                    Some(emoji) => reacted.insert((target, who), emoji.clone()),
                    None => reacted.remove(&(target, who)),
                };
                Message { emoji, emoji_before, ..change(number, who, Kind::Reaction, of_target) }
            }
        });
    }
    log
}

proptest! {
    #[test]
    fn entries_in_any_order_give_the_same(
        acts in prop::collection::vec((0..5_u8, 0..4_u8), 0..12),
        order in prop::collection::vec(any::<usize>(), 0..40),
    ) {
        let log = log(&acts);
        let (mut one, mut other) = (MemStore::new(user("alice")), MemStore::new(user("alice")));
        one.apply(&log.iter().cloned().map(Write::Entry).collect::<Vec<_>>());
        let mixed = order.iter().map(|pick| &log[pick % log.len()]).chain(log.iter().rev());
        other.apply(&mixed.cloned().map(Write::Entry).collect::<Vec<_>>());
        prop_assert_eq!(one.window(&id(), Side::Newest, 99), other.window(&id(), Side::Newest, 99));
    }
}

/// An entry as the server has it, whose bytes this device did not open.
fn sealed(seq: u64) -> Message {
    Message { kind: Kind::Sealed, epoch: Some(1), body: "AAEC".to_owned(), ..text(seq, "bob", "") }
}

#[test]
fn a_page_does_not_take_the_text_of_an_opened_message() {
    let mut store = MemStore::new(user("alice"));
    store.apply(&[Write::Entry(Message { epoch: Some(1), ..text(1, "bob", "secret") })]);
    let page = |message: Message| page_of(Side::Newest, vec![message], false, 1);
    let now = |store: &MemStore| store.window(&id(), Side::Newest, 9).messages.remove(0);
    store.apply(&[page(sealed(1)), Write::Row(Conversation { encrypted: true, ..row(&sealed(1)) })]);
    assert_eq!((&*now(&store).body, &*store.chats()[0].last_message.preview), ("secret", "secret"));
    let at = now(&store).sent_at;
    store.apply(&[page(Message {
        deleted_at: Some(at),
        deleted_by: Some(user("bob")),
        body: String::new(),
        ..sealed(1)
    })]);
    assert_eq!((&*now(&store).body, now(&store).deleted_at), ("", Some(at)));
}

#[test]
fn an_encrypted_edit_holds_if_it_is_of_the_author() {
    let message = Message { epoch: Some(1), ..text(1, "bob", "bye") };
    let edit = |seq: u64, by: &str, body: &str| Message {
        kind: Kind::Edit,
        epoch: Some(1),
        version: Some(seq),
        target_seq: Some(message.seq),
        ..text(seq, by, body)
    };
    let entries = [message.clone(), edit(2, "bob", "hi"), edit(3, "alice", "forged")];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut store = MemStore::new(user("alice"));
        store.apply(&order.map(|place| Write::Entry(entries[place].clone())));
        assert_eq!(store.window(&id(), Side::Newest, 9).messages[0].body, "hi", "{order:?}");
    }
}

#[test]
fn a_message_has_the_proof_of_its_current_text() {
    let proof = |number: u64| Opened { seq: seq(number), key: vec![7; 32].into(), plaintext: vec![8].into() };
    let message = Message { epoch: Some(1), ..text(1, "bob", "bye") };
    let edit = |seq: u64, by: &str, of: Kind| Message {
        kind: of,
        epoch: Some(1),
        version: Some(seq),
        target_seq: Some(message.seq),
        ..text(seq, by, "hi")
    };
    let entries =
        [message.clone(), edit(2, "bob", Kind::Edit), edit(3, "bob", Kind::Edit), edit(4, "alice", Kind::Edit)];
    let entries = entries.map(|entry| Message { proof: Some(Box::new(proof(entry.seq.value()))), ..entry });
    for order in [vec![0], vec![0, 1], vec![0, 1, 2, 3], vec![0, 3, 2, 1], vec![3, 2, 1, 2, 0], vec![1, 2, 0, 0]] {
        let mut store = MemStore::new(user("alice"));
        store.apply(&order.iter().map(|place| Write::Entry(entries[*place].clone())).collect::<Vec<_>>());
        let newest = order.iter().filter(|place| **place < 3).max().unwrap();
        let kept = |store: &MemStore| store.window(&id(), Side::Newest, 9).messages.remove(0).proof;
        assert_eq!(kept(&store), entries[*newest].proof, "{order:?}");
        // The server has no proof of it.
        store.apply(&[Write::Entry(Unreadable::BeforeJoin.of(sealed(1)))]);
        assert_eq!(kept(&store), entries[*newest].proof, "{order:?}");
        store.apply(&[Write::Entry(edit(5, "bob", Kind::Delete)), Write::Entry(entries[0].clone())]);
        assert_eq!(kept(&store), None, "{order:?}");
    }
}

#[test]
fn an_encrypted_change_holds_if_it_names_the_id_of_its_target() {
    let id_of = |text: &str| Some(wire::ClientMsgId::parse(text).unwrap());
    let message = Message { epoch: Some(1), client_msg_id: id_of("m1"), ..text(1, "bob", "bye") };
    let change = |seq: u64, kind: Kind, target: &str| Message {
        kind,
        epoch: Some(1),
        version: Some(seq),
        target_seq: Some(message.seq),
        emoji: Emoji::parse("👍").ok(),
        target_id: id_of(target).map(Box::new),
        ..text(seq, "bob", "hi")
    };
    let of_another = [message.clone(), change(2, Kind::Edit, "m2"), change(3, Kind::Reaction, "m2")];
    let of_this = [message.clone(), change(2, Kind::Edit, "m1"), change(3, Kind::Reaction, "m1")];
    for (entries, body, reactions) in [(of_another, "bye", 0), (of_this, "hi", 1)] {
        for order in [[0, 1, 2], [1, 2, 0]] {
            let mut store = MemStore::new(user("alice"));
            store.apply(&order.map(|place| Write::Entry(entries[place].clone())));
            let shown = store.window(&id(), Side::Newest, 9).messages.remove(0);
            assert_eq!((&*shown.body, shown.reactions.len()), (body, reactions), "{order:?}");
        }
    }
}

#[test]
fn an_unreadable_message_is_unread_and_has_no_text() {
    let mut store = MemStore::new(user("alice"));
    store.apply(&[Write::Entry(text(1, "bob", "hi")), Write::Row(row(&text(1, "bob", "hi")))]);
    store.apply(&[Write::Entry(Unreadable::BeforeJoin.of(sealed(2)))]);
    let row = &store.chats()[0];
    assert_eq!((row.unread, row.last_message.seq, &*row.last_message.preview), (2, seq(2), ""));
    assert_eq!(store.search("before", 9), vec![]);
    let unreadable = store.window(&id(), Side::After(seq(1)), 9).messages.remove(0);
    assert_eq!(Unreadable::in_entry(&unreadable), Some(Unreadable::BeforeJoin));
}
