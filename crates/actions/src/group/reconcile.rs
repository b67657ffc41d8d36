//! Brings the members' inbox rows of a group to the end of its log, and sends the members the events.
//!
//! Any process can do it at any time, twice and concurrently, and can stop at any line. A row applies each entry once,
//! by a condition on the row as it was read, and the process that moved the row posts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;
use std::time::Duration;

use deliver::{Delivered, Delivery};
use domain::{Entry, Failure, Head, Logged, Membership, Moved, Origin, RosterRow, With, error_chain, fold, split};
use futures_util::{StreamExt as _, stream};
use store::heads::{self};
use store::inbox::{self, Mark, MemberRows, Update};
use store::messages::{self};
use store::{Store, roster, views};
use tokio::sync::OnceCell;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use wire::{ConversationId, Member, Message, Receipt, Seq, ServerEvent, Side, UserId};

use crate::Actions;
use crate::group::authors::told_of_marks;
use crate::log::{ENTRIES_AT_ONCE_MAX, LOOKS_MAX, Reconciled, dense, readable_head};
use crate::marks::Raised;
use crate::retry::pause;

/// Members whose rows are written concurrently.
const MEMBERS_AT_ONCE_MAX: usize = 64;
/// Times that a row is written which others write meanwhile.
const MOVES_MAX: u32 = 5;
/// One write of a member's row, with the SDK's own second try: the group does not wait longer for one member.
const MOVE_TIMEOUT: Duration = Duration::from_secs(2);

/// A group as this process has just committed it: nothing of that is read again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub head: &'a Head,
    /// The whole member list at the commit, if it was read.
    pub roster: Option<&'a [RosterRow]>,
    /// The last entry of the log.
    pub entry: &'a Entry,
}

/// A run that brings members to the end of a log.
struct Run<'a> {
    actions: &'a Actions,
    conversation: &'a ConversationId,
    /// The stream record that is the cause, if it is one.
    record: Option<u64>,
}

/// An earlier run for the same cause, which may have died between a member's row and the post.
#[derive(Clone, Copy, Debug)]
pub(super) enum Earlier {
    None,
    /// The first try of a request stored this entry, and moved rows to it.
    Try(Seq),
    /// A run for this stream record moved rows. A run for the same record marks the rows that it moves.
    Record(u64),
}

impl Earlier {
    fn record(self) -> Option<u64> {
        match self {
            Self::Record(record) => Some(record),
            Self::None | Self::Try(_) => None,
        }
    }

    /// Reports whether the earlier run moved the row last, and no device has acknowledged the entry at its end.
    fn may_lack(self, row: &Membership) -> bool {
        let is_moved = match self {
            Self::None => false,
            Self::Try(seq) => row.end.seq == seq,
            Self::Record(record) => row.view().is_some_and(|view| view.moved_by == Some(record)),
        };
        is_moved && row.marks.delivered_seq < row.end.seq
    }
}

/// Brings every member's row of the group to the end of its log, or to the end that is `known`. Collects the rows whose
/// members an `earlier` run may not have notified.
pub(crate) async fn reconcile(
    actions: &Actions,
    conversation: &ConversationId,
    known: Option<Known<'_>>,
    earlier: Earlier,
) -> Result<Reconciled, Failure> {
    let (store, run) = (&actions.store, Run { actions, conversation, record: earlier.record() });
    let mut done = Reconciled::default();
    let mut left_out = LeftOut::default();
    let (mut looks, mut members, mut known) = (0, 0, known);
    loop {
        // A second round is behind what is known.
        let known = known.take();
        let head = match known {
            Some(known) => known.head.clone(),
            None => match readable_head(store, conversation, &mut done.unreadable).await? {
                Some(head) => head,
                None => break,
            },
        };
        done.end = head.end.seq;
        let roster = match known.and_then(|known| known.roster) {
            Some(roster) => (roster.to_vec(), 0),
            None => roster::list(store, conversation, true).await?,
        };
        let state = State::read(store, head, roster, &mut left_out, &mut done).await?;
        members = state.roster.len() + left_out.users.len();
        if looks == 0 && done.untold.is_empty() {
            done.untold = state.untold(earlier);
        }
        let Some(behind) = state.lowest() else { break };
        let entries = match known.filter(|known| known.entry.place.seq == behind.next()) {
            Some(known) => Entries::of(known.entry.clone()),
            None => Entries::read(store, conversation, behind, state.head.end.seq).await?,
        };
        let Some(last) = entries.last() else {
            // Half of a transaction shows: the head, and not yet the entry.
            looks += 1;
            if looks == LOOKS_MAX {
                done.failed = Some(Failure::Unavailable("an entry of a group is missing".into()));
                break;
            }
            sleep(pause(looks, 1.0)).await;
            continue;
        };
        move_all(&run, &state, &entries, &mut left_out, &mut done).await;
        if last >= state.head.end.seq {
            break;
        }
    }
    done.may_pass = left_out.passing > 0;
    // Then it is the table, and no neighbour of theirs.
    if left_out.passing > 1 && left_out.passing * 2 > members {
        done.failed.get_or_insert_with(|| {
            Failure::Unavailable("most rows of the members in InboxTable were not read or written".into())
        });
    }
    // A group that failed is tried again as a whole.
    if done.failed.is_none() {
        done.left_behind = left_out.users.len() as u64;
    }
    Ok(done)
}

