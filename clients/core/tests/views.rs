//! Views through the front door of the core: the app's inputs and the server's frames go in, frames and what to draw come
//! out. The store is the one in memory.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pigeonhole_core::chat::{
    Act, At, Content, Filter, ListSnapshot, MemberRow, MessageItem, Progress, Screen, Shown, ViewId, ViewOf,
};
use pigeonhole_core::{
    Ask, Core, Draft, Input, Keeper, LinkId, MemStore, Moment, Outgoing, Output, Queued, Setup, Timing, Why,
};
use serde_json::{Value, json};
use wire::{ClientMsgId, ConversationId, Seq, Target, Timestamp, UserId, direct_conversation_id, group_id};

const LIST: ViewId = 1;
const CHAT: ViewId = 2;

fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

fn with_bob() -> ConversationId {
    direct_conversation_id(&user("alice"), &user("bob"))
}

/// Alice's device.
struct Device {
    core: Core,
    store: MemStore,
    now: Moment,
    wake_at: Option<Moment>,
    link: LinkId,
    shown: BTreeMap<ViewId, Shown>,
    /// Requests that the server has not answered.
    asked: Vec<Value>,
    answers: BTreeMap<u64, Result<Value, String>>,
    /// Loads of a slow store. `None`: the store is quick.
    held: Option<Vec<Input>>,
}

impl Device {
    fn new(store: MemStore) -> Self {
        let setup = Setup {
            me: user("alice"),
            timing: Timing::default(),
            keeper: Keeper::Store,
            saved: store.saved(),
            keyring: None,
        };
        let core = Core::new(setup, 7);
        let (shown, asked, answers) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        let mut device =
            Self { core, store, now: Moment::default(), wake_at: None, link: 0, shown, asked, answers, held: None };
        device.turn(vec![]);
        device
    }

    fn restarted(self) -> Self {
        Self::new(self.store)
    }

    fn turn(&mut self, inputs: Vec<Input>) {
        let wall = Timestamp::parse("2026-11-20T12:00:00.000Z").unwrap();
        let step = self.core.turn(inputs, self.now, wall);
        self.store.apply(&step.writes);
        self.wake_at = step.wake_at;
        let mut loaded = Vec::new();
        for output in step.outputs {
            match output {
                Output::Dial { link, .. } => self.link = link,
                Output::Send { text, .. } => self.asked.push(serde_json::from_str(&text).unwrap()),
                Output::Load { load, what } => {
                    loaded.push(Input::Loaded { load, found: Box::new(self.store.load(&what)) });
                }
                Output::Show { view, shown } => drop(self.shown.insert(view, shown)),
                Output::Answer { ask, result } => {
                    let result = result.map(|reply| json!(reply)).map_err(|error| error.code().to_owned());
                    self.answers.insert(ask, result);
                }
                Output::Close { .. }
                | Output::Post { .. }
                | Output::Put { .. }
                | Output::Abort { .. }
                | Output::Carry { .. }
                | Output::Cancelled { .. }
                | Output::Tell(_) => {}
            }
        }
        if let Some(held) = &mut self.held {
            held.extend(loaded);
        } else if !loaded.is_empty() {
            self.turn(loaded);
        }
    }

    fn open(&mut self, view: ViewId, of: ViewOf) {
        self.turn(vec![Input::Open { view, of }]);
    }

    fn act(&mut self, act: Act) {
        self.turn(vec![Input::Act { view: CHAT, act }]);
    }

    fn frame(&mut self, frame: &Value) {
        self.turn(vec![Input::Frame { link: self.link, text: frame.to_string() }]);
    }

    /// Takes the oldest request of this action, and answers it.
    fn answer(&mut self, action: &str, result: &Value) -> Value {
        let asked = self.take(action);
        self.frame(&json!({"type": "reply", "action": action, "id": asked["id"], "result": result}));
        asked
    }

    fn refuse(&mut self, action: &str, code: &str) {
        let asked = self.take(action);
        let error = json!({"code": code, "message": "no", "retryable": false});
        self.frame(&json!({"type": "error", "action": action, "id": asked["id"], "error": error}));
    }

