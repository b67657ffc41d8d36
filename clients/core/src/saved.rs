//! The data that survives a restart: the requests without a reply, and the mark of each conversation.

use std::collections::{BTreeMap, VecDeque};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wire::{Action, ClientMsgId, ConversationId, EditRequest, Kind, MediaId, Request, Seq, Target, Timestamp};

use crate::Error;
use crate::group::Draft;
use crate::media::Upload;

/// A request without a reply: a message, a change of one, or a change of a group.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "Kept", into = "Kept")]
pub struct Queued {
    /// The idempotency key: the same at each try, so that the server stores the request once.
    pub client_msg_id: ClientMsgId,
    /// The request.
    pub outgoing: Outgoing,
    /// When the user made it, by this device's clock. The client sets it if it is zero.
    pub made_at: Timestamp,
}

impl Queued {
    /// Returns whether the user must see this refusal. A message that the user has taken back goes, and a change of a
    /// message that is deleted: the message shows that itself.
    pub(crate) fn shows_refusal(&self, error: &Error) -> bool {
        let is_change = !matches!(self.outgoing, Outgoing::Message { .. });
        // No view shows a silent message.
        let is_silent = self.outgoing.kind().is_some_and(|kind| !kind.counts());
        *error != Error::Cancelled && !is_silent && !(is_change && error.code() == "gone")
    }
}

/// A request of the app that the server stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A message.
    Message {
        /// The recipient.
        target: Target,
        /// The content.
        draft: Draft,
        /// The attachment.
        media: Option<Box<Upload>>,
    },
    /// Any other request, as it is sent.
    Request(Action),
}

/// How the outbox is written: a message, or the fields of another request under its action's name.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Kept {
    Message {
        client_msg_id: ClientMsgId,
        #[serde(default, skip_serializing_if = "is_unknown")]
        made_at: Timestamp,
        target: Target,
        #[serde(flatten)]
        draft: Draft,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media: Option<Box<Upload>>,
    },
    Request {
        client_msg_id: ClientMsgId,
        #[serde(default, skip_serializing_if = "is_unknown")]
        made_at: Timestamp,
        #[serde(flatten)]
        by_action: BTreeMap<String, Map<String, Value>>,
    },
}

impl From<Queued> for Kept {
    fn from(Queued { client_msg_id, outgoing, made_at }: Queued) -> Self {
        match outgoing {
            Outgoing::Message { target, draft, media } => {
                Self::Message { client_msg_id, made_at, target, draft, media }
            }
            Outgoing::Request(action) => {
                let mut fields = fields_of(&action);
                fields.retain(|name, _| name != "action" && name != "client_msg_id");
                let by_action = BTreeMap::from([(action.name().to_owned(), fields)]);
                Self::Request { client_msg_id, made_at, by_action }
            }
        }
    }
}

impl TryFrom<Kept> for Queued {
    type Error = String;

    fn try_from(kept: Kept) -> Result<Self, String> {
        match kept {
            Kept::Message { client_msg_id, made_at, target, draft, media } => {
                Ok(Self { client_msg_id, outgoing: Outgoing::Message { target, draft, media }, made_at })
            }
            Kept::Request { client_msg_id, made_at, by_action } => {
                let (action, mut fields) = by_action.into_iter().next().ok_or("names no action")?;
                fields.insert("action".to_owned(), action.into());
                fields.insert("client_msg_id".to_owned(), client_msg_id.as_str().into());
                let request = Request::parse(&Value::Object(fields).to_string());
                let request = request.map_err(|rejected| format!("is no request: {:?}", rejected.refusal))?;
                Ok(Self { client_msg_id, outgoing: Outgoing::Request(request.action), made_at })
            }
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "Serde passes a reference")]
fn is_unknown(made_at: &Timestamp) -> bool {
    *made_at == Timestamp::default()
}

/// By their names on the wire, so that a new action needs no line of its own here.
fn fields_of(action: &Action) -> Map<String, Value> {
    match serde_json::to_value(action) {
        Ok(Value::Object(fields)) => fields,
        // An action is an object.
        _ => Map::new(),
    }
}

impl Outgoing {
    /// Returns a message with these parts.
    pub fn message(target: Target, draft: Draft, media: Option<Upload>) -> Self {
        Self::Message { target, draft, media: media.map(Box::new) }
    }

    /// Returns the attachment, if the request is a message that has one.
    pub fn upload(&self) -> Option<&Upload> {
        if let Self::Message { media, .. } = self { media.as_deref() } else { None }
    }

    pub(crate) fn upload_mut(&mut self) -> Option<&mut Upload> {
        if let Self::Message { media, .. } = self { media.as_deref_mut() } else { None }
    }

    /// Sets the server's id of the attachment, if the request is a message that has one.
    pub fn set_media_id(&mut self, media_id: Option<&MediaId>) {
        if let Some(upload) = self.upload_mut() {
            upload.media_id = media_id.cloned();
        }
    }

    /// Returns the conversation or the user. `None`: a group that is not created yet.
    pub fn target(&self) -> Option<Target> {
        match self {
            Self::Message { target, .. } => Some(target.clone()),
            Self::Request(action) => field::<ConversationId>(action, "conversation_id").map(Target::Conversation),
        }
    }

