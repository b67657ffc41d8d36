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
//! messages and outbox survive a restart, and all that was received is there without a network.
//!
//! With `--store FILE --encrypted KEYS`, messages between users and in new groups are encrypted from end to end. The file
//! `KEYS` has the user's identity, and the program makes it the first time. Another device of the user needs a copy of
//! it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use pigeonhole_client::{
    At, Attachment, Chat, ChatRow, Client, ClientMsgId, Config, Content, ConversationId, ConversationSettings,
    DeviceId, DeviceToken, Draft, Emoji, Error, Event, Events, FileName, Filter, Info, Item, JoinBy, Keys,
    ListSnapshot, Lock, Message, MessageItem, MimeType, MutedUntil, NewGroup, Notice, Platform, ProfileChange,
    Progress, Quiet, Registration, ReportReason, ReportRequest, Rings, Role, Screen, SendResult, Sent, Seq, Settings,
    Side, State, Target, Title, TokenError, Unreadable, UserId, UserSettings, View, When, Why,
};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const HELP: &str = "\
/open USER|ID   /list   /older   /find WORDS
/edit N TEXT   /delete N   /react N [EMOJI]   /pin N   /unpin N   /reply N TEXT   /mention USER TEXT   (N is a message's number)
/own KIND DATA [TEXT]   (of your app's own kind, with a JSON object without spaces: /own x-poll {\"options\":2} Tea?)
/send PATH [TEXT]   /save N PATH   /retry   /discard   (the messages that the server refused)
/group TITLE USER...   /channel TITLE USER...   /join ID   /leave
/add USER...   /remove USER   /role USER owner|admin|member   /restrict USER [TIME|forever]   /title TEXT   /members   /rings on|off
/mute on|off   /top on|off   /block USER on|off   /online USER   /name TEXT   (the name that others see of you)
/report N spam|abuse|sexual|violence|illegal|other [TEXT]   (tells the operator about a message)
/safety [USER]   /verify [USER]   /accept [USER]   (the keys of the other user, or of a member; needs --encrypted)
/reset   (new keys for this conversation)
/devices   /forget DEVICE   (your own devices, one of which you no longer have)
/phone TOKEN [FROM TO]   (push to the phone with this FCM token, with quiet hours in UTC, such as 22:00 07:00)
/phone off";

/// As much of an encrypted message as a report takes. A character has up to four bytes.
const CLAIMED_CHARS: usize = pigeonhole_client::limits::CLAIMED_BYTES_MAX / 4;

struct Terminal {
    client: Client,
    me: UserId,
    /// The conversation on the screen, and what is drawn of it.
    chat: RefCell<Chat>,
    screen: RefCell<Option<Screen>>,
    /// The names of users that were shown.
    names: RefCell<BTreeMap<UserId, Title>>,
    list: View<ListSnapshot>,
    drawing_tx: UnboundedSender<Drawing>,
    unanswered: RefCell<JoinSet<std::result::Result<SendResult, Error>>>,
    /// The client has all that it missed, or there is no connection.
    ready: Notify,
}

/// A request to what draws the conversation.
enum Drawing {
    View(View<Screen>),
    Older,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    const USAGE: &str = "usage: chat [--store FILE [--encrypted KEYS]] ME PEER [URL]";
    let mut args = std::env::args().skip(1).peekable();
    let store = if args.next_if_eq("--store").is_some() { Some(args.next().ok_or(USAGE)?) } else { None };
    let keys = if args.next_if_eq("--encrypted").is_some() { Some(args.next().ok_or(USAGE)?) } else { None };
    let (Some(me), Some(peer)) = (args.next(), args.next()) else {
        return Err(USAGE.into());
    };
    let url = args.next().unwrap_or_else(|| "ws://127.0.0.1:3001/v1".to_owned());
    let (me, target) = (UserId::parse(&me)?, target(&peer)?);
    let (user, server) = (me.to_string(), url.replacen("ws", "http", 1));
    // Without `--store`, the messages end with the program.
    let folder = tempfile::tempdir()?;
    let store: PathBuf = store.map_or_else(|| folder.path().join("store"), Into::into);
    let device_id = device_of(&store);
    let mut config = Config::new(url, me.as_str(), move |_need| token(user.clone(), server.clone())).store(store);
    if let Some(path) = keys {
        config = config.device_id(device_id).encrypted(keys_in(Path::new(&path))?);
    }
    let (client, events) = Client::connect(config).await?;
    client.show_names();
    let chat = client.chat(target).into();
    let list = client.conversations(Filter::default())?;
    let (drawing_tx, drawing_rx) = unbounded_channel();
    let (screen, names, unanswered) = (RefCell::default(), RefCell::default(), RefCell::default());
    let terminal = Terminal { client, me, chat, screen, names, list, drawing_tx, unanswered, ready: Notify::new() };
    let ended = tokio::select! {
        ended = terminal.on_events(events) => ended,
        ended = terminal.on_screens(drawing_rx) => ended,
        ended = terminal.on_lines() => ended,
    };
    terminal.client.close().await;
    if let Err(error) = ended {
        eprintln!("chat: {error}");
        // To return would wait for the next line of standard input.
        std::process::exit(1);
    }
    Ok(())
}

/// Returns the name of this installation: the store's, in which its keys are.
fn device_of(store: &Path) -> String {
    let name = store.file_stem().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).take(48).collect();
    format!("terminal-{name}")
}

/// Reads the user's identity, or makes one. No other user of the machine may read the file.
fn keys_in(path: &Path) -> Result<Keys> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let seed = BASE64.decode(text.trim().as_bytes())?;
            Ok(Keys::import(&seed.try_into().map_err(|_| format!("{} has no keys", path.display()))?))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let keys = Keys::generate()?;
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.open(path)?;
            file.write_all(BASE64.encode(&*keys.export()).as_bytes())?;
            file.sync_all()?;
            Ok(keys)
        }
        Err(error) => Err(error.into()),
    }
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

