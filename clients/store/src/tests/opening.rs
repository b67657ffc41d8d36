//! Other users, other versions, and damaged files.

use super::*;

const NEXT: usize = MIGRATIONS.len() + 1;

#[test]
fn a_store_that_can_not_be_used_is_refused() {
    let folder = Folder::new();
    let store = folder.open();
    assert!(matches!(Store::open(folder.path(), &me()), Err(Error::Locked(_))));
    let set_version =
        |connection: &Connection, version| connection.pragma_update(None, "user_version", version).unwrap();
    set_version(&store.connection, NEXT);
    drop(store);
    assert!(matches!(Store::open(folder.path(), &me()), Err(Error::Newer(NEXT))));
    assert!(matches!(Reader::open(folder.path(), &me()), Err(Error::Newer(NEXT))));
    set_version(&Connection::open(folder.path()).unwrap(), MIGRATIONS.len());
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
fn a_closed_store_is_free_although_a_child_process_has_its_files() {
    let folder = Folder::new();
    let lock = Lock::of(&folder.path()).unwrap();
    // As in a child process between `fork` and `exec`.
    let copy = lock.0.try_clone().unwrap();
    drop(lock);
    assert!(Store::open(folder.path(), &me()).is_ok());
    drop(copy);
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read_a_store_and_its_journal() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = Folder::new();
    let mut store = folder.open();
    store.apply(&[Write::Entry(text(&id("dm_ab"), 1, "hello"))], true).unwrap();
    for name in ["store", "store.lock", "store-wal", "store-shm"] {
        let mode = fs::metadata(folder.0.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}: {mode:o}");
    }
}

#[test]
fn a_store_of_the_first_version_keeps_its_content() {
    let folder = Folder::new();
    let mut store = Store::open_with(&folder.path(), &me(), &MIGRATIONS[..1]).unwrap();
    store.apply(&[Write::Entry(text(&id("dm_ab"), 1, "hello"))], true).unwrap();
    drop(store);
    let mut store = folder.open();
    store.apply(&[sealing("group", Some(vec![7]))], true).unwrap();
    drop(store);
    let content = Content::of(&folder.open());
    assert_eq!((content.windows[0].messages.len(), content.saved.sealing["group"].clone()), (1, vec![7]));
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
    assert!(matches!(Store::open(folder.path(), &me()), Err(Error::Newer(NEXT))));
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
fn a_damaged_store_is_set_aside_and_its_unsent_texts_stay() {
    let folder = Folder::new();
    let mut store = folder.open();
    let target = Target::Conversation(id("dm_ab"));
    let unsent = [
        Write::Change(StorageChange::Queued(queued("m1"))),
        Write::Draft { target: target.clone(), draft: Some(draft("two")) },
    ];
    store.apply(&unsent, true).unwrap();
    // A request that only a later version can read.
    store.connection.execute("INSERT INTO outbox(client_msg_id, request) VALUES ('m2', '{\"poll\":1}')", ()).unwrap();
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
    let later = "SELECT request FROM outbox WHERE client_msg_id = 'm2'";
    assert_eq!(store.connection.query_row(later, (), |row| row.get::<_, String>(0)).unwrap(), "{\"poll\":1}");
    assert_eq!(store.drafts().unwrap(), BTreeMap::from([(target, draft("two"))]));
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
