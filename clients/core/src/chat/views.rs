//! The open views: which events, rows and pages each one gets, and what they still need.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use pigeonhole_sealing::{Lock, Party};
use serde::{Deserialize, Serialize};
use wire::limits::{INBOX_LIMIT_MAX, MEMBERS_LIMIT_MAX, PRESENCE_USERS_MAX};
use wire::{
    Action, Channel, ChannelsRequest, ChannelsResult, ClientMsgId, Conversation, ConversationId, ConversationKind,
    GroupMember, HistoryRequest, HistoryResult, InboxRequest, InboxResult, MembersRequest, Message, PresenceRequest,
    ProfilesRequest, ReceiptsRequest, Reply, Seq, Settings, Side, System, Target, Timestamp, Title, UserId,
    direct_conversation_id,
};

use super::conversations::{Conversations, Filter, ListSnapshot, PinsOf};
use super::messages::{Messages, Request, Snapshot};
use super::names::{self, Due, Names};
use super::roster::{Roster, RosterSnapshot};
use super::row::ChatRow;
use super::window::{At, PAGE};
use super::zone::Zone;
use crate::saved::Queued;
use crate::store::{KnownMember, Window};
use crate::{Draft, Error, Event, Moment, ReceiptKind, State};

/// A view of the app, by the number that the app gave it.
pub type ViewId = u64;

/// A read from the message store.
pub type LoadId = u64;

/// A request, by its number in a turn of the core.
type AskId = u64;

/// The content of a view.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewOf {
    /// The chat list.
    Chats(Filter),
    /// The messages of a conversation.
    Messages {
        /// The conversation, or the other user of a direct one, which need not exist yet.
        with: Target,
        /// Where the view opens.
        at: At,
    },
    /// The members of a group or a channel.
    Members(ConversationId),
}

/// An act of the user in a view.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Selects other rows of the chat list.
    Filter(Filter),
    /// Shows older messages: the user has come near the first item.
    Older,
    /// Shows newer messages: the user has come near the last item.
    Newer,
    /// Requests the rows of channels again: no event reports what happens in a channel that no view shows.
    Refresh,
    /// Shows another part of the conversation.
    Jump(At),
    /// The item with this key was on the screen. See [`Messages::seen`].
    Seen(String),
}

/// The content of a view at some time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// The chat list.
    Chats(ListSnapshot),
    /// A conversation.
    Messages(Screen),
    /// The members of a conversation.
    Members(RosterSnapshot),
}

/// The content of the view of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Screen {
    /// The conversation. A direct one has its id before its first message.
    pub conversation_id: ConversationId,
    /// The conversation's row of the chat list: its title, who is typing, whether the peer is online. `None` as long as
    /// the conversation does not exist.
    pub chat: Option<Arc<ChatRow>>,
    /// The messages.
    pub messages: Snapshot,
    /// The known names of the users in them, once the app shows names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<UserId, Title>,
}

/// A read that a view needs of the message store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Load {
    /// The chat list and the drafts.
    Start,
    /// [`PAGE`] messages of a conversation on one side, its row and its members.
    Window {
        /// The conversation.
        conversation_id: ConversationId,
        /// The side.
        side: Side,
    },
    /// The members of a conversation.
    Members(ConversationId),
}

/// The result of a [`Load`].
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "an input has it in a box")]
pub enum Found {
    /// No store exists, or it can't be read.
    Nothing,
    /// The result of [`Load::Start`].
    Start {
        /// The rows of the chat list.
        chats: Vec<Conversation>,
        /// The rows of the list of channels.
        channels: Vec<Channel>,
        /// The drafts.
        drafts: BTreeMap<Target, Draft>,
    },
    /// The result of [`Load::Window`].
    Window {
        /// The row of the chat list.
        row: Option<Conversation>,
        /// The row of the list of channels.
        channel: Option<Channel>,
        /// The known members.
        members: Vec<KnownMember>,
        /// The messages.
        window: Window,
        /// The files of their attachments on this device.
        places: BTreeMap<Seq, String>,
    },
    /// The result of [`Load::Members`].
    Members(Vec<KnownMember>),
}

/// Something that a view needs of the session.
#[derive(Debug)]
pub(crate) enum Need {
    Load(LoadId, Load),
    /// The reply goes to [`Views::answered`].
    Ask(AskId, Action),
    Read(ConversationId, Seq),
    Watch(AskId, ConversationId),
    Unwatch(ConversationId),
    /// The last of these users are no longer shown.
    UnwatchPresence,
    /// Whether the server has profiles.
    Features,
    /// The whole chat list has come.
    Listed,
    /// The user is not a member of this channel any more.
    Gone(ConversationId),
    /// The server does not list it as pinned.
    Unpinned(ConversationId),
    /// All members of a conversation have come.
    Members(ConversationId, Vec<GroupMember>),
}

