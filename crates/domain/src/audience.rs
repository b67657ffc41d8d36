//! Whom an entry concerns.

use wire::UserId;

/// The members of a conversation, from the view of one of them: the only list of whom something is written for, told to or
/// hidden from. It has one or two members today.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audience {
    own: UserId,
    others: Vec<UserId>,
}

impl Audience {
    /// Of a direct conversation. A note to oneself has nobody else.
    pub fn direct(own: UserId, peer: UserId) -> Self {
        let others = if peer == own { vec![] } else { vec![peer] };
        Self { own, others }
    }

    /// Who sends, acknowledges or reads.
    pub fn own(&self) -> &UserId {
        &self.own
    }

    /// Everybody else.
    pub fn others(&self) -> &[UserId] {
        &self.others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_to_oneself_concerns_nobody_else() {
        let [alice, bob] = ["alice", "bob"].map(|id| UserId::parse(id).unwrap());
        assert_eq!(Audience::direct(alice.clone(), bob.clone()).others(), [bob]);
        assert!(Audience::direct(alice.clone(), alice).others().is_empty());
    }
}
