//! The team's own filter, which a function asks before it stores what a user wrote: the question, and the answer's
//! meaning.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wire::{
    Attached, ConversationId, ConversationKind, Data, Info, Kind, Look, MediaId, ProfileChange, Seq, Title, UserId,
    body_fits, check_own,
};

use crate::draft::{Change, Content, Draft, GroupChange};
use crate::entry::{Body, Entry, MessageBody};

/// Characters of the reason of a refusal.
const REASON_CHARS_MAX: usize = 200;

/// A question to the filter.
#[derive(Debug, Serialize)]
pub struct Question<'a> {
    v: u8,
    action: &'static str,
    user_id: &'a UserId,
    /// A profile has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation: Option<Conversation<'a>>,
    /// The message that an edit changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<Seq>,
    #[serde(flatten)]
    said: Said<'a>,
}

#[derive(Debug, Serialize)]
struct Conversation<'a> {
    #[serde(rename = "conversation_id")]
    id: &'a ConversationId,
    kind: ConversationKind,
    /// Direct conversations only.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_id: Option<&'a UserId>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Said<'a> {
    Message(Box<Message<'a>>),
    Set(Set<'a>),
}

#[derive(Debug, Serialize)]
struct Message<'a> {
    kind: &'a Kind,
    body: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Data>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    mentions: &'a [UserId],
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    media: Option<Media<'a>>,
}

#[derive(Debug, Serialize)]
struct Media<'a> {
    #[serde(rename = "media_id")]
    id: &'a MediaId,
    mime: &'a str,
    bytes: u64,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Set<'a> {
    Group {
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a Title>,
        #[serde(flatten)]
        look: &'a Look,
    },
    Profile(&'a ProfileChange),
}

/// The answer, as the filter's function returns it.
#[derive(Debug, Deserialize)]
struct Answer {
    allow: bool,
    set: Option<Rewrite>,
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Rewrite {
    body: Option<String>,
    data: Option<Map<String, Value>>,
}

/// The meaning of the answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// Allowed with another text or other data.
    Rewritten(Box<Draft>),
    /// With the filter's reason, or nothing.
    Refused(String),
}

impl<'a> Question<'a> {
    /// Returns the question about a draft, or `None` if the filter has no say. `peer`: the other member of a direct
    /// conversation. `target`: the message that an edit changes.
    pub fn about(draft: &'a Draft, peer: Option<&'a UserId>, target: Option<&'a MessageBody>) -> Option<Self> {
        let Draft { conversation_id, sender_id: user_id, content, .. } = draft;
        if user_id.is_service() {
            return None;
        }
        let (action, seq, said) = match content {
            Content::Message { kind, body, media, data, reply_to, mentions } => {
                let media = media.as_deref().and_then(Attached::clear);
                let media = media.map(|of| Media { id: &of.media_id, mime: of.mime.as_str(), bytes: of.bytes });
                let message = Message { kind, body, data: data.as_ref(), mentions, reply_to: *reply_to, media };
                ("send", None, Said::Message(Box::new(message)))
            }
            Content::Change { target: seq, change: Change::Edit { body, data } } => {
                let kind = target.map_or(&Kind::Text, |target| &target.kind);
                let data = data.as_ref().and_then(Option::as_ref);
                let message = Message { kind, body, data, mentions: &[], reply_to: None, media: None };
                ("edit", Some(*seq), Said::Message(Box::new(message)))
            }
            Content::Group(GroupChange::Create { title, look, .. }) => {
                ("create", None, Said::Set(Set::Group { title: Some(title), look }))
            }
            Content::Group(GroupChange::Update { info: Info { title, look, .. } })
                if title.is_some() || !look.is_empty() =>
            {
                ("update", None, Said::Set(Set::Group { title: title.as_ref(), look }))
            }
            Content::Sealed { .. }
            | Content::Commit(_)
            | Content::Change { .. }
            | Content::Group(_)
            | Content::Erased(_) => return None,
        };
        let conversation = Conversation { id: conversation_id, kind: conversation_id.kind(), peer_id: peer };
        Some(Self { v: 1, action, user_id, conversation: Some(conversation), seq, said })
    }

