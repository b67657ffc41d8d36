//! Where a token may be.

use aws_lambda_events::apigw::ApiGatewayCustomAuthorizerRequestTypeRequest as Request;

use crate::token::Invalid;

/// The token from the first place that has one: the `Authorization` header, the subprotocols, the query string.
pub(crate) fn find(request: &Request, query_string_tokens: bool) -> Result<&str, Invalid> {
    if let Some(authorization) = header(request, "authorization").next() {
        let (scheme, token) = authorization.split_once(' ').ok_or(Invalid::NoToken)?;
        return if scheme.eq_ignore_ascii_case("bearer") { Ok(token.trim()) } else { Err(Invalid::NoToken) };
    }
    // Browsers can't set headers on a WebSocket, but they can offer subprotocols.
    let mut offered = header(request, "sec-websocket-protocol").flat_map(|list| list.split(','));
    if let Some(token) = offered.find_map(|protocol| protocol.trim().strip_prefix("bearer.")) {
        return Ok(token);
    }
    let token = request.query_string_parameters.first("token").filter(|_| query_string_tokens);
    token.ok_or(Invalid::NoToken)
}

fn header<'a>(request: &'a Request, name: &'a str) -> impl Iterator<Item = &'a str> {
    let values = request.headers.get_all(name).iter().chain(request.multi_value_headers.get_all(name).iter());
    values.filter_map(|value| value.to_str().ok())
}
