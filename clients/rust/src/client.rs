//! What an app uses.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::Stream;
use futures_util::future::{BoxFuture, FutureExt, poll_fn};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;

use wire::limits::{GROUP_CHANGE_MEMBERS_MAX, INBOX_LIMIT_MAX};
use wire::{
    AddResult, ChannelsRequest, ChannelsResult, ClientMsgId, ConversationId, DeviceRequest, DownloadRequest,
    DownloadResult, Emoji, HistoryRequest, HistoryResult, InboxRequest, InboxResult, Info, JoinRequest, JoinResult,
    LeaveResult, MediaId, MembersRequest, MembersResult, Message, Presence, PresenceRequest, ReactionsRequest,
    ReactionsResult, ReadResult, ReceiptsRequest, ReceiptsResult, Registration, Role, SendResult, Seq, Settings, Side,
    Target, UserId, WatchResult, body_fits,
};

#[cfg(feature = "media")]
use crate::attachment::Attachment;
use crate::dial::Dialer;
use crate::driver::{Command, Driver};
use crate::group::{Draft, NewGroup, check_users};
use crate::media::Upload;
use crate::session::{Call, Session};
use crate::storage::{Outgoing, Queued};
#[cfg(feature = "media")]
use crate::transfer::{Fetch, Fetched, unwritable};
use crate::{Config, Error, Event, Stats};

/// A user's connection to Pigeonhole. It is closed when its last clone is dropped.
///
/// What it is asked for is asked at once, or when there is a connection again, however long that takes; a future that is
/// dropped changes nothing about that.
#[derive(Clone, Debug)]
pub struct Client {
    command_tx: UnboundedSender<Command>,
    stats_rx: watch::Receiver<Stats>,
}

impl Client {
    /// Reads what the last client has left, and connects in the background. Without a network it waits for one, and says
    /// so in [`Event::State`].
    ///
    /// # Errors
    /// [`Error::Config`]: the address, the user id or the device id can't work. [`Error::Storage`]: the storage can't be read.
    ///
    /// # Panics
    /// Outside a Tokio runtime, as Tokio does.
    pub async fn connect(config: Config) -> Result<(Self, Events), Error> {
        let dialer = Arc::new(Dialer::new(&config)?);
        let Config { user_id, mut storage, timing, .. } = config;
        let me = UserId::parse(&user_id).map_err(|error| Error::Config(format!("the user id {error}")))?;
        let timing = timing.bounded();
        let loaded = spawn_blocking(move || storage.load().map(|saved| (storage, saved))).await;
        let (storage, saved) = loaded.map_err(std::io::Error::other)??;
        let (command_tx, command_rx) = unbounded_channel();
        let (event_tx, event_rx) = unbounded_channel();
        if let Some(name) = storage.set_aside() {
            // Nobody has dropped the other end yet.
            let _ = event_tx.send(Event::StorageSetAside(name));
        }
        let (stats_tx, stats_rx) = watch::channel(Stats::default());
        let session = Session::new(me, timing, saved, fastrand::Rng::new(), Instant::now());
        let driver = Driver { session, storage, dialer, command_rx, event_tx, stats_tx };
        let weak_command_tx = command_tx.downgrade();
        tokio::spawn(driver.run());
        Ok((Self { command_tx, stats_rx }, Events { event_rx, command_tx: weak_command_tx, last: None }))
    }

    /// Puts a message into the outbox, from where it is sent, again and again until the server has answered, over restarts
    /// too if the storage outlives them. Messages to the same conversation are stored in the order of these calls.
    ///
    /// Once this is done the message is in the outbox; [`Sent::stored`] waits for the answer.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Invalid`], [`Error::Storage`] or [`Error::Closed`]: it is not in the outbox, and will not
    /// be sent.
    pub async fn send(&self, target: Target, draft: impl Into<Draft>) -> Result<Sent, Error> {
        let draft = draft.into();
        draft.check(&target)?;
        self.queue(Outgoing::message(target, draft, None)).await
    }

