//! The client's public API.

use std::fmt;
use std::marker::PhantomData;
#[cfg(feature = "media")]
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::future::{BoxFuture, FutureExt, TryFutureExt, poll_fn};
use pigeonhole_core::{
    Ask as Wanted, Core, Draft, Edited, Input, Keeper, Keyring, NewGroup, Outgoing, OwnDevice, Queued, SafetyNumber,
    Saved, Setup, Trust, Upload, Window, check_users,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;

use wire::limits::{GROUP_CHANGE_MEMBERS_MAX, INBOX_LIMIT_MAX};
use wire::{
    Action, AddRequest, AddResult, Ask, Attached, ChannelsRequest, ChannelsResult, ClientMsgId, Conversation,
    ConversationId, DeleteRequest, DeviceId, DeviceRequest, DeviceResult, DownloadRequest, DownloadResult, EditRequest,
    Emoji, HistoryRequest, HistoryResult, InboxRequest, InboxResult, Info, JoinRequest, JoinResult, LeaveRequest,
    LeaveResult, MediaId, MembersRequest, MembersResult, Message, MutedUntil, PinRequest, Presence, PresenceRequest,
    PresenceResult, ProfileChange, ProfileRequest, ProfileResult, ProfilesRequest, ProfilesResult, ReactRequest,
    ReactionsRequest, ReactionsResult, ReadRequest, ReadResult, ReceiptsRequest, ReceiptsResult, Registration,
    RemoveRequest, Reply, ReportRequest, ReportResult, RestrictRequest, Role, RoleRequest, SendResult, Seq, Settings,
    SettingsResult, Side, Target, UpdateRequest, UserId, WatchRequest, WatchResult, body_fits,
};

#[cfg(feature = "media")]
use crate::attachment::Attachment;
use crate::clock::time_of_day;
use crate::dial::Dialer;
use crate::driver::{Command, Driver};
use crate::kept::Kept;
#[cfg(feature = "media")]
use crate::private;
#[cfg(feature = "media")]
use crate::transfer::{Fetch, Fetched, unwritable};
use crate::{Config, Error, Event, Stats};

/// A user's connection to Pigeonhole. The client closes the connection when its last clone is dropped.
///
/// The client sends each request immediately, or as soon as it has a connection, however long that takes. Dropping the
/// future of a call does not cancel its request.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) command_tx: UnboundedSender<Command>,
    stats_rx: watch::Receiver<Stats>,
    /// The message store. With [`Config::outbox`] or without a file, there is none.
    pub(crate) messages: Kept,
    /// The folder of downloaded attachments, next to the store.
    #[cfg(feature = "media")]
    files: Option<Arc<PathBuf>>,
    #[cfg(feature = "media")]
    is_encrypted: bool,
    pub(crate) me: UserId,
    has_keys: bool,
}

impl Client {
    /// Reads the data that the last client has saved, and connects in the background. Without a network, the client
    /// waits for one, and reports this in [`Event::State`].
    ///
    /// # Errors
    /// [`Error::Config`]: the address, the user id or the device id can't work. [`Error::Storage`]: the file can't be
    /// read, or another client has it.
    ///
    /// # Panics
    /// Outside a Tokio runtime, as Tokio does.
    pub async fn connect(config: Config) -> Result<(Self, Events), Error> {
        let dialer = Arc::new(Dialer::new(&config)?);
        let Config { user_id, device_id, file, keeper, messages_max, keys, timing, .. } = config;
        if keys.is_some() && (keeper, file.is_some()) != (Keeper::Store, true) {
            return Err(Error::Config("an encrypted client has no store: set Config::store".to_owned()));
        }
        let me = UserId::parse(&user_id).map_err(|error| Error::Config(format!("the user id {error}")))?;
        #[cfg(feature = "media")]
        let files = file.as_ref().filter(|_| keeper == Keeper::Store).map(|file| {
            let mut folder = file.clone().into_os_string();
            folder.push("-media");
            Arc::new(PathBuf::from(folder))
        });
        let (kept, mut saved) = match file {
            Some(path) => {
                let user = me.clone();
                let opened = spawn_blocking(move || Kept::open(&path, &user)).await;
                opened.map_err(std::io::Error::other)??
            }
            None => (Kept::default(), Saved::default()),
        };
        let (command_tx, command_rx) = unbounded_channel();
        let (event_tx, event_rx) = unbounded_channel();
        if let Some(name) = kept.set_aside() {
            // The receiver still exists, so this cannot fail.
            let _ = event_tx.send(Event::StorageSetAside(name));
        }
        let (stats_tx, stats_rx) = watch::channel(Stats::default());
        let device_id = DeviceId::parse(&device_id).map_err(|error| Error::Config(format!("the device id {error}")))?;
        #[cfg(feature = "media")]
        let is_encrypted = keys.is_some();
        #[cfg_attr(not(feature = "media"), expect(unused_mut, reason = "it carries no files"))]
        let mut keyring = keys.map(|keys| keys.keyring(&me, device_id, &mut saved)).transpose()?;
        #[cfg(feature = "media")]
        if let Some(keyring) = &mut keyring {
            keyring.carry_files();
        }
        let has_keys = keyring.is_some();
        let core = Core::new(Setup { me: me.clone(), timing, keeper, saved, keyring }, fastrand::u64(..));
        let messages = if keeper == Keeper::Store { kept.clone() } else { Kept::default() };
        let driver = Driver { core, kept, messages_max, dialer, command_rx, event_tx, stats_tx };
        let weak_command_tx = command_tx.downgrade();
        tokio::spawn(driver.run());
        let client = Self {
            command_tx,
            stats_rx,
            messages,
            #[cfg(feature = "media")]
            files,
            #[cfg(feature = "media")]
            is_encrypted,
            me,
            has_keys,
        };
        Ok((client, Events { event_rx, command_tx: weak_command_tx, last: None }))
    }

