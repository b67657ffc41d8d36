//! The transaction that appends a message: the message, its idempotency row and every member's inbox row, all or
//! nothing.

use std::time::Duration;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::builders::{PutBuilder, UpdateBuilder};
use aws_sdk_dynamodb::types::{AttributeValue, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update};
use domain::{Audience, Body, Content, Draft, Entry, Follows, Membership, Place, preview};
use wire::{MessageId, Refusal, Seq, Timestamp, UserId};

use crate::error::CallResult as _;
use crate::inbox::{FIRST_MESSAGES, READ};
use crate::item::{Item, Reader, VERSION, number, text, version};
use crate::transaction::{Cancelled, Outcome, put, update};
use crate::{Error, Store, epochs, media, messages, transaction};

/// Time for which a repeated `client_msg_id` gets the result of the first `send`.
const IDEMPOTENCY_TTL: Duration = Duration::from_hours(7 * 24);

/// An entry in the place that follows from a member's row as it was read: the sender's, or where a service writes, its
/// recipient's.
#[derive(Debug)]
pub struct NewEntry<'a> {
    pub draft: &'a Draft,
    pub place: &'a Place,
    /// From the sender's view.
    pub audience: &'a Audience,
    /// Until when the sender's entries in this conversation fill their rate, this one included.
    pub sends_until: Option<Timestamp>,
    /// The parts of the target that the change needs, if it is a change.
    pub follows: Follows,
}

/// A message.
#[derive(Debug)]
pub struct Append<'a> {
    pub entry: NewEntry<'a>,
    /// That row before, `None` for the first message. A stale one is caught: every write is conditional on it.
    pub previous: Option<&'a Membership>,
    /// Set for a first message that counts.
    pub first_message: Option<FirstMessage>,
    /// The sender has read everything up to here, by the request.
    pub read: Option<Seq>,
    /// Until when the sender's commits fill their rate, this one included, and births among them.
    pub commits_until: Option<Timestamp>,
    pub births_until: Option<Timestamp>,
}

/// The count of first messages to others: the time until which they fill their rate.
#[derive(Clone, Copy, Debug)]
pub enum FirstMessage {
    /// The time that was read is over, or there was none.
    AfterRest { was_until: Option<Timestamp>, until: Timestamp },
    /// Earlier ones still fill the rate, and concurrent ones may move the time up to `latest`.
    Further { filled_for: Duration, latest: Timestamp },
}

/// The outcome of an append.
#[derive(Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    Stored,
    /// The same content was stored before under this `client_msg_id`: here, and an edit as this version.
    Duplicate(Place, Option<u64>),
    /// Something else was stored before under this `client_msg_id`.
    IdReused,
    /// The media can't be attached. Nothing was written.
    MediaRefused(Refusal),
    /// Another write has the place, or was about to. Nothing was written.
    Taken,
    /// A member's rows fill all that DynamoDB holds for one user, 10 GB. Trying again would be of no use.
    Full,
}

/// Appends the message, if its place is still free and its idempotency key unused.
pub async fn append(store: &Store, append: &Append<'_>) -> Result<AppendOutcome, Error> {
    commit(store, append.entry.draft, append.entry.place, writes(store, append)).await
}

/// Writes the transaction that [`begin`] begins.
pub(crate) async fn commit(
    store: &Store,
    draft: &Draft,
    place: &Place,
    writes: Result<Vec<TransactWriteItem>, BuildError>,
) -> Result<AppendOutcome, Error> {
    match transaction::write(store, &store.tables.messages, writes).await? {
        Outcome::Written => Ok(AppendOutcome::Stored),
        Outcome::Cancelled(cancelled) => match media_refused(store, draft, place, &cancelled)? {
            Some(refusal) => Ok(AppendOutcome::MediaRefused(refusal)),
            None => not_written(store, draft, IDEMPOTENCY, cancelled),
        },
    }
}

/// Writes a change that is no entry, with the idempotency row at this place among the writes.
pub(crate) async fn commit_behind(
    store: &Store,
    draft: &Draft,
    idempotency: usize,
    writes: Result<Vec<TransactWriteItem>, BuildError>,
) -> Result<AppendOutcome, Error> {
    match transaction::write(store, &store.tables.messages, writes).await? {
        Outcome::Written => Ok(AppendOutcome::Stored),
        Outcome::Cancelled(cancelled) => not_written(store, draft, idempotency, cancelled),
    }
}

