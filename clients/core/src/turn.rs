//! The inputs of a turn of the core, and its result.

use std::time::Duration;

use pigeonhole_sealing::Keyring;
use serde::Deserialize;
use wire::{Action, ClientMsgId, ConversationId, DeviceId, Reply, Seq, Target, UserId};

use crate::chat::{Act, Found, Load, LoadId, Shown, ViewId, ViewOf, Zone};
use crate::group::Draft;
use crate::media::{Carry, CarryId, Put, PutNews};
use crate::saved::{Queued, Saved};
use crate::{Error, Event, Moment, Timing, TokenNeed, Why, Write};

/// One connection, dialled or open. Later ones have higher numbers.
pub type LinkId = u64;

/// The number that the caller gives to a request of the app, and that its answer has.
pub type AskId = u64;

/// How a [`Core`](crate::Core) begins.
#[derive(Debug)]
pub struct Setup {
    /// The user.
    pub me: UserId,
    /// All times for which the client waits.
    pub timing: Timing,
    /// Where received entries are kept.
    pub keeper: Keeper,
    /// The data that an earlier run saved.
    pub saved: Saved,
    /// The end-to-end encryption of direct conversations and groups, from [`Keys::keyring`](crate::Keys::keyring). `None`: all
    /// messages leave in the clear.
    pub keyring: Option<Box<Keyring>>,
}

/// Where received entries are kept. The client acknowledges an entry only after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// In the store. The turn that receives an entry writes it, and an app reads its messages from the store.
    Store,
    /// In the app, as a feed of events. [`Input::Handled`] reports that the app has finished with an entry. Until then,
    /// the entry comes again after a restart.
    App,
}

/// An input of a turn.
#[derive(Clone, Debug)]
pub enum Input {
    /// A connection is open.
    Opened {
        /// Its number.
        link: LinkId,
        /// How long the token is valid, as far as can be read from it.
        token_left: Option<Duration>,
    },
    /// A connection has ended and was not closed by [`Output::Close`], or it could not be opened.
    Ended {
        /// Its number.
        link: LinkId,
        /// Why.
        why: Why,
    },
    /// A frame, from a connection that is open or was until now.
    Frame {
        /// The connection's number.
        link: LinkId,
        /// The frame.
        text: String,
    },
    /// The network has changed, or the app is in the foreground again. The client retries now whatever waits.
    Wake,
    /// The connections are about to be closed. All marks are reported, however recent the last report.
    Closing,
    /// At the start: the caller can carry out an [`Output::Post`]. Without it, all requests go by the connections.
    Http,
    /// The end of an [`Output::Post`].
    Posted {
        /// The connection's number.
        link: LinkId,
        /// The number of the request.
        request: u64,
        /// HTTP's status. `None`: there was no response.
        status: Option<u16>,
        /// The body of the response.
        body: String,
    },
    /// News of an [`Output::Put`].
    Put {
        /// The message.
        client_msg_id: ClientMsgId,
        /// The news.
        news: PutNews,
    },
    /// The end of an [`Output::Carry`].
    Carried {
        /// Its number.
        carry: CarryId,
        /// The bytes that have come, none after a PUT. `None`: it failed.
        bytes: Option<Vec<u8>>,
    },
    /// A request of the app.
    Ask {
        /// Its number.
        ask: AskId,
        /// The request.
        what: Ask,
    },
    /// The app has finished with everything of the conversation up to here, for [`Keeper::App`].
    Handled {
        /// The conversation.
        conversation_id: ConversationId,
        /// Up to here, this one included.
        seq: Seq,
    },
    /// The user is typing in this conversation.
    Typing(ConversationId),
    /// The app no longer shows this channel.
    Unwatch(ConversationId),
    /// The app shows a view. Each [`Output::Show`] has its content, for as long as the view is open. Views need
    /// [`Keeper::Store`]. The view of a channel subscribes to it. The view of a direct conversation watches the presence
    /// of its peer, in place of the app's own `presence` with `watch`.
    Open {
        /// The number that the app gives it. A view with the same number is replaced.
        view: ViewId,
        /// The content.
        of: ViewOf,
    },
    /// The user acts in a view.
    Act {
        /// The view.
        view: ViewId,
        /// The act.
        act: Act,
    },
    /// The app no longer shows the view.
    Close(ViewId),
    /// The result of an [`Output::Load`].
    Loaded {
        /// Its number.
        load: LoadId,
        /// The result.
        found: Box<Found>,
    },
    /// The user has read everything of a conversation, although some of it may never have come to this device.
    ReadAll(ConversationId),
    /// The user has begun a text, or `None`: it was sent or removed.
    Draft {
        /// Where.
        target: Target,
        /// The text.
        draft: Option<Draft>,
    },
    /// The file of a message's attachment is on this device. Items of views have its path. The store removes the file
    /// when the message is deleted or no longer kept.
    Place {
        /// The conversation.
        conversation_id: ConversationId,
        /// The message.
        seq: Seq,
        /// `None`: the file no longer exists.
        path: Option<String>,
    },
    /// The user discards a request that the server refused for good.
    Dismiss(ClientMsgId),
    /// The user decides about the keys of another user, or of the user's own devices.
    Trust(Trust),
    /// The user's time zone, at the start and whenever it changes. Without it, days are those of UTC.
    Zone(Zone),
    /// The app shows names: snapshots of views have those of the users in them, if the server has profiles. The client
    /// requests a name when it is shown, and again after a day.
    Names,
}

