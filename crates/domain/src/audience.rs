//! The users whom an entry concerns.

use wire::UserId;

/// The members of a direct conversation, from the view of one of them: one or two. Every row, event and visibility of
/// an entry follows this list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audience {
    own: UserId,
    others: Vec<UserId>,
}

impl Audience {
    /// The members of a direct conversation. A note to self has no other member.
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

    /// Returns the members that have a row and connections: users, and no services.
    pub fn people(&self) -> impl Iterator<Item = &UserId> {
        std::iter::once(&self.own).chain(&self.others).filter(|member| !member.is_service())
    }

    /// Returns the user who sends, acknowledges or reads.
    pub fn own(&self) -> &UserId {
        &self.own
    }

    /// Returns all other members.
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
