//! Users in groups, who join, leave and get roles. At the end, each user must hold all entries that the user could see,
//! and the rows must follow from the log.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use pigeonhole_client::{
    AllowedTo, ClientMsgId, ConversationId, Draft, EVERYBODY, Error, HistoryFrom, Info, Kind, Message, NewGroup, Role,
    Sent, Seq, Side, System, Target, Title, UserId,
};
use serde_json::Value;
use testkit::{PATIENCE, TestServer};
use tokio::time::timeout;

use crate::backend::SERVICE;
use crate::changes::text;
use crate::user::{Counts, User};

pub(crate) const GROUPS: usize = 8;
/// Members of each at first, besides who makes it.
const OTHERS: usize = 5;
/// One action in a group in this many changes its members or its rules.
const CHURN_ONE_IN: u32 = 5;
/// One message in this many mentions a user.
const MENTION_ONE_IN: u32 = 4;
/// Unanswered requests per user in groups. Each is an event for all members.
const WAITING_MAX: usize = 1;

/// A user's actions in groups.
#[derive(Default)]
pub(crate) struct Groups {
    pub(crate) all: Arc<Vec<ConversationId>>,
    pub(crate) left_to_do: usize,
    /// Sent, and neither shown nor refused.
    pub(crate) waiting: BTreeSet<ClientMsgId>,
    /// Ids that must be in the log: all except refused ones, and additions, which may find no new user.
    said: BTreeSet<ClientMsgId>,
    number: u64,
}

fn user(name: &str) -> UserId {
    UserId::parse(name).expect("a name")
}

/// Makes the groups, while nothing goes wrong yet.
pub(crate) async fn make(users: &[User]) -> Vec<ConversationId> {
    let mut groups = Vec::new();
    for number in 0..GROUPS {
        let of = |away: usize| &users[(2 * number + away) % users.len()];
        let title = Title::parse(&format!("group {number}")).expect("a title");
        let group = NewGroup::new(title, (1..=OTHERS).map(|away| user(of(3 * away).name())));
        let made = of(0).app.client.create(group).await.expect("it goes into the outbox").stored();
        groups.push(timeout(PATIENCE, made).await.expect("in time").expect("it is made").conversation_id);
    }
    groups
}

impl User {
    pub(crate) fn may_act_in_groups(&self) -> bool {
        self.groups.left_to_do > 0 && self.groups.waiting.len() < WAITING_MAX
    }

    /// Says, changes or does something in a group that this user believes to be in.
    pub(crate) async fn act_in_a_group(&mut self) {
        let open = |id: &&ConversationId| self.conversations.get(*id).is_some_and(|shown| !shown.timeline.is_closed());
        let open: Vec<ConversationId> = self.groups.all.iter().filter(open).cloned().collect();
        // A user who left joins again. A removed user gets a refusal.
        let closed: Vec<ConversationId> = self.groups.all.iter().filter(|id| !open.contains(id)).cloned().collect();
        if !closed.is_empty() && self.rng.u32(..CHURN_ONE_IN) == 0 {
            let joining = self.app.client.join(&closed[self.rng.usize(..closed.len())]);
            self.adding.spawn(async move { joining.await.map_or(None, |_| None) });
        }
        // A user in no group waits to be added, but not for ever.
        if open.is_empty() && self.rng.u32(..10) > 0 {
            return;
        }
        self.groups.left_to_do -= 1;
        self.counts.in_groups.fetch_add(1, Relaxed);
        if open.is_empty() {
            self.counts.nowhere.fetch_add(1, Relaxed);
            return;
        }
        let id = open[self.rng.usize(..open.len())].clone();
        if self.rng.u32(..CHURN_ONE_IN) == 0 {
            return self.churn(&id).await;
        }
        if self.rng.u32(..CHURN_ONE_IN) == 0
            && let Some(sent) = self.change_in(&id).await
        {
            return self.wait_for(&sent, true);
        }
        self.groups.number += 1;
        let body = text(self.name(), id.as_str(), self.groups.number);
        let mut mentioned = None;
        if self.rng.u32(..MENTION_ONE_IN) == 0 {
            mentioned = Some(if self.rng.u32(..8) == 0 { user(EVERYBODY) } else { self.anybody() });
        }
        let draft = |body| Draft::new(body).mentions(mentioned.clone());
        let sent = if self.wants_a_picture() {
            let to = id.to_string();
            self.send_picture(Target::Conversation(id), &to, draft).await
        } else {
            self.app.client.send(Target::Conversation(id), draft(body)).await.expect("it goes into the outbox")
        };
        self.wait_for(&sent, true);
    }