    fn take(&mut self, action: &str) -> Value {
        let at = self.asked.iter().position(|asked| asked["action"] == action);
        let at = at.unwrap_or_else(|| panic!("no {action} in {:?}", self.asked));
        self.asked.remove(at)
    }

    /// Connects, and finds nothing new but these rows.
    fn connect(&mut self, rows: &[Value]) {
        self.turn(vec![Input::Opened { link: self.link, token_left: None }]);
        self.answer("drain", &json!({"messages": [], "more": false}));
        self.answer("inbox", &json!({"conversations": rows, "next_cursor": null}));
    }

    fn disconnect(&mut self) {
        self.turn(vec![Input::Ended { link: self.link, why: Why::Closed }]);
        self.asked.clear();
        self.now += Duration::from_secs(60);
        self.turn(vec![]);
    }

    fn send(&mut self, ask: u64, body: &str) {
        let target = Target::User(user("bob"));
        let client_msg_id = ClientMsgId::parse(&format!("m{ask}")).unwrap();
        let outgoing = Outgoing::message(target, Draft::new(body), None);
        let queued = Queued { client_msg_id, outgoing, made_at: Timestamp::default() };
        self.turn(vec![Input::Ask { ask, what: Ask::Keep(queued) }]);
    }

    fn list(&self) -> &ListSnapshot {
        match &self.shown[&LIST] {
            Shown::Chats(list) => list,
            Shown::Messages(_) | Shown::Members(_) => panic!("view {LIST} is the list"),
        }
    }

    fn screen(&self) -> &Screen {
        match &self.shown[&CHAT] {
            Shown::Messages(screen) => screen,
            Shown::Chats(_) | Shown::Members(_) => panic!("view {CHAT} is a conversation"),
        }
    }

    fn messages(&self) -> Vec<(&str, &MessageItem)> {
        let items = self.screen().messages.items.iter();
        items
            .filter_map(|item| match &item.content {
                Content::Message(message) => Some((&*item.key, &**message)),
                _ => None,
            })
            .collect()
    }

    /// The key, the text and the progress of each message.
    fn lines(&self) -> Vec<String> {
        let line = |(key, message): &(&str, &MessageItem)| {
            let progress = message.progress.as_ref().map(|progress| match progress {
                Progress::Failed { code, .. } => format!(" {code}"),
                progress => format!(" {progress:?}").to_lowercase(),
            });
            format!("{key} {}{}", message.body, progress.unwrap_or_default())
        };
        self.messages().iter().map(line).collect()
    }
}

fn chats() -> ViewOf {
    ViewOf::Chats(Filter::default())
}

fn bob(at: At) -> ViewOf {
    ViewOf::Messages { with: Target::User(user("bob")), at }
}

fn message(seq: u64, sender: &str) -> Value {
    json!({"conversation_id": with_bob(), "seq": seq, "message_id": format!("m{seq}"), "sender_id": sender, "kind": "text",
        "body": format!("text {seq}"), "sent_at": "2026-11-20T10:00:00.000Z"})
}

fn new(seq: u64, sender: &str) -> Value {
    json!({"type": "messages.new", "conversation_id": with_bob(), "messages": [message(seq, sender)]})
}

fn row(last: u64, read: u64) -> Value {
    json!({"conversation_id": with_bob(), "kind": "direct", "peer_id": "bob", "unread": last - read,
        "last_message": {"seq": last, "sender_id": "bob", "kind": "text", "preview": format!("text {last}"),
            "sent_at": "2026-11-20T10:00:00.000Z"},
        "delivered_seq": last, "read_seq": read, "last_seq": last})
}

fn page(seqs: std::ops::RangeInclusive<u64>, last: u64) -> Value {
    let messages: Vec<Value> = seqs.clone().map(|seq| message(seq, "bob")).collect();
    json!({"messages": messages, "more": *seqs.start() > 1, "last_seq": last,
        "members": [{"user_id": "bob", "delivered_seq": 0, "read_seq": 0}]})
}

/// A device that has three messages of bob, the last one unread.
fn with_three() -> Device {
    let mut device = Device::new(MemStore::new(user("alice")));
    device.open(LIST, chats());
    device.connect(&[row(2, 2)]);
    device.open(CHAT, bob(At::FirstUnread));
    device.answer("history", &page(1..=2, 2));
    device.answer("history", &page(1..=2, 2));
    device.frame(&new(3, "bob"));
    device
}

