//! The room against a client played by hand.

use pigeonhole_client::{
    ConversationKind, ConversationSettings, GroupMember, Kind, LastMessage, Member, MessageId, Outgoing, Role, Target,
    UserSettings,
};

use super::*;
use crate::command::Setting;

const NOW: Timestamp = Timestamp::from_millis(1_795_168_800_123);

pub(crate) fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

fn conversation(id: &str) -> ConversationId {
    ConversationId::parse(id).unwrap()
}

fn number(seq: u64) -> Seq {
    Seq::new(seq).unwrap()
}

pub(crate) fn message(id: &str, seq: u64, sender: &str) -> Message {
    Message::text(conversation(id), number(seq), MessageId::stored("x"), user(sender), format!("{sender} {seq}"), NOW)
}

fn heard(conversation: &str, seq: u64, sender: &str, missed: bool) -> Event {
    Event::Message { message: message(conversation, seq, sender), missed }
}

/// With one message that is not read.
fn row(id: &str, peer: &str) -> Conversation {
    let (sender_id, preview) = (user(peer), "hi".to_owned());
    Conversation {
        conversation_id: conversation(id),
        kind: ConversationKind::Direct,
        peer_id: Some(user(peer)),
        title: None,
        role: None,
        member_count: None,
        first_seq: None,
        history: None,
        post: None,
        add: None,
        last_message: LastMessage {
            seq: number(1),
            sender_id,
            kind: Kind::Text,
            preview,
            sent_at: NOW,
            deleted: false,
            system: None,
        },
        unread: 1,
        mentions: None,
        delivered_seq: number(1),
        read_seq: Seq::ZERO,
        last_seq: number(1),
        muted_until: None,
        archived: false,
        blocked: false,
    }
}

/// A history of which alice has read everything up to `alice_read`, and bob nothing.
fn history(seqs: impl IntoIterator<Item = u64>, alice_read: u64) -> HistoryResult {
    let messages: Vec<Message> = seqs.into_iter().map(|seq| message("dm_ab", seq, "bob")).collect();
    let last_seq = messages.last().map_or(Seq::ZERO, |last| last.seq);
    let member = |id, seq| Member { user_id: user(id), delivered_seq: number(seq), read_seq: number(seq) };
    HistoryResult {
        messages,
        more: false,
        last_seq,
        first_seq: None,
        members: vec![member("alice", alice_read), member("bob", 0)],
    }
}

pub(crate) fn queued(client_msg_id: &ClientMsgId) -> Queued {
    let (target, body) = (Target::User(user("bob")), "hi".to_owned());
    let outgoing = Outgoing::Message { target, body, reply_to: None, mentions: vec![], media: None };
    Queued { client_msg_id: client_msg_id.clone(), outgoing }
}

fn told(room: &mut Room) -> Vec<String> {
    let text = |news| match news {
        News::Message { message, missed } => format!("{} {missed}", message.seq),
        News::Elsewhere { sender_id, count, .. } => format!("{sender_id} {count}"),
        other => format!("{other:?}"),
    };
    room.take_news().into_iter().map(text).collect()
}

/// The conversation is open, and everything up to `last` shown and read.
fn caught_up(last: u64) -> Room {
    let mut room = Room::new(user("alice"), With::Peer(user("bob")));
    room.event(Event::State(State::Online));
    room.event(Event::ConversationChanged(row("dm_ab", "bob")));
    room.event(Event::State(State::CaughtUp));
    room.remembered(Ok(history(1..=last, last)));
    room.take_asks();
    assert_eq!(told(&mut room).last().unwrap(), "UpToDate");
    room
}

#[test]
fn a_start_shows_history_before_what_was_missed_and_others_as_one_line_each() {
    let mut room = Room::new(user("alice"), With::Peer(user("bob")));
    room.event(Event::State(State::Online));
    room.event(heard("dm_ab", 3, "bob", true));
    room.event(heard("dm_ac", 1, "carol", true));
    room.event(heard("dm_ac", 2, "carol", true));
    room.event(heard("dm_ab", 4, "bob", true));
    let two_unread = Conversation { unread: 2, read_seq: number(2), last_seq: number(4), ..row("dm_ab", "bob") };
    room.event(Event::ConversationChanged(two_unread));
    room.event(Event::State(State::CaughtUp));
    let ask = Ask::History { conversation_id: conversation("dm_ab"), side: Side::Newest, limit: HISTORY_AT_ONCE };
    assert_eq!(room.take_asks(), [Ask::Outbox, ask]);
    room.remembered(Ok(history(1..=4, 2)));
    assert_eq!(told(&mut room), ["Online", "carol 2", "1 false", "2 false", "3 true", "4 true", "UpToDate"]);
    assert_eq!(room.take_asks(), [Ask::Read { conversation_id: conversation("dm_ab"), seq: number(4) }]);
}

