//! Between the client library and the screen: gives the one tokens, and the other what of its events belongs there.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use pigeonhole_client::{
    Client, Config, Error, Event as ClientEvent, Events, History, Inbox, State, TokenError, TokenNeed, Why,
};
use reqwest::{StatusCode, Url};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::room::{Ask, News, Room};

const FETCH_WAIT: Duration = Duration::from_secs(10);

/// Where to connect, and as whom.
pub(crate) struct Endpoint {
    pub url: Url,
    pub user_id: String,
    pub token: Token,
}

#[derive(Clone)]
pub(crate) enum Token {
    /// Given once; it can't be renewed here.
    Given(String),
    /// The local server makes one for any user, at this address.
    FetchedFrom(Url),
}

pub(crate) struct Connection {
    pub endpoint: Endpoint,
    pub room: Room,
    /// The user on the other side.
    pub peer: String,
    /// Messages to send; its end is the user's leave.
    pub outgoing: UnboundedReceiver<String>,
    pub news: UnboundedSender<News>,
}

/// The answer to an [`Ask`].
enum Answer {
    Inbox(Result<Inbox, Error>),
    History(Result<History, Error>),
    Read(Result<u64, Error>),
}

impl Connection {
    /// Stays connected until the user leaves, which is `Ok`, or the server refuses them.
    pub(crate) async fn run(self) -> Result<()> {
        let Self { endpoint, room, peer, outgoing, news } = self;
        let (give_up, mut hopeless) = unbounded_channel();
        let config = configure(&endpoint, give_up.clone());
        let (client, events) = Client::connect(config).await?;
        let talk = Talk { client: client.clone(), room, peer, news, endpoint, give_up };
        let ended = tokio::select! {
            biased;
            Some(error) = hopeless.recv() => Err(error),
            () = talk.run(events, outgoing) => Ok(()),
        };
        client.close().await;
        ended
    }
}

struct Talk {
    client: Client,
    room: Room,
    peer: String,
    news: UnboundedSender<News>,
    endpoint: Endpoint,
    give_up: UnboundedSender<anyhow::Error>,
}

impl Talk {
    async fn run(mut self, mut events: Events, mut outgoing: UnboundedReceiver<String>) {
        let mut answers = FuturesUnordered::new();
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => self.hear(event),
                    None => return,
                },
                said = outgoing.recv() => match said {
                    Some(body) => self.say(body).await,
                    None => return,
                },
                Some(answer) = answers.next() => match answer {
                    Answer::Inbox(inbox) => self.room.listed(inbox),
                    Answer::History(history) => self.room.remembered(history),
                    Answer::Read(Err(error)) => self.room.notice(&error),
                    Answer::Read(Ok(_)) => {}
                },
            }
            // Asked before the next event: to have read a message is to hold it, so it need not be acknowledged, too.
            for ask in self.room.take_asks() {
                answers.push(self.ask(ask));
            }
            for news in self.room.take_news() {
                // Whoever listened has left; the other channel says so, too.
                drop(self.news.send(news));
            }
        }
    }

    fn hear(&mut self, event: ClientEvent) {
        if let ClientEvent::State(State::Offline { why, .. }) = &event
            && let Some(error) = hopeless(&self.endpoint, why)
        {
            // Received, unless the end has come already for another reason.
            drop(self.give_up.send(error));
            return;
        }
        let event = match event {
            ClientEvent::State(State::Offline { why, retry_at }) => {
                ClientEvent::State(State::Offline { why: explain(&self.endpoint, why), retry_at })
            }
            other => other,
        };
        self.room.event(event);
    }

    async fn say(&mut self, body: String) {
        match self.client.send_to(&self.peer, &body).await {
            Ok(sent) => self.room.said(sent.client_msg_id(), body),
            Err(error) => self.room.not_said(body, &error),
        }
    }

    fn ask(&self, ask: Ask) -> BoxFuture<'static, Answer> {
        match ask {
            Ask::Inbox { cursor } => self.client.inbox(cursor).map(Answer::Inbox).boxed(),
            Ask::History { conversation_id, side, limit } => {
                self.client.history(&conversation_id, side, limit).map(Answer::History).boxed()
            }
            Ask::Read { conversation_id, seq } => self.client.read(&conversation_id, seq).map(Answer::Read).boxed(),
        }
    }
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

fn configure(endpoint: &Endpoint, give_up: UnboundedSender<anyhow::Error>) -> Config {
    let Endpoint { url, user_id, token } = endpoint;
    let (token, server) = (token.clone(), Arc::new(url.clone()));
    let give_token = move |need| get_token(token.clone(), need, Arc::clone(&server), give_up.clone());
    Config::new(url.as_str(), user_id.as_str(), give_token)
}

async fn get_token(
    token: Token,
    need: TokenNeed,
    server: Arc<Url>,
    give_up: UnboundedSender<anyhow::Error>,
) -> Result<String, TokenError> {
    let hopeless = |error: anyhow::Error| {
        let text = error.to_string();
        // Received, unless the end has come already for another reason.
        drop(give_up.send(error));
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
