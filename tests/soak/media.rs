//! Pictures among the messages: what each holds follows from its caption, so whoever fetches one knows whether it is the right one. At
//! the end every picture of a message is there, and no other.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use aws_sdk_dynamodb::types::AttributeValue;
use pigeonhole_client::{Attachment, Draft, Error, Kind, MediaId, Message, MimeType, Sent, Target};
use serde_json::Value;
use testkit::{PATIENCE, TestServer};
use tokio::time::timeout;

use crate::changes::{mark, view};
use crate::user::{Counts, User};

/// One message in this many is a picture.
pub(crate) const PICTURE_ONE_IN: u32 = 10;
/// A user fetches one in this many of the pictures that arrive.
const FETCH_ONE_IN: u32 = 4;
/// Digests in one `download`.
const AT_ONCE_MAX: usize = 10;

/// The caption of a user's picture with this number. Uploads overtake each other, so the number says nothing of the order.
fn caption(from: &str, to: &str, number: u64) -> String {
    crate::changes::text(from, &format!("{to} picture"), number)
}

/// Returns the bytes of the picture with this mark in its caption: up to 20 KiB, different for each mark.
fn bytes_of(mark: &str) -> Vec<u8> {
    let spread: usize = mark.bytes().map(usize::from).sum();
    mark.as_bytes().repeat(1 + spread * 37 % 1000)
}

