//! SNS's mobile push: endpoints of three platform applications, and what is published to them reaches [phones](crate::phones)
//! that exist only here. Codes and texts of errors are SNS's own: whoever reads them on AWS reads them here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::gateway::{Query, from_here};
use crate::logs::{Log, Logs};
use crate::phone::{Phone, Platform, Push};
use crate::{lock, write_whole};

/// Where it is on the server's own port.
pub(crate) const PATH: &str = "/sns";
const ARN: &str = "arn:aws:sns:us-east-1:000000000000:";
/// The name of each platform's application.
const APPLICATION: &str = "local";
/// As the file in the folder that keeps the tables is called.
const FILE: &str = "phones.json";
const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// Maximum of a payload. APNs and FCM have the same limit.
const PAYLOAD_BYTES_MAX: usize = 4096;
/// A message of the largest size in a form, where an escaped byte takes three.
const REQUEST_BYTES_MAX: usize = 4 * MESSAGE_BYTES_MAX;

impl Platform {
    pub(crate) const ALL: [Self; 3] = [Self::Apns, Self::ApnsSandbox, Self::Gcm];

    /// In ARNs, and the member of a message that is for it.
    fn key(self) -> &'static str {
        match self {
            Self::Apns => "APNS",
            Self::ApnsSandbox => "APNS_SANDBOX",
            Self::Gcm => "GCM",
        }
    }

    pub(crate) fn application(self) -> String {
        format!("{ARN}app/{}/{APPLICATION}", self.key())
    }

    fn of_application(arn: &str) -> Result<Self, SnsError> {
        let found = Self::ALL.into_iter().find(|platform| platform.application() == arn);
        found.ok_or(SnsError::NotFound("PlatformApplication does not exist"))
    }
}

/// SNS for one server. The endpoints are in the same place as the tables.
pub(crate) struct Sns {
    state: Mutex<Endpoints>,
    file: Option<PathBuf>,
    log: Log,
}

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Endpoints {
    by_arn: BTreeMap<String, Endpoint>,
    /// The applications that take no pushes any more.
    disabled: Vec<Platform>,
    /// Phones that the app was removed from.
    pub(crate) uninstalled: Vec<Uninstalled>,
}

#[derive(Serialize, Deserialize)]
struct Endpoint {
    platform: Platform,
    token: String,
    user_data: String,
    enabled: bool,
    /// The phone that the token is for.
    phone: Phone,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Uninstalled {
    pub(crate) user: String,
    pub(crate) device_id: String,
    pub(crate) platform: String,
}

#[derive(Debug, thiserror::Error)]
enum SnsError {
    #[error("Invalid parameter: {0}")]
    InvalidParameter(String),
    #[error("{0}")]
    NotFound(&'static str),
    #[error("Endpoint is disabled")]
    EndpointDisabled,
    #[error("Platform application is disabled")]
    PlatformApplicationDisabled,
    #[error("The action {0} is not valid for this endpoint.")]
    InvalidAction(String),
}

impl SnsError {
    fn code(&self) -> &'static str {
        match self {
            Self::InvalidParameter(_) => "InvalidParameter",
            Self::NotFound(_) => "NotFound",
            Self::EndpointDisabled => "EndpointDisabled",
            Self::PlatformApplicationDisabled => "PlatformApplicationDisabled",
            Self::InvalidAction(_) => "InvalidAction",
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl Sns {
    /// With the endpoints that the folder kept, if there is one.
    pub(crate) fn open(folder: Option<&Path>, log: Log) -> anyhow::Result<Arc<Self>> {
        let file = folder.map(|folder| folder.join(FILE));
        let state = match &file {
            Some(file) if file.exists() => {
                let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
                serde_json::from_slice(&text).with_context(|| format!("{} is not understood", file.display()))?
            }
            _ => Endpoints::default(),
        };
        Ok(Arc::new(Self { state: Mutex::new(state), file, log }))
    }

    pub(crate) fn router(self: Arc<Self>) -> Router {
        let (bare, with_slash) = (get(tokens).post(answer), get(tokens).post(answer));
        let router = Router::new().route(PATH, bare).route(&format!("{PATH}/"), with_slash);
        router.layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX)).with_state(self)
    }