#[test]
fn a_direct_conversation_can_be_opened_before_its_first_message() {
    let mut device = Device::new(MemStore::new(user("alice")));
    device.connect(&[]);
    device.open(CHAT, bob(At::FirstUnread));
    assert_eq!(device.screen().conversation_id, with_bob());
    device.refuse("history", "not_member");
    device.refuse("history", "not_member");
    device.send(9, "hi");
    let stored = json!({"conversation_id": with_bob(), "seq": 1, "message_id": "x", "sent_at": "2026-11-20T12:00:01.000Z",
        "duplicate": false});
    device.answer("send", &stored);
    assert_eq!(device.lines(), ["cm9 hi stored"]);
    assert!(!device.screen().messages.has_older);
    assert_eq!(device.screen().chat.as_ref().unwrap().peer_id, Some(user("bob")));
}

#[test]
fn older_messages_come_from_the_store_first_and_then_from_the_server() {
    let mut device = Device::new(MemStore::new(user("alice")));
    device.open(CHAT, bob(At::Newest));
    device.connect(&[row(130, 130)]);
    // One request for the marks, and one for the newest page.
    device.answer("history", &page(130..=130, 130));
    device.answer("history", &page(81..=130, 130));
    assert_eq!((device.lines().len(), device.lines()[0].as_str()), (50, "s81 text 81"));
    assert!(device.screen().messages.has_older);
    device.act(Act::Older);
    let asked = device.answer("history", &page(31..=80, 130));
    assert_eq!(asked["before_seq"], 81);
    assert_eq!(device.lines().len(), 100);

    // After a restart, without a network.
    let mut device = device.restarted();
    device.open(CHAT, bob(At::Newest));
    assert_eq!(device.lines()[0], "s81 text 81");
    device.act(Act::Older);
    assert_eq!(device.lines()[0], "s31 text 31");
    device.act(Act::Jump(At::Seq(Seq::new(40).unwrap())));
    assert!(device.screen().messages.has_newer && device.screen().messages.has_older);
    assert!(device.lines().len() < 100);
}

#[test]
fn the_whole_list_comes_once_and_survives() {
    let mut device = Device::new(MemStore::new(user("alice")));
    device.open(LIST, chats());
    device.turn(vec![Input::Opened { link: device.link, token_left: None }]);
    device.answer("drain", &json!({"messages": [], "more": false}));
    // The catch-up of a new device stops here.
    device.answer("inbox", &json!({"conversations": [], "next_cursor": "c"}));
    device.answer("inbox", &json!({"conversations": [], "next_cursor": "c"}));
    let asked = device.answer("inbox", &json!({"conversations": [row(1, 1)], "next_cursor": null}));
    assert_eq!(asked["cursor"], "c");
    assert_eq!(device.list().rows.len(), 1);
    assert!(device.store.saved().listed);
    device.answer("channels", &json!({"conversations": [], "next_cursor": null}));
    device.disconnect();
    device.connect(&[]);
    assert!(device.asked.iter().all(|asked| asked["action"] != "inbox" || asked["pinned"] == true));
}

/// Returns a row with this peer, which is pinned.
fn pinned(peer: &str) -> Value {
    let mut row = row(1, 0);
    let id = direct_conversation_id(&user("alice"), &user(peer));
    (row["conversation_id"], row["peer_id"], row["pinned"]) = (json!(id), json!(peer), json!(true));
    row
}