/// Handles the client's events. The views show all that concerns messages here.
impl Terminal {
    async fn on_events(&self, mut events: Events) -> Result<()> {
        while let Some(event) = events.next().await {
            match event {
                Event::Message { message, .. } if self.is_elsewhere(&message) => println!("~ {}", self.found(&message)),
                Event::Uploading { done, bytes, .. } => println!("-- {done} of {bytes} bytes are uploaded"),
                Event::Security(notice) => println!("!! {}", warning(&notice)),
                Event::Unwatched { conversation_id, error } => println!("!! {conversation_id} ends: {error}"),
                Event::Failed { queued, error } => {
                    println!("!! not sent: {} ({error})", queued.outgoing.body().unwrap_or("a change"));
                }
                Event::State(State::CaughtUp) => {
                    println!("-- connected");
                    self.ready.notify_one();
                }
                Event::State(State::Offline { why: why @ (Why::TokenRefused { .. } | Why::WrongUser(_)), .. }) => {
                    return Err(why.into());
                }
                Event::State(State::Offline { why, .. }) => {
                    println!("-- offline: {why}");
                    self.ready.notify_one();
                }
                Event::State(State::Replaced) => println!("-- one connection too many; an empty line connects again"),
                _ => {}
            }
        }
        Ok(())
    }

    fn is_elsewhere(&self, message: &Message) -> bool {
        let is_here = message.conversation_id == *self.chat.borrow().id();
        !is_here && message.sender_id != self.me && message.kind.counts()
    }

    /// A message that is not on the screen, in one line.
    fn found(&self, message: &Message) -> String {
        let media = message.media.as_ref().map_or(String::new(), |_| format!("[{}] ", message.kind));
        format!("#{} {}: {media}{}", message.seq, self.name(&message.sender_id), harmless(&message.body))
    }

    fn name(&self, user: &UserId) -> String {
        let known = self.names.borrow().get(user).map(|name| harmless(name.as_str()));
        if *user == self.me { "you".to_owned() } else { known.unwrap_or_else(|| user.to_string()) }
    }
}

/// Draws the conversation on the screen. A terminal only adds lines, so it adds what is new and what has changed.
impl Terminal {
    async fn on_screens(&self, mut drawing_rx: UnboundedReceiver<Drawing>) -> Result<()> {
        let mut view = self.chat().messages(At::Newest)?;
        let mut drawn = Drawn::default();
        loop {
            tokio::select! {
                Some(drawing) = drawing_rx.recv() => match drawing {
                    Drawing::View(next) => (view, drawn) = (next, Drawn::default()),
                    Drawing::Older => view.older(),
                },
                screen = view.changed() => {
                    let screen = screen?;
                    self.names.borrow_mut().extend(screen.names.clone());
                    self.draw(&screen, &mut drawn);
                    // A terminal shows all of it.
                    if let Some(last) = screen.messages.items.iter().rfind(|item| is_stored(item)) {
                        view.seen(&last.key);
                    }
                    self.screen.replace(Some(screen));
                }
            }
        }
    }

