//! The users who get the receipt of a mark in a group.

use std::ops::RangeInclusive;

use domain::{Head, Membership, error_chain};
use store::{Store, messages, roster};
use wire::limits::SMALL_GROUP_MEMBERS_MAX;
use wire::{Seq, UserId};

use crate::marks::Raised;

/// Maximum of the last covered entries whose authors get a receipt in a small group.
const RECEIPT_ENTRIES_MAX: usize = 50;

/// Returns the authors of what a mark covers newly.
pub(crate) async fn told_of_marks(store: &Store, raised: &Raised, seq: Seq) -> Vec<UserId> {
    let Raised { row, from, head, .. } = raised;
    let range = from.next().min(seq).value().max(row.first_seq().value())..=seq.value();
    match authors(store, row, head.as_ref(), &range).await {
        Ok(authors) => authors,
        Err(error) => {
            tracing::warn!(error = error_chain(&error), "the authors were not read; no receipt was sent");
            vec![]
        }
    }
}

async fn authors(
    store: &Store,
    row: &Membership,
    head: Option<&Head>,
    range: &RangeInclusive<u64>,
) -> Result<Vec<UserId>, store::Error> {
    let conversation = &row.conversation_id;
    let is_small = |head: &Head| head.group.member_count <= SMALL_GROUP_MEMBERS_MAX;
    if range.is_empty() || !row.is_open() || !head.is_some_and(is_small) {
        return Ok(vec![]);
    }
    let mut authors = messages::authors(store, conversation, range, RECEIPT_ENTRIES_MAX).await?;
    authors.retain(|author| *author != row.user_id && !author.is_service());
    authors.sort_unstable();
    authors.dedup();
    if authors.is_empty() {
        return Ok(authors);
    }
    // A former member gets no more receipts.
    let members = roster::get_many(store, conversation, &authors).await?;
    authors.retain(|author| members.iter().any(|member| member.user_id == *author && member.is_member()));
    Ok(authors)
}