#[test]
fn what_is_pinned_has_the_order_of_the_server_after_each_connect() {
    let peers = |device: &Device| {
        let rows = device.list().rows.iter();
        rows.map(|row| format!("{}{}", row.peer_id.as_ref().unwrap(), if row.is_pinned { "!" } else { "" }))
            .collect::<Vec<_>>()
    };
    let page = |rows: &[Value]| json!({"conversations": rows, "next_cursor": null});
    let set = |peer: &str, pinned: bool| {
        let id = direct_conversation_id(&user("alice"), &user(peer));
        json!({"type": "settings", "conversation_id": id, "set": {"pinned": pinned}})
    };
    let mut device = Device::new(MemStore::new(user("alice")));
    device.open(LIST, chats());
    device.connect(&[]);
    device.answer("inbox", &page(&[row(1, 0), pinned("carol"), pinned("dave")]));
    // The rows have no order.
    let asked = device.answer("inbox", &page(&[pinned("dave"), pinned("carol")]));
    assert_eq!(asked["pinned"], true);
    assert_eq!(peers(&device), ["dave!", "carol!", "bob"]);
    device.answer("channels", &page(&[]));

    // Another device has pinned a conversation that this list lacks, and unpinned one.
    let mut device = device.restarted();
    device.open(LIST, chats());
    device.connect(&[]);
    // An event that comes before the reply counts.
    let old = device.take("inbox");
    assert_eq!(old["pinned"], true);
    device.frame(&set("bob", true));
    let rows = page(&[pinned("erin"), pinned("carol")]);
    device.frame(&json!({"type": "reply", "action": "inbox", "id": old["id"], "result": rows}));
    device.answer("inbox", &page(&[pinned("bob"), pinned("erin"), pinned("carol")]));
    assert_eq!(peers(&device), ["bob!", "erin!", "carol!", "dave"]);
    device.frame(&set("carol", true));
    device.frame(&set("erin", false));
    assert_eq!(peers(&device), ["carol!", "bob!", "dave", "erin"]);

    // Without a network, the store has what is pinned, and the order comes later.
    let mut device = device.restarted();
    device.open(LIST, chats());
    assert_eq!(peers(&device), ["bob!", "carol!", "dave", "erin"]);
}

#[test]
fn pinned_channels_have_the_order_of_the_server_too() {
    let channel = |id: &str| {
        json!({"conversation_id": id, "kind": "channel", "title": id, "role": "member", "first_seq": 1, "history": "joined",
            "post": "admins", "add": "admins", "join": "open", "unread": 0, "read_seq": 1, "last_seq": 1, "pinned": true})
    };
    let page = |ids: &[&str]| json!({"conversations": ids.iter().map(|id| channel(id)).collect::<Vec<_>>(), "next_cursor": null});
    let titles = |device: &Device| device.list().rows.iter().map(|row| row.title.clone().unwrap()).collect::<Vec<_>>();
    let mut device = Device::new(MemStore::new(user("alice")));
    device.open(LIST, chats());
    device.connect(&[]);
    device.answer("inbox", &json!({"conversations": [], "next_cursor": null}));
    device.answer("channels", &page(&["ch_a", "ch_b", "ch_c"]));
    let asked = device.answer("channels", &page(&["ch_b", "ch_c", "ch_a"]));
    assert_eq!(asked["pinned"], true);
    assert_eq!(titles(&device), ["ch_b", "ch_c", "ch_a"]);
    // The order is known.
    device.turn(vec![Input::Act { view: LIST, act: Act::Refresh }]);
    assert_eq!(device.answer("channels", &page(&["ch_a", "ch_b", "ch_c"]))["pinned"], Value::Null);
    assert!(device.asked.iter().all(|asked| asked["action"] != "channels"));
    assert_eq!(titles(&device), ["ch_b", "ch_c", "ch_a"]);
    // After a reconnect, another device may have changed it.
    device.disconnect();
    device.connect(&[]);
    let asked = device.asked.iter().filter(|asked| asked["action"] == "channels" && asked["pinned"] == true);
    assert_eq!(asked.count(), 1);
}

#[test]
fn a_new_conversation_is_in_the_list_of_the_next_start() {
    let mut device = Device::new(MemStore::new(user("alice")));
    device.open(LIST, chats());
    device.connect(&[]);
    device.answer("inbox", &json!({"conversations": [], "next_cursor": null}));
    device.frame(&new(1, "bob"));
    assert_eq!(device.list().rows[0].peer_id, Some(user("bob")));
    device.frame(&new(2, "bob"));
    device.answer("inbox", &json!({"conversations": [row(2, 0)], "next_cursor": null}));
    device.frame(&new(3, "bob"));
    assert!(device.asked.iter().all(|asked| asked["action"] != "inbox"));
    let mut device = device.restarted();
    device.open(LIST, chats());
    assert_eq!((device.list().rows.len(), device.list().unread), (1, 3));
}