#[test]
fn a_peer_far_down_the_chat_list_is_looked_for_and_one_who_is_not_there_too() {
    let mut room = Room::new(user("alice"), With::Peer(user("bob")));
    room.event(Event::State(State::CaughtUp));
    assert_eq!(room.take_asks(), [Ask::Inbox { cursor: None }]);
    room.listed(Ok(InboxResult { conversations: vec![row("dm_ac", "carol")], next_cursor: Some("c".into()) }));
    assert_eq!(room.take_asks(), [Ask::Inbox { cursor: Some("c".into()) }]);
    room.listed(Ok(InboxResult { conversations: vec![], next_cursor: None }));
    assert_eq!(told(&mut room), ["UpToDate"]);

    // The first message opens the conversation. The receipt for it may have come before: history knows.
    let id = ClientMsgId::parse("a").unwrap();
    room.said(queued(&id), NOW);
    let mut own = message("dm_ab", 1, "alice");
    own.client_msg_id = Some(id);
    room.event(Event::Message { message: own, missed: false });
    assert!(matches!(room.take_asks().as_slice(), [Ask::Outbox, Ask::History { .. }]));
    let mut first = history([], 0);
    first.members[1].delivered_seq = number(1);
    room.remembered(Ok(first));
    let told = told(&mut room);
    assert_eq!(told, ["1 false", "Delivered { up_to: Seq(1) }"]);
    assert!(room.is_at_rest());
}

#[test]
fn ticks_only_rise_and_reading_is_more_than_delivery() {
    let mut room = caught_up(4);
    let mut receipt = |kind, name: &str, seq| {
        let (conversation_id, user_id) = (conversation("dm_ab"), user(name));
        room.event(Event::Receipt { kind, receipt: Receipt { conversation_id, user_id, seq: number(seq), at: NOW } });
        told(&mut room)
    };
    assert_eq!(receipt(ReceiptKind::Delivered, "bob", 2), ["Delivered { up_to: Seq(2) }"]);
    assert!(receipt(ReceiptKind::Delivered, "bob", 1).is_empty());
    assert_eq!(receipt(ReceiptKind::Read, "bob", 4), ["Read { up_to: Seq(4) }"]);
    assert!(receipt(ReceiptKind::Delivered, "bob", 4).is_empty());
    assert!(receipt(ReceiptKind::Read, "bob", 3).is_empty());
    // What alice reads on another device is no tick for her.
    assert!(receipt(ReceiptKind::Read, "alice", 9).is_empty());
}

#[test]
fn looking_back_asks_for_what_is_older_as_long_as_there_is_some() {
    let mut room = Room::new(user("alice"), With::Peer(user("bob")));
    room.event(Event::State(State::Online));
    room.event(Event::ConversationChanged(row("dm_ab", "bob")));
    room.event(Event::State(State::CaughtUp));
    room.look_back();
    room.take_asks();
    room.remembered(Ok(history(51..=100, 100)));
    told(&mut room);
    for _ in 0..2 {
        room.look_back();
    }
    let side = Side::Before(number(51));
    let ask = Ask::History { conversation_id: conversation("dm_ab"), side, limit: HISTORY_AT_ONCE };
    assert_eq!(room.take_asks(), [ask]);
    room.remembered(Ok(HistoryResult { last_seq: number(100), ..history(1..=50, 100) }));
    assert_eq!(told(&mut room), Vec::<String>::new());
    let shown = room.timeline().entries(|_| ()).into_iter();
    assert_eq!(shown.filter(|entry| matches!(entry, TimelineEntry::Message { .. })).count(), 100);
    room.look_back();
    assert_eq!(room.take_asks(), []);
}

#[test]
fn the_chat_list_is_told_to_its_end_and_so_are_the_commands() {
    let mut room = caught_up(1);
    for _ in 0..2 {
        room.command(Command::List);
        assert_eq!(room.take_asks(), [Ask::List { cursor: None }]);
        let page = |id, peer, next: Option<&str>| InboxResult {
            conversations: vec![row(id, peer)],
            next_cursor: next.map(str::to_owned),
        };
        room.told_list(Ok(page("dm_ab", "bob", Some("c"))));
        assert_eq!(room.take_asks(), [Ask::List { cursor: Some("c".to_owned()) }]);
        room.told_list(Ok(page("dm_ac", "carol", None)));
        assert_eq!(room.take_asks(), []);
        assert_eq!(told_texts(&mut room), ["1 bob (1 new)", "2 carol (1 new)"]);
    }
    room.command(Command::parse("/help").unwrap());
    assert!(told_texts(&mut room).iter().any(|line| line.contains("/list ")));
}

