//! The demo: a page on which two users chat. Node builds it; Cargo and this server need no Node. The server looks for
//! the files at each request. Without files, a page explains how to build them.

use std::path::Path;

use axum::Router;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, map_response};
use axum::response::{Html, Response};
use axum::routing::get;
use tower_http::services::ServeDir;

use super::refuse;

/// Serves the files of this folder, and API Gateway's reply for all other paths.
pub(super) fn site(folder: &Path) -> Router {
    let otherwise = Router::new()
        .route("/", get(async || Html(include_str!("demo.html"))))
        // Another stage as well: were its connections "gone", functions would forget some that are there.
        .fallback(async || refuse(StatusCode::FORBIDDEN, "Forbidden"));
    let files = ServeDir::new(folder).call_fallback_on_method_not_allowed(true).fallback(otherwise);
    Router::new().fallback_service(files).layer(map_response(with_headers)).layer(from_fn(keep_assets))
}

/// Serves the documentation under `/docs/`.
pub(super) fn docs(folder: &Path) -> Router {
    let unbuilt =
        "This page does not exist. In a clone, `just docs` builds the documentation, and needs Python 3.11.\n";
    let otherwise = Router::new().fallback(async move || (StatusCode::NOT_FOUND, unbuilt));
    Router::new().fallback_service(ServeDir::new(folder).fallback(otherwise)).layer(map_response(with_headers))
}

/// Lets browsers keep the page's assets, and what they compiled of them: a page that is built anew has others.
async fn keep_assets(request: Request, next: Next) -> Response {
    let is_asset = request.uri().path().starts_with("/assets/");
    let mut response = next.run(request).await;
    if is_asset && response.status().is_success() {
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("max-age=31536000, immutable"));
    }
    response
}

async fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // A frame's request names no origin, so the check of origins does not keep the page out of another page.
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("frame-ancestors 'none'"));
    response
}
