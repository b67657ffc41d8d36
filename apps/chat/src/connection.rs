//! Between the client library and the screen: gives the one tokens, and the other what of its events belongs there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use pigeonhole_client::{
    AddResult, ChannelsResult, Client, ClientMsgId, Config, ConversationId, Error, Event, Events, HistoryResult,
    InboxResult, JoinBy, JoinResult, LeaveResult, MembersResult, NewGroup, Presence, Queued, ReadResult,
    ReceiptsResult, SendResult, Sent, State, Timestamp, TokenError, TokenNeed, UserId, Why,
};
use reqwest::{StatusCode, Url};
use time::OffsetDateTime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::command::{Change, Command};
use crate::group::{Act, titled};
use crate::media::attachment;
use crate::room::{Ask, Listing, News, Room, Wish, With};

const LEAVE_WAIT: Duration = Duration::from_secs(3);
const FETCH_WAIT: Duration = Duration::from_secs(10);

/// Where to connect, and as whom.
pub(crate) struct Endpoint {
    pub url: Url,
    pub user_id: UserId,
    pub token: Token,
}

#[derive(Clone)]
pub(crate) enum Token {
    /// Given once; it can't be renewed here.
    Given(String),
    /// The local server makes one for any user, at this address.
    FetchedFrom(Url),
}

/// The answer to an [`Ask`].
enum Reply {
    Inbox(Result<InboxResult, Error>),
    /// Of the conversation that was open when it was asked for.
    History(Option<ConversationId>, Result<HistoryResult, Error>),
    Read(Result<ReadResult, Error>),
    List(Result<InboxResult, Error>),
    Members(ConversationId, Result<MembersResult, Error>),
    Receipts(ConversationId, Result<ReceiptsResult, Error>),
    /// From the conversation that was open then.
    Made(With, Result<SendResult, Error>),
    Added(ClientMsgId, Result<AddResult, Error>),
    Left(ClientMsgId, Result<LeaveResult, Error>),
    Joined(With, ConversationId, Result<JoinResult, Error>),
    Channels(Listing, Result<ChannelsResult, Error>),
    Set(Result<(), Error>),
    Saved(PathBuf, Result<(), Error>),
    Presence(UserId, Result<Vec<Presence>, Error>),
    Ring {
        on: bool,
        answer: Result<(), Error>,
    },
    /// As that conversation was opened.
    Outbox(With, Vec<Queued>),
}

/// Members in one page of a list of them.
const MEMBERS_AT_ONCE: u64 = 100;

/// The user's end of the conversation on the screen.
pub(crate) struct Talk {
    pub room: Room,
    endpoint: Endpoint,
    client: Client,
    events: Events,
    answers: FuturesUnordered<BoxFuture<'static, Reply>>,
    give_up_rx: UnboundedReceiver<anyhow::Error>,
}

impl Talk {
    /// Connects in the background.
    pub(crate) async fn start(endpoint: Endpoint, with: With) -> Result<Self> {
        let (give_up_tx, give_up_rx) = unbounded_channel();
        let (client, events) = Client::connect(configure(&endpoint, give_up_tx)).await?;
        let room = Room::new(endpoint.user_id.clone(), with);
        Ok(Self { room, endpoint, client, events, answers: FuturesUnordered::new(), give_up_rx })
    }

    /// The next news, which may be none; the error is the end. May be dropped while it waits.
    pub(crate) async fn news(&mut self) -> Result<Vec<News>> {
        tokio::select! {
            biased;
            Some(error) = self.give_up_rx.recv() => return Err(self.given_up(error)),
            Some(event) = self.events.next() => self.on_event(event)?,
            Some(answer) = self.answers.next() => match answer {
                Reply::Inbox(inbox) => self.room.listed(inbox),
                Reply::History(of, history) if of.as_ref() == self.room.id() => self.room.remembered(history),
                Reply::List(inbox) => self.room.told_list(inbox),
                Reply::Members(of, page) => self.room.members(&of, page),
                Reply::Receipts(of, page) => self.room.receipts(&of, page),
                Reply::Made(from, Ok(made)) => self.room.open_from(&from, made.conversation_id),
                Reply::Added(id, added) => self.room.added(&id, added),
                Reply::Left(id, Ok(left)) => self.room.left(&id, &left),
                Reply::Joined(from, id, Ok(_)) => self.room.open_from(&from, id),
                Reply::Channels(listing, page) => self.room.channels(listing, page),
                Reply::Saved(place, saved) => self.room.saved(&place, saved),
                Reply::Presence(of, presence) => self.room.present(&of, presence),
                Reply::Ring { on, answer } => self.room.rings(on, answer),
                Reply::Outbox(with, outbox) => self.room.unsent(&with, outbox, now()),
                Reply::Joined(_, _, Err(error)) | Reply::Read(Err(error)) | Reply::Set(Err(error)) => self.room.notice(&error),
                // Of a history, another conversation is open by now; of a group that was refused, there is an event.
                Reply::History(..) | Reply::Made(_, Err(_)) | Reply::Left(_, Err(_)) | Reply::Read(Ok(_)) | Reply::Set(Ok(())) => {}
            },
        }
        // Asked before the next event: to have read a message is to hold it, so it need not be acknowledged, too.
        self.ask_all();
        Ok(self.room.take_news())
    }