#[test]
fn a_view_gets_nothing_that_another_one_with_its_number_has_requested() {
    let mut device = Device::new(MemStore::new(user("alice")));
    device.connect(&[]);
    device.open(CHAT, bob(At::Newest));
    let asked = [device.take("history"), device.take("history")];
    device.open(CHAT, ViewOf::Messages { with: Target::User(user("carol")), at: At::Newest });
    for asked in asked {
        let result = page(1..=2, 2);
        device.frame(&json!({"type": "reply", "action": "history", "id": asked["id"], "result": result}));
    }
    assert!(device.lines().is_empty());
    device.open(CHAT, bob(At::Newest));
    assert_eq!(device.lines(), ["s1 text 1", "s2 text 2"]);
}

#[test]
fn a_view_tells_who_is_typing_and_when_that_ends() {
    let mut device = with_three();
    let typing =
        json!({"type": "typing", "conversation_id": with_bob(), "user_id": "bob", "at": "2026-11-20T12:00:00.000Z"});
    device.frame(&typing);
    assert_eq!(device.screen().chat.as_ref().unwrap().typing, [user("bob")]);
    while device.screen().chat.as_ref().unwrap().typing == [user("bob")] {
        device.now = device.wake_at.unwrap();
        assert!(device.now < Moment::default() + Duration::from_secs(30));
        device.turn(vec![]);
    }
    assert!(device.screen().chat.as_ref().unwrap().typing.is_empty());
}

#[test]
fn the_presence_of_the_open_conversation_is_watched() {
    let mut device = with_three();
    let online = json!({"users": [{"user_id": "bob", "online": true}], "watched": ["bob"]});
    let asked = device.answer("presence", &online);
    assert_eq!((&asked["user_ids"], &asked["watch"]), (&json!(["bob"]), &json!(true)));
    assert!(device.screen().chat.as_ref().unwrap().presence.as_ref().unwrap().online);
    device.frame(&json!({"type": "presence", "user_id": "bob", "online": false}));
    assert!(!device.screen().chat.as_ref().unwrap().presence.as_ref().unwrap().online);
    // A user who writes for the first time may be seen from then on.
    device.frame(&new(4, "bob"));
    device.answer("presence", &online);
    device.frame(&new(5, "bob"));
    assert!(device.asked.iter().all(|asked| asked["action"] != "presence"));
}

#[test]
fn a_first_message_is_shown_whatever_comes_first() {
    for loads_late in [false, true] {
        for order in [[1, 50], [50, 1]] {
            let mut device = Device::new(MemStore::new(user("alice")));
            device.held = loads_late.then(Vec::new);
            device.open(CHAT, bob(At::FirstUnread));
            device.connect(&[]);
            for limit in order {
                let is_it = |asked: &Value| asked["action"] == "history" && asked["limit"] == limit;
                let Some(at) = device.asked.iter().position(is_it) else { continue };
                let asked = device.asked.remove(at);
                let result = page(1..=1, 1);
                device.frame(&json!({"type": "reply", "action": "history", "id": asked["id"], "result": result}));
            }
            while let Some(late) = device.held.as_mut().and_then(Vec::pop) {
                device.turn(vec![late]);
            }
            while device.asked.iter().any(|asked| asked["action"] == "history") {
                device.answer("history", &page(1..=1, 1));
                while let Some(late) = device.held.as_mut().and_then(Vec::pop) {
                    device.turn(vec![late]);
                }
            }
            assert_eq!(device.lines(), ["s1 text 1"], "{loads_late} {order:?}");
        }
    }
}

#[test]
fn an_entry_that_was_stored_before_the_subscription_is_requested() {
    let channel = ConversationId::parse("ch_news").unwrap();
    let post = |seq: u64| {
        let mut post = message(seq, "bob");
        post["conversation_id"] = json!(channel);
        post
    };
    let page = |seqs: &[u64]| {
        let posts: Vec<Value> = seqs.iter().map(|seq| post(*seq)).collect();
        json!({"messages": posts, "more": false, "last_seq": seqs.last(), "members": []})
    };
    let mut device = Device::new(MemStore::new(user("alice")));
    device.connect(&[]);
    device.open(CHAT, ViewOf::Messages { with: Target::Conversation(channel.clone()), at: At::Newest });
    device.answer("history", &page(&[1]));
    device.answer("watch", &json!({"live": true, "last_seq": 2, "poll_ms": 60_000}));
    device.answer("history", &page(&[1, 2]));
    assert_eq!(device.lines(), ["s1 text 1", "s2 text 2"]);
}

