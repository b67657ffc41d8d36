//! Members' rows of a group, brought to where its log ends; and whoever is moved is told what came.
//!
//! It can be done at any time, by anybody, twice at once, and be left in the middle: a row goes over each entry once, by a condition on
//! how it was read, and who moved it posts.

use std::collections::BTreeSet;

use deliver::{Delivered, Delivery, Fanout};
use domain::{ConnectionId, Failure, Head, Logged, Membership, Moved, RosterRow, fold, split};
use futures_util::{StreamExt as _, stream};
use store::inbox::{self, Update};
use store::{Store, heads, messages, roster, views};
use tokio::time::sleep;
use wire::{ConversationId, Message, Seq, ServerEvent, Side, Timestamp, UserId};

use crate::retry::pause;

/// Members who are moved at once.
const MEMBERS_AT_ONCE_MAX: usize = 64;
/// Entries that are gone over at once, and no more than a frame holds.
pub(crate) const ENTRIES_AT_ONCE_MAX: usize = 100;
/// Times that a row is written which others write meanwhile.
const MOVES_MAX: u32 = 5;
/// Times that an entry is looked for which must be there: its transaction shows elsewhere already.
pub(crate) const LOOKS_MAX: u32 = 4;

/// What came of it.
#[derive(Debug, Default)]
pub struct Reconciled {
    pub delivered: Vec<Delivered>,
    /// Members' rows that went on.
    pub moved: u64,
    /// Who has left, and has been told so.
    pub settled: Vec<(UserId, Seq)>,
    /// Rows that can't be read.
    pub unreadable: u64,
    /// Why some member is not where the log ends. The others are.
    pub failed: Option<Failure>,
}

/// Brings every member's row of the group to where its log ends.
pub async fn reconcile(
    store: &Store,
    fanout: &Fanout,
    now: impl Fn() -> Timestamp,
    conversation: &ConversationId,
) -> Result<Reconciled, Failure> {
    let mut done = Reconciled::default();
    let mut left_out = BTreeSet::new();
    let mut looks = 0;
    loop {
        let Some(head) = readable_head(store, conversation, &mut done.unreadable).await? else { return Ok(done) };
        let state = State::read(store, head, &left_out, &mut done).await?;
        let Some(behind) = state.lowest() else { break };
        let entries = entries(store, conversation, behind).await?;
        let Some(last) = entries.last().map(Logged::seq) else {
            // Half of a transaction shows: the head, and not yet the entry.
            looks += 1;
            if looks == LOOKS_MAX {
                done.failed = Some(Failure::Unavailable("an entry of a group does not show".into()));
                return Ok(done);
            }
            sleep(pause(looks, 1.0)).await;
            continue;
        };
        left_out.extend(move_all(store, fanout, now(), &state, &entries, &mut done).await?);
        if last >= state.head.end.seq {
            break;
        }
    }
    Ok(done)
}

/// The head, if there is one that this version can read. What it stands before goes on with the next entry, or with whoever looks.
pub(crate) async fn readable_head(
    store: &Store,
    conversation: &ConversationId,
    unreadable: &mut u64,
) -> Result<Option<Head>, Failure> {
    let head = store::if_readable(heads::get(store, conversation).await, "a head")?;
    *unreadable += u64::from(head.is_none());
    Ok(head.flatten())
}

/// The same, and who has left, and has been told so, leaves the roster.
pub async fn reconcile_and_settle(
    store: &Store,
    fanout: &Fanout,
    now: impl Fn() -> Timestamp,
    conversation: &ConversationId,
) -> Result<Reconciled, Failure> {
    let mut done = reconcile(store, fanout, now, conversation).await?;
    for (user, left_seq) in &done.settled {
        if let Err(error) = roster::settle(store, conversation, user, *left_seq).await {
            done.failed = Some(error.into());
        }
    }
    Ok(done)
}

/// Brings the user's own row of the group to where its log ends: what waits for nobody else. The row as it is then, if there is one.
/// `row`, as it was read.
pub async fn touch(
    store: &Store,
    fanout: &Fanout,
    now: Timestamp,
    user: &UserId,
    conversation: &ConversationId,
    mut row: Option<Membership>,
) -> Result<Option<Membership>, Failure> {
    let Some(head) = store::if_readable(heads::get(store, conversation).await, "a head")? else { return Ok(row) };
    let Some(head) = head else { return Ok(None) };
    let own = store::if_readable(roster::get(store, conversation, user).await, "a row of a roster")?;
    let Some(own) = own else { return Ok(row) };
    while let Some(behind) = behind(row.as_ref(), own.as_ref(), head.end.seq) {
        let entries = entries(store, conversation, behind).await?;
        if entries.is_empty() {
            break;
        }
        move_one(store, fanout, now, conversation, user, row, &entries).await?;
        let moved = inbox::get(store, user, conversation).await?;
        // Nothing there concerned them: the head is of a time when they had left.
        if moved.as_ref().is_none_or(|moved| moved.end.seq <= behind) {
            return Ok(moved);
        }
        row = moved;
    }
    Ok(row)
}

