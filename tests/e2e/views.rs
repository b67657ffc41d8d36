//! Views of the Rust client: what an interface draws, through connections that break and over restarts.

use std::path::Path;
use std::time::Duration;

use pigeonhole_client::{
    At, Attachment, Client, Config, Content, Filter, ListSnapshot, MessageItem, MimeType, NewGroup, Progress, Role,
    RosterSnapshot, Screen, Seq, Side, Target, Title, UserId, View,
};
use testkit::{Network, TestServer};
use tokio::time::timeout;

use crate::client::{Folder, config};

/// A receipt or a reply can be lost. The client finds that after up to 40 s of silence.
const PATIENCE: Duration = Duration::from_secs(90);

/// A user whose messages are in a store. Events are not awaited: the views show everything.
async fn user(server: &TestServer, url: &str, name: &str, folder: &Path) -> Client {
    let config: Config = config(server, url, name).store(folder.join(name));
    Client::connect(config).await.unwrap().0
}

/// Waits until the view shows what is wanted.
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

fn messages(screen: &Screen) -> Vec<(&str, &MessageItem)> {
    let items = screen.messages.items.iter();
    items
        .filter_map(|item| if let Content::Message(it) = &item.content { Some((&*item.key, &**it)) } else { None })
        .collect()
}

fn bodies(screen: &Screen) -> Vec<&str> {
    messages(screen).into_iter().map(|(_, message)| &*message.body).collect()
}

fn last_progress(screen: &Screen) -> Option<&Progress> {
    messages(screen).last()?.1.progress.as_ref()
}

#[tokio::test]
async fn two_users_see_each_others_messages_ticks_and_typing() {
    let (server, folder) = (TestServer::open().await, Folder::new("views"));
    let alice = user(&server, server.url(), "alice", &folder.0).await;
    let bob = user(&server, server.url(), "bob", &folder.0).await;
    let (with_bob, with_alice) = (alice.direct(server.id("bob")).unwrap(), bob.direct(server.id("alice")).unwrap());
    assert_eq!(with_bob.id(), with_alice.id());
    let mut hers = with_bob.messages(At::FirstUnread).unwrap();
    let mut list = bob.conversations(Filter::default()).unwrap();
    let sent = with_bob.send("hi").await.unwrap();
    let key = format!("c{}", sent.client_msg_id());
    until(&mut hers, |screen| last_progress(screen) == Some(&Progress::Delivered)).await;
    let shown = until(&mut list, |list: &ListSnapshot| list.unread == 1).await;
    assert_eq!(shown.rows[0].line.as_ref().unwrap().text, "hi");

    // Only what was on the screen is read.
    let mut his = with_alice.messages(At::FirstUnread).unwrap();
    let screen = until(&mut his, |screen| bodies(screen) == ["hi"]).await;
    assert_eq!((list.shown().unwrap().unread, screen.messages.unread), (1, 1));
    his.seen(messages(&screen)[0].0);
    until(&mut list, |list| list.unread == 0).await;
    let screen = until(&mut hers, |screen| last_progress(screen) == Some(&Progress::Read)).await;
    assert_eq!(messages(&screen)[0].0, key, "the key is the same before and after the server has stored it");

    with_alice.send("hello").await.unwrap();
    until(&mut hers, |screen| bodies(screen) == ["hi", "hello"]).await;
    with_alice.typing();
    let is_typing = |screen: &Screen| screen.chat.as_ref().is_some_and(|chat| !chat.typing.is_empty());
    until(&mut hers, is_typing).await;
    until(&mut hers, |screen| !is_typing(screen)).await;
    let seq = Seq::FIRST;
    with_bob.edit(seq, "hi!").await.unwrap();
    until(&mut his, |screen| bodies(screen) == ["hi!", "hello"] && messages(screen)[0].1.edited_at.is_some()).await;
    with_bob.delete(seq).await.unwrap();
    until(&mut his, |screen| messages(screen)[0].1.deleted_by.is_some()).await;
    alice.close().await;
    bob.close().await;
}

