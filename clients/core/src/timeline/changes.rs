//! The state of a message after its change entries, in whichever order they and the message come.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wire::limits::REACTIONS_SHOWN_MAX;
use wire::{
    Action, ClientMsgId, Data, EditRequest, Emoji, Kind, Message, ReactRequest, Reaction, Seq, Timestamp, UserId,
};

use crate::saved::Outgoing;

/// The known changes of one message, received or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Changes {
    text: Option<Text>,
    /// The newest encrypted edit of each user. Only the one by the author of the message holds, which no server checks.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    sealed: BTreeMap<UserId, Text>,
    deleted: Option<(Timestamp, UserId)>,
    /// The message mentions the viewer, or did before its delete: a row may still count the mention.
    pub named_viewer: bool,
    /// The newest page's state, by the highest of these: the `seq` of the last reaction included, and the counts.
    page: (Option<Seq>, Vec<Reaction>),
    /// The reactions above that.
    reactions: BTreeMap<Seq, Step>,
}

/// The effect of one reaction.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Step {
    mine: bool,
    emoji: Option<Emoji>,
    before: Option<Emoji>,
    /// The user, if nothing says the reaction before: the server knows none of an encrypted one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Box<UserId>>,
    /// As of [`Text`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target_id: Option<Box<ClientMsgId>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Text {
    version: u64,
    edited_at: Timestamp,
    body: String,
    /// The newest data. `None`: no known edit names any, so the message keeps its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set: Option<Set>,
    /// The `client_msg_id` of the target, as the author of an encrypted change names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target_id: Option<Box<ClientMsgId>>,
}

/// The data by an edit, which may be older than the text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Set {
    version: u64,
    edited_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Data>,
}

/// Returns whether an encrypted change is one of this message. The server says which `seq` the message has, and could say
/// another to each user. An own change has no other name.
fn is_of(target_id: Option<&ClientMsgId>, message: &Message) -> bool {
    message.epoch.is_none() || target_id.is_none() || target_id == message.client_msg_id.as_ref()
}

impl Changes {
    pub(crate) fn add(&mut self, entry: &Message, viewer: &UserId) {
        match entry.kind {
            // An edit without a version has no effect: its target is deleted.
            Kind::Edit => {
                if let Some(version) = entry.version {
                    let by = entry.epoch.map(|_| &entry.sender_id);
                    let (edited_at, target_id) = (entry.sent_at, entry.target_id.clone());
                    let set = (!entry.keeps_data).then(|| Set { version, edited_at, data: entry.data.clone() });
                    self.edit(Text { version, edited_at, body: entry.body.clone(), set, target_id }, by);
                }
            }
            Kind::Delete => self.delete(entry.sent_at, entry.sender_id.clone()),
            Kind::Reaction if Some(entry.seq) > self.page.0 && self.deleted.is_none() => {
                let (emoji, before) = (entry.emoji.clone(), entry.emoji_before.clone());
                let (mine, target_id) = (entry.sender_id == *viewer, entry.target_id.clone());
                let is_alone = before.is_none() && (entry.epoch.is_some() || emoji.is_none());
                let by = is_alone.then(|| Box::new(entry.sender_id.clone()));
                self.reactions.insert(entry.seq, Step { mine, emoji, before, by, target_id });
            }
            // The known page includes the entry, or the entry changes nothing.
            Kind::Reaction
            | Kind::Pin
            | Kind::Text
            | Kind::Image
            | Kind::File
            | Kind::Voice
            | Kind::System
            | Kind::Sealed
            | Kind::Commit
            | Kind::Erased
            | Kind::Own(_)
            | Kind::Other(_) => {}
        }
    }

    /// The message, as some page has it.
    pub(crate) fn page(&mut self, message: &Message) {
        if message.reactions_seq >= self.page.0 && self.deleted.is_none() {
            self.page = (message.reactions_seq, message.reactions.clone());
            self.reactions.retain(|seq, _| Some(*seq) > message.reactions_seq);
        }
    }

    /// Sets the viewer's current reaction, which has no entry.
    pub(super) fn counted(&mut self, emoji: Option<&Emoji>) {
        if self.deleted.is_none() {
            react(&mut self.page.1, emoji);
        }
    }