    /// Puts a message into the outbox. The client sends it, and repeats it until the server has replied, across
    /// restarts too with a file ([`Config::store`]). The server stores messages of one conversation in the order of these
    /// calls.
    ///
    /// When this returns, the message is in the outbox; [`Sent::stored`] waits for the reply.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Invalid`], [`Error::Storage`] or [`Error::Closed`]: the message is not in the
    /// outbox, and the client will not send it.
    pub async fn send(&self, target: Target, draft: impl Into<Draft>) -> Result<Sent, Error> {
        let draft = draft.into();
        draft.check(&target)?;
        self.message(target, draft, None).await
    }

    /// Sends a picture, a voice note or another file through the outbox. The client uploads the file first and retries
    /// until it succeeds, across restarts too. Messages to the conversation do not wait for the upload.
    /// [`Event::Uploading`] reports the progress.
    ///
    /// This call reads the whole file before it returns. The app must not change the file until the message is stored.
    ///
    /// # Errors
    /// [`Error::File`]: the file can't be read. [`Error::Invalid`]: the file is empty or above 100 MiB, or its media
    /// type is not one of an image or a voice note. Also the errors of [`send`](Self::send).
    #[cfg(feature = "media")]
    pub async fn send_media(&self, target: Target, attachment: Attachment) -> Result<Sent, Error> {
        attachment.check(&target)?;
        let draft = attachment.draft.clone();
        let upload = crate::transfer::announce(attachment, self.is_encrypted).await?;
        self.message(target, draft, Some(upload)).await
    }

    /// Sends another message's attachment through the outbox, without an upload. `draft` is the text next to it, which
    /// may be empty.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the message has no attachment. Also the errors of [`send`](Self::send).
    pub async fn forward(&self, target: Target, message: &Message, draft: impl Into<Draft>) -> Result<Sent, Error> {
        let draft = draft.into();
        let Some(media) = message.media.as_deref().and_then(Attached::clear) else {
            return Err(Error::Invalid {
                field: "media",
                problem: "is missing: the message carries nothing".to_owned(),
            });
        };
        let upload = Upload::copy(&message.conversation_id, message.seq, &message.kind, media);
        draft.check_beside_media(&upload.about, &target)?;
        self.message(target, draft, Some(upload)).await
    }

