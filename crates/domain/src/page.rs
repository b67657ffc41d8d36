//! Cuts replies so that they fit in a frame.

use serde::Serialize;

use wire::Message;

use crate::limits::PAGE_BYTES_MAX;

/// One conversation's part of a `drain` page: its messages in order, from the first pending one.
#[derive(Debug)]
pub struct Backlog {
    pub messages: Vec<Message>,
    /// Whether the conversation has more than these.
    pub more: bool,
}

/// One page of a drain: the oldest messages of all backlogs, in the order of their ids, which is the order of their seqs
/// within each conversation; and whether anything was left out.
pub fn drain_page(backlogs: Vec<Backlog>) -> (Vec<Message>, bool) {
    // A cut-off backlog can have further messages that are older than those of other backlogs. So the page has nothing
    // younger than the last message of any cut-off backlog. That message is on the page, so the page is never empty.
    let horizon = backlogs
        .iter()
        .filter(|backlog| backlog.more)
        .filter_map(|b| b.messages.last())
        .map(|m| &m.message_id)
        .min()
        .cloned();
    let cut_off = backlogs.iter().any(|backlog| backlog.more);
    let mut messages: Vec<Message> = backlogs.into_iter().flat_map(|backlog| backlog.messages).collect();
    messages.sort_by(|a, b| a.message_id.cmp(&b.message_id).then(a.seq.cmp(&b.seq)));
    let found = messages.len();
    if let Some(horizon) = horizon {
        messages.retain(|message| message.message_id <= horizon);
    }
    let page = fit(messages);
    let more = cut_off || page.len() < found;
    (page, more)
}

/// As many of the first items as a frame holds; at least one, which fits a frame also where it is larger than a page.
pub fn fit<T: Serialize>(mut items: Vec<T>) -> Vec<T> {
    items.truncate(fitting(items.iter()).max(1));
    items
}

/// As many of the last items as a frame holds, in the same order; at least one.
pub fn fit_last<T: Serialize>(mut items: Vec<T>) -> Vec<T> {
    let left_out = items.len().saturating_sub(fitting(items.iter().rev()).max(1));
    items.drain(..left_out);
    items
}

/// All of the items, in as many parts as frames are needed for them.
pub fn split<T: Serialize>(mut items: Vec<T>) -> Vec<Vec<T>> {
    let mut parts = vec![];
    while !items.is_empty() {
        let rest = items.split_off(fitting(items.iter()).max(1));
        parts.push(std::mem::replace(&mut items, rest));
    }
    parts
}

fn fitting<'a, T: Serialize + 'a>(items: impl Iterator<Item = &'a T>) -> usize {
    let mut bytes = 0;
    items
        .take_while(|item| {
            bytes += json_bytes(item);
            bytes <= PAGE_BYTES_MAX
        })
        .count()
}