    /// Sends a picture, a voice note or another file, by way of the outbox: its file is uploaded first, as often as it takes, over
    /// restarts too, and what is said to the conversation meanwhile goes ahead of it. [`Event::Uploading`] tells how far it is.
    ///
    /// All of the file is read before this is done. It must stay as it is until the message is stored.
    ///
    /// # Errors
    /// [`Error::File`]: it can't be read. [`Error::Invalid`]: it is empty, above 100 MiB, or by its media type no image or voice note.
    /// Else as those of [`send`](Self::send).
    #[cfg(feature = "media")]
    pub async fn send_media(&self, target: Target, attachment: Attachment) -> Result<Sent, Error> {
        attachment.check(&target)?;
        let draft = attachment.draft.clone();
        let upload = crate::transfer::announce(attachment).await?;
        self.queue(Outgoing::message(target, draft, Some(upload))).await
    }

    /// Sends what another message carries, by way of the outbox: nothing is uploaded. `draft` is the text beside it, which may be
    /// empty.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the message carries nothing. Else as those of [`send`](Self::send).
    pub async fn forward(&self, target: Target, message: &Message, draft: impl Into<Draft>) -> Result<Sent, Error> {
        let draft = draft.into();
        draft.check(&target)?;
        let Some(media) = &message.media else {
            return Err(Error::Invalid {
                field: "media",
                problem: "is missing: the message carries nothing".to_owned(),
            });
        };
        let upload = Upload::copy(&message.conversation_id, message.seq, &message.kind, media);
        self.queue(Outgoing::message(target, draft, Some(upload))).await
    }

    /// Fetches what a message carries into this file, which is there only if all of it is, and is what the message says. What breaks
    /// goes on where it was, five times.
    ///
    /// # Errors
    /// [`Error::Refused`] with `gone`: the message is deleted. [`Error::File`]: it can't be fetched or written, or is something else.
    /// [`Error::Invalid`]: the message carries nothing. [`Error::Closed`].
    #[cfg(feature = "media")]
    pub async fn download(&self, message: &Message, to: impl Into<std::path::PathBuf>) -> Result<(), Error> {
        const TRIES: u32 = 5;
        const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);
        let to = to.into();
        let Some(media) = &message.media else {
            return Err(Error::Invalid {
                field: "media",
                problem: "is missing: the message carries nothing".to_owned(),
            });
        };
        let http = crate::transfer::http().map_err(|error| Error::File(error.to_string()))?;
        let mut fetch = Fetch::new(media, &to).map_err(unwritable)?;
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

    #[cfg(feature = "media")]
    async fn url_of(&self, media_id: &MediaId) -> Result<String, Error> {
        let found = self.urls(vec![media_id.clone()]).await?;
        let item = found.items.into_iter().find(|item| item.media_id == *media_id);
        let gone = || Error::Refused { code: "gone".to_owned(), message: "it is deleted".to_owned() };
        item.map(|item| item.url).ok_or_else(gone)
    }

