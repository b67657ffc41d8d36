//! The inputs and outputs of a turn: connections, uploads and the app's calls.

use std::collections::HashMap;
use std::time::Duration;

use pigeonhole_core::chat::{Load, LoadId, Zone};
use pigeonhole_core::{Ask, Carry, Input, Outgoing, Output, PutEnd, PutNews, Queued};
use serde::de::DeserializeOwned;
use serde_json::json;
use wire::{ClientMsgId, ConversationId, InvalidId, Request, Seq, Timestamp};

use crate::event;
use crate::fault::Fault;

/// An input. Requests, frames and entries are JSON, in the form of `docs/protocol.md`.
#[derive(Clone, Debug, uniffi::Enum)]
pub enum EdgeInput {
    /// The connection is open.
    Opened {
        /// Its number, from [`EdgeOutput::Dial`].
        link: u64,
        /// How long its token is valid, as far as known.
        token_left_ms: Option<u64>,
    },
    /// The connection has ended or could not be opened, and not because of [`EdgeOutput::Close`].
    Ended {
        /// Its number.
        link: u64,
        /// Why.
        why: Why,
    },
    /// A frame of the server.
    Frame {
        /// The connection's number.
        link: u64,
        /// The frame.
        text: String,
    },
    /// The app is in the foreground again, or the network has changed.
    Wake,
    /// The connections are about to be closed: reports what waits to be reported.
    Closing,
    /// The app sends a message or a change. When the turn returns, the store has it. The result comes as
    /// [`EdgeOutput::Answered`] or [`EdgeOutput::Refused`] when the server has replied.
    Keep {
        /// The caller's number for the result.
        ask: u64,
        /// `{client_msg_id, target: {to}, body}`, or `{client_msg_id, edit: {conversation_id, seq, body}}` with any
        /// other action that the server stores.
        request: String,
    },
    /// The app requests something that is repeated over reconnects, and not over restarts.
    Ask {
        /// The caller's number for the result.
        ask: u64,
        /// The request, with its `action` and without an `id`.
        request: String,
    },
    /// The user has read the conversation up to `seq`.
    Read {
        /// The caller's number for the result.
        ask: u64,
        /// The conversation.
        conversation_id: String,
        /// Up to here.
        seq: u64,
    },
    /// Subscribes to a channel.
    Watch {
        /// The caller's number for the result.
        ask: u64,
        /// The channel.
        conversation_id: String,
        /// Up to here, the app has the channel. `None`: entries begin above the current last one.
        after_seq: Option<u64>,
    },
    /// Ends a subscription. An invalid id changes nothing.
    Unwatch {
        /// The channel.
        conversation_id: String,
    },
    /// The user is typing. An invalid id changes nothing.
    Typing {
        /// The conversation.
        conversation_id: String,
    },
    /// The app has finished with all messages of the conversation up to `seq`. An invalid id changes nothing.
    Done {
        /// The conversation.
        conversation_id: String,
        /// Up to here.
        seq: u64,
    },
    /// Stops the upload of a message's file. The result is `true` if it came in time.
    Cancel {
        /// The caller's number for the result.
        ask: u64,
        /// The message.
        client_msg_id: String,
    },
    /// The app shows a view, as JSON: `{"chats": {archived, kinds, words}}`, where each field may be left out,
    /// `{"messages": {with, at}}` or `{"members": conversation_id}`. `with` is `{"to": user}` or `{"conversation_id": id}`;
    /// `at` is `"newest"`, `"first_unread"` or `{"seq": n}`. Needs an engine that keeps messages. Invalid JSON opens nothing.
    Open {
        /// The app's number for it. A view with the same number is replaced.
        view: u64,
        /// The content.
        of: String,
    },
    /// The user acts in a view, as JSON: `"older"`, `"newer"`, `{"jump": at}`, `{"seen": key}` or `{"filter": chats}`.
    Act {
        /// The view.
        view: u64,
        /// The act.
        act: String,
    },
    /// The app no longer shows a view.
    CloseView {
        /// The view.
        view: u64,
    },
    /// The user has read all of a conversation, on the screen or not.
    ReadAll {
        /// The conversation.
        conversation_id: String,
    },
    /// The user has begun a text, or sent or removed it.
    Draft {
        /// Where, as `with` of a view.
        target: String,
        /// `{body, reply_to, mentions}`, or `None`.
        draft: Option<String>,
    },
    /// The file of a message's attachment is on this device. The engine removes it when the message is gone.
    Place {
        /// The conversation.
        conversation_id: String,
        /// The message.
        seq: u64,
        /// The file. `None`: it no longer exists.
        path: Option<String>,
    },
    /// The user discards a request that the server refused for good.
    Dismiss {
        /// The request.
        client_msg_id: String,
    },
    /// The user tries such a request again. The result is as that of [`Keep`](Self::Keep).
    Again {
        /// The caller's number for the result.
        ask: u64,
        /// The request.
        client_msg_id: String,
    },
    /// The user decides about keys, as JSON: `{"verify": user}`, `{"accept": user}`, `{"reset": user}`,
    /// `{"reset_group": id}` or `{"remove": device}`. Invalid JSON changes nothing.
    Trust {
        /// The decision.
        trust: String,
    },
    /// The user's time zone, at the start and whenever it changes, for the days of views.
    Zone {
        /// The offsets from UTC in seconds, each by the time in milliseconds from which it holds.
        offsets: HashMap<i64, i32>,
    },
    /// Bytes of a PUT that have been sent.
    PutSent {
        /// The message.
        client_msg_id: String,
        /// How many.
        bytes: u64,
    },
    /// The end of an [`EdgeOutput::Post`].
    Posted {
        /// The connection's number.
        link: u64,
        /// The number of the request.
        request: u64,
        /// HTTP's status. `None`: there was no response.
        status: Option<u16>,
        /// The body of the response.
        body: String,
    },
    /// The end of an [`EdgeOutput::Carry`].
    Carried {
        /// Its number.
        carry: u64,
        /// The bytes that have come; none after a PUT with a status of 2xx, or 412. `None`: it failed.
        bytes: Option<Vec<u8>>,
    },
    /// A PUT has ended.
    PutEnded {
        /// The message.
        client_msg_id: String,
        /// HTTP's status. `None`: there was no response.
        status: Option<u16>,
        /// The reason why the file can't be read, if it can't.
        unreadable: Option<String>,
    },
}

