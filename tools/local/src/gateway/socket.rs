//! One socket from its upgrade to its `$disconnect`: what comes in, what goes out, and every way to end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::connections::{Connection, Receivers};
use super::events::{self, Origin};
use super::{FRAME_BYTES_MAX, Gateway, MESSAGE_BYTES_MAX, developer};

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Messages of one socket without a reply yet; at this number reading pauses.
const IN_FLIGHT_MAX: usize = 64;
/// For the client to take our close frame, and for us to take what it had sent before it did.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// How a socket came to its end.
enum End {
    /// The client closed it, with or without saying why.
    ByClient(Option<CloseFrame>),
    ByServer(CloseFrame),
    /// The connection broke without a close frame.
    Lost,
}

pub(super) async fn serve(gateway: Arc<Gateway>, origin: Origin, upgrading: OnUpgrade) {
    let (connection, receivers) = Connection::new(origin, gateway.concurrency.of_socket);
    let Ok(io) = upgrading.await else {
        return disconnected(&gateway, &connection, &End::Lost).await;
    };
    let mut config = WebSocketConfig::default();
    config.max_frame_size = Some(FRAME_BYTES_MAX);
    config.max_message_size = Some(MESSAGE_BYTES_MAX);
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(io), Role::Server, Some(config)).await;
    let (mut sink, mut stream) = socket.split();

    gateway.connections.add(&connection);
    let end = talk(&gateway, &connection, receivers, &mut sink, &mut stream).await;
    gateway.connections.remove(&connection.origin.connection_id);
    // A template without these tables has no phones.
    let _ = developer::catch_up(&gateway, &connection.origin);
    let goodbye = timeout(GOODBYE_MAX, say_goodbye(sink, stream, &end));
    // The client may not take part in its goodbye, so nothing waits for that.
    let _ = tokio::join!(goodbye, disconnected(&gateway, &connection, &end));
}

/// Carries frames both ways until there is a reason to stop.
async fn talk(
    gateway: &Arc<Gateway>,
    connection: &Arc<Connection>,
    receivers: Receivers,
    sink: &mut SplitSink<Socket, Message>,
    stream: &mut SplitStream<Socket>,
) -> End {
    let Receivers { frame_rx, mut close_rx } = receivers;
    tokio::select! {
        end = receive(gateway, connection, stream) => end,
        end = send(connection, frame_rx, sink) => end,
        Some(frame) = close_rx.recv() => End::ByServer(frame),
        () = connection.idle(gateway.limits.idle_max) => End::ByServer(going_away()),
        () = sleep(gateway.limits.lifetime_max) => End::ByServer(going_away()),
        () = gateway.stop.cancelled() => End::ByServer(going_away()),
    }
}

async fn receive(gateway: &Arc<Gateway>, connection: &Arc<Connection>, stream: &mut SplitStream<Socket>) -> End {
    let turns = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    loop {
        // The semaphore is never closed, so there is always a turn to wait for.
        let turn = Arc::clone(&turns).acquire_owned().await;
        match stream.next().await {
            Some(Ok(Message::Text(text))) => {
                connection.touch();
                let (gateway, connection) = (Arc::clone(gateway), Arc::clone(connection));
                let tasks = gateway.tasks.clone();
                tasks.spawn(async move {
                    gateway.on_message(&connection, &text).await;
                    drop(turn);
                });
            }
            Some(Ok(Message::Binary(_))) => return refuse(CloseCode::Unsupported, "binary frames are not supported"),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Ok(Message::Close(frame))) => return End::ByClient(frame),
            Some(Err(Error::Capacity(_))) => return refuse(CloseCode::Size, "message too big"),
            Some(Err(Error::Utf8(_))) => return refuse(CloseCode::Invalid, "not UTF-8"),
            Some(Err(Error::Protocol(error))) if error != ResetWithoutClosingHandshake => {
                return refuse(CloseCode::Protocol, "protocol error");
            }
            Some(Err(_)) | None => return End::Lost,
        }
    }
}

async fn send(
    connection: &Connection,
    mut frame_rx: mpsc::Receiver<Utf8Bytes>,
    sink: &mut SplitSink<Socket, Message>,
) -> End {
    while let Some(text) = frame_rx.recv().await {
        if sink.send(Message::Text(text)).await.is_err() {
            return End::Lost;
        }
        connection.touch();
    }
    End::Lost
}

fn refuse(code: CloseCode, reason: &'static str) -> End {
    End::ByServer(CloseFrame { code, reason: reason.into() })
}

fn going_away() -> CloseFrame {
    CloseFrame { code: CloseCode::Away, reason: "Going away".into() }
}

/// Replies to a close, or closes our direction and then reads the remaining bytes. With unread bytes the kernel would
/// reset the connection, and the client might never see the reason.
async fn say_goodbye(sink: SplitSink<Socket, Message>, stream: SplitStream<Socket>, end: &End) {
    let Ok(mut socket) = sink.reunite(stream) else {
        return;
    };
    // Each step fails only where the client is gone already.
    match end {
        End::Lost => return,
        // The library has queued the reply to the client's close frame, and accepts no further frame.
        End::ByClient(_) => {
            let _ = socket.flush().await;
        }
        End::ByServer(frame) => {
            let _ = socket.close(Some(frame.clone())).await;
        }
    }
    let io = socket.get_mut();
    let _ = io.shutdown().await;
    let mut rest = [0; 4096];
    while let Ok(1..) = io.read(&mut rest).await {}
}

async fn disconnected(gateway: &Gateway, connection: &Connection, end: &End) {
    let Some(route) = gateway.api.routes.get("$disconnect").filter(|_| !gateway.lose_disconnects) else {
        return;
    };
    let (code, reason) = match end {
        End::ByClient(None) => (CloseCode::Status.into(), "Client-side close frame status not set".to_owned()),
        End::ByClient(Some(frame)) | End::ByServer(frame) => (frame.code.into(), frame.reason.to_string()),
        End::Lost => (CloseCode::Abnormal.into(), "Connection closed abnormally".to_owned()),
    };
    let event = events::disconnect(&connection.origin, code, &reason);
    // No client is left; a failure has been logged.
    let _ = gateway.integrate(&route.function, &event).await;
}
