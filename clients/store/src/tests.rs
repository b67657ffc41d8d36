//! The store as files: the same as one in memory, whole after any end of the process, and without what was deleted.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use pigeonhole_core::{MemStore, Outgoing, Queued, Saved, StorageChange, Window};
use proptest::prelude::*;
use wire::{
    ClientMsgId, Conversation, ConversationId, HistoryResult, Kind, Message, MessageId, Seq, Side, Target, Timestamp,
};

use super::*;

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

    /// Returns which of these words are in any file.
    fn find(&self, words: &[String]) -> Vec<String> {
        let files = fs::read_dir(&self.0).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
        let all = files.flatten().collect::<Vec<u8>>();
        let is_in = |word: &&String| all.windows(word.len()).any(|part| part == word.as_bytes());
        words.iter().filter(is_in).cloned().collect()
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
        body: format!("unsent {name}"),
        reply_to: None,
        mentions: vec![],
        media: None,
    };
    Queued { client_msg_id: ClientMsgId::parse(name).unwrap(), outgoing }
}

fn held(number: u64) -> Write {
    Write::Change(StorageChange::Held { conversation_id: id("dm_ab"), seq: seq(number) })
}

/// Returns a row whose last message is at this `seq`.
fn row(name: &str, last: u64) -> Conversation {
    let last_message = serde_json::json!({"seq": last, "sender_id": "bob", "kind": "text", "preview": "hello",
        "sent_at": text(&id(name), last, "").sent_at});
    serde_json::from_value(serde_json::json!({"conversation_id": name, "kind": "direct", "last_message": last_message,
        "unread": 1, "delivered_seq": 0, "read_seq": 0, "last_seq": last}))
    .unwrap()
}

/// All that a store returns.
#[derive(Debug, PartialEq)]
struct Content(Saved, Vec<Conversation>, Vec<Window>, Vec<Vec<Message>>);

const CONVERSATIONS: [&str; 2] = ["dm_ab", "gr_xy"];
const SEARCHES: [&str; 5] = ["hello", "東京", "unsent", "he", "world hello"];
const SIDES: [fn(Seq) -> Side; 3] = [|_| Side::Newest, Side::Before, Side::After];

impl Content {
    fn of(store: &Store) -> Self {
        let windows = views().map(|(id, side)| store.window(&id, side, 3).unwrap()).collect();
        let found = SEARCHES.map(|text| store.search(text, 4).unwrap());
        Self(store.saved().unwrap(), store.chats().unwrap(), windows, found.into())
    }

    fn of_memory(store: &MemStore) -> Self {
        let windows = views().map(|(id, side)| store.window(&id, side, 3)).collect();
        Self(store.saved(), store.chats(), windows, SEARCHES.map(|text| store.search(text, 4)).into())
    }
}

fn views() -> impl Iterator<Item = (ConversationId, Side)> {
    CONVERSATIONS.into_iter().flat_map(|name| SIDES.map(|side| (id(name), side(seq(5)))))
}

fn a_write() -> impl Strategy<Value = Write> {
    let body = prop::sample::select(vec!["hello world", "東京都", "world", "…", "ok 🎉 hello", "it’s"]);
    let kind = prop::sample::select(vec![Kind::Text, Kind::Text, Kind::Edit, Kind::Delete, Kind::Reaction]);
    let entry = (prop::sample::select(&CONVERSATIONS[..]), 1..12_u64, kind, 1..12_u64, body).prop_map(
        |(name, number, kind, target, body)| match kind {
            Kind::Text => text(&id(name), number, body),
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
            let page = HistoryResult { messages, more, last_seq: seq(12), first_seq: None, members: vec![] };
            Write::Page { conversation_id, side: SIDES[side](seq(5)), page }
        }),
        1 => name.clone().prop_map(|name| Write::Change(StorageChange::Queued(queued(name)))),
        1 => name.prop_map(|name| Write::Change(StorageChange::Done(ClientMsgId::parse(name).unwrap()))),
        1 => (1..9_u64).prop_map(held),
        1 => (prop::sample::select(&CONVERSATIONS[..]), 1..12_u64).prop_map(|(name, last)| Write::Row(row(name, last))),
        1 => (1..9_i64).prop_map(|at| Write::Change(StorageChange::CaughtUp(Timestamp::from_millis(at)))),
        1 => (1..12_u64).prop_map(|to| {
            Write::Read { conversation_id: id("dm_ab"), seq: seq(to), unread: 1, mentions: None }
        }),
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
        let before = index(&store);
        rows::index_again(&store.connection).unwrap();
        prop_assert_eq!(before, index(&store));
    }
}

