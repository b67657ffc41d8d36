//! The queue's messages from a team's own server: a service's message to a user, or a change of a profile.

use serde_json::Value;

use crate::actions::{Empty, ProfileChange, said};
use crate::data::Data;
use crate::fields::Fields;
use crate::ids::{ClientMsgId, UserId};
use crate::kind::Kind;
use crate::limits::FRAME_BYTES_MAX;
use crate::refusal::Refusal;

/// A message of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queued {
    Message(Box<ServiceMessage>),
    /// `{"profile":"alice","set":{…}}`
    Profile {
        user_id: UserId,
        set: ProfileChange,
    },
}

impl Queued {
    /// Reads it. Unknown fields are ignored.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        if text.len() > FRAME_BYTES_MAX {
            return Err(Refusal::TooLarge { field: "message", problem: "must be at most 32 KiB".into() });
        }
        let object = match serde_json::from_str(text) {
            Ok(Value::Object(object)) => object,
            Ok(_) => return Err(Refusal::bad_request("message", "must be a JSON object")),
            Err(_) => return Err(Refusal::bad_request("message", "must be valid JSON")),
        };
        let fields = Fields { object: &object, path: "" };
        match fields.optional("profile", UserId::parse)? {
            Some(user_id) => Ok(Self::Profile { user_id, set: ProfileChange::parse(&fields)? }),
            None => Ok(Self::Message(Box::new(ServiceMessage::parse(&fields)?))),
        }
    }
}

/// A message of a service to a user, who need not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceMessage {
    pub from: UserId,
    pub to: UserId,
    /// The idempotency key: unique per service and user.
    pub client_msg_id: ClientMsgId,
    pub kind: Kind,
    pub body: String,
    pub data: Option<Data>,
}

impl ServiceMessage {
    fn parse(fields: &Fields) -> Result<Self, Refusal> {
        let to = fields.required("to", UserId::parse)?;
        if to.is_service() {
            return Err(Refusal::bad_request("to", "must be a user: services take no messages"));
        }
        let is_allowed = |kind: &Kind| matches!(kind, Kind::Text | Kind::Own(_));
        let kind = fields.required("kind", |kind| {
            Kind::of_request(kind).filter(is_allowed).ok_or("must be \"text\", or \"x-\" and a name")
        })?;
        let (body, data) = said(fields, &kind, Empty::Refused)?;
        Ok(Self {
            from: fields.optional("from", UserId::parse_service)?.unwrap_or_else(UserId::service_default),
            to,
            client_msg_id: fields.required("client_msg_id", ClientMsgId::of_service)?,
            kind,
            body,
            data,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(change: &Value) -> Result<Queued, Refusal> {
        let mut message = json!({"to": "bob", "client_msg_id": "order-1", "kind": "text", "body": "on its way"});
        message.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        Queued::parse(&message.to_string())
    }

    #[test]
    fn who_names_no_service_is_the_system() {
        let from = |change| match parse(&change).unwrap() {
            Queued::Message(message) => message.from,
            Queued::Profile { .. } => panic!("it is a message"),
        };
        assert_eq!(from(json!({})), "@system");
        assert_eq!(from(json!({"from": "@orders", "colour": "red"})), "@orders");
    }

    #[test]
    fn an_error_names_the_field() {
        for (change, names) in [
            (json!({"from": "alice"}), "from: must be a service's id"),
            (json!({"from": "@"}), "from: must be a service's id"),
            (json!({"to": "@orders"}), "to: must be a user"),
            (json!({"to": null}), "to: is missing"),
            (json!({"to": 7}), "to: must be a string"),
            (json!({"client_msg_id": ""}), "client_msg_id: "),
            (json!({"client_msg_id": "operator:delete:1"}), "client_msg_id: must not begin with operator:"),
            (json!({"kind": "image"}), "kind: must be"),
            (json!({"profile": "a b"}), "profile: "),
            (json!({"profile": "alice"}), "set: is missing"),
            (json!({"profile": "alice", "set": {}}), "set: must have name or data"),
            (json!({"profile": "alice", "set": {"avatar": "m_x"}}), "set.avatar: must be left out"),
            (json!({"body": ""}), "body: must not be empty"),
            (json!({"body": "x".repeat(16 * 1024 + 1)}), "body: must be at most"),
            (json!({"more": "x".repeat(33 * 1024)}), "message: must be at most"),
        ] {
            let refusal = parse(&change).unwrap_err();
            assert!(refusal.to_string().starts_with(names), "{refusal}");
        }
        for text in ["", "[]", "{", "null"] {
            assert!(matches!(Queued::parse(text), Err(Refusal::BadRequest { .. })), "{text}");
        }
    }
}