    /// Downloads a message's attachment into this file. The file appears only when the download is complete and its
    /// digest matches the message. A broken download resumes where it stopped, up to five times.
    ///
    /// # Errors
    /// [`Error::Refused`] with `gone`: the message is deleted. [`Error::File`]: the attachment can't be fetched or
    /// written, or its content differs. [`Error::Invalid`]: the message has no attachment. [`Error::Closed`].
    #[cfg(feature = "media")]
    pub async fn download(&self, message: &Message, to: impl Into<PathBuf>) -> Result<(), Error> {
        const TRIES: u32 = 5;
        const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);
        let to = to.into();
        let Some(media) = message.media.as_deref().and_then(Attached::clear) else {
            return Err(Error::Invalid {
                field: "media",
                problem: "is missing: the message carries nothing".to_owned(),
            });
        };
        let http = crate::transfer::http().map_err(|error| Error::File(error.to_string()))?;
        let mut fetch = Fetch::new(media, &to)?;
        let mut url = self.url_of(&media.media_id).await?;
        for tries in 1.. {
            match fetch.try_once(&http, &url).await? {
                Fetched::All => break,
                Fetched::UrlEnded if tries < TRIES => {
                    // Too old; if the next one is no better, it is not scanned yet.
                    tokio::time::sleep(PAUSE * (tries - 1)).await;
                    url = self.url_of(&media.media_id).await?;
                }
                Fetched::Broken(_) if tries < TRIES => tokio::time::sleep(PAUSE * tries).await,
                Fetched::UrlEnded => return Err(Error::File("it is not where the server says".to_owned())),
                Fetched::Broken(why) => return Err(Error::File(why)),
            }
        }
        let ended = spawn_blocking(move || fetch.end(&to)).await;
        ended.map_err(|error| Error::File(error.to_string()))?
    }

    /// Returns the file of a message's attachment in the folder `…-media` next to the message store, and downloads it first if
    /// it is not there. Items of views have its path then. The client removes the file when the message is deleted or no
    /// longer stored.
    ///
    /// # Errors
    /// As [`download`](Self::download), and [`Error::Config`]: the client has no message store.
    #[cfg(feature = "media")]
    pub async fn attachment(&self, message: &Message) -> Result<PathBuf, Error> {
        let Some(folder) = self.files.clone() else { return Err(crate::kept::without()) };
        let (conversation_id, seq) = (message.conversation_id.clone(), message.seq);
        // A conversation's id can have any character that is printed.
        let is_safe = |char: &char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
        let name: String = conversation_id.as_str().chars().filter(is_safe).collect();
        let path = folder.join(format!("{name}-{seq}"));
        let id = conversation_id.clone();
        let known = self.messages.read(move |store| store.place(&id, seq)).await?;
        if known.is_some_and(|known| std::path::Path::new(&known) == path && path.exists()) {
            return Ok(path);
        }
        private::create_folder(&folder).map_err(unwritable)?;
        self.download(message, &path).await?;
        let place = Some(path.to_string_lossy().into_owned());
        self.command(Command::Input(Input::Place { conversation_id, seq, path: place }));
        Ok(path)
    }

    #[cfg(feature = "media")]
    async fn url_of(&self, media_id: &MediaId) -> Result<String, Error> {
        let found = self.urls(vec![media_id.clone()]).await?;
        let item = found.items.into_iter().find(|item| item.media_id == *media_id);
        let gone = || Error::Refused { code: "gone".to_owned(), message: "it is deleted".to_owned() };
        item.map(|item| item.url).ok_or_else(gone)
    }

    /// Requests the URLs of at most 10 attachments, for an app that downloads them itself. The URLs are valid for five
    /// minutes. Cache a file by its `media_id`, never by its URL, and check its `sha256`.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::TooLarge`] or [`Error::Closed`].
    pub fn urls(
        &self,
        media_ids: Vec<MediaId>,
    ) -> impl Future<Output = Result<DownloadResult, Error>> + Send + 'static + use<> {
        self.ask(DownloadRequest { media_ids })
    }

    async fn request<T, R: Into<Action>>(&self, request: impl FnOnce(ClientMsgId) -> R) -> Result<Sent<T>, Error> {
        let client_msg_id = new_client_msg_id()?;
        let outgoing = Outgoing::Request(request(client_msg_id.clone()).into());
        self.queue(Queued { client_msg_id, outgoing, made_at: time_of_day() }).await
    }

    async fn message(&self, target: Target, draft: Draft, upload: Option<Upload>) -> Result<Sent, Error> {
        let outgoing = Outgoing::message(target, draft, upload);
        self.queue(Queued { client_msg_id: new_client_msg_id()?, outgoing, made_at: time_of_day() }).await
    }

    async fn queue<T>(&self, queued: Queued) -> Result<Sent<T>, Error> {
        let (kept_tx, kept_rx) = oneshot::channel();
        let (stored_tx, stored_rx) = oneshot::channel();
        self.command(Command::Keep { queued: queued.clone(), kept_tx, stored_tx });
        kept_rx.await.map_err(|_| Error::Closed)??;
        Ok(Sent { queued, stored_rx, answer: PhantomData })
    }

    /// As [`send`](Self::send), to the direct conversation with this user.
    ///
    /// # Errors
    /// As those of [`send`](Self::send), and [`Error::InvalidUserId`].
    pub async fn send_to(
        &self,
        user_id: impl AsRef<str> + Send,
        draft: impl Into<Draft> + Send,
    ) -> Result<Sent, Error> {
        self.send(Target::User(user(user_id.as_ref())?), draft).await
    }

    /// Works as [`send`](Self::send), for a reply to the message at `seq`.
    ///
    /// # Errors
    /// As those of [`send`](Self::send).
    pub async fn reply(
        &self,
        conversation_id: &ConversationId,
        seq: Seq,
        draft: impl Into<Draft>,
    ) -> Result<Sent, Error> {
        self.send(Target::Conversation(conversation_id.clone()), draft.into().reply_to(seq)).await
    }

    /// Changes the text of the user's own message through the outbox, as [`send`](Self::send) does. The edit follows
    /// all earlier requests to the conversation. With [`Edited`], the edit also changes the message's data.
    ///
    /// # Errors
    /// As those of [`send`](Self::send).
    pub async fn edit(
        &self,
        conversation_id: &ConversationId,
        seq: Seq,
        edited: impl Into<Edited>,
    ) -> Result<Sent, Error> {
        let Edited { body, data } = edited.into();
        if !body_fits(&body) {
            return Err(Error::TooLarge);
        }
        if let Some(Some(data)) = &data {
            data.check(&body)?;
        }
        let conversation_id = conversation_id.clone();
        self.request(|client_msg_id| EditRequest { conversation_id, seq, client_msg_id, body, data }).await
    }

    /// Deletes the user's own message for all members through the outbox, as [`edit`](Self::edit) does.
    ///
    /// # Errors
    /// [`Error::Storage`] or [`Error::Closed`]: the delete is not in the outbox.
    pub async fn delete(&self, conversation_id: &ConversationId, seq: Seq) -> Result<Sent, Error> {
        let conversation_id = conversation_id.clone();
        self.request(|client_msg_id| DeleteRequest { conversation_id, seq, client_msg_id }).await
    }

    /// Sets the user's reaction to a message, in place of an earlier one, through the outbox as [`edit`](Self::edit)
    /// does. `None` removes the reaction.
    ///
    /// # Errors
    /// As those of [`delete`](Self::delete).
    pub async fn react(&self, conversation_id: &ConversationId, seq: Seq, emoji: Option<Emoji>) -> Result<Sent, Error> {
        let conversation_id = conversation_id.clone();
        self.request(|client_msg_id| ReactRequest { conversation_id, seq, client_msg_id, emoji }).await
    }

    /// Pins a message for all members, or takes the pin off, through the outbox as [`edit`](Self::edit) does. In a group
    /// or a channel, the owner and admins do so.
    ///
    /// # Errors
    /// As those of [`delete`](Self::delete).
    pub async fn pin(&self, conversation_id: &ConversationId, seq: Seq, pinned: bool) -> Result<Sent, Error> {
        let conversation_id = conversation_id.clone();
        self.request(|client_msg_id| PinRequest { conversation_id, seq, client_msg_id, pinned }).await
    }

    /// Creates a group or a channel through the outbox, as [`send`](Self::send) does; the user is its owner. The reply
    /// has the conversation's id. The server creates groups in the order of these calls.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Config`], [`Error::Storage`] or [`Error::Closed`]: the request is not in the outbox.
    /// For an encrypted group, [`Sent::stored`] fails with `forbidden` if the server has none.
    pub async fn create(&self, group: NewGroup) -> Result<Sent, Error> {
        group.check(self.has_keys)?;
        self.request(|client_msg_id| group.request(client_msg_id, self.has_keys)).await
    }

    /// Adds up to 50 members to a group through the outbox. Later messages to the group are stored after the addition.
    /// The reply lists the new members; if all were members already, the server writes no entry.
    ///
    /// # Errors
    /// As those of [`create`](Self::create).
    pub async fn add(
        &self,
        conversation_id: &ConversationId,
        members: impl IntoIterator<Item = UserId> + Send,
    ) -> Result<Sent<AddResult>, Error> {
        let members: Vec<UserId> = members.into_iter().collect();
        check_users("members", &members, 1, GROUP_CHANGE_MEMBERS_MAX)?;
        let conversation_id = conversation_id.clone();
        self.request(|client_msg_id| AddRequest { conversation_id, client_msg_id, members, keys: None }).await
    }

    /// Removes a member from a group through the outbox, as [`add`](Self::add) does.
    ///
    /// # Errors
    /// [`Error::Storage`] or [`Error::Closed`]: the request is not in the outbox.
    pub async fn remove(&self, conversation_id: &ConversationId, user_id: &UserId) -> Result<Sent, Error> {
        let (conversation_id, user_id) = (conversation_id.clone(), user_id.clone());
        self.request(|client_msg_id| RemoveRequest { conversation_id, client_msg_id, user_id, keys: None }).await
    }

    /// Leaves a group or a channel through the outbox, as [`add`](Self::add) does. An owner transfers the ownership
    /// first; the owner of a group may also be its last member.
    ///
    /// # Errors
    /// As those of [`remove`](Self::remove).
    pub async fn leave(&self, conversation_id: &ConversationId) -> Result<Sent<LeaveResult>, Error> {
        let conversation_id = conversation_id.clone();
        self.request(|id| LeaveRequest { conversation_id, client_msg_id: Some(id) }).await
    }

    /// Sets the role of a member of a group through the outbox, as [`add`](Self::add) does. With [`Role::Owner`], the
    /// user transfers the group's ownership.
    ///
    /// # Errors
    /// As those of [`create`](Self::create).
    pub async fn role(&self, conversation_id: &ConversationId, user_id: &UserId, role: Role) -> Result<Sent, Error> {
        if role == Role::None {
            let problem = "must be owner, admin or member".to_owned();
            return Err(Error::Invalid { field: "role", problem });
        }
        let (conversation_id, user_id) = (conversation_id.clone(), user_id.clone());
        self.request(|client_msg_id| RoleRequest { conversation_id, client_msg_id, user_id, role }).await
    }

    /// Lets a member of a group or channel only read until a time, through the outbox, as [`add`](Self::add) does. With
    /// `None`, the restriction ends.
    ///
    /// # Errors
    /// As those of [`create`](Self::create).
    pub async fn restrict(
        &self,
        conversation_id: &ConversationId,
        user_id: &UserId,
        until: Option<MutedUntil>,
    ) -> Result<Sent, Error> {
        let (conversation_id, user_id) = (conversation_id.clone(), user_id.clone());
        self.request(|client_msg_id| RestrictRequest { conversation_id, client_msg_id, user_id, until }).await
    }

    /// Changes a group's title and its rules for members through the outbox, as [`add`](Self::add) does. A field that
    /// is left out keeps its value; at least one field must be set.
    ///
    /// # Errors
    /// As those of [`create`](Self::create).
    pub async fn update(&self, conversation_id: &ConversationId, info: Info) -> Result<Sent, Error> {
        if info == Info::default() {
            let problem = "is missing; name this, history, post, add, join or rings".to_owned();
            return Err(Error::Invalid { field: "title", problem });
        }
        let conversation_id = conversation_id.clone();
        self.request(|client_msg_id| UpdateRequest { conversation_id, client_msg_id, info }).await
    }

    /// Requests a page of a group's members, at most `limit` (1 to 100). The page is the first one, or the one at the
    /// `next_cursor` of the previous page.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Closed`].
    pub fn members(
        &self,
        conversation_id: &ConversationId,
        limit: u64,
        cursor: Option<UserId>,
    ) -> impl Future<Output = Result<MembersResult, Error>> + Send + 'static + use<> {
        let request = MembersRequest { conversation_id: conversation_id.clone(), limit, cursor };
        self.ask(request)
    }

    /// A page of how far the other members of a group have come, as [`members`](Self::members), for
    /// [`Timeline::receipts`](crate::Timeline::receipts).
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Closed`].
    pub fn receipts(
        &self,
        conversation_id: &ConversationId,
        limit: u64,
        cursor: Option<UserId>,
    ) -> impl Future<Output = Result<ReceiptsResult, Error>> + Send + 'static + use<> {
        let request = ReceiptsRequest { conversation_id: conversation_id.clone(), limit, cursor };
        self.ask(request)
    }

    /// A page of who reacted to the message at `seq`, in any conversation, as [`members`](Self::members).
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Closed`].
    pub fn reactions(
        &self,
        conversation_id: &ConversationId,
        seq: Seq,
        limit: u64,
        cursor: Option<UserId>,
    ) -> impl Future<Output = Result<ReactionsResult, Error>> + Send + 'static + use<> {
        let request = ReactionsRequest { conversation_id: conversation_id.clone(), seq, limit, cursor };
        self.ask(request)
    }

    /// Makes the user a member of a channel whose `join` is `open`. The client repeats the request until the server has
    /// replied; a restart forgets the request.
    ///
    /// # Errors
    /// [`Error::Refused`]: with `forbidden`, admins add members; or [`Error::Closed`].
    pub fn join(
        &self,
        conversation_id: &ConversationId,
    ) -> impl Future<Output = Result<JoinResult, Error>> + Send + 'static + use<> {
        let request = JoinRequest { conversation_id: conversation_id.clone() };
        self.ask(request)
    }

    /// Requests a page of the user's channels, in the order of their ids. The page is the first one, or the one at the
    /// `next_cursor` of the previous page. [`inbox`](Self::inbox) does not list channels, and no event reports a change
    /// of this list.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Closed`].
    pub fn channels(
        &self,
        cursor: Option<ConversationId>,
    ) -> impl Future<Output = Result<ChannelsResult, Error>> + Send + 'static + use<> {
        self.ask(ChannelsRequest { cursor, pinned: false })
    }

    /// Subscribes to a channel that the app shows. Each entry comes once and in order as [`Event::Message`], until
    /// [`unwatch`](Self::unwatch) or [`Event::Unwatched`]. The subscription survives reconnects but not a restart.
    ///
    /// Entries begin above `after`, the `seq` up to which the app has the channel; with `None`, above the channel's
    /// current last entry. From channels without a subscription, the app gets only what the user does there.
    ///
    /// The client subscribes even if the result is not awaited. The future returns the server's first reply, or fails
    /// with [`Error::Refused`], [`Error::Unwatched`] or [`Error::Closed`]. A second call repeats the request, and the
    /// entries continue where they are.
    pub fn watch(&self, conversation_id: &ConversationId, after: Option<Seq>) -> Report<WatchResult> {
        let watch = Wanted::Watch { conversation_id: conversation_id.clone(), after };
        Report(self.wanted::<WatchRequest>(watch).boxed())
    }

    /// The app no longer shows it.
    pub fn unwatch(&self, conversation_id: &ConversationId) {
        self.command(Command::Input(Input::Unwatch(conversation_id.clone())));
    }

    /// Reports that the user is typing; call this function at each key. The client notifies the other members at most
    /// every 4 s, and only while it has a connection. The report is not saved, not repeated, and has no reply.
    pub fn typing(&self, conversation_id: &ConversationId) {
        self.command(Command::Input(Input::Typing(conversation_id.clone())));
    }

    /// Reports that the user has read the conversation up to `seq`: the badge disappears, and the authors see blue
    /// ticks. The client sends at most one report per second and conversation; earlier calls share the next report.
    ///
    /// The client sends the report even if the result is not awaited. The future returns the number of unread messages,
    /// and in a group also of those that mention the user. The future fails with [`Error::Refused`] or
    /// [`Error::Closed`].
    pub fn read(&self, conversation_id: &ConversationId, seq: Seq) -> Report<ReadResult> {
        let read = Wanted::Read { conversation_id: conversation_id.clone(), seq };
        Report(self.wanted::<ReadRequest>(read).boxed())
    }

    /// Mutes, archives, pins or marks a conversation as unread, or blocks a user. A field that is left out keeps its
    /// value. The second of two calls about the same conversation or user counts.
    ///
    /// The client sends the settings even if the result is not awaited, and repeats them until the server has replied;
    /// then comes [`Event::SettingsChanged`]. A restart forgets the request; the rows of [`inbox`](Self::inbox) have
    /// the settings that the server stored. The future fails with [`Error::Refused`] or [`Error::Closed`].
    pub fn settings(&self, settings: Settings) -> Report<()> {
        Report(self.ask(settings).map_ok(|SettingsResult {}| ()).boxed())
    }

    /// Reports messages, a conversation or a user to the operator. The same report again changes nothing.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Closed`].
    pub fn report(
        &self,
        report: ReportRequest,
    ) -> impl Future<Output = Result<ReportResult, Error>> + Send + 'static + use<> {
        self.ask(report)
    }

    /// Requests the profiles of users and services, at most 50. The result omits an id without a profile. Request those
    /// in `left` again.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::TooLarge`] or [`Error::Closed`].
    pub fn profiles(
        &self,
        user_ids: Vec<UserId>,
    ) -> impl Future<Output = Result<ProfilesResult, Error>> + Send + 'static + use<> {
        self.ask(ProfilesRequest { user_ids, conversation_ids: vec![] })
    }

    /// Changes the user's own profile. A field that is left out stays, and `Some(None)` removes it. Returns the version.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::TooLarge`] or [`Error::Closed`].
    pub fn set_profile(&self, set: ProfileChange) -> impl Future<Output = Result<u64, Error>> + Send + 'static + use<> {
        self.ask(ProfileRequest { set }).map_ok(|ProfileResult { version }| version)
    }

    /// Registers this device for push notifications, in place of its earlier registration. With `None`, as at a logout,
    /// removes the registration. Call this function after each start and whenever the token changes: a registration
    /// expires after 60 days, and a repetition is cheap.
    ///
    /// The client sends the registration even if the result is not awaited, and repeats it until the server has
    /// replied. A restart forgets the request. The future fails with [`Error::Refused`] or [`Error::Closed`].
    pub fn register_device(&self, registration: Option<Registration>) -> Report<()> {
        let request = registration.map_or(DeviceRequest::Off { token: () }, DeviceRequest::On);
        Report(self.ask(request).map_ok(|DeviceResult { .. }| ()).boxed())
    }

    /// Requests a page of the chat list, at most 50 conversations. The page is the first one, or the one at the
    /// `next_cursor` of the previous page.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Closed`].
    pub fn inbox(
        &self,
        cursor: Option<String>,
    ) -> impl Future<Output = Result<InboxResult, Error>> + Send + 'static + use<> {
        let request = InboxRequest { limit: INBOX_LIMIT_MAX, cursor, since: None, pinned: false };
        self.ask(request)
    }

    /// Requests a page of a conversation, at most `limit` messages (1 to 100). Events do not depend on this call: each
    /// message that is new on this device also comes as [`Event::Message`].
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Closed`].
    pub fn history(
        &self,
        conversation_id: &ConversationId,
        side: Side,
        limit: u64,
    ) -> impl Future<Output = Result<HistoryResult, Error>> + Send + 'static + use<> {
        let request = HistoryRequest { conversation_id: conversation_id.clone(), side, limit };
        self.ask(request)
    }

    /// Requests which of these users are online, and when the others were last online, for at most 20 users. The result
    /// has only users with whom the caller has a direct conversation.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::TooLarge`] or [`Error::Closed`].
    pub fn presence(
        &self,
        user_ids: Vec<UserId>,
    ) -> impl Future<Output = Result<Vec<Presence>, Error>> + Send + 'static + use<> {
        self.ask(PresenceRequest { user_ids, watch: false }).map_ok(|PresenceResult { users, .. }| users)
    }

    /// As [`presence`](Self::presence). The server then sends changes of the users in `watched`, as
    /// [`Event::PresenceChanged`](crate::Event::PresenceChanged). The client renews the watch, until the next call of
    /// this function replaces it. Request users that are not in `watched` again, once a minute.
    ///
    /// # Errors
    /// As [`presence`](Self::presence).
    pub fn watch_presence(
        &self,
        user_ids: Vec<UserId>,
    ) -> impl Future<Output = Result<PresenceResult, Error>> + Send + 'static + use<> {
        self.ask(PresenceRequest { user_ids, watch: true })
    }

    /// Retries everything immediately that waits for a retry: a reconnect does not wait for its time, and the client
    /// checks a connection that looks alive. Call this function when the app comes to the foreground or learns that the
    /// network has changed.
    ///
    /// After [`State::Replaced`](crate::State::Replaced) only this call connects again, so call it only if the user is
    /// present.
    pub fn wake(&self) {
        self.command(Command::Input(Input::Wake));
    }

    /// Cancels a message whose file is being uploaded; the message fails with [`Error::Cancelled`]. Returns `false` if
    /// the upload is complete or no such message exists.
    ///
    /// An earlier run of the app may have sent the message already. In this case the message still comes as an event.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub async fn cancel(&self, client_msg_id: &ClientMsgId) -> Result<bool, Error> {
        let (cancelled_tx, cancelled_rx) = oneshot::channel();
        self.command(Command::Cancel { client_msg_id: client_msg_id.clone(), cancelled_tx });
        cancelled_rx.await.map_err(|_| Error::Closed)
    }

    /// Returns the requests that wait for the server's reply, oldest first: messages, and changes of messages and
    /// groups. After a start, an app shows them as not stored yet.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub async fn outbox(&self) -> Result<Vec<Queued>, Error> {
        let (outbox_tx, outbox_rx) = oneshot::channel();
        self.command(Command::Outbox { outbox_tx });
        outbox_rx.await.map_err(|_| Error::Closed)
    }

    /// Returns the chat list from the message store, the conversation with the newest message first. This call needs no
    /// network, and neither do [`unread`](Self::unread), [`window`](Self::window) and [`search`](Self::search). Call
    /// them again after an event: the store has everything that an event reports.
    ///
    /// # Errors
    /// [`Error::Config`]: the client has no message store. [`Error::Storage`] or [`Error::Closed`].
    pub async fn chats(&self) -> Result<Vec<Conversation>, Error> {
        self.messages.read(|store| store.chats()).await
    }

    /// Returns the number of unread messages in all conversations that are not archived.
    ///
    /// # Errors
    /// As those of [`chats`](Self::chats).
    pub async fn unread(&self) -> Result<u64, Error> {
        self.messages.read(|store| store.unread()).await
    }

    /// Returns at most `limit` messages of a conversation from the message store. Between two of its spans, messages
    /// are missing: [`history`](Self::history) requests them, and the store keeps each page.
    ///
    /// # Errors
    /// As those of [`chats`](Self::chats).
    pub async fn window(&self, conversation_id: &ConversationId, side: Side, limit: usize) -> Result<Window, Error> {
        let id = conversation_id.clone();
        self.messages.read(move |store| store.window(&id, side, limit)).await
    }

    /// Returns the newest `limit` messages of the message store that contain all words, the newest first. The last word
    /// may be incomplete.
    ///
    /// # Errors
    /// As those of [`chats`](Self::chats).
    pub async fn search(&self, text: impl Into<String> + Send, limit: usize) -> Result<Vec<Message>, Error> {
        let text = text.into();
        self.messages.read(move |store| store.search(&text, limit)).await
    }

    /// Returns the safety number of the user and this one, or `None` while the client does not know the other's identity.
    /// Both see the same 12 groups of 5 digits. If the server gave one of them another key, the numbers differ.
    ///
    /// # Errors
    /// [`Error::Config`]: the client is not encrypted. [`Error::Closed`].
    pub async fn safety_number(&self, user_id: &UserId) -> Result<Option<SafetyNumber>, Error> {
        let user_id = user_id.clone();
        self.keyring(move |keyring| keyring.safety_number(&user_id)).await
    }

    /// The user has compared the safety numbers, and they are equal. From now on, a change of the other's identity holds
    /// messages until [`accept`](Self::accept).
    pub fn verify(&self, user_id: &UserId) {
        self.trust(Trust::Verify(user_id.clone()));
    }

    /// The user knows of the other's new identity, and the messages that waited leave.
    pub fn accept(&self, user_id: &UserId) {
        self.trust(Trust::Accept(user_id.clone()));
    }

    /// Begins the encryption of a conversation anew, with the keys that all devices of both users publish now. Earlier
    /// messages stay readable where they were read.
    pub fn reset(&self, user_id: &UserId) {
        self.trust(Trust::Reset(user_id.clone()));
    }

    /// Returns the user's devices that have keys, as the server listed them after the last connect. A device that the user
    /// does not know can be an intruder's.
    ///
    /// # Errors
    /// As those of [`safety_number`](Self::safety_number).
    pub async fn own_devices(&self) -> Result<Vec<OwnDevice>, Error> {
        self.keyring(Keyring::devices).await
    }

    /// The user no longer has this device. The client removes it from each conversation.
    pub fn remove_device(&self, device_id: DeviceId) {
        self.trust(Trust::Remove(device_id));
    }

    /// Begins the encryption of a group anew, as [`reset`](Self::reset) does with a user.
    pub fn reset_group(&self, conversation_id: &ConversationId) {
        self.trust(Trust::ResetGroup(conversation_id.clone()));
    }

    fn trust(&self, trust: Trust) {
        self.command(Command::Input(Input::Trust(trust)));
    }

    /// Reads the keys between two turns.
    async fn keyring<T: Send + 'static>(&self, read: impl FnOnce(&Keyring) -> T + Send + 'static) -> Result<T, Error> {
        let (read_tx, read_rx) = oneshot::channel();
        let read = move |keyring: Option<&Keyring>| {
            // An app that no longer waits does not need it.
            let _ = read_tx.send(keyring.map(read));
        };
        self.command(Command::Keyring(Box::new(read)));
        let read = read_rx.await.map_err(|_| Error::Closed)?;
        read.ok_or_else(|| Error::Config("the client is not encrypted: set Config::encrypted".to_owned()))
    }

    /// Returns the counters of the client.
    pub fn stats(&self) -> Stats {
        *self.stats_rx.borrow()
    }

    /// Acknowledges all events that the app has finished with, and closes the connection. The outbox keeps its content.
    /// After this call returns, another client may use the file.
    pub async fn close(self) {
        let (closed_tx, closed_rx) = oneshot::channel();
        self.command(Command::Close { closed_tx });
        // Without a reply, the client is closed already.
        let _ = closed_rx.await;
    }

    /// Sends a request now, or when the client has a connection.
    fn ask<R: Ask + 'static>(
        &self,
        request: R,
    ) -> impl Future<Output = Result<R::Result, Error>> + Send + 'static + use<R> {
        self.wanted::<R>(Wanted::Question(request.into()))
    }

    fn wanted<R: Ask + 'static>(
        &self,
        what: Wanted,
    ) -> impl Future<Output = Result<R::Result, Error>> + Send + 'static + use<R> {
        let (reply_tx, reply_rx) = oneshot::channel();
        self.command(Command::Ask { what, reply_tx });
        answer::<R>(reply_rx)
    }

    pub(crate) fn command(&self, command: Command) {
        // If the client is closed, the end of the channel tells the caller.
        let _ = self.command_tx.send(command);
    }
}

