//! End-to-end encryption, between Rust clients of two users.

use std::path::Path;
use std::time::Duration;

use data_encoding::BASE64;
use local::Options;
use pigeonhole_client::{
    At, Attachment, Client, Content, ConversationId, DeviceId, Draft, Emoji, Error, Event, Events, FileName, Filter,
    Keys, Kind, ListSnapshot, Lock, Message, MessageItem, MimeType, NewGroup, Notice, OwnDevice, Peek, ReportReason,
    ReportRequest, Screen, Side, Target, Title, UserId, View,
};
use serde_json::{Value, json};
use testkit::{Network, PATIENCE, TestServer};
use tokio::time::{sleep, timeout};

use crate::client::{Folder, config};

/// A device of a user.
struct Device {
    client: Client,
    events: Events,
}

impl Device {
    async fn open(server: &TestServer, user: &str, device: &str, keys: &Keys, folder: &Path) -> Self {
        Self::open_at(server, server.url(), user, device, keys, folder).await
    }

    async fn open_at(server: &TestServer, url: &str, user: &str, device: &str, keys: &Keys, folder: &Path) -> Self {
        let config = config(server, url, user).store(folder.join(format!("{user}-{device}")));
        let config = config.device_id(device).encrypted(keys.clone());
        let (client, events) = Client::connect(config).await.unwrap();
        // Others can encrypt for the device from then on.
        let is_there = |devices: &[OwnDevice]| devices.iter().any(|listed| listed.device.as_str() == device);
        let published = async {
            while !is_there(&client.own_devices().await.unwrap()) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, published).await.expect("the server has the keys of the device");
        Self { client, events }
    }

    fn view(&self, server: &TestServer, peer: &str) -> View<Screen> {
        self.client.direct(server.id(peer)).unwrap().messages(At::Newest).unwrap()
    }

    fn group(&self, id: &ConversationId) -> View<Screen> {
        self.client.chat(Target::Conversation(id.clone())).messages(At::Newest).unwrap()
    }

    async fn say(&self, id: &ConversationId, text: &str) {
        let sent = self.client.send(Target::Conversation(id.clone()), text).await.unwrap();
        timeout(PATIENCE, sent.stored()).await.expect("the message is stored").unwrap();
    }

    /// Returns the next message.
    async fn message(&mut self) -> Message {
        let told = async {
            loop {
                match self.events.next().await.expect("the client is open") {
                    Event::Message { message, .. } if message.kind.counts() => return message,
                    _ => {}
                }
            }
        };
        timeout(PATIENCE, told).await.expect("a message comes")
    }

    async fn notice(&mut self, is_it: impl Fn(&Notice) -> bool) {
        let told = async {
            loop {
                match self.events.next().await.expect("the client is open") {
                    Event::Security(notice) if is_it(&notice) => return,
                    _ => {}
                }
            }
        };
        timeout(PATIENCE, told).await.expect("the notice comes");
    }
}

async fn until<T: Clone + Send + Sync + std::fmt::Debug + 'static>(
    view: &mut View<T>,
    is_it: impl Fn(&T) -> bool,
) -> T {
    loop {
        if let Some(shown) = view.shown().filter(&is_it) {
            return shown;
        }
        let changed = timeout(PATIENCE, view.changed()).await;
        drop(changed.unwrap_or_else(|_| panic!("the view shows {:?}", view.shown())).unwrap());
    }
}

fn messages(screen: &Screen) -> Vec<&MessageItem> {
    let items = screen.messages.items.iter();
    items.filter_map(|item| if let Content::Message(it) = &item.content { Some(&**it) } else { None }).collect()
}

fn bodies(screen: &Screen) -> Vec<&str> {
    messages(screen).into_iter().map(|message| &*message.body).collect()
}

fn unreadable(screen: &Screen) -> usize {
    screen.messages.items.iter().filter(|item| matches!(item.content, Content::Unreadable { .. })).count()
}