    /// Changes or looks at what there is, and keeps it.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Endpoints) -> T) -> T {
        let mut state = lock(&self.state);
        let result = act(&mut state);
        if let Some(file) = &self.file
            && let Err(error) = keep(file, &state)
        {
            self.log("ERROR", &format!("cannot write {}: {error}", file.display()));
        }
        result
    }

    fn log(&self, level: &str, message: &str) {
        self.log.line("sns", &json!({ "level": level, "message": message }).to_string());
    }

    fn call(&self, action: &str, form: &Form) -> Result<String, SnsError> {
        match action {
            "CreatePlatformEndpoint" => self.with(|state| state.create(form)),
            "SetEndpointAttributes" => self.with(|state| state.set(form)),
            "GetEndpointAttributes" => self.with(|state| state.get(form)),
            "DeleteEndpoint" => Ok(self.with(|state| state.delete(form))),
            "SetPlatformApplicationAttributes" => self.with(|state| state.set_application(form)),
            "Publish" => {
                // A phone's refusal is no failure of SNS: on AWS only the delivery log has it.
                if let Err(why) = self.with(|state| state.publish(form))? {
                    self.log("WARN", &format!("the phone gets nothing: {why}"));
                }
                Ok(format!("<MessageId>{}</MessageId>", Uuid::new_v4()))
            }
            other => Err(SnsError::InvalidAction(other.to_owned())),
        }
    }
}

/// Serves SNS alone, for functions that run elsewhere.
pub async fn serve_sns(listener: TcpListener) -> anyhow::Result<()> {
    let here = axum::middleware::from_fn_with_state(listener.local_addr()?.ip(), from_here);
    let router = Sns::open(None, Log::new(Logs::Print))?.router().layer(here);
    Ok(axum::serve(listener, router).await?)
}

fn keep(file: &Path, state: &Endpoints) -> std::io::Result<()> {
    write_whole(file, &serde_json::to_vec(state)?)
}

/// The phone behind each token, for whoever does not know whose it is.
async fn tokens(State(sns): State<Arc<Sns>>) -> Json<Value> {
    let phones = sns.with(|state| {
        let phones = state.by_arn.values().map(|endpoint| (endpoint.token.clone(), endpoint.phone.shown()));
        phones.collect::<Map<_, _>>()
    });
    Json(Value::Object(phones))
}

async fn answer(State(sns): State<Arc<Sns>>, body: String) -> Response {
    let request_id = Uuid::new_v4();
    let result = match Query::parse(&body) {
        Some(query) => {
            let form = Form(query);
            let action = form.text("Action").to_owned();
            sns.call(&action, &form).map(|result| (action, result))
        }
        None => Err(SnsError::InvalidParameter("the form is malformed".to_owned())),
    };
    let namespace = r#"xmlns="http://sns.amazonaws.com/doc/2010-03-31/""#;
    let (status, xml) = match result {
        Ok((action, result)) => {
            let metadata = format!("<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>");
            let result = format!("<{action}Result>{result}</{action}Result>");
            (StatusCode::OK, format!("<{action}Response {namespace}>{result}{metadata}</{action}Response>"))
        }
        Err(error) => {
            let (code, message) = (error.code(), escape(&error.to_string()));
            let error_xml =
                format!("<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>");
            let request_id = format!("<RequestId>{request_id}</RequestId>");
            (error.status(), format!("<ErrorResponse {namespace}>{error_xml}{request_id}</ErrorResponse>"))
        }
    };
    (status, [(CONTENT_TYPE, "text/xml")], xml).into_response()
}

/// The parameters of a request.
struct Form(Query);

impl Form {
    /// Returns the parameter's value, or an empty text.
    fn text(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_default()
    }

    /// `Attributes.entry.1.key=Enabled` with `Attributes.entry.1.value=true`.
    fn map(&self, name: &str, key: &str, value: &str) -> BTreeMap<&str, &str> {
        let numbered = (1..).map_while(|number| {
            let entry = format!("{name}.entry.{number}");
            Some((self.0.get(&format!("{entry}.{key}"))?, self.text(&format!("{entry}.{value}"))))
        });
        numbered.collect()
    }