    /// Returns the question about a change of the user's own profile.
    pub fn about_profile(user_id: &'a UserId, set: &'a ProfileChange) -> Self {
        Self { v: 1, action: "profile", user_id, conversation: None, seq: None, said: Said::Set(Set::Profile(set)) }
    }

    /// Returns the question as the payload of an invocation.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl Verdict {
    /// Returns the meaning of an answer about the draft. `None`: it is not the agreed object, or its text or data is beyond
    /// the limits of a user.
    pub fn parse(payload: &[u8], draft: &Draft, target: Option<&MessageBody>) -> Option<Self> {
        Self::of(payload, |set| draft.rewritten(set, target))
    }

    /// As [`Verdict::parse`], about a profile, of which the filter rewrites nothing.
    pub fn parse_of_profile(payload: &[u8]) -> Option<Self> {
        Self::of(payload, |_| Some(Self::Allowed))
    }

    fn of(payload: &[u8], rewritten: impl FnOnce(Rewrite) -> Option<Self>) -> Option<Self> {
        let Answer { allow, set, reason } = serde_json::from_slice(payload).ok()?;
        if !allow {
            return Some(Self::Refused(reason.unwrap_or_default().chars().take(REASON_CHARS_MAX).collect()));
        }
        match set {
            None => Some(Self::Allowed),
            Some(set) => rewritten(set),
        }
    }
}

impl Draft {
    fn rewritten(&self, set: Rewrite, target: Option<&MessageBody>) -> Option<Verdict> {
        let Rewrite { body: new_body, data: new_data } = set;
        let new_data = new_data.map(Data::from);
        let mut content = self.content.clone();
        match &mut content {
            Content::Message { kind, body, media, data, .. } => {
                *body = new_body.unwrap_or_else(|| body.clone());
                *data = new_data.or_else(|| data.clone());
                let may_be_empty = media.is_some() || matches!(kind, Kind::Own(_));
                is_sendable(kind, body, may_be_empty, data.as_ref())?;
            }
            Content::Change { change: Change::Edit { body, data }, .. } => {
                let target = target?;
                *body = new_body.unwrap_or_else(|| body.clone());
                *data = new_data.map(Some).or_else(|| data.clone());
                let data = data.as_ref().map_or(target.data.as_ref(), Option::as_ref);
                is_sendable(&target.kind, body, target.kind != Kind::Text, data)?;
            }
            Content::Sealed { .. }
            | Content::Commit(_)
            | Content::Change { .. }
            | Content::Group(_)
            | Content::Erased(_) => return Some(Verdict::Allowed),
        }
        if content == self.content {
            return Some(Verdict::Allowed);
        }
        // A repeated request is compared with what the user typed.
        let rewritten_from = Some(self.digest());
        Some(Verdict::Rewritten(Box::new(Self { content, rewritten_from, ..self.clone() })))
    }
}

impl Entry {
    /// Whether the entry has the text and the data that the user wrote.
    pub fn says(&self, written: &Content) -> bool {
        match (written, &self.body) {
            (Content::Message { body, data, .. }, Body::Message(message)) => {
                message.text == *body && message.data == *data
            }
            (Content::Change { change: Change::Edit { body, data }, .. }, Body::Edit { text, data: stored, .. }) => {
                text == body && data.as_ref().is_none_or(|data| data == stored)
            }
            _ => true,
        }
    }
}

