//! The client library, through connections that break.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pigeonhole_client::{
    Attachment, Client, Config, ConversationId, Digest, Draft, Emoji, Error, Event, Events, FileName, Info, JoinBy,
    Message, MimeType, NewGroup, ReceiptKind, Role, Sent, Seq, Side, State, System, Target, Tick, Timeline,
    TimelineEntry, Timing, Title, TokenNeed, UserId,
};
use testkit::{Network, PATIENCE, TestServer};
use tokio::time::timeout;

/// Quick to try again, since nothing here is far away.
fn timing() -> Timing {
    Timing {
        reconnect_first: Duration::from_millis(20),
        reconnect_max: Duration::from_millis(200),
        ack_every: Duration::from_millis(50),
        ..Timing::default()
    }
}

pub(crate) fn config(server: &TestServer, url: &str, user: &str) -> Config {
    let token = server.token(user);
    let give = move |_| std::future::ready(Ok(token.clone()));
    Config::new(url, server.id(user), give).timing(timing())
}

/// A user with the client.
pub(crate) struct App {
    me: UserId,
    pub(crate) client: Client,
    events: Events,
    got: Vec<Message>,
    states: Vec<State>,
}

impl App {
    pub(crate) async fn start(config: Config) -> Self {
        let me = UserId::parse(&config.user_id).unwrap();
        let (client, events) = Client::connect(config).await.unwrap();
        Self { me, client, events, got: Vec::new(), states: Vec::new() }
    }

    /// Started, and told that nothing is missing.
    pub(crate) async fn ready(config: Config) -> Self {
        let mut app = Self::start(config).await;
        app.until(|app| app.states.last() == Some(&State::CaughtUp)).await;
        app
    }

    /// Takes events until there is no need for more.
    async fn until(&mut self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            self.event().await;
        }
    }

    async fn event(&mut self) -> Event {
        let event = timeout(PATIENCE, self.events.next()).await;
        let event = event.unwrap_or_else(|_| panic!("nothing came; there are {:?} and {:?}", self.got, self.states));
        let event = event.expect("the client is open");
        match &event {
            Event::Message { message, .. } => self.got.push(message.clone()),
            Event::State(state) => self.states.push(state.clone()),
            _ => {}
        }
        event
    }

    async fn send(&self, to: &str, body: &str) -> Sent {
        self.client.send_to(to, body).await.unwrap()
    }

    fn bodies(&self) -> Vec<&str> {
        self.got.iter().map(|message| message.body.as_str()).collect()
    }

    /// Each message once, and in order.
    fn assert_dense(&self) {
        let seqs: Vec<u64> = self.got.iter().map(|message| message.seq.value()).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn two_clients_talk() {
    let server = TestServer::open().await;
    let mut alice = App::ready(config(&server, server.url(), "alice")).await;
    let mut bob = App::ready(config(&server, server.url(), "bob")).await;
    let stored = alice.send(&server.id("bob"), "hi").await.stored().await.unwrap();
    assert_eq!((stored.seq.value(), stored.duplicate), (1, false));
    bob.until(|bob| bob.got.len() == 1).await;
    let answer = bob.client.send(Target::Conversation(stored.conversation_id.clone()), "hello").await.unwrap();
    assert_eq!(answer.stored().await.unwrap().seq, 2);
    assert_eq!(bob.client.read(&stored.conversation_id, stored.seq).await.unwrap().unread, 0);
    let mut read = false;
    while !read || alice.got.len() < 2 {
        if let Event::Receipt { kind, receipt } = alice.event().await {
            read |= kind == ReceiptKind::Read && receipt.seq == 1 && receipt.user_id == *server.id("bob");
        }
    }
    assert_eq!(alice.bodies(), ["hi", "hello"]);
    alice.assert_dense();

    let inbox = bob.client.inbox(None).await.unwrap();
    let row = &inbox.conversations[0];
    assert_eq!((row.peer_id.as_ref().unwrap().as_str(), row.unread), (&*server.id("alice"), 0));
    let history = bob.client.history(&stored.conversation_id, Side::Newest, 10).await.unwrap();
    assert_eq!((history.messages.len(), history.last_seq.value()), (2, 2));
    let nobodys = ConversationId::parse("dm_nobody").unwrap();
    let refused = alice.client.history(&nobodys, Side::Newest, 10).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { code, .. } if code == "not_member"), "{refused}");
    let refused = alice.client.read(&stored.conversation_id, Seq::ZERO).await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { code, .. } if code == "bad_request"), "{refused}");
    let refused = alice.client.send_to("not a user", "hi").await.unwrap_err();
    assert!(matches!(&refused, Error::InvalidUserId { .. }), "{refused}");
    // The client acknowledges finished messages, at the latest with its goodbye, which does not wait for the reply.
    bob.until(|bob| bob.got.len() == 2).await;
    bob.events.done();
    bob.client.close().await;
    let mut phone = server.phone("bob").await;
    timeout(PATIENCE, async { while phone.pending().await {} }).await.expect("the ack is taken");
}