/// Members whose rows stay behind, so that they delay no other member.
#[derive(Debug, Default)]
struct LeftOut {
    users: BTreeSet<UserId>,
    /// The number of members whose rows may be writable in a moment.
    passing: usize,
}

impl LeftOut {
    fn add(&mut self, user: UserId, passes: bool) {
        self.passing += usize::from(self.users.insert(user) && passes);
    }

    /// Adds members whose rows the table did not return.
    fn add_unread(&mut self, users: Vec<UserId>) {
        for user in users {
            tracing::warn!(user_id = user.as_str(), "an inbox row was not read; it is left behind");
            self.add(user, true);
        }
    }
}

/// Posts the last entry of each row once more. A client that lacks earlier ones too finds the gap.
pub(super) async fn tell_again(
    actions: &Actions,
    conversation: &ConversationId,
    rows: Vec<Membership>,
) -> Vec<Delivered> {
    let ends: BTreeSet<Seq> = rows.iter().map(|row| row.end.seq).collect();
    let mut entries = BTreeMap::new();
    for end in ends {
        match messages::get(&actions.store, conversation, end).await {
            Ok(entry) => entries.extend(entry.map(|entry| (end, Entries::of(entry)))),
            Err(error) => {
                tracing::warn!(error = error_chain(&error), "an entry was not read; its event was not repeated");
            }
        }
    }
    let entries = &entries;
    let telling = rows.into_iter().map(async |row| match entries.get(&row.end.seq) {
        Some(entry) => tell(actions, &Moved { told_from: row.end.seq, row }, entry, vec![]).await,
        None => vec![],
    });
    stream::iter(telling).buffer_unordered(MEMBERS_AT_ONCE_MAX).concat().await
}

/// Reconciles, and removes the member-list rows of former members whose inbox rows record the leave. `record`: the
/// stream record that is the cause.
pub(crate) async fn reconcile_and_settle(
    actions: &Actions,
    conversation: &ConversationId,
    record: Option<u64>,
) -> Result<Reconciled, Failure> {
    let mut done = reconcile(actions, conversation, None, record.map_or(Earlier::None, Earlier::Record)).await?;
    let untold = std::mem::take(&mut done.untold);
    done.delivered.extend(tell_again(actions, conversation, untold).await);
    for (user, left_seq) in &done.settled {
        if let Err(error) = roster::settle(&actions.store, conversation, user, *left_seq).await {
            tracing::warn!(error = error_chain(&error), "the member-list row of a former member was not removed");
            done.may_pass = true;
        }
    }
    Ok(done)
}

/// Brings the user's own row of the group to the end of its log, and waits for no other member. Returns the row as it
/// is then. `row`: as it was read.
pub(crate) async fn touch(
    actions: &Actions,
    user: &UserId,
    conversation: &ConversationId,
    mut row: Option<Membership>,
) -> Result<Option<Membership>, Failure> {
    let (store, run) = (&actions.store, Run { actions, conversation, record: None });
    let Some(head) = store::if_readable(heads::get(store, conversation).await, "a head")? else { return Ok(row) };
    let Some(head) = head else { return Ok(None) };
    let own = store::if_readable(roster::get(store, conversation, user).await, "a row of a roster")?;
    let Some(own) = own else { return Ok(row) };
    while let Some(behind) = behind(row.as_ref(), own.as_ref(), head.end.seq) {
        let entries = Entries::read(store, conversation, behind, head.end.seq).await?;
        if entries.last().is_none() {
            break;
        }
        match move_one(&run, user, row, &entries, (&head, &[])).await {
            Step::Failed { failure, .. } => return Err(failure),
            Step::Moved(moving) => tell_read(actions, conversation, moving.read.as_slice(), &BTreeSet::new()).await,
            Step::Elsewhere | Step::Nothing => {}
        }
        let moved = inbox::get(store, user, conversation).await?;
        // Nothing there concerned them: the head is of a time when they had left.
        if moved.as_ref().is_none_or(|moved| moved.end.seq <= behind) {
            return Ok(moved);
        }
        row = moved;
    }
    Ok(row)
}

