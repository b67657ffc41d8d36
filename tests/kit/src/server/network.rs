//! The network between a client and the server, which breaks when told to.

use std::io::Cursor;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;

use super::TestServer;

/// Gets the content of each frame, in both directions.
type Watch = dyn Fn(&[u8]) + Send + Sync;

/// A way to the server that can break.
pub struct Network {
    address: SocketAddr,
    path: String,
    open: Arc<Mutex<JoinSet<()>>>,
    /// While set, nothing from the server gets through.
    muted: Arc<AtomicBool>,
    _accepting: JoinSet<()>,
}

impl Network {
    pub async fn to(server: &TestServer) -> Self {
        Self::watched(server, |_| {}).await
    }

    /// Creates a network that shows the content of each frame, from the client and from the server.
    pub async fn watched(server: &TestServer, watch: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        let watch: Arc<Watch> = Arc::new(watch);
        let url = server.url().strip_prefix("ws://").expect("a connection without TLS");
        let (server, path) = url.split_once('/').unwrap();
        let (server, path) = (server.to_owned(), path.to_owned());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (open, muted) = (Arc::new(Mutex::new(JoinSet::new())), Arc::new(AtomicBool::new(false)));
        let mut accepting = JoinSet::new();
        let (connections, server_muted) = (Arc::clone(&open), Arc::clone(&muted));
        accepting.spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(&server).await.unwrap();
                connections.lock().unwrap().spawn(relay(near, far, Arc::clone(&server_muted), Arc::clone(&watch)));
            }
        });
        Self { address, path, open, muted, _accepting: accepting }
    }

    /// Where a client connects to go this way.
    pub fn url(&self) -> String {
        format!("ws://{}/{}", self.address, self.path)
    }

    /// Breaks every connection, wherever it stands: neither side sends a close frame.
    pub fn cut(&self) {
        *self.open.lock().unwrap() = JoinSet::new();
    }

    /// From now on nothing from the server gets through.
    pub fn mute_server(&self) {
        self.muted.store(true, Ordering::Relaxed);
    }
}

async fn relay(near: TcpStream, far: TcpStream, muted: Arc<AtomicBool>, watch: Arc<Watch>) {
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    let never = AtomicBool::new(false);
    tokio::select! {
        () = copy(near_in, far_out, &never, &watch) => {}
        () = copy(far_in, near_out, &muted, &watch) => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    muted: &AtomicBool,
    watch: &Arc<Watch>,
) {
    let (mut buffer, mut frames) = (vec![0; 4096], Frames::default());
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        frames.take(&buffer[..read], watch);
        if !muted.load(Ordering::Relaxed) && to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
    }
}

/// The frames of one direction.
#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
    is_upgraded: bool,
}

impl Frames {
    fn take(&mut self, bytes: &[u8], watch: &Arc<Watch>) {
        self.bytes.extend(bytes);
        if !self.is_upgraded {
            let Some(end) = self.bytes.windows(4).position(|part| part == b"\r\n\r\n") else { return };
            self.bytes.drain(..end + 4);
            self.is_upgraded = true;
        }
        loop {
            let mut cursor = Cursor::new(&self.bytes);
            let Ok(Some((header, length))) = FrameHeader::parse(&mut cursor) else { return };
            let begin = usize::try_from(cursor.position()).unwrap();
            let end = begin + usize::try_from(length).unwrap();
            let Some(content) = self.bytes.get_mut(begin..end) else { return };
            let masks = header.mask.unwrap_or_default();
            content.iter_mut().zip(masks.into_iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
            watch(content);
            self.bytes.drain(..end);
        }
    }
}
