//! Reads of a store that another process writes, such as a notification extension beside its app.

use std::path::Path;
use std::sync::{Arc, Mutex};

use pigeonhole_core::Peek;
use serde::Deserialize;
use serde_json::json;
use wire::{Message, Side, Timestamp, UserId};

use crate::edge::{conversation, number};
use crate::engine::{Encrypted, keys_of};
use crate::fault::Fault;

/// The part of a page of `history` that a reader opens.
#[derive(Deserialize)]
struct Page {
    messages: Vec<Message>,
}

/// The part of a message that a notification shows.
#[derive(Clone, Debug, PartialEq, Eq, uniffi::Record)]
pub struct Notice {
    /// The title of the group or the channel, or the other user of a direct conversation. `None`: the conversation is new.
    pub title: Option<String>,
    /// The author. `None`: the message is not stored yet.
    pub sender_id: Option<String>,
    /// The text. `None`: the message is not stored yet, or has no text.
    pub body: Option<String>,
}

/// A view of the store in a folder, which changes nothing. An [`Engine`](crate::Engine) of another process can have the
/// folder at the same time.
#[derive(uniffi::Object)]
pub struct Reader {
    store: Mutex<pigeonhole_store::Reader>,
    me: UserId,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reader")
    }
}

#[uniffi::export]
impl Reader {
    /// Opens the store in this folder.
    ///
    /// # Errors
    /// `config`; `newer`: another version of the app wrote the store; `wrong_user`; `store`: no store exists, or the store
    /// can't be read.
    #[uniffi::constructor]
    #[expect(clippy::needless_pass_by_value, reason = "as uniffi passes it")]
    pub fn open(folder: String, user_id: String) -> Result<Arc<Self>, Fault> {
        let me = UserId::parse(&user_id).map_err(|error| Fault::new("config", format!("the user id {error}")))?;
        let store = pigeonhole_store::Reader::open(Path::new(&folder).join("store"), &me);
        Ok(Arc::new(Self { store: Mutex::new(store.map_err(|error| Fault::from(&error))?), me }))
    }

    /// Returns what a notification shows of the message that a ring announces. `None`: nothing, because the user has read
    /// the message, its author has deleted it, or the user has blocked the author.
    ///
    /// # Errors
    /// `bad_request`, `store` or `broken`.
    #[expect(clippy::needless_pass_by_value, reason = "as uniffi passes it")]
    pub fn notice(&self, conversation_id: String, seq: u64) -> Result<Option<Notice>, Fault> {
        let (id, seq) = (conversation(&conversation_id)?, number(seq)?);
        let found = self.read(|store| store.notice(&id, seq))?;
        Ok(found.map(|pigeonhole_store::Notice { title, sender_id, body }| Notice {
            title,
            sender_id: sender_id.map(|sender| sender.to_string()),
            body,
        }))
    }

    /// Returns the number of unread messages in all conversations that are not archived.
    ///
    /// # Errors
    /// `store` or `broken`.
    pub fn unread(&self) -> Result<u64, Fault> {
        self.read(pigeonhole_store::Reader::unread)
    }

    /// Returns the rows of the chat list as a JSON array, in the form of `inbox`, the newest first.
    ///
    /// # Errors
    /// `store` or `broken`.
    pub fn chats(&self) -> Result<String, Fault> {
        Ok(json!(self.read(pigeonhole_store::Reader::chats)?).to_string())
    }

    /// Returns the newest `limit` messages of a conversation below `before`, oldest first, as a JSON array. `None`: the
    /// newest of all.
    ///
    /// # Errors
    /// `bad_request`, `store` or `broken`.
    #[expect(clippy::needless_pass_by_value, reason = "as uniffi passes it")]
    pub fn messages(&self, conversation_id: String, before: Option<u64>, limit: u32) -> Result<String, Fault> {
        let id = conversation(&conversation_id)?;
        let side = before.map(number).transpose()?.map_or(Side::Newest, Side::Before);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(json!(self.read(|store| store.window(&id, side, limit))?.messages).to_string())
    }

    /// Returns the entry up to which the client has opened an encrypted conversation: a page of `history` for
    /// [`opened`](Self::opened) begins behind it. `None`: the client has no part in the encryption yet.
    ///
    /// # Errors
    /// `config`, `bad_request`, `store` or `broken`.
    #[expect(clippy::needless_pass_by_value, reason = "as uniffi passes it")]
    pub fn position(&self, encrypted: Encrypted, conversation_id: String) -> Result<Option<u64>, Fault> {
        let id = conversation(&conversation_id)?;
        Ok(self.peek(&encrypted)?.position(&id).map(wire::Seq::value))
    }

    /// Opens encrypted entries without a change of the client's state: the client opens them itself later. `pages`:
    /// results of `history`, one behind the other, from [`position`](Self::position) on. Returns the messages with their
    /// texts, as a JSON array.
    ///
    /// # Errors
    /// `config`, `bad_request`, `store` or `broken`.
    #[expect(clippy::needless_pass_by_value, reason = "as uniffi passes it")]
    pub fn opened(&self, encrypted: Encrypted, pages: Vec<String>, now_ms: i64) -> Result<String, Fault> {
        let pages = pages.iter().map(|page| serde_json::from_str(page)).collect::<Result<Vec<Page>, _>>();
        let pages = pages.map_err(|error| Fault::new("bad_request", format!("pages: {error}")))?;
        let entries: Vec<Message> = pages.into_iter().flat_map(|page| page.messages).collect();
        Ok(json!(self.peek(&encrypted)?.opened(&entries, Timestamp::from_millis(now_ms))).to_string())
    }
}

impl Reader {
    fn peek(&self, encrypted: &Encrypted) -> Result<Peek, Fault> {
        let (keys, device_id) = keys_of(encrypted)?;
        let saved = self.read(pigeonhole_store::Reader::saved)?;
        Ok(Peek::open(&keys, &self.me, device_id, saved)?)
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&pigeonhole_store::Reader) -> Result<T, pigeonhole_store::Error>,
    ) -> Result<T, Fault> {
        let store = self.store.lock().map_err(|_| Fault::broken())?;
        read(&store).map_err(|error| Fault::from(&error))
    }
}