/// Why what the message carries was not attached, if that is why nothing was written.
fn media_refused(store: &Store, draft: &Draft, place: &Place, cancelled: &Cancelled) -> Result<Option<Refusal>, Error> {
    // The conflicting writer may be an earlier try of this message that has already attached the media. The next try
    // finds out.
    if cancelled.refused(IDEMPOTENCY).is_some() || cancelled.is_conflict() {
        return Ok(None);
    }
    let attached = draft.content.attached();
    let refused = attached.iter().zip(MEDIA..).find_map(|(media, at)| Some((media, cancelled.refused(at)?)));
    refused.map(|(media, reason)| media::refusal(store, draft, media, place.sent_at, reason.item())).transpose()
}

/// The place of the idempotency row among the writes, and so among the reasons for a cancellation.
const IDEMPOTENCY: usize = 1;
/// The place of the row of the first upload that the entry attaches.
const MEDIA: usize = 2;

/// Returns the first writes of every entry's transaction: the entry, its idempotency row, and the rows of its uploads.
pub(crate) fn begin(store: &Store, draft: &Draft, entry: &Entry) -> Result<Vec<TransactWriteItem>, BuildError> {
    let mut writes =
        vec![put(entry_put(store, entry))?, put(idempotency_put(store, draft, &entry.place, version_of(entry)))?];
    for media in &draft.content.attached() {
        writes.push(update(media::attach_update(store, draft, &entry.place, media))?);
    }
    Ok(writes)
}

impl NewEntry<'_> {
    /// Returns the stored form. An edit's text is in its target, and not in the entry.
    pub(crate) fn stored(&self) -> Entry {
        self.draft.clone().stored(self.place.clone(), self.follows.clone())
    }
}

fn writes(store: &Store, append: &Append<'_>) -> Result<Vec<TransactWriteItem>, BuildError> {
    let audience = append.entry.audience;
    let mut entry = append.entry.stored();
    // A service has no row: with a row for each of its users, one partition would hold the whole product.
    let is_of_service = audience.own().is_service();
    if is_of_service && let Some(message) = entry.message_mut() {
        message.recipient = audience.others().first().cloned();
    }
    let mut writes = begin(store, append.entry.draft, &entry)?;
    if let Content::Commit(commit) = &append.entry.draft.content {
        writes.push(update(epochs::update(store, &entry, commit))?);
    }
    if !is_of_service {
        writes.push(update(own_row_update(store, append))?);
    }
    for other in audience.others() {
        writes.push(update(other_row_update(store, append, other))?);
    }
    if let Some(first) = append.first_message {
        writes.push(update(first_messages_update(store, audience.own(), first))?);
    }
    Ok(writes)
}

/// Checks the idempotency row first: a retry must get its first result, even if another user wrote meanwhile.
fn not_written(store: &Store, draft: &Draft, idempotency: usize, cancelled: Cancelled) -> Result<AppendOutcome, Error> {
    if let Some(reason) = cancelled.refused(idempotency) {
        return first_answer(store, draft, reason.item());
    }
    if cancelled.is_full() {
        return Ok(AppendOutcome::Full);
    }
    if cancelled.is_lost() {
        return Ok(AppendOutcome::Taken);
    }
    Err(cancelled.into())
}

/// Returns the first result of a stored message, before a refusal. A repeated request gets the same reply, whatever has
/// happened since.
pub async fn find(store: &Store, draft: &Draft) -> Result<Option<AppendOutcome>, Error> {
    let table = &store.tables.idempotency;
    let get = store
        .client
        .get_item()
        .table_name(table)
        .consistent_read(true)
        .key("conversation_id", text(draft.conversation_id.as_str()))
        .key("sender_key", text(sender_key(draft)));
    let got = get.send().await.of_call("GetItem", table)?;
    got.item().map(|item| first_answer(store, draft, Some(item))).transpose()
}

/// Its two parts are joined by a space, which neither may contain.
fn sender_key(draft: &Draft) -> String {
    format!("{} {}", draft.sender_id, draft.client_msg_id)
}