pub(crate) async fn answer<R: Ask>(answer_rx: oneshot::Receiver<Result<Reply, Error>>) -> Result<R::Result, Error> {
    let reply = answer_rx.await.map_err(|_| Error::Closed)??;
    R::result(reply).ok_or(Error::Unreadable)
}

pub(crate) fn user(id: &str) -> Result<UserId, Error> {
    UserId::parse(id).map_err(|error| Error::InvalidUserId { id: id.to_owned(), problem: error.to_string() })
}

/// A random UUID, which always is a valid id.
fn new_client_msg_id() -> Result<ClientMsgId, Error> {
    ClientMsgId::parse(&uuid::Uuid::new_v4().to_string()).map_err(|error| Error::Config(error.to_string()))
}

/// A message or a change in the outbox. The client sends it even if this value is dropped. `T` is the server's reply.
#[derive(Debug)]
pub struct Sent<T = SendResult> {
    queued: Queued,
    stored_rx: oneshot::Receiver<Result<Reply, Error>>,
    answer: PhantomData<fn() -> T>,
}

impl<T> Sent<T> {
    /// Returns the id of this request; its [`Event::Message`] has the same id.
    pub fn client_msg_id(&self) -> &ClientMsgId {
        &self.queued.client_msg_id
    }

    /// Returns the content of the outbox for this request, for [`Timeline::queued`](crate::Timeline::queued).
    pub fn queued(&self) -> &Queued {
        &self.queued
    }
}

