//! A group: up to 500 members, whose inbox rows follow its log.

mod authors;
mod join;
mod marks;
mod reconcile;
mod repair;
mod tell;

pub(crate) use authors::told_of_marks;
pub(crate) use join::join;
pub(crate) use marks::raise;
pub(crate) use reconcile::{reconcile_and_settle, touch};
pub(crate) use repair::repair;
pub use repair::{LogSoFar, Repaired};
pub(crate) use tell::{tell_appended, told_of_typing};
