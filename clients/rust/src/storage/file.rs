//! A storage in one file: a line of JSON per change, in the order they came.
//!
//! A crash can cut off the last line. That line was never confirmed, and reading ends before it. When most lines are
//! obsolete, the storage writes a new file next to the old one, which the new file then replaces in one step.
//!
//! Any other unreadable line is damage. A power failure leaves a page of zeros where the file system writes back out of
//! order, or the file is of another program. The client keeps the lines before the damage, and sets a copy of the file
//! aside.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use pigeonhole_core::{Saved, StorageChange};
use serde::Deserialize;
use wire::{ConversationId, UserId};

use super::Storage;
use crate::private;

/// Fewer obsolete lines than this are no reason to write a new file.
const STALE_LINES_MIN: usize = 1000;

/// Remembers in a file, which belongs to one client at a time.
#[derive(Debug)]
pub struct FileStorage {
    path: PathBuf,
    saved: Saved,
    /// `None`: the storage must write a new file before it appends.
    file: Option<File>,
    lines: usize,
    /// Where a copy of the file is that could not be read to its end.
    set_aside: Option<PathBuf>,
    /// Locked while this lives. Not the file itself, since that is replaced.
    _lock: Lock,
}

/// Keeps other clients away. Dropping it unlocks the file explicitly instead of closing it. A process that the app
/// starts at that moment has the file open too, until it becomes another program.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl FileStorage {
    /// Opens the file, or creates it; `path` with `.lock` and `.new` at its end belong to it. If a line can't be read,
    /// only the lines before it count. A copy of the file is then at `path` with `.unreadable` at its end, in place of
    /// an earlier copy. On unix, only the user of the program may read any of these files.
    ///
    /// # Errors
    /// The file can't be read or written; [`io::ErrorKind::WouldBlock`]: another client has it.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let lock = OpenOptions::new().create(true).write(true).truncate(false).open(beside(&path, ".lock"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                let why = format!("another client uses {}: each needs a file of its own", path.display());
                io::Error::new(io::ErrorKind::WouldBlock, why)
            }
            TryLockError::Error(error) => error,
        })?;
        let Found { saved, is_damaged } = read(&path)?;
        // Copies the file before a new one is written without the unreadable part.
        let set_aside = if is_damaged { Some(set_aside(&path)?) } else { None };
        let mut storage = Self { path, saved, file: None, lines: 0, set_aside, _lock: Lock(lock) };
        // A line that a crash cut off must not be before the next line.
        storage.compact()?;
        Ok(storage)
    }

    fn append(&mut self, changes: &[StorageChange]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Err(io::Error::other("the file is not open")) };
        let mut lines = Vec::new();
        for change in changes {
            line(&mut lines, change)?;
        }
        file.write_all(&lines)?;
        // The attachment is part of a message's identity: with another id it would be another message.
        let must_last = |change: &StorageChange| {
            matches!(change, StorageChange::Queued(_) | StorageChange::Uploading { media_id: Some(_), .. })
        };
        if changes.iter().any(must_last) {
            file.sync_data()?;
        }
        self.lines += changes.len();
        Ok(())
    }

    fn compact(&mut self) -> io::Result<()> {
        self.file = None;
        let new = beside(&self.path, ".new");
        let mut out = BufWriter::new(private::create(&new)?);
        let changes = live(&self.saved);
        for change in &changes {
            line(&mut out, change)?;
        }
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        sync_folder(&self.path)?;
        self.lines = changes.len();
        self.file = Some(file);
        Ok(())
    }
}

impl Storage for FileStorage {
    fn load(&mut self) -> io::Result<Saved> {
        Ok(self.saved.clone())
    }

    fn set_aside(&self) -> Option<String> {
        self.set_aside.as_ref().map(|path| path.display().to_string())
    }

    fn write(&mut self, changes: &[StorageChange]) -> io::Result<()> {
        if self.file.is_none() {
            self.compact()?;
        }
        if let Err(error) = self.append(changes) {
            // Half a line may stand at its end now.
            self.file = None;
            return Err(error);
        }
        for change in changes {
            self.saved.apply(change);
        }
        let live = self.saved.outbox.len() + self.saved.held.len();
        if self.lines > 2 * live + STALE_LINES_MIN {
            // The changes are written. If the file could not shrink, the next write meets the same error.
            let _ = self.compact();
        }
        Ok(())
    }
}

fn line(out: &mut impl Write, change: &StorageChange) -> io::Result<()> {
    serde_json::to_writer(&mut *out, change)?;
    out.write_all(b"\n")
}

