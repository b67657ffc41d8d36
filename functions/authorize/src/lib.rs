//! The authorizer: verifies a token, and returns its user.
//!
//! API Gateway invokes it once per socket, before `$connect`, and repeats its reply on every event of that socket. The
//! reply is the only source of identity in the product. Over HTTP, API Gateway keeps a token's reply for minutes.

mod bearer;
mod keys;
mod token;

use aws_lambda_events::apigw::ApiGatewayCustomAuthorizerRequestTypeRequest as Request;
use domain::error_chain;
use lambda::{BadVariable, Clock, Diagnostic, EventLine, LambdaEvent};
use serde::Serialize;
use wire::DeviceId;

pub use keys::{FetchError, Keys};
use token::Via;
pub use token::{Expected, Invalid};

const SHARED_KEYS: &str = "must not be any: strangers' apps have tokens of the same keys (JWKS_URL)";

/// The function's keys and settings, made once per process.
#[derive(Debug)]
pub struct Deps {
    pub keys: Keys,
    pub expected: Expected,
    /// Whether `?token=` counts. Query strings can land in logs, so it is off unless the deployment turns it on.
    pub query_string_tokens: bool,
    pub clock: Clock,
}

impl Deps {
    /// Reads `JWKS_URL`, `TOKEN_ISSUER`, `TOKEN_AUDIENCE`, `SERVICE_AUDIENCE` and `QUERY_STRING_TOKENS` (`on` or `off`). The issuer or audience
    /// `any` turns its check off. Logs the checks that are on.
    ///
    /// # Errors
    /// [`BadVariable`] names the variable.
    pub fn from_env(env: impl Fn(&'static str) -> Result<String, BadVariable>) -> Result<Self, BadVariable> {
        let keys = Keys::at(&env("JWKS_URL")?);
        let keys = keys.map_err(|error| BadVariable::new("JWKS_URL", format!("is no usable URL: {error}")))?;
        let checked = |name| {
            let value = env(name)?;
            match value.as_str() {
                "any" if keys.are_shared() => Err(BadVariable::new(name, SHARED_KEYS)),
                "any" => Ok(None),
                _ => Ok(Some(value)),
            }
        };
        // Empty where no service has a token.
        let services = env("SERVICE_AUDIENCE").ok();
        let expected = Expected { issuer: checked("TOKEN_ISSUER")?, audience: checked("TOKEN_AUDIENCE")?, services };
        if expected.services.is_some() && expected.services == expected.audience {
            return Err(BadVariable::new("SERVICE_AUDIENCE", "must not be the users' audience (TOKEN_AUDIENCE)"));
        }
        let query_string_tokens = match env("QUERY_STRING_TOKENS")?.as_str() {
            "on" => true,
            "off" => false,
            _ => return Err(BadVariable::new("QUERY_STRING_TOKENS", "must be on or off")),
        };
        let (issuer_checked, audience_checked) = (expected.issuer.is_some(), expected.audience.is_some());
        tracing::info!(issuer_checked, audience_checked, "checks of each token");
        Ok(Self { keys, expected, query_string_tokens, clock: Clock::system() })
    }

    /// Fetches the keys before the first event needs them. If that fails, a later event tries again.
    pub async fn warm_up(&self) {
        let _ = self.keys.refresh(&self.clock).await;
    }
}

/// Starts the process with the keys fetched that the first event needs.
///
/// # Errors
/// [`BadVariable`] names the variable.
pub async fn start() -> Result<Deps, BadVariable> {
    let deps = Deps::from_env(lambda::env)?;
    deps.warm_up().await;
    Ok(deps)
}

/// Decides whether the token's bearer may connect, and as which user. A refusal is a reply, not an error: otherwise any
/// client could fire the alarm on this function's errors.
///
/// # Errors
/// The issuer's keys are unavailable, so no token can be verified; API Gateway refuses the connection with a 5xx.
pub async fn handle(deps: &Deps, event: LambdaEvent<Request>) -> Result<AuthorizerResponse, Diagnostic> {
    let (request_id, request) = (event.context.request_id, event.payload);
    let started = deps.clock.now();
    // An event of a request over HTTP has `routeArn` in its place.
    let via = if request.method_arn.is_some() { Via::Socket } else { Via::Http };
    let verdict = match bearer::find(&request, deps.query_string_tokens) {
        Ok(token) => token::verify(&deps.keys, &deps.expected, token, (via, &deps.clock)).await,
        Err(invalid) => Err(invalid),
    };
    // A malformed id is dropped here; `$connect` refuses it.
    let device = request.query_string_parameters.first("device_id").and_then(|id| DeviceId::parse(id).ok());
    let mut line = EventLine::of(&request_id, "authorize", started);
    line.ended(deps.clock.now());
    match verdict {
        Ok(principal) => {
            line.user_id = Some(principal.user.clone());
            line.info("ok", "admitted");
            Ok(AuthorizerResponse::allow(&principal, device, request.method_arn))
        }
        Err(Invalid::KeysUnavailable(error)) => {
            line.error("unavailable", &error, "failed");
            Err(Diagnostic { error_type: "KeysUnavailable".to_owned(), error_message: error_chain(&error) })
        }
        Err(invalid) => {
            line.reason = Some(invalid.to_string());
            line.info("refused", "refused");
            Ok(AuthorizerResponse::deny(request.method_arn))
        }
    }
}

/// The token's user and expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub user: wire::UserId,
    /// Unix seconds.
    pub expires_at: i64,
}

/// The response to API Gateway. The type is ours, because `aws_lambda_events` also writes `"usageIdentifierKey": null`.
/// No page of AWS promises that API Gateway accepts that.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", untagged)]
pub enum AuthorizerResponse {
    OfSocket {
        principal_id: String,
        policy_document: Policy,
        context: Context,
    },
    /// API Gateway's simple response. The context has the principal, since the response has no other place for it.
    OfHttp {
        is_authorized: bool,
        context: Context,
    },
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Policy {
    version: &'static str,
    statement: [Statement; 1],
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Statement {
    action: &'static str,
    effect: &'static str,
    /// The very `$connect` of the request: wildcards in the style of REST APIs don't match it.
    resource: String,
}

/// Fields of every later event of the socket. API Gateway makes strings of the values; so does this type.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Context {
    #[serde(rename = "principalId", skip_serializing_if = "Option::is_none")]
    principal_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exp: Option<String>,
    /// The client's name of the device, given at the connect. The name identifies a device, and never a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_id: Option<DeviceId>,
}

impl AuthorizerResponse {
    fn allow(principal: &Principal, device_id: Option<DeviceId>, method_arn: Option<String>) -> Self {
        let (user, exp) = (principal.user.to_string(), Some(principal.expires_at.to_string()));
        if let Some(arn) = method_arn {
            return Self::new(user, "Allow", arn, Context { exp, device_id, ..Context::default() });
        }
        // API Gateway keeps the reply for the token, which several devices may have.
        Self::OfHttp { is_authorized: true, context: Context { principal_id: Some(user), exp, device_id: None } }
    }

    fn deny(method_arn: Option<String>) -> Self {
        match method_arn {
            Some(arn) => Self::new("anonymous".to_owned(), "Deny", arn, Context::default()),
            None => Self::OfHttp { is_authorized: false, context: Context::default() },
        }
    }

    fn new(principal_id: String, effect: &'static str, resource: String, context: Context) -> Self {
        let statement = [Statement { action: "execute-api:Invoke", effect, resource }];
        Self::OfSocket { principal_id, policy_document: Policy { version: "2012-10-17", statement }, context }
    }
}