    /// Where the bytes are that these messages carry, 10 at most: URLs that are good for five minutes, for an app that fetches by
    /// itself. Keep what was fetched under its `media_id`, never under its URL, and check its `sha256`.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Refused`] or [`Error::Closed`].
    pub fn urls(
        &self,
        media_ids: Vec<MediaId>,
    ) -> impl Future<Output = Result<DownloadResult, Error>> + Send + 'static + use<> {
        let (urls_tx, urls_rx) = oneshot::channel();
        self.command(Command::Call(Call::Download(DownloadRequest { media_ids }, urls_tx)));
        answer(urls_rx)
    }

    async fn queue<T>(&self, outgoing: Outgoing) -> Result<Sent<T>, Error> {
        let queued = Queued { client_msg_id: new_client_msg_id()?, outgoing };
        let (kept_tx, kept_rx) = oneshot::channel();
        let (stored_tx, stored_rx) = oneshot::channel();
        self.command(Command::Send { queued: queued.clone(), kept_tx, stored_tx });
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
        let id = user_id.as_ref();
        let user_id = UserId::parse(id)
            .map_err(|error| Error::InvalidUserId { id: id.to_owned(), problem: error.to_string() })?;
        self.send(Target::User(user_id), draft).await
    }

    /// As [`send`](Self::send), in answer to the message at `seq`.
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

    /// Gives an own message another text, by way of the outbox, as [`send`](Self::send). It is made after what was sent to the
    /// conversation before.
    ///
    /// # Errors
    /// As those of [`send`](Self::send).
    pub async fn edit(
        &self,
        conversation_id: &ConversationId,
        seq: Seq,
        body: impl Into<String>,
    ) -> Result<Sent, Error> {
        let body = body.into();
        if !body_fits(&body) {
            return Err(Error::TooLarge);
        }
        self.queue(Outgoing::Edit { conversation_id: conversation_id.clone(), seq, body }).await
    }

    /// Deletes an own message for everybody, by way of the outbox, as [`edit`](Self::edit).
    ///
    /// # Errors
    /// [`Error::Storage`] or [`Error::Closed`]: it is not in the outbox.
    pub async fn delete(&self, conversation_id: &ConversationId, seq: Seq) -> Result<Sent, Error> {
        self.queue(Outgoing::Delete { conversation_id: conversation_id.clone(), seq }).await
    }

    /// What the user reacts to a message with, in the place of the one before, by way of the outbox, as [`edit`](Self::edit);
    /// `None` takes it back.
    ///
    /// # Errors
    /// As those of [`delete`](Self::delete).
    pub async fn react(&self, conversation_id: &ConversationId, seq: Seq, emoji: Option<Emoji>) -> Result<Sent, Error> {
        self.queue(Outgoing::React { conversation_id: conversation_id.clone(), seq, emoji }).await
    }

    /// Makes a group or a channel, by way of the outbox, as [`send`](Self::send): the user is its owner. The answer says which conversation
    /// it is. Groups are made in the order of these calls.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Storage`] or [`Error::Closed`]: it is not in the outbox.
    pub async fn create(&self, group: NewGroup) -> Result<Sent, Error> {
        group.check()?;
        self.queue(Outgoing::Create(group)).await
    }

    /// Adds members to a group, at most 50 at once, by way of the outbox: what is sent to the group after it comes after it. The
    /// answer says who is new; if nobody is, there is no entry.
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
        self.queue(Outgoing::Add { conversation_id: conversation_id.clone(), members }).await
    }

    /// Removes a member from a group, by way of the outbox, as [`add`](Self::add).
    ///
    /// # Errors
    /// [`Error::Storage`] or [`Error::Closed`]: it is not in the outbox.
    pub async fn remove(&self, conversation_id: &ConversationId, user_id: &UserId) -> Result<Sent, Error> {
        let (conversation_id, user_id) = (conversation_id.clone(), user_id.clone());
        self.queue(Outgoing::Remove { conversation_id, user_id }).await
    }

    /// Leaves a group or a channel, by way of the outbox, as [`add`](Self::add). Its owner hands it over before; a group's may also be
    /// the last.
    ///
    /// # Errors
    /// As those of [`remove`](Self::remove).
    pub async fn leave(&self, conversation_id: &ConversationId) -> Result<Sent<LeaveResult>, Error> {
        self.queue(Outgoing::Leave { conversation_id: conversation_id.clone() }).await
    }

    /// Says what a member of a group may do, by way of the outbox, as [`add`](Self::add). With [`Role::Owner`] the user hands the
    /// group over.
    ///
    /// # Errors
    /// As those of [`create`](Self::create).
    pub async fn role(&self, conversation_id: &ConversationId, user_id: &UserId, role: Role) -> Result<Sent, Error> {
        if role == Role::None {
            let problem = "must be owner, admin or member".to_owned();
            return Err(Error::Invalid { field: "role", problem });
        }
        let (conversation_id, user_id) = (conversation_id.clone(), user_id.clone());
        self.queue(Outgoing::Role { conversation_id, user_id, role }).await
    }

    /// Changes what a group is called, and what its members may do, by way of the outbox, as [`add`](Self::add). What is left out
    /// stays as it is; something must be there.
    ///
    /// # Errors
    /// As those of [`create`](Self::create).
    pub async fn update(&self, conversation_id: &ConversationId, info: Info) -> Result<Sent, Error> {
        if info == Info::default() {
            let problem = "is missing; name this, history, post, add or join".to_owned();
            return Err(Error::Invalid { field: "title", problem });
        }
        self.queue(Outgoing::Update { conversation_id: conversation_id.clone(), info }).await
    }

    /// A page of who is in a group, of at most `limit` members (1 to 100): the first one, or the one at the `next_cursor` of the
    /// page before.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Closed`].
    pub fn members(
        &self,
        conversation_id: &ConversationId,
        limit: u64,
        cursor: Option<UserId>,
    ) -> impl Future<Output = Result<MembersResult, Error>> + Send + 'static + use<> {
        let (members_tx, members_rx) = oneshot::channel();
        let request = MembersRequest { conversation_id: conversation_id.clone(), limit, cursor };
        self.command(Command::Call(Call::Members(request, members_tx)));
        answer(members_rx)
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
        let (receipts_tx, receipts_rx) = oneshot::channel();
        let request = ReceiptsRequest { conversation_id: conversation_id.clone(), limit, cursor };
        self.command(Command::Call(Call::Receipts(request, receipts_tx)));
        answer(receipts_rx)
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
        let (reactions_tx, reactions_rx) = oneshot::channel();
        let request = ReactionsRequest { conversation_id: conversation_id.clone(), seq, limit, cursor };
        self.command(Command::Call(Call::Reactions(request, reactions_tx)));
        answer(reactions_rx)
    }

    /// Makes the user a member of a channel that takes everybody. It is asked again until the server has answered, but a restart
    /// forgets it.
    ///
    /// # Errors
    /// [`Error::Refused`]: with `forbidden`, admins add members; or [`Error::Closed`].
    pub fn join(
        &self,
        conversation_id: &ConversationId,
    ) -> impl Future<Output = Result<JoinResult, Error>> + Send + 'static + use<> {
        let (joined_tx, joined_rx) = oneshot::channel();
        let request = JoinRequest { conversation_id: conversation_id.clone() };
        self.command(Command::Call(Call::Join(request, joined_tx)));
        answer(joined_rx)
    }

    /// A page of the user's channels, in the order of their ids: the first one, or the one at the `next_cursor` of the page before.
    /// They are not in [`inbox`](Self::inbox), and no event tells of a change.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Closed`].
    pub fn channels(
        &self,
        cursor: Option<ConversationId>,
    ) -> impl Future<Output = Result<ChannelsResult, Error>> + Send + 'static + use<> {
        let (channels_tx, channels_rx) = oneshot::channel();
        self.command(Command::Call(Call::Channels(ChannelsRequest { cursor }, channels_tx)));
        answer(channels_rx)
    }

    /// The app shows a channel: what is written there comes as [`Event::Message`], each entry once and in order, until
    /// [`unwatch`](Self::unwatch) or [`Event::Unwatched`], over reconnects but not over a restart. It begins above `after`, up to where
    /// the app has the channel; with `None`, where it ends now. Of channels that are not watched, only what the user does there comes.
    ///
    /// It is watched without being awaited. Awaited, it gives the server's first answer, or fails with [`Error::Refused`],
    /// [`Error::Unwatched`] or [`Error::Closed`]. Called again it asks again, and goes on where it is.
    pub fn watch(&self, conversation_id: &ConversationId, after: Option<Seq>) -> Report<WatchResult> {
        let (watched_tx, answer_rx) = oneshot::channel();
        self.command(Command::Watch { conversation_id: conversation_id.clone(), after, watched_tx });
        Report { answer_rx }
    }

    /// The app no longer shows it.
    pub fn unwatch(&self, conversation_id: &ConversationId) {
        self.command(Command::Unwatch(conversation_id.clone()));
    }

    /// The user is writing: call it at each key. The other members are told every 4 s at most, and only while there is a
    /// connection; it is not kept, not repeated and not answered.
    pub fn typing(&self, conversation_id: &ConversationId) {
        self.command(Command::Typing(conversation_id.clone()));
    }

    /// The user has read the conversation up to here: the badge is cleared, the others see blue ticks. At most one report
    /// a second for each conversation; calls that come sooner share the next one.
    ///
    /// It is reported without being awaited. Awaited, it gives the number of messages that are left unread, in a group also of
    /// those that name the user, or fails with [`Error::Refused`] or [`Error::Closed`].
    pub fn read(&self, conversation_id: &ConversationId, seq: Seq) -> Report<ReadResult> {
        let (left_tx, answer_rx) = oneshot::channel();
        self.command(Command::Read { conversation_id: conversation_id.clone(), seq, left_tx });
        Report { answer_rx }
    }

    /// Mutes or archives a conversation, or blocks a user. What is left out stays as it is. Of two calls about the same
    /// conversation or user, the second one stands.
    ///
    /// It is reported without being awaited, again and again until the server has answered; [`Event::SettingsChanged`] says
    /// so. But a restart forgets it: what stands then is in the rows of [`inbox`](Self::inbox). Awaited, it fails with
    /// [`Error::Refused`] or [`Error::Closed`].
    pub fn settings(&self, settings: Settings) -> Report<()> {
        let (done_tx, answer_rx) = oneshot::channel();
        self.command(Command::Call(Call::Settings(settings, done_tx)));
        Report { answer_rx }
    }

    /// Has this device rung, in the place of what it registered before; or, with `None`, no longer, as when the user logs out.
    /// Call it after each start, and whenever the token changes: a registration ends after 60 days, and the same again costs
    /// next to nothing.
    ///
    /// It is reported without being awaited, again and again until the server has answered. A restart forgets it. Awaited, it
    /// fails with [`Error::Refused`] or [`Error::Closed`].
    pub fn register_device(&self, registration: Option<Registration>) -> Report<()> {
        let request = registration.map_or(DeviceRequest::Off { token: () }, DeviceRequest::On);
        let (done_tx, answer_rx) = oneshot::channel();
        self.command(Command::Call(Call::Device(request, done_tx)));
        Report { answer_rx }
    }

    /// A page of the chat list, of at most 50 conversations: the first one, or the one at the `next_cursor` of the page before.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Closed`].
    pub fn inbox(
        &self,
        cursor: Option<String>,
    ) -> impl Future<Output = Result<InboxResult, Error>> + Send + 'static + use<> {
        let (inbox_tx, inbox_rx) = oneshot::channel();
        let request = InboxRequest { limit: INBOX_LIMIT_MAX, cursor, since: None };
        self.command(Command::Call(Call::Inbox(request, inbox_tx)));
        answer(inbox_rx)
    }

    /// A page of a conversation, of at most `limit` messages (1 to 100). Events do not depend on it: messages that are on it
    /// come, or have come, as [`Event::Message`] all the same, if they are new on this device.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Closed`].
    pub fn history(
        &self,
        conversation_id: &ConversationId,
        side: Side,
        limit: u64,
    ) -> impl Future<Output = Result<HistoryResult, Error>> + Send + 'static + use<> {
        let (history_tx, history_rx) = oneshot::channel();
        let request = HistoryRequest { conversation_id: conversation_id.clone(), side, limit };
        self.command(Command::Call(Call::History(request, history_tx)));
        answer(history_rx)
    }

    /// Who of these users is there, and when the others were: of those with whom there is a direct conversation, at most 20.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Refused`] or [`Error::Closed`].
    pub fn presence(
        &self,
        user_ids: Vec<UserId>,
    ) -> impl Future<Output = Result<Vec<Presence>, Error>> + Send + 'static + use<> {
        let (presence_tx, presence_rx) = oneshot::channel();
        self.command(Command::Call(Call::Presence(PresenceRequest { user_ids }, presence_tx)));
        answer(presence_rx)
    }

    /// Tries at once what waits to be tried again: a reconnect does not wait for its time, and a connection that looks alive
    /// is checked. For an app that comes to the foreground or learns that the network has changed. After
    /// [`State::Replaced`](crate::State::Replaced) nothing else connects again, so call it only if the user is there then.
    pub fn wake(&self) {
        self.command(Command::Wake);
    }

    /// The message whose file is being uploaded is not to be sent: it fails with [`Error::Cancelled`]. `false`: that is too late, since
    /// its file is there, or there is no such message. One that waits since before a restart may have been sent then, and comes back as a message
    /// if it was.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub async fn cancel(&self, client_msg_id: &ClientMsgId) -> Result<bool, Error> {
        let (cancelled_tx, cancelled_rx) = oneshot::channel();
        self.command(Command::Cancel { client_msg_id: client_msg_id.clone(), cancelled_tx });
        cancelled_rx.await.map_err(|_| Error::Closed)
    }

    /// Messages and changes, those of groups too, that wait for the server's answer, oldest first: after a start, what to show as not stored yet.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub async fn outbox(&self) -> Result<Vec<Queued>, Error> {
        let (outbox_tx, outbox_rx) = oneshot::channel();
        self.command(Command::Outbox { outbox_tx });
        outbox_rx.await.map_err(|_| Error::Closed)
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        *self.stats_rx.borrow()
    }

    /// Acknowledges what the app is done with, and closes the connection. What is in the outbox stays there. When it is done,
    /// another client may use the storage.
    pub async fn close(self) {
        let (closed_tx, closed_rx) = oneshot::channel();
        self.command(Command::Close { closed_tx });
        // If there is no answer, it is closed already.
        let _ = closed_rx.await;
    }

    fn command(&self, command: Command) {
        // If the client is closed, the one who waits for an answer learns that from the end of its channel.
        let _ = self.command_tx.send(command);
    }
}