#[tokio::test]
async fn three_clients_in_a_group_which_one_of_them_leaves_and_joins_again() {
    let server = TestServer::open().await;
    let mut alice = App::ready(config(&server, server.url(), "alice")).await;
    let mut bob = App::ready(config(&server, server.url(), "bob")).await;
    let mut carol = App::ready(config(&server, server.url(), "carol")).await;
    let (bobs, carols, daves) = (bob.me.clone(), carol.me.clone(), UserId::parse(&server.id("dave")).unwrap());
    let title = |text: &str| Title::parse(text).unwrap();
    let group = NewGroup::new(title("Trip"), [bobs.clone(), carols.clone()]);
    let id = alice.client.create(group).await.unwrap().stored().await.unwrap().conversation_id;
    // In the order of the calls, though nothing is awaited.
    let added = alice.client.add(&id, [daves.clone(), bobs.clone()]).await.unwrap();
    let hi = Draft::new("hi").mentions([carols.clone()]);
    alice.client.send(Target::Conversation(id.clone()), hi).await.unwrap();
    alice.client.role(&id, &bobs, Role::Admin).await.unwrap();
    let called = alice.client.update(&id, Info { title: Some(title("Sea")), ..Info::default() }).await.unwrap();
    let added = added.stored().await.unwrap();
    assert_eq!((added.added, added.already), (vec![daves], vec![bobs.clone()]));
    assert_eq!(called.stored().await.unwrap().seq, 5);
    let nobody = alice.client.add(&id, [bobs.clone()]).await.unwrap().stored().await.unwrap();
    assert!(nobody.entry.is_none());
    assert_eq!(alice.client.outbox().await.unwrap(), []);
    for app in [&mut alice, &mut bob, &mut carol] {
        app.until(|app| app.got.len() == 5).await;
        app.assert_dense();
    }
    assert_eq!(alice.got[..5], carol.got.iter().map(|entry| own(&alice, entry)).collect::<Vec<_>>());

    let left = carol.client.read(&id, Seq::FIRST).await.unwrap();
    assert_eq!((left.unread, left.mentions), (1, Some(1)));
    let mut view = Timeline::new(alice.me.clone());
    alice.got.iter().for_each(|entry| view.message(entry.clone()));
    let tick = |view: &Timeline| {
        let ticks = view.entries(|_| ()).into_iter().filter_map(|entry| match entry {
            TimelineEntry::Message { tick, .. } => tick,
            _ => None,
        });
        ticks.fold(None, |_, tick| Some(tick))
    };
    assert_eq!(tick(&view), Some(Tick::Stored));
    view.receipts(&alice.client.receipts(&id, 100, None).await.unwrap());
    assert!(tick(&view) < Some(Tick::Read));
    let members = alice.client.members(&id, 2, None).await.unwrap();
    assert!(members.members.len() == 2 && members.next_cursor.is_some());
    bob.client.react(&id, Seq::new(3).unwrap(), Emoji::parse("👍").ok()).await.unwrap().stored().await.unwrap();
    let reactions = carol.client.reactions(&id, Seq::new(3).unwrap(), 10, None).await.unwrap();
    assert_eq!(reactions.reactions[0].user_id, bobs);

    carol.client.leave(&id).await.unwrap().stored().await.unwrap();
    let late = carol.client.send(Target::Conversation(id.clone()), "late").await.unwrap();
    let refused = late.stored().await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { code, .. } if code == "not_member"), "{refused}");
    let row = carol.client.inbox(None).await.unwrap().conversations.remove(0);
    assert_eq!((row.role, row.title.as_deref()), (Some(Role::None), Some("Sea")));
    bob.client.send(Target::Conversation(id.clone()), "not for carol").await.unwrap().stored().await.unwrap();
    bob.client.add(&id, [carols.clone()]).await.unwrap().stored().await.unwrap();
    carol.until(|carol| carol.got.len() == 8).await;
    let seqs: Vec<u64> = carol.got.iter().map(|entry| entry.seq.value()).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6, 7, 9]);
    assert_eq!(carol.got[7].system, Some(System::MembersAdded { members: vec![carols] }));
    let page = carol.client.history(&id, Side::Newest, 50).await.unwrap();
    assert_eq!((page.first_seq.map(Seq::value), page.messages.len()), (Some(9), 1));
}

