//! Admits only this machine: neither web pages from elsewhere, nor foreign names that resolve to this machine.
//!
//! You may have any page open while the server runs. A page can send requests to any address, and `Origin` names the
//! page. A page whose own name resolves to this machine (DNS rebinding) has that name in `Host`.

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::refuse;

/// Names of this machine, from itself and from a container on it.
const NAMES: [&str; 4] = ["localhost", "127.0.0.1", "[::1]", "host.docker.internal"];

pub(crate) async fn check(request: Request, next: Next) -> Response {
    if let Some(problem) = problem(request.headers()) {
        return refuse(StatusCode::FORBIDDEN, problem);
    }
    next.run(request).await
}

fn problem(headers: &HeaderMap) -> Option<&'static str> {
    let says = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if says(HOST).is_some_and(|host| !is_here(host)) {
        return Some("this server answers to localhost only");
    }
    let of_page = says(ORIGIN)?;
    let host = of_page.strip_prefix("http://").or_else(|| of_page.strip_prefix("https://")).unwrap_or_default();
    (!is_here(host)).then_some("this server is closed to web pages from elsewhere")
}

/// A name with a port or without.
fn is_here(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem_of(host: &str, origin: Option<&str>) -> Option<&'static str> {
        let mut headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
        headers.extend(origin.map(|origin| (ORIGIN, origin.parse().unwrap())));
        problem(&headers)
    }

    #[test]
    fn this_machine_and_its_pages_are_served() {
        for host in ["127.0.0.1:3001", "localhost:3001", "localhost", "[::1]:3001", "host.docker.internal:3001"] {
            assert_eq!(problem_of(host, None), None, "{host}");
            assert_eq!(problem_of(host, Some("http://localhost:5173")), None, "{host}");
        }
    }

    #[test]
    fn pages_and_names_from_elsewhere_are_not() {
        for origin in
            ["https://example.com", "http://localhost.example.com", "http://127.0.0.1.example.com:3001", "null"]
        {
            assert!(problem_of("127.0.0.1:3001", Some(origin)).is_some(), "{origin}");
        }
        for host in ["example.com:3001", "localhost.example.com", "127.0.0.1.nip.io:3001", ""] {
            assert!(problem_of(host, None).is_some(), "{host}");
        }
    }
}
