//! One message: which route it takes, and what goes back.

use serde_json::{Value, json};
use template::{Api, Route};

use super::connections::Connection;
use super::{FRAME_BYTES_MAX, Gateway, LOG_NAME, ProxyAnswer, developer, events, random_id};

const DEFAULT: &str = "$default";
/// The route on which an app names the token that its phone has.
const REGISTERS_PHONES: &str = "device";

impl Gateway {
    pub(super) async fn on_message(&self, connection: &Connection, text: &str) {
        self.count("MessageCount");
        let request_id = random_id();
        let reply = match select_route(&self.api, text) {
            Some((key, _)) if !self.throttles.admit(self.api.throttle, key) => {
                self.count("ClientError");
                own_frame(connection, &request_id, "Too Many Requests")
            }
            Some((key, route)) => {
                let event = events::message(&connection.origin, &request_id, key, text);
                let turn = connection.turns.acquire().await;
                let answer = self.integrate(&route.function, &event).await;
                drop(turn);
                if key == REGISTERS_PHONES && answer.as_ref().is_some_and(has_registered) {
                    // A template without these tables has no phones.
                    let _ = developer::registered(self, &connection.origin);
                }
                match answer {
                    Some(answer) if route.replies => answer.body.unwrap_or_default(),
                    Some(_) => String::new(),
                    None => own_frame(connection, &request_id, "Internal server error"),
                }
            }
            None => {
                self.count("ClientError");
                own_frame(connection, &request_id, "Forbidden")
            }
        };
        if reply.is_empty() {
            return;
        }
        if reply.len() > FRAME_BYTES_MAX {
            let text = format!("a reply of {} bytes is more than a frame holds: not sent", reply.len());
            self.log_failure(LOG_NAME, &text);
        } else if connection.send(reply).is_err() {
            self.log_failure(LOG_NAME, "the client does not take its frames: a reply was dropped");
        } else {
            self.count("MessageCount");
        }
    }
}

fn has_registered(answer: &ProxyAnswer) -> bool {
    let reply = answer.body.as_deref().and_then(|body| serde_json::from_str::<Value>(body).ok());
    reply.is_some_and(|reply| reply.pointer("/result/registered") == Some(&Value::Bool(true)))
}

/// The route whose key the message names, or else the default one, if the API has it.
fn select_route<'a>(api: &'a Api, text: &str) -> Option<(&'a str, &'a Route)> {
    let body = serde_json::from_str::<Value>(text).unwrap_or_default();
    let key = match body.get(&api.route_member) {
        Some(Value::String(key)) => key.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    // A client cannot ask for $connect and the like.
    let named = api.routes.get_key_value(&key).filter(|(key, _)| !key.starts_with('$'));
    named.or_else(|| api.routes.get_key_value(DEFAULT)).map(|(key, route)| (key.as_str(), route))
}

/// What API Gateway itself has to say to a client.
fn own_frame(connection: &Connection, request_id: &str, message: &str) -> String {
    let connection_id = &connection.origin.connection_id;
    json!({ "message": message, "connectionId": connection_id, "requestId": request_id }).to_string()
}