fn lock(screen: &Screen) -> Option<Lock> {
    screen.chat.as_ref().map(|chat| chat.lock)
}

#[tokio::test]
async fn two_users_read_each_other_and_the_server_reads_neither() {
    let (server, folder) = (TestServer::open().await, Folder::new("encrypted"));
    let (alices, bobs) = (Keys::generate().unwrap(), Keys::generate().unwrap());
    let bob = Device::open(&server, "bob", "phone", &bobs, &folder.0).await;
    let alice = Device::open(&server, "alice", "phone", &alices, &folder.0).await;
    let (mut hers, mut his) = (alice.view(&server, "bob"), bob.view(&server, "alice"));
    let with_bob = alice.client.direct(server.id("bob")).unwrap();
    let with_alice = bob.client.direct(server.id("alice")).unwrap();

    with_bob.send("a secret canary").await.unwrap().stored().await.unwrap();
    let screen = until(&mut his, |screen| bodies(screen) == ["a secret canary"]).await;
    assert!(messages(&screen)[0].is_sealed);
    until(&mut his, |screen| lock(screen) == Some(Lock::Sealed)).await;
    let seq = messages(&screen)[0].seq.unwrap();
    with_alice.react(seq, Some(Emoji::parse("👍").unwrap())).await.unwrap().stored().await.unwrap();
    let reply = Draft::new("an answer canary").reply_to(seq);
    with_alice.send(reply).await.unwrap().stored().await.unwrap();
    with_bob.edit(seq, "an edited canary").await.unwrap().stored().await.unwrap();
    for view in [&mut hers, &mut his] {
        let screen = until(view, |screen| bodies(screen) == ["an edited canary", "an answer canary"]).await;
        let screen = if messages(&screen)[0].reactions.is_empty() {
            until(view, |screen| !messages(screen)[0].reactions.is_empty()).await
        } else {
            screen
        };
        assert_eq!(messages(&screen)[1].reply.as_ref().unwrap().seq, seq);
        assert_eq!((unreadable(&screen), lock(&screen)), (0, Some(Lock::Sealed)));
    }

    // Both see one number.
    let (me, peer) = (UserId::parse(&server.id("alice")).unwrap(), UserId::parse(&server.id("bob")).unwrap());
    let number = alice.client.safety_number(&peer).await.unwrap().unwrap();
    assert_eq!(bob.client.safety_number(&me).await.unwrap(), Some(number));
    assert_eq!((alice.client.stats().unreadable, bob.client.stats().unreadable), (0, 0));

    // A store without its server has all texts, and the list too.
    alice.client.close().await;
    let alice = Device::open(&server, "alice", "phone", &alices, &folder.0).await;
    let mut again = alice.view(&server, "bob");
    until(&mut again, |screen| bodies(screen) == ["an edited canary", "an answer canary"]).await;
    let mut list = alice.client.conversations(Filter::default()).unwrap();
    let is_listed = |list: &ListSnapshot| {
        list.rows.first().and_then(|row| row.line.as_ref()).is_some_and(|line| line.text == "an answer canary")
    };
    until(&mut list, is_listed).await;
}