    fn draw(&self, screen: &Screen, drawn: &mut Drawn) {
        let mut newest = None;
        for item in &screen.messages.items {
            let line = self.line(&item.content);
            let progress = progress(&item.content);
            match drawn.lines.insert(item.key.clone(), (line.clone(), progress.clone())) {
                None => println!("{line}{}", progress.map_or(String::new(), |word| format!(" ({word})"))),
                Some((before, _)) if before != line => println!("{line}"),
                // Ticks come for all messages up to one.
                Some((_, before)) if before != progress => {
                    newest = Some(format!("-- {line}: {}", progress.unwrap_or_default()));
                }
                Some(_) => {}
            }
        }
        if let Some(line) = newest {
            println!("{line}");
        }
        let Some(chat) = &screen.chat else { return };
        let about = about(chat);
        for line in about.iter().filter(|line| !drawn.about.contains(line)) {
            println!("-- {line}");
        }
        drawn.about = about;
    }

    fn line(&self, content: &Content) -> String {
        match content {
            Content::Day { day } => format!("== {day} =="),
            Content::Unread { count } => format!("-- {count} new --"),
            Content::Gap { .. } => "-- messages are missing here --".to_owned(),
            // A system entry is data. An app describes the change in its user's language.
            Content::System { sender_id, event, .. } => {
                format!("-- {} {}", self.name(sender_id), serde_json::to_string(event).unwrap_or_default())
            }
            Content::Message(message) => self.message(message),
            Content::Unreadable { seq, sender_id, why, .. } => {
                format!("#{seq} {}: ({})", self.name(sender_id), unreadable(*why))
            }
        }
    }

    fn message(&self, message: &MessageItem) -> String {
        let number = message.seq.map_or(String::new(), |seq| format!("#{seq} "));
        let sender = self.name(&message.sender_id);
        if message.deleted_by.is_some() {
            return format!("{number}{sender}: (deleted)");
        }
        let quote = message.reply.as_ref().map_or(String::new(), |reply| format!("(to #{}) ", reply.seq));
        let file = match (&message.media, &message.upload) {
            (Some(media), _) => {
                let name = harmless(media.name.as_ref().map_or("", FileName::as_str));
                format!("[{} {name}, {} bytes] ", message.kind, media.bytes)
            }
            (None, Some(upload)) => format!("[{}, {} bytes] ", message.kind, upload.bytes),
            (None, None) => String::new(),
        };
        let lock = if message.is_sealed { "🔒 " } else { "" };
        let edited = if message.edited_at.is_some() { " (edited)" } else { "" };
        let reactions = message.reactions.iter().map(|it| format!(" {}{}", it.emoji.as_str(), it.count));
        let refused =
            message.refused.as_ref().map_or(String::new(), |it| format!(" (the change was refused: {})", it.code));
        let reactions: String = reactions.collect();
        format!("{number}{sender}: {lock}{quote}{file}{}{edited}{reactions}{refused}", harmless(&message.body))
    }
}

/// The lines that are on the screen.
#[derive(Default)]
struct Drawn {
    /// The line of each item, and how far an own message has come.
    lines: BTreeMap<String, (String, Option<String>)>,
    about: Vec<String>,
}

/// The read mark stands at an entry with a number.
fn is_stored(item: &Item) -> bool {
    match &item.content {
        Content::Message(message) => message.seq.is_some(),
        Content::System { .. } | Content::Unreadable { .. } => true,
        Content::Day { .. } | Content::Unread { .. } | Content::Gap { .. } => false,
    }
}

fn progress(content: &Content) -> Option<String> {
    let Content::Message(message) = content else { return None };
    Some(match message.progress.as_ref()? {
        Progress::Waiting => "waiting".to_owned(),
        Progress::Uploading { .. } => "uploading".to_owned(),
        Progress::Stored => "stored".to_owned(),
        Progress::Delivered => "delivered".to_owned(),
        Progress::Read => "read".to_owned(),
        Progress::Failed { code, .. } => format!("refused: {code}; /retry or /discard"),
    })
}

fn unreadable(why: Unreadable) -> &'static str {
    match why {
        Unreadable::BeforeJoin => "sent before this device joined",
        Unreadable::Forged => "not from this user, or changed on its way",
        Unreadable::PlainBehindBirth => "not encrypted, so it can be from anybody",
        Unreadable::Later => "opens once all before it has come",
        Unreadable::NotEncrypted => "encrypted; start with --encrypted",
        // A reason of a later version.
        _ => "can't be opened",
    }
}