/// As its sender sees it.
fn own(app: &App, entry: &Message) -> Message {
    let held = app.got.iter().find(|held| held.seq == entry.seq).expect("it is held");
    Message { client_msg_id: held.client_msg_id.clone(), ..entry.clone() }
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "cuts connections that have no TLS")]
async fn a_channel_is_watched_over_connections_that_break_until_its_reader_is_removed() {
    let server = TestServer::open().await;
    let network = Network::to(&server).await;
    let alice = App::ready(config(&server, server.url(), "alice")).await;
    let mut bob = App::ready(config(&server, &network.url(), "bob")).await;
    let title = Title::parse("News").unwrap();
    let channel = NewGroup { join: Some(JoinBy::Open), ..NewGroup::channel(title, []) };
    let id = alice.client.create(channel).await.unwrap().stored().await.unwrap().conversation_id;
    let joined = bob.client.join(&id).await.unwrap();
    assert_eq!(joined.last_seq, Seq::FIRST);
    let watched = bob.client.watch(&id, Some(joined.last_seq)).await.unwrap();
    assert!(watched.live && watched.last_seq == Seq::FIRST);
    let post = async |body: &str| {
        let sent = alice.client.send(Target::Conversation(id.clone()), body).await.unwrap();
        sent.stored().await.unwrap().seq
    };
    post("one").await;
    bob.until(|bob| bob.bodies() == ["one"]).await;
    network.cut();
    let last = post("two").await;
    bob.until(|bob| bob.bodies() == ["one", "two"]).await;
    bob.client.react(&id, last, Emoji::parse("👍").ok()).await.unwrap().stored().await.unwrap();
    assert_eq!(bob.client.read(&id, last).await.unwrap().unread, 0);
    let row = bob.client.channels(None).await.unwrap().conversations.remove(0);
    let mut view = Timeline::new(bob.me.clone());
    view.channel(&row);
    view.history(bob.client.history(&id, Side::Newest, 50).await.unwrap());
    assert_eq!((view.missing(), view.unread(), view.more_before()), (None, 0, None));
    assert!(bob.client.inbox(None).await.unwrap().conversations.is_empty());
    alice.client.remove(&id, &bob.me).await.unwrap().stored().await.unwrap();
    let again = bob.client.watch(&id, None).await.unwrap_err();
    assert!(matches!(again, Error::Refused { code, .. } if code == "not_member"));
    while !matches!(bob.event().await, Event::Unwatched { .. }) {}
    assert_eq!(bob.bodies(), ["one", "two"], "each once");
}

