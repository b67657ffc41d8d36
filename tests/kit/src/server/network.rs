//! The network between a client and the server, which breaks when told to.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::TestServer;

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
                connections.lock().unwrap().spawn(relay(near, far, Arc::clone(&server_muted)));
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

async fn relay(near: TcpStream, far: TcpStream, muted: Arc<AtomicBool>) {
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    let down = async {
        let mut buffer = vec![0; 4096];
        while let Ok(read @ 1..) = far_in.read(&mut buffer).await {
            if !muted.load(Ordering::Relaxed) && near_out.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        _ = copy(&mut near_in, &mut far_out) => {}
        () = down => {}
    }
}
