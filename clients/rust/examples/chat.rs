//! A chat in the terminal. Each line that you type is a message, and `/help` lists the commands. Beside a local server
//! (`cargo run`), in two terminals:
//!
//! ```sh
//! cargo run --example chat -- alice bob
//! cargo run --example chat -- bob alice
//! ```
//!
//! The second name is a user, or the id of a group or a channel. A deployed stack has its own URL, and checks the token:
//!
//! ```sh
//! PIGEONHOLE_TOKEN=TOKEN cargo run --example chat -- alice bob wss://example.execute-api.eu-central-1.amazonaws.com/v1
//! ```
//!
//! At the end of its input, the program waits until the server has stored each message, and exits. With `--store FILE`,
//! messages and outbox survive a restart. `/chats` and `/find` then need no network.

use std::cell::RefCell;

use pigeonhole_client::{
    Attachment, Client, Config, Conversation, ConversationId, ConversationSettings, DeviceToken, Draft, Emoji, Error,
    Event, Events, FileName, Info, JoinBy, Message, MimeType, MutedUntil, NewGroup, Platform, ReceiptKind,
    Registration, Role, SendResult, Sent, Seq, Settings, Side, State, Target, Timeline, TimelineEntry, Title,
    TokenError, UserId, UserSettings, When, Why,
};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::sync::Notify;
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const HELP: &str = "\
/open USER|ID   /list   /older
/chats   /find WORDS   (from the file of --store, without a network)
/edit N TEXT   /delete N   /react N [EMOJI]   /reply N TEXT   /mention USER TEXT   (N is a message's number)
/send PATH [TEXT]   /save N PATH
/group TITLE USER...   /channel TITLE USER...   /join ID   /leave
/add USER...   /remove USER   /role USER owner|admin|member   /title TEXT   /members
/mute on|off   /block USER on|off   /online USER
/phone TOKEN|off   (push notifications to the phone with this FCM token)";

struct Chat {
    client: Client,
    me: UserId,
    room: RefCell<Room>,
    unanswered: RefCell<JoinSet<std::result::Result<SendResult, Error>>>,
    /// The first conversation is on the screen.
    opened: Notify,
}

/// The conversation on the screen. A direct conversation has no id until its first message.
struct Room {
    target: Target,
    id: Option<ConversationId>,
    timeline: Timeline,
    is_open: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    const USAGE: &str = "usage: chat [--store FILE] ME PEER [URL]";
    let mut args = std::env::args().skip(1).peekable();
    let store = if args.next_if_eq("--store").is_some() { Some(args.next().ok_or(USAGE)?) } else { None };
    let (Some(me), Some(peer)) = (args.next(), args.next()) else {
        return Err(USAGE.into());
    };
    let url = args.next().unwrap_or_else(|| "ws://127.0.0.1:3001/v1".to_owned());
    let (me, target) = (UserId::parse(&me)?, target(&peer)?);
    let (user, server) = (me.to_string(), url.replacen("ws", "http", 1));
    let config = Config::new(url, me.as_str(), move |_need| token(user.clone(), server.clone()));
    let has_store = store.is_some();
    let config = if let Some(file) = store { config.store(file) } else { config };
    let (client, events) = Client::connect(config).await?;
    let room = Room { target, id: None, timeline: Timeline::new(me.clone()), is_open: false };
    let chat = Chat { client, me, room: room.into(), unanswered: RefCell::default(), opened: Notify::new() };
    if has_store {
        chat.show_stored().await?;
    }
    let ended = tokio::select! {
        ended = chat.on_events(events) => ended,
        ended = chat.on_lines() => ended,
    };
    chat.client.close().await;
    if let Err(error) = ended {
        eprintln!("chat: {error}");
        // To return would wait for the next line of standard input.
        std::process::exit(1);
    }
    Ok(())
}

/// Returns a token, which the client requests before each connection. A local server issues one for any user; an app
/// calls its backend.
async fn token(user: String, server: String) -> std::result::Result<String, TokenError> {
    #[derive(serde::Deserialize)]
    struct Issued {
        token: String,
    }
    if let Ok(token) = std::env::var("PIGEONHOLE_TOKEN") {
        return Ok(token);
    }
    let url = reqwest::Url::parse(&server)?.join("/token")?;
    let http = reqwest::Client::builder().no_proxy().build()?;
    let issued = http.get(url).query(&[("user", user)]).send().await?.error_for_status()?;
    Ok(issued.json::<Issued>().await?.token)
}

/// Handles the client's events.
impl Chat {
    /// A request for the next event acknowledges the last one to the server.
    async fn on_events(&self, mut events: Events) -> Result<()> {
        while let Some(event) = events.next().await {
            match event {
                Event::Message { message, .. } => self.on_message(&message),
                Event::Receipt { kind, receipt } => {
                    let room = &mut *self.room.borrow_mut();
                    if room.id.as_ref() == Some(&receipt.conversation_id) {
                        room.timeline.receipt(kind, &receipt.user_id, receipt.seq);
                        println!("-- {kind:?} up to #{} by {}", receipt.seq, receipt.user_id);
                    }
                }
                Event::Uploading { done, bytes, .. } => println!("-- {done} of {bytes} bytes are uploaded"),
                Event::Unwatched { conversation_id, error } => println!("!! {conversation_id} ends: {error}"),
                Event::Failed { queued, error } => {
                    println!("!! not sent: {} ({error})", queued.outgoing.body().unwrap_or("a change"));
                }
                // The client has delivered all that the user missed.
                Event::State(State::CaughtUp) => {
                    println!("-- connected");
                    if !self.room.borrow().is_open {
                        let target = self.target();
                        self.open(target).await?;
                    }
                }
                Event::State(State::Offline { why: why @ (Why::TokenRefused { .. } | Why::WrongUser(_)), .. }) => {
                    return Err(why.into());
                }
                Event::State(State::Offline { why, .. }) => println!("-- offline: {why}"),
                Event::State(State::Replaced) => println!("-- one connection too many; an empty line connects again"),
                _ => {}
            }
        }
        Ok(())
    }

    fn on_message(&self, message: &Message) {
        let room = &mut *self.room.borrow_mut();
        let (id, sender) = (&message.conversation_id, &message.sender_id);
        if room.id.is_none() && room.target == Target::User(sender.clone()) && *sender != self.me && !id.has_members() {
            room.id = Some(id.clone());
        }
        if room.id.as_ref() == Some(id) {
            room.timeline.message(message.clone());
            if room.is_open {
                println!("{}", self.line(message));
                self.read(room);
            }
        } else if *sender != self.me && message.kind.counts() {
            println!("~ {}", self.line(message));
        }
    }

    /// Reports how far the user has read. The timeline knows up to which message nothing is missing.
    fn read(&self, room: &mut Room) {
        if let (Some(id), Some(seq)) = (&room.id, room.timeline.read_up_to()) {
            room.timeline.receipt(ReceiptKind::Read, &self.me, seq);
            self.client.read(id, seq);
        }
    }

    /// An entry of a conversation, in one line.
    fn line(&self, message: &Message) -> String {
        let sender = if message.sender_id == self.me { "you" } else { message.sender_id.as_str() };
        let (seq, body) = (message.seq, harmless(&message.body));
        let target = message.target_seq.unwrap_or(seq);
        match (message.kind.as_str(), &message.system, &message.media) {
            _ if message.deleted_at.is_some() => format!("#{seq} {sender}: (deleted)"),
            ("edit", ..) => format!("-- {sender} changed #{target}: {body}"),
            ("delete", ..) => format!("-- {sender} deleted #{target}"),
            ("reaction", ..) => {
                let emoji = message.emoji.as_ref().map_or("nothing", Emoji::as_str);
                format!("-- {sender} reacted to #{target} with {emoji}")
            }
            // A system entry is data. An app describes the change in its user's language.
            (_, Some(system), _) => format!("-- {sender} {}", serde_json::to_string(system).unwrap_or_default()),
            (kind, _, Some(media)) => {
                let name = harmless(media.name.as_ref().map_or("", FileName::as_str));
                format!("#{seq} {sender}: [{kind} {name}, {} bytes] {body}", media.bytes)
            }
            _ => format!("#{seq} {sender}: {body}"),
        }
    }
}

/// Handles the lines that the user types.
impl Chat {
    async fn on_lines(&self) -> Result<()> {
        self.opened.notified().await;
        // Not `lines`: a byte that is not UTF-8 would end the program, and the messages in the outbox with it.
        let mut lines = BufReader::new(stdin()).split(b'\n');
        while let Ok(Some(line)) =
            lines.next_segment().await.inspect_err(|error| println!("!! standard input: {error}"))
        {
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches('\r');
            let done = match line.strip_prefix('/') {
                Some(command) => self.command(command).await,
                None if line.is_empty() => {
                    self.client.wake();
                    Ok(())
                }
                None => self.say(Draft::new(line)).await,
            };
            if let Err(error) = done {
                println!("!! {error}");
            }
        }
        let answers = self.unanswered.take().join_all().await;
        match answers.iter().filter(|answer| answer.is_err()).count() {
            0 => Ok(()),
            refused => Err(format!("the server refused {refused} of {} messages", answers.len()).into()),
        }
    }

    /// Puts a message into the outbox. The client sends it now, or when there is a connection again.
    async fn say(&self, draft: Draft) -> Result<()> {
        self.queued(self.client.send(self.target(), draft).await?).await
    }

    async fn queued(&self, sent: Sent) -> Result<()> {
        if self.room.borrow().id.is_none() {
            // The first message creates a direct conversation.
            sent.stored().await?;
            return self.open(self.target()).await;
        }
        self.unanswered.borrow_mut().spawn(sent.stored());
        Ok(())
    }

    async fn command(&self, line: &str) -> Result<()> {
        let (name, rest) = split(line);
        let (first, text) = split(rest);
        match name {
            "help" => println!("{HELP}"),
            "open" => self.open(target(first)?).await?,
            "list" => self.list().await?,
            "chats" => {
                for row in self.client.chats().await? {
                    print_row(row);
                }
                println!("-- {} unread", self.client.unread().await?);
            }
            "find" => self.client.search(rest, 20).await?.iter().for_each(|it| println!("{}", self.line(it))),
            "older" => {
                let side = self.room.borrow().timeline.more_before().ok_or("there are no older messages")?;
                self.load(&self.id()?, side).await?;
                self.show();
            }
            "edit" => drop(self.client.edit(&self.id()?, seq(first)?, text).await?.stored().await?),
            "delete" => drop(self.client.delete(&self.id()?, seq(first)?).await?.stored().await?),
            "react" => {
                let emoji = if text.is_empty() { None } else { Some(Emoji::parse(text)?) };
                self.client.react(&self.id()?, seq(first)?, emoji).await?.stored().await?;
            }
            "reply" => self.say(Draft::new(text).reply_to(seq(first)?)).await?,
            "mention" => self.say(Draft::new(text).mentions([UserId::parse(first)?])).await?,
            // `Attachment::image` also takes a picture's size, so that an app can draw its frame before it is fetched.
            "send" => {
                let name = FileName::parse(first.rsplit('/').next().unwrap_or(first))?;
                let file = Attachment::file(first, MimeType::parse("application/octet-stream")?, name);
                self.queued(self.client.send_media(self.target(), file.caption(text)).await?).await?;
            }
            "save" => {
                let message = self.room.borrow().message(seq(first)?).ok_or("the message is not here; try /older")?;
                self.client.download(&message, text).await?;
            }
            "online" => {
                for user in self.client.presence(vec![UserId::parse(first)?]).await? {
                    println!("-- {} is {}", user.user_id, if user.online { "online" } else { "offline" });
                }
            }
            "block" => {
                let (user_id, set) = (UserId::parse(first)?, UserSettings { blocked: text == "on" });
                self.client.settings(Settings::User { user_id, set }).await?;
            }
            "phone" if first == "off" => self.client.register_device(None).await?,
            "phone" => {
                let (platform, token) = (Platform::Fcm, DeviceToken::parse(first)?);
                let phone = Registration { platform, token, preview: true, badge: false, when: When::Pending };
                self.client.register_device(Some(phone)).await?;
            }
            _ => return self.command_about_a_conversation(name, first, rest).await,
        }
        Ok(())
    }

    async fn command_about_a_conversation(&self, name: &str, first: &str, rest: &str) -> Result<()> {
        match name {
            "group" => self.create(NewGroup::new(Title::parse(first)?, users(split(rest).1)?)).await?,
            "channel" => {
                let channel = NewGroup::channel(Title::parse(first)?, users(split(rest).1)?);
                self.create(NewGroup { join: Some(JoinBy::Open), ..channel }).await?;
            }
            "join" => {
                let id = ConversationId::parse(first)?;
                self.client.join(&id).await?;
                self.open(Target::Conversation(id)).await?;
            }
            "leave" => drop(self.client.leave(&self.id()?).await?.stored().await?),
            "add" => drop(self.client.add(&self.id()?, users(rest)?).await?.stored().await?),
            "remove" => drop(self.client.remove(&self.id()?, &UserId::parse(first)?).await?.stored().await?),
            "role" => {
                let role = Role::parse(split(rest).1).ok_or("the role must be owner, admin or member")?;
                self.client.role(&self.id()?, &UserId::parse(first)?, role).await?.stored().await?;
            }
            "title" => {
                let info = Info { title: Some(Title::parse(rest)?), ..Info::default() };
                self.client.update(&self.id()?, info).await?.stored().await?;
            }
            "members" => {
                for member in self.client.members(&self.id()?, 100, None).await?.members {
                    println!("-- {} ({})", member.user_id, member.role.as_str());
                }
            }
            "mute" => {
                let muted_until = Some((first == "on").then_some(MutedUntil::Forever));
                let set = ConversationSettings { muted_until, ..ConversationSettings::default() };
                self.client.settings(Settings::Conversation { conversation_id: self.id()?, set }).await?;
            }
            _ => return Err(format!("/{name} is not a command; /help lists them").into()),
        }
        Ok(())
    }

    async fn create(&self, group: NewGroup) -> Result<()> {
        let created = self.client.create(group).await?.stored().await?;
        println!("-- created {}", created.conversation_id);
        self.open(Target::Conversation(created.conversation_id)).await
    }

    async fn list(&self) -> Result<()> {
        for row in self.client.inbox(None).await?.conversations {
            print_row(row);
        }
        for row in self.client.channels(None).await?.conversations {
            println!("-- {} {} ({} unread)", row.conversation_id, harmless(&row.title), row.unread);
        }
        Ok(())
    }
}

/// The conversation on the screen.
impl Chat {
    /// Shows what the store has of the conversation, before the client has a connection.
    async fn show_stored(&self) -> Result<()> {
        let is_target = |row: &Conversation| match &self.room.borrow().target {
            Target::User(peer) => row.peer_id.as_ref() == Some(peer),
            Target::Conversation(id) => row.conversation_id == *id,
        };
        if let Some(row) = self.client.chats().await?.into_iter().find(is_target) {
            let window = self.client.window(&row.conversation_id, Side::Newest, 50).await?;
            window.messages.iter().for_each(|message| println!("{}", self.line(message)));
            self.room.borrow_mut().id = Some(row.conversation_id);
        }
        self.opened.notify_one();
        Ok(())
    }

    /// Finds the conversation's id, loads its newest messages and draws them.
    async fn open(&self, target: Target) -> Result<()> {
        let id = match &target {
            Target::Conversation(id) => Some(id.clone()),
            Target::User(peer) => self.find(peer).await?,
        };
        let room = Room { target, id: id.clone(), timeline: Timeline::new(self.me.clone()), is_open: true };
        if let Some(left) = self.room.replace(room).id.filter(ConversationId::is_channel) {
            self.client.unwatch(&left);
        }
        if let Some(id) = &id {
            if id.is_channel() {
                // A channel's entries come only while the client is subscribed.
                self.client.watch(id, None).await?;
            }
            self.load(id, Side::Newest).await?;
        }
        self.room.borrow_mut().timeline.open();
        self.show();
        self.read(&mut self.room.borrow_mut());
        self.opened.notify_one();
        Ok(())
    }

    /// Finds the direct conversation with a user, if one exists.
    async fn find(&self, peer: &UserId) -> Result<Option<ConversationId>> {
        let mut page = self.client.inbox(None).await?;
        loop {
            if let Some(row) = page.conversations.iter().find(|row| row.peer_id.as_ref() == Some(peer)) {
                return Ok(Some(row.conversation_id.clone()));
            }
            let Some(cursor) = page.next_cursor else { return Ok(None) };
            page = self.client.inbox(Some(cursor)).await?;
        }
    }

    async fn load(&self, id: &ConversationId, side: Side) -> Result<()> {
        let page = self.client.history(id, side, 50).await?;
        self.room.borrow_mut().timeline.history(page);
        Ok(())
    }

    fn show(&self) {
        let room = self.room.borrow();
        for entry in room.timeline.entries(|at| at.to_string().chars().take(10).collect::<String>()) {
            match entry {
                TimelineEntry::Day(day) => println!("== {day} =="),
                TimelineEntry::Unread(count) => println!("-- {count} new --"),
                TimelineEntry::Gap { .. } => println!("-- messages are missing here --"),
                TimelineEntry::System { message, .. } => println!("{}", self.line(message)),
                TimelineEntry::Message { message, tick, .. } => {
                    let reactions = message.reactions.iter().map(|it| format!(" {}{}", it.emoji.as_str(), it.count));
                    let tick = tick.map_or(String::new(), |tick| format!(" ({tick:?})"));
                    println!("{}{}{tick}", self.line(&message), reactions.collect::<String>());
                }
                // Lines show what is stored. An app puts `sent.queued()` into the timeline, and draws it here.
                TimelineEntry::Unsent { .. } => {}
            }
        }
    }

    fn target(&self) -> Target {
        self.room.borrow().target.clone()
    }

    fn id(&self) -> Result<ConversationId> {
        self.room.borrow().id.clone().ok_or_else(|| "the first message creates this conversation".into())
    }
}

impl Room {
    fn message(&self, seq: Seq) -> Option<Message> {
        self.timeline.entries(|_| ()).into_iter().find_map(|entry| match entry {
            TimelineEntry::Message { message, .. } if message.seq == seq => Some(message.into_owned()),
            _ => None,
        })
    }
}

fn print_row(row: Conversation) {
    let name = row.title.or(row.peer_id.map(|peer| peer.to_string())).unwrap_or_default();
    println!("-- {} {} ({} unread)", row.conversation_id, harmless(&name), row.unread);
}

/// Replaces the characters by which another user's text could command the terminal or reverse a line.
fn harmless(text: &str) -> String {
    let commands = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.replace(commands, "\u{fffd}")
}

fn split(text: &str) -> (&str, &str) {
    let (first, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
    (first, rest.trim_start())
}

fn target(text: &str) -> Result<Target> {
    match ConversationId::parse(text) {
        Ok(id) if id.has_members() => Ok(Target::Conversation(id)),
        _ => Ok(Target::User(UserId::parse(text)?)),
    }
}

fn users(text: &str) -> Result<Vec<UserId>> {
    text.split_whitespace().map(|user| Ok(UserId::parse(user)?)).collect()
}

fn seq(text: &str) -> Result<Seq> {
    Ok(text.trim_start_matches('#').parse().ok().and_then(Seq::new).ok_or("name a message by its number, such as 7")?)
}
