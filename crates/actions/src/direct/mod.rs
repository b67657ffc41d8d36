//! Direct conversations, of two users or of one with themselves. An entry writes the inbox rows of its members.

mod append;
mod change;
mod erased;
mod tell;

pub(crate) use append::{append, check_reach};
pub(crate) use change::change;
pub(crate) use erased::append_erased;
pub(crate) use tell::{tell_appended, told_of_text, told_of_typing};
