//! What the app holds in its hands.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::Stream;
use futures_util::future::poll_fn;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;

use crate::dial::Dialer;
use crate::driver::{Command, Driver};
use crate::protocol::{History, INBOX_CONVERSATIONS_MAX, Inbox, Request, Side, Stored, Target};
use crate::session::{Answer, Session};
use crate::storage::Queued;
use crate::{Config, Error, Event, Stats};

/// A user's connection to Pigeonhole, as long as there is one of its clones.
///
/// What it is asked for is asked at once, or when there is a connection again, however long that takes; a future that is
/// dropped changes nothing about that.
#[derive(Clone, Debug)]
pub struct Client {
    commands: UnboundedSender<Command>,
    stats: watch::Receiver<Stats>,
}

impl Client {
    /// Reads what the last client has left, and connects in the background. Without a network it waits for one, and says
    /// so in [`Event::State`].
    ///
    /// # Errors
    /// [`Error::Config`]: the address or the device id can't work. [`Error::Storage`]: the storage can't be read.
    ///
    /// # Panics
    /// Outside a Tokio runtime, as Tokio does.
    pub async fn connect(config: Config) -> Result<(Self, Events), Error> {
        let dialer = Arc::new(Dialer::new(&config)?);
        let Config { user_id, mut storage, timing, .. } = config;
        let timing = timing.bounded();
        let loaded = spawn_blocking(move || storage.load().map(|saved| (storage, saved))).await;
        let (storage, saved) = loaded.map_err(std::io::Error::other)??;
        let (commands, obeyed) = unbounded_channel();
        let (events, queue) = unbounded_channel();
        let (counted, stats) = watch::channel(Stats::default());
        let session = Session::new(&user_id, timing, saved, fastrand::Rng::new(), Instant::now());
        let driver = Driver { session, storage, dialer, commands: obeyed, events, stats: counted };
        let handled = commands.downgrade();
        tokio::spawn(driver.run());
        Ok((Self { commands, stats }, Events { queue, handled, last: None }))
    }

    /// Puts a message into the outbox, from where it is sent, again and again until the server has answered, over restarts
    /// too if the storage outlives them. Messages to the same conversation are stored in the order of these calls.
    ///
    /// Once this is done the message is in the outbox; [`Sent::stored`] waits for the answer.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Storage`] or [`Error::Closed`]: it is not in the outbox, and will not be sent.
    pub async fn send(&self, target: Target, body: impl Into<String>) -> Result<Sent, Error> {
        let queued = Queued { client_msg_id: uuid::Uuid::new_v4().to_string(), target, body: body.into() };
        let Queued { client_msg_id, target, body } = queued.clone();
        Request::Send { target, client_msg_id: client_msg_id.clone(), kind: "text", body }.check_size()?;
        let (kept, in_outbox) = oneshot::channel();
        let (stored, answer) = oneshot::channel();
        self.command(Command::Send { queued, kept, stored });
        in_outbox.await.map_err(|_| Error::Closed)??;
        Ok(Sent { client_msg_id, answer })
    }

    /// As [`send`](Self::send), to the direct conversation with this user.
    ///
    /// # Errors
    /// As those of [`send`](Self::send).
    pub async fn send_to(&self, user_id: impl Into<String>, body: impl Into<String>) -> Result<Sent, Error> {
        self.send(Target::User(user_id.into()), body).await
    }

