//! The return of a user who left a group.

use domain::{Failure, GroupChange};
use store::heads;
use wire::{ClientMsgId, ConversationId, Refusal, UserId};

use crate::Actions;
use crate::entry::{Joined, Writer};
use crate::log::Changed;

/// Adds the user, who is in the group or has left it.
///
/// The user's own connections get the event as all others do: no request of theirs has its id.
pub(crate) async fn join(
    actions: &Actions,
    user: &UserId,
    group: &ConversationId,
    conflicts: &mut u64,
) -> Result<Joined, Failure> {
    let id = ClientMsgId::parse(&format!("return-{:032x}", fastrand::u128(..)));
    let key = (group.clone(), id.map_err(|invalid| Failure::Unavailable(invalid.into()))?);
    let writer = Writer { user, origin: None };
    match actions.change_group(writer, key, GroupChange::Return, conflicts).await? {
        Changed::Entry(entry) => Ok(Joined { last_seq: entry.place.seq, entry: Some(entry) }),
        Changed::Nothing(_) => {
            let head = heads::get(&actions.store, group).await?.ok_or(Refusal::NotMember)?;
            Ok(Joined { last_seq: head.end.seq, entry: None })
        }
    }
}
