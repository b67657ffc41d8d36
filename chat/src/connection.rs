//! Drives a [`Session`] over WebSocket connections: dials, carries frames, and dials again when a connection ends.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use futures_util::{SinkExt, StreamExt};
use reqwest::Url;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{sleep_until, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode, header::AUTHORIZATION};
use tokio_tungstenite::tungstenite::{self, Message as Ws};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::session::{Event, Session, Verdict, jitter};

const DIAL_WAIT: Duration = Duration::from_secs(10);
const WRITE_WAIT: Duration = Duration::from_secs(10);
const CLOSE_WAIT: Duration = Duration::from_secs(1);
const RECONNECT_FIRST: Duration = Duration::from_millis(500);
const RECONNECT_MAX: Duration = Duration::from_secs(30);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Where to connect, and as whom.
pub(crate) struct Endpoint {
    pub url: Url,
    pub device_id: String,
    pub token: Token,
}

pub(crate) enum Token {
    /// Given once; it can't be renewed here.
    Given(String),
    /// The local server makes one for any user, at this address.
    FetchedFrom(Url),
}

pub(crate) enum News {
    Connecting,
    Online,
    Offline { why: String, retry_at: Instant },
    Event(Event),
}

/// Why there is no connection (any more).
enum Ended {
    /// The user has left.
    Left,
    /// Worth another try.
    Lost(String),
    TokenExpired,
    /// Another try would end the same way.
    Refused(anyhow::Error),
}

pub(crate) struct Client {
    pub session: Session,
    pub endpoint: Endpoint,
    /// Messages to send; its end is the user's leave.
    pub outgoing: UnboundedReceiver<String>,
    pub news: UnboundedSender<News>,
}

impl Client {
    /// Stays connected until the user leaves, which is `Ok`, or the server refuses them.
    pub(crate) async fn run(mut self) -> Result<()> {
        let mut attempt = 0;
        loop {
            self.tell(News::Connecting);
            let ended = match dial(&self.endpoint).await {
                Ok(socket) => self.converse(socket, &mut attempt).await,
                Err(ended) => ended,
            };
            self.session.disconnected();
            let why = match ended {
                Ended::Left => return Ok(()),
                Ended::Refused(error) => return Err(error),
                Ended::TokenExpired if matches!(self.endpoint.token, Token::Given(_)) => {
                    bail!("the token has expired: start again with a fresh --token")
                }
                Ended::TokenExpired => "the token has expired".to_owned(),
                Ended::Lost(why) => why,
            };
            let delay = jitter(&mut fastrand::Rng::new(), RECONNECT_FIRST, RECONNECT_MAX, attempt);
            attempt += 1;
            let retry_at = Instant::now() + delay;
            self.tell(News::Offline { why, retry_at });
            if self.pause(retry_at).await {
                return Ok(());
            }
        }
    }

    /// Waits for the next try; messages written meanwhile go to the outbox. True: the user has left.
    async fn pause(&mut self, until: Instant) -> bool {
        loop {
            tokio::select! {
                () = sleep_until(until.into()) => return false,
                said = self.outgoing.recv() => match said {
                    Some(body) => self.say(body),
                    None => return true,
                },
            }
            self.tell_events();
        }
    }

    async fn converse(&mut self, mut socket: Socket, attempt: &mut u32) -> Ended {
        self.tell(News::Online);
        self.session.connected(Instant::now());
        loop {
            if let Err(why) = self.flush(&mut socket).await {
                return Ended::Lost(why);
            }
            let tick_at = self.session.next_tick().unwrap_or_else(|| Instant::now() + RECONNECT_MAX);
            let verdict = tokio::select! {
                frame = socket.next() => match frame {
                    Some(Ok(Ws::Text(text))) => {
                        // Only a server that answers makes the next reconnect a quick one.
                        *attempt = 0;
                        self.session.received(&text, Instant::now())
                    }
                    Some(Ok(Ws::Close(_))) | None => return Ended::Lost("the server closed the connection".to_owned()),
                    Some(Ok(_)) => Verdict::Keep,
                    Some(Err(error)) => return Ended::Lost(format!("connection lost: {error}")),
                },
                said = self.outgoing.recv() => match said {
                    Some(body) => {
                        self.say(body);
                        Verdict::Keep
                    }
                    None => return self.leave(socket).await,
                },
                () = sleep_until(tick_at.into()) => self.session.tick(Instant::now()),
            };
            match verdict {
                Verdict::Keep => {}
                Verdict::Dead => return Ended::Lost("the server has stopped answering".to_owned()),
                Verdict::TokenExpired => return Ended::TokenExpired,
            }
        }
    }

