//! Tests of the public API without a server.
#![allow(clippy::unwrap_used, reason = "a panic is the test's report")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use pigeonhole_client::limits::BODY_BYTES_MAX;
use pigeonhole_client::{
    Action, Client, Config, ConversationId, Draft, Emoji, Error, Event, Events, FileStorage, MemoryStorage, Outgoing,
    ReactRequest, Seq, State, Target, Timing, TokenNeed, UserId, Why,
};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite;

const PATIENCE: Duration = Duration::from_secs(20);

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
    let storage = MemoryStorage::default();
    let (client, _events) = Client::connect(offline().0.storage(storage.clone())).await.unwrap();
    assert!(outbox(&client).await.is_empty());
    let first = client.send_to("bob", "one").await.unwrap();
    client.send_to("carol", "two").await.unwrap();
    assert_eq!(outbox(&client).await, ["one", "two"]);
    assert_eq!(client.outbox().await.unwrap()[0].client_msg_id, *first.client_msg_id());
    client.clone().close().await;
    assert_eq!(first.stored().await.unwrap_err(), Error::Closed);
    assert_eq!(client.outbox().await.unwrap_err(), Error::Closed);

    let (client, _events) = Client::connect(offline().0.storage(storage)).await.unwrap();
    assert_eq!(outbox(&client).await, ["one", "two"]);
}

#[tokio::test]
async fn a_change_goes_into_the_outbox_as_a_message_does() {
    let storage = MemoryStorage::default();
    let (client, _events) = Client::connect(offline().0.storage(storage.clone())).await.unwrap();
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
    let (client, _events) = Client::connect(offline().0.storage(storage)).await.unwrap();
    let waiting: Vec<Outgoing> = client.outbox().await.unwrap().into_iter().map(|queued| queued.outgoing).collect();
    let target = Target::Conversation(id.clone());
    let told: Vec<_> = waiting.iter().map(|it| (it.target(), it.target_seq(), it.body())).collect();
    let of = |body| (Some(target.clone()), Some(seq), body);
    let message = (Some(target.clone()), None, Some("sure"));
    assert_eq!(told, [message, of(Some("better")), of(None), of(None), of(None)]);
    assert!(matches!(&waiting[0], Outgoing::Message { reply_to, .. } if *reply_to == Some(seq)), "{waiting:?}");
    let emoji = |at: usize| match &waiting[at] {
        Outgoing::Request(Action::React(ReactRequest { emoji, .. })) => emoji.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((emoji(2), emoji(3)), (thumb, None));
    assert!(matches!(&waiting[4], Outgoing::Request(Action::Delete(_))), "{waiting:?}");
}

#[tokio::test]
async fn an_app_is_told_first_of_a_file_that_can_not_be_read() {
    let folder = std::env::temp_dir().join(format!("pigeonhole-client-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("outbox");
    std::fs::write(&file, "milk\nbread\n").unwrap();
    let storage = FileStorage::open(&file).unwrap();
    let (client, mut events) = Client::connect(offline().0.storage(storage)).await.unwrap();
    let first = timeout(PATIENCE, events.next()).await.unwrap();
    assert_eq!(first, Some(Event::StorageSetAside(format!("{}.unreadable", file.display()))));
    client.send_to("bob", "hi").await.unwrap();
    client.close().await;
    std::fs::remove_dir_all(folder).unwrap();
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
