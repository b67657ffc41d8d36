//! The chat model: what an interface can be put on. Like the rest of the crate it has no I/O, no clock and no thread.
//!
//! [`Messages`] is the view of one conversation. Its inputs are events, pages and the user's acts; its output is a list
//! of [`Item`]s, whose keys stay while items move and change. [`Conversations`] is the chat list, with a [`ChatRow`] for
//! each conversation.
//!
//! [`Core`](crate::Core) has both: an app opens a view of a [`ViewOf`], and gets what is [`Shown`] whenever it changes.
//!
//! A view has a [`Snapshot`] with a version. The view makes no list of differences, because an interface compares keys
//! anyway, and a window has at most [`ITEMS_MAX`] entries. An item that did not change is the same object in the next
//! snapshot.

mod conversations;
mod item;
mod messages;
mod names;
mod roster;
mod row;
mod rules;
mod views;
mod window;
mod zone;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use conversations::{Conversations, Filter, ListSnapshot, PinsOf};
pub use item::{Content, Item, MessageItem, Progress, Refused, Reply, Run, Signal};
pub use messages::{Messages, Request, Snapshot};
pub use roster::{MemberRow, RosterSnapshot};
pub use row::{ChatRow, Line};
pub use rules::Rules;
pub(crate) use rules::Standing;
pub use views::{Act, Found, Load, LoadId, Screen, Shown, ViewId, ViewOf};
pub(crate) use views::{Need, Views, is_of_view};
pub use window::{At, ITEMS_MAX, PAGE};
pub use zone::Zone;

/// Returns the new things. A thing that equals the old one with the same key is that object.
fn kept<T: Eq, K: Ord>(old: &[Arc<T>], new: Vec<T>, key: impl Fn(&T) -> &K) -> Vec<Arc<T>> {
    let old: BTreeMap<&K, &Arc<T>> = old.iter().map(|thing| (key(thing), thing)).collect();
    let same = |thing: &T| old.get(key(thing)).filter(|old| ****old == *thing).map(|old| Arc::clone(old));
    new.into_iter().map(|thing| same(&thing).unwrap_or_else(|| Arc::new(thing))).collect()
}

#[cfg(test)]
pub(crate) mod tests;
