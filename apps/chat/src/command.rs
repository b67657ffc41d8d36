//! What the user can set for the conversation on the screen.

use pigeonhole_client::{ConversationId, ConversationSettings, MutedUntil, Settings, UserId, UserSettings};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Command {
    Mute,
    Unmute,
    Archive,
    Unarchive,
    Block,
    Unblock,
}

impl Command {
    /// A line that is a command, and nothing else. Any other is a message, also one that begins with a slash.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        Some(match line.trim() {
            "/mute" => Self::Mute,
            "/unmute" => Self::Unmute,
            "/archive" => Self::Archive,
            "/unarchive" => Self::Unarchive,
            "/block" => Self::Block,
            "/unblock" => Self::Unblock,
            _ => return None,
        })
    }

    /// `None`: it is about a conversation, and there is none yet.
    pub(crate) fn settings(self, conversation_id: Option<&ConversationId>, peer: &UserId) -> Option<Settings> {
        let of_peer = |blocked| Some(Settings::User { user_id: peer.clone(), set: UserSettings { blocked } });
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
    fn only_a_whole_line_is_a_command() {
        assert_eq!(Command::parse("/mute "), Some(Command::Mute));
        for message in ["/mute bob", "mute", "/shrug", "/", "say /mute"] {
            assert_eq!(Command::parse(message), None, "{message}");
        }
    }

    #[test]
    fn each_command_asks_for_what_it_says() {
        let (id, bob) = (ConversationId::parse("dm_ab").unwrap(), UserId::parse("bob").unwrap());
        let asked = |line: &str| {
            let settings = Command::parse(line).unwrap().settings(Some(&id), &bob).unwrap();
            serde_json::to_string(&settings).unwrap()
        };
        for (line, set) in [
            ("/mute", r#""muted_until":"forever""#),
            ("/unmute", r#""muted_until":null"#),
            ("/archive", r#""archived":true"#),
            ("/unarchive", r#""archived":false"#),
        ] {
            assert_eq!(asked(line), format!(r#"{{"conversation_id":"dm_ab","set":{{{set}}}}}"#));
            assert_eq!(Command::parse(line).unwrap().settings(None, &bob), None);
        }
        assert_eq!(asked("/block"), r#"{"user_id":"bob","set":{"blocked":true}}"#);
        assert_eq!(asked("/unblock"), r#"{"user_id":"bob","set":{"blocked":false}}"#);
    }
}
