//! Requests over HTTP.

use std::time::Duration;

use reqwest::{Client, Url};

use crate::{Config, Error};

/// API Gateway waits 29 s for a function.
const POST_WAIT: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(crate) struct Poster {
    http: Client,
    url: String,
    device_id: String,
}

impl Poster {
    /// Returns `None` if the app has given no URL.
    pub(crate) fn new(config: &Config) -> Result<Option<Self>, Error> {
        let Some(url) = &config.http_url else { return Ok(None) };
        let unusable = |problem: String| Error::Config(format!("{url}: {problem}"));
        let parsed: Url = url.parse().map_err(|error| unusable(format!("{error}")))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(unusable("an address for HTTP begins with https://".to_owned()));
        }
        let http = Client::builder().timeout(POST_WAIT).build().map_err(|error| unusable(format!("{error}")))?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Some(Self { http, url, device_id: config.device_id.clone() }))
    }

    /// Returns HTTP's status, `None` without a response, and the body.
    pub(crate) async fn post(self, token: String, action: &'static str, text: String) -> (Option<u16>, String) {
        let request = self.http.post(format!("{}/v1/{action}", self.url)).bearer_auth(token);
        let request = request.header("content-type", "application/json").header("x-device-id", self.device_id);
        let Ok(response) = request.body(text).send().await else { return (None, String::new()) };
        let status = response.status().as_u16();
        match response.text().await {
            Ok(body) => (Some(status), body),
            Err(_) => (None, String::new()),
        }
    }
}
