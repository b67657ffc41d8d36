//! The content of an entry about an erased user.

use wire::{Message, Seq, UserId};

/// The entries of a user who was erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasedBody {
    /// The id that the user has from then on.
    pub user: UserId,
    /// From the first to the last of each range.
    pub seqs: Vec<[Seq; 2]>,
}

impl ErasedBody {
    pub(crate) fn shown(&self, shown: Message) -> Message {
        let Self { user, seqs } = self.clone();
        Message { user_id: Some(Box::new(user)), seqs: Some(Box::new(seqs)), ..shown }
    }
}
