//! Without the feature `http`, the app can give no URL, and nothing is posted.

use crate::{Config, Error};

#[derive(Clone)]
pub(crate) enum Poster {}

impl Poster {
    #[expect(clippy::unnecessary_wraps, reason = "as with the feature")]
    pub(crate) fn new(_: &Config) -> Result<Option<Self>, Error> {
        Ok(None)
    }

    #[expect(clippy::unused_async, reason = "as with the feature")]
    pub(crate) async fn post(self, _: String, _: &'static str, _: String) -> (Option<u16>, String) {
        match self {}
    }
}
