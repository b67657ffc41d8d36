//! The user's own requests: as they are sent, their replies, and the entries that they become.

use pigeonhole_sealing::Sealed;
use serde_json::{Map, Value, json};
use wire::{
    Action, AddRequest, AddResult, Attached, CreateRequest, CreateResult, EditRequest, Kind, LeaveRequest, LeaveResult,
    Message, ReactRequest, Rekeyed, RemoveRequest, RestrictRequest, RoleRequest, SealedMedia, SendRequest, SendResult,
    Seq, System, UpdateRequest, UserId,
};

use super::reading::readable;
use crate::group::Draft;
use crate::saved::{Outgoing, Queued};

/// Returns the request to send to the server. `sealed`: what leaves in place of the content. `keys`: the commit of a change
/// of a group's members.
pub(super) fn action(queued: &Queued, sealed: Option<&Sealed>, keys: Option<&Rekeyed>, read: Option<Seq>) -> Action {
    let Queued { client_msg_id, outgoing, .. } = queued.clone();
    if let (Some(sealed), Some(target)) = (sealed, outgoing.target()) {
        let media = sealed.media_id.clone().map(|media_id| SealedMedia { media_id, bytes: None });
        return Action::Send(SendRequest {
            target,
            client_msg_id,
            kind: Kind::Sealed,
            body: sealed.body.clone(),
            media: media.map(Attached::Sealed).map(Box::new),
            data: None,
            reply_to: None,
            read,
            mentions: vec![],
            epoch: Some(sealed.epoch),
            silent: sealed.silent,
            frank: sealed.frank.clone().map(Box::new),
        });
    }
    let kind = outgoing.kind().unwrap_or(Kind::Text);
    match outgoing {
        Outgoing::Message { target, draft: Draft { body, reply_to, mentions, data, .. }, media } => {
            let media = media.and_then(|upload| upload.media()).map(Attached::Clear).map(Box::new);
            let (epoch, silent, frank) = (None, false, None);
            Action::Send(SendRequest {
                target,
                client_msg_id,
                kind,
                body,
                media,
                data,
                reply_to,
                read,
                mentions,
                epoch,
                silent,
                frank,
            })
        }
        Outgoing::Request(Action::Add(request)) => {
            Action::Add(AddRequest { keys: keys.cloned().map(Box::new), ..request })
        }
        Outgoing::Request(Action::Remove(request)) => {
            Action::Remove(RemoveRequest { keys: keys.cloned().map(Box::new), ..request })
        }
        Outgoing::Request(action) => action,
    }
}

