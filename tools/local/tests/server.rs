//! The server through its sockets, with `fixtures/function.rs` behind every route.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is the report")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use local::{Limits, Logs, Options, Server};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

const PATIENCE: Duration = Duration::from_secs(20);

type Client = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// `fixtures/function.rs`, which `cargo test` builds beside the tests.
static FUNCTION: LazyLock<PathBuf> = LazyLock::new(|| {
    let this = std::env::current_exe().unwrap();
    let path = this.ancestors().nth(2).unwrap().join("examples/function");
    assert!(path.exists(), "cargo build --examples -p local builds {}", path.display());
    path
});

// ---- The server and its clients ----

struct Fixture {
    server: Server,
    logs: Arc<Mutex<Vec<String>>>,
}

async fn start(limits: Limits) -> Fixture {
    let logs = Arc::default();
    let server = Server::start(Options {
        port: 0,
        template: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/template.yaml"),
        program: FUNCTION.clone(),
        limits,
        logs: Logs::Keep(Arc::clone(&logs)),
        ..Options::default()
    });
    Fixture { server: server.await.unwrap(), logs }
}

impl Fixture {
    async fn connect(&self, query: &str) -> Client {
        self.try_connect(query).await.unwrap()
    }

    async fn try_connect(&self, query: &str) -> Result<Client, tungstenite::Error> {
        Ok(connect_async(format!("{}?{query}", self.server.url())).await?.0)
    }

    async fn status(&self, query: &str) -> u16 {
        match self.try_connect(query).await {
            Err(tungstenite::Error::Http(response)) => response.status().as_u16(),
            other => panic!("{other:?}"),
        }
    }

    /// The first event so far that has this in it.
    fn event(&self, needle: &str) -> Option<Value> {
        let logs = self.logs.lock().unwrap();
        let events = logs.iter().filter_map(|line| serde_json::from_str(line.split_once("event=")?.1).ok());
        events.into_iter().find(|event: &Value| event.to_string().contains(needle))
    }

    async fn wait_for_event(&self, needle: &str) -> Value {
        eventually(async || self.event(needle)).await
    }

    fn connections(&self, id: &str) -> String {
        format!("{}/@connections/{}", self.server.management_url(), id.replace('=', "%3D"))
    }