/// A group and its members, each part read after the one that it is compared with, or vouched for by a commit.
struct State {
    head: Head,
    roster: BTreeMap<UserId, RosterRow>,
    rows: BTreeMap<UserId, Membership>,
}

impl State {
    /// Reads the inbox rows of the member list, of which some rows were unreadable.
    async fn read(
        store: &Store,
        head: Head,
        (mut roster, unreadable): (Vec<RosterRow>, u64),
        left_out: &mut LeftOut,
        done: &mut Reconciled,
    ) -> Result<Self, Failure> {
        // A service reads no group, so it has no inbox row.
        roster.retain(|row| !row.user_id.is_service() && !left_out.users.contains(&row.user_id));
        let users: Vec<UserId> = roster.iter().map(|row| row.user_id.clone()).collect();
        let views = views::glance(store, &head.conversation_id, &users).await?;
        let unread: BTreeSet<&UserId> = views.unreadable.iter().chain(&views.left).collect();
        roster.retain(|row| !unread.contains(&row.user_id));
        done.unreadable = unreadable + views.unreadable.len() as u64;
        left_out.add_unread(views.left);
        let roster = roster.into_iter().map(|row| (row.user_id.clone(), row)).collect();
        let rows = views.rows.into_iter().map(|row| (row.user_id.clone(), row)).collect();
        let state = Self { head, roster, rows };
        for member in state.roster.values() {
            let left = state.rows.get(&member.user_id).and_then(|row| row.view()?.left_seq);
            if let Some(seq) = member.left_seq.filter(|seq| left == Some(*seq)) {
                done.settled.push((member.user_id.clone(), seq));
            }
        }
        Ok(state)
    }

    /// Returns the rows at the end of the log whose members the `earlier` run may not have notified. Other members get
    /// the entries behind their row.
    fn untold(&self, earlier: Earlier) -> Vec<Membership> {
        let at_end = self.rows.values().filter(|row| self.behind(&row.user_id).is_none());
        at_end.filter(|row| earlier.may_lack(row)).cloned().collect()
    }

    /// Behind which entry the one who is most behind goes on.
    fn lowest(&self) -> Option<Seq> {
        self.roster.keys().filter_map(|user| self.behind(user)).min()
    }

    /// Behind which entry the user's row goes on.
    fn behind(&self, user: &UserId) -> Option<Seq> {
        behind(self.rows.get(user), self.roster.get(user), self.head.end.seq)
    }
}

/// Returns the entry behind which a member's row continues, or `None` if the row is complete. A member who joined again
/// does not see the entries between the two memberships.
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

/// Entries of a log, one after the other.
struct Entries {
    /// If a frame can't hold all of them, the later ones have neither text nor media. Large entries so cost a round
    /// what small ones do.
    outlines: Vec<Logged>,
    /// Whether a frame holds all of them, as they are.
    fits: bool,
    /// All entries with their texts, read once a member is connected. `None`: they can't be read.
    whole: OnceCell<Option<Vec<Logged>>>,
}

impl Entries {
    /// Only this one. No entry is larger than a frame.
    fn of(entry: Entry) -> Self {
        Self { outlines: vec![Logged::Entry(Box::new(entry))], fits: true, whole: OnceCell::new() }
    }

    async fn read(store: &Store, conversation: &ConversationId, behind: Seq, end: Seq) -> Result<Self, Failure> {
        let listed = messages::list(store, conversation, Side::After(behind), ENTRIES_AT_ONCE_MAX).await?;
        let mut fits = listed.fits();
        let mut outlines = dense(listed, behind);
        let (last, room) = (outlines.last().map(Logged::seq), ENTRIES_AT_ONCE_MAX.saturating_sub(outlines.len()));
        if let Some(last) = last.filter(|last| *last < end && room > 0) {
            let rest = dense(messages::outlines(store, conversation, last, room).await?, last);
            fits &= rest.is_empty();
            outlines.extend(rest);
        }
        Ok(Self { outlines, fits, whole: OnceCell::new() })
    }