#[tokio::test]
async fn a_new_device_joins_alone_and_a_reset_needs_no_help() {
    let (server, folder) = (TestServer::open().await, Folder::new("devices"));
    let (alices, bobs) = (Keys::generate().unwrap(), Keys::generate().unwrap());
    let mut bob = Device::open(&server, "bob", "phone", &bobs, &folder.0).await;
    let phone = Device::open(&server, "alice", "phone", &alices, &folder.0).await;
    let (mut his, with_bob) = (bob.view(&server, "alice"), phone.client.direct(server.id("bob")).unwrap());
    with_bob.send("one").await.unwrap().stored().await.unwrap();
    until(&mut his, |screen| bodies(screen) == ["one"]).await;

    // The laptop joins by itself, and reads no earlier message.
    let mut laptop = Device::open(&server, "alice", "laptop", &Keys::import(&alices.export()), &folder.0).await;
    laptop.notice(|notice| matches!(notice, Notice::Joined { .. })).await;
    bob.notice(|notice| matches!(notice, Notice::DeviceAdded { .. })).await;
    let with_alice = bob.client.direct(server.id("alice")).unwrap();
    with_alice.send("two").await.unwrap().stored().await.unwrap();
    let mut new = laptop.view(&server, "bob");
    let screen = until(&mut new, |screen| bodies(screen) == ["two"]).await;
    assert!(unreadable(&screen) <= 1, "{screen:?}");
    let from_laptop = laptop.client.direct(server.id("bob")).unwrap();
    from_laptop.send("three").await.unwrap().stored().await.unwrap();
    let mut hers = phone.view(&server, "bob");
    for view in [&mut his, &mut hers] {
        until(view, |screen| bodies(screen) == ["one", "two", "three"]).await;
    }

    let peer = UserId::parse(&server.id("bob")).unwrap();
    phone.client.reset(&peer);
    bob.notice(|notice| matches!(notice, Notice::Reset { .. })).await;
    with_alice.send("four").await.unwrap().stored().await.unwrap();
    with_bob.send("five").await.unwrap().stored().await.unwrap();
    for view in [&mut his, &mut hers] {
        let screen = until(view, |screen| bodies(screen) == ["one", "two", "three", "four", "five"]).await;
        assert_eq!(unreadable(&screen), 0);
    }
    until(&mut new, |screen| bodies(screen) == ["two", "three", "four", "five"]).await;
    assert_eq!([&phone, &bob].map(|device| device.client.stats().unreadable), [0, 0]);
}

#[tokio::test]
async fn a_notification_opens_a_message_and_the_app_opens_it_again() {
    let (server, folder) = (TestServer::open().await, Folder::new("peek"));
    let (alices, bobs) = (Keys::generate().unwrap(), Keys::generate().unwrap());
    let bob = Device::open(&server, "bob", "phone", &bobs, &folder.0).await;
    let alice = Device::open(&server, "alice", "phone", &alices, &folder.0).await;
    let with_bob = alice.client.direct(server.id("bob")).unwrap();
    with_bob.send("one").await.unwrap().stored().await.unwrap();
    until(&mut bob.view(&server, "alice"), |screen| bodies(screen) == ["one"]).await;
    bob.client.close().await;
    with_bob.send("two").await.unwrap().stored().await.unwrap();
    let mut laptop = Device::open(&server, "alice", "laptop", &alices, &folder.0).await;
    laptop.notice(|notice| matches!(notice, Notice::Joined { .. })).await;
    let from_laptop = laptop.client.direct(server.id("bob")).unwrap();
    from_laptop.send("three").await.unwrap().stored().await.unwrap();

    // The extension of the phone has a connection of its own, and reads the app's store.
    let (extension, _events) = Client::connect(config(&server, server.url(), "bob")).await.unwrap();
    let (me, path) = (UserId::parse(&server.id("bob")).unwrap(), folder.0.join("bob-phone"));
    let file = std::fs::read(&path).unwrap();
    for _ in 0..2 {
        let saved = pigeonhole_store::Reader::open(&path, &me).unwrap().saved().unwrap();
        let peek = Peek::open(&bobs, &me, DeviceId::parse("phone").unwrap(), saved).unwrap();
        let after = peek.position(with_bob.id()).unwrap();
        let page = extension.history(with_bob.id(), Side::After(after), 100).await.unwrap();
        let opened = peek.opened(&page.messages, page.messages[0].sent_at);
        assert_eq!(opened.iter().map(|message| &*message.body).collect::<Vec<_>>(), ["two", "three"]);
    }
    assert!(std::fs::read(&path).unwrap() == file, "the store has changed");

    let bob = Device::open(&server, "bob", "phone", &bobs, &folder.0).await;
    let mut his = bob.view(&server, "alice");
    let screen = until(&mut his, |screen| bodies(screen) == ["one", "two", "three"]).await;
    assert_eq!(unreadable(&screen), 0);
}