    async fn churn(&mut self, id: &ConversationId) {
        self.counts.churn.fetch_add(1, Relaxed);
        let whom = self.anybody();
        let client = self.app.client.clone();
        let sent = match self.rng.u32(..10) {
            0..3 => {
                let sent = client.add(id, [whom]).await.expect("it goes into the outbox");
                self.wait_for(&sent, false);
                let id = sent.client_msg_id().clone();
                // An addition without a new user makes no entry.
                self.adding.spawn(async move {
                    let has_entry = sent.stored().await.is_ok_and(|added| added.entry.is_some());
                    if has_entry { None } else { Some(id) }
                });
                return;
            }
            3..6 => client.remove(id, &whom).await,
            6 => {
                let sent = client.leave(id).await.expect("it goes into the outbox");
                return self.wait_for(&sent, true);
            }
            7 | 8 => {
                let role = [Role::Admin, Role::Member, Role::Owner][self.rng.usize(..3)];
                client.role(id, &whom, role).await
            }
            _ => {
                let history = [HistoryFrom::All, HistoryFrom::Joined][self.rng.usize(..2)];
                let title = Title::parse(&format!("called {}", self.rng.u32(..))).ok();
                let info = Info {
                    title,
                    history: Some(history),
                    post: Some(AllowedTo::All),
                    add: Some(AllowedTo::All),
                    ..Info::default()
                };
                client.update(id, info).await
            }
        };
        self.wait_for(&sent.expect("it goes into the outbox"), true);
    }

    fn wait_for<T>(&mut self, sent: &Sent<T>, must_be: bool) {
        let id = sent.client_msg_id().clone();
        if must_be {
            self.groups.said.insert(id.clone());
        }
        self.groups.waiting.insert(id);
        self.counts.waiting_in_groups.fetch_add(1, Relaxed);
    }

    /// An own entry is shown, or will never be.
    pub(crate) fn no_longer_waits(&mut self, id: &ClientMsgId) {
        if self.groups.waiting.remove(id) {
            self.counts.waiting_in_groups.fetch_sub(1, Relaxed);
        }
    }

    pub(crate) fn waits_again(&mut self, id: &ClientMsgId) {
        if self.groups.waiting.insert(id.clone()) {
            self.counts.waiting_in_groups.fetch_add(1, Relaxed);
        }
    }

    /// Much that is tried in groups is not allowed, or too late.
    pub(crate) fn refused_in_a_group(&mut self, id: &ClientMsgId, error: &Error) {
        let rightly = ["forbidden", "gone", "not_member", "limit_reached"];
        let is_right = matches!(error, Error::Refused { code, .. } if rightly.contains(&code.as_str()));
        let count = if is_right { &self.counts.declined_in_groups } else { &self.counts.refused };
        count.fetch_add(1, Relaxed);
        self.groups.said.remove(id);
        self.no_longer_waits(id);
    }

    /// Requests the visible entries after a join, as an app does that shows the group.
    pub(crate) async fn look_at(&mut self, id: &ConversationId) {
        let page = self.app.client.history(id, Side::Newest, 1);
        if let (Ok(page), Some(shown)) = (page.await, self.conversations.get_mut(id)) {
            shown.timeline.history(page);
        }
    }

    fn anybody(&mut self) -> UserId {
        let peers = self.everybody.clone();
        user(&peers[self.rng.usize(..peers.len())])
    }
}

