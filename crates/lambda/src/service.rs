//! Requests of a service that need a reply. The operator's function takes them, and `backend` over HTTP.

use actions::{Actions, Appended, Changed, Writer, added, conversation_for, creation};
use domain::{Failure, GroupChange};
use serde::Serialize;
use serde_json::{Value, json};
use wire::{
    AddRequest, ClientMsgId, ConversationId, CreateResult, InvalidId, Kind, Refusal, RemoveRequest, Request,
    RestrictRequest, SendRequest, ServiceAction, Target, TypingText, UpdateRequest, UserId,
};

use crate::event_line::EventLine;

/// The operations, each with the action that it is.
pub const OF_SERVICES: [(&str, &str); 7] = [
    ("send", "send"),
    ("create_group", "create"),
    ("add", "add"),
    ("remove", "remove"),
    ("restrict", "restrict"),
    ("update", "update"),
    (TYPING, TYPING),
];
const TYPING: &str = "typing";

/// A request of a service.
#[derive(Debug, PartialEq, Eq)]
pub enum ServiceRequest {
    /// An action that a user has over a socket.
    Action(Box<ServiceAction>),
    /// The text that the service is writing.
    Typing(TypingText),
}

/// Reads the fields of an operation. Unknown fields are ignored, as over a socket.
///
/// # Errors
/// `unknown_action` for another operation; else the first field that is wrong.
pub fn service_request(op: &str, request: Value) -> Result<ServiceRequest, Refusal> {
    let action = OF_SERVICES.iter().find(|(name, _)| *name == op).ok_or(Refusal::UnknownAction)?.1;
    if action == TYPING {
        let fields = request.as_object().ok_or_else(|| Refusal::bad_request("request", "must be an object"))?;
        return Ok(ServiceRequest::Typing(TypingText::of(fields)?));
    }
    Ok(ServiceRequest::Action(Box::new(service_action(action, request)?)))
}

fn service_action(action: &str, mut request: Value) -> Result<ServiceAction, Refusal> {
    if let Some(key) = request.get("client_msg_id").and_then(Value::as_str) {
        let wrong = |invalid: InvalidId| Refusal::bad_request("client_msg_id", invalid.to_string());
        ClientMsgId::of_service(key).map_err(wrong)?;
    }
    if let Some(fields) = request.as_object_mut() {
        fields.insert("action".to_owned(), Value::from(action));
    }
    Request::parse(&request.to_string()).map_err(|rejected| rejected.refusal)?.action.try_into()
}

/// Carries out the operation with the service as the caller.
///
/// # Errors
/// A refusal, or a service of AWS that failed.
pub async fn act_as_service(
    actions: &Actions,
    service: &UserId,
    request: ServiceRequest,
    line: &mut EventLine,
) -> Result<Value, Failure> {
    let action = match request {
        ServiceRequest::Action(action) => *action,
        ServiceRequest::Typing(typed) => {
            line.conversation_id = Some(conversation_for(service, &typed.target));
            let delivered = actions.tell_text(service, typed).await?;
            line.frames(delivered.iter().map(|to| to.frames));
            return Ok(json!({}));
        }
    };
    match action {
        ServiceAction::Send(request) => {
            let appended = send(actions, service, request, line).await?;
            to_value(&tell(actions, appended, line).await.into_result())
        }
        ServiceAction::Create(request) => {
            let (key, create) = creation(service, request)?;
            let mut appended = change(actions, service, key, create, line).await?.entry()?;
            let not_added = appended.take_not_added();
            to_value(&CreateResult { entry: appended.into_result(), not_added })
        }
        ServiceAction::Add(AddRequest { conversation_id, client_msg_id, members, .. }) => {
            let add = GroupChange::Add { members: members.clone(), keys: None };
            to_value(&added(members, change(actions, service, (conversation_id, client_msg_id), add, line).await?))
        }
        ServiceAction::Remove(RemoveRequest { conversation_id, client_msg_id, user_id: user, .. }) => {
            let remove = GroupChange::Remove { user, keys: None };
            let appended = change(actions, service, (conversation_id, client_msg_id), remove, line).await?.entry()?;
            to_value(&appended.into_result())
        }
        ServiceAction::Restrict(RestrictRequest { conversation_id, client_msg_id, user_id: user, until }) => {
            let restrict = GroupChange::Restrict { user, until };
            let appended = change(actions, service, (conversation_id, client_msg_id), restrict, line).await?.entry()?;
            to_value(&appended.into_result())
        }
        ServiceAction::Update(UpdateRequest { conversation_id, client_msg_id, info }) => {
            let key = (conversation_id, client_msg_id);
            let appended = change(actions, service, key, GroupChange::Update { info }, line).await?.entry()?;
            to_value(&appended.into_result())
        }
    }
}

async fn send(
    actions: &Actions,
    service: &UserId,
    request: SendRequest,
    line: &mut EventLine,
) -> Result<Appended, Failure> {
    if matches!(&request.target, Target::User(to) if to.is_service()) {
        return Err(Refusal::bad_request("to", "must be a user: services take no messages").into());
    }
    if !matches!(request.kind, Kind::Text | Kind::Own(_)) {
        let problem = "must be \"text\", or \"x-\" and a name: services upload nothing";
        return Err(Refusal::bad_request("kind", problem).into());
    }
    line.conversation_id = Some(conversation_for(service, &request.target));
    let conflicts = line.measures.conflicts.insert(0);
    let writer = Writer { user: service, origin: None };
    actions.append(writer, request, conflicts).await
}

async fn change(
    actions: &Actions,
    service: &UserId,
    key: (ConversationId, ClientMsgId),
    change: GroupChange,
    line: &mut EventLine,
) -> Result<Changed, Failure> {
    line.conversation_id = Some(key.0.clone());
    let conflicts = line.measures.conflicts.insert(0);
    let writer = Writer { user: service, origin: None };
    match actions.change_group(writer, key, change, conflicts).await? {
        Changed::Entry(appended) => Ok(Changed::Entry(Box::new(tell(actions, *appended, line).await))),
        nothing @ Changed::Nothing(_) => Ok(nothing),
    }
}

async fn tell(actions: &Actions, appended: Appended, line: &mut EventLine) -> Appended {
    line.tell(actions, line.started, &appended, None).await;
    appended
}

fn to_value(result: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(result).map_err(|error| Failure::Unavailable(error.into()))
}