    fn last(&self) -> Option<Seq> {
        self.outlines.last().map(Logged::seq)
    }

    /// Returns the user's last entry in this range before which the user had read all.
    fn read_all_by(&self, user: &UserId, range: impl RangeBounds<Seq>) -> Option<Seq> {
        self.outlines.iter().rev().find_map(|logged| match logged {
            Logged::Entry(entry) if entry.read_all && entry.sender_id == *user => {
                Some(entry.place.seq).filter(|seq| range.contains(seq))
            }
            Logged::Entry(_) | Logged::Unreadable(_) => None,
        })
    }

    /// Returns the entries with their texts, read once for all members.
    async fn whole(&self, store: &Store, conversation: &ConversationId) -> Option<&[Logged]> {
        let read = || async {
            let (first, last) = (self.outlines.first()?.seq(), self.last()?);
            match messages::range(store, conversation, &(first.value()..=last.value())).await {
                Ok(listed) => Some(dense(listed, first.previous())),
                Err(error) => {
                    tracing::warn!(
                        error = error_chain(&error),
                        "the entries of a group were not read; no event was sent"
                    );
                    None
                }
            }
        };
        self.whole.get_or_init(read).await.as_deref()
    }
}

/// Applies these entries to the rows of all members. Members whose rows stay behind go to `left_out`, so that they
/// delay no other member. Their row could not be read or written, or they joined with an entry that this version can't
/// read.
async fn move_all(run: &Run<'_>, state: &State, entries: &Entries, left_out: &mut LeftOut, done: &mut Reconciled) {
    let last = entries.last().unwrap_or_default();
    let is_due = |user: &UserId| state.behind(user).is_some_and(|from| from < last);
    let known = state.roster.keys().map(|user| (user.clone(), state.rows.get(user).cloned()));
    let mut targets: Vec<(UserId, Option<Membership>)> = known.collect();
    // From the entry itself: the roster may not show them yet.
    let joiners = entries.outlines.iter().flat_map(Logged::joiners).filter(|user| !user.is_service());
    let unknown = joiners.filter(|user| !state.roster.contains_key(user) && !left_out.users.contains(user));
    let unknown: BTreeSet<UserId> = unknown.cloned().collect();
    let unknown: Vec<UserId> = unknown.into_iter().collect();
    let MemberRows { rows, unreadable, left } = newcomers(&run.actions.store, run.conversation, &unknown).await;
    let mut rows: BTreeMap<UserId, Membership> = rows.into_iter().map(|row| (row.user_id.clone(), row)).collect();
    let unread: BTreeSet<&UserId> = unreadable.iter().chain(&left).collect();
    let read = unknown.into_iter().filter(|user| !unread.contains(user));
    targets.extend(read.map(|user| {
        let row = rows.remove(&user);
        (user, row)
    }));
    left_out.add_unread(left);
    // A user who had read all before writing goes first: the events of the others have that user's marks.
    let (readers, others): (Vec<_>, Vec<_>) =
        targets.into_iter().partition(|(user, _)| entries.read_all_by(user, ..).is_some());
    let (mut reads, mut told) = (vec![], BTreeSet::new());
    for (user, step) in move_each(run, readers, entries, (&state.head, &[])).await {
        if let Step::Moved(moving) = &step {
            reads.extend(moving.read.clone());
        }
        note(&user, step, is_due(&user), left_out, done);
    }
    for (user, step) in move_each(run, others, entries, (&state.head, &reads)).await {
        if let Step::Moved(_) = &step {
            told.insert(user.clone());
        }
        note(&user, step, is_due(&user), left_out, done);
    }
    tell_read(run.actions, run.conversation, &reads, &told).await;
}

/// Applies these entries to the rows of these members, many concurrently.
async fn move_each(
    run: &Run<'_>,
    targets: Vec<(UserId, Option<Membership>)>,
    entries: &Entries,
    with: (&Head, &[OwnRead]),
) -> Vec<(UserId, Step)> {
    let moving = targets.into_iter().zip(0_usize..).map(async |((user, row), place)| {
        // One member a turn of the runtime: otherwise the first frame waits until all members' requests are built.
        for _ in 0..place % MEMBERS_AT_ONCE_MAX {
            yield_now().await;
        }
        let step = move_one(run, &user, row, entries, with).await;
        (user, step)
    });
    stream::iter(moving).buffer_unordered(MEMBERS_AT_ONCE_MAX).collect().await
}