#[tokio::test]
async fn a_picture_and_a_file_in_parts_arrive_as_they_were_sent() {
    let (server, folder) = (TestServer::open().await, Folder::new("picture"));
    let alice = App::ready(config(&server, server.url(), "alice")).await;
    let mut bob = App::ready(config(&server, server.url(), "bob")).await;
    let bobs = || Target::User(UserId::parse(&server.id("bob")).unwrap());
    let large: Vec<u8> = (0..17 * 1024 * 1024_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let mime = |text| MimeType::parse(text).unwrap();
    let picture =
        Attachment::image(folder.with("us.png", b"a picture"), mime("image/png"), 4, 3).caption("us, at last");
    let film = Attachment::file(folder.with("film", &large), mime("video/mp4"), FileName::parse("film.mp4").unwrap());
    let picture = alice.client.send_media(bobs(), picture).await.unwrap().stored().await.unwrap();
    alice.client.send_media(bobs(), film).await.unwrap().stored().await.unwrap();
    bob.until(|bob| bob.got.len() == 2).await;
    assert_eq!(bob.bodies(), ["us, at last", ""]);
    for (message, sent) in bob.got.iter().zip([b"a picture".as_slice(), large.as_slice()]) {
        let to = folder.0.join("got");
        bob.client.download(message, &to).await.unwrap();
        assert!(std::fs::read(&to).unwrap() == sent, "{message:?}");
    }
    let carols = Target::User(UserId::parse(&server.id("carol")).unwrap());
    let copy = bob.client.forward(carols, &bob.got[0], "").await.unwrap().stored().await.unwrap();
    assert_eq!(copy.seq, Seq::FIRST);
    alice.client.delete(&picture.conversation_id, picture.seq).await.unwrap().stored().await.unwrap();
    let gone = bob.client.download(&bob.got[0], folder.0.join("late")).await.unwrap_err();
    assert!(matches!(gone, Error::Refused { code, .. } if code == "gone"));
    let left: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "nothing that is not whole stays: {left:?}");
}

#[tokio::test]
async fn what_is_not_what_the_message_says_is_not_kept_and_what_changes_is_not_sent() {
    let (server, folder) = (TestServer::open().await, Folder::new("wrong"));
    let mut alice = App::ready(config(&server, server.url(), "alice")).await;
    let bobs = || Target::User(UserId::parse(&server.id("bob")).unwrap());
    let file = |path: &PathBuf| {
        Attachment::file(path, MimeType::parse("text/plain").unwrap(), FileName::parse("a.txt").unwrap())
    };
    let path = folder.with("a.txt", b"hi");
    alice.client.send_media(bobs(), file(&path)).await.unwrap().stored().await.unwrap();
    alice.until(|alice| alice.got.len() == 1).await;
    let mut message = alice.got[0].clone();
    let Some(wire::Attached::Clear(media)) = message.media.as_deref_mut() else { panic!() };
    media.sha256 = Digest::parse("n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=").unwrap();
    let wrong = alice.client.download(&message, folder.0.join("wrong")).await.unwrap_err();
    assert!(matches!(wrong, Error::File(_)), "{wrong}");
    assert!(!folder.0.join("wrong").exists() && !folder.0.join("wrong.part").exists());
    let missing = alice.client.send_media(bobs(), file(&folder.0.join("none"))).await.unwrap_err();
    assert!(matches!(missing, Error::File(_)), "{missing}");
    let empty = alice.client.send_media(bobs(), file(&folder.with("empty", b""))).await.unwrap_err();
    assert!(matches!(empty, Error::Invalid { field: "bytes", .. }), "{empty}");
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "cuts connections that have no TLS")]
async fn an_upload_that_is_cancelled_is_not_sent() {
    let (server, folder) = (TestServer::open().await, Folder::new("cancelled"));
    let network = Network::to(&server).await;
    let mut alice = App::ready(config(&server, &network.url(), "alice")).await;
    network.mute_server();
    let path = folder.with("a.txt", b"hi");
    let file = Attachment::file(&path, MimeType::parse("text/plain").unwrap(), FileName::parse("a.txt").unwrap());
    let bobs = Target::User(UserId::parse(&server.id("bob")).unwrap());
    let sent = alice.client.send_media(bobs, file).await.unwrap();
    let client_msg_id = sent.queued().client_msg_id.clone();
    assert!(alice.client.cancel(&client_msg_id).await.unwrap());
    assert_eq!(sent.stored().await.unwrap_err(), Error::Cancelled);
    while !matches!(alice.event().await, Event::Failed { error: Error::Cancelled, .. }) {}
    assert_eq!(alice.client.outbox().await.unwrap(), []);
    assert!(!alice.client.cancel(&client_msg_id).await.unwrap(), "it is known no more");
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "cuts connections that have no TLS")]
async fn an_upload_goes_on_after_a_restart() {
    let (server, folder) = (TestServer::open().await, Folder::new("upload"));
    let network = Network::to(&server).await;
    let outbox = folder.0.join("outbox");
    let start = |url: &str| config(&server, url, "alice").store(&outbox);
    let alice = App::ready(start(&network.url())).await;
    // The server hears no further request.
    network.mute_server();
    let path = folder.with("a.txt", b"hi");
    let file = Attachment::file(&path, MimeType::parse("text/plain").unwrap(), FileName::parse("a.txt").unwrap());
    alice.client.send_media(Target::User(UserId::parse(&server.id("bob")).unwrap()), file).await.unwrap();
    alice.client.close().await;
    let mut bob = App::ready(config(&server, server.url(), "bob")).await;
    let alice = App::ready(start(server.url())).await;
    bob.until(|bob| bob.got.len() == 1).await;
    bob.client.download(&bob.got[0], folder.0.join("got")).await.unwrap();
    assert_eq!(std::fs::read(folder.0.join("got")).unwrap(), b"hi");
    alice.client.close().await;
}