    /// The id of the only connection.
    async fn connection_id(&self) -> String {
        let event = self.wait_for_event(r#""eventType":"CONNECT""#).await;
        event["requestContext"]["connectionId"].as_str().unwrap().to_owned()
    }
}

async fn eventually<T>(mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let polling = async {
        loop {
            if let Some(found) = probe().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, polling).await.unwrap()
}

async fn say(client: &mut Client, message: &Value) {
    client.send(Message::text(message.to_string())).await.unwrap();
}

async fn receive(client: &mut Client) -> Message {
    tokio::time::timeout(PATIENCE, client.next()).await.unwrap().unwrap().unwrap()
}

async fn receive_json(client: &mut Client) -> Value {
    serde_json::from_str(receive(client).await.to_text().unwrap()).unwrap()
}

/// Whether the process is there and has not ended.
fn runs(pid: u32) -> bool {
    let ps = std::process::Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
    let state = String::from_utf8(ps.stdout).unwrap();
    !state.trim().is_empty() && !state.starts_with('Z')
}

/// The code of the close frame that comes next.
async fn receive_close(client: &mut Client) -> u16 {
    match receive(client).await {
        Message::Close(Some(frame)) => frame.code.into(),
        other => panic!("{other:?}"),
    }
}

// ---- The tests ----

#[tokio::test]
async fn a_socket_lives_from_connect_to_disconnect() {
    let fixture = start(Limits::default()).await;
    let mut client = fixture.connect("user=alice&x=%C3%A4").await;
    let connect = fixture.wait_for_event(r#""isBase64Encoded":false,"multiValueHeaders""#).await;
    let context = &connect["requestContext"];
    assert_eq!((&context["routeKey"], &context["eventType"]), (&json!("$connect"), &json!("CONNECT")));
    assert_eq!((&context["authorizer"]["principalId"], &context["authorizer"]["exp"]), (&json!("alice"), &json!("7")));
    assert_eq!(connect["queryStringParameters"]["x"], "ä");
    assert_eq!(connect["headers"]["upgrade"], Value::Null);
    let id = context["connectionId"].as_str().unwrap();
    assert!(id.len() == 16 && id.ends_with('='), "{id}");
    let authorizer = fixture.event(r#""type":"REQUEST""#).unwrap();
    assert_eq!(authorizer["requestContext"]["connectionId"], id);
    assert_eq!(authorizer["headers"]["upgrade"], "websocket");

    say(&mut client, &json!({ "action": "echo", "n": 1 })).await;
    assert_eq!(receive_json(&mut client).await, json!({ "action": "echo", "n": 1 }));
    let message = fixture.event(r#""eventType":"MESSAGE""#).unwrap();
    assert_eq!((&message["headers"], &message["requestContext"]["routeKey"]), (&Value::Null, &json!("echo")));
    assert_eq!(message["requestContext"]["authorizer"]["principalId"], "alice");

    say(&mut client, &json!({ "action": "$connect" })).await;
    assert_eq!(receive_json(&mut client).await["message"], "Forbidden");

    client.close(None).await.unwrap();
    let disconnect = fixture.wait_for_event(r#""eventType":"DISCONNECT""#).await;
    assert_eq!(disconnect["requestContext"]["disconnectStatusCode"], 1005);
    assert_eq!(disconnect["requestContext"]["connectionId"], id);
    let gone = reqwest::Client::new().post(fixture.connections(id)).body("x").send().await.unwrap();
    assert_eq!((gone.status().as_u16(), &gone.headers()["x-amzn-errortype"]), (410, &"GoneException".parse().unwrap()));
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn an_upgrade_is_refused_as_api_gateway_refuses_it() {
    let fixture = start(Limits::default()).await;
    assert_eq!(fixture.status("").await, 401);
    assert_eq!(fixture.status("user=mallory").await, 403);
    assert_eq!(fixture.status("user=malformed").await, 500);
    assert_eq!(fixture.status("user=alice&status=418").await, 418);
    assert_eq!(fixture.status("user=%").await, 400);
    assert_eq!(reqwest::get(fixture.server.management_url()).await.unwrap().status(), 426);
    assert_eq!(reqwest::get(format!("{}/v2", fixture.server.http_url())).await.unwrap().status(), 403);

    let mut request = format!("{}?user=alice", fixture.server.url()).into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "a, b".parse().unwrap());
    let (_, response) = connect_async(request).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "b");
}

#[tokio::test]
async fn a_function_that_fails_costs_its_message_and_nothing_else() {
    let fixture = start(Limits::default()).await;
    let mut client = fixture.connect("user=alice").await;
    for what in ["fail", "crash", "hang", "nonsense"] {
        say(&mut client, &json!({ "action": "echo", "do": what })).await;
        assert_eq!(receive_json(&mut client).await["message"], "Internal server error", "{what}");
    }
    say(&mut client, &json!({ "action": "broken" })).await;
    assert_eq!(receive_json(&mut client).await["message"], "Internal server error");
    let logs = fixture.logs.lock().unwrap().join("\n");
    for text in ["as asked", "exit status: 3", "Task timed out after 1.00 seconds", "start-up: cannot go on"] {
        assert!(logs.contains(text), "{text} is not in\n{logs}");
    }
    say(&mut client, &json!({ "action": "quiet" })).await;
    say(&mut client, &json!({ "action": "echo", "do": "env" })).await;
    assert_eq!(receive(&mut client).await.to_text().unwrap(), fixture.server.management_url());
}

#[tokio::test]
async fn what_cloudwatch_counts_is_counted_where_it_happens() {
    let fixture = start(Limits::default()).await;
    let counts = |of: &str| {
        let counts = fixture.server.metrics().into_iter().filter(|((_, _, found), _)| found == of);
        counts.map(|((_, name, _), times)| (name, times)).collect::<BTreeMap<_, _>>()
    };
    for (query, status) in [("", 401), ("user=mallory", 403), ("user=alice&status=418", 418)] {
        assert_eq!(fixture.status(query).await, status);
    }
    assert_eq!(counts("AuthorizeFunction"), BTreeMap::from([("Errors", 1), ("Invocations", 3)]));

    let mut client = fixture.connect("user=alice").await;
    let mut own = async |message: &Value| {
        say(&mut client, message).await;
        receive_json(&mut client).await["message"].as_str().map(str::to_owned)
    };
    let echo = json!({ "action": "echo" });
    let failed = Some("Internal server error".to_owned());
    assert_eq!(own(&echo).await, None);
    assert_eq!(own(&json!({ "action": "echo", "do": "fail" })).await, failed);
    fixture.server.reserve("EverythingFunction", Some(0));
    assert_eq!(own(&echo).await, failed);
    fixture.server.reserve("EverythingFunction", None);
    fixture.server.permit("EverythingFunction", false);
    assert_eq!(own(&echo).await, failed);
    fixture.server.permit("EverythingFunction", true);
    assert_eq!(own(&echo).await, None);

    let of_api = [("ClientError", 2), ("ConnectCount", 2), ("ExecutionError", 2), ("IntegrationError", 2)];
    assert_eq!(counts("Api"), of_api.into_iter().chain([("MessageCount", 10)]).collect());
    let of_function = [("Errors", 1), ("Invocations", 5), ("Throttles", 1)];
    assert_eq!(counts("EverythingFunction"), BTreeMap::from(of_function));
}

#[tokio::test]
async fn a_variable_that_is_set_anew_is_that_of_the_next_event() {
    let fixture = start(Limits::default()).await;
    let mut client = fixture.connect("user=alice").await;
    let before = fixture.server.configure("EverythingFunction", "ENDPOINT", Some("elsewhere"));
    say(&mut client, &json!({ "action": "echo", "do": "env" })).await;
    assert_eq!(receive(&mut client).await.to_text().unwrap(), "elsewhere");
    assert_eq!(before, Some(fixture.server.management_url()));
    assert_eq!(fixture.server.configure("EverythingFunction", "ENDPOINT", None).as_deref(), Some("elsewhere"));
    say(&mut client, &json!({ "action": "echo", "do": "env" })).await;
    assert_eq!(receive_json(&mut client).await["message"], "Internal server error");
}

#[tokio::test]
async fn a_killed_sandbox_is_replaced_and_none_outlives_the_server() {
    let fixture = start(Limits::default()).await;
    let mut client = fixture.connect("user=alice").await;
    let pid = async |client: &mut Client| {
        say(client, &json!({ "action": "echo", "do": "pid" })).await;
        let answer = receive(client).await;
        answer.to_text().unwrap().parse::<u32>().unwrap_or_else(|_| panic!("{answer} {:#?}", fixture.logs))
    };
    let first = pid(&mut client).await;
    assert_eq!(pid(&mut client).await, first, "an idle sandbox is used again");
    assert_eq!(fixture.server.sandboxes("EverythingFunction"), [first]);
    std::process::Command::new("kill").args(["-9", &first.to_string()]).status().unwrap();
    eventually(async || (!runs(first)).then_some(())).await;
    let second = pid(&mut client).await;
    assert_ne!(second, first);

    fixture.server.shutdown().await;
    assert!(!runs(second));
}

#[tokio::test]
async fn messages_of_one_socket_are_worked_on_side_by_side() {
    let fixture = start(Limits::default()).await;
    let mut client = fixture.connect("user=alice").await;
    say(&mut client, &json!({ "action": "echo", "do": "hang" })).await;
    say(&mut client, &json!({ "action": "echo", "n": 2 })).await;
    assert_eq!(receive_json(&mut client).await["n"], 2);
    assert_eq!(receive_json(&mut client).await["message"], "Internal server error");
}

#[tokio::test]
async fn frames_that_api_gateway_does_not_take_close_the_socket() {
    let fixture = start(Limits::default()).await;
    let frames = [
        (Message::text("x".repeat(32 * 1024 + 1)), 1009),
        (Message::text("x".repeat(1024 * 1024)), 1009),
        (Message::binary(vec![1, 2, 3]), 1003),
    ];
    for (frame, code) in frames {
        let mut client = fixture.connect("user=alice").await;
        client.send(frame).await.unwrap();
        assert_eq!(receive_close(&mut client).await, code);
        fixture.wait_for_event(&format!(r#""disconnectStatusCode":{code}"#)).await;
    }
    let mut client = fixture.connect("user=alice").await;
    let body = "x".repeat(32 * 1024 - 32);
    say(&mut client, &json!({ "action": "echo", "x": body })).await;
    assert_eq!(receive_json(&mut client).await["x"], body);
}

#[tokio::test]
async fn a_close_is_answered_with_a_close() {
    let fixture = start(Limits::default()).await;
    for code in [CloseCode::Normal, CloseCode::Away] {
        let mut client = fixture.connect("user=alice").await;
        let frame = CloseFrame { code, reason: "".into() };
        client.close(Some(frame)).await.unwrap();
        assert_eq!(receive_close(&mut client).await, u16::from(code));
        assert!(tokio::time::timeout(PATIENCE, client.next()).await.unwrap().is_none(), "the stream ends behind it");
    }
}

#[tokio::test]
async fn a_lost_client_is_disconnected_as_1006() {
    let fixture = start(Limits::default()).await;
    drop(fixture.connect("user=alice").await);
    fixture.wait_for_event(r#""disconnectStatusCode":1006"#).await;
}

#[tokio::test]
async fn a_connection_can_be_posted_to_looked_at_and_closed() {
    let fixture = start(Limits::default()).await;
    let http = reqwest::Client::new();
    let mut client = fixture.connect("user=alice").await;
    let url = fixture.connections(&fixture.connection_id().await);
    let post = async |body: Vec<u8>| http.post(&url).body(body).send().await.unwrap().status().as_u16();
    // The client has its 101 a moment before the connection is there.
    eventually(async || (post(b"hello".to_vec()).await == 200).then_some(())).await;
    assert_eq!(receive(&mut client).await.to_text().unwrap(), "hello");
    assert_eq!(post(vec![b'x'; 32 * 1024 + 1]).await, 413);
    assert_eq!(post(vec![0xff]).await, 400);
    let seen = http.get(&url).send().await.unwrap().text().await.unwrap();
    let seen: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(seen["identity"]["sourceIp"], "127.0.0.1");
    assert!(seen["connectedAt"].as_str().unwrap() <= seen["lastActiveAt"].as_str().unwrap());

    assert_eq!(http.delete(&url).send().await.unwrap().status(), 204);
    assert_eq!(receive_close(&mut client).await, 1000);
    fixture.wait_for_event(r#""disconnectStatusCode":1000"#).await;
    assert_eq!(http.delete(&url).send().await.unwrap().status(), 410);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_limited_and_can_still_be_closed() {
    let fixture = start(Limits::default()).await;
    let http = reqwest::Client::new();
    let client = fixture.connect("user=alice").await;
    let url = fixture.connections(&fixture.connection_id().await);
    let body = "x".repeat(32 * 1024);
    let full = async { while http.post(&url).body(body.clone()).send().await.unwrap().status() != 429 {} };
    tokio::time::timeout(PATIENCE, full).await.unwrap();
    assert_eq!(http.delete(&url).send().await.unwrap().status(), 204);
    fixture.wait_for_event(r#""disconnectStatusCode":1000"#).await;
    drop(client);
}

#[tokio::test]
async fn silent_and_old_sockets_are_closed() {
    let short = Duration::from_millis(300);
    let idle = start(Limits { idle_max: short, ..Limits::default() }).await;
    let mut client = idle.connect("user=alice").await;
    client.send(Message::Ping("still here".into())).await.unwrap();
    assert!(matches!(receive(&mut client).await, Message::Pong(_)));
    assert_eq!(receive_close(&mut client).await, 1001);

    let old = start(Limits { lifetime_max: short, ..Limits::default() }).await;
    let mut client = old.connect("user=alice").await;
    assert_eq!(receive_close(&mut client).await, 1001);
    old.wait_for_event(r#""disconnectStatusCode":1001"#).await;
}

#[tokio::test]
async fn tokens_keys_and_tables_are_there_to_look_at() {
    let fixture = start(Limits::default()).await;
    let get = async |path: &str| {
        let response = reqwest::get(format!("{}{path}", fixture.server.http_url())).await.unwrap();
        (response.status().as_u16(), serde_json::from_str::<Value>(&response.text().await.unwrap()).unwrap())
    };
    let (status, key_set) = get("/.well-known/jwks.json").await;
    assert_eq!((status, &key_set["keys"][0]["crv"]), (200, &json!("Ed25519")));
    let (_, token) = get("/token?user=al%20ice&expires_in=60").await;
    let key_set = serde_json::from_value::<jsonwebtoken::jwk::JwkSet>(key_set).unwrap();
    let mut validation = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::EdDSA);
    validation.set_audience(&["pigeonhole"]);
    validation.set_issuer(&[fixture.server.http_url()]);
    let key = jsonwebtoken::DecodingKey::from_jwk(&key_set.keys[0]).unwrap();
    let claims = jsonwebtoken::decode::<Value>(token["token"].as_str().unwrap(), &key, &validation).unwrap().claims;
    assert_eq!(claims["sub"], "al ice");
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 60);

    let (status, refusal) = get("/token").await;
    assert!(status == 400 && refusal["message"].as_str().unwrap().starts_with("user"), "{refusal}");
    assert_eq!(get("/token?user=a&expires_in=0").await.0, 400);
    assert_eq!(get("/tables").await, (200, json!({ "ThingsTable": 0 })));
    assert_eq!(get("/tables/ThingsTable").await, (200, json!([])));
    assert_eq!(get("/tables/Nothing").await.0, 404);
}

#[tokio::test]
async fn no_port_answers_a_page_or_a_name_from_elsewhere() {
    let fixture = start(Limits::default()).await;
    let server = &fixture.server;
    let http = reqwest::Client::new();
    for url in [server.http_url(), server.database().endpoint(), server.objects().endpoint()] {
        let port = url.rsplit_once(':').unwrap().1;
        let page = http.post(&url).header("origin", "https://example.com");
        let preflight = http.request(reqwest::Method::OPTIONS, &url).header("origin", "https://example.com");
        let preflight = preflight.header("access-control-request-method", "POST");
        let name = http.post(&url).header("host", format!("example.com:{port}"));
        for request in [page, preflight, name] {
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), 403, "{url}");
            assert!(answer.headers().get("access-control-allow-origin").is_none(), "{url}");
        }
        let here = http.post(&url).header("origin", "http://localhost:5173").send().await.unwrap();
        let text = here.text().await.unwrap();
        assert!(!text.contains("from elsewhere"), "{url}: {text}");
    }
}

#[tokio::test]
async fn sns_speaks_as_sns_does_and_shows_its_phones() {
    let fixture = start(Limits::default()).await;
    let (http, url) = (reqwest::Client::new(), format!("{}/sns", fixture.server.http_url()));
    // With a slash at its end, as the SDKs ask for it.
    let ask = async |form: String| {
        let response = http.post(format!("{url}/")).body(form).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let application = "arn%3Aaws%3Asns%3Aus-east-1%3A000000000000%3Aapp%2FGCM%2Flocal";
    let create = format!("Action=CreatePlatformEndpoint&PlatformApplicationArn={application}&Token=t%26t");
    let (status, xml) = ask(create).await;
    assert_eq!(status, 200, "{xml}");
    let (_, arn) = xml.split_once("<CreatePlatformEndpointResult><EndpointArn>").unwrap();
    let (arn, _) = arn.split_once("</EndpointArn></CreatePlatformEndpointResult>").unwrap();
    let data = r#"{"type":"message","conversation_id":"c","seq":"1"}"#;
    let payload = json!(format!(r#"{{"fcmV1Message":{{"message":{{"data":{data}}}}}}}"#));
    let message = format!(r#"{{"default":"hi","GCM":{payload}}}"#);
    let publish = format!("Action=Publish&TargetArn={arn}&MessageStructure=json&Message={message}");
    let (status, xml) = ask(publish).await;
    assert!(status == 200 && xml.contains("<PublishResult><MessageId>"), "{xml}");
    let shown: Value = http.get(&url).send().await.unwrap().json().await.unwrap();
    assert_eq!((&shown["t&t"][0]["seq"], &shown["t&t"][0]["body"]), (&json!(1), &json!("New message")));

    let (status, xml) = ask("Action=GetEndpointAttributes&EndpointArn=arn".to_owned()).await;
    let error = "<Error><Type>Sender</Type><Code>NotFound</Code><Message>Endpoint does not exist</Message></Error>";
    assert!(status == 404 && xml.contains(error), "{xml}");
    assert_eq!(ask("Action=CreateTopic&Name=%".to_owned()).await.0, 400);
    assert_eq!(ask("Action=CreateTopic".to_owned()).await.0, 400);
    let page = http.get(format!("{}/phones", fixture.server.http_url())).send().await.unwrap();
    assert_eq!(page.status(), 400);
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = Server::start(Options { port, ..Options::default() }).await.err().unwrap();
    assert!(
        format!("{error:#}").starts_with(&format!("cannot listen on 127.0.0.1:{port}; choose another")),
        "{error:#}"
    );
}