/// Why a view made a request.
#[derive(Debug)]
enum Purpose {
    List,
    /// The rows of new conversations.
    Rows,
    /// The channels of this list so far.
    Channels(BTreeSet<ConversationId>),
    /// The order of what is pinned.
    Pinned(PinsOf),
    History(ViewId, Side),
    /// The marks of the members.
    Marks(ViewId, ConversationId),
    Pins(ViewId),
    Members(ViewId),
    Presence,
    /// The names of these users.
    Names(Vec<UserId>),
    Watch(ConversationId),
}

#[derive(Debug)]
struct List {
    filter: Filter,
    snapshot: ListSnapshot,
    is_shown: bool,
}

#[derive(Debug)]
struct Conversing {
    id: ConversationId,
    kind: ConversationKind,
    peer_id: Option<UserId>,
    messages: Messages,
    /// The store has been read once, so the view has something to show.
    is_loaded: bool,
    /// The peer has written since the view opened.
    has_peer_written: bool,
    shown: Option<Screen>,
}

#[expect(clippy::struct_excessive_bools, reason = "each stands for something else that has come")]
/// All views of the app. Without one, nothing is kept here but what was refused.
#[derive(Debug)]
pub(crate) struct Views {
    me: UserId,
    zone: Zone,
    /// `None` until the first view opens.
    chats: Option<Conversations>,
    /// The rows of the store are in `chats`.
    is_started: bool,
    /// All rows of the server are in the store.
    is_listed: bool,
    is_caught_up: bool,
    lists: BTreeMap<ViewId, List>,
    open: BTreeMap<ViewId, Conversing>,
    rosters: BTreeMap<ViewId, Roster>,
    asked: BTreeMap<AskId, Purpose>,
    /// Without a side, it is of the members.
    loads: BTreeMap<LoadId, (ViewId, Option<Side>)>,
    watched: Vec<UserId>,
    names: Names,
    /// The channels of the server's last list.
    channels: BTreeSet<ConversationId>,
    last_id: u64,
    needs: Vec<Need>,
    /// Something has come since the last snapshots.
    is_changed: bool,
    /// When a snapshot changes without an input.
    changes_at: Option<Moment>,
}

/// Requests of views have numbers from here on, and those of an app lower ones.
const FIRST_ASK: AskId = 1 << 63;

/// Returns whether a view has made this request.
pub(crate) fn is_of_view(ask: AskId) -> bool {
    ask >= FIRST_ASK
}

/// Input from the session.
impl Views {
    pub(crate) fn new(me: UserId, is_listed: bool) -> Self {
        Self {
            me,
            zone: Zone::default(),
            chats: None,
            is_started: false,
            is_listed,
            is_caught_up: false,
            lists: BTreeMap::new(),
            open: BTreeMap::new(),
            rosters: BTreeMap::new(),
            asked: BTreeMap::new(),
            loads: BTreeMap::new(),
            watched: Vec::new(),
            names: Names::default(),
            channels: BTreeSet::new(),
            last_id: 0,
            needs: Vec::new(),
            is_changed: false,
            changes_at: None,
        }
    }

    /// Takes any event that the app gets.
    pub(crate) fn event(&mut self, event: &Event, now: Moment) {
        if let Event::State(state) = event {
            self.is_caught_up = *state == State::CaughtUp;
        }
        let Some(chats) = &mut self.chats else { return };
        self.is_changed = true;
        chats.event(event, now);
        for view in self.open.values_mut() {
            view.messages.event(event, now);
        }
        self.rosters.values_mut().for_each(|roster| roster.event(event));
        if let Event::Message { message, .. } = event {
            self.came(message);
        }
        if matches!(event, Event::SettingsChanged(Settings::Conversation { set, .. }) if set.pinned.is_some()) {
            // The reply that is under way may be of before.
            for of in
                [PinsOf::Chats, PinsOf::Channels].into_iter().filter(|of| self.asks_pinned(*of)).collect::<Vec<_>>()
            {
                self.ask_pinned(of);
            }
        }
        if matches!(event, Event::State(State::CaughtUp)) {
            self.list_pinned();
            self.list_all();
            for view in self.open.keys().copied().collect::<Vec<_>>() {
                self.ask_marks(view);
            }
            for view in self.rosters.keys().copied().collect::<Vec<_>>() {
                self.ask_members(view);
            }
        }
    }