#[test]
fn a_cut_journal_is_an_earlier_turn_as_a_whole() {
    let folder = Folder::new();
    let mut store = folder.open();
    let mut memory = MemStore::new(me());
    let journal = damage::beside(&folder.path(), "-wal");
    let length = || usize::try_from(fs::metadata(&journal).unwrap().len()).unwrap();
    // The content after each turn, and where the journal ended then.
    let mut turns = vec![(Content::of_memory(&memory), length())];
    for number in 1..=8 {
        let queued = StorageChange::Queued(queued(&format!("m{number}")));
        let entry = Write::Entry(text(&id("dm_ab"), number, "hello 東京"));
        let writes = [entry, held(number), Write::Change(queued)];
        store.apply(&writes, number % 2 == 0).unwrap();
        memory.apply(&writes);
        turns.push((Content::of_memory(&memory), length()));
    }
    let (file, journal) = (fs::read(folder.path()).unwrap(), fs::read(&journal).unwrap());
    assert_eq!(journal.len(), turns.last().unwrap().1);
    for cut in (0..=journal.len()).step_by(701).chain([journal.len()]) {
        let copy = Folder::new();
        fs::write(copy.path(), &file).unwrap();
        let mut part = journal[..cut].to_vec();
        if cut % 2 == 1 {
            part.extend((0..500).map(|_| fastrand::u8(..)));
        }
        fs::write(damage::beside(&copy.path(), "-wal"), part).unwrap();
        let found = Content::of(&copy.open());
        let turn = turns.iter().position(|(content, _)| *content == found).expect("it is the end of a turn");
        let written = turns.iter().rposition(|(_, end)| *end <= cut).unwrap();
        assert!(turn >= written, "cut at {cut}: turn {turn}, although turn {written} was on the disk");
    }
}

/// Runs in the process that [`a_killed_process_leaves_all_that_it_reported`] kills.
#[test]
#[ignore = "another test runs it"]
fn child() {
    let Some(path) = env::var_os("PIGEONHOLE_STORE") else { return };
    let mut store = Store::open(path, &me()).unwrap();
    let from = store.saved().unwrap().held.get(&id("dm_ab")).map_or(1, |held| held.value() + 1);
    for number in from.. {
        let entry = Write::Entry(text(&id("dm_ab"), number, &format!("hello {number}")));
        store.apply(&[entry, held(number)], number % 3 == 0).unwrap();
        println!("stored {number}");
    }
}

#[test]
fn a_killed_process_leaves_all_that_it_reported() {
    let folder = Folder::new();
    for _ in 0..12 {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "tests::child", "--ignored", "--nocapture"])
            .env("PIGEONHOLE_STORE", folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reader = thread::spawn(move || {
            let numbers = lines.filter_map(|line| line.unwrap().strip_prefix("stored ")?.parse::<u64>().ok());
            numbers.last().unwrap_or(0)
        });
        thread::sleep(Duration::from_millis(fastrand::u64(20..150)));
        child.kill().unwrap();
        child.wait().unwrap();
        let reported = reader.join().unwrap();
        let store = folder.open();
        let held = store.saved().unwrap().held.get(&id("dm_ab")).map_or(0, |held| held.value());
        assert!(held >= reported, "{held} of {reported}");
        let window = store.window(&id("dm_ab"), Side::Newest, usize::MAX).unwrap();
        assert!(window.messages.iter().map(|message| message.seq.value()).eq(1..=held), "all up to {held}");
        assert_eq!(store.search(&format!("hello {held}"), 1).unwrap().len(), usize::from(held > 0));
    }
}

