//! Reads what records name, as it is now.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Body, Entry, Failure};
use store::messages::Current;
use store::stream::New;
use store::{if_readable, inbox, messages, reports};
use wire::{ConversationId, ConversationKind, Seq, UserId};

use crate::Deps;
use crate::event::{Event, Of, of_entry, of_report};

/// The events of some records.
pub(crate) struct Read {
    /// Sorted by conversation and `seq`, then reports.
    pub(crate) events: Vec<Event>,
    pub(crate) unreadable: u64,
}

type Key = (ConversationId, Seq);

/// Makes the events of what is new. An entry that no longer exists is skipped.
///
/// # Errors
/// A table can't be read.
pub(crate) async fn events(deps: &Deps, news: &[&New]) -> Result<Read, Failure> {
    // The first record of each entry.
    let mut places = BTreeMap::<Key, usize>::new();
    for (place, new) in news.iter().enumerate() {
        if let New::Entry(conversation, seq) = new {
            places.entry((conversation.clone(), *seq)).or_insert(place);
        }
    }
    let mut read = of_entries(deps, &places).await?;
    for (place, new) in news.iter().enumerate() {
        let New::Report { month, report_id } = new else { continue };
        match if_readable(reports::get(&deps.store, month, report_id).await, "a report to publish")? {
            Some(Some(report)) => read.events.push(Event { place, ..of_report(deps.content, &deps.stack, report) }),
            Some(None) => {}
            None => read.unreadable += 1,
        }
    }
    Ok(read)
}

/// Makes the events of these entries, each with its place.
pub(crate) async fn of_entries(deps: &Deps, places: &BTreeMap<Key, usize>) -> Result<Read, Failure> {
    let mut current = messages::current(&deps.store, places.keys().cloned()).await?;
    let targets: BTreeSet<Key> = current.entries.values().filter_map(target).collect();
    let targets = targets.into_iter().filter(|key| !current.entries.contains_key(key));
    let targets = messages::current(&deps.store, targets).await?;
    with_texts(&mut current, &targets);
    let target_of = |entry: &Entry| {
        let key = target(entry)?;
        current.entries.get(&key).or_else(|| targets.entries.get(&key))
    };
    // A direct conversation: both members, if an entry names them, or one whose row names the other.
    let (mut members, mut rows) = (BTreeMap::<&ConversationId, BTreeSet<UserId>>::new(), BTreeMap::new());
    let direct = current.entries.values().filter(|entry| entry.conversation_id.kind() == ConversationKind::Direct);
    for entry in direct {
        match pair(entry).or_else(|| target_of(entry).and_then(pair)) {
            Some(Pair::Both(both)) => drop(members.insert(&entry.conversation_id, both.into())),
            Some(Pair::One(user)) => drop(rows.insert(entry.conversation_id.clone(), user)),
            None => {}
        }
    }
    let peers = inbox::peers(&deps.store, &rows).await?;
    for (conversation, user) in &rows {
        members.insert(conversation, peers.get(conversation).into_iter().chain([user]).cloned().collect());
    }
    let events = places.iter().filter_map(|((conversation, seq), place)| {
        let key = (conversation.clone(), *seq);
        let entry = current.entries.get(&key);
        if entry.is_none() && !current.unreadable.contains(&key) {
            return None;
        }
        let of = Of { conversation, seq: *seq, members: members.get(conversation) };
        Some(Event { place: *place, ..of_entry(deps.content, &deps.stack, of, entry) })
    });
    Ok(Read { events: events.collect(), unreadable: current.unreadable.len() as u64 })
}

/// Returns the entry that has an edit's text, or the members of the conversation of an operator's delete.
fn target(entry: &Entry) -> Option<Key> {
    let is_needed = matches!(entry.body, Body::Edit { .. }) || entry.sender_id.is_service();
    entry.target().filter(|_| is_needed).map(|target| (entry.conversation_id.clone(), target.seq))
}

/// Gives edits the current text of their targets. An edit whose target can't be read can't be read either.
fn with_texts(current: &mut Current, targets: &Current) {
    let edits: Vec<Key> = current
        .entries
        .iter()
        .filter(|(_, entry)| matches!(entry.body, Body::Edit { .. }))
        .map(|(key, _)| key.clone())
        .collect();
    for key in edits {
        let Some(edit) = current.entries.remove(&key) else { continue };
        let Some(of) = target(&edit) else { continue };
        if targets.unreadable.contains(&of) {
            current.unreadable.insert(key);
            continue;
        }
        let target = current.entries.get(&of).or_else(|| targets.entries.get(&of));
        let edit = edit.of_target(target);
        current.entries.insert(key, edit);
    }
}

/// The members whom an entry of a direct conversation names.
enum Pair {
    Both([UserId; 2]),
    One(UserId),
}

/// A service has no row there, and its message names its recipient.
fn pair(entry: &Entry) -> Option<Pair> {
    let sender = entry.sender_id.clone();
    if !sender.is_service() {
        return Some(Pair::One(sender));
    }
    let recipient = entry.message().and_then(|entry| entry.message.recipient.clone())?;
    Some(Pair::Both([sender, recipient]))
}