    fn came(&mut self, message: &Message) {
        let id = &message.conversation_id;
        for view in
            self.open.values_mut().filter(|view| view.id == *id && view.peer_id.as_ref() == Some(&message.sender_id))
        {
            if !mem::replace(&mut view.has_peer_written, true) {
                // A user shows their presence to whom they have written.
                self.watched.clear();
            }
        }
        // The user is a member anew. No event has reported what the others read before.
        if matches!(&message.system, Some(System::MembersAdded { members }) if members.contains(&self.me)) {
            let views = self.open.iter().filter(|(_, view)| view.id == *id).map(|(view, _)| *view);
            views.collect::<Vec<_>>().into_iter().for_each(|view| self.ask_marks(view));
        }
        // The store lists a new conversation once it has its row.
        if self.is_caught_up && self.chats.as_ref().is_some_and(|chats| chats.lacks_row(id)) {
            self.ask_rows();
        }
    }

    /// Takes a request that is in the outbox now.
    pub(crate) fn queued(&mut self, queued: &Queued) {
        let Some(chats) = &mut self.chats else { return };
        self.is_changed = true;
        for view in self.open.values_mut().filter(|view| view.is_for(queued)) {
            view.messages.timeline_mut().queued(queued.clone());
        }
        chats.queued(queued.clone());
    }

    /// Takes a mark that the user has set, in a view or elsewhere in the app.
    pub(crate) fn read(&mut self, id: &ConversationId, seq: Seq) {
        let Some(chats) = &mut self.chats else { return };
        self.is_changed = true;
        chats.read(id, seq);
        for view in self.open.values_mut().filter(|view| view.id == *id) {
            view.messages.timeline_mut().receipt(ReceiptKind::Read, &self.me, seq);
        }
    }

    /// The request is stored, and its entry came before. A view that opened between has it as unsent.
    pub(crate) fn settled(&mut self, client_msg_id: &ClientMsgId) {
        let Some(chats) = &mut self.chats else { return };
        self.is_changed = true;
        chats.settled(client_msg_id);
        for view in self.open.values_mut() {
            view.messages.timeline_mut().settled(client_msg_id);
        }
    }

    /// Removes a request that the server refused, from all views.
    pub(crate) fn dismiss(&mut self, client_msg_id: &ClientMsgId) {
        let Some(chats) = &mut self.chats else { return };
        self.is_changed = true;
        chats.dismiss(client_msg_id);
        for view in self.open.values_mut() {
            view.messages.timeline_mut().dismiss(client_msg_id);
        }
    }

    /// The user is not a member of this channel any more: the user has left, or the server no longer lists the channel.
    pub(crate) fn gone(&mut self, id: ConversationId) {
        self.is_changed = true;
        if let Some(chats) = &mut self.chats {
            chats.gone(&id);
        }
        self.channels.remove(&id);
        self.needs.push(Need::Gone(id));
    }

    /// Takes the file of an attachment.
    pub(crate) fn place(&mut self, id: &ConversationId, seq: Seq, path: Option<&str>) {
        self.is_changed = true;
        for view in self.open.values_mut().filter(|view| view.id == *id) {
            view.messages.place(seq, path);
        }
    }

    /// Takes a draft that the store has now.
    pub(crate) fn draft(&mut self, target: &Target, draft: Option<Draft>) {
        let Some(chats) = &mut self.chats else { return };
        self.is_changed = true;
        chats.draft_of(target, draft);
    }