#[tokio::test]
async fn two_clients_change_what_they_said_and_see_the_same() {
    let server = TestServer::open().await;
    let mut alice = App::ready(config(&server, server.url(), "alice")).await;
    let mut bob = App::ready(config(&server, server.url(), "bob")).await;
    let first = alice.send(&server.id("bob"), "one").await.stored().await.unwrap();
    let id = &first.conversation_id;
    let second = alice.send(&server.id("bob"), "two").await.stored().await.unwrap();
    // In this order: a lane of the outbox keeps it.
    let thumb = Emoji::parse("👍").ok();
    bob.until(|bob| bob.got.len() == 2).await;
    bob.client.react(id, first.seq, thumb.clone()).await.unwrap();
    bob.client.reply(id, first.seq, "three").await.unwrap().stored().await.unwrap();
    alice.client.edit(id, first.seq, "uno").await.unwrap();
    let edit = alice.client.edit(id, first.seq, "eins").await.unwrap().stored().await.unwrap();
    assert_eq!((edit.seq.value(), edit.version), (6, Some(3)));
    alice.client.delete(id, second.seq).await.unwrap();
    let late = alice.client.edit(id, second.seq, "too late").await.unwrap();
    let refused = late.stored().await.unwrap_err();
    assert!(matches!(&refused, Error::Refused { code, .. } if code == "gone"), "{refused}");

    for app in [&mut alice, &mut bob] {
        app.until(|app| app.got.len() == 7).await;
        app.assert_dense();
        let (me, page) = (app.me.clone(), app.client.history(id, Side::Newest, 50).await.unwrap());
        let mut views = [Timeline::new(me.clone()), Timeline::new(me)];
        // By events, in any order, and by a page of now.
        app.got.iter().rev().for_each(|entry| views[0].message(entry.clone()));
        views[1].history(page);
        for view in &views {
            let shown: Vec<Message> = view.entries(|_| ()).into_iter().filter_map(message_of).collect();
            let [first, second, reply] = &shown[..] else { panic!("{shown:?}") };
            assert_eq!((first.body.as_str(), first.version, first.edited_at), ("eins", Some(3), Some(edit.sent_at)));
            let by_bob = app.me == *server.id("bob");
            let reactions: Vec<_> = first.reactions.iter().map(|one| (&one.emoji, one.count, one.mine)).collect();
            assert_eq!(reactions, [(thumb.as_ref().unwrap(), 1, by_bob)]);
            let deleted_by = second.deleted_by.as_ref().map(UserId::as_str);
            assert_eq!((second.body.as_str(), deleted_by), ("", Some(&*server.id("alice"))));
            assert_eq!((reply.body.as_str(), reply.reply_to), ("three", Some(first.seq)));
        }
    }

    bob.client.typing(id);
    let writes = loop {
        if let Event::Typing { conversation_id, user_id, .. } = alice.event().await {
            break (conversation_id, user_id);
        }
    };
    assert_eq!((&writes.0, writes.1.as_str()), (id, &*server.id("bob")));
    let [bob_id, stranger] = ["bob", "stranger"].map(|name| UserId::parse(&server.id(name)).unwrap());
    let there = alice.client.presence(vec![bob_id.clone(), stranger]).await.unwrap();
    let there: Vec<_> = there.iter().map(|user| (&user.user_id, user.online)).collect();
    assert_eq!(there, [(&bob_id, true)]);
}

