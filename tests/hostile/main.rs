//! AWS fails for one user, row or object: it throttles a partition, refuses a row, has no room left, or takes seconds
//! per call. All other users, in the same groups, batches and streams, notice nothing. The affected user catches up
//! after the failure.
//!
//! `PIGEONHOLE_USERS` (or `just hostile USERS`) sets the number of other users.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is the report")]

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use data_encoding::{BASE64, HEXLOWER};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use testkit::{AwsCall, Fault, PATIENCE, Phone, Proxy, TestServer};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

/// Half of them are connected, the others have a phone in a pocket.
const USERS: usize = 200;
const GROUPS: usize = 5;
/// Whom AWS is bad to. In the first group, with a phone.
const HOT: &str = "hot";
/// AWS fails for this user too, a subscriber of the channel.
const SUBSCRIBER: &str = "hot-subscriber";
const ROUNDS: usize = 5;
const ROUNDS_EVERY: Duration = Duration::from_secs(2);
/// No message, notification or removal takes longer for any other user.
const LATE_MAX: Duration = Duration::from_secs(5);
/// Each call, while all are delayed: a hundred times what one takes.
const DELAY: Duration = Duration::from_millis(400);
const PICTURE: &[u8] = b"as good as a picture";

/// What AWS does to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hostility {
    Nothing,
    Throttles,
    RefusesARow,
    HasNoRoom,
    Delays,
}

impl fmt::Display for Hostility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "does nothing",
            Self::Throttles => "throttles a partition",
            Self::RefusesARow => "refuses a row",
            Self::HasNoRoom => "has no room in a partition",
            Self::Delays => "delays each call about it",
        })
    }
}

/// A failure of AWS, and its target.
struct Aws {
    does: Hostility,
    group: String,
    media_id: String,
}

impl Aws {
    fn fault(&self, call: &AwsCall) -> Option<Fault> {
        let of_object = || call.operation() != "PutObject" && call.body()["key"].to_string().contains(&self.media_id);
        let hot = [HOT, SUBSCRIBER].into_iter().find(|user| call.is_about("InboxTable", user));
        let is_object = matches!(call, AwsCall::Object { .. });
        let is_hot = hot.is_some() || (is_object && !self.media_id.is_empty() && of_object());
        if !is_hot {
            return None;
        }
        let is_of_group = call.body().to_string().contains(&self.group);
        match self.does {
            Hostility::Nothing => None,
            Hostility::Delays => Some(Fault::Delayed(DELAY)),
            _ if is_object => Some(Fault::Status(500)),
            Hostility::Throttles => Some(Fault::Hot(hot.unwrap_or(HOT))),
            Hostility::RefusesARow => (call.writes() && is_of_group).then_some(Fault::Status(400)),
            Hostility::HasNoRoom => call.writes().then_some(Fault::Full),
        }
    }
}

/// When each user first had each text, and each phone showed each message.
#[derive(Default)]
struct Seen {
    /// The number of subscribers of the channel.
    subscribers: usize,
    texts: HashMap<(String, String), Instant>,
    rings: HashMap<(String, String, u64), Instant>,
}

/// An effect that a user waits for, and the time of its cause.
enum Wanted {
    Text { stream: Stream, user: String, text: String },
    Ring { user: String, conversation: String, seq: u64 },
    Gone { media_id: String },
}

/// The path that brings the effect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    Group,
    Channel,
    Queue,
    Pushes,
    Removals,
}

impl Stream {
    const ALL: [Self; 5] = [Self::Group, Self::Channel, Self::Queue, Self::Pushes, Self::Removals];
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Group => "group messages",
            Self::Channel => "channel messages",
            Self::Queue => "services' messages",
            Self::Pushes => "pushes",
            Self::Removals => "removals",
        })
    }
}

impl Wanted {
    fn stream(&self) -> Stream {
        match self {
            Self::Text { stream, .. } => *stream,
            Self::Ring { .. } => Stream::Pushes,
            Self::Gone { .. } => Stream::Removals,
        }
    }
}

