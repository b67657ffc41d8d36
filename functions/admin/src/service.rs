//! What a service does and has answered, and what an operator deletes.

use actions::{Appended, Writer, added, append, change_group, conversation_for, creation, tell_appended};
use domain::{Failure, GroupChange};
use lambda::{EventLine, millis_between};
use serde::Serialize;
use serde_json::Value;
use wire::{
    Action, AddRequest, ClientMsgId, ConversationId, Kind, Refusal, RemoveRequest, SendRequest, Seq, Target, Timestamp,
    UserId,
};

use crate::Deps;

/// Carries it out with the service as the one who asks.
pub(crate) async fn act(deps: &Deps, service: &UserId, action: Action, line: &mut EventLine) -> Result<Value, Failure> {
    match action {
        Action::Send(request) => {
            let appended = send(deps, service, request, line).await?;
            answer(&tell(deps, appended, line).await.into_result())
        }
        Action::Create(request) => {
            let (key, create) = creation(service, request)?;
            let appended = change(deps, service, key, create, line).await?;
            answer(&appended.ok_or(Refusal::NotMember)?.into_result())
        }
        Action::Add(AddRequest { conversation_id, client_msg_id, members }) => {
            let add = GroupChange::Add { members: members.clone() };
            answer(&added(members, change(deps, service, (conversation_id, client_msg_id), add, line).await?))
        }
        Action::Remove(RemoveRequest { conversation_id, client_msg_id, user_id: user }) => {
            let remove = GroupChange::Remove { user };
            let appended = change(deps, service, (conversation_id, client_msg_id), remove, line).await?;
            answer(&appended.ok_or(Refusal::NotMember)?.into_result())
        }
        _ => Err(Refusal::UnknownAction.into()),
    }
}

/// Deletes a message, whoever wrote it.
pub(crate) async fn delete_message(
    deps: &Deps,
    message: (ConversationId, Seq),
    line: &mut EventLine,
) -> Result<Value, Failure> {
    line.conversation_id = Some(message.0.clone());
    let conflicts = line.measures.conflicts.insert(0);
    let appended = actions::delete_message(&deps.store, &deps.limits, || deps.clock.now(), message, conflicts).await?;
    answer(&tell(deps, appended, line).await.into_result())
}

async fn send(deps: &Deps, service: &UserId, request: SendRequest, line: &mut EventLine) -> Result<Appended, Failure> {
    if matches!(&request.target, Target::User(to) if to.is_service()) {
        return Err(Refusal::bad_request("to", "must be a user: services take no messages").into());
    }
    if request.kind != Kind::Text {
        return Err(Refusal::bad_request("kind", "must be \"text\": services upload nothing").into());
    }
    line.conversation_id = Some(conversation_for(service, &request.target));
    let conflicts = line.measures.conflicts.insert(0);
    let writer = Writer { user: service, connection: None };
    append(&deps.store, &deps.limits, || deps.clock.now(), writer, request, conflicts).await
}

async fn change(
    deps: &Deps,
    service: &UserId,
    key: (ConversationId, ClientMsgId),
    change: GroupChange,
    line: &mut EventLine,
) -> Result<Option<Appended>, Failure> {
    line.conversation_id = Some(key.0.clone());
    let conflicts = line.measures.conflicts.insert(0);
    let writer = Writer { user: service, connection: None };
    let now = || deps.clock.now();
    match change_group(&deps.store, &deps.limits, now, writer, key, change, conflicts).await? {
        Some(appended) => Ok(Some(tell(deps, appended, line).await)),
        None => Ok(None),
    }
}

/// After the commit nothing may fail the request any more.
async fn tell(deps: &Deps, appended: Appended, line: &mut EventLine) -> Appended {
    let stored_at: Timestamp = deps.clock.now();
    line.seq = Some(appended.place.seq);
    line.measures.store_ms = Some(millis_between(line.started, stored_at));
    let delivered = tell_appended(&deps.store, &deps.fanout, stored_at, &appended, None).await;
    line.frames(delivered.iter().map(|to| to.frames));
    appended
}

fn answer(result: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(result).map_err(|error| Failure::Unavailable(error.into()))
}