/// The changes that lead to this and to nothing else.
fn live(saved: &Saved) -> Vec<StorageChange> {
    let Saved { outbox, held, caught_up } = saved;
    let held = held.iter().map(|(id, seq)| StorageChange::Held { conversation_id: id.clone(), seq: *seq });
    let caught_up = caught_up.iter().map(|at| StorageChange::CaughtUp(*at));
    outbox.iter().cloned().map(StorageChange::Queued).chain(held).chain(caught_up).collect()
}

/// The content of a file, up to the first unreadable line.
struct Found {
    saved: Saved,
    /// The file has an unreadable line, other than one that a crash has just cut off.
    is_damaged: bool,
}

fn read(path: &Path) -> io::Result<Found> {
    let mut saved = Saved::default();
    let mut file = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found { saved, is_damaged: false }),
        Err(error) => return Err(error),
    };
    let mut line = Vec::new();
    while file.read_until(b'\n', &mut line)? > 0 {
        if !line.ends_with(b"\n") {
            // A crash has cut it off, or has left zeros behind it.
            break;
        }
        match serde_json::from_slice(&line) {
            Ok(change) => saved.apply(&change),
            Err(_) if is_unsendable(&line) => {}
            Err(_) => return Ok(Found { saved, is_damaged: true }),
        }
        line.clear();
    }
    Ok(Found { saved, is_damaged: false })
}

/// Copies the file, and returns the copy's path.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = beside(path, ".unreadable");
    let mut copy = private::create(&aside)?;
    io::copy(&mut File::open(path)?, &mut copy)?;
    copy.sync_all()?;
    Ok(aside)
}

