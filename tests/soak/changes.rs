//! Users who edit, delete and react to recent messages. At the end, every user must see the state that the log
//! describes, and no user a deleted text.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use pigeonhole_client::{
    Client, ConversationId, Data, Draft, Emoji, Error, Kind, Message, Outgoing, Queued, Sent, Seq, Side, Target,
    Timeline, TimelineEntry,
};

use serde_json::{Map, Value, json};

use crate::user::{Shown, User};

/// One action in this many is a change.
pub(crate) const CHANGE_ONE_IN: u32 = 5;
/// Changes concern this many last messages of a conversation.
const RECENT_MAX: usize = 8;
/// One text in this many is of an own kind.
const OWN_ONE_IN: u32 = 8;
const EMOJIS: [&str; 3] = ["👍", "🎉", "❤"];

/// A message that is not deleted, as far as the user knows.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    seq: Seq,
    own: bool,
    /// A text that every version of this message contains, and no other message.
    mark: String,
}

impl Said {
    pub(crate) fn is(&self, seq: Seq) -> bool {
        self.seq == seq
    }
}

fn data(fields: &[(&str, &str)]) -> Data {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
    Data::from(fields.collect::<Map<String, Value>>())
}

/// Returns the text of the message with this number. Every version begins with it.
pub(crate) fn text(from: &str, to: &str, number: u64) -> String {
    format!("{number} <{from} {to} {number}>")
}

pub(crate) fn mark(body: &str) -> Option<&str> {
    body.split_once('<')?.1.split_once('>').map(|(mark, _)| mark)
}

/// Whether its sender has numbered it in the order of sending: pictures overtake each other, and are overtaken.
pub(crate) fn is_numbered(message: &Message) -> bool {
    matches!(message.kind, Kind::Text | Kind::Own(_)) && message.kind.counts()
}

/// A message of an own kind has its mark in its data, until it is deleted.
pub(crate) fn has_other_data(message: &Message) -> bool {
    let is_own = matches!(message.kind, Kind::Own(_)) && message.kind.counts() && message.deleted_at.is_none();
    let said = message.data.as_ref().and_then(|data| data.as_object().get("mark")).and_then(Value::as_str);
    is_own && said != mark(&message.body) || message.deleted_at.is_some() && message.data.is_some()
}

/// Whether it can be the message with this number: one that is deleted says nothing.
pub(crate) fn is_number(message: &Message, number: u64) -> bool {
    message.deleted_at.is_some() || message.body.split(' ').next() == Some(number.to_string().as_str())
}

impl User {
    /// Returns a text, or a message of an own kind with this text.
    pub(crate) fn maybe_own(&mut self, text: String) -> Draft {
        if self.rng.u32(..OWN_ONE_IN) > 0 {
            return Draft::new(text);
        }
        self.counts.own_kinds.fetch_add(1, Relaxed);
        let data = data(&[("mark", mark(&text).expect("every text has one"))]);
        Draft::own("x-note", text, data)
    }

    /// Changes some message, if there is one; whether there was.
    pub(crate) async fn change(&mut self) -> bool {
        let known = self.conversations.iter().filter(|(id, shown)| !id.is_group() && !shown.said.is_empty());
        let known: Vec<ConversationId> = known.map(|(id, _)| id.clone()).collect();
        if known.is_empty() {
            return false;
        }
        let id = known[self.rng.usize(..known.len())].clone();
        self.counts.changes.fetch_add(1, Relaxed);
        self.change_in(&id).await.is_some()
    }

    /// Changes some message of this conversation, if there is one.
    pub(crate) async fn change_in(&mut self, id: &ConversationId) -> Option<Sent> {
        let shown = self.conversations.get_mut(id).filter(|shown| !shown.said.is_empty())?;
        let back = self.rng.usize(..shown.said.len().min(RECENT_MAX));
        let Said { seq, own, mark } = &shown.said[shown.said.len() - 1 - back];
        let client = &self.app.client;
        let sent = match (own, self.rng.usize(..10)) {
            (true, 0..5) => {
                let number = mark.rsplit(' ').next().unwrap_or_default();
                client.edit(id, *seq, format!("{number} <{mark}> edited {}", self.rng.u32(..))).await
            }
            (true, 5..7) => client.delete(id, *seq).await,
            // Permission is checked elsewhere.
            (false, 0) if id.is_group() => client.delete(id, *seq).await,
            // Not before the other user has written: such entries have a rate of their own.
            (false, 9) => {
                self.counts.silent.fetch_add(1, Relaxed);
                client
                    .send(Target::Conversation(id.clone()), Draft::own("xs-mood", "", data(&[("mood", "fine")])))
                    .await
            }
            (_, any) => {
                let emoji = EMOJIS.get(any % (EMOJIS.len() + 1)).and_then(|emoji| Emoji::parse(emoji).ok());
                client.react(id, *seq, emoji).await
            }
        };
        let sent = sent.expect("it goes into the outbox");
        shown.timeline.queued(sent.queued().clone());
        Some(sent)
    }