fn message_of(entry: TimelineEntry<'_, ()>) -> Option<Message> {
    if let TimelineEntry::Message { message, .. } = entry { Some(message.into_owned()) } else { None }
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "cuts connections that have no TLS")]
async fn connections_that_break_again_and_again_lose_and_double_nothing() {
    const EACH: usize = 30;
    let server = TestServer::open().await;
    let (to_alice, to_bob) = (Network::to(&server).await, Network::to(&server).await);
    let mut alice = App::ready(config(&server, &to_alice.url(), "alice")).await;
    let mut bob = App::ready(config(&server, &to_bob.url(), "bob")).await;
    let mut sent = Vec::new();
    for number in 0..EACH {
        sent.push(alice.send(&server.id("bob"), &format!("a{number}")).await);
        sent.push(bob.send(&server.id("alice"), &format!("b{number}")).await);
        // In the middle of whatever is under way.
        if number % 5 == 0 {
            to_bob.cut();
            bob.until(|bob| bob.got.len() >= number / 2).await;
        }
        if number % 7 == 0 {
            to_alice.cut();
            alice.until(|alice| alice.got.len() >= number / 2).await;
        }
    }
    let (all_alice, all_bob) =
        tokio::join!(alice.until(|alice| alice.got.len() == 2 * EACH), bob.until(|bob| bob.got.len() == 2 * EACH),);
    ((), ()) = (all_alice, all_bob);
    for sent in sent {
        timeout(PATIENCE, sent.stored()).await.unwrap().unwrap();
    }
    for app in [&alice, &bob] {
        app.assert_dense();
        for name in ["a", "b"] {
            let said: Vec<&str> = app.bodies().into_iter().filter(|body| body.starts_with(name)).collect();
            assert_eq!(said, (0..EACH).map(|number| format!("{name}{number}")).collect::<Vec<_>>());
        }
        let stats = app.client.stats();
        assert!(stats.reconnects > 0, "{stats:?}");
        assert_eq!((stats.sent, stats.answered, stats.failed), (EACH as u64, EACH as u64, 0));
        assert_eq!(stats.received, EACH as u64);
    }
}

/// Gone with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pigeonhole-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn with(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "cuts connections that have no TLS")]
async fn a_restart_sends_what_was_not_answered_and_it_is_stored_once() {
    let server = TestServer::open().await;
    let folder = Folder::new("outbox");
    let open = |url: &str| config(&server, url, "alice").store(folder.0.join("alice"));
    let network = Network::to(&server).await;
    let mut bob = server.phone("bob").await;
    let alice = App::ready(open(&network.url())).await;
    // The message gets there, its answer doesn't get back, and then the app ends.
    network.mute_server();
    let first = alice.send(&server.id("bob"), "one").await;
    let second = alice.send(&server.id("bob"), "two").await;
    assert_eq!(bob.event("messages.new").await["messages"][0]["body"], "one");
    alice.client.close().await;
    for sent in [first, second] {
        assert_eq!(sent.stored().await.unwrap_err(), Error::Closed);
    }

    let mut alice = App::start(open(server.url())).await;
    alice.until(|alice| alice.got.len() == 2).await;
    alice.assert_dense();
    assert_eq!(alice.bodies(), ["one", "two"]);
    assert_eq!(bob.event("messages.new").await["messages"][0]["body"], "one", "a duplicate is delivered again");
    let conversation = alice.got[0].conversation_id.clone();
    assert_eq!(alice.client.stats().answered, 2);
    let history = bob.history(conversation.as_str()).await;
    assert_eq!(history["last_seq"], 2);
    alice.events.done();
    alice.client.close().await;

    // And the next start has nothing left to send, nor to show.
    let alice = App::ready(open(server.url())).await;
    assert_eq!((alice.got.len(), alice.client.stats().sent), (0, 0));
}