fn first_answer(store: &Store, draft: &Draft, item: Option<&Item>) -> Result<AppendOutcome, Error> {
    let table = &store.tables.idempotency;
    let item = item.ok_or_else(|| Error::Item { table: table.clone(), attribute: "body_hash" })?;
    let row = Reader { item, table };
    if row.text("body_hash")? != draft.digest() {
        return Ok(AppendOutcome::IdReused);
    }
    let place = Place {
        seq: row.seq("seq")?,
        message_id: MessageId::stored(row.text("message_id")?),
        sent_at: row.time("sent_at")?,
    };
    Ok(AppendOutcome::Duplicate(place, row.optional("version", Reader::count)?))
}

/// Returns the version that an edit makes.
fn version_of(entry: &Entry) -> Option<u64> {
    match entry.body {
        Body::Edit { version, .. } => version,
        Body::Message(_)
        | Body::Delete { .. }
        | Body::Reaction { .. }
        | Body::Pin { .. }
        | Body::System(_)
        | Body::Commit(_)
        | Body::Erased(_)
        | Body::Other { .. } => None,
    }
}

fn entry_put(store: &Store, entry: &Entry) -> PutBuilder {
    Put::builder()
        .table_name(&store.tables.messages)
        .set_item(Some(messages::item(entry)))
        .condition_expression("attribute_not_exists(seq)")
}

pub(crate) fn idempotency_put(store: &Store, draft: &Draft, place: &Place, of_text: Option<u64>) -> PutBuilder {
    let Place { seq, message_id, sent_at } = place;
    let put = match of_text {
        Some(version) => Put::builder().item("version", number(version)),
        None => Put::builder(),
    };
    put.table_name(&store.tables.idempotency)
        .item("conversation_id", text(draft.conversation_id.as_str()))
        .item("sender_key", text(sender_key(draft)))
        .item("seq", number(seq))
        .item("message_id", text(message_id.as_str()))
        .item("sent_at", number(sent_at.millis()))
        .item("body_hash", text(draft.digest()))
        .item("expires_at", number(sent_at.plus(IDEMPOTENCY_TTL).seconds()))
        .item(VERSION, version())
        .condition_expression("attribute_not_exists(sender_key)")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

impl Append<'_> {
    /// Whether the sender had read all entries before this one: then both marks move to it. The condition on the
    /// conversation's end makes that exact.
    pub fn reads_all(&self) -> bool {
        self.read.zip(self.previous).is_some_and(|(read, row)| read >= row.end.seq)
    }

    /// Returns the attributes to remove from the sender's own row: what a `read` removes.
    fn removed(&self) -> Option<&'static str> {
        if self.reads_all() { Some(READ) } else { self.read.map(|_| "marked_unread") }
    }
}

/// Returns the updates of the author's own marks and count. A mark that does not follow is not written at all, because
/// an ack or a read may be raising it right now.
pub(crate) fn own_marks(entry: &NewEntry, previous: Option<&Membership>, reads_all: bool) -> String {
    let seq = entry.place.seq;
    let marks = previous.map(|row| row.marks.with_own(row.end.seq, seq, reads_all));
    let mut expression = String::new();
    for (attribute, mark) in
        [("delivered_seq", marks.map(|marks| marks.delivered_seq)), ("read_seq", marks.map(|marks| marks.read_seq))]
    {
        if mark.is_none_or(|mark| mark == seq) {
            expression = format!("{expression}, {attribute} = :seq");
        }
    }
    if reads_all {
        expression.push_str(", read_at = :at");
    }
    if entry.sends_until.is_some() {
        expression.push_str(", sends_until = :until");
    }
    expression
}

/// The value that [`own_marks`] names, if it does.
pub(crate) fn with_count(update: UpdateBuilder, entry: &NewEntry) -> UpdateBuilder {
    match entry.sends_until {
        Some(until) => update.expression_attribute_values(":until", number(until.millis())),
        None => update,
    }
}

