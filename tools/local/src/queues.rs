//! SQS's queues in memory: FIFO groups, deduplication, visibility, and dead letters.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value, json};
use template::{Queue as Settings, Template};
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use crate::lock;

const ACCOUNT: &str = "000000000000";
/// Within that time the same id is the same message.
const DEDUPLICATED_FOR: Duration = Duration::from_mins(5);
/// The newest messages that a queue keeps without a consumer. On AWS, a queue keeps those of some days.
const MESSAGES_MAX: usize = 10_000;
/// Nothing on the queue's own account happens sooner.
const FAR: Duration = Duration::from_hours(24 * 365);

/// Clones are the same queues.
#[derive(Clone, Default)]
pub(crate) struct Queues(Arc<BTreeMap<String, Arc<Queue>>>);

/// A queue.
pub struct Queue {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) arn: String,
    pub(crate) settings: Settings,
    dead_letters: Option<(Arc<Self>, u32)>,
    state: Mutex<State>,
    /// Rises with each change.
    changed: watch::Sender<u64>,
    paused: watch::Sender<bool>,
    behind: Mutex<Duration>,
}

#[derive(Default)]
struct State {
    /// In the order in which they came.
    messages: VecDeque<Message>,
    /// By group and id: when it was sent, and as what.
    sent: BTreeMap<(String, String), (Instant, Sent)>,
    sequence: u64,
}

/// SQS's reply to a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) id: String,
    pub(crate) sequence: String,
}

/// A message as a sender gives it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Letter {
    pub(crate) body: String,
    pub(crate) attributes: Map<String, Value>,
    pub(crate) group: String,
    pub(crate) deduplication: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) sent: Sent,
    pub(crate) letter: Letter,
    pub(crate) sent_at: OffsetDateTime,
    pub(crate) first_received_at: Option<OffsetDateTime>,
    pub(crate) receives: u32,
    pub(crate) receipt: String,
    /// Where SQS took it from, when it was received too often there.
    pub(crate) source: Option<String>,
    visible_at: Instant,
}

/// The outcome of a move from a queue of dead letters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) moved: usize,
    pub(crate) left: usize,
}

/// Returns the ARN of a queue with this name.
pub(crate) fn arn(name: &str) -> String {
    format!("arn:aws:sqs:us-east-1:{ACCOUNT}:{name}")
}

impl Queues {
    pub(crate) fn new(template: &Template, url: &str) -> Self {
        let mut queues: BTreeMap<String, Arc<Queue>> = BTreeMap::new();
        // Targets of other queues come first.
        let (targets, sources): (Vec<_>, Vec<_>) = template.queues.iter().partition(|queue| queue.redrive.is_none());
        for settings in targets.into_iter().chain(sources) {
            let redrive = settings.redrive.as_ref();
            let dead_letters = redrive.and_then(|(id, receives)| Some((Arc::clone(queues.get(id)?), *receives)));
            let queue = Queue::new(settings.clone(), url, dead_letters);
            queues.insert(settings.logical_id.clone(), Arc::new(queue));
        }
        Self(Arc::new(queues))
    }

    pub(crate) fn get(&self, logical_id: &str) -> Option<&Arc<Queue>> {
        self.0.get(logical_id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.0.values()
    }
}

impl Queue {
    fn new(settings: Settings, url: &str, dead_letters: Option<(Arc<Self>, u32)>) -> Self {
        let name = format!("{}{}", settings.logical_id, if settings.is_fifo { ".fifo" } else { "" });
        Self {
            url: format!("{url}/{ACCOUNT}/{name}"),
            arn: arn(&name),
            name,
            settings,
            dead_letters,
            state: Mutex::default(),
            changed: watch::Sender::default(),
            paused: watch::Sender::default(),
            behind: Mutex::default(),
        }
    }

    /// Stops receiving, as a disabled mapping does. Messages under way continue.
    pub fn pause(&self, paused: bool) {
        self.paused.send_replace(paused);
    }

    /// Each message counts as this much older, as if the mapping had been disabled.
    pub fn behind(&self, by: Duration) {
        *lock(&self.behind) = by;
    }

    /// Messages in it, under way or not.
    pub fn len(&self) -> usize {
        lock(&self.state).messages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until there is nothing in it any more: all is done, or among the dead letters.
    pub async fn settled(&self) {
        let mut changed = self.changed.subscribe();
        while !self.is_empty() {
            // The sender is this queue's own.
            let _ = changed.changed().await;
        }
    }

    /// The bodies and attributes of what is in it, in order.
    pub fn messages(&self) -> Vec<(String, Value)> {
        let shown = |message: &Message| (message.letter.body.clone(), json!(message.letter.attributes));
        lock(&self.state).messages.iter().map(shown).collect()
    }

    /// How old the oldest message is; zero if there is none.
    pub fn age(&self) -> Duration {
        let oldest = lock(&self.state).messages.iter().map(|message| message.sent_at).min();
        let age = oldest.map(|sent_at| OffsetDateTime::now_utc() - sent_at + *lock(&self.behind));
        age.and_then(|age| age.try_into().ok()).unwrap_or_default()
    }

    /// Counts the receivable messages, and those under way.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let now = Instant::now();
        let state = lock(&self.state);
        let visible = state.messages.iter().filter(|message| message.visible_at <= now).count();
        (visible, state.messages.len() - visible)
    }

