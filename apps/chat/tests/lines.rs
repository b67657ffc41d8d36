//! The program itself, in line mode, against a server that is played here.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

const PATIENCE: Duration = Duration::from_secs(20);

struct Chat {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Chat {
    /// alice writes to bob.
    fn start(server: SocketAddr, token: Option<&str>) -> Result<Self> {
        Self::start_with("bob", server, token)
    }

    fn start_with(peer: &str, server: SocketAddr, token: Option<&str>) -> Result<Self> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chat"));
        command.args(["alice", peer, "--url", &format!("ws://{server}/v1")]).env_remove("PIGEONHOLE_TOKEN");
        command.args(token.map(|token| format!("--token={token}")));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("no stdout")?;
        Ok(Self { child, stdin, stdout: BufReader::new(stdout).lines() })
    }

    async fn say(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("closed")?;
        Ok(stdin.write_all(format!("{line}\n").as_bytes()).await?)
    }

    async fn line(&mut self) -> Result<String> {
        timeout(PATIENCE, self.stdout.next_line()).await??.context("no more lines")
    }

    async fn lines(&mut self, count: usize) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for _ in 0..count {
            lines.push(self.line().await?);
        }
        Ok(lines)
    }

    /// Ends standard input; what the program says at its own end.
    async fn end(mut self) -> Result<(ExitStatus, String)> {
        drop(self.stdin.take());
        let output = timeout(PATIENCE, self.child.wait_with_output()).await??;
        Ok((output.status, String::from_utf8(output.stderr)?))
    }
}

/// One connection of the chat, on the server's side.
struct Server {
    socket: WebSocketStream<TcpStream>,
    /// Requests that came while another was waited for.
    kept: VecDeque<Value>,
}

impl Server {
    async fn accept(listener: &TcpListener, bearer: &str) -> Result<Self> {
        let (stream, _) = timeout(PATIENCE, listener.accept()).await??;
        let mut seen = None;
        #[allow(clippy::result_large_err, reason = "the signature is the library's")]
        let note = |request: &Request, response: Response| {
            seen = Some((request.uri().to_string(), request.headers().get("authorization").cloned()));
            Ok(response)
        };
        let socket = accept_hdr_async(stream, note).await?;
        let (uri, authorization) = seen.context("no request")?;
        let device = uri.strip_prefix("/v1?device_id=").with_context(|| format!("no device: {uri}"))?;
        assert_eq!(device.len(), 36, "a UUID: {device}");
        assert_eq!(authorization.context("no authorization")?, format!("Bearer {bearer}"));
        Ok(Self { socket, kept: VecDeque::new() })
    }

    /// The next request with this action.
    async fn request(&mut self, action: &str) -> Result<Value> {
        if let Some(at) = self.kept.iter().position(|request| request["action"] == action) {
            return self.kept.remove(at).context("it was there");
        }
        while let Some(frame) = timeout(PATIENCE, self.socket.next()).await? {
            if let Message::Text(text) = frame? {
                let request: Value = serde_json::from_str(&text)?;
                if request.get("action") == Some(&json!(action)) {
                    return Ok(request);
                }
                self.kept.push_back(request);
            }
        }
        bail!("closed before {action}, after {:?}", self.kept)
    }

    async fn answer(&mut self, action: &str, result: Value) -> Result<Value> {
        let request = self.request(action).await?;
        self.reply(&request, result).await?;
        Ok(request)
    }

    async fn reply(&mut self, request: &Value, result: Value) -> Result<()> {
        self.push(json!({"type":"reply","action":request["action"],"id":request["id"],"result":result})).await
    }

    async fn push(&mut self, frame: Value) -> Result<()> {
        Ok(self.socket.send(Message::text(frame.to_string())).await?)
    }
}

async fn listen() -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn message(seq: u64, sender: &str, body: &str) -> Value {
    json!({"conversation_id":"dm_ab","seq":seq,"message_id":"x","sender_id":sender,"kind":"text","body":body,
        "sent_at":"2026-11-20T10:00:00.123Z"})
}

