//! The server under test: a local one of the test's own, or a deployed stack that it shares with others.

mod network;
mod phone;
mod programs;
mod proxy;
mod users;

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use local::{Logs, Options, Server, StreamLimits, Switches};
pub use network::Network;
pub use phone::{ConnectError, Frame, Phone};
use programs::pigeonhole;
pub use programs::{example, programs};
pub use proxy::Proxy;
use serde_json::Value;
use tokio::time::timeout;
use users::Users;

use crate::{PATIENCE, dynamodb_config};

/// The template's parameters for SNS's platform applications.
const APPLICATIONS: [&str; 3] = ["ApnsApplicationArn", "ApnsSandboxApplicationArn", "FcmApplicationArn"];

/// A running server with its own tables, which ends with the test. If `PIGEONHOLE_URL` names a deployed stack, the
/// server is that stack, and each test has its own users.
pub struct TestServer {
    local: Option<Server>,
    url: String,
    users: Users,
    pub http: reqwest::Client,
}

impl TestServer {
    /// The stack that the environment names, or a local server.
    pub async fn open() -> Self {
        match std::env::var("PIGEONHOLE_URL") {
            Ok(url) => Self { local: None, url, users: Users::issued(), http: reqwest::Client::new() },
            Err(_) => Self::with(|_| {}).await,
        }
    }

    /// Opens a server with push notifications, if the server is local.
    pub async fn open_ringing(grace_s: u32) -> Self {
        match std::env::var("PIGEONHOLE_URL") {
            Ok(_) => Self::open().await,
            Err(_) => Self::with(|options| Self::ringing(options, grace_s)).await,
        }
    }

    /// A local server with options changed.
    pub async fn with(change: impl FnOnce(&mut Options)) -> Self {
        let program = pigeonhole().to_owned();
        let mut options = Options { port: 0, program, logs: Logs::Silent, ..Options::default() };
        // Tests send more requests than a user. Tests of the limits set their own.
        for rate in ["RequestRate", "SendRate"] {
            options.parameters.insert(rate.to_owned(), "off".to_owned());
        }
        // Only tests of phones have platforms: other tests need no stream, and no function that reads it.
        for application in APPLICATIONS {
            options.parameters.insert(application.to_owned(), String::new());
        }
        // Only tests of events have a queue for them, for the same reason.
        options.parameters.insert("EventsTo".to_owned(), String::new());
        // Group events come without delay.
        let (read_every, window_max) = (Duration::from_millis(10), Duration::ZERO);
        // A queue's failed messages come again soon.
        options.streams = StreamLimits { read_every, window_max, visibility_max: Duration::from_millis(200) };
        change(&mut options);
        let server = Server::start(options).await.expect("the local server starts");
        Self { url: server.url(), local: Some(server), users: Users::plain(), http: reqwest::Client::new() }
    }

    /// Adds push notifications to these options, after a grace period of this many seconds for connected users. No
    /// batching window delays a change.
    pub fn ringing(options: &mut Options, grace_s: u32) {
        for application in APPLICATIONS {
            options.parameters.remove(application);
        }
        options.parameters.insert("PushGraceSeconds".to_owned(), grace_s.to_string());
    }

    /// Has these options send events to a queue.
    pub fn publishing(options: &mut Options) {
        options.parameters.remove("EventsTo");
    }

    /// Waits until no job is under way.
    pub async fn jobs_done(&self) {
        let mapping = self.local().mapping("JobStream").expect("each server has jobs");
        if timeout(PATIENCE, mapping.settled()).await.is_err() {
            let url = format!("{}/local/log", self.local().http_url());
            let log = self.http.get(url).send().await.unwrap().text().await.unwrap();
            let failed: Vec<&str> = log.lines().filter(|line| line.contains("the daily rule failed")).collect();
            panic!("jobs are under way: {failed:#?}");
        }
    }

