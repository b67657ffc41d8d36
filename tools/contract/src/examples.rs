//! A frame of each kind, as it goes over the wire: what the server sends is written by the code that writes it there.

use std::collections::BTreeMap;

use wire::{
    ACTIONS, About, AckResult, AddResult, AllowedTo, Attached, Bytes, Carried, Channel, ChannelsResult,
    ClaimKeysResult, ClaimedDevice, ClaimedUser, ClientMsgId, CommitResult, Conversation, ConversationId,
    ConversationKind, ConversationProfile, ConversationSettings, CreateResult, Data, DeleteResult, DeviceId,
    DeviceResult, Digest, Download, DownloadResult, DrainResult, EditResult, Emoji, GroupInfoResult, GroupMember,
    HistoryFrom, HistoryResult, InboxResult, JoinBy, JoinResult, KeyDevice, Kind, LastMessage, LeaveResult,
    ListKeysResult, Look, Media, MediaId, Member, MembersResult, Message, MessageId, MimeType, MutedUntil, Part,
    PinResult, PingResult, Presence, PresenceResult, Profile, ProfileOf, ProfileResult, ProfilesResult,
    PublishKeysResult, ReactResult, Reaction, ReactionsResult, Reactor, ReadResult, Receipt, ReceiptsResult, Refusal,
    RemoveKeysResult, RemoveResult, Reply, ReportId, ReportResult, RequestId, RestrictResult, Rings, Role, RoleResult,
    SealedMedia, SendResult, Seq, ServerEvent, Settings, SettingsResult, System, Thumbhash, Timestamp, Title,
    UnwatchResult, UpdateResult, UploadResult, UploadedResult, UserId, UserSettings, WatchResult, error_frame,
    reply_frame,
};

use crate::schema::pascal;

/// The name of a frame's definition, and one such frame.
pub type Example = (String, String);

pub fn examples() -> Vec<Example> {
    let mut all: Vec<Example> = Vec::new();
    for action in ACTIONS {
        let more = MORE_REQUESTS.iter().filter(|(name, _)| *name == action.name).map(|(_, frame)| *frame);
        let requests = std::iter::once(action.example).chain(more);
        all.extend(requests.map(|frame| (format!("{}Request", pascal(action.name)), frame.to_owned())));
    }
    all.extend(replies());
    let refused = refusals().map(|refusal| error_frame(Some("send"), Some(&id()), &refusal));
    // The last is one that could not be read.
    let unreadable = error_frame(None, None, &Refusal::bad_request("frame", "must be valid JSON"));
    all.extend(refused.into_iter().chain([unreadable]).map(|frame| ("ErrorFrame".to_owned(), frame)));
    all.extend(events());
    all.push(("GatewayError".to_owned(), GATEWAY_ERROR.to_owned()));
    all
}

