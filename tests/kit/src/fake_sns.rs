//! SNS in this process, as far as it pushes to phones: endpoints, and what was published to each.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The endpoints that there are, and what they were sent. Clones share nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FakeSns {
    /// By ARN.
    endpoints: BTreeMap<String, Endpoint>,
    pushes: Vec<Push>,
}

#[derive(Clone, Debug, PartialEq)]
struct Endpoint {
    token: String,
    enabled: bool,
    /// Foreign code made the endpoint, with attributes that ours do not name.
    foreign: bool,
}

/// A notification that SNS took.
#[derive(Clone, Debug, PartialEq)]
pub struct Push {
    pub token: String,
    /// The payload of the phone's platform.
    pub payload: Value,
    /// By the end of its name: `PUSH_TYPE`.
    pub attributes: BTreeMap<String, String>,
}

impl Push {
    /// Returns the app's own part of the payload, of either platform.
    pub fn data(&self) -> &Value {
        let fcm = &self.payload["fcmV1Message"]["message"]["data"];
        if fcm.is_null() { &self.payload["pigeonhole"] } else { fcm }
    }

    /// `message` or `read`, and up to which seq; or `badge` and its number.
    pub fn says(&self) -> String {
        let data = self.data();
        let seq = if data["type"] == "badge" { &self.payload["aps"]["badge"] } else { &data["seq"] };
        format!("{} {}", data["type"].as_str().unwrap(), seq.as_str().map_or_else(|| seq.to_string(), str::to_owned))
    }
}

impl FakeSns {
    /// Lists the published notifications, in order.
    pub fn pushes(&self) -> &[Push] {
        &self.pushes
    }

    /// The tokens that are known and not dead.
    pub fn tokens(&self) -> Vec<&str> {
        self.endpoints.values().filter(|endpoint| endpoint.enabled).map(|endpoint| endpoint.token.as_str()).collect()
    }

    /// APNs or FCM has said that the token is dead.
    pub fn kill(&mut self, token: &str) {
        for endpoint in self.endpoints.values_mut().filter(|endpoint| endpoint.token == token) {
            endpoint.enabled = false;
        }
    }

    /// The token was registered before, with attributes.
    pub fn register_with_attributes(&mut self, application: &str, token: &str) {
        let endpoint = Endpoint { token: token.to_owned(), enabled: true, foreign: true };
        self.endpoints.insert(arn(application, token), endpoint);
    }

    pub fn perform(&mut self, operation: &str, body: &Value) -> (u16, String) {
        let field = |name: &str| body[name].as_str().unwrap_or_default();
        match operation {
            "CreatePlatformEndpoint" => self.create(field("PlatformApplicationArn"), field("Token")),
            "SetEndpointAttributes" => {
                let Some(endpoint) = self.endpoints.get_mut(field("EndpointArn")) else { return not_found() };
                let entries =
                    (1..).map_while(|n| body[format!("Attributes.entry.{n}.key")].as_str().map(|key| (key, n)));
                for (key, n) in entries {
                    let value = field(&format!("Attributes.entry.{n}.value"));
                    match key {
                        "Enabled" => endpoint.enabled = value == "true",
                        "Token" => value.clone_into(&mut endpoint.token),
                        other => panic!("nobody sets {other}"),
                    }
                }
                ok(operation, "")
            }
            "DeleteEndpoint" => {
                self.endpoints.remove(field("EndpointArn"));
                ok(operation, "")
            }
            "Publish" => self.publish(body),
            _ => panic!("no handler asks SNS for {operation}"),
        }
    }

    fn create(&mut self, application: &str, token: &str) -> (u16, String) {
        let arn = arn(application, token);
        // As SNS refuses what can't be a token of the platform.
        if token.contains("none-of-this-platform") {
            let message =
                "Invalid parameter: Token Reason: iOS device tokens must be no more than 400 hexadecimal characters";
            return error(400, "InvalidParameter", message);
        }
        let known = Endpoint { token: token.to_owned(), enabled: true, foreign: false };
        if self.endpoints.entry(arn.clone()).or_insert(known).foreign {
            let message = format!(
                "Invalid parameter: Token Reason: Endpoint {arn} already exists with the same Token, but different attributes."
            );
            return error(400, "InvalidParameter", &message);
        }
        ok("CreatePlatformEndpoint", &format!("<EndpointArn>{arn}</EndpointArn>"))
    }

    fn publish(&mut self, body: &Value) -> (u16, String) {
        let target = body["TargetArn"].as_str().unwrap();
        let Some(endpoint) = self.endpoints.get(target) else { return not_found() };
        if !endpoint.enabled {
            return error(400, "EndpointDisabled", "Endpoint is disabled");
        }
        assert_eq!(body["MessageStructure"], "json");
        let message: Value = serde_json::from_str(body["Message"].as_str().unwrap()).unwrap();
        assert!(message["default"].is_string(), "SNS refuses a message without it");
        let platform = target.split('/').nth(1).unwrap();
        let payload = message[platform].as_str().expect("the payload of the platform, as text");
        let payload = serde_json::from_str(payload).unwrap();
        let attribute = |n: u32| {
            let entry = |what: &str| body[format!("MessageAttributes.entry.{n}.{what}")].as_str();
            let name = entry("Name")?.rsplit('.').next()?;
            Some((name.to_owned(), entry("Value.StringValue")?.to_owned()))
        };
        let attributes = (1..).map_while(attribute).collect();
        self.pushes.push(Push { token: endpoint.token.clone(), payload, attributes });
        ok("Publish", "<MessageId>567910cd-659e-55d4-8ccb-5aaf14679dc0</MessageId>")
    }
}

/// The same token has the same endpoint.
fn arn(application: &str, token: &str) -> String {
    let id: String = token.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{}/{id}", application.replace(":app/", ":endpoint/"))
}

/// As SNS answers.
pub fn ok(operation: &str, result: &str) -> (u16, String) {
    let metadata = "<ResponseMetadata><RequestId>d74b8436-ae13-5ab4-a9ff-ce54dfea72a0</RequestId></ResponseMetadata>";
    let body = format!(
        r#"<{operation}Response xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><{operation}Result>{result}</{operation}Result>{metadata}</{operation}Response>"#
    );
    (200, body)
}

fn not_found() -> (u16, String) {
    error(404, "NotFound", "Endpoint does not exist")
}

/// As SNS writes an error.
pub fn error(status: u16, code: &str, message: &str) -> (u16, String) {
    let body = format!(
        r#"<ErrorResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error><RequestId>b45f5a3b</RequestId></ErrorResponse>"#
    );
    (status, body)
}

/// A request's form as JSON.
pub fn fields(form: &[u8]) -> Value {
    let mut fields = json!({});
    for (name, value) in form_urlencoded::parse(form) {
        fields[name.into_owned()] = json!(value);
    }
    fields
}