#[test]
fn what_is_shown_is_read_unless_another_device_has_read_it() {
    let mut room = caught_up(4);
    room.event(heard("dm_ab", 5, "bob", false));
    assert_eq!(told(&mut room), ["5 false"]);
    assert_eq!(room.take_asks(), [Ask::Read { conversation_id: conversation("dm_ab"), seq: number(5) }]);
    room.event(heard("dm_ab", 6, "alice", false));
    assert!(room.take_asks().is_empty());
    room.event(heard("dm_ac", 1, "carol", false));
    assert_eq!(told(&mut room), ["6 false", "carol 1"]);
}

#[test]
fn a_reconnect_asks_only_how_far_everybody_is() {
    let mut room = caught_up(4);
    room.event(Event::State(State::Online));
    room.event(heard("dm_ab", 5, "bob", true));
    room.event(Event::State(State::CaughtUp));
    let ask = Ask::History { conversation_id: conversation("dm_ab"), side: Side::After(number(5)), limit: 1 };
    assert_eq!(room.take_asks(), [ask]);
    room.remembered(Ok(history([], 4)));
    assert_eq!(told(&mut room), ["Online", "5 true", "UpToDate"]);
    assert_eq!(room.take_asks(), [Ask::Read { conversation_id: conversation("dm_ab"), seq: number(5) }]);
}

#[test]
fn a_message_that_can_never_be_sent_is_said_to_have_failed() {
    let mut room = caught_up(4);
    room.not_said("x", &Error::TooLarge);
    assert!(matches!(room.take_news()[..], [News::Failed { in_timeline: false, .. }]));
    let id = |name| ClientMsgId::parse(name).unwrap();
    room.said(queued(&id("a")), NOW);
    assert!(!room.is_at_rest());
    let error = Error::Refused { code: "id_reused".into(), message: "already used".into() };
    room.event(Event::Failed { queued: queued(&id("a")), error });
    assert!(matches!(room.take_news()[..], [News::Failed { in_timeline: true, .. }]));
    assert!(room.is_at_rest());
    // It stays on the screen until the user writes on.
    let unsent = |room: &Room| {
        let entries = room.timeline().entries(|_| ());
        entries.iter().filter(|entry| matches!(entry, TimelineEntry::Unsent { .. })).count()
    };
    assert_eq!(unsent(&room), 1);
    room.said(queued(&id("b")), NOW);
    assert_eq!(unsent(&room), 1);
}