/// Writes messages with words that occur nowhere else, and deletes or edits them.
fn write_and_delete(store: &mut Store) -> Vec<String> {
    let id = id("dm_ab");
    let words: Vec<String> = (0..60).map(|_| (0..12).map(|_| fastrand::lowercase()).collect()).collect();
    for (number, word) in (1..).zip(&words) {
        store.apply(&[Write::Entry(text(&id, number, &format!("hello {word}")))], false).unwrap();
    }
    // Other messages between the texts and their ends.
    for number in 100..160 {
        store.apply(&[Write::Entry(text(&id, number, &format!("hello number {number}")))], false).unwrap();
    }
    for number in 1..=60 {
        let end = match number % 3 {
            0 => change(&id, number + 200, Kind::Edit, number, "another text"),
            _ => change(&id, number + 200, Kind::Delete, number, ""),
        };
        store.apply(&[Write::Entry(end)], false).unwrap();
    }
    words
}

#[test]
fn a_deleted_text_is_in_no_file() {
    let folder = Folder::new();
    let mut store = folder.open();
    let words = write_and_delete(&mut store);
    assert_eq!(folder.find(&words), Vec::<String>::new());
    // The look into the files finds a text that remains.
    assert_eq!(folder.find(&["another text".to_owned()]).len(), 1);
}

#[test]
fn without_a_measure_a_deleted_text_is_found() {
    for measure in ["INSERT INTO search(search, rank) VALUES('secure-delete', 0)", "PRAGMA secure_delete = OFF"] {
        let folder = Folder::new();
        let mut store = folder.open();
        store.connection.execute_batch(measure).unwrap();
        let words = write_and_delete(&mut store);
        // The index leaves out what a word shares with the one before it.
        let parts: Vec<String> = words.iter().map(|word| word[4..].to_owned()).collect();
        assert!(!folder.find(&parts).is_empty(), "{measure}");
    }
    // A reader keeps the journal, and the first write after it empties the journal.
    let folder = Folder::new();
    let mut store = folder.open();
    store.apply(&[Write::Entry(text(&id("gr_xy"), 1, "hello"))], false).unwrap();
    store.connection.busy_timeout(Duration::ZERO).unwrap();
    let reader = Connection::open(folder.path()).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let _: i64 = reader.query_row("SELECT count(*) FROM message", (), |row| row.get(0)).unwrap();
    let words = write_and_delete(&mut store);
    assert!(!folder.find(&words).is_empty());
    drop(reader);
    store.apply(&[Write::Entry(text(&id("gr_xy"), 2, "hello"))], false).unwrap();
    assert_eq!(folder.find(&words), Vec::<String>::new());
}

#[test]
fn a_store_that_can_not_be_used_is_refused() {
    let folder = Folder::new();
    let store = folder.open();
    assert!(matches!(Store::open(folder.path(), &me()), Err(Error::Locked(_))));
    store.connection.execute_batch("PRAGMA user_version = 2").unwrap();
    drop(store);
    assert!(matches!(Store::open(folder.path(), &me()), Err(Error::Newer(2))));
    assert!(matches!(Reader::open(folder.path(), &me()), Err(Error::Newer(2))));
    Connection::open(folder.path()).unwrap().execute_batch("PRAGMA user_version = 1").unwrap();
    let bob = UserId::parse("bob").unwrap();
    assert!(matches!(Store::open(folder.path(), &bob), Err(Error::WrongUser(user)) if user == "alice"));
    let other = Folder::new();
    Connection::open(other.path()).unwrap().execute_batch("CREATE TABLE mine(a)").unwrap();
    assert!(matches!(Store::open(other.path(), &me()), Err(Error::Foreign(_))));
    assert!(folder.open().set_aside().is_none());
    assert!(matches!(Reader::open(folder.path(), &bob), Err(Error::WrongUser(_))));
    assert!(matches!(Reader::open(other.path(), &me()), Err(Error::Foreign(_))));
    assert!(matches!(Reader::open(Folder::new().path(), &me()), Err(Error::Sqlite(_))));
}