    /// Takes what the store has. `unsent` is the outbox, and `refused` what the server refused for good.
    pub(crate) fn loaded(
        &mut self,
        load: LoadId,
        found: Found,
        unsent: impl FnOnce() -> Vec<Queued>,
        refused: &[(Queued, String)],
    ) {
        self.is_changed = true;
        let Some(chats) = &mut self.chats else { return };
        if let Some((view, side)) = self.loads.remove(&load) {
            if let Some(roster) = self.rosters.get_mut(&view) {
                return roster.loaded(if let Found::Members(known) = found { known } else { vec![] });
            }
            let (Some(view), Some(side)) = (self.open.get_mut(&view), side) else { return };
            let (row, channel, members, window, places) = match found {
                Found::Window { row, channel, members, window, places } => (row, channel, members, window, places),
                Found::Nothing | Found::Start { .. } | Found::Members(_) => {
                    (None, None, vec![], Window::default(), BTreeMap::new())
                }
            };
            let timeline = view.messages.timeline_mut();
            for member in members {
                timeline.receipt(ReceiptKind::Delivered, &member.user_id, member.delivered_seq);
                timeline.receipt(ReceiptKind::Read, &member.user_id, member.read_seq);
            }
            if let Some(row) = row {
                timeline.row(&row);
                chats.row(&row);
            }
            if let Some(row) = channel {
                timeline.channel(&row);
            }
            view.messages.loaded(side, window);
            for (seq, path) in places {
                view.messages.place(seq, Some(&path));
            }
            view.is_loaded = true;
        } else if !mem::replace(&mut self.is_started, true) {
            if let Found::Start { chats: rows, channels, drafts } = found {
                for row in &rows {
                    chats.row(row);
                }
                for row in &channels {
                    chats.channel(row);
                    self.channels.insert(row.conversation_id.clone());
                }
                for (target, draft) in drafts {
                    chats.draft_of(&target, Some(draft));
                }
            }
            for queued in unsent() {
                chats.queued(queued);
            }
            for (queued, code) in refused {
                chats.queued(queued.clone());
                chats.failed(&queued.client_msg_id, code);
            }
        }
    }

    /// Keeps these of the channels that the user had, and removes the others from the list.
    fn channels_are(&mut self, listed: BTreeSet<ConversationId>) {
        for id in mem::replace(&mut self.channels, listed) {
            if !self.channels.contains(&id) {
                self.gone(id);
            }
        }
    }

    fn list_came(&mut self, page: InboxResult) {
        let Some(chats) = &mut self.chats else { return };
        page.conversations.iter().for_each(|row| chats.row(row));
        if page.next_cursor.is_some() {
            return self.ask_list(page.next_cursor);
        }
        self.is_listed = true;
        self.needs.push(Need::Listed);
        self.ask_order(PinsOf::Chats);
    }

    fn channels_came(&mut self, mut listed: BTreeSet<ConversationId>, page: ChannelsResult) {
        let Some(chats) = &mut self.chats else { return };
        for row in &page.conversations {
            chats.channel(row);
            listed.insert(row.conversation_id.clone());
        }
        if page.next_cursor.is_some() {
            return self.ask(Purpose::Channels(listed), ChannelsRequest { cursor: page.next_cursor, pinned: false });
        }
        self.channels_are(listed);
        self.ask_order(PinsOf::Channels);
    }

    fn pinned_came(&mut self, of: PinsOf, reply: &Reply) {
        let Some(chats) = &mut self.chats else { return };
        // A server of before this field lists all of them.
        let order: Vec<&ConversationId> = match reply {
            Reply::Inbox(page) => {
                page.conversations.iter().for_each(|row| chats.row(row));
                page.conversations.iter().filter(|row| row.pinned).map(|row| &row.conversation_id).collect()
            }
            Reply::Channels(page) => {
                page.conversations.iter().for_each(|row| chats.channel(row));
                page.conversations.iter().filter(|row| row.pinned).map(|row| &row.conversation_id).collect()
            }
            // No other reply is one to a request for what is pinned.
            _ => return,
        };
        self.needs.extend(chats.pinned_are(of, &order).into_iter().map(Need::Unpinned));
    }

