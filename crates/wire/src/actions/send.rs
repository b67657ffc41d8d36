//! `send`: a message for a conversation.

use serde::{Deserialize, Serialize};

use crate::bytes::Bytes;
use crate::data::Data;
use crate::fields::Fields;
use crate::ids::{ClientMsgId, ConversationId, MessageId, Seq, UserId};
use crate::kind::Kind;
use crate::limits::{EPOCH_MAX, MENTIONS_MAX, SEALED_BYTES_MAX};
use crate::media::{Attached, Media, SealedMedia, frank};
use crate::message::{Message, body_fits, mentions_fit};
use crate::refusal::Refusal;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = crate::media::schema::of_message))]
pub struct SendRequest {
    #[serde(flatten)]
    pub target: Target,
    /// The idempotency key: unique per sender and conversation.
    pub client_msg_id: ClientMsgId,
    /// Or a kind of the app's own, `x-NAME`; `xs-NAME` if it does not count. NAME: 1 to 29 of `a-z0-9.-`.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^(text|image|file|voice|sealed|xs?-[a-z0-9.-]{1,29})$")))]
    pub kind: Kind,
    /// At most 16 KiB of UTF-8, and at most 24 KiB as JSON. The caption of an image, a file or a voice note may be
    /// empty. A sealed message has up to 12,288 bytes in base64.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::limits::BODY_BYTES_MAX)))]
    pub body: String,
    /// The uploaded image, file or voice note. A sealed message has only its `media_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<Box<Attached>>,
    /// An object of the app's own, at most 2,048 bytes without spaces. An own kind needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// The message that this one answers: one of the conversation that there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub reply_to: Option<Seq>,
    /// The user has read, and this device has saved, everything up to here. If no later entry of others exists, both
    /// marks of the user move to the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub read: Option<Seq>,
    /// In a group: whom it names, or `*` for all members, which admins and the owner may.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = MENTIONS_MAX), extend("uniqueItems" = true)))]
    pub mentions: Vec<UserId>,
    /// The epoch in which a sealed message was encrypted. `epoch` and `silent` are of kind `sealed` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = EPOCH_MAX)))]
    pub epoch: Option<u64>,
    /// The sealed entry does not count: no unread message, no push, no last message.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
    /// A digest of a sealed message, 32 bytes. With `encryption.report`, each sealed message has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::bytes::DIGEST_PATTERN)))]
    pub frank: Option<Box<Bytes>>,
}

/// The target of a message: a user or a conversation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Target {
    /// The direct conversation with this user, which the first message creates.
    #[serde(rename = "to")]
    #[cfg_attr(feature = "schema", schemars(extend("not" = {"required": ["conversation_id"]})))]
    User(UserId),
    /// A conversation that the user is a member of.
    #[serde(rename = "conversation_id")]
    #[cfg_attr(feature = "schema", schemars(extend("not" = {"required": ["to"]})))]
    Conversation(ConversationId),
}

/// The message is stored: in the history, in the recipient's inbox, and pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SendResult {
    pub conversation_id: ConversationId,
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub seq: Seq,
    pub message_id: MessageId,
    pub sent_at: Timestamp,
    /// The message had been stored before, under the same `client_msg_id`.
    pub duplicate: bool,
    /// Only of an edit: which version of the text it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 2)))]
    pub version: Option<u64>,
    /// Only if the `send` had `read`: the user's read mark. If it is below `read`, the client sends a `read`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_seq: Option<Seq>,
    /// The message as it is stored, if the team's filter rewrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<Message>>,
}