/// News of the encryption, in words.
fn warning(notice: &Notice) -> String {
    match notice {
        Notice::IdentityChanged { user } => {
            format!("{user} has new keys: a new phone, or somebody else. Compare /safety, then /verify or /accept")
        }
        Notice::DeviceAdded { user, device, .. } => format!("{user} has added the device {}", device.as_str()),
        Notice::DeviceRemoved { user, device, .. } => format!("{user} no longer has the device {}", device.as_str()),
        Notice::Joined { from_seq, .. } => format!("this device reads what is sent behind #{from_seq}"),
        Notice::Reset { by, .. } => format!("{by} began the encryption anew"),
        Notice::WithoutKeys { users, .. } => {
            let users: Vec<&str> = users.iter().map(UserId::as_str).collect();
            format!("{} have no keys, and can't read this group", users.join(", "))
        }
        other => format!("{other:?}"),
    }
}

fn lock(lock: Lock) -> Option<&'static str> {
    match lock {
        Lock::Plain => None,
        Lock::Sealed => Some("🔒 encrypted from end to end"),
        Lock::Joining => Some("🔒 encrypted; this device has not joined yet"),
        Lock::Changed => Some("🔓 the keys of a verified user changed; messages wait for /verify or /accept"),
    }
}

/// Lines about the conversation: whether it is encrypted, what other users type, and whether they are online.
fn about(chat: &ChatRow) -> Vec<String> {
    let typing = chat.typing.iter().map(|user| format!("{user} is typing"));
    let presence = chat.presence.iter();
    let presence =
        presence.map(|user| format!("{} is {}", user.user_id, if user.online { "online" } else { "offline" }));
    lock(chat.lock).map(str::to_owned).into_iter().chain(typing).chain(presence).collect()
}

/// Handles the lines that the user types.
impl Terminal {
    async fn on_lines(&self) -> Result<()> {
        self.ready.notified().await;
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
        let chat = self.chat();
        self.queued(chat.send(draft).await?);
        Ok(())
    }

    fn queued(&self, sent: Sent) {
        self.unanswered.borrow_mut().spawn(sent.stored());
    }

    async fn command(&self, line: &str) -> Result<()> {
        let (name, rest) = split(line);
        let (first, text) = split(rest);
        match name {
            "help" => println!("{HELP}"),
            "open" => self.open(target(first)?)?,
            "list" => self.list(),
            "find" => self.client.search(rest, 20).await?.iter().for_each(|it| println!("{}", self.found(it))),
            "older" => self.older()?,
            "edit" => self.queued(self.chat().edit(seq(first)?, text).await?),
            "delete" => self.queued(self.chat().delete(seq(first)?).await?),
            "react" => {
                let emoji = if text.is_empty() { None } else { Some(Emoji::parse(text)?) };
                self.queued(self.chat().react(seq(first)?, emoji).await?);
            }
            "reply" => self.say(Draft::new(text).reply_to(seq(first)?)).await?,
            "own" => {
                let (data, body) = split(text);
                let data: serde_json::Map<String, serde_json::Value> = serde_json::from_str(data)?;
                self.say(Draft::own(first, body, data)).await?;
            }
            "mention" => self.say(Draft::new(text).mentions([UserId::parse(first)?])).await?,
            // `Attachment::image` also takes a picture's size, so that an app can draw its frame before it is fetched.
            "send" => {
                let name = FileName::parse(first.rsplit('/').next().unwrap_or(first))?;
                let file = Attachment::file(first, MimeType::parse("application/octet-stream")?, name);
                self.queued(self.chat().send_media(file.caption(text)).await?);
            }
            "save" => {
                let seq = seq(first)?;
                let stored = self.client.window(self.chat().id(), Side::Before(seq.next()), 1).await?;
                let is_it = |message: &&Message| message.seq == seq;
                let message = stored.messages.iter().find(is_it).ok_or("the message is not here; try /older")?;
                self.client.download(message, text).await?;
            }
            "retry" => {
                for id in self.refused() {
                    let client = self.client.clone();
                    self.unanswered.borrow_mut().spawn(async move { client.again(&id).await });
                }
            }
            "discard" => self.refused().iter().for_each(|id| self.client.dismiss(id)),
            "safety" | "verify" | "accept" | "reset" => self.trust(name, first).await?,
            "devices" => {
                for device in self.client.own_devices().await? {
                    let known = if device.known { "" } else { " (with other keys than yours)" };
                    println!("-- {}{known}, last seen {}", device.device.as_str(), device.seen_at);
                }
            }
            "forget" => self.client.remove_device(DeviceId::parse(first)?),
            "online" => {
                for user in self.client.presence(vec![UserId::parse(first)?]).await? {
                    println!("-- {} is {}", user.user_id, if user.online { "online" } else { "offline" });
                }
            }
            "report" => self.report(first, text).await?,
            "block" => {
                let (user_id, set) = (UserId::parse(first)?, UserSettings { blocked: text == "on" });
                self.client.settings(Settings::User { user_id, set }).await?;
            }
            "phone" if first == "off" => self.client.register_device(None).await?,
            "phone" => {
                let (platform, token) = (Platform::Fcm, DeviceToken::parse(first)?);
                let quiet = if text.is_empty() { None } else { Some(quiet(text)?) };
                let phone = Registration { platform, token, preview: true, badge: false, when: When::Pending, quiet };
                self.client.register_device(Some(phone)).await?;
            }
            _ => return self.command_about_a_conversation(name, first, rest).await,
        }
        Ok(())
    }