async fn answer<T>(answer_rx: oneshot::Receiver<Result<T, Error>>) -> Result<T, Error> {
    answer_rx.await.map_err(|_| Error::Closed)?
}

/// A random UUID, which always is a valid id.
fn new_client_msg_id() -> Result<ClientMsgId, Error> {
    ClientMsgId::parse(&uuid::Uuid::new_v4().to_string()).map_err(|error| Error::Config(error.to_string()))
}

/// A message or a change that is in the outbox. It is sent whether this is kept or dropped. `T` is what the server answers.
#[derive(Debug)]
pub struct Sent<T = SendResult> {
    queued: Queued,
    stored_rx: oneshot::Receiver<Result<AddResult, Error>>,
    answer: PhantomData<fn() -> T>,
}

impl<T> Sent<T> {
    /// What this can be recognised by: its [`Event::Message`] carries the same.
    pub fn client_msg_id(&self) -> &ClientMsgId {
        &self.queued.client_msg_id
    }

    /// What is in the outbox now, for [`Timeline::queued`](crate::Timeline::queued).
    pub fn queued(&self) -> &Queued {
        &self.queued
    }
}

impl Sent {
    /// Waits until the server has stored it, however long there is no connection.
    ///
    /// # Errors
    /// [`Error::Refused`]: it will never be stored. [`Error::Closed`]: it is still in the outbox.
    pub async fn stored(self) -> Result<SendResult, Error> {
        answer(self.stored_rx).await?.entry.ok_or(Error::Unreadable)
    }
}

