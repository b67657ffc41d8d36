//! Conversations, and the views that an interface draws.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use pigeonhole_core::chat::{Act, At, Filter, ListSnapshot, RosterSnapshot, Screen, Shown, ViewId, ViewOf, Zone};
use pigeonhole_core::{Ask, Draft, Edited, Input};
use tokio::sync::mpsc::{UnboundedSender, WeakUnboundedSender};
use tokio::sync::{oneshot, watch};
use wire::{
    AddRequest, ClientMsgId, ConversationId, ConversationSettings, Emoji, SendResult, Seq, Settings, Target,
    direct_conversation_id,
};

#[cfg(feature = "media")]
use crate::Attachment;
use crate::Error;
use crate::client::{Client, Report, Sent, answer, user};
use crate::driver::{Command, Show};

/// Chats and their views.
impl Client {
    /// Opens a view of the chat list. The view follows everything that happens, for as long as it exists.
    ///
    /// # Errors
    /// [`Error::Config`]: the client has no message store.
    pub fn conversations(&self, filter: Filter) -> Result<View<ListSnapshot>, Error> {
        let (list, show) =
            View::new(&self.command_tx, |shown| if let Shown::Chats(list) = shown { Some(list) } else { None });
        self.open(list, ViewOf::Chats(filter), show)
    }

    fn messages(&self, with: Target, at: At) -> Result<View<Screen>, Error> {
        let (screen, show) =
            View::new(&self.command_tx, |shown| if let Shown::Messages(screen) = shown { Some(screen) } else { None });
        self.open(screen, ViewOf::Messages { with, at }, show)
    }

    fn roster(&self, id: ConversationId) -> Result<View<RosterSnapshot>, Error> {
        let (members, show) =
            View::new(&self.command_tx, |shown| if let Shown::Members(members) = shown { Some(members) } else { None });
        self.open(members, ViewOf::Members(id), show)
    }

    fn open<T>(&self, view: View<T>, of: ViewOf, show: Show) -> Result<View<T>, Error> {
        self.messages.check()?;
        self.command(Command::Open { view: view.id(), of, show });
        Ok(view)
    }

    /// Returns the direct conversation with this user, which need not exist yet.
    ///
    /// # Errors
    /// [`Error::InvalidUserId`].
    pub fn direct(&self, user_id: impl AsRef<str>) -> Result<Chat, Error> {
        Ok(self.chat(Target::User(user(user_id.as_ref())?)))
    }

    /// Returns a conversation, which need not be known here.
    pub fn conversation(&self, conversation_id: &ConversationId) -> Chat {
        self.chat(Target::Conversation(conversation_id.clone()))
    }

    /// Returns the conversation to which messages with this target go.
    pub fn chat(&self, target: Target) -> Chat {
        let id = match &target {
            Target::User(user) => direct_conversation_id(&self.me, user),
            Target::Conversation(id) => id.clone(),
        };
        Chat { client: self.clone(), id, target }
    }

    /// Saves a text that the user has begun, or removes it. [`conversations`](Self::conversations) shows it. Call it 300 ms
    /// after a key, and without a text once it is sent.
    pub fn draft(&self, target: Target, draft: Option<Draft>) {
        self.command(Command::Input(Input::Draft { target, draft }));
    }

    /// Marks everything of a conversation as read, although some of it may never have come to this device.
    pub fn read_all(&self, conversation_id: &ConversationId) {
        self.command(Command::Input(Input::ReadAll(conversation_id.clone())));
    }

    /// Tries a message or a change again that the server refused for good, and that a view shows as failed.
    ///
    /// # Errors
    /// [`Error::Invalid`]: no such request was refused. Also the errors of [`Sent::stored`].
    pub async fn again(&self, client_msg_id: &ClientMsgId) -> Result<SendResult, Error> {
        let (reply_tx, reply_rx) = oneshot::channel();
        self.command(Command::Ask { what: Ask::Again(client_msg_id.clone()), reply_tx });
        answer::<AddRequest>(reply_rx).await?.entry.ok_or(Error::Unreadable)
    }

    /// Discards a message or a change that the server refused for good.
    pub fn dismiss(&self, client_msg_id: &ClientMsgId) {
        self.command(Command::Input(Input::Dismiss(client_msg_id.clone())));
    }

    /// From now on, the content of views has the known names of the users in it. The client requests the name of a user
    /// when a view shows the user, and again after a day. Servers without profiles have none.
    pub fn show_names(&self) {
        self.command(Command::Input(Input::Names));
    }

    /// Sets the user's time zone, for the days of views: at the start and whenever it changes. The default is UTC.
    pub fn set_zone(&self, zone: Zone) {
        self.command(Command::Input(Input::Zone(zone)));
    }
}

/// One conversation, known by its id or by the other user of it.
#[derive(Clone, Debug)]
pub struct Chat {
    client: Client,
    id: ConversationId,
    target: Target,
}

impl Chat {
    /// Returns its id. A direct conversation has its id before its first message.
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// Returns where messages go: to the conversation, or to the user.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Opens a view of the messages. The view follows everything that happens, for as long as it exists. Older messages
    /// come from the message store and the server.
    ///
    /// # Errors
    /// [`Error::Config`]: the client has no message store.
    pub fn messages(&self, at: At) -> Result<View<Screen>, Error> {
        self.client.messages(self.target.clone(), at)
    }

    /// Opens a view of the members of this group or channel, with their roles and marks: the owner first, then the admins.
    ///
    /// # Errors
    /// [`Error::Config`]: the client has no message store.
    pub fn roster(&self) -> Result<View<RosterSnapshot>, Error> {
        self.client.roster(self.id.clone())
    }