    fn attributes(&self) -> BTreeMap<&str, &str> {
        self.map("Attributes", "key", "value")
    }
}

impl Endpoints {
    /// The phone behind an endpoint.
    pub(crate) fn phone(&mut self, arn: &str) -> Option<&mut Phone> {
        self.by_arn.get_mut(arn).map(|endpoint| &mut endpoint.phone)
    }

    /// A token that was dead is good again, and SNS has not heard that it ever was dead.
    pub(crate) fn revive(&mut self, arn: &str) {
        if let Some(endpoint) = self.by_arn.get_mut(arn).filter(|endpoint| endpoint.phone.is_dead()) {
            endpoint.phone.revive();
            endpoint.enabled = true;
        }
    }

    fn create(&mut self, form: &Form) -> Result<String, SnsError> {
        let platform = Platform::of_application(form.text("PlatformApplicationArn"))?;
        if self.disabled.contains(&platform) {
            return Err(SnsError::PlatformApplicationDisabled);
        }
        let token = form.text("Token");
        if token.is_empty() {
            return Err(SnsError::InvalidParameter("Token Reason: cannot be empty".to_owned()));
        }
        let attributes = form.attributes();
        let user_data = attributes.get("CustomUserData").copied().unwrap_or(form.text("CustomUserData"));
        let mut endpoints = self.by_arn.iter_mut();
        if let Some((arn, known)) = endpoints.find(|(_, known)| known.platform == platform && known.token == token) {
            let enabled = attributes.get("Enabled").is_none_or(|enabled| *enabled == known.enabled.to_string());
            if known.user_data != user_data || !enabled {
                let why = format!("Endpoint {arn} already exists with the same Token, but different attributes.");
                return Err(SnsError::InvalidParameter(format!("Token Reason: {why}")));
            }
            // An app has its token from the phone's system, so there is a phone again. Whether SNS sends is another thing: what is
            // disabled stays so.
            known.phone.revive();
            return Ok(endpoint_arn(arn));
        }
        let arn = format!("{ARN}endpoint/{}/{APPLICATION}/{}", platform.key(), Uuid::new_v4());
        let enabled = attributes.get("Enabled").is_none_or(|enabled| *enabled == "true");
        let (token, user_data) = (token.to_owned(), user_data.to_owned());
        let endpoint = Endpoint { platform, token, user_data, enabled, phone: Phone::default() };
        self.by_arn.insert(arn.clone(), endpoint);
        Ok(endpoint_arn(&arn))
    }

    fn set(&mut self, form: &Form) -> Result<String, SnsError> {
        let endpoint = self.by_arn.get_mut(form.text("EndpointArn")).ok_or(NO_ENDPOINT)?;
        for (name, value) in form.attributes() {
            match name {
                "Enabled" => endpoint.enabled = value.eq_ignore_ascii_case("true"),
                "Token" => value.clone_into(&mut endpoint.token),
                "CustomUserData" => value.clone_into(&mut endpoint.user_data),
                // SNS has no others.
                other => return Err(SnsError::InvalidParameter(format!("Attributes Reason: Invalid key: {other}"))),
            }
        }
        Ok(String::new())
    }

    fn get(&self, form: &Form) -> Result<String, SnsError> {
        let endpoint = self.by_arn.get(form.text("EndpointArn")).ok_or(NO_ENDPOINT)?;
        let enabled = endpoint.enabled.to_string();
        let attributes = [("Enabled", &enabled), ("Token", &endpoint.token), ("CustomUserData", &endpoint.user_data)];
        let entries = attributes.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| {
            let value = escape(value);
            format!("<entry><key>{name}</key><value>{value}</value></entry>")
        });
        Ok(format!("<Attributes>{}</Attributes>", entries.collect::<String>()))
    }

    /// A missing endpoint counts as deleted.
    fn delete(&mut self, form: &Form) -> String {
        self.by_arn.remove(form.text("EndpointArn"));
        String::new()
    }

    fn set_application(&mut self, form: &Form) -> Result<String, SnsError> {
        let platform = Platform::of_application(form.text("PlatformApplicationArn"))?;
        if let Some(enabled) = form.attributes().get("Enabled") {
            self.disabled.retain(|disabled| *disabled != platform);
            self.disabled.extend((*enabled != "true").then_some(platform));
        }
        Ok(String::new())
    }

