//! What the user can ask for in a line that begins with a slash.

use std::path::PathBuf;

use pigeonhole_client::{
    ConversationId, ConversationSettings, DeviceToken, Emoji, MutedUntil, Role, Seq, Settings, Title, UserId,
    UserSettings,
};

use crate::group::{Act, Question, names_in, title_and_names};
use crate::media::path_and_rest;

/// What can be asked for, in words.
pub(crate) const COMMANDS: &str = "\
Commands, each on a line of its own; a message that begins with a slash begins with two.
Without a number, the first two are about your last message, the others about theirs:
  /edit [7] TEXT          says something else
  /delete [7]             deletes it for both
  /react [7] [EMOJI]      reacts to it, or takes that back
  /reply [7] TEXT         answers it
  /send PATH [TEXT]       sends a picture or another file, with a text beside it; a path with spaces stands in quotes
  /cancel                 ends the upload that you began last
  /save [7] [PATH]        saves what a message carries; without a path, here and by its name
  /who                    whether they are online, or when they were
  /mute, /unmute          whether this conversation may notify you
  /archive, /unarchive    whether it is out of sight, until its next message
  /block, /unblock        whether the two of you can write to each other
  /help                   this list
  /list                   your conversations, with what is new in them
  /open NUMBER, NAME      opens one of them, or the one with somebody
  /group TITLE NAMES…     makes a group and opens it; a title of several words stands in quotes
Of what a service tells, such as @orders, nothing but /mute, /archive and /save can be used.
In a group, where @name names a member, and @all everybody:
  /add NAMES…             adds members
  /remove NAME            removes one
  /role NAME ROLE         makes one an admin or a member; with owner, hands the group over
  /title TEXT             calls the group so
  /members                who is in it
  /seen                   who has read your last message
  /leave                  leaves it
In a channel, which its admins write and any number read:
  /channel TITLE NAMES…   makes one that everybody may join, and opens it
  /join ID                joins one and opens it
  /channels               yours, with what is new in them; /open opens them, too
  /add, /remove, /role, /title, /members, /leave as in a group
  /ring TOKEN, /ring off  has the phone with this token of Firebase's rung while you are away, or no longer;
                          with the local server any word will do, and /phones?user=YOU shows what it shows";

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    Help,
    Set(Setting),
    Change(Change),
    /// A file, with a text beside it.
    Send(PathBuf, String),
    /// The newest file that is on its way is not to be sent.
    Cancel,
    /// What a message carries, to be saved; without its number, the last that carries something.
    Save(Option<Seq>, Option<PathBuf>),
    /// Whether the peer is there.
    Who,
    Group(Act),
    Ask(Question),
    /// The chat list.
    List,
    /// The list of channels.
    Channels,
    Join(ConversationId),
    /// The conversation with this number in the chat list, or the one with this user.
    Open(String),
    /// The phone with this token of Firebase's rings for the user, or none does any more.
    Ring(Option<DeviceToken>),
    /// A command that lacks something: how it is written.
    Usage(&'static str),
    /// A slip of the keys, or a command with more behind it than belongs there: nothing that others should read.
    Unknown,
}

/// What can be set for the conversation on the screen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Setting {
    Mute,
    Unmute,
    Archive,
    Unarchive,
    Block,
    Unblock,
}

/// What can be done about a message. Without its number it is about the last one: an own one to edit and delete, one of the peer's
/// to react and reply to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Edit { seq: Option<Seq>, body: String },
    Delete { seq: Option<Seq> },
    React { seq: Option<Seq>, emoji: Option<Emoji> },
    Reply { seq: Option<Seq>, body: String },
}

