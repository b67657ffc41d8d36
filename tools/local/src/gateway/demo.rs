//! The demo: a page on which two users chat. Built by Node, which neither Cargo nor this server needs: the files are looked
//! for at each request, and as long as there are none a page says how to make them.

use std::path::Path;

use axum::Router;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::{Html, Response};
use axum::routing::get;
use tower_http::services::ServeDir;

use super::refuse;

/// What is in this folder; for everything else what API Gateway says.
pub(super) fn site(folder: &Path) -> Router {
    let otherwise = Router::new()
        .route("/", get(async || Html(include_str!("demo.html"))))
        // Another stage as well: were its connections "gone", functions would forget some that are there.
        .fallback(async || refuse(StatusCode::FORBIDDEN, "Forbidden"));
    let files = ServeDir::new(folder).call_fallback_on_method_not_allowed(true).fallback(otherwise);
    Router::new().fallback_service(files).layer(map_response(always_ask))
}

/// A page that is built anew has files of other names.
async fn always_ask(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
