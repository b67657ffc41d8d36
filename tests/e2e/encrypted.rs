//! End-to-end encryption, between Rust clients of two users.

use std::path::Path;
use std::time::Duration;

use pigeonhole_client::{
    At, Client, Content, Emoji, Event, Events, Filter, Keys, ListSnapshot, Lock, MessageItem, Notice, OwnDevice,
    Screen, UserId, View,
};
use testkit::{PATIENCE, TestServer};
use tokio::time::{sleep, timeout};

use crate::client::{Folder, config};

/// A device of a user.
struct Device {
    client: Client,
    events: Events,
}

impl Device {
    async fn open(server: &TestServer, user: &str, device: &str, keys: &Keys, folder: &Path) -> Self {
        let config = config(server, server.url(), user).store(folder.join(format!("{user}-{device}")));
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
    let reply = pigeonhole_client::Draft::new("an answer canary").reply_to(seq);
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
