//! The store as files: the same as one in memory, whole after any end of the process, and without what was deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::{env, fs};

use pigeonhole_core::chat::{Found, Load};
use pigeonhole_core::{Draft, KnownMember, MemStore, Outgoing, Queued, Saved, Span, StorageChange, Window};
use proptest::prelude::*;
use serde_json::json;
use wire::{
    Attached, Channel, ClientMsgId, Conversation, ConversationId, GroupMember, HistoryResult, Kind, Member, Message,
    MessageId, Opened, Role, Seq, Side, Target, Timestamp,
};

use super::*;

mod canaries;
mod kills;
mod opening;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = env::temp_dir().join(format!("pigeonhole-store-{:x}", fastrand::u64(..)));
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.join("store")
    }

    fn open(&self) -> Store {
        Store::open(self.path(), &me()).unwrap()
    }

    /// Returns which of these words are in any file, in UTF-8 or UTF-16.
    fn find(&self, words: &[String]) -> Vec<String> {
        let files = fs::read_dir(&self.0).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
        let all = files.flatten().collect::<Vec<u8>>();
        let has = |text: &[u8]| all.windows(text.len()).any(|part| part == text);
        let wide = |word: &str| word.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        words.iter().filter(|word| has(word.as_bytes()) || has(&wide(word))).cloned().collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn me() -> UserId {
    UserId::parse("alice").unwrap()
}

fn id(name: &str) -> ConversationId {
    ConversationId::parse(name).unwrap()
}

fn seq(value: u64) -> Seq {
    Seq::new(value).unwrap()
}

fn text(id: &ConversationId, number: u64, body: &str) -> Message {
    let sent_at = Timestamp::from_millis(1_763_632_800_000 + i64::try_from(number).unwrap());
    let bob = UserId::parse("bob").unwrap();
    Message::text(id.clone(), seq(number), MessageId::stored("x"), bob, body.to_owned(), sent_at)
}

fn change(id: &ConversationId, number: u64, kind: Kind, target: u64, body: &str) -> Message {
    let version = (kind == Kind::Edit).then_some(number);
    Message { kind, version, target_seq: Some(seq(target)), ..text(id, number, body) }
}

fn queued(name: &str) -> Queued {
    let outgoing = Outgoing::Message {
        target: Target::Conversation(id("dm_ab")),
        draft: Draft::new(format!("unsent {name}")).data(serde_json::Map::from_iter([("of".to_owned(), name.into())])),
        media: None,
    };
    Queued { client_msg_id: ClientMsgId::parse(name).unwrap(), outgoing, made_at: Timestamp::default() }
}

fn held(number: u64) -> Write {
    Write::Change(StorageChange::Held { conversation_id: id("dm_ab"), seq: seq(number) })
}

/// Returns a row of the list of channels whose last message is at this `seq`.
fn channel(name: &str, last: u64) -> Channel {
    let last_message = row(name, last).last_message;
    serde_json::from_value(json!({"conversation_id": name, "kind": "channel", "title": "News", "role": "member",
        "first_seq": 1, "history": "all", "post": "admins", "add": "admins", "join": "open",
        "last_message": last_message, "unread": 1, "read_seq": 0, "last_seq": last}))
    .unwrap()
}

/// Returns a row whose last message is at this `seq`.
fn row(name: &str, last: u64) -> Conversation {
    let last_message = serde_json::json!({"seq": last, "sender_id": "bob", "kind": "text", "preview": "hello",
        "sent_at": text(&id(name), last, "").sent_at});
    serde_json::from_value(serde_json::json!({"conversation_id": name, "kind": "direct", "last_message": last_message,
        "unread": 1, "delivered_seq": 0, "read_seq": 0, "last_seq": last}))
    .unwrap()
}

const CONVERSATIONS: [&str; 3] = ["dm_ab", "gr_xy", "ch_n"];
const SEARCHES: [&str; 5] = ["hello", "東京", "unsent", "he", "world hello"];
const SIDES: [fn(Seq) -> Side; 3] = [|_| Side::Newest, Side::Before, Side::After];

/// All that a store returns.
#[derive(Debug, PartialEq)]
struct Content {
    saved: Saved,
    chats: Vec<Conversation>,
    channels: Vec<Channel>,
    windows: Vec<Window>,
    found: Vec<Vec<Message>>,
    members: Vec<Vec<KnownMember>>,
    drafts: BTreeMap<Target, Draft>,
    places: Vec<Option<String>>,
    unneeded: Vec<String>,
}

impl Content {
    fn of(store: &Reader) -> Self {
        Self {
            saved: store.saved().unwrap(),
            chats: store.chats().unwrap(),
            channels: store.channels().unwrap(),
            windows: views().map(|(id, side)| store.window(&id, side, 3).unwrap()).collect(),
            found: SEARCHES.map(|text| store.search(text, 4).unwrap()).into(),
            members: CONVERSATIONS.map(|name| store.members(&id(name)).unwrap()).into(),
            drafts: store.drafts().unwrap(),
            places: messages().map(|(id, seq)| store.place(&id, seq).unwrap()).collect(),
            unneeded: store.unneeded().unwrap(),
        }
    }

    fn of_memory(store: &MemStore) -> Self {
        Self {
            saved: store.saved(),
            chats: store.chats(),
            channels: store.channels(),
            windows: views().map(|(id, side)| store.window(&id, side, 3)).collect(),
            found: SEARCHES.map(|text| store.search(text, 4)).into(),
            members: CONVERSATIONS.map(|name| store.members(&id(name))).into(),
            drafts: store.drafts(),
            places: messages().map(|(id, seq)| store.place(&id, seq)).collect(),
            unneeded: store.unneeded(),
        }
    }
}

fn views() -> impl Iterator<Item = (ConversationId, Side)> {
    CONVERSATIONS.into_iter().flat_map(|name| SIDES.map(|side| (id(name), side(seq(5)))))
}

/// The messages whose files a test looks at.
fn messages() -> impl Iterator<Item = (ConversationId, Seq)> {
    CONVERSATIONS.into_iter().flat_map(|name| (1..12).map(move |number| (id(name), seq(number))))
}

fn with_image(message: Message) -> Message {
    let media =
        json!({"media_id": "md_0198c0de", "mime": "image/jpeg", "bytes": 9, "sha256": format!("{}=", "A".repeat(43))});
    let media = serde_json::from_value(media).unwrap();
    Message { kind: Kind::Image, media: Some(Box::new(Attached::Clear(media))), ..message }
}

fn draft(body: &str) -> Draft {
    Draft::new(body).reply_to(seq(3))
}

fn floor(name: &str, first_seq: u64) -> Write {
    Write::Floor { conversation_id: id(name), first_seq: seq(first_seq) }
}

fn place(name: &str, number: u64, path: &str) -> Write {
    Write::Place { conversation_id: id(name), seq: seq(number), path: Some(path.to_owned()) }
}

fn marks(name: &str, user: &str, delivered: u64, read: u64) -> Write {
    let user_id = UserId::parse(user).unwrap();
    let member = Member { user_id, delivered_seq: seq(delivered), read_seq: seq(read) };
    Write::Marks { conversation_id: id(name), members: vec![member] }
}

fn sealing(key: &str, value: Option<Vec<u8>>) -> Write {
    Write::Sealing { key: key.to_owned(), value: value.map(Into::into) }
}

fn members(users: &[&str]) -> Write {
    let member = |user: &&str| {
        let user_id = UserId::parse(user).unwrap();
        GroupMember { user_id, role: Role::Admin, joined_seq: seq(2), restricted_until: None }
    };
    Write::Members { conversation_id: id("gr_xy"), members: users.iter().map(member).collect() }
}

fn a_write() -> impl Strategy<Value = Write> {
    let body = prop::sample::select(vec!["hello world", "東京都", "world", "…", "ok 🎉 hello", "it’s"]);
    let kind = [Kind::Text, Kind::Text, Kind::Image, Kind::Edit, Kind::Delete, Kind::Reaction];
    let kind = prop::sample::select(kind.to_vec());
    let entry = (prop::sample::select(&CONVERSATIONS[..]), 1..12_u64, kind, 1..12_u64, body).prop_map(
        |(name, number, kind, target, body)| match kind {
            Kind::Text => text(&id(name), number, body),
            Kind::Image => with_image(text(&id(name), number, body)),
            kind => change(&id(name), number, kind, target, body),
        },
    );
    let name = prop::sample::select(vec!["a", "b", "c"]);
    prop_oneof![
        6 => entry.clone().prop_map(Write::Entry),
        2 => (prop::collection::vec(entry, 1..4), any::<bool>(), 0..3_usize).prop_map(|(mut messages, more, side)| {
            let conversation_id = messages[0].conversation_id.clone();
            messages.retain(|message| message.conversation_id == conversation_id);
            messages.sort_by_key(|message| message.seq);
            let bob = Member { user_id: UserId::parse("bob").unwrap(), delivered_seq: seq(9), read_seq: seq(4) };
            let page = HistoryResult { messages, more, last_seq: seq(12), first_seq: None, members: vec![bob], pins: vec![] };
            Write::Page { conversation_id, side: SIDES[side](seq(5)), page }
        }),
        1 => name.clone().prop_map(|name| Write::Change(StorageChange::Queued(queued(name)))),
        1 => name.prop_map(|name| Write::Change(StorageChange::Done(ClientMsgId::parse(name).unwrap()))),
        1 => (1..9_u64).prop_map(held),
        1 => (prop::sample::select(&CONVERSATIONS[..2]), 1..12_u64).prop_map(|(name, last)| Write::Row(row(name, last))),
        1 => (1..12_u64).prop_map(|last| Write::Channel(channel("ch_n", last))),
        1 => Just(Write::Gone(id("ch_n"))),
        1 => (1..12_u64).prop_map(|number| {
            let system = json!({"event": "members.added", "members": ["erin"]});
            let system = Some(serde_json::from_value(system).unwrap());
            Write::Entry(Message { kind: Kind::System, system, ..text(&id("gr_xy"), number, "") })
        }),
        1 => (1..9_i64).prop_map(|at| Write::Change(StorageChange::CaughtUp(Timestamp::from_millis(at)))),
        2 => (1..12_u64, any::<bool>()).prop_map(|(to, is_told)| {
            let (conversation_id, seq) = (id("dm_ab"), seq(to));
            Write::Change(if is_told {
                StorageChange::ReadTold { conversation_id, seq }
            } else {
                StorageChange::Read { conversation_id, seq }
            })
        }),
        1 => (1..12_u64).prop_map(|to| {
            let name = CONVERSATIONS[usize::try_from(to).unwrap() % 3];
            Write::Read { conversation_id: id(name), seq: seq(to), unread: 1, mentions: None }
        }),
        3 => a_local_write(),
    ]
}

/// Returns a write of what no server sends as an entry.
fn a_local_write() -> impl Strategy<Value = Write> {
    let conversation = || prop::sample::select(&CONVERSATIONS[..]);
    let user = prop::sample::select(vec!["bob", "carol", "dave"]);
    let target = prop_oneof![
        Just(Target::Conversation(id("dm_ab"))),
        Just(Target::User(UserId::parse("dm_ab").unwrap())),
        Just(Target::Conversation(id("gr_xy"))),
    ];
    prop_oneof![
        2 => (target, prop::option::of(prop::sample::select(vec!["unsent one", "two"]))).prop_map(|(target, body)| {
            Write::Draft { target, draft: body.map(draft) }
        }),
        2 => (conversation(), user, 0..9_u64, 0..9_u64).prop_map(|(name, user, delivered, read)| {
            marks(name, user, delivered, read)
        }),
        1 => prop::sample::select(vec![&["bob", "carol"][..], &["alice", "dave"][..]]).prop_map(members),
        2 => (conversation(), 1..12_u64, prop::sample::select(vec!["a.jpg", "b.jpg"])).prop_map(|(name, number, path)| {
            place(name, number, path)
        }),
        1 => (conversation(), 1..12_u64).prop_map(|(name, number)| {
            Write::Place { conversation_id: id(name), seq: seq(number), path: None }
        }),
        1 => Just(Write::Removed("a.jpg".to_owned())),
        1 => (conversation(), 1..10_u64).prop_map(|(name, first)| floor(name, first)),
        1 => (conversation(), 1..10_u64).prop_map(|(name, first)| {
            Write::Trim { conversation_id: id(name), first_seq: seq(first) }
        }),
        2 => (conversation(), prop::option::of(any::<u8>())).prop_map(|(name, value)| sealing(name, value.map(|value| vec![value]))),
    ]
}

/// Returns each word of the index with its message.
fn index(store: &Store) -> BTreeSet<(String, i64)> {
    let words = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.word USING fts5vocab(main, search, instance)";
    store.connection.execute_batch(words).unwrap();
    let mut all = store.connection.prepare("SELECT term, doc FROM temp.word").unwrap();
    let all = all.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    all.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_changed_message_is_found_beside_another() {
    let folder = Folder::new();
    let mut store = folder.open();
    store.apply(&[Write::Entry(text(&id("gr_xy"), 4, "world"))], true).unwrap();
    let changed = text(&id("gr_xy"), 4, "hello world");
    store.apply(&[Write::Entry(changed), Write::Entry(text(&id("dm_ab"), 1, "hello world"))], false).unwrap();
    for words in ["hello", "world", "world hello"] {
        assert_eq!(store.search(words, 4).unwrap().len(), 2, "{words}");
    }
}

#[test]
fn a_floor_hides_what_it_has_not_removed_yet() {
    let folder = Folder::new();
    let mut store = folder.open();
    let entries: Vec<Write> = (1..=1_200).map(|number| Write::Entry(text(&id("dm_ab"), number, "hello"))).collect();
    store.apply(&entries, false).unwrap();
    store.apply(&[floor("dm_ab", 1_151)], false).unwrap();
    let count = |store: &Store| {
        let count = "SELECT count(*) FROM message";
        store.connection.query_row(count, (), |row| row.get::<_, usize>(0)).unwrap()
    };
    assert_eq!(count(&store), 700);
    for side in [Side::Newest, Side::Before(seq(1_201)), Side::After(seq(7))] {
        assert_eq!(store.window(&id("dm_ab"), side, 999).unwrap().messages.len(), 50);
    }
    assert_eq!(store.search("hello", 999).unwrap().len(), 50);
    // Hidden entries do not come back.
    store.apply(&entries[..9], false).unwrap();
    assert!(store.tidy(usize::MAX).unwrap());
    assert!(!store.tidy(usize::MAX).unwrap());
    assert_eq!(count(&store), 50);
    assert_eq!(store.window(&id("dm_ab"), Side::Newest, 999).unwrap().messages.len(), 50);
}

#[test]
fn a_store_that_is_too_large_loses_old_messages_that_were_read() {
    let folder = Folder::new();
    let mut store = folder.open();
    // The read mark of the second is at 30, and nothing is known of the third.
    for (name, read) in [("dm_ab", 600), ("gr_xy", 30), ("gr_z", 0)] {
        let entries: Vec<Write> = (1..=600).map(|number| Write::Entry(text(&id(name), number, "hello"))).collect();
        store.apply(&entries, false).unwrap();
        if read > 0 {
            store.apply(&[Write::Row(Conversation { read_seq: seq(read), ..row(name, 600) })], false).unwrap();
        }
    }
    let first = |store: &Store, name| {
        let window = store.window(&id(name), Side::Newest, 999).unwrap();
        assert_eq!(window.spans, [Span { from: window.messages[0].seq, to: seq(600) }]);
        window.messages[0].seq.value()
    };
    assert!(!store.tidy(1_800).unwrap());
    assert!(store.tidy(1_790).unwrap());
    assert_eq!(["dm_ab", "gr_xy", "gr_z"].map(|name| first(&store, name)), [11, 1, 1]);
    while store.tidy(0).unwrap() {}
    assert_eq!(["dm_ab", "gr_xy", "gr_z"].map(|name| first(&store, name)), [401, 31, 1]);
    // The server has them.
    store.apply(&[Write::Entry(text(&id("gr_xy"), 30, "hello"))], false).unwrap();
    assert_eq!(first(&store, "gr_xy"), 30);
}

#[test]
fn fields_of_a_later_version_stay_until_the_text_goes() {
    let folder = Folder::new();
    let mut store = folder.open();
    let entry = Write::Entry(text(&id("dm_ab"), 1, "hello"));
    store.apply(&[entry, Write::Row(row("dm_ab", 1))], false).unwrap();
    let later = "UPDATE message SET value = json_set(value, '$.stars', 3, '$.message.html', '<b>hello</b>');
        UPDATE conversation SET listed = json_set(listed, '$.colour', 'red', '$.last_message.html', '<b>hello</b>')";
    store.connection.execute_batch(later).unwrap();
    let fields = |store: &Store| {
        let select = "SELECT value ->> '$.stars', value ->> '$.message.html', listed ->> '$.colour',
            listed ->> '$.last_message.html' FROM message, conversation";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        store
            .connection
            .query_row::<(Option<u8>, Option<String>, String, Option<String>), _, _>(select, (), row)
            .unwrap()
    };
    let reaction =
        Message { emoji: Some(wire::Emoji::parse("👍").unwrap()), ..change(&id("dm_ab"), 2, Kind::Reaction, 1, "") };
    store.apply(&[Write::Entry(reaction)], false).unwrap();
    let html = Some("<b>hello</b>".to_owned());
    assert_eq!(fields(&store), (Some(3), html, "red".to_owned(), None));
    assert_eq!(store.window(&id("dm_ab"), Side::Newest, 1).unwrap().messages[0].reactions.len(), 1);
    store.apply(&[Write::Entry(change(&id("dm_ab"), 3, Kind::Edit, 1, "bye"))], false).unwrap();
    assert_eq!(fields(&store), (None, None, "red".to_owned(), None));
    assert_eq!(folder.find(&["<b>hello".to_owned()]), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_returns_what_memory_returns(turns in prop::collection::vec(prop::collection::vec(a_write(), 1..5), 1..12)) {
        let folder = Folder::new();
        let (mut store, mut memory) = (folder.open(), MemStore::new(me()));
        for (number, writes) in turns.iter().enumerate() {
            store.apply(writes, number % 2 == 0).unwrap();
            memory.apply(writes);
            if number % 4 == 3 {
                drop(store);
                store = folder.open();
            }
            prop_assert_eq!(Content::of(&store), Content::of_memory(&memory));
        }
        let mut anew = MemStore::new(me());
        anew.apply(&turns.concat());
        prop_assert_eq!(Content::of(&store), Content::of_memory(&anew));
        let before = index(&store);
        rows::index_again(&store.connection).unwrap();
        prop_assert_eq!(before, index(&store));
    }
}

#[test]
fn the_key_of_a_file_stays_until_the_message_is_deleted() {
    let folder = Folder::new();
    let mut image = with_image(text(&id("dm_ab"), 1, ""));
    let Some(Attached::Clear(media)) = image.media.as_deref_mut() else { panic!() };
    (media.key, media.thumbnail) = (Some(vec![7; 32].into()), Some(vec![8].into()));
    let stored = |store: &Store| store.window(&id("dm_ab"), Side::Newest, 1).unwrap().messages;
    let mut store = folder.open();
    store.apply(&[Write::Entry(image.clone())], true).unwrap();
    drop(store);
    let mut store = folder.open();
    assert_eq!(stored(&store), [image]);
    store.apply(&[Write::Entry(change(&id("dm_ab"), 2, Kind::Delete, 1, ""))], true).unwrap();
    assert_eq!(stored(&store)[0].media, None);
    drop(store);
    assert_eq!(folder.find(&[wire::Bytes::from(vec![7; 32]).to_text()]), Vec::<String>::new());
}

#[test]
fn the_proof_of_a_text_stays_until_an_edit_or_a_delete() {
    let folder = Folder::new();
    let key = |number: u64| wire::Bytes::from(vec![u8::try_from(number).unwrap(); 32]);
    let proven = |number: u64, entry: Message| {
        let proof = Opened { seq: seq(number), key: key(number), plaintext: vec![8].into() };
        Message { epoch: Some(1), proof: Some(Box::new(proof)), ..entry }
    };
    let proof = |store: &Store| store.window(&id("dm_ab"), Side::Newest, 1).unwrap().messages.remove(0).proof;
    let texts = |all: &[u64]| all.iter().map(|seq| key(*seq).to_text()).collect::<Vec<_>>();
    let mut store = folder.open();
    let edit = Message { version: Some(2), ..change(&id("dm_ab"), 2, Kind::Edit, 1, "hello") };
    let writes = [
        (proven(1, text(&id("dm_ab"), 1, "hi")), Some(1), texts(&[1])),
        (proven(2, edit), Some(2), texts(&[2])),
        (change(&id("dm_ab"), 3, Kind::Delete, 1, ""), None, vec![]),
    ];
    for (entry, proven, found) in writes {
        store.apply(&[Write::Entry(entry)], true).unwrap();
        drop(store);
        assert_eq!(folder.find(&texts(&[1, 2])), found);
        store = folder.open();
        assert_eq!(proof(&store).map(|proof| proof.seq.value()), proven);
    }
}

#[test]
fn the_file_of_a_deleted_message_is_removed() {
    let folder = Folder::new();
    let mut store = folder.open();
    let [kept, deleted] = ["1", "2"].map(|name| folder.0.join(name));
    for (number, path) in [(1, &kept), (2, &deleted)] {
        fs::write(path, "a picture").unwrap();
        let image = with_image(text(&id("dm_ab"), number, ""));
        store.apply(&[Write::Entry(image), place("dm_ab", number, path.to_str().unwrap())], false).unwrap();
    }
    store.apply(&[Write::Entry(change(&id("dm_ab"), 3, Kind::Delete, 2, ""))], false).unwrap();
    assert!(deleted.exists());
    store.tidy(usize::MAX).unwrap();
    assert!(kept.exists() && !deleted.exists());
    assert_eq!(store.unneeded().unwrap(), [""; 0]);
    // A file that is gone already needs no further call.
    fs::remove_file(&kept).unwrap();
    store.apply(&[Write::Entry(change(&id("dm_ab"), 4, Kind::Delete, 1, ""))], false).unwrap();
    store.tidy(usize::MAX).unwrap();
    assert_eq!(store.unneeded().unwrap(), [""; 0]);
}

#[test]
fn a_folder_that_is_moved_keeps_its_files() {
    let folder = Folder::new();
    let [old, new] = ["old", "new"].map(|name| folder.0.join(name));
    fs::create_dir(&old).unwrap();
    let mut store = Store::open(old.join("store"), &me()).unwrap();
    let upload = |path: &Path| {
        let media = json!({"source": {"file": path}, "kind": "image", "mime": "image/jpeg", "bytes": 9,
            "sha256": format!("{}=", "A".repeat(43))});
        let mut queued = queued("m1");
        let Outgoing::Message { media: upload, .. } = &mut queued.outgoing else { panic!("it is a message") };
        *upload = Some(serde_json::from_value(media).unwrap());
        queued
    };
    for (number, path) in [(1, old.join("1")), (2, old.join("2")), (3, folder.0.join("3"))] {
        fs::write(&path, "a picture").unwrap();
        let image = with_image(text(&id("dm_ab"), number, ""));
        store.apply(&[Write::Entry(image), place("dm_ab", number, path.to_str().unwrap())], false).unwrap();
    }
    let queued = Write::Change(StorageChange::Queued(upload(&old.join("1"))));
    store.apply(&[queued, Write::Entry(change(&id("dm_ab"), 4, Kind::Delete, 2, ""))], false).unwrap();
    assert_eq!(store.place(&id("dm_ab"), seq(1)).unwrap().as_deref(), old.join("1").to_str());
    drop(store);
    fs::rename(&old, &new).unwrap();
    let mut store = Store::open(new.join("store"), &me()).unwrap();
    let place = |number| store.place(&id("dm_ab"), seq(number)).unwrap().map(PathBuf::from);
    assert_eq!([place(1), place(2), place(3)], [Some(new.join("1")), None, Some(folder.0.join("3"))]);
    let window = Load::Window { conversation_id: id("dm_ab"), side: Side::Newest };
    let Found::Window { places, .. } = store.load(&window).unwrap() else { panic!("a window was loaded") };
    assert_eq!(places[&seq(1)], new.join("1").to_str().unwrap());
    assert_eq!(store.saved().unwrap().outbox, [upload(&new.join("1"))]);
    assert_eq!(store.unneeded().unwrap(), [new.join("2").to_str().unwrap()]);
    store.tidy(usize::MAX).unwrap();
    assert!(new.join("1").exists() && !new.join("2").exists());
    assert_eq!(store.unneeded().unwrap(), [""; 0]);
}
