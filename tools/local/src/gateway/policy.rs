//! Permissions in an authorizer's reply.

use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthorizerResponse {
    principal_id: String,
    policy_document: PolicyDocument,
    #[serde(default)]
    context: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PolicyDocument {
    statement: Vec<Statement>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Statement {
    effect: Effect,
    action: OneOrMore,
    resource: OneOrMore,
}

#[derive(Deserialize, PartialEq, Clone, Copy)]
enum Effect {
    Allow,
    Deny,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// With what events carry as `authorizer`: the principal, and the context's values as strings.
    Allowed(Map<String, Value>),
    Denied,
    /// The answer is not one that API Gateway takes.
    Malformed,
}

pub(super) fn evaluate(answer: &[u8], method_arn: &str) -> Verdict {
    let Ok(AuthorizerResponse { principal_id, policy_document, context }) = serde_json::from_slice(answer) else {
        return Verdict::Malformed;
    };
    let mut authorizer = Map::from_iter([("principalId".to_owned(), json!(principal_id))]);
    for (name, value) in context.unwrap_or_default() {
        let text = match value {
            Value::String(text) => text,
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return Verdict::Malformed,
        };
        authorizer.insert(name, json!(text));
    }
    let concerns = |statement: &&Statement| {
        statement.action.matches("execute-api:Invoke") && statement.resource.matches(method_arn)
    };
    let effects: Vec<_> = policy_document.statement.iter().filter(concerns).map(|statement| statement.effect).collect();
    if effects.contains(&Effect::Allow) && !effects.contains(&Effect::Deny) {
        Verdict::Allowed(authorizer)
    } else {
        Verdict::Denied
    }
}

impl OneOrMore {
    fn matches(&self, text: &str) -> bool {
        match self {
            Self::One(pattern) => matches(pattern.as_bytes(), text.as_bytes()),
            Self::More(patterns) => patterns.iter().any(|pattern| matches(pattern.as_bytes(), text.as_bytes())),
        }
    }
}

/// IAM's wildcards: `*` for any run of characters, `?` for one.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=text.len()).any(|skip| matches(rest, text.get(skip..).unwrap_or_default())),
        (Some((b'?', pattern)), Some((_, text))) => matches(pattern, text),
        (Some((expected, pattern)), Some((actual, text))) => expected == actual && matches(pattern, text),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:execute-api:us-east-1:000000000000:Api/v1/$connect";

    fn verdict(statements: &Value, context: &Value) -> Verdict {
        let document = json!({ "Version": "2012-10-17", "Statement": statements });
        let answer = json!({ "principalId": "alice", "policyDocument": document, "context": context });
        evaluate(answer.to_string().as_bytes(), ARN)
    }

    fn statement(effect: &str, resource: &Value) -> Value {
        json!({ "Effect": effect, "Action": "execute-api:Invoke", "Resource": resource })
    }

    #[test]
    fn an_allowed_caller_comes_with_the_context_as_strings() {
        let verdict = verdict(&json!([statement("Allow", &json!(ARN))]), &json!({ "exp": 7, "ok": true, "by": "x" }));
        let Verdict::Allowed(authorizer) = verdict else { panic!("{verdict:?}") };
        assert_eq!(json!(authorizer), json!({ "principalId": "alice", "exp": "7", "ok": "true", "by": "x" }));
    }

    #[test]
    fn resources_match_by_wildcard_and_deny_wins() {
        let allows = |resource: Value| verdict(&json!([statement("Allow", &resource)]), &json!({})) != Verdict::Denied;
        assert!(allows(json!("*")));
        assert!(allows(json!("arn:aws:execute-api:*:Api/v?/*")));
        assert!(allows(json!(["nothing", ARN])));
        assert!(!allows(json!("arn:aws:execute-api:us-east-1:000000000000:Api/v1/*/*")), "as REST APIs write it");
        assert!(!allows(json!("arn:aws:execute-api:us-east-1:000000000000:Api/v1")));
        let both = json!([statement("Allow", &json!("*")), statement("Deny", &json!(ARN))]);
        assert_eq!(verdict(&both, &json!({})), Verdict::Denied);
        assert_eq!(verdict(&json!([]), &json!({})), Verdict::Denied);
    }

    #[test]
    fn what_api_gateway_does_not_take_is_malformed() {
        assert_eq!(verdict(&json!([statement("Allow", &json!("*"))]), &json!({ "list": [1] })), Verdict::Malformed);
        assert_eq!(evaluate(br#"{"isAuthorized":true}"#, ARN), Verdict::Malformed);
        assert_eq!(evaluate(b"null", ARN), Verdict::Malformed);
    }
}
