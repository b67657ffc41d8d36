//! Requests of a service that need a reply, and deletes by an operator.

use actions::{Appended, Changed, Writer, added, conversation_for, creation};
use domain::{Failure, GroupChange};
use lambda::EventLine;
use serde::Serialize;
use serde_json::Value;
use wire::{
    AddRequest, ClientMsgId, ConversationId, CreateResult, Kind, Refusal, RemoveRequest, RestrictRequest, SendRequest,
    Seq, ServiceAction, Target, UserId,
};

use crate::Deps;

/// Carries out the operation with the service as the caller.
pub(crate) async fn act(
    deps: &Deps,
    service: &UserId,
    action: ServiceAction,
    line: &mut EventLine,
) -> Result<Value, Failure> {
    match action {
        ServiceAction::Send(request) => {
            let appended = send(deps, service, request, line).await?;
            answer(&tell(deps, appended, line).await.into_result())
        }
        ServiceAction::Create(request) => {
            let (key, create) = creation(service, request)?;
            let mut appended = change(deps, service, key, create, line).await?.entry()?;
            let not_added = appended.take_not_added();
            answer(&CreateResult { entry: appended.into_result(), not_added })
        }
        ServiceAction::Add(AddRequest { conversation_id, client_msg_id, members, .. }) => {
            let add = GroupChange::Add { members: members.clone(), keys: None };
            answer(&added(members, change(deps, service, (conversation_id, client_msg_id), add, line).await?))
        }
        ServiceAction::Remove(RemoveRequest { conversation_id, client_msg_id, user_id: user, .. }) => {
            let remove = GroupChange::Remove { user, keys: None };
            let appended = change(deps, service, (conversation_id, client_msg_id), remove, line).await?.entry()?;
            answer(&appended.into_result())
        }
        ServiceAction::Restrict(RestrictRequest { conversation_id, client_msg_id, user_id: user, until }) => {
            let restrict = GroupChange::Restrict { user, until };
            let appended = change(deps, service, (conversation_id, client_msg_id), restrict, line).await?.entry()?;
            answer(&appended.into_result())
        }
    }
}

/// Deletes a message of any author.
pub(crate) async fn delete_message(
    deps: &Deps,
    message: (ConversationId, Seq),
    line: &mut EventLine,
) -> Result<Value, Failure> {
    line.conversation_id = Some(message.0.clone());
    let conflicts = line.measures.conflicts.insert(0);
    let appended = deps.actions.delete_message(message, conflicts).await?;
    answer(&tell(deps, appended, line).await.into_result())
}

async fn send(deps: &Deps, service: &UserId, request: SendRequest, line: &mut EventLine) -> Result<Appended, Failure> {
    if matches!(&request.target, Target::User(to) if to.is_service()) {
        return Err(Refusal::bad_request("to", "must be a user: services take no messages").into());
    }
    if !matches!(request.kind, Kind::Text | Kind::Own(_)) {
        let problem = "must be \"text\", or \"x-\" and a name: services upload nothing";
        return Err(Refusal::bad_request("kind", problem).into());
    }
    line.conversation_id = Some(conversation_for(service, &request.target));
    let conflicts = line.measures.conflicts.insert(0);
    let writer = Writer { user: service, connection: None };
    deps.actions.append(writer, request, conflicts).await
}

async fn change(
    deps: &Deps,
    service: &UserId,
    key: (ConversationId, ClientMsgId),
    change: GroupChange,
    line: &mut EventLine,
) -> Result<Changed, Failure> {
    line.conversation_id = Some(key.0.clone());
    let conflicts = line.measures.conflicts.insert(0);
    let writer = Writer { user: service, connection: None };
    match deps.actions.change_group(writer, key, change, conflicts).await? {
        Changed::Entry(appended) => Ok(Changed::Entry(Box::new(tell(deps, *appended, line).await))),
        nothing @ Changed::Nothing(_) => Ok(nothing),
    }
}

async fn tell(deps: &Deps, appended: Appended, line: &mut EventLine) -> Appended {
    line.tell(&deps.actions, line.started, &appended, None).await;
    appended
}

fn answer(result: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(result).map_err(|error| Failure::Unavailable(error.into()))
}