/// A group and its members, each part read after the one that it is compared with.
struct State {
    head: Head,
    roster: Vec<RosterRow>,
    rows: Vec<Membership>,
}

impl State {
    async fn read(
        store: &Store,
        head: Head,
        left_out: &BTreeSet<UserId>,
        done: &mut Reconciled,
    ) -> Result<Self, Failure> {
        let (mut roster, unreadable) = roster::list(store, &head.conversation_id, true).await?;
        // A service looks at nothing, so it has no view.
        roster.retain(|row| !row.user_id.is_service() && !left_out.contains(&row.user_id));
        let users: Vec<UserId> = roster.iter().map(|row| row.user_id.clone()).collect();
        let views = views::glance(store, &head.conversation_id, &users).await?;
        roster.retain(|row| !views.unreadable.contains(&row.user_id));
        done.unreadable = unreadable + views.unreadable.len() as u64;
        let state = Self { head, roster, rows: views.rows };
        for member in &state.roster {
            let left = state.row(&member.user_id).and_then(|row| row.view()?.left_seq);
            if let Some(seq) = member.left_seq.filter(|seq| left == Some(*seq)) {
                done.settled.push((member.user_id.clone(), seq));
            }
        }
        Ok(state)
    }

    fn row(&self, user: &UserId) -> Option<&Membership> {
        self.rows.iter().find(|row| row.user_id == *user)
    }

    /// Behind which entry the one who is most behind goes on.
    fn lowest(&self) -> Option<Seq> {
        let of = |member: &RosterRow| behind(self.row(&member.user_id), Some(member), self.head.end.seq);
        self.roster.iter().filter_map(of).min()
    }
}

/// Behind which entry a member's row goes on; `None`: it is where it belongs. The time before somebody joined again is nobody's.
fn behind(row: Option<&Membership>, member: Option<&RosterRow>, end: Seq) -> Option<Seq> {
    let left = row.and_then(Membership::view).and_then(|view| view.left_seq);
    let from = match (row, left) {
        (Some(row), None) => row.end.seq,
        (_, left) => {
            let joined = member?.joined_seq;
            if left.is_some_and(|left| left >= joined) {
                return None;
            }
            joined.previous()
        }
    };
    (from < end).then_some(from)
}

/// The next entries, as far as they show without a hole: of a transaction that has just been committed, others may show before.
pub(crate) async fn entries(store: &Store, conversation: &ConversationId, behind: Seq) -> Result<Vec<Logged>, Failure> {
    let listed = messages::list(store, conversation, Side::After(behind), ENTRIES_AT_ONCE_MAX).await?;
    let read = listed.messages.into_iter().map(|entry| Logged::Entry(Box::new(entry)));
    let mut entries: Vec<Logged> = read.chain(listed.unreadable.into_iter().map(Logged::Unreadable)).collect();
    entries.sort_by_key(Logged::seq);
    let mut next = behind;
    entries.retain(|entry| {
        let follows = entry.seq() == next.next();
        if follows {
            next = next.next();
        }
        follows
    });
    Ok(entries)
}