impl Command {
    /// A line that is a command, or looks like one. Any other is a message.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        Self::known(line).or_else(|| is_word(line).then_some(Self::Unknown))
    }

    fn known(line: &str) -> Option<Self> {
        let line = line.trim();
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if name == "/ring" {
            return Some(match (rest.trim_start(), DeviceToken::parse(rest.trim_start())) {
                ("off", _) => Self::Ring(None),
                (_, Ok(token)) => Self::Ring(Some(token)),
                (_, Err(_)) => Self::Usage("/ring TOKEN, or /ring off"),
            });
        }
        if let Some(command) = Self::of_groups(name, rest.trim()) {
            return Some(command);
        }
        let (seq, text) = number(rest.trim_start());
        let change = match name {
            "/send" => {
                let send = |(path, caption)| Self::Send(path, caption);
                return Some(path_and_rest(rest.trim()).map_or(Self::Usage("/send PATH [TEXT]"), send));
            }
            "/save" => return Some(Self::Save(seq, path_and_rest(text).map(|(path, _)| path))),
            "/edit" if text.is_empty() => return Some(Self::Usage("/edit [NUMBER] TEXT")),
            "/edit" => Change::Edit { seq, body: text.to_owned() },
            "/reply" if text.is_empty() => return Some(Self::Usage("/reply [NUMBER] TEXT")),
            "/reply" => Change::Reply { seq, body: text.to_owned() },
            "/delete" if !text.is_empty() => return Some(Self::Usage("/delete [NUMBER]")),
            "/delete" => Change::Delete { seq },
            "/react" => match (text, Emoji::parse(text)) {
                ("", _) => Change::React { seq, emoji: None },
                (_, Ok(emoji)) => Change::React { seq, emoji: Some(emoji) },
                (_, Err(_)) => return Some(Self::Usage("/react [NUMBER] [EMOJI]")),
            },
            _ => return Self::of_line(line),
        };
        Some(Self::Change(change))
    }

    fn of_groups(name: &str, rest: &str) -> Option<Self> {
        let (first, second) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let user = UserId::parse(first.strip_prefix('@').unwrap_or(first));
        Some(match name {
            "/group" => match title_and_names(rest) {
                Some((title, members)) => Self::Group(Act::Create { title, members }),
                None => Self::Usage("/group TITLE NAMES…, or /group \"LONG TITLE\" NAMES…"),
            },
            "/channel" => match title_and_names(rest) {
                Some((title, members)) => Self::Group(Act::Channel { title, members }),
                None => Self::Usage("/channel TITLE NAMES…, or /channel \"LONG TITLE\" NAMES…"),
            },
            "/join" => match ConversationId::parse(rest) {
                Ok(id) => Self::Join(id),
                Err(_) => Self::Usage("/join ID"),
            },
            "/add" => match names_in(rest).filter(|names| !names.is_empty()) {
                Some(names) => Self::Group(Act::Add(names)),
                None => Self::Usage("/add NAMES…"),
            },
            "/remove" => match (user, second) {
                (Ok(user), "") => Self::Group(Act::Remove(user)),
                _ => Self::Usage("/remove NAME"),
            },
            "/role" => match (user, Role::parse(second.trim())) {
                (Ok(user), Some(role)) => Self::Group(Act::Role(user, role)),
                _ => Self::Usage("/role NAME owner, admin or member"),
            },
            "/title" => match Title::parse(rest) {
                Ok(title) => Self::Group(Act::Title(title)),
                Err(_) => Self::Usage("/title TEXT, of at most 64 characters"),
            },
            "/open" if rest.is_empty() => Self::Usage("/open NUMBER of /list, or /open NAME"),
            "/open" => Self::Open(rest.to_owned()),
            _ => return None,
        })
    }

    /// Nothing may stand beside these.
    fn of_line(line: &str) -> Option<Self> {
        Some(match line {
            "/help" => Self::Help,
            "/who" => Self::Who,
            "/cancel" => Self::Cancel,
            "/leave" => Self::Group(Act::Leave),
            "/members" => Self::Ask(Question::Members),
            "/seen" => Self::Ask(Question::Seen),
            "/list" => Self::List,
            "/channels" => Self::Channels,
            "/mute" => Self::Set(Setting::Mute),
            "/unmute" => Self::Set(Setting::Unmute),
            "/archive" => Self::Set(Setting::Archive),
            "/unarchive" => Self::Set(Setting::Unarchive),
            "/block" => Self::Set(Setting::Block),
            "/unblock" => Self::Set(Setting::Unblock),
            _ => return None,
        })
    }
}

/// What a line says that is no command: with two slashes a message can begin with one.
pub(crate) fn message(line: String) -> String {
    match line.strip_prefix('/') {
        Some(rest) if is_word(rest) => rest.to_owned(),
        _ => line,
    }
}