#[test]
fn a_downloaded_file_is_shown_until_its_message_is_deleted() {
    let mut device = with_three();
    let mut image = message(4, "bob");
    let media = json!({"media_id": "md_1", "mime": "image/png", "bytes": 9, "sha256": format!("{}=", "A".repeat(43))});
    (image["kind"], image["media"]) = ("image".into(), media);
    device.frame(&json!({"type": "messages.new", "conversation_id": with_bob(), "messages": [image]}));
    let paths = |device: &Device| {
        let paths = device.messages().into_iter().map(|(_, message)| message.path.clone());
        paths.flatten().collect::<Vec<String>>()
    };
    assert_eq!(paths(&device), [""; 0]);
    let path = Some("/files/4".to_owned());
    device.turn(vec![Input::Place { conversation_id: with_bob(), seq: Seq::new(4).unwrap(), path }]);
    assert_eq!(paths(&device), ["/files/4"]);
    let mut device = device.restarted();
    device.open(CHAT, bob(At::Newest));
    assert_eq!(paths(&device), ["/files/4"]);
    device.connect(&[]);
    let delete = json!({"conversation_id": with_bob(), "seq": 5, "message_id": "m5", "sender_id": "bob", "kind": "delete",
        "body": "", "target_seq": 4, "sent_at": "2026-11-20T10:00:00.000Z"});
    device.frame(&json!({"type": "messages.new", "conversation_id": with_bob(), "messages": [delete]}));
    assert_eq!(paths(&device), [""; 0]);
    assert_eq!(device.store.unneeded(), ["/files/4"]);
}

#[test]
fn a_message_that_came_before_its_reply_does_not_wait_in_a_list_that_opens_between() {
    let mut device = Device::new(MemStore::new(user("alice")));
    device.connect(&[row(2, 2)]);
    device.send(9, "hi");
    let mut own = message(3, "alice");
    own["client_msg_id"] = "m9".into();
    device.frame(&json!({"type": "messages.new", "conversation_id": with_bob(), "messages": [own]}));
    device.open(LIST, chats());
    let stored = json!({"conversation_id": with_bob(), "seq": 3, "message_id": "m3",
        "sent_at": "2026-11-20T10:00:00.000Z", "duplicate": false});
    device.answer("send", &stored);
    let line = device.list().rows[0].line.clone().unwrap();
    assert_eq!((line.seq, line.progress), (Seq::new(3), Some(Progress::Stored)));
}

#[test]
fn the_members_of_a_group_are_alive() {
    let id = ConversationId::parse("gr_trip").unwrap();
    let members = |device: &Device| {
        let Shown::Members(shown) = &device.shown[&CHAT] else { panic!("view {CHAT} is of members") };
        let row = |row: &Arc<MemberRow>| format!("{} {} {}", row.user_id, row.role.as_str(), row.read_seq);
        shown.members.iter().map(row).collect::<Vec<_>>()
    };
    let page = |members: &[(&str, &str, u64)], next: Option<&str>| {
        let row = |(user, role, seq): &(&str, &str, u64)| json!({"user_id": user, "role": role, "joined_seq": seq});
        json!({"members": members.iter().map(row).collect::<Vec<_>>(), "next_cursor": next})
    };
    let entry = |seq: u64, sender: &str, system: Value| {
        let entry = json!({"conversation_id": id, "seq": seq, "message_id": "x", "sender_id": sender, "kind": "system",
            "body": "", "system": system, "sent_at": "2026-11-20T10:00:00.000Z"});
        json!({"type": "messages.new", "conversation_id": id, "messages": [entry]})
    };
    let mut device = Device::new(MemStore::new(user("alice")));
    device.connect(&[]);
    device.frame(&entry(1, "dave", json!({"event": "created", "title": "Trip", "members": ["dave", "alice", "bob"]})));
    device.open(CHAT, ViewOf::Members(id.clone()));
    assert_eq!(members(&device), [""; 0]);
    let asked = device.answer("members", &page(&[("alice", "member", 1), ("bob", "admin", 1)], Some("bob")));
    assert_eq!(asked["conversation_id"], "gr_trip");
    // Carol joins while the second page is under way, which does not have her.
    device.frame(&entry(2, "bob", json!({"event": "members.added", "members": ["carol"]})));
    let asked = device.answer("members", &page(&[("dave", "owner", 1)], None));
    assert_eq!(asked["cursor"], "bob");
    assert_eq!(members(&device), ["dave owner 0", "bob admin 0", "alice member 0", "carol member 0"]);
    device.frame(&entry(3, "dave", json!({"event": "role.changed", "user_id": "bob", "role": "member"})));
    device.frame(&entry(4, "dave", json!({"event": "members.removed", "members": ["carol"]})));
    device.frame(&json!({"type": "receipt.read", "conversation_id": id, "user_id": "dave", "seq": 4,
        "at": "2026-11-20T10:00:00.000Z"}));
    assert_eq!(members(&device), ["dave owner 4", "alice member 0", "bob member 0"]);
    // Without a network, the last list of the server and the entries since.
    let mut device = device.restarted();
    device.open(CHAT, ViewOf::Members(id.clone()));
    assert_eq!(members(&device), ["dave owner 4", "alice member 0", "bob member 0"]);
}

