//! Lambda's `Invoke` for the team's filter of messages, which runs at a URL of the developer's.
//! <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::json;

/// Where it is on the server's own port.
pub(crate) const PATH: &str = "/lambda";
/// The function's name here.
pub(crate) const ARN: &str = "arn:aws:lambda:us-east-1:000000000000:function:send-hook";

#[derive(Clone)]
struct SendHook {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
}

/// The path at which the SDKs invoke a function of this name.
pub(crate) fn path_of(function: &str) -> String {
    format!("{PATH}/2015-03-31/functions/{function}/invocations")
}

pub(crate) fn router(url: String) -> Router {
    let client = Client::builder(TokioExecutor::new()).build_http();
    Router::new().route(&path_of("{name}"), post(invoke)).with_state(SendHook { client, url })
}

/// Posts the question to the URL. Its answer, unless with a status of 2xx, is a failure of the function.
async fn invoke(State(hook): State<SendHook>, Path(_): Path<String>, question: Bytes) -> Response {
    match hook.post(question).await {
        Ok(answer) => answer.into_response(),
        Err(problem) => {
            let failure = json!({ "errorType": "SendHook", "errorMessage": problem });
            (StatusCode::OK, [("x-amz-function-error", "Unhandled")], failure.to_string()).into_response()
        }
    }
}

impl SendHook {
    async fn post(&self, question: Bytes) -> Result<Bytes, String> {
        let request = Request::post(&self.url).header("content-type", "application/json").body(Full::new(question));
        let request = request.map_err(|error| format!("{} is no URL: {error}", self.url))?;
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| format!("{} does not answer: {error}", self.url))?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        if status.is_success() { Ok(body) } else { Err(format!("{} answers {status}", self.url)) }
    }
}