/// The reason why there is no connection.
#[derive(Clone, Debug, uniffi::Enum)]
pub enum Why {
    /// The server closed it.
    Closed,
    /// The connection broke.
    Lost {
        /// The platform's words.
        reason: String,
    },
    /// The store could not be written, so it was closed.
    Store {
        /// The fault's reason.
        reason: String,
    },
    /// The server can't be reached.
    Unreachable {
        /// The platform's words.
        reason: String,
    },
    /// The server refused it with an HTTP status. 401 and 403 refuse the token.
    Status {
        /// HTTP's status code.
        status: u16,
    },
    /// The app has no token.
    NoToken {
        /// The app's words.
        reason: String,
    },
    /// The app's token is for another user.
    WrongUser {
        /// Both users.
        reason: String,
    },
}

impl EdgeInput {
    /// Returns the number of the caller that waits.
    pub(crate) fn ask(&self) -> Option<u64> {
        match self {
            Self::Keep { ask, .. }
            | Self::Ask { ask, .. }
            | Self::Read { ask, .. }
            | Self::Watch { ask, .. }
            | Self::Again { ask, .. }
            | Self::Cancel { ask, .. } => Some(*ask),
            Self::Opened { .. }
            | Self::Ended { .. }
            | Self::Frame { .. }
            | Self::Posted { .. }
            | Self::Wake
            | Self::Closing
            | Self::Unwatch { .. }
            | Self::Typing { .. }
            | Self::Done { .. }
            | Self::Open { .. }
            | Self::Act { .. }
            | Self::CloseView { .. }
            | Self::ReadAll { .. }
            | Self::Draft { .. }
            | Self::Place { .. }
            | Self::Dismiss { .. }
            | Self::Trust { .. }
            | Self::Zone { .. }
            | Self::PutSent { .. }
            | Self::PutEnded { .. }
            | Self::Carried { .. } => None,
        }
    }