#[tokio::test]
async fn a_new_identity_of_a_verified_user_holds_messages_until_the_user_agrees() {
    let (server, folder) = (TestServer::open().await, Folder::new("identity"));
    let alices = Keys::generate().unwrap();
    let mut alice = Device::open(&server, "alice", "phone", &alices, &folder.0).await;
    let bob = Device::open(&server, "bob", "phone", &Keys::generate().unwrap(), &folder.0).await;
    let (with_bob, mut his) = (alice.client.direct(server.id("bob")).unwrap(), bob.view(&server, "alice"));
    with_bob.send("one").await.unwrap().stored().await.unwrap();
    until(&mut his, |screen| bodies(screen) == ["one"]).await;
    let peer = UserId::parse(&server.id("bob")).unwrap();
    alice.client.verify(&peer);
    bob.client.close().await;

    // Bob has lost the phone and the keys.
    let bob = Device::open(&server, "bob", "other", &Keys::generate().unwrap(), &folder.0).await;
    let me = UserId::parse(&server.id("alice")).unwrap();
    bob.client.reset(&me);
    alice.notice(|notice| matches!(notice, Notice::IdentityChanged { user } if *user == peer)).await;
    let mut hers = alice.view(&server, "bob");
    until(&mut hers, |screen| lock(screen) == Some(Lock::Changed)).await;
    let held = with_bob.send("two").await.unwrap();
    assert_eq!(alice.client.outbox().await.unwrap().len(), 1);
    alice.client.accept(&peer);
    held.stored().await.unwrap();
    let mut his = bob.view(&server, "alice");
    until(&mut his, |screen| bodies(screen) == ["two"]).await;
}