    /// Puts a message at its end, unless it is there already or was within five minutes.
    pub(crate) fn send(&self, letter: Letter) -> Sent {
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.sent.retain(|_, (at, _)| now - *at < DEDUPLICATED_FOR);
        let scope = if self.settings.deduplicates_in_group { letter.group.clone() } else { String::new() };
        let key = (scope, letter.deduplication.clone());
        if let Some((_, sent)) = state.sent.get(&key).filter(|_| self.settings.is_fifo) {
            return sent.clone();
        }
        let sent = state.push(letter, None);
        if state.messages.len() > MESSAGES_MAX {
            state.messages.pop_front();
        }
        if self.settings.is_fifo {
            state.sent.insert(key, (now, sent.clone()));
        }
        drop(state);
        self.change();
        sent
    }

    /// The next messages: those of one group in their order, and of a group of which one is under way none.
    pub(crate) fn receive(&self, count_max: usize, visibility: Duration) -> Vec<Message> {
        let now = Instant::now();
        let mut state = lock(&self.state);
        let under_way = state.messages.iter().filter(|message| message.visible_at > now);
        let under_way: BTreeSet<String> = under_way.map(|message| message.letter.group.clone()).collect();
        let (mut taken, mut kept, mut dead) = (vec![], VecDeque::new(), vec![]);
        for mut message in std::mem::take(&mut state.messages) {
            let is_free = !self.settings.is_fifo || !under_way.contains(&message.letter.group);
            if taken.len() < count_max && message.visible_at <= now && is_free {
                if let Some((target, receives_max)) = &self.dead_letters
                    && message.receives >= *receives_max
                {
                    message.source = Some(self.arn.clone());
                    dead.push((target, message));
                    continue;
                }
                message.receives += 1;
                message.first_received_at.get_or_insert_with(OffsetDateTime::now_utc);
                message.receipt = Uuid::new_v4().to_string();
                message.visible_at = now + visibility;
                taken.push(message.clone());
            }
            kept.push_back(message);
        }
        state.messages = kept;
        drop(state);
        for (target, message) in &dead {
            lock(&target.state).push(message.letter.clone(), message.source.clone());
            target.change();
        }
        if !taken.is_empty() || !dead.is_empty() {
            self.change();
        }
        taken
    }