#[test]
fn what_is_set_is_told_once_by_whoever_sets_it() {
    let mut room = Room::new(user("alice"), With::Peer(user("bob")));
    room.command(Command::Set(Setting::Mute));
    assert!(matches!(room.take_news()[..], [News::Notice(_)]), "there is no conversation yet");
    room.command(Command::Set(Setting::Block));
    let blocked = |blocked| Settings::User { user_id: user("bob"), set: UserSettings { blocked } };
    assert_eq!(room.take_asks(), [Ask::Settings(blocked(true))]);
    room.event(Event::SettingsChanged(blocked(true)));
    assert_eq!(told(&mut room), [r#"Settings("blocked")"#]);
    room.event(Event::SettingsChanged(blocked(false)));
    assert_eq!(told(&mut room), [r#"Settings("")"#]);
    let other = Settings::User { user_id: user("carol"), set: UserSettings { blocked: true } };
    room.event(Event::SettingsChanged(other));
    assert!(told(&mut room).is_empty());

    let mut room = caught_up(4);
    let set = |id, set| Event::SettingsChanged(Settings::Conversation { conversation_id: conversation(id), set });
    let muted = ConversationSettings { muted_until: Some(Some(MutedUntil::Forever)), archived: None };
    room.event(set("dm_ac", muted.clone()));
    assert!(told(&mut room).is_empty());
    room.event(set("dm_ab", muted));
    room.event(set("dm_ab", ConversationSettings { muted_until: None, archived: Some(true) }));
    assert_eq!(told(&mut room), [r#"Settings("muted")"#, r#"Settings("muted, archived")"#]);
    // A message takes it out of the archive.
    room.event(heard("dm_ab", 5, "bob", false));
    assert_eq!(told(&mut room), [r#"Settings("muted")"#, "5 false"]);
    let row = Conversation { muted_until: Some(MutedUntil::At(NOW)), blocked: true, ..row("dm_ab", "bob") };
    room.event(Event::ConversationChanged(row));
    assert_eq!(told(&mut room), [r#"Settings("muted until 2026-11-20T10:00:00.123Z, blocked")"#]);
}

#[test]
fn a_device_that_is_one_too_many_waits_for_its_user() {
    let mut room = caught_up(4);
    assert!(!room.is_replaced());
    room.event(Event::State(State::Replaced));
    assert!(room.is_replaced() && !room.is_at_rest());
    assert_eq!(told(&mut room), ["Replaced"]);
    room.event(Event::State(State::Connecting));
    assert!(!room.is_replaced());
}

#[test]
fn who_is_blocked_learns_only_that_it_can_not_be_delivered() {
    let mut room = caught_up(4);
    let id = ClientMsgId::parse("a").unwrap();
    room.said(queued(&id), NOW);
    let error = Error::Refused { code: "forbidden".into(), message: "you may not do this".into() };
    room.event(Event::Failed { queued: queued(&id), error });
    assert!(matches!(&room.take_news()[..], [News::Failed { why, .. }] if why == "it can't be delivered"));
}

#[test]
fn what_a_service_tells_is_read_and_muted_and_no_more() {
    let mut room = Room::new(user("alice"), With::Peer(user("@orders")));
    room.event(Event::State(State::CaughtUp));
    room.listed(Ok(InboxResult { conversations: vec![row("dm_ao", "@orders")], next_cursor: None }));
    let of_service = HistoryResult { messages: vec![message("dm_ao", 1, "@orders")], ..history([1], 0) };
    room.remembered(Ok(of_service));
    assert_eq!(room.prompt(), "(read only) > ");
    room.take_asks();
    room.take_news();
    for line in ["/who", "/send us.jpg", "/react 👍", "/reply thanks", "/edit 1 x", "/delete 1", "/block", "/unblock"]
    {
        assert_eq!(room.command(Command::parse(line).unwrap()), None, "{line}");
        assert_eq!(room.take_news(), [News::Notice("what a service tells is only read".to_owned())], "{line}");
        assert!(room.take_asks().is_empty(), "{line}");
    }
    room.refuse("thanks");
    assert!(matches!(&room.take_news()[..], [News::Failed { what, .. }] if what == "not sent: thanks"));
    room.command(Command::Set(Setting::Mute));
    room.command(Command::Set(Setting::Archive));
    assert!(matches!(room.take_asks()[..], [Ask::Settings(_), Ask::Settings(_)]));
    room.event(heard("dm_ao", 2, "@orders", false));
    assert_eq!(told(&mut room), ["2 false"]);
    assert_eq!(caught_up(1).prompt(), "> ");
}

#[test]
fn what_a_service_deletes_among_others_is_not_its_conversation() {
    let mut room = Room::new(user("alice"), With::Peer(user("@system")));
    let mut deleted = message("dm_ab", 2, "@system");
    (deleted.kind, deleted.target_seq) = (Kind::Delete, Some(number(1)));
    room.event(Event::Message { message: deleted, missed: false });
    assert_eq!(room.id(), None);
    room.event(heard("dm_as", 1, "@system", false));
    assert_eq!(room.id(), Some(&conversation("dm_as")));
}

fn changed(wish: Option<Wish>) -> Option<(ConversationId, Seq)> {
    match wish {
        Some(Wish::Change(id, seq, _)) => Some((id, seq)),
        _ => None,
    }
}

#[test]
fn a_change_is_about_the_message_with_that_number_or_the_last_one() {
    let mut room = caught_up(4);
    let line = |text: &str| Command::parse(text).unwrap();
    assert_eq!(room.command(line("/edit better")), None, "nothing is alice's own");
    assert!(matches!(room.take_news()[..], [News::Notice(_)]));
    room.event(heard("dm_ab", 5, "alice", false));
    room.event(heard("dm_ab", 6, "bob", false));
    room.event(heard("dm_ab", 7, "alice", false));
    let mut target = |text: &str| changed(room.command(line(text))).map(|(id, seq)| (id.to_string(), seq.value()));
    let at = |seq| Some(("dm_ab".to_owned(), seq));
    assert_eq!((target("/edit better"), target("/delete")), (at(7), at(7)));
    assert_eq!((target("/react 👍"), target("/reply sure")), (at(6), at(6)));
    assert_eq!((target("/edit 5 better"), target("/react #7 👍"), target("/reply 8 sure")), (at(5), at(7), None));
    // What is deleted is no longer meant.
    let mut deleted = message("dm_ab", 8, "alice");
    (deleted.kind, deleted.target_seq) = (Kind::Delete, Some(number(7)));
    room.event(Event::Message { message: deleted, missed: false });
    assert_eq!(changed(room.command(line("/delete"))).map(|(_, seq)| seq), Some(number(5)));
    assert_eq!(room.command(line("/delete 7")), None);

    let mut nobody = Room::new(user("alice"), With::Peer(user("bob")));
    assert_eq!(nobody.command(line("/delete 1")), None);
    assert_eq!(nobody.command(line("/edit")), None);
    assert!(matches!(nobody.take_news()[..], [News::Notice(_), News::Notice(_)]));
}

#[test]
fn what_became_of_messages_elsewhere_is_no_news() {
    let mut room = caught_up(4);
    let mut reaction = message("dm_ac", 2, "carol");
    reaction.kind = Kind::Reaction;
    room.event(Event::Message { message: reaction, missed: false });
    assert!(told(&mut room).is_empty());
}

#[test]
fn a_change_that_is_refused_says_what_it_was() {
    let mut room = caught_up(4);
    let outgoing = Outgoing::Delete { conversation_id: conversation("dm_ab"), seq: number(3) };
    let queued = Queued { client_msg_id: ClientMsgId::parse("a").unwrap(), outgoing };
    room.said(queued.clone(), NOW);
    assert!(!room.is_at_rest());
    let error = Error::Refused { code: "gone".into(), message: "it is gone".into() };
    room.event(Event::Failed { queued, error });
    let what = |news: &News| match news {
        News::Failed { what, why, .. } => format!("{what}: {why}"),
        other => panic!("{other:?}"),
    };
    assert_eq!(room.take_news().iter().map(what).collect::<Vec<_>>(), ["#3 not deleted: the message is deleted"]);
    assert!(room.is_at_rest());
}

#[test]
fn the_peer_s_presence_is_asked_for_and_told() {
    let mut room = caught_up(4);
    room.command(Command::Who);
    assert_eq!(room.take_asks(), [Ask::Presence(user("bob"))]);
    let seen = |online, last_seen_at| Presence { user_id: user("bob"), online, last_seen_at };
    for (presence, text) in [
        (vec![seen(true, Some(NOW))], "bob is online"),
        (vec![seen(false, Some(NOW))], "bob was last seen at 2026-11-20T10:00:00.123Z"),
        (vec![seen(false, None)], "nobody knows when bob was here"),
        (vec![], "nobody knows when bob was here"),
    ] {
        room.present(&user("bob"), Ok(presence));
        assert_eq!(room.take_news(), [News::Told(text.to_owned())]);
    }
}

#[test]
fn a_phone_rings_until_it_is_taken_out() {
    let mut room = caught_up(4);
    room.command(Command::parse("/ring my-token").unwrap());
    let asks = room.take_asks();
    assert!(
        matches!(&asks[..], [Ask::Ring(Some(Registration { token, preview: true, .. }))] if token.as_str() == "my-token")
    );
    room.rings(true, Ok(()));
    assert_eq!(room.take_news(), [News::Told("what alice misses rings a phone".to_owned())]);
    room.command(Command::parse("/ring off").unwrap());
    assert_eq!(room.take_asks(), [Ask::Ring(None)]);
    room.rings(false, Ok(()));
    assert_eq!(room.take_news(), [News::Told("this phone no longer rings".to_owned())]);
}

fn system(id: &str, seq: u64, sender: &str, system: &str) -> Event {
    let mut entry = message(id, seq, sender);
    (entry.kind, entry.body, entry.system) = (Kind::System, String::new(), serde_json::from_str(system).ok());
    Event::Message { message: entry, missed: false }
}

fn told_texts(room: &mut Room) -> Vec<String> {
    let text = |news| match news {
        News::Told(text) | News::Notice(text) | News::Opened(text) | News::Named(text) => Some(text),
        _ => None,
    };
    room.take_news().into_iter().filter_map(text).collect()
}

/// The group is open, and alice has said number 2.
fn in_a_group() -> Room {
    let mut room = Room::new(user("alice"), With::parse("gr_ab").unwrap());
    room.event(Event::State(State::Online));
    room.event(Event::State(State::CaughtUp));
    let mut page = history([], 0);
    page.members.clear();
    (page.first_seq, page.last_seq) = (Some(number(1)), number(2));
    page.messages = vec![message("gr_ab", 1, "bob"), message("gr_ab", 2, "alice")];
    room.remembered(Ok(page));
    room
}

#[test]
fn a_group_is_asked_who_is_in_it_and_how_far_they_are() {
    let mut room = in_a_group();
    let id = conversation("gr_ab");
    let asks = room.take_asks();
    assert!(asks.contains(&Ask::Members { conversation_id: id.clone(), cursor: None }), "{asks:?}");
    assert!(asks.contains(&Ask::Receipts { conversation_id: id.clone(), cursor: None }), "{asks:?}");
    room.take_news();
    let member = |name: &str, role| GroupMember { user_id: user(name), role, joined_seq: number(1) };
    let members = vec![member("alice", Role::Owner), member("bob", Role::Member)];
    room.members(&id, Ok(MembersResult { members, next_cursor: Some(user("bob")) }));
    assert_eq!(room.take_asks(), [Ask::Members { conversation_id: id.clone(), cursor: Some(user("bob")) }]);
    room.members(&id, Ok(MembersResult { members: vec![member("carol", Role::Admin)], next_cursor: None }));
    assert_eq!(told(&mut room), ["UpToDate"], "nobody has asked");
    let (target, draft) = room.draft("hi @bob, @erin");
    assert_eq!(
        (target, draft),
        (Target::Conversation(id.clone()), Draft::new("hi @bob, @erin").mentions([user("bob")]))
    );
    room.event(system("gr_ab", 3, "carol", r#"{"event":"members.added","members":["erin"]}"#));
    assert_eq!(room.draft("hi @erin").1, Draft::new("hi @erin").mentions([user("erin")]));
    room.command(Command::parse("/members").unwrap());
    room.members(&id, Ok(MembersResult { members: vec![], next_cursor: None }));
    assert_eq!(told_texts(&mut room), ["alice (owner), bob, carol (admin), erin"]);
    // What another conversation answers late is not about this one.
    room.members(
        &conversation("gr_cd"),
        Ok(MembersResult { members: vec![member("dave", Role::Owner)], next_cursor: None }),
    );
    assert!(room.draft("@dave").1 == Draft::new("@dave"));
}

#[test]
fn who_has_read_the_last_own_message_is_told() {
    let mut room = in_a_group();
    let id = conversation("gr_ab");
    let marks = |name: &str, delivered, read| Member {
        user_id: user(name),
        delivered_seq: number(delivered),
        read_seq: number(read),
    };
    let page =
        |members| Ok(ReceiptsResult { delivered_seq: Seq::ZERO, read_seq: Seq::ZERO, members, next_cursor: None });
    room.take_news();
    for (members, text) in [
        (vec![marks("bob", 1, 1)], "#2: nobody has it yet"),
        (vec![marks("carol", 2, 1)], "#2: received by carol"),
        (vec![marks("bob", 2, 2)], "#2: read by bob; received by carol"),
        (vec![marks("carol", 2, 2)], "#2: read by all: bob, carol"),
    ] {
        room.command(Command::parse("/seen").unwrap());
        room.receipts(&id, page(members));
        assert_eq!(told_texts(&mut room), [text]);
    }
    let mut nobody = Room::new(user("alice"), With::Peer(user("bob")));
    nobody.command(Command::parse("/seen").unwrap());
    assert!(matches!(nobody.take_news()[..], [News::Notice(_)]));
}

#[test]
fn the_list_names_groups_and_opens_them() {
    let mut room = caught_up(4);
    let group = Conversation {
        kind: ConversationKind::Group,
        peer_id: None,
        title: Some("Trip".to_owned()),
        mentions: Some(1),
        unread: 3,
        ..row("gr_ab", "carol")
    };
    let read = Conversation { unread: 0, ..row("dm_ab", "bob") };
    room.command(Command::parse("/list").unwrap());
    assert_eq!(room.take_asks(), [Ask::List { cursor: None }]);
    room.told_list(Ok(InboxResult { conversations: vec![group, read], next_cursor: None }));
    assert_eq!(told_texts(&mut room), ["1 Trip (3 new, 1 for you)", "2 bob"]);
    let opened = |room: &mut Room, line: &str| match room.command(Command::parse(line).unwrap()) {
        Some(Wish::Open(with)) => Some(with),
        _ => None,
    };
    assert_eq!(opened(&mut room, "/open 2"), Some(With::Peer(user("bob"))));
    assert_eq!(opened(&mut room, "/open dave"), Some(With::Peer(user("dave"))));
    assert_eq!(opened(&mut room, "/open 3"), None);
    let with = opened(&mut room, "/open 1").unwrap();
    room.take_news();
    room.open_other(with);
    assert_eq!(told_texts(&mut room), ["Trip"]);
    assert!(room.take_asks().contains(&Ask::Inbox { cursor: None }));
    assert_eq!(room.id(), Some(&conversation("gr_ab")));
    // What is said in the one before is news from elsewhere now.
    room.event(heard("dm_ab", 5, "bob", false));
    room.listed(Ok(InboxResult { conversations: vec![], next_cursor: None }));
    room.remembered(Ok(HistoryResult { members: vec![], first_seq: Some(number(1)), ..history([], 0) }));
    assert!(told(&mut room).is_empty(), "who is in it is not known yet");
    room.members(&conversation("gr_ab"), Ok(MembersResult { members: vec![], next_cursor: None }));
    assert_eq!(told(&mut room), ["bob 1", "UpToDate"]);
}

#[test]
fn who_is_added_to_a_group_is_told() {
    let mut room = caught_up(4);
    room.event(system("gr_ab", 1, "carol", r#"{"event":"created","title":"Trip","members":["carol","alice"]}"#));
    room.event(system("gr_ab", 2, "carol", r#"{"event":"members.added","members":["dave"]}"#));
    assert_eq!(told_texts(&mut room), ["carol added you to a group: /list shows it, /open opens it"]);
}

#[test]
fn commands_for_groups_need_one() {
    let mut room = caught_up(4);
    for line in ["/add carol", "/leave", "/title Sea", "/members"] {
        assert_eq!(room.command(Command::parse(line).unwrap()), None, "{line}");
        assert!(matches!(room.take_news()[..], [News::Notice(_)]), "{line}");
    }
    assert!(matches!(room.command(Command::parse("/group Trip bob").unwrap()), Some(Wish::Group(None, _))));
    let mut room = in_a_group();
    room.take_news();
    assert!(matches!(room.command(Command::parse("/leave").unwrap()), Some(Wish::Group(Some(_), Act::Leave))));
    assert_eq!(room.command(Command::parse("/block").unwrap()), None);
    assert!(matches!(room.take_news()[..], [News::Notice(_)]));
    // Nobody new: there is no entry that would end the wait.
    let id = ClientMsgId::parse("a").unwrap();
    let outgoing = Outgoing::Add { conversation_id: conversation("gr_ab"), members: vec![user("bob")] };
    room.said(Queued { client_msg_id: id.clone(), outgoing }, NOW);
    assert!(!room.is_at_rest());
    room.members(&conversation("gr_ab"), Ok(MembersResult { members: vec![], next_cursor: None }));
    room.take_news();
    room.added(&id, Ok(AddResult { entry: None, added: vec![], already: vec![user("bob")] }));
    assert_eq!(told_texts(&mut room), ["already in the group: bob"]);
    assert!(room.is_at_rest());
}

#[test]
fn a_conversation_that_is_opened_while_another_waits_for_its_history_is_asked_for() {
    let mut room = caught_up(4);
    room.event(Event::State(State::Online));
    room.event(Event::State(State::CaughtUp));
    assert!(!room.is_at_rest(), "its history has not come");
    room.take_asks();
    room.open_other(With::Peer(user("carol")));
    assert!(room.take_asks().contains(&Ask::Inbox { cursor: None }));
    room.listed(Ok(InboxResult { conversations: vec![row("dm_ac", "carol")], next_cursor: None }));
    room.remembered(Ok(history([1], 0)));
    assert!(room.is_at_rest());
    // Not before the client has all there is.
    room.event(Event::State(State::Online));
    room.open_other(With::Peer(user("dave")));
    assert!(!room.take_asks().contains(&Ask::Inbox { cursor: None }));
}

#[test]
fn what_waits_or_fails_in_a_conversation_is_seen_whatever_is_open() {
    let mut room = caught_up(4);
    let id = |name| ClientMsgId::parse(name).unwrap();
    room.said(queued(&id("a")), NOW);
    room.said(queued(&id("b")), NOW);
    room.open_other(With::Peer(user("carol")));
    assert!(room.take_asks().contains(&Ask::Outbox));
    room.unsent(&With::Peer(user("carol")), vec![queued(&id("a")), queued(&id("b"))], NOW);
    let unsent = |room: &Room| {
        let entries = room.timeline().entries(|_| ());
        entries.iter().filter(|entry| matches!(entry, TimelineEntry::Unsent { .. })).count()
    };
    assert_eq!(unsent(&room), 0, "they are for bob");
    room.take_news();
    let error = Error::Refused { code: "forbidden".into(), message: "no".into() };
    room.event(Event::Failed { queued: queued(&id("a")), error });
    assert!(matches!(room.take_news()[..], [News::Failed { in_timeline: false, .. }]));
    room.open_other(With::Peer(user("bob")));
    room.unsent(&With::Peer(user("bob")), vec![queued(&id("b"))], NOW);
    assert_eq!(unsent(&room), 1);

    // What names the conversation is shown once it is known whose that is.
    let target = Target::Conversation(conversation("dm_ab"));
    let reply = Queued {
        outgoing: Outgoing::Message { target, body: "hi".into(), reply_to: None, mentions: vec![], media: None },
        ..queued(&id("c"))
    };
    room.unsent(&With::Peer(user("bob")), vec![reply.clone()], NOW);
    assert_eq!(unsent(&room), 1);
    room.take_asks();
    room.event(Event::ConversationChanged(row("dm_ab", "bob")));
    assert!(room.take_asks().contains(&Ask::Outbox));
    room.unsent(&With::Peer(user("bob")), vec![reply], NOW);
    assert_eq!(unsent(&room), 2);
}

#[test]
fn an_open_channel_is_watched_until_another_conversation_is_opened() {
    let mut room = caught_up(4);
    let id = conversation("ch_n");
    room.command(Command::parse("/channels").unwrap());
    assert_eq!(room.take_asks(), [Ask::Channels(Listing::Told, None)]);
    let row: Channel = serde_json::from_str(
        r#"{"conversation_id":"ch_n","kind":"channel","title":"News","role":"member","first_seq":1,"history":"joined",
        "post":"admins","add":"admins","join":"admins","unread":2,"read_seq":1,"last_seq":3,"muted_until":"forever"}"#,
    )
    .unwrap();
    let page = |cursor| ChannelsResult { conversations: vec![row.clone()], next_cursor: cursor };
    room.channels(Listing::Told, Ok(page(Some(id.clone()))));
    assert_eq!(room.take_asks(), [Ask::Channels(Listing::Told, Some(id.clone()))]);
    assert_eq!(told_texts(&mut room), ["1 News (2 new): ch_n"]);
    assert_eq!(room.command(Command::parse("/open 1").unwrap()), Some(Wish::Open(With::Group(id.clone()))));
    room.open_other(With::Group(id.clone()));
    assert!(room.take_asks().contains(&Ask::Channels(Listing::Open, None)));
    room.channels(Listing::Open, Ok(page(None)));
    room.listed(Ok(InboxResult { conversations: vec![], next_cursor: None }));
    assert!(matches!(&room.take_asks()[..], [Ask::History { .. }]));
    let messages = vec![message("ch_n", 2, "bob"), message("ch_n", 3, "bob")];
    room.remembered(Ok(HistoryResult {
        messages,
        more: true,
        last_seq: number(3),
        first_seq: Some(number(1)),
        members: vec![],
    }));
    let asks = room.take_asks();
    assert!(asks.contains(&Ask::Watch { conversation_id: id.clone(), after: number(3) }), "{asks:?}");
    assert!(asks.contains(&Ask::Read { conversation_id: id.clone(), seq: number(3) }), "{asks:?}");
    let news = told(&mut room).join(" ");
    assert!(news.contains("muted") && news.contains("3 true"), "{news}");
    assert_eq!(room.draft("hi @bob").1, Draft::new("hi @bob"), "nobody can be named");
    room.command(Command::parse("/seen").unwrap());
    assert!(room.take_asks().is_empty(), "nobody says who has read it");
    room.event(heard("ch_n", 4, "bob", false));
    assert!(told(&mut room).contains(&"4 false".to_owned()));
    let error = Error::Refused { code: "not_member".to_owned(), message: String::new() };
    room.event(Event::Unwatched { conversation_id: id.clone(), error });
    assert!(matches!(&room.take_news()[..], [News::Notice(text)] if text.contains("not in this channel")));
    room.take_asks();
    room.open_other(With::Peer(user("bob")));
    assert_eq!(room.take_asks()[0], Ask::Unwatch(id));
}

#[test]
fn what_is_no_entry_in_a_channel_does_not_wait_for_one() {
    let mut room = caught_up(4);
    let conversation_id = conversation("ch_n");
    let queued = |id: &str, outgoing| Queued { client_msg_id: ClientMsgId::parse(id).unwrap(), outgoing };
    let react = Outgoing::React { conversation_id: conversation_id.clone(), seq: number(3), emoji: None };
    let (react, leave) = (queued("r", react), queued("l", Outgoing::Leave { conversation_id }));
    room.said(react.clone(), NOW);
    room.said(leave.clone(), NOW);
    assert_eq!(room.unanswered(), 2);
    room.event(Event::Reacted { queued: react });
    room.left(&leave.client_msg_id, &LeaveResult { entry: None });
    assert_eq!(room.unanswered(), 0);
    assert_eq!(told_texts(&mut room), ["you have left the channel"]);
}
