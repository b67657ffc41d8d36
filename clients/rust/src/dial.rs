//! One connection: opened, copied to and from, closed.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, SinkExt, StreamExt};
use pigeonhole_core::{Input, LinkId, token};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Uri, header::AUTHORIZATION};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};
use wire::DeviceId;

use crate::clock::system_time;
use crate::config::TokenSource;
use crate::poster::Poster;
use crate::{Config, Error, Timing, TokenNeed, Why};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Something that leaves while a connection is open.
pub(crate) enum Up {
    /// A frame on the connection.
    Frame(String),
    /// A frame over HTTP, with the token of the connection.
    Post { request: u64, action: &'static str, text: String },
}

pub(crate) struct Dialer {
    url: String,
    user_id: String,
    token: TokenSource,
    pub poster: Option<Poster>,
    pub timing: Timing,
}

impl Dialer {
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        let Config { url, user_id, device_id, timing, token, .. } = config;
        let uri: Uri = url.parse().map_err(|error| Error::Config(format!("{url}: {error}")))?;
        if !matches!(uri.scheme_str(), Some("ws" | "wss")) || uri.host().is_none_or(str::is_empty) {
            return Err(Error::Config(format!("{url} is no WebSocket address: it begins with wss:// and a host")));
        }
        let device_id = DeviceId::parse(device_id).map_err(|error| Error::Config(format!("the device id {error}")))?;
        let separator = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{separator}device_id={device_id}");
        Ok(Self {
            url,
            user_id: user_id.clone(),
            token: token.clone(),
            poster: Poster::new(config)?,
            timing: timing.clone(),
        })
    }

    /// Returns the open connection, and its token.
    async fn dial(&self, need: TokenNeed) -> Result<(Socket, String), Why> {
        // The app's own code: without a report of how the try ended, there would be no other.
        let token = AssertUnwindSafe(async { (self.token)(need).await }).catch_unwind().await;
        let token = token.map_err(|_| Why::NoToken("the token function has panicked".to_owned()))?;
        let token = token.map_err(|error| Why::NoToken(error.to_string()))?;
        if let Some(subject) = token::subject(&token).filter(|subject| *subject != self.user_id) {
            let user_id = &self.user_id;
            return Err(Why::WrongUser(format!(
                "the token is for the user {subject:?} (its sub), and the client for {user_id:?}: get a token for {user_id:?}"
            )));
        }
        let unusable = |error: tungstenite::Error| Why::Unreachable(error.to_string());
        let mut request = self.url.as_str().into_client_request().map_err(unusable)?;
        let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| Why::NoToken("the token holds characters that no token has".to_owned()))?;
        bearer.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, bearer);
        // Small frames that wait for a reply must not wait for each other.
        match connect_async_with_config(request, None, true).await {
            Ok((socket, _)) => Ok((socket, token)),
            Err(tungstenite::Error::Http(response)) => match response.status().as_u16() {
                status @ (401 | 403) => Err(Why::TokenRefused { status }),
                status => Err(Why::Refused { status }),
            },
            Err(error) => Err(unusable(error)),
        }
    }
}

/// Runs until the connection ends, or until the other end of `up_rx` is dropped.
pub(crate) async fn run_link(
    dialer: Arc<Dialer>,
    link: LinkId,
    need: TokenNeed,
    mut up_rx: UnboundedReceiver<Up>,
    input_tx: UnboundedSender<Input>,
) {
    let opened = tokio::select! {
        opened = timeout(dialer.timing.dial_wait, dialer.dial(need)) => opened,
        // Nothing is written before it is open: the client is being closed.
        _ = up_rx.recv() => return,
    };
    let opened =
        opened.unwrap_or_else(|_| Err(Why::Unreachable(format!("no answer within {:?}", dialer.timing.dial_wait))));
    let report = |input| {
        // If the client has ended, the receiver is gone.
        let _ = input_tx.send(input);
    };
    let (socket, token) = match opened {
        Ok(opened) => opened,
        Err(why) => return report(Input::Ended { link, why }),
    };
    report(Input::Opened { link, token_left: token::time_left(&token, system_time()) });
    let on_frame = |text: String| report(Input::Frame { link, text });
    // The end of the connection ends them.
    let mut posts = JoinSet::new();
    let on_post = |request, action, text| {
        while posts.try_join_next().is_some() {}
        let (poster, token, input_tx) = (dialer.poster.clone(), token.clone(), input_tx.clone());
        posts.spawn(async move {
            let Some(poster) = poster else { return };
            let (status, body) = poster.post(token, action, text).await;
            // If the client has ended, the receiver is gone.
            let _ = input_tx.send(Input::Posted { link, request, status, body });
        });
    };
    if let Some(why) = copy(socket, &mut up_rx, on_frame, on_post, &dialer.timing).await {
        report(Input::Ended { link, why });
    }
}

/// `None`: it was closed from here.
async fn copy(
    mut socket: Socket,
    up_rx: &mut UnboundedReceiver<Up>,
    on_frame: impl Fn(String),
    mut on_post: impl FnMut(u64, &'static str, String),
    timing: &Timing,
) -> Option<Why> {
    loop {
        tokio::select! {
            frame = socket.next() => match frame {
                Some(Ok(Message::Text(text))) => on_frame(text.to_string()),
                Some(Ok(Message::Close(_))) | None => return Some(Why::Closed),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Some(Why::Lost(error.to_string())),
            },
            up = up_rx.recv() => {
                let text = match up {
                    Some(Up::Frame(text)) => text,
                    Some(Up::Post { request, action, text }) => {
                        on_post(request, action, text);
                        continue;
                    }
                    None => {
                        close(socket, on_frame, timing.close_wait).await;
                        return None;
                    }
                };
                match timeout(timing.write_wait, socket.send(Message::text(text))).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return Some(Why::Lost(error.to_string())),
                    Err(_) => return Some(Why::Lost("it takes no more frames".to_owned())),
                }
            }
        }
    }
}

/// Closes the connection, and handles what still comes before the other side closes it.
async fn close(mut socket: Socket, on_frame: impl Fn(String), close_wait: Duration) {
    let goodbye = async {
        if socket.close(None).await.is_ok() {
            while let Some(Ok(frame)) = socket.next().await {
                if let Message::Text(text) = frame {
                    on_frame(text.to_string());
                }
            }
        }
    };
    // A connection that can't be closed properly is closed by being dropped.
    let _ = timeout(close_wait, goodbye).await;
}
