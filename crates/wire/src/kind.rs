//! The kinds of entries.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The kind of an entry. A kind of a later version passes through this one unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String", inline))]
pub enum Kind {
    Text,
    /// A picture.
    Image,
    /// Any other file.
    File,
    /// A recording of speech.
    Voice,
    /// The message at `target_seq` has another text now.
    Edit,
    /// The message at `target_seq` is deleted.
    Delete,
    /// A reaction to the message at `target_seq`, or its removal.
    Reaction,
    /// The message at `target_seq` is pinned, or no longer.
    Pin,
    /// Something happened to the group.
    System,
    /// A message that only devices of the members can read, or a silent entry of theirs.
    Sealed,
    /// The keys of a sealed conversation changed.
    Commit,
    /// A user was erased: the messages that the entry names have neither text nor sender any more.
    Erased,
    /// A kind of the app's own: `x-NAME` counts as a text does, `xs-NAME` is silent. Its data says the rest.
    Own(String),
    /// A kind that this version does not know. Clients show nothing for it.
    Other(String),
}

impl Kind {
    /// The kinds of messages: what a `send` may be, and what counts. A sealed entry counts unless it is silent.
    pub const MESSAGES: [Self; 5] = [Self::Text, Self::Image, Self::File, Self::Voice, Self::Sealed];

    /// A kind that this version sends.
    pub fn of_request(text: &str) -> Option<Self> {
        Self::MESSAGES.into_iter().find(|kind| kind.as_str() == text).or_else(|| Self::own(text))
    }

    fn own(text: &str) -> Option<Self> {
        let name = text.strip_prefix("x-").or_else(|| text.strip_prefix("xs-"))?;
        let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
        ((1..=29).contains(&name.len()) && name.bytes().all(is_allowed)).then(|| Self::Own(text.to_owned()))
    }

    /// A kind of upload.
    pub fn of_media(text: &str) -> Option<Self> {
        Self::of_request(text).filter(|kind| !matches!(kind, Self::Text | Self::Own(_)))
    }

    /// Any kind, as it was stored.
    pub fn stored(text: &str) -> Self {
        match text {
            "text" => Self::Text,
            "image" => Self::Image,
            "file" => Self::File,
            "voice" => Self::Voice,
            "edit" => Self::Edit,
            "delete" => Self::Delete,
            "reaction" => Self::Reaction,
            "pin" => Self::Pin,
            "system" => Self::System,
            "sealed" => Self::Sealed,
            "commit" => Self::Commit,
            "erased" => Self::Erased,
            other => Self::own(other).unwrap_or_else(|| Self::Other(other.to_owned())),
        }
    }

    /// Whether the entry counts as unread, and causes a push. An unknown kind does neither. A sealed entry counts as its
    /// reader finds it once it is opened.
    pub fn counts(&self) -> bool {
        match self {
            Self::Text | Self::Image | Self::File | Self::Voice => true,
            Self::Own(name) => name.starts_with("x-"),
            Self::Edit
            | Self::Delete
            | Self::Reaction
            | Self::Pin
            | Self::System
            | Self::Sealed
            | Self::Commit
            | Self::Erased
            | Self::Other(_) => false,
        }
    }

    /// Whether the entry can be the last message of the chat list. An unknown kind can't, nor a sealed entry that is not
    /// opened.
    pub fn is_listed(&self) -> bool {
        match self {
            Self::Text | Self::Image | Self::File | Self::Voice | Self::System => true,
            Self::Own(_) => self.counts(),
            Self::Edit
            | Self::Delete
            | Self::Reaction
            | Self::Pin
            | Self::Sealed
            | Self::Commit
            | Self::Erased
            | Self::Other(_) => false,
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Text => "text",
            Self::Image => "image",
            Self::File => "file",
            Self::Voice => "voice",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Reaction => "reaction",
            Self::Pin => "pin",
            Self::System => "system",
            Self::Sealed => "sealed",
            Self::Commit => "commit",
            Self::Erased => "erased",
            Self::Own(kind) | Self::Other(kind) => kind,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::stored(&String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_not_known_is_kept() {
        let kind: Kind = serde_json::from_str("\"hologram\"").unwrap();
        assert_eq!(kind, Kind::Other("hologram".to_owned()));
        assert_eq!(serde_json::to_string(&kind).unwrap(), "\"hologram\"");
        assert_eq!(Kind::of_request("hologram"), None);
    }

    #[test]
    fn the_name_of_an_own_kind_says_whether_it_counts() {
        let kinds = ["x-poll", "xs-vote", "x-a.b-9"].map(|text| Kind::of_request(text).unwrap());
        assert_eq!(kinds.each_ref().map(Kind::counts), [true, false, true]);
        assert_eq!(Kind::stored("xs-vote"), kinds[1]);
        assert_eq!(Kind::of_media("x-poll"), None);
        for wrong in ["x-", "xs-", "x-Poll", "xt-poll", "x-a b", &format!("x-{}", "y".repeat(30))] {
            assert_eq!(Kind::of_request(wrong), None, "{wrong}");
        }
    }
}
