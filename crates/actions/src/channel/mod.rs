//! A channel: any number of members, who read its log on demand.

mod members;
mod mention;
mod react;
mod read;
mod watch;

pub(crate) use members::{join, leave};
pub(crate) use mention::mention;
pub(crate) use react::react;
pub(crate) use read::read;
pub use watch::forget_watched;
pub(crate) use watch::{show, unwatch, watch};