    pub(crate) fn read(self) -> Result<Input, Fault> {
        Ok(match self {
            Self::Opened { link, token_left_ms } => {
                Input::Opened { link, token_left: token_left_ms.map(Duration::from_millis) }
            }
            Self::Ended { link, why } => Input::Ended { link, why: why.into() },
            Self::Frame { link, text } => Input::Frame { link, text },
            Self::Posted { link, request, status, body } => Input::Posted { link, request, status, body },
            Self::Wake => Input::Wake,
            Self::Closing => Input::Closing,
            Self::Keep { ask, request } => Input::Ask { ask, what: Ask::Keep(queued(&request)?) },
            Self::Ask { ask, request } => {
                let request = Request::parse(&request).map_err(|rejected| rejected.refusal)?;
                Input::Ask { ask, what: Ask::Question(request.action) }
            }
            Self::Read { ask, conversation_id, seq } => {
                let (conversation_id, seq) = (conversation(&conversation_id)?, number(seq)?);
                Input::Ask { ask, what: Ask::Read { conversation_id, seq } }
            }
            Self::Watch { ask, conversation_id, after_seq } => {
                let (conversation_id, after) = (conversation(&conversation_id)?, after_seq.map(number).transpose()?);
                Input::Ask { ask, what: Ask::Watch { conversation_id, after } }
            }
            Self::Cancel { ask, client_msg_id } => Input::Ask { ask, what: Ask::Cancel(message(&client_msg_id)?) },
            Self::Unwatch { conversation_id } => Input::Unwatch(conversation(&conversation_id)?),
            Self::Typing { conversation_id } => Input::Typing(conversation(&conversation_id)?),
            Self::Done { conversation_id, seq } => {
                Input::Handled { conversation_id: conversation(&conversation_id)?, seq: number(seq)? }
            }
            Self::Open { view, of } => Input::Open { view, of: read_json(&of)? },
            Self::Act { view, act } => Input::Act { view, act: read_json(&act)? },
            Self::CloseView { view } => Input::Close(view),
            Self::ReadAll { conversation_id } => Input::ReadAll(conversation(&conversation_id)?),
            Self::Draft { target, draft } => {
                let (target, draft) = (read_json(&target)?, draft.map(|draft| read_json(&draft)).transpose()?);
                Input::Draft { target, draft }
            }
            Self::Place { conversation_id, seq, path } => {
                Input::Place { conversation_id: conversation(&conversation_id)?, seq: number(seq)?, path }
            }
            Self::Dismiss { client_msg_id } => Input::Dismiss(message(&client_msg_id)?),
            Self::Again { ask, client_msg_id } => Input::Ask { ask, what: Ask::Again(message(&client_msg_id)?) },
            Self::Trust { trust } => Input::Trust(read_json(&trust)?),
            Self::Zone { offsets } => {
                let offsets = offsets.into_iter().map(|(from, seconds)| (Timestamp::from_millis(from), seconds));
                Input::Zone(Zone::new(offsets.collect()))
            }
            Self::PutSent { client_msg_id, bytes } => {
                Input::Put { client_msg_id: message(&client_msg_id)?, news: PutNews::Sent(bytes) }
            }
            Self::Carried { carry, bytes } => Input::Carried { carry, bytes },
            Self::PutEnded { client_msg_id, status, unreadable } => {
                let without = || unreadable.map_or(PutEnd::Lost, PutEnd::Unreadable);
                let end = status.map_or_else(without, PutEnd::Status);
                Input::Put { client_msg_id: message(&client_msg_id)?, news: PutNews::Ended(end) }
            }
        })
    }
}