    /// `sealed_by`: the user who wrote an encrypted edit.
    fn edit(&mut self, text: Text, sealed_by: Option<&UserId>) {
        // The text of a deleted message is not kept, however late the text comes.
        if self.deleted.is_some() {
            return;
        }
        let held = match sealed_by {
            Some(by) => self.sealed.entry(by.clone()).or_insert_with(|| text.clone()),
            None => self.text.get_or_insert_with(|| text.clone()),
        };
        let at = |set: &Option<Set>| set.as_ref().map(|set| (set.version, set.edited_at));
        let set = if at(&text.set) > at(&held.set) { text.set.clone() } else { held.set.clone() };
        if (text.version, text.edited_at) > (held.version, held.edited_at) {
            *held = text;
        }
        held.set = set;
    }

    /// Whether the text of this encrypted edit is known, and none newer of its author.
    pub(crate) fn has_edit(&self, seq: Seq) -> bool {
        self.sealed.values().any(|text| text.version == seq.value())
    }

    pub(crate) fn delete(&mut self, at: Timestamp, by: UserId) {
        self.text = None;
        self.sealed.clear();
        self.page.1.clear();
        self.reactions.clear();
        self.deleted.get_or_insert((at, by));
    }

    /// Makes the message, as some page had it, what it is by now.
    pub(crate) fn apply(&self, message: &mut Message) {
        if let Some((at, by)) = &self.deleted {
            empty(message, *at, by.clone());
            return;
        }
        let sealed = self.sealed.get(&message.sender_id).filter(|text| is_of(text.target_id.as_deref(), message));
        let texts = [self.text.as_ref(), sealed].into_iter().flatten();
        // The server has no data of an encrypted message, so all that is known of it is here.
        let is_new = |at| message.epoch.is_some() || Some(at) > message.version.zip(message.edited_at);
        let sets =
            texts.clone().filter_map(|text| text.set.as_ref()).filter(|set| is_new((set.version, set.edited_at)));
        if message.kind != Kind::Sealed
            && let Some(set) = sets.max_by_key(|set| (set.version, set.edited_at))
        {
            message.data.clone_from(&set.data);
        }
        if let Some(Text { version, edited_at, body, .. }) = texts.max_by_key(|text| (text.version, text.edited_at))
            && message.kind != Kind::Sealed
            && (Some(*version), Some(*edited_at)) > (message.version, message.edited_at)
        {
            (message.version, message.edited_at) = (Some(*version), Some(*edited_at));
            message.body.clone_from(body);
        }
        message.reactions_seq = self.reactions.keys().next_back().copied().or(self.page.0);
        message.reactions = self.reactions(message);
    }

    /// Returns the current reactions of all users.
    fn reactions(&self, message: &Message) -> Vec<Reaction> {
        let mut counts: BTreeMap<&Emoji, i64> = BTreeMap::new();
        let (mut mine, mut newest) = (None, BTreeMap::new());
        for Reaction { emoji, count, mine: is_mine } in &self.page.1 {
            counts.insert(emoji, i64::try_from(*count).unwrap_or(i64::MAX) - i64::from(*is_mine));
            mine = if *is_mine { Some(emoji) } else { mine };
        }
        for step in self.reactions.values().filter(|step| is_of(step.target_id.as_deref(), message)) {
            if step.mine {
                // The earlier own reaction is known, even if the entry does not contain it.
                mine = step.emoji.as_ref();
                continue;
            }
            if let Some(by) = &step.by {
                newest.insert(by, step.emoji.as_ref());
                continue;
            }
            for (emoji, more) in [(&step.emoji, 1), (&step.before, -1)] {
                if let Some(emoji) = emoji {
                    *counts.entry(emoji).or_default() += more;
                }
            }
        }
        for emoji in newest.into_values().flatten() {
            *counts.entry(emoji).or_default() += 1;
        }
        if let Some(mine) = mine {
            *counts.entry(mine).or_default() += 1;
        }
        let some = |(emoji, count): (&Emoji, i64)| {
            let count = u64::try_from(count).ok().filter(|count| *count > 0)?;
            Some(Reaction { emoji: emoji.clone(), count, mine: mine == Some(emoji) })
        };
        shown(counts.into_iter().filter_map(some).collect())
    }
}

/// Keeps the known text, if it is newer than the one that came.
pub(crate) fn keep_text(came: &mut Message, held: Message) {
    // Each version has one text. A former member gets an empty text if the message was changed after the member left.
    let (known, other) = ((held.version, held.edited_at), (came.version, came.edited_at));
    if known > other || (known == other && came.body.is_empty()) {
        (came.body, came.data) = (held.body, held.data);
        (came.version, came.edited_at) = (held.version, held.edited_at);
    }
}