/// Notes the outcome for one member's row, which was due or not.
fn note(user: &UserId, step: Step, is_due: bool, left_out: &mut LeftOut, done: &mut Reconciled) {
    match step {
        Step::Moved(moving) => {
            done.moved += 1;
            done.delivered.extend(moving.delivered);
            if let Some(left) = moving.row.view().and_then(|view| view.left_seq) {
                done.settled.push((user.clone(), left));
            }
        }
        Step::Nothing if is_due => {
            let user_id = user.as_str();
            tracing::error!(user_id, "an inbox row is left behind: the entry of the join is unreadable");
            left_out.add(user.clone(), false);
        }
        Step::Nothing | Step::Elsewhere => {}
        Step::Failed { failure, passes } => {
            let (user_id, error) = (user.as_str(), error_chain(&failure));
            tracing::warn!(user_id, error, "an inbox row is left behind");
            left_out.add(user.clone(), passes);
        }
    }
}

/// Returns the rows of new members. A failed read leaves out these members alone.
async fn newcomers(store: &Store, conversation: &ConversationId, users: &[UserId]) -> MemberRows<Membership> {
    if users.is_empty() {
        return MemberRows::default();
    }
    views::glance(store, conversation, users).await.unwrap_or_else(|error| {
        tracing::warn!(error = error_chain(&error), "the inbox rows of new members were not read");
        MemberRows { left: users.to_vec(), ..MemberRows::default() }
    })
}

/// A row that this process moved, and its posts.
struct Moving {
    row: Membership,
    delivered: Vec<Delivered>,
    /// Set if the member's own entry moved the read mark.
    read: Option<OwnRead>,
}

/// A read mark that its user's own entry moved.
#[derive(Clone, Debug)]
struct OwnRead {
    marks: Member,
    /// The authors of what the mark covers newly.
    authors: Vec<UserId>,
}

/// The outcome for one member's row.
enum Step {
    Moved(Box<Moving>),
    /// Another process moved the row, and posts.
    Elsewhere,
    /// None of the entries concerns it.
    Nothing,
    /// The row could not be written. `passes`: a later try may succeed.
    Failed {
        failure: Failure,
        passes: bool,
    },
}

/// One conditional write, however many entries it goes over; and then, who moved the row posts.
async fn move_one(
    run: &Run<'_>,
    user: &UserId,
    mut row: Option<Membership>,
    entries: &Entries,
    (head, reads): (&Head, &[OwnRead]),
) -> Step {
    let Run { actions, conversation, record } = *run;
    let (now, mut otherwise) = (actions.now(), Step::Nothing);
    for tries in 1..=MOVES_MAX {
        let folded = fold(user, conversation, row.as_ref(), &entries.outlines, now);
        let Some(mut moved) = folded else { return otherwise };
        if let With::Group(view) = &mut moved.row.with {
            view.moved_by = record;
        }
        match timeout(MOVE_TIMEOUT, views::advance(&actions.store, row.as_ref(), &moved.row)).await {
            Ok(Ok(Update::Done(_))) => {
                let read = own_read(&actions.store, row.as_ref(), &moved, entries, head).await;
                let to_author = reads.iter().filter(|read| read.authors.contains(user));
                let marks = to_author.chain(&read).map(|read| read.marks.clone()).collect();
                let delivered = tell(actions, &moved, entries, marks).await;
                return Step::Moved(Box::new(Moving { row: moved.row, delivered, read }));
            }
            Ok(Ok(Update::Refused(current))) => (row, otherwise) = (current, Step::Elsewhere),
            Ok(Ok(Update::Busy)) => sleep(pause(tries, fastrand::f64())).await,
            Ok(Err(error)) => {
                let passes = matches!(error, store::Error::Call { .. }) && !error.is_full();
                return Step::Failed { failure: error.into(), passes };
            }
            Err(elapsed) => return Step::Failed { failure: Failure::Unavailable(elapsed.into()), passes: true },
        }
    }
    let failure = Failure::Unavailable("a member's row is written all the time".into());
    Step::Failed { failure, passes: true }
}