#[tokio::test]
async fn what_an_app_was_not_done_with_comes_again_and_what_it_was_done_with_does_not() {
    let server = TestServer::open().await;
    let folder = Folder::new("feed");
    let open = || config(&server, server.url(), "bob").outbox(folder.0.join("bob"));
    let mut alice = server.phone("alice").await;
    for number in 1..=3 {
        alice.send("bob", &format!("m{number}"), &format!("{number}")).await;
    }
    let mut bob = App::start(open()).await;
    // The app requests the third message only after it has finished with the second.
    bob.until(|bob| bob.got.len() == 3).await;
    bob.client.close().await;
    let mut bob = App::start(open()).await;
    bob.until(|bob| bob.states.last() == Some(&State::CaughtUp)).await;
    assert_eq!(bob.bodies(), ["3"]);
}

#[tokio::test]
async fn a_connection_is_replaced_before_its_end_and_nobody_notices() {
    let server = TestServer::open().await;
    let brief = Timing { lifetime: Duration::from_millis(100), lifetime_jitter: Duration::ZERO, ..timing() };
    let mut bob = App::ready(config(&server, server.url(), "bob").timing(brief)).await;
    let mut alice = server.phone("alice").await;
    let mut said = 0;
    while bob.client.stats().reconnects < 5 {
        said += 1;
        alice.send("bob", &format!("m{said}"), "hi").await;
        bob.until(|bob| bob.got.len() == said).await;
    }
    bob.assert_dense();
    assert_eq!(bob.states, [State::Connecting, State::Online, State::CaughtUp]);
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "an issuer may not make tokens that expire at once")]
async fn a_token_that_is_refused_or_has_expired_is_replaced() {
    let server = Arc::new(TestServer::open().await);
    let needs = Arc::new(Mutex::new(Vec::new()));
    let (issuer, asked) = (Arc::clone(&server), Arc::clone(&needs));
    let give = move |need| {
        asked.lock().unwrap().push(need);
        let token = match need {
            TokenNeed::Connect => "not a token".to_owned(),
            TokenNeed::Expired => issuer.token("alice"),
            _ => issuer.token_for("alice", 30),
        };
        std::future::ready(Ok(token))
    };
    let mut alice = App::ready(Config::new(server.url(), server.id("alice"), give).timing(timing())).await;
    assert_eq!(alice.states, [State::Connecting, State::Connecting, State::Online, State::CaughtUp]);
    let mut said = 0;
    while !needs.lock().unwrap().contains(&TokenNeed::Expired) {
        said += 1;
        alice.send(&server.id("bob"), "hi").await.stored().await.unwrap();
    }
    alice.until(|alice| alice.got.len() == said && alice.states.last() == Some(&State::CaughtUp)).await;
    alice.assert_dense();
    // Half a minute is too short for a connection, so the client requests another token immediately. A slow machine may
    // decide the rest.
    let needs = needs.lock().unwrap();
    let mut rest = &needs[..];
    while let [TokenNeed::Connect, TokenNeed::Refused(401 | 403), later @ ..] = rest {
        rest = later;
    }
    assert!(rest.len() < needs.len() && rest.first() == Some(&TokenNeed::Expired), "{needs:?}");
}
