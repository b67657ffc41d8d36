//! From users to their devices: who is connected, a frame to each connection, and the end of the rows of those that are gone.
//!
//! Always after the commit, and never able to fail the request: what does not arrive here is pending, and is drained.

mod connections_api;
mod fanout;
mod post_budget;

pub use connections_api::{ConnectionsApi, POST_TIMEOUT, Posted};
pub use fanout::{Closed, Delivered, Delivery, FAN_OUT_TIMEOUT, Fanout, USERS_REMEMBERED_MAX};