/// Whether this user joins with it.
pub(crate) fn joins(entry: &Message, name: &str) -> bool {
    match &entry.system {
        Some(System::Created { members, .. } | System::MembersAdded { members }) => {
            members.iter().any(|member| *member == *name)
        }
        _ => false,
    }
}

/// One user's part of a log.
#[derive(Default)]
struct Told {
    /// From which entry to which they were a member, and the first one that they see.
    times: Vec<Time>,
}

struct Time {
    joined: u64,
    first: u64,
    left: Option<u64>,
}

/// A group as the table of entries has it.
pub(crate) struct Log {
    id: ConversationId,
    entries: Vec<Value>,
}

pub(crate) fn number(row: &Value, name: &str) -> Option<u64> {
    row.get(name)?.as_u64()
}

fn is_message(entry: &Value) -> bool {
    entry["kind"].as_str().is_some_and(|kind| Kind::stored(kind).counts())
}

fn system(entry: &Value) -> Option<System> {
    serde_json::from_str(entry.get("system")?.as_str()?).ok()
}

impl Log {
    pub(crate) fn all(server: &TestServer, groups: &[ConversationId]) -> Vec<Self> {
        let rows = server.local().database().rows("MessagesTable", usize::MAX).unwrap().expect("there is such a table");
        let of = |id: &ConversationId| {
            let mut entries: Vec<Value> =
                rows.iter().filter(|row| row["conversation_id"] == id.as_str()).cloned().collect();
            entries.sort_by_key(|entry| number(entry, "seq"));
            Self { id: id.clone(), entries }
        };
        groups.iter().map(of).collect()
    }

    pub(crate) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Holes, and entries that one request made twice.
    pub(crate) fn damage(&self) -> u64 {
        let seqs = self.entries.iter().map(|entry| number(entry, "seq").unwrap_or_default());
        let holes = seqs.zip(1..).filter(|(seq, place)| seq != place).count();
        let mut keys = BTreeSet::new();
        let key = |entry: &Value| (entry["sender_id"].to_string(), entry["client_msg_id"].to_string());
        let twice = self.entries.iter().filter(|entry| !keys.insert(key(entry))).count();
        (holes + twice) as u64
    }

    /// Returns the texts of one sender, oldest first.
    pub(crate) fn texts_of(&self, sender: &str) -> Vec<&str> {
        let said = self.entries.iter().filter(|entry| entry["sender_id"] == sender && is_message(entry));
        said.filter_map(|entry| entry["body"].as_str()).collect()
    }

    fn told(&self, name: &str) -> Told {
        let (mut told, mut history) = (Told::default(), HistoryFrom::Joined);
        for (entry, seq) in self.entries.iter().zip(1..) {
            let names_user = |members: &[UserId]| members.iter().any(|member| *member == *name);
            match system(entry) {
                Some(System::Created { members, .. } | System::MembersAdded { members }) if names_user(&members) => {
                    let first = if history == HistoryFrom::All { 1 } else { seq };
                    told.times.push(Time { joined: seq, first, left: None });
                }
                Some(System::MembersRemoved { members }) if names_user(&members) => told.leaves(seq),
                Some(System::MemberLeft {}) if entry["sender_id"] == name => told.leaves(seq),
                Some(System::InfoChanged { history: Some(now), .. }) => history = now,
                _ => {}
            }
        }
        told
    }

    /// Messages of others above the mark that are not deleted by then; and how many of them name the user.
    fn unread(&self, name: &str, above: u64, end: u64) -> (u64, u64) {
        let counts = |entry: &&Value| {
            let is_there = number(entry, "deleted_seq").is_none_or(|deleted| deleted > end);
            let seq = number(entry, "seq").unwrap_or_default();
            seq > above && seq <= end && is_message(entry) && entry["sender_id"] != name && is_there
        };
        let names_user = |entry: &&Value| {
            let named = entry["mentions"].as_array().into_iter().flatten();
            named.filter_map(Value::as_str).any(|id| id == name || id == EVERYBODY)
        };
        let unread: Vec<&Value> = self.entries.iter().filter(counts).collect();
        (unread.len() as u64, unread.iter().filter(|entry| names_user(entry)).count() as u64)
    }
}