#[tokio::test]
#[cfg_attr(feature = "aws", ignore = "cuts connections that have no TLS")]
async fn a_start_without_a_network_shows_everything_and_takes_messages() {
    let (server, folder) = (TestServer::open().await, Folder::new("offline"));
    let bob = user(&server, server.url(), "bob", &folder.0).await;
    let alice = user(&server, server.url(), "alice", &folder.0).await;
    bob.send_to(server.id("alice"), "hi").await.unwrap().stored().await.unwrap();
    let mut view = alice.direct(server.id("bob")).unwrap().messages(At::FirstUnread).unwrap();
    until(&mut view, |screen| bodies(screen) == ["hi"]).await;
    // The store lists the conversation once its row has come.
    let listed = async {
        while alice.chats().await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, listed).await.unwrap();
    alice.close().await;

    let network = Network::to(&server).await;
    network.mute_server();
    let alice = user(&server, &network.url(), "alice", &folder.0).await;
    let with_bob = alice.direct(server.id("bob")).unwrap();
    let mut view = with_bob.messages(At::FirstUnread).unwrap();
    let mut list = alice.conversations(Filter::default()).unwrap();
    until(&mut view, |screen| bodies(screen) == ["hi"]).await;
    until(&mut list, |list| list.unread == 1).await;
    with_bob.send("from the cellar").await.unwrap();
    until(&mut view, |screen| last_progress(screen) == Some(&Progress::Waiting)).await;
    alice.close().await;

    let alice = user(&server, server.url(), "alice", &folder.0).await;
    let mut view = alice.direct(server.id("bob")).unwrap().messages(At::Newest).unwrap();
    let is_there = |screen: &Screen| bodies(screen) == ["hi", "from the cellar"];
    until(&mut view, |screen| is_there(screen) && last_progress(screen) == Some(&Progress::Delivered)).await;
    alice.close().await;
    bob.close().await;
}

#[tokio::test]
async fn a_new_device_shows_history_on_demand_and_jumps() {
    let (server, folder) = (TestServer::open().await, Folder::new("history"));
    let bob = user(&server, server.url(), "bob", &folder.0).await;
    for number in 1..=70 {
        bob.send_to(server.id("alice"), number.to_string()).await.unwrap();
    }
    let mut his = bob.direct(server.id("alice")).unwrap().messages(At::Newest).unwrap();
    until(&mut his, |screen| messages(screen).len() == 70 && last_progress(screen) == Some(&Progress::Stored)).await;
    let alice = user(&server, server.url(), "alice", &folder.0).await;
    let mut view = alice.direct(server.id("bob")).unwrap().messages(At::Newest).unwrap();
    let screen = until(&mut view, |screen| messages(screen).len() == 50).await;
    assert!(screen.messages.has_older && bodies(&screen).first() == Some(&"21"));
    view.older();
    until(&mut view, |screen| messages(screen).len() == 70 && !screen.messages.has_older).await;
    view.jump(At::Seq(Seq::new(10).unwrap()));
    let screen = until(&mut view, |screen| screen.messages.has_newer).await;
    assert!(bodies(&screen).contains(&"10"));
    alice.read_all(&screen.conversation_id);
    until(&mut view, |screen| screen.messages.unread == 0).await;
    alice.close().await;
    bob.close().await;
}