    /// Reports a message of the open conversation: its number, a reason and a note.
    async fn report(&self, number: &str, text: &str) -> Result<()> {
        let (reason, note) = split(text);
        let seq = seq(number)?;
        let stored = self.client.window(self.chat().id(), Side::Before(seq.next()), 1).await?;
        // The server can't read an encrypted message.
        let sealed = stored.messages.into_iter().find(|message| message.seq == seq && message.epoch.is_some());
        let claimed = sealed.map(|message| message.body.chars().take(CLAIMED_CHARS).collect::<String>());
        let report = ReportRequest {
            conversation_id: Some(self.chat().id().clone()),
            seqs: vec![seq],
            user_id: None,
            reason: ReportReason::parse(reason).ok_or("the reason must be one of those in /help")?,
            note: (!note.is_empty()).then(|| note.to_owned()),
            claimed: claimed.filter(|text| !text.is_empty()),
            opened: vec![],
        };
        println!("-- reported as {}", self.client.report(report).await?.report_id);
        Ok(())
    }

    async fn command_about_a_conversation(&self, name: &str, first: &str, rest: &str) -> Result<()> {
        match name {
            "pin" | "unpin" => self.queued(self.chat().pin(seq(first)?, name == "pin").await?),
            "group" => self.create(NewGroup::new(Title::parse(first)?, users(split(rest).1)?)).await?,
            "channel" => {
                let channel = NewGroup::channel(Title::parse(first)?, users(split(rest).1)?);
                self.create(NewGroup { join: Some(JoinBy::Open), ..channel }).await?;
            }
            "join" => {
                let id = ConversationId::parse(first)?;
                self.client.join(&id).await?;
                self.open(Target::Conversation(id))?;
            }
            "leave" => drop(self.client.leave(self.chat().id()).await?.stored().await?),
            "add" => drop(self.client.add(self.chat().id(), users(rest)?).await?.stored().await?),
            "remove" => drop(self.client.remove(self.chat().id(), &UserId::parse(first)?).await?.stored().await?),
            "role" => {
                let role = Role::parse(split(rest).1).ok_or("the role must be owner, admin or member")?;
                self.client.role(self.chat().id(), &UserId::parse(first)?, role).await?.stored().await?;
            }
            "restrict" => {
                let until = split(rest).1;
                let parsed = MutedUntil::parse(until).ok_or("the time must be in RFC 3339, or forever");
                let until = if until.is_empty() { None } else { Some(parsed?) };
                self.client.restrict(self.chat().id(), &UserId::parse(first)?, until).await?.stored().await?;
            }
            "title" => {
                let info = Info { title: Some(Title::parse(rest)?), ..Info::default() };
                self.client.update(self.chat().id(), info).await?.stored().await?;
            }
            "rings" => {
                let rings = if first == "on" { Rings::Mentions } else { Rings::Off };
                let info = Info { rings: Some(rings), ..Info::default() };
                self.client.update(self.chat().id(), info).await?.stored().await?;
            }
            "name" => {
                let name = if rest.is_empty() { None } else { Some(Title::parse(rest)?) };
                self.client.set_profile(ProfileChange { name: Some(name), ..ProfileChange::default() }).await?;
            }
            "members" => {
                for member in self.client.members(self.chat().id(), 100, None).await?.members {
                    println!("-- {} ({})", member.user_id, member.role.as_str());
                }
            }
            "mute" => {
                let muted_until = Some((first == "on").then_some(MutedUntil::Forever));
                let set = ConversationSettings { muted_until, ..ConversationSettings::default() };
                self.client.settings(Settings::Conversation { conversation_id: self.chat().id().clone(), set }).await?;
            }
            "top" => self.chat().pin_to_top(first == "on").await?,
            _ => return Err(format!("/{name} is not a command; /help lists them").into()),
        }
        Ok(())
    }

