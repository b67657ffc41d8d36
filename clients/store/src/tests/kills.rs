//! Each transaction is whole or not at all, wherever the process or the disk stops.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::*;

/// `just kills` sets these numbers.
fn number<T: FromStr>(name: &str, default: T) -> T {
    env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// Returns the writes of a turn. The mark of `dm_ab` is the number of the turn.
fn turn(number: u64) -> Vec<Write> {
    let mut random = fastrand::Rng::with_seed(number);
    let mut earlier = || number.saturating_sub(random.u64(1..20)).max(1);
    let (dm, group) = (id("dm_ab"), id("gr_xy"));
    let own = |number: u64| format!("m{number}");
    let mut writes = vec![Write::Entry(text(&dm, number, &format!("hello {number} 東京"))), held(number)];
    writes.push(match number % 8 {
        0 => Write::Entry(change(&group, number, Kind::Edit, earlier(), "world hello")),
        1 => Write::Entry(change(&group, number, Kind::Delete, earlier(), "")),
        2 => Write::Change(StorageChange::Queued(queued(&own(number)))),
        3 => Write::Change(StorageChange::Done(ClientMsgId::parse(&own(number - 1)).unwrap())),
        4 => Write::Draft { target: Target::Conversation(dm.clone()), draft: Some(draft(&own(number))) },
        5 => Write::Draft { target: Target::Conversation(dm.clone()), draft: None },
        6 => marks("dm_ab", "bob", number, earlier()),
        _ => Write::Row(Conversation { unread: number, ..row("dm_ab", number) }),
    });
    writes.push(Write::Entry(with_image(text(&group, number + 1_000, "world"))));
    writes.push(place("gr_xy", earlier() + 1_000, &format!("{number}.jpg")));
    if number.is_multiple_of(10) {
        // The store stays small, so that thousands of kills are quick.
        writes.extend([floor("dm_ab", number.saturating_sub(30)), floor("gr_xy", (number + 1_000).saturating_sub(30))]);
        writes.extend((0..10).map(|back| Write::Removed(format!("{}.jpg", number.saturating_sub(back)))));
    }
    writes
}

/// Opens the files of a store as they were at some time, and returns the content.
fn content_of(file: &[u8], journal: &[u8]) -> Content {
    let folder = Folder::new();
    fs::write(folder.path(), file).unwrap();
    fs::write(damage::beside(&folder.path(), "-wal"), journal).unwrap();
    let store = folder.open();
    assert!(store.set_aside().is_none());
    Content::of(&store)
}

fn files(path: &Path) -> (Vec<u8>, Vec<u8>) {
    (fs::read(path).unwrap(), fs::read(damage::beside(path, "-wal")).unwrap_or_default())
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
    let (file, journal) = files(&folder.path());
    assert_eq!(journal.len(), turns.last().unwrap().1);
    for cut in (0..=journal.len()).step_by(number("PIGEONHOLE_CUT_BYTES", 701)).chain([journal.len()]) {
        let mut part = journal[..cut].to_vec();
        if cut % 2 == 1 {
            part.extend((0..500).map(|_| fastrand::u8(..)));
        }
        let found = content_of(&file, &part);
        let turn = turns.iter().position(|(content, _)| *content == found).expect("it is the end of a turn");
        let written = turns.iter().rposition(|(_, end)| *end <= cut).unwrap();
        assert!(turn >= written, "cut at {cut}: turn {turn}, although turn {written} was on the disk");
    }
}

/// Makes a store of some turns, and returns its content.
fn after_turns(folder: &Folder, turns: u64) -> (Store, Content) {
    let mut store = folder.open();
    for number in 1..=turns {
        store.apply(&turn(number), false).unwrap();
    }
    let content = Content::of(&store);
    (store, content)
}

#[test]
fn a_process_that_ends_within_a_turn_leaves_the_turn_before() {
    let mut unfinished = 0;
    for turns in [8, 9] {
        let folder = Folder::new();
        let (mut store, before) = after_turns(&folder, turns);
        // A large turn and a small cache: a part of the turn is in the journal before the commit.
        let writes: Vec<Write> = (turns + 1..turns + 30).flat_map(turn).collect();
        store.connection.pragma_update(None, "cache_size", 1).unwrap();
        let (path, taken) = (folder.path(), Arc::new(Mutex::new(vec![])));
        let all = Arc::clone(&taken);
        let take = move || {
            let (mut all, now) = (all.lock().unwrap(), files(&path));
            if all.last() != Some(&now) {
                all.push(now);
            }
            false
        };
        store.connection.progress_handler(number("PIGEONHOLE_STEPS", 301), Some(take));
        store.apply(&writes, turns % 2 == 0).unwrap();
        store.connection.progress_handler(0, None::<fn() -> bool>);
        let after = Content::of(&store);
        let taken = taken.lock().unwrap().iter().cloned().chain([files(&folder.path())]).collect::<Vec<_>>();
        let found: Vec<Content> = taken.iter().map(|(file, journal)| content_of(file, journal)).collect();
        // Only the steps that empty the journal come after the commit.
        let committed = found.iter().position(|content| *content == after).unwrap();
        assert!(found.iter().take(committed).all(|content| *content == before));
        assert!(found.iter().skip(committed).all(|content| *content == after));
        unfinished += committed;
    }
    assert!(unfinished > 10, "{unfinished}");
}

#[test]
fn a_turn_that_is_stopped_writes_nothing_and_can_be_repeated() {
    let folder = Folder::new();
    let (mut store, mut before) = after_turns(&folder, 8);
    let (mut stopped, mut full) = (0, 0);
    for next in 9..18 {
        let writes = turn(next);
        for steps in (1..).step_by(number("PIGEONHOLE_STEPS", 251)) {
            // The handler counts by itself: SQLite goes on counting over all runs of a prepared statement.
            let mut left: u32 = steps;
            let stop = move || {
                left = left.wrapping_sub(1);
                left == 0
            };
            store.connection.progress_handler(1, Some(stop));
            let result = store.apply(&writes, true);
            store.connection.progress_handler(0, None::<fn() -> bool>);
            if result.is_ok() {
                break;
            }
            // SQLite reports a stop in the last step of a commit, which has taken effect then.
            if Content::of(&store) != before {
                break;
            }
            stopped += 1;
        }
        let (mut memory, content) = (MemStore::new(me()), Content::of(&store));
        memory.apply(&(1..=next).flat_map(turn).collect::<Vec<_>>());
        assert_eq!(content, Content::of_memory(&memory));
        // A full disk.
        let pages: i64 = store.connection.query_row("PRAGMA page_count", (), |row| row.get(0)).unwrap();
        store.connection.pragma_update(None, "max_page_count", pages).unwrap();
        let long = (0..40).map(|more| Write::Entry(text(&id("gr_xy"), 9_000 + more, &"long ".repeat(300))));
        let error = store.apply(&long.collect::<Vec<_>>(), false).unwrap_err();
        full += usize::from(error.to_string().contains("full"));
        assert_eq!(Content::of(&store), content);
        store.connection.pragma_update(None, "max_page_count", 1_000_000).unwrap();
        before = content;
    }
    assert!(stopped > 20 && full == 9, "{stopped}, {full}");
}

/// Runs in the process that [`a_killed_process_leaves_all_that_it_reported`] kills.
#[test]
#[ignore = "another test runs it"]
fn child() {
    let Some(path) = env::var_os("PIGEONHOLE_STORE") else { return };
    let mut store = Store::open(path, &me()).unwrap();
    for number in turns_of(&store) + 1.. {
        store.apply(&turn(number), number % 3 == 0).unwrap();
        println!("stored {number}");
    }
}

fn turns_of(store: &Store) -> u64 {
    store.saved().unwrap().held.get(&id("dm_ab")).map_or(0, |held| held.value())
}

#[test]
fn a_killed_process_leaves_all_that_it_reported() {
    let (mut folder, mut memory) = (Folder::new(), MemStore::new(me()));
    let (mut turns, mut all) = (0, 0);
    let kills = number("PIGEONHOLE_KILLS", 12);
    for kill in 1.. {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "tests::kills::child", "--ignored", "--nocapture"])
            .env("PIGEONHOLE_STORE", folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reader = thread::spawn(move || {
            let numbers = lines.filter_map(|line| line.unwrap().strip_prefix("stored ")?.parse::<u64>().ok());
            numbers.last().unwrap_or(0)
        });
        thread::sleep(Duration::from_millis(fastrand::u64(2..60)));
        child.kill().unwrap();
        child.wait().unwrap();
        let reported = reader.join().unwrap().max(turns);
        let store = folder.open();
        assert!(store.set_aside().is_none());
        let committed = turns_of(&store);
        assert!((reported..=reported + 1).contains(&committed), "{committed}, and {reported} was reported");
        memory.apply(&(turns + 1..=committed).flat_map(turn).collect::<Vec<_>>());
        assert_eq!(Content::of(&store), Content::of_memory(&memory));
        let window = store.window(&id("dm_ab"), Side::Newest, 999).unwrap();
        assert_eq!(window, memory.window(&id("dm_ab"), Side::Newest, 999));
        all += committed - turns;
        turns = committed;
        let is_last = kill >= kills && all > 0;
        if kill % 100 == 0 || is_last {
            let before = index(&store);
            rows::index_again(&store.connection).unwrap();
            assert_eq!(before, index(&store));
            println!("{kill} kills, {all} turns");
            (folder, memory, turns) = (Folder::new(), MemStore::new(me()), 0);
        }
        if is_last {
            break;
        }
    }
}

