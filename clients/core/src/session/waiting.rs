//! A request of the outbox, in a send queue or while its file is uploaded.

use wire::Seq;

use super::AskId;
use crate::Moment;
use crate::saved::Queued;

pub(super) struct Waiting {
    /// The order over all send queues.
    pub order: u64,
    pub queued: Queued,
    pub ask: Option<AskId>,
    pub under_way: bool,
    /// The server's acknowledged mark when this was first sent; `None`: unknown, or not sent.
    pub acked_before: Option<Seq>,
    pub tries: u32,
    /// The server can carry out an earlier try until then; `None`: unknown, or not sent.
    pub runs_until: Option<Moment>,
    /// The app got the entry before the reply came.
    pub told: bool,
}

impl Waiting {
    pub(super) fn set_unsent(&mut self) {
        (self.under_way, self.acked_before, self.tries, self.runs_until) = (false, None, 0, None);
    }
}
