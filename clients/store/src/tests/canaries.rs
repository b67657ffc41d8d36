//! No byte of the folder has a text that was deleted.

use std::time::Duration;

use super::*;

/// How texts get into a store and out of it again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Deleted,
    Edited,
    BelowFloor,
    Trimmed,
    LastMessage,
    Draft,
    Sealing,
}

const WAYS: [Way; 7] =
    [Way::Deleted, Way::Edited, Way::BelowFloor, Way::Trimmed, Way::LastMessage, Way::Draft, Way::Sealing];
const WITHOUT_INDEX: [Way; 3] = [Way::LastMessage, Way::Draft, Way::Sealing];

/// Writes 60 texts with words that occur nowhere else, and ends them.
fn write_and_end(store: &mut Store, way: Way) -> Vec<String> {
    let id = id("dm_ab");
    let words: Vec<String> = (0..60).map(|_| (0..12).map(|_| fastrand::lowercase()).collect()).collect();
    let chat = |number: u64| format!("gr_{number}");
    let target = |number: u64| Target::User(UserId::parse(&format!("user{number}")).unwrap());
    for (number, word) in (1..).zip(&words) {
        let body = format!("hello {word}");
        let write = match way {
            Way::LastMessage => {
                let mut row = row(&chat(number), 5);
                row.last_message.preview = body;
                Write::Row(row)
            }
            Way::Draft => Write::Draft { target: target(number), draft: Some(Draft::new(body)) },
            Way::Sealing => sealing(&chat(number), Some(body.into_bytes())),
            _ => Write::Entry(text(&id, number, &body)),
        };
        store.apply(&[write], false).unwrap();
    }
    // Other texts between the writes and their ends.
    for number in 100..160 {
        store.apply(&[Write::Entry(text(&id, number, &format!("hello number {number}")))], false).unwrap();
    }
    for number in 1..=60 {
        let end = match way {
            Way::Deleted => Write::Entry(change(&id, number + 200, Kind::Delete, number, "")),
            Way::Edited => Write::Entry(change(&id, number + 200, Kind::Edit, number, "another text")),
            Way::BelowFloor => floor("dm_ab", number + 1),
            Way::Trimmed => Write::Trim { conversation_id: id.clone(), first_seq: seq(number + 1) },
            Way::LastMessage => floor(&chat(number), 6),
            Way::Draft => Write::Draft { target: target(number), draft: None },
            Way::Sealing => sealing(&chat(number), Some(vec![7])),
        };
        store.apply(&[end], false).unwrap();
    }
    words
}

/// Returns the parts of the words that an index has, which leaves out what a word shares with the word before it.
fn parts(words: &[String]) -> Vec<String> {
    words.iter().map(|word| word[4..].to_owned()).collect()
}

#[test]
fn a_deleted_text_is_in_no_file() {
    for way in WAYS {
        let folder = Folder::new();
        let mut store = folder.open();
        let words = write_and_end(&mut store, way);
        assert_eq!(folder.find(&words), Vec::<String>::new(), "{way:?}");
        assert_eq!(folder.find(&parts(&words)), Vec::<String>::new(), "{way:?}");
        // The look into the files finds a text that remains.
        assert_eq!(folder.find(&["hello number 117".to_owned()]).len(), 1);
    }
}

#[test]
fn without_a_measure_a_deleted_text_is_found() {
    for way in WAYS {
        for measure in ["INSERT INTO search(search, rank) VALUES('secure-delete', 0)", "PRAGMA secure_delete = OFF"] {
            if measure.starts_with("INSERT") && WITHOUT_INDEX.contains(&way) {
                continue;
            }
            let folder = Folder::new();
            let mut store = folder.open();
            store.connection.execute_batch(measure).unwrap();
            let words = write_and_end(&mut store, way);
            assert!(!folder.find(&parts(&words)).is_empty(), "{way:?} {measure}");
        }
    }
}

#[test]
fn a_reader_delays_the_end_of_a_deleted_text() {
    for way in WAYS {
        let folder = Folder::new();
        let mut store = folder.open();
        store.apply(&[Write::Entry(text(&id("gr_xy"), 1, "hello"))], false).unwrap();
        store.connection.busy_timeout(Duration::ZERO).unwrap();
        let reader = Reader::open(folder.path(), &me()).unwrap();
        reader.connection.execute_batch("BEGIN").unwrap();
        let _: i64 = reader.connection.query_row("SELECT count(*) FROM message", (), |row| row.get(0)).unwrap();
        let words = write_and_end(&mut store, way);
        assert!(!folder.find(&words).is_empty(), "{way:?}");
        drop(reader);
        store.apply(&[Write::Entry(text(&id("gr_xy"), 2, "hello"))], false).unwrap();
        assert_eq!(folder.find(&words), Vec::<String>::new(), "{way:?}");
    }
}

#[test]
fn a_hidden_text_is_in_no_file_after_the_last_step() {
    let folder = Folder::new();
    let mut store = folder.open();
    let words: Vec<String> = (0..700).map(|_| (0..12).map(|_| fastrand::lowercase()).collect()).collect();
    let entry = |(number, word): (u64, &String)| Write::Entry(text(&id("dm_ab"), number, word));
    store.apply(&(1..).zip(&words).map(entry).collect::<Vec<_>>(), false).unwrap();
    store.apply(&[floor("dm_ab", 701)], false).unwrap();
    assert!(!folder.find(&words).is_empty());
    while store.tidy(usize::MAX).unwrap() {}
    assert_eq!(folder.find(&words), Vec::<String>::new());
}