fn queued(request: &str) -> Result<Queued, Fault> {
    let queued: Queued = serde_json::from_str(request).map_err(|error| Fault::new("bad_request", error.to_string()))?;
    // Any other request was parsed as the server parses it.
    match &queued.outgoing {
        Outgoing::Message { target, draft, media: Some(upload) } => draft.check_beside_media(&upload.about, target)?,
        Outgoing::Message { target, draft, media: None } => draft.check(target)?,
        Outgoing::Request(_) => {}
    }
    Ok(queued)
}

pub(crate) fn read_json<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::new("bad_request", error.to_string()))
}

pub(crate) fn conversation(id: &str) -> Result<ConversationId, Fault> {
    ConversationId::parse(id).map_err(|error| invalid("conversation_id", &error))
}

fn message(id: &str) -> Result<ClientMsgId, Fault> {
    ClientMsgId::parse(id).map_err(|error| invalid("client_msg_id", &error))
}

pub(crate) fn number(seq: u64) -> Result<Seq, Fault> {
    Seq::new(seq).ok_or_else(|| Fault::new("bad_request", "seq: must be the number of an entry"))
}

fn invalid(field: &str, error: &InvalidId) -> Fault {
    Fault::new("bad_request", format!("{field}: {error}"))
}

impl From<Why> for pigeonhole_core::Why {
    fn from(why: Why) -> Self {
        match why {
            Why::Closed => Self::Closed,
            Why::Lost { reason } => Self::Lost(reason),
            Why::Store { reason } => Self::Store(reason),
            Why::Unreachable { reason } => Self::Unreachable(reason),
            Why::Status { status: status @ (401 | 403) } => Self::TokenRefused { status },
            Why::Status { status } => Self::Refused { status },
            Why::NoToken { reason } => Self::NoToken(reason),
            Why::WrongUser { reason } => Self::WrongUser(reason),
        }
    }
}

/// The token that a connection takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, uniffi::Enum)]
pub enum TokenNeed {
    /// A cached one will do.
    Connect,
    /// The server refused the last one.
    Refused,
    /// The last one has expired, or is about to.
    Expired,
}

impl From<pigeonhole_core::TokenNeed> for TokenNeed {
    fn from(need: pigeonhole_core::TokenNeed) -> Self {
        match need {
            pigeonhole_core::TokenNeed::Refused(_) => Self::Refused,
            pigeonhole_core::TokenNeed::Expired => Self::Expired,
            // `TokenNeed` may get further cases.
            _ => Self::Connect,
        }
    }
}