/// Whether a user could have sent this.
fn is_sendable(kind: &Kind, body: &str, may_be_empty: bool, data: Option<&Data>) -> Option<()> {
    check_own(kind, body, data).ok()?;
    data.map_or(Ok(()), |data| data.check(body)).ok()?;
    (body_fits(body) && (may_be_empty || !body.is_empty())).then_some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::{About, ClientMsgId};

    use super::*;
    use crate::Rules;

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    fn draft(content: Content) -> Draft {
        Draft {
            conversation_id: ConversationId::parse("dm_x").unwrap(),
            sender_id: user("alice"),
            client_msg_id: ClientMsgId::parse("m1").unwrap(),
            content,
            rewritten_from: None,
        }
    }

    fn text(body: &str) -> Draft {
        draft(Content::Message {
            kind: Kind::Text,
            body: body.to_owned(),
            media: None,
            data: None,
            reply_to: Seq::new(7),
            mentions: vec![],
        })
    }

    fn verdict(of: &Draft, answer: &Value) -> Option<Verdict> {
        Verdict::parse(answer.to_string().as_bytes(), of, None)
    }

    #[test]
    fn the_question_has_what_the_user_wrote_and_no_more() {
        let (bob, message) = (user("bob"), text("hi"));
        let asked = Question::about(&message, Some(&bob), None).unwrap().to_bytes();
        let asked: Value = serde_json::from_slice(&asked).unwrap();
        let conversation = json!({"conversation_id": "dm_x", "kind": "direct", "peer_id": "bob"});
        let message = json!({"kind": "text", "body": "hi", "reply_to": 7});
        assert_eq!(
            asked,
            json!({"v": 1, "action": "send", "user_id": "alice", "conversation": conversation, "message": message})
        );
    }

    #[test]
    fn nothing_is_asked_about_services_deletes_and_rules() {
        let service = Draft { sender_id: user("@orders"), ..text("hi") };
        let delete = draft(Content::Change { target: Seq::FIRST, change: Change::Delete });
        let rules = draft(Content::Group(GroupChange::Update { info: Info::default() }));
        for draft in [service, delete, rules] {
            assert!(Question::about(&draft, None, None).is_none(), "{draft:?}");
        }
        let title = Title::parse("Book club").unwrap();
        let create = GroupChange::Create {
            title,
            members: vec![],
            rules: Rules::default(),
            encrypted: false,
            look: Box::new(Look { about: Some(About::parse("Weekly").ok()), data: Some(None) }),
        };
        let create = draft(Content::Group(create));
        let asked = Question::about(&create, None, None).unwrap().to_bytes();
        let asked: Value = serde_json::from_slice(&asked).unwrap();
        let set = json!({"title": "Book club", "about": "Weekly", "data": null});
        assert_eq!((&asked["action"], &asked["set"]), (&json!("create"), &set));
    }

    #[test]
    fn an_answer_allows_rewrites_or_refuses() {
        let typed = text("hi");
        assert_eq!(verdict(&typed, &json!({"allow": true})), Some(Verdict::Allowed));
        assert_eq!(verdict(&typed, &json!({"allow": true, "set": {"body": "hi"}})), Some(Verdict::Allowed));
        let refused = verdict(&typed, &json!({"allow": false, "reason": "é".repeat(300)}));
        assert_eq!(refused, Some(Verdict::Refused("é".repeat(200))));
        assert_eq!(verdict(&typed, &json!({"allow": false})), Some(Verdict::Refused(String::new())));
        let Some(Verdict::Rewritten(rewritten)) = verdict(&typed, &json!({"allow": true, "set": {"body": "**"}}))
        else {
            panic!("it is rewritten");
        };
        assert!(matches!(&rewritten.content, Content::Message { body, .. } if body == "**"));
        assert_eq!(rewritten.digest(), typed.digest(), "a repetition is of what was typed");
    }

    #[test]
    fn anything_else_is_no_answer() {
        let typed = text("hi");
        for answer in [
            json!({}),
            json!("allow"),
            json!({"allow": "yes"}),
            json!({"allow": true, "set": {"body": ""}}),
            json!({"allow": true, "set": {"body": "a".repeat(20_000)}}),
            json!({"allow": true, "set": {"data": {"x": "a".repeat(3_000)}}}),
            json!({"allow": true, "set": {"data": 1}}),
        ] {
            assert_eq!(verdict(&typed, &answer), None, "{answer}");
        }
        let own = draft(Content::Message {
            kind: Kind::of_request("xs-vote").unwrap(),
            body: String::new(),
            media: None,
            data: Some(Data::default()),
            reply_to: None,
            mentions: vec![],
        });
        assert_eq!(verdict(&own, &json!({"allow": true, "set": {"body": "seen"}})), None, "a silent kind has no text");
    }
}