    /// Sends a message here. See [`Client::send`].
    ///
    /// # Errors
    /// As those of [`Client::send`].
    pub async fn send(&self, draft: impl Into<Draft>) -> Result<Sent, Error> {
        self.client.send(self.target.clone(), draft).await
    }

    /// Sends a file here. See [`Client::send_media`].
    ///
    /// # Errors
    /// As those of [`Client::send_media`].
    #[cfg(feature = "media")]
    pub async fn send_media(&self, attachment: Attachment) -> Result<Sent, Error> {
        self.client.send_media(self.target.clone(), attachment).await
    }

    /// Changes the text of an own message. See [`Client::edit`].
    ///
    /// # Errors
    /// As those of [`Client::edit`].
    pub async fn edit(&self, seq: Seq, edited: impl Into<Edited>) -> Result<Sent, Error> {
        self.client.edit(&self.id, seq, edited).await
    }

    /// Deletes an own message for all members. See [`Client::delete`].
    ///
    /// # Errors
    /// As those of [`Client::delete`].
    pub async fn delete(&self, seq: Seq) -> Result<Sent, Error> {
        self.client.delete(&self.id, seq).await
    }

    /// Pins a message for all members, or takes the pin off. See [`Client::pin`].
    ///
    /// # Errors
    /// As those of [`Client::pin`].
    pub async fn pin(&self, seq: Seq, pinned: bool) -> Result<Sent, Error> {
        self.client.pin(&self.id, seq, pinned).await
    }

    /// Sets or removes the user's reaction to a message. See [`Client::react`].
    ///
    /// # Errors
    /// As those of [`Client::react`].
    pub async fn react(&self, seq: Seq, emoji: Option<Emoji>) -> Result<Sent, Error> {
        self.client.react(&self.id, seq, emoji).await
    }

    /// Keeps it at the top of the chat list. Ten conversations can be there, and ten channels. See [`Client::settings`].
    pub fn pin_to_top(&self, pinned: bool) -> Report<()> {
        let set = ConversationSettings { pinned: Some(pinned), ..ConversationSettings::default() };
        self.client.settings(Settings::Conversation { conversation_id: self.id.clone(), set })
    }

    /// Marks everything as read. See [`Client::read_all`].
    pub fn read_all(&self) {
        self.client.read_all(&self.id);
    }

    /// Tells the other members that the user is typing. See [`Client::typing`].
    pub fn typing(&self) {
        self.client.typing(&self.id);
    }

    /// Saves a text that the user has begun. See [`Client::draft`].
    pub fn draft(&self, draft: Option<Draft>) {
        self.client.draft(self.target.clone(), draft);
    }
}

/// A view of the chat list or of a conversation. `T` is what an interface draws. The view ends when it is dropped.
///
/// Items and rows have stable keys, and those that did not change are the same objects as before.
pub struct View<T> {
    id: ViewId,
    shown_rx: watch::Receiver<Option<T>>,
    /// Weak, so that the client ends once no clone of [`Client`] is left.
    command_tx: WeakUnboundedSender<Command>,
}

impl<T> fmt::Debug for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<T: Clone + Send + Sync + 'static> View<T> {
    pub(crate) fn new(command_tx: &UnboundedSender<Command>, part: fn(Shown) -> Option<T>) -> (Self, Show) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let (shown_tx, shown_rx) = watch::channel(None);
        let show: Show = Box::new(move |shown| {
            shown_tx.send_replace(part(shown));
        });
        let id = LAST.fetch_add(1, Ordering::Relaxed);
        (Self { id, shown_rx, command_tx: command_tx.downgrade() }, show)
    }

    /// Waits until there is something new to draw, and returns it. An interface that is slow gets the newest state only.
    ///
    /// May be dropped while it waits.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub async fn changed(&mut self) -> Result<T, Error> {
        loop {
            self.shown_rx.changed().await.map_err(|_| Error::Closed)?;
            if let Some(shown) = self.shown_rx.borrow_and_update().clone() {
                return Ok(shown);
            }
        }
    }

    /// Returns what to draw now. `None`: the message store has not been read yet.
    pub fn shown(&self) -> Option<T> {
        self.shown_rx.borrow().clone()
    }
}

impl<T> View<T> {
    pub(crate) fn id(&self) -> ViewId {
        self.id
    }

    fn act(&self, act: Act) {
        self.input(Input::Act { view: self.id, act });
    }

    fn input(&self, input: Input) {
        if let Some(command_tx) = self.command_tx.upgrade() {
            // If the client is closed, the view shows nothing new.
            let _ = command_tx.send(Command::Input(input));
        }
    }
}

impl View<ListSnapshot> {
    /// Selects other rows.
    pub fn select(&self, filter: Filter) {
        self.act(Act::Filter(filter));
    }
}

impl View<Screen> {
    /// Shows older messages: the user has come near the first item.
    pub fn older(&self) {
        self.act(Act::Older);
    }

    /// Shows newer messages: the user has come near the last item.
    pub fn newer(&self) {
        self.act(Act::Newer);
    }

    /// Shows another part of the conversation.
    pub fn jump(&self, at: At) {
        self.act(Act::Jump(at));
    }

    /// Reports that the item with this key was on the screen, with all unread messages before it. The client marks them as
    /// read. Call it for each item that was visible for 300 ms while the app was in the foreground.
    pub fn seen(&self, key: &str) {
        self.act(Act::Seen(key.to_owned()));
    }
}

impl<T> Drop for View<T> {
    fn drop(&mut self) {
        self.input(Input::Close(self.id));
    }
}