    /// Sends a message; gives the news of that.
    pub(crate) async fn say(&mut self, body: String) -> Vec<News> {
        if self.room.is_replaced() {
            self.client.wake();
        }
        if self.room.is_read_only() {
            self.room.refuse(&body);
            return self.room.take_news();
        }
        let (target, draft) = self.room.draft(&body);
        let sent = self.client.send(target, draft).await;
        self.queued(&sent, &body);
        self.room.take_news()
    }

    /// Does what the user commands with this line; gives the news of that.
    pub(crate) async fn command(&mut self, line: &str, command: Command) -> Vec<News> {
        match self.room.command(command) {
            Some(Wish::Change(id, seq, change)) => {
                let sent = match change {
                    Change::Edit { body, .. } => self.client.edit(&id, seq, body).await,
                    Change::Delete { .. } => self.client.delete(&id, seq).await,
                    Change::React { emoji, .. } => self.client.react(&id, seq, emoji).await,
                    Change::Reply { body, .. } => self.client.reply(&id, seq, self.room.draft(&body).1).await,
                };
                self.queued(&sent, line);
            }
            Some(Wish::Group(None, Act::Create { title, members })) => {
                self.create(NewGroup::new(title, members), line).await;
            }
            Some(Wish::Group(None, Act::Channel { title, members })) => {
                let channel = NewGroup::channel(title, members);
                self.create(NewGroup { join: Some(JoinBy::Open), ..channel }, line).await;
            }
            Some(Wish::Group(Some(id), Act::Leave)) => {
                let sent = self.client.leave(&id).await;
                self.queued(&sent, line);
                if let Ok(sent) = sent {
                    let id = sent.client_msg_id().clone();
                    self.answers.push(sent.stored().map(|left| Reply::Left(id, left)).boxed());
                }
            }
            Some(Wish::Group(Some(id), Act::Add(members))) => {
                let sent = self.client.add(&id, members).await;
                self.queued(&sent, line);
                if let Ok(sent) = sent {
                    let id = sent.client_msg_id().clone();
                    self.answers.push(sent.stored().map(|added| Reply::Added(id, added)).boxed());
                }
            }
            Some(Wish::Group(Some(id), act)) => {
                let sent = match act {
                    Act::Remove(user) => self.client.remove(&id, &user).await,
                    Act::Role(user, role) => self.client.role(&id, &user, role).await,
                    Act::Title(title) => self.client.update(&id, titled(title)).await,
                    Act::Create { .. } | Act::Channel { .. } | Act::Add(_) | Act::Leave => return Vec::new(),
                };
                self.queued(&sent, line);
            }
            Some(Wish::Send(path, caption)) => self.send_file(&path, &caption, line).await,
            Some(Wish::Cancel(client_msg_id)) => {
                if !self.client.cancel(&client_msg_id).await.unwrap_or(false) {
                    self.room.too_late();
                }
            }
            // What is there stays.
            Some(Wish::Save(_, place)) if place.exists() => {
                self.room.saved(&place, Err(Error::File(format!("{} is there already", place.display()))));
            }
            Some(Wish::Save(message, place)) => {
                let client = self.client.clone();
                let save = async move {
                    let saved = client.download(&message, &place).await;
                    Reply::Saved(place, saved)
                };
                self.answers.push(save.boxed());
            }
            Some(Wish::Open(with)) => self.room.open_other(with),
            Some(Wish::Group(None, _)) | None => {}
        }
        self.ask_all();
        self.room.take_news()
    }