    fn say(&mut self, body: String) {
        self.session.say(uuid::Uuid::new_v4().to_string(), body, Instant::now());
    }

    async fn flush(&mut self, socket: &mut Socket) -> Result<(), String> {
        self.tell_events();
        for frame in self.session.take_frames() {
            match timeout(WRITE_WAIT, socket.send(Ws::text(frame))).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(format!("connection lost: {error}")),
                Err(_) => return Err("the connection has stalled".to_owned()),
            }
        }
        Ok(())
    }

    async fn leave(&mut self, mut socket: Socket) -> Ended {
        self.session.leaving(Instant::now());
        // The user is gone: a socket that can't be closed properly is closed by the end of the process.
        if self.flush(&mut socket).await.is_ok() && socket.close(None).await.is_ok() {
            let until_closed = async { while let Some(Ok(_)) = socket.next().await {} };
            drop(timeout(CLOSE_WAIT, until_closed).await);
        }
        Ended::Left
    }

    fn tell_events(&mut self) {
        for event in self.session.take_events() {
            self.tell(News::Event(event));
        }
    }

    fn tell(&self, news: News) {
        // Whoever listened has left; the other channel says so, too.
        drop(self.news.send(news));
    }
}

async fn dial(endpoint: &Endpoint) -> Result<Socket, Ended> {
    let token = match &endpoint.token {
        Token::Given(token) => token.clone(),
        Token::FetchedFrom(url) => fetch_token(url, &endpoint.url).await?,
    };
    let mut url = endpoint.url.clone();
    url.query_pairs_mut().append_pair("device_id", &endpoint.device_id);
    let unusable = |error: tungstenite::Error| Ended::Refused(anyhow!("{}: {error}", endpoint.url));
    let mut request = url.as_str().into_client_request().map_err(unusable)?;
    let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| Ended::Refused(anyhow!("the token holds characters that no token has")))?;
    bearer.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, bearer);
    match timeout(DIAL_WAIT, connect_async(request)).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(tungstenite::Error::Http(response))) => Err(upgrade_refused(endpoint, response.status())),
        Ok(Err(error @ tungstenite::Error::Url(_))) => Err(unusable(error)),
        Ok(Err(error)) => Err(unreachable_server(endpoint, &error)),
        Err(_) => Err(Ended::Lost(format!("no answer from {}", endpoint.url))),
    }
}

fn upgrade_refused(endpoint: &Endpoint, status: StatusCode) -> Ended {
    let url = &endpoint.url;
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => match endpoint.token {
            Token::Given(_) => {
                Ended::Refused(anyhow!("{url} refused the token ({status}): is it for this server, and not expired?"))
            }
            Token::FetchedFrom(_) => Ended::Refused(anyhow!("{url} refused its own token ({status})")),
        },
        StatusCode::TOO_MANY_REQUESTS => Ended::Lost(format!("{url} is busy ({status})")),
        status if status.is_server_error() => Ended::Lost(format!("{url} is in trouble ({status})")),
        status => Ended::Refused(anyhow!("{url} is no WebSocket API ({status}): is the stage in the path, as in /v1?")),
    }
}

fn unreachable_server(endpoint: &Endpoint, error: &tungstenite::Error) -> Ended {
    match endpoint.token {
        Token::FetchedFrom(_) => no_local_server(&endpoint.url),
        Token::Given(_) => Ended::Lost(format!("can't reach {}: {error}", endpoint.url)),
    }
}

fn no_local_server(url: &Url) -> Ended {
    Ended::Lost(format!("no server at {url}: start one with `cargo run` in another terminal"))
}

async fn fetch_token(from: &Url, server: &Url) -> Result<String, Ended> {
    #[derive(serde::Deserialize)]
    struct Fetched {
        token: String,
    }
    let fetch = async {
        // The server is on this machine, whatever proxy the environment names.
        let http = reqwest::Client::builder().no_proxy().timeout(DIAL_WAIT).build()?;
        http.get(from.clone()).send().await?.error_for_status()?.json::<Fetched>().await
    };
    match fetch.await {
        Ok(fetched) => Ok(fetched.token),
        Err(error) if error.is_connect() => Err(no_local_server(server)),
        Err(error) if error.status().is_some_and(|status| status.is_client_error()) => Err(Ended::Refused(anyhow!(
            "{server} gives no tokens: is it Pigeonhole's local server? Otherwise --token is needed"
        ))),
        Err(error) => Err(Ended::Lost(format!("no token from {server}: {error}"))),
    }
}