#[tokio::test]
async fn an_encrypted_group_is_read_by_its_members_devices_and_by_no_others() {
    let (server, folder) = (TestServer::open().await, Folder::new("group"));
    let keys: Vec<Keys> = (0..4).map(|_| Keys::generate().unwrap()).collect();
    let mut alice = Device::open(&server, "alice", "phone", &keys[0], &folder.0).await;
    let bob = Device::open(&server, "bob", "phone", &keys[1], &folder.0).await;
    let carol = Device::open(&server, "carol", "phone", &keys[2], &folder.0).await;
    let dave = Device::open(&server, "dave", "phone", &keys[3], &folder.0).await;
    let [bobs, carols, daves] = ["bob", "carol", "dave"].map(|name| UserId::parse(&server.id(name)).unwrap());
    let group = NewGroup::new(Title::parse("Trip").unwrap(), [bobs, carols]);
    let id = alice.client.create(group).await.unwrap().stored().await.unwrap().conversation_id;
    let (mut hers, mut his, mut carols) = (alice.group(&id), bob.group(&id), carol.group(&id));
    // A member writes first, who may not begin the encryption.
    bob.say(&id, "one").await;
    alice.say(&id, "two").await;
    for view in [&mut hers, &mut his, &mut carols] {
        let screen = until(view, |screen| bodies(screen) == ["one", "two"]).await;
        assert!(messages(&screen).iter().all(|message| message.is_sealed), "{screen:?}");
        until(view, |screen| lock(screen) == Some(Lock::Sealed)).await;
    }
    let mut list = bob.client.conversations(Filter::default()).unwrap();
    until(&mut list, |list| list.rows.first().is_some_and(|row| row.lock == Lock::Sealed)).await;

    // A new member reads from the addition on, and a removed one reads nothing more.
    alice.client.add(&id, [daves.clone()]).await.unwrap().stored().await.unwrap();
    carol.say(&id, "three").await;
    let mut new = dave.group(&id);
    until(&mut new, |screen| bodies(screen) == ["three"]).await;
    alice.client.remove(&id, &daves).await.unwrap().stored().await.unwrap();
    bob.say(&id, "four").await;
    // A user who left is out before the next message.
    carol.client.leave(&id).await.unwrap().stored().await.unwrap();
    bob.say(&id, "five").await;
    until(&mut hers, |screen| bodies(screen) == ["one", "two", "three", "four", "five"]).await;
    assert_eq!(bodies(&new.shown().unwrap()), ["three"]);
    assert_eq!(bodies(&until(&mut carols, |screen| bodies(screen).len() == 4).await), ["one", "two", "three", "four"]);

    // Another device of a member joins by itself.
    let mut laptop = Device::open(&server, "bob", "laptop", &Keys::import(&keys[1].export()), &folder.0).await;
    let is_here = |notice: &Notice| matches!(notice, Notice::Joined { conversation_id, .. } if *conversation_id == id);
    laptop.notice(is_here).await;
    alice.say(&id, "six").await;
    let mut third = laptop.group(&id);
    until(&mut third, |screen| bodies(screen) == ["six"]).await;
    bob.client.reset_group(&id);
    alice.notice(|notice| matches!(notice, Notice::Reset { .. })).await;
    laptop.say(&id, "seven").await;
    until(&mut third, |screen| bodies(screen) == ["six", "seven"]).await;
    let all = ["one", "two", "three", "four", "five", "six", "seven"];
    for view in [&mut hers, &mut his] {
        assert_eq!(unreadable(&until(view, |screen| bodies(screen) == all).await), 0);
    }
    assert_eq!([&alice, &bob, &carol].map(|device| device.client.stats().unreadable), [0; 3]);

    // The store has it all, and the device goes on from it.
    alice.client.close().await;
    let alice = Device::open(&server, "alice", "phone", &keys[0], &folder.0).await;
    let mut hers = alice.group(&id);
    until(&mut hers, |screen| bodies(screen) == all && lock(screen) == Some(Lock::Sealed)).await;
    alice.say(&id, "eight").await;
    until(&mut third, |screen| bodies(screen) == ["six", "seven", "eight"]).await;
}

#[tokio::test]
async fn an_encrypted_group_takes_no_service_and_a_group_in_the_clear_is_made_on_request() {
    let (server, folder) = (TestServer::open().await, Folder::new("plain"));
    let alice = Device::open(&server, "alice", "phone", &Keys::generate().unwrap(), &folder.0).await;
    let bob = UserId::parse(&server.id("bob")).unwrap();
    let group = NewGroup::new(Title::parse("Bots").unwrap(), [UserId::parse("@bot").unwrap()]);
    let refused = alice.client.create(group).await.unwrap_err();
    assert!(matches!(refused, Error::Invalid { field: "members", .. }), "{refused}");
    let group = NewGroup { encrypted: Some(false), ..NewGroup::new(Title::parse("Open").unwrap(), [bob]) };
    let id = alice.client.create(group).await.unwrap().stored().await.unwrap().conversation_id;
    alice.say(&id, "hi").await;
    let mut hers = alice.group(&id);
    let is_plain = |screen: &Screen| bodies(screen) == ["hi"] && lock(screen) == Some(Lock::Plain);
    assert!(!messages(&until(&mut hers, is_plain).await)[0].is_sealed);
}

fn mime(text: &str) -> MimeType {
    MimeType::parse(text).unwrap()
}

fn user(server: &TestServer, name: &str) -> Target {
    Target::User(UserId::parse(&server.id(name)).unwrap())
}