#[test]
fn a_channel_that_the_server_no_longer_lists_leaves_the_list() {
    let channel = json!({"conversation_id": "ch_news", "kind": "channel", "title": "News", "role": "member", "first_seq": 1,
        "history": "joined", "post": "admins", "add": "admins", "join": "open", "unread": 2, "read_seq": 1, "last_seq": 3});
    let titles = |device: &Device| device.list().rows.iter().map(|row| row.title.clone()).collect::<Vec<_>>();
    let mut device = Device::new(MemStore::new(user("alice")));
    device.open(LIST, chats());
    device.connect(&[]);
    device.answer("inbox", &json!({"conversations": [], "next_cursor": null}));
    device.turn(vec![Input::Act { view: LIST, act: Act::Refresh }]);
    device.answer("channels", &json!({"conversations": [channel], "next_cursor": null}));
    assert_eq!((titles(&device), device.list().unread), (vec![Some("News".to_owned())], 2));
    device.turn(vec![Input::Act { view: LIST, act: Act::Refresh }]);
    device.answer("channels", &json!({"conversations": [], "next_cursor": null}));
    assert_eq!((titles(&device), device.list().unread), (vec![], 0));
}

#[test]
fn the_unread_separator_stays_although_the_row_comes_after_the_first_look() {
    let mut device = Device::new(MemStore::new(user("alice")));
    device.open(LIST, chats());
    device.connect(&[]);
    device.frame(&new(1, "bob"));
    device.frame(&new(2, "bob"));
    device.open(CHAT, bob(At::FirstUnread));
    let separators = |device: &Device| {
        let items = &device.screen().messages.items;
        items.iter().filter(|item| matches!(item.content, Content::Unread { count: 2 })).count()
    };
    device.act(Act::Seen("s2".to_owned()));
    device.answer("inbox", &json!({"conversations": [row(2, 2)], "next_cursor": null}));
    assert_eq!(separators(&device), 1);
}

#[test]
fn the_unread_separator_is_shown_although_a_page_of_marks_came_before_the_store() {
    let mut device = Device::new(MemStore::new(user("alice")));
    device.open(LIST, chats());
    device.connect(&[row(1, 1)]);
    device.frame(&new(2, "bob"));
    device.held = Some(vec![]);
    device.open(CHAT, bob(At::FirstUnread));
    let mut marks = page(2..=2, 2);
    marks["members"] = json!([{"user_id": "alice", "delivered_seq": 2, "read_seq": 1}]);
    device.answer("history", &marks);
    let loads = device.held.take().unwrap();
    device.turn(loads);
    let items = &device.screen().messages.items;
    assert!(items.iter().any(|item| matches!(item.content, Content::Unread { count: 1 })), "{items:?}");
}