    /// The user has read the conversation up to here: the badge is cleared, the others see blue ticks. At most one report
    /// a second for each conversation; calls that come sooner share the next one.
    ///
    /// Reported as soon as this is called; the future, which gives the number of messages that are left unread, need not be
    /// waited for.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Closed`].
    pub fn read(
        &self,
        conversation_id: &str,
        seq: u64,
    ) -> impl Future<Output = Result<u64, Error>> + Send + 'static + use<> {
        let (answer, answered) = oneshot::channel();
        self.command(Command::Read { conversation_id: conversation_id.to_owned(), seq, answer });
        wait(answered, |answer| if let Answer::Unread(unread) = answer { Some(unread) } else { None })
    }

    /// A page of the chat list, of at most 50 conversations: the first one, or the one at the `next_cursor` of the page before.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Closed`].
    pub fn inbox(&self, cursor: Option<String>) -> impl Future<Output = Result<Inbox, Error>> + Send + 'static + use<> {
        let request = Request::Inbox { limit: INBOX_CONVERSATIONS_MAX, cursor, since: None };
        let answered = self.call(request);
        wait(answered, |answer| if let Answer::Inbox(inbox) = answer { Some(inbox) } else { None })
    }

    /// A page of a conversation, of at most `limit` messages (1 to 100). Events know nothing of it: messages that are on it
    /// come, or have come, as [`Event::Message`] all the same, if they are new on this device.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::Closed`].
    pub fn history(
        &self,
        conversation_id: &str,
        side: Side,
        limit: u32,
    ) -> impl Future<Output = Result<History, Error>> + Send + 'static + use<> {
        let answered = self.call(Request::history(conversation_id, side, limit));
        wait(answered, |answer| if let Answer::History(history) = answer { Some(history) } else { None })
    }

    /// What has been done so far.
    pub fn stats(&self) -> Stats {
        *self.stats.borrow()
    }

    /// Acknowledges what the app is done with, and says goodbye. What is in the outbox stays there. Done once the storage may
    /// be used by another client.
    pub async fn close(self) {
        let (done, closed) = oneshot::channel();
        self.command(Command::Close { done });
        // It is closed if nobody is there to answer, too.
        drop(closed.await);
    }

    fn call(&self, request: Request) -> oneshot::Receiver<Result<Answer, Error>> {
        let (answer, answered) = oneshot::channel();
        self.command(Command::Call { request, answer });
        answered
    }

    fn command(&self, command: Command) {
        // If the client has been closed, whoever waits for an answer learns that from the end of the channel.
        drop(self.commands.send(command));
    }
}

async fn wait<T>(
    answered: oneshot::Receiver<Result<Answer, Error>>,
    wanted: impl FnOnce(Answer) -> Option<T>,
) -> Result<T, Error> {
    let answer = answered.await.map_err(|_| Error::Closed)??;
    wanted(answer).ok_or(Error::Unreadable)
}

/// A message that is in the outbox. It is sent whether this is kept or dropped.
#[derive(Debug)]
pub struct Sent {
    client_msg_id: String,
    answer: oneshot::Receiver<Result<Answer, Error>>,
}

impl Sent {
    /// What this message can be recognised by: its [`Event::Message`] carries the same.
    pub fn client_msg_id(&self) -> &str {
        &self.client_msg_id
    }

    /// Waits until the server has stored it, however long there is no connection.
    ///
    /// # Errors
    /// [`Error::Refused`]: it will never be stored. [`Error::Closed`]: it is still in the outbox.
    pub async fn stored(self) -> Result<Stored, Error> {
        wait(self.answer, |answer| if let Answer::Stored(stored) = answer { Some(stored) } else { None }).await
    }
}

/// What the client has to tell, in order.
///
/// To ask for the next event is to be [`done`](Self::done) with the last one: only then is a message acknowledged to the server, and
/// remembered as one that need not come again. An app that keeps messages keeps them before it asks for more, and a crash
/// at any point loses none. One that never asks leaves everything pending on the server.
#[derive(Debug)]
pub struct Events {
    queue: UnboundedReceiver<Event>,
    /// Weak, so that a client nobody holds any more ends.
    handled: WeakUnboundedSender<Command>,
    /// The message that the app has and may not be done with.
    last: Option<(String, u64)>,
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
            && let Some(handled) = self.handled.upgrade()
        {
            // A client that has ended acknowledges nothing any more; the message comes again in its successor.
            drop(handled.send(Command::Handled { conversation_id, seq }));
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.done();
        let event = self.queue.poll_recv(context);
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