/// Returns which traces of a file the server has: in a table, in the object, or in the headers of the object.
async fn traces(server: &TestServer, client: &Client, message: &Message) -> [bool; 4] {
    let database = server.local().database();
    let tables = database.tables().unwrap();
    let rows = tables.keys().map(|table| format!("{:?}", database.rows(table, usize::MAX).unwrap()));
    let rows: String = rows.collect();
    let media_id = message.media.as_deref().unwrap().media_id().clone();
    let url = client.urls(vec![media_id]).await.unwrap().items.remove(0).url;
    let object = server.http.get(url).send().await.unwrap();
    let headers = format!("{:?}", object.headers());
    let bytes = object.bytes().await.unwrap();
    let has_bytes = bytes.windows(12).any(|part| part == b"canary-bytes");
    [rows.contains("canary-name"), rows.contains("x-canary"), has_bytes, headers.contains("canary")]
}

fn film(folder: &Folder) -> Attachment {
    let path = folder.with("film", &b"canary-bytes".repeat(17 * 1024 * 1024 / 12));
    Attachment::file(path, mime("video/x-canary"), FileName::parse("canary-name.mp4").unwrap())
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "reads the tables of the local server")]
async fn files_are_opened_by_the_other_user_alone_and_leave_no_trace_in_the_server() {
    let (server, folder) = (TestServer::open().await, Folder::new("sealed-files"));
    let (alices, bobs) = (Keys::generate().unwrap(), Keys::generate().unwrap());
    let mut bob = Device::open(&server, "bob", "phone", &bobs, &folder.0).await;
    let alice = Device::open(&server, "alice", "phone", &alices, &folder.0).await;
    let picture = b"canary-bytes".repeat(20_000);
    let small = || Some(vec![7; 4096].into());
    let image = Attachment::image(folder.with("us.png", &picture), mime("image/png"), 4, 3);
    let image = image.about(|about| about.thumbnail = small()).caption("us, at last");
    let voice = Attachment::voice(folder.with("voice", b"canary-bytes"), mime("audio/x-canary"), 900);
    // The first message of the conversation: the upload waits for the birth.
    alice.client.send_media(user(&server, "bob"), image).await.unwrap().stored().await.unwrap();
    alice.client.send_media(user(&server, "bob"), voice).await.unwrap().stored().await.unwrap();
    alice.client.send_media(user(&server, "bob"), film(&folder)).await.unwrap().stored().await.unwrap();
    let large = std::fs::read(folder.0.join("film")).unwrap();
    let sent: [(Kind, &[u8]); 3] = [(Kind::Image, &picture), (Kind::Voice, b"canary-bytes"), (Kind::File, &large)];
    let mut got = Vec::new();
    for (kind, bytes) in sent {
        let message = bob.message().await;
        let to = folder.0.join("got");
        bob.client.download(&message, &to).await.unwrap();
        assert!(message.kind == kind && std::fs::read(&to).unwrap() == bytes, "{message:?}");
        assert_eq!(traces(&server, &bob.client, &message).await, [false; 4], "{kind}");
        got.push(message);
    }
    assert_eq!(got[0].body, "us, at last");

    // Another digest or another key is another file.
    let media = |message: &Message| message.media.as_deref().unwrap().clear().unwrap().clone();
    let other = media(&got[1]);
    for (sha256, key) in [(other.sha256, media(&got[0]).key), (media(&got[0]).sha256, other.key)] {
        let mut wrong = got[0].clone();
        let own = wire::Media { sha256, key, ..media(&got[0]) };
        wrong.media = Some(Box::new(wire::Attached::Clear(own)));
        let refused = bob.client.download(&wrong, folder.0.join("wrong")).await.unwrap_err();
        assert!(matches!(refused, Error::File(_)) && !folder.0.join("wrong").exists(), "{refused}");
    }

    // After a restart, the key is in the store.
    bob.client.close().await;
    let bob = Device::open(&server, "bob", "phone", &bobs, &folder.0).await;
    let mut his = bob.view(&server, "alice");
    let screen = until(&mut his, |screen| messages(screen).len() == 3).await;
    let shown = messages(&screen)[0].media.clone().unwrap();
    assert_eq!((shown.bytes, shown.key.is_some()), (picture.len() as u64, true));
    assert_eq!(shown.thumbnail, small());

    // Forwarded, it is the same file: to a person, and never in the clear.
    let carols = Keys::generate().unwrap();
    let mut carol = Device::open(&server, "carol", "phone", &carols, &folder.0).await;
    let early = bob.client.direct(server.id("carol")).unwrap().send("hi").await.unwrap();
    early.stored().await.unwrap();
    bob.client.forward(user(&server, "carol"), &got[0], "look").await.unwrap().stored().await.unwrap();
    carol.message().await;
    let copy = carol.message().await;
    carol.client.download(&copy, folder.0.join("got")).await.unwrap();
    assert!(std::fs::read(folder.0.join("got")).unwrap() == picture && copy.body == "look");
    assert_eq!(media(&copy).thumbnail, small());

    // In the clear, the server has all of it: the search above would have found it.
    let (dave, _events) = Client::connect(config(&server, server.url(), "dave")).await.unwrap();
    let (erin, mut erins) = Client::connect(config(&server, server.url(), "erin")).await.unwrap();
    let film = film(&folder).about(|about| about.thumbnail = small());
    dave.send_media(user(&server, "erin"), film).await.unwrap().stored().await.unwrap();
    let clear = loop {
        if let Some(Event::Message { message, .. }) = timeout(PATIENCE, erins.next()).await.unwrap() {
            break message;
        }
    };
    assert_eq!(traces(&server, &erin, &clear).await, [true; 4]);
    assert_eq!(media(&clear).thumbnail, None);
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "cuts connections that have no TLS")]
async fn an_encrypted_upload_goes_on_after_a_restart() {
    let (server, folder) = (TestServer::open().await, Folder::new("sealed-upload"));
    let (alices, bobs) = (Keys::generate().unwrap(), Keys::generate().unwrap());
    let mut bob = Device::open(&server, "bob", "phone", &bobs, &folder.0).await;
    let network = Network::to(&server).await;
    let alice = Device::open_at(&server, &network.url(), "alice", "phone", &alices, &folder.0).await;
    let with_bob = alice.client.direct(server.id("bob")).unwrap();
    with_bob.send("hi").await.unwrap().stored().await.unwrap();
    assert_eq!(bob.message().await.body, "hi");
    // Nothing of the server comes through any more.
    network.mute_server();
    alice.client.send_media(user(&server, "bob"), film(&folder)).await.unwrap();
    alice.client.close().await;
    let _alice = Device::open(&server, "alice", "phone", &alices, &folder.0).await;
    let message = bob.message().await;
    bob.client.download(&message, folder.0.join("got")).await.unwrap();
    assert!(std::fs::read(folder.0.join("got")).unwrap() == std::fs::read(folder.0.join("film")).unwrap());
}