    async fn send_file(&mut self, path: &Path, caption: &str, line: &str) {
        match attachment(path) {
            Ok(attachment) => {
                let (target, draft) = self.room.draft(caption);
                let sent = self.client.send_media(target, attachment.caption(draft)).await;
                self.queued(&sent, line);
            }
            Err(problem) => self.room.not_said(line, &Error::File(problem)),
        }
    }

    async fn create(&mut self, group: NewGroup, line: &str) {
        let sent = self.client.create(group).await;
        self.queued(&sent, line);
        let from = self.room.with().clone();
        self.answers.extend(sent.map(|sent| sent.stored().map(|made| Reply::Made(from, made)).boxed()));
    }

    fn queued<T>(&mut self, sent: &Result<Sent<T>, Error>, line: &str) {
        match sent {
            Ok(sent) => self.room.said(sent.queued().clone(), now()),
            Err(error) => self.room.not_said(line, error),
        }
    }

    /// The user is writing.
    pub(crate) fn typing(&self) {
        if let Some(id) = self.room.id().filter(|id| !id.is_channel() && !self.room.is_read_only()) {
            self.client.typing(id);
        }
    }

    /// Tries at once what waits.
    pub(crate) fn wake(&self) {
        self.client.wake();
    }

    /// Says goodbye to the server.
    pub(crate) async fn leave(self) {
        // A server that does not answer must not keep the user here.
        let _ = timeout(LEAVE_WAIT, self.client.close()).await;
    }

    fn on_event(&mut self, event: Event) -> Result<()> {
        let event = match event {
            Event::State(State::Offline { why, retry_at }) => {
                if let Some(error) = hopeless(&self.endpoint, &why) {
                    return Err(self.given_up(error));
                }
                Event::State(State::Offline { why: explain(&self.endpoint, why), retry_at })
            }
            Event::Typing { conversation_id, user_id, .. } => {
                self.room.typing(&conversation_id, &user_id, Instant::now());
                return Ok(());
            }
            other => other,
        };
        self.room.event(event);
        Ok(())
    }

    /// The end, with what it leaves behind: nothing of that is kept.
    fn given_up(&self, error: anyhow::Error) -> anyhow::Error {
        match self.room.unanswered() {
            0 => error,
            unanswered => error.context(format!("left with {unanswered} of your messages unanswered")),
        }
    }

    /// The user wants to see what is older than all that is here.
    pub(crate) fn look_back(&mut self) {
        self.room.look_back();
        self.ask_all();
    }

    fn ask_all(&mut self) {
        for ask in self.room.take_asks() {
            self.answers.extend(self.ask(ask));
        }
    }

    fn ask(&self, ask: Ask) -> Option<BoxFuture<'static, Reply>> {
        Some(match ask {
            // What comes of these are events.
            Ask::Watch { conversation_id, after } => {
                drop(self.client.watch(&conversation_id, Some(after)));
                return None;
            }
            Ask::Unwatch(conversation_id) => {
                self.client.unwatch(&conversation_id);
                return None;
            }
            Ask::Inbox { cursor } => self.client.inbox(cursor).map(Reply::Inbox).boxed(),
            Ask::History { conversation_id, side, limit } => {
                let history = self.client.history(&conversation_id, side, limit);
                history.map(|history| Reply::History(Some(conversation_id), history)).boxed()
            }
            Ask::Read { conversation_id, seq } => {
                self.client.read(&conversation_id, seq).into_future().map(Reply::Read).boxed()
            }
            Ask::Presence(of) => {
                let presence = self.client.presence(vec![of.clone()]);
                presence.map(|presence| Reply::Presence(of, presence)).boxed()
            }
            Ask::List { cursor } => self.client.inbox(cursor).map(Reply::List).boxed(),
            Ask::Members { conversation_id, cursor } => {
                let page = self.client.members(&conversation_id, MEMBERS_AT_ONCE, cursor);
                page.map(|page| Reply::Members(conversation_id, page)).boxed()
            }
            Ask::Receipts { conversation_id, cursor } => {
                let page = self.client.receipts(&conversation_id, MEMBERS_AT_ONCE, cursor);
                page.map(|page| Reply::Receipts(conversation_id, page)).boxed()
            }
            Ask::Ring(registration) => {
                let on = registration.is_some();
                let answer = self.client.register_device(registration).into_future();
                answer.map(move |answer| Reply::Ring { on, answer }).boxed()
            }
            Ask::Outbox => {
                let (client, with) = (self.client.clone(), self.room.with().clone());
                // Whoever ends the client sees nothing more.
                async move { Reply::Outbox(with, client.outbox().await.unwrap_or_default()) }.boxed()
            }
            Ask::Settings(settings) => self.client.settings(settings).into_future().map(Reply::Set).boxed(),
            Ask::Join(id) => {
                let from = self.room.with().clone();
                self.client.join(&id).map(|joined| Reply::Joined(from, id, joined)).boxed()
            }
            Ask::Channels(listing, cursor) => {
                self.client.channels(cursor).map(move |page| Reply::Channels(listing, page)).boxed()
            }
        })
    }
}

