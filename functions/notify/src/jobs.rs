//! The jobs of a batch's records, for each member's conversation.

use std::collections::BTreeMap;

use domain::{Look, Wanted};
use store::stream::{RowChange, Said};
use wire::{ConversationId, Seq, Timestamp, UserId};

/// A member's conversation.
pub(crate) type Member = (UserId, ConversationId);

/// The job for one member. Several records of a batch are one job, which uses the current row.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) member: Member,
    /// The place of its first record in the batch.
    pub(crate) index: usize,
    /// Phones may still show what is up to here, and is read or deleted.
    pub(crate) clear: Option<Seq>,
    /// The newest message that may cause a push.
    pub(crate) ring: Option<Said>,
    pub(crate) refresh: Option<Refresh>,
    /// How often it has failed.
    pub(crate) tries: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refresh {
    /// The badge may be too high, if it counts the conversation.
    Badge,
    /// The badge counted the conversation, and is too high.
    Uncounted,
    /// The message at this seq has another text.
    Edited(Seq),
}

impl Job {
    /// Returns the task for another try. A push wins over a dismissal, since it replaces what phones show.
    pub(crate) fn again(&self, tries: u32, at: Timestamp) -> Look {
        let what = match (self.ring, self.clear, self.refresh) {
            (Some(Said { seq, at: sent_at }), ..) => Wanted::Ring { seq, sent_at },
            (None, Some(seq), _) => Wanted::Clear(seq),
            (None, None, Some(Refresh::Edited(seq))) => Wanted::Edited(seq),
            (None, None, Some(Refresh::Uncounted)) => Wanted::Uncounted,
            (None, None, Some(Refresh::Badge) | None) => Wanted::Badge,
        };
        Look { what, tries, at }
    }

    fn add(&mut self, change: &RowChange) {
        self.clear = self.clear.max(change.read);
        self.refresh = self.refresh.max(change.uncounted.then_some(Refresh::Uncounted));
        self.hear(change.news, 0);
        let Some(Look { what, tries, .. }) = change.look else { return };
        let refresh = match what {
            Wanted::Ring { seq, sent_at } => return self.hear(Some(Said { seq, at: sent_at }), tries),
            Wanted::Clear(seq) => {
                self.clear = self.clear.max(Some(seq));
                None
            }
            Wanted::Badge => Some(Refresh::Badge),
            Wanted::Uncounted => Some(Refresh::Uncounted),
            Wanted::Edited(seq) => Some(Refresh::Edited(seq)),
        };
        self.refresh = self.refresh.max(refresh);
        self.tries = self.tries.max(tries);
    }

    /// The newer of two messages replaces the other.
    fn hear(&mut self, said: Option<Said>, tries: u32) {
        let Some(said) = said else { return };
        if self.ring.is_none_or(|known| known.seq < said.seq) {
            self.ring = Some(said);
            self.tries = tries;
        }
    }
}

/// In the order of their first records.
pub(crate) fn jobs(changes: &[RowChange]) -> Vec<Job> {
    let mut jobs = BTreeMap::<&UserId, BTreeMap<&ConversationId, Job>>::new();
    for (index, change) in changes.iter().enumerate() {
        if change.read.is_none() && change.news.is_none() && change.look.is_none() && !change.uncounted {
            continue;
        }
        let member = (change.user_id.clone(), change.conversation_id.clone());
        let job = Job { member, index, clear: None, ring: None, refresh: None, tries: 0 };
        let of_user = jobs.entry(&change.user_id).or_default();
        of_user.entry(&change.conversation_id).or_insert(job).add(change);
    }
    let mut jobs: Vec<Job> = jobs.into_values().flat_map(BTreeMap::into_values).collect();
    jobs.sort_by_key(|job| job.index);
    jobs
}