/// Returns the read mark that the member's own entry moved, and its authors; `None` if none did.
async fn own_read(
    store: &Store,
    before: Option<&Membership>,
    moved: &Moved,
    entries: &Entries,
    head: &Head,
) -> Option<OwnRead> {
    let (row, mark) = (&moved.row, Mark::Read);
    let seq = entries.read_all_by(&row.user_id, moved.told_from..=row.end.seq)?;
    let from = before.map_or_else(|| row.first_seq().previous(), |before| before.marks.read_seq);
    // Nothing of others is between.
    if from.next() >= seq {
        return None;
    }
    let raised = Raised { row: row.clone(), from, mark, head: Some(head.clone()) };
    let authors = told_of_marks(store, &raised, seq).await;
    Some(OwnRead { marks: row.member(), authors })
}

/// Sends the receipts of read marks to their authors, except to the users whose events had the marks.
async fn tell_read(actions: &Actions, conversation: &ConversationId, reads: &[OwnRead], except: &BTreeSet<UserId>) {
    let now = actions.now();
    let receipt = |marks: &Member| Receipt {
        conversation_id: conversation.clone(),
        user_id: marks.user_id.clone(),
        seq: marks.read_seq,
        at: now,
    };
    let deliveries: Vec<Delivery> = reads
        .iter()
        .flat_map(|read| read.authors.iter().map(move |author| (author, &read.marks)))
        .filter(|(author, _)| !except.contains(*author))
        .map(|(user, marks)| Delivery { user, event: ServerEvent::ReceiptRead(receipt(marks)), except: None })
        .collect();
    if !deliveries.is_empty() {
        actions.fanout.deliver(now, &deliveries).await;
    }
}

/// Posts the new entries to all of the user's connections, except to where an entry came from. The marks
/// that entries moved are in the last frame. Entries that take more than a frame are read only for a connected user.
async fn tell(actions: &Actions, moved: &Moved, entries: &Entries, marks: Vec<Member>) -> Vec<Delivered> {
    let (now, fanout) = (actions.now(), &actions.fanout);
    let (user, conversation) = (&moved.row.user_id, &moved.row.conversation_id);
    if !entries.fits {
        let events = async {
            let whole = entries.whole(&actions.store, conversation).await.unwrap_or_default();
            events(moved, whole, marks)
        };
        return vec![fanout.deliver_series(now, user, events).await];
    }
    let mut delivered: Vec<Delivered> = vec![];
    for (except, event) in events(moved, &entries.outlines, marks) {
        delivered.extend(fanout.deliver(now, &[Delivery { user, event, except }]).await);
    }
    delivered
}

/// Returns the member's events, each with where its entries came from.
fn events<'a>(moved: &Moved, entries: &'a [Logged], mut marks: Vec<Member>) -> Vec<(Option<&'a Origin>, ServerEvent)> {
    let frames = |(origin, messages)| split(messages).into_iter().map(move |messages| (origin, messages));
    let frames: Vec<_> = runs(moved, entries).into_iter().flat_map(frames).collect();
    let last = frames.len();
    let event = |((origin, messages), number)| {
        let conversation_id = moved.row.conversation_id.clone();
        let marks = if number == last { std::mem::take(&mut marks) } else { vec![] };
        (origin, ServerEvent::MessagesNew { conversation_id, messages, marks })
    };
    frames.into_iter().zip(1..).map(event).collect()
}

/// Returns the visible entries, in runs that go to the same connections. The list ends before an unreadable entry.
fn runs<'a>(moved: &Moved, entries: &'a [Logged]) -> Vec<(Option<&'a Origin>, Vec<Message>)> {
    let mut runs: Vec<(Option<&Origin>, Vec<Message>)> = vec![];
    // The member may have left before entries that the row has not reached.
    let sight = moved.row.sight();
    let told = moved.told_from.max(sight.first)..=moved.row.end.seq;
    for logged in entries.iter().filter(|entry| told.contains(&entry.seq())) {
        let Logged::Entry(entry) = logged else { break };
        let user = &moved.row.user_id;
        let origin = entry.origin.as_ref().filter(|_| entry.sender_id == *user);
        let message = entry.seen_by(user, &sight);
        match runs.last_mut().filter(|(of, _)| *of == origin) {
            Some((_, messages)) => messages.push(message),
            None => runs.push((origin, vec![message])),
        }
    }
    runs
}