/// The part of a request that only the other user may read.
pub(super) struct Plaintext {
    pub kind: Kind,
    pub body: String,
    pub fields: Map<String, Value>,
    /// The message to which the request refers, under this name.
    pub refers_to: Option<(&'static str, Seq)>,
}

/// Returns the part of a request that only the other user may read. `None`: it has none, and leaves as it is.
pub(super) fn plaintext(outgoing: &Outgoing) -> Option<Plaintext> {
    let mut fields = Map::new();
    let (kind, body, refers_to) = match outgoing {
        Outgoing::Message { draft: Draft { body, reply_to, mentions, data, .. }, .. } => {
            if !mentions.is_empty() {
                fields.insert("mentions".to_owned(), json!(mentions));
            }
            if let Some(data) = data {
                fields.insert("data".to_owned(), json!(data));
            }
            (outgoing.kind().unwrap_or(Kind::Text), body.clone(), reply_to.map(|seq| ("reply_to", seq)))
        }
        Outgoing::Request(Action::Edit(request)) => {
            if let Some(data) = &request.data {
                fields.insert("data".to_owned(), json!(data));
            }
            (Kind::Edit, request.body.clone(), Some(("to", request.seq)))
        }
        Outgoing::Request(Action::React(request)) => {
            fields.insert("emoji".to_owned(), json!(request.emoji));
            (Kind::Reaction, String::new(), Some(("to", request.seq)))
        }
        Outgoing::Request(_) => return None,
    };
    Some(Plaintext { kind, body, fields, refers_to })
}

/// Returns the reply, if it can be read. Only an addition without new members, and a leave of a channel, have no entry.
pub(super) fn answer(outgoing: &Outgoing, result: Value) -> Option<AddResult> {
    match outgoing {
        Outgoing::Request(Action::Add(_)) => {
            readable::<AddResult>(result).filter(|answer| answer.entry.is_some() || answer.added.is_empty())
        }
        Outgoing::Request(Action::Leave(LeaveRequest { conversation_id, .. })) => readable::<LeaveResult>(result)
            .filter(|answer| answer.entry.is_some() || conversation_id.is_channel())
            .map(|answer| without_members(answer.entry)),
        Outgoing::Request(Action::Create(_)) => readable::<CreateResult>(result)
            .map(|CreateResult { entry, not_added }| AddResult { not_added, ..without_members(Some(entry)) }),
        // All others become an entry.
        Outgoing::Message { .. } | Outgoing::Request(_) => {
            readable::<SendResult>(result).map(|entry| without_members(Some(entry)))
        }
    }
}

fn without_members(entry: Option<SendResult>) -> AddResult {
    AddResult { entry, added: vec![], already: vec![], not_added: vec![] }
}

/// Returns the change of the group that the request made, if any.
fn system(action: &Action, added: Vec<UserId>, own: &UserId) -> Option<System> {
    match action.clone() {
        Action::Create(CreateRequest { title, members, look, .. }) => {
            let others = members.into_iter().filter(|user| user != own);
            Some(System::Created { title, members: std::iter::once(own.clone()).chain(others).collect(), look })
        }
        Action::Add(_) => Some(System::MembersAdded { members: added }),
        Action::Remove(RemoveRequest { user_id, .. }) => Some(System::MembersRemoved { members: vec![user_id] }),
        Action::Leave(_) => Some(System::MemberLeft {}),
        Action::Role(RoleRequest { user_id, role, .. }) => Some(System::RoleChanged { user_id, role }),
        Action::Restrict(RestrictRequest { user_id, until, .. }) => Some(System::MemberRestricted { user_id, until }),
        Action::Update(UpdateRequest { info, .. }) => Some(info.into()),
        // The others change no group.
        _ => None,
    }
}

/// Returns `false` for a reaction: a channel counts reactions, and the reply is about the message.
pub(super) fn becomes_entry_in_channel(outgoing: &Outgoing) -> bool {
    !matches!(outgoing, Outgoing::Request(Action::React(_)))
}

/// Returns the entry that the request became.
pub(super) fn own_entry(queued: Queued, stored: SendResult, added: Vec<UserId>, sender_id: UserId) -> Message {
    // The team's filter has rewritten it.
    if let Some(message) = stored.message {
        return Message { client_msg_id: Some(queued.client_msg_id), ..*message };
    }
    let SendResult { conversation_id, seq, message_id, sent_at, version, .. } = stored;
    let target_seq = queued.outgoing.target_seq();
    let (mut mentions, mut media, mut data, mut happened) = (vec![], None, None, None);
    let mut pinned = None;
    let keeps_data = matches!(&queued.outgoing, Outgoing::Request(Action::Edit(EditRequest { data: None, .. })));
    let kind = queued.outgoing.kind().unwrap_or(Kind::Text);
    let (kind, body, reply_to, emoji) = match queued.outgoing {
        Outgoing::Message { draft, media: upload, .. } => {
            (mentions, data) = (draft.mentions, draft.data);
            media = upload.as_ref().and_then(|upload| upload.media()).map(Attached::Clear).map(Box::new);
            (kind, draft.body, draft.reply_to, None)
        }
        Outgoing::Request(Action::Edit(EditRequest { body, data: edited, .. })) => {
            data = edited.flatten();
            (Kind::Edit, body, None, None)
        }
        Outgoing::Request(Action::Delete(_)) => (Kind::Delete, String::new(), None, None),
        Outgoing::Request(Action::Pin(request)) => {
            pinned = Some(request.pinned);
            (Kind::Pin, String::new(), None, None)
        }
        Outgoing::Request(Action::React(ReactRequest { emoji, .. })) => (Kind::Reaction, String::new(), None, emoji),
        Outgoing::Request(action) => {
            happened = system(&action, added, &sender_id);
            (Kind::System, String::new(), None, None)
        }
    };
    Message {
        conversation_id,
        seq,
        message_id,
        sender_id,
        kind,
        body,
        sent_at,
        client_msg_id: Some(queued.client_msg_id),
        media,
        data,
        reply_to,
        version,
        edited_at: None,
        deleted_at: None,
        deleted_by: None,
        reactions: vec![],
        reactions_seq: None,
        target_seq,
        emoji,
        // The server's reply does not contain it.
        emoji_before: None,
        mentions,
        system: happened,
        silent: false,
        epoch: None,
        frank: None,
        commit: None,
        welcome: None,
        tree: None,
        target_id: None,
        keeps_data,
        proof: None,
        pinned,
        removes: None,
        user_id: None,
        seqs: None,
    }
}