impl Sent<AddResult> {
    /// As [`Sent::stored`]: who is new, and who was a member before. If nobody is new, there is no `entry`.
    ///
    /// # Errors
    /// As those of [`Sent::stored`].
    pub async fn stored(self) -> Result<AddResult, Error> {
        answer(self.stored_rx).await
    }
}

impl Sent<LeaveResult> {
    /// As [`Sent::stored`]. Of a channel there is no `entry`.
    ///
    /// # Errors
    /// As those of [`Sent::stored`].
    pub async fn stored(self) -> Result<LeaveResult, Error> {
        Ok(LeaveResult { entry: answer(self.stored_rx).await?.entry })
    }
}

/// What the user has read, set or watches, on its way to the server. It is sent whether this is awaited or dropped.
#[derive(Debug)]
pub struct Report<T> {
    answer_rx: oneshot::Receiver<Result<T, Error>>,
}

impl<T: Send + 'static> IntoFuture for Report<T> {
    type Output = Result<T, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        answer(self.answer_rx).boxed()
    }
}

/// What the client has to tell, in order.
///
/// To ask for the next event is to be [`done`](Self::done) with the last one: only then is a message acknowledged to the server, and
/// remembered as one that need not come again. An app that keeps messages keeps them before it asks for more, and a crash
/// at any point loses none. One that never asks leaves everything pending on the server.
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

    /// The app is done with the last event, though it does not ask for another one: before
    /// [`close`](Client::close), for example.
    pub fn done(&mut self) {
        if let Some((conversation_id, seq)) = self.last.take()
            && let Some(command_tx) = self.command_tx.upgrade()
        {
            // A client that has ended acknowledges nothing any more; the message comes again in its successor.
            let _ = command_tx.send(Command::Handled { conversation_id, seq });
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