/// A message whose target can't exist. The first version queued it, and the server would only refuse it.
fn is_unsendable(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Queued {
        target: BTreeMap<String, String>,
    }
    #[derive(Deserialize)]
    struct Line {
        queued: Queued,
    }
    serde_json::from_slice(line).is_ok_and(|Line { queued }| {
        let named = |name, is_valid: fn(&str) -> bool| queued.target.get(name).is_some_and(|id| !is_valid(id));
        named("to", |id| UserId::parse(id).is_ok()) || named("conversation_id", |id| ConversationId::parse(id).is_ok())
    })
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The new name is on the disk only once its folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use wire::{Action, ClientMsgId, DeleteRequest, EditRequest, ReactRequest, Seq, Target, Timestamp};

    use super::*;
    use pigeonhole_core::{Outgoing, Queued};

    /// Gone with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("pigeonhole-client-{}", uuid::Uuid::new_v4()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn file(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn msg(id: &str) -> ClientMsgId {
        ClientMsgId::parse(id).unwrap()
    }

    fn conversation(id: &str) -> ConversationId {
        ConversationId::parse(id).unwrap()
    }

    fn queued(id: &str) -> StorageChange {
        let target = Target::User(UserId::parse("bob").unwrap());
        let outgoing =
            Outgoing::Message { target, body: format!("body\nof {id}"), reply_to: None, mentions: vec![], media: None };
        StorageChange::Queued(Queued { client_msg_id: msg(id), outgoing })
    }

    fn request(request: impl Into<Action>) -> Outgoing {
        Outgoing::Request(request.into())
    }

    fn held(id: &str, seq: u64) -> StorageChange {
        StorageChange::Held { conversation_id: conversation(id), seq: Seq::new(seq).unwrap() }
    }

    fn changes() -> Vec<StorageChange> {
        let caught_up = StorageChange::CaughtUp(Timestamp::parse("2026-11-20T10:00:06.123Z").unwrap());
        vec![queued("a"), held("c", 3), queued("b"), StorageChange::Done(msg("a")), held("c", 2), caught_up]
    }

    fn state(changes: &[StorageChange]) -> Saved {
        let mut saved = Saved::default();
        for change in changes {
            saved.apply(change);
        }
        saved
    }

    #[test]
    fn what_was_written_is_there_again() {
        let folder = Folder::new();
        let path = folder.file("outbox");
        let mut storage = FileStorage::open(&path).unwrap();
        storage.write(&changes()).unwrap();
        assert_eq!(FileStorage::open(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(storage);
        let saved = FileStorage::open(&path).unwrap().load().unwrap();
        assert_eq!(saved, state(&changes()));
        assert_eq!((saved.outbox.len(), saved.held[&conversation("c")].value()), (1, 3));
    }

    #[test]
    fn a_child_process_does_not_keep_the_storage() {
        let folder = Folder::new();
        let storage = FileStorage::open(folder.file("outbox")).unwrap();
        // A child process has this handle between fork and exec.
        let FileStorage { _lock: Lock(file), .. } = &storage;
        let _inherited = file.try_clone().unwrap();
        drop(storage);
        FileStorage::open(folder.file("outbox")).unwrap();
    }

    #[test]
    fn a_crash_at_any_byte_loses_at_most_the_change_it_hit() {
        let folder = Folder::new();
        let path = folder.file("outbox");
        let mut whole = Vec::new();
        for change in changes() {
            line(&mut whole, &change).unwrap();
        }
        for cut in 0..=whole.len() {
            let written = whole.get(..cut).unwrap();
            fs::write(&path, written).unwrap();
            let complete = written.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")).count();
            let found = read(&path).unwrap();
            assert_eq!(found.saved, state(changes().get(..complete).unwrap()), "cut at {cut}");
            assert!(!found.is_damaged, "cut at {cut}");
            // And it goes on from there. (Seen once per kind of cut; to have it on the disk takes its time.)
            if complete != 2 {
                continue;
            }
            let mut storage = FileStorage::open(&path).unwrap();
            storage.write(&[queued("next")]).unwrap();
            drop(storage);
            let saved = FileStorage::open(&path).unwrap().load().unwrap();
            assert_eq!(saved.outbox.back().unwrap().client_msg_id, msg("next"));
        }
    }

    #[test]
    fn a_crash_while_it_is_written_anew_leaves_the_old_file() {
        let folder = Folder::new();
        let path = folder.file("outbox");
        FileStorage::open(&path).unwrap().write(&changes()).unwrap();
        fs::write(beside(&path, ".new"), b"{\"que").unwrap();
        assert_eq!(FileStorage::open(&path).unwrap().load().unwrap(), state(&changes()));
    }

    #[test]
    fn the_file_does_not_grow_with_what_is_over() {
        let folder = Folder::new();
        let path = folder.file("outbox");
        let mut storage = FileStorage::open(&path).unwrap();
        for seq in 1..=10 * STALE_LINES_MIN as u64 {
            storage.write(&[held("c", seq)]).unwrap();
        }
        assert!(storage.lines <= STALE_LINES_MIN + 2);
        drop(storage);
        let saved = FileStorage::open(&path).unwrap().load().unwrap();
        assert_eq!(saved.held[&conversation("c")].value(), 10 * STALE_LINES_MIN as u64);
    }

    /// As the first version wrote it, in which ids were any text.
    const OF_THE_FIRST_VERSION: &str = r#"{"queued":{"client_msg_id":"7b0e","target":{"to":"bob"},"body":"hi"}}
{"queued":{"client_msg_id":"7b0f","target":{"to":"not a user"},"body":"the server would refuse it"}}
{"queued":{"client_msg_id":"7b10","target":{"conversation_id":"dm_ab"},"body":"hello"}}
{"held":{"conversation_id":"dm_ab","seq":4}}
{"done":"7b0e"}
{"caught_up":"2026-11-20T10:00:06.000Z"}
"#;

    #[test]
    fn a_file_of_the_first_version_is_read() {
        let folder = Folder::new();
        let path = folder.file("outbox");
        fs::write(&path, OF_THE_FIRST_VERSION).unwrap();
        let saved = FileStorage::open(&path).unwrap().load().unwrap();
        let target = Target::Conversation(conversation("dm_ab"));
        let outgoing =
            Outgoing::Message { target, body: "hello".to_owned(), reply_to: None, mentions: vec![], media: None };
        assert_eq!(saved.outbox, [Queued { client_msg_id: msg("7b10"), outgoing }]);
        assert_eq!(saved.held, [(conversation("dm_ab"), Seq::new(4).unwrap())].into());
        assert_eq!(saved.caught_up, Timestamp::parse("2026-11-20T10:00:06.000Z"));
    }

    #[test]
    fn what_waits_is_written_as_it_always_was_and_changes_beside_it() {
        let (conversation_id, seq) = (conversation("dm_ab"), Seq::new(4).unwrap());
        let target = Target::Conversation(conversation_id.clone());
        let emoji = wire::Emoji::parse("👍").ok();
        for (outgoing, expected) in [
            (
                Outgoing::Message {
                    target: target.clone(),
                    body: "hi".to_owned(),
                    reply_to: None,
                    mentions: vec![],
                    media: None,
                },
                r#""target":{"conversation_id":"dm_ab"},"body":"hi""#,
            ),
            (
                Outgoing::Message { target, body: "hi".to_owned(), reply_to: Some(seq), mentions: vec![], media: None },
                r#""target":{"conversation_id":"dm_ab"},"body":"hi","reply_to":4"#,
            ),
            (
                request(EditRequest {
                    conversation_id: conversation_id.clone(),
                    seq,
                    client_msg_id: msg("a"),
                    body: "hi".to_owned(),
                }),
                r#""edit":{"conversation_id":"dm_ab","seq":4,"body":"hi"}"#,
            ),
            (
                request(DeleteRequest { conversation_id: conversation_id.clone(), seq, client_msg_id: msg("a") }),
                r#""delete":{"conversation_id":"dm_ab","seq":4}"#,
            ),
            (
                request(ReactRequest { conversation_id: conversation_id.clone(), seq, client_msg_id: msg("a"), emoji }),
                r#""react":{"conversation_id":"dm_ab","seq":4,"emoji":"👍"}"#,
            ),
            (
                request(ReactRequest { conversation_id, seq, client_msg_id: msg("a"), emoji: None }),
                r#""react":{"conversation_id":"dm_ab","seq":4,"emoji":null}"#,
            ),
        ] {
            let change = StorageChange::Queued(Queued { client_msg_id: msg("a"), outgoing });
            let mut text = Vec::new();
            line(&mut text, &change).unwrap();
            let always = format!("{{\"queued\":{{\"client_msg_id\":\"a\",{expected}}}}}\n");
            let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(json(&String::from_utf8(text.clone()).unwrap()), json(&always));
            assert_eq!(serde_json::from_str::<StorageChange>(&always).unwrap(), change);
            assert_eq!(serde_json::from_slice::<StorageChange>(&text).unwrap(), change);
        }
    }

    #[test]
    fn of_a_damaged_file_what_stands_before_the_damage_counts_and_a_copy_is_set_aside() {
        let folder = Folder::new();
        let path = folder.file("outbox");
        let mut waiting = Vec::new();
        for change in changes() {
            line(&mut waiting, &change).unwrap();
        }
        let page = [0; 4096];
        let done = b"{\"done\":\"b\"}\n";
        let damages = [
            (&b""[..], &b"milk\nbread\n"[..], Saved::default()),
            (&waiting, b"\0\xff\0\n", state(&changes())),
            (&waiting, b"{\"of_a_later_version\":1}\n", state(&changes())),
            (&waiting, &[&page[..], done].concat(), state(&changes())),
            (&waiting, &[&page[..], done, done].concat(), state(&changes())),
        ];
        for (before, damage, expected) in damages {
            let text = [before, damage].concat();
            fs::write(&path, &text).unwrap();
            let mut storage = FileStorage::open(&path).unwrap();
            let aside = storage.set_aside().unwrap();
            assert_eq!(fs::read(aside).unwrap(), text);
            assert_eq!(storage.load().unwrap(), expected);
            storage.write(&[queued("next")]).unwrap();
            drop(storage);
            let mut storage = FileStorage::open(&path).unwrap();
            assert_eq!(storage.set_aside(), None);
            assert_eq!(storage.load().unwrap().outbox.back().unwrap().client_msg_id, msg("next"));
        }
        // Zeros at the end are what was never confirmed.
        fs::write(&path, [&waiting[..], &page].concat()).unwrap();
        let mut storage = FileStorage::open(&path).unwrap();
        assert_eq!((storage.set_aside(), storage.load().unwrap()), (None, state(&changes())));
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_may_read_what_is_kept() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = Folder::new();
        let path = folder.file("outbox");
        // As earlier versions made them.
        for (ending, text) in [("", "{\"done\":\"a\"}\nmilk\n"), (".new", "{"), (".unreadable", "old")] {
            fs::write(beside(&path, ending), text).unwrap();
            fs::set_permissions(beside(&path, ending), fs::Permissions::from_mode(0o644)).unwrap();
        }
        let storage = FileStorage::open(&path).unwrap();
        assert!(storage.set_aside().is_some());
        for file in fs::read_dir(&folder.0).unwrap().map(Result::unwrap) {
            let name = file.file_name();
            if name != "outbox.lock" {
                assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", name.display());
            }
        }
    }

    #[test]
    fn a_file_that_can_not_be_opened_is_no_damaged_one() {
        let folder = Folder::new();
        let path = folder.file("outbox");
        fs::create_dir(&path).unwrap();
        assert_ne!(FileStorage::open(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(path.is_dir());
    }
}