struct World {
    server: Arc<TestServer>,
    aws: Arc<Mutex<Aws>>,
    seen: Arc<Mutex<Seen>>,
    writers: Vec<Phone>,
    publisher: Phone,
    channel: String,
    groups: Vec<String>,
    /// By group: the connected members, and the others.
    online: Vec<Vec<String>>,
    offline: Vec<Vec<String>>,
    wanted: Vec<(Instant, Wanted)>,
    _listening: JoinSet<()>,
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_aws_is_bad_to_holds_up_nobody_else() {
    let aws = Arc::new(Mutex::new(Aws { does: Hostility::Nothing, group: String::new(), media_id: String::new() }));
    let proxy = Proxy::open({
        let aws = Arc::clone(&aws);
        move |_, call| aws.lock().unwrap().fault(call)
    })
    .await;
    let change = |options: &mut local::Options| TestServer::ringing(options, 1);
    let mut world = World::new(proxy.server_with(change).await, aws).await;
    let mut wrong = Vec::new();
    println!("| AWS |{} |", Stream::ALL.map(|stream| format!(" {stream}")).join(" |"));
    let all =
        [Hostility::Nothing, Hostility::Throttles, Hostility::RefusesARow, Hostility::HasNoRoom, Hostility::Delays];
    for does in all {
        let late = world.endure(does).await;
        println!("{}", world.row(does, &late));
        let late = late.into_iter().map(|(_, what)| what).chain(world.afterwards(does).await);
        wrong.extend(late.map(|what| format!("AWS {does}: {what}")));
        world.wanted.clear();
    }
    let given_up = world.server.group_stream().given_up().len() + world.server.pending_stream().given_up().len();
    wrong.extend((given_up > 0).then(|| format!("{given_up} batches given up")));
    for line in wrong.iter().take(20) {
        println!("  {line}");
    }
    assert!(wrong.is_empty(), "{} things that others noticed", wrong.len());
}

impl World {
    async fn new(server: Arc<TestServer>, aws: Arc<Mutex<Aws>>) -> Self {
        let users = std::env::var("PIGEONHOLE_USERS").map_or(USERS, |text| text.parse().expect("a number"));
        let seen = Arc::<Mutex<Seen>>::default();
        let mut listening = JoinSet::new();
        let (mut writers, mut groups, mut online, mut offline) = (vec![], vec![], vec![], vec![]);
        register(&server, HOT).await;
        let mut publisher = server.phone("publisher").await;
        let create = json!({
            "action": "create", "kind": "channel", "client_msg_id": "c", "title": "News", "members": [], "join": "open",
        });
        let channel = publisher.ok(create).await["conversation_id"].as_str().unwrap().to_owned();
        let subscriber = |user: &str| listen(Arc::clone(&server), user.to_owned(), channel.clone(), Arc::clone(&seen));
        listening.spawn(subscriber(SUBSCRIBER));
        for group in 0..GROUPS {
            let names = |what: &str| (0..users / GROUPS / 2).map(|n| format!("{what}-{group}-{n}")).collect::<Vec<_>>();
            let (there, away) = (names("online"), names("offline"));
            for user in &there {
                listening.spawn(subscriber(user));
            }
            for user in &away {
                register(&server, user).await;
            }
            let mut writer = server.phone(&format!("writer-{group}")).await;
            let mut members = [&there[..], &away[..]].concat();
            members.extend((group == 0).then(|| HOT.to_owned()));
            let (first, more) = members.split_at(members.len().min(50));
            let create = json!({"action": "create", "client_msg_id": "g", "title": "A group", "members": first});
            let id = writer.ok(create).await["conversation_id"].as_str().unwrap().to_owned();
            for (number, some) in more.chunks(50).enumerate() {
                let add = json!({"action": "add", "conversation_id": id, "client_msg_id": format!("a{number}"), "members": some});
                writer.ok(add).await;
            }
            writers.push(writer);
            groups.push(id);
            online.push(there);
            offline.push(away);
        }
        let subscribers = 1 + online.iter().map(Vec::len).sum::<usize>();
        let all_subscribe = async {
            while seen.lock().unwrap().subscribers < subscribers {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, all_subscribe).await.expect("all subscribe");
        server.groups_settled().await;
        listening.spawn(look(Arc::clone(&server), Arc::clone(&seen)));
        aws.lock().unwrap().group.clone_from(&groups[0]);
        Self {
            server,
            aws,
            seen,
            writers,
            publisher,
            channel,
            groups,
            online,
            offline,
            wanted: vec![],
            _listening: listening,
        }
    }

    /// A row of the table: how many effects were late, of how many.
    fn row(&self, does: Hostility, late: &[(Stream, String)]) -> String {
        let mut counts = BTreeMap::<Stream, (usize, usize)>::new();
        for (_, wanted) in &self.wanted {
            counts.entry(wanted.stream()).or_default().1 += 1;
        }
        for (stream, _) in late {
            counts.entry(*stream).or_default().0 += 1;
        }
        let cells = counts.values().map(|(late, all)| format!(" {late} of {all} |"));
        format!("| {does} |{}", cells.collect::<String>())
    }

    /// Returns the effects that came late to other users during the failure.
    async fn endure(&mut self, does: Hostility) -> Vec<(Stream, String)> {
        let hot = self.picture(0, &format!("{does}: hot")).await;
        self.aws.lock().unwrap().media_id.clone_from(&hot.0);
        self.aws.lock().unwrap().does = does;
        self.remove(0, &hot, &format!("{does}: hot")).await;
        let mut ticks = interval(ROUNDS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for round in 0..ROUNDS {
            ticks.tick().await;
            self.write(&format!("{does}, {round}")).await;
        }
        let mut late = Vec::new();
        for (since, wanted) in &self.wanted {
            late.extend(self.comes(*since, wanted).await.map(|what| (wanted.stream(), what)));
        }
        late
    }

    /// Ends the failure. Returns what its targets lack then.
    async fn afterwards(&mut self, does: Hostility) -> Vec<String> {
        self.aws.lock().unwrap().does = Hostility::Nothing;
        // The next entry of a conversation brings what is missing along.
        self.write(&format!("{does}, afterwards")).await;
        self.is_whole(does).await
    }

    /// Writes a message to the channel, to each group and to absent users. A service writes to some users. A picture is
    /// sent and deleted.
    async fn write(&mut self, text: &str) {
        let (since, in_channel) = (Instant::now(), format!("{text}, in the channel"));
        let frame = json!({
            "action": "send", "conversation_id": self.channel, "client_msg_id": id(text), "kind": "text", "body": in_channel,
        });
        self.publisher.ok(frame).await;
        for user in self.online.iter().flatten() {
            let (user, text) = (user.clone(), in_channel.clone());
            self.wanted.push((since, Wanted::Text { stream: Stream::Channel, user, text }));
        }
        for group in 0..GROUPS {
            let since = Instant::now();
            let frame = json!({
                "action": "send", "conversation_id": self.groups[group], "client_msg_id": id(text), "kind": "text", "body": text,
            });
            let seq = self.writers[group].ok(frame).await["seq"].as_u64().unwrap();
            for user in &self.online[group] {
                let (user, text) = (user.clone(), text.to_owned());
                self.wanted.push((since, Wanted::Text { stream: Stream::Group, user, text }));
            }
            for user in &self.offline[group] {
                let (user, conversation) = (user.clone(), self.groups[group].clone());
                self.wanted.push((since, Wanted::Ring { user, conversation, seq }));
            }
            let (since, away) = (Instant::now(), self.offline[group][0].clone());
            let sent = self.writers[group].send(&away, &id(text), text).await;
            let (conversation, seq) =
                (sent["conversation_id"].as_str().unwrap().to_owned(), sent["seq"].as_u64().unwrap());
            self.wanted.push((since, Wanted::Ring { user: away, conversation, seq }));
        }
        let since = Instant::now();
        let from_shop = format!("{text}, from a service");
        let of_service = self.online.iter().map(|online| online[0].clone());
        for user in [HOT.to_owned()].into_iter().chain(of_service) {
            self.publish(&user, &from_shop).await;
            if user != HOT {
                self.wanted.push((since, Wanted::Text { stream: Stream::Queue, user, text: from_shop.clone() }));
            }
        }
        let picture = self.picture(1, text).await;
        let since = Instant::now();
        self.remove(1, &picture, text).await;
        self.wanted.push((since, Wanted::Gone { media_id: picture.0 }));
    }

    async fn publish(&self, user: &str, text: &str) {
        let server = &self.server;
        let local = server.http.get(format!("{}/local", server.local().http_url())).send().await.unwrap();
        let local: Value = local.json().await.unwrap();
        let message = json!({"to": user, "from": "@shop", "client_msg_id": digest(text.as_bytes()), "kind": "text", "body": text});
        let request = json!({
            "QueueUrl": local["queue_url"], "MessageBody": message.to_string(), "MessageGroupId": user,
            "MessageDeduplicationId": HEXLOWER.encode(&Sha256::digest(format!("{user} {text}"))),
        });
        let post = server.http.post(format!("{}/sqs/", server.local().http_url()));
        let post = post.header("x-amz-target", "AmazonSQS.SendMessage").json(&request);
        post.send().await.unwrap().error_for_status().expect("it is taken");
    }

    /// Sends a picture to a user. Returns its key, and its message's conversation and seq.
    async fn picture(&mut self, writer: usize, text: &str) -> (String, Value, Value) {
        let to = self.offline[writer][0].clone();
        let phone = &mut self.writers[writer];
        let sha256 = digest(PICTURE);
        let upload = json!({
            "action": "upload", "to": to, "kind": "image", "mime": "image/png", "bytes": PICTURE.len(), "sha256": sha256,
        });
        let place = phone.ok(upload).await;
        let mut put = self.server.http.put(place["url"].as_str().unwrap()).body(PICTURE);
        for (name, value) in place["headers"].as_object().unwrap() {
            put = put.header(name, value.as_str().unwrap());
        }
        assert_eq!(put.send().await.unwrap().status(), 200);
        let media_id = phone.ok(json!({"action": "uploaded", "media_id": place["media_id"]})).await["media_id"].take();
        let media = json!({
            "media_id": media_id, "mime": "image/png", "bytes": PICTURE.len(), "sha256": sha256, "width": 4, "height": 3,
        });
        let message = json!({
            "action": "send", "to": to, "client_msg_id": id(&format!("picture {text}")), "kind": "image", "body": "", "media": media,
        });
        let mut sent = phone.ok(message).await;
        (media_id.as_str().unwrap().to_owned(), sent["conversation_id"].take(), sent["seq"].take())
    }

    async fn remove(&mut self, writer: usize, (_, conversation, seq): &(String, Value, Value), text: &str) {
        let delete = json!({
            "action": "delete", "conversation_id": conversation, "seq": seq, "client_msg_id": id(&format!("delete {text}")),
        });
        self.writers[writer].ok(delete).await;
    }

    /// Describes the effect, if it is late.
    async fn comes(&self, since: Instant, wanted: &Wanted) -> Option<String> {
        let at = || {
            let seen = self.seen.lock().unwrap();
            match wanted {
                Wanted::Text { user, text, .. } => seen.texts.get(&(user.clone(), text.clone())).copied(),
                Wanted::Ring { user, conversation, seq } => {
                    let later = seen
                        .rings
                        .iter()
                        .filter(|((of, at, shown), _)| (of, at) == (user, conversation) && shown >= seq);
                    later.map(|(_, at)| *at).min()
                }
                Wanted::Gone { media_id } => {
                    let is_there = self.server.local().objects().keys().iter().any(|key| key.contains(media_id));
                    (!is_there).then(Instant::now)
                }
            }
        };
        let end = Instant::now().max(since + LATE_MAX);
        loop {
            match at() {
                // An object that is gone is looked for at the end alone.
                Some(_) if matches!(wanted, Wanted::Gone { .. }) => return None,
                Some(at) if at.duration_since(since) <= LATE_MAX => return None,
                Some(at) => return Some(format!("{wanted} came after {:?}", at.duration_since(since))),
                None if Instant::now() >= end => return Some(format!("{wanted} did not come")),
                None => sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Lists the effects that the target lacks after the failure.
    async fn is_whole(&mut self, does: Hostility) -> Vec<String> {
        let wanted: Vec<String> = (0..ROUNDS).map(|round| format!("{does}, {round}")).collect();
        let (mut phone, mut come) = (self.server.phone(HOT).await, Vec::new());
        let whole = async {
            loop {
                for message in phone.drain().await {
                    come.push(message["body"].as_str().unwrap_or_default().to_owned());
                }
                if wanted.iter().all(|text| come.contains(text)) {
                    return;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        let is_whole = timeout(PATIENCE, whole).await.is_ok();
        phone.leave().await;
        let lacks = wanted.iter().filter(|text| !come.contains(text)).map(|text| format!("{HOT} lacks \"{text}\""));
        if is_whole { vec![] } else { lacks.collect() }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { user, text, .. } => write!(f, "\"{text}\" to {user}"),
            Self::Ring { user, seq, .. } => write!(f, "the ring of {user} for {seq}"),
            Self::Gone { .. } => f.write_str("the removal of an object"),
        }
    }
}

fn id(text: &str) -> String {
    text.replace(|one: char| !one.is_ascii_alphanumeric(), "-")
}

fn digest(bytes: &[u8]) -> String {
    BASE64.encode(&Sha256::digest(bytes))
}

/// The user's phone, in a pocket.
async fn register(server: &TestServer, user: &str) {
    let mut phone = server.device(user, "phone").await;
    let token = HEXLOWER.encode(user.as_bytes());
    let request = json!({"action": "device", "platform": "apns", "token": token, "preview": true});
    assert_eq!(phone.ok(request).await["registered"], true);
    phone.leave().await;
    server.until_connections(user, 0).await;
}

/// Subscribes the user to the channel, notes what comes, and acknowledges it.
async fn listen(server: Arc<TestServer>, user: String, channel: String, seen: Arc<Mutex<Seen>>) {
    let url = format!("{}?token={}", server.url(), server.token(&user));
    let (mut socket, _) = connect_async(url).await.expect("a good token connects");
    let about =
        |action: &str| Message::text(json!({"action": action, "id": action, "conversation_id": channel}).to_string());
    socket.send(about("join")).await.expect("the socket is open");
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let frame: Value = serde_json::from_str(&text).expect("frames are JSON");
        match frame["id"].as_str() {
            Some("join") => {
                assert_eq!(frame["type"], "reply", "{frame}");
                socket.send(about("watch")).await.expect("the socket is open");
            }
            Some("watch") => {
                assert_eq!(frame["result"]["live"], true, "{frame}");
                seen.lock().unwrap().subscribers += 1;
            }
            _ => {}
        }
        for message in frame["messages"].as_array().into_iter().flatten() {
            let text = message["body"].as_str().unwrap_or_default().to_owned();
            seen.lock().unwrap().texts.entry((user.clone(), text)).or_insert_with(Instant::now);
            // A channel has no marks of delivery.
            if message["conversation_id"] == channel.as_str() {
                continue;
            }
            let up_to = json!([{"conversation_id": message["conversation_id"], "seq": message["seq"]}]);
            let ack = json!({"action": "ack", "up_to": up_to});
            if socket.send(Message::text(ack.to_string())).await.is_err() {
                return;
            }
        }
    }
}

/// Notes what phones show.
async fn look(server: Arc<TestServer>, seen: Arc<Mutex<Seen>>) {
    let url = format!("{}/sns", server.local().http_url());
    loop {
        let phones: Value = server.http.get(&url).send().await.unwrap().json().await.unwrap();
        let now = Instant::now();
        for (token, shown) in phones.as_object().unwrap() {
            let user = String::from_utf8(HEXLOWER.decode(token.as_bytes()).unwrap()).unwrap();
            for one in shown.as_array().into_iter().flatten() {
                let conversation = one["conversation_id"].as_str().unwrap_or_default().to_owned();
                let seq = one["seq"].as_u64().unwrap_or_default();
                seen.lock().unwrap().rings.entry((user.clone(), conversation, seq)).or_insert(now);
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
}