    /// Takes the reply to a request of a view.
    pub(crate) fn answered(&mut self, ask: AskId, result: Result<Reply, Error>, now: Moment) {
        let (Some(purpose), Some(chats)) = (self.asked.remove(&ask), &mut self.chats) else { return };
        self.is_changed = true;
        match (purpose, result) {
            (Purpose::List, Ok(Reply::Inbox(page))) => self.list_came(page),
            (Purpose::Rows, Ok(Reply::Inbox(page))) => page.conversations.iter().for_each(|row| chats.row(row)),
            (Purpose::Channels(listed), Ok(Reply::Channels(page))) => self.channels_came(listed, page),
            (Purpose::Pinned(of), Ok(reply)) => self.pinned_came(of, &reply),
            (Purpose::Names(users), Ok(Reply::Profiles(found))) => self.names.came(users, found, now),
            (Purpose::Names(_), _) => self.names.lost(),
            (Purpose::Presence, Ok(Reply::Presence(answer))) => chats.presence(&answer.users),
            (Purpose::History(view, side), result) => {
                let Some(view) = self.open.get_mut(&view) else { return };
                match result {
                    Ok(Reply::History(page)) => view.messages.page(side, page),
                    // The other user has no message of this one yet.
                    Err(Error::Refused { code, .. }) if code == "not_member" && view.peer_id.is_some() => {
                        view.messages.empty(side);
                    }
                    _ => view.messages.lost(side),
                }
            }
            (Purpose::Marks(view, id), Ok(Reply::Receipts(page))) => {
                let Some(open) = self.open.get_mut(&view) else { return };
                open.messages.timeline_mut().receipts(&page);
                if page.next_cursor.is_some() {
                    let request =
                        ReceiptsRequest { conversation_id: id.clone(), limit: MARKS, cursor: page.next_cursor };
                    self.ask(Purpose::Marks(view, id), request);
                } else {
                    self.ask_pins(view);
                }
            }
            (Purpose::Marks(view, _), Ok(Reply::History(page))) => {
                if let Some(open) = self.open.get_mut(&view) {
                    // The message itself comes with a page of the view.
                    open.messages.timeline_mut().history(HistoryResult { messages: vec![], ..page });
                }
            }
            (Purpose::Pins(view), Ok(Reply::History(page))) => self.pinned(view, page),
            (Purpose::Members(view), result) => {
                let Some(roster) = self.rosters.get_mut(&view) else { return };
                let Ok(Reply::Members(page)) = result else { return roster.lost() };
                let (id, cursor) = (roster.conversation_id().clone(), page.next_cursor.clone());
                if let Some(all) = roster.page(page) {
                    self.needs.push(Need::Members(id, all));
                } else {
                    let request = MembersRequest { conversation_id: id, limit: MEMBERS_LIMIT_MAX, cursor };
                    self.ask(Purpose::Members(view), request);
                }
            }
            (Purpose::Watch(id), Ok(Reply::Watch(answer))) => self.watched(&id, answer.last_seq),
            // Views stay as they are. After the next reconnect, they ask again.
            _ => {}
        }
    }
}

/// The number of rows to request for a new conversation, which is among the first.
const ROWS: u64 = 10;
/// The number of members in a page of marks.
const MARKS: u64 = 100;

/// Input from the user.
impl Views {
    /// Opens a view.
    pub(crate) fn open(&mut self, view: ViewId, of: ViewOf, unsent: &[Queued], refused: &[(Queued, String)]) {
        self.is_changed = true;
        self.close(view);
        if self.chats.is_none() {
            self.chats = Some(Conversations::new(self.me.clone()));
            let load = self.next_id();
            self.needs.push(Need::Load(load, Load::Start));
            self.list_pinned();
            self.list_all();
        }
        match of {
            ViewOf::Chats(filter) => {
                self.lists.insert(view, List { filter, snapshot: ListSnapshot::default(), is_shown: false });
            }
            ViewOf::Members(id) => {
                self.rosters.insert(view, Roster::new(id.clone()));
                let load = self.next_id();
                self.loads.insert(load, (view, None));
                self.needs.push(Need::Load(load, Load::Members(id)));
                self.ask_members(view);
            }
            ViewOf::Messages { with, at } => {
                let (id, peer_id) = match with {
                    Target::User(peer) => (direct_conversation_id(&self.me, &peer), Some(peer)),
                    Target::Conversation(id) => {
                        let peer = self.chats.as_ref().and_then(|chats| chats.peer_of(&id));
                        (id, peer)
                    }
                };
                let messages = Messages::new(self.me.clone(), id.clone(), at, self.zone.clone());
                let kind = id.kind();
                let mut open = Conversing {
                    id: id.clone(),
                    kind,
                    peer_id,
                    messages,
                    is_loaded: false,
                    has_peer_written: false,
                    shown: None,
                };
                open.messages.timeline_mut().is(kind);
                for queued in unsent {
                    open.take(queued, None);
                }
                for (queued, code) in refused {
                    open.take(queued, Some(code));
                }
                self.open.insert(view, open);
                match kind {
                    ConversationKind::Channel => {
                        let ask = self.next_ask(Purpose::Watch(id.clone()));
                        self.needs.push(Need::Watch(ask, id));
                    }
                    ConversationKind::Direct | ConversationKind::Group => self.ask_marks(view),
                }
            }
        }
    }