#[test]
fn a_later_version_migrates_the_store() {
    let next = [MIGRATIONS, &["ALTER TABLE conversation ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'"]].concat();
    let folder = Folder::new();
    let mut store = folder.open();
    let entry = Write::Entry(text(&id("dm_ab"), 1, "hello"));
    store.apply(&[entry, Write::Change(StorageChange::Queued(queued("m1")))], true).unwrap();
    let content = Content::of(&store);
    drop(store);
    // A migration that fails leaves the version before.
    let broken = [MIGRATIONS, &["ALTER TABLE conversation ADD COLUMN colour TEXT; SELECT * FROM nothing"]].concat();
    assert!(Store::open_with(&folder.path(), &me(), &broken).is_err());
    assert_eq!(Content::of(&folder.open()), content);
    let mut store = Store::open_with(&folder.path(), &me(), &next).unwrap();
    assert_eq!(Content::of(&store), content);
    store.apply(&[Write::Entry(text(&id("gr_xy"), 1, "hello"))], true).unwrap();
    let colours = "SELECT group_concat(colour) FROM conversation";
    assert_eq!(store.connection.query_row(colours, (), |row| row.get::<_, String>(0)).unwrap(), "red,red");
    drop(store);
    assert!(matches!(Store::open(folder.path(), &me()), Err(Error::Newer(2))));
    assert!(Store::open_with(&folder.path(), &me(), &next).is_ok());
    // A new store of the later version.
    let folder = Folder::new();
    Store::open_with(&folder.path(), &me(), &next).unwrap();
    assert!(Store::open_with(&folder.path(), &me(), &next).is_ok());
    let older = Folder::new();
    Store::open_with(&older.path(), &me(), &[]).unwrap_err();
    assert!(matches!(Reader::open(older.path(), &me()), Err(Error::Older(0))));
}

#[test]
fn a_damaged_store_is_set_aside_and_its_outbox_stays() {
    let folder = Folder::new();
    let mut store = folder.open();
    store.apply(&[Write::Change(StorageChange::Queued(queued("m1")))], true).unwrap();
    for number in 1..400 {
        store.apply(&[Write::Entry(text(&id("dm_ab"), number, &"hello ".repeat(20)))], false).unwrap();
    }
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'message'";
    let page: usize = store.connection.query_row(root, (), |row| row.get(0)).unwrap();
    drop(store);
    let mut file = fs::read(folder.path()).unwrap();
    file[(page - 1) * 4096..page * 4096].fill(0x55);
    fs::write(folder.path(), file).unwrap();
    let store = folder.open();
    assert!(store.window(&id("dm_ab"), Side::Newest, 999).unwrap_err().is_damage());
    drop(store);
    let store = folder.open();
    assert_eq!(store.set_aside(), Some(damage::copy_of(&folder.path()).as_path()));
    assert_eq!(store.saved().unwrap().outbox, [queued("m1")]);
    assert_eq!(store.window(&id("dm_ab"), Side::Newest, 9).unwrap(), Window::default());
    drop(store);
    assert!(folder.open().set_aside().is_none());
    fs::write(folder.path(), [0x55; 9000]).unwrap();
    assert!(folder.open().set_aside().is_some());
}

#[test]
fn a_damaged_index_is_made_again_from_the_messages() {
    let folder = Folder::new();
    let mut store = folder.open();
    store.apply(&[Write::Entry(text(&id("dm_ab"), 1, "hello 東京"))], false).unwrap();
    let before = index(&store);
    store.connection.execute_batch("DELETE FROM search_data WHERE id > 10").unwrap();
    assert!(store.search("hello", 9).unwrap_err().is_damage());
    drop(store);
    let store = folder.open();
    assert!(store.set_aside().is_none());
    assert_eq!(index(&store), before);
    assert_eq!(store.search("hello", 9).unwrap().len(), 1);
}
