//! Tests of the public API without a server.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is the test's report")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use futures_util::{SinkExt, StreamExt};
use pigeonhole_client::limits::BODY_BYTES_MAX;
use pigeonhole_client::{
    Action, Client, Config, ConversationId, Draft, Edited, Emoji, Error, Event, Events, Outgoing, ReactRequest, Seq,
    Side, Span, State, Target, Timing, TokenNeed, UserId, Why,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite;

const PATIENCE: Duration = Duration::from_secs(20);

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("pigeonhole-client-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn store(&self) -> PathBuf {
        self.0.join("alice")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a configuration without a token, and a receiver of the client's token requests.
fn offline() -> (Config, UnboundedReceiver<TokenNeed>) {
    let (asked_tx, asked_rx) = unbounded_channel();
    let token = move |need| {
        let _ = asked_tx.send(need);
        std::future::ready(Err("no network".into()))
    };
    let never = Timing { reconnect_first: Duration::MAX, reconnect_max: Duration::MAX, ..Timing::default() };
    (Config::new("wss://127.0.0.1:1/v1", "alice", token).timing(never), asked_rx)
}

/// A server with one conversation, in which bob has said something. Returns its URL, and a receiver of the client's
/// requests. `on_request` runs before each reply.
async fn server(on_request: impl Fn(&Value) + Send + Sync + 'static) -> (String, UnboundedReceiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/v1", listener.local_addr().unwrap());
    let (request_tx, request_rx) = unbounded_channel();
    let (on_request, is_acked) = (Arc::new(on_request), Arc::new(AtomicBool::new(false)));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (on_request, is_acked, request_tx) = (on_request.clone(), is_acked.clone(), request_tx.clone());
            tokio::spawn(async move {
                let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
                while let Some(Ok(frame)) = socket.next().await {
                    let Ok(request) = serde_json::from_slice::<Value>(&frame.into_data()) else { continue };
                    on_request(&request);
                    let result = answer(&request, &is_acked);
                    let reply =
                        json!({"type": "reply", "action": request["action"], "id": request["id"], "result": result});
                    let _ = request_tx.send(request);
                    if socket.send(tungstenite::Message::text(reply.to_string())).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    (url, request_rx)
}

fn answer(request: &Value, is_acked: &AtomicBool) -> Value {
    let sent_at = "2026-11-20T10:00:01.000Z";
    match request["action"].as_str().unwrap() {
        "drain" if is_acked.load(Ordering::Relaxed) => json!({"messages": [], "more": false}),
        "drain" => json!({"messages": [{"conversation_id": "dm_ab", "seq": 1, "sender_id": "bob", "kind": "text",
            "message_id": "0198b7a0-0000-7000-8000-000000000001", "body": "hello world", "sent_at": sent_at}],
            "more": false}),
        "inbox" => json!({"conversations": [{"conversation_id": "dm_ab", "kind": "direct", "peer_id": "bob",
            "last_message": {"seq": 1, "sender_id": "bob", "kind": "text", "preview": "hello world",
                "sent_at": sent_at}, "unread": 1, "delivered_seq": 0, "read_seq": 0, "last_seq": 1}],
            "next_cursor": null}),
        "ack" => {
            is_acked.store(true, Ordering::Relaxed);
            json!({})
        }
        "send" => json!({"conversation_id": "dm_ab", "seq": 2, "duplicate": false, "sent_at": sent_at,
            "message_id": "0198b7a0-0000-7000-8000-000000000002"}),
        other => panic!("no test asks for {other}"),
    }
}

fn online(url: String) -> Config {
    let soon = Timing {
        reconnect_first: Duration::from_millis(20),
        reconnect_max: Duration::from_millis(200),
        ..Timing::default()
    };
    Config::new(url, "alice", |_| std::future::ready(Ok("token".to_owned()))).timing(soon)
}

async fn until_caught_up(events: &mut Events) {
    while timeout(PATIENCE, events.next()).await.unwrap() != Some(Event::State(State::CaughtUp)) {}
}

async fn until_asked(request_rx: &mut UnboundedReceiver<Value>, action: &str) -> Value {
    loop {
        let request = timeout(PATIENCE, request_rx.recv()).await.unwrap().unwrap();
        if request["action"] == action {
            return request;
        }
    }
}

async fn until_offline(events: &mut Events) {
    while let Some(event) = timeout(PATIENCE, events.next()).await.unwrap() {
        if let Event::State(State::Offline { why, .. }) = event {
            assert_eq!(why, Why::NoToken("no network".to_owned()));
            return;
        }
    }
}

async fn outbox(client: &Client) -> Vec<String> {
    client
        .outbox()
        .await
        .unwrap()
        .into_iter()
        .map(|queued| queued.outgoing.body().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn what_is_sent_without_a_network_is_in_the_outbox_and_stays_there() {
    let folder = Folder::new();
    let (client, _events) = Client::connect(offline().0.store(folder.store())).await.unwrap();
    assert!(outbox(&client).await.is_empty());
    let first = client.send_to("bob", "one").await.unwrap();
    client.send_to("carol", "two").await.unwrap();
    assert_eq!(outbox(&client).await, ["one", "two"]);
    assert_eq!(client.outbox().await.unwrap()[0].client_msg_id, *first.client_msg_id());
    client.clone().close().await;
    assert_eq!(first.stored().await.unwrap_err(), Error::Closed);
    assert_eq!(client.outbox().await.unwrap_err(), Error::Closed);

    let (client, _events) = Client::connect(offline().0.store(folder.store())).await.unwrap();
    assert_eq!(outbox(&client).await, ["one", "two"]);
}

#[tokio::test]
async fn a_change_goes_into_the_outbox_as_a_message_does() {
    let folder = Folder::new();
    let (client, _events) = Client::connect(offline().0.outbox(folder.store())).await.unwrap();
    let (id, seq) = (ConversationId::parse("dm_ab").unwrap(), Seq::new(4).unwrap());
    let thumb = Emoji::parse("👍").ok();
    client.reply(&id, seq, "sure").await.unwrap();
    client.edit(&id, seq, "better").await.unwrap();
    client.react(&id, seq, thumb.clone()).await.unwrap();
    client.react(&id, seq, None).await.unwrap();
    client.delete(&id, seq).await.unwrap();
    // No member gets this event, now or later.
    client.typing(&id);
    client.close().await;
    let (client, _events) = Client::connect(offline().0.outbox(folder.store())).await.unwrap();
    let waiting: Vec<Outgoing> = client.outbox().await.unwrap().into_iter().map(|queued| queued.outgoing).collect();
    let target = Target::Conversation(id.clone());
    let told: Vec<_> = waiting.iter().map(|it| (it.target(), it.target_seq(), it.body())).collect();
    let of = |body| (Some(target.clone()), Some(seq), body);
    let message = (Some(target.clone()), None, Some("sure"));
    assert_eq!(told, [message, of(Some("better")), of(None), of(None), of(None)]);
    assert!(matches!(&waiting[0], Outgoing::Message { draft, .. } if draft.reply_to == Some(seq)), "{waiting:?}");
    let emoji = |at: usize| match &waiting[at] {
        Outgoing::Request(Action::React(ReactRequest { emoji, .. })) => emoji.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((emoji(2), emoji(3)), (thumb, None));
    assert!(matches!(&waiting[4], Outgoing::Request(Action::Delete(_))), "{waiting:?}");
}

#[tokio::test]
async fn an_app_is_told_first_of_a_file_that_can_not_be_read() {
    let folder = Folder::new();
    std::fs::write(folder.store(), [0x55; 9000]).unwrap();
    let (client, mut events) = Client::connect(offline().0.store(folder.store())).await.unwrap();
    let first = timeout(PATIENCE, events.next()).await.unwrap();
    assert_eq!(first, Some(Event::StorageSetAside(format!("{}.broken", folder.store().display()))));
    client.send_to("bob", "hi").await.unwrap();
    client.close().await;
}

#[tokio::test]
async fn what_can_never_be_sent_is_refused_at_once() {
    let (client, _events) = Client::connect(offline().0).await.unwrap();
    let refused = client.send_to("not a user", "hi").await.unwrap_err();
    assert!(matches!(&refused, Error::InvalidUserId { id, .. } if id == "not a user"), "{refused}");
    let (too_large, id) = ("x".repeat(BODY_BYTES_MAX + 1), ConversationId::parse("dm_ab").unwrap());
    assert_eq!(client.send_to("bob", too_large.clone()).await.unwrap_err(), Error::TooLarge);
    assert_eq!(client.edit(&id, Seq::default(), too_large.clone()).await.unwrap_err(), Error::TooLarge);
    assert_eq!(client.reply(&id, Seq::default(), too_large).await.unwrap_err(), Error::TooLarge);
    let channel = || Target::Conversation(ConversationId::parse("ch_n").unwrap());
    let to_bob = || Draft::new("hi").mentions(vec![UserId::parse("bob").unwrap()]);
    let refused = client.send(channel(), to_bob()).await.unwrap_err();
    assert_eq!(refused.to_string(), "mentions must be left out: this is a channel");
    let object = |value: Value| value.as_object().cloned().unwrap();
    let long = json!({"x": "y".repeat(2_048)});
    let deep = (0..9).fold(json!({}), |inner, _| json!({"x": inner}));
    for (draft, text) in [
        (Draft::new("hi").data(object(long.clone())), "data: must be at most 2,048 bytes without spaces"),
        (Draft::new("hi").data(object(deep)), "data: must have at most 8 levels"),
        (Draft::own("poll", "hi", object(json!({}))), "kind must be x- or xs-"),
        (Draft::own("xs-vote", "hi", object(json!({}))), "body: must be empty: the kind is silent"),
        (Draft { data: None, ..Draft::own("x-poll", "hi", object(json!({}))) }, "data: is missing"),
    ] {
        let refused = client.send_to("bob", draft).await.unwrap_err().to_string();
        assert!(refused.starts_with(text), "{refused}");
    }
    let edited = Edited { data: Some(Some(object(long).into())), ..Edited::from("hi") };
    assert_eq!(client.edit(&id, Seq::default(), edited).await.unwrap_err().code(), "too_large");
    let everybody = vec![UserId::parse(&"b".repeat(128)).unwrap(); 300];
    assert_eq!(client.presence(everybody).await.unwrap_err(), Error::TooLarge);
    assert!(outbox(&client).await.is_empty());
}

#[tokio::test]
async fn a_client_that_is_woken_tries_again_at_once() {
    let (config, mut asked_rx) = offline();
    let (client, mut events) = Client::connect(config).await.unwrap();
    for _ in 0..3 {
        assert_eq!(timeout(PATIENCE, asked_rx.recv()).await.unwrap(), Some(TokenNeed::Connect));
        until_offline(&mut events).await;
        client.wake();
    }
}

#[tokio::test]
async fn a_token_function_that_panics_is_asked_again() {
    let (asked_tx, mut asked_rx) = unbounded_channel();
    let panics = AtomicBool::new(true);
    let token = move |_| {
        let _ = asked_tx.send(());
        assert!(!panics.swap(false, Ordering::Relaxed), "once");
        std::future::ready(Err("no network".into()))
    };
    let soon = Timing { reconnect_first: Duration::ZERO, ..Timing::default() };
    let config = Config::new("wss://127.0.0.1:1/v1", "alice", token).timing(soon);
    let (_client, mut events) = Client::connect(config).await.unwrap();
    for _ in 0..2 {
        timeout(PATIENCE, asked_rx.recv()).await.unwrap().unwrap();
    }
    while let Some(event) = timeout(PATIENCE, events.next()).await.unwrap() {
        if let Event::State(State::Offline { why, .. }) = event {
            assert_eq!(why, Why::NoToken("the token function has panicked".to_owned()));
            return;
        }
    }
}

#[tokio::test]
async fn who_only_writes_text_needs_no_certificates() {
    const NOWHERE: &str = "/nowhere/at/all";
    const CERTIFICATES: &str = "SSL_CERT_FILE";
    // A process reads the location of the certificates at its start.
    if std::env::var(CERTIFICATES).is_ok_and(|file| file == NOWHERE) {
        let (client, _events) = Client::connect(offline().0).await.unwrap();
        client.send_to("bob", "hi").await.unwrap();
        assert_eq!(outbox(&client).await, ["hi"]);
        return;
    }
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "who_only_writes_text_needs_no_certificates"]).env(CERTIFICATES, NOWHERE);
    let ended = again.env_remove("SSL_CERT_DIR").output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
}

#[tokio::test]
async fn a_connection_is_replaced_before_its_token_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/v1", listener.local_addr().unwrap());
    let (asked_tx, mut asked_rx) = unbounded_channel();
    let token = move |need| {
        let _ = asked_tx.send(need);
        // The client requests the next token a minute before the expiry.
        #[expect(clippy::disallowed_methods, reason = "the client compares the token with the clock")]
        let exp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() + 61.0;
        let claims = BASE64URL_NOPAD.encode(format!(r#"{{"exp":{exp}}}"#).as_bytes());
        std::future::ready(Ok(format!("e30.{claims}.c2ln")))
    };
    let (_client, _events) = Client::connect(Config::new(url, "alice", token)).await.unwrap();
    let mut open = Vec::new();
    for need in [TokenNeed::Connect, TokenNeed::Expired] {
        let (stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        open.push(timeout(PATIENCE, tokio_tungstenite::accept_async(stream)).await.unwrap().unwrap());
        assert_eq!(asked_rx.recv().await, Some(need));
    }
}

#[tokio::test]
async fn a_token_of_another_user_connects_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/v1", listener.local_addr().unwrap());
    let subjects = std::sync::Mutex::new(vec!["alice", "bob"]);
    let token = move |_| {
        let subject = subjects.lock().unwrap().pop().unwrap();
        let claims = BASE64URL_NOPAD.encode(format!(r#"{{"sub":"{subject}"}}"#).as_bytes());
        std::future::ready(Ok(format!("e30.{claims}.c2ln")))
    };
    let soon = Timing { reconnect_first: Duration::ZERO, ..Timing::default() };
    let (_client, mut events) = Client::connect(Config::new(url, "alice", token).timing(soon)).await.unwrap();
    let Some(Event::State(State::Connecting)) = events.next().await else { panic!("it tries") };
    match timeout(PATIENCE, events.next()).await.unwrap() {
        Some(Event::State(State::Offline { why: Why::WrongUser(text), .. })) => {
            assert!(text.contains(r#""bob""#) && text.contains(r#""alice""#), "{text}");
        }
        other => panic!("{other:?}"),
    }
    // The next one is right, and the only one with which anything comes here.
    let (stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    #[allow(clippy::result_large_err, reason = "the signature is the library's")]
    let callback = |request: &tungstenite::handshake::server::Request, response| {
        assert!(
            request.headers()["authorization"]
                .to_str()
                .unwrap()
                .contains(&BASE64URL_NOPAD.encode(br#"{"sub":"alice"}"#))
        );
        Ok(response)
    };
    timeout(PATIENCE, tokio_tungstenite::accept_hdr_async(stream, callback)).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_configuration_that_can_not_work_is_refused() {
    let token = |_| std::future::ready(Ok(String::new()));
    let config = |url: &str, user: &str| Config::new(url, user, token);
    for (config, at_fault) in [
        (config("https://example.com", "alice"), "https://example.com"),
        (config("wss://example.com", "not a user"), "user id"),
        (config("wss://example.com", "alice").device_id("my phone"), "device id"),
    ] {
        let refused = Client::connect(config).await.unwrap_err();
        assert!(matches!(&refused, Error::Config(text) if text.contains(at_fault)), "{refused}");
    }
}

#[tokio::test]
async fn a_restart_without_a_network_shows_chats_and_messages() {
    let folder = Folder::new();
    let (url, mut request_rx) = server(|_| {}).await;
    let (client, mut events) = Client::connect(online(url).store(folder.store())).await.unwrap();
    until_caught_up(&mut events).await;
    let sent = client.send_to("bob", "good morning").await.unwrap();
    assert_eq!(sent.stored().await.unwrap().seq.value(), 2);
    until_asked(&mut request_rx, "send").await;
    client.close().await;

    let (client, _events) = Client::connect(offline().0.store(folder.store())).await.unwrap();
    let chats = client.chats().await.unwrap();
    let [chat] = &chats[..] else { panic!("{chats:?}") };
    assert_eq!((chat.last_message.preview.as_str(), chat.unread, chat.last_seq.value()), ("good morning", 1, 2));
    assert_eq!(client.unread().await.unwrap(), 1);
    let window = client.window(&chat.conversation_id, Side::Newest, 50).await.unwrap();
    let bodies: Vec<&str> = window.messages.iter().map(|message| message.body.as_str()).collect();
    assert_eq!(bodies, ["hello world", "good morning"]);
    let [Span { from, to }] = window.spans[..] else { panic!("{:?}", window.spans) };
    assert_eq!((from.value(), to.value()), (1, 2));
    assert_eq!(client.search("WOR", 9).await.unwrap(), window.messages[..1]);
    assert_eq!(outbox(&client).await, Vec::<String>::new());
    client.clone().close().await;
    assert_eq!(client.chats().await.unwrap_err(), Error::Closed);

    let (client, _events) = Client::connect(offline().0.outbox(folder.store())).await.unwrap();
    let refused = client.chats().await.unwrap_err();
    assert!(refused.to_string().contains("Config::store"), "{refused}");
}

#[tokio::test]
async fn a_message_is_on_the_disk_before_it_is_acknowledged() {
    let folder = Folder::new();
    let (path, kept) = (folder.store(), Arc::new(AtomicBool::new(false)));
    let found = kept.clone();
    let (url, mut request_rx) = server(move |request| {
        if request["action"] == "ack" {
            let store = rusqlite::Connection::open(&path).unwrap();
            let number = |query| store.query_row(query, (), |row| row.get::<_, i64>(0)).unwrap();
            // The store counts the transactions that it has synced to the disk.
            let synced = number("SELECT value FROM meta WHERE key = 'turn'");
            found.store(synced == 1 && number("SELECT count(*) FROM message") == 1, Ordering::Relaxed);
        }
    })
    .await;
    let (_client, _events) = Client::connect(online(url).store(folder.store())).await.unwrap();
    until_asked(&mut request_rx, "ack").await;
    assert!(kept.load(Ordering::Relaxed));
}

#[tokio::test]
async fn a_turn_that_can_not_be_committed_sends_nothing() {
    let folder = Folder::new();
    let (url, mut request_rx) = server(|_| {}).await;
    let (client, mut events) = Client::connect(online(url).store(folder.store())).await.unwrap();
    until_caught_up(&mut events).await;
    until_asked(&mut request_rx, "ack").await;
    while request_rx.try_recv().is_ok() {}

    let store = rusqlite::Connection::open(folder.store()).unwrap();
    let full = "CREATE TRIGGER full BEFORE INSERT ON outbox BEGIN SELECT RAISE(ABORT, 'the disk is full'); END";
    store.execute_batch(full).unwrap();
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.send_to("bob", "first").await.unwrap().stored().await }
    });
    loop {
        match timeout(PATIENCE, events.next()).await.unwrap() {
            Some(Event::State(State::Offline { why: Why::Store(why), .. })) => {
                assert!(why.contains("the disk is full"), "{why}");
                break;
            }
            Some(Event::State(State::CaughtUp)) => {}
            other => panic!("{other:?}"),
        }
    }
    let refused = client.send_to("bob", "second").await.unwrap_err();
    assert!(matches!(refused, Error::Storage(_)), "{refused}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(request_rx.is_empty() && !first.is_finished(), "nothing leaves, and nothing is answered");

    store.execute_batch("DROP TRIGGER full").unwrap();
    assert_eq!(until_asked(&mut request_rx, "send").await["body"], "first");
    assert_eq!(first.await.unwrap().unwrap().seq.value(), 2);
    until_caught_up(&mut events).await;
    assert_eq!(outbox(&client).await, Vec::<String>::new());
}
