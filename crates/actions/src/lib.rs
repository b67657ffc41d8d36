//! What a caller can do, whoever calls. A function parses what came in, calls this, and answers.
//!
//! Every change is one conditional write or transaction, in `store`; the rules that decide on it are in `domain`. What is told
//! afterwards goes to the audience that the change had.

mod append;
mod backlog;
mod change;
mod channel;
mod delete_message;
mod group;
mod raise;
mod reconcile;
mod repair;
mod retry;
mod sends;
mod set;
mod tell;
mod visible;
mod watch;

pub use append::{Appended, Concerned, append, conversation_for};
pub use backlog::{DrainPage, backlog};
pub use change::{Wanted, change};
pub use channel::{join, leave, read_channel};
pub use delete_message::delete_message;
pub use group::{Writer, added, change_group, creation};
pub use raise::{Raised, raise};
pub use reconcile::{Reconciled, reconcile, reconcile_and_settle, touch};
pub use repair::{Repaired, repair};
pub use retry::{Attempt, retry};
pub use sends::SendLimits;
pub use set::set;
pub use store::inbox::Mark;
pub use tell::{tell_appended, tell_delivered, tell_own, tell_read, tell_typing};
pub use visible::visible;
pub use watch::{forget_watched, show, unwatch, watch};