    /// Waits for messages, as long as it takes.
    pub(crate) async fn wait(&self, count_max: usize, visibility: Duration) -> Vec<Message> {
        let (mut changed, mut paused) = (self.changed.subscribe(), self.paused.subscribe());
        loop {
            // The senders are this queue's own.
            let _ = paused.wait_for(|paused| !paused).await;
            let messages = self.receive(count_max, visibility);
            if !messages.is_empty() {
                return messages;
            }
            let next = self.next_visible_at();
            tokio::select! {
                _ = changed.changed() => {}
                _ = paused.changed() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// Receives messages, and waits for them up to `patience`.
    pub(crate) async fn wait_for(&self, count_max: usize, visibility: Duration, patience: Duration) -> Vec<Message> {
        if patience.is_zero() {
            return self.receive(count_max, visibility);
        }
        timeout(patience, self.wait(count_max, visibility)).await.unwrap_or_default()
    }

    fn next_visible_at(&self) -> Instant {
        let now = Instant::now();
        let later = lock(&self.state).messages.iter().map(|message| message.visible_at).filter(|at| *at > now).min();
        later.unwrap_or(now + FAR)
    }

    /// Deletes a received message. An expired receipt deletes nothing, whether or not another receiver has the message.
    pub(crate) fn delete(&self, receipt: &str) {
        lock(&self.state).messages.retain(|message| message.receipt.is_empty() || message.receipt != receipt);
        self.change();
    }

    pub(crate) fn change_visibility(&self, receipt: &str, visibility: Duration) {
        let at = Instant::now() + visibility;
        let mut state = lock(&self.state);
        for message in state.messages.iter_mut().filter(|message| message.receipt == receipt) {
            message.visible_at = at;
        }
        drop(state);
        self.change();
    }

    /// Removes all that is in it.
    pub fn purge(&self) {
        lock(&self.state).messages.clear();
        self.change();
    }

    /// Moves the messages to another queue, or each to the queue from which SQS took it. A message that SQS took from
    /// no queue stays, and so do those behind it.
    pub(crate) fn move_to(&self, queues: &Queues, destination: Option<&Self>) -> Moved {
        let mut moved = 0;
        loop {
            let mut state = lock(&self.state);
            let source = state.messages.front().and_then(|message| message.source.clone());
            let target = match (destination, source) {
                (Some(destination), _) => Some(destination),
                (None, source) => {
                    source.and_then(|arn| queues.all().find(|queue| queue.arn == arn)).map(|queue| &**queue)
                }
            };
            let (Some(target), Some(message)) = (target, state.messages.front().cloned()) else { break };
            state.messages.pop_front();
            drop(state);
            lock(&target.state).push(message.letter, None);
            target.change();
            moved += 1;
        }
        self.change();
        Moved { moved, left: self.len() }
    }

    fn change(&self) {
        self.changed.send_modify(|changes| *changes += 1);
    }
}

impl State {
    fn push(&mut self, letter: Letter, source: Option<String>) -> Sent {
        self.sequence += 1;
        let sent = Sent { id: Uuid::new_v4().to_string(), sequence: format!("{:020}", self.sequence) };
        self.messages.push_back(Message {
            sent: sent.clone(),
            letter,
            sent_at: OffsetDateTime::now_utc(),
            first_received_at: None,
            receives: 0,
            receipt: String::new(),
            source,
            visible_at: Instant::now(),
        });
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A_MINUTE: Duration = Duration::from_mins(1);

    fn queues() -> Queues {
        let settings = |id: &str, redrive: Option<(&str, u32)>| Settings {
            logical_id: id.to_owned(),
            is_fifo: true,
            visibility: A_MINUTE,
            redrive: redrive.map(|(id, receives)| (id.to_owned(), receives)),
            deduplicates_in_group: true,
        };
        let target = Arc::new(Queue::new(settings("Dead", None), "http://x", None));
        let dead_letters = Some((Arc::clone(&target), 2));
        let source = Arc::new(Queue::new(settings("Q", Some(("Dead", 2))), "http://x", dead_letters));
        Queues(Arc::new([("Q".to_owned(), source), ("Dead".to_owned(), target)].into()))
    }

    fn send(queue: &Queue, group: &str, id: &str) -> Sent {
        let letter =
            Letter { body: id.to_owned(), group: group.to_owned(), deduplication: id.to_owned(), ..Letter::default() };
        queue.send(letter)
    }

    fn take(queue: &Queue, count: usize) -> Vec<Message> {
        queue.receive(count, A_MINUTE)
    }

    fn bodies(messages: &[Message]) -> String {
        messages.iter().map(|message| message.letter.body.as_str()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_group_nothing_is_received_while_something_of_it_is_under_way() {
        let queues = queues();
        let queue = queues.get("Q").unwrap();
        for (group, id) in [("bob", "1"), ("bob", "2"), ("carol", "a"), ("bob", "3"), ("carol", "b")] {
            send(queue, group, id);
        }
        let first = take(queue, 2);
        assert_eq!(bodies(&first), "12");
        assert_eq!(bodies(&take(queue, 10)), "ab", "3 waits for what is before it");
        queue.delete(&first[0].receipt);
        assert_eq!(bodies(&take(queue, 10)), "");
        tokio::time::advance(A_MINUTE).await;
        assert_eq!(bodies(&take(queue, 10)), "2a3b", "what was not deleted comes again, in its place");
        // An expired receipt deletes nothing: another receiver has the message.
        queue.delete(&first[1].receipt);
        assert_eq!(queue.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_id_is_the_same_message_for_five_minutes_in_its_group() {
        let queues = queues();
        let queue = queues.get("Q").unwrap();
        let sent = send(queue, "bob", "1");
        assert_eq!(send(queue, "bob", "1"), sent);
        assert_ne!(send(queue, "carol", "1"), sent);
        let taken = take(queue, 10);
        for message in &taken {
            queue.delete(&message.receipt);
        }
        assert_eq!(send(queue, "bob", "1"), sent, "also when it is done");
        assert_eq!(queue.len(), 0);
        tokio::time::advance(DEDUPLICATED_FOR).await;
        assert_ne!(send(queue, "bob", "1"), sent);
        assert_eq!(queue.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_received_too_often_is_a_dead_letter_and_can_be_moved_back() {
        let queues = queues();
        let (queue, dead) = (queues.get("Q").unwrap(), queues.get("Dead").unwrap());
        send(queue, "bob", "1");
        for _ in 0..2 {
            assert_eq!(bodies(&take(queue, 10)), "1");
            tokio::time::advance(A_MINUTE).await;
        }
        send(queue, "bob", "2");
        assert_eq!(bodies(&take(queue, 10)), "2", "and holds up nothing any more");
        send(dead, "bob", "3");
        // SQS knows where it took the first from, and not who put the other there.
        assert_eq!(dead.move_to(&queues, None), Moved { moved: 1, left: 1 });
        assert_eq!(dead.move_to(&queues, Some(queue)), Moved { moved: 1, left: 0 });
        assert_eq!(queue.len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_what_is_sent_and_what_is_visible_again() {
        let queues = queues();
        let queue = queues.get("Q").unwrap();
        let waiting = tokio::spawn({
            let queue = Arc::clone(queue);
            async move { queue.wait(1, A_MINUTE).await }
        });
        tokio::task::yield_now().await;
        send(queue, "bob", "1");
        assert_eq!(bodies(&waiting.await.unwrap()), "1");
        assert_eq!(bodies(&queue.wait(1, A_MINUTE).await), "1", "a minute later");
        assert_eq!(bodies(&queue.wait_for(1, A_MINUTE, Duration::from_secs(20)).await), "");
    }
}
