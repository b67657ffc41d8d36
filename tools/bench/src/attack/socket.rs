//! A cheap socket that classifies frames and checks nothing: thousands share one machine with the servers.

use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

pub(super) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

const PATIENCE: Duration = Duration::from_secs(10);

/// Opens a socket. The error is the status of the refusal, or 0 without a reply.
pub(super) async fn open(url: &str, token: &str) -> Result<Socket, u16> {
    let mut request = url.into_client_request().expect("a server has a URL");
    let bearer = HeaderValue::from_str(&format!("Bearer {token}")).expect("a token fits into a header");
    request.headers_mut().insert("authorization", bearer);
    // Without a delay: a small frame must not wait for the acknowledgement of the frame before.
    match timeout(PATIENCE, connect_async_with_config(request, None, true)).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(Error::Http(response))) => Err(response.status().as_u16()),
        Ok(Err(_)) | Err(_) => Err(0),
    }
}

/// A received frame.
pub(super) enum Heard {
    Reply(Value),
    Refusal(Value),
    /// The stage's throttle refused a request.
    Throttled,
    Event(Value),
    /// A frame of WebSocket itself, or API Gateway's own "Internal server error".
    Other,
    /// The server closed the socket, or it broke.
    End,
}

/// The result of `next` of a socket.
pub(super) fn heard(message: Option<Result<Message, Error>>) -> Heard {
    let text = match message {
        Some(Ok(Message::Text(text))) => text,
        Some(Ok(Message::Close(_)) | Err(_)) | None => return Heard::End,
        Some(Ok(_)) => return Heard::Other,
    };
    let frame: Value = serde_json::from_str(&text).unwrap_or_default();
    match frame["type"].as_str() {
        Some("reply") => Heard::Reply(frame),
        Some("error") => Heard::Refusal(frame),
        Some(_) => Heard::Event(frame),
        None if frame["message"] == "Too Many Requests" => Heard::Throttled,
        None => Heard::Other,
    }
}