/// Moves everybody whom these entries concern. Gives those who stay behind them all the same, so that they hold up nobody else: whose
/// row could not be written, and who joined with an entry that this version can't read.
async fn move_all(
    store: &Store,
    fanout: &Fanout,
    now: Timestamp,
    state: &State,
    entries: &[Logged],
    done: &mut Reconciled,
) -> Result<Vec<UserId>, Failure> {
    let conversation = &state.head.conversation_id;
    let last = entries.last().map(Logged::seq).unwrap_or_default();
    let is_due = |user: &UserId| {
        let member = state.roster.iter().find(|member| member.user_id == *user);
        behind(state.row(user), member, state.head.end.seq).is_some_and(|from| from < last)
    };
    let known = state.roster.iter().map(|member| (member.user_id.clone(), state.row(&member.user_id).cloned()));
    let mut targets: Vec<(UserId, Option<Membership>)> = known.collect();
    // From the entry itself: the roster may not show them yet.
    let joiners = entries.iter().flat_map(Logged::joiners).filter(|user| !user.is_service());
    let mut unknown: Vec<UserId> =
        joiners.filter(|user| state.roster.iter().all(|member| member.user_id != **user)).cloned().collect();
    unknown.sort_unstable();
    unknown.dedup();
    let rows =
        if unknown.is_empty() { views::Views::default() } else { views::glance(store, conversation, &unknown).await? };
    targets.extend(unknown.into_iter().filter(|user| !rows.unreadable.contains(user)).map(|user| {
        let row = rows.rows.iter().find(|row| row.user_id == user).cloned();
        (user, row)
    }));
    let moving = targets.into_iter().map(async |(user, row)| {
        let moved = move_one(store, fanout, now, conversation, &user, row, entries).await;
        (user, moved)
    });
    let mut moving = stream::iter(moving).buffer_unordered(MEMBERS_AT_ONCE_MAX);
    let mut stay = vec![];
    while let Some((user, moved)) = moving.next().await {
        match moved {
            Ok(Step::Moved(row, delivered)) => {
                done.moved += 1;
                done.delivered.extend(delivered);
                if let Some(left) = row.view().and_then(|view| view.left_seq) {
                    done.settled.push((user, left));
                }
            }
            Ok(Step::Nothing) if is_due(&user) => {
                tracing::error!("a member's row stays behind: the entry with which they joined can't be read");
                stay.push(user);
            }
            Ok(Step::Nothing | Step::Elsewhere) => {}
            Err(failure) => {
                tracing::warn!(error = domain::error_chain(&failure), "a member's row is left behind");
                done.failed.get_or_insert(failure);
                stay.push(user);
            }
        }
    }
    Ok(stay)
}

/// What became of one member's row.
enum Step {
    Moved(Box<Membership>, Vec<Delivered>),
    /// By somebody else, who posts.
    Elsewhere,
    /// None of the entries concerns it.
    Nothing,
}

/// One conditional write, however many entries it goes over; and then, who moved the row posts.
async fn move_one(
    store: &Store,
    fanout: &Fanout,
    now: Timestamp,
    conversation: &ConversationId,
    user: &UserId,
    mut row: Option<Membership>,
    entries: &[Logged],
) -> Result<Step, Failure> {
    let mut otherwise = Step::Nothing;
    for tries in 1..=MOVES_MAX {
        let Some(moved) = fold(user, conversation, row.as_ref(), entries) else { return Ok(otherwise) };
        match views::advance(store, row.as_ref(), &moved.row).await? {
            Update::Done(_) => {
                let delivered = tell(fanout, now, user, &moved, entries).await;
                return Ok(Step::Moved(Box::new(moved.row), delivered));
            }
            Update::Refused(current) => (row, otherwise) = (current, Step::Elsewhere),
            Update::Busy => sleep(pause(tries, fastrand::f64())).await,
        }
    }
    Err(Failure::Unavailable("a member's row is written all the time".into()))
}

/// Posts what is new to all of the user's connections, but to none what came from it.
async fn tell(fanout: &Fanout, now: Timestamp, user: &UserId, moved: &Moved, entries: &[Logged]) -> Vec<Delivered> {
    let mut delivered: Vec<Delivered> = vec![];
    for (origin, messages) in runs(user, moved, entries) {
        for messages in split(messages) {
            let Some(conversation_id) = messages.first().map(|first| first.conversation_id.clone()) else { continue };
            let event = ServerEvent::MessagesNew { conversation_id, messages };
            let delivery = Delivery { user, event, except: origin };
            delivered.extend(fanout.deliver(now, &[delivery]).await);
        }
    }
    delivered
}

/// What the user sees of the entries, in parts that go to the same connections. It ends before what can't be read.
fn runs<'a>(user: &UserId, moved: &Moved, entries: &'a [Logged]) -> Vec<(Option<&'a ConnectionId>, Vec<Message>)> {
    let mut runs: Vec<(Option<&ConnectionId>, Vec<Message>)> = vec![];
    let first_seq = moved.row.first_seq();
    let told = moved.told_from.max(first_seq)..=moved.row.end.seq;
    for logged in entries.iter().filter(|entry| told.contains(&entry.seq())) {
        let Logged::Entry(entry) = logged else { break };
        let origin = entry.aside.origin.as_ref().filter(|_| entry.sender_id == *user);
        let message = entry.seen_by(user, first_seq);
        match runs.last_mut().filter(|(of, _)| *of == origin) {
            Some((_, messages)) => messages.push(message),
            None => runs.push((origin, vec![message])),
        }
    }
    runs
}