fn own_row_update(store: &Store, append: &Append) -> UpdateBuilder {
    let marks = own_marks(&append.entry, append.previous, append.reads_all());
    let unread = if append.reads_all() { "unread = :none" } else { UNREAD };
    let audience = append.entry.audience;
    let own = audience.own();
    // In a note to self, the user is the peer.
    let peer = audience.others().first().unwrap_or(own);
    if !append.entry.draft.content.counts() {
        let (expression, mut update) = silent_update(store, append, own, peer, Some(NOT_BLOCKED));
        let mut counted = String::new();
        for (name, until) in [("commits_until", append.commits_until), ("births_until", append.births_until)] {
            if let Some(until) = until {
                counted = format!("{counted}, {name} = :{name}");
                update = update.expression_attribute_values(format!(":{name}"), number(until.millis()));
            }
        }
        let removed = append.removed().map(|names| format!(" REMOVE {names}")).unwrap_or_default();
        return with_count(update, &append.entry)
            .update_expression(format!("{expression}, {unread}{marks}{counted}{removed}"));
    }
    let removed = append.removed().map(|names| format!(", {names}")).unwrap_or_default();
    with_count(last_message_update(store, append, own, peer, Some(NOT_BLOCKED)), &append.entry)
        .update_expression(format!("{LAST_MESSAGE}, wrote = :yes, {unread}{marks}{TAKEN_OUT_OF_THE_ARCHIVE}{removed}"))
}

fn other_row_update(store: &Store, append: &Append, other: &UserId) -> UpdateBuilder {
    // A user's own row has the block of an erased peer. A service has no row.
    let condition = append.entry.audience.own().is_service().then_some("attribute_not_exists(erased)");
    let marks = "delivered_seq = if_not_exists(delivered_seq, :none), read_seq = if_not_exists(read_seq, :none)";
    if !append.entry.draft.content.counts() {
        let (expression, update) = silent_update(store, append, other, append.entry.audience.own(), condition);
        return update.update_expression(format!("{expression}, {UNREAD}, {marks}, {PENDING}"));
    }
    last_message_update(store, append, other, append.entry.audience.own(), condition)
        .update_expression(format!(
            "{LAST_MESSAGE}, peer_wrote = :yes, unread = if_not_exists(unread, :none) + :one, {marks}, \
             {PENDING}{TAKEN_OUT_OF_THE_ARCHIVE}"
        ))
        .expression_attribute_values(":one", number(1))
}

/// Returns the update common to all members' rows for a silent entry: what the chat list shows stays. The first entry of
/// a conversation fills the attributes of the last message, and the row enters the chat list with a later one.
fn silent_update(
    store: &Store,
    append: &Append,
    owner: &UserId,
    peer: &UserId,
    condition: Option<&str>,
) -> (String, UpdateBuilder) {
    let Append { entry: NewEntry { draft, place, .. }, previous, .. } = append;
    let mut expression = SILENT.to_owned();
    let mut update = Update::builder()
        .table_name(&store.tables.inbox)
        .key("user_id", text(owner.as_str()))
        .key("conversation_id", text(draft.conversation_id.as_str()))
        .expression_attribute_values(":seq", number(place.seq))
        .expression_attribute_values(":at", number(place.sent_at.millis()))
        .expression_attribute_values(":shown", number(previous.map_or(place.seq, |row| row.last.seq)))
        .expression_attribute_values(":none", number(0));
    if previous.is_none() {
        expression.push_str(
            ", peer_id = :peer, last_message_id = :id, last_at = :at, last_sender_id = :sender, last_kind = :kind, \
             last_preview = :nothing, v = if_not_exists(v, :v)",
        );
        update = update
            .expression_attribute_values(":peer", text(peer.as_str()))
            .expression_attribute_values(":id", text(place.message_id.as_str()))
            .expression_attribute_values(":sender", text(draft.sender_id.as_str()))
            .expression_attribute_values(":kind", text(draft.content.kind().as_str()))
            .expression_attribute_values(":nothing", text(""))
            .expression_attribute_values(":v", version());
    }
    if let Content::Commit(commit) = &draft.content {
        expression.push_str(", epoch = :epoch");
        update = update.expression_attribute_values(":epoch", number(commit.begins()));
    }
    let (condition, update) = still_ends(update, *previous, condition);
    (expression, update.condition_expression(condition))
}

/// The conversation ends with a silent entry now; what the chat list shows stays.
pub(crate) const SILENT: &str = "SET last_seq = :seq, silent_seq = :seq, silent_at = :at, shown_seq = :shown";