/// Requests that look otherwise than the registry's example.
const MORE_REQUESTS: [(&str, &str); 33] = [
    (
        "send",
        r#"{"action":"send","id":"r1","conversation_id":"gr_x","client_msg_id":"7b0e","kind":"text","body":"hi","mentions":["bob"]}"#,
    ),
    (
        "create",
        r#"{"action":"create","id":"r1","client_msg_id":"c1","title":"Trip","members":[],"history":"all","post":"admins","add":"admins"}"#,
    ),
    ("update", r#"{"action":"update","id":"r1","conversation_id":"gr_x","client_msg_id":"c6","post":"admins"}"#),
    (
        "create",
        r#"{"action":"create","id":"r1","client_msg_id":"c1","kind":"channel","title":"News","members":[],"join":"open","rings":"mentions"}"#,
    ),
    (
        "update",
        r#"{"action":"update","id":"r1","conversation_id":"ch_x","client_msg_id":"c6","join":"admins","rings":"off"}"#,
    ),
    ("leave", r#"{"action":"leave","id":"r1","conversation_id":"ch_x"}"#),
    ("channels", r#"{"action":"channels","id":"r1","cursor":"ch_x"}"#),
    (
        "send",
        r#"{"action":"send","id":"r1","conversation_id":"dm_x","client_msg_id":"7b0e","kind":"text","body":"hi"}"#,
    ),
    (
        "send",
        r#"{"action":"send","id":"r1","conversation_id":"dm_x","client_msg_id":"7b0e","kind":"text","body":"hi","reply_to":41,"read":41}"#,
    ),
    (
        "send",
        r#"{"action":"send","id":"r1","to":"bob","client_msg_id":"7b0e","kind":"image","body":"us, at last","media":{"media_id":"m_3kx4","mime":"image/jpeg","bytes":284113,"sha256":"n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=","width":1600,"height":1200,"thumbhash":"1QcSHQRnh493V4dIh4eXh1h4kJUI"}}"#,
    ),
    (
        "send",
        r#"{"action":"send","id":"r1","to":"bob","client_msg_id":"7b0e","kind":"voice","body":"","media":{"media_id":"m_3kx4","mime":"audio/webm","bytes":5113,"sha256":"n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=","duration_ms":2400,"waveform":"AAAA"}}"#,
    ),
    (
        "send",
        r#"{"action":"send","id":"r1","conversation_id":"gr_x","client_msg_id":"7b0e","kind":"file","body":"","media":{"media_id":"m_3kx4","mime":"application/pdf","bytes":5113,"sha256":"n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=","name":"tickets.pdf"}}"#,
    ),
    (
        "send",
        r#"{"action":"send","id":"r1","conversation_id":"dm_x","client_msg_id":"7b0e","kind":"sealed","epoch":1,"body":"AAEAAg=="}"#,
    ),
    (
        "send",
        r#"{"action":"send","id":"r1","to":"bob","client_msg_id":"7b0e","kind":"sealed","epoch":1,"silent":true,"body":"AAEAAg=="}"#,
    ),
    (
        "commit",
        r#"{"action":"commit","id":"r1","conversation_id":"dm_x","client_msg_id":"7b13","epoch":4,"commit":"AAEAAg==","group_info":"AAEABA==","tree":"QAEB"}"#,
    ),
    (
        "commit",
        r#"{"action":"commit","id":"r2","conversation_id":"gr_x","client_msg_id":"7b13","epoch":4,"commit":"AAEAAg==","group_info":"AAEABA==","tree":"QAEB","removes":["bob"]}"#,
    ),
    (
        "add",
        r#"{"action":"add","id":"r2","conversation_id":"gr_x","client_msg_id":"7b13","members":["bob"],"epoch":4,"commit":"AAEAAg==","welcome":"AAEAAw==","group_info":"AAEABA==","tree":"QAEB"}"#,
    ),
    (
        "remove",
        r#"{"action":"remove","id":"r2","conversation_id":"gr_x","client_msg_id":"7b13","user_id":"bob","epoch":4,"commit":"AAEAAg==","group_info":"AAEABA==","tree":"QAEB"}"#,
    ),
    ("group_info", r#"{"action":"group_info","id":"r1","to":"bob"}"#),
    ("profile", r#"{"action":"profile","id":"r2","set":{"name":null,"data":{"team":"sales"}}}"#),
    ("ping", r#"{"action":"ping","id":"r2","features":true}"#),
    (
        "upload",
        r#"{"action":"upload","id":"r1","conversation_id":"dm_x","kind":"file","mime":"video/mp4","bytes":17000000,"sha256":"n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=","parts":["n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=","n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=","n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg="]}"#,
    ),
    ("upload", r#"{"action":"upload","id":"r2","to":"carol","copy_of":{"conversation_id":"dm_x","seq":42}}"#),
    (
        "upload",
        r#"{"action":"upload","id":"r3","conversation_id":"dm_x","kind":"sealed","bytes":286736,"sha256":"n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg="}"#,
    ),
    (
        "send",
        r#"{"action":"send","id":"r1","conversation_id":"dm_x","client_msg_id":"7b0e","kind":"sealed","epoch":5,"body":"AAE=","frank":"n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=","media":{"media_id":"m_3kx4"}}"#,
    ),
    ("upload", r#"{"action":"upload","id":"r3","media_id":"m_3kx4"}"#),
    ("react", r#"{"action":"react","id":"r2","conversation_id":"dm_x","seq":42,"client_msg_id":"7b12","emoji":null}"#),
    ("drain", r#"{"action":"drain","id":"r2","ack":[{"conversation_id":"dm_x","seq":42}]}"#),
    ("history", r#"{"action":"history","id":"r1","conversation_id":"dm_x","after_seq":41,"limit":100}"#),
    (
        "settings",
        r#"{"action":"settings","id":"r2","conversation_id":"dm_x","set":{"muted_until":null,"archived":true}}"#,
    ),
    (
        "device",
        r#"{"action":"device","id":"r2","platform":"fcm","token":"dGVzdA:APA91b","preview":true,"badge":true,"when":"unread"}"#,
    ),
    ("device", r#"{"action":"device","id":"r3","token":null}"#),
    ("settings", r#"{"action":"settings","id":"r3","user_id":"mallory","set":{"blocked":true}}"#),
];

/// As API Gateway writes it.
const GATEWAY_ERROR: &str =
    r#"{"message":"Internal server error","connectionId":"VbUM1cTcIAMCJQA=","requestId":"VbUN8HqYIAMFtDw="}"#;

fn replies() -> Vec<Example> {
    let answered = ACTIONS.iter().filter(|action| action.replies).map(|action| (action.name, result_of(action.name)));
    let features = Some(vec!["encryption".to_owned()]);
    let listed = PingResult { pending: false, server_time: sent_at(), features };
    let all = answered.chain([("upload", upload_in_parts().into()), ("ping", listed.into())]);
    all.map(|(action, result)| (format!("{}Reply", pascal(action)), reply_frame(action, Some(&id()), &result)))
        .collect()
}

/// Returns an example of an action's reply.
fn result_of(action: &str) -> Reply {
    let sent = sent();
    match action {
        "send" => sent.into(),
        "edit" => EditResult(SendResult { version: Some(2), ..sent }).into(),
        "delete" => DeleteResult(sent).into(),
        "react" => ReactResult(sent).into(),
        "pin" => PinResult(sent).into(),
        "ack" => AckResult {}.into(),
        "drain" => DrainResult { messages: vec![message()], more: false }.into(),
        "read" => ReadResult { unread: 0, mentions: None }.into(),
        "report" => {
            let report_id = ReportId::parse("r_3b7f2q").expect("it is an id");
            ReportResult { report_id }.into()
        }
        "profiles" => ProfilesResult {
            profiles: vec![ProfileOf::User(profile()), ProfileOf::Conversation(conversation_profile())],
            left: vec![bob().to_string()],
        }
        .into(),
        "profile" => ProfileResult { version: PROFILE_VERSION }.into(),
        "inbox" => {
            let conversations = vec![conversation(), muted_conversation(), quiet(), encrypted(), group()];
            InboxResult { conversations, next_cursor: None }.into()
        }
        "history" => history().into(),
        "settings" => SettingsResult {}.into(),
        "device" => DeviceResult { device_id: device_id(), registered: true }.into(),
        "presence" => PresenceResult { users: vec![presence(true), presence(false)], watched: vec![bob()] }.into(),
        "upload" => upload().into(),
        "uploaded" => UploadedResult { media_id: media_id() }.into(),
        "download" => DownloadResult { items: vec![download()], gone: vec![media_id()] }.into(),
        "publish_keys" => PublishKeysResult { left: 25, devices: 2 }.into(),
        "claim_keys" => claimed().into(),
        "list_keys" => ListKeysResult { devices: vec![key_device()] }.into(),
        "remove_keys" => RemoveKeysResult { devices: 1 }.into(),
        "commit" => CommitResult { entry: sent, epoch: 1 }.into(),
        "group_info" => group_info().into(),
        "ping" => PingResult { pending: false, server_time: sent_at(), features: None }.into(),
        other => result_of_members(other),
    }
}

/// Returns an example of the reply to an action of groups and channels.
fn result_of_members(action: &str) -> Reply {
    let sent = sent();
    match action {
        "create" => CreateResult { entry: sent, not_added: vec![] }.into(),
        "add" => AddResult { entry: Some(sent), added: vec![bob()], already: vec![alice()], not_added: vec![] }.into(),
        "remove" => RemoveResult(sent).into(),
        "leave" => LeaveResult { entry: Some(sent) }.into(),
        "role" => RoleResult(sent).into(),
        "restrict" => RestrictResult(sent).into(),
        "update" => UpdateResult(sent).into(),
        "members" => {
            let restricted_until = Some(MutedUntil::Forever);
            let member = GroupMember { user_id: bob(), role: Role::Member, joined_seq: seq(42), restricted_until };
            let members = vec![GroupMember { restricted_until: None, ..member.clone() }, member];
            MembersResult { members, next_cursor: Some(bob()) }.into()
        }
        "receipts" => {
            let members = vec![member(bob(), 42)];
            ReceiptsResult { delivered_seq: seq(42), read_seq: seq(42), members, next_cursor: None }.into()
        }
        "reactions" => {
            ReactionsResult { reactions: vec![Reactor { user_id: bob(), emoji: emoji() }], next_cursor: None }.into()
        }
        "join" => JoinResult { last_seq: seq(42) }.into(),
        "channels" => ChannelsResult { conversations: vec![channel(), new_channel()], next_cursor: None }.into(),
        "watch" => WatchResult { live: true, last_seq: seq(42), poll_ms: wire::limits::POLL_LIVE_MS }.into(),
        "unwatch" => UnwatchResult {}.into(),
        other => unreachable!("{other} has no example of its answer yet: add one here"),
    }
}

/// The text that a service is writing.
fn growing_text() -> ServerEvent {
    let text = Some("Your order".to_owned());
    ServerEvent::Typing {
        conversation_id: conversation_id(),
        user_id: UserId::parse_service("@orders").expect("it is one"),
        at: sent_at(),
        text,
    }
}

/// A message that took its sender's read mark along.
fn with_marks() -> ServerEvent {
    let message = message();
    let marks = vec![Member { user_id: message.sender_id.clone(), delivered_seq: message.seq, read_seq: message.seq }];
    ServerEvent::MessagesNew { conversation_id: message.conversation_id.clone(), messages: vec![message], marks }
}

fn sent() -> SendResult {
    SendResult {
        conversation_id: conversation_id(),
        seq: seq(42),
        message_id: message_id(),
        sent_at: sent_at(),
        duplicate: false,
        version: None,
        read_seq: None,
        message: None,
    }
}

fn history() -> HistoryResult {
    HistoryResult {
        messages: vec![message()],
        more: false,
        last_seq: seq(42),
        first_seq: None,
        members: vec![member(alice(), 42), member(bob(), 41)],
        pins: vec![seq(42), seq(7)],
    }
}

/// A version, which is a time.
const PROFILE_VERSION: u64 = 1_795_168_860_123;

fn profile() -> Profile {
    let name = Title::parse("Alice").ok();
    Profile { user_id: alice(), name, data: Some(Data::default()), version: PROFILE_VERSION }
}

fn look() -> Look {
    Look { about: Some(About::parse("Two weeks at the sea").ok()), data: Some(None) }
}

fn conversation_profile() -> ConversationProfile {
    let about = About::parse("Two weeks at the sea").ok();
    ConversationProfile {
        conversation_id: ConversationId::parse("gr_x").expect("it is one"),
        about,
        data: Some(Data::default()),
        version: seq(7),
    }
}

fn member(user_id: UserId, read: u64) -> Member {
    Member { user_id, delivered_seq: seq(42), read_seq: seq(read) }
}

/// Returns each refusal once. A test fails if a code is missing here.
fn refusals() -> [Refusal; 20] {
    [
        Refusal::bad_request("client_msg_id", "is missing"),
        Refusal::TooLarge { field: "body", problem: "must be at most 16 KiB of UTF-8".into() },
        Refusal::UnknownAction,
        Refusal::TokenExpired,
        Refusal::NotMember,
        Refusal::IdReused,
        Refusal::Forbidden,
        Refusal::Gone,
        Refusal::NotReady,
        Refusal::LimitReached,
        Refusal::DeviceRequired,
        Refusal::NoKeys { users: vec![bob()] },
        Refusal::DeviceLimit,
        Refusal::EncryptionRequired,
        Refusal::StaleEpoch { conversation_id: Some(conversation_id()), epoch: 2, last_seq: seq(58) },
        Refusal::RekeyRequired { members: vec![bob()] },
        Refusal::Rejected { reason: "no phone numbers".to_owned() },
        Refusal::RateLimited { retry_after_ms: 1000 },
        Refusal::Conflict,
        Refusal::Unavailable,
    ]
}

fn events() -> Vec<Example> {
    let own = message();
    let theirs = Message { client_msg_id: None, ..own.clone() };
    let receipt = Receipt { conversation_id: conversation_id(), user_id: bob(), seq: seq(42), at: sent_at() };
    let set = ConversationSettings {
        muted_until: Some(None),
        mute_mentions: None,
        archived: Some(true),
        unread: Some(true),
        pinned: Some(true),
    };
    let blocked = Settings::User { user_id: bob(), set: UserSettings { blocked: true } };
    let typing = ServerEvent::Typing { conversation_id: conversation_id(), user_id: bob(), at: sent_at(), text: None };
    let events = [
        ("MessagesNewEvent", ServerEvent::messages_new(theirs)),
        ("MessagesNewEvent", ServerEvent::messages_new(own)),
        (
            "MessagesNewEvent",
            ServerEvent::messages_new(Message {
                kind: Kind::Image,
                media: Some(Box::new(Attached::Clear(media()))),
                ..message()
            }),
        ),
        ("MessagesNewEvent", with_marks()),
        ("MessagesNewEvent", ServerEvent::messages_new(changed())),
        ("MessagesNewEvent", ServerEvent::messages_new(deleted())),
        ("MessagesNewEvent", ServerEvent::messages_new(change(Kind::Edit))),
        ("MessagesNewEvent", ServerEvent::messages_new(change(Kind::Delete))),
        ("MessagesNewEvent", ServerEvent::messages_new(change(Kind::Reaction))),
        ("MessagesNewEvent", ServerEvent::messages_new(change(Kind::Pin))),
        ("MessagesNewEvent", ServerEvent::messages_new(sealed())),
        ("MessagesNewEvent", ServerEvent::messages_new(committed())),
        ("MessagesNewEvent", ServerEvent::messages_new(erased())),
        ("ReceiptDeliveredEvent", ServerEvent::ReceiptDelivered(receipt.clone())),
        ("ReceiptReadEvent", ServerEvent::ReceiptRead(receipt)),
        ("SettingsEvent", ServerEvent::Settings(Settings::Conversation { conversation_id: conversation_id(), set })),
        ("SettingsEvent", ServerEvent::Settings(blocked)),
        ("ProfileEvent", ServerEvent::Profile(ProfileResult { version: PROFILE_VERSION })),
        ("TypingEvent", typing),
        ("TypingEvent", growing_text()),
        ("PresenceEvent", ServerEvent::Presence(presence(false))),
        ("KeysLowEvent", ServerEvent::KeysLow { left: 4 }),
        ("ConnectionReplacedEvent", ServerEvent::ConnectionReplaced {}),
    ];
    let named = Message { mentions: vec![bob()], ..message() };
    let of_group = systems().into_iter().map(system).chain([named]).map(ServerEvent::messages_new);
    let of_group = of_group.map(|event| ("MessagesNewEvent", event));
    events.into_iter().chain(of_group).map(|(name, event)| (name.to_owned(), event.to_frame())).collect()
}

fn conversation() -> Conversation {
    let Message { conversation_id, seq: last_seq, sender_id, kind, body: preview, sent_at, .. } = message();
    let peer_id = sender_id.clone();
    Conversation {
        conversation_id,
        kind: ConversationKind::Direct,
        peer_id: Some(peer_id),
        title: None,
        role: None,
        member_count: None,
        first_seq: None,
        history: None,
        post: None,
        add: None,
        last_message: LastMessage { seq: last_seq, sender_id, kind, preview, sent_at, deleted: false, system: None },
        unread: 1,
        mentions: None,
        delivered_seq: last_seq,
        read_seq: seq(41),
        last_seq,
        muted_until: None,
        mute_mentions: false,
        archived: false,
        marked_unread: false,
        pinned: false,
        restricted_until: None,
        info_seq: None,
        blocked: false,
        encrypted: false,
        epoch: None,
    }
}

/// With everything in it that is left out where it is not set.
fn muted_conversation() -> Conversation {
    let muted_until = Some(MutedUntil::Forever);
    Conversation {
        muted_until,
        mute_mentions: true,
        archived: true,
        marked_unread: true,
        pinned: true,
        blocked: true,
        ..conversation()
    }
}

/// The last message was deleted: silent entries come after it.
fn quiet() -> Conversation {
    let last_message = LastMessage { preview: String::new(), deleted: true, ..conversation().last_message };
    Conversation { last_message, last_seq: seq(43), ..conversation() }
}

fn encrypted() -> Conversation {
    let last_message = LastMessage { kind: Kind::Sealed, preview: String::new(), ..conversation().last_message };
    Conversation { last_message, encrypted: true, epoch: Some(1), ..conversation() }
}

fn message() -> Message {
    Message {
        client_msg_id: Some(ClientMsgId::parse("7b0e").expect("it is one")),
        ..Message::text(conversation_id(), seq(42), message_id(), alice(), "hi".to_owned(), sent_at())
    }
}

fn media_id() -> MediaId {
    MediaId::parse("m_3kx4").expect("it is one")
}

fn media() -> Media {
    Media {
        media_id: media_id(),
        mime: MimeType::parse("image/jpeg").expect("it is one"),
        bytes: 284_113,
        sha256: digest(),
        name: None,
        width: Some(1600),
        height: Some(1200),
        duration_ms: None,
        thumbhash: Some(Thumbhash::parse("1QcSHQRnh493V4dIh4eXh1h4kJUI").expect("it is one")),
        waveform: None,
        key: None,
        thumbnail: None,
    }
}

fn digest() -> Digest {
    Digest::parse("n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=").expect("it is one")
}

fn signed() -> BTreeMap<String, String> {
    let headers =
        [("content-type", "image/jpeg"), ("if-none-match", "*"), ("x-amz-checksum-sha256", digest().as_str())]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
    headers.into()
}

const URL: &str = "https://bucket.s3.us-east-1.amazonaws.com/media/image/m_3kx4?X-Amz-Signature=0123";

fn upload() -> UploadResult {
    let url = Some(URL.to_owned());
    UploadResult { media_id: media_id(), url, headers: signed(), parts: vec![], expires_at: sent_at() }
}

fn upload_in_parts() -> UploadResult {
    let part = Part { number: 1, offset: 0, bytes: 8_388_608, url: URL.to_owned(), headers: signed() };
    UploadResult { url: None, headers: BTreeMap::new(), parts: vec![part], ..upload() }
}

fn download() -> Download {
    Download { media_id: media_id(), url: URL.to_owned(), expires_at: sent_at() }
}

/// Returns each system entry of a group.
fn systems() -> [System; 8] {
    let members = || vec![alice(), bob()];
    [
        System::Created { title: title(), members: members(), look: Box::default() },
        System::MembersAdded { members: members() },
        System::MembersRemoved { members: members() },
        System::MemberLeft {},
        System::RoleChanged { user_id: bob(), role: Role::Admin },
        System::MemberRestricted { user_id: bob(), until: Some(MutedUntil::Forever) },
        System::MemberRestricted { user_id: bob(), until: None },
        System::InfoChanged {
            title: Some(title()),
            history: Some(HistoryFrom::All),
            post: Some(AllowedTo::Admins),
            add: Some(AllowedTo::All),
            join: Some(JoinBy::Open),
            rings: Some(Rings::Off),
            look: Box::new(look()),
        },
    ]
}

fn title() -> Title {
    Title::parse("Trip").expect("it is one")
}

fn system(system: System) -> Message {
    Message { kind: Kind::System, body: String::new(), client_msg_id: None, system: Some(system), ..message() }
}

/// With a system entry as its line.
fn group() -> Conversation {
    let system = systems().into_iter().next();
    Conversation {
        kind: ConversationKind::Group,
        peer_id: None,
        title: Some("Trip".to_owned()),
        role: Some(Role::Owner),
        member_count: Some(2),
        restricted_until: Some(MutedUntil::At(sent_at())),
        info_seq: Some(seq(7)),
        first_seq: Some(seq(1)),
        history: Some(HistoryFrom::Joined),
        post: Some(AllowedTo::All),
        add: Some(AllowedTo::Admins),
        mentions: Some(0),
        last_message: LastMessage { preview: String::new(), kind: Kind::System, system, ..conversation().last_message },
        ..conversation()
    }
}

fn channel() -> Channel {
    Channel {
        conversation_id: ConversationId::parse("ch_x").expect("it is one"),
        kind: ConversationKind::Channel,
        title: "News".to_owned(),
        role: Role::Member,
        first_seq: seq(7),
        history: HistoryFrom::Joined,
        post: AllowedTo::Admins,
        add: AllowedTo::Admins,
        join: JoinBy::Open,
        rings: Rings::Mentions,
        last_message: Some(conversation().last_message),
        unread: 1,
        read_seq: seq(41),
        last_seq: seq(42),
        mentioned_seq: Some(seq(42)),
        muted_until: Some(MutedUntil::Forever),
        archived: true,
        marked_unread: true,
        pinned: true,
        restricted_until: Some(MutedUntil::Forever),
        info_seq: Some(seq(7)),
    }
}

/// Returns a channel that the user has just joined.
fn new_channel() -> Channel {
    let read = Channel { first_seq: seq(43), unread: 0, read_seq: seq(42), ..channel() };
    Channel {
        rings: Rings::Off,
        last_message: None,
        mentioned_seq: None,
        muted_until: None,
        archived: false,
        marked_unread: false,
        pinned: false,
        restricted_until: None,
        ..read
    }
}

fn presence(online: bool) -> Presence {
    Presence { user_id: bob(), online, last_seen_at: online.then(sent_at) }
}

/// A message that replies to another one, was edited, and has reactions.
fn changed() -> Message {
    let reaction = Reaction { emoji: emoji(), count: 2, mine: true };
    let (version, edited_at) = (Some(2), Some(sent_at()));
    let reactions_seq = Some(seq(45));
    Message { reply_to: Some(seq(41)), version, edited_at, reactions: vec![reaction], reactions_seq, ..message() }
}

fn deleted() -> Message {
    Message { body: String::new(), deleted_at: Some(sent_at()), deleted_by: Some(alice()), ..message() }
}

/// The change entry of an edit, a delete, a reaction or a pin.
fn change(kind: Kind) -> Message {
    let (body, version) = if kind == Kind::Edit { ("hello", Some(2)) } else { ("", None) };
    let emoji_before = (kind == Kind::Reaction).then(|| Emoji::parse("🎉").expect("it is one"));
    let emoji = (kind == Kind::Reaction).then(emoji);
    let (target_seq, pinned) = (Some(seq(42)), (kind == Kind::Pin).then_some(true));
    Message { seq: seq(43), kind, body: body.to_owned(), version, target_seq, emoji, emoji_before, pinned, ..message() }
}

fn sealed() -> Message {
    let media = SealedMedia { media_id: media_id(), bytes: Some(286_736) };
    let (media, frank) = (Some(Box::new(Attached::Sealed(media))), Some(Box::new(Bytes::from(vec![7; 32]))));
    Message { kind: Kind::Sealed, epoch: Some(1), body: bytes(2).to_text(), media, frank, ..message() }
}

fn committed() -> Message {
    let carried = |last| Some(Box::new(Carried::Bytes(bytes(last))));
    let message = Message { kind: Kind::Commit, silent: true, epoch: Some(5), body: String::new(), ..message() };
    let removes = Some(Box::new(vec![bob()]));
    Message { commit: carried(2), welcome: carried(3), tree: carried(5), removes, ..message }
}

fn erased() -> Message {
    let seqs = Some(Box::new(vec![[seq(1), seq(3)], [seq(42), seq(42)]]));
    let user_id = Some(Box::new(UserId::gone([1; 10])));
    Message { seq: seq(50), kind: Kind::Erased, body: String::new(), user_id, seqs, ..message() }
}

fn group_info() -> GroupInfoResult {
    let (group_info, tree) = (bytes(4), Carried::Bytes(bytes(5)));
    GroupInfoResult { conversation_id: conversation_id(), epoch: 5, seq: seq(57), birth_seq: seq(1), group_info, tree }
}

fn bytes(last: u8) -> Bytes {
    Bytes::from(vec![0, 1, 0, last])
}

fn claimed() -> ClaimKeysResult {
    let device = ClaimedDevice { device_id: device_id(), key_package: key_package(), last_resort: false };
    let devices = vec![device];
    ClaimKeysResult { users: vec![ClaimedUser { user_id: bob(), devices }], left: vec![alice()] }
}

fn key_device() -> KeyDevice {
    KeyDevice {
        device_id: device_id(),
        credential: Bytes::from(b"{\"v\":1}".to_vec()),
        left: 25,
        last_resort_expires_at: sent_at(),
        added_at: sent_at(),
        seen_at: sent_at(),
    }
}

fn key_package() -> Bytes {
    Bytes::from(vec![0, 1, 0, 5, 0, 1, 0, 1, 32])
}

fn emoji() -> Emoji {
    Emoji::parse("👍").expect("it is one")
}

fn alice() -> UserId {
    UserId::parse("alice").expect("it is one")
}

fn bob() -> UserId {
    UserId::parse("bob").expect("it is one")
}

fn device_id() -> DeviceId {
    DeviceId::parse("iphone-7f3a").expect("it is one")
}

fn id() -> RequestId {
    RequestId::parse("r1").expect("it is one")
}

fn conversation_id() -> ConversationId {
    ConversationId::parse("dm_x").expect("it is one")
}

fn message_id() -> MessageId {
    MessageId::stored("019aa0b4-e17b-7707-8707-070707070707")
}

fn seq(value: u64) -> Seq {
    Seq::new(value).expect("it is one")
}

fn sent_at() -> Timestamp {
    Timestamp::from_millis(1_763_632_800_123)
}