/// Whether it begins with a slash and a word, as no path does.
fn is_word(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    first.strip_prefix('/').is_some_and(|word| !word.is_empty() && word.chars().all(|it| it.is_ascii_lowercase()))
}

/// `5 text`: the number of a message, as it is shown, with or without its `#`.
fn number(text: &str) -> (Option<Seq>, &str) {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let seq = first.strip_prefix('#').unwrap_or(first).parse().ok().and_then(Seq::new).filter(|seq| seq.value() > 0);
    match seq {
        Some(seq) => (Some(seq), rest.trim_start()),
        None => (None, text),
    }
}

impl Setting {
    /// `None`: it is about a conversation, and there is none yet, or about a peer, and this is a group.
    pub(crate) fn settings(self, conversation_id: Option<&ConversationId>, peer: Option<&UserId>) -> Option<Settings> {
        let of_peer = |blocked| Some(Settings::User { user_id: peer?.clone(), set: UserSettings { blocked } });
        let of_conversation = |set| Some(Settings::Conversation { conversation_id: conversation_id.cloned()?, set });
        let nothing = ConversationSettings::default();
        match self {
            Self::Mute => {
                of_conversation(ConversationSettings { muted_until: Some(Some(MutedUntil::Forever)), ..nothing })
            }
            Self::Unmute => of_conversation(ConversationSettings { muted_until: Some(None), ..nothing }),
            Self::Archive => of_conversation(ConversationSettings { archived: Some(true), ..nothing }),
            Self::Unarchive => of_conversation(ConversationSettings { archived: Some(false), ..nothing }),
            Self::Block => of_peer(true),
            Self::Unblock => of_peer(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_command_is_a_message() {
        assert_eq!(Command::parse("/mute "), Some(Command::Set(Setting::Mute)));
        assert_eq!(Command::parse("/who"), Some(Command::Who));
        assert_eq!(Command::parse("/ring t:1"), Some(Command::Ring(DeviceToken::parse("t:1").ok())));
        assert_eq!(Command::parse("/ring off"), Some(Command::Ring(None)));
        assert!(
            ["/ring", "/ring two words"]
                .into_iter()
                .all(|line| matches!(Command::parse(line), Some(Command::Usage(_))))
        );
        for line in ["mute", "/", "say /mute", "/etc/hosts is it", "//shrug", "// so", "/7", "1/2"] {
            assert_eq!(Command::parse(line), None, "{line}");
        }
        for slip in ["/mute bob", "/shrug", "/editor", "/who knows", " /remov 7"] {
            assert_eq!(Command::parse(slip), Some(Command::Unknown), "{slip}");
        }
        for (line, said) in [("//shrug", "/shrug"), ("// so", "// so"), ("/etc/hosts", "/etc/hosts"), ("hi", "hi")] {
            assert_eq!(message(line.to_owned()), said);
        }
    }

    #[test]
    fn a_change_names_its_message_by_number_or_means_the_last() {
        let seq = Seq::new(12);
        let body = || "two words".to_owned();
        let thumb = Emoji::parse("👍").ok();
        for (line, change) in [
            ("/edit two words", Change::Edit { seq: None, body: body() }),
            ("/edit 12 two words", Change::Edit { seq, body: body() }),
            ("/edit #12  two words ", Change::Edit { seq, body: body() }),
            ("/edit 0 12", Change::Edit { seq: None, body: "0 12".to_owned() }),
            ("/reply two words", Change::Reply { seq: None, body: body() }),
            ("/reply 12 two words", Change::Reply { seq, body: body() }),
            ("/delete", Change::Delete { seq: None }),
            ("/delete 12", Change::Delete { seq }),
            ("/react 👍", Change::React { seq: None, emoji: thumb.clone() }),
            ("/react 12 👍", Change::React { seq, emoji: thumb }),
            ("/react 12", Change::React { seq, emoji: None }),
            ("/react", Change::React { seq: None, emoji: None }),
        ] {
            assert_eq!(Command::parse(line), Some(Command::Change(change)), "{line}");
        }
        for line in ["/edit", "/edit 12", "/reply", "/reply #12", "/delete this", "/react two words"] {
            assert!(matches!(Command::parse(line), Some(Command::Usage(_))), "{line}");
        }
    }

    #[test]
    fn every_command_that_is_told_is_one() {
        let told = COMMANDS.split_whitespace().map(|word| word.trim_end_matches([',', ';']));
        let names: Vec<&str> = told.filter(|word| is_word(word)).collect();
        assert!(names.len() > 25 && names.contains(&"/help"), "{names:?}");
        for name in names {
            assert_ne!(Command::parse(name), Some(Command::Unknown), "{name}");
        }
    }

    #[test]
    fn a_file_is_sent_and_saved() {
        let path = || PathBuf::from("us.jpg");
        for (line, command) in [
            ("/send us.jpg", Command::Send(path(), String::new())),
            ("/send us.jpg at last", Command::Send(path(), "at last".to_owned())),
            ("/cancel", Command::Cancel),
            ("/save", Command::Save(None, None)),
            ("/save 12", Command::Save(Seq::new(12), None)),
            ("/save 12 us.jpg", Command::Save(Seq::new(12), Some(path()))),
        ] {
            assert_eq!(Command::parse(line), Some(command), "{line}");
        }
        assert!(matches!(Command::parse("/send"), Some(Command::Usage(_))));
    }

    #[test]
    fn a_group_is_made_and_changed_by_commands() {
        let user = |id: &str| UserId::parse(id).unwrap();
        let title = |text: &str| Title::parse(text).unwrap();
        for (line, act) in [
            ("/group Trip bob @carol", Act::Create { title: title("Trip"), members: vec![user("bob"), user("carol")] }),
            ("/group \"Sea trip\"", Act::Create { title: title("Sea trip"), members: vec![] }),
            ("/add bob carol", Act::Add(vec![user("bob"), user("carol")])),
            ("/remove @bob", Act::Remove(user("bob"))),
            ("/role bob owner", Act::Role(user("bob"), Role::Owner)),
            ("/title  Sea trip", Act::Title(title("Sea trip"))),
            ("/leave", Act::Leave),
            ("/channel News bob", Act::Channel { title: title("News"), members: vec![user("bob")] }),
        ] {
            assert_eq!(Command::parse(line), Some(Command::Group(act)), "{line}");
        }
        assert_eq!(Command::parse("/seen"), Some(Command::Ask(Question::Seen)));
        assert_eq!(Command::parse("/open 2"), Some(Command::Open("2".to_owned())));
        assert_eq!(Command::parse("/join ch_n"), Some(Command::Join(ConversationId::parse("ch_n").unwrap())));
        assert_eq!(Command::parse("/channels"), Some(Command::Channels));
        for line in [
            "/channel",
            "/join",
            "/group",
            "/add",
            "/remove",
            "/remove bob carol",
            "/role bob",
            "/role bob king",
            "/title",
            "/open",
        ] {
            assert!(matches!(Command::parse(line), Some(Command::Usage(_))), "{line}");
        }
    }

    #[test]
    fn each_setting_asks_for_what_it_says() {
        let (id, bob) = (ConversationId::parse("dm_ab").unwrap(), UserId::parse("bob").unwrap());
        let setting = |line: &str| match Command::parse(line) {
            Some(Command::Set(setting)) => setting,
            other => panic!("{line}: {other:?}"),
        };
        let asked =
            |line: &str| serde_json::to_string(&setting(line).settings(Some(&id), Some(&bob)).unwrap()).unwrap();
        for (line, set) in [
            ("/mute", r#""muted_until":"forever""#),
            ("/unmute", r#""muted_until":null"#),
            ("/archive", r#""archived":true"#),
            ("/unarchive", r#""archived":false"#),
        ] {
            assert_eq!(asked(line), format!(r#"{{"conversation_id":"dm_ab","set":{{{set}}}}}"#));
            assert_eq!(setting(line).settings(None, Some(&bob)), None);
        }
        assert_eq!(asked("/block"), r#"{"user_id":"bob","set":{"blocked":true}}"#);
        assert_eq!(asked("/unblock"), r#"{"user_id":"bob","set":{"blocked":false}}"#);
    }
}