    /// Returns the kind of the entry that a message becomes, if the request is one.
    pub(crate) fn kind(&self) -> Option<Kind> {
        let Self::Message { draft, media, .. } = self else { return None };
        let attached = || media.as_ref().map_or(Kind::Text, |upload| upload.kind.clone());
        Some(draft.kind.clone().unwrap_or_else(attached))
    }

    /// For a change of a message, returns the `seq` of its target.
    pub fn target_seq(&self) -> Option<Seq> {
        if let Self::Request(action) = self { field(action, "seq") } else { None }
    }

    /// Returns the text, if any.
    pub fn body(&self) -> Option<&str> {
        match self {
            Self::Message { draft: Draft { body, .. }, .. } | Self::Request(Action::Edit(EditRequest { body, .. })) => {
                Some(body)
            }
            Self::Request(_) => None,
        }
    }
}

fn field<T: DeserializeOwned>(action: &Action, name: &str) -> Option<T> {
    serde_json::from_value(fields_of(action).remove(name)?).ok()
}

/// One thing to remember.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a queued message is the most frequent change")]
pub enum StorageChange {
    /// This message or change waits, after those that wait already.
    Queued(Queued),
    /// The request with this `client_msg_id` has its reply.
    Done(ClientMsgId),
    /// The server's id for the attachment of the message with this `client_msg_id`, from now on.
    Uploading {
        /// The message.
        client_msg_id: ClientMsgId,
        /// `None`: the client must upload the file again.
        media_id: Option<MediaId>,
    },
    /// The app is done with everything of this conversation up to here. Only rises.
    Held {
        /// The conversation.
        conversation_id: ConversationId,
        /// Up to here, this one included.
        seq: Seq,
    },
    /// A time of the server's, up to which nothing is missing.
    CaughtUp(Timestamp),
    /// The server refused the request with this `client_msg_id` for good. The request stays until the user discards it or
    /// tries again.
    Refused {
        /// The request.
        client_msg_id: ClientMsgId,
        /// The code of the refusal.
        code: String,
    },
    /// The whole chat list has come.
    Listed,
    /// The user has read the conversation up to here, and the server does not know it yet.
    Read {
        /// The conversation.
        conversation_id: ConversationId,
        /// Up to here, this one included.
        seq: Seq,
    },
    /// The server knows the read mark up to here, or refused it.
    ReadTold {
        /// The conversation.
        conversation_id: ConversationId,
        /// Up to here, this one included.
        seq: Seq,
    },
}

/// All that is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Messages and changes that wait, oldest first.
    pub outbox: VecDeque<Queued>,
    /// For each conversation, the last seq that the app is done with.
    pub held: BTreeMap<ConversationId, Seq>,
    /// The last [`StorageChange::CaughtUp`].
    pub caught_up: Option<Timestamp>,
    /// Requests that were refused for good, oldest first, with the codes.
    pub refused: Vec<(Queued, String)>,
    /// The whole chat list has come.
    pub listed: bool,
    /// The user's read marks that the server does not know yet.
    pub reads: BTreeMap<ConversationId, Seq>,
    /// The rows of the end-to-end encryption, by [`Write::Sealing`](crate::Write::Sealing).
    pub sealing: BTreeMap<String, Vec<u8>>,
}

impl Saved {
    /// Brings one change in.
    pub fn apply(&mut self, change: &StorageChange) {
        match change {
            StorageChange::Queued(queued) => self.outbox.push_back(queued.clone()),
            StorageChange::Done(id) => {
                // Nearly always the first one.
                if let Some(at) = self.outbox.iter().position(|queued| queued.client_msg_id == *id) {
                    self.outbox.remove(at);
                } else {
                    self.refused.retain(|(queued, _)| queued.client_msg_id != *id);
                }
            }
            StorageChange::Refused { client_msg_id: id, code } => {
                if let Some(at) = self.outbox.iter().position(|queued| queued.client_msg_id == *id) {
                    self.refused.extend(self.outbox.remove(at).map(|queued| (queued, code.clone())));
                }
            }
            StorageChange::Listed => self.listed = true,
            StorageChange::Uploading { client_msg_id, media_id } => {
                let queued = self.outbox.iter_mut().find(|queued| queued.client_msg_id == *client_msg_id);
                if let Some(queued) = queued {
                    queued.outgoing.set_media_id(media_id.as_ref());
                }
            }
            StorageChange::Held { conversation_id, seq } => {
                let held = self.held.entry(conversation_id.clone()).or_default();
                *held = (*held).max(*seq);
            }
            StorageChange::CaughtUp(at) => self.caught_up = Some(*at),
            StorageChange::Read { conversation_id, seq } => {
                let read = self.reads.entry(conversation_id.clone()).or_default();
                *read = (*read).max(*seq);
            }
            StorageChange::ReadTold { conversation_id, seq } => {
                if self.reads.get(conversation_id).is_some_and(|read| read <= seq) {
                    self.reads.remove(conversation_id);
                }
            }
        }
    }
}