    /// Records a change that will never be stored. The refusal is right if the message was deleted meanwhile, or edited
    /// too often.
    pub(crate) fn refused(&mut self, Queued { client_msg_id, outgoing, .. }: &Queued, error: &Error) {
        if let Some(Target::Conversation(id)) = outgoing.target()
            && id.is_group()
        {
            if let Some(shown) = self.conversations.get_mut(&id) {
                shown.timeline.failed(client_msg_id, error.to_string());
                shown.timeline.dismiss(client_msg_id);
            }
            return self.refused_in_a_group(client_msg_id, error);
        }
        let is_change = !matches!(outgoing, Outgoing::Message { .. });
        let is_right = matches!(error, Error::Refused { code, .. } if code == "gone" || code == "limit_reached");
        let count = if is_change && is_right { &self.counts.declined } else { &self.counts.refused };
        count.fetch_add(1, Relaxed);
        self.under_way -= 1;
        if let Some(Target::Conversation(id)) = outgoing.target()
            && let Some(shown) = self.conversations.get_mut(&id)
        {
            shown.timeline.failed(client_msg_id, error.to_string());
            shown.timeline.dismiss(client_msg_id);
        }
    }

    /// Records an own stored delete: from now on no reply may contain the text.
    pub(crate) fn look_for(&mut self, id: ConversationId, Said { seq, mark, .. }: Said) {
        let (client, counts) = (self.app.client.clone(), Arc::clone(&self.counts));
        counts.deleted.lock().expect("nobody has panicked").insert(mark.clone());
        self.looking.spawn(async move {
            let answers = tokio::join!(client.history(&id, Side::After(seq.previous()), 100), client.inbox(None));
            // An app that is restarted meanwhile has no answer.
            if let (Ok(history), Ok(inbox)) = answers {
                counts.looked_for.fetch_add(1, Relaxed);
                let bodies = history.messages.iter().map(|message| &message.body);
                let previews = inbox.conversations.iter().map(|row| &row.last_message.preview);
                let found = bodies.chain(previews).filter(|text| text.contains(&format!("<{mark}>"))).count() as u64;
                counts.not_deleted.fetch_add(found, Relaxed);
            }
        });
    }

    /// Compares what is shown of each conversation with what the server has of it, which is nothing of what was deleted.
    pub(crate) async fn check_views(&mut self) {
        while self.looking.join_next().await.is_some() {}
        for (id, shown) in self.conversations.iter().filter(|(id, _)| !id.is_group()) {
            let log = whole(&self.app.client, id).await;
            let deleted = self.counts.deleted.lock().expect("nobody has panicked");
            let found = log.iter().filter_map(|entry| mark(&entry.body)).filter(|mark| deleted.contains(*mark)).count();
            self.counts.not_deleted.fetch_add(found as u64, Relaxed);
            drop(deleted);
            let expected: Vec<Message> = log.into_iter().filter(|entry| entry.kind.counts()).collect();
            if view(&shown.timeline) != expected || shown.timeline.missing().is_some() {
                println!("{} sees another {id} than there is", self.name());
                self.counts.wrong_views.fetch_add(1, Relaxed);
            }
        }
    }
}

impl Shown {
    /// An entry that is shown for the first time; an own delete gives what it deleted.
    pub(crate) fn fold(&mut self, entry: &Message, own: bool) -> Option<Said> {
        self.timeline.message(entry.clone());
        // Only the service changes its messages.
        let changes = entry.kind.counts() && !entry.sender_id.is_service();
        if let Some(mark) = mark(&entry.body).filter(|_| changes) {
            self.said.push(Said { seq: entry.seq, own, mark: mark.to_owned() });
        }
        if entry.kind != Kind::Delete {
            return None;
        }
        let at = self.said.iter().rposition(|said| Some(said.seq) == entry.target_seq)?;
        let deleted = self.said.remove(at);
        own.then_some(deleted)
    }

    /// How many messages of others above this one are there to be read.
    pub(crate) fn unread_above(&self, seq: Seq, own: &str) -> u64 {
        let view = view(&self.timeline);
        let unread = view
            .iter()
            .filter(|message| message.seq > seq && message.deleted_at.is_none() && message.sender_id != *own);
        unread.count() as u64
    }
}

/// The messages as they are drawn.
pub(crate) fn view(timeline: &Timeline) -> Vec<Message> {
    let entries = timeline.entries(|_| ()).into_iter();
    entries
        .filter_map(|entry| match entry {
            TimelineEntry::Message { message, changing: false, refused: None, .. } => Some(message.into_owned()),
            _ => None,
        })
        .collect()
}

pub(crate) async fn whole(client: &Client, id: &ConversationId) -> Vec<Message> {
    let mut log: Vec<Message> = Vec::new();
    loop {
        let last = log.last().map_or(Seq::ZERO, |last| last.seq);
        let page = client.history(id, Side::After(last), 100).await.expect("it is there");
        log.extend(page.messages);
        if !page.more {
            return log;
        }
    }
}