    /// Returns the events in the queue, in the order in which they came, once all that was written so far is there.
    pub async fn events(&self) -> Vec<Value> {
        for mapping in ["EntryStream", "ReportStream"] {
            let mapping = self.local().mapping(mapping).expect("the server sends events");
            timeout(PATIENCE, mapping.settled()).await.expect("the stream is read to its end");
        }
        let events = self.local().queue("Events").expect("the server sends events").messages();
        events.iter().map(|(event, _)| serde_json::from_str(event).expect("an event is JSON")).collect()
    }

    /// A connection of one of the user's devices.
    pub async fn device(&self, user: &str, device_id: &str) -> Phone {
        let url = format!("{}?device_id={device_id}", self.url);
        let phone = Phone::connect(user, &url, &self.token(user)).await.expect("a good token connects");
        phone.among(self.users.clone())
    }

    /// Returns the mapping that invokes `notify` with the inbox table's changes.
    pub fn pending_stream(&self) -> &Switches {
        self.local().mapping("PendingStream").expect("the server has phones that ring")
    }

    /// Returns the mapping that invokes `fanout` with the groups' heads.
    pub fn group_stream(&self) -> &Switches {
        self.local().mapping("GroupStream").expect("the template has it")
    }

    /// Returns the mapping that invokes `fanout` with the channels' heads.
    pub fn channel_stream(&self) -> &Switches {
        self.local().mapping("ChannelStream").expect("the template has it")
    }

    /// Waits until all that was written in groups and channels so far has reached the members.
    pub async fn groups_settled(&self) {
        for stream in [self.group_stream(), self.channel_stream()] {
            timeout(PATIENCE, stream.settled()).await.expect("the stream is read to its end");
        }
    }

    /// Returns the notifications on each phone of the user, after all effects of earlier steps.
    pub async fn phones(&self, user: &str) -> Vec<Value> {
        timeout(PATIENCE, self.pending_stream().settled()).await.expect("the stream is read to its end");
        let url = format!("{}/phones?user={user}", self.local().http_url());
        let page: Value = self.http.get(url).send().await.unwrap().json().await.unwrap();
        page["phones"].as_array().expect("a list of phones").clone()
    }

