//! Telling those whom a change concerns, after it has been committed. What does not arrive is pending, or is asked for.

use std::ops::RangeInclusive;

use deliver::{Delivered, Delivery, FAN_OUT_TIMEOUT, Fanout};
use domain::limits::RECEIPT_ENTRIES_MAX;
use domain::{Audience, ConnectionId, Failure, Head, Membership, RosterRow, error_chain};
use futures_util::future;
use store::{Store, heads, inbox, messages, roster};
use tokio::time::timeout;
use wire::limits::SMALL_GROUP_MEMBERS_MAX;
use wire::{ConversationId, Receipt, Refusal, Seq, ServerEvent, Timestamp, UserId};

use crate::append::{Appended, Concerned};
use crate::raise::Raised;
use crate::reconcile::reconcile;

/// A new entry: to the other members, and to the sender's connections other than the one it came from, which has its answer. In a small
/// group too: in a larger one the stream of its head sees to it, as it does wherever this dies.
pub async fn tell_appended(
    store: &Store,
    fanout: &Fanout,
    now: Timestamp,
    appended: &Appended,
    from: Option<&ConnectionId>,
) -> Vec<Delivered> {
    match &appended.concerned {
        Concerned::Audience(audience) => {
            let Some(entry) = &appended.entry else { return vec![] };
            let first = Seq::FIRST;
            let event = |user: &UserId| ServerEvent::messages_new(entry.seen_by(user, first));
            tell_all(fanout, now, audience, from, event).await
        }
        Concerned::Group { member_count } if *member_count <= SMALL_GROUP_MEMBERS_MAX && !appended.duplicate => {
            let reconciled = reconcile(store, fanout, || now, &appended.conversation_id);
            match timeout(FAN_OUT_TIMEOUT, reconciled).await {
                Ok(Ok(reconciled)) => reconciled.delivered,
                Ok(Err(failure)) => {
                    tracing::warn!(error = error_chain(&failure), "the members are told by the stream");
                    vec![]
                }
                Err(_) => {
                    tracing::warn!("not all members were told in time; the stream tells the others");
                    vec![]
                }
            }
        }
        Concerned::Group { .. } | Concerned::Channel => vec![],
    }
}

/// Second ticks for the others, of each conversation in which a member's delivered mark was raised.
pub async fn tell_delivered(store: &Store, fanout: &Fanout, now: Timestamp, raised: &[Raised]) -> Vec<Delivered> {
    let told = future::join_all(raised.iter().map(async |raised| {
        let receipt = receipt(&raised.row, raised.row.marks.delivered_seq, now);
        (told_of_marks(store, raised, receipt.seq).await, receipt)
    }));
    let told = told.await;
    let to = |user, receipt: &Receipt| Delivery {
        user,
        event: ServerEvent::ReceiptDelivered(receipt.clone()),
        except: None,
    };
    let deliveries: Vec<Delivery> =
        told.iter().flat_map(|(others, receipt)| others.iter().map(move |other| to(other, receipt))).collect();
    if deliveries.is_empty() { vec![] } else { fanout.deliver(now, &deliveries).await }
}

/// Blue ticks for the others, and no badge on the reader's other devices.
pub async fn tell_read(
    store: &Store,
    fanout: &Fanout,
    now: Timestamp,
    raised: &Raised,
    from: Option<&ConnectionId>,
) -> Vec<Delivered> {
    let receipt = receipt(&raised.row, raised.row.marks.read_seq, now);
    let others = told_of_marks(store, raised, receipt.seq).await;
    let to = |user, except| Delivery { user, event: ServerEvent::ReceiptRead(receipt.clone()), except };
    let own = std::iter::once(to(&raised.row.user_id, from));
    let deliveries: Vec<Delivery> = own.chain(others.iter().map(|other| to(other, None))).collect();
    fanout.deliver(now, &deliveries).await
}

/// Who is told of a mark: the other member; in a small group, the authors of what it covers newly. One that was raised before is told to
/// the author of where it stands: who raised it may have died before telling anyone.
async fn told_of_marks(store: &Store, raised: &Raised, seq: Seq) -> Vec<UserId> {
    let Raised { row, from } = raised;
    if row.view().is_none() {
        return row.told_of_marks().others().to_vec();
    }
    let range = from.next().min(seq).value().max(row.first_seq().value())..=seq.value();
    match authors(store, row, &range).await {
        Ok(authors) => authors,
        Err(error) => {
            tracing::warn!(error = error_chain(&error), "nobody is told of a mark");
            vec![]
        }
    }
}