    /// Takes an act of the user in a view.
    pub(crate) fn act(&mut self, view: ViewId, act: Act) {
        self.is_changed = true;
        match (act, self.lists.get_mut(&view), self.open.get_mut(&view)) {
            (Act::Filter(filter), Some(list), _) => list.filter = filter,
            (Act::Refresh, Some(_), _) => self.list_all(),
            (Act::Older, _, Some(open)) => open.messages.older(),
            (Act::Newer, _, Some(open)) => open.messages.newer(),
            (Act::Jump(at), _, Some(open)) => open.messages.jump(at),
            (Act::Seen(key), _, Some(open)) => {
                if let Some(seq) = open.messages.seen(&key) {
                    self.needs.push(Need::Read(open.id.clone(), seq));
                }
            }
            // The view is closed, or has no such act.
            _ => {}
        }
    }

    /// The user has read everything of a conversation, on the screen or not. The conversation's row may come after its
    /// messages, so the screen counts too.
    pub(crate) fn read_all(&mut self, id: &ConversationId) {
        self.is_changed = true;
        let listed = self.chats.as_mut().and_then(|chats| chats.read_all_of(id));
        let open = self.open.values_mut().filter(|open| open.id == *id);
        let seen = open.filter_map(|open| open.messages.read_all());
        if let Some(seq) = listed.into_iter().chain(seen).max() {
            self.needs.push(Need::Read(id.clone(), seq));
        }
    }

    /// Closes a view.
    /// Whether the messages of this conversation are on the screen.
    pub(crate) fn is_open(&self, id: &ConversationId) -> bool {
        self.open.values().any(|open| open.id == *id)
    }

    pub(crate) fn close(&mut self, view: ViewId) {
        self.lists.remove(&view);
        self.rosters.remove(&view);
        // The next view can have the same number.
        self.loads.retain(|_, (of, _)| *of != view);
        self.asked.retain(|_, purpose| match purpose {
            Purpose::History(of, _) | Purpose::Marks(of, _) | Purpose::Pins(of) | Purpose::Members(of) => *of != view,
            Purpose::List
            | Purpose::Rows
            | Purpose::Channels(_)
            | Purpose::Pinned(_)
            | Purpose::Presence
            | Purpose::Names(_)
            | Purpose::Watch(_) => true,
        });
        let Some(closed) = self.open.remove(&view) else { return };
        match closed.kind {
            ConversationKind::Channel if self.open.values().all(|open| open.id != closed.id) => {
                self.needs.push(Need::Unwatch(closed.id));
            }
            ConversationKind::Direct | ConversationKind::Group | ConversationKind::Channel => {}
        }
        self.is_changed = true;
    }

    /// From now on, the app shows names.
    pub(crate) fn show_names(&mut self) {
        self.is_changed = true;
        self.names.show();
    }

    /// Takes whether the server has profiles. `None`: the connection has ended.
    pub(crate) fn set_has_profiles(&mut self, has_profiles: Option<bool>) {
        self.names.set_has_profiles(has_profiles);
    }

    /// The user's own profile has changed.
    pub(crate) fn own_name_changed(&mut self) {
        let me = self.me.clone();
        self.names.changed(&me);
    }

    /// Sets the user's time zone, at the start and whenever it changes.
    pub(crate) fn set_zone(&mut self, zone: Zone) {
        self.is_changed = true;
        for view in self.open.values_mut() {
            view.messages.set_zone(zone.clone());
        }
        self.zone = zone;
    }
}

/// Output.
impl Views {
    /// Returns what the views need and have not requested yet.
    pub(crate) fn needs(&mut self) -> Vec<Need> {
        if self.is_changed {
            self.pages();
            self.presence();
        }
        if self.is_caught_up {
            match self.names.due() {
                None => {}
                Some(Due::Features) => self.needs.push(Need::Features),
                Some(Due::Profiles(user_ids)) => {
                    self.ask(Purpose::Names(user_ids.clone()), ProfilesRequest { user_ids, conversation_ids: vec![] });
                }
            }
        }
        mem::take(&mut self.needs)
    }

    fn pages(&mut self) {
        let mut wanted = Vec::new();
        for (view, open) in &mut self.open {
            wanted.extend(open.messages.requests().into_iter().map(|request| (*view, open.id.clone(), request)));
        }
        for (view, conversation_id, request) in wanted {
            match request {
                Request::Load(side) => {
                    let load = self.next_id();
                    self.loads.insert(load, (view, Some(side)));
                    self.needs.push(Need::Load(load, Load::Window { conversation_id, side }));
                }
                Request::History(side) => {
                    let limit = PAGE as u64;
                    self.ask(Purpose::History(view, side), HistoryRequest { conversation_id, side, limit });
                }
            }
        }
    }