fn messages_new(message: &Value) -> Value {
    json!({"type":"messages.new","conversation_id":message.get("conversation_id"),"messages":[message]})
}

fn stored(seq: u64) -> Value {
    json!({"conversation_id":"dm_ab","seq":seq,"message_id":"x","sent_at":"2026-11-20T10:00:00.123Z","duplicate":false})
}

fn history(messages: &[Value], last_seq: u64) -> Value {
    json!({"messages":messages,"more":false,"last_seq":last_seq,"members":[
        {"user_id":"alice","delivered_seq":0,"read_seq":0},{"user_id":"bob","delivered_seq":0,"read_seq":0}]})
}

#[tokio::test]
async fn a_talk() -> Result<()> {
    let (listener, address) = listen().await?;
    let mut chat = Chat::start(address, Some("secret"))?;
    let mut server = Server::accept(&listener, "secret").await?;
    server.answer("drain", json!({"messages":[message(2, "bob", "are you there?")],"more":false})).await?;
    let ack = server.answer("ack", json!({})).await?;
    assert_eq!(ack["up_to"], json!([{"conversation_id":"dm_ab","seq":2}]));
    let last = json!({"seq":2,"sender_id":"bob","kind":"text","preview":"are","sent_at":"2026-11-20T10:00:00.123Z"});
    let row = json!({"conversation_id":"dm_ab","kind":"direct","peer_id":"bob","last_message":last,"unread":1,
        "delivered_seq":2,"read_seq":0,"last_seq":2});
    server.answer("inbox", json!({"conversations":[row],"next_cursor":null})).await?;
    let old = [message(1, "alice", "hi"), message(2, "bob", "are you there?")];
    server.answer("history", history(&old, 2)).await?;
    assert_eq!(server.answer("read", json!({"unread":0})).await?["seq"], 2);
    let start = ["-- connected", "you: hi ✓", "-- while you were away", "bob: are you there?", "-- up to date"];
    assert_eq!(chat.lines(5).await?, start);

    chat.say("yes").await?;
    assert_eq!(server.answer("send", stored(3)).await?["body"], "yes");
    assert_eq!(chat.line().await?, "you: yes ✓");
    server.push(json!({"type":"receipt.read","conversation_id":"dm_ab","user_id":"bob","seq":3,"at":"2026-11-20T10:00:00.123Z"})).await?;
    assert_eq!(chat.line().await?, "✓✓ read up to 3");
    server.push(messages_new(&message(4, "bob", "good\u{1b}[2J"))).await?;
    assert_eq!(chat.line().await?, "bob: good␛[2J");
    let mut other = message(1, "carol", "psst");
    other["conversation_id"] = json!("dm_ac");
    server.push(messages_new(&other)).await?;
    assert_eq!(chat.line().await?, "~ carol: psst");

    // The end of input waits for the answer.
    chat.say("bye").await?;
    let end = tokio::spawn(chat.end());
    server.answer("send", stored(5)).await?;
    while let Some(Ok(_)) = server.socket.next().await {}
    let (status, said) = end.await??;
    assert!(status.success(), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_talk_in_a_group() -> Result<()> {
    let (listener, address) = listen().await?;
    let mut chat = Chat::start_with("gr_ab", address, Some("secret"))?;
    let mut server = Server::accept(&listener, "secret").await?;
    server.answer("drain", json!({"messages":[],"more":false})).await?;
    let of_group = |mut message: Value| {
        message["conversation_id"] = json!("gr_ab");
        message
    };
    let mut created = of_group(message(1, "bob", ""));
    created["kind"] = json!("system");
    created["system"] = json!({"event":"created","title":"Trip","members":["bob","alice"]});
    let last = json!({"seq":1,"sender_id":"bob","kind":"system","preview":"","sent_at":"2026-11-20T10:00:00.123Z",
        "system":created.get("system")});
    let row = json!({"conversation_id":"gr_ab","kind":"group","title":"Trip","role":"member","member_count":2,
        "first_seq":1,"last_message":last,"unread":0,"mentions":0,"delivered_seq":1,"read_seq":1,"last_seq":1});
    server.answer("inbox", json!({"conversations":[row],"next_cursor":null})).await?;
    let history = json!({"messages":[created],"more":false,"last_seq":1,"first_seq":1,"members":[]});
    server.answer("history", history).await?;
    let members =
        json!([{"user_id":"alice","role":"member","joined_seq":1},{"user_id":"bob","role":"owner","joined_seq":1}]);
    assert_eq!(
        server.answer("members", json!({"members":members,"next_cursor":null})).await?["conversation_id"],
        "gr_ab"
    );
    server.answer("receipts", json!({"delivered_seq":1,"read_seq":1,"members":[],"next_cursor":null})).await?;
    let start =
        ["-- connected", "-- the group is called Trip", "-- bob made the group “Trip” with you", "-- up to date"];
    assert_eq!(chat.lines(4).await?, start);

    chat.say("hi @bob and @carol").await?;
    let sent = server.answer("send", of_group(stored(2))).await?;
    assert_eq!((&sent["conversation_id"], &sent["mentions"]), (&json!("gr_ab"), &json!(["bob"])));
    assert_eq!(chat.line().await?, "you: hi @bob and @carol ✓");
    let mut added = of_group(message(3, "bob", ""));
    added["kind"] = json!("system");
    added["system"] = json!({"event":"members.added","members":["carol"]});
    server.push(messages_new(&added)).await?;
    assert_eq!(chat.line().await?, "-- bob added carol");
    Ok(())
}

#[tokio::test]
async fn to_a_service_nothing_is_sent() -> Result<()> {
    let (listener, address) = listen().await?;
    let mut chat = Chat::start_with("@orders", address, Some("secret"))?;
    let mut server = Server::accept(&listener, "secret").await?;
    server.answer("drain", json!({"messages":[message(1, "@orders", "on its way")],"more":false})).await?;
    server.answer("ack", json!({})).await?;
    let last = json!({"seq":1,"sender_id":"@orders","kind":"text","preview":"on","sent_at":"2026-11-20T10:00:00.123Z"});
    let row = json!({"conversation_id":"dm_ab","kind":"direct","peer_id":"@orders","last_message":last,"unread":1,
        "delivered_seq":1,"read_seq":0,"last_seq":1});
    server.answer("inbox", json!({"conversations":[row],"next_cursor":null})).await?;
    // Of a service there is no mark.
    let told = json!({"messages":[message(1, "@orders", "on its way")],"more":false,"last_seq":1,
        "members":[{"user_id":"alice","delivered_seq":1,"read_seq":0}]});
    server.answer("history", told).await?;
    let start = ["-- connected", "-- while you were away", "@orders: on its way", "-- up to date"];
    assert_eq!(chat.lines(4).await?, start);
    chat.say("thanks").await?;
    assert_eq!(chat.line().await?, "!! not sent: thanks: what a service tells is only read");
    let end = tokio::spawn(chat.end());
    // Nothing but what it has read.
    while let Some(Ok(frame)) = server.socket.next().await {
        assert!(!frame.to_string().contains(r#""action":"send""#), "{frame}");
    }
    let (status, said) = end.await??;
    assert_eq!((status.code(), said.contains("1 of 1 messages were refused")), (Some(1), true), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_broken_connection_loses_and_doubles_nothing() -> Result<()> {
    let (listener, address) = listen().await?;
    let mut chat = Chat::start(address, Some("secret"))?;
    let mut server = Server::accept(&listener, "secret").await?;
    server.answer("drain", json!({"messages":[],"more":false})).await?;
    server.answer("inbox", json!({"conversations":[],"next_cursor":null})).await?;
    // Once for all that is new, and once in search of bob.
    server.answer("inbox", json!({"conversations":[],"next_cursor":null})).await?;
    assert_eq!(chat.lines(2).await?, ["-- connected", "-- up to date"]);
    chat.say("one").await?;
    chat.say("two").await?;
    let first = server.request("send").await?;
    drop(server);

    assert!(chat.line().await?.starts_with("-- offline: "));
    let mut server = Server::accept(&listener, "secret").await?;
    server.request("drain").await?;
    let again = server.answer("send", stored(1)).await?;
    assert_eq!((&again["client_msg_id"], &again["body"]), (&first["client_msg_id"], &json!("one")));
    let second = server.answer("send", stored(2)).await?;
    assert_eq!(second["body"], "two");
    assert_ne!(second["client_msg_id"], first["client_msg_id"]);
    Ok(())
}

#[tokio::test]
async fn one_connection_too_many_is_opened_again_by_the_next_line() -> Result<()> {
    let (listener, address) = listen().await?;
    let mut chat = Chat::start(address, Some("secret"))?;
    let mut server = Server::accept(&listener, "secret").await?;
    server.answer("drain", json!({"messages":[],"more":false})).await?;
    server.answer("inbox", json!({"conversations":[],"next_cursor":null})).await?;
    server.answer("inbox", json!({"conversations":[],"next_cursor":null})).await?;
    assert_eq!(chat.lines(2).await?, ["-- connected", "-- up to date"]);
    server.push(json!({"type":"settings","user_id":"bob","set":{"blocked":true}})).await?;
    assert_eq!(chat.line().await?, "-- blocked");
    server.push(json!({"type":"connection.replaced"})).await?;
    assert!(chat.line().await?.starts_with("-- this is one connection too many"));
    while let Some(Ok(_)) = server.socket.next().await {}

    chat.say("/mute").await?;
    let mut server = Server::accept(&listener, "secret").await?;
    let request = server.request("send").await?;
    assert_eq!(request["body"], "/mute", "in a script every line is a message");
    let error = json!({"code":"forbidden","message":"you may not do this","retryable":false});
    server.push(json!({"type":"error","action":"send","id":request.get("id"),"error":error})).await?;
    assert_eq!(chat.lines(2).await?, ["-- connected", "!! not sent: /mute: it can't be delivered"]);
    Ok(())
}

#[tokio::test]
async fn a_refused_token_is_said_plainly_and_not_tried_again() -> Result<()> {
    let (listener, address) = listen().await?;
    let chat = Chat::start(address, Some("wrong"))?;
    let (mut stream, _) = listener.accept().await?;
    assert_ne!(stream.read(&mut [0; 2048]).await?, 0);
    stream.write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n").await?;
    let (status, said) = chat.end().await?;
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("refused the token (401 Unauthorized)"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_given_token_that_expires_is_the_end() -> Result<()> {
    let (listener, address) = listen().await?;
    let mut chat = Chat::start(address, Some("old"))?;
    let mut server = Server::accept(&listener, "old").await?;
    let request = server.request("drain").await?;
    chat.say("one").await?;
    server.request("send").await?;
    let error = json!({"code":"token_expired","message":"the token has expired","retryable":false});
    server.push(json!({"type":"error","action":"drain","id":request.get("id"),"error":error})).await?;
    let (status, said) = chat.end().await?;
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("left with 1 of your messages unanswered: the token has expired"), "{said}");
    assert!(said.contains("start again with a fresh --token"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_local_server_may_come_later() -> Result<()> {
    let (listener, address) = listen().await?;
    drop(listener);
    let mut chat = Chat::start(address, None)?;
    let line = chat.line().await?;
    assert!(line.starts_with("-- offline: no server at ws://") && line.contains("`cargo run`"), "{line}");

    let listener = TcpListener::bind(address).await?;
    let (mut stream, _) = timeout(PATIENCE, listener.accept()).await??;
    let mut asked = [0; 2048];
    let read = stream.read(&mut asked).await?;
    assert!(asked.get(..read).is_some_and(|asked| asked.starts_with(b"GET /token?user=alice ")));
    let body = r#"{"token":"fetched"}"#;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    let _server = Server::accept(&listener, "fetched").await?;
    assert_eq!(chat.line().await?, "-- connected");
    Ok(())
}
