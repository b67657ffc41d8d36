//! Telling those whom a change concerns, after it has been committed. What does not arrive is pending, or is asked for.

use deliver::{Delivered, Delivery, Fanout};
use domain::{Audience, ConnectionId, Membership};
use wire::{Receipt, ServerEvent, Timestamp, UserId};

use crate::append::Appended;

/// A new entry: to the other members, and to the sender's connections other than the one it came from, which has its answer.
pub async fn tell_appended(
    fanout: &Fanout,
    now: Timestamp,
    appended: &Appended,
    from: Option<&ConnectionId>,
) -> Vec<Delivered> {
    let Some(entry) = &appended.entry else { return vec![] };
    tell_all(fanout, now, &appended.audience, from, |user| ServerEvent::messages_new(entry.seen_by(user))).await
}

/// Second ticks for the others, of each conversation in which a member's delivered mark was raised.
pub async fn tell_delivered(fanout: &Fanout, now: Timestamp, raised: &[Membership]) -> Vec<Delivered> {
    let told: Vec<_> =
        raised.iter().map(|row| (row.told_of_marks(), receipt(row, row.marks.delivered_seq, now))).collect();
    let to = |user, receipt: &Receipt| Delivery {
        user,
        event: ServerEvent::ReceiptDelivered(receipt.clone()),
        except: None,
    };
    let deliveries: Vec<Delivery> = told
        .iter()
        .flat_map(|(audience, receipt)| audience.others().iter().map(move |other| to(other, receipt)))
        .collect();
    if deliveries.is_empty() { vec![] } else { fanout.deliver(now, &deliveries).await }
}

/// Blue ticks for the others, and no badge on the reader's other devices.
pub async fn tell_read(
    fanout: &Fanout,
    now: Timestamp,
    row: &Membership,
    from: Option<&ConnectionId>,
) -> Vec<Delivered> {
    let (audience, receipt) = (row.told_of_marks(), receipt(row, row.marks.read_seq, now));
    tell_all(fanout, now, &audience, from, |_| ServerEvent::ReceiptRead(receipt.clone())).await
}

/// That a member is writing, to the others. One who connected in the last instant can be missed: the next one comes soon, or none.
pub async fn tell_typing(fanout: &Fanout, now: Timestamp, row: &Membership, from: &ConnectionId) -> Vec<Delivered> {
    let audience = row.told_of_marks();
    let event =
        ServerEvent::Typing { conversation_id: row.conversation_id.clone(), user_id: row.user_id.clone(), at: now };
    let to = |user| Delivery { user, event: event.clone(), except: Some(from) };
    let deliveries: Vec<Delivery> = audience.others().iter().map(to).collect();
    if deliveries.is_empty() { vec![] } else { fanout.deliver(now, &deliveries).await }
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
    let to = |user, except| Delivery { user, event: event_for(user), except };
    let others = audience.others().iter().map(|other| to(other, None));
    let deliveries: Vec<Delivery> = std::iter::once(to(audience.own(), from)).chain(others).collect();
    fanout.deliver(now, &deliveries).await
}

fn receipt(row: &Membership, seq: wire::Seq, at: Timestamp) -> Receipt {
    Receipt { conversation_id: row.conversation_id.clone(), user_id: row.user_id.clone(), seq, at }
}