fn now() -> Timestamp {
    let millis = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000;
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}

/// Why another try would end the same way.
fn hopeless(Endpoint { url, token, .. }: &Endpoint, why: &Why) -> Option<anyhow::Error> {
    match (why, token) {
        (Why::TokenExpired, Token::Given(_)) => {
            Some(anyhow!("the token has expired: start again with a fresh --token"))
        }
        (Why::TokenRefused { status }, Token::FetchedFrom(_)) => {
            Some(anyhow!("{url} refused its own token ({})", status_line(*status)))
        }
        (Why::Refused { status: 429 | 500.. }, _) => None,
        (Why::Refused { status }, _) => {
            Some(anyhow!("{url} is no WebSocket API ({}): is the stage in the path, as in /v1?", status_line(*status)))
        }
        _ => None,
    }
}

/// In the words of somebody who knows the command line.
fn explain(Endpoint { url, token, .. }: &Endpoint, why: Why) -> Why {
    match (why, token) {
        (Why::Unreachable(_), Token::FetchedFrom(_)) => Why::NoToken(no_local_server(url)),
        (why, _) => why,
    }
}

fn status_line(status: u16) -> String {
    StatusCode::from_u16(status).map_or_else(|_| status.to_string(), |status| status.to_string())
}

fn configure(endpoint: &Endpoint, give_up_tx: UnboundedSender<anyhow::Error>) -> Config {
    let Endpoint { url, user_id, token } = endpoint;
    let (token, server) = (token.clone(), Arc::new(url.clone()));
    let give_token = move |need| get_token(token.clone(), need, Arc::clone(&server), give_up_tx.clone());
    Config::new(url.as_str(), user_id.as_str(), give_token)
}

async fn get_token(
    token: Token,
    need: TokenNeed,
    server: Arc<Url>,
    give_up_tx: UnboundedSender<anyhow::Error>,
) -> Result<String, TokenError> {
    let hopeless = |error: anyhow::Error| {
        let text = error.to_string();
        // Received, unless the end has come already for another reason.
        let _ = give_up_tx.send(error);
        TokenError::from(text)
    };
    match (token, need) {
        (Token::Given(_), TokenNeed::Refused(status)) => Err(hopeless(anyhow!(
            "{server} refused the token ({}): is it for this server, and not expired?",
            status_line(status)
        ))),
        (Token::Given(token), _) => Ok(token),
        (Token::FetchedFrom(url), _) => match fetch_token(&url).await {
            Ok(token) => Ok(token),
            Err(error) if error.is_connect() => Err(no_local_server(&server).into()),
            Err(error) if error.status().is_some_and(|status| status.is_client_error()) => Err(hopeless(anyhow!(
                "{server} gives no tokens: is it Pigeonhole's local server? Otherwise --token is needed"
            ))),
            Err(error) => Err(format!("no token from {server}: {error}").into()),
        },
    }
}

fn no_local_server(url: &Url) -> String {
    format!("no server at {url}: start one with `cargo run` in another terminal")
}

async fn fetch_token(from: &Url) -> reqwest::Result<String> {
    #[derive(serde::Deserialize)]
    struct Fetched {
        token: String,
    }
    // The server is on this machine, whatever proxy the environment names.
    let http = reqwest::Client::builder().no_proxy().timeout(FETCH_WAIT).build()?;
    let fetched = http.get(from.clone()).send().await?.error_for_status()?.json::<Fetched>().await?;
    Ok(fetched.token)
}