/// Returns the bytes that an item takes on a page, with the comma after it.
pub(crate) fn json_bytes<T: Serialize>(item: &T) -> usize {
    1 + serde_json::to_vec(item).map_or(0, |json| json.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::message_id;
    use proptest::prelude::*;
    use wire::limits::{FRAME_BYTES_MAX, SEQ_MAX};
    use wire::{ConversationId, DrainResult, HistoryResult, Member, RequestId, Seq, Timestamp, UserId, reply_frame};

    fn message(conversation: usize, seq: u64, at: i64, body_bytes: usize) -> Message {
        Message::text(
            ConversationId::parse(&format!("dm_{conversation}")).unwrap(),
            Seq::new(seq).unwrap(),
            message_id(Timestamp::from_millis(at), [u8::try_from(conversation).unwrap(); 10]),
            UserId::parse("alice").unwrap(),
            "x".repeat(body_bytes),
            Timestamp::from_millis(at),
        )
    }

    /// Conversations with times that rise strictly within each, bodies of any size, some cut off.
    fn backlogs() -> impl Strategy<Value = Vec<Backlog>> {
        let one = (prop::collection::vec((1i64..50, 1usize..16_000), 1..20), any::<bool>());
        prop::collection::vec(one, 0..8).prop_map(|conversations| {
            let of = |(index, (steps, more)): (usize, (Vec<(i64, usize)>, bool))| {
                let mut at = 0;
                let place = |(seq, (step, bytes)): (usize, (i64, usize))| {
                    at += step;
                    message(index, seq as u64 + 1, at, bytes)
                };
                Backlog { messages: steps.into_iter().enumerate().map(place).collect(), more }
            };
            conversations.into_iter().enumerate().map(of).collect()
        })
    }

    #[test]
    fn one_that_is_larger_than_a_page_is_a_page_and_no_others_wait_behind_it() {
        let items = || vec!["x".repeat(PAGE_BYTES_MAX), "y".to_owned()];
        assert_eq!(fit(items()).len(), 1);
        assert_eq!(fit_last(items()), ["y"]);
        assert_eq!(fit_last(items()[..1].to_vec()).len(), 1);
        assert_eq!((fit::<String>(vec![]).len(), fit_last::<String>(vec![]).len()), (0, 0));
    }

    proptest! {
        #[test]
        fn a_drain_page_is_the_oldest_in_order_and_fits(backlogs in backlogs()) {
            let all: Vec<Message> = backlogs.iter().flat_map(|b| b.messages.clone()).collect();
            let unseen = backlogs.iter().any(|b| b.more);
            let (page, more) = drain_page(backlogs);

            prop_assert_eq!(more, unseen || page.len() < all.len());
            prop_assert_eq!(page.is_empty(), all.is_empty());
            prop_assert!(page.windows(2).all(|w| w[0].message_id <= w[1].message_id));
            // In each conversation the page holds a prefix: 1, 2, 3, … without a hole.
            for conversation in 0..8 {
                let id = ConversationId::parse(&format!("dm_{conversation}")).unwrap();
                let seqs: Vec<u64> = page.iter().filter(|m| m.conversation_id == id).map(|m| m.seq.value()).collect();
                prop_assert_eq!(&seqs, &(1..=seqs.len() as u64).collect::<Vec<_>>());
            }
            let id = RequestId::parse(&"\u{1}".repeat(64)).unwrap();
            let frame = reply_frame("drain", Some(&id), &DrainResult { messages: page, more }.into());
            prop_assert!(frame.len() <= FRAME_BYTES_MAX);
        }

        #[test]
        fn fit_takes_from_the_front_and_fit_last_from_the_back(sizes in prop::collection::vec(1usize..20_000, 0..20)) {
            let items: Vec<String> = sizes.iter().map(|n| "x".repeat(*n)).collect();
            let (first, last) = (fit(items.clone()), fit_last(items.clone()));
            prop_assert_eq!(&first[..], &items[..first.len()]);
            prop_assert_eq!(&last[..], &items[items.len() - last.len()..]);
            prop_assert!(items.is_empty() || (!first.is_empty() && !last.is_empty()));
            let parts = split(items.clone());
            prop_assert!(parts.iter().all(|part| fit(part.clone()) == *part && !part.is_empty()));
            prop_assert_eq!(parts.concat(), items);
        }
    }

    #[test]
    fn a_cut_off_backlog_holds_back_what_is_younger_than_its_end() {
        let quiet = Backlog { messages: vec![message(0, 1, 10, 1), message(0, 2, 90, 1)], more: false };
        let busy = Backlog { messages: vec![message(1, 1, 20, 1), message(1, 2, 30, 1)], more: true };
        let (page, more) = drain_page(vec![quiet, busy]);
        let times: Vec<i64> = page.iter().map(|m| m.sent_at.millis()).collect();
        assert_eq!((times, more), (vec![10, 20, 30], true));
    }

    #[test]
    fn a_full_history_page_fits_a_frame_with_its_envelope() {
        let hard = |chars| UserId::parse(&"\"".repeat(chars)).unwrap();
        let member = || Member {
            user_id: hard(128),
            delivered_seq: Seq::new(SEQ_MAX).unwrap(),
            read_seq: Seq::new(SEQ_MAX).unwrap(),
        };
        let messages = fit((1..=400).map(|n| message(1, n, 1, 20)).collect());
        let page = HistoryResult {
            messages,
            more: true,
            last_seq: Seq::new(SEQ_MAX).unwrap(),
            first_seq: Seq::new(SEQ_MAX),
            members: vec![member(), member()],
            pins: vec![Seq::new(SEQ_MAX).unwrap(); wire::limits::PINS_MAX],
        };
        let id = RequestId::parse(&"\u{1}".repeat(64)).unwrap();
        assert!(reply_frame("history", Some(&id), &page.into()).len() <= FRAME_BYTES_MAX);
    }
}