/// The files of a run, of which those that are left go with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn make() -> Self {
        let path = std::env::temp_dir().join(format!("pigeonhole-soak-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("it can be made");
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name.replace(' ', "-"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The system clears the folder of files that can't be removed here.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl User {
    pub(crate) fn wants_a_picture(&mut self) -> bool {
        self.rng.u32(..PICTURE_ONE_IN) == 0
    }

    /// Sends a picture to `target`, which is called `to` in its caption.
    pub(crate) async fn send_picture(&mut self, target: Target, to: &str, draft: impl Fn(String) -> Draft) -> Sent {
        self.pictures += 1;
        let caption = caption(self.name(), to, self.pictures);
        let mark = mark(&caption).expect("every caption has one").to_owned();
        let path = self.folder.file(&mark);
        std::fs::write(&path, bytes_of(&mark)).expect("it can be written");
        let mime = MimeType::parse("image/png").expect("a media type");
        let picture = Attachment::image(path, mime, 4, 3).caption(draft(caption));
        self.counts.pictures.fetch_add(1, Relaxed);
        self.app.client.send_media(target, picture).await.expect("it goes into the outbox")
    }

    /// Fetches some of the pictures that it sees, and looks whether they are what was sent.
    pub(crate) fn look_at_picture(&mut self, message: &Message) {
        let Some(mark) = mark(&message.body).filter(|_| message.media.is_some()) else { return };
        if self.rng.u32(..FETCH_ONE_IN) > 0 {
            return;
        }
        let (client, counts, message) = (self.app.client.clone(), Arc::clone(&self.counts), message.clone());
        let (expected, folder) = (bytes_of(mark), Arc::clone(&self.folder));
        let number = self.rng.u64(..);
        let to = folder.file(&format!("{mark} at {} {number}", self.name()));
        self.looking.spawn(async move {
            match client.download(&message, &to).await {
                Ok(()) => {
                    let got = std::fs::read(&to).expect("it is there");
                    let count = if got == expected { &counts.fetched } else { &counts.other_bytes };
                    count.fetch_add(1, Relaxed);
                    std::fs::remove_file(&to).expect("it is there");
                }
                // The message is deleted by now, or the user has left the group.
                Err(Error::Refused { code, .. }) if code == "gone" => {
                    let key = (message.conversation_id.to_string(), message.seq.value());
                    counts.gone.lock().expect("nobody has panicked").insert(key);
                }
                // An app that is restarted meanwhile has no answer.
                Err(Error::Closed) => {}
                Err(error) => {
                    println!("{} of {} can't be fetched: {error}", message.seq, message.conversation_id);
                    counts.other_bytes.fetch_add(1, Relaxed);
                }
            }
        });
    }

    /// Asks for every picture that it sees, and gives how many it can't have.
    async fn withheld(&self) -> u64 {
        let open = self.conversations.iter().filter(|(id, shown)| !id.is_group() || !shown.timeline.is_closed());
        let seen = open.flat_map(|(_, shown)| view(&shown.timeline));
        let ids: Vec<MediaId> =
            seen.filter_map(|message| message.media.map(|media| media.media_id().clone())).collect();
        let mut withheld = 0;
        for ids in ids.chunks(AT_ONCE_MAX) {
            let found = self.app.client.urls(ids.to_vec()).await.expect("it is answered");
            withheld += (ids.len() - found.items.len()) as u64;
        }
        withheld
    }
}

/// Differences from the messages.
#[derive(Default)]
pub(crate) struct Pictures {
    objects: u64,
    lost: u64,
    kept: u64,
    rows: u64,
    twice: u64,
    gone: u64,
    withheld: u64,
}

impl Pictures {
    /// Counts that describe the run.
    pub(crate) fn account(&self, counts: &Counts) -> Vec<(&'static str, u64)> {
        vec![
            ("pictures sent", counts.pictures.load(Relaxed)),
            ("fetched, and what was sent", counts.fetched.load(Relaxed)),
            ("deleted before they were fetched", counts.gone.lock().expect("nobody has panicked").len() as u64),
            ("objects at the end", self.objects),
        ]
    }

    /// Counts that must be zero.
    pub(crate) fn wrong(&self, counts: &Counts) -> Vec<(&'static str, u64)> {
        vec![
            ("pictures that are lost", self.lost),
            ("objects that no message has", self.kept),
            ("rows of pictures that differ from messages", self.rows),
            ("pictures that are there twice", self.twice),
            ("pictures that were others, or not to be had", counts.other_bytes.load(Relaxed)),
            ("pictures that were gone, and are not deleted", self.gone),
            ("pictures that who sees them can't have", self.withheld),
        ]
    }
}

/// Compares messages, rows and objects, once whatever waits for its end has come to it.
pub(crate) async fn check(server: &TestServer, users: &[User]) -> Pictures {
    end_all(server).await;
    let messages = rows(server, "MessagesTable");
    // Only in groups is there a `deleted_seq` as well.
    let is_there = |message: &&Value| message.get("deleted_at").is_none();
    let media_id = |message: &Value| {
        let media: Value = serde_json::from_str(message.get("media")?.as_str()?).expect("it is JSON");
        media["media_id"].as_str().map(str::to_owned)
    };
    let carried: BTreeSet<String> = messages.iter().filter(is_there).filter_map(media_id).collect();
    let attached: BTreeSet<String> = rows(server, "MediaTable").iter().map(|row| text(row, "media_id")).collect();
    let keys = server.local().objects().keys();
    let objects: BTreeSet<String> = keys.iter().filter_map(|key| key.rsplit('/').next()).map(str::to_owned).collect();
    let mut said = BTreeSet::new();
    let pictures = messages.iter().filter(|message| message["kind"] == Kind::Image.as_str());
    let key = |one: &Value| ["conversation_id", "sender_id", "client_msg_id"].map(|name| text(one, name));
    let twice = pictures.filter(|message| !said.insert(key(message))).count();
    let gone = users[0].counts.gone.lock().expect("nobody has panicked").clone();
    let is_still_there = |message: &&Value| {
        let id = text(message, "conversation_id");
        is_there(message) && !id.starts_with("gr_") && gone.contains(&(id, message["seq"].as_u64().unwrap_or_default()))
    };
    let mut found = Pictures {
        objects: objects.len() as u64,
        lost: carried.difference(&objects).count() as u64,
        kept: objects.difference(&carried).count() as u64,
        rows: carried.symmetric_difference(&attached).count() as u64,
        twice: twice as u64,
        gone: messages.iter().filter(is_still_there).count() as u64,
        withheld: 0,
    };
    for user in users {
        found.withheld += user.withheld().await;
    }
    found
}

fn text(row: &Value, name: &str) -> String {
    row[name].as_str().unwrap_or_default().to_owned()
}

fn rows(server: &TestServer, table: &str) -> Vec<Value> {
    server.local().database().rows(table, usize::MAX).unwrap().expect("there is such a table")
}

/// A day and more goes by, for what was put and never sent, and for what was deleted while it could still be put.
async fn end_all(server: &TestServer) {
    let stream = server.local().mapping("MediaStream").expect("the template has it");
    let ended = async {
        loop {
            stream.settled().await;
            let rows = rows(server, "MediaTable");
            let waiting: Vec<&Value> = rows.iter().filter(|row| row.get("expires_at").is_some()).collect();
            if waiting.is_empty() {
                return;
            }
            for row in waiting {
                let update = server.tables().update_item().table_name("MediaTable");
                let update = update.key("media_id", AttributeValue::S(text(row, "media_id")));
                let update = update.update_expression("SET expires_at = :then");
                let then = AttributeValue::N("1".to_owned());
                update.expression_attribute_values(":then", then).send().await.expect("it is written");
            }
            let engine = server.local().database().engine().clone();
            tokio::task::spawn_blocking(move || engine.sweep_ttl()).await.expect("it ends").expect("it sweeps");
        }
    };
    timeout(PATIENCE * 2, ended).await.expect("all that waits for its end comes to it");
}
