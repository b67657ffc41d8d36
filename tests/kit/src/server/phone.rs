//! The simplest client: it sends what a test tells it to, and sorts what comes back. Every frame it sees, in either
//! direction, is held against the contract.

use std::collections::{BTreeMap, VecDeque};

use contract::{check_request, check_server_frame};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::users::Users;
use crate::PATIENCE;

/// A frame from the server.
pub type Frame = Value;

/// The status with which an upgrade was refused.
#[derive(Debug, PartialEq, Eq)]
pub struct ConnectError(pub u16);

pub struct Phone {
    pub user: String,
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// Frames that came while the test waited for another one.
    kept: VecDeque<Frame>,
    asked: u64,
    users: Users,
    /// The contract's verdict on each request sent, by id.
    sent: BTreeMap<String, Result<(), String>>,
}

impl Phone {
    /// With the token in the `Authorization` header.
    pub async fn connect(user: &str, url: &str, token: &str) -> Result<Self, ConnectError> {
        Self::connect_with(user, url, &[("authorization", &format!("Bearer {token}"))]).await.map(|(phone, _)| phone)
    }

    /// With these headers, and the response of the upgrade.
    pub async fn connect_with(
        user: &str,
        url: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<(Self, Response), ConnectError> {
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, HeaderValue::from_str(value).unwrap());
        }
        match timeout(PATIENCE, connect_async(request)).await.expect("the upgrade is answered") {
            Ok((socket, response)) => {
                let (user, kept, sent) = (user.to_owned(), VecDeque::new(), BTreeMap::new());
                Ok((Self { user, socket, kept, asked: 0, users: Users::plain(), sent }, response))
            }
            Err(Error::Http(response)) => Err(ConnectError(response.status().as_u16())),
            Err(error) => panic!("the upgrade failed: {error}"),
        }
    }

    /// From here on, frames name users as the test does.
    pub(crate) fn among(self, users: Users) -> Self {
        Self { users, ..self }
    }

    /// Sends a request and waits for its answer, reply or error. Events that come meanwhile are kept.
    pub async fn ask(&mut self, request: Value) -> Frame {
        let id = self.start(request).await;
        self.answer(&id).await
    }

    /// Sends a request under a fresh id, and does not wait.
    pub async fn start(&mut self, mut request: Value) -> String {
        self.asked += 1;
        let id = format!("r{}", self.asked);
        request["id"] = json!(id);
        self.users.to_ids(&mut request);
        self.send_text(&request.to_string()).await;
        id
    }

    /// The answer to the request with that id.
    pub async fn answer(&mut self, id: &str) -> Frame {
        self.wait_for(|frame| frame["id"] == id).await
    }

    /// The result of a request that succeeds.
    pub async fn ok(&mut self, request: Value) -> Value {
        let mut answer = self.ask(request).await;
        assert_eq!(answer["type"], "reply", "{answer}");
        answer["result"].take()
    }

    /// The code of a request that is refused.
    pub async fn refused(&mut self, request: Value) -> String {
        let answer = self.ask(request).await;
        assert_eq!(answer["type"], "error", "{answer}");
        answer["error"]["code"].as_str().unwrap().to_owned()
    }

    pub async fn send(&mut self, to: &str, client_msg_id: &str, body: &str) -> Value {
        self.ok(json!({"action": "send", "to": to, "client_msg_id": client_msg_id, "kind": "text", "body": body})).await
    }

    pub async fn ack(&mut self, conversation_id: &str, seq: u64) {
        let entry = json!({"conversation_id": conversation_id, "seq": seq});
        assert_eq!(self.ok(json!({"action": "ack", "up_to": [entry]})).await, json!({}));
    }

    /// Reads up to an entry. Returns the number of unread messages.
    pub async fn read(&mut self, conversation_id: &str, seq: u64) -> u64 {
        let result = self.ok(json!({"action": "read", "conversation_id": conversation_id, "seq": seq})).await;
        result["unread"].as_u64().unwrap()
    }

    pub async fn pending(&mut self) -> bool {
        self.ok(json!({"action": "ping"})).await["pending"].as_bool().unwrap()
    }

    /// The conversations of the first page of the chat list.
    pub async fn inbox(&mut self) -> Vec<Value> {
        self.ok(json!({"action": "inbox", "limit": 50})).await["conversations"].as_array().unwrap().clone()
    }

    /// The chat list's row for the conversation with this user.
    pub async fn conversation(&mut self, peer: &str) -> Value {
        self.inbox().await.into_iter().find(|row| row["peer_id"] == peer).expect("the conversation is in the inbox")
    }

    pub async fn history(&mut self, conversation_id: &str) -> Value {
        self.ok(json!({"action": "history", "conversation_id": conversation_id, "limit": 100})).await
    }

    /// Everything that is pending, page by page, each acknowledged by the next request.
    pub async fn drain(&mut self) -> Vec<Value> {
        let (mut all, mut request) = (Vec::new(), json!({"action": "drain"}));
        loop {
            let page = self.ok(request).await;
            let messages = page["messages"].as_array().unwrap().clone();
            if messages.is_empty() {
                assert_eq!(page["more"], false, "a page without messages is the last");
                return all;
            }
            request = json!({"action": "drain", "ack": up_to(&messages)});
            all.extend(messages);
        }
    }

    /// The next event of this type. Others are kept.
    pub async fn event(&mut self, kind: &str) -> Frame {
        self.wait_for(|frame| frame["type"] == kind).await
    }

    /// That no event has come: everything the server sent before it answers a ping has arrived by then.
    pub async fn expect_silence(&mut self) {
        self.pending().await;
        assert_eq!(self.kept, VecDeque::<Frame>::new(), "{} expected no events", self.user);
    }

    /// The next frame that fits.
    pub async fn wait_for(&mut self, fits: impl Fn(&Frame) -> bool) -> Frame {
        if let Some(at) = self.kept.iter().position(&fits) {
            return self.kept.remove(at).unwrap();
        }
        loop {
            let frame = self.next().await.expect("the socket is open");
            if fits(&frame) {
                return frame;
            }
            self.kept.push_back(frame);
        }
    }

    async fn next(&mut self) -> Result<Frame, Option<CloseCode>> {
        loop {
            let message = timeout(PATIENCE, self.socket.next()).await;
            match message.unwrap_or_else(|_| panic!("{} got nothing that fits, but {:?}", self.user, self.kept)) {
                Some(Ok(Message::Text(text))) => {
                    let mut frame = serde_json::from_str(&text).expect("frames are JSON");
                    self.check_contract(&frame);
                    self.users.to_names(&mut frame);
                    return Ok(frame);
                }
                Some(Ok(Message::Close(frame))) => return Err(frame.map(|frame| frame.code)),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// The server sends nothing that the contract doesn't know, serves no request that it refuses, and refuses none that it
    /// allows.
    fn check_contract(&self, frame: &Frame) {
        if let Err(problem) = check_server_frame(frame) {
            panic!("the contract has no such frame: {problem}");
        }
        let Some(request) = frame["id"].as_str().and_then(|id| self.sent.get(id)) else { return };
        let error = &frame["error"];
        // The contract can't tell whether a cursor is one that the server made, where a conversation ends, nor which is a group or a
        // channel.
        let of_kind = ["conversation_id: must", "join: must be left out", "client_msg_id: is missing"];
        let of_state = [&["cursor: ", "reply_to: ", "mentions: must be left out"][..], &of_kind].concat();
        let is_of_state = error["message"].as_str().is_some_and(|message| {
            of_state.iter().any(|field| message.starts_with(field)) || message.ends_with("channels need no ack")
        });
        match request {
            Err(problem) => assert_ne!(frame["type"], "reply", "served though the contract refuses it: {problem}"),
            Ok(()) => {
                assert!(
                    is_of_state || error["code"] != "bad_request",
                    "refused though the contract allows it: {frame}"
                );
            }
        }
    }

    pub async fn send_text(&mut self, text: &str) {
        if let Ok(request) = serde_json::from_str::<Value>(text)
            && let Some(id) = request["id"].as_str()
        {
            self.sent.insert(id.to_owned(), check_request(&request));
        }
        self.send_message(Message::text(text)).await;
    }

    pub async fn send_message(&mut self, message: Message) {
        self.socket.send(message).await.expect("the socket takes a frame");
    }

    /// The code with which the server closes the socket; `None` if it just goes. Frames before that are skipped.
    pub async fn closed(&mut self) -> Option<CloseCode> {
        loop {
            if let Err(code) = self.next().await {
                return code;
            }
        }
    }

    /// Repeats a frame, each after the reply to the one before, until the server closes the socket.
    pub async fn flood(&mut self, frame: &str) -> Option<CloseCode> {
        loop {
            if self.socket.send(Message::text(frame)).await.is_err() {
                return self.closed().await;
            }
            if let Err(code) = self.next().await {
                return code;
            }
        }
    }

    /// Closes the socket, and waits until the server has too.
    pub async fn leave(mut self) {
        self.socket.close(None).await.unwrap();
        self.closed().await;
    }

    /// Breaks the connection without a close frame, as in a tunnel.
    pub fn cut(self) {
        drop(self);
    }
}

/// The acknowledgement of these messages: the highest seq of each conversation.
fn up_to(messages: &[Value]) -> Value {
    let mut highest = serde_json::Map::new();
    for message in messages {
        highest.insert(message["conversation_id"].as_str().unwrap().to_owned(), message["seq"].clone());
    }
    highest.into_iter().map(|(conversation_id, seq)| json!({"conversation_id": conversation_id, "seq": seq})).collect()
}