#[tokio::test]
#[cfg_attr(feature = "deployed", ignore = "needs a parameter, and asks the local server for the way to the operator")]
async fn a_report_proves_what_its_device_has_read() {
    let proofs = |options: &mut Options| drop(options.parameters.insert("SealedReports".to_owned(), "on".to_owned()));
    let (server, folder) = (TestServer::with(proofs).await, Folder::new("sealed-report"));
    let (alices, bobs) = (Keys::generate().unwrap(), Keys::generate().unwrap());
    let bob = Device::open(&server, "bob", "phone", &bobs, &folder.0).await;
    let alice = Device::open(&server, "alice", "phone", &alices, &folder.0).await;
    let (with_bob, mut his) = (alice.client.direct(server.id("bob")).unwrap(), bob.view(&server, "alice"));
    let first = with_bob.send("an ugly word").await.unwrap().stored().await.unwrap();
    let month = first.sent_at.to_string()[..7].to_owned();
    let edited = with_bob.send("a word").await.unwrap().stored().await.unwrap().seq;
    with_bob.edit(edited, "an uglier word").await.unwrap().stored().await.unwrap();
    let deleted = with_bob.send("the ugliest word").await.unwrap().stored().await.unwrap().seq;
    until(&mut his, |screen| bodies(screen) == ["an ugly word", "an uglier word", "the ugliest word"]).await;
    with_bob.delete(deleted).await.unwrap().stored().await.unwrap();
    until(&mut his, |screen| bodies(screen).get(2) == Some(&"")).await;
    // A restart has the proofs, and no key of the messages.
    bob.client.close().await;
    let bob = Device::open(&server, "bob", "phone", &bobs, &folder.0).await;
    let report = ReportRequest {
        conversation_id: Some(first.conversation_id),
        seqs: vec![first.seq, edited, deleted],
        user_id: None,
        reason: ReportReason::Abuse,
        note: None,
        claimed: Some("ugly words".to_owned()),
        opened: vec![],
    };
    bob.client.report(report).await.unwrap();
    let http = server.local().http_url();
    let asked = json!({"op": "reports", "month": month});
    let reports = server.http.post(format!("{http}/local/admin")).json(&asked).send().await.unwrap();
    let reports: Value = reports.json().await.unwrap();
    let report = &reports["result"]["reports"][0];
    let said = |copy: &Value| {
        let plaintext = copy["plaintext"].as_str().and_then(|text| BASE64.decode(text.as_bytes()).ok());
        let envelope: Option<Value> = plaintext.map(|plaintext| serde_json::from_slice(&plaintext).unwrap());
        (envelope.map(|envelope| envelope["body"].as_str().unwrap().to_owned()), copy["verified"] == true)
    };
    let said: Vec<_> = report["messages"].as_array().unwrap().iter().map(said).collect();
    let proven = |text: &str| (Some(text.to_owned()), true);
    // The first text of an edited message and a deleted text are gone, and their proofs too.
    assert_eq!(said, [proven("an ugly word"), (None, false), proven("an uglier word"), (None, false)], "{report}");
    assert_eq!(report["claimed"], "ugly words");
}