    /// Waits until the phone behind a token shows this. A deployed stack's SNS is one of the local server's, which
    /// `PIGEONHOLE_SNS` names.
    pub async fn until_phone_shows(&self, token: &str, fits: impl Fn(&[Value]) -> bool) {
        let url = std::env::var("PIGEONHOLE_SNS").unwrap_or_else(|_| format!("{}/sns", self.local().http_url()));
        let shows = async {
            loop {
                let phones: Value = self.http.get(&url).send().await.unwrap().json().await.unwrap();
                if phones[token].as_array().is_some_and(|shown| fits(shown)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, shows).await.expect("the phone shows it in time");
    }

    /// The local server, for what can be done with no other. A test that calls this is marked
    /// `#[cfg_attr(feature = "deployed", ignore = "…")]`.
    pub fn local(&self) -> &Server {
        self.local.as_ref().expect("this test needs the local server: mark it as ignored where something is deployed")
    }

    /// Ends the local server.
    pub async fn shutdown(self) {
        self.local.expect("this test needs the local server").shutdown().await;
    }

    /// Where clients connect.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A connected phone of this user.
    pub async fn phone(&self, user: &str) -> Phone {
        let phone = Phone::connect(user, &self.url, &self.token(user)).await.expect("a good token connects");
        phone.among(self.users.clone())
    }

    pub async fn connect(&self, token: &str) -> Result<Phone, ConnectError> {
        Ok(Phone::connect("anyone", &self.url, token).await?.among(self.users.clone()))
    }

    pub fn token(&self, user: &str) -> String {
        self.token_for(user, 3600)
    }

    /// A token that expires in that many seconds.
    pub fn token_for(&self, user: &str, expires_in_s: u32) -> String {
        match &self.local {
            Some(server) => server.token(user, expires_in_s).expect("the local server issues tokens"),
            None => self.users.token(user, expires_in_s),
        }
    }

    /// The id that the server has for the user whom the test calls `user`.
    pub fn id(&self, user: &str) -> String {
        self.users.id(user)
    }

    pub fn tables(&self) -> aws_sdk_dynamodb::Client {
        let config = dynamodb_config(plain_http()).endpoint_url(self.local().database().endpoint());
        aws_sdk_dynamodb::Client::from_conf(config.build())
    }

    /// The rows of a user, as plain JSON, in a table whose partition key is `user_id`.
    pub fn rows(&self, table: &str, user: &str) -> Vec<Value> {
        let rows = self.local().database().rows(table, usize::MAX).unwrap().expect("the template has the table");
        rows.into_iter().filter(|row| row["user_id"] == user).collect()
    }

    /// How many connections of the user are noted.
    pub fn connections(&self, user: &str) -> usize {
        self.connection_rows(user).len()
    }

    /// Returns the rows of the user's connections, without the user's own rows, whose keys have a space.
    pub fn connection_rows(&self, user: &str) -> Vec<Value> {
        let mut rows = self.rows("ConnectionsTable", user);
        rows.retain(|row| row["connection_id"].as_str().is_some_and(|id| !id.contains(' ')));
        rows
    }

    /// Waits until that many are noted: `$disconnect` runs after the socket has closed.
    pub async fn until_connections(&self, user: &str, count: usize) {
        let reached = async {
            while self.connections(user) != count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, reached).await.expect("the user has that many connections");
    }

    /// Stores a connection of the user that no longer exists: a post to it gets 410.
    pub async fn store_dead_connection(&self, user: &str) {
        self.store_connection(user, "dead=", "4102444800000").await;
    }

    /// Stores a connection of the user's that has ended with its token: who finds it closes it.
    pub async fn store_ended_connection(&self, user: &str) {
        self.store_connection(user, "ended=", "1700000000000").await;
    }

    /// Stores that the user asks for too much: whatever process takes the next sample ends it.
    pub async fn store_samples(&self, user: &str) {
        let put = self.tables().put_item().table_name("ConnectionsTable");
        let put = put.item("user_id", AttributeValue::S(user.to_owned()));
        let put = put.item("connection_id", AttributeValue::S(" samples".to_owned()));
        let put = put.item("api", AttributeValue::S(" samples".to_owned()));
        let put = put.item("at_1", AttributeValue::N("4102444800000".to_owned()));
        put.send().await.unwrap();
    }

    /// Stores a connection of the user's that no socket is behind.
    pub async fn store_connection(&self, user: &str, id: &str, ends_at: &str) {
        let put = self.tables().put_item().table_name("ConnectionsTable");
        let put = put.item("user_id", AttributeValue::S(user.to_owned()));
        let put = put.item("connection_id", AttributeValue::S(id.to_owned()));
        let put = put.item("device_id", AttributeValue::S(id.to_owned()));
        let put = put.item("connected_at", AttributeValue::N("1700000000000".to_owned()));
        let put = put.item("ends_at", AttributeValue::N(ends_at.to_owned()));
        let put = put.item("expires_at", AttributeValue::N("4102444800".to_owned()));
        put.send().await.unwrap();
    }

    /// Removes what is noted of the user's connections.
    pub async fn forget_connections(&self, user: &str) {
        for row in self.connection_rows(user) {
            let delete = self.tables().delete_item().table_name("ConnectionsTable");
            let delete = delete.key("user_id", AttributeValue::S(user.to_owned()));
            let id = row["connection_id"].as_str().unwrap().to_owned();
            delete.key("connection_id", AttributeValue::S(id)).send().await.unwrap();
        }
    }

    /// Makes all connection rows of the user an hour old, as time would.
    pub async fn age_connections(&self, user: &str) {
        for row in self.connection_rows(user) {
            let at = row["connected_at"].as_i64().unwrap() - 3_600_000;
            let update = self.tables().update_item().table_name("ConnectionsTable");
            let update = update.key("user_id", AttributeValue::S(user.to_owned()));
            let update =
                update.key("connection_id", AttributeValue::S(row["connection_id"].as_str().unwrap().to_owned()));
            let update = update.update_expression("SET connected_at = :at");
            update.expression_attribute_values(":at", AttributeValue::N(at.to_string())).send().await.unwrap();
        }
    }
}

/// Without TLS, whose certificates would be read anew for each client.
fn plain_http() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new().build_http()
}