impl Told {
    fn leaves(&mut self, seq: u64) {
        if let Some(time) = self.times.last_mut() {
            time.left = Some(seq);
        }
    }
}

/// Differences from the logs.
#[derive(Default)]
pub(crate) struct Wrong {
    damaged: u64,
    not_stored: u64,
    missing: u64,
    beyond: u64,
    rows: u64,
    views: u64,
    entries: u64,
    /// Entries of an ended membership, replaced by a new one before this device had all of it: no device needs them.
    given_up: u64,
    /// Members of all groups, by the member lists and by the logs.
    members: (u64, u64),
}

impl Wrong {
    /// Counts that describe the run.
    pub(crate) fn account(&self, counts: &Counts) -> Vec<(&'static str, u64)> {
        vec![
            ("tried in groups", counts.in_groups.load(Relaxed)),
            ("of them about members, roles or the group", counts.churn.load(Relaxed)),
            ("refused, rightly", counts.declined_in_groups.load(Relaxed)),
            ("while in no group", counts.nowhere.load(Relaxed)),
            ("entries of groups", self.entries),
            ("of them shown, by all members together", counts.shown_in_groups.load(Relaxed)),
            ("given up by a removal and an addition", self.given_up),
            ("members at the end", self.members.0),
        ]
    }

    /// Counts that must be zero.
    pub(crate) fn wrong(&self, counts: &Counts) -> Vec<(&'static str, u64)> {
        vec![
            ("said in groups, and not stored", self.not_stored),
            ("holes in groups, and entries made twice", self.damaged),
            ("entries of groups that a member lacks", self.missing),
            ("entries of groups that were not theirs", self.beyond),
            ("rows of groups that differ from the log", self.rows),
            ("groups that look otherwise than the log says", self.views),
            ("members that differ from the log", self.members.0.abs_diff(self.members.1)),
            ("still waiting in groups", counts.waiting_in_groups.load(Relaxed)),
        ]
    }
}

pub(crate) async fn check(server: &TestServer, users: &mut [User], groups: &[ConversationId]) -> Wrong {
    let (logs, mut wrong) = (Log::all(server, groups), Wrong::default());
    for log in &logs {
        wrong.entries += log.len();
        wrong.damaged += log.damage();
    }
    wrong.members = members(server, &logs, users);
    for user in users {
        let stored: BTreeSet<&str> =
            logs.iter().flat_map(|log| &log.entries).filter_map(|entry| entry["client_msg_id"].as_str()).collect();
        wrong.not_stored += user.groups.said.iter().filter(|id| !stored.contains(id.as_str())).count() as u64;
        let rows = server.rows("InboxTable", user.name());
        for log in &logs {
            let told = log.told(user.name());
            let row = rows.iter().find(|row| row["conversation_id"] == log.id.as_str());
            user.check_row(log, &told, row, &mut wrong).await;
            user.check_held(log, &told, &mut wrong);
            user.check_group(log, &told, &mut wrong).await;
        }
    }
    wrong
}

impl User {
    /// The row is a fold of the log, nothing of it is pending, and so is what `read` answers.
    async fn check_row(&mut self, log: &Log, told: &Told, row: Option<&Value>, wrong: &mut Wrong) {
        let (Some(time), Some(row)) = (told.times.last(), row) else {
            wrong.rows += u64::from(told.times.is_empty() != row.is_none());
            return;
        };
        let end = time.left.unwrap_or(log.len());
        let of = |name| number(row, name).unwrap_or_default();
        let (unread, mentions) = log.unread(self.name(), of("read_seq"), end);
        let is_right = (of("last_seq"), of("delivered_seq"), of("first_seq")) == (end, end, time.first)
            && (of("unread"), of("mentions")) == (unread, mentions)
            && of("read_seq") >= time.joined - 1
            && number(row, "left_seq") == time.left
            && row.get("pending_from").is_none();
        let upto = self.rng.u64(1..=end);
        let left =
            self.app.client.read(&log.id, Seq::new(upto).expect("it is no larger")).await.expect("it can be read");
        let above = upto.max(of("read_seq"));
        let expected = log.unread(self.name(), above, end);
        if !is_right || (left.unread, left.mentions) != (expected.0, Some(expected.1)) {
            println!(
                "{} in {}: expected {unread} unread and {mentions} mentions up to {end}, and after {above} {expected:?}; there are {row}, and {left:?}",
                self.name(),
                log.id
            );
            wrong.rows += 1;
        }
    }