impl Sent {
    /// Waits until the server has stored the request, however long the client has no connection.
    ///
    /// # Errors
    /// [`Error::Refused`]: the server will never store the request. [`Error::Closed`]: the request is still in the
    /// outbox.
    pub async fn stored(self) -> Result<SendResult, Error> {
        answer::<AddRequest>(self.stored_rx).await?.entry.ok_or(Error::Unreadable)
    }
}

impl Sent<AddResult> {
    /// Waits as [`Sent::stored`] does. The result lists the new members and those who were members before. If no member
    /// is new, `entry` is absent.
    ///
    /// # Errors
    /// As those of [`Sent::stored`].
    pub async fn stored(self) -> Result<AddResult, Error> {
        answer::<AddRequest>(self.stored_rx).await
    }
}

impl Sent<LeaveResult> {
    /// Waits as [`Sent::stored`] does. For a channel, `entry` is absent.
    ///
    /// # Errors
    /// As those of [`Sent::stored`].
    pub async fn stored(self) -> Result<LeaveResult, Error> {
        Ok(LeaveResult { entry: answer::<AddRequest>(self.stored_rx).await?.entry })
    }
}

/// A request about a read mark, settings or a subscription. The client sends it even if this value is dropped.
pub struct Report<T>(BoxFuture<'static, Result<T, Error>>);

impl<T> fmt::Debug for Report<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Report")
    }
}