    /// Why the phone does not take it is in the inner result.
    fn publish(&mut self, form: &Form) -> Result<Result<(), String>, SnsError> {
        let invalid = |text: &str| SnsError::InvalidParameter(text.to_owned());
        let message = form.text("Message");
        if message.is_empty() {
            return Err(invalid("Empty message"));
        }
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(invalid("Message too long"));
        }
        // A Publish to a missing endpoint does not fail with NotFound, unlike the other calls.
        let endpoint = self.by_arn.get_mut(form.text("TargetArn"));
        let endpoint =
            endpoint.ok_or_else(|| invalid("TargetArn Reason: No endpoint found for the target arn specified"))?;
        let payload = payload(endpoint.platform, message, form.text("MessageStructure") == "json")?;
        if self.disabled.contains(&endpoint.platform) {
            return Err(SnsError::PlatformApplicationDisabled);
        }
        if !endpoint.enabled {
            return Err(SnsError::EndpointDisabled);
        }
        let attributes = form.map("MessageAttributes", "Name", "Value.StringValue");
        let push = Push { platform: endpoint.platform, payload: &payload, attributes: &attributes };
        if endpoint.phone.is_dead() {
            // SNS hears of it from APNs or FCM, after it has accepted this one.
            endpoint.enabled = false;
            return Ok(Err("its token is dead".to_owned()));
        }
        Ok(endpoint.phone.receive(&push, OffsetDateTime::now_utc()))
    }
}

const NO_ENDPOINT: SnsError = SnsError::NotFound("Endpoint does not exist");

fn endpoint_arn(arn: &str) -> String {
    format!("<EndpointArn>{arn}</EndpointArn>")
}

/// Returns the platform's payload of a message.
fn payload(platform: Platform, message: &str, is_json: bool) -> Result<Value, SnsError> {
    let invalid = |text: &str| SnsError::InvalidParameter(text.to_owned());
    let plain = |text: &str| match platform {
        Platform::Apns | Platform::ApnsSandbox => json!({ "aps": { "alert": text } }),
        Platform::Gcm => json!({ "fcmV1Message": { "message": { "data": { "default": text } } } }),
    };
    if !is_json {
        return Ok(plain(message));
    }
    let message: Value =
        serde_json::from_str(message).map_err(|_| invalid("Message Structure - JSON message body failed to parse"))?;
    // SNS's reference asks for it, so that no subscriber is left without a text, even where there is one endpoint only.
    let Some(default) = message.get("default").and_then(Value::as_str) else {
        return Err(invalid("Message Structure - No default entry in JSON message body"));
    };
    // A value that is no string counts as absent.
    let Some(text) = message.get(platform.key()).and_then(Value::as_str) else {
        return Ok(plain(default));
    };
    let protocol = format!("Message Reason: Invalid notification for protocol {}", platform.key());
    let payload: Value = serde_json::from_str(text)
        .map_err(|_| SnsError::InvalidParameter(format!("{protocol}: Notification is malformed")))?;
    if payload_bytes(platform, &payload) > PAYLOAD_BYTES_MAX {
        let why = match platform {
            Platform::Apns | Platform::ApnsSandbox => "Notification is too long",
            Platform::Gcm => "Notification data is larger than allowed limit",
        };
        return Err(SnsError::InvalidParameter(format!("{protocol}: {why}")));
    }
    if platform == Platform::Gcm && !payload.pointer("/fcmV1Message/message").is_some_and(Value::is_object) {
        // The older form ended in June 2024.
        return Err(SnsError::InvalidParameter(format!("{protocol}: Notification has no fcmV1Message")));
    }
    Ok(payload)
}

/// APNs counts everything, FCM what the app gets.
fn payload_bytes(platform: Platform, payload: &Value) -> usize {
    match platform {
        Platform::Apns | Platform::ApnsSandbox => payload.to_string().len(),
        Platform::Gcm => payload.pointer("/fcmV1Message/message/data").map_or(0, |data| data.to_string().len()),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