#[tokio::test]
async fn a_group_of_many_devices_has_its_keys_in_files() {
    let (server, folder) = (TestServer::open().await, Folder::new("sealed-large"));
    // The keys of 47 devices have no room in a frame.
    let many = ["u1", "u2", "u3", "u4", "u5"];
    for name in many {
        let keys = Keys::generate().unwrap();
        for device in 0..9 {
            Device::open(&server, name, &format!("d{device}"), &keys, &folder.0).await.client.close().await;
        }
    }
    let (alices, bobs) = (Keys::generate().unwrap(), Keys::generate().unwrap());
    let mut alice = Device::open(&server, "alice", "phone", &alices, &folder.0).await;
    let mut bob = Device::open(&server, "bob", "phone", &bobs, &folder.0).await;
    let members = ["bob"].into_iter().chain(many).map(|name| UserId::parse(&server.id(name)).unwrap());
    let group = NewGroup::new(Title::parse("Trip").unwrap(), members);
    let id = alice.client.create(group).await.unwrap().stored().await.unwrap().conversation_id;
    alice.say(&id, "one").await;
    assert_eq!((bob.message().await.body, alice.message().await.body), ("one".to_owned(), "one".to_owned()));
    // A commit of another member, and a message at its epoch.
    let carols = Keys::generate().unwrap();
    let carol = Device::open(&server, "carol", "phone", &carols, &folder.0).await;
    let hers = UserId::parse(&server.id("carol")).unwrap();
    alice.client.add(&id, [hers]).await.unwrap().stored().await.unwrap();
    let mut shown = carol.group(&id);
    bob.say(&id, "two").await;
    assert_eq!(alice.message().await.body, "two");
    until(&mut shown, |screen| bodies(screen) == ["two"]).await;
    // Another device joins by itself, with the newest tree.
    let bob = Device::open(&server, "bob", "tablet", &bobs, &folder.0).await;
    bob.say(&id, "three").await;
    assert_eq!(alice.message().await.body, "three");
}
