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

    /// The members of a direct conversation, from the view of an operator, who is none of them.
    #[must_use]
    pub fn seen_from_outside(&self, operator: UserId) -> Self {
        let members = std::iter::once(&self.own).chain(&self.others);
        Self { own: operator, others: members.filter(|member| !member.is_service()).cloned().collect() }
    }

    /// Those of them who have a row and connections: people, and no services.
    pub fn people(&self) -> impl Iterator<Item = &UserId> {
        std::iter::once(&self.own).chain(&self.others).filter(|member| !member.is_service())
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