#[tokio::test]
async fn groups_channels_and_refusals() {
    let (server, folder) = (TestServer::open().await, Folder::new("groups"));
    let alice = user(&server, server.url(), "alice", &folder.0).await;
    let bob = user(&server, server.url(), "bob", &folder.0).await;
    let members = [UserId::parse(&server.id("bob")).unwrap()];
    let group = NewGroup::new(Title::parse("Trip").unwrap(), members.clone());
    let group = alice.create(group).await.unwrap().stored().await.unwrap().conversation_id;
    let mut list = bob.conversations(Filter::default()).unwrap();
    until(&mut list, |list| list.rows.iter().any(|row| row.title.as_deref() == Some("Trip"))).await;
    let hers = alice.conversation(&group);
    let mut roster = bob.conversation(&group).roster().unwrap();
    let role = |shown: &RosterSnapshot, name: &str| {
        let id = server.id(name);
        shown.members.iter().find(|row| row.user_id == *id).map(|row| row.role)
    };
    until(&mut roster, |shown| shown.members.len() == 2 && role(shown, "alice") == Some(Role::Owner)).await;
    alice.role(&group, &UserId::parse(&server.id("bob")).unwrap(), Role::Admin).await.unwrap();
    until(&mut roster, |shown| role(shown, "bob") == Some(Role::Admin)).await;
    let mut view = hers.messages(At::Newest).unwrap();
    hers.send("tickets?").await.unwrap();
    until(&mut view, |screen| last_progress(screen) == Some(&Progress::Delivered)).await;

    let channel = NewGroup::channel(Title::parse("News").unwrap(), members);
    let channel = alice.create(channel).await.unwrap().stored().await.unwrap().conversation_id;
    let mut news = bob.conversation(&channel).messages(At::Newest).unwrap();
    alice.send(Target::Conversation(channel.clone()), "first post").await.unwrap();
    until(&mut news, |screen| bodies(screen) == ["first post"]).await;

    let refused = bob.conversation(&channel).send("me too").await.unwrap();
    let id = refused.client_msg_id().clone();
    let is_refused =
        |screen: &Screen| matches!(last_progress(screen), Some(Progress::Failed { code, .. }) if code == "forbidden");
    until(&mut news, is_refused).await;
    bob.close().await;
    let bob = user(&server, server.url(), "bob", &folder.0).await;
    let mut news = bob.conversation(&channel).messages(At::Newest).unwrap();
    until(&mut news, is_refused).await;
    assert!(bob.again(&id).await.is_err());
    bob.dismiss(&id);
    until(&mut news, |screen| bodies(screen) == ["first post"]).await;
    alice.close().await;
    bob.close().await;
}

#[tokio::test]
async fn a_downloaded_file_stays_until_its_message_is_deleted() {
    let (server, folder) = (TestServer::open().await, Folder::new("kept-file"));
    let alice = user(&server, server.url(), "alice", &folder.0).await;
    let bob = user(&server, server.url(), "bob", &folder.0).await;
    let picture = Attachment::image(folder.with("us.png", b"a picture"), MimeType::parse("image/png").unwrap(), 4, 3);
    let sent = alice.direct(server.id("bob")).unwrap().send_media(picture).await.unwrap().stored().await.unwrap();
    let mut view = bob.direct(server.id("alice")).unwrap().messages(At::Newest).unwrap();
    until(&mut view, |screen| !messages(screen).is_empty()).await;
    let message = bob.window(&sent.conversation_id, Side::Newest, 1).await.unwrap().messages.remove(0);
    let file = bob.attachment(&message).await.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"a picture");
    assert_eq!(bob.attachment(&message).await.unwrap(), file);
    let path = |screen: &Screen| messages(screen)[0].1.path.clone();
    until(&mut view, |screen| path(screen) == Some(file.display().to_string())).await;
    bob.close().await;
    let bob = user(&server, server.url(), "bob", &folder.0).await;
    let mut view = bob.direct(server.id("alice")).unwrap().messages(At::Newest).unwrap();
    until(&mut view, |screen| path(screen) == Some(file.display().to_string())).await;
    alice.delete(&sent.conversation_id, sent.seq).await.unwrap();
    until(&mut view, |screen| messages(screen)[0].1.deleted_by.is_some() && path(screen).is_none()).await;
    alice.close().await;
    bob.close().await;
}
