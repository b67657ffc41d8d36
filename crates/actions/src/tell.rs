//! The events of marks, of `typing`, and of a user's own changes. A client requests what an event did not bring.

use deliver::{Delivered, Delivery};
use domain::{Membership, Origin};
use futures_util::future;
use wire::{ConversationId, Receipt, Seq, ServerEvent, Timestamp, UserId};

use crate::marks::Raised;
use crate::{Actions, group};

/// Sends second ticks to the others, of each conversation in which a member's delivered mark was raised.
pub(crate) async fn delivered(actions: &Actions, mut raised: Vec<Raised>) -> Vec<Delivered> {
    let now = actions.now();
    raised.retain(|raised| actions.repeats.admit(raised, now));
    let told = future::join_all(raised.iter().map(async |raised| {
        let receipt = receipt(&raised.row, raised.row.marks.delivered_seq, now);
        (told_of_marks(actions, raised, receipt.seq).await, receipt)
    }));
    let told = told.await;
    let to = |user, receipt: &Receipt| Delivery {
        user,
        event: ServerEvent::ReceiptDelivered(receipt.clone()),
        except: None,
    };
    let deliveries: Vec<Delivery> =
        told.iter().flat_map(|(others, receipt)| others.iter().map(move |other| to(other, receipt))).collect();
    if deliveries.is_empty() { vec![] } else { actions.fanout.deliver(now, &deliveries).await }
}

/// Sends blue ticks to the others, and the mark to the reader's other devices, which clear their badges. Nothing for a repetition of
/// which this process has sent the events.
pub(crate) async fn read(actions: &Actions, raised: &Raised, from: Option<&Origin>) -> Vec<Delivered> {
    let now = actions.now();
    if !actions.repeats.admit(raised, now) {
        return vec![];
    }
    let receipt = receipt(&raised.row, raised.row.marks.read_seq, now);
    let others = told_of_marks(actions, raised, receipt.seq).await;
    let to = |user, except| Delivery { user, event: ServerEvent::ReceiptRead(receipt.clone()), except };
    let own = std::iter::once(to(&raised.row.user_id, from));
    let deliveries: Vec<Delivery> = own.chain(others.iter().map(|other| to(other, None))).collect();
    actions.fanout.deliver(now, &deliveries).await
}

/// Returns the users who get the receipt of a mark: the other member; in a small group, the authors of what it covers newly. The receipt
/// of a mark that was raised before goes to the author of where it stands: the process that raised it may have died.
async fn told_of_marks(actions: &Actions, raised: &Raised, seq: Seq) -> Vec<UserId> {
    match raised.row.view() {
        None => raised.row.told_of_marks().others().to_vec(),
        Some(_) => group::told_of_marks(&actions.store, raised, seq).await,
    }
}

/// Sends `typing` to these members. A member who connected in the last instant may miss it, and gets the next one.
pub(crate) async fn typing(
    actions: &Actions,
    user: &UserId,
    conversation: &ConversationId,
    others: &[UserId],
    (text, from): (Option<String>, Option<&Origin>),
) -> Vec<Delivered> {
    let now = actions.now();
    let event = ServerEvent::Typing { conversation_id: conversation.clone(), user_id: user.clone(), at: now, text };
    let to = |user| Delivery { user, event: event.clone(), except: from };
    let deliveries: Vec<Delivery> = others.iter().map(to).collect();
    if deliveries.is_empty() { vec![] } else { actions.fanout.deliver(now, &deliveries).await }
}

/// Sends an event to the user's own connections but where it came from.
pub(crate) async fn own(actions: &Actions, user: &UserId, event: ServerEvent, from: Option<&Origin>) -> Vec<Delivered> {
    actions.fanout.deliver(actions.now(), &[Delivery { user, event, except: from }]).await
}

fn receipt(row: &Membership, seq: Seq, at: Timestamp) -> Receipt {
    Receipt { conversation_id: row.conversation_id.clone(), user_id: row.user_id.clone(), seq, at }
}