/// The message, once an own change of it, made at this time, is stored.
pub(super) fn foresee(message: &mut Message, change: &Outgoing, at: Timestamp, own: &UserId) {
    if message.deleted_at.is_some() {
        return;
    }
    match change {
        Outgoing::Request(Action::Edit(EditRequest { body, data, .. })) => {
            message.body.clone_from(body);
            if let Some(data) = data {
                message.data.clone_from(data);
            }
            (message.version, message.edited_at) = (Some(message.version.unwrap_or(1) + 1), Some(at));
        }
        Outgoing::Request(Action::Delete(_)) => empty(message, at, own.clone()),
        Outgoing::Request(Action::React(ReactRequest { emoji, .. })) => react(&mut message.reactions, emoji.as_ref()),
        // The others change no message.
        Outgoing::Message { .. } | Outgoing::Request(_) => {}
    }
}

fn empty(message: &mut Message, at: Timestamp, by: UserId) {
    message.body.clear();
    message.reactions.clear();
    (message.media, message.data) = (None, None);
    message.mentions.clear();
    message.reactions_seq = None;
    (message.version, message.edited_at) = (None, None);
    (message.deleted_at, message.deleted_by) = (Some(at), Some(by));
}

/// Replaces the viewer's reaction in the counts.
fn react(reactions: &mut Vec<Reaction>, emoji: Option<&Emoji>) {
    for reaction in reactions.iter_mut().filter(|reaction| reaction.mine) {
        reaction.count = reaction.count.saturating_sub(1);
        reaction.mine = false;
    }
    if let Some(emoji) = emoji {
        match reactions.iter_mut().find(|reaction| reaction.emoji == *emoji) {
            Some(reaction) => (reaction.count, reaction.mine) = (reaction.count + 1, true),
            None => reactions.push(Reaction { emoji: emoji.clone(), count: 1, mine: true }),
        }
    }
    reactions.retain(|reaction| reaction.count > 0);
    *reactions = shown(std::mem::take(reactions));
}

/// Sorts as the server does: the most frequent first, then by characters, up to the limit.
fn shown(mut reactions: Vec<Reaction>) -> Vec<Reaction> {
    reactions.sort_by(|one, other| (Reverse(one.count), &one.emoji).cmp(&(Reverse(other.count), &other.emoji)));
    reactions.truncate(REACTIONS_SHOWN_MAX);
    reactions
}

#[cfg(test)]
mod tests {
    use wire::{ConversationId, MessageId};

    use super::*;

    #[test]
    fn an_encrypted_reaction_of_a_user_replaces_the_one_before() {
        let text = |seq: u64, by: &str| {
            let (id, by) = (ConversationId::parse("dm_ab").unwrap(), UserId::parse(by).unwrap());
            let (seq, message_id) = (Seq::new(seq).unwrap(), MessageId::stored("x"));
            Message::text(id, seq, message_id, by, String::new(), Timestamp::default())
        };
        let react = |seq: u64, by: &str, emoji: Option<&str>, epoch: Option<u64>| {
            let emoji = emoji.map(|emoji| Emoji::parse(emoji).unwrap());
            Message { kind: Kind::Reaction, emoji, epoch, target_seq: Seq::new(1), ..text(seq, by) }
        };
        let entries = [
            react(2, "bob", Some("👍"), Some(1)),
            react(3, "carol", Some("👍"), Some(1)),
            react(4, "bob", Some("🎉"), Some(1)),
            // The removal of a reaction can be in the clear.
            react(5, "carol", None, None),
        ];
        let counts = |entries: &[Message]| {
            let mut changes = Changes::default();
            entries.iter().rev().for_each(|entry| changes.add(entry, &UserId::parse("alice").unwrap()));
            let reactions = changes.reactions(&text(1, "alice"));
            reactions.iter().map(|one| format!("{}{}", one.emoji.as_str(), one.count)).collect::<Vec<_>>()
        };
        assert_eq!(counts(&entries[..2]), ["👍2"]);
        assert_eq!(counts(&entries[..3]), ["🎉1", "👍1"]);
        assert_eq!(counts(&entries), ["🎉1"]);
    }
}