/// Reads in another process, while [`a_reader_sees_whole_turns_beside_the_writer`] writes.
#[test]
#[ignore = "another test runs it"]
fn reading_child() {
    let Some(path) = env::var_os("PIGEONHOLE_STORE") else { return };
    let reader = Reader::open(path, &me()).unwrap();
    for line in io::stdin().lines() {
        let reported: u64 = line.unwrap().parse().unwrap();
        let window = reader.window(&id("dm_ab"), Side::Newest, 999).unwrap();
        let last = window.messages.last().unwrap().seq;
        assert!(last.value() >= reported, "{last} of {reported}");
        // The entry and its span come together.
        assert_eq!(window.spans.last().unwrap().to, last);
        assert!(reader.search("hello", 9).unwrap().len() <= 9);
        assert!(reader.unread().unwrap() > 0);
        println!("read {last}");
    }
}

#[test]
fn a_reader_sees_whole_turns_beside_the_writer() {
    let folder = Folder::new();
    let (mut store, _) = after_turns(&folder, 8);
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "tests::kills::reading_child", "--ignored", "--nocapture"])
        .env("PIGEONHOLE_STORE", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut stdin = child.stdin.take().unwrap();
    let mut read = 0;
    for number in 9..60 {
        store.apply(&turn(number), false).unwrap();
        io::Write::write_all(&mut stdin, format!("{number}\n").as_bytes()).unwrap();
        // Two turns are written while the child reads.
        if number % 3 == 0 {
            let wanted = format!("read {number}");
            read += lines.by_ref().map(|line| line.unwrap()).take_while(|line| !line.starts_with(&wanted)).count();
        }
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
    assert!(read > 0);
    // No reader is left, so the journal is empty after a delete.
    store.apply(&[Write::Draft { target: Target::Conversation(id("dm_ab")), draft: None }], false).unwrap();
    store.apply(&turn(61), false).unwrap();
    drop(store);
    let reader = Reader::open(folder.path(), &me()).unwrap();
    assert_eq!(reader.window(&id("dm_ab"), Side::Newest, 1).unwrap().messages[0].seq, 61);
    assert!(reader.connection.execute("DELETE FROM message", ()).is_err());
}