/// A decision of the user about the end-to-end encryption.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The user has compared the safety number with this user's.
    Verify(UserId),
    /// The user agrees to the new identity of this user. Waiting messages leave.
    Accept(UserId),
    /// Begins the encryption of the conversation with this user anew.
    Reset(UserId),
    /// Begins the encryption of this group anew.
    ResetGroup(ConversationId),
    /// The user no longer has this device.
    Remove(DeviceId),
}

/// A request of the app that has an answer.
#[derive(Clone, Debug)]
pub enum Ask {
    /// A request to the server, such as `members` or `settings`. The client repeats it until the server replies; a
    /// restart forgets it.
    Question(Action),
    /// A request for the outbox. The store has it once the turn is committed. The answer is the server's, in the form of
    /// an addition's result, whatever the request.
    Keep(Queued),
    /// The user has read the conversation up to here.
    Read {
        /// The conversation.
        conversation_id: ConversationId,
        /// Up to here.
        seq: Seq,
    },
    /// The app shows a channel.
    Watch {
        /// The channel.
        conversation_id: ConversationId,
        /// The app has everything of it up to here.
        after: Option<Seq>,
    },
    /// Tries a request again that the server refused for good. The answer is as that to [`Keep`](Self::Keep).
    Again(ClientMsgId),
    /// Cancels the upload of a message's file. The answer is an [`Output::Cancelled`].
    Cancel(ClientMsgId),
}

/// Something that the caller does for the core.
#[derive(Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all are events, and none is kept")]
pub enum Output {
    /// Open a connection.
    Dial {
        /// Its number.
        link: LinkId,
        /// The token that it takes.
        need: TokenNeed,
    },
    /// Send a frame.
    Send {
        /// On this connection.
        link: LinkId,
        /// The frame.
        text: String,
    },
    /// Send a frame with HTTP POST to `/v1/{action}`. The end is an [`Input::Posted`], at any time; after 30 s, the caller
    /// may give up.
    Post {
        /// The connection whose token the request has.
        link: LinkId,
        /// The number of the request.
        request: u64,
        /// The action.
        action: &'static str,
        /// The frame.
        text: String,
    },
    /// Close a connection, or stop opening it.
    Close {
        /// Its number.
        link: LinkId,
    },
    /// Upload bytes of a message's file.
    Put {
        /// The message.
        client_msg_id: ClientMsgId,
        /// The bytes, and where they go.
        put: Put,
    },
    /// Stop the uploads of this message.
    Abort {
        /// The message.
        client_msg_id: ClientMsgId,
    },
    /// Carry a file of the encryption.
    Carry {
        /// Its number.
        carry: CarryId,
        /// Where to.
        what: Carry,
    },
    /// Give the app the answer to a request.
    Answer {
        /// The request.
        ask: AskId,
        /// The reply's result, or the reason why there is none.
        result: Result<Reply, Error>,
    },
    /// Give the app the answer to [`Ask::Cancel`].
    Cancelled {
        /// The request.
        ask: AskId,
        /// The upload was not complete yet, and the message is no longer in the outbox.
        in_time: bool,
    },
    /// Give the app an event.
    Tell(Event),
    /// Read the message store, and pass the result to [`Input::Loaded`]. The store has the writes of this turn.
    Load {
        /// The number of the load.
        load: LoadId,
        /// The read.
        what: Load,
    },
    /// Draw this in a view, in place of what it showed before. Comes at most once for a view in a turn.
    Show {
        /// The view.
        view: ViewId,
        /// The content.
        shown: Shown,
    },
}

/// The result of a turn.
///
/// The caller commits `writes` in one transaction, and then carries out the `outputs` in their order. A `lasting` turn
/// has a transaction even without writes. After a failed commit, the caller carries out no output and begins no other
/// turn until the same transaction has succeeded.
#[derive(Debug, PartialEq)]
#[must_use = "the writes must be committed and the outputs carried out"]
pub struct Step {
    /// The changes of the store.
    pub writes: Vec<Write>,
    /// The transaction and all earlier ones must survive a power failure before the caller carries out an output. After
    /// such a turn, the server may forget a message, or the app's request is in the outbox.
    pub lasting: bool,
    /// The caller's work after the commit.
    pub outputs: Vec<Output>,
    /// When the next turn is due, if no input comes before.
    pub wake_at: Option<Moment>,
}