    /// Watches the peers of the open conversations.
    fn presence(&mut self) {
        let mut peers: Vec<UserId> = self.open.values().filter_map(|open| open.peer_id.clone()).collect();
        peers.sort_unstable();
        peers.dedup();
        peers.truncate(PRESENCE_USERS_MAX);
        peers.retain(|peer| *peer != self.me);
        if peers == self.watched {
            return;
        }
        self.watched.clone_from(&peers);
        if peers.is_empty() {
            self.needs.push(Need::UnwatchPresence);
        } else {
            self.ask(Purpose::Presence, PresenceRequest { user_ids: peers, watch: true });
        }
    }

    /// Brings the rows up to how their conversations are encrypted.
    pub(crate) fn lock(&mut self, lock_of: impl Fn(Party) -> Lock) {
        if let Some(chats) = &mut self.chats {
            self.is_changed |= chats.lock(lock_of);
        }
    }

    /// Returns the views whose content has changed.
    pub(crate) fn changed(&mut self, now: Moment, wall: Timestamp) -> Vec<(ViewId, Shown)> {
        let is_due = self.changes_at.is_some_and(|at| at <= now);
        let Some(chats) = self.chats.as_ref().filter(|_| self.is_changed || is_due) else { return vec![] };
        self.is_changed = false;
        let mut changed = Vec::new();
        for (view, list) in self.lists.iter_mut().filter(|_| self.is_started) {
            let mut snapshot = chats.snapshot(&list.snapshot, &list.filter, now, wall);
            let names = self.names.of(snapshot.rows.iter().flat_map(|row| names::of_row(row)), now);
            if names != snapshot.names {
                snapshot.names = names;
                snapshot.version = list.snapshot.version + 1;
            }
            if !list.is_shown || snapshot.version > list.snapshot.version {
                (list.snapshot, list.is_shown) = (snapshot.clone(), true);
                changed.push((*view, Shown::Chats(snapshot)));
            }
        }
        for (view, open) in self.open.iter_mut().filter(|(_, open)| open.is_loaded) {
            let row = chats.row_of(&open.id, open.peer_id.as_ref(), now, wall);
            let before = open.shown.as_ref().and_then(|shown| shown.chat.clone());
            let chat = row.map(|row| before.filter(|before| **before == row).unwrap_or_else(|| Arc::new(row)));
            let messages = open.messages.snapshot().clone();
            let users = chat.iter().flat_map(|row| names::of_row(row)).chain(open.peer_id.as_ref());
            let users = users.chain(messages.items.iter().flat_map(|item| names::of_item(item)));
            let names = self.names.of(users, now);
            let screen = Screen { conversation_id: open.id.clone(), chat, messages, names };
            if open.shown.as_ref() != Some(&screen) {
                open.shown = Some(screen.clone());
                changed.push((*view, Shown::Messages(screen)));
            }
        }
        for (view, roster) in &mut self.rosters {
            changed.extend(roster.changed(&mut self.names, now).map(|members| (*view, Shown::Members(members))));
        }
        self.changes_at = chats.changes_at(now, wall);
        changed
    }