/// Something to do, in this order.
#[derive(Clone, Debug, uniffi::Enum)]
pub enum EdgeOutput {
    /// Open a connection.
    Dial {
        /// Its number.
        link: u64,
        /// The token that it takes.
        need: TokenNeed,
    },
    /// Send a frame.
    Send {
        /// On this connection.
        link: u64,
        /// The frame.
        text: String,
    },
    /// Send a frame with HTTP POST to `/v1/{action}`, if the setup has `http`. After 30 s, the caller gives up.
    Post {
        /// The connection whose token the request has.
        link: u64,
        /// The number of the request.
        request: u64,
        /// The action.
        action: String,
        /// The frame.
        text: String,
    },
    /// Close a connection, or stop opening it.
    Close {
        /// Its number.
        link: u64,
    },
    /// Upload bytes of a message's file with HTTP PUT.
    Put {
        /// The message.
        client_msg_id: String,
        /// The file.
        path: String,
        /// The first byte.
        offset: u64,
        /// How many bytes there are.
        bytes: u64,
        /// Where they go.
        url: String,
        /// The headers of the request, without others.
        headers: HashMap<String, String>,
        /// The bytes are those of [`sealed_part`](crate::sealed_part) with this value. `None`: those of the file.
        sealed: Option<String>,
    },
    /// Stop the uploads of this message.
    Abort {
        /// The message.
        client_msg_id: String,
    },
    /// Carry a file of the encryption: HTTP PUT of `put`, or HTTP GET without.
    Carry {
        /// Its number.
        carry: u64,
        /// Where to.
        url: String,
        /// The headers of the request, without others.
        headers: HashMap<String, String>,
        /// The bytes to put.
        put: Option<Vec<u8>>,
        /// How many bytes there are. More are a failure.
        bytes: u64,
    },
    /// Give the app a result.
    Answered {
        /// The caller's number.
        ask: u64,
        /// The `result` of the server's reply, as JSON.
        result: String,
    },
    /// Tell the app that a request has failed for good.
    Refused {
        /// The caller's number.
        ask: u64,
        /// As in [`Fault`].
        code: String,
        /// A text for developers.
        reason: String,
    },
    /// Give the app an event. After `{"message": …}`, the app returns [`EdgeInput::Done`].
    Event {
        /// An object with one field that names the event. `README.md` has the list.
        event: String,
    },
    /// Draw this in a view, in place of what it showed before.
    Show {
        /// The view.
        view: u64,
        /// `{"chats": …}`, `{"messages": …}` or `{"members": …}`. `README.md` has the fields.
        shown: String,
    },
}

impl EdgeOutput {
    pub(crate) fn refused(ask: u64, fault: Fault) -> Self {
        let Fault::Failed { code, reason, .. } = fault;
        Self::Refused { ask, code, reason }
    }

    /// Returns the output for the caller. The engine carries out a load itself.
    pub(crate) fn of(output: Output) -> Result<Self, (LoadId, Load)> {
        Ok(match output {
            Output::Load { load, what } => return Err((load, what)),
            Output::Show { view, shown } => Self::Show { view, shown: json!(shown).to_string() },
            Output::Dial { link, need } => Self::Dial { link, need: need.into() },
            Output::Send { link, text } => Self::Send { link, text },
            Output::Post { link, request, action, text } => {
                Self::Post { link, request, action: action.to_owned(), text }
            }
            Output::Close { link } => Self::Close { link },
            Output::Put { client_msg_id, put } => Self::Put {
                client_msg_id: client_msg_id.as_str().to_owned(),
                path: put.path.to_string_lossy().into_owned(),
                offset: put.offset,
                bytes: put.bytes,
                url: put.url,
                headers: put.headers.into_iter().collect(),
                sealed: put.sealed.map(|sealed| json!(sealed).to_string()),
            },
            Output::Abort { client_msg_id } => Self::Abort { client_msg_id: client_msg_id.as_str().to_owned() },
            Output::Carry { carry, what: Carry::Put { url, headers, bytes } } => Self::Carry {
                carry,
                url,
                headers: headers.into_iter().collect(),
                bytes: bytes.len() as u64,
                put: Some(bytes),
            },
            Output::Carry { carry, what: Carry::Get { url, bytes } } => {
                Self::Carry { carry, url, headers: HashMap::new(), put: None, bytes }
            }
            Output::Answer { ask, result: Ok(reply) } => match serde_json::to_string(&reply) {
                Ok(result) => Self::Answered { ask, result },
                Err(error) => Self::refused(ask, Fault::new("unreadable", error.to_string())),
            },
            Output::Answer { ask, result: Err(error) } => Self::refused(ask, error.into()),
            Output::Cancelled { ask, in_time } => Self::Answered { ask, result: in_time.to_string() },
            Output::Tell(event) => Self::Event { event: event::written(&event).to_string() },
        })
    }
}

/// The result of a turn.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Turn {
    /// The caller carries these out now. The store has all that must survive them.
    pub outputs: Vec<EdgeOutput>,
    /// When the next turn is due without another input, by the clock of `now`.
    pub wake_at: Option<u64>,
}
