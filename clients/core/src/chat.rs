//! The chat model: what an interface can be put on. Like the rest of the crate it has no I/O, no clock and no thread.
//!
//! [`Messages`] is the view of one conversation. Its inputs are events, pages and the user's acts; its output is a list
//! of [`Item`]s, whose keys stay while items move and change.
//!
//! A view has a [`Snapshot`] with a version. The view makes no list of differences, because an interface compares keys
//! anyway, and a window has at most [`ITEMS_MAX`] entries. An item that did not change is the same object in the next
//! snapshot.

mod item;
mod messages;
mod window;
mod zone;

pub use item::{Content, Item, MessageItem, Progress, Refused, Reply, Run};
pub use messages::{Messages, Request, Snapshot};
pub use window::{At, ITEMS_MAX, PAGE};
pub use zone::Zone;

#[cfg(test)]
mod tests;