#[test]
fn what_is_on_the_screen_is_read_although_its_row_has_not_come() {
    let mut device = Device::new(MemStore::new(user("alice")));
    device.connect(&[]);
    device.open(CHAT, bob(At::Newest));
    let mut marks = page(1..=2, 2);
    marks["members"] = json!([{"user_id": "alice", "delivered_seq": 2, "read_seq": 0}]);
    device.answer("history", &marks);
    device.answer("history", &page(1..=2, 2));
    assert_eq!(device.screen().messages.unread, 2);
    device.turn(vec![Input::ReadAll(with_bob())]);
    assert_eq!(device.take("read")["seq"], 2);
    assert_eq!(device.screen().messages.unread, 0);
}

#[test]
fn a_new_group_has_one_row_although_the_servers_row_comes_before_the_reply() {
    let mut device = Device::new(MemStore::new(user("alice")));
    device.open(LIST, chats());
    device.connect(&[]);
    let client_msg_id = ClientMsgId::parse("c1").unwrap();
    let id = group_id(&user("alice"), &client_msg_id);
    let create = json!({"client_msg_id": "c1", "create": {"title": "Choir", "members": ["bob"]}});
    let queued: Queued = serde_json::from_value(create).unwrap();
    device.turn(vec![Input::Ask { ask: 9, what: Ask::Keep(queued) }]);
    let row = json!({"conversation_id": id, "kind": "group", "title": "Choir", "role": "owner", "unread": 0,
        "last_message": {"seq": 1, "sender_id": "alice", "kind": "system", "preview": "",
            "system": {"event": "created", "title": "Choir", "members": ["alice", "bob"]},
            "sent_at": "2026-11-20T10:00:00.000Z"},
        "delivered_seq": 1, "read_seq": 1, "last_seq": 1});
    device.answer("inbox", &json!({"conversations": [row], "next_cursor": null}));
    let rows = &device.list().rows;
    assert_eq!((rows.len(), rows[0].conversation_id.as_ref(), &*rows[0].key), (1, Some(&id), "nc1"));
}

/// Takes the request for the server's features, and that for names, and answers both.
fn answer_names(device: &mut Device, profiles: &Value) -> Value {
    let features = json!({"pending": false, "server_time": "2026-11-20T12:00:00.000Z", "features": ["profiles"]});
    device.answer("ping", &features);
    device.answer("profiles", &json!({"profiles": profiles, "left": []}))["user_ids"].take()
}

#[test]
fn a_name_is_requested_when_a_view_shows_the_user_and_again_after_a_day() {
    let names = |screen: &Screen| json!(screen.names);
    let mut device = with_three();
    assert!(device.asked.iter().all(|asked| asked["action"] != "ping"), "the app shows no names");
    device.turn(vec![Input::Names]);
    let profile = json!([{"user_id": "bob", "name": "Bob", "version": 1}]);
    let asked = answer_names(&mut device, &profile);
    assert!(asked.as_array().unwrap().contains(&json!("bob")), "{asked}");
    assert_eq!(names(device.screen()), json!({"bob": "Bob"}));
    // Known, with a name or without one.
    device.frame(&new(4, "bob"));
    assert!(device.asked.iter().all(|asked| asked["action"] != "profiles"));
    // The user's own profile has changed elsewhere.
    device.frame(&json!({"type": "profile", "version": 2}));
    let own = json!({"profiles": [{"user_id": "alice", "name": "Alice", "version": 2}], "left": []});
    assert_eq!(device.answer("profiles", &own)["user_ids"], json!(["alice"]));

    device.now += Duration::from_hours(24);
    device.disconnect();
    device.connect(&[]);
    // The chat list has requested its rows, too.
    device.answer("inbox", &json!({"conversations": [], "next_cursor": null}));
    assert_eq!(answer_names(&mut device, &json!([])), asked);
    assert_eq!(names(device.screen()), json!({}), "bob has no profile any more");
}

#[test]
fn a_server_without_profiles_is_not_asked_for_names() {
    let mut device = with_three();
    device.turn(vec![Input::Names]);
    device.answer("ping", &json!({"pending": false, "server_time": "2026-11-20T12:00:00.000Z"}));
    device.frame(&new(4, "bob"));
    assert!(device.asked.iter().all(|asked| !["ping", "profiles"].contains(&asked["action"].as_str().unwrap())));
}