    /// All of the last time that they were a member, and of those before nothing that is not theirs.
    fn check_held(&self, log: &Log, told: &Told, wrong: &mut Wrong) {
        let nothing = BTreeSet::new();
        let held = self.conversations.get(&log.id).map_or(&nothing, |shown| &shown.held);
        let is_of_theirs =
            |seq: &u64| told.times.iter().any(|time| *seq >= time.first && time.left.is_none_or(|left| *seq <= left));
        let beyond = held.iter().filter(|seq| !is_of_theirs(seq)).count() as u64;
        let mut missing = 0;
        for (place, time) in told.times.iter().enumerate() {
            let end = time.left.unwrap_or(log.len());
            let absent = (time.joined..=end).filter(|seq| !held.contains(seq)).count() as u64;
            let is_last = place + 1 == told.times.len();
            missing += if is_last { absent } else { 0 };
            wrong.given_up += if is_last { 0 } else { absent };
        }
        if beyond + missing > 0 {
            println!("{} in {}: {missing} entries are missing, {beyond} are not theirs", self.name(), log.id);
        }
        (wrong.beyond, wrong.missing) = (wrong.beyond + beyond, wrong.missing + missing);
    }

    /// Compares an open group with the server's state.
    async fn check_group(&mut self, log: &Log, told: &Told, wrong: &mut Wrong) {
        let name = self.name().to_owned();
        let Some(shown) = self.conversations.get_mut(&log.id) else { return };
        let is_over = told.times.last().is_none_or(|time| time.left.is_some());
        if is_over != shown.timeline.is_closed() {
            println!("{name} sees {} as closed: {}", log.id, shown.timeline.is_closed());
            wrong.views += 1;
        }
        if is_over {
            return;
        }
        // As an app does that shows it all.
        while let Some(side) = shown.timeline.missing().or_else(|| shown.timeline.more_before()) {
            shown.timeline.history(self.app.client.history(&log.id, side, 100).await.expect("it is there"));
        }
        let expected = crate::changes::whole(&self.app.client, &log.id).await;
        let expected: Vec<Message> = expected.into_iter().filter(|entry| entry.kind.counts()).collect();
        let view = crate::changes::view(&shown.timeline);
        if view != expected {
            let differs = view.iter().zip(&expected).find(|(one, other)| one != other);
            println!(
                "{name} sees another {} than there is: {} and {}, {differs:?}",
                log.id,
                view.len(),
                expected.len()
            );
            wrong.views += 1;
        }
    }
}

/// Waits until the groups' stream is read to its end, and every user has shown the result. A user who stops earlier
/// acknowledges nothing more, and the rest stays pending.
pub(crate) async fn settled(server: &TestServer) {
    server.groups_settled().await;
    let taken = async {
        let rows = || server.local().database().rows("InboxTable", usize::MAX).unwrap().expect("there is such a table");
        while rows().iter().any(|row| row.get("pending_from").is_some()) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let _ = timeout(PATIENCE, taken).await;
}

fn members(server: &TestServer, logs: &[Log], users: &[User]) -> (u64, u64) {
    let rows = server.local().database().rows("MembersTable", usize::MAX).unwrap().expect("there is such a table");
    let by_rows = rows.iter().filter(|row| row.get("left_seq").is_none()).count();
    let is_member = |log: &Log, name: &str| log.told(name).times.last().is_some_and(|time| time.left.is_none());
    let names = || users.iter().map(User::name).chain([SERVICE]);
    let by_logs = logs.iter().flat_map(|log| names().filter(|name| is_member(log, name))).count();
    (by_rows as u64, by_logs as u64)
}
