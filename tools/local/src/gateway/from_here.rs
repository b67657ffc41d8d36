//! Admits only this machine: neither web pages from elsewhere, nor foreign names that resolve to this machine. An address
//! that the server listens on by `--host` is a name of this machine.
//!
//! You may have any page open while the server runs. A page can send requests to any address, and `Origin` names the
//! page. A page whose own name resolves to this machine (DNS rebinding) has that name in `Host`.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::refuse;

/// Names of this machine, from itself and from a container on it.
const NAMES: [&str; 4] = ["localhost", "127.0.0.1", "[::1]", "host.docker.internal"];

pub(crate) async fn check(State(host): State<IpAddr>, request: Request, next: Next) -> Response {
    if let Some(problem) = problem(request.headers(), host) {
        return refuse(StatusCode::FORBIDDEN, problem);
    }
    next.run(request).await
}

fn problem(headers: &HeaderMap, listens_on: IpAddr) -> Option<&'static str> {
    let says = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if says(HOST).is_some_and(|host| !is_here(host, listens_on)) {
        return Some("this server answers to localhost and to the address of --host only");
    }
    let of_page = says(ORIGIN)?;
    let host = of_page.strip_prefix("http://").or_else(|| of_page.strip_prefix("https://")).unwrap_or_default();
    (!is_here(host, listens_on)).then_some("this server is closed to web pages from elsewhere")
}

/// A name with a port or without.
fn is_here(host: &str, listens_on: IpAddr) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
    NAMES.iter().any(|known| known.eq_ignore_ascii_case(name)) || address.is_ok_and(|address| address == listens_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESK: &str = "192.168.1.20";

    fn problem_of(host: &str, origin: Option<&str>) -> Option<&'static str> {
        problem_on("127.0.0.1", host, origin)
    }

    fn problem_on(listens_on: &str, host: &str, origin: Option<&str>) -> Option<&'static str> {
        let mut headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
        headers.extend(origin.map(|origin| (ORIGIN, origin.parse().unwrap())));
        problem(&headers, listens_on.parse().unwrap())
    }

    #[test]
    fn this_machine_and_its_pages_are_served() {
        for host in ["127.0.0.1:3001", "localhost:3001", "localhost", "[::1]:3001", "host.docker.internal:3001"] {
            assert_eq!(problem_of(host, None), None, "{host}");
            assert_eq!(problem_of(host, Some("http://localhost:5173")), None, "{host}");
        }
    }

    #[test]
    fn an_address_is_served_only_where_the_server_listens_on_it() {
        let page = Some("http://192.168.1.20:3001");
        assert_eq!(problem_on(DESK, "192.168.1.20:3001", page), None);
        assert_eq!(problem_on(DESK, "localhost:3001", None), None);
        assert_eq!(problem_on("fd00::20", "[fd00::20]:3001", None), None);
        assert!(problem_of("192.168.1.20:3001", None).is_some());
        assert!(problem_of("127.0.0.1:3001", page).is_some());
        assert!(problem_on(DESK, "192.168.1.21:3001", None).is_some());
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
