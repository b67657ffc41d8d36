//! What silent entries say of a message, in whichever order they and the message come.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use wire::{Emoji, Kind, Message, Reaction, Seq, Timestamp, UserId};

use crate::storage::Outgoing;

/// What is known of what became of one message, held or not.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    text: Option<Text>,
    deleted: Option<(Timestamp, UserId)>,
    /// The last reaction of each member.
    reactions: BTreeMap<UserId, (Seq, Option<Emoji>)>,
}

#[derive(Clone, Debug)]
struct Text {
    version: u64,
    edited_at: Timestamp,
    body: String,
}

impl Changes {
    pub(super) fn add(&mut self, entry: &Message) {
        match entry.kind {
            // One without a version has nothing to tell: its target is deleted.
            Kind::Edit => {
                if let Some(version) = entry.version {
                    self.edit(Text { version, edited_at: entry.sent_at, body: entry.body.clone() });
                }
            }
            Kind::Delete => self.delete(entry.sent_at, entry.sender_id.clone()),
            Kind::Reaction => {
                let last = self.reactions.entry(entry.sender_id.clone()).or_default();
                if last.0 < entry.seq {
                    *last = (entry.seq, entry.emoji.clone());
                }
            }
            Kind::Text | Kind::Image | Kind::File | Kind::Voice | Kind::System | Kind::Other(_) => {}
        }
    }

    fn edit(&mut self, text: Text) {
        let is_newer = |held: &Text| (text.version, text.edited_at) > (held.version, held.edited_at);
        // What is deleted is not kept, however late it comes.
        if self.deleted.is_none() && self.text.as_ref().is_none_or(is_newer) {
            self.text = Some(text);
        }
    }

    pub(super) fn delete(&mut self, at: Timestamp, by: UserId) {
        self.text = None;
        self.deleted.get_or_insert((at, by));
    }

    /// Makes the message, as some page had it, what it is by now.
    pub(super) fn apply(&self, message: &mut Message, viewer: &UserId) {
        if let Some((at, by)) = &self.deleted {
            empty(message, *at, by.clone());
            return;
        }
        if let Some(Text { version, edited_at, body }) = &self.text
            && (Some(*version), Some(*edited_at)) > (message.version, message.edited_at)
        {
            (message.version, message.edited_at) = (Some(*version), Some(*edited_at));
            message.body.clone_from(body);
        }
        let (own, others): (Vec<_>, Vec<_>) = self.reactions.iter().partition(|(user_id, _)| *user_id == viewer);
        // The page says how many reacted with what, not who. Between two that is the same.
        if !others.is_empty() {
            replace(&mut message.reactions, false, others.into_iter().filter_map(|(_, (_, emoji))| emoji.as_ref()));
        }
        if !own.is_empty() {
            replace(&mut message.reactions, true, own.into_iter().filter_map(|(_, (_, emoji))| emoji.as_ref()));
        }
    }
}

/// A text that was held already, if it is newer than what came.
pub(super) fn keep_text(came: &mut Message, held: Message) {
    if (held.version, held.edited_at) > (came.version, came.edited_at) {
        (came.body, came.version, came.edited_at) = (held.body, held.version, held.edited_at);
    }
}

/// The message, once an own change of it, made at this time, is stored.
pub(super) fn foresee(message: &mut Message, change: &Outgoing, at: Timestamp, own: &UserId) {
    if message.deleted_at.is_some() {
        return;
    }
    match change {
        Outgoing::Edit { body, .. } => {
            message.body.clone_from(body);
            (message.version, message.edited_at) = (Some(message.version.unwrap_or(1) + 1), Some(at));
        }
        Outgoing::Delete { .. } => empty(message, at, own.clone()),
        Outgoing::React { emoji, .. } => replace(&mut message.reactions, true, emoji.iter()),
        Outgoing::Message { .. } => {}
    }
}

fn empty(message: &mut Message, at: Timestamp, by: UserId) {
    message.body.clear();
    message.reactions.clear();
    message.media = None;
    (message.version, message.edited_at) = (None, None);
    (message.deleted_at, message.deleted_by) = (Some(at), Some(by));
}

/// What the viewer, or what all others react with now, in the order of the server: the most frequent first, then by their characters.
fn replace<'a>(reactions: &mut Vec<Reaction>, mine: bool, emojis: impl Iterator<Item = &'a Emoji>) {
    for reaction in reactions.iter_mut() {
        let own = u64::from(reaction.mine);
        reaction.count = if mine { reaction.count.saturating_sub(own) } else { own };
        reaction.mine &= !mine;
    }
    for emoji in emojis {
        match reactions.iter_mut().find(|reaction| reaction.emoji == *emoji) {
            Some(reaction) => {
                reaction.count += 1;
                reaction.mine |= mine;
            }
            None => reactions.push(Reaction { emoji: emoji.clone(), count: 1, mine }),
        }
    }
    reactions.retain(|reaction| reaction.count > 0);
    reactions.sort_by(|one, other| (Reverse(one.count), &one.emoji).cmp(&(Reverse(other.count), &other.emoji)));
}