async fn authors(store: &Store, row: &Membership, range: &RangeInclusive<u64>) -> Result<Vec<UserId>, store::Error> {
    let conversation = &row.conversation_id;
    let is_small = |head: Head| head.group.member_count <= SMALL_GROUP_MEMBERS_MAX;
    if range.is_empty() || !row.is_open() || !heads::glance(store, conversation).await?.is_some_and(is_small) {
        return Ok(vec![]);
    }
    let mut authors = messages::authors(store, conversation, range, RECEIPT_ENTRIES_MAX).await?;
    authors.retain(|author| *author != row.user_id && !author.is_service());
    authors.sort_unstable();
    authors.dedup();
    if authors.is_empty() {
        return Ok(authors);
    }
    // Who has left hears no more of it.
    let members = roster::get_many(store, conversation, &authors).await?;
    authors.retain(|author| members.iter().any(|member| member.user_id == *author && member.is_member()));
    Ok(authors)
}

/// That a member is writing, to the others, unless the group is large. One who connected in the last instant can be missed: the next one
/// comes soon, or none.
pub async fn tell_typing(
    store: &Store,
    fanout: &Fanout,
    now: Timestamp,
    user: &UserId,
    conversation: &ConversationId,
    from: &ConnectionId,
) -> Result<Vec<Delivered>, Failure> {
    let others = if conversation.is_channel() {
        return Err(Refusal::bad_request("conversation_id", "must not be a channel's").into());
    } else if conversation.is_group() {
        others_in_small_group(store, user, conversation).await?
    } else {
        let row = inbox::get(store, user, conversation).await?.ok_or(Refusal::NotMember)?;
        row.told_of_marks().others().to_vec()
    };
    let event = ServerEvent::Typing { conversation_id: conversation.clone(), user_id: user.clone(), at: now };
    let to = |user| Delivery { user, event: event.clone(), except: Some(from) };
    let deliveries: Vec<Delivery> = others.iter().map(to).collect();
    Ok(if deliveries.is_empty() { vec![] } else { fanout.deliver(now, &deliveries).await })
}

async fn others_in_small_group(
    store: &Store,
    user: &UserId,
    conversation: &ConversationId,
) -> Result<Vec<UserId>, Failure> {
    let is_small = |head: Head| head.group.member_count <= SMALL_GROUP_MEMBERS_MAX;
    if !heads::glance(store, conversation).await?.is_some_and(is_small) {
        return Ok(vec![]);
    }
    let (members, _) = roster::list(store, conversation, false).await?;
    let members: Vec<UserId> = members.into_iter().filter(RosterRow::is_member).map(|member| member.user_id).collect();
    if !members.contains(user) {
        return Err(Refusal::NotMember.into());
    }
    Ok(members.into_iter().filter(|member| member != user).collect())
}

/// What a user did that concerns nobody else: to their own connections but the one that it came from.
pub async fn tell_own(
    fanout: &Fanout,
    now: Timestamp,
    user: &UserId,
    event: ServerEvent,
    from: Option<&ConnectionId>,
) -> Vec<Delivered> {
    fanout.deliver(now, &[Delivery { user, event, except: from }]).await
}

/// To everybody whom it concerns, but not to the connection that it came from.
async fn tell_all(
    fanout: &Fanout,
    now: Timestamp,
    audience: &Audience,
    from: Option<&ConnectionId>,
    event_for: impl Fn(&UserId) -> ServerEvent,
) -> Vec<Delivered> {
    let except = |user: &UserId| from.filter(|_| user == audience.own());
    let to = |user| Delivery { user, event: event_for(user), except: except(user) };
    let deliveries: Vec<Delivery> = audience.people().map(to).collect();
    fanout.deliver(now, &deliveries).await
}

fn receipt(row: &Membership, seq: Seq, at: Timestamp) -> Receipt {
    Receipt { conversation_id: row.conversation_id.clone(), user_id: row.user_id.clone(), seq, at }
}