impl SendRequest {
    pub(crate) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let target = Target::parse(fields)?;
        let client_msg_id = fields.required("client_msg_id", ClientMsgId::parse)?;
        let read = fields.seq("read", 1)?;
        let kind = fields.required("kind", |kind| {
            Kind::of_request(kind)
                .ok_or("must be \"text\", \"image\", \"file\", \"voice\", \"sealed\" or \"x-\" and a name")
        })?;
        if kind == Kind::Sealed {
            return Ok(Self { read, ..Self::sealed(fields, target, client_msg_id)? });
        }
        for field in ["epoch", "silent", "frank"] {
            if fields.get(field).is_some() {
                return Err(fields.wrong(field, "must be left out unless kind is \"sealed\""));
            }
        }
        let media = Media::parse(fields, &kind)?;
        let (body, data) = said(fields, &kind, if media.is_some() { Empty::Allowed } else { Empty::Refused })?;
        let reply_to = fields.seq("reply_to", 1)?;
        let mentions = fields.users("mentions", 0, MENTIONS_MAX)?.unwrap_or_default();
        if !mentions_fit(&mentions) {
            return Err(Refusal::TooLarge {
                field: "mentions",
                problem: "must be at most 3 KiB once written as JSON".into(),
            });
        }
        let media = media.map(Attached::Clear).map(Box::new);
        let (epoch, silent, frank) = (None, false, None);
        Ok(Self { target, client_msg_id, kind, body, media, data, reply_to, read, mentions, epoch, silent, frank })
    }

    /// All that a message is about is in its bytes.
    fn sealed(fields: &Fields, target: Target, client_msg_id: ClientMsgId) -> Result<Self, Refusal> {
        for field in ["reply_to", "mentions", "data"] {
            if fields.get(field).is_some() {
                return Err(fields.wrong(field, "must be left out: kind is \"sealed\""));
            }
        }
        let epoch = fields.integer("epoch", 1, EPOCH_MAX)?.ok_or_else(|| fields.missing("epoch"))?;
        let silent = fields.boolean("silent")?.unwrap_or_default();
        fields.bytes("body", SEALED_BYTES_MAX)?;
        Ok(Self {
            target,
            client_msg_id,
            kind: Kind::Sealed,
            body: fields.text("body")?.to_owned(),
            media: SealedMedia::parse(fields)?.map(Attached::Sealed).map(Box::new),
            data: None,
            reply_to: None,
            read: None,
            mentions: vec![],
            epoch: Some(epoch),
            silent,
            frank: frank(fields)?.map(Box::new),
        })
    }
}

impl Target {
    pub(super) fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let to = fields.optional("to", UserId::parse)?;
        let conversation = fields.optional("conversation_id", ConversationId::parse)?;
        match (to, conversation) {
            (Some(user), None) => Ok(Self::User(user)),
            (None, Some(conversation)) => Ok(Self::Conversation(conversation)),
            (Some(_), Some(_)) => Err(Refusal::bad_request("to", "must be left out if conversation_id is set")),
            (None, None) => Err(Refusal::bad_request("to", "is missing; set it to a user, or set conversation_id")),
        }
    }
}

/// Whether there may be no text.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Empty {
    Allowed,
    Refused,
}

/// Reads the text and the data of a message. The text of an own kind is what clients show that do not know the kind.
pub(crate) fn said(fields: &Fields, kind: &Kind, empty: Empty) -> Result<(String, Option<Data>), Refusal> {
    let is_own = matches!(kind, Kind::Own(_));
    let is_silent = is_own && !kind.counts();
    let body = if is_silent && fields.get("body").is_none() {
        String::new()
    } else {
        body(fields, if is_own { Empty::Allowed } else { empty })?
    };
    let data = Data::parse(fields, &body)?;
    check_own(kind, &body, data.as_ref())?;
    Ok((body, data))
}

/// Checks what an own kind needs.
///
/// # Errors
/// `bad_request`.
pub fn check_own(kind: &Kind, body: &str, data: Option<&Data>) -> Result<(), Refusal> {
    if !matches!(kind, Kind::Own(_)) {
        return Ok(());
    }
    if !kind.counts() && !body.is_empty() {
        return Err(Refusal::bad_request("body", "must be empty: the kind is silent"));
    }
    data.map(|_| ()).ok_or_else(|| Refusal::bad_request("data", "is missing"))
}

/// The text of a message, or its caption.
pub(crate) fn body(fields: &Fields, empty: Empty) -> Result<String, Refusal> {
    let body = fields.text("body")?;
    if body.is_empty() && empty == Empty::Refused {
        return Err(fields.wrong("body", "must not be empty"));
    }
    if !body_fits(body) {
        return Err(Refusal::TooLarge {
            field: "body",
            problem: "must be at most 16 KiB of UTF-8, and at most 24 KiB once written as JSON".into(),
        });
    }
    Ok(body.to_owned())
}