    /// Returns when a snapshot changes without an input.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.changes_at.filter(|_| !self.lists.is_empty() || !self.open.is_empty())
    }

    /// Requests the rows of the list that no device event brings: all of them once, and those of channels.
    fn list_all(&mut self) {
        if !self.is_caught_up {
            return;
        }
        let is_asked = |purpose: &Purpose| matches!(purpose, Purpose::List | Purpose::Channels(_));
        if self.asked.values().any(is_asked) {
            return;
        }
        if !self.is_listed {
            self.ask_list(None);
        }
        self.ask(Purpose::Channels(BTreeSet::new()), ChannelsRequest { cursor: None, pinned: false });
    }

    /// Requests what is pinned. No event has reported what another device has pinned while this one was away.
    fn list_pinned(&mut self) {
        if self.is_caught_up && self.is_listed {
            self.ask_pinned(PinsOf::Chats);
        }
        if self.is_caught_up && self.chats.as_ref().is_some_and(|chats| chats.has_order(PinsOf::Channels)) {
            self.ask_pinned(PinsOf::Channels);
        }
    }

    fn ask_order(&mut self, of: PinsOf) {
        if self.chats.as_ref().is_some_and(|chats| chats.lacks_order(of)) && !self.asks_pinned(of) {
            self.ask_pinned(of);
        }
    }

    fn asks_pinned(&self, of: PinsOf) -> bool {
        self.asked.values().any(|purpose| matches!(purpose, Purpose::Pinned(asked) if *asked == of))
    }

    /// Requests the order of what is pinned, which no row has. An earlier request is without effect.
    fn ask_pinned(&mut self, of: PinsOf) {
        self.asked.retain(|_, purpose| !matches!(purpose, Purpose::Pinned(asked) if *asked == of));
        let purpose = Purpose::Pinned(of);
        match of {
            PinsOf::Chats => {
                let limit = INBOX_LIMIT_MAX;
                self.ask(purpose, InboxRequest { limit, cursor: None, since: None, pinned: true });
            }
            PinsOf::Channels => self.ask(purpose, ChannelsRequest { cursor: None, pinned: true }),
        }
    }

    fn ask_list(&mut self, cursor: Option<String>) {
        self.ask(Purpose::List, InboxRequest { limit: INBOX_LIMIT_MAX, cursor, since: None, pinned: false });
    }

    fn ask_rows(&mut self) {
        if !self.asked.values().any(|purpose| matches!(purpose, Purpose::Rows)) {
            self.ask(Purpose::Rows, InboxRequest { limit: ROWS, cursor: None, since: None, pinned: false });
        }
    }

    /// Requests all members. No event has reported who joined or left while this device was away.
    fn ask_members(&mut self, view: ViewId) {
        let Some(roster) = self.rosters.get_mut(&view).filter(|_| self.is_caught_up) else { return };
        if roster.ask() {
            let conversation_id = roster.conversation_id().clone();
            let request = MembersRequest { conversation_id, limit: MEMBERS_LIMIT_MAX, cursor: None };
            self.ask(Purpose::Members(view), request);
        }
    }

    /// Requests how far the others have come. No event has reported what happened while this device was away.
    fn ask_marks(&mut self, view: ViewId) {
        let Some(open) = self.open.get(&view) else { return };
        let is_asked = |purpose: &Purpose| matches!(purpose, Purpose::Marks(asked, _) if *asked == view);
        if self.asked.values().any(is_asked) {
            return;
        }
        let conversation_id = open.id.clone();
        let purpose = Purpose::Marks(view, conversation_id.clone());
        match open.kind {
            // A page of a direct conversation has the marks.
            ConversationKind::Direct => {
                self.ask(purpose, HistoryRequest { conversation_id, side: Side::Newest, limit: 1 });
            }
            ConversationKind::Group => {
                self.ask(purpose, ReceiptsRequest { conversation_id, limit: MARKS, cursor: None });
            }
            // No member sees the marks of others.
            ConversationKind::Channel => {}
        }
    }

    /// No event brings an entry that was stored between the page of a view and the subscription.
    fn watched(&mut self, id: &ConversationId, last_seq: Seq) {
        let of_channel = self.open.iter_mut().filter(|(_, view)| view.id == *id);
        let ended = of_channel.map(|(view, open)| {
            open.messages.timeline_mut().ends_at(last_seq);
            *view
        });
        ended.collect::<Vec<_>>().into_iter().for_each(|view| self.ask_pins(view));
    }

    fn pinned(&mut self, view: ViewId, page: HistoryResult) {
        if let Some(open) = self.open.get_mut(&view) {
            open.messages.timeline_mut().pinned(page);
        }
    }

    /// Requests the pinned messages of a group or a channel whose messages all came from the store.
    fn ask_pins(&mut self, view: ViewId) {
        if let Some(open) = self.open.get(&view).filter(|open| open.messages.wants_pins()) {
            let conversation_id = open.id.clone();
            self.ask(Purpose::Pins(view), HistoryRequest { conversation_id, side: Side::Newest, limit: 1 });
        }
    }

    fn ask(&mut self, purpose: Purpose, request: impl Into<Action>) {
        let ask = self.next_ask(purpose);
        self.needs.push(Need::Ask(ask, request.into()));
    }

    fn next_ask(&mut self, purpose: Purpose) -> AskId {
        let ask = FIRST_ASK + self.next_id();
        self.asked.insert(ask, purpose);
        ask
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}

impl Conversing {
    fn is_for(&self, queued: &Queued) -> bool {
        match queued.outgoing.target() {
            Some(Target::Conversation(id)) => id == self.id,
            Some(Target::User(user)) => self.peer_id.as_ref() == Some(&user),
            None => false,
        }
    }

    fn take(&mut self, queued: &Queued, refused: Option<&String>) {
        if self.is_for(queued) {
            let timeline = self.messages.timeline_mut();
            timeline.queued(queued.clone());
            if let Some(code) = refused {
                timeline.failed(&queued.client_msg_id, code.clone());
            }
        }
    }
}