    /// Shows the safety number of the other user, or decides about the other's keys.
    async fn trust(&self, what: &str, user: &str) -> Result<()> {
        let peer = {
            let screen = self.screen.borrow();
            screen.as_ref().and_then(|screen| screen.chat.as_ref()?.peer_id.clone())
        };
        let peer = match peer {
            None if what == "reset" => {
                self.client.reset_group(self.chat().id());
                return Ok(());
            }
            None if user.is_empty() => return Err("name a member".into()),
            Some(peer) if user.is_empty() => peer,
            _ => UserId::parse(user)?,
        };
        let number = self.client.safety_number(&peer).await?;
        match what {
            "verify" => self.client.verify(&peer),
            "accept" => self.client.accept(&peer),
            "reset" => self.client.reset(&peer),
            _ => match number {
                Some(number) => println!("-- compare with {peer}: {number}"),
                None => println!("-- the keys of {peer} are not known yet"),
            },
        }
        Ok(())
    }

    async fn create(&self, group: NewGroup) -> Result<()> {
        let created = self.client.create(group).await?.stored().await?;
        println!("-- created {}", created.conversation_id);
        self.open(Target::Conversation(created.conversation_id))
    }

    fn list(&self) {
        let Some(list) = self.list.shown() else { return };
        for row in &list.rows {
            let named = row.peer_id.as_ref().and_then(|peer| list.names.get(peer)).map(Title::as_str);
            let name = row.title.as_deref().or(named).or(row.peer_id.as_ref().map(UserId::as_str)).unwrap_or_default();
            let id = row.conversation_id.as_ref().map_or("new", ConversationId::as_str);
            let line = row.line.as_ref().map_or(String::new(), |line| harmless(&line.text));
            let lock = if row.lock == Lock::Plain { "" } else { "🔒 " };
            let pin = if row.is_pinned { "📌 " } else { "" };
            println!("-- {id} {pin}{lock}{} ({} unread) {line}", harmless(name), row.unread);
        }
        println!("-- {} unread", list.unread);
    }
}

/// The conversation on the screen.
impl Terminal {
    fn open(&self, target: Target) -> Result<()> {
        self.chat.replace(self.client.chat(target));
        self.screen.replace(None);
        self.drawing_tx.send(Drawing::View(self.chat().messages(At::Newest)?)).map_err(|_| Error::Closed)?;
        Ok(())
    }

    fn older(&self) -> Result<()> {
        if !self.screen.borrow().as_ref().is_some_and(|screen| screen.messages.has_older) {
            return Err("there are no older messages".into());
        }
        self.drawing_tx.send(Drawing::Older).map_err(|_| Error::Closed)?;
        Ok(())
    }

    fn chat(&self) -> Chat {
        self.chat.borrow().clone()
    }

    /// The messages and changes that the server refused.
    fn refused(&self) -> Vec<ClientMsgId> {
        let screen = self.screen.borrow();
        let items = screen.iter().flat_map(|screen| &screen.messages.items);
        items.filter_map(|item| refused(&item.content)).collect()
    }
}

fn refused(content: &Content) -> Option<ClientMsgId> {
    let Content::Message(message) = content else { return None };
    match &message.progress {
        Some(Progress::Failed { .. }) => message.client_msg_id.clone(),
        _ => message.refused.as_ref().map(|refused| refused.client_msg_id.clone()),
    }
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

fn quiet(text: &str) -> Result<Quiet> {
    let minutes = |time: &str| {
        let (hours, minutes) = time.split_once(':')?;
        let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
        (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
    };
    let (from, to) = split(text);
    let hours = minutes(from).zip(minutes(to));
    let (from_min, to_min) = hours.ok_or("name the quiet hours by two times, such as 22:00 07:00")?;
    Ok(Quiet { from_min, to_min, offset_min: 0 })
}

fn seq(text: &str) -> Result<Seq> {
    Ok(text.trim_start_matches('#').parse().ok().and_then(Seq::new).ok_or("name a message by its number, such as 7")?)
}