/// Returns the condition that the conversation still ends where the sender saw it end.
fn still_ends(update: UpdateBuilder, previous: Option<&Membership>, also: Option<&str>) -> (String, UpdateBuilder) {
    let (place_is_free, update) = match previous {
        None => ("attribute_not_exists(last_seq)", update),
        Some(row) => ("last_seq = :previous", update.expression_attribute_values(":previous", number(row.end.seq))),
    };
    let conditions: Vec<&str> = std::iter::once(place_is_free).chain(also).collect();
    (conditions.join(" AND "), update)
}

/// The count stays as it is.
const UNREAD: &str = "unread = if_not_exists(unread, :none)";

/// Since the first entry that waits.
pub(crate) const PENDING: &str =
    "pending_from = if_not_exists(pending_from, :seq), pending_since = if_not_exists(pending_since, :at)";

/// A conversation that is archived is shown again with the next message.
const TAKEN_OUT_OF_THE_ARCHIVE: &str = " REMOVE archived";

/// Both members' rows record a block by either of the two, so the sender's row is enough.
pub(crate) const NOT_BLOCKED: &str = "attribute_not_exists(blocked) AND attribute_not_exists(blocked_by_peer)";

/// Returns the update of the count of first messages. A burst of them adds up in any order, while the rate has room. Only
/// the first after a rest requires that no other was counted meanwhile.
pub(crate) fn first_messages_update(store: &Store, sender: &UserId, first: FirstMessage) -> UpdateBuilder {
    let update = Update::builder()
        .table_name(&store.tables.inbox)
        .key("user_id", text(sender.as_str()))
        .key("conversation_id", text(FIRST_MESSAGES))
        .expression_attribute_values(":v", version());
    match first {
        FirstMessage::Further { filled_for, latest } => update
            .update_expression("SET sends_until = sends_until + :filled, v = if_not_exists(v, :v)")
            .condition_expression("sends_until <= :latest")
            .expression_attribute_values(":filled", number(filled_for.as_millis()))
            .expression_attribute_values(":latest", number(latest.millis())),
        FirstMessage::AfterRest { was_until, until } => {
            let update = update
                .update_expression("SET sends_until = :until, v = if_not_exists(v, :v)")
                .expression_attribute_values(":until", number(until.millis()));
            match was_until {
                None => update.condition_expression("attribute_not_exists(sends_until)"),
                Some(was) => update
                    .condition_expression("sends_until = :was")
                    .expression_attribute_values(":was", number(was.millis())),
            }
        }
    }
}

/// A row that a later version wrote keeps its version.
const LAST_MESSAGE: &str = "SET peer_id = :peer, last_seq = :seq, last_message_id = :id, last_at = :at, \
                            last_sender_id = :sender, last_kind = :kind, last_preview = :preview, active_at = :active, \
                            v = if_not_exists(v, :v)";

/// Returns the update common to all members' rows, if the conversation still ends where the sender saw it end.
fn last_message_update(
    store: &Store,
    append: &Append,
    owner: &UserId,
    peer: &UserId,
    condition: Option<&str>,
) -> UpdateBuilder {
    let Append { entry: NewEntry { draft, place, .. }, previous, .. } = append;
    let (kind, preview) = match &draft.content {
        Content::Message { kind, body, .. } => (kind, preview(body)),
        content @ (Content::Sealed { .. }
        | Content::Commit(_)
        | Content::Change { .. }
        | Content::Group(_)
        | Content::Erased(_)) => (content.kind(), String::new()),
    };
    let active_at = Membership::active_at_after(*previous, place.sent_at);
    let update = Update::builder()
        .table_name(&store.tables.inbox)
        .key("user_id", text(owner.as_str()))
        .key("conversation_id", text(draft.conversation_id.as_str()))
        .expression_attribute_values(":peer", text(peer.as_str()))
        .expression_attribute_values(":seq", number(place.seq))
        .expression_attribute_values(":id", text(place.message_id.as_str()))
        .expression_attribute_values(":at", number(place.sent_at.millis()))
        .expression_attribute_values(":sender", text(draft.sender_id.as_str()))
        .expression_attribute_values(":kind", text(kind.as_str()))
        .expression_attribute_values(":preview", text(preview))
        .expression_attribute_values(":active", number(active_at.millis()))
        .expression_attribute_values(":none", number(0))
        .expression_attribute_values(":yes", AttributeValue::Bool(true))
        .expression_attribute_values(":v", version());
    let (condition, update) = still_ends(update, *previous, condition);
    update.condition_expression(condition)
}