impl<T: Send + 'static> IntoFuture for Report<T> {
    type Output = Result<T, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.0
    }
}

/// The client's events, in order.
///
/// With [`Config::store`], the store has a message before its event comes. An app that crashes before it has shown the
/// message finds it in the store.
///
/// In any other client, a call of [`next`](Self::next) also means that the app has [finished](Self::done) with the
/// previous event. Only then does the client acknowledge the message to the server and remember it as received. An app
/// that stores messages itself does so before it requests the next event; then a crash at any point loses none. If an
/// app never requests the next event, all messages stay pending on the server.
#[derive(Debug)]
pub struct Events {
    event_rx: UnboundedReceiver<Event>,
    /// Weak, so that the client ends once no clone of [`Client`] is left.
    command_tx: WeakUnboundedSender<Command>,
    /// The message that the app has and may not be done with.
    last: Option<(ConversationId, Seq)>,
}

impl Events {
    /// The next event; `None` once the client has been closed.
    ///
    /// May be dropped while it waits: no event is lost by that.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|context| self.poll_event(context)).await
    }

    /// Marks the last event as finished without a request for another one: before [`close`](Client::close), for
    /// example.
    pub fn done(&mut self) {
        if let Some((conversation_id, seq)) = self.last.take()
            && let Some(command_tx) = self.command_tx.upgrade()
        {
            // A client that has ended acknowledges nothing any more; the message comes again in its successor.
            let _ = command_tx.send(Command::Input(Input::Handled { conversation_id, seq }));
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.done();
        let event = self.event_rx.poll_recv(context);
        if let Poll::Ready(Some(Event::Message { message, .. })) = &event {
            self.last = Some((message.conversation_id.clone(), message.seq));
        }
        event
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.get_mut().poll_event(context)
    }
}
